"""What every cache asks of an array first: its shape and dtype, as one object.

There is one Kind for each pair, so that kinds are compared, and found in tables, by identity.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from tfn.dtypes import DType
from tfn.trace.op import Shape


class Kind:
    """A shape and a dtype; made by `kind_of` alone."""

    __slots__ = ("__weakref__", "dtype", "shape")
    dtype: DType
    shape: Shape

    def __init__(self, shape: Shape, dtype: DType) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Kind is immutable: cannot set {name}")

    def __repr__(self) -> str:
        return f"Kind({self.shape}, {self.dtype})"


_Key = tuple[Shape, DType]
_KINDS: dict[_Key, weakref.ref[Kind]] = {}


def _forget(key: _Key, entry: Any, table: dict[_Key, weakref.ref[Kind]] = _KINDS) -> None:
    if table.get(key) is entry:
        del table[key]


def kind_of(shape: Shape, dtype: DType) -> Kind:
    """The kind of a shape and a dtype, always the same object.

    Example:
        >>> import numpy as np
        >>> kind_of((2, 3), np.dtype("int32")) is kind_of((2, 3), np.dtype("int32"))
        True
    """
    key = shape, dtype
    entry = _KINDS.get(key)
    return (entry and entry()) or _made(key)


def _made(key: _Key) -> Kind:
    made = Kind(*key)
    entry = weakref.ref(made, partial(_forget, key))
    while True:
        found = _KINDS.setdefault(key, entry)()
        if found is not None:  # it, or what another thread has made
            return found
        _KINDS.pop(key, None)  # dead, and not yet forgotten
