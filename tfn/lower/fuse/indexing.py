"""One kernel walked from its outputs: what each value is at an index, as arithmetic over ranges.

A demand is a node, the index at which it is wanted, and a gate that says when it is wanted at all.
A rule of `VALUE` is a generator: it yields demands for its sources and returns the value.  The
same demand is answered once, which is all the sharing there is.  Padding gates the loads beneath
it, so nothing is read out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from tfn._support.frozen import frozen, mutable
from tfn.dtypes import BOOL, INT32, INT64, DType
from tfn.lower.index.laws import implied, simplify
from tfn.trace import build
from tfn.trace.argument import Fold, Param, Range
from tfn.trace.op import ELEMENTWISE, Op, Shape
from tfn.trace.uop import UOp, const, reshaped

Index = tuple[UOp, ...]
Demand = tuple[UOp, Index, UOp | None]
Steps = Generator[Demand, UOp, UOp]
Rule = Callable[["Walker", UOp, Index, UOp | None], Steps]


FEW = 1 << 30
"""Positions among fewer elements are 32-bit integers, with room for those of lanes beyond."""


@frozen
class Stage:
    """A kernel over ranges, and what its parameters stand for.

    Attributes:
        body: SINK of stores; for a sort, the TUPLE of its results, which has a kernel of its own.
        operands: for each parameter of the body a barrier, or a parameter of the function.
        written: how many of the operands, the first ones, are outputs.
    """

    body: UOp
    operands: tuple[UOp, ...]
    written: int


@mutable
class Walker:
    """The state of one kernel's walk.

    Attributes:
        barriers: the kernel's outputs, which are transparent to its walk.
        operands: buffers in the order of their parameters; outputs come first.
        count: ranges made so far.
        given: what stands for an element of a parameter that is not a buffer.
    """

    barriers: Sequence[UOp]
    operands: dict[UOp, UOp] = field(default_factory=dict)
    answers: dict[Demand, UOp] = field(default_factory=dict)
    count: int = 0
    given: Callable[[UOp, Index, UOp | None], UOp] | None = None

    def __post_init__(self) -> None:
        for barrier in self.barriers:
            self.buffer(barrier)

    def buffer(self, node: UOp) -> UOp:
        """The parameter that stands for a materialised value, flat."""
        found = self.operands.get(node)
        if found is None:
            param = Param(len(self.operands), (build.count(node.shape),), node.dtype)
            found = self.operands[node] = UOp(Op.PARAM, (), param)
        return found

    def range(self, size: int) -> UOp:
        """A new range; one of size 1 is the constant 0."""
        if size == 1:
            return const(0, INT64)
        self.count += 1
        return UOp(Op.RANGE, (), Range(self.count - 1, size))

    def axes(self, shape: tuple[int, ...]) -> Index:
        """A range for each axis."""
        return tuple(self.range(n) for n in shape)

    def finish(self, stores: Sequence[tuple[UOp, UOp, Index]]) -> Stage:
        """The stage that stores values at indices of barriers."""
        nodes = [
            UOp(Op.STORE, (self.buffer(b), flat(b.shape, index), value))
            for b, value, index in stores
        ]
        return Stage(UOp(Op.SINK, tuple(nodes)), tuple(self.operands), len(self.barriers))

    def value(self, node: UOp, index: Index, gate: UOp | None) -> UOp:
        """The node at an index, as a scalar over ranges."""
        answers = self.answers
        goal = (node, index, gate)
        stack: list[tuple[Demand, Steps]] = []
        if goal not in answers:
            stack.append((goal, self._rule(goal)))
        send: UOp | None = None
        while stack:
            demand, rule = stack[-1]
            try:
                wanted = rule.send(send)  # type: ignore[arg-type]
            except StopIteration as stop:
                answers[demand] = send = stop.value
                stack.pop()
                continue
            send = answers.get(wanted)
            if send is None:
                stack.append((wanted, self._rule(wanted)))
        return answers[goal]

    def _rule(self, demand: Demand) -> Steps:
        node, index, gate = demand
        if self.given is not None and node.op is Op.PARAM:
            return _known(self.given(node, index, gate))
        if node.op is Op.PARAM or (node.op is Op.GBARRIER and node not in self.barriers):
            return _load(self, node, index, gate)
        return VALUE[node.op](self, node, index, gate)


def _known(value: UOp) -> Steps:
    yield from ()
    return value


@lru_cache(maxsize=256)  # a kernel reads many values at one index
def flat(shape: tuple[int, ...], index: Index) -> UOp:
    """The row-major position of an index."""
    total = const(0, INT64)
    for n, i in zip(shape, index, strict=True):
        total = total * n + i
    return simplify(total)


def unflat(shape: tuple[int, ...], position: UOp) -> Index:
    """The index of a row-major position; of one beyond the last the first coordinate is beyond."""
    out: list[UOp] = []
    for n in shape[:0:-1]:
        out.append(simplify(position % n) if n > 1 else const(0, INT64))
        position = simplify(position // n) if n > 1 else position
    out += [position if n > 1 else const(0, INT64) for n in shape[:1]]
    return tuple(reversed(out))


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """Two gates at once."""
    if a is None or b is None:
        return a or b
    return simplify(a & b)


def within(index: UOp, low: int, high: int) -> UOp | None:
    """The gate ``low <= index < high``; None if it always holds."""
    at_least = const(low, INT64) <= index
    gate = simplify(at_least & (index < high))
    return None if gate is const(True, BOOL) else gate


def _load(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    yield from ()  # a generator like the others, though it wants nothing
    buffer, at = walker.buffer(node), flat(node.shape, index)
    if gate is None or (at.op is Op.CONST and node.size):  # what is there always needs no gate
        return UOp(Op.LOAD, (buffer, at))
    return UOp(Op.LOAD, (buffer, simplify(at, implied(gate)), gate))


def _elementwise(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    values = []
    for s in node.src:
        values.append((yield s, index, gate))
    return UOp(node.op, tuple(values), node.arg)


def _same(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    return (yield node.src[0], index, gate)


def _const(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    yield from ()
    return reshaped(node, ())


def _iota(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    yield from ()
    return build.cast(index[0], node.dtype)


def _reshape(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    source = node.src[0]
    new = [const(0, INT64)] * source.ndim
    for ours, theirs in _groups(node.shape, source.shape):
        part = tuple(index[i] for i in ours)
        if len(ours) + len(theirs) > 2:
            position = flat(tuple(node.shape[i] for i in ours), part)
            part = unflat(tuple(source.shape[j] for j in theirs), position)
        for j, at in zip(theirs, part, strict=True):
            new[j] = at
    return (yield source, tuple(new), gate)


def _groups(shape: Shape, other: Shape) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """The axes of two shapes that hold the same elements, as few as can be at a time."""
    ours, theirs = ([i for i, n in enumerate(sizes) if n != 1] for sizes in (shape, other))
    while ours:
        i, j = 1, 1
        left, right = shape[ours[0]], other[theirs[0]]
        while left != right:
            if left < right:
                left, i = left * shape[ours[i]], i + 1
            else:
                right, j = right * other[theirs[j]], j + 1
        yield ours[:i], theirs[:j]
        ours, theirs = ours[i:], theirs[j:]


def _permute(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    new: list[UOp] = list(index)
    for i, axis in enumerate(node.arg):
        new[axis] = index[i]
    return (yield node.src[0], tuple(new), gate)


def _expand(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    source = node.src[0]
    zero = const(0, INT64)
    return (yield source, tuple(zero if n == 1 else i for n, i in zip(source.shape, index)), gate)


def _shrink(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    new = (
        simplify(i * step + start) for i, start, step in zip(index, node.arg.start, node.arg.step)
    )
    return (yield node.src[0], tuple(new), gate)


def _flip(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    new = tuple(
        simplify(const(n - 1, INT64) - i) if axis in node.arg else i
        for axis, (n, i) in enumerate(zip(node.shape, index))
    )
    return (yield node.src[0], new, gate)


def _pad(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    source, value = node.src
    new: list[UOp] = []
    inside: UOp | None = None
    for n, i, low, between in zip(source.shape, index, node.arg.low, node.arg.interior):
        moved = simplify(i - low)
        inside = both(inside, within(moved, 0, max((n - 1) * (between + 1) + 1, 0)))
        if between:
            on = build.eq(moved % (between + 1), const(0, INT64))
            inside = both(inside, simplify(on))
            moved = simplify(moved // (between + 1))
        new.append(moved)
    if inside is None:
        return (yield source, tuple(new), gate)
    outside = yield value, (), gate
    if inside is const(False, BOOL):
        return outside
    found = yield source, tuple(new), both(gate, inside)
    zero = outside.op is Op.CONST and outside.arg.bits == 0
    if zero and found.op is Op.LOAD and len(found.src) == 3:
        return found  # a gated load gives zero
    return build.where(inside, found, outside)


def _concat(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    axis = node.arg
    at, end = index[axis], 0
    pieces: list[tuple[UOp | None, UOp]] = []
    for part in node.src:
        start, end = end, end + part.shape[axis]
        if start == end:
            continue
        here = within(at, start, end)
        if here is const(False, BOOL):
            continue
        new = (*index[:axis], simplify(at - start), *index[axis + 1 :])
        value = yield part, new, both(gate, here)
        pieces.append((here, value))
    out = pieces[-1][1]
    for here, value in reversed(pieces[:-1]):
        assert here is not None, "two parts cannot both hold the index"
        out = build.where(here, value, out)
    return out


def _fold(
    op: Op, body: UOp, ranges: Sequence[UOp], dtype: DType, index: DType | None = None
) -> UOp:
    """A reduction over ranges, kept in at least 32 bits; without ranges it is its body."""
    loops = [r for r in ranges if r.op is Op.RANGE]
    wide = build.accumulator(body.dtype)  # also of max and min: processors compare no bfloat16
    if loops:
        body = build.cast(body, wide)
        body = body if index is None else UOp(Op.TUPLE, (body, *loops))
        body = UOp(Op.FOLD, (body, *loops), Fold(op, index))
    elif index is not None:
        body = const(0, index)
    return build.cast(body, dtype)


def _reduce(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    source = node.src[0]
    if 0 in source.shape:
        return const(build.identity(node.arg.op, node.dtype), node.dtype)
    outer = iter(index)
    new = tuple(
        walker.range(n) if axis in node.arg.axes else next(outer)
        for axis, n in enumerate(source.shape)
    )
    body = yield source, new, gate
    few = build.count(tuple(source.shape[axis] for axis in node.arg.axes)) < FEW
    counted = None if node.arg.index is None else INT32 if few else INT64
    return _fold(node.arg.op, body, [new[a] for a in node.arg.axes], node.dtype, counted)


def _multiply(a: UOp, b: UOp, dtype: Any) -> UOp:
    wide = build.accumulator(dtype)
    if wide.itemsize < a.dtype.itemsize:
        wide = a.dtype
    return build.cast(a, wide) * build.cast(b, wide)


def _dot(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    a, b = node.src
    arg = node.arg
    if 0 in a.shape or 0 in b.shape:
        return const(0, node.dtype)
    outer = iter(index)
    at_a: list[Any] = [None] * a.ndim
    at_b: list[Any] = [None] * b.ndim
    for i, j in zip(arg.batch_a, arg.batch_b, strict=True):
        at_a[i] = at_b[j] = next(outer)
    inner = [walker.range(a.shape[i]) for i in arg.contract_a]
    for i, j, r in zip(arg.contract_a, arg.contract_b, inner, strict=True):
        at_a[i] = at_b[j] = r
    at_a = [next(outer) if i is None else i for i in at_a]
    at_b = [next(outer) if i is None else i for i in at_b]
    x = yield a, tuple(at_a), gate
    y = yield b, tuple(at_b), gate
    return _fold(Op.ADD, _multiply(x, y, node.dtype), inner, node.dtype)


def _conv(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    x, w = node.src
    arg = node.arg
    if 0 in x.shape or 0 in w.shape:
        return const(0, node.dtype)
    assert not any(map(any, arg.padding)), "cut has made the padding explicit"
    row, *place, feature = index
    window = [walker.range(n) for n in w.shape[:-2]]
    depth = walker.range(w.shape[-2])
    features = w.shape[-1]
    channel = depth
    if arg.groups > 1:
        channel = simplify(feature // (features // arg.groups) * w.shape[-2] + depth)
    if arg.batch_groups > 1:
        row = simplify(feature // (features // arg.batch_groups) * node.shape[0] + row)
    space = (
        simplify(p * stride + k * dilation)
        for p, stride, k, dilation in zip(place, arg.strides, window, arg.dilation_w)
    )
    a = yield x, (row, *space, channel), gate
    b = yield w, (*window, depth, feature), gate
    return _fold(Op.ADD, _multiply(a, b, node.dtype), [*window, depth], node.dtype)


def _gather(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    operand, indices = node.src
    batch, points = node.arg.batch, indices.ndim - 1
    at = index[:points]
    new = list(index[points:])
    for axis in range(indices.shape[-1]):
        start = yield indices, (*at, const(axis, INT64)), gate
        room = operand.shape[batch + axis] - node.arg.sizes[axis]
        start = build.cast(start, INT64)
        clamped = build.minimum(build.maximum(start, const(0, INT64)), const(room, INT64))
        new[axis] = simplify(clamped + new[axis])
    return (yield operand, (*at[:batch], *new), gate)


# fmt: off
VALUE: dict[Op, Rule] = {
    Op.CONST: _const, Op.IOTA: _iota,
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    Op.DETACH: _same, Op.GBARRIER: _same,
    Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.PAD: _pad,
    Op.SHRINK: _shrink, Op.FLIP: _flip, Op.CONCAT: _concat,
    Op.REDUCE: _reduce, Op.DOT: _dot, Op.CONV: _conv, Op.GATHER: _gather,
}
# fmt: on
