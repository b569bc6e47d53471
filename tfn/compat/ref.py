"""Functions of references, `jax.ref`, beside `new_ref` and `freeze`, and their type.

jax.ref.swap(ref, i, x)    ref[i], before ref[i] = x
"""

from __future__ import annotations

from typing import Any

from tfn import Ref as Ref
from tfn import freeze as freeze
from tfn import new_ref as new_ref
from tfn.compat.avals import AbstractRef as AbstractRef
from tfn.errors import NotAvailableError
from tfn.numpy import zeros
from tfn.trace.refs import View


def get(ref: Ref | View, idx: Any = ...) -> Any:
    """The elements of a reference at an index."""
    return ref[idx]


def set(ref: Ref | View, idx: Any, value: Any) -> None:
    """Writes the elements of a reference at an index."""
    ref[idx] = value


def swap(ref: Ref | View, idx: Any, value: Any) -> Any:
    """Writes the elements of a reference at an index, and returns those before.

    Example:
        >>> ref = new_ref(1.0)
        >>> float(swap(ref, ..., 2.0)), float(ref[...])
        (1.0, 2.0)
    """
    before = ref[idx]
    ref[idx] = value
    return before


def addupdate(ref: Ref, idx: Any, x: Any) -> None:
    """Adds to the elements of a reference at an index, which may occur more than once."""
    ref.addupdate(x, idx)


def free_ref(ref: Ref) -> None:
    """Accepted as in JAX: the memory is free when nothing refers to it."""


def empty_ref(ty: Any, memory_space: object = None) -> Ref:
    """A reference whose elements are to be written first.

    Raises:
        NotAvailableError: for what is no type of an array.

    Example:
        >>> from tfn import ShapeDtypeStruct
        >>> empty_ref(ShapeDtypeStruct((2,), "float32")).shape
        (2,)
    """
    if not hasattr(ty, "shape") or not hasattr(ty, "dtype"):
        raise NotAvailableError("references hold arrays", got=repr(ty)[:80])
    return new_ref(zeros(ty.shape, ty.dtype))
