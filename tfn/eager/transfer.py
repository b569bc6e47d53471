"""Transfers to and from devices, and synchronisation, for whole trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfn import tree
from tfn.array import Array
from tfn.eager import run, shards
from tfn.eager.device_memory import check_share as check_share
from tfn.eager.device_memory import live_buffers as live_buffers
from tfn.eager.device_memory import memory_stats as memory_stats
from tfn.errors import ArgumentError
from tfn.trace.named_sharding import NamedSharding
from tfn.transforms.shard.jit_shardings import spread


def device_put(
    x: object,
    device: Any = None,
    *,
    src: object = None,
    donate: bool = False,
    may_alias: bool | None = None,
) -> Any:
    """Puts the arrays and numbers of a tree on devices.

    NumPy arrays are copied: later writes to them are not seen.  Arrays of this process keep their
    memory where they can.  A traced value gets a constraint on its sharding.

    Args:
        x: a tree of arrays and numbers.
        device: a device, a `NamedSharding`, or a `PartitionSpec` of the mesh that is set: one for
            all, or a tree of them that begins like `x`.  None for the default device, which
            commits arrays to no place.
        src: accepted as in JAX, and changes nothing.
        donate: whether the arrays of `x` are deleted.
        may_alias: accepted as in JAX: arrays are immutable, so that sharing memory is not seen.

    Raises:
        DeviceError: if there is no such device.
        ShapeError: if a size does not divide.
        TreeError: if the tree of devices does not begin like `x`.

    Example:
        >>> device_put({"w": np.ones(2, "float32")})
        {'w': Array([1., 1.], dtype=float32)}
        >>> import tfn
        >>> device_put(1.0, tfn.devices("python")[0]).device
        python:0
    """
    if device is None:
        return tree.map(run.asarray, x)
    results = put_tree("device_put", x, device)
    if donate:
        for leaf, result in zip(tree.leaves(x), tree.leaves(results), strict=True):
            if isinstance(leaf, Array) and leaf is not result and leaf.owner is None:
                leaf.delete()
    return results


def put_tree(
    what: str, x: object, places: Any, put: Callable[[Any, Any], Array] = shards.put_value
) -> Any:
    """The arrays of a tree, each at its place; None leaves one as it is.

    Args:
        what: the name of the function, for errors.
        x: a tree of arrays and numbers.
        places: one for all, or a tree of them that begins like `x`.
        put: from an array or a number and its sharding to the array there.
    """
    leaves, structure = tree.flatten(x)
    listed = spread(f"the shardings of {what}", places, x, "the tree of arrays")
    results = [
        run.asarray(leaf) if _is_nowhere(place) else put(leaf, shards.place_of(what, place))
        for leaf, place in zip(leaves, listed, strict=True)
    ]
    return tree.unflatten(structure, results)


def _is_nowhere(place: object) -> bool:
    """Whether a place names none: None, or a sharding over the mesh that has no axes."""
    return place is None or (isinstance(place, NamedSharding) and not place.mesh.axis_names)


def reshard(xs: object, out_shardings: Any) -> Any:
    """Divides the arrays of a tree anew: `device_put` to shardings, eagerly and while tracing.

    Args:
        xs: a tree of arrays.
        out_shardings: a sharding or a `PartitionSpec`, or a tree of them that begins like `xs`.

    Raises:
        ShapeError: if a size does not divide.
        ArgumentError: for a spec without a mesh.
    """
    if out_shardings is None:
        raise ArgumentError(
            "reshard needs a sharding",
            got="out_shardings=None",
            hint="pass a NamedSharding, or a PartitionSpec within `with tfn.set_mesh(mesh):`",
        )
    return put_tree("reshard", xs, out_shardings)


def device_get(x: object) -> Any:
    """Replaces the arrays of a tree by NumPy arrays, which are read-only views of them.

    Arrays that are divided among devices are put together in new memory.

    Raises:
        TracerArrayConversionError: for a traced array, which has no data.
    """
    return tree.map(np.asarray, x)


def effects_barrier() -> None:
    """Wait until the effects of all programs that were started have happened.

    Example:
        >>> effects_barrier()
    """
    run.synchronize()


def block_until_ready(x: object) -> Any:
    """Waits until all programs that were started have finished, and returns the tree itself.

    Example:
        >>> block_until_ready((1, None))
        (1, None)
    """
    if type(x) is Array:
        return x.block_until_ready()
    run.synchronize()
    return x
