"""Values too large to be kept, made and used in strips: attention without its square matrix.

Before -> after, for queries q, keys k and values v of many rows::

    s = dot q k; p = softmax s; o = dot p v

    o = scan over blocks of rows:  s = dot q[rows] k; p = softmax s; o[rows] = dot p v

Small results that keep the axis are stacked, slice by slice; those that sum over it are carried
from strip to strip, in order, so that their bits do not depend on threads.  Axes over which nothing
is summed come first, as batches and heads do; then the strip itself is made in strips of rows,
until it fits the cache.

A gradient has a loop of its own, in which large values are made again: see `large`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from tfn._support.frozen import mutable
from tfn.dtypes import INT32, DType
from tfn.lower.graph.axis_maps import Needs, becomes, needs, summed
from tfn.lower.graph.intermediates import WORTH, Landscape, Level, size_bytes, sizes
from tfn.lower.graph.packing import prepare
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Iota, Leaf, Scan
from tfn.trace.jaxpr import close, leaves
from tfn.trace.loop_cleanup import redirected
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, rebuild, reshaped, substitute, walk

LARGE = 4
"""Of how many times the second cache a value is large."""

PART = 2
"""The largest value of a strip takes one of so many parts of the second cache."""

FEW_ROWS = 32
"""A contraction has at least so many rows, be they more than fit."""

DEEP = 256
"""Sums longer than this are not made again."""


def strips(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    """The same values, where large ones exist in strips only."""
    return _strips(outputs, target, LARGE * target.l2_bytes)


def _strips(outputs: Sequence[UOp], target: Target, limit: int) -> list[UOp]:
    found = list(outputs)
    for size in sorted(sizes(outputs, limit), reverse=True):
        order = [u for u in walk(found) if u.op is not Op.FUNCTION]
        made: dict[UOp, UOp] = {}
        for levels in Landscape(found, order, size // 2).clusters():
            for plan in _plans(levels, target):
                made |= _loops(plan, target)
        found = redirected(found, made) if made else found
    return found


# Along which axis.


@mutable
class Plan:
    """One level, with the axis along which it is cut.

    Attributes:
        size: of the axis.
        row_bytes: of the largest value inside, for one row.
        axes: which axis of each value that is; None where it has no such axis.
        sums: the ends that sum over it, with the axes of their sources.
    """

    level: Level
    size: int
    row_bytes: int
    axes: dict[UOp, int | None]
    sums: dict[UOp, Needs]

    def needs(self, u: UOp, axis: int | None) -> Needs | None:
        """Which axes of its sources a value in the strip is made of."""
        if u in self.sums:
            return self.sums[u]
        return [None] * len(u.src) if axis is None else needs(u, axis)

    def rows(self) -> bool:
        """Whether the axis is one of rows in some contraction, which wants many of them."""
        found = (self.needs(u, axis) for u, axis in self.axes.items() if u.op is Op.DOT)
        return bool(self.sums) or any(pair and None in pair for pair in found)


def _plans(levels: Sequence[Level], target: Target) -> list[Plan]:
    """How all levels are cut; nothing, unless each can be and pays."""
    if not all(map(_pays, levels)):
        return []
    plans = [plan for level in levels if (plan := _plan(level, target))]
    return plans if len(plans) == len(levels) else []


def _pays(level: Level) -> bool:
    """Whether what is large is much larger than what is around it, and easily made again."""
    small = sum(map(size_bytes, (*level.around(), *level.ends)))
    largest = max(map(size_bytes, level.inside), default=0)
    return largest > WORTH * small and all(_depth(u) <= DEEP for u in level.again)


def _plan(level: Level, target: Target) -> Plan | None:
    """The best axis to cut, if there is one."""
    largest = max(level.inside, key=size_bytes)
    cuts = (_along(level, largest, axis) for axis, n in enumerate(largest.shape) if n > 1)
    plans = [plan for plan in cuts if plan and _block(plan, target) < plan.size]
    free = next((plan for plan in plans if not plan.sums), None)
    return free or max(plans, key=lambda plan: plan.size, default=None)


def _block(plan: Plan, target: Target) -> int:
    """Rows of a strip: as many as fit the cache, or some less that divide all."""
    fit = target.l2_bytes // PART // plan.row_bytes
    most = min(max(fit, FEW_ROWS if plan.rows() else 1), plan.size)
    return next((n for n in range(most, most // 2, -1) if plan.size % n == 0), most)


def _depth(u: UOp) -> int:
    return build.count(tuple(u.src[0].shape[i] for i in u.arg.contract_a))


def _along(level: Level, largest: UOp, axis: int) -> Plan | None:
    """The plan to cut an axis of the largest value, and what that means for all others."""
    size = largest.shape[axis]
    plan = Plan(level, size, size_bytes(largest) // size, {largest: axis}, {})
    users: dict[UOp, list[tuple[UOp, int]]] = {}
    for u in (*level.inside, *level.ends):
        for index, s in enumerate(u.src):
            users.setdefault(s, []).append((u, index))
    waiting = [largest]

    def agree(u: UOp, at: int | None) -> bool:
        if u not in plan.axes:
            plan.axes[u] = at
            waiting.append(u)
        return plan.axes[u] == at

    while waiting:
        u = waiting.pop()
        at = plan.axes[u]
        found = plan.needs(u, at)
        if found is None:
            return None
        for s, j in zip(u.src, found, strict=True):
            if s in level.numbers:
                if j is not None and not _counted(s, j):
                    return None
            elif (s in level.inside or s in level.ends) and not agree(s, j):
                return None
        if at is None:
            continue
        for user, index in users.get(u, ()):
            goal = becomes(user, index, at)
            if goal is None:
                total = summed(user, index, at)
                final = user in level.ends and user not in users
                if total is None or not final or plan.sums.setdefault(user, total) != total:
                    return None
            if not agree(user, goal):
                return None
    known = all(plan.axes.get(u) is not None or u in plan.sums for u in level.ends)
    return plan if known else None


def _counted(u: UOp, axis: int) -> bool:
    """Whether rows of what is made of numbers alone can be made apart."""
    waiting = [(u, axis)]
    while waiting:
        node, at = waiting.pop()
        found = needs(node, at)
        if found is None:
            return False
        waiting += [(s, j) for s, j in zip(node.src, found, strict=True) if j is not None]
    return True


# The loops.


def _loops(plan: Plan, target: Target) -> dict[UOp, UOp]:
    """The ends of a level, made by a loop over strips; what is left of the axis is one more."""
    block = _block(plan, target)
    whole = plan.size // block
    totals = [const(build.identity(_monoid(u), _wide(u)), _wide(u), u.shape) for u in plan.sums]
    stacked: dict[UOp, list[UOp]] = {u: [] for u in plan.level.ends if u not in plan.sums}
    for first, length, rows in ((0, whole, block), (whole * block, 1, plan.size % block)):
        if rows:
            strip = Strip(plan, first, length, rows)
            found = strip.loop(totals, target)
            totals = found[: len(totals)]
            for u, y in zip(stacked, found[len(totals) :], strict=True):
                stacked[u].append(strip.joined(y, u))
    done = {u: build.cast(total, u.dtype) for u, total in zip(plan.sums, totals, strict=True)}
    return done | {u: build.concat(parts, _axis(plan, u)) for u, parts in stacked.items()}


def _axis(plan: Plan, end: UOp) -> int:
    axis = plan.axes[end]
    assert axis is not None, end
    return axis


def _monoid(u: UOp) -> Op:
    op: Op = u.arg.op if u.op is Op.REDUCE else Op.ADD
    return op


def _wide(u: UOp) -> DType:
    return build.accumulator(u.dtype)


@mutable
class Strip:
    """The body of a loop over `length` strips of `rows` rows, from row `first` on.

    Attributes:
        whole: what is read whole, and its leaf in the body.
        parts: what is read in strips along an axis, and its leaf.
        starts: the number of the strip's first row, as an array and as its leaf, if it is wanted.
    """

    plan: Plan
    first: int
    length: int
    rows: int
    whole: dict[UOp, UOp] = field(default_factory=dict)
    parts: dict[tuple[UOp, int], UOp] = field(default_factory=dict)
    starts: dict[UOp, UOp] = field(default_factory=dict)

    def loop(self, totals: Sequence[UOp], target: Target) -> list[UOp]:
        """Results of the scan: sums that go on from `totals`, then slices."""
        plan = self.plan
        made = self._made(target)
        old = [_leaf(u.shape, u.dtype) for u in totals]
        results = [
            UOp(_monoid(u), (total, made[u, None])) for u, total in zip(plan.sums, old, strict=True)
        ]
        for u in plan.level.ends:
            if u not in plan.sums:
                axis = _axis(plan, u)
                results.append(self._thin(made[u, axis], axis))
        results = _strips(results, target, 2 * target.l2_bytes // PART)
        used = set(leaves(results))
        whole = {u: leaf for u, leaf in self.whole.items() if leaf in used}
        consts, slices = [*whole.values()], [*self.starts.values(), *self.parts.values()]
        body, strays = close(results, [*consts, *old, *slices])
        assert not strays, strays
        arrays = [*self.starts, *(self._slices(u, axis) for u, axis in self.parts)]
        arg = Scan(self.length, False, len(consts), len(old))
        return build.several(UOp(Op.SCAN, (body.function, *whole, *totals, *arrays), arg))

    def _made(self, target: Target) -> dict[tuple[UOp, int | None], UOp]:
        """Everything for one strip, by node and by which of its axes is cut."""
        plan, level = self.plan, self.plan.level
        made: dict[tuple[UOp, int | None], UOp] = {}
        stack = [(u, plan.axes[u]) for u in level.ends]
        while stack:
            u, axis = stack[-1]
            if u in level.numbers and axis is None:
                made[u, axis] = u
            elif not level.computed(u):
                made[u, axis] = self._read(u, axis)
            if (u, axis) in made:
                stack.pop()
                continue
            found = plan.needs(u, axis)
            assert found is not None, u
            wanted = list(zip(u.src, found, strict=True))
            waiting = [pair for pair in wanted if pair not in made]
            stack += waiting
            if not waiting:
                src = tuple(made[pair] for pair in wanted)
                part = self._total(u, src) if u in plan.sums else self._part(u, axis, src)
                whole = u.op is Op.DOT and found[1] is None
                made[u, axis] = self._ready(part, target) if whole else part
        return made

    def _ready(self, u: UOp, target: Target) -> UOp:
        """A contraction in the strip, whose operand that is read whole is made ready once for all.

        What `prepare` would do to it in every strip is done before the loop.
        """
        stub = _leaf(u.src[0].shape, u.src[0].dtype)
        (made,) = prepare([UOp(Op.DOT, (stub, u.src[1]), u.arg)], target)
        kept = [v for v in walk(made.src[1:]) if v.op is Op.GBARRIER]
        outer = {leaf: v for v, leaf in self.whole.items()}
        if made.op is not Op.DOT or len(kept) != 1 or not outer.keys() >= set(leaves(kept)):
            return u
        (before,) = substitute(kept, outer)
        leaf = self.whole.setdefault(before, _leaf(before.shape, before.dtype))
        return substitute([made], {stub: u.src[0], kept[0]: leaf})[0]

    def _read(self, u: UOp, axis: int | None) -> UOp:
        """What comes from around, whole or in strips."""
        if axis is None:
            return self.whole.setdefault(u, _leaf(u.shape, u.dtype))
        shape = _with(u.shape, axis, self.rows)
        if (u, axis) not in self.parts:
            thin = shape if self.rows > 1 else _without(shape, axis)
            self.parts[u, axis] = _leaf(thin, u.dtype)
        return build.reshape(self.parts[u, axis], shape)

    def _total(self, u: UOp, src: tuple[UOp, ...]) -> UOp:
        """What one strip adds to a sum."""
        if u.op is Op.DOT:
            return UOp(Op.DOT, src, replace(u.arg, dtype=_wide(u)))
        return UOp(Op.REDUCE, (build.cast(src[0], _wide(u)),), u.arg)

    def _part(self, u: UOp, axis: int | None, src: tuple[UOp, ...]) -> UOp:
        """One strip of a value."""
        if axis is None:
            return rebuild(u, src)
        shape = _with(u.shape, axis, self.rows)
        if u.op is Op.IOTA:
            return self._counting(shape, axis, u.dtype)
        if u.op is Op.CONST:
            return reshaped(u, shape)
        if u.op is Op.RESHAPE:
            counted = u.src[0].op is Op.IOTA
            return (
                self._counting(u.shape, axis, u.dtype) if counted else build.reshape(src[0], shape)
            )
        if u.op is Op.EXPAND:
            return build.expand(src[0], shape)
        if u.op is Op.SHRINK:
            return build.shrink(src[0], u.arg.start, _with(u.arg.stop, axis, self.rows), u.arg.step)
        return UOp(u.op, src, u.arg)

    def _counting(self, whole: Shape, axis: int, dtype: DType) -> UOp:
        """A strip of the numbers 0, 1, ... in a shape."""
        shape = _with(whole, axis, self.rows)
        step = build.count(whole[axis + 1 :])
        starts = UOp(Op.IOTA, (), Iota(self.length, INT32)) * self.rows + self.first
        start = self.starts.setdefault(starts, _leaf((), INT32))
        total = build.broadcast_to(build.cast(start, dtype) * step, shape)
        for i in range(len(shape)):
            total = total + build.iota(shape, i, dtype) * build.count(whole[i + 1 :])
        return total

    # Arrays whose first axis counts strips.

    def _thin(self, y: UOp, axis: int) -> UOp:
        """A slice without the axis, if there is one row in it."""
        return y if self.rows > 1 else build.reshape(y, _without(y.shape, axis))

    def _slices(self, u: UOp, axis: int) -> UOp:
        """An array in slices."""
        size = self.length * self.rows
        low, high = _with((0,) * u.ndim, axis, self.first), _with(u.shape, axis, self.first + size)
        u = build.shrink(u, low, high)
        if self.rows > 1:
            inner = (self.length, self.rows)
            # Not by `build`, which would look through a view that is to be replaced itself.
            u = UOp(Op.RESHAPE, (u,), (*u.shape[:axis], *inner, *u.shape[axis + 1 :]))
        return build.moveaxis(u, axis, 0)

    def joined(self, y: UOp, end: UOp) -> UOp:
        """The result of which these are the slices."""
        axis = _axis(self.plan, end)
        shape = _with(end.shape, axis, self.length * self.rows)
        return build.reshape(build.moveaxis(y, 0, axis), shape)


def _leaf(shape: Shape, dtype: DType) -> UOp:
    return UOp(Op.LEAF, (), Leaf(shape, dtype))


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
