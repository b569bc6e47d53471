"""The names of `jax.sharding`, and axes that the compiler or the types divide."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import sharding

X = np.arange(32, dtype="float32").reshape(4, 8)
pytestmark = pytest.mark.usefixtures("eight_devices")


def over(*spec: object) -> sharding.NamedSharding:
    return sharding.NamedSharding(tfn.make_mesh((2, 4), ("x", "y")), sharding.P(*spec))


def test_one_name_for_each_thing() -> None:
    assert tfn.P is sharding.PartitionSpec and tfn.NamedSharding is sharding.NamedSharding
    assert tfn.reshard is sharding.reshard and tfn.set_mesh is sharding.use_mesh
    device = tfn.devices()[1]
    assert sharding.make_single_device_sharding(device) == sharding.SingleDeviceSharding(device)


def test_reshard() -> None:
    x = tfn.device_put(X, over("x"))
    assert tfn.reshard(x, over("y")).sharding == over("y")
    f = tfn.jit(lambda v: tfn.reshard({"v": v}, {"v": over(None, "x")})["v"] + 1)
    assert f(x).sharding == over(None, "x") and np.array_equal(f(x), X + 1)
    with pytest.raises(tfn.errors.ArgumentError, match="reshard needs a sharding"):
        tfn.reshard(x, None)


def test_automatic_and_explicit_axes() -> None:
    @sharding.auto_axes(out_sharding=over("x"))
    def double(x: tfn.Array) -> tfn.Array:
        return x * 2

    assert double(X).sharding == over("x") and double(X, out_sharding=over("y")).sharding == over(
        "y"
    )
    with pytest.raises(tfn.errors.ArgumentError, match="needs the sharding of the result"):
        sharding.auto_axes(lambda x: x)(X)

    @sharding.explicit_axes(in_sharding=(over("y"), None))
    def add(x: tfn.Array, n: float) -> tfn.Array:
        return x + n

    assert add(X, 1.0).sharding == over("y") and np.array_equal(add(X, 1.0), X + 1)
    assert add(X, 1.0, in_sharding=over()).sharding == over()
