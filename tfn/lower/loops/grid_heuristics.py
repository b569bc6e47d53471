"""Scheduling heuristics for grids: groups of threads, by the data of the target, no search.

Three shapes of kernels, the first that fits::

    tiles    a contraction whose loads are used several times: a group computes a tile of results,
             from tiles of both operands in local memory (`grid_products`)
    rows     reductions that are long, or few: a group computes one row, each thread a part of it
    points   all else: a thread computes one element, and reduces alone

A tile may follow from the cores of a machine; the order in which a sum is added does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import loop_nest
from tfn.lower.loops.cost_model import model_of
from tfn.lower.loops.grid_opt_ops import ShareScan, monoid
from tfn.lower.loops.grid_products import product_tiles
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Bind, Fuse, Split, Tile
from tfn.lower.loops.restructuring import longest_strides_outside, merge_loops, reordered
from tfn.lower.target.grid import Grid
from tfn.lower.target.target import Target, grid_of
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

GROUP_THREADS = 256
"""Threads of a group: enough that a few groups fill a core, with 64 registers and more each.

On an H100, 128 to 1024 threads are within 2 % of each other where memory bounds a kernel.
"""

MIN_ROW_ELEMENTS = 64
"""Elements of a reduction from which on the threads of a group share it: a tree over threads has
as many levels as the reduction of 2 elements a thread."""

MIN_ROWS_FOR_POINTS = 4096
"""Results of a reduction from which on single threads may compute one each: fewer threads would
leave most of a grid idle.  No number of cores is asked, so that bits depend on shapes alone."""

ROW_ELEMENTS_OF_A_THREAD = 16
"""Elements of a row that a thread has in registers, at the most, or in flight if the row is longer.

On an H100 softmax of 4,096 rows of 4,096, with 16 to 32 elements a thread, moves 2,852 GB/s of
2,974 that a copy moves."""

MAX_NEIGHBOURS_APART = 8
"""Elements from one of a line to the next below which a group shares it: a sector of memory, of 32
bytes, then has several of them.  Columns further apart are left to threads side by side."""

MIN_SCANNED_ELEMENTS = 16
"""Elements of a line from which on a warp shares it: a thread alone waits for memory as often."""

SCANNED_ELEMENTS_OF_A_THREAD = 8
"""Elements of a line that a thread has at a time: their prefix sums share two barriers.  In local
memory, where threads exchange no values, 8 of 256 threads and twice 8 bytes take 32 KiB."""

POINTS_OF_A_THREAD = 4
"""Elements of a thread, a group apart: their loads are in flight together.  On an H100, one element
of 4 bytes a thread loses 9 to 45 % of the bandwidth, four are within 2 % of vectors of four."""

MIN_GROUPS_TO_UNROLL = 1024
"""Groups that are left when threads compute several elements: enough for every core of a GPU."""


def choose(n: Nest, target: Target) -> Nest:
    """The nest with its loops as groups, threads and registers."""
    grid = grid_of(target)
    n = merge_loops(longest_strides_outside(n, model_of(n, target)), target)
    tiled = product_tiles(n, model_of(n, target), grid) or _shared_scan(n, grid)
    if tiled is None:
        rows = _row_loops(n)
        tiled = _points(n, grid) if rows is None else _rows(n, rows, grid)
    return loop_nest.simplified(tiled)


def _threads(size: int, grid: Grid) -> int:
    """Threads of a group for a number of iterations: a power of two, no more than it needs."""
    most = min(GROUP_THREADS, grid.group_threads)
    return min(most, 1 << max(size - 1, 0).bit_length())


def _fused(n: Nest, loops: Sequence[UOp]) -> tuple[Nest, UOp | None]:
    """Neighbouring loops as one, which counts through all of them; None if there are none."""
    if not loops:
        return n, None
    first = loops[0]
    for r in loops[1:]:
        n = Fuse(first.arg.number, r.arg.number, Place.LOOP).apply(n)
        first = n.newest(1)[0]
    return n, first


# Points.


def _points(n: Nest, grid: Grid) -> Nest:
    """Each thread computes one element: of all loops that have no order."""
    ordered = loop_nest.in_order(n.body)
    free = [r for r in n.loops if r.arg.number not in ordered]
    n, every = _fused(reordered(n, free), free)
    if every is None:
        return n
    size = every.arg.size
    threads = _threads(size, grid)
    if size >= POINTS_OF_A_THREAD * threads * MIN_GROUPS_TO_UNROLL and not ordered:
        n = Tile(every.arg.number, POINTS_OF_A_THREAD, threads, Place.LOCAL).apply(n)
        return Bind(n.newest(3)[0].arg.number, Place.GROUP).apply(n)
    n = Split(every.arg.number, threads, Place.LOCAL).apply(n)
    return Bind(n.newest(2)[0].arg.number, Place.GROUP).apply(n)


# Rows.


def _row_loops(n: Nest) -> list[UOp] | None:
    """The loops over rows, each of which a group reduces; None if threads had better work alone."""
    if loop_nest.in_order(n.body):
        return None
    depends, loops = dependences(n.body), set(n.loops)
    outermost = [f for f in loop_nest.folds(n.body) if loops.issuperset(depends[f])]
    long = [f for f in outermost if _row_size(f) >= MIN_ROW_ELEMENTS]
    if not long:
        return None
    rows = [r for r in n.loops if any(r in depends[f] for f in long)]
    is_few = prod(r.arg.size for r in rows) < MIN_ROWS_FOR_POINTS
    return rows if is_few or any(map(_is_contiguous, long)) else None


def _shared_scan(n: Nest, grid: Grid) -> Nest | None:
    """Each group goes along a line whose reductions a loop carries; None for other kernels.

    Single threads do where lines lie side by side, as columns of a matrix do.
    """
    node = n.body.src[0]
    if node.op is not Op.RECUR or len(n.body.src) > 1 or monoid(node) is None:
        return None
    r = node.src[0]
    loads = (u for u in walk(node.src) if u.op is Op.LOAD)
    steps = (abs(affine(u.src[1])[0].get(r, 0)) for u in loads)
    along = any(0 < step < MAX_NEIGHBOURS_APART for step in steps)
    if r.arg.size < MIN_SCANNED_ELEMENTS or not along:
        return None
    threads = _threads(-(-r.arg.size // SCANNED_ELEMENTS_OF_A_THREAD), grid)
    threads = max(threads, min(grid.warp_threads, _threads(r.arg.size, grid)))
    elements = min(SCANNED_ELEMENTS_OF_A_THREAD, -(-r.arg.size // threads))
    for s in n.loops:
        n = Bind(s.arg.number, Place.GROUP).apply(n)
    return ShareScan(r.arg.number, elements, threads).apply(n)


def _row_size(fold: UOp) -> int:
    return prod(r.arg.size for r in fold.src[1:])


def _is_contiguous(fold: UOp) -> bool:
    """Whether neighbours along the longest range of a reduction are neighbours in memory."""
    r = _longest(fold)
    loads = (u for u in walk(fold.src[:1]) if u.op is Op.LOAD)
    return any(abs(affine(u.src[1])[0].get(r, 0)) == 1 for u in loads)


def _longest(fold: UOp) -> UOp:
    return max(fold.src[1:], key=lambda r: r.arg.size)


def _rows(n: Nest, rows: Sequence[UOp], grid: Grid) -> Nest:
    """Each group computes a row: its threads share the reductions, and the other loops.

    A row that fits its registers is loaded once: at equal coordinates loads are the same.
    """
    n = reordered(n, rows)
    n, rest = _fused(n, [r for r in n.loops if r not in rows])
    depends, loops = dependences(n.body), set(rows)
    # By number: a split of one reduction makes new nodes of all that use it.
    shared = [_longest(f) for f in loop_nest.folds(n.body) if loops.issuperset(depends[f])]
    threads = _row_threads(max(r.arg.size for r in shared), grid)
    for r in dict.fromkeys([*shared, *([rest] if rest is not None else [])]):
        elements = min(ROW_ELEMENTS_OF_A_THREAD, -(-r.arg.size // threads))
        n = Tile(r.arg.number, elements, threads, Place.LOCAL).apply(n)
    for r in rows:
        n = Bind(r.arg.number, Place.GROUP).apply(n)
    return n


def _row_threads(size: int, grid: Grid) -> int:
    """Threads that share a row: so many that it fits their registers, if there may be so many."""
    threads = 1 << max(-(-size // ROW_ELEMENTS_OF_A_THREAD) - 1, 0).bit_length()
    if threads > grid.group_threads:
        return _threads(size, grid)
    return max(threads, min(grid.warp_threads, _threads(size, grid)))
