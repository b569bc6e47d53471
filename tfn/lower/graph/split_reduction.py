"""Split reductions: split-K contractions, two-pass reductions, concatenation trees.

A long sum with few results leaves most threads without work, and streams its operands from memory.
It is computed in two passes: partial results of pieces that fit the cache, then their sum::

    x: f32[1000000]    sum x       ->   sum (barrier (sum of each row of x as [64, 15625]))
    a[M, K] b[K, N]    dot a b     ->   sum (barrier (dot of pieces [P, M, K/P] [P, K/P, N]))

The pieces depend on shapes and target alone, never on threads, so neither do the bits.

A concatenation of many parts is the opposite case, one value of many sources.  As a tree, an
element looks for its part among a few, twice, instead of among all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tfn.dtypes import INT32, INT64
from tfn.lower.graph.layout import strides
from tfn.lower.target.register_tile import accumulators
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Conv, Dot, Reduce
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op, Shape
from tfn.trace.uop import UOp, const, walk

MIN_ELEMENTS_TO_SPLIT = 1 << 15
"""Elements per output from which a reduction takes two passes.

A pass over fewer takes a few microseconds, no more than waking the threads for two.
"""

MAX_OUTPUTS_TO_SPLIT = 128
"""Outputs up to which a reduction is split: with more, each thread has outputs of its own."""

MIN_WHOLE_ROWS = 32
"""Rows from which on processors reduce each in one pass, and so share loops with what reads it.

Threads have rows enough.  Softmax of 64 by 50,257 took 2.2 ms by partial results, and takes 1.6.
"""

PARTIAL_RESULTS = 64
"""Partial results per output of a two-pass reduction.

Fixed, so that the bits depend on no machine; enough for the threads of a large one.
"""

MIN_READ_TO_PARTIAL_RATIO = 16
"""Bytes of the operands for each byte of a result, for split-K to pay.

Each piece writes a partial result of the whole size, which is read again.
"""

MAX_WINDOW_UNSPLIT = 64
"""Elements of a window up to which a sum whose order is its own is not split over channels."""

MIN_TERMS = 1 << 10
"""Terms of each piece of such a sum: the image of 32 x 32 that one channel has.

A gradient to the weights of 64 channels took 62 ms whole, since each tile streams both operands.
"""

MAX_CONCAT_PARTS = 16
"""Parts of a concatenation from which on it becomes a tree.

An element chooses among its parts one after the other, and so does the generated code grow: a stack
of 200 took 5.3 s to compile, as a tree 0.27 s.
"""

IN_ORDER_OPS = ELEMENTWISE | {Op.RESHAPE, Op.CAST, Op.BITCAST, Op.DETACH}
"""Ops whose elements are read in the order of the elements of their result."""

REORDERING_OPS = MOVEMENT - {Op.RESHAPE} | {Op.IOTA, Op.GATHER}
"""Ops that read elements in another order, or compute them of their position."""


def collapse_k(u: UOp, copied: bool = False) -> UOp:
    """A contraction over neighbouring axes as one over a single axis::

    dot[contract ((0, 1), (0, 1))] a b   ->   dot[contract ((0,), (0,))] (reshape a) (reshape b)

    Where an operand is to be `copied`, its reshape may be no view of memory.
    """
    sums = u.arg.contract_a, u.arg.contract_b
    if len(sums[0]) < 2 or any(axes != tuple(range(axes[0], axes[-1] + 1)) for axes in sums):
        return u
    src: list[UOp] = []
    for s, axes in zip(u.src, sums, strict=True):
        depth = build.count(tuple(s.shape[i] for i in axes))
        src.append(build.reshape(s, (*s.shape[: axes[0]], depth, *s.shape[axes[-1] + 1 :])))
    # A reshape that is no view of memory would cost divisions in the inner loop.
    if not copied and any(strides(s) is None for s in src):
        return u
    merged = len(sums[0]) - 1
    batch_a, batch_b = (
        tuple(i - merged * (i > axes[0]) for i in batch)
        for batch, axes in zip((u.arg.batch_a, u.arg.batch_b), sums, strict=True)
    )
    contract = (sums[0][:1], sums[1][:1])
    a, b = src
    return build.dot(a, b, contract, (batch_a, batch_b), u.arg.dtype, u.arg.tf32)


def collapse_free(u: UOp) -> UOp:
    """A contraction of matrices, where free axes follow one another, viewed as the same result::

    dot[contract ((0,), (0,))] a b, b: f32[D, H, K]   ->   view of dot a (b as f32[D, H * K])

    A tile of registers and panels run along one axis, which is then as long as it can be.
    """
    arg: Dot = u.arg
    src: list[UOp] = []
    axes: list[tuple[Shape, Shape]] = []
    sides = (arg.batch_a, arg.contract_a), (arg.batch_b, arg.contract_b)
    for s, (batch, sums) in zip(u.src, sides, strict=True):
        free = [i for i in range(s.ndim) if i not in (*batch, *sums)]
        if len(free) > 1 and free == list(range(free[0], free[-1] + 1)):
            sizes = build.count(tuple(s.shape[i] for i in free))
            matrix = build.reshape(s, (*s.shape[: free[0]], sizes, *s.shape[free[-1] + 1 :]))
            if strides(matrix) is not None:  # a view of memory: no divisions in the inner loop
                merged = len(free) - 1
                batch, sums = (
                    tuple(i - merged * (i > free[0]) for i in some) for some in (batch, sums)
                )
                s = matrix
        src.append(s)
        axes.append((batch, sums))
    if all(new is old for new, old in zip(src, u.src, strict=True)):
        return u
    (a, b), (of_a, of_b) = src, axes
    batches, sums_of_both = (of_a[0], of_b[0]), (of_a[1], of_b[1])
    return build.reshape(build.dot(a, b, sums_of_both, batches, arg.dtype, arg.tf32), u.shape)


def split_k(u: UOp, target: Target, pack: Callable[[UOp], UOp]) -> UOp:
    """Splits the sums of a long contraction: partial products of pieces, then their sum.

    Args:
        u: the contraction, without batch axes.
        pack: applied to the contraction of all pieces as a batch, or to `u` if splitting does not
            pay.
    """
    arg: Dot = u.arg
    a, b = u.src
    i, j = arg.contract_a[0], arg.contract_b[0]
    rows = build.count(tuple(n for k, n in enumerate(a.shape) if k not in arg.contract_a))
    pieces = _pieces(u, rows, a.shape[i], target)
    if pieces == 1:
        return pack(u)
    step = a.shape[i] // pieces
    a = build.reshape(a, (*a.shape[:i], pieces, step, *a.shape[i + 1 :]))
    b = build.reshape(b, (*b.shape[:j], pieces, step, *b.shape[j + 1 :]))
    contract = (
        [k + (k >= i) for k in arg.contract_a],
        [k + (k >= j) for k in arg.contract_b],
    )
    # Partial sums keep the width of accumulators: they are rounded once, at the end.
    wide = build.accumulator(arg.dtype)
    partial = pack(build.dot(a, b, contract, ((i,), (j,)), wide, arg.tf32))
    return build.cast(build.add_up(UOp(Op.GBARRIER, (partial,)), (0,)), u.dtype)


def split_channels(u: UOp, target: Target, pack: Callable[[UOp], UOp]) -> UOp:
    """Split-K for a convolution over many channels, as one with groups of channels.

    Args:
        u: the convolution.
        pack: applied to `u` if splitting does not pay.
    """
    arg: Conv = u.arg
    x, w = u.src
    *window, depth, features = w.shape
    if target.batch_invariant:
        pieces = _pieces_of_window(build.count(tuple(window)), depth)
    elif arg.groups > 1 or arg.batch_groups > 1:
        pieces = 1
    else:
        pieces = _pieces(u, build.count(u.shape[:-1]), depth, target)
    if pieces == 1:
        return pack(u)
    step, n, own = depth // pieces, len(window), features // arg.groups
    groups = (arg.groups,) if arg.groups > 1 else ()
    w = build.reshape(w, (*window, pieces, step, *groups, own))
    w = build.moveaxis(w, n, w.ndim - 2)
    w = build.reshape(w, (*window, step, pieces * features))
    wide = build.accumulator(arg.dtype)
    partial = build.conv(x, w, replace(arg, groups=arg.groups * pieces, dtype=wide))
    partial = build.reshape(partial, (*u.shape[:-1], *groups, pieces, own))
    total = build.add_up(UOp(Op.GBARRIER, (partial,)), (partial.ndim - 2,))
    return build.cast(build.reshape(total, u.shape), u.dtype)


def _pieces_of_window(window: int, depth: int) -> int:
    """The number of pieces of a convolution's sums, by their own lengths alone.

    Only those of a gradient to weights are long, whose window is the image.
    """
    if window <= MAX_WINDOW_UNSPLIT or not depth:
        return 1
    pieces = [n for n in range(1, depth + 1) if depth % n == 0 and depth // n * window >= MIN_TERMS]
    return max(pieces, default=1)


def _pieces(u: UOp, rows: int, axis_size: int, target: Target) -> int:
    """The number of pieces, so that the operands of one fit the cache; 1 if that does not pay.

    It pays where each of many register tiles would stream both operands from memory again, since
    neither fits half of the cache, and the partial results are small beside them; or where there is
    too little else to share.  16 rows by (576, 1536) took 790 us in pieces, and take 370 whole.
    """
    if target.batch_invariant:
        return 1
    read_bytes = sum(build.count(s.shape) * s.dtype.itemsize for s in u.src)
    written_bytes = build.count(u.shape) * build.accumulator(u.dtype).itemsize
    least = -(-2 * read_bytes // target.l2_bytes)
    many_tiles = min(rows, build.count(u.shape) // max(rows, 1)) > accumulators(target)
    many_tiles &= 2 * min(s.size * s.dtype.itemsize for s in u.src) > target.l2_bytes
    few_outputs = build.count(u.shape) <= MAX_OUTPUTS_TO_SPLIT
    too_wide = written_bytes * MIN_READ_TO_PARTIAL_RATIO > read_bytes
    if least < 2 or too_wide or not (many_tiles or few_outputs):
        return 1
    divisors = [n for n in range(2, axis_size + 1) if axis_size % n == 0]
    pieces = next((n for n in divisors if n >= least), axis_size)
    return pieces if few_outputs or 2 * pieces * written_bytes <= read_bytes else 1


def in_order_of_memory(u: UOp, target: Target) -> UOp:
    """A reduction of turned or reversed axes as one of the axes in memory::

        reduce[(0, 1)] (permute[(1, 0)] x)   ->   reduce[(0, 1)] x
        reduce[(1,)] (flip[(1,)] x)          ->   reduce[(1,)] x

    The axes that are left must stay in their order.  A maximum of 3 by 182 by 549 turned float32
    took 159 us, and takes 28.  The order of a sum that is `batch_invariant` is that of its axes.
    """
    arg: Reduce = u.arg
    x, casts = u.src[0], list[UOp]()
    while x.op is Op.CAST:
        casts.append(x)
        x = x.src[0]
    if arg.index is not None or target.batch_invariant or x.op not in (Op.PERMUTE, Op.FLIP):
        return u
    axes = arg.axes
    if x.op is Op.FLIP:
        if not set(x.arg) <= set(axes):
            return u
    else:
        kept = [axis for i, axis in enumerate(x.arg) if i not in axes]
        if kept != sorted(kept):
            return u
        axes = tuple(x.arg[axis] for axis in axes)
    value = x.src[0]
    for each in reversed(casts):
        value = build.cast(value, each.dtype)
    return in_order_of_memory(build.reduce(value, arg.op, axes), target)


def two_pass_reduce(u: UOp, target: Target, whole_rows: bool = True) -> UOp:
    """A long reduction to few values -> partial results of fixed tiles, then theirs.

    On a target that is `batch_invariant` the number of values does not count, nor how they lie.
    With `whole_rows` a core adds up each of many rows alone.
    """
    arg: Reduce = u.arg
    x = u.src[0]
    kept_axes = [axis for axis in range(x.ndim) if axis not in arg.axes]
    outputs, size = build.count(u.shape), build.count(tuple(x.shape[a] for a in arg.axes))
    few = target.batch_invariant or outputs <= MAX_OUTPUTS_TO_SPLIT
    if not few or size < MIN_ELEMENTS_TO_SPLIT:
        return u
    along = kept_axes == list(range(len(kept_axes))) and not target.batch_invariant
    if along and outputs >= MIN_WHOLE_ROWS and whole_rows and arg.index is None:
        return u
    # Split the outermost reduced axis that is long enough; its tiles stay contiguous.
    axis = next((a for a in arg.axes if x.shape[a] >= PARTIAL_RESULTS), None)
    if axis is None:
        return u
    n = x.shape[axis]
    whole = len(arg.axes) == x.ndim and not target.batch_invariant
    if whole and _is_contiguous(x):
        x, axis, n, kept_axes = build.reshape(x, (size,)), 0, size, []
        axes: tuple[int, ...] = (0,)
        tiles = PARTIAL_RESULTS
    else:
        # An axis that is not contiguous is split without a remainder if possible: padding it
        # would put a predicate on every load.
        axes = arg.axes
        tiles = next(
            (t for t in range(PARTIAL_RESULTS, PARTIAL_RESULTS // 2, -1) if n % t == 0),
            PARTIAL_RESULTS,
        )
    if len(axes) == 1 and n % tiles:  # the rest joins the partial results: no load is predicated
        step = n // tiles
        rest_of_x = _part(x, axis, tiles * step, n)
        x = _part(x, axis, 0, tiles * step)
    else:
        step, rest_of_x = -(-n // tiles), None
        tiles = -(-n // step)
        identity = const(build.identity(arg.op, x.dtype), x.dtype)
        high = tuple(tiles * step - n if a == axis else 0 for a in range(x.ndim))
        x = build.pad(x, (0,) * x.ndim, high, None, identity)
    x = build.reshape(x, (*x.shape[:axis], tiles, step, *x.shape[axis + 1 :]))
    if arg.index is not None:
        return build.cast(_two_pass_argument(x, rest_of_x, arg.op, axis, n), arg.index)
    inner = [axis + 1, *(a + (a > axis) for a in axes if a != axis)]
    wide = build.accumulator(u.dtype) if arg.op in (Op.ADD, Op.MUL) else u.dtype
    partial = UOp(Op.GBARRIER, (build.reduce(build.cast(x, wide), arg.op, inner),))
    at = sum(1 for a in kept_axes if a < axis)
    if rest_of_x is not None:
        partial = build.concat([partial, build.cast(rest_of_x, wide)], at)
    return build.cast(build.reduce(partial, arg.op, [at]), u.dtype)


def _part(x: UOp, axis: int, start: int, stop: int) -> UOp:
    """The elements start to stop of an axis."""
    starts = tuple(start if a == axis else 0 for a in range(x.ndim))
    return build.shrink(x, starts, tuple(stop if a == axis else n for a, n in enumerate(x.shape)))


def _is_contiguous(x: UOp) -> bool:
    """Whether a value reads all of its memory from end to end.

    Sums of slices or broadcast values as one line took a division for each element: 290 to 2000 us
    for a million elements, which take 45 to 90 us along their axes.
    """
    return all(
        u.op not in REORDERING_OPS or (u.op is Op.EXPAND and u.src[0].size == 1)
        for u in walk([x], lambda u: u.op in IN_ORDER_OPS)
    )


def _two_pass_argument(x: UOp, rest: UOp | None, op: Op, axis: int, size: int) -> UOp:
    """The index of the first extreme along an axis that is cut into tiles, the next axis.

    It is in the first of the tiles whose own extremes are the best, where that tile has it; each
    element of the rest is a tile.
    """
    index, tiles, step = INT32 if size < 1 << 31 else INT64, x.shape[axis], x.shape[axis + 1]
    indices = UOp(Op.GBARRIER, (build.reduce(x, op, (axis + 1,), index=index),))
    extremes = UOp(Op.GBARRIER, (_take_along(x, indices, axis + 1),))
    if rest is None:
        tile = build.reduce(extremes, op, (axis,), index=index)
        return tile * step + _take_along(indices, tile, axis)
    tile = build.reduce(build.concat([extremes, rest], axis), op, (axis,), index=index)
    last = build.minimum(tile, const(tiles - 1, index, tile.shape))
    inside = last * step + _take_along(indices, last, axis)
    return build.where(tile < tiles, inside, tile + tiles * (step - 1))


def _take_along(x: UOp, indices: UOp, axis: int) -> UOp:
    """The element at an index along an axis, for each line; the axis disappears."""
    lines, n = build.moveaxis(x, axis, x.ndim - 1), x.ndim - 1
    indices = build.reshape(indices, (*indices.shape, 1))
    return build.reshape(build.gather(lines, indices, (1,), n), lines.shape[:-1])


def concat_tree(u: UOp) -> UOp:
    """A concatenation of many parts -> one of groups, each concatenated first."""
    parts = list(u.src)
    while len(parts) > MAX_CONCAT_PARTS:
        groups = [parts[i : i + MAX_CONCAT_PARTS] for i in range(0, len(parts), MAX_CONCAT_PARTS)]
        parts = [UOp(Op.GBARRIER, (build.concat(group, u.arg),)) for group in groups]
    return u if len(parts) == len(u.src) else build.concat(parts, u.arg)
