"""Memory tables: the steps of a program, and the plan of its arena, as text.

    launch  waits  kernel                  writes      reads
    0              0                       d:f32[4,8]  a:f32[4,8]
    1              copy                    e:f32[8]    b:f32[8]
            yes    scan 1, for i1 in 4     e in place
      2              1.0                   g:f32[8]    e:f32[8], f:f32[8]

    value       bytes  place             launches
    d:f32[4,8]  128    arena 0           0-2
    f:f32[8]    32     arena 0 + 32*i1   2

``waits``: a barrier comes before the step; one also ends each iteration of a loop, and a branch.
A carry is ``in place`` if its next value is written over it.  Values of the arena share bytes if no
launch uses both; the live range of a value that a loop uses lasts until its end.  A function that
is called has tables of its own, with its own inputs, outputs and arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfn.lower.fuse.ranges import Region
from tfn.lower.memory.planner import Allocation, PlannedStep, Schedule, ScheduledFunction, View
from tfn.lower.program import Branch, Call, HostCall, Launch, Loop, Program, Space, Step
from tfn.lower.report.print.graph import Graph
from tfn.lower.report.print.stages import titles
from tfn.trace.build import count
from tfn.trace.jaxpr import param
from tfn.trace.op import Op
from tfn.trace.regions import form
from tfn.trace.uop import UOp

MAX_NAMES = 4
"""Names in one cell of a table; more would not fit the line of a terminal."""

Row = tuple[str, str, str, str, str]


def memory(program: Program, schedule: Schedule, graph: Graph) -> str:
    """The tables of a program; `schedule` is the one it was made from."""
    return f"{_tables(schedule, graph)}; barriers and counters: {program.sync_bytes} bytes"


def _tables(schedule: Schedule, graph: Graph) -> str:
    tables = Tables(schedule, graph)
    tables.steps(schedule.routine.steps, schedule.scheduled, graph, 0)
    called = [f"{name}:\n\n{_tables(inner, names)}" for name, inner, names in tables.routines]
    unshared = sum(live.size_bytes for live in schedule.live_ranges.values())
    return "\n\n".join(
        [
            *called,
            table(("launch", "waits", "kernel", "writes", "reads"), tables.rows),
            table(("value", "bytes", "place", "launches"), tuple(tables.value_rows())),
            f"arena: {schedule.routine.arena_bytes} bytes ({unshared} if nothing were shared)",
        ]
    )


class Tables:
    """The state of one print.

    Attributes:
        rows: of the first table.
        values: by name the value and its view.
        users: the numbers of the launches that use an allocation.
        positions: of the launches, in which live ranges count.
        carries: the name of each carry of a loop, by its view.
        routines: functions that are called: name, schedule, names of their values.
    """

    def __init__(self, schedule: Schedule, graph: Graph) -> None:
        self.live_ranges, self.offsets = schedule.live_ranges, schedule.offsets
        self.rows: list[Row] = []
        self.values: dict[str, tuple[UOp, View]] = {}
        self.users: dict[Allocation, list[int]] = {}
        self.positions: list[int] = []
        self.routines: list[tuple[str, Schedule, Graph]] = []
        self.carries = dict(_carry_views(schedule.scheduled, graph))

    def steps(
        self, steps: Sequence[Step], scheduled: ScheduledFunction, graph: Graph, depth: int
    ) -> None:
        """Add the rows of a list of steps."""
        for step, planned in zip(steps, scheduled.steps, strict=True):
            if isinstance(step, (Launch, HostCall, Call)):
                self.launch(step, planned, scheduled, graph, depth)
            else:
                self.region(step, planned, scheduled, graph, depth)

    def row(
        self, depth: int, launch: str, waits: bool, kernel: str, writes: str = "", reads: str = ""
    ) -> None:
        """Add one row, indented by loops."""
        indent = "  " * depth
        self.rows.append(
            (f"{indent}{launch}", "yes" if waits else "", indent + kernel, writes, reads)
        )

    def add_value(self, graph: Graph, u: UOp, view: View) -> None:
        """Add a value to the second table."""
        self.values.setdefault(graph.typed(u), (u, view))

    def launch(
        self,
        step: Launch | HostCall | Call,
        planned: PlannedStep,
        scheduled: ScheduledFunction,
        graph: Graph,
        depth: int,
    ) -> None:
        """Add a kernel; or a copy of a carry or a branch's result; or a fill with a constant."""
        number = len(self.positions)
        self.positions.append(planned.position)
        for view in planned.operands:
            self.users.setdefault(view.allocation, []).append(number)
        origin, written = planned.origin, planned.written
        if origin is None:  # inserted by the scheduler: no equation belongs to it
            target, *sources = planned.operands
            name = self.carries.get(target) or self.name_of(target, scheduled, graph)
            names = [name, *(self.name_of(source, scheduled, graph) for source in sources)]
            kernel = "copy" if sources else "fill"
        else:
            operands, kernel = origin.operands, graph.number(origin.operands[0].arg)
            if isinstance(origin, Region):
                kernel, written = f"{origin.node.op.value} {kernel}", len(origin.barriers)
                for inner in graph.inner[origin.node] if planned.callee else ():
                    assert planned.callee is not None
                    self.routines.append((origin.node.arg.name, planned.callee, inner))
            for u in operands:
                self.add_value(graph, u, scheduled.views[u])
            names = [graph.typed(u) for u in operands]
        self.row(
            depth, str(number), step.barrier, kernel, few(names[:written]), few(names[written:])
        )

    def name_of(self, view: View, scheduled: ScheduledFunction, graph: Graph) -> str:
        """The operand of a copy: a value, a slice of a result, or a carry saved for later."""
        for u, other in scheduled.views.items():
            if other == view:
                self.add_value(graph, u, view)
                return graph.typed(u)
        names = (n for n, (_, v) in self.values.items() if v.allocation is view.allocation)
        return next(names, "held back")

    def region(
        self,
        step: Loop | Branch,
        planned: PlannedStep,
        scheduled: ScheduledFunction,
        graph: Graph,
        depth: int,
    ) -> None:
        """Add a loop or branch, and its steps."""
        region = planned.origin
        assert isinstance(region, Region)
        node = region.node
        for u in region.operands:
            if u in scheduled.views:
                self.add_value(graph, u, scheduled.views[u])
        title = f"{node.op.value} {graph.number(region.operands[0].arg)}"
        inner = graph.inner[node]
        if isinstance(step, Branch):
            index = next(s for s in node.src if s.op is not Op.FUNCTION)
            self.row(depth, "", step.barrier, f"{title}, by {graph.name(index)}")
            parts = list(zip(step.branches, planned.branches, inner, strict=True))
        else:
            many = f"for i{step.number} in {step.trips}" if step.trips else f"i{step.number} counts"
            self.row(
                depth, "", step.barrier, f"{title}, {many}", few(_carry_updates(planned, inner[-1]))
            )
            functions = [(step.head, planned.head), (step.body, planned.body)]
            present = [(s, f) for s, f in functions if f is not None]
            parts = [(s, f, g) for (s, f), g in zip(present, inner, strict=True)]
        for title, (steps, body, names) in zip(titles(node), parts, strict=True):
            if title:
                self.row(depth + 1, "", False, title)
            for p in body.function.arg.params:
                self.add_value(names, param(p), body.views[param(p)])
            self.steps(steps, body, names, depth + (2 if title else 1))

    def value_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The second table."""
        for name, (u, view) in self.values.items():
            size = str(count(u.shape) * u.dtype.itemsize)
            yield name, size, self.place(view), self.launches(view.allocation)

    def place(self, view: View) -> str:
        """``arena 64``, ``input 1 + 32*i1``: the memory of a value at iteration i1."""
        allocation = view.allocation
        if allocation.space is Space.ARENA:
            text = f"arena {self.offsets[allocation] + view.offset}"
        else:
            text = f"{allocation.space.value} {allocation.at}"
            text += f" + {view.offset}" if view.offset else ""
        for number, size in view.strides:
            text += f" {'-' if size < 0 else '+'} {abs(size)}*i{number}"
        return text

    def launches(self, allocation: Allocation) -> str:
        """From the first launch to the last in the live range of an allocation."""
        live = self.live_ranges.get(allocation)
        if live is None:
            numbers = self.users.get(allocation, [])
        else:
            numbers = [i for i, at in enumerate(self.positions) if live.first <= at <= live.last]
        return span(numbers) if numbers else ""


def _carries(node: UOp, function: UOp) -> list[UOp]:
    """The carries among the parameters of a loop's body, in the order of its first results."""
    parts = form(node)
    _, carries, _ = parts.places(len(parts.functions) - 1)
    return [param(function.arg.params[i]) for i in carries]


def _carry_views(scheduled: ScheduledFunction, graph: Graph) -> Iterator[tuple[View, str]]:
    """The view and the name of each carry of each loop."""
    for planned in scheduled.steps:
        if not isinstance(planned.origin, Region) or planned.callee is not None:
            continue
        node = planned.origin.node
        functions = [f for f in (planned.head, planned.body, *planned.branches) if f is not None]
        if planned.body is not None:
            names = graph.inner[node][-1]
            for u in _carries(node, planned.body.function):
                yield planned.body.views[u], names.typed(u)
        for inner, names in zip(functions, graph.inner[node], strict=True):
            yield from _carry_views(inner, names)


def _carry_updates(planned: PlannedStep, graph: Graph) -> list[str]:
    """Each carry of a loop: whether its next value is written in place or copied."""
    assert isinstance(planned.origin, Region) and planned.body is not None
    function, views = planned.body.function, planned.body.views
    return [
        f"{graph.name(u)} {'in place' if views[following] == views[u] else 'copied'}"
        for u, following in zip(_carries(planned.origin.node, function), function.src)
    ]


def few(names: Sequence[str]) -> str:
    """A list of names that fits a cell; the other table names every value."""
    rest = f", and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + rest


def span(launches: Sequence[int]) -> str:
    """From the first to the last: ``0-3``."""
    first, last = min(launches), max(launches)
    return str(first) if first == last else f"{first}-{last}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths)) for row in (head, *rows))
    return "\n".join(line.rstrip() for line in lines)
