"""Matrix products by warps: contractions on a unit whose operands all threads of a warp hold.

    for c:  s[i, j] += a[i, c * 16 + u] * b[c * 16 + u, j]      u in 16 at once

    ->  for c:  (s0, s1, s2, s3) += product of the warp's a0 ... a7 and b0 ... b3

Sums are ordinary values at the coordinates of their thread, which `WarpProduct` of the opt-ops has
split as the unit wants them: so whatever follows a sum is emitted as for any other.  Operands are
emitted at the coordinates at which the unit wants them: along the sum by the number of a thread in
its row of four, and across by that of its row.  They may be any expression.
"""

from __future__ import annotations

from tfn.dtypes import INT64
from tfn.lower.codegen import group_product
from tfn.lower.codegen.coordinates import Key
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.reductions import Reduction, Totals
from tfn.lower.loops.grid_opt_ops import operands, warp_ranges
from tfn.trace.argument import Place
from tfn.trace.grid_argument import Fragment, WarpMma
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)


def emit_reduction(emitter: Emitter, node: UOp) -> None:
    """Emit a FOLD, on the matrix unit of warps, or of four of them, if it is to be there."""
    if not any(r.arg.place is Place.UNIT for r in node.src[1:]):
        Reduction(emitter, node).run()
        return
    x, _ = operands(node)
    is_pending = x.op is Op.STAGED and x.arg.pending
    finish = group_product.finish if is_pending else None
    Reduction(emitter, node, accumulate=_accumulate, finish=finish).run()


def _accumulate(reduction: Reduction, totals: Totals) -> Totals:
    """The next sums of all coordinates, a product of the warp for each four of them."""
    emitter, at, (unit,) = reduction.emitter, reduction.at, reduction.unit
    h, g, t, q = warp_ranges(unit, at.depends[reduction.node])
    x, y = operands(reduction.node)
    if h not in at.depends[x]:
        x, y = y, x
    if x.op is Op.STAGED and x.arg.swizzled:
        return group_product.accumulate(reduction, totals)
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

    def left_elements(base: tuple[int, ...]) -> list[UOp]:
        at.set(upcasts, base, ())
        fragment = _fragment(reduction, x, (h, g))
        if fragment is not None:
            return fragment
        elements: list[UOp] = []
        for i in range(4):
            at.set(upcasts, point(base, i % 2, 0), ())
            elements += [element(x, e + 4 * n * (i // 2)) for e in range(n)]
        return elements

    def right_elements(base: tuple[int, ...]) -> list[UOp]:
        at.set(upcasts, base, ())
        fragment = _fragment(reduction, y, (t, q))
        if fragment is not None:
            return fragment
        at.fixed.pop(q)
        at.env[t], at.env[q] = emitter.place(thread_g // 2), emitter.place(thread_g % 2)
        elements = [element(y, e + 4 * n * i) for i in range(2) for e in range(n)]
        at.env[t] = thread_t
        return elements

    # An operand is the same for all products along the side of the other one.
    loaded: dict[Key, list[UOp]] = {}
    for base in dict.fromkeys(point(p, 0, 0) for p, _ in totals):
        sides = []
        for operand, elements in ((x, left_elements), (y, right_elements)):
            at.set(upcasts, base, ())
            with at.looping(unit, ZERO):
                key = at.key(operand)
            if key not in loaded:
                loaded[key] = elements(base)
            sides.append(loaded[key])
        left, right = sides
        points = [point(base, i // 2, i % 2) for i in range(4)]
        sums = [totals[p, ()][0] for p in points]
        for i, p in enumerate(points):
            product = UOp(Op.WARP_MMA, (*left, *right, *sums), WarpMma(x.dtype, i))
            following[p, ()] = (emitter.place(product),)
    return following


def _fragment(reduction: Reduction, operand: UOp, across: tuple[UOp, UOp]) -> list[UOp] | None:
    """The elements of an operand by one instruction of the warp; None if it has to load each.

    The operand is a tile, in which 16 bytes are adjacent along the sum, or else across it.  Thread
    8 * i + r of the warp gives the address of row r of matrix i::

        left    matrix 0   matrix 2         right   matrix 0
                matrix 1   matrix 3                 matrix 1         along the sum: ->, and down

    Args:
        across: the two ranges across the sum that the unit splits: of 2 and 8, or 4 and 2.
    """
    emitter, at, (unit,) = reduction.emitter, reduction.at, reduction.unit
    threads, place, is_left = emitter.threads, emitter.place, across[0].arg.size == 2
    if operand.op is not Op.STAGED or threads is None or not threads.loads_matrices:
        return None
    steps = threads.tiles.steps(operand)
    outer, inner = across
    row = 16 // operand.dtype.itemsize  # elements
    along_sum = steps.get(unit) == 1
    transposed = steps.get(inner) == 1 and (is_left or steps.get(outer) == inner.arg.size)
    adjacent = {unit} if along_sum else {inner} if is_left else {outer, inner}
    if not along_sum and not (transposed and operand.dtype.itemsize == 2):
        return None
    if any(step % row for r, step in steps.items() if r not in adjacent):
        return None
    lane = place(threads.thread % 32)
    r, i = place(lane % 8), place(lane // 8)
    # The matrix's place along the sum, and across it; a row is along the other one.
    below, beside = (place(i % 2), place(i // 2)) if is_left else (ZERO, place(i % 2))
    if along_sum:
        along, over = place(beside * row), r
    else:
        along, over = place(place(beside * 8) + r), ZERO
    with at.restoring((unit, outer, inner)):
        at.fixed.pop(outer, None), at.fixed.pop(inner, None)
        at.env[unit] = along
        if is_left:
            at.env[outer], at.env[inner] = below, over
        elif along_sum:
            at.env[outer], at.env[inner] = place(over // 2), place(over % 2)
        else:
            at.env[outer], at.env[inner] = ZERO, ZERO
        memory, base, offset = threads.tiles.address(emitter, operand)
    matrices = 4 if is_left else 2
    count = matrices * 4 // operand.dtype.itemsize
    return [
        emitter.append(UOp(Op.FRAGMENT, (memory, base), Fragment(offset, matrices, transposed, e)))
        for e in range(count)
    ]
