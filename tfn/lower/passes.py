"""Passes: the compiler as one table, from a graph to the instructions of its kernels.

A machine of another kind has a list of its own, as grids have in `grids.passes`: the language of a
target names it.  Each row names the stage before it and the stage after it; tests check the spec of
the stage, and compare with the oracle, after every one::

    JAXPR -> KERNELS -> RANGES -> SPLIT -> LINEAR
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import BFLOAT16
from tfn.lower.codegen import linearize, prefetch
from tfn.lower.codegen.sort import sort
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.graph import complex_pairs
from tfn.lower.graph.fourier import Products
from tfn.lower.loops import heuristics, loop_nest, memos
from tfn.lower.math import decompose
from tfn.lower.target.matrix_units import adds_four_bytes, matrix_units
from tfn.lower.target.target import Target
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@frozen
class Pass:
    """A pass: its name, its function, and the stages before and after it (`trace.spec.Stage`)."""

    name: str
    run: Callable[[Any, Target], Any]
    before: str
    after: str

    def __call__(self, value: object, target: Target) -> Any:
        """The value after the pass."""
        return self.run(value, target)


@frozen
class Passes:
    """The passes by name: ``passes_of(target).split(body, target)``."""

    complex_pairs: Pass
    boundaries: Pass
    ranges: Pass
    decompose: Pass
    split: Pass
    linearize: Pass
    prefetch: Pass
    sort: Pass

    def of_kernel(self, body: UOp) -> tuple[Pass, ...]:
        """The passes of a kernel: those of loops, that of a sort, or none for a custom kernel."""
        if body.op is Op.SINK:
            return self.decompose, self.split, self.linearize, self.prefetch
        return (self.sort,) if is_sort(body) else ()


def is_sort(body: UOp) -> bool:
    """Whether a body is a kernel that sorts."""
    return body.op is not Op.SINK and body.src[0].src[0].op is Op.SORT


def _real(function: UOp, target: Target) -> UOp:
    few = Products.NONE if target.batch_invariant else Products.FAST
    # A function of the host would end a graph, and take the value there and back.
    products = Products.ALL if Op.HOST in target.lacks else few
    has_unit = any(unit.has_tiles for unit in matrix_units(target, BFLOAT16))
    return complex_pairs.lower_complex(function, products, has_unit)


def _linearize(n: loop_nest.Nest, target: Target, branches: bool = False) -> tuple[UOp, ...]:
    fma = Op.FMA not in target.lacks
    return linearize.linearize(
        memos.checked(n), fma, target.batch_invariant, branches, adds_four_bytes(target)
    )


# fmt: off
CORES = Passes(**{step.name: step for step in (
    Pass("complex_pairs", lambda u, target: _real(u, target),
         "JAXPR", "JAXPR"),
    Pass("boundaries",    lambda u, target: boundaries.insert_barriers(u, target),
         "JAXPR", "KERNELS"),
    Pass("ranges",        lambda u, target: ranges.indexed_kernels(u),     "KERNELS", "RANGES"),
    # From here on, for each kernel.
    Pass("decompose",     lambda u, target: decompose.decompose([u], target.lacks)[0],
         "RANGES", "RANGES"),
    Pass("split",         lambda u, target: heuristics.choose(loop_nest.nest(u), target),
         "RANGES", "SPLIT"),
    Pass("linearize",     lambda n, target: _linearize(n, target),         "SPLIT", "LINEAR"),
    Pass("prefetch",      lambda u, target: prefetch.insert_prefetches(u, target),
         "LINEAR", "LINEAR"),
    # A kernel that sorts has one pass of its own.
    Pass("sort",          lambda u, target: sort.instructions(u, target)[0], "RANGES", "LINEAR"),
)})
# fmt: on
"""The passes of processors: cores with vectors."""

BRANCHING = replace(
    CORES, linearize=replace(CORES.linearize, run=partial(_linearize, branches=True))
)
"""The same where processors run ahead of a branch that goes the same way every time."""


def tile_count(kernel: loop_nest.Nest | UOp) -> int:
    """The iterations that threads share: of a nest's parallel loop, or of the body of a sort.

    On a grid these are the groups.
    """
    if isinstance(kernel, UOp):
        return sort.groups_and_threads(kernel)[0] if is_sort(kernel) else 1
    groups = [r for r in kernel.loops if r.arg.place is Place.GROUP]
    if groups:
        return prod(r.arg.size for r in groups)
    first = kernel.loops[0] if kernel.loops else None
    return first.arg.size if first is not None and first.arg.place is Place.PARALLEL else 1
