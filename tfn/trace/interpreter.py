"""Reference interpreter of kernels on NumPy: nests over ranges, and ordered instructions.

`nest` gives every range an axis and evaluates a body on all of them at once; only ranges whose
order matters are stepped through one by one.  `instructions` walks a list as a machine would.
Buffers are flat arrays; stores change them in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn.trace import matrix_tiles
from tfn.trace.argument import Fold
from tfn.trace.build import cast, identity
from tfn.trace.op import Op
from tfn.trace.oracle import MEANING, REDUCTIONS, Value, apply
from tfn.trace.uop import UOp, walk


@frozen
class Nest:
    """A kernel over ranges as a function of arrays: parameters are the results, then operands."""

    sink: UOp

    def __call__(self, results: Sequence[Value], operands: Sequence[Value]) -> None:
        """Run it; results are written in place."""
        flat = [np.zeros(x.size, x.dtype) for x in results]
        nest(self.sink, [*flat, *(np.ravel(x) for x in operands)])
        for result, data in zip(results, flat, strict=True):
            result[...] = data.reshape(result.shape)


def values(roots: Sequence[UOp], ranges: Sequence[UOp]) -> list[Value]:
    """The values of expressions at every point of the ranges: each range is an axis."""
    grid = _Grid(ranges, {}, ())
    shape = tuple(r.arg.size for r in ranges)
    return [np.broadcast_to(grid.evaluate(u), shape) for u in roots]


def nest(sink: UOp, buffers: Sequence[Value]) -> None:
    """Run the stores of a kernel over ranges (stages RANGES and SPLIT), one after the other."""
    for recurrence in (u for u in sink.src if u.op is Op.RECUR):
        _recur(recurrence, buffers)
    for store in (u for u in sink.src if u.op is Op.STORE):
        ranges = [u for u in walk([store]) if u.op is Op.RANGE]
        stepped = [r for r in ranges if r.arg.number in (store.arg or ())]
        for place in product(*(range(r.arg.size) for r in stepped)):
            _Grid(ranges, dict(zip(stepped, place, strict=True)), buffers).store(store)


def _recur(node: UOp, buffers: Sequence[Value]) -> None:
    """One iteration after the other, each on the whole grid."""
    arg, r = node.arg, node.src[0]
    n = arg.carried
    ranges = [u for u in walk([node]) if u.op is Op.RANGE]
    carries = {u.arg.number: u for u in walk([node]) if u.op is Op.CARRY}
    rest = node.src[1 + 2 * n :]
    condition, rest = (rest[0], rest[1:]) if arg.conditional else (None, rest)
    grid = _Grid(ranges, {r: 0}, buffers)
    now = [grid.evaluate(u) for u in node.src[1 : 1 + n]]

    def at(i: int) -> _Grid:
        grid = _Grid(ranges, {r: i}, buffers)
        grid.values.update({u: now[k] for k, u in carries.items()})
        return grid

    i = 0
    while condition is not None or i < r.arg.size:
        grid = at(i)
        if condition is not None and not np.any(grid.within_bounds(condition)):
            break
        following = [grid.evaluate(u) for u in node.src[1 + n : 1 + 2 * n]]
        for store in rest[: arg.stores]:
            grid.store(store)
        now, i = following, i + 1
    for store in rest[arg.stores :]:
        at(i).store(store)


class _Grid:
    """All values of the free ranges at once: each is an axis, and NumPy broadcasts the rest."""

    def __init__(self, ranges: Sequence[UOp], fixed: dict[UOp, int], buffers: Sequence[Value]):
        self.free = [r for r in ranges if r not in fixed]
        self.axis = {r: i for i, r in enumerate(self.free)}
        self.fixed, self.buffers = fixed, buffers
        self.values: dict[UOp, Any] = {}  # None for a buffer

    def grid(self, r: UOp) -> Value:
        """The values of a range along its axis."""
        if r in self.fixed:
            return np.array(self.fixed[r], np.int64)
        shape = [1] * len(self.free)
        shape[self.axis[r]] = r.arg.size
        return np.arange(r.arg.size).reshape(shape)

    def evaluate(self, root: UOp) -> Value:
        """The value of a node at every point of the grid."""
        for node in walk([root]):
            if node not in self.values:
                self.values[node] = self._value(node)
        value: Value = self.values[root]
        return value

    def _value(self, node: UOp) -> Any:
        values = [self.values[s] for s in node.src]
        if node.op is Op.PARAM:
            return None
        if node.op is Op.CONST:
            return np.array(node.arg.value)
        if node.op is Op.RANGE:
            return self.grid(node)
        if node.op is Op.LOAD:
            return self._load(node, values)
        if node.op in (Op.STAGED, Op.MEMO):
            return values[0]
        if node.op is Op.FOLD:
            return self._fold(node, values[0]) if node.arg.index is None else self._first(node)
        return apply(node.op, node.arg, *values)

    def within_bounds(self, condition: UOp) -> Value:
        """A condition, false at points that are beyond the bounds of a range."""
        for r in self.free:
            for u in (r, *r.src):
                self.evaluate(u)
        inside: Value = self.evaluate(condition) & self.valid(self.free)
        return inside

    def valid(self, ranges: Sequence[UOp]) -> Value:
        """The mask of the points at which all ranges are within their bounds."""
        out: Value = np.array(True)
        for r in ranges:
            if r.src:
                out = out & (self.values[r] < self.values[r.src[0]])
        return out

    def _load(self, node: UOp, values: list[Any]) -> Value:
        buffer, index = self.buffers[node.src[0].arg.index], values[1]
        loaded = buffer[np.clip(index, 0, max(len(buffer) - 1, 0))]
        if len(values) == 3:
            loaded = np.where(values[2], loaded, np.zeros((), buffer.dtype))
        return np.asarray(loaded)

    def _fold(self, node: UOp, body: Value) -> Value:
        axes = tuple(self.axis[r] for r in node.src[1:])
        shape = list(np.shape(body)) or [1] * len(self.free)
        for r, axis in zip(node.src[1:], axes, strict=True):
            shape[axis] = r.arg.size
        start = np.asarray(identity(node.arg.op, node.dtype)).astype(node.dtype)
        mask = self.valid(node.src[1:])
        body = np.broadcast_to(np.where(mask, body, start), np.broadcast_shapes(shape, mask.shape))
        return np.asarray(REDUCTIONS[node.arg.op](body, axis=axes, keepdims=True)).astype(
            node.dtype
        )

    def _first(self, node: UOp) -> Value:
        """The least index at which the value is the extreme, or NaN."""
        (value, index), ranges = node.src[0].src, node.src[1:]
        best = UOp(Op.FOLD, (value, *ranges), Fold(node.arg.op))
        x = self.values[value]
        hit = (x == self._fold(best, x)) | (x != x)
        places = np.where(hit, self.values[index], np.iinfo(node.dtype).max).astype(node.dtype)
        return self._fold(UOp(Op.FOLD, (cast(index, node.dtype), *ranges), Fold(Op.MIN)), places)

    def store(self, store: UOp) -> None:
        """Write the value at the points where the bounds and the predicate are true."""
        index, value = self.evaluate(store.src[1]), self.evaluate(store.src[2])
        loops = [r for r in walk([store.src[1]]) if r.op is Op.RANGE]
        mask = self.valid([u for u in self.values if u in loops])
        if len(store.src) == 4:
            mask = mask & self.evaluate(store.src[3])
        shape = np.broadcast_shapes(*(self.grid(r).shape for r in loops), mask.shape, value.shape)
        index, value, mask = (np.broadcast_to(x, shape) for x in (index, value, mask))
        self.buffers[store.src[0].arg.index][index[mask]] = value[mask]


def _dot2(total: Value, a: Value, b: Value) -> Value:
    """Products of neighbours added to a sum, the last ones first."""
    count = len(a) // len(total)
    for i in reversed(range(count)):
        x, y = (v[i::count].astype(total.dtype) for v in (a, b))
        fused = total.dtype.kind == "f"
        total = MEANING[Op.FMA](None, x, y, total) if fused else total + x * y
    return total


def instructions(items: Sequence[UOp], begin: int, end: int, buffers: Sequence[Value]) -> None:
    """Run tiles `begin` to ``end - 1`` of a kernel in order (stage LINEAR)."""
    machine = _Machine(items, buffers)
    for u in walk(items):
        if u.op is Op.PARAM and u.arg.index < 0:
            machine.values[u] = np.int64(begin if u.arg.index == -2 else end)
    machine.run()


class _Machine:
    """One thread that executes instructions in order."""

    def __init__(self, items: Sequence[UOp], buffers: Sequence[Value]) -> None:
        self.items, self.buffers = items, buffers
        self.values: dict[UOp, Any] = {}
        self.ends = {u.src[0]: i for i, u in enumerate(items) if u.op is Op.END}

    def run(self) -> None:
        """Go through the list, back to the head of a loop while it runs."""
        i = 0
        heads: dict[UOp, int] = {}
        while i < len(self.items):
            u = self.items[i]
            if u.op is Op.LOOP:
                heads[u] = i
                self.values[u] = self._get(u.src[0])
                for acc in self._carried(u):
                    self.values[acc] = self._get(acc.src[1])
                if len(u.src) == 2 and self.values[u] >= self._get(u.src[1]):
                    i = self.ends[u]
            elif u.op is Op.LEAVE:
                if not self._get(u.src[1]):
                    i = self.ends[u.src[0]]
            elif u.op is Op.END:
                i = self._end(u, i, heads[u.src[0]])
            elif u.op is Op.STORE:
                self._store(u)
            elif u.op not in (Op.ACCUMULATOR, Op.PREFETCH):
                self.values[u] = self._value(u)
            i += 1

    def _carried(self, loop: UOp) -> tuple[UOp, ...]:
        end = self.items[self.ends[loop]]
        return end.src[1 : 1 + len(end.src) // 2]

    def _end(self, u: UOp, i: int, head: int) -> int:
        loop, carried = u.src[0], self._carried(u.src[0])
        following = [self._get(s) for s in u.src[1 + len(carried) :]]
        self.values.update(zip(carried, following, strict=True))
        self.values[loop] = self.values[loop] + 1
        return head if len(loop.src) == 1 or self.values[loop] < self._get(loop.src[1]) else i

    def _get(self, u: UOp) -> Any:
        if u.op is Op.CONST:
            return MEANING[Op.CONST](u.arg)
        if u.op is Op.LANES:
            return np.arange(u.arg)
        return self.values[u]

    def _value(self, u: UOp) -> Any:
        if u.op is Op.LOAD:
            return self._load(u)
        if u.op is Op.TILE:
            return matrix_tiles.load(self.buffers[u.src[0].arg.index], self._get(u.src[1]), u.arg)
        values = [self._get(s) for s in u.src]
        if u.op is Op.SPLAT:
            return np.full(u.arg, values[0], u.dtype)
        if u.op is Op.SHUFFLE:
            return np.concatenate(values)[list(u.arg)]
        if u.op is Op.QUOTIENT:
            x, y = values
            return (x - np.fmod(x, y)) // y
        if u.op is Op.DOT2:
            return _dot2(*values)
        if u.op is Op.MMA:
            return matrix_tiles.multiply(*values)
        if u.op is Op.SPILL or u.op is Op.ROW:
            return values[0] if u.op is Op.SPILL else values[0][values[1]]
        if u.op is Op.ACROSS:
            return np.asarray(REDUCTIONS[u.arg](values[0])).astype(u.dtype)
        return apply(u.op, u.arg, *map(np.asarray, values))

    def _place(self, u: UOp) -> Any:
        access = u.arg
        index = self._get(u.src[1]) + access.offset
        return index + access.stride * np.arange(access.lanes) if access.lanes > 1 else index

    def _load(self, u: UOp) -> Value:
        buffer, index = self.buffers[u.src[0].arg.index], self._place(u)
        if len(u.src) == 2:
            return np.asarray(buffer[index])
        predicate = self._get(u.src[2])
        zero = np.zeros((), buffer.dtype)
        return np.where(predicate, buffer[np.where(predicate, index, 0)], zero)

    def _store(self, u: UOp) -> None:
        buffer, index, value = self.buffers[u.src[0].arg.index], self._place(u), self._get(u.src[2])
        if len(u.src) == 4:
            predicate = self._get(u.src[3])
            index, value = np.asarray(index)[predicate], np.asarray(value)[predicate]
        if np.ndim(index) == 0:  # a vector of one lane is a scalar
            value = np.reshape(value, ())
        buffer[index] = value
