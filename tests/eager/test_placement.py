"""Programs where their arguments are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.eager import placement
from tfn.errors import DeviceError
from tfn.sharding import AxisType, Mesh, SingleDeviceSharding

X = np.arange(32, dtype="float32").reshape(4, 8)
pytestmark = pytest.mark.usefixtures("eight_devices")


def mesh() -> Mesh:
    return tfn.make_mesh((2, 4), ("x", "y"), AxisType.Auto)


def test_results_are_on_the_mesh_of_the_arguments() -> None:
    for spec in (tfn.P("x", "y"), tfn.P("y"), tfn.P()):
        x = tfn.device_put(X, tfn.NamedSharding(mesh(), spec))
        y = x + 1.0
        assert y.sharding.mesh == mesh() and y.sharding.is_equivalent_to(x.sharding, 2)
        assert np.array_equal(y, X + 1)
        total = tfn.jit(lambda v: (v * 2).sum(0))(x)
        assert total.sharding.mesh == mesh() and np.array_equal(total, 2 * X.sum(0))
        assert np.array_equal(x.reshape(2, 16), X.reshape(2, 16))
        assert np.array_equal(x[1:3, ::2], X[1:3, ::2])


def test_arguments_without_a_place_follow() -> None:
    x = tfn.device_put(X, tfn.NamedSharding(mesh(), tfn.P("x")))
    y = tnp.asarray(X)
    for result in (x + y, y + x, tfn.jit(tnp.add)(y, x)):
        assert result.sharding.is_equivalent_to(x.sharding, 2) and np.array_equal(result, 2 * X)
    assert not (y + y).committed


def test_meshes_of_the_same_devices_meet() -> None:
    x = tfn.device_put(X, tfn.NamedSharding(mesh(), tfn.P("x", "y")))
    flat = tfn.NamedSharding(tfn.make_mesh((8,), "z", AxisType.Auto), tfn.P(None, "z"))
    y = tfn.device_put(X, flat)
    assert np.array_equal(x + y, 2 * X) and (x + y).sharding.mesh == mesh()
    assert np.array_equal(y - x, 0 * X) and (y - x).sharding.mesh == flat.mesh
    one = tfn.sharding.Mesh(tfn.devices()[3:4], "x")
    a = tfn.device_put(X, tfn.NamedSharding(one, tfn.P("x")))
    b = tfn.device_put(X, tfn.devices()[3])
    assert np.array_equal(b + a, 2 * X) and (b + a).sharding.mesh == one


def test_arguments_on_different_devices() -> None:
    first, second = (tfn.device_put(1.0, tfn.devices()[i]) for i in (0, 1))
    x = tfn.device_put(X, tfn.NamedSharding(mesh(), tfn.P("x")))
    with pytest.raises(DeviceError, match=r"operand 0: f32\[\] on .*:0 and operand 1: .*:1"):
        first + second
    with pytest.raises(DeviceError, match=r"(?s)<lambda> got arrays.*p: .*:0 and q: .*:1"):
        tfn.jit(lambda p, q: p + q)(first, second)
    with pytest.raises(DeviceError, match="different devices"):
        first * x
    with pytest.raises(DeviceError, match="different devices"):
        tfn.jit(lambda p: p + x)(first)
    rows = tfn.NamedSharding(mesh(), tfn.P("x"))
    with pytest.raises(DeviceError, match="an array that is on one device"):
        tfn.jit(lambda p: lax.with_sharding_constraint(p + tnp.ones(4), rows))(first)


def test_one_device_of_several() -> None:
    device = tfn.devices()[2]
    x = tfn.device_put(X, device)
    for result in (
        x + 1.0,
        tfn.jit(lambda v: v @ v.T)(x),
        x.reshape(-1),
        x.copy(),
        x.astype("int8"),
    ):
        assert result.device == device and result.sharding == SingleDeviceSharding(device)
    assert tfn.grad(lambda v: (v * v).sum())(x).device == device


def test_a_compiled_call_stays_native() -> None:
    x = tfn.device_put(X, tfn.NamedSharding(mesh(), tfn.P("x", "y")))
    f = tfn.jit(lambda v: v * 2 + 1)
    for _ in range(2):
        f(x)
    direct = f._direct[0](x)
    assert direct is not NotImplemented and direct.kind is f(x).kind
    assert f._direct[0](tnp.asarray(X)) is NotImplemented, "another sharding is another program"


def test_donated_stacks_are_overwritten() -> None:
    x = tfn.device_put(X, tfn.NamedSharding(mesh(), tfn.P("x", "y")))
    f = tfn.jit(lambda v: v + 1, donate_argnums=0)
    for _ in range(3):
        mine = x.copy()
        address = mine.buffer.address
        y = f(mine)
        assert mine.is_deleted() and y.buffer.address == address
        assert np.array_equal(y, X + 1)
    assert np.array_equal(x, X)


def test_nans_are_blamed_on_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfn.config.config, "debug_nans", True)
    x = tfn.device_put(X - 3, tfn.NamedSharding(mesh(), tfn.P("x")))
    with pytest.raises(tfn.errors.NanError, match="log"):
        tfn.jit(lambda v: tnp.log(v) + 1)(x)


def test_memory_is_that_of_the_stacks() -> None:
    rows = tfn.NamedSharding(mesh(), tfn.P("x"))
    x = tfn.device_put(X, rows)
    f = tfn.jit(lambda v: v + 1)
    assert f.memory_analysis(x).output_bytes == X.nbytes
    assert f(x).sharding.spec == tfn.P("x") and f.cache_info().last.kernels == 1
    compiled = f.lower(x).compile()
    assert compiled(x).sharding == rows and compiled(tnp.asarray(X)).sharding == rows
    assert compiled.input_shardings == ((rows,), {}) and compiled.output_shardings == rows
    plain = tfn.jit(lambda v: {"w": v, "b": v.sum()}).lower(X).compile()
    assert plain.output_shardings == {"w": None, "b": None}
    with pytest.raises(DeviceError, match="compiled for other arguments"):
        compiled(tfn.device_put(X, tfn.devices()[0]))


def test_placed_programs_are_remembered() -> None:
    jaxpr = tfn.make_jaxpr(lambda v: v + 1)(X)
    kinds = [tfn.device_put(X, tfn.NamedSharding(mesh(), tfn.P("x"))).kind]
    assert placement.placed(jaxpr, kinds) is placement.placed(jaxpr, kinds)
    assert placement.placed(jaxpr, kinds).jaxpr.params[0].shape == (2, 2, 8)


def test_what_is_exported_and_verified_is_whole(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    divided = tfn.NamedSharding(mesh(), tfn.P("x", "y"))
    product = tfn.jit(lambda x: lax.with_sharding_constraint(x @ x.T, divided))
    (whole,) = placement.of_whole(product.trace(x).jaxpr).outputs
    assert whole.shape == (8, 8)
    again = tfn.export.deserialize(tfn.export.serialize(product, x))
    np.testing.assert_array_equal(again(x), x @ x.T)
    assert tfn.verify(product, x).proved
    tfn.export(product, x, path=tmp_path / "product.c")
    assert "product" in (tmp_path / "product.c").read_text()
