"""The programs of JAX's guides to many devices: arrays on a mesh, explicit shardings, training.

Each is written from the documented interface alone, and its results are formulas of NumPy; with
`jax` in the place of `tfn` the same file passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
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


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    yield from eight_devices()


def auto_mesh(*sizes: int) -> Any:
    return tfn.make_mesh(sizes, ("x", "y")[: len(sizes)], (AxisType.Auto,) * len(sizes))


def explicit_mesh(*sizes: int) -> Any:
    return tfn.make_mesh(sizes, ("x", "y")[: len(sizes)], (AxisType.Explicit,) * len(sizes))


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("float32")


def close(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


def lies(x: Any, mesh: Any, *spec: Any) -> bool:
    there: bool = x.sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), x.ndim)
    return there


# Distributed arrays and automatic parallelization.


def test_an_array_on_a_mesh() -> None:
    mesh = auto_mesh(4, 2)
    x = normal(8, 16)
    y = tfn.device_put(x, NamedSharding(mesh, P("x", "y")))
    assert y.shape == (8, 16) and y.sharding.shard_shape(y.shape) == (2, 8)
    assert [s.data.shape for s in y.addressable_shards] == [(2, 8)] * 8
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data, x[shard.index])
    assert [s.replica_id for s in y.addressable_shards] == [0] * 8
    z = tfn.device_put(y, NamedSharding(mesh, P("x")))
    assert sorted(s.replica_id for s in z.addressable_shards) == [0] * 4 + [1] * 4
    assert y.is_fully_addressable and not y.is_fully_replicated
    w = tfn.device_put(y, NamedSharding(mesh, P()))
    assert w.is_fully_replicated
    np.testing.assert_array_equal(w, x)


def test_elementwise_results_lie_where_operands_do() -> None:
    mesh = auto_mesh(4, 2)
    x = tfn.device_put(normal(8, 16), NamedSharding(mesh, P("x", "y")))
    y = jnp.sin(x)
    close(y, np.sin(np.asarray(x)))
    assert lies(y, mesh, "x", "y")


def test_a_product_of_rows_and_columns() -> None:
    mesh = auto_mesh(4, 2)
    a, b = normal(8, 16), normal(16, 8)
    c = jnp.dot(
        tfn.device_put(a, NamedSharding(mesh, P("x", None))),
        tfn.device_put(b, NamedSharding(mesh, P(None, "y"))),
    )
    close(c, a @ b)
    assert lies(c, mesh, "x", "y")


def test_places_that_do_not_fit_are_refused() -> None:
    devices = tfn.devices()
    a, b = tfn.device_put(np.ones(4), devices[0]), tfn.device_put(np.ones(4), devices[1])
    with pytest.raises((ValueError, RuntimeError), match="device"):
        a + b
    c = jnp.ones(4) + a
    assert c.devices() == {devices[0]}
    here = tfn.make_mesh((4,), "x", (AxisType.Auto,), devices=devices[:4])
    there = tfn.make_mesh((4,), "x", (AxisType.Auto,), devices=devices[4:])
    one, other = (tfn.device_put(np.ones(4), NamedSharding(m, P("x"))) for m in (here, there))
    with pytest.raises((ValueError, RuntimeError), match="device"):
        one + other


def test_constraints_within_jit() -> None:
    mesh = auto_mesh(4, 2)
    x = normal(8, 16)

    @tfn.jit
    def f(x: Any) -> Any:
        y = lax.with_sharding_constraint(x + 1, NamedSharding(mesh, P("y", "x")))
        return y

    y = f(tfn.device_put(x, NamedSharding(mesh, P("x", "y"))))
    assert lies(y, mesh, "y", "x")
    close(y, x + 1)


def network(sizes: tuple[int, ...]) -> list[tuple[Array, Array]]:
    return [(normal(m, n) / np.sqrt(m).astype("float32"), normal(n)) for m, n in pairwise(sizes)]


def predict(params: Any, x: Any) -> Any:
    for w, b in params:
        y = x @ w + b
        x = jnp.maximum(y, 0)
    return y


def loss(params: Any, batch: Any) -> Any:
    x, targets = batch
    return ((predict(params, x) - targets) ** 2).sum(-1).mean()


@pytest.mark.parametrize("kind", ["data", "tensor", "both", "fsdp"])
def test_training_by_placement_alone(kind: str) -> None:
    params, batch = network((8, 32, 16, 8)), (normal(16, 8), normal(16, 8))
    want, slopes = tfn.jit(tfn.value_and_grad(loss))(params, batch)
    mesh = {"data": auto_mesh(8, 1), "tensor": auto_mesh(1, 8)}.get(kind) or auto_mesh(4, 2)
    sharding = partial(NamedSharding, mesh)
    places = [
        (P(None, "y"), P("y")),
        (P("y", None), P()),
        (P(None, "y"), P("y")),
    ]
    if kind == "fsdp":
        places = [(P("x", "y"), P("x"))] * 3
    there = [
        (tfn.device_put(w, sharding(p)), tfn.device_put(b, sharding(q)))
        for (w, b), (p, q) in zip(params, places, strict=True)
    ]
    batch = tfn.device_put(batch, sharding(P("x")))
    step = tfn.jit(lambda p, d: tfn.tree.map(lambda x, g: x - 0.1 * g, p, tfn.grad(loss)(p, d)))
    close(tfn.jit(loss)(there, batch), np.asarray(want))
    moved = step(there, batch)
    for new, old, slope in zip(moved, params, slopes, strict=True):
        for a, b, c in zip(new, old, slope, strict=True):
            close(a, b - 0.1 * np.asarray(c))


def test_shardings_of_arguments_and_results_of_jit() -> None:
    mesh = auto_mesh(4, 2)
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    f = tfn.jit(
        lambda a, b: (a @ b, (a * 2).sum()),
        in_shardings=(rows, columns),
        out_shardings=(columns, None),
    )
    a, b = normal(8, 8), normal(8, 8)
    c, total = f(a, b)
    close(c, a @ b)
    close(total, 2 * a.sum(), 1e-4)
    assert lies(c, mesh, None, "y")
    init = tfn.jit(lambda key: tfn.random.normal(key, (8, 8)), out_shardings=rows)
    values = init(tfn.random.key(0))
    assert lies(values, mesh, "x")
    np.testing.assert_array_equal(values, tfn.random.normal(tfn.random.key(0), (8, 8)))


def test_random_bits_are_the_same_for_all_shardings() -> None:
    key = tfn.random.key(42)
    want = np.asarray(tfn.random.uniform(key, (8, 16)))
    for spec in (P(), P("x"), P("y", "x"), P(None, ("x", "y"))):
        sharding = NamedSharding(auto_mesh(4, 2), spec)
        draw = tfn.jit(lambda key: tfn.random.uniform(key, (8, 16)), out_shardings=sharding)
        np.testing.assert_array_equal(draw(key), want)


# Explicit shardings.


def test_shardings_follow_from_operands() -> None:
    mesh = explicit_mesh(2, 4)
    with tfn.set_mesh(mesh):
        a = tfn.device_put(np.arange(32.0, dtype="float32").reshape(4, 8), P("x", "y"))
        row = tfn.reshard(np.arange(8, dtype="float32").reshape(1, 8), P(None, "y"))
        column = tfn.reshard(np.arange(4, dtype="float32").reshape(4, 1), P("x", None))
        assert a.sharding.spec == P("x", "y")
        total = row + column
        assert lies(total, mesh, "x", "y")
        np.testing.assert_array_equal(total, np.arange(8.0) + np.arange(4.0)[:, None])
        assert lies(a.sum(axis=0), mesh, "y")
        assert lies(a.T, mesh, "y", "x")
        assert lies(jnp.tanh(a), mesh, "x", "y")
        assert lies(a[None], mesh, None, "x", "y")
        assert lies(jnp.expand_dims(a, -1) * jnp.ones(3), mesh, "x", "y", None)
        f = tfn.jit(lambda a: jnp.cos(a).sum(1))
        assert lies(f(a), mesh, "x")
        close(f(a), np.cos(np.asarray(a)).sum(1))


def test_resharding_and_its_derivative() -> None:
    mesh = explicit_mesh(2, 4)
    x = normal(4, 8)
    with tfn.set_mesh(mesh):
        a = tfn.device_put(x, P("x", "y"))
        f = lambda a: tfn.reshard(a, P("y", None)) * 2
        y = tfn.jit(f)(a)
        assert lies(y, mesh, "y", None)
        close(y, 2 * x)
        slope = tfn.jit(tfn.grad(lambda a: (f(a) ** 2).sum()))(a)
        close(slope, 8 * x)


def test_products_over_a_divided_axis_have_out_sharding() -> None:
    mesh = explicit_mesh(2, 4)
    x, y = normal(4, 8), normal(8, 4)
    with tfn.set_mesh(mesh):
        a, b = tfn.device_put(x, P("x", "y")), tfn.device_put(y, P("y", None))
        for spec in (P("x", None), P("x", "y"), P(None, "y"), P()):
            got = tfn.jit(lambda a, b, s=spec: jnp.einsum("ij,jk->ik", a, b, out_sharding=s))(a, b)
            assert lies(got, mesh, *spec)
            close(got, x @ y)
            close(jnp.matmul(a, b, out_sharding=spec), x @ y)
        slope = tfn.grad(lambda a: jnp.dot(a, b, out_sharding=P("x", None)).sum())(a)
        close(slope, np.ones((4, 4)) @ y.T)
        assert lies(slope, mesh, "x", "y")


def test_new_arrays_and_gathers_have_out_sharding() -> None:
    mesh = explicit_mesh(2, 4)
    with tfn.set_mesh(mesh):
        zeros = jnp.zeros((4, 8), out_sharding=P("x", "y"))
        assert lies(zeros, mesh, "x", "y")
        count = lax.broadcasted_iota(int, (4, 8), 1, out_sharding=P("x", "y"))
        assert lies(count, mesh, "x", "y")
        np.testing.assert_array_equal(count, np.tile(np.arange(8), (4, 1)))
        table = tfn.device_put(np.arange(64.0, dtype="float32").reshape(16, 4), P("x", None))
        ids = tfn.device_put(np.array([[3, 1, 4, 15], [9, 2, 6, 5]]), P("x", None))
        rows = table.at[ids].get(out_sharding=P("x", None, None))
        np.testing.assert_array_equal(rows, np.arange(64.0).reshape(16, 4)[np.asarray(ids)])
        assert lies(rows, mesh, "x")


def test_automatic_functions_of_explicit_arrays() -> None:
    mesh = explicit_mesh(2, 4)
    x = normal(4, 8)
    with tfn.set_mesh(mesh):
        a = tfn.device_put(x, P("x", "y"))
        f = tfn.sharding.auto_axes(lambda a: jnp.sort(a.reshape(-1)), out_sharding=P("y"))
        y = tfn.jit(f)(a)
        np.testing.assert_array_equal(y, np.sort(x.ravel()))
        assert lies(y, mesh, "y")


def test_meshes_may_be_chosen_or_set() -> None:
    mesh = explicit_mesh(2, 4)
    assert mesh.shape == {"x": 2, "y": 4} and mesh.axis_names == ("x", "y") and mesh.size == 8
    assert tfn.sharding.get_abstract_mesh().empty
    with tfn.set_mesh(mesh):
        assert tfn.sharding.get_abstract_mesh().axis_names == ("x", "y")
        x = tfn.device_put(np.zeros(8, "float32"), P(("x", "y")))
        assert x.sharding.mesh.shape == mesh.shape
    assert tfn.sharding.get_abstract_mesh().empty


# The training cookbook: a transformer by explicit shardings.


def dimensions(
    layers: int = 2, width: int = 16, heads: int = 4, hidden: int = 32, words: int = 32
) -> Any:
    size = width // heads
    return {
        "embed": (words, width),
        "qkv": (layers, 3, width, heads, size),
        "out": (layers, heads, size, width),
        "in": (layers, width, hidden),
        "down": (layers, hidden, width),
        "unembed": (width, words),
    }


SPECS = {
    "fsdp": {
        "embed": P(None, "x"),
        "qkv": P(None, None, "x"),
        "out": P(None, None, None, "x"),
        "in": P(None, "x"),
        "down": P(None, None, "x"),
        "unembed": P("x"),
    },
    "both": {
        "embed": P(None, "x"),
        "qkv": P(None, None, "x", "y"),
        "out": P(None, "y", None, "x"),
        "in": P(None, "x", "y"),
        "down": P(None, "y", "x"),
        "unembed": P("x", "y"),
    },
}


def transformer(params: Any, tokens: Any, act: Any, heads: Any) -> Any:
    """Logits; `act` and `heads` are the shardings of activations, if there are some."""
    options = lambda spec: {} if spec is None else {"out_sharding": spec}
    x = params["embed"].at[tokens].get(**options(act))

    def layer(x: Any, p: Any) -> Any:
        normed = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        qkv = [jnp.einsum("btd,dhk->bthk", normed, p["qkv"][i], **options(heads)) for i in range(3)]
        y = tfn.nn.dot_product_attention(*qkv, is_causal=True)
        x = x + jnp.einsum("bthk,hkd->btd", y, p["out"], **options(act))
        normed = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        up = tfn.nn.gelu(
            jnp.einsum("btd,df->btf", normed, p["in"], **options(heads and P(*heads[:3])))
        )
        return x + jnp.einsum("btf,fd->btd", up, p["down"], **options(act)), None

    blocks = {name: params[name] for name in ("qkv", "out", "in", "down")}
    x, _ = lax.scan(tfn.checkpoint(layer), x, blocks)
    return jnp.einsum("btd,dv->btv", x, params["unembed"], **options(act))


def cross_entropy(params: Any, tokens: Any, act: Any = None, heads: Any = None) -> Any:
    logits = transformer(params, tokens[:, :-1], act, heads)
    logp = tfn.nn.log_softmax(logits)
    hot = tfn.nn.one_hot(tokens[:, 1:], logits.shape[-1])
    return -(logp * hot).sum(-1).mean()


@pytest.mark.parametrize("axes", ["auto", "explicit"])
@pytest.mark.parametrize("kind", ["fsdp", "both"])
def test_the_transformer_of_the_cookbook(kind: str, axes: str) -> None:
    params = {name: 0.2 * normal(*shape) for name, shape in dimensions().items()}
    tokens = RNG.integers(0, 32, (8, 9))
    want, slopes = tfn.jit(tfn.value_and_grad(cross_entropy))(params, tokens)
    sizes = (8, 1) if kind == "fsdp" else (2, 4)
    mesh = explicit_mesh(*sizes) if axes == "explicit" else auto_mesh(*sizes)
    with tfn.set_mesh(mesh):
        there = {
            name: tfn.device_put(x, NamedSharding(mesh, SPECS[kind][name]))
            for name, x in params.items()
        }
        batch = tfn.device_put(tokens, NamedSharding(mesh, P("x")))
        act, heads = None, None
        if axes == "explicit":
            act, heads = P("x"), P("x", None, "y") if kind == "both" else P("x")

        @tfn.jit
        def step(params: Any, tokens: Any) -> Any:
            value, slopes = tfn.value_and_grad(cross_entropy)(params, tokens, act, heads)
            return tfn.tree.map(lambda p, g: p - 0.5 * g, params, slopes), value

        moved, value = step(there, batch)
        close(value, np.asarray(want), 1e-5)
        for name, p in params.items():
            close(moved[name], p - 0.5 * np.asarray(slopes[name]), 5e-5)
            if axes == "explicit":
                assert lies(moved[name], mesh, *SPECS[kind][name]), name
