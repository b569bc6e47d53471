"""What is read after a long sum is asked for before it: it is there when the sum is.

Before -> after, in the instructions of a kernel::

    for k: s += a[k] * b[k]                prefetch w[i]
    x = load w[i]; store w[i] = x - s      for k: s += a[k] * b[k]
                                           x = load w[i]; store w[i] = x - s

So memory works while the processor multiplies.  By itself a processor foresees neither the tiles of
a matrix nor, in a loop, what follows it: weights and moments that an optimizer changes where their
gradient is summed come from far away, one line after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfn._support.frozen import mutable
from tfn.dtypes import INT64
from tfn.lower.codegen.deinterleave import ENDS
from tfn.lower.graph.layout import LINE_BYTES
from tfn.lower.index.intervals import integer
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp

FAR = 4
"""An array that takes more than one of so many parts of the second cache may be far away."""

WORTH, MOST = 16, 128
"""Products of vectors in a sum for each line that is asked for before it, and the most lines."""

PRODUCTS = frozenset({Op.FMA, Op.DOT2})


def ahead(items: Sequence[UOp], target: Target) -> tuple[UOp, ...]:
    """The same instructions, with a PREFETCH before the longest sum of what is read after it."""
    sums = list(_sums(items))
    if not sums:
        return tuple(items)
    loop, end = max(sums, key=lambda pair: pair[0].products)  # the first: of a whole tile
    at = {u: i for i, u in enumerate(items)}
    lines, late = _lines(items, loop.start, end, at, target.l2_bytes // FAR)
    if not lines or len(lines) > min(MOST, loop.products // WORTH):
        return tuple(items)
    moved = set(late)
    rest = [u for u in items[loop.start :] if u not in moved]
    return (*items[: loop.start], *late, *lines, *rest)


@mutable
class _Loop:
    """A loop that is open: where it begins, its iterations, and the products of vectors in each."""

    start: int
    trips: int
    products: int = 0


def _sums(items: Sequence[UOp]) -> Iterator[tuple[_Loop, int]]:
    """Loops that sum products, with all that they multiply, and the position after each."""
    opened: list[_Loop] = []
    for i, u in enumerate(items):
        if u.op is Op.LOOP:
            known = len(u.src) == 2 and all(s.op is Op.CONST for s in u.src)
            opened.append(_Loop(i, integer(u.src[1]) - integer(u.src[0]) if known else 1))
        elif u.op in PRODUCTS and u.shape and opened:
            opened[-1].products += 1
        elif u.op is Op.END:
            loop = opened.pop()
            loop.products *= loop.trips
            if opened:
                opened[-1].products += loop.products
            if len(u.src) > 1 and loop.products:
                yield loop, i + 1


def _lines(
    items: Sequence[UOp], start: int, end: int, at: dict[UOp, int], far_bytes: int
) -> tuple[list[UOp], list[UOp]]:
    """The lines that are loaded in the run after a loop; what they need that is made too late."""
    lines: dict[tuple[UOp, UOp, int], UOp] = {}
    late: set[UOp] = set()
    for u in items[end:]:
        if u.op in ENDS:
            break
        if u.op is not Op.LOAD or u.src[1].shape or abs(u.arg.stride) > 1:
            continue
        buffer, base = u.src[:2]
        index = _made_after(start, base, at)
        if index is not None and build.count(buffer.shape) * buffer.dtype.itemsize > far_bytes:
            late |= index
            each = LINE_BYTES // buffer.dtype.itemsize
            low = u.arg.offset - (u.arg.lanes - 1 if u.arg.stride < 0 else 0)
            for n in range(low // each, (low + u.arg.lanes - 1) // each + 1):
                line = UOp(Op.PREFETCH, (buffer, base), Access(n * each, 1, 0))
                lines[buffer, base, n] = line
    return list(lines.values()), sorted(late, key=at.__getitem__)


def _made_after(start: int, base: UOp, at: dict[UOp, int]) -> set[UOp] | None:
    """What of an address is made after a position; None if it cannot be made there."""
    found: set[UOp] = set()
    waiting = [base]
    while waiting:
        u = waiting.pop()
        if at.get(u, -1) >= start and u not in found:
            if u.op not in (Op.ADD, Op.MUL) or u.dtype != INT64 or u.shape:
                return None
            found.add(u)
            waiting += u.src
    return found
