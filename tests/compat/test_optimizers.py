"""Optimisers of JAX's examples: numbers of JAX 0.10.2, and what they accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import optimizers
from tfn.errors import ArgumentError, TreeError

# fmt: off
RUNS: dict[str, tuple[Any, list[float]]] = {
    "sgd": ((0.1,), [-1.01696, 0.67232, 0.92224, 0.98976, 0.99968]),
    "momentum": ((0.05, 0.9), [-2.0874798, 1.02916, 1.58042, 1.7782799, 1.729]),
    "nesterov": ((0.05, 0.9), [-2.313745, 1.1045817, 1.4157176, 1.3478522, 1.1651357]),
    "adagrad": ((0.3,), [0.717668, 0.2773885, 0.2773885, 0.2773885, 0.2773885]),
    "rmsprop": ((0.1,), [0.0067037, 0.8002049, 0.8002049, 0.8002049, 0.8002049]),
    "rmsprop_momentum": ((0.05,), [-0.4704815, 1.2678714, 1.2678714, 1.2678714, 1.2678714]),
    "adam": ((0.2,), [0.008726, 0.9443629, 0.9443629, 0.944363, 0.9443629]),
    "adamax": ((0.2,), [0.0689603, 0.7996324, 0.7996324, 0.7996324, 0.7996324]),
    "sm3": ((0.3,), [0.717668, 0.2147037, 0.2773885, 0.2773885, 0.2773885]),
}
# fmt: on
"""An optimiser with arguments, and the parameters after five steps on `loss` in JAX."""


def loss(params: Any) -> Any:
    """A quadratic bowl, steeper along some axes."""
    w, b = params["w"], params["b"]
    return ((w - 1) ** 2 * tnp.asarray([[1.0, 2.0], [3.0, 4.0]])).sum() + (b + 2) ** 2


@pytest.mark.parametrize("name", RUNS)
def test_five_steps(name: str) -> None:
    args, expected = RUNS[name]
    init, update, get_params = getattr(optimizers, name)(*args)
    state = init({"w": tnp.zeros((2, 2)), "b": tnp.asarray(1.0)})
    step = tfn.jit(lambda i, state: update(i, tfn.grad(loss)(get_params(state)), state))
    for i in range(5):
        state = step(i, state)
    params = get_params(state)
    found = [float(params["b"]), *np.asarray(params["w"]).ravel()]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_schedules() -> None:
    for schedule, expected in (
        (optimizers.constant(0.5), [0.5, 0.5, 0.5]),
        (optimizers.exponential_decay(1.0, 2, 0.25), [1.0, 0.5, 0.25]),
        (optimizers.inverse_time_decay(1.0, 1, 1.0), [1.0, 0.5, 1 / 3]),
        (optimizers.inverse_time_decay(1.0, 2, 1.0, staircase=True), [1.0, 1.0, 0.5]),
        (optimizers.polynomial_decay(1.0, 2, 0.0, power=2.0), [1.0, 0.25, 0.0]),
        (optimizers.piecewise_constant([0, 1], [3.0, 2.0, 1.0]), [3.0, 2.0, 1.0]),
        (optimizers.make_schedule(lambda i: i), [0, 1, 2]),
    ):
        np.testing.assert_allclose([float(schedule(i)) for i in range(3)], expected, rtol=1e-6)
    with pytest.raises(ArgumentError, match="one value more"):
        optimizers.piecewise_constant([1], [1.0])
    with pytest.raises(ArgumentError, match="a number, or a function"):
        optimizers.make_schedule([1.0])


def test_states_are_packed_and_unpacked() -> None:
    state = optimizers.adam(0.1)[0]({"a": tnp.ones(2), "b": [tnp.zeros(3)]})
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert tfn.tree.structure(again) == tfn.tree.structure(state)
    assert [x.shape for x in tfn.tree.leaves(state)] == [(2,)] * 3 + [(3,)] * 3


def test_gradients_are_clipped() -> None:
    grads = {"a": tnp.asarray([3.0]), "b": tnp.asarray(4.0)}
    assert float(optimizers.l2_norm(optimizers.clip_grads(grads, 1.0))) == pytest.approx(1.0)
    assert optimizers.clip_grads(grads, 9.0)["a"].tolist() == [3.0]


def test_other_trees_are_told() -> None:
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TreeError, match="gradients of the structure"):
        update(0, [1.0], init({"a": 1.0}))
    grown = optimizers.optimizer(lambda: (lambda x: x, lambda i, g, x: (x, x), lambda x: x))()
    with pytest.raises(TreeError, match="a state of the structure"):
        grown[1](0, 1.0, grown[0](1.0))
