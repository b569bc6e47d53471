"""Abstract values: shape, dtype and sharding of an array as one interned object, the key of caches.

There is one Kind for each triple, so that kinds are compared, and looked up, by identity: what is
compiled for arrays of one sharding is not found for arrays of another one.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from tfn.dtypes import DType
from tfn.trace.op import Shape

Sharding = Any
"""A sharding of `trace.named_sharding`, which `import tfn` does not load."""


class Kind:
    """A shape, a dtype and a sharding; made by `kind_of` alone.

    Attributes:
        shape: of the whole array.
        dtype: of its elements.
        sharding: the devices that it is committed to, and its division among them; None for an
            array that is on the default device, and may be used on all others.
    """

    __slots__ = ("__weakref__", "dtype", "shape", "sharding")
    dtype: DType
    shape: Shape
    sharding: Sharding | None

    def __init__(self, shape: Shape, dtype: DType, sharding: Sharding | None) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "sharding", sharding)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Kind is immutable: cannot set {name}")

    def __repr__(self) -> str:
        place = f", {self.sharding}" if self.sharding else ""
        return f"Kind({self.shape}, {self.dtype}{place})"


_Key = tuple[Shape, DType, Sharding | None]
_KINDS: dict[_Key, weakref.ref[Kind]] = {}


def _forget(key: _Key, entry: object, table: dict[_Key, weakref.ref[Kind]] = _KINDS) -> None:
    if table.get(key) is entry:
        del table[key]


def kind_of(shape: Shape, dtype: DType, sharding: Sharding | None = None) -> Kind:
    """The kind of a shape, a dtype and a sharding, always the same object.

    Example:
        >>> import numpy as np
        >>> kind_of((2, 3), np.dtype("int32")) is kind_of((2, 3), np.dtype("int32"))
        True
    """
    key = shape, dtype, sharding
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
