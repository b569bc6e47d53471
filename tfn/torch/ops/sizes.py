"""Sizes, which are numbers while a graph runs, and checks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn.torch.ops.known import Value


def sym_stride(x: Value, dim: int, node: Any = None) -> int:
    """The stride of an axis: of rows without gaps, which all arrays are."""
    stride = 1
    for n in x.shape[dim % x.ndim + 1 :]:
        stride *= n
    return stride


def item(x: Value) -> Any:
    """The number that an array of one element holds; only where values are known."""
    return x.item()


def _nothing(*args: Any, **options: Any) -> None:
    """A check of sizes or values, which changes nothing."""


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "sym_size": lambda x, dim: x.shape[dim], "sym_numel": lambda x: x.size,
    "sym_stride": sym_stride, "sym_storage_offset": lambda x: 0, "_local_scalar_dense": item,
    "item": item,
    **dict.fromkeys([
        "_assert_scalar", "_assert_async", "_assert_tensor_metadata", "_functional_assert_scalar",
        "_functional_assert_async", "sym_constrain_range", "sym_constrain_range_for_size",
        "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size",
    ], _nothing),
}
# fmt: on
