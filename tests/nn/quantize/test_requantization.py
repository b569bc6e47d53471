"""Requantization against fractions of Python: one rounding, halves upwards, for every sum."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError
from tfn.nn.quantize import Quantization, Requantization

SUMS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20)
FACTORS = st.floats(2.0**-70, 2.0**29, allow_subnormal=False)
EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**30, 127, 128, -128, -129]


def definition(total: int, made: Requantization) -> int:
    """The result of one sum by exact fractions."""
    exact = Fraction(total * made.multiplier.item(), 2 ** made.shift.item())
    rounded = floor(exact + Fraction(1, 2)) + made.zero_point.item()
    return min(max(rounded, made.lowest), made.highest)


@given(SUMS, FACTORS, st.integers(-128, 127), st.booleans())
def test_results_are_rounded_once(sums: list[int], factor: float, zero: int, relu: bool) -> None:
    made = Requantization.of(factor, Quantization(jnp.float32(1.0), jnp.int32(zero)), relu)
    assert 0 <= made.multiplier.item() < 2**31
    sums = [*sums, *EDGES]
    got = made(jnp.asarray(np.array(sums, np.int32)))
    assert got.dtype == np.int8
    assert got.tolist() == [definition(total, made) for total in sums]


@given(FACTORS)
def test_factors_have_31_bits(factor: float) -> None:
    made = Requantization.of(factor, Quantization(jnp.float32(1.0), jnp.int32(0)))
    stored = Fraction(made.multiplier.item(), 2 ** made.shift.item())
    error = abs(stored - Fraction(factor))
    assert error <= max(Fraction(factor) / 2**31, Fraction(1, 2**63))


@given(SUMS, st.floats(2.0**-40, 2.0**9, exclude_max=True))
def test_results_of_16_bits_are_rounded_once(sums: list[int], factor: float) -> None:
    made = Requantization.of(factor, Quantization(jnp.float32(1.0), jnp.int32(0), None, 16))
    sums = [*sums, *EDGES]
    got = made(jnp.asarray(np.array(sums, np.int32)))
    assert got.dtype == np.int32
    assert got.tolist() == [definition(total, made) for total in sums]


def test_factors_to_16_bits_are_checked() -> None:
    with pytest.raises(ArgumentError, match=r"below 2\*\*9"):
        Requantization.of(2.0**9, Quantization(jnp.float32(1.0), jnp.int32(0), None, 16))


def test_halves_go_up() -> None:
    half = Requantization.of(0.5, Quantization(jnp.float32(1.0), jnp.int32(0)))
    assert half(jnp.array([1, -1, 3, -3])).tolist() == [1, 0, 2, -1]


def test_each_channel_has_a_factor() -> None:
    made = Requantization.of(np.array([0.5, 0.25]), Quantization(jnp.float32(1.0), jnp.int32(1)))
    assert made(jnp.array([[8, 8], [2, 2]])).tolist() == [[5, 3], [2, 2]]


def test_relu_ends_at_the_zero_point() -> None:
    made = Requantization.of(1.0, Quantization(jnp.float32(1.0), jnp.int32(-5)), relu=True)
    assert made(jnp.array([-100, 0, 7])).tolist() == [-5, -5, 2]


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf, 2.0**30])
def test_factors_are_checked(factor: float) -> None:
    with pytest.raises(ArgumentError, match="above 0 and below"):
        Requantization.of(factor, Quantization(jnp.float32(1.0), jnp.int32(0)))


def test_one_scale_for_results() -> None:
    q = Quantization(jnp.ones(2), jnp.zeros(2, "int32"), axis=0)
    with pytest.raises(ArgumentError, match="one scale"):
        Requantization.of(1.0, q)


def test_sums_of_all_magnitudes_on_two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    factors, y = np.array([3e-5, 0.9999, 2.0**-40]), Quantization(jnp.float32(1.0), jnp.int32(-7))
    rng = np.random.default_rng(1)
    sums = rng.integers(-(2**31), 2**31, (64, 3)).astype(np.int32)
    channels = [Requantization.of(factor, y) for factor in factors]
    expected = [[definition(int(n), channels[c]) for c, n in enumerate(row)] for row in sums]
    for device in ("cpu", "python"):
        monkeypatch.setattr(config, "device", device)
        assert tfn.jit(Requantization.of(factors, y))(sums).tolist() == expected
