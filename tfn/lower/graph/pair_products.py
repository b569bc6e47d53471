"""Complex products: one real contraction, in which the larger operand is read where it is.

The parts of the larger operand are neighbours in memory, along its last axis, which becomes twice
as long.  Only the smaller operand is rewritten, and the real contraction has as many terms as the
complex one.  Where the last axis is contracted, the smaller operand has a row for each part::

    a[m, k] b[n, k]  ->  stack((re, -im), (im, re))[2m, 2k]  b[n, 2k]  ->  c[2m, n]
                         re = c[0::2]    im = c[1::2]

Where it is not, the results are products with each part, which are added in the end::

    a[m, k] b[k, n]  ->  stack(re, im)[2m, k]  b[k, 2n]  ->  c[2m, 2n]
                         re = c[0::2, 0::2] - c[1::2, 1::2]    im = c[0::2, 1::2] + c[1::2, 0::2]
"""

from __future__ import annotations

from collections.abc import Callable

from tfn._support.frozen import frozen
from tfn.dtypes import part
from tfn.lower.math import complex_functions
from tfn.lower.math.complex_functions import Pair
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

Interleave = Callable[[Pair], UOp]
"""Gives the two parts of a pair along a new last axis."""


@frozen
class _Operand:
    """An operand of a contraction, and which of its axes are batched and contracted."""

    pair: Pair
    batch: Shape
    contract: Shape

    @property
    def shape(self) -> Shape:
        return self.pair.re.shape

    @property
    def free(self) -> Shape:
        taken = {*self.batch, *self.contract}
        return tuple(i for i in range(len(self.shape)) if i not in taken)


def dot(node: UOp, a: Pair, b: Pair, interleave: Interleave) -> Pair:
    """The contraction of two pairs that a complex DOT asks for."""
    arg, dtype = node.arg, part(node.arg.dtype)
    x, y = _Operand(a, arg.batch_a, arg.contract_a), _Operand(b, arg.batch_b, arg.contract_b)
    terms = build.count(tuple(x.shape[i] for i in x.contract))
    if terms == 1:
        return _outer(node, x, y)
    if not terms or not build.count(node.shape):
        zeros = build.zeros(node.shape, dtype)
        return Pair(zeros, zeros)
    x_is_large = build.count(x.shape) > build.count(y.shape)
    large, small = (x, y) if x_is_large else (y, x)
    array, wide = _with_neighbours(large, interleave)
    rows = [small.pair.re, small.pair.im]
    if wide in large.contract:
        axis = small.contract[large.contract.index(wide)]
        re, im = small.pair
        rows = [_woven(re, -im, axis), _woven(im, re, axis)]
    if small.free:
        joined = small.free[0]
    else:  # an axis for the parts alone
        joined = len(small.shape)
        rows = [build.reshape(u, (*u.shape, 1)) for u in rows]
    both = _woven(rows[0], rows[1], joined)
    contract, batch = (x.contract, y.contract), (x.batch, y.batch)
    operands = (array, both) if x_is_large else (both, array)
    product = build.dot(*operands, contract, batch, dtype)
    # Axes of the result: those of the batch, the free ones of the first and of the second.
    of_small = len(batch[0]) + (len(large.free) if x_is_large else 0)
    parts = [_every_second(product, of_small, i) for i in range(2)]
    if wide not in large.contract:
        of_large = len(batch[0]) + (0 if x_is_large else max(1, len(small.free)))
        at = of_large + large.free.index(wide)
        (rr, ri), (ir, ii) = ([_every_second(u, at, i) for i in range(2)] for u in parts)
        parts = [rr - ii, ri + ir]
    return Pair(*(build.reshape(u, node.shape) for u in parts))


def _outer(node: UOp, x: _Operand, y: _Operand) -> Pair:
    """A contraction without a sum: each element of one is multiplied by each of the other."""
    first, dtype = len(x.batch), part(node.arg.dtype)

    def spread(operand: _Operand, begin: int) -> Pair:
        dims = (*range(first), *range(begin, begin + len(operand.free)))
        order = (*operand.batch, *operand.free, *operand.contract)
        sizes = tuple(node.shape[i] for i in dims)
        parts = (build.reshape(build.permute(u, order), sizes) for u in operand.pair)
        return Pair(
            *(build.broadcast_in_dim(build.cast(u, dtype), node.shape, dims) for u in parts)
        )

    return complex_functions.multiply(spread(x, first), spread(y, first + len(x.free)))


def _with_neighbours(operand: _Operand, interleave: Interleave) -> tuple[UOp, int]:
    """An operand with its parts as neighbours along one of its axes, and that axis."""
    base, order = operand.pair, tuple(range(len(operand.shape)))
    if base.re.op is Op.PERMUTE and base.im.op is Op.PERMUTE and base.re.arg == base.im.arg:
        order = base.re.arg
        base = Pair(base.re.src[0], base.im.src[0])
    wide = order.index(len(order) - 1)
    if wide in operand.batch:  # a copy, in which a contracted axis comes last
        wide = operand.contract[-1]
        kept = (*(i for i in range(len(order)) if i != wide), wide)
        base = Pair(*(build.permute(u, kept) for u in operand.pair))
        order = tuple(kept.index(i) for i in range(len(kept)))
    array = interleave(base)
    array = build.reshape(array, (*array.shape[:-2], 2 * array.shape[-2]))
    return build.permute(array, order), wide


def _woven(a: UOp, b: UOp, axis: int) -> UOp:
    """Elements of two arrays in turns along an axis."""
    apart = (*a.shape[: axis + 1], 1, *a.shape[axis + 1 :])
    both = build.concat([build.reshape(u, apart) for u in (a, b)], axis + 1)
    return build.reshape(both, (*a.shape[:axis], 2 * a.shape[axis], *a.shape[axis + 1 :]))


def _every_second(u: UOp, axis: int, i: int) -> UOp:
    """Elements i, i + 2, ... of an axis."""
    start, step = (
        [k if j == axis else other for j in range(u.ndim)] for k, other in ((i, 0), (2, 1))
    )
    return build.shrink(u, tuple(start), u.shape, tuple(step))
