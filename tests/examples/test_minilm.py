"""Sentence embeddings: the tokenizer, the network beside NumPy, lengths, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import minilm
import numpy as np
import pytest
from scipy.special import erf

from tfn.errors import StateError
from tfn.nn import state

Data = np.ndarray[Any, Any]
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "un",
    "##aff",
    "##able",
    "a",
    "##b",
    ",",
    "#",
    "電",
]
WIDTH, WIDE, HEADS, LAYERS, PLACES = 8, 12, 2, 2, 16


@pytest.mark.parametrize(
    "text,pieces",
    [
        ("", []),
        ("Unaffable, a", ["un", "##aff", "##able", ",", "a"]),
        ("\tÁ ab\n", ["a", "a", "##b"]),
        ("a,#電a", ["a", ",", "#", "電", "a"]),
        ("unx abba a", ["[UNK]", "[UNK]", "a"]),
    ],
)
def test_tokenizer(text: str, pieces: list[str]) -> None:
    tokens = {piece: n for n, piece in enumerate(VOCABULARY)}
    want = ["[CLS]", *pieces, "[SEP]"]
    assert minilm.WordPieces(tokens).encode(text) == [tokens[piece] for piece in want]


def test_long_texts_are_cut() -> None:
    tokens = {piece: n for n, piece in enumerate(VOCABULARY)}
    found = minilm.WordPieces(tokens).encode("a " * 500)
    assert len(found) == minilm.LONGEST
    assert (found[0], found[-1]) == (2, 3)


def weights() -> dict[str, Data]:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    norms, matrices = ["embeddings"], {}
    for n in range(LAYERS):
        block = f"encoder.layer.{n}"
        norms += [f"{block}.attention.output", f"{block}.output"]
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            matrices[f"{block}.attention.{name}"] = (WIDTH, WIDTH)
        matrices[f"{block}.intermediate.dense"] = (WIDE, WIDTH)
        matrices[f"{block}.output.dense"] = (WIDTH, WIDE)
    for name, shape in matrices.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in norms:
        shapes |= {f"{name}.LayerNorm.weight": (WIDTH,), f"{name}.LayerNorm.bias": (WIDTH,)}
    draw = np.random.default_rng(0).standard_normal
    return {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}


def reference(w: dict[str, Data], tokens: list[int]) -> Data:
    """The network for one text, in NumPy."""

    def linear(x: Data, name: str) -> Data:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Data, name: str) -> Data:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return y * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]

    x: Data = w["embeddings.word_embeddings.weight"][tokens]
    x = x + w["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for n in range(LAYERS):
        block = f"encoder.layer.{n}"
        q, k, v = (
            linear(x, f"{block}.attention.self.{name}").reshape(-1, HEADS, WIDTH // HEADS)
            for name in ("query", "key", "value")
        )
        scores = np.exp(np.einsum("ths,uhs->htu", q, k) / np.sqrt(WIDTH // HEADS))
        mixed = np.einsum("htu,uhs->ths", scores / scores.sum(-1, keepdims=True), v)
        y = linear(mixed.reshape(-1, WIDTH), f"{block}.attention.output.dense")
        x = norm(x + y, f"{block}.attention.output")
        wide = linear(x, f"{block}.intermediate.dense")
        wide = wide * (1 + erf(wide / np.sqrt(2))) / 2
        x = norm(x + linear(wide, f"{block}.output.dense"), f"{block}.output")
    mean: Data = x.mean(0)
    return mean / np.linalg.norm(mean)


def test_the_network_is_what_numpy_says_whatever_it_is_read_with() -> None:
    w = weights()
    encoder = minilm.assemble(w, HEADS)
    texts = [[2, 4, 5, 3], [2, 3], [2, 7, 7, 7, 8, 9, 4, 10, 11, 3], [2, 4, 5, 3], [2, 9, 3]]
    found = minilm.embed(encoder, texts)
    for text, direction in zip(texts, found, strict=True):
        np.testing.assert_allclose(direction, reference(w, text), atol=2e-5)
        np.testing.assert_allclose(minilm.embed(encoder, [text])[0], direction, atol=2e-5)


def test_more_texts_than_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, pieces = minilm.babbler()
    texts = [pieces.encode("x" * n) for n in (1, 9, 2, 30, 3)]
    want = minilm.embed(encoder, texts)
    monkeypatch.setattr(minilm, "TOGETHER", 2)
    np.testing.assert_allclose(minilm.embed(encoder, texts), want, atol=1e-5)


def test_it_compares_and_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lines.txt").write_text("near\n\nfar away\n[bold]so near\n")
    assert minilm.main(["--smoke"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(minilm.SENTENCES)
    assert lines[1].split()[:7] == ["1", *minilm.SENTENCES[0].split(), "1.00"]
    found = ["--smoke", ".", "near", "--file", str(tmp_path / "lines.txt"), "--count", "2"]
    assert minilm.main(found) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["near", "  1.00  near"]
    assert len(lines) == 3


def test_a_folder_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "HEADS", HEADS)
    state.save(tmp_path / "model.safetensors", weights())
    vocabulary = {piece: n for n, piece in enumerate(VOCABULARY)}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    assert minilm.main([str(tmp_path), "unaffable", "a"]) == 0
    assert "1 unaffable" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        minilm.main([str(tmp_path / "elsewhere")])
    assert "where to get it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "vocabulary",
    [
        None,
        [],
        {},
        {"[CLS]": 0, "[SEP]": 1},
        {"[CLS]": 0, "[SEP]": 1, "[UNK]": -1},
        {"[CLS]": 0, "[SEP]": 1, "[UNK]": "x"},
    ],
    ids=str,
)
def test_a_vocabulary_that_is_none_is_refused(vocabulary: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": vocabulary}}))
    with pytest.raises(StateError, match="no vocabulary"):
        minilm.WordPieces.read(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateError, match="no vocabulary"):
        minilm.WordPieces.read(path)


def test_a_vocabulary_of_another_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An embedding of a word beyond its table would be that of the last one."""
    monkeypatch.setattr(minilm, "HEADS", HEADS)
    state.save(tmp_path / "model.safetensors", weights())
    more = {piece: n for n, piece in enumerate([*VOCABULARY, *map(str, range(1000, 2000))])}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": more}}))
    with pytest.raises(StateError, match="it knows"):
        minilm.main([str(tmp_path), "a"])
