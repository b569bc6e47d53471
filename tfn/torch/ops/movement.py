"""Shapes, axes, slices, pads, and arrays of one value.

A view of PyTorch is a value here: what is written through it, a graph gives as a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.errors import NotAvailableError
from tfn.torch.ops.known import Value, axes_of, cast, dtype_of, rowed, together


def view(x: Value, shape: Any) -> Value:
    """The elements in another shape, or the bits as another dtype."""
    if not isinstance(shape, (list, tuple)):
        return _as_dtype(x, dtype_of(shape))
    return x.reshape(tuple(shape)) if -1 not in shape or prod(shape) else _inferred(x, shape)


def _inferred(x: Value, shape: Sequence[int]) -> Value:
    known = prod(n for n in shape if n != -1)
    return x.reshape([x.size // max(known, 1) if n == -1 else n for n in shape])


def _as_dtype(x: Value, dtype: Any) -> Value:
    old, new = x.dtype.itemsize, dtype.itemsize
    if new > old:  # bits of several elements make one
        x = x.reshape(*x.shape[:-1], -1, new // old)
    y = lax.bitcast_convert_type(x, dtype)
    return y.reshape(*x.shape[:-1], -1) if new < old else y


def expand(x: Value, size: Sequence[int], implicit: bool = False) -> Value:
    """An array repeated along new axes and those of size 1."""
    lead = len(size) - x.ndim
    return jnp.broadcast_to(x, [x.shape[i - lead] if n == -1 else n for i, n in enumerate(size)])


def squeeze(x: Value, dim: int | Sequence[int] | None = None) -> Value:
    """An array without axes of size 1, of those that are named."""
    over = set(axes_of(dim, x.ndim)) if dim is None or isinstance(dim, int) or len(dim) else set()
    return x.reshape([n for i, n in enumerate(x.shape) if n != 1 or i not in over])


def unsqueeze(x: Value, dim: int) -> Value:
    """An array with a new axis."""
    return jnp.expand_dims(x, dim)


def permute(x: Value, dims: Sequence[int]) -> Value:
    """The axes in another order."""
    return jnp.transpose(x, [d % x.ndim for d in dims]) if x.ndim else x


def transpose(x: Value, a: int, b: int) -> Value:
    """The array with two axes exchanged."""
    return jnp.swapaxes(x, a, b) if x.ndim else x


def select(x: Value, dim: int, index: Any) -> Value:
    """The elements at one place of an axis."""
    if not isinstance(index, int):
        return jnp.take(x, index, dim)
    return lax.index_in_dim(x, index % x.shape[dim], dim, keepdims=False)


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """A beginning and an end within an axis."""
    first, last = 0 if start is None else start, size if end is None else end
    first, last = (n + size if n < 0 else n for n in (first, last))
    first = min(max(first, 0), size)
    return first, min(max(last, first), size)


def _place(x: Value, dim: int, start: int | None, end: int | None, step: int) -> tuple[slice, ...]:
    dim = dim % x.ndim
    first, last = _bounds(x.shape[dim], start, end)
    return (*[slice(None)] * dim, slice(first, last, step))


def slice_of(
    x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    """Elements at equal distances along an axis."""
    return x[_place(x, dim, start, end, step)]


def slice_scatter(
    x: Value,
    source: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """An array with other elements in a slice."""
    place = _place(x, dim, start, end, step)
    return x.at[place].set(cast(source, x.dtype))


def select_scatter(x: Value, source: Value, dim: int, index: int) -> Value:
    """An array with other elements at one place of an axis."""
    place = (*[slice(None)] * (dim % x.ndim), index)
    return x.at[place].set(cast(source, x.dtype))


def _off_diagonal(x: Value, offset: int, a: int, b: int) -> tuple[Any, Any]:
    rows, columns = x.shape[a], x.shape[b]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    steps = np.arange(length)
    return steps + max(-offset, 0), steps + max(offset, 0)


def diagonal_scatter(
    x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """An array with another diagonal."""
    rows, columns = _off_diagonal(x, offset, dim1, dim2)
    moved = jnp.moveaxis(x, (dim1, dim2), (0, 1))
    moved = moved.at[rows, columns].set(jnp.moveaxis(cast(source, x.dtype), -1, 0))
    return jnp.moveaxis(moved, (0, 1), (dim1, dim2))


def split(x: Value, size: int, dim: int = 0) -> list[Value]:
    """Parts of one size along an axis; the last may be smaller."""
    whole = x.shape[dim]
    sizes = [min(size, whole - first) for first in range(0, whole, size)] if size else [0]
    return split_with_sizes(x, sizes or [0], dim)


def split_with_sizes(x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
    """Parts of these sizes along an axis."""
    ends = np.cumsum(sizes)
    return [slice_of(x, dim, int(end) - n, int(end)) for n, end in zip(sizes, ends)]


def unbind(x: Value, dim: int = 0) -> list[Value]:
    """The elements at each place of an axis."""
    return [select(x, dim, i) for i in range(x.shape[dim])]


def cat(values: Sequence[Value], dim: int = 0) -> Value:
    """Arrays one behind the other; an empty vector fits everywhere."""
    kept = [v for v in values if v.ndim != 1 or v.shape[0]] or list(values)
    dtype = together(*values)[0].dtype
    return jnp.concatenate([cast(v, dtype) for v in kept], dim)


def repeat(x: Value, repeats: Sequence[int]) -> Value:
    """An array several times along each axis."""
    return jnp.tile(x.reshape((1,) * (len(repeats) - x.ndim) + x.shape), tuple(repeats))


def flip(x: Value, dims: Sequence[int]) -> Value:
    """The elements in reverse along axes."""
    return jnp.flip(x, axes_of(dims, x.ndim)) if len(dims) and x.ndim else x


def roll(x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """The elements moved along axes, around their ends."""
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    return jnp.roll(x, shifts, tuple(dims)) if len(dims) else jnp.roll(x, shifts[0])


def _pairs(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """The padding of each axis; PyTorch begins at the last one."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def constant_pad_nd(x: Value, pad: Sequence[int], value: Value = 0) -> Value:
    """An array with values around it, or without its edges where a pad is negative."""
    pairs = [(low, high, 0) for low, high in _pairs(pad, x.ndim)]
    return lax.pad(x, cast(value, x.dtype), pairs)


def _padded(mode: str) -> Callable[..., Value]:
    def op(x: Value, padding: Sequence[int]) -> Value:
        pairs = _pairs(padding, x.ndim)
        y = jnp.pad(x, [(max(low, 0), max(high, 0)) for low, high in pairs], mode=mode)
        cut = [slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(y.shape, pairs)]
        return y[tuple(cut)]

    return op


def _memory_order(x: Value, node: Any) -> Value:
    """The elements in the order that they have in the memory of PyTorch.

    Raises:
        NotAvailableError: if memory holds more than these elements.
    """
    spec = node.args[0].meta["val"]
    sizes, strides = [int(n) for n in spec.shape], [int(s) for s in spec.stride()]
    order = sorted(range(len(sizes)), key=lambda i: (-strides[i], i))
    expected = 1
    for i in reversed(order):
        if sizes[i] != 1 and strides[i] != expected:
            raise NotAvailableError(
                "as_strided reads memory that its array has no elements in",
                got=f"shape {tuple(sizes)}, strides {tuple(strides)}",
                hint="call contiguous() on the tensor before",
            )
        expected *= sizes[i]
    if int(spec.storage_offset()):
        raise NotAvailableError(
            "as_strided reads memory before its array",
            got=f"an offset of {int(spec.storage_offset())}",
            hint="call clone() on the tensor before",
        )
    return jnp.transpose(x, order).reshape(-1)


def _places(size: Sequence[int], stride: Sequence[int], offset: int | None) -> Any:
    places = np.asarray(offset or 0)
    for n, step in zip(size, stride):
        places = places[..., None] + np.arange(n) * step
    return places


def as_strided(
    x: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    node: Any = None,
) -> Value:
    """Elements of memory at equal distances for each axis."""
    return _memory_order(x, node)[_places(size, stride, storage_offset)]


def as_strided_scatter(
    x: Value,
    source: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    node: Any = None,
) -> Value:
    """An array with other elements at places of its memory."""
    flat = _memory_order(x, node)
    flat = flat.at[_places(size, stride, storage_offset)].set(cast(source, x.dtype))
    spec = node.args[0].meta["val"]
    strides = [int(s) for s in spec.stride()]
    order = sorted(range(x.ndim), key=lambda i: (-strides[i], i))
    return jnp.transpose(
        flat.reshape([x.shape[i] for i in order]), [int(i) for i in np.argsort(order)]
    )


def unfold(x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along an axis, whose elements are along a new last one."""
    first = np.arange(0, x.shape[dimension] - size + 1, step) if x.ndim else np.zeros(1, int)
    places = first[:, None] + np.arange(size)
    axis = dimension % x.ndim
    return jnp.moveaxis(jnp.take(x, places, axis), axis + 1, -1)


def full(size: Sequence[int], fill_value: Value, dtype: Any = None, **options: Any) -> Value:
    """An array of one value."""
    kind = cast_of(fill_value) if dtype is None else dtype_of(dtype)
    return jnp.full(tuple(size), fill_value, kind)


def cast_of(value: Value) -> Any:
    """The dtype of an array that is made of a number."""
    return together(value)[0].dtype


def _filled(number: int) -> Callable[..., Value]:
    def op(size: Sequence[int], dtype: Any = None, **options: Any) -> Value:
        return jnp.full(tuple(size), number, "float32" if dtype is None else dtype_of(dtype))

    return op


def full_like(x: Value, fill_value: Value, dtype: Any = None, **options: Any) -> Value:
    """An array of one value, in the shape and dtype of another."""
    return jnp.full(x.shape, fill_value, x.dtype if dtype is None else dtype_of(dtype))


def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: Any = None, **o: Any) -> Value:
    """An array of zeros, whatever its strides."""
    return _filled(0)(size, dtype)


def new_empty_strided(
    x: Value, size: Sequence[int], stride: Sequence[int], dtype: Any = None, **options: Any
) -> Value:
    """An array of zeros in the dtype of another.

    Raises:
        NotAvailableError: unless rows follow each other: views are taken of the memory of these.
    """
    step = 1
    for n, own in zip(reversed(size), reversed(stride)):
        if n != 1 and own != step:
            raise NotAvailableError(
                "tfn has no arrays with these strides", got=f"size {size}, strides {stride}"
            )
        step *= n
    return empty_strided(size, stride, x.dtype if dtype is None else dtype)


def arange(start: Value, end: Value, step: Value = 1, dtype: Any = None, **options: Any) -> Value:
    """Numbers at equal distances."""
    kind = cast_of(start + end + step) if dtype is None else dtype_of(dtype)
    wide: Any = np.int64 if kind.kind in "iu" else np.float64
    numbers: Any = np.arange
    return jnp.asarray(numbers(start, end, step, wide), kind)


def iota(length: int, start: int = 0, step: int = 1, dtype: Any = None, **options: Any) -> Value:
    """Integers at equal distances."""
    return jnp.asarray(np.arange(length) * step + start, dtype_of(dtype))


def _triangle(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda x, diagonal=0: function(x, diagonal)


def _indices(function: Callable[..., Any]) -> Callable[..., Value]:
    """The places of a triangle of a matrix, as two rows."""

    def op(row: int, col: int, offset: int = 0, dtype: Any = None, **options: Any) -> Value:
        places = np.stack(function(row, offset, col))
        return jnp.asarray(places, np.int64 if dtype is None else dtype_of(dtype))

    return op


def _same(x: Value, **options: Any) -> Value:
    return x


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(["alias", "clone", "detach", "lift_fresh_copy", "lift_fresh", "contiguous",
                     "lift", "prims::device_put", "prims::view_of"], _same),
    **dict.fromkeys(["view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy"], view),
    "permute_copy": permute, "unbind_copy": unbind, "as_strided_copy": as_strided,
    "narrow_copy": lambda x, dim, start, length: slice_of(x, dim, start, start + length),
    "tril_indices": _indices(np.tril_indices), "triu_indices": _indices(np.triu_indices),
    "expand": expand, "squeeze": squeeze, "unsqueeze": unsqueeze, "permute": permute,
    "transpose": transpose, "t": lambda x: x.T, "select": select, "slice": slice_of,
    "slice_scatter": slice_scatter, "select_scatter": select_scatter,
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: jnp.diagonal(x, offset, dim1, dim2),
    "diagonal_scatter": diagonal_scatter, "split": split, "split_with_sizes": split_with_sizes,
    "unbind": unbind, "cat": cat, "stack": lambda values, dim=0: jnp.stack(
        together(*values), dim),
    "repeat": repeat, "flip": flip, "roll": rowed(roll), "constant_pad_nd": constant_pad_nd,
    **dict.fromkeys([f"reflection_pad{n}d" for n in (1, 2, 3)], _padded("reflect")),
    **dict.fromkeys([f"replication_pad{n}d" for n in (1, 2, 3)], _padded("edge")),
    "as_strided": as_strided, "as_strided_scatter": as_strided_scatter, "unfold": unfold,
    "full": full, "full_like": full_like, "zeros": _filled(0), "ones": _filled(1),
    "empty": _filled(0), "empty_strided": empty_strided, "empty_permuted": empty_strided,
    "new_empty_strided": new_empty_strided,
    "zeros_like": lambda x, **options: full_like(x, 0, **options),
    "ones_like": lambda x, **options: full_like(x, 1, **options),
    "empty_like": lambda x, **options: full_like(x, 0, **options),
    "scalar_tensor": lambda value, dtype=None, **options: full((), value, dtype),
    "fill": lambda x, value: jnp.broadcast_to(cast(value, x.dtype), x.shape),
    "copy": lambda x, source, non_blocking=False: jnp.broadcast_to(
        cast(source, x.dtype), x.shape),
    "arange.start_step": arange, "prims::iota": iota,
    "tril": _triangle(jnp.tril), "triu": _triangle(jnp.triu),
}
# fmt: on
