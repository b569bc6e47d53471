"""The programs of JAX's guides to many devices: `shard_map`.

Each is written from the documented interface alone, and its results are formulas of NumPy; with
`jax` in the place of `tfn` the same file passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as jnp
from tests.transforms.shard.eight import eight_devices
from tfn import lax
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
EIGHT = [(i, (i + 1) % 8) for i in range(8)]


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    yield from eight_devices()


def mesh_of(*sizes: int) -> Any:
    return tfn.make_mesh(sizes, ("i", "j", "k")[: len(sizes)], (AxisType.Auto,) * len(sizes))


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("float32")


def close(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


def both(f: Callable[..., Any], *args: Any) -> Iterator[Any]:
    """The result outside of `jit` and in it."""
    yield f(*args)
    yield tfn.jit(f)(*args)


# Parts and their shapes.


def test_blocks_of_a_matrix_product_are_summed_and_scattered() -> None:
    a, b = normal(8, 16), normal(16, 4)
    shapes = []

    def block(a: Any, b: Any) -> Any:
        shapes.append((a.shape, b.shape))
        return lax.psum_scatter(a @ b, "j", scatter_dimension=1, tiled=True)

    f = tfn.shard_map(
        block, mesh=mesh_of(4, 2), in_specs=(P("i", "j"), P("j", None)), out_specs=P("i", "j")
    )
    for c in both(f, a, b):
        close(c, a @ b)
        assert c.sharding.spec == P("i", "j")
    assert set(shapes) == {((2, 8), (8, 4))}


def test_out_specs_put_parts_together_or_take_one_of_them() -> None:
    x = np.arange(12.0, dtype="float32").reshape(12, 1)
    mesh = mesh_of(4, 2)
    tile = lambda spec: tfn.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=spec)(x)
    np.testing.assert_array_equal(tile(P("i", "j")), np.tile(x, (4, 2)))
    np.testing.assert_array_equal(tile(P("j", "i")), np.tile(x, (2, 4)))
    np.testing.assert_array_equal(tile(P(None, ("i", "j"))), np.tile(x, (1, 8)))
    np.testing.assert_array_equal(tile(P()), x)


def test_shapes_inside_are_those_of_parts() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(x.shape)
        return x

    x = np.zeros((12, 12), "float32")
    for spec, shape in {
        P("i", "j"): (3, 6),
        P(None, "j"): (12, 6),
        P(("i", "j")): (1.5, 12),
        P("j", "i"): (6, 3),
    }.items():
        run = tfn.shard_map(f, mesh=mesh_of(4, 2), in_specs=spec, out_specs=spec)
        if 1.5 in shape:
            with pytest.raises(ValueError, match="12"):
                run(x)
        else:
            run(x)
            assert seen.pop() == shape


# Each collective.


def test_collectives_of_the_guide() -> None:
    x = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 1, 2])
    mesh = mesh_of(4)

    def run(f: Any, out: Any = P("i")) -> Any:  # noqa: B008
        return np.asarray(tfn.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=out)(x))

    cut = x.reshape(4, 4)
    np.testing.assert_array_equal(run(lambda x: lax.psum(x, "i"), P()), cut.sum(0))
    gathered = run(lambda x: lax.all_gather(x, "i", tiled=True))
    np.testing.assert_array_equal(gathered, np.tile(x, 4))
    gathered = run(lambda x: lax.all_gather(x, "i"), P("i", None))
    np.testing.assert_array_equal(gathered, np.tile(cut, (4, 1)))
    scattered = run(lambda x: lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True))
    np.testing.assert_array_equal(scattered, cut.sum(0))
    shifted = run(lambda x: lax.ppermute(x, "i", [(i, (i + 1) % 4) for i in range(4)]))
    np.testing.assert_array_equal(shifted, np.roll(x, 4))
    some = run(lambda x: lax.ppermute(x, "i", [(0, 2)]))
    np.testing.assert_array_equal(some, [0] * 8 + [3, 1, 4, 1] + [0] * 4)
    swapped = run(lambda x: lax.all_to_all(x, "i", split_axis=0, concat_axis=0, tiled=True))
    np.testing.assert_array_equal(swapped, cut.T.ravel())
    index = run(lambda x: x[:1] * 0 + lax.axis_index("i") * lax.axis_size("i"))
    np.testing.assert_array_equal(index, [0, 4, 8, 12])


def test_sums_over_two_axes_at_once() -> None:
    x = normal(8, 8)
    mesh = mesh_of(4, 2)
    f = tfn.shard_map(
        lambda x: lax.psum(x, ("i", "j")), mesh=mesh, in_specs=P("i", "j"), out_specs=P(None, None)
    )
    want = x.reshape(4, 2, 2, 4).sum((0, 2))
    for y in both(f, x):
        close(y, want)
    one = tfn.shard_map(
        lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i", "j"), out_specs=P(None, "j")
    )
    close(one(x), x.reshape(4, 2, 8).sum(0))


def test_transposes_by_all_to_all() -> None:
    x = normal(16, 24)

    def f(x: Any) -> Any:
        return lax.all_to_all(x, "i", split_axis=1, concat_axis=0, tiled=True)

    f = tfn.shard_map(f, mesh=mesh_of(8), in_specs=P("i", None), out_specs=P(None, "i"))
    for y in both(f, x):
        np.testing.assert_array_equal(y, x)
        assert y.sharding.spec == P(None, "i")
    slope = tfn.grad(lambda x: (f(x) ** 2).sum())(x)
    close(slope, 2 * x)


# Matrix products, whose exchanges overlap with their work.

LHS, RHS = normal(16, 32), normal(32, 8)


def gathered_first(lhs: Any, rhs: Any) -> Any:
    return lax.all_gather(lhs, "i", tiled=True) @ rhs


def gathered_step_by_step(lhs: Any, rhs: Any) -> Any:
    size, index = lax.axis_size("i"), lax.axis_index("i")
    parts = []
    for _ in range(size):
        parts.append(lhs @ rhs)
        lhs = lax.ppermute(lhs, "i", EIGHT)
    # Part s came from device index - s.
    stacked = jnp.stack(parts)
    ordered = stacked[(index - jnp.arange(size)) % size]
    return ordered.reshape(-1, rhs.shape[1])


def gathered_from_both_sides(lhs: Any, rhs: Any) -> Any:
    size, index = lax.axis_size("i"), lax.axis_index("i")
    backward = [(j, i) for i, j in EIGHT]
    rows = lhs.shape[0] // 2
    up, down = lhs[:rows], lhs[rows:]
    out = jnp.zeros((size, 2, rows, rhs.shape[1]), lhs.dtype)
    out = lax.pcast(out, "i", to="varying")
    for s in range(size):
        out = out.at[(index - s) % size, 0].set(up @ rhs)
        out = out.at[(index + s) % size, 1].set(down @ rhs)
        up, down = lax.ppermute(up, "i", EIGHT), lax.ppermute(down, "i", backward)
    return out.reshape(-1, rhs.shape[1])


def gathered_in_a_loop(lhs: Any, rhs: Any) -> Any:
    size, index = lax.axis_size("i"), lax.axis_index("i")
    rows = lhs.shape[0]

    def body(s: Any, carry: Any) -> Any:
        out, lhs = carry
        at = (index - s) % size * rows
        out = lax.dynamic_update_slice(out, lhs @ rhs, (at, 0))
        return out, lax.ppermute(lhs, "i", EIGHT)

    out = lax.pcast(jnp.zeros((rows * size, rhs.shape[1]), lhs.dtype), "i", to="varying")
    return lax.fori_loop(0, size, body, (out, lhs))[0]


@pytest.mark.parametrize(
    "product",
    [gathered_first, gathered_step_by_step, gathered_from_both_sides, gathered_in_a_loop],
)
def test_products_that_gather_their_left_side(product: Any) -> None:
    f = tfn.shard_map(
        product, mesh=mesh_of(8), in_specs=(P("i", None), P(None, "i")), out_specs=P(None, "i")
    )
    for c in both(f, LHS, RHS):
        close(c, LHS @ RHS)
    ct = normal(16, 8)
    loss = lambda lhs, rhs: (f(lhs, rhs) * ct).sum()
    if product is not gathered_in_a_loop:
        for slopes in both(tfn.grad(loss, argnums=(0, 1)), LHS, RHS):
            close(slopes[0], ct @ RHS.T)
            close(slopes[1], LHS.T @ ct)


def scattered_last(lhs: Any, rhs: Any) -> Any:
    return lax.psum_scatter(lhs @ rhs, "i", scatter_dimension=0, tiled=True)


def scattered_step_by_step(lhs: Any, rhs: Any) -> Any:
    size, index = lax.axis_size("i"), lax.axis_index("i")
    parts = lhs.reshape(size, lhs.shape[0] // size, lhs.shape[1])
    total = jnp.zeros((parts.shape[1], rhs.shape[1]), lhs.dtype)
    total = lax.pcast(total, "i", to="varying")
    for s in range(size):
        total = lax.ppermute(total, "i", EIGHT)
        total = total + parts[(index - 1 - s) % size] @ rhs
    return total


def scattered_in_a_scan(lhs: Any, rhs: Any) -> Any:
    size, index = lax.axis_size("i"), lax.axis_index("i")
    parts = lhs.reshape(size, lhs.shape[0] // size, lhs.shape[1])

    def body(total: Any, s: Any) -> Any:
        total = lax.ppermute(total, "i", EIGHT) + parts[(index - 1 - s) % size] @ rhs
        return total, None

    begin = lax.pcast(jnp.zeros((parts.shape[1], rhs.shape[1]), lhs.dtype), "i", to="varying")
    return lax.scan(body, begin, jnp.arange(size))[0]


@pytest.mark.parametrize("product", [scattered_last, scattered_step_by_step, scattered_in_a_scan])
def test_products_that_scatter_their_sum(product: Any) -> None:
    f = tfn.shard_map(
        product, mesh=mesh_of(8), in_specs=(P(None, "i"), P("i", None)), out_specs=P("i", None)
    )
    for c in both(f, LHS, RHS):
        close(c, LHS @ RHS)
    ct = normal(16, 8)
    slopes = tfn.jit(tfn.grad(lambda a, b: (f(a, b) * ct).sum(), argnums=(0, 1)))(LHS, RHS)
    close(slopes[0], ct @ RHS.T)
    close(slopes[1], LHS.T @ ct)


# Attention over a ring.


def ring_attention(q: Any, k: Any, v: Any) -> Any:
    """Keys and values go around; the softmax is kept up to a maximum, as in online softmax."""
    size = lax.axis_size("i")

    def body(carry: Any, _: Any) -> Any:
        top, total, out, k, v = carry
        scores = jnp.einsum("qd,kd->qk", q, k) / np.sqrt(q.shape[-1])
        largest = jnp.maximum(top, scores.max(-1))
        weights = jnp.exp(scores - largest[:, None])
        scale = jnp.exp(top - largest)
        total = total * scale + weights.sum(-1)
        out = out * scale[:, None] + weights @ v
        k, v = lax.ppermute((k, v), "i", [(j, (j + 1) % size) for j in range(size)])
        return (largest, total, out, k, v), None

    top = lax.pcast(jnp.full(q.shape[0], -np.inf, q.dtype), "i", to="varying")
    total = lax.pcast(jnp.zeros(q.shape[0], q.dtype), "i", to="varying")
    begin = (top, total, jnp.zeros_like(q), k, v)
    (_, total, out, *_), _ = lax.scan(body, begin, None, length=size)
    return out / total[:, None]


def test_ring_attention() -> None:
    q, k, v = normal(16, 4), normal(16, 4), normal(16, 4)
    ring = tfn.shard_map(ring_attention, mesh=mesh_of(4), in_specs=P("i"), out_specs=P("i"))

    def plain(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.T / 2.0
        weights = jnp.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    for y in both(ring, q, k, v):
        close(y, plain(q, k, v))
    slopes = tfn.jit(tfn.grad(lambda *a: (ring(*a) ** 2).sum(), argnums=(0, 1, 2)))(q, k, v)
    wants = tfn.grad(lambda *a: (plain(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)
    for slope, want in zip(slopes, wants, strict=True):
        close(slope, np.asarray(want))
    heads = [np.stack([x, x[::-1]]) for x in (q, k, v)]
    close(tfn.vmap(ring)(*heads)[0], np.asarray(plain(q, k, v)))


# Networks.

SIZES = (8, 32, 16, 8)


def parameters() -> list[tuple[Array, Array]]:
    return [(normal(m, n) / np.sqrt(m).astype("float32"), normal(n)) for m, n in pairwise(SIZES)]


def predict(layers: Any, x: Any) -> Any:
    for weight, bias in layers:
        y = x @ weight + bias
        x = jnp.maximum(y, 0)
    return y


def loss_of(layers: Any, batch: Any) -> Any:
    x, targets = batch
    return ((predict(layers, x) - targets) ** 2).sum(-1).mean()


def trained() -> tuple[Any, Any, Any, Any]:
    """Parameters, a batch, and the loss and its gradient on one device."""
    layers, batch = parameters(), (normal(32, 8), normal(32, 8))
    loss, slopes = tfn.jit(tfn.value_and_grad(loss_of))(layers, batch)
    return layers, batch, float(loss), tfn.device_get(slopes)


def check(got: Any, loss: float, slopes: Any) -> None:
    close(got[0], loss)
    for row, want in zip(got[1], slopes, strict=True):
        for x, y in zip(row, want, strict=True):
            close(x, y)


def test_data_parallel_by_shard_map() -> None:
    layers, batch, loss, slopes = trained()

    def part(layers: Any, batch: Any) -> Any:
        return lax.pmean(loss_of(layers, batch), "i")

    f = tfn.shard_map(part, mesh=mesh_of(8), in_specs=(P(), P("i")), out_specs=P())
    for got in both(tfn.value_and_grad(f), layers, batch):
        check(got, loss, slopes)


def test_gradients_inside_are_summed_for_what_all_devices_share() -> None:
    layers, batch, loss, slopes = trained()

    def part(layers: Any, batch: Any) -> Any:
        value, slopes = tfn.value_and_grad(lambda layers: lax.pmean(loss_of(layers, batch), "i"))(
            layers
        )
        return value, slopes

    f = tfn.shard_map(part, mesh=mesh_of(8), in_specs=(P(), P("i")), out_specs=P())
    for got in both(f, layers, batch):
        check(got, loss, slopes)


def test_fully_sharded_by_shard_map() -> None:
    layers, batch, loss, slopes = trained()

    @tfn.checkpoint
    def gathered_predict(layers: Any, x: Any) -> Any:
        for part in layers:
            weight, bias = [lax.all_gather(p, "i", tiled=True) for p in part]
            y = x @ weight + bias
            x = jnp.maximum(y, 0)
        return y

    def part(layers: Any, batch: Any) -> Any:
        x, targets = batch
        mine = ((gathered_predict(layers, x) - targets) ** 2).sum(-1).mean()
        return lax.pmean(mine, "i")

    f = tfn.shard_map(part, mesh=mesh_of(8), in_specs=(P("i"), P("i")), out_specs=P())
    for got in both(tfn.value_and_grad(f), layers, batch):
        check(got, loss, slopes)
        assert all(x.sharding.spec == P("i") for row in got[1] for x in row)


def test_tensor_parallel_by_shard_map() -> None:
    layers, batch, loss, slopes = trained()

    def part(layers: Any, x: Any) -> Any:
        for weight, bias in layers:
            y = lax.psum_scatter(x @ weight, "i", scatter_dimension=1, tiled=True) + bias
            x = jnp.maximum(y, 0)
        return y

    predict = tfn.shard_map(
        part, mesh=mesh_of(8), in_specs=(P("i"), P(None, "i")), out_specs=P(None, "i")
    )
    f = lambda layers, batch: ((predict(layers, batch[0]) - batch[1]) ** 2).sum(-1).mean()
    for got in both(tfn.value_and_grad(f), layers, batch):
        check(got, loss, slopes)


def test_fully_sharded_and_tensor_parallel_by_shard_map() -> None:
    layers, batch, loss, slopes = trained()

    def part(layers: Any, batch: Any) -> Any:
        @tfn.checkpoint
        def layer(part: Any, x: Any) -> Any:
            weight, bias = part
            weight = lax.all_gather(weight, "i", axis=1, tiled=True)
            bias = lax.all_gather(bias, "i", tiled=True)
            total = lax.psum_scatter(x @ weight, "j", scatter_dimension=1, tiled=True)
            return total + bias

        x, targets = batch
        for n, p in enumerate(layers):
            x = layer(p, jnp.maximum(x, 0) if n else x)
        return lax.pmean(lax.psum(((x - targets) ** 2).sum(-1).mean(), "j"), "i")

    specs = [(P("j", "i"), P(("j", "i")))] * 3
    f = tfn.shard_map(part, mesh=mesh_of(2, 4), in_specs=(specs, P("i", "j")), out_specs=P())
    for got in both(tfn.value_and_grad(f), layers, batch):
        check(got, loss, slopes)


def test_pipeline_of_stages_by_shard_map() -> None:
    stages, microbatches, width = 4, 8, 4
    weights, x = normal(stages, width, width), normal(microbatches, 2, width)

    def of_stage(weight: Any, inputs: Any) -> Any:
        stage = lax.axis_index("i")
        ring = [(n, (n + 1) % stages) for n in range(stages)]
        outputs, state = jnp.zeros_like(inputs), jnp.zeros_like(inputs[0])
        outputs, state = lax.pcast((outputs, state), "i", to="varying")
        for t in range(microbatches + stages - 1):
            state = jnp.where(stage == 0, inputs[min(t, microbatches - 1)], state)
            state = jnp.tanh(state @ weight[0])
            at = max(0, t - stages + 1)
            outputs = outputs.at[at].set(jnp.where(stage == stages - 1, state, outputs[at]))
            state = lax.ppermute(state, "i", ring)
        return lax.psum(jnp.where(stage == stages - 1, outputs, 0), "i")

    f = tfn.shard_map(of_stage, mesh=mesh_of(4), in_specs=(P("i"), P()), out_specs=P())

    def plain(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    close(tfn.jit(f)(weights, x), plain(weights, x))
    slope = tfn.jit(tfn.grad(lambda w: (f(w, x) ** 2).sum()))(weights)
    close(slope, np.asarray(tfn.grad(lambda w: (plain(w, x) ** 2).sum())(weights)))


# Control flow.


def test_loops_and_branches_inside() -> None:
    x = np.arange(8.0, dtype="float32")
    mesh = mesh_of(8)

    def run(f: Any, out: Any = P("i")) -> Any:  # noqa: B008
        g = tfn.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=out)
        first, second = both(g, x)
        np.testing.assert_array_equal(first, second)
        return np.asarray(first)

    def scanned(x: Any) -> Any:
        return lax.scan(lambda c, _: (lax.ppermute(c + x, "i", EIGHT), None), x, None, length=3)[0]

    want = x
    for _ in range(3):
        want = np.roll(want + x, 1)
    np.testing.assert_array_equal(run(scanned), want)

    def branch(x: Any) -> Any:
        return lax.cond(lax.axis_index("i") % 2 == 0, lambda x: x * 10, lambda x: -x, x)

    np.testing.assert_array_equal(run(branch), np.where(x % 2 == 0, 10 * x, -x))

    def exchange_in_branch(x: Any) -> Any:
        total = lax.psum(x.sum(), "i")
        return lax.cond(total > 20, lambda x: lax.psum(x, "i"), lambda x: lax.psum(-x, "i"), x)

    np.testing.assert_array_equal(run(exchange_in_branch, P()), [28.0])

    def until(x: Any) -> Any:
        # Each device as often as its own number says.
        return lax.while_loop(lambda c: c[0] < 20, lambda c: c + 1 + c, x + 1)

    want = x + 1
    while (want < 20).any():
        want = np.where(want < 20, 2 * want + 1, want)
    np.testing.assert_array_equal(run(until), want)

    def together(x: Any) -> Any:
        # All as often as the sum says.
        return lax.while_loop(lambda c: lax.psum(c[0], "i") < 100, lambda c: 2 * c, x)

    np.testing.assert_array_equal(run(together), 4 * x)

    def switched(x: Any) -> Any:
        tables = [lambda x, n=n: x * n for n in range(8)]
        return lax.switch(lax.axis_index("i"), tables, x)

    np.testing.assert_array_equal(run(switched), x * x)


def test_maps_of_lanes_inside_and_outside() -> None:
    x = normal(4, 8, 3)
    mesh = mesh_of(8)
    f = tfn.shard_map(lambda x: x - lax.pmean(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    want = x - x.mean(1, keepdims=True)
    close(tfn.vmap(f)(x), want)
    inner = tfn.shard_map(
        lambda x: tfn.vmap(lambda r: r - lax.pmean(r, "i"))(x),
        mesh=mesh,
        in_specs=P(None, "i"),
        out_specs=P(None, "i"),
    )
    close(inner(x), want)
    named = tfn.shard_map(
        lambda x: tfn.vmap(lambda r: r - lax.pmean(lax.pmean(r, "i"), "lane"), axis_name="lane")(x),
        mesh=mesh,
        in_specs=P(None, "i"),
        out_specs=P(None, "i"),
    )
    close(tfn.jit(named)(x), x - x.mean((0, 1)))
    by_axis = tfn.vmap(f, spmd_axis_name=None, in_axes=2, out_axes=2)(x.transpose(1, 2, 0))
    close(by_axis, want.transpose(1, 2, 0))
    jacobian = tfn.jacrev(f)(x[0, :, 0])
    close(jacobian, np.eye(8) - 1 / 8)
    close(tfn.jacfwd(f)(x[0, :, 0]), np.eye(8) - 1 / 8)


# Manual over some axes.


def test_manual_over_one_axis_of_two() -> None:
    mesh = mesh_of(2, 4)
    a, b = normal(8, 16), normal(16, 12)
    seen = []

    def part(a: Any, b: Any) -> Any:
        seen.append((a.shape, b.shape))
        return lax.psum(a @ b, "i")

    f = tfn.shard_map(
        part, mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P(), axis_names={"i"}
    )
    a_there = tfn.device_put(a, NamedSharding(mesh, P("j", "i")))
    b_there = tfn.device_put(b, NamedSharding(mesh, P("i", None)))
    close(tfn.jit(f)(a_there, b_there), a @ b)
    assert set(seen) == {((8, 8), (8, 12))}
    slope = tfn.jit(tfn.grad(lambda a, b: (f(a, b) ** 2).sum()))(a_there, b_there)
    close(slope, 2 * (a @ b) @ b.T, 1e-4)


def test_one_manual_region_in_another() -> None:
    mesh = mesh_of(2, 4)
    x = normal(8, 8)

    def inner(x: Any) -> Any:
        return lax.psum(x, "j")

    def outer(x: Any) -> Any:
        assert x.shape == (4, 8)
        y = tfn.shard_map(inner, in_specs=P(None, "j"), out_specs=P(), axis_names={"j"})(x)
        return lax.psum(y, "i")

    with tfn.set_mesh(mesh):
        f = tfn.shard_map(outer, in_specs=P("i"), out_specs=P(), axis_names={"i"})
        close(tfn.jit(f)(x), x.reshape(2, 4, 4, 2).sum((0, 2)))


# Values that vary, and those that do not.


def test_results_that_may_differ_are_refused() -> None:
    mesh = mesh_of(8)
    x = np.arange(8.0, dtype="float32")
    for f in (lambda x: x, lambda x: lax.axis_index("i"), lambda x: lax.all_gather(x, "i")):
        with pytest.raises(ValueError, match="i"):
            tfn.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P())(x)
    loose = tfn.shard_map(
        lambda x: lax.all_gather(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=False
    )
    np.testing.assert_array_equal(np.asarray(loose(x)).ravel(), x)
    tight = tfn.shard_map(
        lambda x: lax.psum(lax.pcast(x, "i", to="varying"), "i"),
        mesh=mesh,
        in_specs=P(),
        out_specs=P(),
    )
    np.testing.assert_array_equal(tight(x), 8 * x)


def test_unchecked_gradients_are_those_of_checked_ones() -> None:
    layers, batch, loss, slopes = trained()
    for check_vma in (True, False):
        f = tfn.shard_map(
            lambda layers, batch: lax.pmean(loss_of(layers, batch), "i"),
            mesh=mesh_of(8),
            in_specs=(P(), P("i")),
            out_specs=P(),
            check_vma=check_vma,
        )
        check(tfn.jit(tfn.value_and_grad(f))(layers, batch), loss, slopes)


# The older face.


def test_data_parallel_by_pmap() -> None:
    layers, (x, targets), loss, slopes = trained()
    rate = 0.1

    def step(layers: Any, batch: Any) -> Any:
        value, slopes = tfn.value_and_grad(loss_of)(layers, batch)
        slopes = lax.pmean(slopes, "batch")
        moved = [(w - rate * dw, b - rate * db) for (w, b), (dw, db) in zip(layers, slopes)]
        return moved, lax.pmean(value, "batch")

    stacked = tfn.tree.map(lambda p: np.stack([p] * 8), layers)
    parts = (x.reshape(8, 4, 8), targets.reshape(8, 4, 8))
    moved, value = tfn.pmap(step, axis_name="batch")(stacked, parts)
    close(value, np.full(8, loss))
    for (w, b), (w0, b0), (dw, db) in zip(moved, layers, slopes, strict=True):
        assert w.shape == (8, *w0.shape)
        close(w[3], w0 - rate * dw)
        close(b[7], b0 - rate * db)
    same = tfn.pmap(step, axis_name="batch", in_axes=(None, 0), out_axes=None)(layers, parts)
    close(same[1], loss)
    close(same[0][0][0], layers[0][0] - rate * slopes[0][0])
