"""Code for matrix units (Intel AMX): contractions by tile registers, and use of their sums.

The loop along the sum multiplies matrices in registers; the code after it takes the sums row by
row, as vectors::

    for p in range(K / 32):  s += tile(a, p) @ tile(b, p)
    t = spill s
    for x in range(16):  out[x] = f(row x of t)

In a block that is not full, the rows before it are multiplied again: reading beyond the last row
would leave the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tfn.dtypes import INT64
from tfn.errors import SplitError
from tfn.lower.codegen.coordinates import Key
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.reductions import Reduction
from tfn.lower.graph.layout import aliases_in_cache
from tfn.trace.argument import Place
from tfn.trace.matrix_tiles import Tile
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)


def emit_reduction(emitter: Emitter, node: UOp) -> None:
    """Emit a FOLD; on a matrix unit its value is the present row of a spilled matrix."""
    at = emitter.at
    rows = [r for r in at.depends[node] if r.arg.place is Place.UNIT]
    if not rows:
        Reduction(emitter, node).run()
        return
    (r,) = rows
    # The matrix belongs to no row: it is emitted, and memoised, at row zero.
    row, at.env[r] = at.env[r], ZERO
    matrix = emitter.lookup(node)
    if matrix is None:
        Reduction(emitter, node, r, partial(_multiply, r)).run()
        matrix = emitter.value(node)
    at.env[r] = row
    overlap = r.arg.size - at.trips(r)  # rows before a partial block, multiplied again
    row = emitter.place(row + overlap) if overlap else row
    emitter.values[at.key(node)] = emitter.place(UOp(Op.ROW, (matrix, row)))


def unrolled(emitter: Emitter, ranges: Sequence[UOp]) -> Iterator[Key]:
    """`Coordinates.unrolled`, inside of a loop over the rows of a matrix unit if there is one.

    All coordinates with the same number of rows share a loop.
    """
    at = emitter.at
    rows = [r for r in ranges if r.arg.place is Place.UNIT]
    if not rows:
        yield from at.unrolled(ranges)
        return
    (r,) = rows
    bounding = [s for s in ranges if s in at.bounded_by[r]]
    for _ in at.unrolled(bounding):
        loop = at.env[r] = emitter.code.open(ZERO, const(at.trips(r), INT64))
        yield from at.unrolled([s for s in ranges if s not in bounding])
        emitter.code.close(loop, [], [])
    at.env.pop(r, None)


def _multiply(rows: UOp, reduction: Reduction, total: UOp) -> UOp:
    """Add a product of two matrices, of the sizes that the unit takes, to a sum."""
    emitter, at, q = reduction.emitter, reduction.at, reduction.unit[0]
    loads = [s.src[0] if s.op is Op.CAST else s for s in reduction.body.src]
    (a,) = (u for u in loads if rows in at.depends[u])
    (b,) = (u for u in loads if u is not a)
    # Tile addresses begin at the first row and column: lanes are part of the tile's shape.
    before = {r: at.env.get(r) for r in (q, *reduction.lanes)}
    at.env |= dict.fromkeys(before, ZERO)
    src = total, _left(a, reduction, rows, q), _right(b, reduction, q)
    del at.env[q]
    at.env |= {r: value for r, value in before.items() if value is not None}
    return emitter.place(UOp(Op.MMA, src))


def _stride_of_loop(load: UOp, reduction: Reduction) -> int:
    """Elements from the matrix of one iteration to that of the next."""
    terms = dict(reduction.emitter.affine(load.src[1])[0])
    return terms.get(reduction.loops[-1], 0) if reduction.loops else 0


def _left(load: UOp, reduction: Reduction, rows: UOp, q: UOp) -> UOp:
    """The rows of `a`, filled up with zeros beyond the end of the sum.

    The next rows are prefetched, unless they map to the cache sets of the present ones.
    """
    at, size = reduction.at, rows.arg.size
    pitch = dict(reduction.emitter.affine(load.src[1])[0])[rows]
    offset = (at.trips(rows) - size) * pitch
    is_aliased = aliases_in_cache(pitch * load.dtype.itemsize)
    ahead = 0 if is_aliased else _stride_of_loop(load, reduction)
    tile = Tile(offset, pitch, size, at.trips(q), (size, q.arg.size), ahead)
    return _load_tile(reduction.emitter, load, tile)


def _right(load: UOp, reduction: Reduction, q: UOp) -> UOp:
    """The rows of `b`, packed: each holds, column by column, the elements of one group along q.

    They follow each other in memory, which prefetchers do not foresee of tile loads.

    Raises:
        SplitError: if the operand is not packed so; `tensorize` has checked it of simplified nests.
    """
    terms = reduction.emitter.affine(load.src[1])[0]
    groups = [(t, k) for t, k in terms if t.op is Op.FLOORDIV and t.src[0] is q]
    if not groups:
        raise SplitError("an operand is not packed as the matrix unit reads it")
    ((group, pitch),) = groups
    group_size = int(group.src[1].arg.value)
    lanes, rows = reduction.width * group_size, -(-reduction.at.trips(q) // group_size)
    shape = q.arg.size // group_size, lanes
    tile = Tile(0, pitch, rows, lanes, shape, _stride_of_loop(load, reduction))
    return _load_tile(reduction.emitter, load, tile)


def _load_tile(emitter: Emitter, load: UOp, tile: Tile) -> UOp:
    buffer, index = load.src
    for term, _ in emitter.affine(index)[0]:
        if term.op is not Op.RANGE:
            emitter.emit(term)
    base, offset, _, _ = emitter.address(index)
    return emitter.place(UOp(Op.TILE, (buffer, base), replace(tile, offset=tile.offset + offset)))
