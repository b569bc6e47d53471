"""Meshes of devices, and the division of arrays among them: the names of `jax.sharding`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from typing import Any, cast

from tfn import tree
from tfn.array import Array
from tfn.eager import run, shards
from tfn.eager.devices import make_mesh as make_mesh
from tfn.eager.shards import Shard as Shard
from tfn.eager.transfer import reshard as reshard
from tfn.errors import ArgumentError, AxisError
from tfn.trace import bind
from tfn.trace.mesh import AbstractMesh as AbstractMesh
from tfn.trace.mesh import AxisType as AxisType
from tfn.trace.mesh import Device as Device
from tfn.trace.mesh import Mesh as Mesh
from tfn.trace.mesh import get_abstract_mesh as get_abstract_mesh
from tfn.trace.mesh import get_mesh as get_mesh
from tfn.trace.mesh import set_mesh as set_mesh
from tfn.trace.mesh import use_abstract_mesh as use_abstract_mesh
from tfn.trace.named_sharding import NamedSharding as NamedSharding
from tfn.trace.named_sharding import PartitionSpec as PartitionSpec
from tfn.trace.named_sharding import Sharding as Sharding
from tfn.trace.named_sharding import SingleDeviceSharding as SingleDeviceSharding
from tfn.trace.op import Op
from tfn.trace.sharding import OPEN, Partition
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard.layout import of_sharding

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


def typeof(x: Any) -> ShapeDtypeStruct:
    """The type of an array; over explicit axes of a mesh, its sharding is a part of it.

    Example:
        >>> import tfn.numpy as tnp
        >>> mesh = make_mesh((1,), "x")
        >>> print(typeof(reshard(tnp.ones((8, 4)), NamedSharding(mesh, P("x")))))
        f32[8@x,4]
    """
    value = x if isinstance(x, ShapeDtypeStruct) else run.asarray(x)
    return value if isinstance(value, ShapeDtypeStruct) else ShapeDtypeStruct.of(value)


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: Any = None,
    out_sharding: Any = None,
) -> Any:
    """A function in which explicit axes are the compiler's, with the sharding of its result given.

    Args:
        f: the function; without one, a decorator.
        axes: the axes of the mesh that are the compiler's in the function: a name, or several; all
            if left out.
        out_sharding: the sharding of the result, or a tree of them; the function that is returned
            takes another one under this name.

    Raises:
        ArgumentError: without a sharding of the result.
        AxisError: for a name that the mesh does not have.

    Example:
        >>> mesh = make_mesh((1,), "x")
        >>> double = auto_axes(lambda x: 2 * x, out_sharding=NamedSharding(mesh, P("x")))
        >>> import tfn.numpy as tnp
        >>> double(tnp.ones(2)).tolist()
        [2.0, 2.0]
    """
    if f is None:
        return lambda f: auto_axes(f, axes=axes, out_sharding=out_sharding)

    @wraps(f)
    def call(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        _check_given("auto_axes", out_sharding, "out_sharding", "sharding of the result")
        mesh = _mesh_of(args, out_sharding)
        free = _retyped("auto_axes", mesh, axes, AxisType.Auto)
        args, kwargs = tree.map(partial(_relabelled, mesh=free), (args, kwargs))
        with _within(free):
            result = f(*args, **kwargs)
        return reshard(result, out_sharding)

    return call


def _check_given(what: str, sharding: Any, keyword: str, meaning: str) -> None:
    """Check that the boundary of `auto_axes` or `explicit_axes` has a sharding.

    Raises:
        ArgumentError: if it has none.
    """
    if sharding is None:
        raise ArgumentError(
            f"{what} needs the {meaning}",
            got=f"{keyword}=None",
            hint=f"pass {keyword}=P(...), to {what} or to the function that it returns",
        )


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: Any = None,
    in_sharding: Any = None,
) -> Any:
    """A function in which axes of the compiler are explicit, with the shardings of its arguments.

    Args:
        f: the function; without one, a decorator.
        axes: the axes of the mesh that are explicit in the function: a name, or several; all if
            left out.
        in_sharding: the sharding of the arguments, or a tree of them that begins like the tuple of
            arguments; the function that is returned takes another one under this name.

    Raises:
        ArgumentError: without shardings of the arguments.
        AxisError: for a name that the mesh does not have.

    Example:
        >>> mesh = make_mesh((1,), "x", (AxisType.Auto,))
        >>> double = explicit_axes(lambda x: 2 * x, in_sharding=NamedSharding(mesh, P("x")))
        >>> import tfn.numpy as tnp
        >>> double(tnp.ones(2)).tolist()
        [2.0, 2.0]
    """
    if f is None:
        return lambda f: explicit_axes(f, axes=axes, in_sharding=in_sharding)

    @wraps(f)
    def call(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        _check_given("explicit_axes", in_sharding, "in_sharding", "shardings of the arguments")
        mesh = _mesh_of(args, in_sharding)
        typed = _retyped("explicit_axes", mesh, axes, AxisType.Explicit)
        places: Any = tree.map(
            lambda place: NamedSharding(typed, cast(Any, getattr(place, "spec", place))),
            in_sharding,
            is_leaf=_is_place,
        )
        with _within(typed):
            result = f(*reshard(args, places), **kwargs)
        return tree.map(partial(_relabelled, mesh=mesh), result)

    return call


def _is_place(x: object) -> bool:
    return isinstance(x, (PartitionSpec, NamedSharding))


def _mesh_of(args: Any, places: Any) -> Any:
    """The mesh that is set, or that of a sharding, or that of an argument."""
    mesh = get_mesh()
    if not mesh.empty:
        return mesh
    for place in tree.leaves(places, is_leaf=_is_place):
        if isinstance(place, NamedSharding):
            return place.mesh
    for x in tree.leaves(args):
        if isinstance(x, Array) and isinstance(typeof(x).sharding, NamedSharding):
            return typeof(x).sharding.mesh
    raise ArgumentError(
        "a function over axes of a mesh needs a mesh",
        got="no mesh is set, and no argument is on one",
        hint="call it within `with tfn.set_mesh(mesh):`",
    )


def _retyped(what: str, mesh: Any, axes: Any, kind: AxisType) -> Any:
    """A mesh of which some axes, or all, have another type."""
    chosen = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    for name in chosen:
        if name not in mesh.axis_names:
            raise AxisError(
                f"{what} over {name!r}, which the mesh does not have",
                got=repr(mesh),
                hint=f"its axes are {', '.join(map(repr, mesh.axis_names))}",
            )
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return mesh.update(axis_types=tuple([kind if n in chosen else old for n, old in pairs]))


def _within(mesh: Any) -> Any:
    """A block in which a mesh is set; one without devices cannot be."""
    return set_mesh(mesh) if isinstance(mesh, Mesh) else nullcontext()


def _relabelled(x: Any, mesh: Any) -> Any:
    """An array of which the axes of the mesh have other types; nothing moves."""
    if not isinstance(x, Array):
        return x
    before = typeof(x).sharding
    if not isinstance(before, NamedSharding) or before.mesh.axes != mesh.axes:
        return x
    if x.owner is None:
        return shards.put(x, NamedSharding(mesh, before.spec))
    layout = of_sharding(NamedSharding(mesh, before.spec), x.ndim)
    if layout is None:
        arg = Partition(mesh.axes, (OPEN,) * x.ndim)
    else:
        arg = layout.constraint(x.shape)
    return bind.bind(Op.CONSTRAIN, x, arg=arg, weak=x.weak_type)
