"""Abstract values: the shape and dtype of an array as one interned object, the key of caches.

There is one Kind for each pair, so that kinds are compared, and looked up, by identity.
"""

from __future__ import annotations

import weakref
from functools import partial

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

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Kind is immutable: cannot set {name}")

    def __repr__(self) -> str:
        return f"Kind({self.shape}, {self.dtype})"


_Key = tuple[Shape, DType]
_KINDS: dict[_Key, weakref.ref[Kind]] = {}


def _forget(key: _Key, entry: object, table: dict[_Key, weakref.ref[Kind]] = _KINDS) -> None:
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
    return (entry and entry()) or _interned(key)


def _interned(key: _Key) -> Kind:
    kind = Kind(*key)
    entry = weakref.ref(kind, partial(_forget, key))
    while True:
        winner = _KINDS.setdefault(key, entry)()
        if winner is not None:  # this one, or that of another thread
            return winner
        _KINDS.pop(key, None)  # dead, and not yet removed by its callback
