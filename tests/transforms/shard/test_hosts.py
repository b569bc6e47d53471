"""Programs of many processes, whose messages threads exchange: the oracle evaluates each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace import oracle, processes
from tfn.trace.jaxpr import Jaxpr, param
from tfn.trace.op import Op
from tfn.trace.processes import HostGrid, Message
from tfn.trace.sharding import Axis, Exchange, Partition, stacking
from tfn.trace.uop import walk
from tfn.transforms.shard import hosts as module
from tfn.transforms.shard import program

pytestmark = pytest.mark.usefixtures("eight_devices")


class Threads:
    """Processes that are threads, and the messages between them."""

    def __init__(self, count: int) -> None:
        self.count, self.local = count, threading.local()
        self.barrier = threading.Barrier(count)
        self.sent: dict[int, list[np.ndarray]] = {}

    index = property(lambda self: self.local.rank)

    def bind(self, message: Message, results: Any, operands: Any) -> Callable[[], None]:
        return lambda: self._exchange(message, results, operands)

    def _exchange(self, message: Message, results: Any, operands: Any) -> None:
        ranks = message.hosts.line(message.axis, self.index)
        own = ranks.index(self.index)
        self.sent[self.index] = list(operands)
        self.barrier.wait(20)
        for i, out in enumerate(results):
            rows = [self.sent[rank][i] for rank in ranks]
            if message.kind is Exchange.GATHER:
                out[...] = np.stack(rows)
            elif message.kind is Exchange.TRANSPOSE:
                out[...] = np.stack([row[own] for row in rows])
            elif message.kind is Exchange.REDUCE:
                out[...] = {Op.ADD: np.sum, Op.MAX: np.max}[message.op](rows, 0)
            else:
                begin = next((b for b, to in message.pairs if to == own), None)
                out[...] = 0 if begin is None else rows[begin]
        self.barrier.wait(20)


def part(x: np.ndarray, partition: Partition, on: HostGrid, rank: int) -> np.ndarray:
    """What a process holds of an array: the stack of the parts of its devices."""
    split, order = stacking(partition, x.shape)
    sizes = dict(zip([a.name for a in partition.mesh], on.sizes, strict=True))
    place = dict(zip([a.name for a in partition.mesh], on.place(rank), strict=True))
    size = {a.name: a.size // sizes[a.name] for a in partition.mesh}
    own = [slice(place[n] * size[n], (place[n] + 1) * size[n]) for n in partition.names]
    return x.reshape(split).transpose(order)[tuple(own)]


def run(
    monkeypatch: pytest.MonkeyPatch, f: Any, mesh: Any, on: HostGrid, *args: tuple[Any, P]
) -> tuple[Jaxpr, list[Any]]:
    """The program of each process, and the whole results, of which each process gives its part."""
    jaxpr = tfn.make_jaxpr(f)(*[x for x, _ in args])
    placed = [NamedSharding(mesh, spec).partition(np.ndim(x)) for x, spec in args]
    local, results = program.stacked(jaxpr, placed, on)
    threads = Threads(len(on.ranks))
    monkeypatch.setattr(processes, "processes", threads)
    found: dict[int, Any] = {}

    def work(rank: int) -> None:
        threads.local.rank = rank
        given = {
            param(p): np.ascontiguousarray(part(np.asarray(x), arg, on, rank)).reshape(p.shape)
            for p, (x, _), arg in zip(local.params, args, placed, strict=True)
        }
        found[rank] = oracle.evaluate(local.outputs, given)

    workers = [threading.Thread(target=work, args=(rank,)) for rank in on.ranks]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(found) == len(on.ranks)
    whole = []
    for i, (u, arg) in enumerate(zip(jaxpr.outputs, results, strict=True)):
        numbers = np.arange(u.size).reshape(u.shape)
        out = np.full(u.size, -77, u.dtype)
        for rank in on.ranks:
            own = part(numbers, arg, on, rank)
            out[own.ravel()] = np.asarray(found[rank][i]).ravel()
        whole.append(out.reshape(u.shape))
    return local, whole


def messages(jaxpr: Jaxpr) -> list[tuple[str, int]]:
    """The kind of each message, and how many values it has."""
    nodes = [u for u in walk(jaxpr.outputs) if u.op is Op.HOST]
    return [(u.arg.run.kind.value, len(u.src)) for u in nodes if isinstance(u.arg.run, Message)]


def line(size: int = 8) -> Any:
    return tfn.make_mesh((size,), ("d",), (AxisType.Auto,))


RING = [(i, (i + 1) % 8) for i in range(8)]
BACK = [(i, (i - 3) % 8) for i in range(8)]
GROUPS = [[0, 1], [2, 3], [4, 5], [6, 7]]
ACROSS = [[0, 4], [5, 1], [2, 6], [7, 3]]
COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "d"),
    "pmax": lambda x: lax.pmax(x, "d"),
    "pmin": lambda x: lax.pmin(x, "d"),
    "all_gather": lambda x: lax.all_gather(x, "d"),
    "psum_scatter": lambda x: lax.psum_scatter(x, "d"),
    "all_to_all": lambda x: lax.all_to_all(x, "d", 0, 1, tiled=True),
    "ring": lambda x: lax.ppermute(x, "d", RING),
    "back": lambda x: lax.ppermute(x, "d", BACK),
    "some": lambda x: lax.ppermute(x, "d", [(0, 5), (3, 2), (7, 7)]),
    "index": lambda x: x + lax.axis_index("d"),
    "groups": lambda x: lax.psum(x, "d", axis_index_groups=GROUPS),
    "across": lambda x: lax.all_gather(x, "d", axis_index_groups=ACROSS),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: lax.psum(y, "d") / 8 + i, x),
}


@pytest.mark.parametrize(
    "on", [HostGrid((2,), (0, 1)), HostGrid((4,), (2, 0, 3, 1)), HostGrid((8,), tuple(range(8)))]
)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_over_processes(
    monkeypatch: pytest.MonkeyPatch, name: str, on: HostGrid
) -> None:
    mesh, x = line(), np.random.default_rng(1).integers(-9, 9, (64, 8)).astype("float32")
    f = tfn.shard_map(
        COLLECTIVES[name], mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False
    )
    want = np.asarray(f(x))
    _, (got,) = run(monkeypatch, f, mesh, on, (x, P("d")))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "on", [HostGrid((2, 1), (0, 1)), HostGrid((1, 2), (0, 1)), HostGrid((2, 2), (0, 1, 2, 3))]
)
@pytest.mark.parametrize("specs", [(P("x"), P()), (P("x", "y"), P("y")), (P(), P(("x", "y")))])
def test_programs_that_the_partitioner_divides(
    monkeypatch: pytest.MonkeyPatch, specs: tuple[P, P], on: HostGrid
) -> None:
    mesh = tfn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto, AxisType.Auto))
    rng = np.random.default_rng(2)
    x, w = (rng.integers(-3, 4, shape).astype("float32") for shape in ((16, 8), (8, 8)))

    def f(x: Any, w: Any) -> Any:
        y = lax.with_sharding_constraint(tnp.abs(x @ w), NamedSharding(mesh, P("y", "x")))
        return y.sum(0), (y * 2).max(), tnp.sort(x, 0)

    want = [np.asarray(u) for u in f(x, w)]
    _, got = run(monkeypatch, f, mesh, on, (x, specs[0]), (w, specs[1]))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_small_sums_are_gathered_and_large_ones_combined_on_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh, on = line(), HostGrid((2,), (0, 1))
    small, large = np.ones((8, 3), "float32"), np.ones((8, 20_001), "float32")
    f = tfn.shard_map(
        lambda *xs: [lax.psum(x, "d") for x in xs], mesh=mesh, in_specs=P("d"), out_specs=P()
    )
    program, (a, b, c) = run(
        monkeypatch, f, mesh, on, (small, P("d")), (small + 1, P("d")), (large, P("d"))
    )
    kinds = messages(program)
    assert sorted(kinds) == [("all_gather", 2), ("reduce", 1)]
    assert (a == 8).all() and (b == 16).all() and (c == 8).all()


def test_a_process_sends_the_sum_over_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh, rng = line(), np.random.default_rng(5)
    x, w = (rng.integers(-2, 3, shape).astype("float32") for shape in ((64, 5), (5, 7)))
    f = tfn.grad(lambda w, x: tnp.square(x @ w).sum())
    for on in (HostGrid((2,), (0, 1)), HostGrid((4,), (0, 1, 2, 3))):
        program, (got,) = run(monkeypatch, f, mesh, on, (w, P()), (x, P("d")))
        sent = [u for u in walk(program.outputs) if u.op is Op.HOST and u.src]
        assert [[s.shape for s in u.src] for u in sent] == [[w.shape]]
        np.testing.assert_array_equal(got, 2 * x.T @ (x @ w))


def test_devices_of_a_process_exchange_without_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = tfn.make_mesh((2, 4), ("x", "y"), (AxisType.Auto, AxisType.Auto))
    f = tfn.shard_map(lambda v: lax.psum(v, "y"), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x"))
    x = np.arange(64, dtype="float32").reshape(8, 8)
    program, (got,) = run(monkeypatch, f, mesh, HostGrid((2, 1), (0, 1)), (x, P("x", "y")))
    assert messages(program) == []
    np.testing.assert_array_equal(got, x.reshape(8, 4, 2).sum(1))


def test_the_program_is_the_same_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh, x = line(), np.ones((8, 2), "float32")
    f = tfn.shard_map(
        lambda v: v + lax.axis_index("d"), mesh=mesh, in_specs=P("d"), out_specs=P("d")
    )
    first, _ = run(monkeypatch, f, mesh, HostGrid((2,), (0, 1)), (x, P("d")))
    second, _ = run(monkeypatch, f, mesh, HostGrid((2,), (0, 1)), (x, P("d")))
    assert first.function is second.function


def test_names_of_fine_meshes() -> None:
    fine = module.Fine(
        (Axis("x", 4), Axis("y", 2), Axis("z", 3)), HostGrid((2, 2, 1), (0, 1, 2, 3))
    )
    assert [str(axis) for axis in fine.mesh] == ["x@hosts:2", "x:2", "y@hosts:2", "z:3"]
    assert fine.names(("z", "x")) == ("z", "x@hosts", "x")
    whole = Partition(fine.mesh, (("x@hosts", "x", "z"), ("y@hosts",), ()))
    assert fine.back(whole).spec == (("x", "z"), ("y",), ())
    assert fine.settled((("x",), ("x@hosts",), ("z", "x"))) == ((), (), ("z",))
    other = Partition((Axis("q", 2),), (("q",),))
    assert fine.partition(other) is other and fine.partition(None) is None
