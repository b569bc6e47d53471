"""Operands of `tfn.lax`: arrays of one dtype, and Python scalars that take it.

Nothing is promoted.  A Python scalar takes the dtype of the array beside it, and a scalar is
repeated to its shape; apart from that, shapes and dtypes must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import dtypes
from tfn.array import Array, ArrayLike
from tfn.dtypes import DType
from tfn.eager.arrays import weaken
from tfn.eager.operands import apply, number_as
from tfn.eager.run import asarray
from tfn.errors import DTypeError
from tfn.numpy.creation import make
from tfn.trace.bind import bind, innermost
from tfn.trace.build import broadcast_to
from tfn.trace.concretization import show as show
from tfn.trace.op import COMPARE, Op, Shape
from tfn.trace.uop import UOp, const, reshaped

_RANK = {bool: 0, int: 1, float: 2, complex: 3}

_HOLDS = {0: {dtypes.BOOL}, 1: dtypes.INTEGERS, 2: dtypes.FLOATS, 3: dtypes.COMPLEXES}
"""The dtypes whose arrays accept a Python number of a rank in `_RANK`, and of lower ranks."""


def array(x: ArrayLike) -> Array:
    """One operand; a Python scalar takes its default dtype."""
    return asarray(x)


def arrays(*values: ArrayLike) -> list[Array]:
    """Operands, of which Python scalars take the dtype of the first array.

    Raises:
        DTypeError: if a Python scalar has no value in that dtype.
    """
    operands = [v if isinstance(v, (bool, int, float, complex)) else asarray(v) for v in values]
    existing = [v for v in operands if isinstance(v, Array)]
    if existing:
        return [v if isinstance(v, Array) else scalar(v, existing[0]) for v in operands]
    kind = max((type(v) for v in values), key=lambda t: _RANK.get(t, 2))
    return [asarray(v, dtypes.DEFAULTS.get(kind, dtypes.DEFAULTS[float])) for v in values]


def scalar(value: object, like: Array, dtype: DType | None = None) -> Array:
    """A Python scalar with the dtype of `like`, unless another is given.

    Inside the trace of `like` it is a constant of the program; outside it is an operand, so that
    new values never recompile.  Its dtype is weak: results are weak if those of all arrays are.

    Raises:
        DTypeError: if the scalar has no value in that dtype.
    """
    dtype = like.dtype if dtype is None else dtype
    allowed = next(rank for rank, some in _HOLDS.items() if dtype in some)
    if _RANK.get(type(value), 2) > allowed:
        raise DTypeError(
            f"{value!r} has no value in {dtype.name}",
            got=f"{show(like)} and {value!r}",
            hint="tfn.lax does not promote: cast the array, or use tfn.numpy",
        )
    return weaken(number_as(value, dtype, innermost([like])), True)


def together(op: Op, *operands: Array) -> Array:
    """An elementwise op; scalars are repeated to the shape of the others.

    So are sizes of 1, for two operands of as many axes.
    """
    shape = max((x.shape for x in operands), key=len)
    pair = tuple(x.shape for x in operands)
    if len(pair) == 2 and pair[0] != pair[1] and len(pair[0]) == len(pair[1]):
        sizes = list(zip(*pair, strict=True))
        if all(m == n or 1 in (m, n) for m, n in sizes):
            shape = tuple(n if m == 1 else m for m, n in sizes)
            return apply(_repeated, operands, op, shape, weak=_weak(op, operands))
    if any(x.shape != shape and x.shape == () for x in operands):
        return apply(_repeated, operands, op, shape, weak=_weak(op, operands))
    out: Array = bind(op, *operands, weak=_weak(op, operands))
    return out


def binary_of(op: Op, body: Callable[[UOp, UOp], UOp], x: Array, y: Array) -> Array:
    """An op of two operands; of complex ones, which it does not take, a function of nodes."""
    if x.dtype not in dtypes.COMPLEXES:
        return together(op, x, y)
    shape = together(Op.ADD, x, y).shape  # its errors are those of every op of two operands
    return apply(_of_complex, [x, y], body, shape, weak=_weak(op, [x, y]))


def _of_complex(x: UOp, y: UOp, body: Callable[[UOp, UOp], UOp], shape: Shape) -> UOp:
    return body(broadcast_to(x, shape), broadcast_to(y, shape))


def _weak(op: Op, operands: Sequence[Array]) -> bool:
    """Whether the result of an op has a weak dtype: if those of all its numbers are."""
    values = operands[op is Op.WHERE :]
    return op not in COMPARE and all(x.weak_type for x in values)


def _repeated(*operands_and_static: Any) -> UOp:
    *operands, op, shape = operands_and_static
    return UOp(op, tuple(u if u.shape == shape else repeated(u, shape) for u in operands))


def repeated(u: UOp, shape: Shape) -> UOp:
    """A scalar node everywhere in a shape."""
    if u.op is Op.CONST:
        return reshaped(u, shape)
    return broadcast_to(u, shape)


def expand(x: Array, shape: Shape) -> Array:
    """A scalar everywhere in a shape."""
    return x if x.shape == shape else apply(repeated, [x], shape)


def literal(
    value: object, dtype: DType, shape: Shape = (), near: Sequence[Array] | None = None
) -> Array:
    """`value` everywhere, in the trace of `near`, or else in the innermost trace that runs."""
    if near is None:
        return make(_constant, dtypes.as_number_of(dtype, value), dtype, shape)
    return expand(number_as(value, dtype, innermost(near)), shape)


def _constant(value: Any, dtype: DType, shape: Shape) -> UOp:
    return const(value, dtype, shape)
