"""Recording: what a trace holds when the function has returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tfn.errors import ArgumentError, ShapeError, TfnError
from tfn.trace import bind, traces
from tfn.trace.op import Op
from tfn.trace.uop import walk
from tfn.transforms.tracing import record


def test_graphs_end_at_their_own_leaves() -> None:
    outer_value = tnp.ones(3)
    with traces.tracing("outer") as outer:
        x = bind.new_leaf(outer, (3,), np.dtype("float32"), "x", outer_value)
        y = tnp.sin(x)
        recorded = record(
            "test", lambda z: z * y + x, lambda leaves: leaves[0] * y + x, [outer_value]
        )
        leaves = [node for node in walk(recorded.outputs) if node.op is Op.LEAF]
        assert len(leaves) == 3 and x.uop not in leaves
        assert {id(leaf.arg.value) for leaf in leaves} == {id(outer_value), id(x), id(y)}
        ((value,),) = recorded.evaluate(recorded.outputs)
        assert value.owner is outer and value.known


def test_known_and_unknown() -> None:
    seen: list[Any] = []
    x = tnp.float32(2.0)
    record("test", seen.append, lambda leaves: seen.append(float(leaves[0])), [x])
    assert seen == [2.0]
    with pytest.raises(TypeError, match=r"float\(\) is needed"):
        record("test", seen.append, lambda leaves: float(leaves[0]), [x], ["x"], known=False)
    assert traces.running() == []


def test_values_seen_by_python_are_computed_once() -> None:
    x = tnp.float32(2.0)

    def look(leaves: list[Any]) -> Any:
        y = leaves[0] * 3
        assert float(y) == 6 and y > 5
        return y

    recorded = record("test", look, look, [x])
    assert recorded.trace.concretized
    assert float(recorded.evaluate(recorded.outputs)[0][0]) == 6


def test_an_array_that_is_a_result_is_itself() -> None:
    x, y = tnp.ones(3), tnp.zeros(2)
    recorded = record("test", max, lambda leaves: [leaves[0], y], [x])
    ((first, second),) = recorded.evaluate(recorded.outputs)
    assert first is x and second is y


def test_aux_is_split_by_owner() -> None:
    y = tnp.zeros(2)
    recorded = record(
        "test",
        max,
        lambda leaves: (leaves[0], {"y": y, "x": leaves[0], "n": "n"}),
        [tnp.ones(3)],
        has_aux=True,
    )
    assert len(recorded.traced_aux) == 1
    assert recorded.fill_aux(["value"]) == {"y": y, "x": "value", "n": "n"}
    for wrong in ((1,), [1, 2, 3], 1):
        with pytest.raises(ArgumentError, match="must return a pair"):
            record("test", max, lambda leaves, wrong=wrong: wrong, [], has_aux=True)


def test_an_error_tells_which_transforms_it_went_through() -> None:
    def loss(x: Any) -> Any:
        return x @ tnp.ones(4)

    first = loss.__code__.co_firstlineno
    with pytest.raises(ShapeError) as caught:
        tfn.jit(tfn.vmap(tfn.grad(loss)))(tnp.ones((2, 3)))
    assert caught.value.__notes__ == [
        f"  while: {what} traced loss (test_tracing.py:{first})" for what in ("grad", "vmap", "jit")
    ]


# Memory.


def test_errors_while_tracing_keep_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1

        def wrong(y: Any) -> Any:
            z = y * c
            return z if (z > 0).all() else z @ tnp.ones(3)

        for transform in (tfn.jit, tfn.vmap, tfn.grad):
            with pytest.raises(TfnError):
                transform(wrong)(x)

    assert growth(step) == NONE
