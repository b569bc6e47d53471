"""Constants of programs: operations on arrays that a running trace captures, by NumPy.

Such an operation runs once for each array, and mostly no other has its shapes: weights are turned
to the layout that a product reads, and unpacked from few bits.  To schedule and to load a program
for it takes longer than NumPy does.  Only operations run here whose results are the same, bit by
bit: elements that change their place, and numbers that are rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfn.array import Array
from tfn.config import config
from tfn.dtypes import BOOL, FLOAT32, FLOAT64, INTEGERS
from tfn.eager.conversion import asarray, read
from tfn.eager.registry import device
from tfn.hw.memory import HostMemory
from tfn.trace import oracle, traces
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import MOVEMENT, Op
from tfn.trace.uop import UOp, walk

MAX_ELEMENTS = 1 << 20
"""Elements of a result: NumPy turns these in 2 ms, in which a program is scheduled and loaded."""

_FLOATS = {FLOAT32, FLOAT64}
_TYPES = INTEGERS | _FLOATS | {BOOL}
_ROUNDED_ONCE = {Op.PARAM, Op.CONST, Op.NEG, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.CAST}
_OPS = MOVEMENT | _ROUNDED_ONCE


def computed(jaxpr: Jaxpr, operands: Sequence[Array]) -> list[Array] | None:
    """The results of an operation on arrays that a trace captures; None if it is to be compiled."""
    if all(trace.known for trace in traces.running()) or config.debug_nans:
        return None
    if any(x.kind is None or x.kind.sharding is not None for x in operands):
        return None
    if not isinstance(device().memory, HostMemory) or not all(map(_is_same, walk(jaxpr.outputs))):
        return None
    results = oracle.call(jaxpr.function, [*map(read, operands)])
    return [asarray(x, u.dtype) for x, u in zip(results, jaxpr.outputs, strict=True)]


def _is_same(node: UOp) -> bool:
    """Whether NumPy computes the same bits as compiled code, in no more time than loading takes."""
    if node.op not in _OPS or node.dtype not in _TYPES or prod(node.shape) > MAX_ELEMENTS:
        return False
    to_integers = node.op is Op.CAST and node.dtype not in _FLOATS
    return not to_integers or node.src[0].dtype not in _FLOATS
