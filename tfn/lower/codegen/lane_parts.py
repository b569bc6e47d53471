"""Vectors of several short blocks, of which each is loaded or computed by itself::

    x[18 * (r // 4) + r % 4], r = lanes 8    ->    x[0:4] beside x[18:22]
    d[r // 4]                                ->    d[0] in four lanes beside d[1] in four

The lanes of a part have the same quotient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tfn.lower.codegen.coordinates import Coordinates
from tfn.lower.loops.loop_nest import DIVISIONS
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const_value, walk

Terms = Sequence[tuple[UOp, int]]


class Emitter(Protocol):
    """The state of a kernel's emission, as `emitter.Emitter` has it."""

    at: Coordinates
    env: dict[UOp, UOp]

    def place(self, u: UOp) -> UOp:
        """An instruction in the loop it belongs to."""

    def place_load(self, load: UOp) -> UOp:
        """A load in the loop it belongs to, or among the stores to its buffer."""

    def emit(self, u: UOp) -> UOp:
        """The value of a node."""

    def value(self, u: UOp) -> UOp:
        """The value of a node that has been emitted."""

    def splat(self, u: UOp, lanes: int) -> UOp:
        """A scalar in every lane."""

    def affine(self, index: UOp) -> tuple[list[tuple[UOp, int]], int]:
        """An address as terms with coefficients, and a constant."""

    def base(self, scalars: list[tuple[UOp, int]]) -> UOp:
        """The sum of scalars times coefficients, those of outer loops first."""


def lanes_of(emitter: Emitter, term: UOp) -> UOp | None:
    """The range of whole vectors that a term is, or is a quotient or remainder of by a number."""
    r = term.src[0] if term.op in DIVISIONS and term.src[1].op is Op.CONST else term
    lanes = emitter.env[r] if r.op is Op.RANGE else r
    return r if lanes.op is Op.LANES and not lanes.src else None


def size(emitter: Emitter, terms: Terms) -> int:
    """The lanes of each part, where an address steps otherwise from one to the next; else 0."""
    divided = [u for u, _ in terms if u.op in DIVISIONS and lanes_of(emitter, u) is not None]
    sizes = {const_value(u.src[1]) for u in divided}
    return sizes.pop() if len(sizes) == 1 else 0


def load(emitter: Emitter, node: UOp, neighbours: int = 1) -> UOp | None:
    """A vector of which parts lie apart in memory, each loaded as it lies.

    None for another address, or if elements of a part are no neighbours.

    Args:
        emitter: of the kernel.
        node: the load.
        neighbours: elements for each lane.
    """
    terms, offset = emitter.affine(node.src[1])
    part = size(emitter, terms)
    steps = {Op.FLOORDIV: 0, Op.MOD: 0, Op.RANGE: 0}
    scalars: list[tuple[UOp, int]] = []
    lanes = 0
    for term, k in terms if part else ():
        r = lanes_of(emitter, term)
        if r is not None:
            steps[term.op], lanes = steps[term.op] + k, emitter.env[r].arg
            continue
        value = emitter.env[term] if term.op is Op.RANGE else emitter.value(term)
        if value.shape:
            return None
        if value.op is Op.CONST:
            offset += k * const_value(value)
        else:
            scalars.append((value, k))
    stride = steps[Op.MOD] + steps[Op.RANGE]
    if not part or stride not in (0, neighbours) or lanes % part:
        return None
    src = (node.src[0], emitter.base(scalars))
    apart = steps[Op.FLOORDIV] + part * steps[Op.RANGE]
    width, loaded = neighbours * (part if stride else 1), list[UOp]()
    for i in range(lanes // part):
        access = Access(offset + i * apart, width, int(width > 1))
        one = emitter.place_load(UOp(Op.LOAD, src, access))
        if not stride and width > 1:
            one = emitter.place(UOp(Op.SHUFFLE, (one, one), (*range(width),) * part))
        loaded.append(one if stride else emitter.splat(one, part))
    return joined(emitter, loaded)


def value(emitter: Emitter, node: UOp) -> UOp | None:
    """A value that all lanes of a part share, computed once for each; None for another."""
    r = next((r for r in emitter.at.depends[node] if lanes_of(emitter, r) is not None), None)
    if r is None or r not in emitter.at.divided:
        return None
    quotients = {u for u in walk([node]) if u.op in DIVISIONS and u.src[0] is r}
    kinds = {(u.op, u.src[1]) for u in quotients}
    if [op for op, _ in kinds] != [Op.FLOORDIV] or r in walk([node], lambda u: u not in quotients):
        return None
    part, values = const_value(kinds.pop()[1]), list[UOp]()
    for start in range(0, emitter.env[r].arg, part):
        with emitter.at.restoring([r]), emitter.at.constant(r, start):
            values.append(emitter.splat(emitter.emit(node), part))
    return joined(emitter, values)


def joined(emitter: Emitter, parts: list[UOp]) -> UOp:
    """Vectors side by side in one."""
    while len(parts) > 1:
        order = (*range(2 * parts[0].shape[0]),)
        pairs = zip(parts[::2], parts[1::2])
        parts = [emitter.place(UOp(Op.SHUFFLE, pair, order)) for pair in pairs]
    return parts[0]
