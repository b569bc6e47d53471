"""What may be written over what was read: next carries over old ones, results over donated inputs.

new[i] = f(old[i])         in place: each element is read by those who write it, before they do
new[i] = f(old[n - i])     not in place: an element may have been written before it is read
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from math import inf, prod

from tfn.dtypes import DType
from tfn.lower.program import Branch, Launch, Loop, Program, Slot, Space, Step
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, walk


def elementwise(body: UOp, written: int, read: Collection[int]) -> bool:
    """Whether a kernel may write one of its operands over others, which are the same memory.

    It may if every element is read where it is written, and not after that: the stores of an
    iteration follow each other, and a value is loaded when the first of them needs it.
    """
    stores = body.src if body.op is Op.SINK else ()
    if not all(s.op is Op.STORE and s.arg is None for s in stores):
        return False
    mine = [i for i, s in enumerate(stores) if s.src[0].arg.index == written]
    if len(mine) != 1:
        return False
    where, now = stores[mine[0]].src[1], mine[0]
    reads = (one for i in read for one in _reads(body).get(i, ()))
    return all(at is where and first <= now for at, first in reads)


@lru_cache(maxsize=64)
def _reads(body: UOp) -> dict[int, list[tuple[UOp, float]]]:
    """Of each operand of a kernel the loads: where, and for which store first (in a fold: inf)."""
    folded = set(walk([f.src[0] for f in walk([body]) if f.op is Op.FOLD]))
    found: dict[int, list[tuple[UOp, float]]] = {}
    seen: set[UOp] = set()
    for i, store in enumerate(body.src):
        for u in walk([store], lambda u: u not in seen):
            if u.op is Op.LOAD and u not in seen:
                first = inf if u in folded else i
                found.setdefault(u.src[0].arg.index, []).append((u.src[1], first))
            seen.add(u)
    return found


def overwrites(program: Program, donated: Collection[int]) -> dict[int, int]:
    """For outputs that may be written over a donated input, which one: each is used once.

    An input will do if its memory is as large, and nobody reads it once the output is being
    written.  Of several the first of the output's own shape and dtype is taken: a new state is
    written over the old one, part by part.
    """
    shared = dict(program.aliases)
    kept = {slot.at for slot in shared.values() if slot.space is Space.INPUT}
    free = [i for i in donated if i not in kept]
    found: dict[int, int] = {}
    if not free:
        return found
    history = _History(program.steps)
    by_size: dict[int, list[int]] = {}
    for i in free:
        by_size.setdefault(size_bytes(program.inputs[i]), []).append(i)
    for output, kind in enumerate(program.outputs):
        if output in shared:
            continue
        alike = by_size.get(size_bytes(kind), [])
        ordered = sorted(alike, key=lambda i: program.inputs[i] != kind)
        at = next((i for i in ordered if history.follows(output, i)), None)
        if at is not None:
            found[output] = at
            alike.remove(at)
    return found


def size_bytes(kind: tuple[Shape, DType]) -> int:
    """The memory of an array."""
    shape, dtype = kind
    return prod(shape) * dtype.itemsize


class _History:
    """Which step of a program first writes an output, and which read an input."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.first: dict[int, int] = {}
        self.reads: dict[int, list[int]] = {}
        self.met: list[int] = []  # for each step, how often all threads have met before it
        meetings = 0
        for at, step in enumerate(steps):
            meetings += step.barrier
            self.met.append(meetings)
            meetings += not isinstance(step, Launch)  # they meet after all others
            for slot in _touched([step]):
                if slot.space is Space.OUTPUT:
                    self.first.setdefault(slot.at, at)
                elif slot.space is Space.INPUT:
                    self.reads.setdefault(slot.at, []).append(at)

    def follows(self, output: int, given: int) -> bool:
        """Whether the output is only written when the input has been read, by all threads."""
        write = self.first.get(output)
        if write is None:  # it has no elements, or there is no code
            return False
        reads = self.reads.get(given, [])
        before = all(self.met[read] < self.met[write] for read in reads if read != write)
        return before and (write not in reads or self._in_place(self.steps[write], output, given))

    def _in_place(self, step: Step, output: int, given: int) -> bool:
        if not isinstance(step, Launch):
            return False
        to, of = Slot(Space.OUTPUT, output), Slot(Space.INPUT, given)
        written = [i for i, slot in enumerate(step.operands) if slot == to]
        read = [i for i, slot in enumerate(step.operands) if slot == of]
        return len(written) == 1 and elementwise(step.kernel.body, written[0], read)


def _touched(steps: Sequence[Step]) -> Iterator[Slot]:
    """The memory that steps read or write, as the function calls it that they are steps of."""
    for step in steps:
        if isinstance(step, Loop):
            yield from _touched((*step.head, *step.body))
            if step.condition is not None:
                yield step.condition
        elif isinstance(step, Branch):
            yield step.index
            for way in step.ways:
                yield from _touched(way)
        else:
            yield from step.operands
