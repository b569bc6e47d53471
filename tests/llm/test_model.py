"""Models of files: what is loaded, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.llm import building
from tests.llm.test_gguf import read_or_refused
from tfn import llm, nn
from tfn.errors import ArgumentError, NotAvailableError, StateError
from tfn.llm.model import dense_bytes, quantization
from tfn.llm.weights import Blocks


def test_quantized_weights_stay_so(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    values = building.sizes("llama")
    tensors = {n: building.tensor(x, "Q8_0" if x.ndim > 1 else "F32")
               for n, x in building.weights(own_output=True).items()}  # fmt: skip
    path.write_bytes(building.gguf(values, tensors))
    model = llm.load(path)
    weight = model.weights["blk.0.attn_q.weight"]
    assert isinstance(weight, Blocks) and weight.raw.shape == (32, 1, 34)
    assert dense_bytes(model) == sum(len(raw) for _, _, raw in tensors.values())
    plain = llm.load(building.network("llama"))
    tokens = np.arange(5)
    assert np.abs(model(tokens) - plain(tokens)).max() < 0.2
    assert model.tokenizer is None


def test_a_model_is_a_tree_of_its_weights() -> None:
    model = llm.load(building.network("llama"))
    assert nn.parameter_count(model) == sum(
        x.size for x in building.weights(own_output=True).values()
    )
    assert len(tfn.tree.leaves(model)) == len(model.weights)


def file(weights: dict[str, Any] | None = None, **values: Any) -> bytes:
    tensors = {n: building.tensor(x) for n, x in (weights or building.weights()).items()}
    return building.gguf(building.sizes("llama", **values), tensors)


def without(name: str) -> bytes:
    return file({n: x for n, x in building.weights().items() if n != name})


def test_tensors_that_are_not_those_of_the_network_are_refused() -> None:
    for name in ("blk.1.ffn_down.weight", "token_embd.weight", "output_norm.weight"):
        with pytest.raises(StateError, match="missing"):
            llm.load(without(name))
    extra = building.weights() | {"blk.0.attn_sinks.weight": np.ones(4, np.float32)}
    with pytest.raises(StateError, match=r"no use for blk\.0\.attn_sinks"):
        llm.load(file(extra))
    with pytest.raises(StateError, match=r"has shape \(32, 32\), not \(64, 32\)"):
        llm.load(file(**{"attention.key_length": 16}))
    with pytest.raises(NotAvailableError, match="mamba"):
        llm.load(building.gguf(building.sizes("mamba"), {}))
    with pytest.raises(ArgumentError, match="path or bytes"):
        llm.load(3)  # type: ignore[arg-type]


def test_a_number_of_layers_that_is_wrong_takes_no_time() -> None:
    with pytest.raises(StateError, match=r"blk\.2"):
        llm.load(file(block_count=1 << 31))


def test_damaged_models_are_refused_or_loaded() -> None:
    file, draw = building.network("qwen3"), np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(file)
        for at in draw.integers(0, 4000, draw.integers(1, 4)):
            damaged[at] = draw.integers(256)
        read_or_refused(llm.load, bytes(damaged))


def test_formats_are_counted_in_words() -> None:
    formats = {"F32": (61, 35_136), "Q4_1": (210, 106_168_320), "Q8_0": (1, 28_311_552)}
    assert quantization(formats) == "Q4_1, 5.7 bits a weight: 210 tensors Q4_1, 1 Q8_0, 61 F32"
    assert quantization({}) == "no tensors"
