"""Answers in the making: text that is certain, ends, and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tfn.errors import ArgumentError
from tfn.llm import tokenizer
from tfn.llm.answer import Answer, Piece
from tfn.llm.grammar import State, fed
from tfn.llm.sampling import wished

pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")

WORDS = tokenizer.from_values(building.byte_pairs(), 260)
END = 259


def said(text: str | bytes, room: int = 100, **wishes: Any) -> list[Piece]:
    """Pieces of a model that says a text byte by byte, and ends."""
    answer = Answer(WORDS, wished(wishes), [], room)
    raw = text.encode() if isinstance(text, str) else text
    tokens = [*(WORDS.pieces.index(bytes([byte])) for byte in raw), END]
    pieces = []
    for token in tokens:
        logits = np.zeros(260, np.float32)
        logits[token] = 9
        pieces.append(answer.take(logits))
        if pieces[-1].finish:
            break
    return pieces


def text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_an_answer_ends_with_the_model_or_the_room() -> None:
    pieces = said("Hello")
    assert text(pieces) == "Hello" and pieces[-1].finish == "stop" and len(pieces) == 6
    pieces = said("Hello", max_tokens=3)
    assert text(pieces) == "Hel" and pieces[-1].finish == "length" and len(pieces) == 3
    assert text(said("Hello", room=2)) == "He"


def test_no_piece_has_part_of_a_character_or_of_a_stop_text() -> None:
    pieces = said("a€b")
    assert [p.text for p in pieces] == ["a", "", "", "€", "b", ""]
    pieces = said("one STOP two", stop=["STOP", "ST "])
    assert text(pieces) == "one " and pieces[-1].finish == "stop"
    assert all("S" not in piece.text for piece in pieces)
    assert text(said("one STO", stop=["STOP"])) == "one STO"
    assert text(said("STSTOPx", stop="STOP")) == "ST"


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert text(said(b"a\xffb\xe2\x82")) == "a\ufffdb\ufffd"


def test_json_is_kept_to() -> None:
    pieces = said('{"a": [1, 2]} and more', json=True)
    assert json.loads(text(pieces)) == {"a": [1, 2]} and pieces[-1].finish == "stop"
    for wrong in ("Sure: {}", '{"a": x}', "[1]"):
        begun = "".join(piece.text for piece in said(wrong, json=True)).encode()
        assert fed(State(), begun) is not None


def test_wishes_are_checked() -> None:
    with pytest.raises(ArgumentError, match="top_p"):
        said("a", top_p=3)
