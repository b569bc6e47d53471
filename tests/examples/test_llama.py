"""Llama: its two formats, its tokenizer, its cache, and how it draws."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import llama
import llama_files
import numpy as np
import pytest

from tfn import numpy as jnp
from tfn import random
from tfn.errors import StateError
from tfn.nn import state

Data = np.ndarray[Any, Any]
SHAPE = llama_files.Shape(width=16, wide=24, layers=2, heads=4, kv_heads=2, words=262, room=8)


def babbler() -> llama.Llama:
    return llama.assemble(*llama_files.babbler()[:3])


def matrices(own_outputs: bool) -> dict[str, Data]:
    """Random weights, each matrix as (outputs, inputs)."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (SHAPE.words, SHAPE.width)}
    for n in range(SHAPE.layers):
        layer = llama_files.layer_shapes(SHAPE)
        shapes |= {f"model.layers.{n}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm"] = (SHAPE.width,)
    if own_outputs:
        shapes["lm_head"] = (SHAPE.words, SHAPE.width)
    draw = np.random.default_rng(0).standard_normal
    return {name: draw(shape).astype(np.float32) * 0.5 for name, shape in shapes.items()}


def as_file(weights: dict[str, Data]) -> bytes:
    """As llama2.c has them: layer upon layer, for each kind."""
    attention = ["input_layernorm", *(f"self_attn.{part}_proj" for part in "qkvo")]
    feed = ["post_attention_layernorm", *(f"mlp.{part}_proj" for part in ("gate", "down", "up"))]
    kinds = attention + feed
    sizes = [*SHAPE[:7]]
    sizes[5] *= -1 if "lm_head" in weights else 1
    parts = [weights["model.embed_tokens"]]
    parts += [weights[f"model.layers.{n}.{kind}"] for kind in kinds for n in range(SHAPE.layers)]
    parts += [weights["model.norm"], np.zeros((8, 4), np.float32)]
    parts += [weights["lm_head"]] if "lm_head" in weights else []
    return struct.pack("7i", *sizes) + b"".join(x.tobytes() for x in parts)


def as_folder(folder: Path, weights: dict[str, Data]) -> None:
    """As Hugging Face has them: the two numbers that turn together half a head apart."""

    def halves(name: str, x: Data) -> Data:
        if not name.endswith(("q_proj", "k_proj")):
            return x
        return np.ascontiguousarray(x.reshape(-1, 2, 2, 16).swapaxes(1, 2).reshape(x.shape))

    folder.mkdir()
    state.save(
        folder / "model.safetensors",
        {f"{name}.weight": halves(name, x) for name, x in weights.items()},
    )
    config = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 262,
        "max_position_embeddings": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "▁a"]
    model = {"vocab": {p: n for n, p in enumerate(pieces)}, "merges": ["▁ a"]}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))


def pieces(*texts: str) -> bytes:
    """A tokenizer as llama2.c has it: a better score for what comes first."""
    known = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{b:02X}>" for b in range(256)), *texts]
    raw = [(float(-n), text.encode()) for n, text in enumerate(known)]
    return struct.pack("i", 9) + b"".join(struct.pack("fi", n, len(t)) + t for n, t in raw)


@pytest.mark.parametrize("own_outputs", [False, True])
def test_both_formats_hold_the_same_model(tmp_path: Path, own_outputs: bool) -> None:
    weights = matrices(own_outputs)
    (tmp_path / "model.bin").write_bytes(as_file(weights))
    (tmp_path / "tokenizer.bin").write_bytes(pieces(" ", "a", " a"))
    (tmp_path / "whole.data").write_bytes(as_file(weights) + pieces(" ", "a", " a"))
    as_folder(tmp_path / "folder", weights)
    found = [llama_files.read(tmp_path / name) for name in ("model.bin", "whole.data", "folder")]
    tokens = jnp.array([1, 200, 261, 7])
    first = llama.assemble(*found[0][:3])
    want, _ = first.step(tokens, first.caches(8))
    assert want.shape == (SHAPE.words,)
    for shape, arrays, interleaved, tokenizer in found:
        model = llama.assemble(shape, arrays, interleaved)
        assert shape == SHAPE
        np.testing.assert_allclose(model.step(tokens, model.caches(8))[0], want, atol=1e-4)
        assert tokenizer.encode("a?") == [1, 261, 3 + ord("?")]


def test_a_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "whole.data"
    whole = as_file(matrices(True)) + pieces(" ", "a", " a")
    path.write_bytes(whole)
    for length in [*range(len(whole) - 1, len(whole) - 300, -7), *range(len(whole) - 300, 0, -999)]:
        os.truncate(path, length)
        with pytest.raises(StateError, match="no model of the Llama family"):
            llama_files.read(path)
    for at in range(28):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :])
        with contextlib.suppress(StateError):
            assert llama_files.read(path).shape != SHAPE
    for sizes in ((16, 24, 2**31 - 1, 4, 2, 262, 8), (0,) * 7, (16, 24, 2, 3, 2, 262, 8)):
        path.write_bytes(struct.pack("7i", *sizes) + whole[28:])
        with pytest.raises(StateError):
            llama_files.read(path)
    tokenizer = pieces(" ", "a")
    for length in (-1, -(2**31), 2**31 - 1):
        wrong = tokenizer[:8] + struct.pack("i", length) + tokenizer[12:]
        path.write_bytes(as_file(matrices(True)) + wrong)
        with pytest.raises(StateError):
            llama_files.read(path)


def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    as_folder(folder, matrices(False))
    for name in ("config.json", "tokenizer.json"):
        whole = (folder / name).read_bytes()
        for length in range(0, len(whole), 1 + len(whole) // 60):
            (folder / name).write_bytes(whole[:length])
            with pytest.raises(StateError):
                llama_files.read(folder)
        (folder / name).write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    for key in config.keys() - {"rope_theta", "rms_norm_eps", "max_position_embeddings"}:
        for value in (None, 0, -1, 1.5, "x", 10**9, [], config[key] * 2):
            (folder / "config.json").write_text(json.dumps({**config, key: value}))
            with pytest.raises(StateError):
                llama_files.read(folder)
    (folder / "config.json").write_text(json.dumps(config))
    for vocabulary in ({"a": -1}, {"a": 262}, {"a": "b"}, ["a"]):
        (folder / "tokenizer.json").write_text(
            json.dumps({"model": {"vocab": vocabulary, "merges": []}})
        )
        with pytest.raises(StateError):
            llama_files.read(folder)


def test_tokens_come_one_by_one_or_together() -> None:
    model = babbler()
    tokens = jnp.array([5, 90, 7, 33])
    want, _ = model.step(tokens, model.caches(6))
    caches = model.caches(6)
    for token in tokens:
        logits, caches = model.step(token[None], caches)
    np.testing.assert_allclose(logits, want, atol=1e-5)


def test_tokenizer() -> None:
    tokenizer = llama_files.read_pieces(pieces(" t", "he", " the", " ", "t", "h", "e", "é"), 267)
    by_name = {
        text: 259 + n for n, text in enumerate([" t", "he", " the", " ", "t", "h", "e", "é"])
    }
    assert tokenizer.encode("") == [1]
    assert tokenizer.encode("the") == [1, by_name[" the"]]
    assert tokenizer.encode("thé") == [1, by_name[" t"], by_name["h"], by_name["é"]]
    assert tokenizer.encode("ü") == [1, by_name[" "], 3 + 0xC3, 3 + 0xBC]
    for text in ("the the", "hü\né", " the"):
        assert "".join(tokenizer.decode(tokenizer.encode(text)[1:])) == text
    assert "".join(tokenizer.decode([3 + 0xC3])) == ""  # a character that did not end


def test_pieces_that_no_merge_makes_are_not_made(tmp_path: Path) -> None:
    as_folder(tmp_path / "folder", matrices(False))
    path = tmp_path / "folder" / "tokenizer.json"
    known = json.loads(path.read_text())
    known["model"]["merges"] = []
    path.write_text(json.dumps(known))
    byte = llama_files.BYTES
    found = llama_files.read_folder(tmp_path / "folder").tokenizer
    assert found.encode("a<s>") == [1, 259, 260, *(byte + b for b in b"<s>")]


def options(**changed: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"seed": 0, "temperature": 0.0, "top_p": 1.0, **changed})


def test_a_story_goes_on_from_its_prompt_and_ends() -> None:
    model = babbler()
    prompt = [1, 70, 71, 72]
    told = list(llama.story(model, prompt, 8, options()))
    assert told[:3] == prompt[1:]
    assert len(told) == 8
    logits, _ = model.step(jnp.array([*prompt, *told[3:7]]), model.caches(8))
    assert told[7] == int(logits.argmax())
    assert list(llama.story(model, [1, llama_files.END], 8, options())) == []
    assert len(list(llama.story(model, prompt, 2, options()))) == 2


def test_drawing_follows_the_probabilities() -> None:
    model = babbler()
    token = jnp.asarray(70)
    logits = np.asarray(model.step(token[None], model.caches(2))[0])
    likely = np.argsort(logits)[::-1]
    share = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    top_p = float(share[likely[:3]].sum()) - 1e-4  # so three of them
    drawn = Counter(
        int(llama.follow(model, token, model.caches(2), key, temperature=1.0, top_p=top_p)[0])
        for key in random.split(random.key(0), 200)
    )
    assert set(drawn) <= set(likely[:3].tolist())
    want = share[likely[0]] / share[likely[:3]].sum()
    assert drawn[int(likely[0])] / 200 == pytest.approx(want, abs=0.12)


def test_it_tells_and_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert llama.main(["--smoke", "--tokens", "12"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Once")
    assert "tokens/s" in lines[-1] and "10,368 parameters, 12 tokens" in lines[-1]


@pytest.mark.parametrize("arguments", [[], ["/nowhere/model.bin"]])
def test_without_a_model_it_says_where_one_is(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        llama.main(arguments)
    assert ended.value.code == 2
    assert "where to get one" in capsys.readouterr().err
