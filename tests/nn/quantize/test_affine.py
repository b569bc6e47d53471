"""Affine quantization: exact zeros, errors of half a step, rounding of halves, limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn
from tfn import numpy as jnp
from tfn.errors import ArgumentError, AxisError
from tfn.nn.quantize import Quantization, per_channel, per_tensor, symmetric

FINITE = st.floats(-1e6, 1e6, width=32)


@given(FINITE, FINITE, st.integers(2, 8))
def test_zero_is_exact_and_errors_are_half_a_step(low: float, high: float, bits: int) -> None:
    low, high = sorted((low, high))
    q = per_tensor(low, high, bits)
    assert q.dequantize(q.quantize(jnp.zeros(()))).item() == 0
    assert q.lowest <= q.zero_point.item() <= q.highest
    x = jnp.asarray(np.linspace(min(low, 0), max(high, 0), 33, dtype=np.float32))
    error = abs(np.asarray(q.dequantize(q.quantize(x))) - np.asarray(x)).max()
    # The zero point is rounded too, so the ends may lose half a step more.
    assert error <= q.scale.item() * 1.01


def test_halves_are_rounded_to_even_and_ends_clip() -> None:
    q = Quantization(jnp.float32(2.0), jnp.int32(3))
    x = jnp.array([1.0, 3.0, 5.0, -1.0, 1e9, -1e9, jnp.inf, -jnp.inf, jnp.nan])
    assert q.quantize(x).tolist() == [3, 5, 5, 3, 127, -128, 127, -128, 3]
    assert q.quantize(x).dtype == np.int8


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_channels_have_scales_of_their_own(axis: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 5)).astype(np.float32) * 10.0 ** np.arange(5)
    q = symmetric(x, axis)
    alone = [symmetric(channel) for channel in np.moveaxis(x, axis, 0)]
    assert q.scale.tolist() == [one.scale.item() for one in alone]
    values = np.moveaxis(np.asarray(q.quantize(x)), axis, 0)
    for channel, one, value in zip(np.moveaxis(x, axis, 0), alone, values, strict=True):
        assert (np.asarray(one.quantize(channel)) == value).all()
    assert abs(values.astype(int)).max() == 127


def test_ranges_of_channels() -> None:
    q = per_channel(jnp.array([0.0, -2.0]), jnp.array([1.0, 0.0]), axis=1, bits=4)
    assert q.zero_point.tolist() == [-8, 7]
    assert q.quantize(jnp.array([[1.0, -2.0], [0.0, 0.0]])).tolist() == [[7, -8], [-8, 7]]


def test_constant_zeros_have_a_scale() -> None:
    assert per_tensor(0.0, 0.0).scale.item() == 1
    assert symmetric(jnp.zeros((2, 3)), axis=0).scale.tolist() == [1, 1]


def test_it_is_a_tree_that_jit_takes() -> None:
    q = per_tensor(-1.0, 1.0)
    x = jnp.linspace(-1, 1, 9)
    compiled = tfn.jit(lambda q, x: q.dequantize(q.quantize(x)))(q, x)
    assert compiled.tolist() == q.dequantize(q.quantize(x)).tolist()
    assert len(tfn.tree.leaves(q)) == 2


@pytest.mark.parametrize("bits", [1, 9])
def test_bits_are_checked(bits: int) -> None:
    with pytest.raises(ArgumentError, match="2 to 8 bits"):
        per_tensor(0.0, 1.0, bits)
    with pytest.raises(ArgumentError, match="2 to 8 bits"):
        symmetric(jnp.ones(3), bits=bits)


def test_the_axis_is_checked() -> None:
    with pytest.raises(AxisError, match="axis of the channels"):
        symmetric(jnp.ones(3), axis=1)
    with pytest.raises(AxisError, match="axis of the channels"):
        per_channel(jnp.zeros(2), jnp.ones(2), axis=3).quantize(jnp.ones((2, 2)))
