"""Whole loops: a loop of one thread and its kernels as one function of LLVM IR.

A loop over scalars and a few elements of arrays has kernels of some instructions each.  Called one
by one, with every scalar in memory, they take longer than their work.  So the driver has a function
for each such loop, with the text of the kernels, and LLVM makes one loop of it:

    arrays     parameters that do not alias
    scalars    on the stack, from which LLVM takes them into registers
    kernels    functions that LLVM always inlines; large ones stay calls
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfn._support.frozen import frozen
from tfn.lower.codegen.render.likely_indices import compared_first
from tfn.lower.program import (
    INLINE,
    SMALL_BYTES,
    Branch,
    Kernel,
    Launch,
    Loop,
    Slot,
    Space,
    Step,
    all_launches,
    is_serial,
    launch_count,
    leaf_steps,
)
from tfn.trace.op import Op
from tfn.trace.uop import walk

MAX_KERNEL_TEXT = 6_000
"""Characters of a kernel up to which it is a part of the loop: larger ones have vectors, and work
enough that a call does not count."""

MIN_LAUNCHES = 100
"""Launches of a loop from which it is worth LLVM's passes, if an unknown number of steps is 100."""

MAX_PASSED = 16
"""Operands of launches before a loop that others, before these, may be moved past."""

MAX_TEXT = 60_000
"""Characters of all kernels of a loop: LLVM takes about a millisecond for 2,000."""


@frozen
class Memory:
    """The memory of a value of a loop, or of several that share some.

    Attributes:
        size_bytes: of an array in the arena, or of an output; 0 for an input.
        is_inner: whether it is that of a value that only the loop needs.
        is_shared: whether its values begin at several places or have several sizes.
    """

    space: Space
    at: int
    size_bytes: int
    is_inner: bool = False
    is_shared: bool = False

    @property
    def is_small(self) -> bool:
        """Whether it is a value that registers or the stack may hold."""
        return 0 < self.size_bytes <= SMALL_BYTES and not self.is_shared

    def holds(self, slot: Slot) -> bool:
        """Whether an operand is in it."""
        if self.space is not slot.space or self.space is not Space.ARENA:
            return (self.space, self.at) == (slot.space, slot.at)
        return self.at <= slot.at < self.at + max(self.size_bytes, 1)


class Wholes(NamedTuple):
    """The functions of whole loops of a driver, and the kernels that are parts of them, by name."""

    texts: list[str]
    kernels: dict[str, Kernel]


@frozen
class Plan:
    """The function of a whole loop, without the steps.

    Attributes:
        name: of the function.
        head: its type.
        places: where each of its memories is.
        pointers: its first arguments.
        counters: the iterations of the loops around it, by number, which are its last arguments.
        begin, end: instructions before and after the steps.
    """

    name: str
    head: str
    places: dict[Memory, str]
    pointers: tuple[Slot, ...]
    counters: dict[int, str]
    begin: tuple[str, ...]
    end: tuple[str, ...]


def plan(name: str, steps: Sequence[Step], outer: Iterable[int]) -> Plan:
    """The function that runs some steps, within loops of some numbers.

    Values that only the loop needs are on the stack; small ones that come in or go out are copied
    there and back.
    """
    places: dict[Memory, str] = {}
    counters = {number: f"%i{number}" for number in outer}
    pointers, begin, end, parameters = list[Slot](), list[str](), list[str](), list[str]()
    # A kernel may write an output over an input that it reads at the same index.
    alone = " noalias" if isinstance(steps[-1], Loop) else ""
    for i, part in enumerate(memories(steps)):
        places[part] = f"%m{i}"
        if part.is_small:
            places[part] = f"%s{i}"
            begin.append(f"  %s{i} = alloca [{part.size_bytes} x i8], align 8")
            if part.is_inner and not counters:  # another loop around may need it in its next step
                continue
            begin += copy(f"m{i}", f"s{i}", part.size_bytes)
            end += copy(f"s{i}", f"m{i}", part.size_bytes)
        parameters.append(f"ptr{alone} %m{i}")
        pointers.append(Slot(part.space, part.at))
    parameters += [f"i64 {counter}" for counter in counters.values()]
    head = f"internal void {name}({', '.join(parameters)}) noinline"
    return Plan(name, head, places, tuple(pointers), counters, tuple(begin), tuple(end))


def parted(steps: Sequence[Step], single_threaded: bool) -> Iterator[tuple[Sequence[Step], bool]]:
    """Steps that are one function, the last of which is a loop, and all others by themselves.

    With each comes whether it is a function.  Launches before a loop tell LLVM the first values of
    its carries, so they are a part of it, where nothing between needs them or a barrier.
    """
    runs: list[tuple[Sequence[Step], bool]] = []
    for step in steps:
        if not is_whole(step, single_threaded):
            runs.append(([step], False))
            continue
        run, passed, taken = [step], list[Slot](), dict.fromkeys(map(_memory, _slots([step])))
        for i in reversed(range(len(runs))):
            before = runs[i][0][0]
            if not isinstance(before, Launch) or runs[i][1] or len(passed) > MAX_PASSED:
                break
            # The barrier of a launch is needed by those after it, too.
            apart = (before.barrier and passed) or _overlap(before.operands, passed)
            if apart or not _joins(before, taken):
                passed += before.operands
                continue
            run.insert(0, before)
            del runs[i]
        runs.append((run, True))
    yield from runs


def _joins(launch: Launch, taken: Iterable[Memory]) -> bool:
    """Whether a launch before a loop, which takes some memory, may be a part of its function.

    An input that it reads may be in the memory of an output that the loop writes.
    """
    kernel, spaces = launch.kernel, {slot.space for slot in launch.operands}
    if not is_inlined(kernel) or kernel.tiles > 1 or Space.INPUT in spaces:
        return False
    parts = {_memory(slot): slot for slot in launch.operands}
    others = ((part, slot, m) for part, slot in parts.items() for m in taken if m != part)
    return not any(m.holds(slot) or part.holds(Slot(m.space, m.at)) for part, slot, m in others)


def _overlap(some: Sequence[Slot], others: Sequence[Slot]) -> bool:
    return any(_memory(a).holds(b) or _memory(b).holds(a) for a in some for b in others)


def is_whole(step: Step, single_threaded: bool) -> bool:
    """Whether a step is a loop that becomes one function with its kernels."""
    if not (single_threaded or is_serial(step)):
        return False
    if isinstance(step, Launch):
        return is_inlined(step.kernel) and _is_loop(step.kernel)
    if not isinstance(step, Loop) or not all(isinstance(s, Launch) for s in leaf_steps([step])):
        return False
    if launch_count([step]) < MIN_LAUNCHES:
        return False
    kernels = {launch.kernel.name: launch.kernel for launch in all_launches([step])}
    lengths = [len(kernel.text) for kernel in kernels.values() if is_inlined(kernel)]
    return 0 < sum(lengths) <= MAX_TEXT


def _is_loop(kernel: Kernel) -> bool:
    """Whether a kernel is a loop with carries of one element."""
    body = kernel.source or kernel.body
    carries = [u for u in walk([body]) if u.op is Op.CARRY] if body is not None else []
    return bool(carries) and all(len(u.src) == 1 for u in carries)


def is_inlined(kernel: Kernel) -> bool:
    """Whether a kernel becomes a part of the loops that launch it."""
    plain = kernel.text.startswith("define ") and kernel.text.count("\ndefine ") == 0
    return plain and len(kernel.text) <= MAX_KERNEL_TEXT


def _memory(slot: Slot) -> Memory:
    return Memory(slot.space, slot.at, slot.size_bytes, slot.is_inner)


def memories(steps: Iterable[Step]) -> list[Memory]:
    """The memory of all operands of steps, in parts that do not overlap."""
    parts = dict.fromkeys(map(_memory, _slots(steps)))
    found: list[Memory] = []
    for part in sorted(parts, key=lambda m: (m.space.value, m.at, m.size_bytes)):
        last = found[-1] if found else None
        if last is None or not last.holds(Slot(part.space, part.at)):
            found.append(part)
            continue
        size = max(last.at + last.size_bytes, part.at + part.size_bytes) - last.at
        size = size if part.space is Space.ARENA else max(last.size_bytes, part.size_bytes)
        found[-1] = Memory(part.space, last.at, size, False, is_shared=True)
    return found


def inlined_text(kernel: Kernel) -> str:
    """The text of a kernel as a function that is always inlined, under a name of its own."""
    text = kernel.text.replace(
        f"define void @{kernel.name}(", f"define internal void {name(kernel)}("
    )
    text = _HIDDEN.sub(r"getelementptr i8, ptr \1, i64 0", text)
    text = compared_first(text)
    text = text.replace("declare ptr @llvm.strip.invariant.group.p0(ptr)\n", "")
    return re.sub(r"\) (#\d+ )?\{", rf"){INLINE}\1{{", text, count=1)


_HIDDEN = re.compile(r"call ptr @llvm\.strip\.invariant\.group\.p0\(ptr ([^)]*)\)")
"""Addresses that a kernel hides from LLVM, where it would compute them again for each vector."""


def declared_once(text: str) -> str:
    """A text without the declarations, and groups of attributes, that it has before."""
    seen: set[str] = set()
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith(("declare ", "attributes ")) or line not in seen:
            lines.append(line)
            seen.add(line)
    return "\n".join(lines) + "\n"


def copy(source: str, target: str, size_bytes: int) -> list[str]:
    """Instructions that copy a small value."""
    lines, at = list[str](), 0
    while at < size_bytes:
        step = next(n for n in (8, 4, 2, 1) if at + n <= size_bytes)
        kind, tag = f"i{8 * step}", f"{source}.{target}.{at}"
        lines += [
            f"  %from.{tag} = getelementptr i8, ptr %{source}, i64 {at}",
            f"  %to.{tag} = getelementptr i8, ptr %{target}, i64 {at}",
            f"  %{tag} = load {kind}, ptr %from.{tag}, align 1",
            f"  store {kind} %{tag}, ptr %to.{tag}, align 1",
        ]
        at += step
    return lines


def name(kernel: Kernel) -> str:
    """The name of a kernel as a part of loops."""
    return f"@within.{kernel.name}"


def _slots(steps: Iterable[Step]) -> Iterable[Slot]:
    for step in steps:
        if isinstance(step, Launch):
            yield from step.operands
        elif isinstance(step, Loop):
            yield from _slots((*step.head, *step.body))
            yield from () if step.condition is None else (step.condition,)
        elif isinstance(step, Branch):
            yield step.index
            for way in step.branches:
                yield from _slots(way)
