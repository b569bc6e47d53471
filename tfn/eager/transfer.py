"""Transfers to and from devices, and synchronisation, for whole trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import tree
from tfn.array import Array
from tfn.eager import run


def device_put(x: object) -> Any:
    """Copies the arrays and numbers of a tree to the default device.

    NumPy arrays are copied: later writes to them are not seen.

    Example:
        >>> device_put({"w": np.ones(2, "float32")})
        {'w': Array([1., 1.], dtype=float32)}
    """
    return tree.map(run.asarray, x)


def device_get(x: object) -> Any:
    """Replaces the arrays of a tree by NumPy arrays, which are read-only views of them.

    Raises:
        TracerArrayConversionError: for a traced array, which has no data.
    """
    return tree.map(np.asarray, x)


def effects_barrier() -> None:
    """Wait until the effects of all programs that were started have happened.

    Example:
        >>> effects_barrier()
    """
    run.device().queue.synchronize()


def block_until_ready(x: object) -> Any:
    """Waits until all programs that were started have finished, and returns the tree itself.

    Example:
        >>> block_until_ready((1, None))
        (1, None)
    """
    if type(x) is Array:
        return x.block_until_ready()
    run.device().queue.synchronize()
    return x
