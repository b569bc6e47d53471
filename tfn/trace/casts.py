"""Casts of NumPy arrays, and the meaning of ops on narrow values: computed in wider types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INTEGERS,
    NARROW,
    NARROW_FLOATS,
    DType,
    highest,
    lowest,
    wide_type,
)
from tfn.trace.op import COMPARE, SEVERAL, STORAGE, Op

Value = np.ndarray
Meaning = Callable[..., Any]

_AS_THEY_ARE = STORAGE | SEVERAL - {Op.SORT} | {Op.CAST, Op.BITCAST, Op.GET}
"""Ops that take narrow values as they are; for all others these are widened."""


def cast(dtype: DType, x: Value) -> Value:
    """Float to integer truncates and saturates, NaN becomes 0; to bool is ``x != 0``.

    Of a complex number only the real part becomes a real one, but both count for bool.
    """
    if x.dtype in COMPLEXES and dtype not in COMPLEXES and dtype != BOOL:
        x = x.real
    if x.dtype in FLOATS and dtype in INTEGERS:
        least, most = lowest(dtype), highest(dtype)
        real = np.trunc(
            np.nan_to_num(np.asarray(x, np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        )
        low, high = real <= float(least), real >= float(most)
        inside = np.where(low | high, 0, real).astype(wide_type(dtype))
        return np.where(low, least, np.where(high, most, inside)).astype(dtype)
    if dtype == BOOL:
        return np.asarray(x != 0)
    x = x.astype(wide_type(x.dtype))
    return (_nearby(x, dtype) if dtype in FROM_FLOAT32 else x).astype(dtype)


FROM_FLOAT32 = NARROW_FLOATS | {BFLOAT16}
"""The floats that ml_dtypes makes of float32 only."""

BITS_LOST_FROM_FLOAT64 = 29
BITS_LOST_FROM_INT64 = 11


def _nearby(x: Value, dtype: DType) -> Value:
    """Numbers as float32 that round to a shorter dtype as they do themselves.

    What float32 does not hold gets an odd last bit, by which no tie is seen where there is none.
    Source: S. Boldo and G. Melquiond, Emulation of a FMA and correctly rounded sums, 2008.
    """
    if x.dtype.kind in "iu" and x.dtype.itemsize >= 4:
        low = (1 << BITS_LOST_FROM_INT64) - 1
        large = (x >> 53 != 0) & (x >> 53 != -1 if x.dtype.kind == "i" else True)
        sticky = ((x & low) != 0).astype(x.dtype) << BITS_LOST_FROM_INT64
        x = np.where(large, (x & ~np.array(low, x.dtype)) | sticky, x).astype(FLOAT64)
    if x.dtype != FLOAT64:
        return x
    word, low = np.asarray(x).view(np.int64), (1 << BITS_LOST_FROM_FLOAT64) - 1
    sticky = ((word & low) != 0).astype(np.int64) << BITS_LOST_FROM_FLOAT64
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = ((word & ~low) | sticky).view(np.float64)
        if dtype == BFLOAT16:  # whose subnormal numbers are those of float32
            near = np.where(abs(x) < 2.0**-126, np.rint(x * 2.0**133) * 2.0**-133, near)
        single: np.ndarray[Any, Any] = near.astype(FLOAT32)
        return single


def computes_narrow(op: Op, operands: Sequence[Any]) -> bool:
    """Whether an op computes with narrow values, which may be known by their nodes only."""
    if op in _AS_THEY_ARE:
        return False
    return any(getattr(x, "dtype", None) in NARROW for x in operands)


def widened(meaning: Meaning, op: Op, arg: Any, *operands: Value) -> Any:
    """An op on narrow values: computed in wider types, and rounded or wrapped once.

    Example:
        >>> from tfn.dtypes import int4
        >>> x = np.array([7, -8], int4.dtype)
        >>> widened(lambda arg, x: -x, Op.NEG, None, x)
        array([-7, -8], dtype=int4)
    """
    kinds = [x.dtype for x in operands]
    values = [x.astype(wide_type(x.dtype)) for x in operands]
    if op is Op.SORT:
        return meaning(arg, *values[: arg.keys], *operands)[arg.keys :]
    if op in (Op.DOT, Op.CONV):
        result = meaning(replace(arg, dtype=wide_type(arg.dtype)), *values)
        return cast(arg.dtype, result)
    result = np.asarray(meaning(arg, *values))
    is_narrow = op not in COMPARE and getattr(arg, "index", None) is None
    return cast(kinds[0], result) if is_narrow else result
