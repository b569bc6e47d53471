"""Attributes that JAX's classes have and tfn's have not: `install_as_jax` adds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.array import Array
from tfn.compat.avals import typeof
from tfn.dtypes import DTypeLike, ScalarType, canonical
from tfn.errors import ShapeError
from tfn.lax.bits import bitcast_convert_type
from tfn.numpy import argpartition, choose, compress
from tfn.transforms.jit import Jitted


def view(x: Array, dtype: DTypeLike | None = None) -> Array:
    """The bytes of the elements as those of another dtype; the last axis changes with its width.

    Args:
        x: array of any shape.
        dtype: the dtype of the result; None keeps that of `x`.

    Returns:
        An array of the shape of `x`, but for its last axis where the widths differ.

    Raises:
        ShapeError: if the bytes of the last axis are not those of whole elements.

    Example:
        >>> import tfn.numpy as tnp
        >>> view(tnp.ones(2), "int32")
        Array([1065353216, 1065353216], dtype=int32)
    """
    target = x.dtype if dtype is None else canonical(dtype)
    before, after = x.dtype.itemsize, target.itemsize
    if before == after:
        return bitcast_convert_type(x, target)
    if not x.shape or x.shape[-1] * before % after:
        raise ShapeError(
            "the last axis has no whole elements of this dtype",
            got=f"{x.dtype.name}{list(x.shape)} as {target.name}",
            hint="reshape the array first",
        )
    *rows, last = x.shape
    if before < after:
        return bitcast_convert_type(x.reshape(*rows, last * before // after, -1), target)
    return bitcast_convert_type(x, target).reshape(*rows, last * before // after)


def primal(x: Array) -> Array:
    """The value of an array that a derivative is taken of, without its tangent.

    Raises:
        AttributeError: for an array that no transform has replaced.

    Example:
        >>> import tfn
        >>> tfn.grad(lambda x: print(primal(x)) or x * x)(3.0)
        3.0
        Array(6., dtype=float32, weak_type=True)
    """
    if x.trace is None:
        raise AttributeError("an array has a primal only while a derivative is taken of it")
    return x.concrete() if x.known else x


OF_ARRAYS: dict[str, Any] = {
    "_trace": property(lambda x: x.trace),  # of JAX's tracers
    "argpartition": lambda x, *args, **options: argpartition(x, *args, **options),
    "aval": property(typeof),
    "choose": lambda x, *args, **options: choose(x, *args, **options),
    "clone": lambda x: x.copy(),
    "compress": lambda x, condition, *args, **options: compress(condition, x, *args, **options),
    "is_ready": lambda x: True,
    "on_device_size_in_bytes": lambda x: x.nbytes,
    "primal": property(primal),
    "tobytes": lambda x: np.asarray(x).tobytes(),
    "view": view,
}

ATTRIBUTES: dict[type[Any], dict[str, Any]] = {
    Array: OF_ARRAYS,
    # NumPy's classes are found in sets of JAX's.
    ScalarType: {"__hash__": lambda kind: hash(kind.dtype.type)},
    # Programs read these to show when JAX traces.
    Jitted: {
        "_cache_size": lambda f: f.cache_info().entries,
        "_clear_cache": lambda f: f.clear_cache(),
    },
}
"""By class and name."""
