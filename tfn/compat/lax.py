"""Names of ``jax.lax`` that mean little here: hints for products, and functions for XLA's sake."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfn import lax
from tfn import numpy as tnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.lax.contraction import DotNumbers

DotDimensionNumbers = DotNumbers


class DotAlgorithm(NamedTuple):
    """The types in which a product is computed: accepted as its precision, and not used."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Names of such types: products are always summed in 32 bits at least."""

    DEFAULT = "default"
    ANY_F8_ANY_F8_F32 = "any_f8_any_f8_f32"
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "any_f8_any_f8_f32_fast_accum"
    ANY_F8_ANY_F8_ANY = "any_f8_any_f8_any"
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = "any_f8_any_f8_any_fast_accum"
    F16_F16_F16 = "f16_f16_f16"
    F16_F16_F32 = "f16_f16_f32"
    BF16_BF16_BF16 = "bf16_bf16_bf16"
    BF16_BF16_F32 = "bf16_bf16_f32"
    BF16_BF16_F32_X3 = "bf16_bf16_f32_x3"
    BF16_BF16_F32_X6 = "bf16_bf16_f32_x6"
    BF16_BF16_F32_X9 = "bf16_bf16_f32_x9"
    TF32_TF32_F32 = "tf32_tf32_f32"
    TF32_TF32_F32_X3 = "tf32_tf32_f32_x3"
    F32_F32_F32 = "f32_f32_f32"
    F64_F64_F64 = "f64_f64_f64"


class AccuracyMode(enum.Enum):
    """The accuracy of an elementary function: there is one."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """An accuracy in numbers: all functions are within 2 ulp or so."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Does nothing: what is not needed is not computed."""


def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Array:
    """The elements of an array at indices along some axes, one row of indices for each axis.

    Args:
        src: array.
        idxs: integers (number of axes, count), or a sequence of vectors.
        axes: the axes, which the result has as one in front.

    Example:
        >>> index_take(tnp.asarray([[1, 2], [3, 4]]), [tnp.asarray([0, 1])], (1,)).tolist()
        [[1, 3], [2, 4]]
    """
    x = tnp.asarray(src)
    front = [axis % x.ndim for axis in axes]
    rest = [axis for axis in range(x.ndim) if axis not in front]
    return x.transpose((*front, *rest))[tuple(tnp.asarray(i) for i in idxs)]


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: Any,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """A function of elements, in their place: at an index that occurs twice it is applied twice.

    Args:
        operand: array.
        scatter_indices: where, as for `tfn.lax.scatter`.
        func: of one array, element by element.
        dimension_numbers: as for `tfn.lax.scatter`.
        update_shape: the shape that updates of these indices have.
        indices_are_sorted, unique_indices: accepted, and change nothing.
        mode: as for `tfn.lax.scatter`.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> x = tnp.asarray([1.0, 2.0])
        >>> scatter_apply(x, tnp.asarray([[1], [1]]), lambda y: 10 * y, numbers,
        ...               update_shape=(2,)).tolist()
        [1.0, 200.0]
    """
    x = tnp.asarray(operand)
    ones = tnp.ones(tuple(update_shape), "int32")
    times = lax.scatter_add(
        tnp.zeros(x.shape, "int32"), scatter_indices, ones, dimension_numbers, mode=mode
    )

    def step(state: Any) -> Any:
        i, y = state
        return i + 1, tnp.where(i < times, func(y), y)

    most = times.max() if times.size else tnp.asarray(0, "int32")
    out: Array = lax.while_loop(lambda state: state[0] < most, step, (0, x))[1]
    return out


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """A product of operands that are scaled block by block along the contracted axis.

    Args:
        lhs, rhs: arrays; small types are computed in `preferred_element_type`.
        lhs_scale, rhs_scale: a factor for each block, of the operand's shape but for the
            contracted axes, whose size is the number of blocks; None for no factor.
        dimension_numbers: as those of `tfn.lax.dot_general`; those of a batched product if None.
        preferred_element_type: dtype of the result; bfloat16 if None.

    Raises:
        ArgumentError: for scales of blocks that do not divide the operand.

    Example:
        >>> x, y = tnp.ones((1, 2, 4)), tnp.ones((1, 4, 1))
        >>> s = tnp.asarray([[[1.0, 10.0]] * 2])
        >>> scaled_dot(x, y, lhs_scale=s, preferred_element_type="float32").ravel().tolist()
        [22.0, 22.0]
    """
    x, y = tnp.asarray(lhs), tnp.asarray(rhs)
    if dimension_numbers is None:
        batch = list(range(x.ndim - 2))
        dimension_numbers = (([x.ndim - 1], [y.ndim - 2]), (batch, batch))
    dtype = preferred_element_type or "bfloat16"
    x, y = (_scaled(a, s, dtype) for a, s in ((x, lhs_scale), (y, rhs_scale)))
    return lax.dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _scaled(x: Array, scale: Any, dtype: Any) -> Array:
    x = x.astype(dtype)
    if scale is None:
        return x
    factor = tnp.asarray(scale).astype(dtype)
    if factor.ndim != x.ndim or any(n % max(m, 1) for n, m in zip(x.shape, factor.shape)):
        raise ArgumentError(
            "a scale has a factor for each block of its operand",
            got=f"{factor.shape} for {x.shape}",
        )
    for axis, (n, m) in enumerate(zip(x.shape, factor.shape, strict=True)):
        if n != m:
            factor = tnp.repeat(factor, n // m, axis)
    return x * factor
