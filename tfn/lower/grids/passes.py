"""Passes of grids: those of processors, where groups of threads need no others.

A row stays in the registers of the threads, or is read again, so that no value is kept; and threads
hide latencies by their number, so that nothing is prefetched.
"""

from __future__ import annotations

from dataclasses import replace

from tfn.dtypes import BFLOAT16
from tfn.lower.codegen import grid
from tfn.lower.codegen.sort import group_sort, sort
from tfn.lower.codegen.sort.plan import sort_and_outputs
from tfn.lower.fuse import boundaries
from tfn.lower.graph import complex_pairs
from tfn.lower.graph.fourier import Products
from tfn.lower.grids import arrays
from tfn.lower.loops import grid_heuristics, loop_nest, memos
from tfn.lower.math import decompose, words
from tfn.lower.passes import CORES, Pass, is_sort
from tfn.lower.target.target import Target, grid_of
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def _real(function: UOp, target: Target) -> UOp:
    """Real arrays; Fourier transforms are products, which stay on the device."""
    has_unit = grid_of(target).unit(BFLOAT16.name) is not None
    return complex_pairs.lower_complex(function, Products.ALL, has_unit)


def _sort(body: UOp, target: Target) -> tuple[UOp, ...]:
    """A sort by a group for each tile of rows, or by a thread alone."""
    if sort_and_outputs(body)[0].arg.shared:
        return group_sort.instructions(body, grid_of(target))
    return sort.instructions(body, target)[0]


# fmt: off
GRID = replace(CORES, **{step.name: step for step in (
    Pass("complex_pairs", _real, "JAXPR", "JAXPR"),
    Pass("boundaries",
         lambda u, target: boundaries.insert_barriers(u, target, arrays.rewritten),
         "JAXPR", "KERNELS"),
    Pass("decompose",
         lambda u, target: decompose.decompose([memos.computed_again(u)], target.lacks)[0],
         "RANGES", "RANGES"),
    Pass("split",         lambda u, target: grid_heuristics.choose(loop_nest.nest(u), target),
         "RANGES", "SPLIT"),
    Pass("linearize",
         lambda n, target: grid.linearize(n, Op.FMA not in target.lacks, grid_of(target)),
         "SPLIT", "LINEAR"),
    Pass("prefetch",      lambda items, target: items, "LINEAR", "LINEAR"),
    Pass("sort",          _sort, "RANGES", "LINEAR"),
)})
# fmt: on
"""The passes of machines that run groups of threads."""

NARROW = replace(
    GRID,
    decompose=Pass(
        "decompose",
        lambda u, target: words.decomposed(memos.computed_again(u), target.lacks),
        "RANGES",
        "RANGES",
    ),
)
"""The same where there are no numbers of 64 bits."""


def thread_count(kernel: loop_nest.Nest | UOp) -> int:
    """The threads of a group that runs a kernel; 1 for a custom kernel."""
    if isinstance(kernel, UOp):
        return sort.groups_and_threads(kernel)[1] if is_sort(kernel) else 1
    return grid.thread_count(kernel)
