"""That a kernel written by hand reads and writes what is there, and writes each element once.

    i in [0, 99]:  x[i + 1], x: f32[100]    is outside at i = 99

What intervals cannot decide is tried at every point, where there are not too many; what depends on
loaded values, or has too many points, is left to z3, where that is installed.
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

MOST_POINTS = 1 << 22
"""So many points are tried; more take too much time and memory."""
UNPROVED = "it cannot be proved that each element is written once"


@frozen
class Outside:
    """An index that leaves its axis, or that nobody can prove to stay within.

    Attributes:
        at: where the ranges stand, if that is known.
        value: the index there.
    """

    at: dict[UOp, int]
    value: int | None

    def __str__(self) -> str:
        if self.value is None:
            return "it cannot be proved"
        places = ", ".join(f"{show(r)} = {i}" for r, i in self.at.items())
        return f"at {places} it is {self.value}" if places else f"it is {self.value}"


def show(u: UOp) -> str:
    """An index as a person would write it: ``r0 * 4 + 1``; ``x[...]`` stands for a loaded value."""
    texts: dict[UOp, Text] = {}
    for node in walk([u]):
        if node.op in _WORDS:
            texts[node] = Text(_WORDS[node.op](node))
        elif node.op is not Op.PARAM:
            texts[node] = operation(node, [texts.get(s, Text("")) for s in node.src])
    return texts[u].text


_WORDS: dict[Op, Callable[[UOp], str]] = {
    Op.LOAD: lambda u: "x[...]",
    Op.LOOP: lambda u: f"i{u.arg}",
    Op.ACCUMULATOR: lambda u: f"s{u.arg}",
    Op.LANES: lambda u: "lane",
}


def within(index: UOp, size: int, gate: UOp | None = None) -> Outside | None:
    """None if an index is in an axis of this size wherever the gate holds, else where it is not."""
    low, high = bounds(index)
    if low >= 0 and high < size:
        return None
    nodes = list(walk([index] if gate is None else [index, gate]))
    ranges = [u for u in nodes if u.op is Op.RANGE]
    if any(u.op is Op.LOAD for u in nodes) or prod(r.arg.size for r in ranges) > MOST_POINTS:
        return _solved(index, size, gate)
    (found,) = values([index], ranges)
    wrong = (found < 0) | (found >= size)
    if gate is not None:
        wrong = wrong & values([gate], ranges)[0]
    if not wrong.any():
        return None
    place = np.unravel_index(int(np.argmax(wrong)), found.shape)
    at = {r: int(i) for r, i in zip(ranges, place, strict=True)}
    return Outside(at, int(found[place]))


def once(stores: Sequence[UOp], size: int) -> str | None:
    """None if stores write each of `size` elements exactly once, else what is wrong."""
    if len(stores) == 1 and len(stores[0].src) == 3 and _tiles(stores[0], size):
        return None
    if size > MOST_POINTS:
        return UNPROVED
    counts = np.zeros(size, np.int64)
    for store in stores:
        index, gates = store.src[1], list(store.src[3:])
        ranges = dependences(store)[store]
        loaded = any(u.op is Op.LOAD for u in walk([index, *gates]))
        if loaded or prod(r.arg.size for r in ranges) > MOST_POINTS:
            return UNPROVED
        found, *masks = values([index, *gates], ranges)
        counts += np.bincount(found[masks[0]] if masks else found.ravel(), minlength=size)
    for count, what in ((counts > 1, "more than once"), (counts == 0, "by nobody")):
        if count.any():
            return f"element {int(np.argmax(count))}, counted flat, is written {what}"
    return None


def _tiles(store: UOp, size: int) -> bool:
    """Whether its index counts like a number in mixed radix: each value from 0 to size - 1 once."""
    terms, constant = affine(store.src[1])
    if terms.keys() != set(dependences(store)[store]):
        return False
    step = 1
    for term, k in sorted(terms.items(), key=lambda pair: pair[1]):
        if term.op is not Op.RANGE or k != step:
            return False
        step *= term.arg.size
    return constant == 0 and step == size


# What is left to a solver.


def _solved(index: UOp, size: int, gate: UOp | None) -> Outside | None:
    if not solver.installed():
        return Outside({}, None)
    low, high = const(0, index.dtype), const(size - 1, index.dtype)
    wrong = (index < low) | (high < index)
    found = solver.holds([wrong] if gate is None else [wrong, gate], Facts(), [index])
    if found.never:
        return None
    if found.at is None or any(u.op is not Op.RANGE for u in found.at):
        return Outside({}, None)
    return Outside(found.at, found.values[0])
