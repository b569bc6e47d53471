"""Meshes: devices arranged in a grid with named axes.

    devices = [cpu:0 .. cpu:7]  ->  Mesh('data': 2, 'model': 4)

A `Mesh` has devices, an `AbstractMesh` only names and sizes.  The compiler sees the axes alone
(`Mesh.axes`): what it makes for a mesh serves for all meshes of the same names and sizes.
"""

from __future__ import annotations

import enum
import threading
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tfn._support.frozen import frozen
from tfn._support.members import plain
from tfn.errors import ArgumentError, AxisError, DeviceError
from tfn.trace import runtime, traces
from tfn.trace.op import Shape
from tfn.trace.processes import HostGrid, blocks, processes
from tfn.trace.sharding import Axis


@frozen
class Device:
    """A device of this process, or of another one.

    Attributes:
        platform: ``cpu``, ``python``, ``null``, ...
        id: its number among the devices of the platform, those of all processes.
        process_index: of the process that it belongs to.

    Example:
        >>> Device("cpu", 3)
        cpu:3
    """

    platform: str
    id: int
    process_index: int = 0

    @property
    def device_kind(self) -> str:
        """The name of the kind of hardware."""
        return self.platform

    @property
    def local_hardware_id(self) -> int:
        """The number of the device on its host."""
        return self.id - sum((processes.device_counts or ())[: self.process_index])

    @property
    def host_id(self) -> int:
        """The process that it belongs to: an older name."""
        return self.process_index

    def memory_stats(self) -> dict[str, int]:
        """Bytes in use, their peak and limit, and more; see `tfn.eager.device_memory`.

        Raises:
            DeviceError: if this process has no such device.

        Example:
            >>> import tfn
            >>> stats = tfn.devices()[0].memory_stats()
            >>> stats["bytes_in_use"] <= stats["bytes_limit"]
            True
        """
        return runtime.memory_stats(self)

    def live_buffers(self) -> list[Any]:
        """The live arrays that have a part on the device."""
        return runtime.live_buffers(self)

    def __repr__(self) -> str:
        return f"{self.platform}:{self.id}"


@plain
class AxisType(enum.Enum):
    """Who decides how values are divided over an axis of a mesh.

    ``Auto``: the compiler.  ``Explicit``: the types of values, which follow from their operands.
    ``Manual``: the user, inside of `shard_map`.
    """

    Auto = "auto"
    Explicit = "explicit"
    Manual = "manual"

    def __repr__(self) -> str:
        return str(self.name)


def _names(axis_names: Any) -> tuple[Any, ...]:
    return (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)


def _types(axis_types: Any, names: tuple[Any, ...]) -> tuple[AxisType, ...]:
    """An axis type for each axis; one alone holds for all."""
    listed = axis_types if isinstance(axis_types, tuple) else (axis_types,) * len(names)
    listed = tuple([AxisType.Auto if t is None else t for t in listed])
    if len(listed) != len(names) or not all(isinstance(t, AxisType) for t in listed):
        raise ArgumentError(
            "a mesh needs an AxisType for each axis",
            got=f"axis_types={axis_types}, axis_names={names}",
            hint="axis_types=(AxisType.Auto,) * " + str(len(names)),
        )
    return listed


def _check_names(names: tuple[Any, ...], sizes: Shape) -> None:
    if len(names) != len(sizes):
        raise ArgumentError(
            f"a mesh of {len(sizes)} axes needs as many names",
            got=f"axis sizes {sizes}, axis_names={names}",
            hint="give each axis its name, or reshape the array of devices",
        )
    for name in names:
        if names.count(name) > 1:
            raise AxisError(
                f"a mesh has the axis {name!r} twice",
                got=f"axis_names={names}",
                hint="names of axes are unique in a mesh",
            )


@frozen
class AbstractMesh:
    """The names, sizes and types of the axes of a mesh, without devices.

    Raises:
        ArgumentError: if there is not one name and one type for each size.
        AxisError: for a name that occurs twice.

    Example:
        >>> AbstractMesh((2, 4), ("x", "y"))
        AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto))
    """

    axis_sizes: Shape
    axis_names: tuple[Any, ...]
    axis_types: Any = None

    def __post_init__(self) -> None:
        names = _names(self.axis_names)
        sizes = tuple([int(n) for n in self.axis_sizes])
        _check_names(names, sizes)
        object.__setattr__(self, "axis_sizes", sizes)
        object.__setattr__(self, "axis_names", names)
        object.__setattr__(self, "axis_types", _types(self.axis_types, names))
        if AxisType.Explicit in self.axis_types:
            traces.LAYOUTS.exist = True

    @property
    def shape(self) -> dict[Any, int]:
        """The size of each axis, by name."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Pairs of name and size."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices; 0 of an empty mesh."""
        return prod(self.axis_sizes) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return not self.axis_names

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Its axes, as the compiler sees them."""
        return tuple([Axis(*pair) for pair in self.shape_tuple])

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def of_type(self, kind: AxisType) -> tuple[Any, ...]:
        """The names of the axes of a type."""
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple([name for name, its_kind in pairs if its_kind is kind])

    auto_axes = property(lambda self: self.of_type(AxisType.Auto))
    explicit_axes = property(lambda self: self.of_type(AxisType.Explicit))
    manual_axes = property(lambda self: self.of_type(AxisType.Manual))
    are_all_axes_auto = property(lambda self: () != self.auto_axes == self.axis_names)
    are_all_axes_explicit = property(lambda self: () != self.explicit_axes == self.axis_names)
    are_all_axes_manual = property(lambda self: () != self.manual_axes == self.axis_names)

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None
    ) -> AbstractMesh:
        """The mesh with other sizes, names or types."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __repr__(self) -> str:
        return f"AbstractMesh({_described(self)})"


def _described(mesh: AbstractMesh) -> str:
    sizes = [f"{name!r}: {n}" for name, n in mesh.shape_tuple]
    return ", ".join([*sizes, f"axis_types={mesh.axis_types}"])


class Mesh:
    """Devices in a grid whose axes have names; usable as ``with mesh:``.

    Args:
        devices: an array of `Device`, or nested sequences of them.
        axis_names: a name for each axis.
        axis_types: an `AxisType` for each axis, or one for all; ``Auto`` if left out.

    Raises:
        ArgumentError: if the names do not fit the axes, or a device occurs twice.
        AxisError: for a name that occurs twice.

    Example:
        >>> mesh = Mesh([Device("cpu", 0), Device("cpu", 1)], ("x",))
        >>> mesh.size, mesh.shape["x"]
        (2, 2)
    """

    __slots__ = ("__weakref__", "_axes", "_before", "_hash", "_key", "abstract_mesh", "devices")
    devices: np.ndarray[Any, Any]
    abstract_mesh: AbstractMesh

    def __init__(self, devices: Any, axis_names: Any = (), axis_types: Any = None) -> None:
        grid = np.array(devices, dtype=object)
        listed = tuple(grid.flat)
        stranger = next((d for d in listed if not isinstance(d, Device)), None)
        if stranger is not None:
            raise ArgumentError(
                "a mesh is made of devices",
                got=repr(stranger)[:80],
                hint="tfn.devices() lists them; tfn.make_mesh arranges them",
            )
        twice = next((d for d in listed if listed.count(d) > 1), None)
        if twice is not None:
            raise ArgumentError(
                f"a mesh has the device {twice} twice",
                got=f"{len(listed)} devices",
                hint="each device has one place in a mesh",
            )
        sizes = grid.shape if listed else ()
        grid.flags.writeable = False
        self.devices = grid
        _check_names(_names(axis_names), sizes)
        self.abstract_mesh = AbstractMesh(sizes, axis_names, axis_types)
        self._key = listed, self.abstract_mesh
        self._hash = hash(self._key)
        self._before: list[Any] = []
        self._axes = self.abstract_mesh.axes

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mesh) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return Mesh, (self.devices.tolist(), self.axis_names, self.axis_types)

    def __repr__(self) -> str:
        return f"Mesh({_described(self.abstract_mesh)})"

    def __enter__(self) -> Mesh:
        self._before.append(_context().mesh)
        _context().mesh = self
        return self

    def __exit__(self, *_: object) -> None:
        _context().mesh = self._before.pop()

    axis_names = property(lambda self: self.abstract_mesh.axis_names)
    axis_sizes = property(lambda self: self.abstract_mesh.axis_sizes)
    axis_types = property(lambda self: self.abstract_mesh.axis_types)
    shape = property(lambda self: self.abstract_mesh.shape)
    shape_tuple = property(lambda self: self.abstract_mesh.shape_tuple)
    size = property(lambda self: self.abstract_mesh.size)
    empty = property(lambda self: self.abstract_mesh.empty)
    auto_axes = property(lambda self: self.abstract_mesh.auto_axes)
    explicit_axes = property(lambda self: self.abstract_mesh.explicit_axes)
    manual_axes = property(lambda self: self.abstract_mesh.manual_axes)
    are_all_axes_auto = property(lambda self: self.abstract_mesh.are_all_axes_auto)
    are_all_axes_explicit = property(lambda self: self.abstract_mesh.are_all_axes_explicit)
    are_all_axes_manual = property(lambda self: self.abstract_mesh.are_all_axes_manual)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Its axes, as the compiler sees them; `mesh_of` finds the mesh again."""
        axes: tuple[Axis, ...] = self._axes
        _MESHES[axes] = self
        return axes

    @property
    def ids(self) -> tuple[int, ...]:
        """The numbers of the devices, in the order of the mesh."""
        return tuple([device.id for device in self.devices.flat])

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """The numbers of the devices, in the shape of the mesh."""
        return np.array(self.ids, int).reshape(self.devices.shape)

    @property
    def platform(self) -> str:
        """The platform of its devices."""
        return str(self.devices.flat[0].platform)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return [d for d in self.devices.flat if d.process_index == processes.index]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that belongs to this process.

        Raises:
            DeviceError: if no part does.
        """
        hosts = self.hosts
        if hosts is None:
            return self
        own = []
        for i, n, h in zip(hosts.place(processes.index), self.axis_sizes, hosts.sizes, strict=True):
            own.append(slice(i * (n // h), (i + 1) * (n // h)))
        return Mesh(self.devices[tuple(own)], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices belong to other processes."""
        return any(device.process_index != processes.index for device in self.devices.flat)

    @property
    def hosts(self) -> HostGrid | None:
        """The blocks of the mesh that processes hold; None if all of it belongs to this one.

        Raises:
            DeviceError: if processes do not hold blocks of one shape.
        """
        if not self.is_multi_process:
            return None
        owners = tuple([device.process_index for device in self.devices.flat])
        return blocks(owners, self.axis_sizes)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """The mesh with other devices, names or types."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )


_MESHES: WeakValueDictionary[tuple[Axis, ...], Mesh] = WeakValueDictionary()
"""The mesh that was used last for axes: the devices of results that no argument places."""


def mesh_of(axes: tuple[Axis, ...], platform: str) -> Mesh:
    """The mesh of axes: the one that was used last, or one of the first devices."""
    mesh = _MESHES.get(axes)
    if mesh is None:
        sizes = [axis.size for axis in axes]
        owners = processes.rows
        devices = [Device(platform, i, owners[i][0] if owners else 0) for i in range(prod(sizes))]
        names = tuple([axis.name for axis in axes])
        mesh = Mesh(np.array(devices, object).reshape(sizes), names)
    return mesh


def arranged(axis_shapes: Any, axis_names: Any, axis_types: Any, devices: Any) -> Mesh:
    """A mesh of the first devices, row by row.

    Raises:
        DeviceError: if there are fewer devices than the mesh has places.
    """
    sizes, names = tuple([int(n) for n in axis_shapes]), _names(axis_names)
    devices = list(np.array(devices, object).flat)
    axis_types = AxisType.Explicit if axis_types is None else axis_types
    _check_names(names, sizes)
    if prod(sizes) > len(devices):
        listed = ", ".join(f"{name!r}: {n}" for name, n in zip(names, sizes, strict=True))
        raise DeviceError(
            f"a mesh of {prod(sizes)} devices does not fit on {len(devices)}",
            got=f"axes {listed}; {len(devices)} devices",
            hint=f"TFN_DEVICES={prod(sizes)} in the environment, or tfn.config.devices, gives a "
            "process so many CPU devices",
        )
    grid = np.array(devices[: prod(sizes)], object).reshape(sizes)
    return Mesh(grid, names, axis_types)


# The mesh of a block.


class _Context:
    """The mesh of a thread, and the number of times that it was asked for."""

    __slots__ = ("mesh", "reads")

    def __init__(self) -> None:
        self.mesh: Mesh | AbstractMesh | None = None
        self.reads = 0


_LOCAL = threading.local()


def _context() -> _Context:
    context: _Context | None = getattr(_LOCAL, "context", None)
    if context is None:
        context = _LOCAL.context = _Context()
    return context


def mesh_in_use() -> Mesh:
    """The mesh of the innermost block ``with mesh:`` or `set_mesh`; an empty one outside."""
    _context().reads += 1
    mesh = _context().mesh
    return mesh if isinstance(mesh, Mesh) else _EMPTY


def mesh_reads() -> int:
    """The number of times that this thread has asked for the mesh in use.

    A trace that has asked for it holds for this mesh alone.
    """
    return _context().reads


class set_mesh:
    """Sets the mesh of this thread, until the end of the block if it is used as a context.

    Shardings may then be written as `PartitionSpec` alone.

    Args:
        mesh: the mesh; None for none.

    Example:
        >>> with set_mesh(Mesh([Device("cpu", 0)], ("x",))):
        ...     get_mesh()
        Mesh('x': 1, axis_types=(Auto,))
    """

    __slots__ = ("_before",)

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ArgumentError(
                "set_mesh needs a mesh of devices",
                got=repr(mesh)[:80],
                hint="tfn.make_mesh makes one; use_abstract_mesh takes an AbstractMesh",
            )
        self._before = _context().mesh
        _context().mesh = mesh

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        _context().mesh = self._before


class use_abstract_mesh:
    """A block in which the mesh of this thread is known by its names and sizes alone.

    Types can be computed in it, by `tfn.eval_shape`; there is no device to run anything on.

    Args:
        mesh: an `AbstractMesh`.

    Raises:
        ArgumentError: for something else.

    Example:
        >>> with use_abstract_mesh(AbstractMesh((8,), ("x",))):
        ...     get_abstract_mesh().shape
        {'x': 8}
    """

    __slots__ = ("_before", "mesh")

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ArgumentError(
                "use_abstract_mesh needs an AbstractMesh",
                got=repr(mesh)[:80],
                hint="mesh.abstract_mesh is that of a mesh; set_mesh takes the mesh itself",
            )
        self.mesh = mesh

    def __enter__(self) -> None:
        self._before = _context().mesh
        _context().mesh = self.mesh

    def __exit__(self, *_: object) -> None:
        _context().mesh = self._before


def get_mesh() -> Mesh:
    """The mesh that `set_mesh` or ``with mesh:`` has set, or an empty one.

    Example:
        >>> get_mesh().empty
        True
    """
    return mesh_in_use()


def get_abstract_mesh() -> AbstractMesh:
    """The names and sizes of the mesh that is set, or of an empty one.

    Example:
        >>> get_abstract_mesh()
        AbstractMesh(axis_types=())
    """
    _context().reads += 1
    return (_context().mesh or _EMPTY).abstract_mesh


_EMPTY = Mesh((), ())
