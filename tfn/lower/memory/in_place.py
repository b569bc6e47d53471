"""In-place results (donation, aliases): outputs over donated inputs, next carries over present.

new[i] = f(old[i])         in place: each element is read by its own writer, before it is written
new[i] = f(old[n - i])     not in place: an element may be written before it is read
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

from tfn.dtypes import DType
from tfn.lower.program import (
    Accesses,
    Branch,
    Footprint,
    Kernel,
    Launch,
    Loop,
    Program,
    Slot,
    Space,
    Step,
    is_serial,
)
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, walk


def is_in_place(accesses: Accesses, written: int, read: Collection[int]) -> bool:
    """Whether a kernel may write one of its operands over others that are the same memory.

    It may if every element is read at the index where it is written, and not after that: the
    stores of an iteration follow each other, and a value is loaded when the first store needs it.
    """
    stores = accesses.stores or ()
    positions = [i for i, (operand, _) in enumerate(stores) if operand == written]
    if len(positions) != 1:  # of several stores one may write what another still loads
        return False
    (position,) = positions
    index = stores[position][1]
    loads = ((at, first) for operand, at, first in accesses.loads if operand in read)
    return all(at == index and first <= position for at, first in loads)


@lru_cache(maxsize=64)
def accesses_of(body: UOp) -> Accesses:
    """The stores and loads of a kernel over ranges."""
    stores = body.src if body.op is Op.SINK else ()
    if not all(s.op is Op.STORE and s.arg is None for s in stores):
        return Accesses(None, ())
    # A result that holds kept values is written before the loops of the stores.
    keeps = any(u.op is Op.MEMO for u in walk([body]))
    in_folds = set(walk([f.src[0] for f in walk([body]) if f.op is Op.FOLD]))
    numbers: dict[UOp, int] = {}
    loads: list[tuple[int, int, int]] = []
    seen: set[UOp] = set()
    for i, store in enumerate(stores):
        for u in walk([store], lambda u: u not in seen):
            if u.op is Op.LOAD and u not in seen:
                # A fold loads elements of other iterations: no store may come before it.
                first = len(stores) if keeps or u in in_folds else i
                number = numbers.setdefault(u.src[1], len(numbers))
                loads.append((u.src[0].arg.index, number, first))
            seen.add(u)
    at = [(s.src[0].arg.index, numbers.setdefault(s.src[1], len(numbers))) for s in stores]
    return Accesses(tuple(at), tuple(loads))


def in_place_outputs(
    program: Program, donated: Collection[int], pairs: Mapping[int, int] | None = None
) -> dict[int, int]:
    """The outputs that may be written over a donated input, and which; each input is used once.

    An input will do if its memory is as large, and nothing reads it once the output is being
    written.  Of several the first of the output's own shape and dtype is taken: a new state is
    written over the old one, array by array; with `pairs`, over the one that they say or none.
    """
    aliases = dict(program.aliases)
    aliased_inputs = {slot.at for slot in aliases.values() if slot.space is Space.INPUT}
    free = [i for i in donated if i not in aliased_inputs]
    inputs: dict[int, int] = {}
    if not free:
        return inputs
    history = _AccessHistory(program.steps)
    by_size: dict[int, list[int]] = {}
    for i in free:
        by_size.setdefault(size_bytes(program.inputs[i]), []).append(i)
    for output, kind in enumerate(program.outputs):
        if output in aliases:
            continue
        candidates = by_size.get(size_bytes(kind), [])
        same_kind_first = sorted(candidates, key=lambda i: program.inputs[i] != kind)
        may = (i for i in same_kind_first if pairs is None or pairs.get(output) == i)
        choice = next((i for i in may if history.allows(output, i)), None)
        if choice is not None:
            inputs[output] = choice
            candidates.remove(choice)
    return inputs


def footprint(program: Program, donated: Collection[int]) -> Footprint:
    """The memory that a run takes, without that of outputs over donated inputs."""
    total = program.footprint
    shared = in_place_outputs(program, donated)
    shared_bytes = sum(size_bytes(program.outputs[i]) for i in shared)
    return total._replace(
        output_bytes=total.output_bytes - shared_bytes,
        alias_bytes=total.alias_bytes + shared_bytes,
    )


def size_bytes(kind: tuple[Shape, DType]) -> int:
    """The memory of an array."""
    shape, dtype = kind
    return prod(shape) * dtype.itemsize


class _AccessHistory:
    """The steps of a program that first write each output, and that read each input.

    Attributes:
        first_write: by output the position of a step.
        reads: by input the positions of steps.
        barriers: for each step the number of barriers before it.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.first_write: dict[int, int] = {}
        self.reads: dict[int, list[int]] = {}
        self.barriers: list[int] = []
        count = 0
        for position, step in enumerate(steps):
            count += step.barrier
            self.barriers.append(count)
            # A barrier follows all other steps that are not serial.
            count += not isinstance(step, Launch) and not is_serial(step)
            for slot in _slots([step]):
                if slot.space is Space.OUTPUT:
                    self.first_write.setdefault(slot.at, position)
                elif slot.space is Space.INPUT:
                    self.reads.setdefault(slot.at, []).append(position)

    def allows(self, output: int, donated: int) -> bool:
        """Whether all threads have read the input when the output is first written."""
        write = self.first_write.get(output)
        if write is None:  # it has no elements, or there is no code
            return False
        reads = self.reads.get(donated, [])
        # Steps in order are not enough: without a barrier a slow thread may still be reading,
        # unless one thread runs both steps.
        serial = is_serial(self.steps[write])
        before = all(
            self.barriers[i] < self.barriers[write]
            or (serial and i < write and is_serial(self.steps[i]))
            for i in reads
            if i != write
        )
        return before and (write not in reads or self._step(self.steps[write], output, donated))

    def _step(self, step: Step, output: int, donated: int) -> bool:
        """Whether one step may read the input and write the output in place."""
        if not isinstance(step, Launch):
            return False
        places = [(s.space, s.at, s.offset, s.strides) for s in step.operands]
        written = [i for i, place in enumerate(places) if place == (Space.OUTPUT, output, 0, ())]
        read = [i for i, place in enumerate(places) if place == (Space.INPUT, donated, 0, ())]
        return len(written) == 1 and is_in_place(_accesses(step.kernel), written[0], read)


def _accesses(kernel: Kernel) -> Accesses:
    """The accesses of a kernel of a program."""
    if kernel.body is not None:
        return accesses_of(kernel.body)
    assert kernel.accesses is not None, "a kernel of a program from the disk"
    return kernel.accesses


def _slots(steps: Sequence[Step]) -> Iterator[Slot]:
    """The operands of steps, those in loops and branches included; a call's are its caller's."""
    for step in steps:
        if isinstance(step, Loop):
            yield from _slots((*step.head, *step.body))
            if step.condition is not None:
                yield step.condition
        elif isinstance(step, Branch):
            yield step.index
            for way in step.branches:
                yield from _slots(way)
        else:
            yield from step.operands
