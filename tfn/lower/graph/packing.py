"""The function made ready for the cut: what must be said with arrays, not with loops.

Padding of convolutions becomes a value of its own, so that inner loops need no gates.  Long
reductions and contractions with few results are done in two stages: pieces that fit the cache,
each with partial results, then their sum.  The pieces depend on shapes and target alone, never on
threads, so neither do the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import lcm, prod
from operator import add

from tfn.dtypes import FLOAT32, INT32, INT64, DType, int8, int16, uint8
from tfn.lower.graph.conv_padding import in_phases, pad_explicitly
from tfn.lower.graph.layout import LINE_BYTES, aliased, apart, in_panels, panelled, strides
from tfn.lower.loops.tensorize import Unit, units
from tfn.lower.target.register_tile import accumulators, best_tile
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Conv, Dot, Reduce
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op, Shape
from tfn.trace.uop import UOp, const, rebuild, walk

PARTS, LINES, LONG_LINE, FEW_ROWS = 4, 4, 256, 2
"""Into how many parts a matrix is cut for a product with a vector, of how many lines side by side
each, and from what length of the lines on."""

MANY_ROWS, SOME_ROWS, LONG_DEPTH = 64, 16, 128
"""Rows of a product from which on a copy of the second operand pays; if sums are shorter than that,
some will do."""

FEW_COLUMNS, APART = 16, 4
"""With fewer columns there is no vector of them; and how many times its own length a line of the
second operand lies from the next, to be copied."""

PANEL_ROWS = 256
"""Rows from which on a copy into panels pays, of a second operand as large as the second cache, and
fewer of a larger one; and columns, of a first operand that is summed over its lines."""

BYTES = frozenset({int8.dtype, uint8.dtype})

LONG_REDUCTION = 1 << 15
"""Elements per output above which a reduction with few outputs is done in two stages."""

FEW_OUTPUTS = 128
STAGE_TILES = 64

SIDE_BY_SIDE = 16
"""Of more values than these, groups are put side by side."""

ALONG = ELEMENTWISE | {Op.RESHAPE, Op.CAST, Op.BITCAST, Op.DETACH}
ELSEWHERE = MOVEMENT - {Op.RESHAPE} | {Op.IOTA, Op.GATHER}
"""What is read in the order of its elements, and what is not."""
"""How many partial results the first of two stages makes: fixed, so that bits are, too."""


def prepare(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    """Contractions read unpadded operands, long reductions and contractions get two stages."""
    new: dict[UOp, UOp] = {}
    for node in walk(outputs):
        closed = node.op is Op.FUNCTION
        made = node if closed else rebuild(node, tuple(new[s] for s in node.src))
        if made.op is Op.CONV:
            made = in_phases(made, lambda u: long_conv(pad_explicitly(u), target))
        elif made.op is Op.DOT:
            paired = for_unit(made, target)
            if paired is made:
                paired = long_dot(made, target)
            made = paired
        elif made.op is Op.REDUCE:
            made = two_stages(made)
        elif made.op is Op.CONCAT:
            made = in_groups(made)
        elif made.op in (Op.DETACH, Op.GBARRIER):
            made = made if made.op is Op.GBARRIER else made.src[0]
        new[node] = made
    return [new[u] for u in outputs]


def in_groups(u: UOp) -> UOp:
    """Many values side by side -> groups side by side, in which a few are put first.

    An element looks for its own value among a few, twice, instead of among all.
    """
    parts = list(u.src)
    while len(parts) > SIDE_BY_SIDE:
        groups = [parts[i : i + SIDE_BY_SIDE] for i in range(0, len(parts), SIDE_BY_SIDE)]
        parts = [UOp(Op.GBARRIER, (build.concat(group, u.arg),)) for group in groups]
    return u if len(parts) == len(u.src) else build.concat(parts, u.arg)


def packed(u: UOp) -> UOp:
    """The second operand of a contraction, copied so that its free axis steps by one::

        dot[contract (1, 1)] a b    ->    dot[contract (1, 0)] a (barrier (transpose b))

    Vectors run along that axis.  The copy costs a pass over the operand, which is worth it for many
    rows; a few are rather summed along vectors, if lines are long.
    """
    if u.op not in (Op.DOT, Op.CONV):
        return u
    a, b = u.src
    if u.op is Op.CONV:
        order = tuple(range(b.ndim))
        rows, columns, depth = build.count(u.shape[:-1]), b.shape[-1], build.count(b.shape[:-1])
    else:
        free = [i for i in range(b.ndim) if i not in u.arg.batch_b + u.arg.contract_b]
        order = (*u.arg.batch_b, *u.arg.contract_b, *free)
        columns = build.count(tuple(b.shape[i] for i in free))
        depth = build.count(tuple(b.shape[i] for i in u.arg.contract_b))
        batch = build.count(tuple(b.shape[i] for i in u.arg.batch_b))
        rows = build.count(u.shape) // max(columns * batch, 1)
    steps = strides(b)
    near = steps is not None and bool(order) and steps[order[-1]] in (0, 1)
    near = near or (order == tuple(range(b.ndim)) and in_panels(b))
    b = build.permute(b, order)
    worth = MANY_ROWS if depth >= LONG_DEPTH else SOME_ROWS
    if rows >= worth and columns >= FEW_COLUMNS and not near:
        b = UOp(Op.GBARRIER, (b,))
    if u.op is Op.CONV:
        return rebuild(u, (a, b))
    n, m = len(u.arg.batch_b), len(u.arg.contract_b)
    arg = replace(u.arg, batch_b=tuple(range(n)), contract_b=tuple(range(n, n + m)))
    return UOp(Op.DOT, (a, b), arg)


def panels(u: UOp, target: Target) -> UOp:
    """Operands that are large, or whose lines lie apart, in panels as wide as the register tile::

        dot a b, b: f32[K, N]   ->   dot a (view of (barrier of b as f32[N / W, K, W]))

    Lines of a panel follow each other in memory; in the operand they lie N apart or more, often at
    a power of two, where few of them fit into the cache together.  The first operand is copied if
    it is summed over its lines, as in a gradient, and one column of them does not fit.
    """
    if u.op is not Op.DOT:
        return u
    u = one_sum(u)
    a, b = u.src
    n, lanes = len(u.arg.batch_b), target.vector_bytes // max(4, u.src[1].dtype.itemsize)
    if b.ndim != n + 2 or u.arg.batch_b != tuple(range(n)) or u.arg.contract_b != (n,):
        return u
    batch, columns = b.shape[:n], b.shape[-1]
    rows = build.count(u.shape) // max(build.count((*batch, columns)), 1)
    if 0 in b.shape or min(rows, columns) < FEW_COLUMNS or rows < MANY_ROWS:
        return u
    steps, depth = strides(b), b.shape[n]
    height, width = best_tile(rows, columns, lanes, accumulators(target))
    scattered = steps is not None and steps[n] >= APART * columns
    size_bytes = depth * columns * b.dtype.itemsize
    large = not batch and rows * size_bytes >= PANEL_ROWS * target.l2_bytes
    whole = _uncopied(b)
    if scattered or ((large or (whole is not b and n == 0)) and columns >= MANY_ROWS):
        b = panelled(whole, lanes * width, 1)
    c, reach = u.arg.contract_a[0], depth * max(LINE_BYTES, height * a.dtype.itemsize)
    if n == 0 and columns >= PANEL_ROWS and reach >= target.l1_bytes and _across(a, c):
        a = panelled(build.permute(a, (c, 1 - c)), lcm(lanes, height), 1)
        return UOp(Op.DOT, (a, b), replace(u.arg, contract_a=(0,)))
    return UOp(Op.DOT, (a, b), u.arg)


def _uncopied(b: UOp) -> UOp:
    """An operand as it was before `packed` has copied it: one copy will do."""
    copied = b.op is Op.GBARRIER and b.src[0].op is Op.PERMUTE
    return b.src[0] if copied else b


def _across(a: UOp, axis: int) -> bool:
    """Whether neighbours along an axis of a matrix lie in different lines of memory."""
    steps = strides(a) if a.ndim == 2 else None
    return steps is not None and steps[axis] > steps[1 - axis] == 1


def one_sum(u: UOp) -> UOp:
    """A contraction over neighbouring axes as one over a single axis::

    dot[contract ((0, 1), (0, 1))] a b   ->   dot[contract ((0,), (0,))] (reshape a) (reshape b)
    """
    sums = u.arg.contract_a, u.arg.contract_b
    if len(sums[0]) < 2 or any(axes != tuple(range(axes[0], axes[-1] + 1)) for axes in sums):
        return u
    src: list[UOp] = []
    for s, axes in zip(u.src, sums, strict=True):
        depth = build.count(tuple(s.shape[i] for i in axes))
        src.append(build.reshape(s, (*s.shape[: axes[0]], depth, *s.shape[axes[-1] + 1 :])))
    if any(strides(s) is None for s in src):
        return u
    gone = len(sums[0]) - 1
    batch_a, batch_b = (
        tuple(i - gone * (i > axes[0]) for i in batch)
        for batch, axes in zip((u.arg.batch_a, u.arg.batch_b), sums, strict=True)
    )
    one = (sums[0][:1], sums[1][:1])
    a, b = src
    return build.dot(a, b, one, (batch_a, batch_b), u.arg.dtype)


def _width(rows: int, columns: int, itemsize: int, target: Target) -> int:
    """The columns of a register tile."""
    lanes = target.vector_bytes // itemsize
    return lanes * best_tile(rows, columns, lanes, accumulators(target))[1]


def for_unit(u: UOp, target: Target) -> UOp:
    """Operands of a matrix unit, which takes neighbours together, as pairs::

        dot a b, b: bf16[K, N]   ->   dot a (view of (barrier of b as bf16[N / W, K / 2, W, 2]))

    Small integers are widened to what the unit takes, and zeros fill up groups of neighbours if it
    multiplies whole matrices.
    """
    arg: Dot = u.arg
    a, b = u.src
    n, wide = len(arg.batch_a), build.accumulator(arg.dtype)
    if wide not in (FLOAT32, INT32) or len(arg.contract_a) != 1 or 0 in (*u.shape, *a.shape):
        return u
    a = _matrix(a, arg.batch_a, arg.contract_a, last=True)
    b = _matrix(b, arg.batch_b, arg.contract_b)
    rows, lines, columns = a.shape[n], a.shape[-1], b.shape[-1]
    unit = _unit(a.dtype, (rows, columns, lines), target)
    if unit is None or min(rows, columns) < FEW_COLUMNS:
        return u
    more = -lines % unit.together
    steps = strides(a)
    near = steps is not None and steps[-1] == 1
    as_it_is = near and not more and a.dtype == unit.dtype and not _converted(a)
    a = build.pad(build.cast(a, unit.dtype), (0,) * (n + 2), (0,) * (n + 1) + (more,))
    pitch = steps[-2] if steps is not None and as_it_is else a.shape[-1]
    far = unit.whole and columns >= PANEL_ROWS and aliased(pitch * a.dtype.itemsize)
    if not near or not (as_it_is or far):
        a = UOp(Op.GBARRIER, (a,))
    a = apart(a) if far else a
    b = build.pad(build.cast(b, unit.dtype), (0,) * (n + 2), (0,) * n + (more, 0))
    width = unit.columns * unit.block(rows, columns)[1]
    b = panelled(b, width if unit.whole else _width(rows, columns, 4, target), unit.together)
    in_order = tuple(range(n))
    made = build.dot(a, b, ((n + 1,), (n,)), (in_order, in_order), arg.dtype)
    return build.reshape(made, u.shape)


def _matrix(u: UOp, batch: Shape, sums: Shape, last: bool = False) -> UOp:
    """An operand as [*batch, sum, free], or with the axis of the sum last."""
    free = tuple(i for i in range(u.ndim) if i not in batch + sums)
    parts = (batch, free, sums) if last else (batch, sums, free)
    kept, m, n = (tuple(u.shape[i] for i in axes) for axes in parts)
    return build.reshape(build.permute(u, sum(parts, ())), (*kept, prod(m), prod(n)))


def _converted(u: UOp) -> bool:
    """Whether a value is one of another dtype, seen through a view."""
    while u.op in MOVEMENT:
        u = u.src[0]
    return u.op is Op.CAST


def _unit(dtype: DType, sizes: tuple[int, int, int], target: Target) -> Unit | None:
    """The unit for a product of so many rows, columns and neighbours."""
    rows, columns, depth = sizes
    for kind in (dtype, int16.dtype) if dtype in BYTES else (dtype,):
        for unit in units(target, kind):
            whole = depth + -depth % unit.together if unit.whole else depth
            if unit.fits(rows, columns, whole):
                return unit
    return None


def _pieces(u: UOp, rows: int, axis_size: int, target: Target) -> int:
    """In how many pieces to sum a contraction, so that a piece of its operands fits the cache.

    Worth it where each of many register tiles would stream both operands from memory again, and
    the partial results are small beside them; or where there is too little else to share.
    """
    read = sum(build.count(s.shape) * s.dtype.itemsize for s in u.src)
    written = build.count(u.shape) * build.accumulator(u.dtype).itemsize
    wanted = -(-2 * read // target.l2_bytes)
    many = min(rows, build.count(u.shape) // max(rows, 1)) > accumulators(target)
    few = build.count(u.shape) <= FEW_OUTPUTS
    if wanted < 2 or written * 16 > read or not (many or few):
        return 1
    divisors = [n for n in range(2, axis_size + 1) if axis_size % n == 0]
    pieces = next((n for n in divisors if n >= wanted), axis_size)
    return pieces if few or 2 * pieces * written <= read else 1


def _few_rows(u: UOp, target: Target) -> bool:
    """Whether a product reads a large matrix once, for a row or two."""
    arg: Dot = u.arg
    a, b = u.src
    rows = build.count(tuple(n for i, n in enumerate(a.shape) if i not in arg.contract_a))
    if rows > FEW_ROWS or arg.contract_b != (0,) or strides(b) != (b.shape[-1], 1):
        return False
    lines, columns = b.shape
    far = 4 * lines * columns * b.dtype.itemsize >= target.l2_bytes
    return far and columns >= LONG_LINE and lines % (PARTS * LINES) == 0


def by_lines(u: UOp) -> UOp:
    """``dot a b`` for few rows -> sums of lines of b, which are read from beginning to end::

        for part in 4: for i in K / 16: out[part] += sum of a[part, j, i] * b[part, j, i] for j in 4

    So several parts of memory are read side by side, as the processor foresees, and the sums stay
    in the first cache.  The parts are shared among threads.
    """
    arg: Dot = u.arg
    a, b = u.src
    (lines, columns), (i,) = b.shape, arg.contract_a
    rows, steps, wide = a.size // lines, lines // (PARTS * LINES), build.accumulator(arg.dtype)
    a = build.moveaxis(a, i, 0)

    def line(u: UOp, k: int, shape: Shape) -> UOp:
        parts = build.reshape(u, (PARTS, LINES, steps, *shape))
        one = build.shrink(parts, (0, k, *(0,) * (len(shape) + 1)), (PARTS, k + 1, steps, *shape))
        one = build.cast(build.reshape(one, (PARTS, steps, *shape)), wide)
        return build.expand(one, (PARTS, steps, rows, columns))

    products = (line(a, k, (rows, 1)) * line(b, k, (1, columns)) for k in range(LINES))
    start = const(0, wide, (PARTS, rows, columns))
    whole = const(0, INT32, (PARTS, steps, 0))
    sums = build.scatter(start, whole, reduce(add, products), Op.ADD, 1)
    total = build.add_up(sums, (0,))
    return build.reshape(build.cast(total, u.dtype), u.shape)


def long_dot(u: UOp, target: Target) -> UOp:
    """``dot a b`` over a long axis -> partial products of pieces of it, summed."""
    arg: Dot = u.arg
    a, b = u.src
    if not arg.contract_a or arg.batch_a:
        return panels(packed(u), target)
    if _few_rows(u, target):
        return by_lines(u)
    i, j = arg.contract_a[0], arg.contract_b[0]
    rows = build.count(tuple(n for k, n in enumerate(a.shape) if k not in arg.contract_a))
    pieces = _pieces(u, rows, a.shape[i], target)
    if pieces == 1:
        return panels(packed(u), target)
    step = a.shape[i] // pieces
    a = build.reshape(a, (*a.shape[:i], pieces, step, *a.shape[i + 1 :]))
    b = build.reshape(b, (*b.shape[:j], pieces, step, *b.shape[j + 1 :]))
    contract = (
        [k + (k >= i) for k in arg.contract_a],
        [k + (k >= j) for k in arg.contract_b],
    )
    partial = build.dot(a, b, contract, ((i,), (j,)), build.accumulator(arg.dtype))
    partial = panels(packed(partial), target)
    return build.cast(build.add_up(UOp(Op.GBARRIER, (partial,)), (0,)), u.dtype)


def long_conv(u: UOp, target: Target) -> UOp:
    """The same for a convolution over many channels, as one with groups of channels."""
    arg: Conv = u.arg
    x, w = u.src
    rows, depth = build.count(u.shape[:-1]), x.shape[-1]
    pieces = 1 if arg.groups > 1 or arg.batch_groups > 1 else _pieces(u, rows, depth, target)
    if pieces == 1:
        return packed(u)
    *window, depth, features = w.shape
    step, n = depth // pieces, len(window)
    w = build.reshape(w, (*window, pieces, step, features))
    w = build.permute(w, (*range(n), n + 1, n, n + 2))
    w = build.reshape(w, (*window, step, pieces * features))
    wide = build.accumulator(arg.dtype)
    partial = build.conv(x, w, replace(arg, groups=pieces, dtype=wide))
    partial = build.reshape(partial, (*u.shape[:-1], pieces, features))
    return build.cast(build.add_up(UOp(Op.GBARRIER, (partial,)), (u.ndim - 1,)), u.dtype)


def two_stages(u: UOp) -> UOp:
    """A long reduction to few values -> partial results of fixed tiles, then theirs."""
    arg: Reduce = u.arg
    x = u.src[0]
    kept = [axis for axis in range(x.ndim) if axis not in arg.axes]
    outputs, size = build.count(u.shape), build.count(tuple(x.shape[a] for a in arg.axes))
    if outputs > FEW_OUTPUTS or size < LONG_REDUCTION:
        return u
    # Split the outermost reduced axis that is long enough; its tiles stay contiguous.
    axis = next((a for a in arg.axes if x.shape[a] >= STAGE_TILES), None)
    if axis is None:
        return u
    n = x.shape[axis]
    if len(arg.axes) == x.ndim and _one_line(x):
        x, axis, n, kept = build.reshape(x, (size,)), 0, size, []
        axes: tuple[int, ...] = (0,)
        tiles = STAGE_TILES
    else:
        axes = arg.axes
        tiles = next(
            (t for t in range(STAGE_TILES, STAGE_TILES // 2, -1) if n % t == 0), STAGE_TILES
        )
    step = -(-n // tiles)
    tiles = -(-n // step)
    value = const(build.identity(arg.op, x.dtype), x.dtype)
    grow = tuple(tiles * step - n if a == axis else 0 for a in range(x.ndim))
    x = build.pad(x, (0,) * x.ndim, grow, None, value)
    x = build.reshape(x, (*x.shape[:axis], tiles, step, *x.shape[axis + 1 :]))
    if arg.index is not None:
        return build.cast(_first_of_tiles(x, arg.op, axis, n), arg.index)
    inner = [axis + 1, *(a + (a > axis) for a in axes if a != axis)]
    wide = build.accumulator(u.dtype) if arg.op in (Op.ADD, Op.MUL) else u.dtype
    partial = UOp(Op.GBARRIER, (build.reduce(build.cast(x, wide), arg.op, inner),))
    at = sum(1 for a in kept if a < axis)
    return build.cast(build.reduce(partial, arg.op, [at]), u.dtype)


def _one_line(x: UOp) -> bool:
    """Whether a value is read from end to end, as it lies in memory."""
    return all(
        u.op not in ELSEWHERE or (u.op is Op.EXPAND and u.src[0].size == 1)
        for u in walk([x], lambda u: u.op in ALONG)
    )


def _first_of_tiles(x: UOp, op: Op, axis: int, size: int) -> UOp:
    """Where the first extreme is along an axis that is cut into tiles, one axis further: where it
    is in the first tile with the best of what is the first in each tile.
    """
    index, step = INT32 if size < 1 << 31 else INT64, x.shape[axis + 1]
    places = UOp(Op.GBARRIER, (build.reduce(x, op, (axis + 1,), index=index),))
    best = UOp(Op.GBARRIER, (_taken(x, places, axis + 1),))
    tile = build.reduce(best, op, (axis,), index=index)
    return tile * step + _taken(places, tile, axis)


def _taken(x: UOp, places: UOp, axis: int) -> UOp:
    """The elements at places along an axis, which vanishes."""
    lines, n = build.moveaxis(x, axis, x.ndim - 1), x.ndim - 1
    places = build.reshape(places, (*places.shape, 1))
    return build.reshape(build.gather(lines, places, (1,), n), lines.shape[:-1])
