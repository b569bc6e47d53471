"""Agreement of processes: the names of `jax.experimental.multihost_utils`, for one process."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import tree
from tfn.eager.transfer import device_get, effects_barrier, put_tree
from tfn.trace.mesh import Mesh
from tfn.trace.named_sharding import NamedSharding, PartitionSpec


def sync_global_devices(name: str) -> None:
    """Waits until all processes have come here, and their programs have finished."""
    effects_barrier()


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The arrays of the first process as NumPy arrays."""
    return tree.map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The arrays of all processes as NumPy arrays, along a new first axis, or the one there is.

    Example:
        >>> process_allgather(np.ones(2)).shape, process_allgather(np.ones(2), tiled=True).shape
        ((1, 2), (2,))
    """
    return tree.map(lambda x: np.asarray(x) if tiled else np.asarray(x)[None], in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Nothing: what one process has is equal to itself."""


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the process is about to be ended: nothing says so."""
    return False


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The arrays of this process divided over a mesh.

    Args:
        local_inputs: a tree of arrays.
        global_mesh: the mesh.
        pspecs: a `PartitionSpec`, or a tree of them that begins like the arrays.
    """
    shardings = tree.map(
        lambda spec: NamedSharding(global_mesh, spec),
        pspecs,
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )
    return put_tree("host_local_array_to_global_array", local_inputs, shardings)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts of arrays that this process has: all of them, as NumPy arrays."""
    return device_get(global_inputs)
