"""The steps of a program and the plan of its memory, as two tables.

    launch  waits  kernel                  writes      reads
    0              0                       d:f32[4,8]  a:f32[4,8]
    1              copy                    e:f32[8]    b:f32[8]
            yes    scan 1, for i1 in 4     e in place
      2              1.0                   g:f32[8]    e:f32[8], f:f32[8]

    value       bytes  place             launches
    d:f32[4,8]  128    arena 0           0-2
    f:f32[8]    32     arena 0 + 32*i1   2

``waits``: all threads finish what came before first; they also do at the end of each iteration,
and of a branch.  What a loop carries is ``in place`` if its next value is written over it.  Values
of the arena share bytes if no launch uses both; what a loop uses is kept until it ends.  A function
that is called has tables of its own, with its own inputs, outputs and arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfn.lower.fuse.ranges import Region
from tfn.lower.memory.schedule import Frame, Planned, Ref, Room, Schedule
from tfn.lower.program import Branch, Call, HostCall, Launch, Loop, Program, Space, Step
from tfn.lower.report.print.graph import Graph
from tfn.lower.report.print.stages import TITLES
from tfn.trace.build import count
from tfn.trace.jaxpr import param
from tfn.trace.op import Op
from tfn.trace.uop import UOp

FEW = 4
"""Names in one cell of a table."""

Row = tuple[str, str, str, str, str]


def memory(program: Program, schedule: Schedule, graph: Graph) -> str:
    """The tables of a program; `schedule` is what it was made from."""
    return f"{_tables(schedule, graph)}; barriers and counters: {program.sync_bytes} bytes"


def _tables(schedule: Schedule, graph: Graph) -> str:
    tables = Tables(schedule, graph)
    tables.steps(schedule.routine.steps, schedule.frame, graph, 0)
    called = [f"{name}:\n\n{_tables(inner, names)}" for name, inner, names in tables.called]
    return "\n\n".join(
        [
            *called,
            table(("launch", "waits", "kernel", "writes", "reads"), tables.rows),
            table(("value", "bytes", "place", "launches"), tuple(tables.value_rows())),
            f"arena: {schedule.routine.arena_bytes} bytes "
            f"({sum(life.size_bytes for life in schedule.lives.values())} if nothing were shared)",
        ]
    )


class Tables:
    """The state of one print.

    Attributes:
        rows: of the first table.
        values: name -> the value, where it is.
        used: the numbers of the launches that use a room.
        positions: of the launches, in the sense of lifetimes.
        carried: the place of what a loop carries -> its name.
        called: functions that are called: name, schedule, names of their values.
    """

    def __init__(self, schedule: Schedule, graph: Graph) -> None:
        self.lives, self.offsets = schedule.lives, schedule.offsets
        self.rows: list[Row] = []
        self.values: dict[str, tuple[UOp, Ref]] = {}
        self.used: dict[Room, list[int]] = {}
        self.positions: list[int] = []
        self.called: list[tuple[str, Schedule, Graph]] = []
        self.carried = dict(_carried(schedule.frame, graph))

    def steps(self, steps: Sequence[Step], frame: Frame, graph: Graph, depth: int) -> None:
        """The rows of a list of steps."""
        for step, planned in zip(steps, frame.steps, strict=True):
            if isinstance(step, (Launch, HostCall, Call)):
                self.launch(step, planned, frame, graph, depth)
            else:
                self.region(step, planned, frame, graph, depth)

    def row(
        self, depth: int, launch: str, waits: bool, kernel: str, writes: str = "", reads: str = ""
    ) -> None:
        """One row, indented by loops."""
        indent = "  " * depth
        self.rows.append(
            (f"{indent}{launch}", "yes" if waits else "", indent + kernel, writes, reads)
        )

    def see(self, graph: Graph, u: UOp, ref: Ref) -> None:
        """A value for the second table."""
        self.values.setdefault(graph.typed(u), (u, ref))

    def launch(
        self,
        step: Launch | HostCall | Call,
        planned: Planned,
        frame: Frame,
        graph: Graph,
        depth: int,
    ) -> None:
        """A kernel; or a copy of what a loop carries or a branch gives; or a constant filled in."""
        number = len(self.positions)
        self.positions.append(planned.at)
        for ref in planned.operands:
            self.used.setdefault(ref.room, []).append(number)
        stage, written = planned.stage, planned.written
        if stage is None:
            target, *sources = planned.operands
            name = self.carried.get(target) or self.named(target, frame, graph)
            names = [name, *(self.named(source, frame, graph) for source in sources)]
            kernel = "copy" if sources else "fill"
        else:
            operands, kernel = stage.operands, graph.number(stage.operands[0].arg)
            if isinstance(stage, Region):
                kernel, written = f"{stage.node.op.value} {kernel}", len(stage.barriers)
                for inner in graph.inner[stage.node] if planned.called else ():
                    assert planned.called is not None
                    self.called.append((stage.node.arg.name, planned.called, inner))
            for u in operands:
                self.see(graph, u, frame.refs[u])
            names = [graph.typed(u) for u in operands]
        self.row(
            depth, str(number), step.barrier, kernel, few(names[:written]), few(names[written:])
        )

    def named(self, ref: Ref, frame: Frame, graph: Graph) -> str:
        """What a copy reads or writes: a value, a slice of a result, or a carry held back."""
        for u, other in frame.refs.items():
            if other == ref:
                self.see(graph, u, ref)
                return graph.typed(u)
        rooms = (name for name, (_, other) in self.values.items() if other.room is ref.room)
        return next(rooms, "held back")

    def region(
        self, step: Loop | Branch, planned: Planned, frame: Frame, graph: Graph, depth: int
    ) -> None:
        """A loop or branch, and what is in it."""
        region = planned.stage
        assert isinstance(region, Region)
        node = region.node
        for u in region.operands:
            if u in frame.refs:
                self.see(graph, u, frame.refs[u])
        title = f"{node.op.value} {graph.number(region.operands[0].arg)}"
        inner = graph.inner[node]
        if isinstance(step, Branch):
            index = next(s for s in node.src if s.op is not Op.FUNCTION)
            self.row(depth, "", step.barrier, f"{title}, by {graph.name(index)}")
            parts = list(zip(step.ways, planned.ways, inner, strict=True))
        else:
            many = f"for i{step.number} in {step.trips}" if step.trips else f"i{step.number} counts"
            self.row(depth, "", step.barrier, f"{title}, {many}", few(_kept(planned, inner[-1])))
            frames = [(step.head, planned.head), (step.body, planned.body)]
            parts = [
                (s, f, g) for (s, f), g in zip([p for p in frames if p[1]], inner, strict=True) if f
            ]
        for title, (steps, body, names) in zip(TITLES[node.op](node), parts, strict=True):
            if title:
                self.row(depth + 1, "", False, title)
            for p in body.function.arg.params:
                self.see(names, param(p), body.refs[param(p)])
            self.steps(steps, body, names, depth + (2 if title else 1))

    def value_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The second table."""
        for name, (u, ref) in self.values.items():
            size = str(count(u.shape) * u.dtype.itemsize)
            yield name, size, self.place(ref), self.launches(ref.room)

    def place(self, ref: Ref) -> str:
        """``arena 64``, ``input 1 + 32*i1``: where a value is, at iteration i1 of that loop."""
        room = ref.room
        if room.space is Space.ARENA:
            text = f"arena {self.offsets[room] + ref.offset}"
        else:
            text = f"{room.space.value} {room.at}" + (f" + {ref.offset}" if ref.offset else "")
        for number, size in ref.steps:
            text += f" {'-' if size < 0 else '+'} {abs(size)}*i{number}"
        return text

    def launches(self, room: Room) -> str:
        """From the first launch to the last in which a room is in use."""
        life = self.lives.get(room)
        if life is None:
            numbers = self.used.get(room, [])
        else:
            numbers = [i for i, at in enumerate(self.positions) if life.first <= at <= life.last]
        return span(numbers) if numbers else ""


def _carries(node: UOp, function: UOp) -> list[UOp]:
    """The parameters of a loop's body that it carries, in the order of its first results."""
    params = [param(p) for p in function.arg.params]
    if node.op is Op.SCAN:
        return params[node.arg.consts : node.arg.consts + node.arg.carries]
    return params[node.arg.body_consts :]


def _carried(frame: Frame, graph: Graph) -> Iterator[tuple[Ref, str]]:
    """The place and the name of all that is carried by loops."""
    for planned in frame.steps:
        if not isinstance(planned.stage, Region) or planned.called is not None:
            continue
        node = planned.stage.node
        frames = [f for f in (planned.head, planned.body, *planned.ways) if f is not None]
        if planned.body is not None:
            names = graph.inner[node][-1]
            for u in _carries(node, planned.body.function):
                yield planned.body.refs[u], names.typed(u)
        for inner, names in zip(frames, graph.inner[node], strict=True):
            yield from _carried(inner, names)


def _kept(planned: Planned, graph: Graph) -> list[str]:
    """How each value that a loop carries gets its next one."""
    assert isinstance(planned.stage, Region) and planned.body is not None
    function, refs = planned.body.function, planned.body.refs
    return [
        f"{graph.name(u)} {'in place' if refs[following] == refs[u] else 'copied'}"
        for u, following in zip(_carries(planned.stage.node, function), function.src)
    ]


def few(names: Sequence[str]) -> str:
    """A list that fits a table; the other table names every value."""
    rest = f", and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + rest


def span(launches: Sequence[int]) -> str:
    """From the first to the last: ``0-3``."""
    first, last = min(launches), max(launches)
    return str(first) if first == last else f"{first}-{last}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what is in them."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths)) for row in (head, *rows))
    return "\n".join(line.rstrip() for line in lines)
