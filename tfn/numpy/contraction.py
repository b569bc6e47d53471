"""Contractions, sums of products over axes: dot, matmul, tensordot, and products of vectors."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfn._support.validate import integer, no_out, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, FLOAT32, INT32, DType, DTypeLike, canonical
from tfn.eager.operands import apply, broadcast_shape, one_axis, operands_of, some_axes, together
from tfn.errors import ArgumentError
from tfn.numpy.complex import conj
from tfn.numpy.creation import resolved
from tfn.numpy.manipulation import moveaxis
from tfn.trace import build
from tfn.trace.argument import Dot
from tfn.trace.build import cast
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

if TYPE_CHECKING:
    from jaxtyping import Shaped

Numbers = tuple[int, ...]


def contract(
    x: UOp,
    y: UOp,
    pairs: tuple[Numbers, Numbers],
    batch: tuple[Numbers, Numbers],
    dtype: DType,
    tf32: bool = False,
) -> UOp:
    """A contraction of two nodes of one dtype; booleans are combined by or of ands.

    Args:
        x: first node.
        y: second node.
        pairs: axes of `x`, and those of `y` with which they are summed over.
        batch: axes of `x`, and those of `y` that both keep; they come first in the result.
        dtype: dtype of the result.
        tf32: whether factors of float32 are rounded to 10 bits of mantissa.
    """
    if x.dtype == BOOL:
        wide = INT32 if dtype == BOOL else dtype
        return cast(contract(cast(x, wide), cast(y, wide), pairs, batch, wide), dtype)
    if dtype in COMPLEXES and x.dtype not in COMPLEXES:
        x, y = cast(x, dtype), cast(y, dtype)
    return UOp(Op.DOT, (x, y), Dot(*pairs, *batch, dtype, tf32 and x.dtype == FLOAT32))


TF32 = frozenset({"tensorfloat32", "TF32_TF32_F32"})
"""Names of the precision in which factors of float32 are rounded to 10 bits of mantissa."""


# fmt: off
PRECISIONS = TF32 | frozenset((
    "default", "fastest", "bfloat16", "high", "bfloat16_3x", "highest", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
    "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
    "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
))
# fmt: on
"""Names of precisions in JAX, those of its presets too."""


def is_tf32(precision: object) -> bool:
    """Whether a precision of products is tf32: by its name in JAX, one for both operands or two.

    Raises:
        ArgumentError: for a name that is none of JAX's.
    """
    pair: Any = precision if type(precision) in (tuple, list) else [precision]
    both = list(pair)
    names = [getattr(x, "name", x) for x in both]
    for x in both:
        if len(names) > 2 or (isinstance(x, (str, int, float)) and x not in PRECISIONS):
            raise ArgumentError(
                "a precision of products has a name, or one for each of two operands",
                got=f"precision={precision!r}",
                hint="write 'default', 'high', 'highest' or 'tensorfloat32'",
            )
    return bool(names) and all(name in TF32 for name in names)


def _product(
    name: str,
    body: Callable[..., UOp],
    x: ArrayLike,
    y: ArrayLike,
    *static: object,
    dtype: DTypeLike | None = None,
) -> Array:
    operands, kind, weak = together(name, x, y)
    result_dtype = kind if dtype is None else canonical(dtype)
    return apply(body, operands, kind, result_dtype, *static, weak=weak and dtype is None)


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over the last axis of `a` and the last but one, or the only one, of `b`.

    Args:
        a: first operand, array or number.
        b: second operand, array or number.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array with the other axes of `a`, then those of `b`; a product of a number is
        elementwise.

    Raises:
        ShapeError: if these axes differ in size.

    Example:
        >>> import numpy as np
        >>> dot(np.float32([1, 2]), np.float32([3, 4]))
        Array(11., dtype=float32)
    """
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: dot(a, b, precision=precision, preferred_element_type=preferred_element_type),
        )
    a, b = operands_of("dot", a, b)
    if a.ndim and b.ndim:
        _fits("dot", a, b, a.ndim - 1, max(b.ndim - 2, 0))
    return _product("dot", _dot, a, b, is_tf32(precision), dtype=preferred_element_type)


def _fits(name: str, x: Array, y: Array, i: int, j: int) -> None:
    if x.shape[i] != y.shape[j]:
        what = f"{name} needs axis {i} of the first array to equal axis {j} of the second"
        hint = "exchange axes with .T, .mT or moveaxis, or cut one of them"
        raise unfit(what, (x, y), hint, f": {x.shape[i]} and {y.shape[j]}")


def _dot(x: UOp, y: UOp, dtype: DType, result_dtype: DType, tf32: bool) -> UOp:
    x, y = cast(x, dtype), cast(y, dtype)
    if not x.ndim or not y.ndim:
        shape = x.shape or y.shape
        x, y = build.broadcast_to(x, shape), build.broadcast_to(y, shape)
        return cast(x & y if dtype == BOOL else x * y, result_dtype)
    return contract(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)), ((), ()), result_dtype, tf32)


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The matrix product ``a @ b``; axes before the last two are broadcast.

    Args:
        a: matrices, the last two axes, or one vector.
        b: matrices, the last two axes, or one vector.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array of shape ``(*batch, rows of a, columns of b)``, without the axis of a vector.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> matmul(tnp.array([[1, 2], [3, 4]]), tnp.array([1, 1]))
        Array([3, 7], dtype=int32)
        >>> matmul(tnp.ones((7, 2, 3)), tnp.ones((3, 5))).shape
        (7, 2, 5)
    """
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: matmul(
                a, b, precision=precision, preferred_element_type=preferred_element_type
            ),
        )
    a, b = operands_of("matmul", a, b)
    if not a.ndim or not b.ndim:
        hint = "use * for a product with a scalar"
        raise unfit("matmul needs arrays, not scalars", (a, b), hint)
    _fits("matmul", a, b, a.ndim - 1, max(b.ndim - 2, 0))
    broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    return _product("matmul", _matmul, a, b, is_tf32(precision), dtype=preferred_element_type)


def _matmul(x: UOp, y: UOp, dtype: DType, result_dtype: DType, tf32: bool) -> UOp:
    x, y = cast(x, dtype), cast(y, dtype)
    if y.ndim <= 2:
        pairs = (x.ndim - 1,), (max(y.ndim - 2, 0),)
        return contract(x, y, pairs, ((), ()), result_dtype, tf32)
    if x.ndim <= 2:  # y's batch axes come before x's row axis in the result
        out = contract(x, y, ((x.ndim - 1,), (y.ndim - 2,)), ((), ()), result_dtype, tf32)
        return build.moveaxis(out, 0, out.ndim - 2) if x.ndim == 2 else out
    batch = broadcast_shape("matmul", x.shape[:-2], y.shape[:-2])
    x = build.broadcast_to(x, (*batch, *x.shape[-2:]))
    y = build.broadcast_to(y, (*batch, *y.shape[-2:]))
    n = len(batch)
    batch_axes = tuple(range(n))
    return contract(x, y, ((n + 1,), (n,)), (batch_axes, batch_axes), result_dtype, tf32)


_PAIRS = "name as many axes of the first array as of the second, such as ((0,), (1,))"


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: object = 2,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over pairs of axes of two arrays.

    Args:
        a: first operand, array or number.
        b: second operand, array or number.
        axes: the number n of axes, the last n of `a` and the first n of `b`, 2 by default; or a
            pair of the axes of `a` and the axes of `b`.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array with the other axes of `a`, then those of `b`.

    Raises:
        ShapeError: if paired axes differ in size.
        ArgumentError: unless the axes come in pairs.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> tensordot(tnp.ones((2, 3, 5)), tnp.ones((3, 5, 7)), 2).shape
        (2, 7)
        >>> tensordot(tnp.ones((2, 3)), tnp.ones((5, 2)), ((0,), (1,))).shape
        (3, 5)
    """
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: tensordot(
                a, b, axes, precision=precision, preferred_element_type=preferred_element_type
            ),
        )
    a, b = operands_of("tensordot", a, b)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ArgumentError("tensordot needs pairs of axes", got=f"axes={axes}", hint=_PAIRS)
        first = some_axes("tensordot", axes[0], a.ndim)
        second = some_axes("tensordot", axes[1], b.ndim)
    else:
        count = integer("tensordot", "axes", axes, 0)
        if count > min(a.ndim, b.ndim):
            what = f"tensordot over {count} axes needs as many in both arrays"
            raise unfit(what, (a, b), "axes=1 contracts the last axis with the first one")
        first, second = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(first) != len(second):
        raise ArgumentError("tensordot needs pairs of axes", got=f"axes={axes}", hint=_PAIRS)
    for i, j in zip(first, second):
        _fits("tensordot", a, b, i, j)
    static = first, second, is_tf32(precision)
    return _product("tensordot", _tensordot, a, b, *static, dtype=preferred_element_type)


def _tensordot(
    x: UOp,
    y: UOp,
    dtype: DType,
    result_dtype: DType,
    first: Numbers,
    second: Numbers,
    tf32: bool = False,
) -> UOp:
    return contract(cast(x, dtype), cast(y, dtype), (first, second), ((), ()), result_dtype, tf32)


def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """The sum of products over the last axes of two arrays.

    Raises:
        ShapeError: if these axes differ in size.

    Example:
        >>> import tfn.numpy as tnp
        >>> inner(tnp.array([1, 2, 3]), tnp.array([4, 5, 6])).item()
        32
    """
    a, b = operands_of("inner", a, b)
    if not a.ndim or not b.ndim:
        return dot(a, b)
    _fits("inner", a, b, a.ndim - 1, b.ndim - 1)
    return _product("inner", _tensordot, a, b, (a.ndim - 1,), (b.ndim - 1,))


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The matrix of all products of an element of `a` with one of `b`, both flattened.

    Args:
        a: array or number, of any shape, whose elements give the rows.
        b: array or number, of any shape, whose elements give the columns.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of shape (a.size, b.size).

    Example:
        >>> import tfn.numpy as tnp
        >>> outer(tnp.array([1, 2]), tnp.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    no_out("outer", out)
    a, b = operands_of("outer", a, b)
    return a.reshape(a.size, 1) * b.reshape(1, b.size)


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of the products of all elements of two arrays, of which the first is conjugated.

    Args:
        a: first array, which is flattened.
        b: second array of as many elements, which is flattened.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.

    Returns:
        An array without axes.

    Raises:
        ShapeError: if the numbers of elements differ.

    Example:
        >>> import tfn.numpy as tnp
        >>> vdot(tnp.array([1j, 2]), tnp.array([1j, 3])).item()
        (7+0j)
    """
    a, b = operands_of("vdot", a, b)
    flat = conj(a.reshape(a.size)), b.reshape(b.size)
    return dot(*flat, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis, of which the first operand is conjugated.

    Args:
        x1: first operand, array or number.
        x2: second operand, array or number.
        axis: axis to sum over, counted from the end if negative; in both operands.

    Returns:
        An array of the broadcast shape of the other axes.

    Raises:
        ShapeError: if the sizes of the axis differ, or other axes do not broadcast.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> vecdot(tnp.array([[1, 2], [3, 4]]), tnp.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    x1, x2 = operands_of("vecdot", x1, x2)
    i, j = one_axis("vecdot", axis, x1.ndim), one_axis("vecdot", axis, x2.ndim)
    if x1.shape[i] != x2.shape[j]:
        raise unfit("vecdot needs vectors of one size", (x1, x2), "axis= says where they lie")
    product = conj(moveaxis(x1, i, -1)) * moveaxis(x2, j, -1)
    return product.any(-1) if product.dtype == BOOL else product.sum(-1, product.dtype)


def matvec(
    x1: Shaped[ArrayLike, "*#batch m n"], x2: Shaped[ArrayLike, "*#batch n"], /
) -> Shaped[Array, "*batch m"]:
    """The products of matrices and vectors, both in stacks: over the last axes of both.

    Raises:
        ShapeError: if the inner sizes differ, or other axes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> matvec(tnp.ones((7, 2, 3)), tnp.ones((7, 3))).shape
        (7, 2)
    """
    x1, x2 = operands_of("matvec", x1, x2)
    return matmul(x1, x2[..., None])[..., 0]


def vecmat(
    x1: Shaped[ArrayLike, "*#batch m"], x2: Shaped[ArrayLike, "*#batch m n"], /
) -> Shaped[Array, "*batch n"]:
    """The products of conjugated vectors and matrices, both in stacks.

    Raises:
        ShapeError: if the inner sizes differ, or other axes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> vecmat(tnp.ones((7, 2)), tnp.ones((7, 2, 3))).shape
        (7, 3)
    """
    x1, x2 = operands_of("vecmat", x1, x2)
    return matmul(conj(x1)[..., None, :], x2)[..., 0, :]


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: each element of `a` replaced by its product with `b`.

    Example:
        >>> import tfn.numpy as tnp
        >>> kron(tnp.array([1, 10]), tnp.array([1, 2]))
        Array([ 1,  2, 10, 20], dtype=int32)
    """
    a, b = operands_of("kron", a, b)
    ndim = max(a.ndim, b.ndim)
    outer, inner = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    spaced_x = a.reshape(tuple(n for size in outer for n in (size, 1)))
    spaced_y = b.reshape(tuple(n for size in inner for n in (1, size)))
    return (spaced_x * spaced_y).reshape(tuple(i * j for i, j in zip(outer, inner)))


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = -1,
) -> Array:
    """The vector products of vectors of three elements along an axis, or of two in a plane.

    Args:
        a: first operand, array or number.
        b: second operand, array or number.
        axisa: axis of the vectors of `a`.
        axisb: axis of the vectors of `b`.
        axisc: axis of those of the result.
        axis: axis of the vectors, counted from the end if negative; the last by default, None takes
            the three axes that follow.

    Returns:
        An array of the broadcast shape and the promoted dtype; without the axis if both vectors
        are of two elements, which then is the third one of the product.

    Raises:
        ShapeError: if the axis has another size.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cross(tnp.array([1, 0, 0]), tnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    a, b = operands_of("cross", a, b)
    if axis is None or (axisa, axisb, axisc) != (-1, -1, -1):
        if axis is not None and axis != -1:
            axisa = axisb = axisc = axis
        found = cross(moveaxis(a, axisa, -1), moveaxis(b, axisb, -1))
        planar = found.ndim < max(a.ndim, b.ndim)
        return found if planar else moveaxis(found, -1, axisc)
    sizes = [u.shape[one_axis("cross", axis, u.ndim)] for u in (a, b)]
    if 2 in sizes and all(n in (2, 3) for n in sizes):
        a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
        if sizes == [2, 2]:
            return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        a, b = (apply(_in_space, (u,)) for u in (a, b))
        return moveaxis(cross(a, b), -1, axis)
    if any(u.shape[one_axis("cross", axis, u.ndim)] != 3 for u in (a, b)):
        raise unfit("cross needs vectors of 3", (a, b), "axis= says where they lie")
    operands, dtype, weak = together("cross", a, b)
    shape = broadcast_shape("cross", a.shape, b.shape)
    return apply(_cross, operands, dtype, shape, axis % len(shape), weak=weak)


def _in_space(u: UOp) -> UOp:
    """Vectors of two elements with a third one, 0."""
    last = u.ndim - 1
    return build.pad(u, (0,) * u.ndim, (*(0,) * last, 3 - u.shape[last]))


def _cross(x: UOp, y: UOp, dtype: DType, shape: Shape, axis: int) -> UOp:
    x, y = (build.broadcast_to(cast(u, dtype), shape) for u in (x, y))

    def turned(u: UOp, by: int) -> UOp:
        parts = [_slab(u, axis, (i + by) % 3) for i in range(3)]
        return build.concat(parts, axis)

    return turned(x, 1) * turned(y, 2) - turned(x, 2) * turned(y, 1)


def _slab(u: UOp, axis: int, at: int) -> UOp:
    start = tuple(at if a == axis else 0 for a in range(u.ndim))
    stop = tuple(at + 1 if a == axis else n for a, n in enumerate(u.shape))
    return build.shrink(u, start, stop)
