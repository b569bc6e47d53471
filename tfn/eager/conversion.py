"""Conversion: Arrays from NumPy arrays and from numbers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import dtypes, eager
from tfn.array import Array
from tfn.eager.arrays import concrete
from tfn.eager.registry import device
from tfn.errors import ArgumentError
from tfn.hw.memory import unshared
from tfn.trace import casts, traces
from tfn.trace.uop import UOp, const

LARGEST_FLOAT16 = 65504.0
"""The largest number that every floating dtype holds."""


def asarray(value: Any, dtype: Any = None) -> Array:
    """An Array from an Array, a NumPy array or scalar, or a Python scalar (which is weak).

    NumPy arrays are copied, always: an Array never changes, and they may.

    Raises:
        ArgumentError: for anything else, lists included.
        NumberError: for a Python scalar that the dtype does not have.
    """
    if isinstance(value, Array):
        return value
    requested = None if dtype is None else dtypes.canonical(dtype)
    if isinstance(value, np.ndarray):
        return _copied(value, requested)
    if isinstance(value, (bool, int, float, complex)):
        kind = requested or dtypes.number(value)
        number = dtypes.as_number_of(kind, value)
        if kind.kind in "iu":
            data = np.array(number, kind)
        elif abs(number) <= LARGEST_FLOAT16:
            data = casts.cast(kind, np.asarray(number))
        else:
            with np.errstate(over="ignore"):  # numbers that are too large become infinite
                data = casts.cast(kind, np.asarray(number))
        weak = requested is None and not isinstance(value, bool)
        return concrete(device().memory.copy(data), (), kind, weak, number=_number(data))
    if hasattr(value, "__jax_array__"):  # the protocol of JAX's libraries
        return asarray(value.__jax_array__(), dtype)
    if hasattr(value, "__array__"):
        return _copied(np.asarray(value), requested)
    raise ArgumentError(
        f"{type(value).__name__} is not an array or a number",
        got=repr(value)[:80],
        hint="use tfn.numpy.array for lists"
        if isinstance(value, (list, tuple))
        else "pass an array or a number",
    )


def _copied(data: np.ndarray[Any, Any], requested: dtypes.DType | None) -> Array:
    """An Array of NumPy's data, in the dtype requested, or in their own."""
    kind = requested or dtypes.canonical(data.dtype)
    if data.dtype != kind:
        short = kind in casts.FROM_FLOAT32
        data = casts.cast(kind, data) if short else data.astype(kind)
    return concrete(device().memory.copy(data), data.shape, kind, number=_number(data))


def _number(data: np.ndarray[Any, Any]) -> UOp | None:
    """The constant that a number is in the compiled function that makes an array of it."""
    if data.ndim or all(trace.known for trace in traces.running()):
        return None
    return const(data[()], data.dtype)


def adopt(data: np.ndarray[Any, Any]) -> Array:
    """An Array that shares the memory of a NumPy array, and sees what is written there.

    Raises:
        ArgumentError: if the memory cannot be shared.
    """
    kind = dtypes.canonical(data.dtype)
    if data.dtype != kind:
        raise unshared(f"it holds {data.dtype!r}, not {kind!r}")
    return concrete(device().memory.adopt(data), data.shape, kind)


def read(x: Array) -> np.ndarray[Any, Any]:
    """The data of a concrete Array, as a read-only NumPy array that shares its memory."""
    assert x.buffer is not None and x.kind is not None
    if x.kind.sharding is not None:
        return eager.stacks.read(x, device(eager.stacks.platform_of(x)).memory)
    return device().memory.read(x.buffer, x.shape, x.dtype)


def duplicate(x: Array) -> Array:
    """A concrete Array in memory of its own."""
    return eager.stacks.duplicate(x, device(eager.stacks.platform_of(x)).memory)
