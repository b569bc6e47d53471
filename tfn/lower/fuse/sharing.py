"""Work that a processor gives to one thread, shared among the threads of a grid.

A sort, and a loop over an associative function, are kernels of their own.  On a processor a scan
reads lines where they lie.  On a grid short rows are shared by the threads of a group; longer ones
become several kernels, by arrays::

    sort x           ->   sort of tiles, counts, a scan of these, a scatter: `grid_sort`
    largest of x     ->   their threshold, a scan, a scatter, a sort of them: `grid_select`
    scan (c + x) x   ->   totals of blocks, a scan of these, a scan of each block: `block_scan`
    scatter-add y x  ->   a sort by element, a scan of segments, a scatter: `grid_scatter`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.lower.fuse.grid_scatter import scatter_on_grid
from tfn.lower.fuse.grid_sort import sort_on_grid
from tfn.lower.graph import partial_sort
from tfn.lower.graph.block_scan import scan_after_first, scan_in_blocks, unshaped
from tfn.lower.target.target import Target
from tfn.trace.op import Op
from tfn.trace.records import changed
from tfn.trace.uop import UOp, mapped, walk

SHARED: dict[Op, Callable[[UOp, Target], list[UOp] | None]] = {
    Op.SCAN: scan_in_blocks,
    Op.SORT: lambda u, target: sort_on_grid(u, target) if target.grid else _alone(u),
}
"""The results of an op for a target; None where it stays as it is."""


def _alone(u: UOp) -> list[UOp] | None:
    return None if u.arg.largest is None else partial_sort.largest(u)


def _joined_scan(u: UOp) -> UOp | None:
    """The SCAN whose slices follow a first row in a concatenation."""
    later = u.src[-1] if u.op is Op.CONCAT and u.arg == 0 and len(u.src) == 2 else u
    return (
        later.src[0]
        if later.op is Op.GET and later.src[0].op is Op.SCAN and later is not u
        else None
    )


def share(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    """The values with sorts and scans for the threads of a grid, or of a processor."""
    order = [*walk(outputs)]
    ops = {*SHARED, Op.SCATTER} if target.grid else {*SHARED}
    if not any(u.op in ops for u in order):
        return [*outputs]
    results: dict[UOp, list[UOp] | None] = {}
    after_first = set() if target.grid else {*filter(None, map(_joined_scan, order))}
    wholes: dict[tuple[UOp, UOp], UOp] = {}

    def shared(node: UOp, u: UOp) -> UOp:
        if u.op is Op.GET and u.src[0].op in SHARED:
            of = u.src[0]
            if of not in results:
                results[of] = SHARED[of.op](of, target)
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
        elif u.op is Op.SCATTER and target.grid:
            u = changed("sort-updates", u, scatter_on_grid(u, target))
        return u

    return mapped(outputs, shared, order=order)
