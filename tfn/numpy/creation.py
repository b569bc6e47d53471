"""New arrays: from values, filled, counted.

What depends on no array belongs to the running trace, if there is one, so that a jitted function
computes it inside; otherwise its graph is evaluated at once, without compiling anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, DEFAULTS, FLOAT32, FLOAT64, FLOATS, INT32, DType, DTypeLike, canonical
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.operands import (
    a_shape,
    alias,
    apply,
    array_of,
    broadcast_shape,
    fit,
    scalar_kind,
    together,
)
from tfn.trace import bind, build, oracle
from tfn.trace.build import cast, concat, iota, moveaxis, reshape
from tfn.trace.build import where as choose
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const


def make(body: Callable[..., UOp], *static: Any, weak: bool = False) -> Array:
    """The value of ``body(*static)``, which takes no arrays."""
    running = bind.traces()
    if running:
        traced: Array = bind.face().wrap(body(*static), running[-1], True, weak)
        return traced
    (value,) = oracle.evaluate([body(*static)], {})
    result: Array = bind.face().asarray(value)
    result.weak_type = weak
    return result


def array(
    object: Any, dtype: DTypeLike | None = None, copy: bool = True, order: str = "K", ndmin: int = 0
) -> Array:
    """An array of a number, a NumPy array, an Array, or nested lists of these.

    Python numbers become 32 bits wide; NumPy arrays keep their dtype.

    Raises:
        ArgumentError: for ragged lists, or what is no number.

    Example:
        >>> array([[1, 2], [3, 4]])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    wanted = None if dtype is None else canonical(dtype)
    if isinstance(object, (list, tuple)):
        made = _of_list(object, wanted)
    elif isinstance(object, np.ndarray) and copy:
        made = array_of("array", np.array(object, order="C"))
    else:
        made = array_of("array", object) if wanted is None else _of_one(object, wanted)
        made = made if not copy or made is not object else duplicate(made)
    if wanted is not None:
        made = astype(made, wanted)
    if made.ndim < ndmin:
        made = alias(made, (1,) * (ndmin - made.ndim) + made.shape, made.weak_type)
    return made


def asarray(
    object: Any, dtype: DTypeLike | None = None, order: str = "K", *, copy: bool | None = None
) -> Array:
    """Like `array`, but without a copy where that is possible.

    Example:
        >>> asarray(np.arange(3.0))
        Array([0., 1., 2.], dtype=float64)
    """
    return array(object, dtype, bool(copy))


def _of_one(value: Any, dtype: DType) -> Array:
    kind = scalar_kind(value)
    if kind is None:
        return array_of("array", value)
    made: Array = bind.face().asarray(value, dtype if kind == dtype or kind.kind != "f" else kind)
    return made


def _of_list(listed: Sequence[Any], dtype: DType | None) -> Array:
    flat = list(_flatten(listed))
    if not any(isinstance(v, (Array, np.ndarray)) for v in flat):
        try:
            data = np.array(listed)
        except ValueError:
            data = np.array(None)
        if data.dtype.kind not in "biufV":
            raise ArgumentError(
                "array needs lists of numbers, all rows of one length", got=repr(listed)[:80]
            )
        made: Array = bind.face().asarray(_narrow(data, flat, dtype))
        return made
    parts = [_of_list(v, dtype) if isinstance(v, (list, tuple)) else v for v in listed]
    operands, kind, weak = together("array", *parts)
    first = operands[0].shape
    if any(x.shape != first for x in operands):
        raise ShapeError(
            "array needs parts of one shape", got=", ".join(str(x.shape) for x in operands)
        )
    return apply(stacked, operands, 0, kind, weak=weak)


def _flatten(listed: Any) -> Any:
    for v in listed:
        if isinstance(v, (list, tuple)):
            yield from _flatten(v)
        else:
            yield v


def _narrow(data: np.ndarray[Any, Any], flat: list[Any], dtype: DType | None) -> Any:
    """Python numbers in their default width, unless NumPy scalars or the user say otherwise."""
    if dtype is None:
        if any(isinstance(v, np.generic) and scalar_kind(v) is None for v in flat):
            dtype = data.dtype
        else:
            dtype = DEFAULTS[{"b": bool, "f": float}.get(data.dtype.kind, int)] if flat else FLOAT32
    if dtype.kind in "iu" and data.size and data.dtype.kind in "iu":
        info = np.iinfo(dtype)
        if int(data.min()) < info.min or int(data.max()) > info.max:
            raise ArgumentError(
                f"array got integers that do not fit into {dtype.name}",
                got=f"from {data.min()} to {data.max()}",
                hint="say dtype='int64'",
            )
    return oracle.cast(dtype, data) if dtype in FLOATS or data.dtype.kind != "f" else data


def stacked(*parts_and_static: Any) -> UOp:
    """Nodes of one shape joined along a new axis; the axis and the dtype come last."""
    *parts, axis, dtype = parts_and_static
    shape = parts[0].shape
    grown = (*shape[:axis], 1, *shape[axis:])
    return concat([reshape(cast(u, dtype), grown) for u in parts], axis)


def duplicate(x: Array) -> Array:
    """The same values in memory of their own."""
    if x.trace is not None:
        return alias(x, x.shape, x.weak_type)
    made: Array = bind.face().asarray(np.array(bind.face().read(x.concrete())))
    made.weak_type = x.weak_type
    return made


def copy(x: ArrayLike) -> Array:
    """The same values in memory of their own."""
    return duplicate(array_of("copy", x))


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False) -> Array:
    """The values in another dtype; float to integer truncates and saturates, NaN becomes 0.

    Raises:
        DTypeError: if there is no such dtype.
    """
    x = array_of("astype", x)
    wanted = canonical(dtype)
    if wanted == x.dtype:
        return duplicate(x) if copy else alias(x, x.shape) if x.weak_type else x
    result: Array = bind.bind(Op.CAST, x, arg=wanted)
    return result


def full(shape: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """One value everywhere.

    Example:
        >>> full((2,), 7, "int8")
        Array([7, 7], dtype=int8)
    """
    sizes = a_shape("full", shape)
    kind = scalar_kind(fill_value)
    if kind is not None:
        wanted = kind if dtype is None else canonical(dtype)
        return make(_constant, fill_value, wanted, sizes, weak=dtype is None and kind != BOOL)
    value = array_of("full", fill_value)
    broadcast_shape("full", value.shape, sizes)
    return apply(fit, (value,), value.dtype if dtype is None else canonical(dtype), sizes)


def _constant(value: Any, dtype: DType, shape: Shape) -> UOp:
    return const(oracle.cast(dtype, np.asarray(value))[()], dtype, shape)


def zeros(shape: Any, dtype: DTypeLike | None = None) -> Array:
    """All zeros, float32 unless said otherwise."""
    return make(
        _constant, 0, FLOAT32 if dtype is None else canonical(dtype), a_shape("zeros", shape)
    )


def ones(shape: Any, dtype: DTypeLike | None = None) -> Array:
    """All ones, float32 unless said otherwise."""
    return make(
        _constant, 1, FLOAT32 if dtype is None else canonical(dtype), a_shape("ones", shape)
    )


def empty(shape: Any, dtype: DTypeLike | None = None) -> Array:
    """All zeros: there is no array without values."""
    return zeros(shape, dtype)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None
) -> Array:
    """One value everywhere, in the shape and dtype of `x`."""
    kind, sizes = _like("full_like", x, dtype, shape)
    return full(sizes, fill_value, kind)


def zeros_like(x: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None) -> Array:
    """All zeros, in the shape and dtype of `x`."""
    return full_like(x, 0, dtype, shape)


def ones_like(x: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None) -> Array:
    """All ones, in the shape and dtype of `x`."""
    return full_like(x, 1, dtype, shape)


def empty_like(x: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None) -> Array:
    """All zeros, in the shape and dtype of `x`."""
    return full_like(x, 0, dtype, shape)


def _like(name: str, x: Any, dtype: DTypeLike | None, shape: Any) -> tuple[DType, Shape]:
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):  # a ShapeDtypeStruct will do
        x = array_of(name, x)
    kind = canonical(x.dtype if dtype is None else dtype)
    return kind, tuple(x.shape) if shape is None else a_shape(name, shape)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: DTypeLike | None = None) -> Array:
    """start, start + step, ... below stop; ``arange(n)`` counts from 0.

    Raises:
        ArgumentError: if the step is zero, or an argument is not known.

    Example:
        >>> arange(2, 8, 3)
        Array([2, 5], dtype=int32)
    """
    if stop is None:
        start, stop = 0, start
    first, last, by = (_number("arange", v) for v in (start, stop, 1 if step is None else step))
    if by == 0:
        raise ArgumentError("arange needs a step that is not zero")
    size = max(math.ceil((last - first) / by), 0)
    whole = all(isinstance(v, int) for v in (first, last, by))
    given = [v.dtype for v in (start, stop, step) if isinstance(v, (Array, np.generic, np.ndarray))]
    kind = FLOAT32 if not whole else INT32
    if dtype is not None:
        kind = canonical(dtype)
    elif given:
        kind = np.result_type(*given) if whole else next((d for d in given if d in FLOATS), FLOAT32)
    return make(_arange, size, first, by, kind)


def _number(name: str, value: Any) -> Any:
    """A known number as Python's int or float."""
    if isinstance(value, (Array, np.generic, np.ndarray)):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise ArgumentError(f"{name} needs numbers", got=repr(value)[:80])
    return int(value) if isinstance(value, bool) else value


def _arange(size: int, first: Any, by: Any, dtype: DType) -> UOp:
    if dtype in FLOATS:  # counted in 64 bits, so that long ranges do not drift
        line = iota((size,), 0, FLOAT64) * float(by) + float(first)
        return cast(line, dtype)
    line = iota((size,), 0, dtype if dtype.itemsize >= 4 else INT32)
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
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`; with `retstep`, also their distance.

    Example:
        >>> linspace(0, 1, 5)
        Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    count = as_index(num)
    if count < 0:
        raise ArgumentError("linspace needs a number of samples that is not negative", got=str(num))
    operands, kind, _ = together("linspace", start, stop, floating=True)
    shape = broadcast_shape("linspace", *[x.shape for x in operands])
    wanted = kind if dtype is None else canonical(dtype)
    line = apply(_linspace, operands, count, bool(endpoint), kind, wanted, shape, axis)
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
    wanted: DType,
    shape: Shape,
    axis: int,
) -> UOp:
    sizes = (count, *shape)
    parts = max(count - endpoint, 1)
    at = iota(sizes, 0, dtype if dtype in (FLOAT32, FLOAT64) else FLOAT32) / parts
    low, high = fit(start, at.dtype, sizes), fit(stop, at.dtype, sizes)
    line = low * (1 - at) + high * at
    if endpoint and count > 1:
        line = choose(at < 1, line, high)
    if wanted not in FLOATS:
        line = build.unary(Op.FLOOR, line)
    return cast(moveaxis(line, 0, axis % len(sizes)), wanted)


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers whose logarithms are evenly spaced."""
    exponents = linspace(start, stop, num, endpoint)
    result = apply(_to_the_power, (exponents,), float(base))
    return result if dtype is None else astype(result, dtype)


def _to_the_power(exponent: UOp, base: float) -> UOp:
    return UOp(Op.POW, (build.full_like(exponent, base), exponent))


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones on the k-th diagonal, zeros elsewhere."""
    shape = a_shape("eye", (N, N if M is None else M))
    return make(_eye, shape, as_index(k), FLOAT32 if dtype is None else canonical(dtype))


def _eye(shape: Shape, k: int, dtype: DType) -> UOp:
    return cast(build.eq(iota(shape, 0) + k, iota(shape, 1)), dtype)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones at and below the k-th diagonal, zeros above."""
    shape = a_shape("tri", (N, N if M is None else M))
    return make(_tri, shape, as_index(k), FLOAT32 if dtype is None else canonical(dtype))


def _tri(shape: Shape, k: int, dtype: DType) -> UOp:
    return cast(below(shape, k), dtype)


def below(shape: Shape, k: int) -> UOp:
    """Whether an element of the last two axes is at or below the k-th diagonal."""
    rows, columns = iota(shape, len(shape) - 2), iota(shape, len(shape) - 1)
    return columns <= rows + k


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangle; zeros above the k-th diagonal."""
    return _triangle("tril", m, k, True)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangle; zeros below the k-th diagonal."""
    return _triangle("triu", m, k - 1, False)


def _triangle(name: str, m: ArrayLike, k: int, lower: bool) -> Array:
    m = array_of(name, m)
    if m.ndim < 2:
        raise ShapeError(f"{name} needs at least two axes", got=str(m.shape))
    return apply(_masked, (m,), as_index(k), lower)


def _masked(m: UOp, k: int, lower: bool) -> UOp:
    inside, zero = below(m.shape, k), build.full_like(m, 0)
    return choose(inside, m, zero) if lower else choose(inside, zero, m)


def meshgrid(*xs: ArrayLike, indexing: str = "xy", sparse: bool = False) -> list[Array]:
    """Coordinate arrays of the grid that vectors span.

    Raises:
        ArgumentError: unless `indexing` is "xy" or "ij" and each vector has one axis at most.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError("meshgrid needs indexing 'xy' or 'ij'", got=repr(indexing))
    lines = [array_of("meshgrid", x) for x in xs]
    if any(x.ndim > 1 for x in lines):
        raise ArgumentError("meshgrid needs vectors", got=", ".join(str(x.shape) for x in lines))
    order = [1, 0, *range(2, len(lines))] if indexing == "xy" and len(lines) > 1 else None
    axes = order or list(range(len(lines)))
    sizes = [x.size for x in lines]
    shape = tuple(sizes[axis] for axis in axes)
    grids = []
    for x, axis in zip(lines, axes):
        thin = tuple(x.size if i == axis else 1 for i in range(len(lines)))
        grids.append(apply(_grid, (x,), thin, thin if sparse else shape))
    return grids


def _grid(x: UOp, thin: Shape, shape: Shape) -> UOp:
    return build.expand(reshape(x, thin), shape)


def from_dlpack(x: Any) -> Array:
    """The array of another library, without a copy where alignment allows."""
    return array_of("from_dlpack", np.from_dlpack(x))
