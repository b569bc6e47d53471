"""Indexing: the values of a kernel inlined at an index, as scalar arithmetic over ranges.

Before -> after, for ``flip (transpose a)`` at the index (r0, r1), a: f32[5, 3]::

    flip[(0,)] (transpose a)  at (r0, r1)
    transpose a               at (2 - r0, r1)
    a                         at (r1, 2 - r0)
    load a[r1 * 3 + (2 - r0)]

A request is a node, an index, and a predicate under which the element is read at all.  A rule of
`VALUE` is a generator: it yields requests for its sources, and returns the value.  Results are
memoised by request, which is all the sharing there is.  Padding puts a predicate on the loads
beneath it, so nothing is read out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from tfn._support.frozen import frozen, mutable
from tfn.dtypes import BOOL, FLOATS, INT32, INT64, DType
from tfn.lower.index.predicates import implied
from tfn.lower.index.simplify import simplify
from tfn.trace import build
from tfn.trace.argument import Fold, Param, Range
from tfn.trace.axes import axis_groups
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, const, reshaped

Index = tuple[UOp, ...]
Request = tuple[UOp, Index, UOp | None]
Steps = Generator[Request, UOp, UOp]
Rule = Callable[["Indexer", UOp, Index, UOp | None], Steps]


INT32_INDEX_LIMIT = 1 << 30
"""Elements up to which the index of an extreme has 32 bits.

Half of what 32 bits hold, since the lanes of a last, partial vector count beyond the end.
"""

MAX_WINDOW_INSIDE = 64
"""Elements of a convolution's window up to which channels are summed within it, not around it.

In a gradient to weights the window is the image and channels are the batch, whose elements are
furthest apart: inside, where loops keep this order, one of 32 x 32 took 32 ms, around 14.
"""


@frozen
class IndexedKernel:
    """A kernel over ranges, and the values that its parameters are.

    Attributes:
        body: SINK of stores; for a sort, the TUPLE of its results, which has a kernel of its own.
        operands: for each parameter of the body a barrier, or a parameter of the function.
        written: how many of the operands, the first ones, are outputs.
    """

    body: UOp
    operands: tuple[UOp, ...]
    written: int

    @property
    def writes(self) -> tuple[UOp, ...]:
        """The values that it writes."""
        return self.operands[: self.written]

    @property
    def reads(self) -> tuple[UOp, ...]:
        """The values that it reads."""
        return self.operands[self.written :]


@mutable
class Indexer:
    """Inlines the values of one kernel.

    Attributes:
        barriers: the kernel's outputs: inside of it they are computed, not loaded.
        operands: the parameter of each buffer, in their order; outputs come first.
        memo: the value of each request.
        count: number of ranges created.
        bound: the element of a parameter that is not a buffer, as a parameter of a loop body.
    """

    barriers: Sequence[UOp]
    operands: dict[UOp, UOp] = field(default_factory=dict)
    memo: dict[Request, UOp] = field(default_factory=dict)
    count: int = 0
    bound: Callable[[UOp, Index, UOp | None], UOp] | None = None

    def __post_init__(self) -> None:
        for barrier in self.barriers:
            self.buffer(barrier)

    def buffer(self, node: UOp) -> UOp:
        """Returns the parameter of a materialised value, as a flat buffer."""
        buffer = self.operands.get(node)
        if buffer is None:
            param = Param(len(self.operands), (build.count(node.shape),), node.dtype)
            buffer = self.operands[node] = UOp(Op.PARAM, (), param)
        return buffer

    def range(self, size: int) -> UOp:
        """Creates a range; one of size 1 is the constant 0."""
        if size == 1:
            return const(0, INT64)
        self.count += 1
        return UOp(Op.RANGE, (), Range(self.count - 1, size))

    def axes(self, shape: tuple[int, ...]) -> Index:
        """Creates a range for each axis."""
        return tuple(self.range(n) for n in shape)

    def finish(self, stores: Sequence[tuple[UOp, UOp, Index]]) -> IndexedKernel:
        """Returns the kernel that stores values at indices of barriers."""
        nodes = [
            UOp(Op.STORE, (self.buffer(b), flat(b.shape, index), value))
            for b, value, index in stores
        ]
        return IndexedKernel(UOp(Op.SINK, tuple(nodes)), tuple(self.operands), len(self.barriers))

    def value(self, node: UOp, index: Index, predicate: UOp | None) -> UOp:
        """Returns the node at an index, as a scalar over ranges.

        Rules are generators on an explicit stack, so that deep graphs need no recursion.
        """
        memo = self.memo
        root = (node, index, predicate)
        stack: list[tuple[Request, Steps]] = []
        if root not in memo:
            stack.append((root, self._rule(root)))
        send: UOp | None = None
        while stack:
            request, rule = stack[-1]
            try:
                operand = rule.send(send)  # type: ignore[arg-type]
            except StopIteration as stop:
                memo[request] = send = stop.value
                stack.pop()
                continue
            send = memo.get(operand)
            if send is None:
                stack.append((operand, self._rule(operand)))
        return memo[root]

    def _rule(self, request: Request) -> Steps:
        node, index, predicate = request
        if self.bound is not None and node.op is Op.PARAM:
            return _bound(self.bound(node, index, predicate))
        if node.op is Op.PARAM or (node.op is Op.GBARRIER and node not in self.barriers):
            return _load(self, node, index, predicate)
        return VALUE[node.op](self, node, index, predicate)


def _bound(value: UOp) -> Steps:
    yield from ()
    return value


@lru_cache(maxsize=256)  # a kernel reads many values at one index
def flat(shape: tuple[int, ...], index: Index) -> UOp:
    """Returns the row-major position of an index."""
    total = const(0, INT64)
    for n, i in zip(shape, index, strict=True):
        total = total * n + i
    return simplify(total)


def unflat(shape: tuple[int, ...], position: UOp) -> Index:
    """Returns the index of a row-major position; beyond the end, its first coordinate is too."""
    out: list[UOp] = []
    for n in shape[:0:-1]:
        out.append(simplify(position % n) if n > 1 else const(0, INT64))
        position = simplify(position // n) if n > 1 else position
    out += [position if n > 1 else const(0, INT64) for n in shape[:1]]
    return tuple(reversed(out))


def conjunction(a: UOp | None, b: UOp | None) -> UOp | None:
    """Returns the predicate that both hold; None stands for one that always holds."""
    if a is None or b is None:
        return a or b
    return simplify(a & b)


def within(index: UOp, low: int, high: int) -> UOp | None:
    """Returns the predicate ``low <= index < high``, or None if it always holds."""
    at_least = const(low, INT64) <= index
    predicate = simplify(at_least & (index < high))
    return None if predicate is const(True, BOOL) else predicate


def _load(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    yield from ()  # a generator like the other rules, though it requests nothing
    buffer, at = indexer.buffer(node), flat(node.shape, index)
    if predicate is None or (at.op is Op.CONST and node.size):
        # An element at a constant position exists in any case, so its load needs no predicate.
        return UOp(Op.LOAD, (buffer, at))
    # Where the predicate holds, its bounds hold for the index: often a modulo disappears by them.
    return UOp(Op.LOAD, (buffer, simplify(at, implied(predicate)), predicate))


def _elementwise(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    values = []
    for s in node.src:
        values.append((yield s, index, predicate))
    return UOp(node.op, tuple(values), node.arg)


def _identity(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    return (yield node.src[0], index, predicate)


def _const(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    yield from ()
    return reshaped(node, ())


def _iota(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    yield from ()
    counted = index[0]
    if node.dtype in FLOATS and node.arg.size < INT32_INDEX_LIMIT:
        # AVX2 has no conversion of 64-bit integers: it would take one element after the other.
        counted = build.cast(counted, INT32)
    return build.cast(counted, node.dtype)


def _reshape(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    source = node.src[0]
    new = [const(0, INT64)] * source.ndim
    for ours, theirs in axis_groups(node.shape, source.shape):
        part = tuple(index[i] for i in ours)
        if len(ours) + len(theirs) > 2:
            position = flat(tuple(node.shape[i] for i in ours), part)
            part = unflat(tuple(source.shape[j] for j in theirs), position)
        for j, at in zip(theirs, part, strict=True):
            new[j] = at
    return (yield source, tuple(new), predicate)


def _permute(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    new: list[UOp] = list(index)
    for i, axis in enumerate(node.arg):
        new[axis] = index[i]
    return (yield node.src[0], tuple(new), predicate)


def _expand(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    source = node.src[0]
    zero = const(0, INT64)
    return (
        yield source, tuple(zero if n == 1 else i for n, i in zip(source.shape, index)), predicate
    )


def _shrink(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    new = (
        simplify(i * step + start) for i, start, step in zip(index, node.arg.start, node.arg.step)
    )
    return (yield node.src[0], tuple(new), predicate)


def _flip(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    new = tuple(
        simplify(const(n - 1, INT64) - i) if axis in node.arg else i
        for axis, (n, i) in enumerate(zip(node.shape, index))
    )
    return (yield node.src[0], new, predicate)


def _pad(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    source, fill = node.src
    new: list[UOp] = []
    inside: UOp | None = None
    for n, i, low, between in zip(source.shape, index, node.arg.low, node.arg.interior):
        moved = simplify(i - low)
        inside = conjunction(inside, within(moved, 0, max((n - 1) * (between + 1) + 1, 0)))
        if between:
            on = build.eq(moved % (between + 1), const(0, INT64))
            inside = conjunction(inside, simplify(on))
            moved = simplify(moved // (between + 1))
        new.append(moved)
    if inside is None:
        return (yield source, tuple(new), predicate)
    # The fill value may be computed; it is a scalar, so it has no index.
    outside = yield fill, (), predicate
    if inside is const(False, BOOL):
        return outside
    value = yield source, tuple(new), conjunction(predicate, inside)
    zero = outside.op is Op.CONST and outside.arg.bits == 0
    if zero and value.op is Op.LOAD and len(value.src) == 3:
        return value  # a load whose predicate is false gives zero
    return build.where(inside, value, outside)


def _concat(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
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
        value = yield part, new, conjunction(predicate, here)
        pieces.append((here, value))
    # The last part needs no comparison: an index that is in no other part is in that one.
    out = pieces[-1][1]
    for here, value in reversed(pieces[:-1]):
        assert here is not None, "two parts cannot both hold the index"
        out = build.where(here, value, out)
    return out


def _reduction(fold: Fold, body: UOp, ranges: Sequence[UOp], dtype: DType) -> UOp:
    """A FOLD over ranges, accumulated in at least 32 bits; without ranges it is its body."""
    loops = [r for r in ranges if r.op is Op.RANGE]
    wide = build.accumulator(body.dtype)  # also of max and min: processors compare no bfloat16
    if loops:
        body = build.cast(body, wide)
        # An argmax folds the value with its index, the ranges of the reduction.
        body = body if fold.index is None else UOp(Op.TUPLE, (body, *loops))
        body = UOp(Op.FOLD, (body, *loops), fold)
    elif fold.index is not None:
        body = const(0, fold.index)
    return build.cast(body, dtype)


def _reduce(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    source = node.src[0]
    if 0 in source.shape:
        return const(build.identity(node.arg.op, node.dtype), node.dtype)
    outer = iter(index)
    new = tuple(
        indexer.range(n) if axis in node.arg.axes else next(outer)
        for axis, n in enumerate(source.shape)
    )
    body = yield source, new, predicate
    few = build.count(tuple(source.shape[axis] for axis in node.arg.axes)) < INT32_INDEX_LIMIT
    counted = None if node.arg.index is None else INT32 if few else INT64
    fold = Fold(node.arg.op, counted, interleaved=source.ndim - 1 in node.arg.axes)
    return _reduction(fold, body, [new[a] for a in node.arg.axes], node.dtype)


def _multiply(a: UOp, b: UOp, dtype: Any) -> UOp:
    wide = build.accumulator(dtype)
    if wide.itemsize < a.dtype.itemsize:
        wide = a.dtype
    return build.cast(a, wide) * build.cast(b, wide)


def _dot(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    a, b = node.src
    arg = node.arg
    if 0 in a.shape or 0 in b.shape:
        return const(0, node.dtype)
    outer = iter(index)
    at_a: list[Any] = [None] * a.ndim
    at_b: list[Any] = [None] * b.ndim
    for i, j in zip(arg.batch_a, arg.batch_b, strict=True):
        at_a[i] = at_b[j] = next(outer)
    inner = [indexer.range(a.shape[i]) for i in arg.contract_a]
    for i, j, r in zip(arg.contract_a, arg.contract_b, inner, strict=True):
        at_a[i] = at_b[j] = r
    at_a = [next(outer) if i is None else i for i in at_a]
    at_b = [next(outer) if i is None else i for i in at_b]
    x = yield a, tuple(at_a), predicate
    y = yield b, tuple(at_b), predicate
    # A product with a vector reads its operands along the sum.
    shared = len(arg.batch_a) + len(inner)
    fold = Fold(Op.ADD, interleaved=shared in (a.ndim, b.ndim), product=True, tf32=arg.tf32)
    return _reduction(fold, _multiply(x, y, node.dtype), inner, node.dtype)


def _conv(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    x, w = node.src
    arg = node.arg
    if 0 in x.shape or 0 in w.shape:
        return const(0, node.dtype)
    assert not any(map(any, arg.padding)), "`pad_explicitly` has made the padding a value"
    row, *place, feature = index
    window = [indexer.range(n) for n in w.shape[:-2]]
    depth = indexer.range(w.shape[-2])
    channel = depth
    # Features are counted as (groups, batch_groups, features of one pair of them).
    block = feature // (w.shape[-1] // (arg.groups * arg.batch_groups))
    if arg.groups > 1:
        channel = simplify(block // arg.batch_groups * w.shape[-2] + depth)
    if arg.batch_groups > 1:
        row = simplify(block % arg.batch_groups * node.shape[0] + row)
    space = (
        simplify(p * stride + k * dilation)
        for p, stride, k, dilation in zip(place, arg.strides, window, arg.dilation_w)
    )
    a = yield x, (row, *space, channel), predicate
    b = yield w, (*window, depth, feature), predicate
    fold = Fold(Op.ADD, product=True, tf32=arg.tf32)
    is_small = build.count(w.shape[:-2]) <= MAX_WINDOW_INSIDE
    inner = [*window, depth] if is_small else [depth, *window]
    return _reduction(fold, _multiply(a, b, node.dtype), inner, node.dtype)


def _gather(indexer: Indexer, node: UOp, index: Index, predicate: UOp | None) -> Steps:
    operand, indices = node.src
    batch, points = node.arg.batch, indices.ndim - 1
    at = index[:points]
    new = list(index[points:])
    for axis in range(indices.shape[-1]):
        start = yield indices, (*at, const(axis, INT64)), predicate
        room = operand.shape[batch + axis] - node.arg.sizes[axis]
        start = build.cast(start, INT64)
        # Starts are clamped by definition, so gathered loads need no predicate.
        clamped = build.minimum(build.maximum(start, const(0, INT64)), const(room, INT64))
        new[axis] = simplify(clamped + new[axis])
    return (yield operand, (*at[:batch], *new), predicate)


# fmt: off
VALUE: dict[Op, Rule] = {
    Op.CONST: _const, Op.IOTA: _iota,
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    Op.DETACH: _identity, Op.GBARRIER: _identity,
    Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.PAD: _pad,
    Op.SHRINK: _shrink, Op.FLIP: _flip, Op.CONCAT: _concat,
    Op.REDUCE: _reduce, Op.DOT: _dot, Op.CONV: _conv, Op.GATHER: _gather,
}
"""The rule of each op that a kernel inlines; others have kernels of their own."""
# fmt: on
