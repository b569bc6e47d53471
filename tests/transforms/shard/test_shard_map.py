"""`shard_map`: values, derivatives, specs that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.config import config
from tfn.errors import ArgumentError, AxisError, ShapeError, TreeError
from tfn.sharding import AbstractMesh, Mesh
from tfn.sharding import PartitionSpec as P


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Mesh:
    monkeypatch.setattr(config, "devices", 8)
    return tfn.make_mesh((2, 4), ("x", "y"), tfn.sharding.AxisType.Auto)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_a_product_of_parts(mesh: Mesh) -> None:
    a, b = normal(8, 12), normal(12, 6)
    product = tfn.shard_map(
        lambda a, b: lax.psum(a @ b, "y"),
        mesh=mesh,
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P("x", None),
    )
    for run in (product, tfn.jit(product)):
        np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert tfn.jit(product)(a, b).sharding.spec == P("x")


@pytest.mark.parametrize("check", [True, False])
def test_gradients_are_those_of_the_whole(mesh: Mesh, check: bool) -> None:
    x, w = normal(8, 4), normal(4, 3)

    def parts(x: Any, w: Any) -> Any:
        return lax.pmean(tnp.tanh(x @ w).mean(), ("x", "y"))

    mapped = tfn.shard_map(
        parts, mesh=mesh, in_specs=(P(("x", "y")), P()), out_specs=P(), check_vma=check
    )
    whole = lambda x, w: tnp.tanh(x @ w).mean()
    for got, expected in zip(tfn.grad(mapped, (0, 1))(x, w), tfn.grad(whole, (0, 1))(x, w)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_inside_is_the_sum_over_devices(mesh: Mesh) -> None:
    x, w = normal(8, 4), normal(4, 3)
    slope = lambda w, x: tfn.grad(lambda w: tnp.tanh(x @ w).sum())(w)
    run = tfn.shard_map(slope, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())
    np.testing.assert_allclose(run(w, x), slope(w, x), rtol=1e-5, atol=1e-5)
    inner = tfn.shard_map(tfn.jit(slope), mesh=mesh, in_specs=(P(), P("x")), out_specs=P())
    np.testing.assert_allclose(inner(w, x), slope(w, x), rtol=1e-5, atol=1e-5)


def test_gradients_through_loops(mesh: Mesh) -> None:
    x, w = normal(8, 3) / 4, normal(3, 3) / 4

    def parts(x: Any, w: Any) -> Any:
        def body(c: Any, _: None) -> tuple[Any, Any]:
            return tnp.tanh(c @ w) + lax.axis_index("y") * 0.1, lax.psum(c.sum(), "x")

        c, sums = lax.scan(body, x, None, length=3)
        return c, sums[:, None]

    outs = P(("x", "y")), P(None, "y")
    mapped = tfn.shard_map(parts, mesh=mesh, in_specs=(P("x"), P()), out_specs=outs)
    loss = lambda w, x: sum((y**2).sum() for y in mapped(x, w))

    def whole(w: Any, x: Any) -> Any:
        total, length = 0.0, 3
        for y in range(4):
            c = x
            for _ in range(length):
                total += c.sum() ** 2
                c = tnp.tanh(c @ w) + y * 0.1
            total += (c**2).sum()
        return total

    np.testing.assert_allclose(loss(w, x), whole(w, x), rtol=1e-5)
    np.testing.assert_allclose(tfn.grad(loss)(w, x), tfn.grad(whole)(w, x), rtol=1e-4)


def test_axes_that_stay_automatic(mesh: Mesh) -> None:
    a, b = normal(8, 12), normal(12, 6)
    rows = tfn.shard_map(
        lambda a, b: lax.axis_index("x") + a @ b,
        mesh=mesh,
        in_specs=(P("x"), P()),
        out_specs=P("x"),
        axis_names={"x"},
    )
    expected = a @ b + np.repeat([0, 1], 4)[:, None]
    np.testing.assert_allclose(tfn.jit(rows)(a, b), expected, rtol=1e-5, atol=1e-5)


def test_within_vmap_and_around_it(mesh: Mesh) -> None:
    x = normal(3, 8)
    total = tfn.shard_map(
        lambda v: lax.psum(v.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
    )
    np.testing.assert_allclose(tfn.vmap(total)(x), x.sum(1), rtol=1e-5)
    inside = tfn.shard_map(
        tfn.vmap(lambda v: v / lax.psum(v.sum(), "x")),
        mesh=mesh,
        in_specs=P(None, "x"),
        out_specs=P(None, "x"),
    )
    np.testing.assert_allclose(inside(x), x / x.sum(1, keepdims=True), rtol=1e-4)


def test_a_mesh_without_devices_will_do() -> None:
    mesh = AbstractMesh((2,), ("x",))
    run = tfn.shard_map(lambda v: v[::-1], mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert tfn.make_jaxpr(run)(np.arange(4)).outputs[0].shape == (4,)


def test_what_does_not_fit(mesh: Mesh) -> None:
    def run(f: Any, *args: Any, **options: Any) -> Any:
        given = {"mesh": mesh, "in_specs": P("x"), "out_specs": P("x"), **options}
        return tfn.shard_map(f, **given)(*args)

    with pytest.raises(ShapeError, match="cannot divide axis 0 of size 3 into 2"):
        run(lambda v: v, normal(3))
    with pytest.raises(ShapeError, match="is longer than the shape of"):
        run(lambda v: v, np.float32(1))
    with pytest.raises(AxisError, match="'z', which the mesh does not have"):
        run(lambda v: v, normal(4), in_specs=P("z"))
    with pytest.raises(AxisError, match="divides twice"):
        run(lambda v: v, normal(4, 4), in_specs=P("x", "x"))
    with pytest.raises(ArgumentError, match="may differ between the devices along 'x'"):
        run(lambda v: v, normal(4), out_specs=P())
    with pytest.raises(TreeError, match="in_specs"):
        run(lambda v: v, normal(4), in_specs=(P("x"), P()))
    with pytest.raises(ArgumentError, match="needs a mesh"):
        run(lambda v: v, normal(4), mesh=None)
    with pytest.raises(AxisError, match="not a named axis"):
        run(lambda v: lax.psum(v, "rows"), normal(4))


def test_lanes_of_regions_are_divided_over_axes_that_they_do_not_use(mesh: Mesh) -> None:
    x = normal(2, 8, 4)
    total = tfn.shard_map(lambda v: lax.psum(2 * v, "y"), mesh=mesh, in_specs=P("y"), out_specs=P())
    both = tfn.shard_map(tnp.tanh, mesh=mesh, in_specs=P("y"), out_specs=P("y"))
    lanes = lambda f: tfn.jit(tfn.vmap(f, spmd_axis_name="x"))
    got = lanes(total)(x)
    assert got.sharding.spec == P("x") and lanes(both)(x).sharding.spec == P("x", "y")
    np.testing.assert_allclose(got, 2 * x.reshape(2, 4, 2, 4).sum(1), rtol=1e-5)
    np.testing.assert_allclose(lanes(both)(x), np.tanh(x), rtol=1e-5)
    slope = tfn.jit(tfn.grad(lambda x: (lanes(total)(x) ** 2).sum()))(x)
    np.testing.assert_allclose(slope, np.tile(4 * np.asarray(got), (1, 4, 1)), rtol=1e-5)
    used = tfn.shard_map(lambda v: lax.pmean(v, "x"), mesh=mesh, in_specs=P("y"), out_specs=P("y"))
    np.testing.assert_allclose(lanes(used)(x), x, rtol=1e-6)
    partial = tfn.shard_map(
        lambda v: v + lax.axis_index("y"),
        mesh=mesh, in_specs=P("y"), out_specs=P("y"), axis_names={"y"}, check_vma=False,
    )  # fmt: skip
    assert lanes(partial)(x).sharding.spec == P("x", "y")
