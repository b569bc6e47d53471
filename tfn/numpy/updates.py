"""x.at[index]: new arrays with some elements changed, as one scatter."""

from __future__ import annotations

from typing import Any
from warnings import warn

import numpy as np

from tfn._support.validate import shown
from tfn.array import Array, ArrayLike
from tfn.config import config
from tfn.dtypes import BOOL, COMPLEXES, INEXACT, INT32, SHORT, DType, promote
from tfn.eager.operands import (
    apply,
    array_of,
    broadcast_shape,
    not_in_place,
    number_as,
    one_axis,
    scalar_kind,
    type_of,
)
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.numpy.arithmetic import divide, negative, power
from tfn.numpy.complex import real
from tfn.numpy.creation import astype
from tfn.numpy.creation import full_like as filled_like
from tfn.numpy.indexing import (
    axis_coordinates,
    check_mode,
    index_vectors,
    nonnegative,
    parse_with_mode,
    result_shape,
    starts_operand,
)
from tfn.trace import bind, build
from tfn.trace.build import cast, full_like, iota, permute, reshape, shrink
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Numbers = tuple[int, ...]
CUTS: list[bool] = [False]
"""Whether floats that are put into integers are cut, as JAX does with a warning; else an error."""

_COMBINE = {"set": Op.WHERE, "add": Op.ADD, "multiply": Op.MUL, "min": Op.MIN, "max": Op.MAX}


def update(
    x: ArrayLike, index: object, values: ArrayLike, how: str, mode: str | None = None
) -> Array:
    """A new array, as by ``x.at[index].set(values)`` and the other methods of `.at`.

    Args:
        x: array whose elements are replaced in the result.
        index: integers, slices, None, Ellipsis, index arrays, masks, or a tuple of these.
        values: array or number that broadcasts to the shape of ``x[index]``.
        how: name of the method: "set", "add", "subtract", "multiply", "divide", "power", "min" or
            "max".
        mode: indices outside: "clip" moves them to the border, "fill" and "drop" leave them out;
            None, the default, is an error for those known.

    Returns:
        An array of the shape of `x`.

    Raises:
        OutOfBoundsError: without a mode, if a static index is outside its axis.
        DTypeError: for floats put into integers.
        ShapeError: if the values do not broadcast to the indexed shape.
        ArgumentError: for another mode, or something that is no index.

    Example:
        >>> import tfn.numpy as tnp
        >>> update(tnp.zeros(3), 1, 5.0, "set")
        Array([0., 5., 0.], dtype=float32)
    """
    x = array_of("x.at", x)
    check_mode(mode)
    if how == "subtract":
        return update(x, index, negative(values), "add", mode)
    if how == "divide":
        return divide(x, update(filled_like(x, 1), index, values, "multiply", mode))
    if how == "power":
        return power(x, update(filled_like(x, 1), index, values, "multiply", mode))
    if CUTS[0] and _lost(x, values):
        return _cut(x, index, values, how, mode)
    values = _values(x, values)
    op = _COMBINE[how]
    if x.dtype == BOOL and op in (Op.ADD, Op.MUL):
        raise DTypeError(
            f".at[].{how} needs numbers", got=shown(x), hint="use .max for or, .min for and"
        )
    mask = _mask(x, index)
    if mask is not None and values.ndim <= x.ndim - mask.ndim:
        broadcast_shape("x.at[mask]", values.shape, x.shape[mask.ndim :])
        return apply(_masked, (x, values, mask), op, weak=x.weak_type)
    parsed, mode = parse_with_mode(x, index, mode)
    plan, starts = parsed.plan, parsed.starts
    if plan.grid and not parsed.points:
        raise ArgumentError(
            f"x.at[index].{how} takes a single truth alone, as x.at[truth].{how}",
            got=f"index={shown(index)}",
            hint="index with it first, then with the rest",
        )
    shape = result_shape(plan)
    if broadcast_shape(f"x.at[index].{how}", values.shape, shape) != shape:
        raise ShapeError(
            f"x.at[index].{how} needs values that broadcast to the indexed shape",
            got=f"values {values.shape}, x[index] {shape}",
            hint="values may have fewer axes, or axes of size 1",
        )
    operands = [x, values, *parsed.points]
    if starts and bind.innermost(operands) is None:
        operands.append(starts_operand(starts, config.device))
        return apply(_updated, operands, plan, None, op, mode, weak=x.weak_type)
    return apply(_updated, operands, plan, starts, op, mode, weak=x.weak_type)


def _values(x: Array, values: ArrayLike) -> Array:
    values = values if scalar_kind(values) is not None else array_of("x.at", values)
    if lost := _lost(x, values):
        raise DTypeError(
            lost,
            got=f"{SHORT[_kind(values)]} into {SHORT[x.dtype]}",
            hint="convert one of them with .astype",
        )
    if isinstance(values, Array):
        return values
    return number_as(values, x.dtype, bind.innermost([x]))


def _kind(values: ArrayLike) -> DType:
    kind = scalar_kind(values)
    return array_of("x.at", values).dtype if kind is None else kind


def _lost(x: Array, values: ArrayLike) -> str:
    """The parts of some values that the elements of `x` cannot hold."""
    kind = _kind(values)
    if kind in INEXACT and x.dtype not in INEXACT:
        return "floats cannot be put into an array of integers"
    if kind in COMPLEXES and x.dtype not in COMPLEXES:
        return "complex numbers cannot be put into an array of real ones"
    return ""


def _cut(x: Array, index: object, values: ArrayLike, how: str, mode: str | None) -> Array:
    """The update in the dtype of the values, whose results lose what `x` cannot hold."""
    warn(
        f"{_lost(x, values)}: they are cut; convert them with .astype",
        FutureWarning,
        stacklevel=4,
    )
    dtype, _ = promote((type_of(x), type_of(values)))
    wide = update(astype(x, dtype), index, values, how, mode)
    return astype(real(wide) if x.dtype not in COMPLEXES else wide, x.dtype)


def _mask(x: Array, index: object) -> Array | None:
    """The index, if it is one mask for the first axes of `x`."""
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if isinstance(index, (Array, np.ndarray)) and index.dtype == BOOL:
        return array_of("x.at", index) if index.shape == x.shape[: index.ndim] else None
    return None


def _combine(op: Op, x: UOp, values: UOp) -> UOp:
    return values if op is Op.WHERE else UOp(op, (x, values))


def _masked(x: UOp, values: UOp, mask: UOp, op: Op) -> UOp:
    inside = build.broadcast_in_dim(mask, x.shape, range(mask.ndim))
    values = build.broadcast_to(cast(values, x.dtype), x.shape)
    return build.where(inside, _combine(op, x, values), x)


def _updated(x: UOp, values: UOp, *rest: Any) -> UOp:
    *points, plan, starts, op, mode = rest
    begin = points.pop() if starts is None else None
    columns = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "strided"]
    windows = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "window"]
    gathered = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "gathered"]
    wholes = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "whole"]
    values = build.broadcast_to(cast(values, x.dtype), result_shape(plan))
    if 0 in values.shape:
        return x

    moving = gathered + columns + windows
    if not moving:  # the whole array, with new axes at most
        return _combine(op, x, reshape(values, x.shape))
    leading, wide = range(max(moving) + 1), {*windows, *wholes}

    # A scatter has the axes of the values in the order: grid, strided, windows and wholes.
    entries = [e for e in plan.entries if e != "new"]
    values = reshape(values, tuple(n for n, e in zip(values.shape, plan.entries) if e != "new"))
    order = [entries.index(f"grid{i}") for i in range(len(plan.grid))]
    order += [entries.index(a) for a in (*columns, *sorted(wide)) if a in entries]
    values = permute(values, order)

    lines = tuple(plan.axes[a].size for a in columns)
    grid = plan.grid + lines
    begins: dict[int, UOp] = dict.fromkeys(wholes, const(0, INT32))
    for u, axis in zip(points, gathered):
        u = nonnegative(u, x.shape[axis])
        if mode == "clip":
            u = build.minimum(build.maximum(u, full_like(u, 0)), full_like(u, x.shape[axis] - 1))
        begins[axis] = reshape(u, u.shape + (1,) * len(lines))
    for i, axis in enumerate(columns):
        axis_index = plan.axes[axis]
        steps = iota(grid, len(plan.grid) + i) * axis_index.step
        begins[axis] = steps + build.broadcast_to(_start(starts, begin, axis_index.slot), grid)
    for axis in windows:
        begins[axis] = _start(starts, begin, plan.axes[axis].slot)
    sizes = tuple(plan.axes[a].size if a in wide else 1 for a in leading)
    values = reshape(values, grid + sizes + x.shape[len(leading) :])
    at = index_vectors([begins[axis] for axis in leading], grid)
    return build.scatter(x, at, values, op)


def _start(starts: Numbers | None, begin: UOp | None, slot: int) -> UOp:
    if starts is not None:
        return const(starts[slot], build.index_dtype(starts[slot]))
    assert begin is not None
    return reshape(shrink(begin, (slot,), (slot + 1,)), ())


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = False,
    *,
    mode: str | None = None,
) -> Array:
    """A new array with the elements at indices along an axis replaced.

    Args:
        arr: array whose elements are replaced in the result.
        indices: integers, with as many axes as `arr`; those outside are left out.
        values: array or number, broadcast with `indices`.
        axis: the axis, counted from the end if negative; None takes the flat array.
        inplace: must be False: the result is a new array.
        mode: indices outside: "drop", the default, leaves them out, "clip" takes the border.

    Returns:
        An array of the shape and dtype of `arr`.

    Raises:
        ArgumentError: unless `inplace` is False, since arrays cannot be changed.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> put_along_axis(tnp.zeros((2, 2), "int32"), tnp.array([[1], [0]]), 9, 1).tolist()
        [[0, 9], [9, 0]]
    """
    not_in_place("put_along_axis", inplace)
    arr, places = array_of("put_along_axis", arr), array_of("put_along_axis", indices)
    if axis is None:
        flat = put_along_axis(arr.reshape(-1), places.reshape(-1), values, 0, mode=mode)
        return flat.reshape(arr.shape)
    axis = one_axis("put_along_axis", axis, arr.ndim)
    index = tuple(places if a == axis else axis_coordinates(arr, a) for a in range(arr.ndim))
    return update(arr, index, values, "set", mode or "drop")
