"""The exchanges of programs are those of the textbook, in number and in bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import lax, nn
from tfn.config import config
from tfn.sharding import Mesh, NamedSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace import runtime
from tfn.transforms.shard.report import alone, exchanges

pytestmark = pytest.mark.usefixtures("compiled")

WIDTH, HIDDEN, LAYERS, BATCH = 16, 64, 3, 8


@pytest.fixture(autouse=True)
def eight_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "devices", 8)


def put(x: Any, mesh: Mesh, *spec: Any) -> tfn.Array:
    return tfn.device_put(np.asarray(x, np.float32), NamedSharding(mesh, P(*spec)))


def moved(step: Any, *args: Any) -> Counter[tuple[str, str]]:
    """How often each exchange happens along each axis."""
    whole = step.lower(*args).view.partitioned
    counts: Counter[tuple[str, str]] = Counter()
    for exchange in exchanges(whole.spmd.function):
        counts[exchange.name, exchange.axis.name] += exchange.times
    return counts


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_data_parallel_adds_all_gradients_up_at_once() -> None:
    mesh = tfn.make_mesh((8,), ("data",), tfn.sharding.AxisType.Auto)
    weights = [put(normal(WIDTH, HIDDEN), mesh), put(normal(HIDDEN, WIDTH), mesh)]
    x = put(normal(BATCH, WIDTH), mesh, "data")

    def loss(weights: Any, x: Any) -> Any:
        return ((nn.relu(x @ weights[0]) @ weights[1]) ** 2).mean()

    step = tfn.jit(lambda w, x: tfn.tree.map(lambda p, g: p - g, w, tfn.grad(loss)(w, x)))
    assert moved(step, weights, x) == {("all_reduce", "data"): 1}
    cost = step.lower(weights, x).cost_analysis()
    assert cost["all_reduce[data] bytes"] == 2 * (2 * WIDTH * HIDDEN * 4) * 7 / 8


def layers(x: Any, up: Any, down: Any) -> Any:
    return lax.scan(lambda x, w: (x + nn.relu(x @ w[0]) @ w[1], None), x, (up, down))[0]


def test_tensor_parallel_adds_up_once_a_layer_and_pass() -> None:
    mesh = tfn.make_mesh((4,), ("model",), tfn.sharding.AxisType.Auto)
    up = put(normal(LAYERS, WIDTH, HIDDEN), mesh, None, None, "model")
    down = put(normal(LAYERS, HIDDEN, WIDTH), mesh, None, "model", None)
    x = put(normal(BATCH, WIDTH), mesh)
    assert moved(tfn.jit(layers), x, up, down) == {("all_reduce", "model"): LAYERS}
    slopes = tfn.jit(tfn.grad(lambda x, up, down: layers(x, up, down).sum(), (0, 1, 2)))
    assert moved(slopes, x, up, down) == {("all_reduce", "model"): 2 * LAYERS}


def test_attention_by_heads_adds_up_once_forward() -> None:
    mesh = tfn.make_mesh((4,), ("model",), tfn.sharding.AxisType.Auto)
    attention = nn.MultiheadAttention.init(tfn.random.key(0), WIDTH, 4)

    def place(path: str, w: tfn.Array) -> tfn.Array:
        spec = ("model", None) if ".out." in path else (None, "model")
        return put(w, mesh, *(spec if w.ndim == 2 else ()))

    leaves, structure = tfn.tree.flatten(attention)
    names = [name for _, name in tfn.tree.places(structure)]
    attention = tfn.tree.unflatten(structure, list(map(place, names, leaves)))
    x = put(normal(2, 8, WIDTH), mesh)
    assert moved(tfn.jit(lambda f, x: f(x)), attention, x) == {("all_reduce", "model"): 1}


def test_fully_sharded_gathers_and_scatters_once_a_layer_and_pass() -> None:
    mesh = tfn.make_mesh((8,), ("fsdp",), tfn.sharding.AxisType.Auto)
    up = put(normal(LAYERS, WIDTH, HIDDEN), mesh, None, "fsdp", None)
    down = put(normal(LAYERS, HIDDEN, WIDTH), mesh, None, "fsdp", None)
    x = put(normal(64 * BATCH, WIDTH), mesh, "fsdp", None)

    def step(up: Any, down: Any, x: Any) -> Any:
        slopes = tfn.grad(lambda up, down: (layers(x, up, down) ** 2).sum(), (0, 1))(up, down)
        return up - slopes[0], down - slopes[1]

    counts = moved(tfn.jit(step), up, down, x)
    assert counts == {("all_gather", "fsdp"): 2 * LAYERS, ("reduce_scatter", "fsdp"): LAYERS}
    new_up, new_down = tfn.jit(step)(up, down, x)
    assert (new_up.sharding, new_down.sharding) == (up.sharding, down.sharding)


@pytest.mark.parametrize("depth", [6, 12])
def test_a_device_holds_its_share_and_two_layers_at_most(depth: int) -> None:
    """Of parameters, moments and gradients; activations are those of its rows."""
    mesh, width, hidden = tfn.make_mesh((8,), ("fsdp",), tfn.sharding.AxisType.Auto), 64, 256
    up = put(normal(depth, width, hidden), mesh, None, "fsdp", None)
    down = put(normal(depth, hidden, width), mesh, None, "fsdp", None)
    x = put(normal(64, width), mesh, "fsdp", None)
    optimizer = nn.optim.adam(1e-3)
    weights = up, down
    state = tfn.tree.map(lambda s: put(s, mesh, *[None, "fsdp"][: s.ndim]), optimizer.init(weights))

    def step(weights: Any, state: Any, x: Any) -> Any:
        slopes = tfn.grad(lambda w: (layers(x, *w) ** 2).sum())(weights)
        updates, state = optimizer.update(slopes, state, weights)
        return nn.optim.apply_updates(weights, updates), state

    run = tfn.jit(step, donate_argnums=(0, 1))
    whole = run.lower(weights, state, x).view.partitioned
    plan = runtime.installed().footprint(alone(whole))
    parameters, rows = sum(w.nbytes for w in weights), 64 // 8
    assert plan.argument_bytes <= 3 * parameters / 8 + x.nbytes / 8 + 64
    kept = depth * rows * (width * 4 + hidden * 4 + hidden)  # inputs of layers, relu and its mask
    assert plan.temporary_bytes <= parameters / 8 + kept + 2 * parameters / depth
    assert plan.output_bytes <= 3 * parameters / 8 + 64


def test_gradients_of_what_all_steps_share_are_added_up_after_the_loop() -> None:
    mesh = tfn.make_mesh((8,), ("data",), tfn.sharding.AxisType.Auto)
    x, w = normal(6, 16, WIDTH), 0.1 * normal(WIDTH, WIDTH)
    parts = put(x, mesh, None, "data")

    def recurrent(w: Any, x: Any) -> Any:
        step = lambda h, r: (tfn.numpy.tanh(r + h @ w), None)
        return lax.scan(step, tfn.numpy.zeros((16, WIDTH)), x)[0].sum()

    def accumulated(w: Any, x: Any) -> Any:
        slope = tfn.grad(lambda w, r: (tfn.numpy.tanh(r @ w) ** 2).sum())
        return lax.scan(lambda g, r: (g + slope(w, r), None), w, x)[0]

    def read(w: Any, x: Any) -> Any:
        slope = tfn.grad(lambda w, r: (tfn.numpy.tanh(r @ w) ** 2).sum())
        return lax.scan(lambda g, r: (g + slope(w, r) * (g.sum() > 0), None), w, x)[0]

    for f, times in ((tfn.grad(recurrent), 1), (accumulated, 1), (read, 6)):
        run = tfn.jit(f)
        assert moved(run, w, parts) == {("all_reduce", "data"): times}
        np.testing.assert_allclose(run(w, parts), run(w, x), rtol=2e-5, atol=2e-5)


def test_random_bits_move_nothing() -> None:
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    x = put(normal(64, 8), mesh, "x")
    noisy = tfn.jit(lambda key, x: x + tfn.random.normal(key, x.shape))
    assert moved(noisy, tfn.random.PRNGKey(0), x) == {}
    one = noisy(tfn.random.PRNGKey(0), np.asarray(x))
    np.testing.assert_array_equal(noisy(tfn.random.PRNGKey(0), x), one)


def test_a_program_shows_what_its_devices_do() -> None:
    mesh = tfn.make_mesh((2, 4), ("x", "y"), tfn.sharding.AxisType.Auto)
    a, b = put(normal(8, 16), mesh, "x", "y"), put(normal(16, 8), mesh, "y")
    shown = str(tfn.show(lambda a, b: a @ b, a, b, at="shards"))
    assert shown.startswith(
        "mesh x: 2, y: 4\n"
        "argument 0: [8, 16] over (x, y), 1/8 on each device\n"
        "argument 1: [16, 8] over (y, -), 1/4 on each device\n"
        "result 0: [8, 8] over (x, -), 1/2 on each device\n"
    )
    assert shown.endswith("all_reduce over y: f32[4,8], 1 time, 192 bytes received by a device")
    assert str(tfn.show(lambda a: a + 1, np.ones(2), at="shards")).startswith("on one device\n{")
