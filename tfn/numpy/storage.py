"""Arrays in NumPy's files."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.array import Array, ArrayLike
from tfn.eager.operands import array_of
from tfn.numpy.creation import asarray


def save(file: Any, arr: ArrayLike) -> None:
    """Write an array to a file, by name or open, in NumPy's format ``.npy``.

    Example:
        >>> import tfn.numpy as tnp
        >>> import io
        >>> file = io.BytesIO()
        >>> save(file, tnp.arange(3))
        >>> _ = file.seek(0)
        >>> load(file)
        Array([0, 1, 2], dtype=int32)
    """
    np.save(file, np.asarray(array_of("save", arr)), allow_pickle=False)


def savez(file: Any, *args: ArrayLike, **kwargs: ArrayLike) -> None:
    """Write arrays to a file in NumPy's format ``.npz``, by name, or as arr_0, arr_1, ...

    Example:
        >>> import tfn.numpy as tnp
        >>> import io
        >>> file = io.BytesIO()
        >>> savez(file, x=tnp.arange(3))
        >>> _ = file.seek(0)
        >>> load(file)["x"]
        Array([0, 1, 2], dtype=int32)
    """
    named = {f"arr_{i}": x for i, x in enumerate(args)} | kwargs
    np.savez(file, **{name: np.asarray(array_of("savez", x)) for name, x in named.items()})  # type: ignore[arg-type]


def load(file: Any) -> Array | dict[str, Array]:
    """The array of a file that `save` wrote, or the arrays by name of one that `savez` wrote.

    Example:
        >>> import tfn.numpy as tnp
        >>> import io
        >>> file = io.BytesIO()
        >>> save(file, tnp.arange(3))
        >>> _ = file.seek(0)
        >>> load(file)
        Array([0, 1, 2], dtype=int32)
    """
    found = np.load(file, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return asarray(found)
    with found:
        return {name: asarray(found[name]) for name in found.files}
