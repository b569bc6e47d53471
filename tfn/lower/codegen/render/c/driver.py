"""C driver: the one function of a program: kernels in order, loops of them, branches, routines.

static void NAME(char *const *buffers, char *arena)        buffers: inputs, then outputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfn.lower.program import (
    Branch,
    Call,
    HostCall,
    Launch,
    Loop,
    Routine,
    Slot,
    Space,
    Step,
    all_launches,
    is_serial,
    routines,
)

CLAMPED_INDEX = """
static inline int chosen(const char *index, int last) {
  const int i = *(const s32_m *)index;
  return i < 0 ? 0 : i > last ? last : i;
}
"""
"""The index of a branch, clamped."""


def driver_text(name: str, steps: Sequence[Step], inputs: int, threaded: bool = False) -> str:
    """``void NAME(char *const *buffers, char *arena)``, with the routines that it calls.

    If it is `threaded`, each thread passes a ``Member *me`` first.
    """
    names = {routine: f"routine{i}" for i, routine in enumerate(routines(steps))}
    numbers = {id(launch): i for i, launch in enumerate(all_launches(steps))}

    def driver(inputs: int) -> CDriver:
        return CDriver(inputs, names, numbers if threaded else None)

    functions = [driver(routine.inputs).define(names[routine], routine.steps) for routine in names]
    return "\n".join([*functions, driver(inputs).define(name, steps)])


class CDriver:
    """The body of a function as it grows: that of the program, or of a routine.

    Attributes:
        inputs: the number of buffers before those of the outputs.
        names: of the routines.
        numbers: of the launches by id, if threads share them; None for one thread.
        in_section: whether only the calling thread runs the present line.
    """

    def __init__(
        self, inputs: int, names: Mapping[Routine, str], numbers: Mapping[int, int] | None
    ) -> None:
        self.inputs, self.names, self.numbers, self.depth = inputs, names, numbers, 1
        self.in_section = False
        self.lines: list[str] = []

    def define(self, name: str, steps: Sequence[Step]) -> str:
        """The whole function."""
        self.steps(steps)
        threaded = self.numbers is not None
        names = ["buffers", "arena", *(["me"] if threaded else [])]
        lines = "\n".join([*(f"  (void){x};" for x in names), *self.lines])
        parameter = "Member *me, " if threaded else ""
        return f"static void {name}({parameter}char *const *buffers, char *arena) {{\n{lines}\n}}\n"

    def barrier(self) -> None:
        """Wait for all threads; a serial step has none to wait for."""
        if self.numbers is not None and not self.in_section:
            self.line("meet(me);")

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("  " * self.depth + text)

    def steps(self, steps: Sequence[Step]) -> None:
        """Add steps in order; serial ones that follow each other are a section of one thread."""
        within = self.in_section
        for step in steps:
            assert not isinstance(step, HostCall), "a program in C has no host"
            serial = within or (is_serial(step) and self.numbers is not None)
            if step.barrier or not serial:
                self.end_section(within)
            if step.barrier:
                self.barrier()
            if serial:
                self.begin_section()
            if isinstance(step, Launch):
                self.launch(step)
            elif isinstance(step, Call):
                name, arena = self.names[step.routine], self.pointer(step.arena)
                me = "" if self.numbers is None else "me, "
                self.line(f"{name}({me}{self.pointers(step.operands)}, {arena});")
                self.barrier()
            elif isinstance(step, Loop):
                self.loop(step)
            else:
                self.branch(step)
        self.end_section(within)

    def begin_section(self) -> None:
        """Only the calling thread runs what follows."""
        if not self.in_section:
            self.line("if (me->calls) {")
            self.depth, self.in_section = self.depth + 1, True

    def end_section(self, within: bool) -> None:
        """All threads run what follows, unless the steps are within a section."""
        if self.in_section and not within:
            self.depth, self.in_section = self.depth - 1, False
            self.line("}")

    def launch(self, launch: Launch) -> None:
        """All tiles at once, or shared with the other threads; a copy to itself is none."""
        name, tiles = launch.kernel.name, launch.kernel.tiles
        operands = self.pointers(launch.operands)
        spaces = [slot.space for slot in launch.operands]
        test = ""
        if spaces == [Space.OUTPUT, Space.INPUT] and launch.kernel.is_copy:
            to, source = map(self.pointer, launch.operands)
            test = f"if ({to} != {source}) "
        if self.numbers is None or self.in_section:
            # A block with a name: else the addresses of all launches have their own stack.
            own = operands.partition(")")[2]
            self.line(f"{test}{{ char *const own[] = {own}; {name}(0, {tiles}, own); }}")
        else:
            self.line(f"{test}share(me, {self.numbers[id(launch)]}, {tiles}, {name}, {operands});")

    def pointers(self, operands: Sequence[Slot]) -> str:
        """The addresses of operands, as an array; there is always one element."""
        return f"(char *const[]){{{', '.join(map(self.pointer, operands)) or 'arena'}}}"

    def pointer(self, slot: Slot) -> str:
        """The address of an operand, in the present iteration of the loops that move it."""
        at = slot.offset
        if slot.space is Space.ARENA:
            start, at = "arena", at + slot.at
        else:
            start = f"buffers[{slot.at + (self.inputs if slot.space is Space.OUTPUT else 0)}]"
        terms = [start, *([str(at)] if at else [])]
        terms += [f"i{number} * {size}" for number, size in slot.strides]
        return " + ".join(terms)

    def loop(self, loop: Loop) -> None:
        """Head, test, body, and back."""
        n, counted = loop.number, loop.condition is None
        self.line(f"for (s64 i{n} = 0;{f' i{n} < {loop.trips}' if counted else ''}; ++i{n}) {{")
        self.depth += 1
        if loop.condition is not None:
            self.steps(loop.head)
            self.barrier()
            self.line(f"if (!*({self.pointer(loop.condition)})) break;")
        self.steps(loop.body)
        if loop.condition is None:
            self.barrier()
        self.depth -= 1
        self.line("}")

    def branch(self, branch: Branch) -> None:
        """The way of the index, which is clamped."""
        last = len(branch.branches) - 1
        self.line(f"switch (chosen({self.pointer(branch.index)}, {last})) {{")
        for i, way in enumerate(branch.branches):
            self.line(f"case {i}:" if i < last else "default:")
            self.depth += 1
            self.steps(way)
            self.line("break;")
            self.depth -= 1
        self.line("}")
        self.barrier()
