"""Cost analysis: FLOPs of a function from its graph, bytes of memory traffic from its steps.

An addition or a product of floating numbers is one operation; so a product of an m x k and a
k x n matrix is 2 m k n.  Functions such as exp are counted separately, as transcendental.
Traffic takes each kernel to read each operand once and to write each result once; the least traffic
of a function takes the same of the function as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from tfn.dtypes import INEXACT
from tfn.lower.math.decompose import BASIC
from tfn.lower.program import Branch, Call, HostCall, HostPart, Launch, Loop, Step
from tfn.trace.build import count
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, walk

ARITHMETIC = frozenset({Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN})
ARITHMETIC |= {Op.SQRT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.MOD}
"""Ops that count as one floating-point operation for each element."""

PARTIAL_READS = frozenset({Op.GATHER, Op.SHRINK})
"""Ops that read a part of their first operand."""


class Work(NamedTuple):
    """Floating-point operations, and transcendental functions."""

    flops: float = 0
    transcendentals: float = 0

    def times(self, n: int) -> Work:
        """The work of n iterations."""
        return Work(self.flops * n, self.transcendentals * n)

    def plus(self, other: Work) -> Work:
        """The sum of both."""
        return Work(self.flops + other.flops, self.transcendentals + other.transcendentals)


@lru_cache(maxsize=1024)
def work(function: UOp) -> Work:
    """The arithmetic of a FUNCTION; one step of a while loop, the most expensive of branches."""
    total = Work()
    for node in walk(function.src):
        total = total.plus(node_work(node))
    return total


def node_work(node: UOp) -> Work:
    """The arithmetic of one node, and of the functions that it runs."""
    bodies = [work(s) for s in node.src if s.op is Op.FUNCTION and s.src]
    if node.op is Op.SCAN:
        return bodies[0].times(node.arg.length)
    if node.op is Op.COND:  # which way is taken is not known: the most expensive one
        return Work(*map(max, zip(*bodies, strict=True)))
    if bodies:
        return Work(*map(sum, zip(*bodies, strict=True)))
    if node.dtype not in INEXACT:  # integer arithmetic is not counted
        return Work()
    size = count(node.shape)
    if node.op is Op.DOT:
        return Work(2 * size * prod(node.src[0].shape[i] for i in node.arg.contract_a))
    if node.op is Op.CONV:
        return Work(2 * _products(node))
    if node.op is Op.REDUCE:  # n elements take n - 1 operations for each result
        return Work(max(count(node.src[0].shape) - size, 0))
    if node.op is Op.SCATTER and node.arg.op is not Op.WHERE:
        return Work(count(node.src[2].shape))
    if node.op is Op.FMA:
        return Work(2 * size)
    if node.op in ARITHMETIC:
        return Work(size)
    return Work(0, size) if node.op in ELEMENTWISE - BASIC - {Op.DETACH, Op.SIGN} else Work()


def _products(node: UOp) -> int:
    """The number of products of a convolution, without those with padding or between elements."""
    x, w = (s.shape for s in node.src)
    arg, sides = node.arg, range(len(x) - 2)
    inside = prod(
        _overlaps(
            node.shape[1 + i],
            arg.strides[i],
            w[i],
            arg.dilation_w[i],
            x[1 + i],
            arg.dilation_x[i],
            arg.padding[i][0],
        )
        for i in sides
    )
    return node.shape[0] * node.shape[-1] * w[-2] * inside


def _overlaps(
    out: int, stride: int, window: int, window_dilation: int, size: int, dilation: int, low: int
) -> int:
    """The number of (output, tap) pairs along one axis that read an element, not padding.

    Output p and tap t read position p stride + t window_dilation - low, where every dilation-th
    position is an element.  For each tap those p are an arithmetic progression, by the Chinese
    remainder theorem.
    """
    if window > out:  # symmetric in outputs and taps: loop over the fewer
        return _overlaps(window, window_dilation, out, stride, size, dilation, low)
    common = gcd(stride, dilation)
    step = dilation // common
    pairs = 0
    for t in range(window):
        # p stride = offset + a multiple of the dilation
        offset = low - t * window_dilation
        first = max(0, -(-offset // stride))
        last = min(out - 1, ((size - 1) * dilation + offset) // stride)
        if offset % common == 0 and size:  # else no output reads an element through this tap
            start = offset // common * pow(stride // common, -1, step) % step
            pairs += max(0, (last - start) // step - (first - 1 - start) // step)
    return pairs


def needed_bytes(function: UOp) -> tuple[float, float]:
    """The least traffic of a FUNCTION: bytes of its arguments, and of its results, each once.

    Of an argument that is only gathered from or sliced, the parts that are read; a result that is
    an argument counts for neither.
    """
    users: dict[UOp, list[UOp]] = {}
    for node in walk(function.src):
        for param in {s for s in node.src if s.op is Op.PARAM}:
            users.setdefault(param, []).append(node)
    read = 0
    for param, nodes in users.items():
        size = count(param.shape)
        if all(u.op in PARTIAL_READS and param not in u.src[1:] for u in nodes):
            size = min(size, sum(count(u.shape) for u in nodes))
        read += size * param.dtype.itemsize
    written = {u for u in function.src if u.op is not Op.PARAM}
    return float(read), float(sum(count(u.shape) * u.dtype.itemsize for u in written))


def traffic_bytes(steps: Iterable[Step]) -> float:
    """Bytes that steps read and write; a loop without a trip count is counted once."""
    return float(sum(map(_traffic, steps)))


def _traffic(step: Step) -> float:
    if isinstance(step, Launch):
        assert step.kernel.body is not None, "a program that was lowered here"
        buffers = {u.arg.index: u for u in walk([step.kernel.body]) if u.op is Op.PARAM}
        return sum(count(u.shape) * u.dtype.itemsize for u in buffers.values())
    if isinstance(step, HostCall) and step.part is HostPart.END:
        return 0.0  # counted at its beginning
    if isinstance(step, HostCall):
        return sum(prod(shape) * dtype.itemsize for shape, dtype in step.types)
    if isinstance(step, Loop):
        return (step.trips or 1) * traffic_bytes(step.body) + traffic_bytes(step.head)
    if isinstance(step, Branch):
        return max(map(traffic_bytes, step.branches))
    assert isinstance(step, Call)
    return traffic_bytes(step.routine.steps)
