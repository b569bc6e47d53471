"""Kernels of a program as people speak of them: their operations, work and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from tfn._support.frozen import frozen
from tfn.dtypes import FLOATS, NARROW
from tfn.lower import pipeline
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.languages import passes_of
from tfn.lower.passes import Passes
from tfn.lower.program import Program
from tfn.lower.report.cost import node_work
from tfn.lower.report.print.graph import Graph
from tfn.lower.target.target import Target
from tfn.trace import source_lines
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.shard import provenance
from tfn.transforms.shard.provenance import Find
from tfn.transforms.shard.report import Moved

MAX_NAMED_OPS = 4
"""Operations in the title of a kernel."""

TRANSCENDENTAL_FLOPS = 10
"""Operations that one transcendental function counts as, where the time of a kernel is shared out
among its lines: about as many instructions as `exp` becomes."""

_UNNAMED = frozenset(
    {Op.GBARRIER, Op.CONST, Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.GET, Op.CAST, Op.DETACH}
)
"""Ops that say little about a kernel."""


def evaluations(body: UOp) -> dict[int, float]:
    """The evaluations of each operand of a kernel over ranges: in all loops around its loads.

    So often a value would be computed if it were not loaded; of several loads all count.
    """
    scopes: dict[UOp, set[UOp]] = {}
    counts: dict[int, float] = {}
    for u in reversed(list(walk([body]))):
        scope = scopes.get(u, set())
        if u.op is Op.STORE:
            scope = scope | {r for r in walk([u.src[1]]) if r.op is Op.RANGE}
        elif u.op is Op.FOLD:
            scope = scope | set(u.src[1:])
        elif u.op is Op.LOAD and u.src[0].op is Op.PARAM:
            trips = float(prod(r.arg.size for r in scope))
            counts[u.src[0].arg.index] = counts.get(u.src[0].arg.index, 0.0) + trips
        for s in u.src:
            scopes.setdefault(s, set()).update(scope)
    return counts


@frozen
class KernelWork:
    """A kernel, by what it computes.

    Attributes:
        label: its number, with those of the loops around it.
        title: the operations of whole arrays that it fuses.
        flops: floating operations of one launch.
        traffic_bytes: that one launch reads and writes, each operand once.
        exchanges: between devices of this process that are fused into it.
        scope: the named scopes and modules in which most of its work was recorded, as a path.
    """

    label: str
    title: str
    flops: float
    traffic_bytes: int
    exchanges: tuple[Moved, ...] = ()
    scope: str = ""


def title(nodes: Iterable[UOp]) -> str:
    """The operations of a kernel, each once: the one of most work, then the others in order."""
    ops, flops = Counter[str](), Counter[str]()
    for u in nodes:
        if u.op not in _UNNAMED:
            ops[u.op.value] += 1
            flops[u.op.value] += int(node_work(u).flops)
    first, most = next(iter(flops.most_common(1)), ("", 0))
    if most > sum(flops.values()) / 2:
        ops = Counter({first: ops[first]} | ops)
    named = [f"{name} ×{n}" if n > 1 else name for name, n in ops.items()]
    rest = f" +{len(named) - MAX_NAMED_OPS}" if len(named) > MAX_NAMED_OPS else ""
    return ", ".join(named[:MAX_NAMED_OPS]) + rest or "copy"


def factors(nodes: Iterable[UOp]) -> str:
    """The dtype of a kernel's arithmetic: of the factors of its products, or of its results."""
    computing = [u for u in nodes if node_work(u).flops]
    most = max(computing, key=lambda u: node_work(u).flops, default=None)
    if most is None:
        return "float32"
    dtype = most.src[0].dtype if most.op in (Op.DOT, Op.CONV) else most.dtype
    return dtype.name if dtype in FLOATS - NARROW else "float32"


def traffic_bytes(body: UOp) -> int:
    """Bytes that a kernel reads and writes: each operand once, of one that it reads in part no more
    than its loads."""
    loads = evaluations(body)
    sizes: dict[int, float] = {}
    for u in walk([body]):
        if u.op is Op.PARAM:
            elements = min(count(u.shape), loads.get(u.arg.index, count(u.shape)))
            sizes[u.arg.index] = elements * u.dtype.itemsize
    return int(sum(sizes.values()))


def scope_of(nodes: Iterable[UOp]) -> str:
    """The path of the scopes in which most of the work of nodes was recorded."""
    weights: dict[str, float] = {}
    for node in nodes:
        path = source_lines.scope_of(node)
        if path is not None and node.op is not Op.GBARRIER:
            name = "/".join(path)
            weights[name] = weights.get(name, 0.0) + weight(node)
    return max(weights, key=weights.__getitem__, default="")


def weight(node: UOp) -> float:
    """The work of a node beside that of others; an operation without any counts a little."""
    work = node_work(node)
    if node.op in (Op.DOT, Op.CONV) and not work.flops:  # of integers, which it does not count
        return float(count(node.src[0].shape) + count(node.src[1].shape))
    return 1 + work.flops + TRANSCENDENTAL_FLOPS * work.transcendentals


def kernels_of(
    graph: Graph, exchanges_of: Find = lambda nodes: ()
) -> Iterator[tuple[IndexedKernel, list[UOp], KernelWork]]:
    """The kernels of one function in running order, each with its nodes; not those of its loops.

    Of the kernels behind one barrier the last one computes; a scatter is copied before.

    Args:
        graph: of the function.
        exchanges_of: finds the exchanges of some nodes.
    """
    nodes_of = dict(graph.kernels)
    parts = Counter(stage.operands[0].arg for stage in graph.stages)
    for stage in graph.stages:
        number = stage.operands[0].arg
        parts[number] -= 1
        if not isinstance(stage, Region):
            nodes = nodes_of[number]
            computing = nodes if not parts[number] else []
            flops = sum(node_work(u).flops for u in computing)
            label = graph.number(number)
            moved = exchanges_of(computing)
            traffic, scope = traffic_bytes(stage.body), scope_of(nodes)
            work = KernelWork(label, title(computing), flops, traffic, moved, scope)
            yield stage, nodes, work


def by_body(graph: Graph, exchanges_of: Find = lambda nodes: ()) -> dict[UOp, list[KernelWork]]:
    """The kernels of a function and of its loops by their bodies, equal ones in running order."""
    found: dict[UOp, list[KernelWork]] = {}
    waiting = [graph]
    while waiting:
        one = waiting.pop(0)
        for stage, _, work in kernels_of(one, exchanges_of):
            found.setdefault(stage.body, []).append(work)
        for inner in one.inner.values():
            waiting += inner
    return found


def by_source(
    program: Program, target: Target, passes: Passes | None = None
) -> dict[UOp, list[KernelWork]]:
    """The kernels of a program by their bodies before the opt-ops, equal ones in running order."""
    passes = passes or passes_of(target)

    def inside(function: UOp) -> tuple[UOp, Sequence[IndexedKernel | Region]]:
        with_barriers: UOp = passes.boundaries(function, target)
        return with_barriers, passes.ranges(with_barriers, target)

    with provenance.tracking(program.function) as exchanges_of:
        real: UOp = passes.complex_pairs(program.function, target)
        return by_body(Graph(real, inside), exchanges_of)


def of_program(program: Program, target: Target) -> Sequence[KernelWork]:
    """The kernel of each launch of a program, in the order of their text."""
    known = by_source(program, target)
    works = []
    for launch in pipeline.with_bodies(program, target).launches:
        body = launch.kernel.source or launch.kernel.body
        assert body is not None
        # The others are copies, of the carries of loops and the operands of calls.
        copy = KernelWork("", "copy", 0.0, traffic_bytes(body))
        works.append(known[body][0] if body in known else copy)
    return works
