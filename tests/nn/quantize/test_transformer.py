"""The encoder layer of integers: near that of floats, the same bits on four targets."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.exporting.building import COMPILERS, in_c, needs_cc
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError
from tfn.nn import quantize
from tfn.trace.uop import walk

FEATURES, HEADS, WIDE, TIME = 32, 4, 64, 9
LENGTHS = np.array([9, 4], np.int32)


def norm(key: Any) -> nn.LayerNorm:
    one, two = random.split(key)
    weight = 1 + random.normal(one, (FEATURES,)) / 4
    return nn.LayerNorm(weight, random.normal(two, (FEATURES,)) / 4, 1e-12)


def parts() -> tuple[Any, ...]:
    keys = random.split(random.key(0), 4)
    gelu = partial(nn.gelu, approximate=False)
    return (
        nn.MultiheadAttention.init(keys[0], FEATURES, HEADS, use_bias=True),
        norm(keys[1]),
        nn.FeedForward.init(keys[2], FEATURES, WIDE, use_bias=True, activation=gelu),
        norm(keys[3]),
    )


def mask() -> tfn.Array:
    return (jnp.arange(TIME) < jnp.asarray(LENGTHS)[:, None])[:, None, None]


@pytest.fixture(scope="module")
def made() -> tuple[quantize.EncoderLayer, Any, Any, Any]:
    """The layer, its input, its output and what floats give."""
    floats, x = parts(), random.normal(random.key(7), (2, TIME, FEATURES))
    ranges = quantize.calibrate(lambda x: quantize.activations(*floats, x, mask()), [x])
    layer = quantize.EncoderLayer.of(*floats, ranges)
    q = np.asarray(ranges["x"].quantization().quantize(x))
    return layer, q, np.asarray(run(layer, q, mask())), (floats, x, ranges)


@tfn.jit
def run(layer: quantize.EncoderLayer, x: tfn.Array, mask: tfn.Array) -> tfn.Array:
    return layer(x, mask)


def test_it_is_near_its_float_original(made: Any) -> None:
    _, _, got, (floats, x, ranges) = made
    attention, attention_norm, feed, feed_norm = floats
    middle = attention_norm(x + attention(x, mask=mask()))
    expected = feed_norm(middle + feed(middle))
    y = ranges["y"].quantization()
    error = np.asarray(y.dequantize(got) - expected)
    assert np.sqrt((error**2).mean()) < 0.75 * y.scale.item()
    assert abs(error).max() < 5 * y.scale.item()


def test_activations_are_those_of_the_layer(made: Any) -> None:
    _, _, _, (floats, x, _) = made
    attention, attention_norm, feed, feed_norm = floats
    middle = attention_norm(x + attention(x, mask=mask()))
    seen = quantize.activations(*floats, x, mask())
    np.testing.assert_allclose(seen["middle"], middle, atol=1e-5)
    np.testing.assert_allclose(seen["y"], feed_norm(middle + feed(middle)), atol=1e-5)


def test_what_is_masked_changes_nothing(made: Any) -> None:
    layer, x, got, _ = made
    other = x.copy()
    other[1, LENGTHS[1] :] = 100
    changed = np.asarray(run(layer, other, mask()))
    np.testing.assert_array_equal(changed[0], got[0])
    np.testing.assert_array_equal(changed[1, : LENGTHS[1]], got[1, : LENGTHS[1]])


def test_it_has_no_floats(made: Any) -> None:
    layer, x, _, _ = made
    nodes = walk(tfn.jit(run).trace(layer, x, mask()).jaxpr.outputs)
    assert {u.dtype.kind for u in nodes if not isinstance(u.dtype, tuple)} <= set("iub")


def test_the_oracle_and_eager_operations_agree_bit_by_bit(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x, got, _ = made
    np.testing.assert_array_equal(np.asarray(layer(jnp.asarray(x), mask())), got)
    monkeypatch.setattr(config, "device", "python")
    np.testing.assert_array_equal(np.asarray(run(layer, x, np.asarray(mask()))), got)


@pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed: apt install qemu-user"
)
def test_the_dsp_agrees_bit_by_bit(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, got, _ = made
    real = np.asarray(mask())
    monkeypatch.setattr(config, "device", "dsp")
    np.testing.assert_array_equal(np.asarray(run(layer, x, real)), got)


@needs_cc
def test_exported_c_agrees_bit_by_bit(made: Any, tmp_path: Path) -> None:
    layer, x, got, _ = made

    def f(layer: Any, x: Any, mask: Any) -> Any:
        return layer(x, mask)

    (found,) = in_c(f, layer, x, np.asarray(mask()), folder=tmp_path, compiler=COMPILERS[:1])
    np.testing.assert_array_equal(found, got)


def test_what_has_no_integers_is_refused(made: Any) -> None:
    _, _, _, (floats, _, ranges) = made
    attention, attention_norm, feed, feed_norm = floats
    gated = nn.FeedForward.init(random.key(0), FEATURES, WIDE, gated=True)
    with pytest.raises(ArgumentError, match="has no gate"):
        quantize.EncoderLayer.of(attention, attention_norm, gated, feed_norm, ranges)
    turned = nn.MultiheadAttention.init(random.key(0), FEATURES, HEADS, rotary_base=1e4)
    with pytest.raises(ArgumentError, match="no rotary positions"):
        quantize.EncoderLayer.of(turned, attention_norm, feed, feed_norm, ranges)
