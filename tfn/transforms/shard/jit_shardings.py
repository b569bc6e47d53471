"""The shardings that `jit` gives to arguments and results.

    jit(f, in_shardings=(data, None), out_shardings=data)

An argument that is not committed to devices is put where its sharding says; one that is, has to be
there already.  A result gets its sharding by a constraint, which is a part of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tfn import tree
from tfn._support.frozen import frozen
from tfn.errors import ArgumentError, TreeError
from tfn.trace import bind, runtime
from tfn.trace.mesh import Device, mesh_in_use
from tfn.trace.named_sharding import (
    NamedSharding,
    P,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    as_sharding,
)
from tfn.trace.op import Op
from tfn.trace.place import Request
from tfn.trace.uop import UOp
from tfn.transforms.shapes import ShapeDtypeStruct


def _is_leaf(x: object) -> bool:
    places = (PartitionSpec, NamedSharding, SingleDeviceSharding, Device, str)
    return x is None or isinstance(x, places)


@frozen
class _Box:
    """A sharding, or None, as the leaf of a tree."""

    value: Any


def spread(what: str, prefix: Any, whole: Any, like: str) -> list[Any]:
    """The sharding of each leaf of a tree.

    Args:
        what: the name of the shardings, for errors.
        prefix: one sharding for all, or a tree of them that begins like `whole`.
        like: the words for `whole`.

    Raises:
        TreeError: if it does not.
    """
    boxed = tree.map(_Box, prefix, is_leaf=_is_leaf)
    try:
        return [box.value for box in tree.broadcast_prefix(boxed, whole)]
    except TreeError as error:
        raise TreeError(
            f"{what} does not fit",
            got=error.got,
            hint=f"it is one sharding, or a tree of them that begins like {like}",
        ) from None


@frozen
class Shardings:
    """Shardings of the arguments and results of a function, as the user has given them.

    Attributes:
        name: of the function.
        inputs: a tree that begins like the tuple of positional arguments; None for any sharding.
        outputs: a tree that begins like the result.
        device: the device to run on.
    """

    name: str
    inputs: Any
    outputs: Any
    device: Any

    @staticmethod
    def of(name: str, inputs: Any, outputs: Any, device: Any) -> Shardings | None:
        """The options of `jit`; None if none is given.

        Raises:
            ArgumentError: for what is no tree of shardings.
        """
        if inputs is None and outputs is None and device is None:
            return None
        if device is not None and (inputs is not None or outputs is not None):
            raise ArgumentError(
                f"jit of {name} got a device and shardings",
                got=f"device={device}",
                hint="in_shardings=SingleDeviceSharding(device) is the same as device",
            )
        for option, value in (("in_shardings", inputs), ("out_shardings", outputs)):
            for leaf in tree.leaves(value, is_leaf=_is_leaf):
                if not _is_leaf(leaf):
                    raise ArgumentError(
                        f"{option} of {name} is a tree of shardings",
                        got=repr(leaf)[:80],
                        hint="its leaves are NamedSharding, PartitionSpec or None",
                    )
        inputs = tuple(inputs) if isinstance(inputs, list) else inputs
        return Shardings(name, inputs, outputs, device)

    @property
    def has_specs(self) -> bool:
        """Whether it depends on the mesh that is set: a result has a spec without a mesh."""
        leaves = tree.leaves(self.outputs, is_leaf=_is_leaf)
        return any(isinstance(leaf, PartitionSpec) for leaf in leaves)

    def request(self, structure: tree.Structure, tokens: int) -> Request:
        """The shardings of results after so many tokens, and where the function runs.

        Raises:
            TreeError: if the shardings do not begin like the result.
        """
        if self.device is not None:
            return Request(as_sharding(self.name, self.device), ())
        if self.outputs is None:
            return Request(None, ())
        given = self._results(structure, list(range(structure.num_leaves)))
        first = next((sharding for sharding in given if sharding is not None), None)
        place = first.with_spec(P()) if isinstance(first, NamedSharding) else first
        return Request(place, (*(None for _ in range(tokens)), *given))

    def _results(self, structure: tree.Structure, leaves: Sequence[Any]) -> list[Sharding | None]:
        """The sharding of each leaf of the result."""
        result = tree.unflatten(structure, list(leaves))
        given = spread(f"out_shardings of {self.name}", self.outputs, result, "the result")
        return [as_sharding(self.name, sharding) for sharding in given]

    def put(self, args: Sequence[object], values: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """The leaves of arguments on the devices of their shardings; those by keyword unchanged.

        Raises:
            TreeError: if the shardings do not begin like the arguments.
            ArgumentError: for an argument that is committed under another sharding.
        """
        if self.inputs is None:
            return list(values)
        what = f"in_shardings of {self.name}"
        given = spread(what, self.inputs, tuple(args), "the tuple of arguments")
        given += [None] * (len(values) - len(given))
        return [
            x if sharding is None else self._put(x, as_sharding(self.name, sharding), name)
            for x, sharding, name in zip(values, given, names, strict=True)
        ]

    def _put(self, x: Any, sharding: Any, name: str) -> Any:
        if isinstance(x, ShapeDtypeStruct):
            return replace(x, sharding=sharding)
        if x.owner is not None:
            if isinstance(sharding, SingleDeviceSharding):
                return x
            return bind.bind(Op.CONSTRAIN, x, arg=sharding.constraint(x.shape), weak=x.weak_type)
        has = x.kind.sharding
        if has is not None and has.is_equivalent_to(sharding, x.ndim):
            return x
        if has is not None:
            raise ArgumentError(
                f"argument {name} of {self.name} has another sharding than in_shardings says",
                got=f"{name}: {has}",
                hint=f"tfn.device_put(x, ...) brings it to {sharding}; arrays that are not "
                "committed are brought there",
            )
        return runtime.device_put(x, sharding)

    def constrain(self, outputs: Sequence[UOp], structure: tree.Structure) -> list[UOp]:
        """The graphs of results under the constraints of their shardings.

        Raises:
            TreeError: if the shardings do not begin like the result.
            ShapeError: for a size that does not divide.
        """
        if self.outputs is None:
            return list(outputs)
        given = self._results(structure, outputs)
        return [
            u if sharding is None else constrained(u, sharding)
            for u, sharding in zip(outputs, given, strict=True)
        ]


def constrained(u: UOp, sharding: Any) -> UOp:
    """A node under the constraint of a sharding; one device says nothing about a node."""
    if isinstance(sharding, SingleDeviceSharding):
        return u
    return UOp(Op.CONSTRAIN, (u,), sharding.constraint(u.shape))


def mesh_key(depends: bool) -> tuple[object, ...]:
    """The mesh that is set, as a key of caches, for what depends on it."""
    return (mesh_in_use(),) if depends else ()
