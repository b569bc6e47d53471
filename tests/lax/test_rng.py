"""Bits from a state: the same whole or in parts, those of tfn.random, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import lax, random
from tfn.errors import ArgumentError, DTypeError
from tfn.lax import RandomAlgorithm

STATE = np.array([3, 5, 0, 0], "uint32")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_are_those_of_the_key(dtype: str) -> None:
    state, bits = tfn.jit(lambda s: lax.rng_bit_generator(s, (3, 4), dtype))(STATE)
    expected = random.bits(random.wrap_key_data(STATE), (3, 4), dtype)
    assert bits.dtype == dtype and state.tolist() == [3, 5, 6 if dtype == "uint64" else 3, 0]
    np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("algorithm", RandomAlgorithm)
def test_the_state_goes_on_where_it_ended(algorithm: RandomAlgorithm) -> None:
    _, whole = lax.rng_bit_generator(STATE, 8, "uint64", algorithm)
    state, first = lax.rng_bit_generator(STATE, 4, "uint64", algorithm)
    state, second = lax.rng_bit_generator(state, (4,), "uint64", algorithm)
    assert [*first.tolist(), *second.tolist()] == whole.tolist()
    late = np.array([3, 5, 2**32 - 1, 6], "uint32")
    state, _ = lax.rng_bit_generator(late, 2, "uint32", algorithm)
    assert state.tolist() == [3, 5, 0, 7]


def test_refusals() -> None:
    with pytest.raises(DTypeError, match="unsigned"):
        lax.rng_bit_generator(STATE, 3, "int32")
    with pytest.raises(ArgumentError, match=r"u32\[2\]"):
        lax.rng_bit_generator(STATE[:2], 3)
