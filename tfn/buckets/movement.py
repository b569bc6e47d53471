"""Masking rules of ops that move elements.

Where elements stay at their places, or all move by a number that is known, the op is the same on
padded arrays.  Where they move by a true size, they are looked up at places that are computed from
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfn.buckets.scope import Padded, Row, Scope, Size
from tfn.exporting.symbolic_dims import Polynomial
from tfn.extend import Op, UOp, build, const


def take(x: UOp, index: UOp, axis: int) -> UOp:
    """Elements at places along an axis; see `Gather` for those that are not there."""
    front = build.moveaxis(x, axis, 0)
    indices = build.reshape(index, (*index.shape, 1))
    rows = build.gather(front, indices, (1, *front.shape[1:]))
    return build.moveaxis(build.reshape(rows, (*index.shape, *front.shape[1:])), 0, axis)


def _spread(scalar: UOp, like: UOp) -> UOp:
    return build.broadcast_in_dim(scalar, like.shape, ())


def _line(scope: Scope, size: int, *others: Size) -> UOp:
    """0, 1, ... in a dtype that holds the other sizes as well."""
    return build.iota((size,), 0, scope.dtype([size, *others]))


def pad(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """Padding behind the true end of each axis: its value takes the place of the tail."""
    (x, value), u = src, row.node
    low, high, interior = list(u.arg.low), list(u.arg.high), list(u.arg.interior)
    node, moved, zero = x.node, set[int](), set[int]()
    is_zero = value.node.op is Op.CONST and value.node.arg.bits == 0
    ends: list[tuple[int, UOp]] = []
    for axis, (before, between) in enumerate(zip(row.arg.low, row.arg.interior, strict=True)):
        size = x.shape[axis]
        if isinstance(between, Polynomial):
            raise scope.refuse(row, src, "puts as many elements between as a size")
        if isinstance(before, Polynomial):  # the beginning is looked up
            moved.add(axis)
            place = _line(scope, u.shape[axis], size, before)
            place = place - _spread(scope.number(before, place.dtype), place)
            step = const(between + 1, place.dtype, place.shape)
            at, last = place // step, scope.number(size, place.dtype)
            inside = build.eq(at * step, place) & (at < _spread(last, at))
            node = take(node, at, axis)
            shape = node.shape
            mask = build.broadcast_in_dim(inside & (place >= 0), shape, (axis,))
            node = build.where(mask, node, _spread(value.node, node))
            low[axis] = high[axis] = interior[axis] = 0
        elif axis in x.open and not (is_zero and axis in x.zero):
            kind = scope.dtype([size, u.shape[axis]])
            end = scope.number(size, kind) * (between + 1) + (before - between)
            ends.append((axis, end))
        elif axis in x.open:
            zero.add(axis)
    node = build.pad(node, tuple(low), tuple(high), tuple(interior), value.node)
    for axis, end in ends:
        line = build.iota(node.shape, axis, end.dtype)
        node = build.where(line < _spread(end, line), node, _spread(value.node, node))
        if is_zero:
            zero.add(axis)
    return Padded(node, row.shape, frozenset(zero) & frozenset(Padded(node, row.shape).open))


def shrink(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """A slice; where it begins, or how it steps, may depend on a size."""
    (x,), u, arg = src, row.node, row.arg
    node, zero = x.node, set[int]()
    start, stop, step = list(u.arg.start), list(u.arg.stop), list(u.arg.step)
    for axis, sizes in enumerate(zip(arg.start, arg.step, strict=True)):
        if any(isinstance(n, Polynomial) for n in sizes):
            place = _line(scope, u.shape[axis], x.shape[axis], *sizes)
            first, by = (_spread(scope.number(n, place.dtype), place) for n in sizes)
            node = take(node, first + place * by, axis)
            start[axis], stop[axis], step[axis] = 0, u.shape[axis], 1
        elif axis in x.zero and arg.stop[axis] == x.shape[axis]:
            zero.add(axis)
    node = build.shrink(node, tuple(start), tuple(stop), tuple(step))
    return Padded(node, row.shape, frozenset(zero))


def flip(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """Axes counted backwards from their true ends."""
    (x,), axes = src, row.node.arg
    node = build.flip(x.node, [axis for axis in axes if axis not in x.open])
    for axis in axes:
        if axis in x.open:
            node = backwards(scope, node, axis, x.shape[axis])
    return node


def backwards(scope: Scope, x: UOp, axis: int, size: Size) -> UOp:
    """The elements below a true size in the other order."""
    place = _line(scope, x.shape[axis], size)
    return take(x, _spread(scope.number(size, place.dtype), place) - 1 - place, axis)


def concat(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """Arrays joined: elements behind a padded one are looked up in front of its tail."""
    axis = row.node.arg
    node = build.concat([s.node for s in src], axis)
    zero = frozenset.intersection(*(s.zero for s in src)) - {axis}
    if not any(axis in s.open for s in src[:-1]):
        last = {axis} & src[-1].zero
        return Padded(node, row.shape, zero | last)
    place = at = _line(scope, node.shape[axis], row.shape[axis])
    end = const(0, place.dtype)
    for s in src[:-1]:
        own = scope.number(s.shape[axis], place.dtype)
        end = end + own
        tail = const(s.node.shape[axis], place.dtype) - own
        at = at + build.cast(place >= _spread(end, place), place.dtype) * _spread(tail, place)
    return Padded(take(node, at, axis), row.shape, zero)


def reshape(scope: Scope, row: Row, src: list[Padded]) -> Padded:
    """Groups of axes that hold the same elements; where tails are between them, by places."""
    (x,), u = src, row.node
    if not u.size:
        return Padded(build.reshape(x.node, u.shape), row.shape)
    groups, zero = axis_groups(x.shape, row.shape), set[int]()
    node = build.reshape(x.node, tuple([prod(x.node.shape[i] for i in own) for own, _ in groups]))
    new = Padded(u, row.shape)
    for n, (ours, theirs) in enumerate(groups):
        if {*ours[1:]} & {*x.open} or {*theirs[1:]} & {*new.open}:
            node = take(node, _places(scope, x, ours, new, theirs), n)
        elif ours[0] in x.zero:
            zero.add(theirs[0])
    return Padded(build.reshape(node, u.shape), row.shape, frozenset(zero))


def _places(
    scope: Scope, x: Padded, ours: Sequence[int], new: Padded, theirs: Sequence[int]
) -> UOp:
    """The place in a group of padded axes of each element of another group of padded axes.

    The place of the result is split by padded sizes, and joined by true ones to the number of the
    element; that is split by the true sizes of the operand, and joined by its padded ones.
    """
    sizes = [x.shape[i] for i in ours] + [new.shape[i] for i in theirs]
    rest = line = _line(scope, prod(new.node.shape[i] for i in theirs), *sizes)
    number = build.zeros(line.shape, line.dtype)
    factor = const(1, line.dtype)
    for i in reversed(theirs):
        number = number + rest % new.node.shape[i] * _spread(factor, line)
        rest = rest // new.node.shape[i]
        factor = factor * scope.number(new.shape[i], line.dtype)
    place, stride = build.zeros(line.shape, line.dtype), 1
    for i in reversed(ours):
        size = build.maximum(scope.number(x.shape[i], line.dtype), const(1, line.dtype))
        digit = number if i == ours[0] else number % _spread(size, line)
        place = place + digit * stride
        number, stride = number // _spread(size, line), stride * x.node.shape[i]
    return place


def axis_groups(
    shape: Sequence[Size], other: Sequence[Size]
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Pairs of groups of axes of two shapes that hold the same elements, whatever the sizes are.

    Axes of size 1 are in none.
    """
    ours, theirs = ([i for i, n in enumerate(sizes) if n != 1] for sizes in (shape, other))
    ends, products = {Polynomial.constant(1): 0}, Polynomial.constant(1)
    for n, j in enumerate(theirs):
        products = products * other[j]
        ends[products] = n + 1
    groups: list[tuple[Sequence[int], Sequence[int]]] = []
    first = other_first = 0
    products = Polynomial.constant(1)
    for n, i in enumerate(ours):
        products = products * shape[i]
        end = ends.get(products)
        if end is not None:
            groups.append((ours[first : n + 1], theirs[other_first:end]))
            first, other_first = n + 1, end
    return groups
