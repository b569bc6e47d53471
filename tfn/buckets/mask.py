"""Masking rules: the table `MASK`, one row per op; see `scope`.

Ops whose axes are independent have the row `pointwise`, also along axes that are padded: an element
of the tail is computed from elements of the tail alone, and an element that is right from those
that are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfn.buckets import lookup, loops, movement
from tfn.buckets.scope import Padded, Row, Rule, Scope, Size
from tfn.dtypes import FLOAT32, FLOAT64
from tfn.exporting.symbolic_dims import Polynomial, Ratio
from tfn.extend import Op, UOp, argument, build, const
from tfn.trace.op import ELEMENTWISE, LOOPS, PARTS


def pointwise(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """The same op on padded operands."""
    return UOp(row.node.op, tuple([s.node for s in src]), row.node.arg)


def keeps_zero(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """The same, of an op that gives zero of zeros."""
    zero = frozenset.intersection(*(s.zero for s in src))
    return Padded(pointwise(scope, row, src), row.shape, zero)


def exact(scope: Scope, row: Row, src: list[Any]) -> Any:
    """An op that takes and gives arrays of their true sizes only."""
    operands = [s for s in src if isinstance(s, Padded)]
    padded = any(s.open for s in operands) or any(isinstance(n, Polynomial) for n in row.shape)
    if padded or len(operands) < len(src):
        raise scope.refuse(row, src, "takes arrays of their true sizes only")
    made = pointwise(scope, row, src)
    several = row.node.op in (Op.HOST, Op.KERNEL)
    return build.several(made) if several else made


def constant(scope: Scope, row: Row, src: list[Any]) -> UOp:
    """A value that may be a size, or a number divided by one."""
    u, bits = row.node, row.arg.bits
    if not isinstance(bits, Ratio):
        return u
    # A quotient of numbers that float32 holds is rounded as the constant is.
    wide = FLOAT64 if u.dtype == FLOAT64 else FLOAT32
    value = scope.number(bits.polynomial)
    if bits.over:
        value = const(bits.over, wide) / build.cast(value, wide)
    return build.broadcast_in_dim(build.cast(value, u.dtype), u.shape, ())


def expand(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """Axes of size 1 repeated: a tail that was zero stays zero."""
    (x,) = src
    return Padded(pointwise(scope, row, src), row.shape, x.zero)


def permute(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """Axes in another order."""
    zero = frozenset(i for i, axis in enumerate(row.node.arg) if axis in src[0].zero)
    return Padded(pointwise(scope, row, src), row.shape, zero)


def reduce(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """A reduction, with its identity in place of the tail."""
    (x,), arg = src, row.node.arg
    return UOp(Op.REDUCE, (scope.filled(x, arg.axes, build.identity(arg.op, x.node.dtype)),), arg)


def dot(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """A contraction, with zeros in place of the tails of both: zero times NaN is not zero."""
    (a, b), arg = src, row.node.arg
    rows = scope.filled(a, arg.contract_a, 0), scope.filled(b, arg.contract_b, 0)
    return UOp(Op.DOT, rows, arg)


def conv(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """A convolution, with zeros in place of tails, as in the padding."""
    (x, w), arg, last = src, row.node.arg, len(row.shape) - 1
    groups, space = row.arg.groups, range(1, last)
    # Groups are the major part of channels: as many as a size, they are in front of the tail too.
    whole = groups == 1 or _is_multiple(x.shape[last], groups)
    whole = whole and _is_multiple(w.shape[last], groups)
    summed = [] if isinstance(groups, Polynomial) else [last]
    if not whole or (groups != 1 and last - 1 in w.open) or (arg.batch_groups > 1 and 0 in x.open):
        raise scope.refuse(row, src, "divides a padded axis into groups")
    if any(isinstance(low, Polynomial) for low, _ in row.arg.padding):
        if min(n for pair in arg.padding for n in pair) < 0:
            raise scope.refuse(row, src, "begins at a place that depends on a size")
        alone = (1,) * len(space)
        x = _padded(scope, row, x)
        arg = replace(arg, padding=((0, 0),) * len(space), dilation_x=alone)
    operands = scope.filled(x, [*space, *summed], 0), scope.filled(w, range(last), 0)
    return UOp(Op.CONV, operands, arg)


def _padded(scope: Scope, row: Row, x: Padded) -> Padded:
    """The operand of a convolution with the zeros around and between its elements."""
    zero = const(0, x.node.dtype)
    between = (0, *(n - 1 for n in row.node.arg.dilation_x), 0)
    (low, high), true = (
        tuple(zip((0, 0), *arg.padding, (0, 0), strict=True)) for arg in (row.node.arg, row.arg)
    )
    pad = argument.Pad(low, high, between)
    arg = argument.Pad(true[0], true[1], between)
    sides = zip(x.shape, arg.low, arg.high, between, strict=True)
    shape = tuple([n + before + after + (n - 1) * inner for n, before, after, inner in sides])
    made = Row(UOp(Op.PAD, (x.node, zero), pad), arg, shape, row.line, ())
    return movement.pad(scope, made, [x, Padded(zero, ())])


def _is_multiple(size: Size, groups: Size) -> bool:
    """Whether a size is so many groups of elements whose number is known."""
    if isinstance(groups, int):
        return isinstance(size, int) or groups == 1
    if isinstance(size, int):
        return False
    ratios = {a // b for _, a in size.terms for _, b in groups.terms if b and a % b == 0}
    return any(size == groups * k for k in ratios)


def fft(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """A transform along axes that are not padded."""
    rank = len(row.shape)
    if any(axis >= rank - len(row.arg.lengths) for axis in src[0].open):
        raise scope.refuse(row, src, "transforms a padded axis")
    return pointwise(scope, row, src)


def sort(scope: Scope, row: Row, src: list[Padded]) -> list[UOp]:
    """A sort that puts the tail last: it is stable, so that equal elements come before it."""
    arg, last = row.node.arg, len(src[0].shape) - 1
    end = lookup.last_in_order if arg.largest is None else lookup.first_in_order
    operands = [
        scope.filled(s, [last], end(s.node.dtype)) if i < arg.keys else s.node
        for i, s in enumerate(src)
    ]
    return build.several(UOp(Op.SORT, tuple(operands), arg))


def get(scope: Scope, row: Row, src: list[Any]) -> Any:
    """One of several results."""
    return src[0][row.node.arg]


# fmt: off
KEEP_ZERO = {
    Op.NEG, Op.ABS, Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.SQRT, Op.SIN, Op.TANH, Op.CAST,
    Op.DETACH, Op.ADD, Op.SUB, Op.GBARRIER, Op.REAL, Op.IMAG, Op.COMPLEX,
}
"""The ops that give zero of zeros."""

MASK: dict[Op, Rule] = {
    **dict.fromkeys(ELEMENTWISE | PARTS | {Op.GBARRIER}, pointwise),
    **dict.fromkeys(KEEP_ZERO, keeps_zero),
    Op.CONST: constant,
    Op.IOTA: pointwise,

    Op.RESHAPE: movement.reshape,
    Op.PERMUTE: permute,
    Op.EXPAND: expand,
    Op.PAD: movement.pad,
    Op.SHRINK: movement.shrink,
    Op.FLIP: movement.flip,
    Op.CONCAT: movement.concat,

    Op.REDUCE: reduce,
    Op.DOT: dot,
    Op.CONV: conv,
    Op.FFT: fft,
    Op.GATHER: lookup.gather,
    Op.SCATTER: lookup.scatter,
    Op.SORT: sort,

    **dict.fromkeys(LOOPS | {Op.CUSTOM}, loops.rule),
    Op.TUPLE: lambda scope, row, src: src,
    Op.GET: get,
    Op.AFTER: pointwise,

    **dict.fromkeys((Op.HOST, Op.KERNEL, Op.AXIS, Op.COLLECTIVE), exact),
    **dict.fromkeys((Op.SHARD, Op.UNSHARD, Op.CONSTRAIN), exact),
}
# fmt: on
