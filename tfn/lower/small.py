"""Passes for the least code and memory, as microcontrollers need them, rather than for speed.

Operands are read where they lie: no copy is packed, and none is padded, whose border each reader
asks for by itself.  Loops stay loops: no vectors, no tiles, nothing unrolled.  A convolution of
int8 so takes some hundred bytes of code, and of memory its operand and its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfn.lower.codegen.narrow_indices import narrowed
from tfn.lower.fuse.analysis import VIEW_OPS
from tfn.lower.fuse.boundaries import insert_barriers
from tfn.lower.fuse.sharing import share
from tfn.lower.graph.packing import convolution
from tfn.lower.graph.partial_sort import end_of_sort
from tfn.lower.index.simplify import simplify
from tfn.lower.loops import loop_nest
from tfn.lower.loops.cost_model import model_of
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.restructuring import longest_strides_outside, merge_loops
from tfn.lower.math import decompose, words
from tfn.lower.passes import CORES
from tfn.lower.target.target import Target
from tfn.trace.op import Op
from tfn.trace.uop import UOp, mapped


def _kernels(function: UOp, target: Target) -> UOp:
    """The stage KERNELS: padding is a view, and only convolutions are rewritten."""
    return insert_barriers(function, target, _unpacked, VIEW_OPS | {Op.PAD})


def _unpacked(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    outputs = share(outputs, target, scan=None, sort=_whole_sort)
    return mapped(outputs, lambda u, new: convolution(new, target) if u.op is Op.CONV else new)


def _whole_sort(u: UOp, target: Target) -> list[UOp] | None:
    """The largest elements of rows by a sort of all, which takes less code than a selection."""
    return None if u.arg.largest is None else end_of_sort(u)


def _decompose(u: UOp, target: Target) -> UOp:
    narrow = target.address_bits == 32  # a library would compute with numbers of 64 bits
    lacks = target.lacks
    return simplify(words.decomposed(u, lacks) if narrow else decompose.decompose([u], lacks)[0])


def _loops(u: UOp, target: Target) -> Nest:
    n = loop_nest.nest(u)
    n = longest_strides_outside(n, model_of(n, target))
    return loop_nest.simplified(merge_loops(n, target))


def _indices(items: tuple[UOp, ...], target: Target) -> tuple[UOp, ...]:
    return narrowed(items) if target.address_bits == 32 else items


SMALL = replace(
    CORES,
    boundaries=replace(CORES.boundaries, run=_kernels),
    decompose=replace(CORES.decompose, run=_decompose),
    split=replace(CORES.split, run=_loops),
    prefetch=replace(CORES.prefetch, run=_indices),
)
"""The passes of `CORES`, of which four are others."""
