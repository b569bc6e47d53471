"""What a function does when it is called: arithmetic from its graph, traffic from its steps.

An addition or a product of floating numbers is one operation; so a product of an m x k and a
k x n matrix is 2 m k n.  Functions such as exp are counted apart, as transcendental.  Each kernel
is taken to read each of its operands once, and to write each of its results once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import NamedTuple

from tfn.dtypes import INEXACT
from tfn.lower.decompose import BASIC
from tfn.lower.kernel import Branch, Call, HostCall, Launch, Loop, Step
from tfn.trace.build import count
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, walk

ARITHMETIC = frozenset({
    Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN, Op.SQRT, Op.FLOOR, Op.CEIL,
    Op.ROUND, Op.MOD,
})  # fmt: skip
"""What is one operation."""


class Work(NamedTuple):
    """Arithmetic operations on floating numbers, and functions of them."""

    flops: float = 0
    transcendentals: float = 0

    def times(self, n: int) -> Work:
        """So much, n times."""
        return Work(self.flops * n, self.transcendentals * n)

    def plus(self, other: Work) -> Work:
        """Both together."""
        return Work(self.flops + other.flops, self.transcendentals + other.transcendentals)


@lru_cache(maxsize=1024)
def work(function: UOp) -> Work:
    """The arithmetic of a FUNCTION: of a loop of unknown length one step, of branches the most."""
    total = Work()
    for node in walk(function.src):
        total = total.plus(_own(node))
    return total


def _own(node: UOp) -> Work:
    bodies = [work(s) for s in node.src if s.op is Op.FUNCTION and s.src]
    if node.op is Op.SCAN:
        return bodies[0].times(node.arg.length)
    if node.op is Op.COND:
        return Work(*map(max, zip(*bodies, strict=True)))
    if bodies:
        return Work(*map(sum, zip(*bodies, strict=True)))
    if node.dtype not in INEXACT:
        return Work()
    size = count(node.shape)
    if node.op is Op.DOT:
        return Work(2 * size * prod(node.src[0].shape[i] for i in node.arg.contract_a))
    if node.op is Op.CONV:
        return Work(2 * size * prod(node.src[1].shape[:-1]))
    if node.op is Op.REDUCE:
        return Work(max(count(node.src[0].shape) - size, 0))
    if node.op is Op.SCATTER and node.arg.op is not Op.WHERE:
        return Work(count(node.src[2].shape))
    if node.op is Op.FMA:
        return Work(2 * size)
    if node.op in ARITHMETIC:
        return Work(size)
    return Work(0, size) if node.op in ELEMENTWISE - BASIC - {Op.DETACH, Op.SIGN} else Work()


def traffic_bytes(steps: Iterable[Step]) -> float:
    """Bytes that steps read and write."""
    return float(sum(map(_traffic, steps)))


def _traffic(step: Step) -> float:
    if isinstance(step, Launch):
        buffers = {u.arg.index: u for u in walk([step.kernel.body]) if u.op is Op.PARAM}
        return sum(count(u.shape) * u.dtype.itemsize for u in buffers.values())
    if isinstance(step, HostCall):
        return sum(prod(shape) * dtype.itemsize for shape, dtype in step.types)
    if isinstance(step, Loop):
        return (step.trips or 1) * traffic_bytes(step.body) + traffic_bytes(step.head)
    if isinstance(step, Branch):
        return max(map(traffic_bytes, step.ways))
    assert isinstance(step, Call)
    return traffic_bytes(step.routine.steps)
