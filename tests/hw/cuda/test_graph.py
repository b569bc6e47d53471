"""CUDA graphs: nodes in a chain, loops and branches without the host."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.hw.cuda.devices import device_of
from tests.hw.cuda.simulator import Graph, SimulatedCuda
from tests.lower.graphs import inputs, jaxpr, p, run_on, run_oracle
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.hw import commands
from tfn.hw.cuda.graph import ADD, COPIES, ConditionalNode, KernelNode, parameters
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = p(0, 4)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def check(*outputs: UOp) -> SimulatedCuda:
    simulated = SimulatedCuda()
    values = inputs(outputs)
    got = run_on(device_of(simulated), jaxpr(outputs), values)
    for x, y in zip(got, run_oracle(outputs, values), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    return simulated


def total(x: UOp) -> UOp:
    return UOp(Op.GBARRIER, (build.broadcast_to(build.add_up(x, (0,)), x.shape),))


def test_structures_have_the_sizes_of_the_driver() -> None:
    assert ctypes.sizeof(KernelNode) == 72 and ctypes.sizeof(ConditionalNode) == 256
    assert KernelNode.parameters.offset == 40  # type: ignore[attr-defined]
    assert ConditionalNode.handle.offset == 16  # type: ignore[attr-defined]
    assert ConditionalNode.bodies.offset == 32  # type: ignore[attr-defined]


def test_parameters_live_as_long_as_their_addresses() -> None:
    pointers = parameters(ctypes.c_uint64(7), ctypes.c_int(9))
    assert ctypes.c_uint64.from_address(pointers[0]).value == 7
    assert ctypes.c_int.from_address(pointers[1]).value == 9


def test_a_program_is_one_graph() -> None:
    simulated = check(total(X * 2.0) + 1.0)
    assert simulated.calls["cuGraphLaunch"] == 1 and not simulated.calls["cuLaunchKernel"]
    nodes = simulated.calls["cuGraphAddKernelNode"]
    assert nodes == COPIES * len(simulated.launched) >= 2 * COPIES
    assert simulated.calls["cuGraphInstantiateWithFlags"] == COPIES


def test_a_counted_loop_stays_on_the_device() -> None:
    step = body(X * 0.5 + total(X) * 0.1, X)
    simulated = check(build.scan(step, [], [p(0, 4)], [], 100, False)[0])
    assert simulated.calls["cuGraphAddNode"] == 1 and simulated.calls["cuGraphLaunch"] == 1
    assert simulated.launched.count("tfn_loop") == 101


def test_a_loop_moves_the_rows_that_it_reads_and_writes() -> None:
    row = p(0, 3)
    following = row * 0.5 + total(row) * 0.1 + p(1, 3)
    scanned = function([following, following * 2.0], (row.arg, p(1, 3).arg))
    check(*build.scan(scanned, [], [p(0, 3)], [p(1, 150, 3)], 150, True))


def test_loops_within_loops() -> None:
    inner = body(X * 0.5 + total(X) * 0.1, X)
    (deep,) = build.scan(inner, [], [X], [], 90, False)
    outer = function([deep + 1.0, deep], (X.arg,))
    simulated = check(*build.scan(outer, [], [p(0, 4)], [], 70, False))
    assert simulated.calls["cuGraphLaunch"] == 1 and simulated.calls["cuGraphAddNode"] == 2


def test_a_loop_goes_on_while_its_condition_holds() -> None:
    first = build.reshape(build.shrink(X, (0,), (1,)), ())
    small = body(first * first < const(1e3, FLOAT32), X)
    step = body(X * 1.5 + total(X), X)
    simulated = check(build.repeat_while(small, step, [], [], [p(0, 4)])[0])
    assert simulated.calls["cuGraphLaunch"] == 1 and "tfn_test" in simulated.launched


def test_one_branch_runs() -> None:
    ways = [body(X * 2.0 + total(X), X), body(X + 1.0, X), body(X - 1.0, X)]
    index = build.cast(build.reshape(build.shrink(p(1, 2, dtype=INT32), (0,), (1,)), ()), INT32)
    simulated = check(*[build.choose(index + i, ways, [p(0, 4)])[0] for i in (-9, -1, 0, 1, 9)])
    assert simulated.calls["cuGraphLaunch"] == 1
    bodies = [g for g in simulated.objects.values() if isinstance(g, Graph) and not g.ids]
    assert not bodies  # none is empty


def test_an_array_without_elements_needs_no_node() -> None:
    check(p(0, 0, 3) * 2.0, p(1, 5) + 1.0)


def test_every_command_of_a_graph_has_nodes() -> None:
    assert set(ADD) == {commands.Launch, commands.Repeat, commands.Choose}
