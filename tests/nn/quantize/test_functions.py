"""Integer softmax, layer norm and tables: against Python's integers, and near the floats."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError
from tfn.nn import quantize
from tfn.nn.quantize import Quantization, functions

Rows = list[list[int]]


def exponential(below: int) -> int:
    """exp(-below / 256) by the two tables."""
    whole, part = functions._EXP_WHOLE[below >> 8], functions._EXP_PART[below & 255]
    return (int(whole) * int(part) + 2**14) >> 15


def softmax(row: list[int], mask: list[bool]) -> list[int]:
    """The definition, for one row."""
    kept = [x for x, real in zip(row, mask, strict=True) if real]
    most = max([*kept, *([-(2**15)] if len(kept) < len(row) else [])])
    exps = [exponential(most - x) if real else 0 for x, real in zip(row, mask, strict=True)]
    reciprocal = 2**30 // max(sum(exps), 1)
    return [min((e * reciprocal + 2**21) >> 22, 255) - 128 for e in exps]


SCORE = st.integers(-(2**15), 2**15 - 1) | st.integers(-600, 600)


@given(st.lists(st.tuples(SCORE, st.booleans()), min_size=1, max_size=40))
@settings(max_examples=60)
def test_softmax_is_its_definition(row: list[tuple[int, bool]]) -> None:
    scores, mask = [x for x, _ in row], [real for _, real in row]
    got = quantize.softmax(jnp.asarray(np.array([scores], np.int32)), jnp.asarray([mask]))
    assert got.dtype == np.int8
    assert got.tolist()[0] == softmax(scores, mask)
    plain = quantize.softmax(jnp.asarray(np.array([scores], np.int32)))
    assert plain.tolist()[0] == softmax(scores, [True] * len(scores))


def test_softmax_is_near_that_of_floats() -> None:
    x = random.normal(random.key(0), (50, 37)) * 3
    scores = jnp.round(x * 256).astype("int32")
    got = (quantize.softmax(scores).astype(float) + 128) / 256
    assert abs(got - nn.softmax(x)).max().item() < 0.8 / 256


def test_a_row_without_any_source_has_probability_zero() -> None:
    scores = jnp.full((1, 3), 100, "int32")
    assert quantize.softmax(scores, jnp.zeros((1, 3), bool)).tolist() == [[-128] * 3]


def layer_norm(row: list[int], norm: quantize.LayerNorm) -> list[int]:
    """The definition, for one row."""
    n = len(row)
    mean = (sum(row) * 8 + n // 2) // n
    centred = [x * 8 - mean for x in row]
    root = isqrt((sum(c * c for c in centred) + norm.epsilon.item()) << 10)
    factor = norm.numerator.item() // max(root, 1)
    sums = [
        ((c * factor + 2**19) >> 20) * w + b
        for c, w, b in zip(centred, norm.weight.tolist(), norm.bias.tolist(), strict=True)
    ]
    requantized: list[int] = norm.requantization(jnp.asarray(np.array(sums, np.int32))).tolist()
    return requantized


TERM = st.integers(-(2**16), 2**16)


@given(st.lists(st.tuples(TERM, st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=30))
@settings(max_examples=60)
def test_layer_norm_is_its_definition(row: list[tuple[int, float, float]]) -> None:
    x, weight, bias = (np.array(column) for column in zip(*row, strict=True))
    layer = nn.LayerNorm(jnp.asarray(weight, "float32"), jnp.asarray(bias, "float32"), 1e-12)
    y = Quantization(jnp.float32(0.05), jnp.int32(3))
    norm = quantize.LayerNorm.of(layer, quantize.of_sums(8.0), y)
    got = norm(jnp.asarray(x.astype(np.int32)[None]))
    assert got.dtype == np.int8
    assert got.tolist()[0] == layer_norm(x.tolist(), norm)


@pytest.mark.parametrize("features", [2, 64, 4096])
@pytest.mark.parametrize("spread", [3e-3, 1.0, 100.0])
def test_layer_norm_is_near_that_of_floats(features: int, spread: float) -> None:
    keys = random.split(random.key(features), 3)
    layer = nn.LayerNorm(
        1 + random.normal(keys[0], (features,)) / 2, random.normal(keys[1], (features,)), 1e-5
    )
    x = random.normal(keys[2], (8, features)) * spread + spread
    sums = quantize.of_sums(abs(x).max().item())
    expected = layer(x)
    y = quantize.observe(expected).quantization()
    values = jnp.round(x / sums.scale).astype("int32")
    got = y.dequantize(quantize.LayerNorm.of(layer, sums, y)(values))
    assert abs(got - expected).max().item() < 0.51 * y.scale.item() + 0.01


def test_square_roots_are_exact() -> None:
    squares = [0, 1, 2, 3, 4, 2**40, 2**40 - 1, (2**31 - 1) ** 2, (2**31 - 1) ** 2 - 1, 10**18]
    got = functions._square_root(jnp.asarray(np.array(squares, np.int64)))
    assert got.tolist() == [isqrt(x) for x in squares]


def test_tables_are_rounded_once() -> None:
    x, y = (
        Quantization(jnp.float32(0.05), jnp.int32(-9)),
        Quantization(jnp.float32(0.03), jnp.int32(-100)),
    )
    every = jnp.arange(-128, 128, dtype="int32").astype("int8")
    made = quantize.Table.of(nn.gelu, x, y)
    assert (made(every) == y.quantize(nn.gelu(x.dequantize(every)))).all().item()


def test_devices_agree_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).integers(-(2**15), 2**15, (9, 33)).astype(np.int32)
    y = Quantization(jnp.float32(0.05), jnp.int32(3))
    norm = quantize.LayerNorm.of(nn.LayerNorm.init(33), quantize.of_sums(1.0), y)

    def f(norm: quantize.LayerNorm, x: tfn.Array) -> tuple[tfn.Array, tfn.Array]:
        return quantize.softmax(x), norm(x)

    expected = [np.asarray(z) for z in tfn.jit(f)(norm, scores)]
    monkeypatch.setattr(config, "device", "python")
    for one, two in zip(tfn.jit(f)(norm, scores), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), two)


def test_mistakes_are_named() -> None:
    q = Quantization(jnp.ones(2), jnp.zeros(2, "int32"), axis=0)
    with pytest.raises(ArgumentError, match="one scale for arguments"):
        quantize.Table.of(nn.gelu, q, q)
    with pytest.raises(ArgumentError, match="has weights or biases"):
        y = Quantization(jnp.float32(1), jnp.int32(0))
        bare = nn.LayerNorm.init(3, use_weight=False, use_bias=False)
        quantize.LayerNorm.of(bare, quantize.of_sums(1.0), y)
