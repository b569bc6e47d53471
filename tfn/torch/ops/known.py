"""Values of a graph, and PyTorch's rules for the dtype of what is computed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.array import Array
from tfn.dtypes import DType

Value = Any
"""An array, a number, a size, or None for what is left out."""

_NUMBERS = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float32)}
"""Dtypes that numbers of Python have where no array is of their kind."""


def dtype_of(scalar_type: Any) -> DType:
    """The dtype of a ``torch.dtype``, by its name; itself if it is one of NumPy already."""
    return jnp.dtype(str(scalar_type).removeprefix("torch."))


def _category(dtype: DType) -> int:
    kind = "f" if dtype.name == "bfloat16" else dtype.kind
    return {"b": 0, "i": 1, "u": 1, "c": 3}.get(kind, 2)


def promoted(*values: Value) -> DType:
    """The dtype of a result: arrays decide it, then scalars of a higher category, then numbers.

    Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
    """
    arrays = [v for v in values if isinstance(v, Array)]
    tiers: list[list[DType]] = [
        [v.dtype for v in arrays if v.ndim],
        [v.dtype for v in arrays if not v.ndim],
        [_NUMBERS.get(type(v), np.dtype(np.complex64)) for v in values if _is_number(v)],
    ]
    result: DType | None = None
    for tier in filter(None, tiers):
        dtype = tier[0]
        for other in tier[1:]:
            dtype = jnp.promote_types(dtype, other)
        if result is None or _category(dtype) > _category(result):
            wide = result is not None and result == np.float64 and dtype.kind == "c"
            result = np.dtype(np.complex128) if wide else dtype
    assert result is not None
    return result


def _is_number(value: Value) -> bool:
    return isinstance(value, (bool, int, float, complex))


def cast(x: Value, dtype: Any) -> Array:
    """An array in a dtype."""
    if isinstance(x, Array):
        return x if x.dtype == dtype else x.astype(dtype)
    return jnp.asarray(x, dtype)


def together(*values: Value) -> list[Array]:
    """Arrays in the dtype that they have in common."""
    dtype = promoted(*values)
    return [cast(v, dtype) for v in values]


def floating(*values: Value) -> list[Array]:
    """Arrays in the floating dtype that they have in common."""
    dtype = promoted(*values)
    dtype = dtype if _category(dtype) >= 2 else np.dtype(np.float32)
    return [cast(v, dtype) for v in values]


def is_integral(x: Array) -> bool:
    """Whether elements are integers or booleans."""
    return _category(x.dtype) < 2


def widened(x: Array) -> Array:
    """Floats of 16 bits in 32, in which PyTorch computes sums."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and not is_integral(x) else x


def axes_of(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes from the front; all of them for None and for an empty list."""
    if not rank:
        return ()
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(rank))
    given = (dims,) if isinstance(dims, int) else dims
    return tuple(d % rank for d in given)


def each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """A number for each axis of space, of one for all or a list."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * rank if len(values) == 1 else values


def rowed(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of one vector or more, over scalars too, which PyTorch takes for vectors."""

    def op(x: Value, *args: Value, **options: Value) -> Value:
        if x.ndim:
            return function(x, *args, **options)
        y = function(x.reshape(1), *args, **options)
        return tuple(v.reshape(()) for v in y) if isinstance(y, tuple) else y.reshape(())

    return op
