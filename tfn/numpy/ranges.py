"""Ranges: numbers by steps, evenly spaced, or of evenly spaced logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfn._support.validate import integer, shown, size_limit
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    COMPLEXES,
    DEFAULTS,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INEXACT,
    INT32,
    DType,
    DTypeLike,
    as_number_of,
    canonical,
    promote,
)
from tfn.dtypes import part as part_of
from tfn.eager.operands import (
    apply,
    broadcast_shape,
    fit,
    inexact,
    numbers_as,
    one_axis,
    type_of,
    values_of,
)
from tfn.errors import ArgumentError
from tfn.numpy.creation import astype, make, on_device
from tfn.trace import build
from tfn.trace.build import cast, iota, moveaxis
from tfn.trace.build import where as choose
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The vector start, start + step, ... of numbers below `stop`; ``arange(n)`` counts from 0.

    Args:
        start: first number; with `stop` None it is the end, and 0 the first one.
        stop: end, which is not reached.
        step: distance of two numbers, not 0; 1 for None, and negative ones count down.
        dtype: dtype of the result; None gives int32 for integers and float32 for others, or the
            dtype of ends that are arrays.
        device: a device, its name or a sharding; None for the default device.
        out_sharding: the sharding of the result, in the place of `device`.

    Raises:
        ArgumentError: if the step is zero, or an argument is not known.
        NumberError: if the dtype, int32 if none is given, does not hold all of them.
        DeviceError: if there is no such device.
        ShapeError: for more elements than a machine can address.

    Example:
        >>> arange(2, 8, 3)
        Array([2, 5], dtype=int32)
    """
    if (place := device if out_sharding is None else out_sharding) is not None:
        return on_device(arange(start, stop, step, dtype), place)
    if stop is None:
        start, stop = 0, start
    first, last, by = (_number("arange", v) for v in (start, stop, 1 if step is None else step))
    if by == 0:
        raise ArgumentError(
            "arange needs a step that is not zero",
            got=f"step={step}",
            hint="step=1 counts up, step=-1 counts down",
        )
    size = max(_steps(first, last, by), 0)
    size_limit("arange", (size,))
    whole = all(isinstance(v, int) for v in (first, last, by))
    dtypes = [
        v.dtype for v in (start, stop, step) if isinstance(v, (Array, np.generic, np.ndarray))
    ]
    kind = DEFAULTS[int if whole else float]
    if dtype is not None:
        kind = canonical(dtype)
    elif dtypes:
        kind = (
            np.result_type(*dtypes)
            if whole
            else next((d for d in dtypes if d in FLOATS), DEFAULTS[float])
        )
    for end in (first, first + by * (size - 1)) if whole and size else ():
        as_number_of(kind, end)
    return make(_arange, size, first, by, kind)


def _steps(first: Any, last: Any, by: Any) -> int:
    """The number of steps from the first number to the last, both known."""
    if all(isinstance(v, int) for v in (first, last, by)):
        return int(-((first - last) // by))
    if not all(map(math.isfinite, (first, last, by))):
        raise ArgumentError(
            "arange needs numbers that are finite",
            got=f"start={first}, stop={last}, step={by}",
            hint="check the bounds; arrays have a size that is known",
        )
    count: int = math.ceil((last - first) / by)
    return count


def _number(name: str, value: object) -> Any:
    """A known number as Python's int or float."""
    if isinstance(value, (Array, np.generic, np.ndarray)):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise ArgumentError(
            f"{name} needs real numbers",
            got=shown(value),
            hint="pass ints or floats, such as arange(0, 10, 2)",
        )
    return int(value) if isinstance(value, bool) else value


def _arange(size: int, first: Any, by: Any, dtype: DType) -> UOp:
    counted = dtype
    if dtype in (FLOAT32, FLOAT64) and isinstance(by, int) and isinstance(first, int):
        ends = first, first + by * size
        counted = INT32 if max(map(abs, ends)) <= np.iinfo(np.int32).max else dtype
    if counted in INEXACT:  # in 64 bits, so that long ranges do not drift
        line = iota((size,), 0, FLOAT64) * float(by) + float(first)
        return cast(line, dtype)
    line = iota((size,), 0, counted if counted.itemsize >= 4 else None)
    line = line * by if by != 1 else line
    return cast(line + first if first else line, dtype)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: object = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`; with `retstep`, also their distance.

    Args:
        start: first value; array or number.
        stop: last value; array or number, broadcast with `start`.
        num: number of values, not negative; 50 by default.
        endpoint: whether `stop` is the last value; else it is the one after.
        retstep: whether the distance of two values is returned, too.
        dtype: dtype of the result; None takes the floating dtype of the ends.
        axis: position of the new axis in the result, counted from the end if negative.
        device: a device, its name or a sharding; None for the default device.

    Returns:
        An array of the broadcast shape of `start` and `stop` with the axis added; with `retstep` a
        pair of it and the distance, of the broadcast shape, NaN if there is none.

    Raises:
        ArgumentError: unless `num` is an integer from 0 on.
        AxisError: if the array has no such axis.
        ShapeError: if the shapes do not broadcast.
        DeviceError: if there is no such device.

    Example:
        >>> linspace(0, 1, 5)
        Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    if device is not None:
        return on_device(linspace(start, stop, num, endpoint, retstep, dtype, axis), device)
    count = integer("linspace", "num", num, 0)
    size_limit("linspace", (count,))
    ends = values_of("linspace", start, stop)
    wide = [] if dtype is None else [(canonical(dtype), False)]
    kind = inexact(promote((*map(type_of, ends), *wide)))[0]
    operands = numbers_as(ends, kind)
    shape = broadcast_shape("linspace", *[x.shape for x in operands])
    axis = one_axis("linspace", axis, len(shape) + 1)
    result_dtype = kind if dtype is None else canonical(dtype)
    line = apply(_linspace, operands, count, bool(endpoint), kind, result_dtype, shape, axis)
    if not retstep:
        return line
    return line, apply(_distance, operands, max(count - bool(endpoint), 0), kind, shape)


def _distance(start: UOp, stop: UOp, parts: int, dtype: DType, shape: Shape) -> UOp:
    start, stop = fit(start, dtype, shape), fit(stop, dtype, shape)
    return (stop - start) / (parts if parts else math.nan)


def _linspace(
    start: UOp,
    stop: UOp,
    count: int,
    endpoint: bool,
    dtype: DType,
    result_dtype: DType,
    shape: Shape,
    axis: int,
) -> UOp:
    sizes = (count, *shape)
    parts = max(count - endpoint, 1)
    kind = dtype if dtype == FLOAT64 or dtype in COMPLEXES else DEFAULTS[float]
    at = iota(sizes, 0, part_of(kind)) / parts
    low, high = fit(start, kind, sizes), fit(stop, kind, sizes)
    line = low * cast(1 - at, kind) + high * cast(at, kind)
    if endpoint and count > 1:
        line = choose(at < 1, line, high)
    if result_dtype not in INEXACT:
        line = build.unary(Op.FLOOR, line)
    return cast(moveaxis(line, 0, axis), result_dtype)


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from ``base**start`` to ``base**stop`` with evenly spaced logarithms.

    Args:
        start: logarithm of the first value; array or number.
        stop: logarithm of the last value; array or number, broadcast with `start`.
        num: number of values, not negative; 50 by default.
        endpoint: whether `stop` is the last value; else it is the one after.
        base: base of the logarithms, a Python number; 10 by default.
        dtype: dtype of the result; None takes the floating dtype of the ends.
        axis: the new axis; the first by default.

    Returns:
        An array of the broadcast shape of `start` and `stop`, with a new axis of size `num`.

    Raises:
        ArgumentError: unless `num` is an integer from 0 on.
        ShapeError: if the shapes do not broadcast.
        AxisError: if the result has no such axis.

    Example:
        >>> logspace(0, 2, 3)
        Array([  1.,  10., 100.], dtype=float32)
    """
    exponents = linspace(start, stop, num, endpoint, dtype=_steps_as(start, stop, dtype), axis=axis)
    result = apply(_to_the_power, (exponents,), float(base))
    return result if dtype is None else astype(result, dtype)


def _steps_as(start: ArrayLike, stop: ArrayLike, dtype: DTypeLike | None) -> DType:
    """The dtype of computation: no less than that of the ends, and than that of the result."""
    wide = [] if dtype is None else [(canonical(dtype), False)]
    return inexact(promote((*map(type_of, values_of("logspace", start, stop)), *wide)))[0]


def _to_the_power(exponent: UOp, base: float) -> UOp:
    return UOp(Op.POW, (build.full_like(exponent, base), exponent))


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before it.

    Args:
        start: first value; array or number, not 0.
        stop: last value, of the sign of `start`; broadcast with it.
        num: number of values, not negative; 50 by default.
        endpoint: whether `stop` is the last value; else it is the one after.
        dtype: dtype of the result; None takes the floating dtype of the ends.
        axis: position of the new axis in the result, counted from the end if negative.

    Returns:
        An array of the broadcast shape of `start` and `stop` with the axis added.

    Raises:
        ArgumentError: unless `num` is an integer from 0 on.
        AxisError: if the array has no such axis.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> geomspace(1, 8, 4)
        Array([1., 2., 4., 8.], dtype=float32)
    """
    kind = _steps_as(start, stop, dtype)
    operands = numbers_as(values_of("geomspace", start, stop), kind)
    shape = broadcast_shape("geomspace", *[x.shape for x in operands])
    axis = one_axis("geomspace", axis, len(shape) + 1)
    steps = linspace(0, 1, num, endpoint, dtype=kind)
    result = apply(_geometric, (*operands, steps), kind, shape, axis)
    return result if dtype is None else astype(result, dtype)


def _geometric(start: UOp, stop: UOp, part: UOp, dtype: DType, shape: Shape, axis: int) -> UOp:
    sizes = (part.size, *shape)
    low, high = fit(start, dtype, sizes), fit(stop, dtype, sizes)
    at = build.broadcast_in_dim(part, sizes, (0,))
    line = low * UOp(Op.POW, (high / low, at))
    line = choose(build.eq(at, build.full_like(at, 1)), high, line)  # the ends are exact
    return moveaxis(line, 0, axis)
