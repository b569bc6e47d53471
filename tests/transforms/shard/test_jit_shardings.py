"""The shardings that `jit` gives to arguments and results."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError, DeviceError, ShapeError, TreeError
from tfn.sharding import Mesh, NamedSharding, SingleDeviceSharding

X = np.arange(32, dtype="float32").reshape(4, 8)
P = tfn.P
pytestmark = pytest.mark.usefixtures("eight_devices")


def over(*spec: object) -> NamedSharding:
    return NamedSharding(tfn.make_mesh((2, 4), ("x", "y"), tfn.sharding.AxisType.Auto), P(*spec))


def test_arguments_are_put() -> None:
    f = tfn.jit(lambda x, y: (x + 1, y), in_shardings=(over("x"), None))
    for x in (X, tnp.asarray(X), tfn.device_put(X, over("x"))):
        a, b = f(x, 2.0)
        assert a.sharding == over("x") and np.array_equal(a, X + 1) and float(b) == 2
    assert f.cache_info().entries == 1
    whole = tfn.jit(lambda t, *, k: t["w"] * k, in_shardings=over("y"))
    assert whole({"w": X}, k=2).sharding == over("y")
    assert f.lower(tfn.ShapeDtypeStruct((4, 8), "float32"), 1.0).compile()(X, 1.0)[0].committed


def test_results_are_divided() -> None:
    f = tfn.jit(lambda x: {"a": x, "b": (x.sum(), x.T)}, out_shardings={"a": over("y"), "b": None})
    result = f(X)
    assert result["a"].sharding == over("y") and np.array_equal(result["b"][1], X.T)
    g = tfn.jit(lambda: tnp.ones((8, 4)), out_shardings=over("y", "x"))
    assert g().sharding == over("y", "x") and g().tolist() == np.ones((8, 4)).tolist()
    part = Mesh(tfn.devices()[4:6], "z")
    h = tfn.jit(lambda: tnp.ones(4), out_shardings=NamedSharding(part, P("z")))
    assert h().devices() == set(tfn.devices()[4:6])
    both = tfn.jit(lambda x: x * 2, in_shardings=over("x"), out_shardings=over(None, "y"))
    assert both(X).sharding == over(None, "y") and np.array_equal(both(X), 2 * X)
    assert both(X)._data is not None


@pytest.mark.usefixtures("compiled")
def test_a_result_has_the_sharding_as_it_was_written() -> None:
    lone = tfn.make_mesh((1,), "z", tfn.sharding.AxisType.Auto)
    for way in (over("x", None), NamedSharding(lone, P("z")), NamedSharding(lone, P(None, "z"))):
        step = tfn.jit(lambda x: x + 1, in_shardings=way, out_shardings=way)
        x = step(step(X))
        assert x.sharding == way and np.array_equal(x, X + 2) and step.cache_info().entries == 1
        assert step._direct[0](x) is not NotImplemented


def test_one_device() -> None:
    device = tfn.devices()[3]
    for options in ({"device": device}, {"out_shardings": SingleDeviceSharding(device)}):
        f = tfn.jit(lambda x: x * 2, **options)
        assert f(2.0).device == f(tfn.device_put(1.0, device)).device == device
        with pytest.raises(DeviceError, match="on other devices than its results"):
            f(tfn.device_put(1.0, tfn.devices()[0]))


def test_specs_of_the_mesh_that_is_set() -> None:
    f = tfn.jit(lambda x: x + 1, in_shardings=P("x"), out_shardings=P(None, "x"))
    with tfn.set_mesh(over().mesh):
        assert f(X).sharding == over(None, "x")
    flat = tfn.make_mesh((4,), "x", tfn.sharding.AxisType.Auto)
    with tfn.set_mesh(flat):
        assert f(X).sharding == NamedSharding(flat, P(None, "x"))
    with pytest.raises(ArgumentError, match="no mesh is set"):
        f(X)


def test_functions_within_functions() -> None:
    inner = tfn.jit(lambda x: x * 2, in_shardings=over("x"), out_shardings=over("y"))
    outer = tfn.jit(lambda x: inner(x) + 1)
    assert np.array_equal(outer(X), 2 * X + 1)
    assert outer(tfn.device_put(X, over())).sharding.is_equivalent_to(over("y"), 2)
    slope = tfn.grad(lambda x: inner(x * x).sum())(tfn.device_put(X, over("x")))
    assert np.array_equal(slope, 4 * X)


def test_mistakes() -> None:
    f = tfn.jit(lambda x: x, in_shardings=over("x"))
    with pytest.raises(ArgumentError, match="argument x of <lambda> has another sharding"):
        f(tfn.device_put(X, over("y")))
    with pytest.raises(ShapeError, match="cannot divide axis 0 of size 3"):
        f(np.ones(3))
    with pytest.raises(TreeError, match="in_shardings of <lambda> does not fit"):
        tfn.jit(lambda x: x, in_shardings=(over("x"), None))(X)
    with pytest.raises(TreeError, match="out_shardings of <lambda> does not fit"):
        tfn.jit(lambda x: x, out_shardings=(over("x"), None))(X)
    with pytest.raises(ShapeError, match="cannot divide axis 0 of size 3"):
        tfn.jit(lambda x: x[:3], out_shardings=over("x"))(X)
    with pytest.raises(ArgumentError, match="in_shardings of <lambda> is a tree of shardings"):
        tfn.jit(lambda x: x, in_shardings=3)
    with pytest.raises(ArgumentError, match="a device and shardings"):
        tfn.jit(lambda x: x, in_shardings=over("x"), device=tfn.devices()[0])


def test_a_new_sharding_is_a_new_program() -> None:
    f = tfn.jit(lambda x: x + 1)
    f(tfn.device_put(X, over("x")))
    f(tfn.device_put(X, over("y")))
    assert f.cache_info().misses == 2 and "P('y')" in f.cache_info().last_miss
