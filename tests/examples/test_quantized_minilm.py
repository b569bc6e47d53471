"""The quantized MiniLM example: near its floats, the same bits everywhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import minilm
import numpy as np
import pytest
import quantized_minilm
from quantized_minilm import QuantizedEncoder

import tfn
from tests.exporting.building import COMPILERS, in_c, needs_cc
from tfn.config import config
from tfn.trace.uop import walk


@pytest.fixture(scope="module")
def network() -> tuple[QuantizedEncoder, Any, Any, Any]:
    """A network of random numbers with two texts, and the directions that it gives."""
    encoder, pieces = minilm.babbler()
    texts = [pieces.encode(text) for text in ("near", "so far!")]
    made = quantized_minilm.converted(encoder, texts)
    tokens, lengths = map(np.asarray, quantized_minilm.batched(texts))
    return made, tokens, lengths, np.asarray(quantized_minilm.directions(made, tokens, lengths))


def test_it_is_near_the_floats(network: Any) -> None:
    _, tokens, lengths, got = network
    encoder, _ = minilm.babbler()
    expected = np.asarray(minilm.directions(encoder, tokens, lengths))
    units = got / np.linalg.norm(got.astype(float), axis=-1, keepdims=True)
    assert (units * expected).sum(-1).min() > 0.998


def test_padding_changes_nothing(network: Any) -> None:
    made, tokens, lengths, got = network
    alone = quantized_minilm.directions(made, tokens[:1, : lengths[0]], lengths[:1])
    np.testing.assert_array_equal(np.asarray(alone), got[:1])


def test_it_has_no_floats(network: Any) -> None:
    made, tokens, lengths, _ = network
    jaxpr = tfn.jit(quantized_minilm.directions).trace(made, tokens, lengths).jaxpr
    nodes = walk(jaxpr.outputs)
    assert {u.dtype.kind for u in nodes if not isinstance(u.dtype, tuple)} <= set("iub")


@pytest.mark.parametrize("device", ["python", "dsp"])
def test_devices_agree_bit_by_bit(
    device: str, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "dsp" and not shutil.which("qemu-hexagon"):
        pytest.skip("qemu-hexagon is not installed: apt install qemu-user")
    made, tokens, lengths, got = network
    monkeypatch.setattr(config, "device", device)
    found = quantized_minilm.directions(made, tokens, lengths)
    np.testing.assert_array_equal(np.asarray(found), got)


@needs_cc
def test_exported_c_agrees_bit_by_bit(network: Any, tmp_path: Path) -> None:
    made, tokens, lengths, got = network

    def f(made: Any, tokens: Any, lengths: Any) -> Any:
        return made(tokens, lengths)

    (found,) = in_c(f, made, tokens, lengths, folder=tmp_path, compiler=COMPILERS[:1])
    np.testing.assert_array_equal(found, got)
