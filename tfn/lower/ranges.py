"""Every axis becomes a RANGE, and movement becomes arithmetic on indices.

Before -> after, for the kernel ``c = barrier[0] (reduce[add, (1,)] (transpose a))``, a: f32[5, 3]::

    r0 = range 3;  r1 = range 5
    store out[r0], fold[add] (load a[r1 * 3 + r0]) over r1

Each kernel is walked from its outputs: a demand is a node, the index at which it is wanted, and a
gate that says when it is wanted at all.  A rule of `VALUE` is a generator: it yields demands for
its sources and returns the value.  The same demand is answered once, which is all the sharing
there is.  Padding gates the loads beneath it, so nothing is read out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfn.dtypes import BOOL, INT64, UINT32
from tfn.lower.simplify import simplify
from tfn.trace import build
from tfn.trace.op import ELEMENTWISE, LOOPS, Fold, Op, Param, Range
from tfn.trace.uop import UOp, const, walk

Index = tuple[UOp, ...]
Demand = tuple[UOp, Index, UOp | None]
Steps = Generator[Demand, UOp, UOp]
Rule = Callable[["Walker", UOp, Index, UOp | None], Steps]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Region:
    """A loop or branch, which is no kernel: the node, and barriers on those results it needs."""

    node: UOp
    barriers: tuple[UOp, ...]

    @property
    def operands(self) -> tuple[UOp, ...]:
        """What it writes and reads."""
        return (*self.barriers, *(s for s in self.node.src if s.op is not Op.FUNCTION))


def stages(function: UOp) -> list[Stage | Region]:
    """The kernels of a function with barriers, in an order in which they can run."""
    members: dict[int, list[UOp]] = {}
    for node in walk(function.src):
        if node.op is Op.GBARRIER:
            members.setdefault(node.arg, []).append(node)
    made = {number: _stages(barriers) for number, barriers in members.items()}
    return [stage for number in _running_order(made) for stage in made[number]]


def _running_order(made: Mapping[int, Sequence[Stage | Region]]) -> list[int]:
    needs = {
        number: sorted({u.arg for s in group for u in s.operands if u.op is Op.GBARRIER} - {number})
        for number, group in made.items()
    }
    order: list[int] = []
    done: set[int] = set()
    stack = sorted(needs, reverse=True)
    while stack:
        number = stack[-1]
        waiting = [n for n in needs[number] if n not in done]
        if number in done or not waiting:
            stack.pop()
            if number not in done:
                done.add(number)
                order.append(number)
        else:
            stack.extend(reversed(waiting))
    return order


def _stages(barriers: Sequence[UOp]) -> Sequence[Stage | Region]:
    first = barriers[0].src[0]
    if first.op is Op.GET and first.src[0].op in LOOPS:
        return [Region(first.src[0], tuple(barriers))]
    if build.count(first.shape) == 0:
        return []
    if first.op is Op.GET:
        return [_sorted(barriers)]
    if first.op is Op.SCATTER:
        return _scattered(barriers[0])
    walker = Walker(barriers)
    index = walker.axes(first.shape)
    return [walker.finish([(b, walker.value(b.src[0], index, None), index) for b in barriers])]


@dataclass
class Walker:
    """The state of one kernel's walk.

    Attributes:
        barriers: the kernel's outputs, which are transparent to its walk.
        operands: buffers in the order of their parameters; outputs come first.
        count: ranges made so far.
    """

    barriers: Sequence[UOp]
    operands: dict[UOp, UOp] = field(default_factory=dict)
    answers: dict[Demand, UOp] = field(default_factory=dict)
    count: int = 0

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
        if node.op is Op.PARAM or (node.op is Op.GBARRIER and node not in self.barriers):
            return _load(self, node, index, gate)
        return VALUE[node.op](self, node, index, gate)


def flat(shape: tuple[int, ...], index: Index) -> UOp:
    """The row-major position of an index."""
    total = const(0, INT64)
    for n, i in zip(shape, index, strict=True):
        total = total * n + i
    return simplify(total)


def unflat(shape: tuple[int, ...], position: UOp) -> Index:
    """The index of a row-major position."""
    out: list[UOp] = []
    for n in reversed(shape):
        out.append(simplify(position % n) if n > 1 else const(0, INT64))
        position = simplify(position // n) if n > 1 else position
    return tuple(reversed(out))


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """Two gates at once."""
    if a is None or b is None:
        return a or b
    return simplify(a & b)


def _inside(index: UOp, low: int, high: int) -> UOp | None:
    """The gate ``low <= index < high``; None if it always holds."""
    at_least = const(low, INT64) <= index
    gate = simplify(at_least & (index < high))
    return None if gate is const(True, BOOL) else gate


def _load(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    src = (walker.buffer(node), flat(node.shape, index))
    return UOp(Op.LOAD, src if gate is None else (*src, gate))
    yield  # a generator like the others


def _elementwise(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    values = []
    for s in node.src:
        values.append((yield s, index, gate))
    return UOp(node.op, tuple(values), node.arg)


def _same(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    return (yield node.src[0], index, gate)


def _const(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    return const(node.arg.value, node.dtype)
    yield


def _iota(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    return build.cast(index[0], node.dtype)
    yield


def _reshape(walker: Walker, node: UOp, index: Index, gate: UOp | None) -> Steps:
    source = node.src[0]
    ones = [i for n, i in zip(node.shape, index, strict=True) if n != 1]
    if [n for n in node.shape if n != 1] == [n for n in source.shape if n != 1]:
        rest = iter(ones)
        new = tuple(const(0, INT64) if n == 1 else next(rest) for n in source.shape)
    else:
        new = unflat(source.shape, flat(node.shape, index))
    return (yield source, new, gate)


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
        inside = both(inside, _inside(moved, 0, max((n - 1) * (between + 1) + 1, 0)))
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
        here = _inside(at, start, end)
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


def _fold(op: Op, body: UOp, ranges: Sequence[UOp], dtype: Any) -> UOp:
    """A reduction over ranges, kept in at least 32 bits; without ranges it is its body."""
    loops = [r for r in ranges if r.op is Op.RANGE]
    wide = build.accumulator(body.dtype)  # also of max and min: processors compare no bfloat16
    if loops:
        body = UOp(Op.FOLD, (build.cast(body, wide), *loops), Fold(op))
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
    return _fold(node.arg.op, body, [new[a] for a in node.arg.axes], node.dtype)


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


def _scattered(barrier: UOp) -> list[Stage]:
    """A scatter is two kernels: its buffer gets the operand, then the updates, in order.

    ``for p in points: out[start[p] + w] = op(out[start[p] + w], update[p, w])``; the window's
    axes and the batch are outer loops, so each thread owns its elements and no order is lost.
    """
    node = barrier.src[0]
    operand, indices, updates = node.src
    walker = Walker([barrier])
    index = walker.axes(node.shape)
    copied = walker.finish([(barrier, walker.value(operand, index, None), index)])
    if 0 in updates.shape:
        return [copied]
    walker = Walker([barrier])
    batch, points = node.arg.batch, indices.ndim - 1
    at = walker.axes(updates.shape)
    inside: UOp | None = None
    place = list(at[points:])
    for axis in range(indices.shape[-1]):
        start = walker.value(indices, (*at[:points], const(axis, INT64)), None)
        start = build.cast(start, INT64)
        room = node.shape[batch + axis] - updates.shape[points + axis]
        inside = both(inside, _inside(start, 0, room + 1))
        place[axis] = simplify(start + place[axis])
    position = flat(node.shape, (*at[:batch], *place))
    value = walker.value(updates, at, None)
    inside = _every_time(inside, at[batch:points], (position, value))
    buffer = walker.buffer(barrier)
    if node.arg.op is not Op.WHERE:
        old = UOp(Op.LOAD, (buffer, position) if inside is None else (buffer, position, inside))
        value = UOp(node.arg.op, (old, value))
    src = (buffer, position, value)
    store = UOp(Op.STORE, src if inside is None else (*src, inside), _in_order(at[batch:points]))
    return [copied, Stage(UOp(Op.SINK, (store,)), tuple(walker.operands), 1)]


def _every_time(gate: UOp | None, index: Index, used: Sequence[UOp]) -> UOp | None:
    """A gate that holds on to ranges on which nothing else depends: equal updates count each."""
    found = set(walk([*used, *([] if gate is None else [gate])]))
    for r in index:
        if r.op is Op.RANGE and r not in found:
            always = r < r.arg.size
            gate = always if gate is None else gate & always
    return gate


def _in_order(index: Index) -> tuple[int, ...]:
    """The numbers of ranges whose iterations must happen in order, on one thread."""
    return tuple(i.arg.number for i in index if i.op is Op.RANGE)


def _sorted(barriers: Sequence[UOp]) -> Stage:
    """A sort keeps its node, over parameters, and gets scratch for two permutations of each row."""
    node = barriers[0].src[0].src[0]
    scratch = const(0, UINT32, (2 * build.count(node.src[0].shape),))
    operands = (*barriers, UOp(Op.GBARRIER, (scratch,), barriers[0].arg), *node.src)
    first = len(barriers) + 1
    params = [UOp(Op.PARAM, (), Param(first + i, s.shape, s.dtype)) for i, s in enumerate(node.src)]
    sort = UOp(Op.SORT, tuple(params), node.arg)
    outputs = tuple(UOp(Op.GET, (sort,), b.src[0].arg) for b in barriers)
    return Stage(UOp(Op.TUPLE, outputs), operands, first)
