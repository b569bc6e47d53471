"""Exchanges between processes beside kernels: begun early, waited for late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.lower.memory import overlap
from tfn.lower.pipeline import lower
from tfn.lower.program import HostCall, HostPart, Launch
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace.inline import runnable
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.processes import HostGrid
from tfn.transforms.shard import program as sharded

pytestmark = pytest.mark.usefixtures("eight_devices")
LAYERS, WIDTH = 3, 256


def steps_of(loss: Any, *args: tuple[Any, P]) -> list[Any]:
    """The steps of a program of one of two processes."""
    mesh = tfn.make_mesh((2,), ("d",), (AxisType.Auto,))
    jaxpr = tfn.make_jaxpr(loss)(*[x for x, _ in args])
    placed = [NamedSharding(mesh, spec).partition(np.ndim(x)) for x, spec in args]
    local, _ = sharded.stacked(jaxpr, placed, HostGrid((2,), (0, 1)))
    function, _ = runnable(local.function)
    return list(lower(Jaxpr(function), tfn.eager.run.device("cpu").target).steps)


def step(weights: Any, x: Any) -> Any:
    def loss(weights: Any) -> Any:
        y = x
        for w in weights:
            y = tnp.tanh(y @ w)
        return tnp.square(y).sum()

    return tfn.tree.map(lambda w, dw: w - dw, weights, tfn.grad(loss)(weights))


def test_gradients_go_while_those_of_other_layers_are_computed() -> None:
    weights = [np.ones((WIDTH, WIDTH), "float32")] * LAYERS
    jaxpr_args = [(weights[0], P())] * LAYERS + [(np.ones((8, WIDTH), "float32"), P("d"))]
    found = steps_of(lambda *xs: step(list(xs[:-1]), xs[-1]), *jaxpr_args)
    calls = [(i, s) for i, s in enumerate(found) if isinstance(s, HostCall)]
    parts = [s.part for _, s in calls if s.types[0][0] == (WIDTH, WIDTH)]
    begins, ends = parts.count(HostPart.BEGIN), parts.count(HostPart.END)
    assert begins == ends >= LAYERS - 1 and parts.count(HostPart.WHOLE) == LAYERS - begins
    begun = {s.operands: i for i, s in calls if s.part is HostPart.BEGIN}
    for i, s in calls:
        if s.part is HostPart.END:
            between = found[begun[s.operands] + 1 : i]
            assert all(not set(other.operands) & set(s.operands) for other in between)
    first = min(begun.values())
    last = max(i for i, s in calls if s.part is HostPart.BEGIN)
    assert any(isinstance(s, Launch) for s in found[first:last])


def test_small_messages_and_programs_without_any_stay() -> None:
    found = steps_of(lambda x: x.sum(0), (np.ones((8, 4), "float32"), P("d")))
    assert [s.part for s in found if isinstance(s, HostCall) and s.host.results[0][0] != ()] == [
        HostPart.WHOLE
    ]
    assert overlap.overlapped([]) == []


def test_loops_over_nothing_have_no_steps() -> None:
    assert tfn.jit(lambda x: tnp.cumsum(x, axis=1))(tnp.zeros((1, 0, 2))).shape == (1, 0, 2)
