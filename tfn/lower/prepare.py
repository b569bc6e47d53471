"""The function made ready for the cut: what must be said with arrays, not with loops.

Padding of convolutions becomes a value of its own, so that inner loops need no gates.  Long
reductions and contractions with few results are done in two stages: pieces that fit the cache,
each with partial results, then their sum.  The pieces depend on shapes and target alone, never on
threads, so neither do the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfn.lower.kernel import Target
from tfn.lower.tile import accumulators, best_tile
from tfn.trace import build
from tfn.trace.argument import Conv, Dot, Reduce
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, rebuild, walk

LINES, LONG_LINE, FEW_ROWS = 8, 1024, 2
"""Lines of a matrix that a product with a vector reads side by side, and from what length on."""

MANY_ROWS = 64
"""Rows from which on a large second operand is worth a copy into panels."""

LONG_REDUCTION = 1 << 15
"""Elements per output above which a reduction with few outputs is done in two stages."""

FEW_OUTPUTS = 64
STAGE_TILES = 64
"""How many partial results the first of two stages makes: fixed, so that bits are, too."""


def prepare(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    """Contractions read unpadded operands, long reductions and contractions get two stages."""
    new: dict[UOp, UOp] = {}
    for node in walk(outputs):
        closed = node.op is Op.FUNCTION
        made = node if closed else rebuild(node, tuple(new[s] for s in node.src))
        if made.op is Op.CONV:
            made = long_conv(pad_explicitly(made), target)
            made = packed(made, 16)
        elif made.op is Op.DOT:
            made = panels(packed(long_dot(made, target), 16), target)
        elif made.op is Op.REDUCE:
            made = two_stages(made)
        elif made.op in (Op.DETACH, Op.GBARRIER):
            made = made if made.op is Op.GBARRIER else made.src[0]
        new[node] = made
    return [new[u] for u in outputs]


def pad_explicitly(u: UOp) -> UOp:
    """``conv x w`` with padding -> ``conv (pad x) w``: then inner loops need no gates."""
    arg: Conv = u.arg
    if not any(map(any, arg.padding)) and all(d == 1 for d in arg.dilation_x):
        return u
    x, w = u.src
    low = (0, *(p[0] for p in arg.padding), 0)
    high = (0, *(p[1] for p in arg.padding), 0)
    interior = (0, *(d - 1 for d in arg.dilation_x), 0)
    none = len(arg.padding)
    plain = Conv(arg.strides, ((0, 0),) * none, (1,) * none, arg.dilation_w, arg.groups,
                 arg.batch_groups, arg.dtype)  # fmt: skip
    return build.conv(build.pad_or_crop(x, low, high, interior), w, plain)


def contiguous_axis(u: UOp) -> int | None:
    """The axis of a value along which its memory will step by one, None if that is not known."""
    if u.op is Op.PERMUTE:
        inner = contiguous_axis(u.src[0])
        return None if inner is None else u.arg.index(inner)
    if u.op in (Op.SHRINK, Op.FLIP, Op.CAST):
        return contiguous_axis(u.src[0])
    if u.op is Op.RESHAPE and contiguous_axis(u.src[0]) != _last(u.src[0]):
        return None
    return _last(u)


def _last(u: UOp) -> int:
    return max((i for i, n in enumerate(u.shape) if n > 1), default=0)


def packed(u: UOp, worth: int) -> UOp:
    """The second operand of a contraction, copied so that its free axis steps by one::

        dot[contract (1, 1)] a b    ->    dot[contract (1, 0)] a (barrier (transpose b))

    Vectors run along that axis.  The copy costs a pass over the operand, which each of many rows
    then reads; with less than `worth` rows or columns it is left as it is.
    """
    if u.op not in (Op.DOT, Op.CONV):
        return u
    a, b = u.src
    if u.op is Op.CONV:
        order = tuple(range(b.ndim))
        rows, columns = build.count(u.shape[:-1]), b.shape[-1]
    else:
        free = [i for i in range(b.ndim) if i not in u.arg.batch_b + u.arg.contract_b]
        order = (*u.arg.batch_b, *u.arg.contract_b, *free)
        columns = build.count(tuple(b.shape[i] for i in free))
        rows = build.count(u.shape) // max(
            columns * build.count(tuple(b.shape[i] for i in u.arg.batch_b)), 1
        )
    if min(rows, columns) < worth or contiguous_axis(b) == order[-1]:
        return u
    b = UOp(Op.GBARRIER, (build.permute(b, order),))
    if u.op is Op.CONV:
        return rebuild(u, (a, b))
    batch, contract = len(u.arg.batch_b), len(u.arg.contract_b)
    arg = replace(u.arg, batch_b=tuple(range(batch)),
                  contract_b=tuple(range(batch, batch + contract)))  # fmt: skip
    return UOp(Op.DOT, (a, b), arg)


def panels(u: UOp, target: Target) -> UOp:
    """A large second operand, copied into panels as wide as the register tile::

        dot a b, b: f32[K, N]   ->   dot a (view of (barrier of b as f32[N / W, K, W]))

    Lines of a panel follow each other in memory; in the operand they lie N apart, often at a power
    of two, where few of them fit into the cache together.
    """
    if u.op is not Op.DOT or u.arg.contract_b != (0,) or u.src[1].ndim != 2:
        return u
    a, b = u.src
    rows = build.count(u.shape) // max(b.shape[1], 1)
    large = build.count(b.shape) * b.dtype.itemsize >= 4 * target.l2_bytes
    if not large or min(rows, b.shape[1]) < MANY_ROWS:
        return u
    lines, columns = b.shape
    lanes = target.vector_bytes // max(4, b.dtype.itemsize)
    _, vectors = best_tile(rows, -(-columns // lanes), accumulators(target))
    width = vectors * lanes
    count = -(-columns // width)
    b = build.pad(b, (0, 0), (0, count * width - columns))
    b = build.permute(build.reshape(b, (lines, count, width)), (1, 0, 2))
    b = build.permute(UOp(Op.GBARRIER, (b,)), (1, 0, 2))
    b = build.shrink(build.reshape(b, (lines, count * width)), (0, 0), (lines, columns))
    return UOp(Op.DOT, (a, b), u.arg)


def _pieces(u: UOp, axis_size: int, target: Target) -> int:
    """In how many pieces to sum a contraction, so that a piece of its operands fits the cache.

    Worth it where each of many register tiles would stream both operands from memory again, and
    the partial results are small beside them.
    """
    read = sum(build.count(s.shape) * s.dtype.itemsize for s in u.src)
    written = build.count(u.shape) * build.accumulator(u.dtype).itemsize
    wanted = -(-2 * read // target.l2_bytes)
    if wanted < 2 or written * 16 > read or axis_size < 2:
        return 1
    divisors = [n for n in range(2, axis_size + 1) if axis_size % n == 0]
    return next((n for n in divisors if n >= wanted), axis_size)


def _streams(u: UOp, axis: int) -> int:
    """Pieces of a product with few rows and long lines: so many lines are read side by side.

    Each is then read to its end, as the processor foresees, and not in short stretches of all.
    """
    arg: Dot = u.arg
    a, b = u.src
    rows = build.count(tuple(n for i, n in enumerate(a.shape) if i not in arg.contract_a))
    lines = b.ndim == 2 and axis == 0 and b.shape[1] >= LONG_LINE
    return b.shape[0] // LINES if rows <= FEW_ROWS and lines and b.shape[0] % LINES == 0 else 0


def long_dot(u: UOp, target: Target) -> UOp:
    """``dot a b`` over a long axis -> partial products of pieces of it, summed."""
    arg: Dot = u.arg
    a, b = u.src
    if not arg.contract_a or arg.batch_a:
        return u
    i, j = arg.contract_a[0], arg.contract_b[0]
    pieces = _streams(u, j) or _pieces(u, a.shape[i], target)
    if pieces == 1:
        return u
    step = a.shape[i] // pieces
    a = build.reshape(a, (*a.shape[:i], pieces, step, *a.shape[i + 1 :]))
    b = build.reshape(b, (*b.shape[:j], pieces, step, *b.shape[j + 1 :]))
    contract = (
        [k + (k >= i) for k in arg.contract_a], [k + (k >= j) for k in arg.contract_b]
    )  # fmt: skip
    partial = build.dot(a, b, contract, ((i,), (j,)), build.accumulator(arg.dtype))
    return build.cast(build.add_up(UOp(Op.GBARRIER, (partial,)), (0,)), u.dtype)


def long_conv(u: UOp, target: Target) -> UOp:
    """The same for a convolution over many channels, as one with groups of channels."""
    arg: Conv = u.arg
    x, w = u.src
    pieces = 1 if arg.groups > 1 or arg.batch_groups > 1 else _pieces(u, x.shape[-1], target)
    if pieces == 1:
        return u
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
    if len(arg.axes) == x.ndim:  # all of it: one line
        x, axis, n, kept = build.reshape(x, (size,)), 0, size, []
        axes: tuple[int, ...] = (0,)
    else:
        axes = arg.axes
    step = -(-n // STAGE_TILES)
    tiles = -(-n // step)
    value = const(build.identity(arg.op, x.dtype), x.dtype)
    grow = tuple(tiles * step - n if a == axis else 0 for a in range(x.ndim))
    x = build.pad(x, (0,) * x.ndim, grow, None, value)
    x = build.reshape(x, (*x.shape[:axis], tiles, step, *x.shape[axis + 1 :]))
    inner = [axis + 1, *(a + (a > axis) for a in axes if a != axis)]
    wide = build.accumulator(u.dtype) if arg.op in (Op.ADD, Op.MUL) else u.dtype
    partial = UOp(Op.GBARRIER, (build.reduce(build.cast(x, wide), arg.op, inner),))
    at = sum(1 for a in kept if a < axis)
    return build.cast(build.reduce(partial, arg.op, [at]), u.dtype)
