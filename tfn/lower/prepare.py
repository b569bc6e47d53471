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
from math import lcm
from operator import add

from tfn.dtypes import FLOAT32, INT32, INT64, int8, int16, uint8
from tfn.lower.kernel import Target
from tfn.lower.padding import in_phases, pad_explicitly
from tfn.lower.tile import accumulators, best_tile, unit
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

LINE_BYTES = 64

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


def strides(u: UOp) -> tuple[int, ...] | None:
    """How far apart in memory neighbours along each axis of a value will lie, in elements.

    None if its axes will not be steps through memory: a regrouping of what has been moved.
    """
    if u.op is Op.CAST:
        return strides(u.src[0])
    if u.op not in (Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.RESHAPE) or 0 in u.src[0].shape:
        return _dense(u.shape)
    inner = strides(u.src[0])
    if inner is None:
        return None
    if u.op is Op.PERMUTE:
        return tuple(inner[axis] for axis in u.arg)
    if u.op is Op.SHRINK:
        return tuple(n * step for n, step in zip(inner, u.arg.step, strict=True))
    if u.op is Op.FLIP:
        return inner
    return _regrouped(u.src[0].shape, inner, u.shape)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(build.count(tuple(shape[i + 1 :])) for i in range(len(shape)))


def _regrouped(old: Sequence[int], steps: Sequence[int],
               new: Sequence[int]) -> tuple[int, ...] | None:  # fmt: skip
    """The strides of a reshape, where each group of axes that it makes is of one stretch."""
    axes = [(n, step) for n, step in zip(old, steps, strict=True) if n != 1]
    found: list[int] = []
    left = 1  # elements of the present group that the axes so far have not used
    for n in reversed(new):
        if left == 1 and n != 1:
            if not axes:
                return None
            left, step = axes.pop()
            while left % n and axes and axes[-1][1] == left * step:
                left *= axes.pop()[0]
        if n == 1:
            found.append(0)
            continue
        if left % n:
            return None
        found.append(step)
        left, step = left // n, step * n
    return tuple(reversed(found))


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
    height, width = best_tile(rows, -(-columns // lanes), accumulators(target))
    apart = steps is not None and steps[n] >= APART * columns
    size_bytes = depth * columns * b.dtype.itemsize
    large = not batch and rows * size_bytes >= PANEL_ROWS * target.l2_bytes
    whole = _uncopied(b)
    if apart or ((large or (whole is not b and n == 0)) and columns >= MANY_ROWS):
        b = _panelled(whole, lanes * width, 1)
    c, reach = u.arg.contract_a[0], depth * max(LINE_BYTES, height * a.dtype.itemsize)
    if n == 0 and columns >= PANEL_ROWS and reach >= target.l1_bytes and _across(a, c):
        a = _panelled(build.permute(a, (c, 1 - c)), lcm(lanes, height), 1)
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
    return lanes * best_tile(rows, -(-columns // lanes), accumulators(target))[1]


def _panelled(b: UOp, width: int, together: int) -> UOp:
    """A view of ``b[*batch, K, N]``, kept as [*batch, N / width, K / together, width, together].

    The last panel is filled up with zeros.  What is such a view already stays as it is.
    """
    *batch, lines, columns = b.shape
    n, count = len(batch), -(-columns // width)
    if in_panels(b):
        return b
    b = build.pad(b, (0,) * (n + 2), (0,) * (n + 1) + (count * width - columns,))
    b = build.reshape(b, (*batch, lines // together, together, count, width))
    kept = UOp(Op.GBARRIER, (build.permute(b, (*range(n), n + 2, n, n + 3, n + 1)),))
    return _unpanelled(kept, (*batch, lines, columns))


def in_panels(b: UOp) -> bool:
    """Whether a matrix is a view of panels."""
    root, n = b, b.ndim - 2
    while root.op in (Op.SHRINK, Op.RESHAPE, Op.PERMUTE):
        root = root.src[0]
    if root is b or root.ndim != b.ndim + 2 or root.shape[:n] != b.shape[:n]:
        return False
    count, lines, width, together = root.shape[n:]
    fits = lines * together == b.shape[n] and 0 <= count * width - b.shape[n + 1] < width
    return fits and _unpanelled(root, b.shape) is b


def _unpanelled(kept: UOp, shape: Shape) -> UOp:
    """Panels as the matrix that they were made of."""
    *batch, lines, _ = shape
    n = len(batch)
    view = build.permute(kept, (*range(n), n + 1, n + 3, n, n + 2))
    view = build.reshape(view, (*batch, lines, kept.shape[n] * kept.shape[n + 2]))
    return build.shrink(view, (0,) * (n + 2), shape)


def for_unit(u: UOp, target: Target) -> UOp:
    """Operands of a matrix unit that takes neighbours in pairs::

        dot a b, b: bf16[K, N]   ->   dot a (view of (barrier of b as bf16[N / W, K / 2, W, 2]))

    Small integers are widened to what the unit takes.
    """
    arg: Dot = u.arg
    a, b = u.src
    n, wide = len(arg.batch_b), build.accumulator(arg.dtype)
    kind = int16.dtype if a.dtype in BYTES else a.dtype
    lines = [a.shape[i] for i in arg.contract_a]
    if kind not in unit(target) or wide not in (FLOAT32, INT32):
        return u
    if len(lines) != 1 or lines[0] % 2 or (a.ndim, b.ndim) != (n + 2, n + 2) or 0 in u.shape:
        return u
    rows, columns = u.shape[n:]
    if min(rows, columns) < FEW_COLUMNS:
        return u
    steps = strides(a)
    as_it_is = a.dtype == kind and steps is not None and steps[arg.contract_a[0]] == 1
    (free,) = (i for i in range(n + 2) if i not in arg.batch_a + arg.contract_a)
    a = build.cast(build.permute(a, (*arg.batch_a, free, *arg.contract_a)), kind)
    if not as_it_is:
        a = UOp(Op.GBARRIER, (a,))
    (free,) = (i for i in range(n + 2) if i not in arg.batch_b + arg.contract_b)
    b = build.cast(build.permute(b, (*arg.batch_b, *arg.contract_b, free)), kind)
    b = _panelled(b, _width(rows, columns, 4, target), 2)
    in_order = tuple(range(n))
    return build.dot(a, b, ((n + 1,), (n,)), (in_order, in_order), arg.dtype)


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
