"""Values to and from devices, and waiting for them: whole trees at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import tree
from tfn.array import Array
from tfn.eager import run


def device_put(x: Any) -> Any:
    """A tree with arrays and numbers on the default device.

    NumPy arrays are copied: what is written to them later is not seen.

    Example:
        >>> device_put({"w": np.ones(2, "float32")})
        {'w': Array([1., 1.], dtype=float32)}
    """
    return tree.map(run.asarray, x)


def device_get(x: Any) -> Any:
    """A tree with NumPy arrays, read-only and not copied, in place of arrays.

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


def block_until_ready(x: Any) -> Any:
    """The tree itself, once all that was started has finished.

    Example:
        >>> block_until_ready((1, None))
        (1, None)
    """
    if type(x) is Array:
        return x.block_until_ready()
    run.device().queue.synchronize()
    return x
