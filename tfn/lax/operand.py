"""What a function of lax accepts: arrays of one dtype, and Python scalars that take it.

Nothing is promoted here.  A Python scalar takes dtype and shape of the array beside it: inside a
trace it becomes a constant of the program, outside an operand, so that new values never recompile.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from tfn import dtypes
from tfn.array import Array, ArrayLike
from tfn.dtypes import SHORT, DType
from tfn.errors import ArgumentError, AxisError, DTypeError
from tfn.run import asarray, wrap
from tfn.trace import bind as tracing
from tfn.trace.bind import Trace, bind
from tfn.trace.op import Op, Shape
from tfn.trace.uop import const

Axes = int | Sequence[int] | None

_RANK = {bool: 0, int: 1, float: 2}


def show(x: Array) -> str:
    """An operand as messages name it: ``f32[64,128]``."""
    return f"{SHORT[x.dtype]}[{','.join(map(str, x.shape))}]"


def literal(
    value: Any, dtype: DType, shape: Shape = (), near: Sequence[Array] | None = None
) -> Array:
    """`value` everywhere: a constant of the trace of `near`, or an array made now.

    Without `near`, it belongs to the innermost trace that runs.
    """
    trace: Trace | None
    if near is None:
        running = tracing.traces()
        trace = running[-1] if running else None
    else:
        trace = tracing.innermost(near)
    if trace is not None:
        return wrap(const(value, dtype, shape), trace, True)
    return expand(asarray(value, dtype), shape)


def expand(x: Array, shape: Shape) -> Array:
    """A scalar repeated to a shape."""
    if shape == x.shape:
        return x
    ones: Array = bind(Op.RESHAPE, x, arg=(1,) * len(shape))
    return ones if ones.shape == shape else bind(Op.EXPAND, ones, arg=shape)


def array(x: ArrayLike) -> Array:
    """One operand; a Python scalar takes its default dtype."""
    return asarray(x)


def arrays(*values: ArrayLike) -> list[Array]:
    """Operands, of which Python scalars take the dtype and shape of the first array.

    A scalar array is repeated to the shape of the others.

    Raises:
        DTypeError: if a Python scalar has no value in that dtype.
    """
    given = [asarray(v) if not isinstance(v, (bool, int, float)) else v for v in values]
    known = [v for v in given if isinstance(v, Array)]
    if not known:
        kind = max((type(v) for v in values), key=lambda t: _RANK.get(t, 2))
        return [asarray(v, dtypes.DEFAULTS.get(kind, dtypes.FLOAT32)) for v in values]
    widest = max(known, key=lambda x: len(x.shape))
    return [
        _repeat(v, widest.shape) if isinstance(v, Array) else scalar(v, widest, known[0].dtype)
        for v in given
    ]


def _repeat(x: Array, shape: Shape) -> Array:
    return expand(x, shape) if x.shape == () else x


def scalar(value: ArrayLike, like: Array, dtype: DType | None = None,
           shape: Shape | None = None) -> Array:  # fmt: skip
    """A Python scalar with the dtype and the shape of `like`, unless others are given.

    Raises:
        DTypeError: if the scalar has no value in that dtype.
    """
    dtype = like.dtype if dtype is None else dtype
    allowed = 2 if dtype in dtypes.FLOATS else 1 if dtype in dtypes.INTEGERS else 0
    if _RANK.get(type(value), 2) > allowed:
        raise DTypeError(
            f"{value!r} has no value in {dtype.name}", got=f"{show(like)} and {value!r}",
            hint="tfn.lax does not promote: cast the array, or use tfn.numpy",
        )  # fmt: skip
    return literal(value, dtype, like.shape if shape is None else shape, [like])


def shape_of(shape: int | Sequence[SupportsIndex]) -> Shape:
    """A shape as a tuple of ints.

    Raises:
        ArgumentError: if a size is negative.
    """
    sizes = (shape,) if isinstance(shape, int) else shape
    found = tuple(operator.index(n) for n in sizes)
    if any(n < 0 for n in found):
        raise ArgumentError("sizes of axes cannot be negative", got=str(found))
    return found


def axis_of(x: Array, axis: int) -> int:
    """An axis counted from the left.

    Raises:
        AxisError: if the array does not have it.
    """
    n = len(x.shape)
    if not -n <= axis < n:
        raise AxisError(f"there is no axis {axis}", got=show(x))
    return axis % n


def axes_of(x: Array, axes: Axes) -> Shape:
    """Axes counted from the left, in order; None means all.

    Raises:
        AxisError: if the array does not have one of them, or one is named twice.
    """
    if axes is None:
        return tuple(range(len(x.shape)))
    found = sorted(axis_of(x, a) for a in ((axes,) if isinstance(axes, int) else axes))
    if len(set(found)) != len(found):
        raise AxisError("an axis is named twice", got=f"{show(x)}, {axes}")
    return tuple(found)
