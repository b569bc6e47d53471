"""Meshes of devices, and the division of arrays among them: the names of `jax.sharding`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tfn.eager.devices import make_mesh as make_mesh
from tfn.eager.shards import Shard as Shard
from tfn.eager.transfer import reshard as reshard
from tfn.trace.mesh import AbstractMesh as AbstractMesh
from tfn.trace.mesh import AxisType as AxisType
from tfn.trace.mesh import Device as Device
from tfn.trace.mesh import Mesh as Mesh
from tfn.trace.mesh import get_abstract_mesh as get_abstract_mesh
from tfn.trace.mesh import get_mesh as get_mesh
from tfn.trace.mesh import set_mesh as set_mesh
from tfn.trace.named_sharding import NamedSharding as NamedSharding
from tfn.trace.named_sharding import PartitionSpec as PartitionSpec
from tfn.trace.named_sharding import Sharding as Sharding
from tfn.trace.named_sharding import SingleDeviceSharding as SingleDeviceSharding

P = PartitionSpec
use_mesh = set_mesh


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding of arrays on one device.

    Example:
        >>> make_single_device_sharding(Device("cpu", 0))
        SingleDeviceSharding(cpu:0)
    """
    return SingleDeviceSharding(device)


def auto_axes(
    function: Callable[..., Any] | None = None, *, axes: Any = None, out_sharding: Any = None
) -> Any:
    """A function in which the compiler divides values, with the sharding of its result given.

    Args:
        function: the function; without one, a decorator.
        axes: accepted as in JAX: the compiler chooses over all axes that no sharding fixes.
        out_sharding: the sharding of the result, or a tree of them; the function that is returned
            takes another one under this name.

    Example:
        >>> mesh = make_mesh((1,), "x")
        >>> double = auto_axes(lambda x: 2 * x, out_sharding=NamedSharding(mesh, P("x")))
        >>> import tfn.numpy as tnp
        >>> double(tnp.ones(2)).tolist()
        [2.0, 2.0]
    """
    if function is None:
        return lambda f: auto_axes(f, axes=axes, out_sharding=out_sharding)

    @wraps(function)
    def run(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if out_sharding is None else reshard(result, out_sharding)

    return run


def explicit_axes(
    function: Callable[..., Any] | None = None, *, axes: Any = None, in_sharding: Any = None
) -> Any:
    """A function whose arguments are divided as a sharding says.

    Args:
        function: the function; without one, a decorator.
        axes: accepted as in JAX.
        in_sharding: the sharding of the arguments, or a tree of them that begins like the tuple of
            arguments; the function that is returned takes another one under this name.
    """
    if function is None:
        return lambda f: explicit_axes(f, axes=axes, in_sharding=in_sharding)

    @wraps(function)
    def run(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        if in_sharding is not None:
            args = reshard(args, in_sharding)
        return function(*args, **kwargs)

    return run
