"""Program rows: a scheduled program as plain data, to be kept on disk, and back.

They have the steps, the texts, and what a run needs to know of each kernel; not the bodies, which
`pipeline.with_bodies` makes again for reports.  Slots are rows of their fields, and steps::

    ["launch", kernel, slots, barrier, serial]
    ["call", routine, slots, arena, barrier]
    ["loop", number, trips, head, condition, body, barrier]
    ["branch", index, branches, barrier]

Programs that call the host have none: its functions have no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tfn.dtypes import SHORT, DType
from tfn.lower.loops import opt_ops
from tfn.lower.memory.in_place import accesses_of
from tfn.lower.program import (
    Accesses,
    Branch,
    Call,
    HostCall,
    Kernel,
    Launch,
    Loop,
    Program,
    Routine,
    Slot,
    Space,
    Step,
    kernel_times_ns,
    routines,
)
from tfn.trace.digest import digest
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Shape
from tfn.trace.uop import UOp

_SPACES = list(Space)
_DTYPES = {short: dtype for dtype, short in SHORT.items()}


def to_rows(program: Program) -> dict[str, Any]:
    """A program that was lowered in this process, as values that JSON can express."""
    return _Writer(program).row()


def from_rows(row: dict[str, Any], jaxpr: Jaxpr, tables: UOp | None) -> Program:
    """The program of a function, and of its tables, from rows that have been in JSON.

    Raises:
        SplitError: for opt-ops of another version.
        ValueError, TypeError, LookupError: for rows that `to_rows` has not written, or of a program
            with other tables, from whose memory its kernels would read.
    """
    if row["tables"] != (None if tables is None else digest(tables)):
        raise ValueError("the rows are of a program with other tables")
    inputs = [(p.shape, p.dtype) for p in jaxpr.params]
    inputs += [(u.shape, u.dtype) for u in (tables.src if tables else ())]
    return _Reader(row).program(jaxpr, inputs, tables)


class _Writer:
    """A program as rows: kernels and routines are named by their numbers."""

    def __init__(self, program: Program) -> None:
        self.given = program
        self.kernels = {kernel.name: i for i, kernel in enumerate(program.kernels)}
        self.routines = {routine: i for i, routine in enumerate(routines(program.steps))}

    def row(self) -> dict[str, Any]:
        """The whole program."""
        p = self.given
        return {
            "name": p.name,
            "text": p.text,
            "work_ns": p.work_ns,
            "arena_bytes": p.arena_bytes,
            "sync_bytes": p.sync_bytes,
            "parallel": p.parallel,
            "tables": None if p.tables is None else digest(p.tables),
            "aliases": [(i, self.slot(slot)) for i, slot in p.aliases],
            "prelude": None if p.prelude is None else to_rows(p.prelude),
            "outputs": [(shape, SHORT[dtype]) for shape, dtype in p.outputs],
            "kernels": [*map(self.kernel, p.kernels)],
            "routines": [
                (self.steps(r.steps), r.inputs, r.arena_bytes, r.work_ns) for r in self.routines
            ],
            "steps": self.steps(p.steps),
        }

    def kernel(self, kernel: Kernel) -> list[Any]:
        """A kernel, with its accesses instead of its body."""
        assert kernel.body is not None
        accesses = accesses_of(kernel.body)
        opts = opt_ops.to_rows(kernel.opts)
        row = [kernel.name, opts, kernel.tiles, kernel.text, kernel.work_ns]
        return [*row, accesses.stores, accesses.loads]

    def slot(self, slot: Slot) -> tuple[Any, ...]:
        """The address of an operand."""
        number, size = _SPACES.index(slot.space), slot.size_bytes
        return number, slot.at, slot.offset, slot.strides, size, slot.is_inner

    def slots(self, slots: Iterable[Slot]) -> list[tuple[Any, ...]]:
        """The addresses of operands."""
        return [*map(self.slot, slots)]

    def steps(self, steps: Iterable[Step]) -> list[list[Any]]:
        """Steps in order."""
        return [*map(self.step, steps)]

    def step(self, step: Step) -> list[Any]:
        """One step, with those inside."""
        assert not isinstance(step, HostCall), "programs that call the host are not stored"
        if isinstance(step, Launch):
            number = self.kernels[step.kernel.name]
            return ["launch", number, self.slots(step.operands), step.barrier, step.serial]
        if isinstance(step, Call):
            number, operands = self.routines[step.routine], self.slots(step.operands)
            return ["call", number, operands, self.slot(step.arena), step.barrier]
        if isinstance(step, Branch):
            branches = [*map(self.steps, step.branches)]
            return ["branch", self.slot(step.index), branches, step.barrier]
        condition = None if step.condition is None else self.slot(step.condition)
        head, body = self.steps(step.head), self.steps(step.body)
        return ["loop", step.number, step.trips, head, condition, body, step.barrier]


class _Reader:
    """A program from its rows."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.read: dict[str, Callable[..., Step]] = {
            "launch": self.launch,
            "call": self.call,
            "branch": self.branch,
            "loop": self.loop,
        }
        self.kernels = [self.kernel(*kernel) for kernel in row["kernels"]]
        self.routines: list[Routine] = []
        for steps, inputs, arena_bytes, work_ns in row["routines"]:
            inner = self.steps(steps)
            times_ns = kernel_times_ns(inner)
            self.routines.append(Routine(inner, inputs, arena_bytes, work_ns, times_ns))

    def program(
        self, jaxpr: Jaxpr, inputs: Sequence[tuple[Shape, DType]], tables: UOp | None = None
    ) -> Program:
        """The whole program, on inputs to which those of its prelude are added."""
        row, prelude = self.row, None
        if row["prelude"] is not None:
            first = len(jaxpr.params) - jaxpr.captured
            prelude = _Reader(row["prelude"]).program(Jaxpr(jaxpr.function), inputs[first:])
        return Program(
            name=row["name"],
            function=jaxpr.function,
            steps=self.steps(row["steps"]),
            work_ns=row["work_ns"],
            inputs=(*inputs, *(prelude.outputs if prelude else ())),
            outputs=tuple((tuple(shape), _DTYPES[name]) for shape, name in row["outputs"]),
            aliases=tuple((i, self.slot(slot)) for i, slot in row["aliases"]),
            arena_bytes=row["arena_bytes"],
            sync_bytes=row["sync_bytes"],
            text=row["text"],
            parallel=row["parallel"],
            tables=tables,
            captured=jaxpr.captured,
            prelude=prelude,
        )

    def kernel(
        self,
        name: str,
        opts: Sequence[opt_ops.Row],
        tiles: int,
        text: str,
        work_ns: int,
        stores: Sequence[Sequence[int]] | None,
        loads: Sequence[Sequence[int]],
    ) -> Kernel:
        """A kernel without its body."""
        pairs = None if stores is None else tuple((operand, index) for operand, index in stores)
        triples = tuple((operand, index, first) for operand, index, first in loads)
        applied = opt_ops.from_rows(opts)
        return Kernel(name, None, applied, tiles, text, work_ns, accesses=Accesses(pairs, triples))

    def slot(self, row: Sequence[Any]) -> Slot:
        """The address of an operand."""
        space, at, offset, strides, *more = row
        moved = tuple((loop, stride) for loop, stride in strides)
        return Slot(_SPACES[space], at, offset, moved, *more)

    def slots(self, rows: Iterable[Sequence[Any]]) -> tuple[Slot, ...]:
        """The addresses of operands."""
        return tuple(map(self.slot, rows))

    def steps(self, rows: Iterable[Sequence[Any]]) -> tuple[Step, ...]:
        """Steps in order."""
        return tuple([self.read[row[0]](*row[1:]) for row in rows])

    def launch(self, kernel: int, operands: Any, barrier: bool, serial: bool) -> Launch:
        """A kernel run on operands."""
        return Launch(self.kernels[kernel], self.slots(operands), barrier, serial)

    def call(self, routine: int, operands: Any, arena: Any, barrier: bool) -> Call:
        """A routine run on operands."""
        return Call(self.routines[routine], self.slots(operands), self.slot(arena), barrier)

    def branch(self, index: Any, branches: Any, barrier: bool) -> Branch:
        """One of several lists of steps."""
        return Branch(self.slot(index), tuple(map(self.steps, branches)), barrier)

    def loop(
        self, number: int, trips: int | None, head: Any, condition: Any, body: Any, barrier: bool
    ) -> Loop:
        """Steps repeated."""
        at = None if condition is None else self.slot(condition)
        return Loop(number, trips, self.steps(head), at, self.steps(body), barrier)
