"""Forward mode: total over the ops, right to the third derivative, JAX's choices at corners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.covering import together
from tests.transforms.cases import CASES, Case, leaf, run
from tfn.dtypes import FLOAT32, FLOAT64
from tfn.trace import build
from tfn.trace.argument import Reduce
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.jvp import push, trigamma

LEAVES = {Op.CONST, Op.PARAM, Op.LEAF, Op.IOTA, Op.FUNCTION}
STEP = 1e-6
ORDER = 3


def derivatives(case: Case, order: int) -> tuple[list[UOp], dict[UOp, Any], list[UOp]]:
    """The graph, its derivative along one direction, the derivative of that, and so on."""
    leaves, values = case.leaves()
    differentiated = leaves[: len(case.differentiated)]
    directions = [leaf(x) for x in case.differentiated]
    rng = np.random.default_rng(3)
    values |= {d: rng.normal(size=x.shape) for d, x in zip(directions, case.differentiated)}
    graphs = [case.graph(*leaves)]
    for _ in range(order):
        (slope,) = push([graphs[-1]], dict(zip(differentiated, directions)))
        graphs.append(slope if slope is not None else build.zeros(graphs[-1].shape, FLOAT64))
    return graphs, values, differentiated


def moved(
    values: dict[UOp, Any], case: Case, differentiated: list[UOp], by: float
) -> dict[UOp, Any]:
    directions = list(values)[-len(differentiated) :]
    return values | {x: values[x] + by * values[d] for x, d in zip(differentiated, directions)}


@together("case", CASES, ids=lambda case: case.name)
def test_agrees_with_finite_differences(case: Case) -> None:
    graphs, values, differentiated = derivatives(case, ORDER)
    exact = run(graphs, values)
    above = run(graphs[:-1], moved(values, case, differentiated, STEP))
    below = run(graphs[:-1], moved(values, case, differentiated, -STEP))
    for n in range(ORDER):
        found, expected = exact[n + 1], (above[n] - below[n]) / (2 * STEP)
        assert found.dtype == exact[0].dtype and found.shape == exact[0].shape
        scale = 1 + np.abs(expected).max(initial=0)
        np.testing.assert_allclose(
            found, expected, atol=1e-6 * scale, err_msg=f"derivative {n + 1}"
        )


def slope_at(graph: Any, *values: Any) -> list[Any]:
    """The partial derivatives of a graph of scalars."""
    arrays = [np.asarray(v, np.float64) for v in values]
    leaves = [leaf(v) for v in arrays]
    y = graph(*leaves)
    slopes = [push([y], {x: const(1.0, FLOAT64, x.shape)})[0] for x in leaves]
    found = [build.zeros(y.shape, FLOAT64) if s is None else s for s in slopes]
    return [v.tolist() for v in run(found, dict(zip(leaves, arrays)))]


def test_ties_of_max_and_min_are_shared() -> None:
    assert slope_at(build.maximum, 2.0, 2.0) == [0.5, 0.5]
    assert slope_at(build.minimum, 2.0, 2.0) == [0.5, 0.5]
    assert slope_at(build.maximum, 2.0, 1.0) == [1.0, 0.0]


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
def test_ties_of_an_extreme_are_shared(op: Op) -> None:
    x = leaf(np.zeros(4))
    dx = leaf(np.zeros(4))
    sign = 1 if op is Op.MAX else -1
    (slope,) = push([UOp(Op.REDUCE, (x,), Reduce(op, (0,)))], {x: dx})
    assert slope is not None
    (found,) = run([slope], {x: sign * np.array([3.0, 1, 3, 3]), dx: np.array([3.0, 50, 6, 9])})
    assert found == 6


def test_corners_of_elementwise_ops() -> None:
    power = lambda x, y: UOp(Op.POW, (x, y))
    assert slope_at(power, 0.0, 0.0) == [0.0, 0.0]
    assert slope_at(power, 0.0, 1.0) == [1.0, 0.0]
    assert slope_at(power, 0.0, 2.0) == [0.0, 0.0]
    assert slope_at(lambda x: UOp(Op.ABS, (x,)), 0.0) == [1.0]
    assert slope_at(lambda x: UOp(Op.SQRT, (x,)), 0.0) == [np.inf]
    assert slope_at(lambda x: UOp(Op.TANH, (x,)), 1000.0) == [0.0]


def test_unselected_branches_of_where_give_no_nan() -> None:
    def graph(x: UOp) -> UOp:
        positive = x > 0
        safe = build.where(positive, x, build.full_like(x, 1))
        return build.where(positive, UOp(Op.LOG, (safe,)), build.full_like(x, 0))

    assert slope_at(graph, 0.0) == [0.0]


def test_a_cast_rounds_the_tangent_too() -> None:
    x, dx = leaf(np.ones(2)), leaf(np.ones(2))
    (slope,) = push([build.cast(x, FLOAT32)], {x: dx})
    assert slope is build.cast(dx, FLOAT32)


def test_integers_have_no_tangent() -> None:
    x = leaf(np.zeros(3))
    count = build.cast(x, np.dtype("int32"))
    assert push([count, x < 1.0], {x: x}) == [None, None]


@pytest.mark.parametrize(
    ("x", "expected"),  # Abramowitz and Stegun, table 6.1 and 6.4.3, 6.4.4
    [
        (1.0, np.pi**2 / 6),
        (0.5, np.pi**2 / 2),
        (2.0, np.pi**2 / 6 - 1),
        (1e6, 1.0000005000001667e-6),
    ],
)
def test_trigamma(x: float, expected: float) -> None:
    u = leaf(np.zeros(()))
    (found,) = run([trigamma(u)], {u: np.array(x)})
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_sort_of_no_elements(shape: tuple[int, ...]) -> None:
    x = leaf(np.zeros(shape))
    (y,) = build.sort([x], 1)
    (slope,) = push([y], {x: x})
    assert slope is not None and run([slope], {x: np.zeros(shape)})[0].shape == shape


def test_scatter_multiply_at_zero() -> None:
    x, u = leaf(np.zeros(2)), leaf(np.zeros(3))
    du = leaf(np.zeros(3))
    indices = build.reshape(build.cast(build.iota((3,), 0) // 2, np.dtype("int32")), (3, 1))
    y = build.scatter(x, indices, build.reshape(u, (3, 1)), Op.MUL)
    (slope,) = push([y], {u: du})
    assert slope is not None
    values = {x: np.array([2.0, 3.0]), u: np.array([0.0, 5.0, 0.0]), du: np.ones(3)}
    np.testing.assert_array_equal(run([slope], values)[0], [10.0, 3.0])
