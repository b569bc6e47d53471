"""A tree of arrays as one vector, and back: `ravel_pytree`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeVar

from tfn import numpy as tnp
from tfn import tree
from tfn._support.validate import shown
from tfn.array import Array
from tfn.errors import DTypeError, ShapeError

T = TypeVar("T")


def ravel_pytree(pytree: T) -> tuple[Array, Callable[[Array], T]]:
    """All elements of a tree's arrays along one axis, and the function that takes them apart.

    The vector has the dtype that all of them promote to; each leaf gets its own back.  Where all
    leaves have one dtype, they come back in that of the vector that is taken apart.

    Example:
        >>> vector, unravel = ravel_pytree({"b": 1.0, "w": tnp.ones((2, 2))})
        >>> vector.shape, unravel(2 * vector)["w"].tolist()
        ((5,), [[2.0, 2.0], [2.0, 2.0]])
    """
    leaves, structure = tree.flatten(pytree)
    values = [tnp.asarray(leaf) for leaf in leaves]
    kinds = [(value.shape, value.dtype) for value in values]
    dtype = tnp.result_type(*values) if values else tnp.float32
    size = sum(prod(shape) for shape, _ in kinds)
    vector = (
        tnp.concatenate([tnp.ravel(value).astype(dtype) for value in values])
        if values
        else tnp.zeros(0, dtype)
    )

    def unravel(flat: Array) -> T:
        if tnp.shape(flat) != (size,):
            raise ShapeError(
                f"unravel takes a vector of {size} elements",
                got=shown(flat),
                hint="pass the vector that ravel_pytree gave, or one like it",
            )
        mixed = any(kind != dtype for _, kind in kinds)
        if mixed and tnp.result_type(flat) != dtype:
            raise DTypeError(
                "unravel takes a vector of the dtype that the leaves of the tree promote to",
                got=shown(flat),
                hint=f"convert it: flat.astype('{dtype}')",
            )
        parts, at = [], 0
        for shape, kind in kinds:
            part = tnp.reshape(flat[at : at + prod(shape)], shape)
            parts.append(part.astype(kind) if mixed else part)
            at += prod(shape)
        unraveled: T = tree.unflatten(structure, parts)
        return unraveled

    return vector, unravel
