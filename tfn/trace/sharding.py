"""Static arguments of the ops of many devices: axes of a mesh, collectives, partitions.

A value is global, or local: the part that one device holds.  Two ops lead from one to the other
(they are what XLA calls SPMDFullToShardShape and SPMDShardToFullShape)::

    x:f32[8,4]  --shard-->  f32[2,4]  --collectives and all other ops-->  y:f32[2]  --unshard-->

A collective is an exchange along one named axis.  Its operands are a value and the index of the
device along the axis, so that names need no environment: `vmap` over an axis finds the collectives
that belong to it by their index, which is the one that it batches.
"""

from __future__ import annotations

import enum
from math import prod
from typing import Any

from tfn._support.frozen import frozen
from tfn._support.members import plain
from tfn._support.validate import unfit
from tfn.dtypes import INT32, DType
from tfn.errors import ShapeError
from tfn.trace.op import Op, Shape

Type = tuple[Shape, DType]
Names = tuple[str, ...]
Spec = tuple[Names, ...]
"""For each axis of a value the axes of the mesh over which it is divided, the major one first."""
OPEN = ("?",)
"""In the spec of a CONSTRAIN: the axis may be divided in any way."""
Groups = tuple[tuple[int, ...], ...]


@frozen
class Axis:
    """An axis of a mesh, or of `vmap`.

    Attributes:
        name: of the axis, unique in the mesh; mostly a string.
        size: the number of devices, or lanes, along it.
    """

    name: Any
    size: int

    def __str__(self) -> str:
        """Its text in a print: ``x:4``."""
        return f"{self.name}:{self.size}"


@plain
class Exchange(enum.Enum):
    """Kinds of collectives, by their meaning on the stack ``X[n, ...]`` of the values of n devices.

    Device i gets row i of the stack that is given here.
    """

    REDUCE = "reduce"  # X.sum(0), or another monoid, for each device
    GATHER = "all_gather"  # X itself for each device: one axis more
    SCATTER = "reduce_scatter"  # X.sum(0), whose first axis is as long as there are devices
    TRANSPOSE = "all_to_all"  # X.swapaxes(0, 1)
    PICK = "own_slice"  # X[i, i]: the row with the number of the device; moves nothing
    PERMUTE = "ppermute"  # X[source of i], or zeros
    VARY = "pvary"  # X; before, the same value on each device


_SUMS = {Op.ADD: "sum", Op.MUL: "prod"}


@frozen
class Collective:
    """An exchange along one axis; sources: the value, the index of the device along the axis.

    Attributes:
        kind: of exchange.
        axis: its name and size.
        op: the monoid of a REDUCE.
        groups: devices that exchange among themselves alone, all groups of one size; None for one
            group of all.
        pairs: (source, destination) of a PERMUTE.
        invariant: whether the results are known to be the same on all devices, which is a matter
            of types only: the transpose of an invariant REDUCE is VARY, that of another is REDUCE.
    """

    kind: Exchange
    axis: Axis
    op: Op = Op.ADD
    groups: Groups | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    invariant: bool = False

    @property
    def count(self) -> int:
        """The number of devices that exchange with each other."""
        return self.axis.size if self.groups is None else len(self.groups[0])

    def __str__(self) -> str:
        """Its text in a print: ``psum x:4``, ``all_gather x:4 in ((0, 1), (2, 3)), invariant``."""
        kind = f"p{_SUMS.get(self.op, self.op.value)}" if self.kind is Exchange.REDUCE else ""
        parts = f" in {self.groups}" if self.groups is not None else ""
        pairs = f" {self.pairs}" if self.kind is Exchange.PERMUTE else ""
        known = ", invariant" if self.invariant else ""
        return f"{kind or self.kind.value} {self.axis}{pairs}{parts}{known}"


@frozen
class Partition:
    """A division of a value among the devices of a mesh.

    Attributes:
        mesh: its axes, in order.
        spec: for each axis of the value the axes of the mesh over which it is divided.
        manual: of SHARD and UNSHARD: the axes of the mesh that the user's code handles, where it
            works on the parts; all others are the partitioner's.
        unchecked: manual axes that do not divide the value and over which the parts are not known
            to be equal: their cotangents are added up, as those of ``check_vma=False`` are.
        lanes: of CONSTRAIN, while a function is mapped: the axes of the mesh over which the lanes
            are to be divided.
        explicit: the axes of the mesh that are a part of the types of values.
        unreduced: of CONSTRAIN: the axes of the mesh over which parts have still to be added up.
        reduced: of CONSTRAIN: the axes over which the parts of a cotangent have to be added up.
    """

    mesh: tuple[Axis, ...]
    spec: Spec
    manual: Names = ()
    unchecked: tuple[Axis, ...] = ()
    lanes: Names = ()
    explicit: Names = ()
    unreduced: Names = ()
    reduced: Names = ()

    def __str__(self) -> str:
        """Its text in a print: ``((x),()) of x:4 y:2``, then what is known of manual axes."""
        spec = ",".join([f"({' '.join(map(str, names))})" for names in self.spec])
        manual = f", manual {' '.join(map(str, self.manual))}" if self.manual else ""
        unchecked = f", unchecked {' '.join(map(str, self.unchecked))}" if self.unchecked else ""
        more = f", unreduced {' '.join(map(str, self.unreduced))}" if self.unreduced else ""
        return f"({spec}) of {' '.join(map(str, self.mesh))}{manual}{unchecked}{more}"

    def parts(self, axis: int) -> int:
        """The number of parts of an axis of the value."""
        size = {axis.name: axis.size for axis in self.mesh}
        return prod([size[name] for name in self.spec[axis] if name in size])

    def local(self, shape: Shape) -> Shape:
        """The shape of one part."""
        return tuple([n // self.parts(axis) for axis, n in enumerate(shape)])

    def whole(self, shape: Shape) -> Shape:
        """The shape of the value whose parts have a shape."""
        return tuple([n * self.parts(axis) for axis, n in enumerate(shape)])

    @property
    def names(self) -> tuple[str, ...]:
        """The axes of the mesh that divide the value, in the order of the mesh."""
        used = {name for names in self.spec for name in names}
        return tuple(axis.name for axis in self.mesh if axis.name in used)


def axis_index(src: tuple[Any, ...], arg: Axis) -> Type:
    """The type of AXIS."""
    return (), INT32


def collective(src: tuple[Any, ...], arg: Collective) -> Type:
    """The type of COLLECTIVE."""
    (x, index), n = src, arg.count
    if (index.shape, index.dtype) != ((), INT32):
        raise unfit("a collective needs the index of the device", src, "it is an int32 scalar")
    if arg.kind is Exchange.GATHER:
        return (n, *x.shape), x.dtype
    if arg.kind in (Exchange.SCATTER, Exchange.TRANSPOSE, Exchange.PICK) and x.shape[:1] != (n,):
        raise unfit(
            f"{arg.kind.value} over {arg.axis.name!r} needs a first axis of size {n}",
            src[:1],
            "there is one element for each device along the axis",
        )
    is_row = arg.kind in (Exchange.SCATTER, Exchange.PICK)
    return (x.shape[1:] if is_row else x.shape), x.dtype


def check_divides(what: str, shape: Shape, arg: Partition) -> None:
    """Raise unless the axes of the mesh divide the axes of a value.

    Raises:
        ShapeError: naming the axis and the sizes; or for a spec of another length.
    """
    _check_rank(what, shape, arg)
    for axis, n in enumerate(shape):
        parts = arg.parts(axis)
        if parts > 1 and n % parts:
            names = " x ".join(arg.spec[axis])
            raise ShapeError(
                f"{what} cannot divide axis {axis} of size {n} into {parts} equal parts",
                got=f"shape {shape}, axis {axis} over {names} of size {parts}",
                hint=f"pad the axis to a multiple of {parts}, or leave it undivided",
            )


def _check_rank(what: str, shape: Shape, arg: Partition) -> None:
    if len(arg.spec) != len(shape):
        raise ShapeError(
            f"{what} needs a spec with an entry for each axis",
            got=f"shape {shape} and the spec {arg.spec}",
            hint="an axis that is not divided has an entry without names",
        )


def shard(src: tuple[Any, ...], arg: Partition) -> Type:
    """The type of SHARD."""
    check_divides("a sharding", src[0].shape, arg)
    return arg.local(src[0].shape), src[0].dtype


def unshard(src: tuple[Any, ...], arg: Partition) -> Type:
    """The type of UNSHARD."""
    _check_rank("unshard", src[0].shape, arg)
    return arg.whole(src[0].shape), src[0].dtype


def constrain(src: tuple[Any, ...], arg: Partition) -> Type:
    """The type of CONSTRAIN; sizes that do not divide leave padding, which is never seen."""
    _check_rank("a sharding", src[0].shape, arg)
    return src[0].shape, src[0].dtype


def stacking(arg: Partition, shape: Shape) -> tuple[Shape, Shape]:
    """The layout of a divided value in one process: the stack of its parts.

    Returns:
        (split, order): ``x.reshape(split).transpose(order)`` has an axis for each axis of the mesh
        that divides the value, in the order of the mesh, and then the axes of one part.

    Example:
        >>> halves = Partition((Axis("x", 2),), ((), ("x",)))
        >>> stacking(halves, (3, 8))
        ((3, 2, 4), (1, 0, 2))
    """
    size = {axis.name: axis.size for axis in arg.mesh}
    split: list[int] = []
    place: dict[str, int] = {}
    local: list[int] = []
    for axis, n in enumerate(shape):
        for name in arg.spec[axis]:
            place[name] = len(split)
            split.append(size[name])
        local.append(len(split))
        split.append(n // arg.parts(axis))
    return tuple(split), (*(place[name] for name in arg.names), *local)


def stacked_shape(arg: Partition, shape: Shape) -> Shape:
    """The shape of the stack of the parts of a value."""
    split, order = stacking(arg, shape)
    return tuple([split[axis] for axis in order])
