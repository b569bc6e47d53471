"""Matrix products by warps: contractions on a unit whose operands all threads of a warp hold.

    for c:  s[i, j] += a[i, c * 16 + u] * b[c * 16 + u, j]      u in 16 at once

    ->  for c:  (s0, s1, s2, s3) += product of the warp's a0 ... a7 and b0 ... b3

Sums are ordinary values at the coordinates of their thread, which `WarpProduct` of the opt-ops has
split as the unit wants them: so whatever follows a sum is emitted as for any other.  Operands are
emitted at the coordinates at which the unit wants them: along the sum by the number of a thread in
its row of four, and across by that of its row.  They may be any expression.
"""

from __future__ import annotations

from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.reductions import Reduction, Totals
from tfn.lower.loops.opt_ops import warp_ranges
from tfn.trace.argument import Place, WarpMma
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def emit_reduction(emitter: Emitter, node: UOp) -> None:
    """Emit a FOLD, on the matrix unit of warps if it is to be there."""
    on_unit = any(r.arg.place is Place.UNIT for r in node.src[1:])
    Reduction(emitter, node, accumulate=_accumulate if on_unit else None).run()


def operands(fold: UOp) -> tuple[UOp, UOp]:
    """The factors of a product before they were widened."""
    x, y = (s.src[0] if s.op is Op.CAST else s for s in fold.src[0].src)
    return x, y


def _accumulate(reduction: Reduction, totals: Totals) -> Totals:
    """The next sums of all coordinates, a product of the warp for each four of them."""
    emitter, at, (unit,) = reduction.emitter, reduction.at, reduction.unit
    h, g, t, q = warp_ranges(unit, at.depends[reduction.node])
    x, y = operands(reduction.node)
    if h not in at.depends[x]:
        x, y = y, x
    upcasts, following = reduction.upcasts, dict(totals)
    at_h, at_q = upcasts.index(h), upcasts.index(q)
    thread_t, thread_g = at.env[t], at.env[g]
    n = WarpMma(x.dtype, 0).together
    along = emitter.place(thread_t * n)

    def point(base: tuple[int, ...], row: int, column: int) -> tuple[int, ...]:
        moved = list(base)
        moved[at_h], moved[at_q] = row, column
        return tuple(moved)

    def element(u: UOp, offset: int) -> UOp:
        at.env[unit] = emitter.place(along + offset) if offset else along
        value = emitter.emit(u)
        del at.env[unit]
        return value

    for base in dict.fromkeys(point(p, 0, 0) for p, _ in totals):
        left: list[UOp] = []
        for i in range(4):
            at.set(upcasts, point(base, i % 2, 0), ())
            left += [element(x, e + 4 * n * (i // 2)) for e in range(n)]
        at.set(upcasts, base, ())
        at.fixed.pop(q)
        at.env[t], at.env[q] = emitter.place(thread_g // 2), emitter.place(thread_g % 2)
        right = [element(y, e + 4 * n * i) for i in range(2) for e in range(n)]
        at.env[t] = thread_t
        points = [point(base, i // 2, i % 2) for i in range(4)]
        sums = [totals[p, ()][0] for p in points]
        for i, p in enumerate(points):
            product = UOp(Op.WARP_MMA, (*left, *right, *sums), WarpMma(x.dtype, i))
            following[p, ()] = (emitter.place(product),)
    return following
