"""Constraints on the division of values."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn.errors import ArgumentError, ShapeError
from tfn.sharding import NamedSharding

X = np.arange(32, dtype="float32").reshape(4, 8)
pytestmark = pytest.mark.usefixtures("eight_devices")


def over(*spec: object) -> NamedSharding:
    return NamedSharding(
        tfn.make_mesh((2, 4), ("x", "y"), tfn.sharding.AxisType.Auto), tfn.P(*spec)
    )


def test_values_stay_and_are_divided() -> None:
    for sharding in (over("x", "y"), over("y"), over(None, ("y", "x")), over()):
        f = tfn.jit(partial(lambda way, x: lax.with_sharding_constraint(x * 2, way), sharding))
        for x in (X, tfn.device_put(X, over("x"))):
            assert np.array_equal(f(x), 2 * X) and f(x).sharding.is_equivalent_to(sharding, 2)
    assert lax.with_sharding_constraint(X, over("x")).sharding == over("x"), "outside of jit"
    assert lax.with_sharding_constraint(X, None) is X


def test_sizes_need_not_divide() -> None:
    """As in JAX: inside of jit parts are padded, and no result is."""
    x = np.arange(30, dtype="float32").reshape(6, 5)
    f = tfn.jit(lambda x: lax.with_sharding_constraint(x * 2, over("y", "x")))
    assert np.array_equal(f(x), 2 * x) and f(x).sharding.is_equivalent_to(over(), 2)
    text = str(tfn.show(f, x, at="shards"))
    assert "f32[2,3]" in text and "all_gather" in text
    total = tfn.jit(lambda x: lax.with_sharding_constraint(x, over("y", "x")).sum(0).max())
    assert total(x) == x.sum(0).max() and total(-x) == (-x).sum(0).max()
    slope = tfn.grad(lambda x: (lax.with_sharding_constraint(x, over("y")) ** 2).prod())
    np.testing.assert_allclose(slope(x + 1), tfn.grad(lambda x: (x**2).prod())(x + 1))
    assert lax.with_sharding_constraint(x, over("x", "y")).sharding == over("x", None)
    with pytest.raises(ShapeError, match="cannot divide axis 0 of size 6 into 4"):
        tfn.device_put(x, over("y"))


def test_derivatives_and_batches() -> None:
    def loss(x: tfn.Array) -> tfn.Array:
        return (lax.with_sharding_constraint(x * x, over("x")) ** 2).sum()

    for x in (X, tfn.device_put(X, over("y"))):
        assert np.array_equal(tfn.grad(loss)(x), 4 * X**3)
        assert np.array_equal(tfn.jit(tfn.grad(loss))(x), 4 * X**3)
    rows = tfn.vmap(lambda r: lax.with_sharding_constraint(r + 1, over("y")))(X)
    assert np.array_equal(rows, X + 1)


def test_lanes_are_divided_by_their_name() -> None:
    f = tfn.vmap(lambda r: lax.with_sharding_constraint(r + 1, over("y")), spmd_axis_name="x")
    for run in (f, lambda x: tfn.vmap(tfn.jit(f))(x[None])[0]):
        rows = tfn.jit(run)(X)
        assert np.array_equal(rows, X + 1) and rows.sharding.is_equivalent_to(over("x", "y"), 2)
    same = tfn.vmap(lambda r: lax.with_sharding_constraint(r + 1, over("x")), spmd_axis_name="x")
    assert tfn.jit(same)(X).sharding.is_equivalent_to(over(None, "x"), 2), "an axis divides once"


def test_trees_and_specs() -> None:
    tree = {"a": X, "b": X[0]}
    f = tfn.jit(lambda t: lax.with_sharding_constraint(t, {"a": tfn.P("x"), "b": None}))
    with tfn.set_mesh(over().mesh):
        assert f(tree)["a"].sharding.is_equivalent_to(over("x"), 2)
    wide = tfn.sharding.Mesh(tfn.devices()[:4], "x")
    with wide:
        assert len(f(tree)["a"].devices()) == 4, "another mesh is another program"
    with pytest.raises(ArgumentError, match="with_sharding_constraint got a PartitionSpec, and no"):
        f(tree)
    with pytest.raises(ShapeError, match="longer than the shape"):
        tfn.jit(lambda x: lax.with_sharding_constraint(x[0], over("x", "y")))(X)


def test_axes_left_to_the_compiler() -> None:
    spec = tfn.P(tfn.P.UNCONSTRAINED, "y")
    f = tfn.jit(lambda x: lax.with_sharding_constraint(x, NamedSharding(over().mesh, spec)))
    assert np.array_equal(f(X), X) and f(X).sharding.spec == tfn.P(None, "y")
    assert f(tfn.device_put(X, over("x"))).sharding.spec == tfn.P("x", "y")
