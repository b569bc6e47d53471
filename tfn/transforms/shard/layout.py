"""Layouts: how values are divided over explicit axes of a mesh, which is a part of their types.

    x:f32[8@x,4]  w:f32[4,8@y]   ->   x @ w : f32[8@x,8@y]
    x:f32[8,4@y]  w:f32[4@y,8]   ->   x @ w : a ShardingTypeError, unless out_sharding says more

The layout of a value follows from those of its operands by the table `AXES`: an axis of the mesh
that divides a factor of an op divides the axes of its result.  Where operands disagree, or parts
would have to be exchanged, there is no rule, and the user says what is meant: by `reshard`, or by
`out_sharding`.  Graphs that transforms have made are read without errors: what disagrees is taken
to be undivided.

Source: https://docs.jax.dev/en/latest/notebooks/explicit-sharding.html
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import SHORT
from tfn.errors import ShardingTypeError
from tfn.trace import runtime, traces
from tfn.trace.mesh import AbstractMesh, AxisType
from tfn.trace.named_sharding import NamedSharding, PartitionSpec, names_of
from tfn.trace.named_sharding import spec_of as named_spec
from tfn.trace.op import Op, Shape
from tfn.trace.sharding import OPEN, Axis, Names, Partition, Spec
from tfn.trace.uop import UOp


def undivided(ndim: int) -> Spec:
    """The spec of a value that is the same on all devices."""
    return ((),) * ndim


@frozen
class Layout:
    """The division of a value over explicit axes.

    Attributes:
        mesh: all its axes.
        explicit: the names of those that are explicit.
        spec: for each axis of the value the explicit axes that divide it.
        unreduced: the axes over which parts have still to be added up.
        reduced: the axes over which the parts of a cotangent are to be added up.
    """

    mesh: tuple[Axis, ...]
    explicit: Names
    spec: Spec
    unreduced: Names = ()
    reduced: Names = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the axes of the mesh."""
        return {axis.name: axis.size for axis in self.mesh}

    @property
    def partition_spec(self) -> PartitionSpec:
        """The layout as the user writes it."""
        return named_spec(self.spec).update(unreduced=self.unreduced, reduced=self.reduced)

    def over(self, spec: Spec) -> Layout:
        """A value of another spec over the same mesh, with nothing to be added up."""
        return Layout(self.mesh, self.explicit, spec)

    @property
    def sharding(self) -> NamedSharding:
        """The layout as a sharding, over a mesh without devices."""
        names = [axis.name for axis in self.mesh]
        kinds = [AxisType.Explicit if n in self.explicit else AxisType.Auto for n in names]
        sizes = tuple([axis.size for axis in self.mesh])
        mesh = AbstractMesh(sizes, tuple(names), tuple(kinds))
        return NamedSharding(mesh, self.partition_spec)

    def without_axis(self, axis: int) -> Layout:
        """The layout of a slice of a value."""
        return replace(self, spec=(*self.spec[:axis], *self.spec[axis + 1 :]))

    def constraint(self, shape: Shape) -> Partition:
        """The constraint that says the same; what no explicit axis divides is left open."""
        is_all = len(self.explicit) == len(self.mesh)
        spec = [names if names or is_all else OPEN for names in self.spec]
        return Partition(
            self.mesh,
            tuple(spec),
            explicit=self.explicit,
            unreduced=self.unreduced,
            reduced=self.reduced,
        )


def show(x: runtime.Typed, layout: Layout | None) -> str:
    """A type as messages name it: ``f32[8@x,4]``, ``f32[8,8]{U:y}``."""
    spec = layout.spec if layout else undivided(len(x.shape))
    sizes = [f"{n}@{joined(names)}" if names else str(n) for n, names in zip(x.shape, spec)]
    sums = [("U", layout.unreduced), ("R", layout.reduced)] if layout else []
    listed = ", ".join([f"{letter}:{joined(names)}" for letter, names in sums if names])
    return f"{SHORT[x.dtype]}[{','.join(sizes)}]" + (f"{{{listed}}}" if listed else "")


def joined(names: Names) -> str:
    """The axes that divide one axis: ``x``, or ``(x,y)``."""
    return str(names[0]) if len(names) == 1 else f"({','.join(map(str, names))})"


def of_sharding(sharding: Any, ndim: int) -> Layout | None:
    """The layout of an array of a sharding; None if its mesh has no explicit axes."""
    if not isinstance(sharding, NamedSharding):
        return None
    mesh = sharding.mesh.abstract_mesh
    explicit = mesh.explicit_axes
    if not explicit:
        return None
    parts = [tuple([n for n in names_of(part) if n in explicit]) for part in sharding.spec]
    spec = (*parts, *undivided(ndim - len(parts)))
    sums = [
        tuple([n for n in explicit if n in some])
        for some in (sharding.spec.unreduced, sharding.spec.reduced)
    ]
    return Layout(mesh.axes, explicit, spec, *sums)


def of(value: Any) -> Layout | None:
    """The layout of a Value or of a type; None for one that is on no mesh of explicit axes."""
    if not traces.LAYOUTS.exist:
        return None
    trace = getattr(value, "owner", None)
    if trace is not None:
        found: Layout | None = trace.layouts.get(value.uop)  # read when the value was made
        return found
    return of_sharding(value.kind.sharding if value.kind else None, len(value.shape))


def key(values: Sequence[Any]) -> tuple[object, ...]:
    """The layouts of traced values, as a key of caches; empty if no mesh has explicit axes."""
    if not traces.LAYOUTS.exist or all(getattr(x, "owner", None) is None for x in values):
        return ()
    found = tuple(map(of, values))
    return (found,) if any(found) else ()


# Where rules do not count.

_LOCAL = threading.local()


@contextmanager
def resolved_outside() -> Iterator[None]:
    """A block of which the result is resharded: how values in it are divided is left open."""
    before = getattr(_LOCAL, "open", False)
    _LOCAL.open = True
    try:
        yield
    finally:
        _LOCAL.open = before


def is_resolved_outside() -> bool:
    """Whether such a block runs."""
    return bool(getattr(_LOCAL, "open", False))


def like(u: UOp, layout: Layout | None) -> UOp:
    """A graph under the constraint of a layout."""
    if layout is None:
        return u
    arg = layout.constraint(u.shape)
    return u if u.op is Op.CONSTRAIN and u.arg == arg else UOp(Op.CONSTRAIN, (u,), arg)


def like_primal(ct: UOp, primal: Any) -> UOp:
    """A cotangent divided as its primal; unreduced where that is reduced, and the reverse."""
    layout = of(primal)
    if layout is None:
        return ct
    return like(ct, replace(layout, unreduced=layout.reduced, reduced=layout.unreduced))


def within(layout: Layout | None, manual: Sequence[Any]) -> Layout | None:
    """The layout of a part in a region where some axes are manual; None if no other is explicit."""
    if layout is None:
        return None
    rest = tuple([n for n in layout.explicit if n not in manual])
    kept = tuple([tuple([n for n in names if n in rest]) for names in layout.spec])
    return Layout(layout.mesh, rest, kept) if rest else None


def check_same(what: str, names: Sequence[str], takes: Sequence[Any], gives: Sequence[Any]) -> None:
    """Check that a body gives carries that are divided as it takes them, given both types.

    Raises:
        ShardingTypeError: naming the first that differs.
    """
    if not traces.LAYOUTS.exist or is_resolved_outside():
        return
    for name, x, y in zip(names, takes, gives):
        before, after = of(x), of(y)
        if after is not None and (before or after.over(undivided(len(x.shape)))) != after:
            raise ShardingTypeError(
                f"the body of {what} must return a carry that is divided as the one it takes",
                got=f"{name} goes in as {show(x, before)} and comes out as {show(x, after)}",
                hint="begin with a carry of this sharding, as tnp.zeros(shape, out_sharding=...) "
                "makes one, or tfn.reshard the result",
            )


def check_branches(
    what: str, names: Sequence[str], first: Sequence[Any], other: Sequence[Any]
) -> None:
    """Check that two branches give results that are divided in the same way, given their types.

    Raises:
        ShardingTypeError: naming the first that differs.
    """
    if not traces.LAYOUTS.exist or is_resolved_outside():
        return
    for x, y in zip(first, other, strict=True):
        specs = [at.spec if at is not None else undivided(len(x.shape)) for at in (of(x), of(y))]
        if specs[0] != specs[1]:
            raise ShardingTypeError(
                f"the branches of {what} must return results that are divided in the same way",
                got=f"{show(x, of(x))} in {names[0]} and {show(y, of(y))} in {names[1]}",
                hint="tfn.reshard brings one of them to the sharding of the other",
            )


def check_asserted(x: Any, sharding: NamedSharding) -> None:
    """Check a constraint over a mesh of explicit axes alone: it is an assertion, and moves nothing.

    Raises:
        ShardingTypeError: if the value is divided in another way.
    """
    if not sharding.mesh.abstract_mesh.are_all_axes_explicit or is_resolved_outside():
        return
    before, after = of(x), of_sharding(sharding, len(x.shape))
    if before is not None and after is not None and before.spec != after.spec:
        raise ShardingTypeError(
            "with_sharding_constraint over explicit axes says how a value is divided, and this one "
            "is divided otherwise",
            got=f"{show(x, before)}, and {sharding.spec}",
            hint="tfn.reshard divides it anew",
        )


def sliced(what: str, name: str, x: Any) -> Layout | None:
    """The layout of the slices of an array that a loop runs over.

    Raises:
        ShardingTypeError: if its first axis is divided.
    """
    layout = of(x)
    if layout is None:
        return None
    if layout.spec[0] and not is_resolved_outside():
        raise ShardingTypeError(
            f"{what} runs over an axis that {joined(layout.spec[0])!r} divides",
            got=f"{name}: {show(x, layout)}",
            hint="tfn.reshard divides another axis of the array before",
        )
    return layout.without_axis(0)
