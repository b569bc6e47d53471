"""Values of all processes: the names of `jax.experimental.multihost_utils`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tfn import tree
from tfn.array import Array
from tfn.distributed.session import is_initialized, session
from tfn.eager import shards, stacks, transfer
from tfn.errors import DistributedError
from tfn.extend import processes, run
from tfn.sharding import Mesh, NamedSharding, PartitionSpec
from tfn.transforms.shard.jit_shardings import spread


def sync_global_devices(name: str) -> None:
    """Wait until all processes have come here, and their programs have finished.

    Args:
        name: of the place in the script, which is compared.

    Raises:
        DistributedError: if a process is at another place.
        CollectiveTimeoutError: if one does not come before the deadline.

    Example:
        >>> sync_global_devices("the data are read")
    """
    transfer.effects_barrier()
    names = _of_all(name.encode(), f"the synchronization {name!r}")
    for rank, other in enumerate(names):
        if other != name.encode():
            own = session()
            raise DistributedError(
                "processes wait for each other at different places",
                got=f"rank {own.rank}: {name!r}, rank {rank} on {own.hosts[rank]}: "
                f"{other.decode(errors='replace')!r}",
                hint="all processes call sync_global_devices with the same names in the same order",
                host=own.hosts[rank],
                rank=rank,
            )


def _of_all(own: bytes, what: str) -> list[bytes]:
    """Some bytes of each process."""
    if processes.count == 1 or not is_initialized():
        return [own]
    return session().exchanged(own, range(processes.count), what)


def _values(x: Any) -> np.ndarray[Any, Any]:
    """The data of an array that is not divided among processes."""
    return np.asarray(x)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The arrays of all processes as NumPy arrays: all of their data in each process.

    Args:
        in_tree: a tree of arrays.  One that is divided among processes is put together; of another
            one each process has its own.
        tiled: whether those of the processes are joined along the first axis that there is; if not,
            along a new one.  It changes nothing for an array that is divided.

    Raises:
        CollectiveTimeoutError: if a process does not take part before the deadline.

    Example:
        >>> process_allgather(np.ones(2)).shape, process_allgather(np.ones(2), tiled=True).shape
        ((1, 2), (2,))
    """

    def gathered(x: Any) -> Any:
        if isinstance(x, Array) and x.owner is None and not x.is_fully_addressable:
            return np.asarray(shards.put(x, x.sharding.with_spec(PartitionSpec())))
        data = _values(x)
        rows = _of_all(data.tobytes(), "process_allgather")
        parts = [np.frombuffer(row, data.dtype).reshape(data.shape) for row in rows]
        return np.concatenate(parts) if tiled and data.ndim else np.stack(parts)

    return tree.map(gathered, in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The arrays of one process, as NumPy arrays in all of them.

    Args:
        in_tree: a tree of arrays, of the same shapes and dtypes in all processes.
        is_source: whether this process is the one; the first process if left out.

    Raises:
        DistributedError: if not exactly one process is the source.

    Example:
        >>> broadcast_one_to_all({"seed": 3})["seed"]
        array(3, dtype=int32)
    """
    here = processes.index == 0 if is_source is None else is_source
    flags = _of_all(bytes([here]), "broadcast_one_to_all")
    sources = [rank for rank, flag in enumerate(flags) if flag[0]]
    if len(sources) != 1:
        raise DistributedError(
            "a broadcast needs one source",
            got=f"sources: {sources}",
            hint="is_source is true in exactly one process",
        )

    def received(x: Any) -> Any:
        data = np.asarray(run.asarray(x))
        rows = _of_all(data.tobytes() if here else b"", "broadcast_one_to_all")
        return np.frombuffer(rows[sources[0]], data.dtype).reshape(data.shape)

    return tree.map(received, in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same arrays.

    Raises:
        AssertionError: if they have not; as JAX reports it.

    Example:
        >>> assert_equal({"x": np.ones(3)})
    """
    leaves = [_values(x) for x in tree.leaves(in_tree)]
    text = b"".join([f"{x.dtype}{x.shape}".encode() + x.tobytes() for x in leaves])
    digests = _of_all(hashlib.sha256(text).digest(), "assert_equal")
    different = [rank for rank, other in enumerate(digests) if other != digests[0]]
    if different:
        own = session()
        raise AssertionError(
            f"{fail_message or 'processes have different arrays'}: rank 0 on {own.hosts[0]} and "
            f"rank {different[0]} on {own.hosts[different[0]]}"
        )


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the process is about to be ended: nothing says so."""
    return False


def _with_specs(call: Callable[[Any, Any], Any], arrays: Any, mesh: Mesh, pspecs: Any) -> Any:
    """A function of each array and its sharding; the tree of specs begins like that of arrays."""
    shardings = tree.map(
        lambda spec: NamedSharding(mesh, spec),
        pspecs,
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )
    leaves, structure = tree.flatten(arrays)
    listed = spread("pspecs", shardings, arrays, "the arrays")
    return tree.unflatten(structure, [call(x, s) for x, s in zip(leaves, listed, strict=True)])


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The arrays of all processes, each its own part, as arrays divided over a mesh.

    Args:
        local_inputs: a tree of arrays.
        global_mesh: the mesh.
        pspecs: a `PartitionSpec`, or a tree of them that begins like the arrays.

    Raises:
        ShapeError: for a size that does not divide.
    """
    return _with_specs(
        lambda x, sharding: shards.make_array_from_process_local_data(sharding, _values(x)),
        local_inputs,
        global_mesh,
        pspecs,
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts of arrays that this process has, put together, as NumPy arrays.

    Args:
        global_inputs: a tree of arrays.
        global_mesh: the mesh.
        pspecs: a `PartitionSpec`, or a tree of them that begins like the arrays.
    """

    def own(x: Any, sharding: NamedSharding) -> Any:
        x = shards.put_value(x, sharding)
        return stacks.read_own(x, run.device(stacks.platform_of(x)).memory)

    return _with_specs(own, global_inputs, global_mesh, pspecs)
