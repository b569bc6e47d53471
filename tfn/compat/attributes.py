"""Attributes that JAX's classes have and tfn's have not: `install_as_jax` adds them."""

from __future__ import annotations

from typing import Any

from tfn.array import Array
from tfn.compat.avals import typeof
from tfn.dtypes import ScalarType
from tfn.extend import Jitted


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
    if x.owner is None:
        raise AttributeError("an array has a primal only while a derivative is taken of it")
    return x.concrete() if x.known else x


OF_ARRAYS: dict[str, Any] = {
    "_trace": property(lambda x: x.owner),  # of JAX's tracers
    "aval": property(typeof),
    "clone": lambda x: x.copy(),
    "primal": property(primal),
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
