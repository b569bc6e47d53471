"""Shardings: the division of an array among the devices of a mesh.

    NamedSharding(Mesh('x': 2, 'y': 4), P('y', None))
        axis 0 of an array in 4 parts, one for each device along 'y'; the same on both along 'x'

The sharding of an array is a part of its type; see `trace.aval`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from tfn._support.frozen import frozen
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.trace.mesh import AbstractMesh, Device, Mesh, mesh_in_use
from tfn.trace.op import Shape
from tfn.trace.processes import processes
from tfn.trace.sharding import OPEN, Partition, Spec, check_divides

Index = tuple[slice, ...]


class _Unconstrained:
    """The entry of a `PartitionSpec` that leaves an axis to the compiler."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()
"""The entry of a `PartitionSpec` that leaves an axis to the compiler."""


class PartitionSpec:
    """For each axis of an array the axes of a mesh over which it is divided.

    An entry is None for an axis that is not divided, the name of an axis of the mesh, or a tuple
    of names, the major one first.  Axes that are left out are not divided.

    Args:
        unreduced: explicit axes of the mesh over which the parts of a sum have still to be added
            up, as a contraction leaves them; `reshard` to another spec adds them up.
        reduced: explicit axes over which each device has the same, and over which the parts of
            its cotangent are unreduced.

    Raises:
        ArgumentError: for a name that divides an axis and is unreduced or reduced, too.

    Example:
        >>> PartitionSpec("x", None, ("y", "z"))
        P('x', None, ('y', 'z'))
        >>> PartitionSpec("x", unreduced={"y"})
        P('x', unreduced={'y'})
    """

    __slots__ = ("_hash", "_parts", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __init__(
        self,
        *partitions: Any,
        unreduced: Collection[Any] = frozenset(),
        reduced: Collection[Any] = frozenset(),
    ) -> None:
        self._parts = tuple([_entry(part) for part in partitions])
        self.unreduced, self.reduced = (
            _names_in("unreduced", unreduced),
            _names_in("reduced", reduced),
        )
        used = [name for part in self._parts for name in names_of(part)]
        both = (self.unreduced & self.reduced) or (self.unreduced | self.reduced) & {*used}
        if both:
            raise ArgumentError(
                f"a PartitionSpec has {sorted(both, key=str)[0]!r} in two roles",
                got=repr(self),
                hint="an axis of a mesh divides an axis of the array, or is unreduced, or reduced",
            )
        self._hash = hash((self._parts, self.unreduced, self.reduced))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: Any) -> Any:
        return self._parts[index]

    def __add__(self, other: Any) -> PartitionSpec:
        return self.update(partitions=(*self, *other))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionSpec):
            return False
        sums = self.unreduced == other.unreduced and self.reduced == other.reduced
        return self._parts == other._parts and sums

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _spec, (self._parts, self.unreduced, self.reduced)

    def __repr__(self) -> str:
        sums = [("unreduced", self.unreduced), ("reduced", self.reduced)]
        listed = [f"{what}={{{', '.join(sorted(map(repr, s)))}}}" for what, s in sums if s]
        return f"P({', '.join([*map(repr, self._parts), *listed])})"

    def index(self, value: Any) -> int:
        """The axis whose entry is `value`."""
        return self._parts.index(_entry(value))

    def count(self, value: Any) -> int:
        """The number of axes whose entry is `value`."""
        return self._parts.count(_entry(value))

    @property
    def partitions(self) -> tuple[Any, ...]:
        """Its entries."""
        return self._parts

    def update(
        self, partitions: Any = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """A spec of other entries, or of other axes to be added up."""
        return _spec(
            self._parts if partitions is None else partitions,
            self.unreduced if unreduced is None else unreduced,
            self.reduced if reduced is None else reduced,
        )


P = PartitionSpec


def _spec(parts: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*parts, unreduced=unreduced, reduced=reduced)


def _names_in(what: str, names: Any) -> frozenset[Any]:
    if isinstance(names, (str, type(None))):
        raise ArgumentError(
            f"{what} of a PartitionSpec is a set of names",
            got=f"{what}={names!r}",
            hint=f"write {what}={{{names!r}}}",
        )
    return frozenset(names)


def _entry(part: Any) -> Any:
    """An entry in one form: a tuple of one name is the name, an empty one is None."""
    if isinstance(part, list):
        part = tuple(part)
    if isinstance(part, tuple) and len(part) < 2:
        return part[0] if part else None
    return part


def names_of(part: Any) -> tuple[Any, ...]:
    """The axes of a mesh in one entry of a spec."""
    if part is None or part is UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


def spec_of(spec: Spec) -> PartitionSpec:
    """The spec of a partition, without the undivided axes at its end.

    Example:
        >>> spec_of((("x",), (), ("y", "z"), ()))
        P('x', None, ('y', 'z'))
    """
    last = max([axis + 1 for axis, names in enumerate(spec) if names], default=0)
    return PartitionSpec(*spec[:last])


class NamedSharding:
    """An array divided over the named axes of a mesh.

    Args:
        mesh: a `Mesh`.
        spec: a `PartitionSpec`.
        memory_kind: has no meaning here: there is one kind of memory.

    Raises:
        ArgumentError: for anything else.
        AxisError: for a name that is not an axis of the mesh, or is used twice.

    Example:
        >>> mesh = Mesh([Device("cpu", 0), Device("cpu", 1)], ("x",))
        >>> NamedSharding(mesh, PartitionSpec(None, "x")).shard_shape((3, 8))
        (3, 4)
    """

    __slots__ = ("__weakref__", "_hash", "mesh", "spec")
    mesh: Mesh
    spec: PartitionSpec

    def __init__(self, mesh: Any, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)) or not isinstance(spec, PartitionSpec):
            raise ArgumentError(
                "NamedSharding needs a mesh and a PartitionSpec",
                got=f"{mesh!r}, {spec!r}"[:160],
                hint="NamedSharding(mesh, PartitionSpec('x', None))",
            )
        used: list[Any] = []
        divided = [name for part in spec for name in names_of(part)]
        for name in (*divided, *sorted(spec.unreduced | spec.reduced, key=str)):
            if name not in mesh.shape:
                raise AxisError(
                    f"{spec} divides over the axis {name!r}, which the mesh does not have",
                    got=repr(mesh),
                    hint=f"its axes are {', '.join(map(repr, mesh.axis_names)) or 'none'}",
                )
            if name in used:
                raise AxisError(
                    f"{spec} divides twice over the axis {name!r}",
                    got=repr(mesh),
                    hint="each axis of a mesh divides at most one axis of an array",
                )
            used.append(name)
        self.mesh, self.spec = mesh, spec  # type: ignore[assignment]  # abstract, for types
        self._hash = hash((mesh, spec))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedSharding) or self._hash != other._hash:
            return False
        return self is other or bool(self.spec == other.spec and self.mesh == other.mesh)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec)

    def __repr__(self) -> str:
        return f"NamedSharding({self.mesh!r}, {self.spec!r})"

    memory_kind = property(lambda self: "device")
    device_set = property(lambda self: set(self.mesh.devices.flat))
    addressable_devices = property(lambda self: set(self.mesh.local_devices))
    num_devices = property(lambda self: self.mesh.size)
    is_fully_addressable = property(lambda self: not self.mesh.is_multi_process)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order of the mesh; none of an abstract one."""
        return tuple(self.mesh.devices.flat) if isinstance(self.mesh, Mesh) else ()

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        sizes = self.mesh.shape
        return bool(prod([sizes[name] for part in self.spec for name in names_of(part)]) == 1)

    def with_spec(self, spec: PartitionSpec) -> NamedSharding:
        """The sharding of another spec over the same mesh."""
        return NamedSharding(self.mesh, spec)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """Itself: there is one kind of memory."""
        return self

    def update(self, *, mesh: Any = None, spec: Any = None) -> NamedSharding:
        """The sharding over another mesh, or of another spec."""
        return NamedSharding(mesh or self.mesh, self.spec if spec is None else spec)

    def partition(self, ndim: int) -> Partition:
        """The division of an array of `ndim` axes, as the compiler sees it.

        Raises:
            ShapeError: if the spec has more entries than the array has axes.
        """
        if len(self.spec) > ndim:
            raise ShapeError(
                f"{self.spec} is longer than the shape of the array",
                got=f"entries for {len(self.spec)} axes, and an array of {ndim}: {self!r}",
                hint="a spec has one entry for each axis, or fewer",
            )
        rest = [()] * (ndim - len(self.spec))
        return Partition(self.mesh.axes, (*map(names_of, self.spec), *rest))

    def constraint(self, shape: Shape, padded: bool = False) -> Partition:
        """The division that a constraint asks for: an UNCONSTRAINED axis is left open.

        Args:
            padded: whether sizes may be those that do not divide.

        Raises:
            ShapeError: as `shard_shape`.
        """
        partition = self.partition(len(shape)) if padded else self.checked(shape)
        left = [part is UNCONSTRAINED for part in self.spec]
        left += [False] * (len(shape) - len(left))
        spec = [OPEN if free else names for free, names in zip(left, partition.spec, strict=True)]
        mesh = self.mesh.abstract_mesh
        return Partition(
            partition.mesh,
            tuple(spec),
            explicit=mesh.explicit_axes,
            unreduced=tuple([n for n in mesh.axis_names if n in self.spec.unreduced]),
            reduced=tuple([n for n in mesh.axis_names if n in self.spec.reduced]),
        )

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The shape of the part that one device has.

        Raises:
            ShapeError: if the array has fewer axes than the spec, or a size does not divide.
        """
        shape = tuple(global_shape)
        return self.checked(shape).local(shape)

    def checked(self, shape: Shape) -> Partition:
        """The division of an array of this shape.

        Raises:
            ShapeError: as `shard_shape`.
        """
        partition = self.partition(len(shape))
        check_divides(f"the sharding {self.spec}", shape, partition)
        return partition

    def fitting(self, shape: Shape) -> NamedSharding:
        """The sharding without the axes of the array whose sizes do not divide."""
        partition = self.partition(len(shape))
        fits = [n % partition.parts(axis) == 0 for axis, n in enumerate(shape)]
        if all(fits):
            return self
        return self.with_spec(P(*[s if ok else None for s, ok in zip(self.spec, fits)]))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """For each device the index of its part in the whole array."""
        return dict(_indices(self, tuple(global_shape)))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """For each device of this process the index of its part in the whole array."""
        own = self.addressable_devices
        return {d: i for d, i in _indices(self, tuple(global_shape)) if d in own}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of `ndim` axes are divided in the same way, over the same devices."""
        return self == other or equivalent(self, other, ndim)


@frozen
class SingleDeviceSharding:
    """An array on one device.

    Attributes:
        device: the device.
        memory_kind: has no meaning here: there is one kind of memory.

    Example:
        >>> SingleDeviceSharding(Device("cpu", 1))
        SingleDeviceSharding(cpu:1)
    """

    device: Device
    memory_kind: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.device, Device):
            raise ArgumentError(
                "SingleDeviceSharding needs a device",
                got=repr(self.device)[:80],
                hint="tfn.devices() lists them",
            )
        object.__setattr__(self, "memory_kind", None)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding({self.device})"

    device_set = property(lambda self: {self.device})
    num_devices = property(lambda self: 1)
    is_fully_addressable = property(lambda self: self.device.process_index == processes.index)
    addressable_devices = property(
        lambda self: {self.device} if self.is_fully_addressable else set()
    )
    is_fully_replicated = property(lambda self: True)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device alone."""
        return (self.device,)

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """Itself: there is one kind of memory."""
        return self

    def partition(self, ndim: int) -> None:
        """None: nothing is divided."""

    def checked(self, shape: Shape) -> None:
        """None: it holds for all shapes."""

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The shape of the array."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """The index of the whole array."""
        return {self.device: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays are on the same device."""
        return self == other or equivalent(self, other, ndim)


Sharding = NamedSharding | SingleDeviceSharding


def equivalent(a: Sharding, b: Sharding, ndim: int) -> bool:
    """Whether two shardings place the same part of an array of `ndim` axes on each device."""
    if a.devices != b.devices:
        return False
    if not all(isinstance(s, SingleDeviceSharding) or len(s.spec) <= ndim for s in (a, b)):
        return False
    size = prod([device_count(s) for s in (a, b)])  # divides by the parts of both
    return _indices(a, (size,) * ndim) == _indices(b, (size,) * ndim)


def device_count(sharding: Sharding) -> int:
    """The number of devices."""
    return len(sharding.devices)


@lru_cache(maxsize=1024)
def _indices(sharding: Sharding, shape: Shape) -> tuple[tuple[Device, Index], ...]:
    """For each device the index of its part, in the order of the mesh."""
    if isinstance(sharding, SingleDeviceSharding):
        return ((sharding.device, (slice(None),) * len(shape)),)
    partition, sizes = sharding.checked(shape), sharding.mesh.shape
    local = partition.local(shape)
    rows = []
    for place in product(*[range(n) for n in sharding.mesh.axis_sizes]):
        at = dict(zip(sharding.mesh.axis_names, place, strict=True))
        index = []
        for axis, names in enumerate(partition.spec):
            number = 0
            for name in names:
                number = number * sizes[name] + at[name]
            begin = number * local[axis]
            whole = partition.parts(axis) == 1
            index.append(slice(None) if whole else slice(begin, begin + local[axis]))
        rows.append((sharding.mesh.devices[place], tuple(index)))
    return tuple(rows)


def as_sharding(what: str, value: Any) -> Sharding | None:
    """A sharding from itself, a device, a spec of the mesh that is set, or None.

    Raises:
        ArgumentError: for anything else, and for a spec outside of a mesh.
    """
    if value is None or isinstance(value, (NamedSharding, SingleDeviceSharding)):
        return value
    if isinstance(value, Device):
        return SingleDeviceSharding(value)
    if not isinstance(value, PartitionSpec):
        raise ArgumentError(
            f"{what} needs a sharding or a device",
            got=repr(value)[:80],
            hint="NamedSharding(mesh, PartitionSpec('x')), or one of tfn.devices()",
        )
    mesh = mesh_in_use()
    if mesh.empty:
        raise ArgumentError(
            f"{what} got a PartitionSpec, and no mesh is set",
            got=repr(value),
            hint="NamedSharding(mesh, spec) has a mesh; within `with tfn.set_mesh(mesh):` the spec "
            "is enough",
        )
    return NamedSharding(mesh, value)
