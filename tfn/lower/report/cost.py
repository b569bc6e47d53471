"""What a function does when it is called: arithmetic from its graph, traffic from its steps.

An addition or a product of floating numbers is one operation; so a product of an m x k and a
k x n matrix is 2 m k n.  Functions such as exp are counted apart, as transcendental.  Each kernel
is taken to read each of its operands once, and to write each of its results once; so is the whole
function, by those who ask what it has to do at least.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from tfn.dtypes import INEXACT
from tfn.lower.math.decompose import BASIC
from tfn.lower.program import Branch, Call, HostCall, Launch, Loop, Step
from tfn.trace.build import count
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, walk

ARITHMETIC = frozenset(
    {
        Op.NEG,
        Op.ABS,
        Op.ADD,
        Op.SUB,
        Op.MUL,
        Op.DIV,
        Op.MAX,
        Op.MIN,
        Op.SQRT,
        Op.FLOOR,
        Op.CEIL,
        Op.ROUND,
        Op.MOD,
    }
)
"""What is one operation."""

PARTS = frozenset({Op.GATHER, Op.SHRINK})
"""What reads a part of its first operand."""


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
        return Work(2 * _products(node))
    if node.op is Op.REDUCE:
        return Work(max(count(node.src[0].shape) - size, 0))
    if node.op is Op.SCATTER and node.arg.op is not Op.WHERE:
        return Work(count(node.src[2].shape))
    if node.op is Op.FMA:
        return Work(2 * size)
    if node.op in ARITHMETIC:
        return Work(size)
    return Work(0, size) if node.op in ELEMENTWISE - BASIC - {Op.DETACH, Op.SIGN} else Work()


def _products(node: UOp) -> int:
    """How many products a convolution sums up: none of them with padding, or between elements."""
    x, w = (s.shape for s in node.src)
    arg, sides = node.arg, range(len(x) - 2)
    inside = prod(
        _meetings(
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


def _meetings(
    out: int, stride: int, window: int, apart: int, size: int, dilation: int, low: int
) -> int:
    """Along one side: how many places and taps of the window meet an element.

    Place p and tap t stand before position p stride + t apart - low, in which every dilation-th
    is an element.
    """
    if window > out:  # places and taps are alike
        return _meetings(window, apart, out, stride, size, dilation, low)
    common = gcd(stride, dilation)
    step = dilation // common
    found = 0
    for t in range(window):
        offset = low - t * apart  # p stride = offset + a multiple of the dilation
        first = max(0, -(-offset // stride))
        last = min(out - 1, ((size - 1) * dilation + offset) // stride)
        if offset % common == 0 and size:
            start = offset // common * pow(stride // common, -1, step) % step
            found += max(0, (last - start) // step - (first - 1 - start) // step)
    return found


def needed_bytes(function: UOp) -> tuple[float, float]:
    """Bytes of the arguments and of the results of a FUNCTION, each of them once.

    Of an argument from which parts are taken and nothing else, these parts; what an argument and
    a result share counts for neither.
    """
    users: dict[UOp, list[UOp]] = {}
    for node in walk(function.src):
        for param in {s for s in node.src if s.op is Op.PARAM}:
            users.setdefault(param, []).append(node)
    taken = 0
    for param, found in users.items():
        size = count(param.shape)
        if all(u.op in PARTS and param not in u.src[1:] for u in found):
            size = min(size, sum(count(u.shape) for u in found))
        taken += size * param.dtype.itemsize
    given = {u for u in function.src if u.op is not Op.PARAM}
    return float(taken), float(sum(count(u.shape) * u.dtype.itemsize for u in given))


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
