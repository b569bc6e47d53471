"""Memory-efficient (flash) attention: oversized intermediates are computed block by block.

A value from 4 times the L2 cache on, computed of small values and read only to compute small ones,
is never materialised.  A loop computes a block of its rows and at once reduces them.
Before -> after, for queries q, keys k and values v of many rows::

    s = dot q k; p = softmax s; o = dot p v

    o = scan over blocks of rows:  s = dot q[rows] k; p = softmax s; o[rows] = dot p v

Results that keep the chunked axis are stacked, slice by slice.  Results that sum over it are
carried from block to block, in order, so that their bits do not depend on threads.  Axes over which
nothing is summed are chunked first, as those of batches and heads are; the body of the loop is
chunked again by the same pass, until its values fit the cache.

Unlike in the online softmax of flash attention, a block holds whole rows of scores: their maxima
and sums are complete before they are used, and nothing is rescaled.

In a gradient, the loop of the backward pass recomputes the oversized values: see `intermediates`.

Source: Rabe and Staats, Self-attention Does Not Need O(n^2) Memory (2021); Dao et al.,
FlashAttention (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from tfn._support.frozen import mutable
from tfn.dtypes import INT32, DType
from tfn.lower.graph.intermediates import (
    MIN_LARGE_TO_SMALL_RATIO,
    Intermediates,
    Segment,
    oversized_bytes,
    working_bytes,
)
from tfn.lower.graph.packing import prepare
from tfn.lower.target.target import Target
from tfn.trace import build, records, source_lines
from tfn.trace.argument import Iota, Leaf, Scan
from tfn.trace.axes import SourceAxes, part, reduced_axes, result_axis, source_axes
from tfn.trace.jaxpr import close, leaves
from tfn.trace.loop_cleanup import redirected
from tfn.trace.op import Op, Shape
from tfn.trace.records import Cost, Record
from tfn.trace.uop import UOp, const, rebuild, substitute, walk

MATERIALIZE_LIMIT_L2 = 4
"""Intermediates from this multiple of the L2 cache on are chunked.

Smaller ones cost little traffic to memory, and kernels over whole values have more to share among
threads than the body of a loop.
"""

BLOCKS_PER_L2 = 2
"""The largest value of a block takes this fraction of the L2 cache: operands need the rest."""

MIN_CONTRACTION_ROWS = 32
"""Rows of a block in which rows are those of a contraction, even where fewer would fit the cache.

With fewer rows too little is computed of each element of the other operand that is read.
"""

MAX_RECOMPUTED_DEPTH = 256
"""Length of the sums of a contraction up to which a gradient recomputes it.

Recomputing costs a multiplication per element for each term of the sum, storing one pass over
memory.  Heads have 64 to 256 channels.
"""


Prepare = Callable[[Sequence[UOp], Target], list[UOp]]

_OF_ANY_ROWS = frozenset({Op.DOT, Op.CAST, Op.GBARRIER})
"""Ops that hold no shape."""


def chunk_oversized(
    outputs: Sequence[UOp], target: Target, prepared: Prepare = prepare
) -> list[UOp]:
    """Returns the same values, with oversized intermediates computed block by block.

    Args:
        prepared: packs operands as the target reads them: see `_hoist_packing`.
    """
    return _chunk(outputs, target, MATERIALIZE_LIMIT_L2 * target.l2_bytes, prepared)


def _chunk(outputs: Sequence[UOp], target: Target, limit: int, prepared: Prepare) -> list[UOp]:
    """The same from `limit` bytes on: largest sizes first, since their loops hold smaller ones."""
    chunked = list(outputs)
    order: list[UOp] = []
    seen: list[UOp] = []
    for size in sorted(oversized_bytes(outputs, limit), reverse=True):
        order = order or [u for u in walk(chunked) if u.op is not Op.FUNCTION]
        # From half the size on: values a little smaller than the largest belong to its loop.
        large = [u for u in order if working_bytes(u) >= size // 2]
        if large == seen:  # of the size before, and they stayed
            continue
        replaced: dict[UOp, UOp] = {}
        for segments in Intermediates(chunked, order, size // 2).components():
            for chunking in _chunkings(segments, target):
                loops = _loops(chunking, target, prepared)
                replaced |= loops
                _record(chunking, loops, limit)
        seen = large
        if replaced:
            chunked, order, seen = redirected(chunked, replaced), [], []
    return chunked


def _record(chunking: Chunking, loops: Mapping[UOp, UOp], limit: int) -> None:
    """Records the loops that replace the results of a segment, which take over their lines."""
    size_bytes = chunking.size * chunking.row_bytes
    costs = (Cost("bytes of a row", chunking.row_bytes), Cost("bytes of the whole", size_bytes))
    reason = f"a value of {size_bytes:,} bytes is more than {limit:,}: a loop holds blocks of it"
    sink = records.sink()
    for result, loop in loops.items():
        if sink is not None:
            sink.append(Record("chunk-oversized", result, loop, reason, costs))
        if source_lines.enabled():
            source_lines.inherit(loop, result)


# The choice of the axis.


@mutable
class Chunking:
    """One segment, with the axis along which it is chunked.

    Attributes:
        size: of the axis.
        row_bytes: of the largest interior value, for one row.
        axes: the chunked axis of each value; None for a value that has no such axis.
        sums: the results that sum over it, with the axes of their sources.
    """

    segment: Segment
    size: int
    row_bytes: int
    axes: dict[UOp, int | None]
    sums: dict[UOp, SourceAxes]

    def source_axes(self, u: UOp, axis: int | None) -> SourceAxes | None:
        """The axes of its sources of which a block of a value is computed."""
        if u in self.sums:
            return self.sums[u]
        return [None] * len(u.src) if axis is None else source_axes(u, axis)

    def recomputes(self) -> bool:
        """Whether each block computes a contraction or a reduction that has no such axis."""
        return any(
            u.op in (Op.DOT, Op.REDUCE) and self.axes.get(u) is None for u in self.segment.interior
        )

    def has_contraction_rows(self) -> bool:
        """Whether the axis is one of rows in some contraction, which pays off for many of them."""
        pairs = (self.source_axes(u, axis) for u, axis in self.axes.items() if u.op is Op.DOT)
        return bool(self.sums) or any(pair and None in pair for pair in pairs)


def _chunkings(segments: Sequence[Segment], target: Target) -> list[Chunking]:
    """A chunking of each segment; none, unless every segment can be chunked and pays."""
    if not all(map(_pays, segments)):
        return []
    chunkings = [c for segment in segments if (c := _chunking(segment, target))]
    return chunkings if len(chunkings) == len(segments) else []


def _pays(segment: Segment) -> bool:
    """Whether the interior is larger than all that surrounds it, and cheap to recompute."""
    small = sum(map(working_bytes, (*segment.inputs(), *segment.results)))
    largest = max(map(working_bytes, segment.interior), default=0)
    cheap = all(_depth(u) <= MAX_RECOMPUTED_DEPTH for u in segment.recomputed)
    return largest > MIN_LARGE_TO_SMALL_RATIO * small and cheap


def _chunking(segment: Segment, target: Target) -> Chunking | None:
    """The best axis: the first over which nothing is summed, else the longest.

    None along which each block would compute anew what all blocks share: of k-means, chunked along
    the centres, each block would compute all distances for itself.
    """
    largest = max(segment.interior, key=working_bytes)
    candidates = (_along(segment, largest, axis) for axis, n in enumerate(largest.shape) if n > 1)
    chunkings = [c for c in candidates if c and _block_rows(c, target) < c.size]
    chunkings = [c for c in chunkings if not c.recomputes()]
    parallel = next((c for c in chunkings if not c.sums), None)
    if target.batch_invariant:  # a sum over blocks would depend on how many rows fit the cache
        return parallel
    return parallel or max(chunkings, key=lambda c: c.size, default=None)


def _block_rows(chunking: Chunking, target: Target) -> int:
    """Rows of a block: as many as fit the cache, or up to half as many if these divide the axis."""
    fit = target.l2_bytes // BLOCKS_PER_L2 // chunking.row_bytes
    least = MIN_CONTRACTION_ROWS if chunking.has_contraction_rows() else 1
    most = min(max(fit, least), chunking.size)
    return next((n for n in range(most, most // 2, -1) if chunking.size % n == 0), most)


def _depth(u: UOp) -> int:
    """The length of the sums of a contraction."""
    return build.count(tuple(u.src[0].shape[i] for i in u.arg.contract_a))


def _along(segment: Segment, largest: UOp, axis: int) -> Chunking | None:
    """The chunking along an axis of the largest value, if all other values agree with it.

    From that value the axis spreads to sources and users.  A value that would be cut along two
    axes, or that mixes rows, makes the chunking impossible.
    """
    size = largest.shape[axis]
    chunking = Chunking(segment, size, working_bytes(largest) // size, {largest: axis}, {})
    users: dict[UOp, list[tuple[UOp, int]]] = {}
    for u in (*segment.interior, *segment.results):
        for index, s in enumerate(u.src):
            users.setdefault(s, []).append((u, index))
    stack = [largest]

    def agrees(u: UOp, at: int | None) -> bool:
        if u not in chunking.axes:
            chunking.axes[u] = at
            stack.append(u)
        return chunking.axes[u] == at

    while stack:
        u = stack.pop()
        at = chunking.axes[u]
        axes = chunking.source_axes(u, at)
        if axes is None:
            return None
        for s, j in zip(u.src, axes, strict=True):
            if s in segment.generated:
                if j is not None and not _generates_rows(s, j):
                    return None
            elif (s in segment.interior or s in segment.results) and not agrees(s, j):
                return None
        if at is None:
            continue
        for user, index in users.get(u, ()):
            user_axis = result_axis(user, index, at)
            if user_axis is None:
                # The user sums over the axis: it may, if nothing in the segment reads the sum.
                total = reduced_axes(user, index, at)
                final = user in segment.results and user not in users
                if total is None or not final or chunking.sums.setdefault(user, total) != total:
                    return None
            if not agrees(user, user_axis):
                return None
    complete = all(chunking.axes.get(u) is not None or u in chunking.sums for u in segment.results)
    return chunking if complete else None


def _generates_rows(u: UOp, axis: int) -> bool:
    """Whether rows of a generated value can be computed by themselves."""
    stack = [(u, axis)]
    while stack:
        node, at = stack.pop()
        axes = source_axes(node, at)
        if axes is None:
            return False
        stack += [(s, j) for s, j in zip(node.src, axes, strict=True) if j is not None]
    return True


# The loops.


def _loops(chunking: Chunking, target: Target, prepared: Prepare) -> dict[UOp, UOp]:
    """The results of a segment, by a loop over blocks, and one more pass over the remainder."""
    block = _block_rows(chunking, target)
    blocks = chunking.size // block
    # Sums begin with the identity, and the scan over the remainder continues them.
    totals = [const(build.identity(_monoid(u), _wide(u)), _wide(u), u.shape) for u in chunking.sums]
    stacked: dict[UOp, list[UOp]] = {
        u: [] for u in chunking.segment.results if u not in chunking.sums
    }
    remainder = chunking.size % block
    for first, length, rows in ((0, blocks, block), (blocks * block, 1, remainder)):
        if rows:
            loop = BlockLoop(chunking, target, prepared, first, length, rows)
            values = loop.scan(totals)
            totals = values[: len(totals)]
            for u, y in zip(stacked, values[len(totals) :], strict=True):
                stacked[u].append(loop.unstacked(y, u))
    sums = {u: build.cast(total, u.dtype) for u, total in zip(chunking.sums, totals, strict=True)}
    return sums | {u: build.concat(parts, _axis(chunking, u)) for u, parts in stacked.items()}


def _axis(chunking: Chunking, result: UOp) -> int:
    axis = chunking.axes[result]
    assert axis is not None, result
    return axis


def _monoid(u: UOp) -> Op:
    op: Op = u.arg.op if u.op is Op.REDUCE else Op.ADD
    return op


def _wide(u: UOp) -> DType:
    return build.accumulator(u.dtype)


@mutable
class BlockLoop:
    """The body of a loop over `length` blocks of `rows` rows, from row `first` on.

    Attributes:
        prepared: packs operands as the target reads them.
        whole: the values read whole, with their leaves in the body.
        parts: the values read block by block, with the axis, and their leaves.
        starts: an array of the first row of each block, and its leaf, if the body reads it.
    """

    chunking: Chunking
    target: Target
    prepared: Prepare
    first: int
    length: int
    rows: int
    whole: dict[UOp, UOp] = field(default_factory=dict)
    parts: dict[tuple[UOp, int], UOp] = field(default_factory=dict)
    starts: dict[UOp, UOp] = field(default_factory=dict)

    def scan(self, totals: Sequence[UOp]) -> list[UOp]:
        """Returns the results of the scan: sums that continue `totals`, then slices."""
        chunking = self.chunking
        blocks = self._blocks()
        old = [_leaf(u.shape, u.dtype) for u in totals]
        results = [
            UOp(_monoid(u), (total, blocks[u, None]))
            for u, total in zip(chunking.sums, old, strict=True)
        ]
        for u in chunking.segment.results:
            if u not in chunking.sums:
                axis = _axis(chunking, u)
                results.append(self._without_single_row(blocks[u, axis], axis))
        # A block may still be oversized, as that of one head is: it is chunked along its rows.
        limit = 2 * self.target.l2_bytes // BLOCKS_PER_L2
        results = _chunk(results, self.target, limit, self.prepared)
        # Packing may have replaced a whole operand by its copy: the body no longer reads it.
        used = set(leaves(results))
        whole = {u: leaf for u, leaf in self.whole.items() if leaf in used}
        consts, slices = [*whole.values()], [*self.starts.values(), *self.parts.values()]
        body, strays = close(results, [*consts, *old, *slices])
        assert not strays, strays
        arrays = [*self.starts, *(self._slices(u, axis) for u, axis in self.parts)]
        arg = Scan(self.length, False, len(consts), len(old))
        return build.several(UOp(Op.SCAN, (body.function, *whole, *totals, *arrays), arg))

    def _blocks(self) -> dict[tuple[UOp, int | None], UOp]:
        """One block of every value that the results need, by node and chunked axis."""
        chunking, segment = self.chunking, self.chunking.segment
        blocks: dict[tuple[UOp, int | None], UOp] = {}
        stack = [(u, chunking.axes[u]) for u in segment.results]
        while stack:
            u, axis = stack[-1]
            if u in segment.generated and axis is None:
                blocks[u, axis] = u
            elif not segment.computes(u):
                blocks[u, axis] = self._read(u, axis)
            if (u, axis) in blocks:
                stack.pop()
                continue
            axes = chunking.source_axes(u, axis)
            assert axes is not None, u
            sources = list(zip(u.src, axes, strict=True))
            missing = [pair for pair in sources if pair not in blocks]
            stack += missing
            if not missing:
                src = tuple(blocks[pair] for pair in sources)
                part = self._total(u, src) if u in chunking.sums else self._part(u, axis, src)
                loop_invariant_b = u.op is Op.DOT and axes[1] is None
                blocks[u, axis] = self._hoist_packing(part, axes[0]) if loop_invariant_b else part
                if source_lines.enabled():
                    source_lines.inherit(blocks[u, axis], u)
        return blocks

    def _hoist_packing(self, u: UOp, axis: int | None) -> UOp:
        """A contraction of a block, with the packing of its loop-invariant operand hoisted.

        `prepared` would pack that operand in every iteration, for the rows of one; its copy is made
        before the loop, for those of all.
        """
        a, b = u.src
        shapes = [a.shape]
        if axis is not None:
            shapes.insert(0, _with(a.shape, axis, a.shape[axis] * self.length))
        outer = {leaf: v for v, leaf in self.whole.items()}
        for shape in shapes:
            # A leaf for the first operand, since its own copies belong into the loop.
            stub = _leaf(shape, a.dtype)
            (packed,) = self.prepared([UOp(Op.DOT, (stub, b), u.arg)], self.target)
            barriers, varying = _fixed_copies(packed, stub)
            # What says a shape is of all rows, and not of a block's.
            fits = shape == a.shape or all(v.op in _OF_ANY_ROWS for v in varying)
            if fits and len(barriers) == 1 and outer.keys() >= set(leaves(barriers)):
                (copy,) = substitute(barriers, outer)
                leaf = self.whole.setdefault(copy, _leaf(copy.shape, copy.dtype))
                return substitute([packed], {stub: a, barriers[0]: leaf})[0]
        return u

    def _read(self, u: UOp, axis: int | None) -> UOp:
        """A value from outside the loop, whole or block by block."""
        if axis is None:
            return self.whole.setdefault(u, _leaf(u.shape, u.dtype))
        shape = _with(u.shape, axis, self.rows)
        if (u, axis) not in self.parts:
            slice_shape = shape if self.rows > 1 else _without(shape, axis)
            self.parts[u, axis] = _leaf(slice_shape, u.dtype)
        return build.reshape(self.parts[u, axis], shape)

    def _total(self, u: UOp, src: tuple[UOp, ...]) -> UOp:
        """The term that one block adds to a sum."""
        if u.op is Op.DOT:
            return UOp(Op.DOT, src, replace(u.arg, dtype=_wide(u)))
        return UOp(Op.REDUCE, (build.cast(src[0], _wide(u)),), u.arg)

    def _part(self, u: UOp, axis: int | None, src: tuple[UOp, ...]) -> UOp:
        """One block of a value."""
        if axis is None:
            return rebuild(u, src)
        counts = u.src[0] if u.op is Op.RESHAPE else u
        if counts.op is Op.IOTA:
            return self._row_numbers(u.shape, axis, u.dtype)
        return part(u, src, _with(u.shape, axis, self.rows))

    def _row_numbers(self, whole: Shape, axis: int, dtype: DType) -> UOp:
        """A block of the numbers 0, 1, ... in a shape."""
        shape = _with(whole, axis, self.rows)
        step = build.count(whole[axis + 1 :])
        starts = UOp(Op.IOTA, (), Iota(self.length, INT32)) * self.rows + self.first
        start = self.starts.setdefault(starts, _leaf((), INT32))
        total = build.broadcast_to(build.cast(start, dtype) * step, shape)
        for i in range(len(shape)):
            total = total + build.iota(shape, i, dtype) * build.count(whole[i + 1 :])
        return total

    # Arrays with a first axis of blocks.

    def _without_single_row(self, y: UOp, axis: int) -> UOp:
        """A slice, without the chunked axis if that has one row in it."""
        return y if self.rows > 1 else build.reshape(y, _without(y.shape, axis))

    def _slices(self, u: UOp, axis: int) -> UOp:
        """An array as slices along a new first axis, one for each block."""
        size = self.length * self.rows
        low, high = _with((0,) * u.ndim, axis, self.first), _with(u.shape, axis, self.first + size)
        u = build.shrink(u, low, high)
        if self.rows > 1:
            inner = (self.length, self.rows)
            # Not by `build`, which would look through a view that is to be replaced itself.
            u = UOp(Op.RESHAPE, (u,), (*u.shape[:axis], *inner, *u.shape[axis + 1 :]))
        return build.moveaxis(u, axis, 0)

    def unstacked(self, y: UOp, result: UOp) -> UOp:
        """Returns the rows of a result from the slices that the scan has stacked."""
        axis = _axis(self.chunking, result)
        shape = _with(result.shape, axis, self.length * self.rows)
        return build.reshape(build.moveaxis(y, 0, axis), shape)


def _fixed_copies(u: UOp, leaf: UOp) -> tuple[list[UOp], set[UOp]]:
    """Barriers that are not computed of a leaf, and the nodes that are."""
    varying = {leaf}
    for v in walk([u]):
        if not varying.isdisjoint(v.src):
            varying.add(v)

    def is_inside(v: UOp) -> bool:
        return v in varying or v.op is not Op.GBARRIER

    copies = [v for v in walk([u], is_inside) if not is_inside(v)]
    return copies, varying - {leaf}


def _leaf(shape: Shape, dtype: DType) -> UOp:
    return UOp(Op.LEAF, (), Leaf(shape, dtype))


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
