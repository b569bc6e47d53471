"""A program as plain data for the page: its kernels with their texts, lines, costs and reasons.

The program is lowered once as ever, and its passes are run once more, one kernel after the other,
while their records are collected.  Texts that are long and seldom read are apart from the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfn.extend import (
    CORES,
    Jaxpr,
    Kernel,
    KernelTimer,
    Op,
    Program,
    Target,
    UOp,
    all_launches,
    build,
    mutable,
    param,
    passes_of,
    pipeline,
    print_jaxpr,
    walk,
)
from tfn.hw.compile.llvm import assembly
from tfn.inspect import plots
from tfn.inspect.kernels import evaluations, factors, kernels_of
from tfn.inspect.show import View
from tfn.inspect.viewer import steps
from tfn.inspect.viewer.places import UNKNOWN, Places
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.loops.cost_model import VECTOR_ACCESS_NS
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.memory.planner import LiveRange, Schedule
from tfn.lower.program import ESTIMATED_LOOP_TRIPS
from tfn.lower.report.print import instructions, memory, stages
from tfn.lower.report.print.graph import Graph
from tfn.trace.jaxpr import equations
from tfn.trace.records import Record, collecting

MAX_REWRITES = 400
"""Rewrites of one pass that a page lists; it says how many more there were."""

KERNEL_PASSES = "decompose", "split", "linearize", "prefetch", "sort"
"""The passes of each kernel, in their order; a sort has one of its own."""

Data = dict[str, Any]


@mutable
class Collected:
    """The data of one program.

    Attributes:
        data: all but long texts.
        texts: for each distinct kernel its long texts, by stage.
    """

    data: Data
    texts: list[dict[str, str]]


def collect(
    title: str,
    view: View,
    timer: KernelTimer | None,
    alternatives: Sequence[Data] = (),
    decisions: bool = True,
) -> Collected:
    """The data of a function on its way down.

    Args:
        title: the name of the function.
        view: the function, traced while source lines were tracked.
        timer: times kernels, if they are to be timed.
        alternatives: rows of `alternatives.alternatives`.
        decisions: whether it times them after each decision on their loops, too.
    """
    places = Places()
    places.add(view.jaxpr.outputs)
    with collecting() as complex_records:
        real = view.real
    with collecting() as cut_records:
        graph = view.graph
    places.add([real])
    program = view.program
    kernels = _Kernels(view, graph, places, cut_records, timer, decisions)
    rows = list(kernels.rows(graph, 1, 0))
    _price_boundaries(rows, kernels.bodies, view.target)
    files, lines = places.files()
    head, equation_rows, results = equations(view.jaxpr)
    names = kernels.names
    rules = {record.rule for record in (*complex_records, *cut_records, *kernels.records)}
    data = {
        "title": title,
        "target": f"{view.target.cpu or 'generic'} {view.target.triple}".strip(),
        "totals": _totals(view, program),
        "files": files,
        "lines": lines,
        "jaxpr": {
            "head": head,
            "rows": [[text, places.of(node)] for node, text in equation_rows],
            "results": results,
        },
        "passes": [
            _pass_row("complex_pairs", complex_records, names),
            _pass_row("boundaries", _decisions(cut_records), names),
            _pass_row("ranges", _simplifications(cut_records), names),
            *(_stages_of(name) for name in KERNEL_PASSES if name in kernels.passes),
        ],
        "kernels": rows,
        "bodies": kernels.bodies,
        "laws": {rule: law for rule in sorted(rules) if (law := steps.law_of(rule))},
        "memory": list(_arenas(view.schedule, graph, places, "program")),
        "outside": list(_outside(view.schedule, graph, places)),
        "schedule": view.text("memory"),
        "alternatives": list(alternatives),
    }
    whole = {"driver": program.text.rstrip(), "boundaries": str(graph)}
    if real is not view.jaxpr.function:
        whole["complex_pairs"] = print_jaxpr(Jaxpr(real))
    kernels.texts.append(whole)
    return Collected(data, kernels.texts)


def _simplifications(records: Iterable[Record]) -> list[Record]:
    return [one for one in records if steps.law_of(one.rule)]


def _decisions(records: Iterable[Record]) -> list[Record]:
    return [one for one in records if not steps.law_of(one.rule)]


def _pass_row(name: str, records: Iterable[Record], names: dict[UOp, str]) -> Data:
    rows = steps.rewrites(records, names)
    return _stages_of(name) | {
        "rewrites": rows[:MAX_REWRITES],
        "more": max(0, len(rows) - MAX_REWRITES),
    }


def _stages_of(name: str) -> Data:
    step = getattr(CORES, name)
    return {"name": name, "before": step.before, "after": step.after}


def _totals(view: View, program: Program) -> Data:
    footprint = program.footprint
    return {
        "kernels": len(program.kernels),
        "launches": len(program.launches),
        "ns": program.work_ns,
        "flops": view.cost["flops"],
        "transcendentals": view.cost["transcendentals"],
        "bytes": view.cost["bytes accessed"],
        "least_bytes": view.cost["bytes in"] + view.cost["bytes out"],
        "argument_bytes": footprint.argument_bytes,
        "output_bytes": footprint.output_bytes,
        "arena_bytes": program.arena_bytes,
        "equations": sum(1 for _ in walk(view.jaxpr.outputs)),
    }


class _Kernels:
    """The rows of kernels in running order, and the distinct bodies that they run.

    Attributes:
        bodies, texts: short and long texts of each distinct kernel.
        names: of the values of all functions.
        records: of all passes of kernels.
        passes: the names of these passes.
    """

    def __init__(
        self,
        view: View,
        graph: Graph,
        places: Places,
        records: Iterable[Record],
        timer: KernelTimer | None,
        decisions: bool,
    ) -> None:
        self.time_decisions = decisions
        self.view, self.places, self.timer = view, places, timer
        self.kernels: dict[UOp, Kernel] = {
            launch.kernel.source: launch.kernel
            for launch in all_launches(view.program.steps)
            if launch.kernel.source is not None
        }
        self.bodies: list[Data] = []
        self.texts: list[dict[str, str]] = []
        self.numbers: dict[UOp, int] = {}
        self.records: list[Record] = []
        self.passes: set[str] = set()
        self.names: dict[UOp, str] = {}
        self.reasons: dict[UOp, Record] = {}
        reasons = {one.before: one for one in records if one.reason}
        for one in records:
            if one.rule == "barrier" and one.before in reasons:
                self.reasons[one.after] = reasons[one.before]

    def rows(self, graph: Graph, trips: int, depth: int) -> Iterator[Data]:
        """A row for each kernel, and for each loop, branch and call, with those inside after it."""
        self.names.update(graph.names)
        self.places.add([graph.function])
        listed = {stage: (nodes, work) for stage, nodes, work in kernels_of(graph)}
        for stage in graph.stages:
            if isinstance(stage, Region):
                node = stage.node
                times = node.arg.length if node.op is Op.SCAN else ESTIMATED_LOOP_TRIPS
                repeat = times if node.op in (Op.SCAN, Op.WHILE) else 1
                label = graph.number(stage.operands[0].arg)
                heading = stages.heading(stage, graph)
                head = {"label": label, "depth": depth, "trips": trips, "region": heading}
                yield head | {"lines": _lines([self.places.of(node)]), "op": node.op.value}
                for inner in graph.inner[node]:
                    yield from self.rows(inner, trips * repeat, depth + 1)
                continue
            nodes, work = listed[stage]
            body = self._body(stage.body, [graph.name(u) for u in stage.operands])
            written, read = stage.operands[: stage.written], stage.operands[stage.written :]
            shares = self.places.shares(nodes)
            yield {
                "label": work.label,
                "depth": depth,
                "trips": trips,
                "body": body,
                "title": work.title,
                "scope": work.scope,
                "dtype": factors(nodes),
                "equations": [[text, self.places.of(u)] for u, text in graph.equations(nodes)],
                "lines": sorted(shares),
                "shares": [round(shares[line], 4) for line in sorted(shares)],
                "writes": [graph.typed(u) for u in written],
                "reads": [graph.typed(u) for u in dict.fromkeys(read)],
                "flops": work.flops,
                "bytes": work.traffic_bytes,
                "reasons": list(self._reasons(graph, written)),
                "sizes": {graph.typed(u): (build.count(u.shape), _size_bytes(u)) for u in written},
                "evaluations": dict(self._evaluations(stage, graph)),
            }

    def _reasons(self, graph: Graph, written: Iterable[UOp]) -> Iterator[list[Any]]:
        """The name of each result, the rule that ended its kernel there, and the reason."""
        for u in written:
            record = self.reasons.get(u)
            if record is not None:
                yield [graph.typed(u), record.rule, record.reason]

    def _evaluations(self, stage: IndexedKernel, graph: Graph) -> Iterator[tuple[str, float]]:
        """The name of each operand that a kernel reads, and how often it would be computed."""
        counts = evaluations(stage.body)
        for i, u in enumerate(stage.operands):
            if i >= stage.written:
                # A kernel that sorts takes its operands as they are.
                yield graph.typed(u), counts.get(i, float(build.count(u.shape)))

    def _body(self, body: UOp, operands: list[str]) -> int:
        """The number of a distinct body, whose texts are made at its first use."""
        if body not in self.numbers:
            self.numbers[body] = len(self.bodies)
            row, texts = self._texts(body, operands)
            self.bodies.append(row)
            self.texts.append(texts)
        return self.numbers[body]

    def _texts(self, body: UOp, operands: list[str]) -> tuple[Data, dict[str, str]]:
        view, target = self.view, self.view.target
        kernel = self.kernels.get(body) or pipeline.kernel(body, target)
        simple = body.op is Op.SINK
        records: dict[str, list[Record]] = {}
        value: Any = body
        after: dict[str, Any] = {}
        kernel_passes = passes_of(target).of_kernel(body)
        for step in kernel_passes:
            with collecting() as collected:
                after[step.name] = value = step(value, target)
            records[step.name] = collected
            self.records += collected
        self.passes |= after.keys()
        names = {u: f"p{u.arg.index}" for u in walk([body]) if u.op is Op.PARAM}
        texts = {"llvm": kernel.text.rstrip()}
        if target.triple:  # devices without a compiler have a target without a machine
            texts["assembly"] = assembly(kernel.text, target).rstrip()
        loops = view.ranges(body, operands) if simple else stages.whole_kernel(body, operands)
        if simple:
            texts["splits"] = view.splits(body, operands)
        if "decompose" in after and after["decompose"] is not body:
            texts["decompose"] = view.ranges(after["decompose"], operands)
        if kernel_passes:
            texts["linear"] = instructions.instructions(value, operands)
        if after.get("linearize") != after.get("prefetch"):
            texts["linearize"] = instructions.instructions(after["linearize"], operands)
        decisions = steps.decisions(records.get("split", ()))
        row = {
            "name": kernel.name,
            "ns": kernel.work_ns,
            "tiles": kernel.tiles,
            "loops": loops,
            "tuned": "split" in records and _opts(records["split"]) != kernel.opts,
            "decisions": decisions,
            "rewrites": {
                name: steps.rewrites(collected, names)[:MAX_REWRITES]
                for name, collected in records.items()
            },
            "counts": {
                "linear": len(value) if isinstance(value, tuple) else 0,
                "llvm": _count(texts["llvm"], lambda line: line.startswith("  ")),
                "machine": _count(texts.get("assembly", ""), _is_instruction),
            },
        }
        if self.timer is not None:
            self._measure(row, kernel, body, records.get("split", ()))
        return row, texts

    def _measure(self, row: Data, kernel: Kernel, body: UOp, records: Iterable[Record]) -> None:
        """Times a kernel, and the nest after each decision that has changed it."""
        assert self.timer is not None
        params = {u.arg.index: u for u in walk([body]) if u.op is Op.PARAM and u.arg.index >= 0}
        buffers = [(params[i].size, params[i].dtype) for i in range(len(params))]
        row["measured_ns"] = _finite(self.timer.measure(kernel, buffers))
        if not self.time_decisions:
            return
        nests = [one for one in records if isinstance(one.before, Nest)]
        for decision, one in zip(row["decisions"], nests, strict=True):
            if one.after.opts != one.before.opts:
                partial = pipeline.kernel_of_nest(one.after, self.view.target)
                decision["measured_ns"] = _finite(self.timer.measure(partial, buffers))


def _price_boundaries(rows: Sequence[Data], bodies: Sequence[Data], target: Target) -> None:
    """Adds to each reason the readers, and both costs: of memory, and of computing it in each.

    A value that goes through memory is written once and read by each reader.  A reader that
    computes it does so in all loops around its loads: the kernel that makes it would be run as
    often as there are such evaluations of each element, but for the one run that there is now; that
    one stays if it has other results.
    """
    readers = Counter(name for row in rows for name in set(row.get("reads", ())))
    evaluated: Counter[str] = Counter()
    for row in rows:
        evaluated.update(row.pop("evaluations", {}))
    for row in rows:
        sizes = row.pop("sizes", {})
        for reason in row.get("reasons", ()):
            name = reason[0]
            elements, size_bytes = sizes[name]
            vectors = size_bytes / target.vector_bytes * (1 + readers[name])
            times = evaluated[name] / max(1, elements)
            spared = 1 if len(row["writes"]) == 1 else 0
            recomputed_ns = bodies[row["body"]]["ns"] * max(0.0, times - spared)
            stored_ns = round(vectors * VECTOR_ACCESS_NS)
            reason += [readers[name], stored_ns, round(recomputed_ns), round(times, 2)]


def roofline(data: Data, peak_flops_per_ns: float, peak_bytes_per_ns: float) -> str:
    """The roofline plot of the measured kernels of a program, as SVG; see `plots.roofline`."""
    rows = [row for row in data["kernels"] if "body" in row]
    times_ns = [data["bodies"][row["body"]]["measured_ns"] or float("inf") for row in rows]
    finite = [(row, ns) for row, ns in zip(rows, times_ns, strict=True) if ns < float("inf")]
    total_ns = sum(ns * row["trips"] for row, ns in finite) or 1.0
    points = [
        plots.Point(
            f"{row['label']} {row['title']}",
            row["flops"] / max(1, row["bytes"]),
            row["flops"] / ns,
            ns * row["trips"] / total_ns,
        )
        for row, ns in finite
    ]
    return plots.roofline(points, peak_flops_per_ns, peak_bytes_per_ns)


def _finite(ns: float) -> float | None:
    return round(ns, 1) if ns < float("inf") else None


def _opts(records: Iterable[Record]) -> Any:
    """The opt-ops of the last decision of the heuristics."""
    return next((one.after.opts for one in reversed(list(records)) if _is_nest(one)), ())


def _is_nest(record: Record) -> bool:
    return isinstance(record.after, Nest)


def _count(text: str, counts: Callable[[str], bool]) -> int:
    return sum(map(counts, text.splitlines()))


def _is_instruction(line: str) -> bool:
    return line.startswith("\t") and not line.startswith("\t.")


def _lines(numbers: Iterable[int]) -> list[int]:
    return sorted({n for n in numbers if n >= 0})


def _arenas(schedule: Schedule, graph: Graph, places: Places, name: str) -> Iterator[Data]:
    """The arena of the program, and that of each function that it calls: its values in time."""
    tables = memory.Tables(schedule, graph)
    tables.steps(schedule.routine.steps, schedule.scheduled, graph, 0)
    names: dict[Any, tuple[str, int]] = {}
    for value, (u, view) in tables.values.items():
        names.setdefault(view.allocation, (value, places.of(u)))
    # Rows of launches have a number, those of the loops around them have none.
    kernels_by_step = [row[2].strip() for row in tables.rows if row[0].strip()]
    values = []
    for allocation, live in schedule.live_ranges.items():
        value, line = names.get(allocation, ("held back", -1))
        place = [live.size_bytes, schedule.offsets[allocation], live.first, live.last]
        users = tables.users.get(allocation)
        maker, reader = (
            (kernels_by_step[min(users)], kernels_by_step[max(users)]) if users else ("", "")
        )
        values.append([value, *place, line, maker, reader])
    at, peak_bytes = _peak(schedule.live_ranges.values())
    yield {
        "name": name,
        "bytes": schedule.routine.arena_bytes,
        "unshared": sum(live.size_bytes for live in schedule.live_ranges.values()),
        "values": values,
        "peak": {"at": at, "bytes": peak_bytes},
    }
    for called, inner, inner_graph in tables.routines:
        yield from _arenas(inner, inner_graph, places, called)


def _outside(schedule: Schedule, graph: Graph, places: Places) -> Iterator[list[Any]]:
    """The arguments and results of a program: name, bytes, what it is, line, maker, last reader."""
    tables = memory.Tables(schedule, graph)
    tables.steps(schedule.routine.steps, schedule.scheduled, graph, 0)
    kernels_by_step = [row[2].strip() for row in tables.rows if row[0].strip()]
    views = schedule.scheduled.views
    params = [param(p) for p in graph.function.arg.params]
    for i, u in enumerate(params):
        users = tables.users.get(views[u].allocation) if u in views else None
        reader = kernels_by_step[max(users)] if users else "none"
        yield [graph.typed(u), _size_bytes(u), f"argument {i}", UNKNOWN, "the caller", reader]
    for i, u in enumerate(graph.function.src):
        users = tables.users.get(views[u].allocation) if u in views else None
        first, last = (kernels_by_step[at(users)] if users else "none" for at in (min, max))
        maker = "the caller" if u in params else first
        reader = "the caller" if last in (first, "none") else f"{last}, then the caller"
        yield [graph.typed(u), _size_bytes(u), f"result {i}", places.of(u), maker, reader]


def _size_bytes(u: UOp) -> int:
    return build.count(u.shape) * u.dtype.itemsize


def _peak(live_ranges: Iterable[LiveRange]) -> tuple[int, int]:
    """The position at which most bytes are alive, and how many."""
    changes: Counter[int] = Counter()
    for live in live_ranges:
        changes[live.first] += live.size_bytes
        changes[live.last + 1] -= live.size_bytes
    alive = best = at = 0
    for position in sorted(changes):
        alive += changes[position]
        if alive > best:
            best, at = alive, position
    return at, best
