"""Sorts, and loops over associative functions, as kernels of their own.

A processor gives each to one thread: a scan reads lines where they lie, and a sort for the largest
of each row is a partial one.  A grid has other rows, `grids.arrays`: its threads share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.lower.graph import partial_sort
from tfn.lower.graph.block_scan import scan_after_first, scan_in_place, unshaped
from tfn.lower.target.target import Target
from tfn.trace.op import Op
from tfn.trace.records import changed
from tfn.trace.uop import UOp, mapped, walk

Share = Callable[[UOp, Target], list[UOp] | None]
"""From an op to its results on a machine; None where it stays as it is."""


def _largest(u: UOp, target: Target) -> list[UOp] | None:
    return None if u.arg.largest is None else partial_sort.largest(u)


def _joined_scan(u: UOp) -> UOp | None:
    """The SCAN whose slices follow a first row in a concatenation."""
    later = u.src[-1] if u.op is Op.CONCAT and u.arg == 0 and len(u.src) == 2 else u
    return (
        later.src[0]
        if later.op is Op.GET and later.src[0].op is Op.SCAN and later is not u
        else None
    )


def share(
    outputs: Sequence[UOp],
    target: Target,
    scan: Share | None = scan_in_place,
    sort: Share = _largest,
    scatter: Callable[[UOp, Target], UOp] | None = None,
) -> list[UOp]:
    """The values with sorts and scans for the threads of a processor.

    Args:
        scan, sort: those of another machine; None leaves scans as they are.
        scatter: its scatters; without one, scans follow their first row in memory.
    """
    shared = {Op.SORT: sort} | ({Op.SCAN: scan} if scan else {})
    order = [*walk(outputs)]
    ops = {*shared, Op.SCATTER} if scatter else {*shared}
    if not any(u.op in ops for u in order):
        return [*outputs]
    results: dict[UOp, list[UOp] | None] = {}
    after_first = set() if scatter else {*filter(None, map(_joined_scan, order))}
    wholes: dict[tuple[UOp, UOp], UOp] = {}

    def rewritten(node: UOp, u: UOp) -> UOp:
        if u.op is Op.GET and u.src[0].op in shared:
            of = u.src[0]
            if of not in results:
                results[of] = shared[of.op](of, target)
                joined = scan_after_first(of, target) if node.src[0] in after_first else None
                if joined is not None:
                    results[of], parts = joined
                    wholes.update(parts)
            values = results[of]
            u = u if values is None else changed("share", u, values[u.arg])
        elif u.op is Op.CONCAT and (rows := (unshaped(u.src[0]), u.src[-1])) in wholes:
            u = changed("join-scan", u, wholes[rows])
        elif u.op is Op.GBARRIER and u.src[0] in wholes.values():
            u = u.src[0]  # it is in memory
        elif u.op is Op.SCATTER and scatter is not None:
            u = changed("sort-updates", u, scatter(u, target))
        return u

    return mapped(outputs, rewritten, order=order)
