"""Sortable key encoding: unsigned order is that of values, NaN last and zeros equal."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import p, run_oracle
from tfn.dtypes import BOOL, FLOATS, REALS, DType, highest, lowest
from tfn.lower.codegen.sort.key_encoding import (
    bit_width,
    from_total_order,
    sortable,
    total_order,
)

REAL = REALS


@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_sortable_bits_compare_as_values(dtype: DType) -> None:
    random = np.random.default_rng(0)
    if dtype == BOOL:
        x = np.array([False, True])
    else:
        x = random.integers(0, 256, 400 * dtype.itemsize).astype(np.uint8).view(dtype)
        if dtype in FLOATS:
            special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]
        else:
            special = [0, 1, lowest(dtype), highest(dtype)]
        x = np.concatenate([x, np.array(special, dtype)])
    (bits,) = run_oracle([sortable(p(0, len(x), dtype=dtype))], [x])
    assert 8 * bits.dtype.itemsize == max(bit_width(dtype), 8)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64) if dtype in FLOATS else x
        less = wide[:, None] < wide
        equal = wide[:, None] == wide
    if dtype in FLOATS:
        less |= ~np.isnan(wide)[:, None] & np.isnan(wide)
        equal |= np.isnan(wide)[:, None] & np.isnan(wide)
    assert np.array_equal(bits[:, None] < bits, less)
    assert np.array_equal(bits[:, None] == bits, equal)


@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_total_order_refines_sortable_and_is_invertible(dtype: DType) -> None:
    """Values with equal `sortable` bits are neighbours, and every value is restored."""
    n = 400
    bits = np.random.default_rng(1).integers(0, 256, n * dtype.itemsize).astype(np.uint8)
    x = (bits & 1).astype(bool) if dtype == BOOL else bits.view(dtype)
    if dtype in FLOATS:
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]
        x = np.concatenate([x, np.array(special, dtype)])
    key = p(0, len(x), dtype=dtype)
    keys = [sortable(key), total_order(key), from_total_order(total_order(key), dtype)]
    encoded, refined, decoded = run_oracle(keys, [x])
    assert decoded.tobytes() == x.tobytes()
    less = encoded[:, None] < encoded
    assert (refined[:, None] < refined)[less].all()
