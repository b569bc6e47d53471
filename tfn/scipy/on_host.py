"""Algorithms of SciPy that run on the host, in the middle of a program.

They make decisions, not numbers: assignments, labels, triangles.  Their results have no
derivative; what follows from them is computed by tfn, and has one.
"""

from __future__ import annotations

import importlib
from typing import Any

from tfn import lax, pure_callback, tree


def call(name: str, results: Any, *operands: Any, **options: Any) -> Any:
    """The results of a function of SciPy, of declared shapes and dtypes.

    Args:
        name: the function with its package, as in ``"optimize.linear_sum_assignment"``.
        results: a tree of `ShapeDtypeStruct`.
        operands: arrays, of which the function takes NumPy's.
        options: further arguments of the function.

    Returns:
        A tree of arrays like `results`; under `vmap` the function runs once for each lane.

    Example:
        >>> import numpy as np, tfn
        >>> kind = tfn.ShapeDtypeStruct((3,), np.int32)
        >>> call("ndimage.label", (kind, tfn.ShapeDtypeStruct((), np.int32)), np.int32([1, 0, 1]))
        (Array([1, 0, 2], dtype=int32), Array(2, dtype=int32))
    """
    package, _, function = name.rpartition(".")

    def run(*arrays: Any) -> Any:
        import scipy

        found = getattr(importlib.import_module(f"{scipy.__name__}.{package}"), function)(
            *arrays, **options
        )
        return tree.map(lambda kind, x: kind.dtype.type(x), results, found)

    stopped = [lax.stop_gradient(x) for x in operands]
    return pure_callback(run, results, *stopped, vmap_method="sequential")
