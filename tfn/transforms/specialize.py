"""Embedded values: what is known of a function when it is exported becomes part of its code.

    shift: int32[8] = (36, 35, ...)      max(shift - 33, 0) > 31     ->   false
    lowest: int32[] = -128               max(sums, lowest)           ->   max(sums, -128)

Integers that follow from embedded arrays and are the same at every element become constants, and
so do single numbers.  An embedded array that nothing reads any more takes no memory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np

from tfn.dtypes import BOOL, INTEGERS, NARROW
from tfn.trace import oracle
from tfn.trace.argument import Const
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, mapped, substitute, walk

MAX_ELEMENTS = 1 << 16
"""Elements of a value that is computed while exporting: those of channels, not those of images."""

_EXACT = INTEGERS - NARROW | {BOOL}
_FOLDED = ELEMENTWISE | {Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.CONST}


def specialised(jaxpr: Jaxpr, values: Mapping[int, bytes]) -> tuple[Jaxpr, list[int]]:
    """The function for embedded values, and the positions of the parameters that it still has.

    Args:
        jaxpr: the function.
        values: bytes of embedded parameters, by position; other parameters stay.
    """
    order = list(walk(jaxpr.outputs))
    known: dict[UOp, np.ndarray] = {}
    for p in jaxpr.params:
        if p.index in values and np.prod(p.shape) <= MAX_ELEMENTS:
            data = np.frombuffer(values[p.index], p.dtype)
            known[param(p)] = data.reshape(p.shape)
    for node in order:
        exact = node.dtype in _EXACT and node.op in _FOLDED and node.size <= MAX_ELEMENTS
        if node not in known and exact and all(s in known for s in node.src):
            operands = (known[s] for s in node.src)
            known[node] = np.asarray(oracle.apply(node.op, node.arg, *operands))

    def constant(node: UOp, new: UOp) -> UOp:
        if node in known:
            return _uniform(node, known[node]) or _unchanged(node, new, known)
        if node.op in (Op.SHL, Op.SHR) and node.src[1] in known:
            return _within_width(new, known[node.src[1]])
        return new

    outputs = mapped(jaxpr.outputs, constant, order=order)
    read = {u.arg.index for u in walk(outputs) if u.op is Op.PARAM}
    kept = [p for p in jaxpr.params if p.index in read or p.index not in values]
    params = tuple(type(p)(i, p.shape, p.dtype) for i, p in enumerate(kept))
    moved = {param(p): param(q) for p, q in zip(kept, params, strict=True)}
    return Jaxpr(function(substitute(outputs, moved), params)), [p.index for p in kept]


def _unchanged(node: UOp, new: UOp, known: Mapping[UOp, np.ndarray]) -> UOp:
    """An operand that an elementwise operation gives back as it is, or the operation."""
    if node.op in ELEMENTWISE:
        for operand, same in zip(node.src, new.src, strict=True):
            if operand.dtype == node.dtype and np.array_equal(known[operand], known[node]):
                return same
    return new


def _within_width(shift: UOp, counts: np.ndarray) -> UOp:
    """A shift whose counts are known to be below the width: it needs no other case."""
    x, count = shift.src
    width = 8 * x.dtype.itemsize
    if counts.size and counts.min() >= 0 and counts.max() < width:
        return UOp(shift.op, (x, count & (width - 1)))
    return shift


def _uniform(node: UOp, value: np.ndarray) -> UOp | None:
    """The constant that a value is, if all its elements have the same bits."""
    data = np.ascontiguousarray(value).astype(node.dtype, copy=False)
    size = node.dtype.itemsize
    first = data.tobytes()[:size]
    if not data.size or data.tobytes() != first * data.size:
        return None
    return UOp(Op.CONST, (), Const(node.dtype, int.from_bytes(first, sys.byteorder), node.shape))
