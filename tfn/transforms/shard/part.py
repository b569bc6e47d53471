"""The part of a value that one device holds, while a function is divided.

x:f32[8,4] over data: 2   ->   a graph f32[4,4], the spec ((data), ())
x @ w over model          ->   a graph of partial sums, pending over model
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfn.trace.argument import Leaf
from tfn.trace.jaxpr import param
from tfn.trace.op import Op, Shape
from tfn.trace.regions import form
from tfn.trace.sharding import Names, Spec
from tfn.trace.uop import UOp, walk


class Part(NamedTuple):
    """The part of a value that this device holds.

    Attributes:
        graph: of the part.
        spec: how the value is divided by the partitioner.
        manual: the axes of the manual regions that it is in.
        pending: the axes over which the parts have still to be added up.
        shape: of the value; known where the part is read.
    """

    graph: UOp
    spec: Spec
    manual: frozenset[str] = frozenset()
    pending: Names = ()
    shape: Shape = ()


def manual_of(parts: Sequence[Part]) -> frozenset[str]:
    """The axes of the manual regions that operands are in."""
    manual = frozenset[str]()
    for part in parts:
        if part.manual:
            manual |= part.manual
    return manual


def scattered(spec: Spec, name: str, wish: Spec | None) -> int | None:
    """The axis of a result along which partial results may be scattered, as its users wish."""
    if wish is None or len(wish) != len(spec):
        return None
    axes = (i for i, names in enumerate(spec) if wish[i][: len(names) + 1] == (*names, name))
    return next(axes, None)


def appended(spec: Spec, axis: int, name: str) -> Spec:
    """A spec of which one axis is divided once more."""
    return (*spec[:axis], (*spec[axis], name), *spec[axis + 1 :])


def stays_partial(u: UOp, s: UOp) -> bool:
    """Whether an operand is the first carry of a loop that the user has said to be unreduced."""
    if u.op is not Op.SCAN or s.op is not Op.CONSTRAIN or not s.arg.unreduced:
        return False
    parts = form(u)
    return s in parts.carries and s not in parts.consts[0]


def slice_of(part: Part) -> Part:
    """One slice of an array that a scan runs over."""
    graph = part.graph
    row = UOp(Op.LEAF, (), Leaf(graph.shape[1:], graph.dtype))
    return part._replace(graph=row, spec=part.spec[1:], shape=part.shape[1:])


def accumulated(body: UOp, carries: range) -> list[tuple[int, UOp]]:
    """The carries of a loop to which its body adds a value, and which it does not read otherwise.

    Args:
        body: the FUNCTION of the loop.
        carries: the numbers of its parameters that are carries.

    Returns:
        The number of each, counted from the first carry, and the value.
    """
    readers: dict[UOp, int] = {}
    for u in walk(body.src):
        if u.op is not Op.FUNCTION:
            for s in u.src:
                readers[s] = readers.get(s, 0) + 1
    found = []
    for i, (p, out) in enumerate(zip(body.arg.params[carries.start :], body.src[: len(carries)])):
        carry = param(p)
        alone = readers.get(carry) == 1 and body.src.count(carry) == 0 and body.src.count(out) == 1
        if alone and out.op is Op.ADD and carry in out.src and readers.get(out, 0) == 0:
            (term,) = [s for s in out.src if s is not carry]
            if term.op not in (Op.PARAM, Op.CONST):
                found.append((i, term))
    return found


def is_zero(u: UOp) -> bool:
    """Whether a graph is known to be zeros."""
    while u.op in (Op.RESHAPE, Op.EXPAND):
        (u,) = u.src
    return u.op is Op.CONST and not u.arg.value
