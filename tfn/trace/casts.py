"""Casts of NumPy arrays, and the meaning of ops on narrow values: computed in wider types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfn.dtypes import (
    BOOL,
    COMPLEXES,
    FLOATS,
    INTEGERS,
    NARROW,
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
    return x.astype(wide_type(x.dtype)).astype(dtype)


def computes_narrow(op: Op, operands: Sequence[Value]) -> bool:
    """Whether an op computes with narrow values."""
    if op in _AS_THEY_ARE:
        return False
    return any(getattr(x, "dtype", None) in NARROW for x in operands)


def widened(meaning: Meaning, op: Op, arg: Any, operands: Sequence[Value]) -> Any:
    """An op on narrow values: computed in wider types, and rounded or wrapped once.

    Example:
        >>> from tfn.dtypes import int4
        >>> x = np.array([7, -8], int4.dtype)
        >>> widened(lambda arg, x: -x, Op.NEG, None, [x])
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
