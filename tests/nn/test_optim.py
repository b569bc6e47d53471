"""Optimizers and schedules: the values of optax, and what all of them must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
from tests.lower.check_passes import HOST
from tests.nn.waves import wave
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError, ShapeError
from tfn.lower.fuse import ranges
from tfn.lower.fuse.boundaries import insert_barriers
from tfn.nn import optim
from tfn.nn.optim import GradientTransformation

PARAMS = {"w": wave(3, 4), "b": wave(3, start=5)}
GRADIENTS = [
    {"w": wave(3, 4, start=20 + 7 * t) * (0.3 + t), "b": wave(3, start=60 + 5 * t) * (1 + t)}
    for t in range(4)
]
MASK = {"w": True, "b": False}
WARM = optim.warmup_cosine_decay_schedule(0.1, 0.3, 2, 6, 0.01)
SGD = optim.sgd(0.1)

# fmt: off
OPTIMIZERS: dict[str, tuple[GradientTransformation, list[float]]] = {
    "sgd": (SGD, [-0.48781, -0.85679, -0.82281, 0.32351, 0.96405, 1.15118, 0.79689, 0.06782]),
    "momentum": (optim.sgd(0.1, 0.9),
        [-0.34827, -0.7512, -0.80083, 0.44098, 0.87297, 0.8944, 0.49517, -0.13694]),
    "nesterov": (optim.sgd(0.1, 0.9, True),
        [-0.48554, -0.74845, -0.65935, 0.72039, 1.16992, 1.06923, 0.46566, -0.35692]),
    "sgd schedule": (optim.sgd(WARM),
        [-0.61162, -0.82444, -0.64951, 0.97864, 1.61661, 1.49426, 0.66914, -0.47069]),
    "adam": (optim.adam(0.1),
        [-0.27701, -0.77558, -0.86076, -0.05817, 0.52449, 0.77108, 0.80724, 0.2869]),
    "adam eps": (optim.adam(0.1, 0.8, 0.95, 1e-3, 1e-4),
        [-0.28304, -0.78114, -0.86858, -0.04266, 0.53882, 0.77953, 0.80498, 0.27264]),
    "adam schedule": (optim.adam(WARM),
        [-0.2819, -0.75456, -0.84158, 0.07786, 0.55107, 0.60737, 0.56528, 0.03808]),
    "adamw": (optim.adamw(0.1, weight_decay=0.2),
        [-0.25473, -0.71313, -0.79003, -0.05016, 0.48365, 0.70495, 0.73864, 0.25719]),
    "adamw mask": (optim.adamw(0.1, weight_decay=0.2, mask=MASK),
        [-0.27701, -0.77558, -0.86076, -0.05016, 0.48365, 0.70495, 0.73864, 0.25719]),
    "lion": (optim.lion(0.1),
        [-0.35066, -0.87125, -0.98206, 4e-05, 0.644, 0.78512, 0.86286, 0.13485]),
    "rmsprop": (optim.rmsprop(0.1),
        [-0.28485, -0.72428, -0.74233, 0.09608, 0.57026, 0.611, 0.82915, 0.03912]),
    "rmsprop outside": (optim.rmsprop(0.1, eps=1e-2, eps_in_sqrt=False, initial_scale=0.5),
        [-0.4144, -0.84662, -0.81257, 0.32055, 0.89741, 1.04242, 0.73392, 0.0494]),
    "rmsprop centered": (
        optim.rmsprop(0.1, centered=True, momentum=0.5, nesterov=True, eps=1e-3),
        [-0.13263, -0.53297, -0.56419, 0.10275, 0.34225, 0.31643, 0.56168, -0.18388]),
    "adagrad": (optim.adagrad(0.1),
        [-0.33284, -0.82778, -0.9084, 0.06605, 0.65916, 0.94159, 0.79004, 0.22354]),
    "lamb": (optim.lamb(0.1, weight_decay=0.2),
        [-0.31343, -0.71387, -0.74726, 0.00795, 0.55061, 0.77548, 0.73754, 0.22821]),
    "adafactor": (optim.adafactor(0.1, min_dim_size_to_factor=2),
        [-0.33571, -0.83022, -0.92287, 0.03073, 0.61534, 0.93582, 0.87133, 0.27137]),
    "adafactor plain": (optim.adafactor(0.1),
        [-0.33571, -0.83022, -0.92287, 0.03261, 0.63777, 0.90356, 0.84892, 0.25156]),
    "adafactor all": (
        optim.adafactor(0.1, min_dim_size_to_factor=2, momentum=0.5, weight_decay_rate=0.01,
                        clipping_threshold=0.5, multiply_by_parameter_scale=False),
        [-0.31998, -0.81271, -0.92967, 0.00457, 0.58019, 0.89885, 0.82857, 0.28822]),
    "clip": (optim.chain(optim.clip(0.2), SGD),
        [-0.35078, -0.87158, -0.98245, 0.01345, 0.64422, 0.9609, 0.85467, 0.29499]),
    "global": (optim.chain(optim.clip_by_global_norm(0.5), SGD),
        [-0.34184, -0.85347, -0.9637, 0.01479, 0.65236, 0.98311, 0.85149, 0.3194]),
    "block": (optim.chain(optim.clip_by_block_rms(0.2), SGD),
        [-0.35434, -0.86047, -0.96192, 0.01044, 0.64318, 0.97342, 0.84584, 0.32046]),
    "trust": (optim.chain(optim.scale_by_trust_ratio(0.1, 2.0, 0.01), SGD),
        [-0.32859, -0.75716, -0.82963, 0.01307, 0.57249, 0.86266, 0.74711, 0.28018]),
    "masked": (optim.masked(optim.adam(0.1), MASK),
        [1.01944, -1.01942, -2.57883, -0.05817, 0.52449, 0.77108, 0.80724, 0.2869]),
    "ema": (optim.chain(optim.ema(0.7), SGD),
        [-0.3231, -0.79221, -0.88873, 0.15778, 0.71893, 0.94195, 0.72196, 0.16242]),
    "ema biased": (optim.chain(optim.ema(0.7, False), SGD),
        [-0.36095, -0.84627, -0.93357, 0.12798, 0.72541, 0.98167, 0.77623, 0.20572]),
    "multi": (optim.multi_steps(optim.adam(0.1), 2),
        [-0.53477, -0.956, -0.80348, -0.03268, 0.59917, 0.92548, 0.72196, 0.15785]),
    "multi schedule": (optim.multi_steps(SGD, lambda n: jnp.where(n < 1, 1, 3)),
        [-0.33536, -0.80274, -0.89258, 0.08802, 0.73391, 1.03463, 0.84875, 0.26368]),
    "injected": (optim.inject_hyperparams(optim.adam)(learning_rate=WARM, b1=0.8),
        [-0.29281, -0.76429, -0.85683, 0.12705, 0.5946, 0.62747, 0.55634, -0.00436]),
}
"""Optimizers, and what optax 0.2.8 makes of PARAMS in four steps: b, then the first of w."""

SCHEDULES: dict[str, tuple[optim.Schedule, list[float]]] = {
    "constant": (optim.constant_schedule(0.5), [0.5] * 8),
    "polynomial": (optim.polynomial_schedule(1.0, 0.1, 2, 10, 3),
        [1.0, 1.0, 1.0, 1.0, 0.676, 0.325, 0.136, 0.1]),
    "linear": (optim.linear_schedule(1.0, 0.0, 10, 5), [1.0, 1.0, 1.0, 1.0, 1.0, 0.7, 0.4, 0.0]),
    "cosine": (optim.cosine_decay_schedule(2.0, 10, 0.1, 1.5),
        [2.0, 1.93433, 1.74843, 1.47325, 0.8364, 0.25312, 0.2, 0.2]),
    "exponential": (optim.exponential_decay(1.0, 4, 0.5, 2),
        [1.0, 1.0, 1.0, 0.8409, 0.5946, 0.35355, 0.21022, 0.04419]),
    "stairs": (optim.exponential_decay(1.0, 4, 0.5, 2, True, 0.3),
        [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.3, 0.3]),
    "growth": (optim.exponential_decay(1.0, 4, 2.0, 0, False, 3.0),
        [1.0, 1.18921, 1.41421, 1.68179, 2.37841, 3.0, 3.0, 3.0]),
    "warm": (optim.warmup_cosine_decay_schedule(0.1, 1.0, 4, 12, 0.2, 2.0),
        [0.1, 0.325, 0.55, 0.775, 0.94026, 0.4, 0.20116, 0.2]),
    "cold": (optim.warmup_cosine_decay_schedule(0.1, 1.0, 0, 12, 0.2),
        [1.0, 0.98637, 0.94641, 0.88284, 0.70353, 0.4, 0.21363, 0.2]),
    "joined": (
        optim.join_schedules([optim.constant_schedule(0.5), optim.linear_schedule(1.0, 0.0, 4),
                              optim.constant_schedule(7.0)], [3, 9]),
        [0.5, 0.5, 0.5, 1.0, 0.5, 0.0, 7.0, 7.0]),
    "pieces": (optim.piecewise_constant_schedule(1.0, {8: 0.1, 3: 0.5}),
        [1.0, 1.0, 1.0, 0.5, 0.5, 0.05, 0.05, 0.05]),
}
"""Schedules, and what optax makes of them at STEPS."""
# fmt: on
STEPS = (0, 1, 2, 3, 5, 8, 11, 20)


def run(optimizer: GradientTransformation, update: Any = None) -> dict[str, Any]:
    params, state = PARAMS, optimizer.init(PARAMS)
    for g in GRADIENTS:
        updates, state = (update or optimizer.update)(g, state, params)
        params = optim.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_values_of_optax(name: str) -> None:
    optimizer, recorded = OPTIMIZERS[name]
    actual = run(optimizer, tfn.jit(optimizer.update))
    both = np.concatenate([np.asarray(actual["b"]), np.asarray(actual["w"]).ravel()[:5]])
    np.testing.assert_allclose(both, recorded, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_keep_their_type(name: str) -> None:
    """So that a step can be the body of a scan, and be compiled once."""
    optimizer, _ = OPTIMIZERS[name]
    state = optimizer.init(PARAMS)
    for _ in range(2):
        updates, new = tfn.eval_shape(optimizer.update, GRADIENTS[0], state, PARAMS)
        assert tree.structure(new) == tree.structure(state)
        for path, a, b in zip(tree.paths(new), tree.leaves(new), tree.leaves(state), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), path
        for u, p in zip(tree.leaves(updates), tree.leaves(PARAMS), strict=True):
            assert (u.shape, u.dtype) == (p.shape, p.dtype)
        state = new


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_optax(name: str) -> None:
    schedule, recorded = SCHEDULES[name]
    each = [float(schedule(jnp.array(n))) for n in STEPS]
    np.testing.assert_allclose(each, recorded, atol=1e-5)
    np.testing.assert_allclose([float(schedule(n)) for n in STEPS], recorded, atol=1e-5)  # type: ignore[arg-type]
    if name != "constant":
        at_once = tfn.jit(tfn.vmap(schedule))(jnp.array(STEPS))
        np.testing.assert_allclose(at_once, recorded, atol=1e-5)


def test_schedules_that_make_no_sense() -> None:
    with pytest.raises(ArgumentError, match="decay_steps"):
        optim.cosine_decay_schedule(1.0, 0)
    with pytest.raises(ArgumentError, match="one boundary"):
        optim.join_schedules([WARM, WARM], [3, 4])


@pytest.mark.parametrize("name", ["adamw", "lamb", "adafactor"])
def test_some_need_parameters(name: str) -> None:
    optimizer, _ = OPTIMIZERS[name]
    with pytest.raises(ArgumentError, match="needs the parameters"):
        optimizer.update(GRADIENTS[0], optimizer.init(PARAMS))


# Parts and wrappers.


def test_clipping() -> None:
    tree_of = {"a": jnp.array([3.0]), "b": jnp.array([[4.0]])}
    assert optim.global_norm(tree_of).item() == 5
    clipped, _ = optim.clip_by_global_norm(1.0).update(tree_of, ())
    np.testing.assert_allclose(clipped["b"], [[0.8]], rtol=1e-6)
    same, _ = optim.clip_by_global_norm(10.0).update(tree_of, ())
    np.testing.assert_allclose(same["a"], [3.0])
    cut, _ = optim.clip(3.5).update(tree_of, ())
    assert (cut["a"].tolist(), cut["b"].tolist()) == ([3.0], [[3.5]])
    for part in (optim.clip_by_global_norm(1.0), optim.clip_by_block_rms(1.0)):
        nothing, _ = part.update({"a": jnp.zeros(2)}, ())
        assert nothing["a"].tolist() == [0, 0]


def test_chain_keeps_the_states_apart() -> None:
    optimizer = optim.chain(optim.trace(0.9), optim.identity(), optim.scale(-1.0))
    state = optimizer.init(PARAMS)
    assert len(state) == 3
    updates, state = optimizer.update(GRADIENTS[0], state)
    np.testing.assert_array_equal(state[0].trace["w"], GRADIENTS[0]["w"])
    np.testing.assert_array_equal(updates["w"], -GRADIENTS[0]["w"])
    with pytest.raises(ValueError):
        optimizer.update(GRADIENTS[0], state[:2])


def test_halves() -> None:
    out = optim.apply_updates({"w": jnp.ones(2, "bfloat16")}, {"w": jnp.ones(2)})
    assert out["w"].dtype == jnp.bfloat16
    params = nn.cast(PARAMS, "bfloat16")
    for optimizer in (optim.adam(0.1), optim.sgd(0.1, 0.9), optim.lion(0.1), optim.lamb(0.1)):
        state = optimizer.init(params)
        updates, state = optimizer.update(params, state, params)
        assert {u.dtype.name for u in tree.leaves(updates)} == {"bfloat16"}
    narrow = optim.adam(0.1, mu_dtype="bfloat16")
    _, state = narrow.update(GRADIENTS[0], narrow.init(PARAMS), PARAMS)
    assert (state[0].mu["w"].dtype, state[0].nu["w"].dtype) == (jnp.bfloat16, jnp.float32)


def test_masks_of_all_kinds() -> None:
    model = nn.MLP.init(random.key(0), (3, 4, 2))
    slopes = tree.map(jnp.ones_like, model)
    by_rank: Callable[[Any], Any] = lambda m: tree.map(lambda x: x.ndim == 2, m)
    # A module is a tree of booleans here, although it can be called.
    for mask in (by_rank, by_rank(model)):
        optimizer = optim.masked(optim.set_to_zero(), mask)
        updates, _ = tfn.jit(optimizer.update)(slopes, optimizer.init(model))
        assert [float(u.sum()) for u in tree.leaves(updates)] == [0, 4, 0, 2]
    for prefix, sums in ((False, [12, 4, 8, 2]), (True, [0] * 4)):
        optimizer = optim.masked(optim.set_to_zero(), prefix)
        updates, _ = optimizer.update(slopes, optimizer.init(model))
        assert [float(u.sum()) for u in tree.leaves(updates)] == sums
    state = optim.masked(optim.adam(0.1), by_rank).init(model)
    assert len(tree.leaves(state.inner_state[0].mu)) == 2


def test_multi_steps_wait() -> None:
    optimizer = optim.multi_steps(SGD, 3)
    state = optimizer.init(PARAMS)
    for n, g in enumerate(GRADIENTS[:3]):
        updates, state = optimizer.update(g, state, PARAMS)
        assert bool(np.asarray(updates["w"]).any()) == (n == 2)
        assert (int(state.mini_step), int(state.gradient_step)) == ((n + 1) % 3, n // 2)
    mean = sum(g["w"] for g in GRADIENTS[:3]) / 3
    np.testing.assert_allclose(updates["w"], -0.1 * mean, rtol=1e-5, atol=1e-6)
    assert not np.asarray(state.acc_grads["w"]).any()


def test_accumulation_is_a_scan() -> None:
    model = nn.Linear.init(random.key(0), 4, 3)
    parts = wave(5, 2, 4)

    def loss(model: nn.Linear, x: Any) -> Any:
        return jnp.square(model(x)).mean()

    def both(model: nn.Linear, parts: Any) -> Any:
        return optim.accumulate(lambda x: tfn.value_and_grad(loss)(model, x), parts)

    actual, slopes = tfn.jit(both)(model, parts)
    whole, expected = tfn.value_and_grad(loss)(model, parts.reshape(10, 4))
    np.testing.assert_allclose(actual, whole, rtol=1e-5)
    np.testing.assert_allclose(slopes.weight, expected.weight, rtol=1e-4, atol=1e-6)
    assert optim.accumulate(jnp.sum, wave(1, 2)).item() == wave(1, 2).sum().item()


def test_not_finite() -> None:
    optimizer = optim.apply_if_finite(optim.adam(0.1), 2)
    step = tfn.jit(optimizer.update)
    state = optimizer.init(PARAMS)
    _, state = step(GRADIENTS[0], state, PARAMS)
    bad = {**GRADIENTS[1], "b": jnp.array([1.0, jnp.nan, 2.0])}
    for count in (1, 2):
        updates, new = step(bad, state, PARAMS)
        assert not any(np.asarray(u).any() for u in tree.leaves(updates))
        np.testing.assert_array_equal(new.inner_state[0].mu["w"], state.inner_state[0].mu["w"])
        assert int(new.inner_state[0].count) == 1
        assert (int(new.notfinite_count), bool(new.last_finite)) == (count, False)
        state = new
    good, after = step(GRADIENTS[1], state, PARAMS)
    assert np.asarray(good["w"]).all()
    assert (int(after.notfinite_count), int(after.total_notfinite)) == (0, 2)
    passed, state = step(bad, state, PARAMS)  # once too often
    assert np.isnan(passed["b"]).any()
    assert int(state.total_notfinite) == 3


def test_injected_numbers_can_be_changed() -> None:
    optimizer = optim.inject_hyperparams(optim.sgd)(0.5, nesterov=False)
    state = optimizer.init(PARAMS)
    assert state.hyperparams["learning_rate"].item() == 0.5
    assert set(state.hyperparams) == {"learning_rate"}
    step = tfn.jit(optimizer.update)
    for rate in (0.5, 0.125):
        state = state._replace(hyperparams={"learning_rate": jnp.array(rate)})
        updates, state = step(GRADIENTS[0], state, PARAMS)
        np.testing.assert_allclose(updates["b"], -rate * GRADIENTS[0]["b"], rtol=1e-6)


def test_none_among_parameters() -> None:
    params = {"a": jnp.ones(2), "b": None}
    optimizer = optim.adamw(0.1)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert updates["b"] is None
    assert optim.apply_updates(params, updates)["b"] is None


# Whole steps.


@pytest.mark.parametrize(
    "make",
    [
        optim.sgd,
        optim.adam,
        optim.adamw,
        optim.lion,
        optim.rmsprop,
        optim.adagrad,
        optim.lamb,
        optim.adafactor,
    ],
)
def test_a_compiled_step_finds_a_minimum(make: Any) -> None:
    rate = optim.cosine_decay_schedule(0.5 if make is optim.adagrad else 0.1, 300)
    optimizer = make(rate)

    def step(carry: Any, _: None) -> Any:
        params, state = carry
        slopes = tfn.grad(lambda p: ((p["x"] - 3) ** 2).sum() + ((p["y"] + 1) ** 2).sum())(params)
        updates, state = optimizer.update(slopes, state, params)
        return (optim.apply_updates(params, updates), state), None

    first = {"x": jnp.ones(2), "y": jnp.full((), -0.5)}
    train = tfn.jit(lambda carry: tfn.lax.scan(step, carry, None, length=300)[0])
    params, _ = train((first, optimizer.init(first)))
    np.testing.assert_allclose(params["x"], [3, 3], atol=0.05)
    np.testing.assert_allclose(params["y"], -1, atol=0.05)


def count(optimizer: GradientTransformation, params: Any) -> int:
    """Kernels of a whole update."""

    def step(params: Any, state: Any, slopes: Any) -> Any:
        updates, state = optimizer.update(slopes, state, params)
        return optim.apply_updates(params, updates), state

    jaxpr = tfn.make_jaxpr(step)(params, optimizer.init(params), params)
    return len(ranges.indexed_kernels(insert_barriers(jaxpr.function, HOST)))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (optim.sgd(0.1, 0.9), 1),
        (optim.adam(0.1), 2),
        (optim.adam(WARM), 3),
        (optim.adamw(0.1), 2),
        (optim.lion(0.1), 3),
        (optim.rmsprop(0.1), 1),
        (optim.adagrad(0.1), 1),
        (optim.lamb(0.1), 5),
        (optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1)), 3),
    ],
)
@pytest.mark.usefixtures("compiled")
def test_an_update_is_few_kernels(make: GradientTransformation, expected: int) -> None:
    """Mostly one for the elements, one for each counter, one for each norm."""
    assert count(make, jnp.ones((64, 48))) <= expected


def steps(optimizer: GradientTransformation, params: Any, gradients: Any) -> Any:
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update(jnp.asarray(gradient), state, params)
        params = optim.apply_updates(params, updates)
    return np.asarray(params)


VALUES = {  # of optax 0.2.8 with JAX 0.10.2
    "nadam": (optim.nadam(0.1), [0.0231066179, 0.0394122824, 0.8815216422]),
    "radam": (optim.radam(0.1), [0.1797735989, -0.0610166043, 0.7248732448]),
    "radam fast": (optim.radam(0.1, b2=0.9), [0.1885780096, -0.0557527207, 0.7671950459]),
}


@pytest.mark.parametrize("name", VALUES)
def test_eight_steps_have_the_values_of_optax(name: str) -> None:
    optimizer, want = VALUES[name]
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=3), rng.normal(size=(8, 3))
    got = steps(optimizer, jnp.asarray(start, "float32"), gradients.astype("float32"))
    np.testing.assert_allclose(got, want, rtol=5e-5)


MUON = {  # of torch.optim.Muon of PyTorch 2.13, which multiplies in bfloat16
    (4, 4): [0.1813, -0.0960, 0.5784, 0.0237, -0.5227, 0.1880],
    (6, 3): [0.2230, -0.3511, 1.6834, 1.2777, 0.4884, -2.2033],
    (3, 6): [1.4295, 1.2777, -2.4571, 1.2431, 0.4871, 0.5019],
}


def test_muon_takes_the_steps_of_pytorch() -> None:
    rng = np.random.default_rng(0)
    for shape, want in MUON.items():
        start, gradients = rng.normal(size=shape), rng.normal(size=(3, *shape))
        got = steps(optim.muon(0.1), jnp.asarray(start, "float32"), gradients.astype("float32"))
        np.testing.assert_allclose(got.ravel()[:6], want, atol=4e-3)


def test_muon_makes_singular_values_equal_and_leaves_vectors_to_adam() -> None:
    rng = np.random.default_rng(1)
    params = {"w": jnp.zeros((3, 8, 5)), "m": jnp.zeros((5, 5)), "b": jnp.zeros(5)}
    grads = {n: jnp.asarray(rng.normal(size=p.shape), "float32") for n, p in params.items()}
    optimizer = optim.muon(1.0, mask={"w": True, "m": True, "b": False})
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    for name, scale in (("w", (8 / 5) ** 0.5), ("m", 1.0)):
        values = np.linalg.svd(np.asarray(updates[name]), compute_uv=False) / scale
        assert values.min() > 0.4 and values.max() < 1.3
    np.testing.assert_allclose(updates["b"], -np.sign(grads["b"]), rtol=1e-4)
    with pytest.raises(ShapeError, match="muon is for matrices"):
        optim.muon(1.0, mask=True).init({"b": jnp.zeros(3)})


@pytest.mark.parametrize("make", [optim.nadam, optim.radam, optim.muon])
def test_new_optimizers_compile_and_take_schedules(make: Any) -> None:
    optimizer = make(optim.linear_schedule(0.1, 0.01, 5))
    w = jnp.ones((3, 3))
    update = tfn.jit(lambda g, s: optimizer.update(g, s, w))
    updates, _ = update(w, update(w, optimizer.init(w))[1])
    assert np.isfinite(updates).all() and np.asarray(updates).sum() < 0
