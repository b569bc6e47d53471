"""Tensors of PyTorch as arrays and arrays as tensors, in the same memory.

The elements are never copied where rows have no gaps and begin at a multiple of 64 bytes, as
PyTorch allocates them; views of a tensor, and tensors of other devices, are copied.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from tfn import numpy as jnp
from tfn.array import Array
from tfn.dtypes import DType
from tfn.errors import NotAvailableError
from tfn.extend import concrete, device, memory
from tfn.torch.library import pytorch

ALIGNMENT_BYTES = 64
"""A buffer begins at a cache line."""
OWN_REFERENCES = 3
"""References of a buffer that only its array has: that, a variable here, and the question."""
_CARRIERS: dict[DType, DType] = {
    jnp.dtype("bfloat16"): jnp.dtype("int16"),
    **{jnp.dtype(name): jnp.dtype("uint8") for name in ("float8_e4m3fn", "float8_e5m2")},
}
"""Integers as which PyTorch takes the arrays of NumPy that have dtypes of others."""

_NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 "
    "complex64 complex128 float8_e4m3fn float8_e5m2"
)


@cache
def dtypes() -> dict[Any, DType]:
    """Dtypes of arrays by those of tensors."""
    return {getattr(pytorch(), name): jnp.dtype(name) for name in _NAMES.split()}


@cache
def tensor_dtypes() -> dict[DType, Any]:
    """Dtypes of tensors by those of arrays."""
    return {dtype: scalar for scalar, dtype in dtypes().items()}


def array(tensor: Any) -> Array:
    """The array of a tensor, in its memory where that can be.

    Raises:
        NotAvailableError: for a tensor that is not dense, or of a dtype that tfn lacks.
    """
    given = tensor.detach()
    if given.layout is not pytorch().strided or given.dtype not in dtypes():
        raise NotAvailableError(
            "tfn has no arrays like this tensor",
            got=f"{given.layout}, {given.dtype}",
            hint="call to_dense(), or to(dtype) with a dtype that NumPy has",
        )
    if given.device.type != "cpu":
        given = given.cpu()
    if given.is_complex() or given.is_neg():
        given = given.resolve_conj().resolve_neg()
    shape, dtype = tuple(given.shape), dtypes()[given.dtype]
    if not given.numel():
        return jnp.zeros(shape, dtype)
    return in_memory(given.contiguous(), shape, dtype)


def in_memory(tensor: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    """The array of a tensor whose rows have no gaps."""
    address = tensor.data_ptr()
    if address % ALIGNMENT_BYTES:
        tensor = tensor.clone()
        address = tensor.data_ptr()
    own = device().memory
    if not isinstance(own, memory.HostMemory):
        return jnp.asarray(tensor.view(pytorch().uint8).numpy().view(dtype).reshape(shape))
    return concrete(own.wrap(address, tensor.nbytes, tensor), shape, dtype)


def tensor(x: Array, order: Sequence[int] | None = None) -> Any:
    """The tensor of an array that is not used any more, in its memory if nothing else reads that.

    Results of a compiled function may be its operands, its constants, or each other: these are
    copied, since what is written into a tensor must change no array.

    Args:
        x: the array.
        order: its axes in the order of the tensor's; None for the same.
    """
    buffer = x.concrete().buffer
    dtype: DType = x.dtype
    if (
        buffer is None
        or not buffer.exclusive
        or not buffer.size_bytes
        or sys.getrefcount(buffer) > OWN_REFERENCES
        or not isinstance(device().memory, memory.HostMemory)
    ):
        whole = _copied(x, tensor_dtypes()[dtype])
        return whole if order is None else whole.permute(order)
    # An operation of PyTorch within a compiled region takes as long as all that is here.
    carrier = _CARRIERS.get(dtype)
    shown_as: DType = dtype if carrier is None else carrier
    elements = buffer.view(x.shape, shown_as)
    shown = pytorch().from_numpy(elements if order is None else elements.transpose(order))
    return shown if carrier is None else shown.view(tensor_dtypes()[dtype])


def _copied(x: Array, dtype: Any) -> Any:
    """A tensor with a copy of the elements of an array."""
    if not x.size:
        return pytorch().empty(x.shape, dtype=dtype)
    data = x.__array__().tobytes()
    return pytorch().frombuffer(bytearray(data), dtype=dtype).reshape(x.shape)
