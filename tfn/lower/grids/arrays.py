"""Arrays as the threads of a grid compute them: tiles in local memory, sorts and scans in common.

    dot a b          ->   rounded to tf32, of rows along the sum, where a matrix unit takes them so
    sort x           ->   sort of tiles, counts, a scan of these, a scatter: `grid_sort`
    largest of x     ->   their threshold, a scan, a scatter, a sort of them: `grid_select`
    scan (c + x) x   ->   totals of blocks, a scan of these, a scan of each block: `block_scan`
    scatter-add y x  ->   a sort by element, a scan of segments, a scatter: `grid_scatter`

A kernel copies tiles of its operands to local memory: they need not be packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tfn.dtypes import FLOAT32
from tfn.lower.fuse.grid_scatter import scatter_on_grid
from tfn.lower.fuse.grid_sort import sort_on_grid
from tfn.lower.fuse.sharing import share
from tfn.lower.graph import packing
from tfn.lower.graph.block_scan import scan_in_blocks
from tfn.lower.graph.flash import chunk_oversized
from tfn.lower.graph.split_reduction import split_k
from tfn.lower.graph.unit_operands import rounded, rounded_conv, rows_of_bytes
from tfn.lower.target.target import Target, grid_of
from tfn.trace.op import Op
from tfn.trace.records import changed
from tfn.trace.uop import UOp


def _has_tf32(target: Target) -> bool:
    return grid_of(target).unit(FLOAT32.name) is not None


def _convolution(u: UOp, target: Target) -> UOp:
    if u.arg.tf32:
        u = changed("round-to-tf32", u, rounded_conv(u, _has_tf32(target)))
    return packing.convolution(u, target)


def _product(u: UOp, target: Target) -> UOp:
    if u.arg.tf32:
        u = changed("round-to-tf32", u, rounded(u, _has_tf32(target)))
    u = changed("rows-along-the-sum", u, rows_of_bytes(u, grid_of(target)))
    is_split = bool(u.arg.contract_a) and not u.arg.batch_a
    return split_k(u, target, packing.unpacked) if is_split else u


RULES: packing.Rules = {
    **packing.RULES,
    Op.CONV: _convolution,
    Op.DOT: _product,
    Op.REDUCE: partial(packing.reduction, whole_rows=False),
    Op.SCATTER: lambda u, target: u,
}


def rewritten(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    """The same values; see `boundaries.rewritten`."""
    prepared = partial(packing.prepare, rules=RULES)
    blocks = chunk_oversized(outputs, target, prepared)
    return prepared(share(blocks, target, scan_in_blocks, sort_on_grid, scatter_on_grid), target)
