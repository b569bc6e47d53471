"""Optimizers against their formulas, written out for two steps; and what all of them must do."""

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn import tree
from tfn.errors import ArgumentError
from tfn.nn import optim, schedules

P = np.array([1.0, -2.0], np.float32)
G = [np.array([0.5, -4.0], np.float32), np.array([-1.0, 3.0], np.float32)]


def run(optimizer: optim.GradientTransformation, p: np.ndarray = P) -> np.ndarray:
    params = {"w": jnp.asarray(p)}
    state = optimizer.init(params)
    for g in G:
        updates, state = optimizer.update({"w": jnp.asarray(g)}, state, params)
        params = optim.apply_updates(params, updates)
    return np.asarray(params["w"])


def adam(rate: float, decay: float = 0.0) -> np.ndarray:
    p, m, v = P.astype(np.float64), np.zeros(2), np.zeros(2)
    for t, g in enumerate(G, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        p = p - rate * (step + decay * p)
    return p


def test_sgd() -> None:
    np.testing.assert_allclose(run(optim.sgd(0.1)), P - 0.1 * (G[0] + G[1]), rtol=1e-6)
    first, second = G[0], G[1] + 0.9 * G[0]
    np.testing.assert_allclose(run(optim.sgd(0.1, 0.9)), P - 0.1 * (first + second), rtol=1e-6)
    ahead = (G[0] + 0.9 * first) + (G[1] + 0.9 * second)
    np.testing.assert_allclose(run(optim.sgd(0.1, 0.9, nesterov=True)), P - 0.1 * ahead, rtol=1e-5)


def test_adam() -> None:
    np.testing.assert_allclose(run(optim.adam(0.1)), adam(0.1), rtol=1e-5)
    np.testing.assert_allclose(run(optim.adamw(0.1, weight_decay=0.5)), adam(0.1, 0.5), rtol=1e-5)
    np.testing.assert_allclose(run(optim.adamw(0.1, weight_decay=0.5, mask={"w": False})),
                               adam(0.1), rtol=1e-5)  # fmt: skip


def test_schedules_count_the_steps_before() -> None:
    rate = schedules.piecewise_constant_schedule(1.0, {1: 0.1})
    np.testing.assert_allclose(run(optim.sgd(rate)), P - G[0] - 0.1 * G[1], rtol=1e-6)


def test_clipping() -> None:
    tree_of = {"a": jnp.array([3.0]), "b": jnp.array([[4.0]])}
    assert optim.global_norm(tree_of).item() == 5
    clipped, _ = optim.clip_by_global_norm(1.0).update(tree_of, ())
    np.testing.assert_allclose(clipped["b"], [[0.8]], rtol=1e-6)
    same, _ = optim.clip_by_global_norm(10.0).update(tree_of, ())
    np.testing.assert_allclose(same["a"], [3.0])
    cut, _ = optim.clip(3.5).update(tree_of, ())
    assert (cut["a"].tolist(), cut["b"].tolist()) == ([3.0], [[3.5]])
    nothing, _ = optim.clip_by_global_norm(1.0).update({"a": jnp.zeros(2)}, ())
    assert nothing["a"].tolist() == [0, 0]


def test_chain_keeps_the_states_apart() -> None:
    optimizer = optim.chain(optim.trace(0.9), optim.identity(), optim.scale(-1.0))
    state = optimizer.init({"w": jnp.asarray(P)})
    assert len(state) == 3
    _, state = optimizer.update({"w": jnp.asarray(G[0])}, state)
    np.testing.assert_array_equal(state[0].trace["w"], G[0])


def test_weight_decay_needs_parameters() -> None:
    optimizer = optim.add_decayed_weights(0.1)
    with pytest.raises(ArgumentError, match="needs the parameters"):
        optimizer.update({"w": jnp.asarray(P)}, optimizer.init(None))


def test_updates_keep_the_dtype_of_parameters() -> None:
    out = optim.apply_updates({"w": jnp.ones(2, "bfloat16")}, {"w": jnp.ones(2)})
    assert out["w"].dtype == jnp.bfloat16


@pytest.mark.parametrize("make", [optim.sgd, optim.adam, optim.adamw])
def test_a_compiled_step_finds_a_minimum(make: object) -> None:
    optimizer = make(0.1)  # type: ignore[operator]

    @tfn.jit
    def step(params: object, state: object) -> object:
        slopes = tfn.grad(lambda p: ((p["x"] - 3) ** 2).sum() + ((p["y"] + 1) ** 2).sum())(params)
        updates, state = optimizer.update(slopes, state, params)
        return optim.apply_updates(params, updates), state

    params = {"x": jnp.zeros(2), "y": jnp.zeros(())}
    state = optimizer.init(params)
    first = tree.structure(state)
    for _ in range(200):
        params, state = step(params, state)
    assert tree.structure(state) == first
    np.testing.assert_allclose(params["x"], [3, 3], atol=0.05)
    np.testing.assert_allclose(params["y"], -1, atol=0.05)
