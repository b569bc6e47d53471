"""A contraction on a unit that multiplies whole matrices, and what is done with its sums.

The loop along the sum multiplies matrices in registers; what follows a sum goes over its rows, as
vectors::

    for p in range(K / 32):  s += tile(a, p) @ tile(b, p)
    kept = spill s
    for x in range(16):  out[x] = f(row x of kept)

Of a block that is not full, the rows before it are multiplied again: reading beyond the last row
would leave the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tfn.dtypes import INT64
from tfn.errors import SplitError
from tfn.lower.codegen.reductions import Emitter, Folding
from tfn.lower.graph.layout import aliases_in_cache
from tfn.trace.argument import Place, Tile
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)


def fold(e: Emitter, node: UOp) -> None:
    """Emit a reduction; on a matrix unit, the row of it that is the present one."""
    rows = [r for r in e.depends[node] if r.arg.place is Place.UNIT]
    if not rows:
        Folding(e, node).run()
        return
    (r,) = rows
    at, e.env[r] = e.env[r], ZERO
    kept = e.held(node)
    if kept is None:
        Folding(e, node, r, partial(_multiply, r)).run()
        kept = e.value(node)
    e.env[r] = at
    again = r.arg.size - e.trips(r)
    e.values[e.key(node)] = e.code.add(UOp(Op.ROW, (kept, e.code.add(at + again) if again else at)))


def coordinates(e: Emitter, ranges: Sequence[UOp]) -> Iterator[Any]:
    """Each combination of unrolled coordinates in turn, in a loop over the rows of a matrix unit.

    There is one loop for all coordinates with as many rows.
    """
    rows = [r for r in ranges if r.arg.place is Place.UNIT]
    if not rows:
        yield from e.coordinates(ranges)
        return
    (r,) = rows
    outside = [s for s in ranges if s in e.reads[r]]
    for _ in e.coordinates(outside):
        loop = e.env[r] = e.code.open(ZERO, const(e.trips(r), INT64))
        yield from e.coordinates([s for s in ranges if s not in outside])
        e.code.close(loop, [], [])
    e.env.pop(r, None)


def _multiply(rows: UOp, folding: Folding, total: UOp) -> UOp:
    """As many iterations, rows and columns at once as the unit takes, added to a sum."""
    e, q = folding.e, folding.unit[0]
    loads = [s.src[0] if s.op is Op.CAST else s for s in folding.body.src]
    (a,) = (u for u in loads if rows in e.depends[u])
    (b,) = (u for u in loads if u is not a)
    here = {r: e.env.get(r) for r in (q, *folding.lanes)}
    e.env |= dict.fromkeys(here, ZERO)
    src = total, _left(e, a, folding, rows, q), _right(e, b, folding, q)
    del e.env[q]
    e.env |= {r: at for r, at in here.items() if at is not None}
    return e.code.add(UOp(Op.MMA, src))


def _step(e: Emitter, load: UOp, folding: Folding) -> int:
    """How far from a matrix that of the next iteration lies."""
    terms = dict(e.sum(load.src[1])[0])
    return terms.get(folding.loops[-1], 0) if folding.loops else 0


def _left(e: Emitter, load: UOp, folding: Folding, rows: UOp, q: UOp) -> UOp:
    """The rows of `a`; zeros stand for what is beyond the end of the sum.

    The next ones are brought near, unless there is no room for both in the first cache.
    """
    size = rows.arg.size
    pitch = dict(e.sum(load.src[1])[0])[rows]
    offset = (e.trips(rows) - size) * pitch
    ahead = 0 if aliases_in_cache(pitch * load.dtype.itemsize) else _step(e, load, folding)
    return _tile(e, load, Tile(offset, pitch, size, e.trips(q), (size, q.arg.size), ahead))


def _right(e: Emitter, load: UOp, folding: Folding, q: UOp) -> UOp:
    """The rows of `b`, each with as many neighbours as `a` has in a group.

    They follow each other in memory, as the processor does not foresee of matrices.

    Raises:
        SplitError: if they do not lie so; `unit` has seen that they do, after `split.tidy`.
    """
    terms = e.sum(load.src[1])[0]
    groups = [(t, k) for t, k in terms if t.op is Op.FLOORDIV and t.src[0] is q]
    if not groups:
        raise SplitError("an operand does not lie as a matrix unit takes it")
    ((group, pitch),) = groups
    together = int(group.src[1].arg.value)
    lanes, rows = folding.width * together, -(-e.trips(q) // together)
    shape = q.arg.size // together, lanes
    return _tile(e, load, Tile(0, pitch, rows, lanes, shape, _step(e, load, folding)))


def _tile(e: Emitter, load: UOp, how: Tile) -> UOp:
    buffer, index = load.src
    for term, _ in e.sum(index)[0]:
        if term.op is not Op.RANGE:
            e.emit(term)
    base, offset, _, _ = e.address(index)
    return e.code.add(UOp(Op.TILE, (buffer, base), replace(how, offset=how.offset + offset)))
