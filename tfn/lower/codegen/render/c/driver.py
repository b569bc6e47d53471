"""The one function of a program in C: kernels in order, loops of them, branches, routines.

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
    flatten,
    routines,
)

CHOSEN = """
static inline int chosen(const char *index, int last) {
  const int i = *(const s32_m *)index;
  return i < 0 ? 0 : i > last ? last : i;
}
"""
"""A branch by its number, which is clamped."""


def driver_text(name: str, steps: Sequence[Step], inputs: int, together: bool = False) -> str:
    """``void NAME(char *const *buffers, char *arena)``, with the routines that it calls.

    `together` with other threads, each a ``Member *me``, which comes first.
    """
    names = {routine: f"routine{i}" for i, routine in enumerate(routines(steps))}
    numbers = {id(launch): i for i, launch in enumerate(flatten(steps))}

    def driver(inputs: int) -> Driver:
        return Driver(inputs, names, numbers if together else None)

    made = [driver(routine.inputs).define(names[routine], routine.steps) for routine in names]
    return "\n".join([*made, driver(inputs).define(name, steps)])


class Driver:
    """The body of a function as it grows: that of the program, or of a routine.

    Attributes:
        inputs: how many buffers come before those of the outputs.
        names: of the routines.
        numbers: of the launches, if threads share them.
    """

    def __init__(
        self, inputs: int, names: Mapping[Routine, str], numbers: Mapping[int, int] | None
    ) -> None:
        self.inputs, self.names, self.numbers, self.depth = inputs, names, numbers, 1
        self.lines: list[str] = []

    def define(self, name: str, steps: Sequence[Step]) -> str:
        """The whole function."""
        self.steps(steps)
        together = self.numbers is not None
        names = ["buffers", "arena", *(["me"] if together else [])]
        lines = "\n".join([*(f"  (void){x};" for x in names), *self.lines])
        takes = "Member *me, " if together else ""
        return f"static void {name}({takes}char *const *buffers, char *arena) {{\n{lines}\n}}\n"

    def meet(self) -> None:
        """Wait for all threads."""
        if self.numbers is not None:
            self.line("meet(me);")

    def line(self, text: str) -> None:
        """One line at the present depth."""
        self.lines.append("  " * self.depth + text)

    def steps(self, steps: Sequence[Step]) -> None:
        """Steps in order."""
        for step in steps:
            assert not isinstance(step, HostCall), "a program in C has no host"
            if step.barrier:
                self.meet()
            if isinstance(step, Launch):
                self.launch(step)
            elif isinstance(step, Call):
                name, arena = self.names[step.routine], self.place(step.arena)
                me = "" if self.numbers is None else "me, "
                self.line(f"{name}({me}{self.places(step.operands)}, {arena});")
                self.meet()
            elif isinstance(step, Loop):
                self.loop(step)
            else:
                self.branch(step)

    def launch(self, launch: Launch) -> None:
        """All tiles at once, or shared with the other threads."""
        name, tiles, operands = (
            launch.kernel.name,
            launch.kernel.tiles,
            self.places(launch.operands),
        )
        if self.numbers is None:
            self.line(f"{name}(0, {tiles}, {operands});")
        else:
            self.line(f"share(me, {self.numbers[id(launch)]}, {tiles}, {name}, {operands});")

    def places(self, operands: Sequence[Slot]) -> str:
        """The addresses of operands, as an array; there is always one element."""
        return f"(char *const[]){{{', '.join(map(self.place, operands)) or 'arena'}}}"

    def place(self, slot: Slot) -> str:
        """The address of an operand, in the present iteration of the loops that move it."""
        at = slot.offset
        if slot.space is Space.ARENA:
            start, at = "arena", at + slot.at
        else:
            start = f"buffers[{slot.at + (self.inputs if slot.space is Space.OUTPUT else 0)}]"
        terms = [start, *([str(at)] if at else [])]
        terms += [f"i{number} * {size}" for number, size in slot.steps]
        return " + ".join(terms)

    def loop(self, loop: Loop) -> None:
        """Head, test, body, and back."""
        n, counted = loop.number, loop.condition is None
        self.line(f"for (s64 i{n} = 0;{f' i{n} < {loop.trips}' if counted else ''}; ++i{n}) {{")
        self.depth += 1
        if loop.condition is not None:
            self.steps(loop.head)
            self.meet()
            self.line(f"if (!*({self.place(loop.condition)})) break;")
        self.steps(loop.body)
        self.meet()
        self.depth -= 1
        self.line("}")

    def branch(self, branch: Branch) -> None:
        """The way that the index names; beyond the ends, the first or last."""
        last = len(branch.ways) - 1
        self.line(f"switch (chosen({self.place(branch.index)}, {last})) {{")
        for i, way in enumerate(branch.ways):
            self.line(f"case {i}:" if i < last else "default:")
            self.depth += 1
            self.steps(way)
            self.line("break;")
            self.depth -= 1
        self.line("}")
        self.meet()
