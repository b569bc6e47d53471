"""Bounds proofs of custom kernels: indices stay within their axes, each element is written once.

    i in [0, 99]:  x[i + 1], x: f32[100]    is outside at i = 99

An index that intervals cannot decide is evaluated at every point, where there are not too many; one
that depends on loaded values, or has too many points, is left to z3, where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tfn._support.frozen import frozen
from tfn.lower.index import solver
from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import Facts, bounds
from tfn.lower.report.print.expression import Text, operation
from tfn.trace.interpreter import values
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, walk

MAX_POINTS = 1 << 22
"""Points at which an index is evaluated at most: 32 MiB for each of its nodes."""

UNPROVED_COVERAGE = "it cannot be proved that each element is written once"


@frozen
class Violation:
    """An index that leaves its axis, or cannot be proved to stay within.

    Attributes:
        at: the values of ranges there, if they are known.
        value: the index there.
    """

    at: dict[UOp, int]
    value: int | None

    def __str__(self) -> str:
        if self.value is None:
            return "it cannot be proved"
        point = ", ".join(f"{show(r)} = {i}" for r, i in self.at.items())
        return f"at {point} it is {self.value}" if point else f"it is {self.value}"


def show(u: UOp) -> str:
    """An index as text: ``r0 * 4 + 1``; ``x[...]`` is a loaded value."""
    texts: dict[UOp, Text] = {}
    for node in walk([u]):
        if node.op in _NAMES:
            texts[node] = Text(_NAMES[node.op](node))
        elif node.op is not Op.PARAM:
            texts[node] = operation(node, [texts.get(s, Text("")) for s in node.src])
    return texts[u].text


_NAMES: dict[Op, Callable[[UOp], str]] = {
    Op.LOAD: lambda u: "x[...]",
    Op.LOOP: lambda u: f"i{u.arg}",
    Op.ACCUMULATOR: lambda u: f"s{u.arg}",
    Op.LANES: lambda u: "lane",
}


def check_bounds(index: UOp, size: int, predicate: UOp | None = None) -> Violation | None:
    """None if an index is within [0, size) wherever the predicate holds, else where it is not."""
    low, high = bounds(index)
    if low >= 0 and high < size:  # nearly always: no need to enumerate
        return None
    nodes = list(walk([index] if predicate is None else [index, predicate]))
    ranges = [u for u in nodes if u.op is Op.RANGE]
    if any(u.op is Op.LOAD for u in nodes) or prod(r.arg.size for r in ranges) > MAX_POINTS:
        return _solve(index, size, predicate)
    (indices,) = values([index], ranges)
    outside = (indices < 0) | (indices >= size)
    if predicate is not None:
        outside = outside & values([predicate], ranges)[0]
    if not outside.any():
        return None
    point = np.unravel_index(int(np.argmax(outside)), indices.shape)
    at = {r: int(i) for r, i in zip(ranges, point, strict=True)}
    return Violation(at, int(indices[point]))


def _solve(index: UOp, size: int, predicate: UOp | None) -> Violation | None:
    """As `check_bounds`, by z3."""
    if not solver.installed():
        return Violation({}, None)
    low, high = const(0, index.dtype), const(size - 1, index.dtype)
    outside = (index < low) | (high < index)
    conditions = [outside] if predicate is None else [outside, predicate]
    answer = solver.solve(conditions, Facts(), [index])
    if answer.unsatisfiable:
        return None
    # A counterexample with loaded values may not exist in memory: it is no example to show.
    if answer.model is None or any(u.op is not Op.RANGE for u in answer.model):
        return Violation({}, None)
    return Violation(answer.model, answer.values[0])


def check_coverage(stores: Sequence[UOp], size: int) -> str | None:
    """None if stores write each of `size` elements exactly once, else a message."""
    if len(stores) == 1 and len(stores[0].src) == 3 and _is_mixed_radix(stores[0], size):
        return None
    if size > MAX_POINTS:
        return UNPROVED_COVERAGE
    counts = np.zeros(size, np.int64)
    for store in stores:
        index, predicates = store.src[1], list(store.src[3:])
        ranges = dependences(store)[store]
        is_loaded = any(u.op is Op.LOAD for u in walk([index, *predicates]))
        if is_loaded or prod(r.arg.size for r in ranges) > MAX_POINTS:
            return UNPROVED_COVERAGE
        indices, *masks = values([index, *predicates], ranges)
        counts += np.bincount(indices[masks[0]] if masks else indices.ravel(), minlength=size)
    for wrong, message in ((counts > 1, "written more than once"), (counts == 0, "never written")):
        if wrong.any():
            return f"element {int(np.argmax(wrong))}, counted flat, is {message}"
    return None


def _is_mixed_radix(store: UOp, size: int) -> bool:
    """Whether a store's index is a number in mixed radix: each value below `size` occurs once."""
    terms, constant = affine(store.src[1])
    if terms.keys() != set(dependences(store)[store]):
        return False
    step = 1
    for term, k in sorted(terms.items(), key=lambda pair: pair[1]):
        # Each digit must step by the number of values of all digits below it.
        if term.op is not Op.RANGE or k != step:
            return False
        step *= term.arg.size
    return constant == 0 and step == size
