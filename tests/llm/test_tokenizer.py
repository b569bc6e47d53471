"""Tokenizers of files: words, pieces, bytes, control tokens."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tfn.errors import ArgumentError, MissingPackageError, NotAvailableError, StateError
from tfn.llm import tokenizer

tokenizers = pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")


def pairs() -> tokenizer.Tokenizer:
    return tokenizer.from_values(building.byte_pairs(), 260)


def pieces(**own: Any) -> tokenizer.Tokenizer:
    return tokenizer.from_values(building.sentence_pieces() | own, 300)


def test_byte_pairs_are_merged_within_words() -> None:
    words = pairs()
    tokens = words.encode("he a<|im_end|>")
    assert [words.name(t) for t in tokens] == ["he", " a", "<|im_end|>"]
    assert words.decode(tokens) == "he a"
    assert words.ends == {259} and words.controls == {258, 259} and words.bos == 258
    assert words.template == building.TEMPLATE


@pytest.mark.parametrize("text", ["", "he a hea", "ä€𝄞\n\n x1234 don't", " \t  two   "])
def test_text_survives_the_way_to_tokens_and_back(text: str) -> None:
    assert pairs().decode(pairs().encode(text)) == text
    sentence = pieces()
    assert sentence.decode(sentence.encode(text)).removeprefix(" ") == text


def test_sentence_pieces_are_merged_by_their_scores() -> None:
    words = pieces()
    assert [words.pieces[t] for t in words.encode("abc")] == [b"<s>", b" a", b"bc"]
    assert words.encode("ab", special=False) == words.encode("ab")[1:]
    plain = pieces(**{"tokenizer.ggml.add_space_prefix": False})
    assert [plain.pieces[t] for t in plain.encode("abc", special=False)] == [b"ab", b"c"]


def test_a_text_that_begins_with_its_token_gets_no_second_one() -> None:
    words = pieces()
    assert words.encode("<s>ab")[:2] != [1, 1]


def test_a_character_is_never_torn() -> None:
    words = pairs()
    decoder, shown = words.decoder(), []
    for token in words.encode("a€"):
        shown.append(decoder.decode(words.bytes_of(token)))
    assert shown == ["a", "", "", "€"]


def test_every_expression_for_words_can_be_used() -> None:
    for name, cuts in tokenizer.WORDS.items():
        words = tokenizer.from_values(building.byte_pairs() | {"tokenizer.ggml.pre": name}, 260)
        text = "I'LL pay 12345 €, don't\n\n  HelloWorld (x)=y+1. 漢字かな"
        assert words.decode(words.encode(text)) == text and cuts, name


def words_of(name: str, text: str) -> list[str]:
    split = tokenizers.pre_tokenizers
    cuts = [split.Split(tokenizers.Regex(cut), "isolated") for cut in tokenizer.WORDS[name]]
    return [word for word, _ in split.Sequence(cuts).pre_tokenize_str(text)]


def test_words_are_those_of_the_models() -> None:
    assert words_of("smollm", "a 123") == ["a", " ", "1", "2", "3"]
    assert words_of("llama-bpe", "a 1234") == ["a", " ", "123", "4"]
    assert words_of("qwen2", "I'll 12") == ["I", "'ll", " ", "1", "2"]
    assert words_of("gpt-2", "a 1234 x") == ["a", " 1234", " x"]
    assert words_of("tekken", "HelloWorld") == ["Hello", "World"]
    assert words_of("gpt-4o", "it's 12345") == ["it's", " ", "123", "45"]


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no tokens": ({"tokenizer.ggml.tokens": []}, StateError, "no tokens"),
    "more tokens than embeddings": (
        {"tokenizer.ggml.tokens": ["a"] * 300},
        StateError,
        "more than",
    ),
    "kinds of some": ({"tokenizer.ggml.token_type": np.ones(3, "<i4")}, StateError, "a kind"),
    "merges that are none": ({"tokenizer.ggml.merges": ["he"]}, StateError, "no pair"),
    "no merges": ({"tokenizer.ggml.merges": None}, StateError, "no merges"),
    "merges of no pieces": ({"tokenizer.ggml.merges": ["zz zz"]}, StateError, "merge"),
    "other words": ({"tokenizer.ggml.pre": "klingon"}, NotAvailableError, "klingon"),
    "another kind": ({"tokenizer.ggml.model": "t5"}, NotAvailableError, "t5"),
}


@pytest.mark.parametrize("what", WRONG)
def test_values_that_are_no_tokenizer_are_refused(what: str) -> None:
    values, kind, message = WRONG[what]
    with pytest.raises(kind, match=message):
        tokenizer.from_values(building.byte_pairs() | values, 260)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'tfn\[llm\]'"):
        pairs()


def test_a_number_that_is_no_token_is_refused() -> None:
    tokenizer.check_tokens([0, 259], 260)
    with pytest.raises(ArgumentError, match="no token"):
        tokenizer.check_tokens([0, 260], 260)


def folder(path: Path, **settings: Any) -> Path:
    signs = {sign: n for n, sign in enumerate(tokenizer.byte_signs())}
    model = tokenizers.models.BPE(signs | {"he": 256}, [("h", "e")])
    built = tokenizers.Tokenizer(model)
    built.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = tokenizers.decoders.ByteLevel()
    built.add_special_tokens(["<|im_end|>"])
    built.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def test_a_folder_has_a_tokenizer(tmp_path: Path) -> None:
    words = tokenizer.from_folder(folder(tmp_path, eos_token={"content": "<|im_end|>"}), 300)
    tokens = words.encode("he €<|im_end|>")
    assert tokens[0] == 256 and tokens[-1] == 257 and words.decode(tokens) == "he €"
    assert words.ends == {257} and words.template is None
    with pytest.raises(StateError, match="258 tokens, and 100 embeddings"):
        tokenizer.from_folder(tmp_path, 100)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(StateError, match="no tokenizer"):
        tokenizer.from_folder(tmp_path, 300)
