"""Contractions, sums of products over axes: dot, matmul, tensordot, einsum."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tfn._support.validate import integer, no_out, shown, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, FLOAT32, INT32, DType, DTypeLike, canonical
from tfn.eager.operands import apply, array_of, broadcast_shape, one_axis, some_axes, together
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.complex import conj
from tfn.numpy.creation import resolved
from tfn.numpy.manipulation import moveaxis
from tfn.trace import build
from tfn.trace.argument import Dot
from tfn.trace.build import add_up, cast, expand, permute, reshape
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
        return cast(contract(cast(x, INT32), cast(y, INT32), pairs, batch, INT32), BOOL)
    return UOp(Op.DOT, (x, y), Dot(*pairs, *batch, dtype, tf32 and x.dtype == FLOAT32))


TF32 = frozenset({"tensorfloat32", "TF32_TF32_F32"})
"""Names of the precision in which factors of float32 are rounded to 10 bits of mantissa."""


def is_tf32(precision: object) -> bool:
    """Whether a precision of products is tf32: by its name in JAX, one for both operands or two."""
    both = precision if isinstance(precision, (tuple, list)) else [precision]
    return bool(both) and all(getattr(x, "name", x) in TF32 for x in both)


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
    x: ArrayLike,
    y: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over the last axis of `x` and the last but one, or the only one, of `y`.

    Args:
        x: first operand, array or number.
        y: second operand, array or number.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array with the other axes of `x`, then those of `y`; a product of a number is
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
            lambda: dot(x, y, precision=precision, preferred_element_type=preferred_element_type),
        )
    x, y = array_of("dot", x), array_of("dot", y)
    if x.ndim and y.ndim:
        _fits("dot", x, y, x.ndim - 1, max(y.ndim - 2, 0))
    return _product("dot", _dot, x, y, is_tf32(precision), dtype=preferred_element_type)


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
    x: ArrayLike,
    y: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The matrix product ``x @ y``; axes before the last two are broadcast.

    Args:
        x: matrices, the last two axes, or one vector.
        y: matrices, the last two axes, or one vector.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array of shape ``(*batch, rows of x, columns of y)``, without the axis of a vector.

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
                x, y, precision=precision, preferred_element_type=preferred_element_type
            ),
        )
    x, y = array_of("matmul", x), array_of("matmul", y)
    if not x.ndim or not y.ndim:
        hint = "use * for a product with a scalar"
        raise unfit("matmul needs arrays, not scalars", (x, y), hint)
    _fits("matmul", x, y, x.ndim - 1, max(y.ndim - 2, 0))
    broadcast_shape("matmul", x.shape[:-2], y.shape[:-2])
    return _product("matmul", _matmul, x, y, is_tf32(precision), dtype=preferred_element_type)


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
    x: ArrayLike,
    y: ArrayLike,
    axes: object = 2,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over pairs of axes of two arrays.

    Args:
        x: first operand, array or number.
        y: second operand, array or number.
        axes: the number n of axes, the last n of `x` and the first n of `y`, 2 by default; or a
            pair of the axes of `x` and the axes of `y`.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array with the other axes of `x`, then those of `y`.

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
                x, y, axes, precision=precision, preferred_element_type=preferred_element_type
            ),
        )
    x, y = array_of("tensordot", x), array_of("tensordot", y)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ArgumentError("tensordot needs pairs of axes", got=f"axes={axes}", hint=_PAIRS)
        first = some_axes("tensordot", axes[0], x.ndim)
        second = some_axes("tensordot", axes[1], y.ndim)
    else:
        count = integer("tensordot", "axes", axes, 0)
        if count > min(x.ndim, y.ndim):
            what = f"tensordot over {count} axes needs as many in both arrays"
            raise unfit(what, (x, y), "axes=1 contracts the last axis with the first one")
        first, second = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if len(first) != len(second):
        raise ArgumentError("tensordot needs pairs of axes", got=f"axes={axes}", hint=_PAIRS)
    for i, j in zip(first, second):
        _fits("tensordot", x, y, i, j)
    static = first, second, is_tf32(precision)
    return _product("tensordot", _tensordot, x, y, *static, dtype=preferred_element_type)


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


def inner(x: ArrayLike, y: ArrayLike) -> Array:
    """The sum of products over the last axes of two arrays.

    Raises:
        ShapeError: if these axes differ in size.

    Example:
        >>> import tfn.numpy as tnp
        >>> inner(tnp.array([1, 2, 3]), tnp.array([4, 5, 6])).item()
        32
    """
    x, y = array_of("inner", x), array_of("inner", y)
    if not x.ndim or not y.ndim:
        return dot(x, y)
    _fits("inner", x, y, x.ndim - 1, y.ndim - 1)
    return _product("inner", _tensordot, x, y, (x.ndim - 1,), (y.ndim - 1,))


def outer(x: ArrayLike, y: ArrayLike, *, out: None = None) -> Array:
    """The matrix of all products of an element of `x` with one of `y`, both flattened.

    Args:
        x: array or number, of any shape, whose elements give the rows.
        y: array or number, of any shape, whose elements give the columns.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of shape (x.size, y.size).

    Example:
        >>> import tfn.numpy as tnp
        >>> outer(tnp.array([1, 2]), tnp.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    no_out("outer", out)
    x, y = array_of("outer", x), array_of("outer", y)
    return x.reshape(x.size, 1) * y.reshape(1, y.size)


def vdot(
    x: ArrayLike,
    y: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of the products of all elements of two arrays, of which the first is conjugated.

    Args:
        x: first array, which is flattened.
        y: second array of as many elements, which is flattened.
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
    x, y = array_of("vdot", x), array_of("vdot", y)
    flat = conj(x.reshape(x.size)), y.reshape(y.size)
    return dot(*flat, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x: ArrayLike, y: ArrayLike, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis, of which the first operand is conjugated.

    Args:
        x: first operand, array or number.
        y: second operand, array or number.
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
    x, y = array_of("vecdot", x), array_of("vecdot", y)
    i, j = one_axis("vecdot", axis, x.ndim), one_axis("vecdot", axis, y.ndim)
    if x.shape[i] != y.shape[j]:
        raise unfit("vecdot needs vectors of one size", (x, y), "axis= says where they lie")
    product = conj(moveaxis(x, i, -1)) * moveaxis(y, j, -1)
    return product.any(-1) if product.dtype == BOOL else product.sum(-1, product.dtype)


def matvec(
    x: Shaped[ArrayLike, "*#batch m n"], y: Shaped[ArrayLike, "*#batch n"], /
) -> Shaped[Array, "*batch m"]:
    """The products of matrices and vectors, both in stacks: over the last axes of both.

    Raises:
        ShapeError: if the inner sizes differ, or other axes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> matvec(tnp.ones((7, 2, 3)), tnp.ones((7, 3))).shape
        (7, 2)
    """
    x, y = array_of("matvec", x), array_of("matvec", y)
    return matmul(x, y[..., None])[..., 0]


def vecmat(
    x: Shaped[ArrayLike, "*#batch m"], y: Shaped[ArrayLike, "*#batch m n"], /
) -> Shaped[Array, "*batch n"]:
    """The products of conjugated vectors and matrices, both in stacks.

    Raises:
        ShapeError: if the inner sizes differ, or other axes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> vecmat(tnp.ones((7, 2)), tnp.ones((7, 2, 3))).shape
        (7, 3)
    """
    x, y = array_of("vecmat", x), array_of("vecmat", y)
    return matmul(conj(x)[..., None, :], y)[..., 0, :]


def kron(x: ArrayLike, y: ArrayLike) -> Array:
    """The Kronecker product: each element of `x` replaced by its product with `y`.

    Example:
        >>> import tfn.numpy as tnp
        >>> kron(tnp.array([1, 10]), tnp.array([1, 2]))
        Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = array_of("kron", x), array_of("kron", y)
    ndim = max(x.ndim, y.ndim)
    a, b = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - y.ndim) + y.shape
    spaced_x = x.reshape(tuple(n for size in a for n in (size, 1)))
    spaced_y = y.reshape(tuple(n for size in b for n in (1, size)))
    return (spaced_x * spaced_y).reshape(tuple(i * j for i, j in zip(a, b)))


def cross(
    x: ArrayLike,
    y: ArrayLike,
    axis: int | None = -1,
    *,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
) -> Array:
    """The vector products of vectors of three elements along an axis, or of two in a plane.

    Args:
        x: first operand, array or number.
        y: second operand, array or number.
        axis: axis of the vectors, counted from the end if negative; the last by default, None takes
            the three axes that follow.
        axisa: axis of the vectors of `x`.
        axisb: axis of the vectors of `y`.
        axisc: axis of those of the result.

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
    x, y = array_of("cross", x), array_of("cross", y)
    if axis is None or (axisa, axisb, axisc) != (-1, -1, -1):
        if axis is not None and axis != -1:
            axisa = axisb = axisc = axis
        found = cross(moveaxis(x, axisa, -1), moveaxis(y, axisb, -1))
        planar = found.ndim < max(x.ndim, y.ndim)
        return found if planar else moveaxis(found, -1, axisc)
    sizes = [u.shape[one_axis("cross", axis, u.ndim)] for u in (x, y)]
    if 2 in sizes and all(n in (2, 3) for n in sizes):
        x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
        if sizes == [2, 2]:
            return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
        x, y = (apply(_in_space, (u,)) for u in (x, y))
        return moveaxis(cross(x, y), -1, axis)
    if any(u.shape[one_axis("cross", axis, u.ndim)] != 3 for u in (x, y)):
        raise unfit("cross needs vectors of 3", (x, y), "axis= says where they lie")
    operands, dtype, weak = together("cross", x, y)
    shape = broadcast_shape("cross", x.shape, y.shape)
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


def einsum_path(
    subscripts: str, /, *operands: ArrayLike, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], str]:
    """The order in which operands of `einsum` are contracted, and a table of it.

    `einsum` finds an order of its own; this is NumPy's.

    Args:
        subscripts: the letters of each operand and of the result, as of `einsum`.
        *operands: arrays or numbers, of which only the shapes count.
        optimize: "auto" or "greedy", "optimal", False for all at once, or a path.

    Returns:
        The places of the operands of each step, results coming last, and a text.

    Raises:
        ArgumentError: for subscripts that do not fit the operands.

    Example:
        >>> import numpy as np
        >>> x = np.ones((2, 2))
        >>> einsum_path("ij,jk,kl", x, x, x)[0]
        [(0, 1), (0, 1)]
    """
    shapes = [array_of("einsum_path", x).shape for x in operands]
    known = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    chosen = "greedy" if optimize in ("auto", True) else optimize
    if isinstance(chosen, list):
        chosen = ["einsum_path", *chosen]
    try:
        path, text = np.einsum_path(subscripts, *known, optimize=chosen)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            "einsum_path needs subscripts that fit the operands",
            got=f"{subscripts!r} of shapes {shapes}: {error}",
        ) from None
    return [tuple(step) for step in path[1:]], text


def einsum(
    subscripts: str,
    /,
    *operands: ArrayLike,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    optimize: object = None,
    out_sharding: Any = None,
    out: None = None,
) -> Array:
    """The sum of products in Einstein's notation, such as ``"bij,bjk->bik"``.

    A letter names an axis; letters missing after the arrow are summed over; ``...`` stands for axes
    that are broadcast. Several operands are contracted in an order that keeps the intermediate
    results small.

    Args:
        subscripts: the letters of each operand, commas between, an arrow, and those of the result;
            without an arrow those that occur once, in alphabetical order.
        *operands: arrays or numbers, one for each term.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        optimize: accepted as in NumPy, and changes nothing.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array with the axes after the arrow.

    Raises:
        ArgumentError: for subscripts that do not fit the operands.
        ShapeError: if axes of one letter differ in size.

    Example:
        >>> import numpy as np
        >>> einsum("ij->i", np.ones((2, 3), np.float32))
        Array([3., 3.], dtype=float32)
    """
    no_out("einsum", out)
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: einsum(
                subscripts,
                *operands,
                precision=precision,
                preferred_element_type=preferred_element_type,
            ),
        )
    if not isinstance(subscripts, str):
        raise ArgumentError(
            "einsum needs its subscripts as text",
            got=shown(subscripts),
            hint="write einsum('ij,jk->ik', x, y)",
        )
    if not operands:
        raise ArgumentError(
            "einsum needs at least one operand",
            got=f"subscripts={subscripts!r}",
            hint="pass an array for each term",
        )
    arrays, dtype, weak = together("einsum", *operands)
    names, letters = _letters(subscripts.replace(" ", ""), tuple(x.ndim for x in arrays))
    _sizes(subscripts, names, [x.shape for x in arrays])
    result_dtype = dtype if preferred_element_type is None else canonical(preferred_element_type)
    path = _path(names, letters, tuple(x.shape for x in arrays))
    weak = weak and preferred_element_type is None
    static = dtype, result_dtype, names, letters, path, is_tf32(precision)
    return apply(_einsum, arrays, *static, weak=weak)


_DOTS = "0123456789"  # one digit for each axis under `...`, the last of them the last digit used


@lru_cache(maxsize=1024)
def _letters(subscripts: str, ndims: Numbers) -> tuple[tuple[str, ...], str]:
    """The axes of each operand and of the result, a character for each; digits for ``...``."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ArgumentError(
            f"einsum {subscripts!r} names {len(terms)} operands",
            got=f"{len(ndims)} operands",
            hint="write a term for each operand, between commas",
        )
    hidden = [n - len(term.replace("...", "")) for term, n in zip(terms, ndims)]
    dots = _DOTS[: max([own for term, own in zip(terms, hidden) if "..." in term], default=0)]
    for term, own, n in zip(terms, hidden, ndims):
        plain = term.replace("...", "", 1)
        if own < 0 or (own and "..." not in term) or not (plain.isalpha() or not plain):
            raise ArgumentError(
                f"einsum {subscripts!r} does not fit its operands",
                got=f"{term!r} for an array of {n} axes",
                hint="write a letter for each axis, and ... for those that are broadcast",
            )
    names = tuple(t.replace("...", dots[len(dots) - own :]) for t, own in zip(terms, hidden))
    letters = "".join(names)
    if arrow:
        out = output.replace("...", dots)
    else:
        once = sorted(c for c in set(letters) if letters.count(c) == 1 and c.isalpha())
        out = dots + "".join(once)
    if len(set(out)) != len(out) or not set(out) <= set(letters):
        raise ArgumentError(
            f"einsum {subscripts!r} has a result that does not follow from it",
            got=f"{output!r} after the arrow",
            hint="each letter after the arrow stands there once, and also before it",
        )
    return names, out


def _sizes(subscripts: str, names: tuple[str, ...], shapes: list[Shape]) -> None:
    sizes: dict[str, int] = {}
    for term, shape in zip(names, shapes):
        for letter, n in zip(term, shape):
            size = sizes.setdefault(letter, n)
            if size == 1 and letter.isdigit():
                sizes[letter] = n
            elif size != n and not (n == 1 and letter.isdigit()):
                raise ShapeError(
                    f"einsum {subscripts!r} got two sizes for axis {letter!r}",
                    got=", ".join(map(str, shapes)),
                    hint="axes of one letter have one size: transpose, or use another letter",
                )


MEMORY_LIMIT_ELEMENTS = 1 << 62
"""Limit of intermediate results in elements: with a lower one, NumPy may contract all at once."""


@lru_cache(maxsize=1024)
def _path(names: tuple[str, ...], out: str, shapes: tuple[Shape, ...]) -> tuple[Numbers, ...]:
    """The operands of each contraction, whose result is put last."""
    if len(names) <= 2:
        return (tuple(range(len(names))),)
    letters = dict.fromkeys("".join(names))
    plain = {c: chr(97 + i) if i < 26 else chr(65 + i - 26) for i, c in enumerate(letters)}
    spec = ",".join("".join(plain[c] for c in term) for term in names)
    spec += "->" + "".join(plain[c] for c in out)
    dummies = [
        np.broadcast_to(np.float32(0), shape) for shape in shapes
    ]  # strides of 0 take no memory
    steps = np.einsum_path(spec, *dummies, optimize=("greedy", MEMORY_LIMIT_ELEMENTS))[0][1:]
    return tuple(tuple(step) for step in steps)


def _einsum(*nodes_and_static: Any) -> UOp:
    *nodes, dtype, result_dtype, names, out, path, tf32 = nodes_and_static
    parts = [(cast(u, dtype), term) for u, term in zip(nodes, names)]
    for step in path:
        operands = [parts[i] for i in step]
        parts = [part for i, part in enumerate(parts) if i not in step]
        u, term = operands.pop(0)
        u, term = _reduce_term(
            u, term, set(out).union(*(other for _, other in (*parts, *operands)))
        )
        while operands:
            v, other = operands.pop(0)
            needed = set(out).union(*(later for _, later in (*parts, *operands)))
            v, other = _reduce_term(v, other, needed | set(term))
            last = not parts and not operands
            kind = result_dtype if last else dtype
            u, term = _contract_pair(u, term, v, other, needed, kind, tf32)
        parts.append((u, term))
    u, term = parts[0]
    return cast(permute(u, [term.index(c) for c in out]), result_dtype)


def _reduce_term(u: UOp, term: str, needed: set[str]) -> tuple[UOp, str]:
    """Diagonals for repeated letters; a letter that is not needed later is summed over."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            on_diagonal = build.eq(build.iota(u.shape, i), build.iota(u.shape, j))
            u = _total(build.where(on_diagonal, u, build.full_like(u, 0)), (j,))
            term = term[:j] + term[j + 1 :]
    summed = tuple(i for i, c in enumerate(term) if c not in needed)
    return _total(u, summed), "".join(c for c in term if c in needed)


def _total(u: UOp, axes: Numbers) -> UOp:
    return build.reduce(u, Op.MAX, axes) if u.dtype == BOOL else add_up(u, axes)


def _contract_pair(
    x: UOp, a: str, y: UOp, b: str, needed: set[str], dtype: DType, tf32: bool
) -> tuple[UOp, str]:
    """The product of two operands: common letters are kept if needed later, else summed over."""
    common = [c for c in a if c in b]
    for c in common:  # an axis under `...` may be of size 1 in one of them
        size = max(x.shape[a.index(c)], y.shape[b.index(c)])
        x, y = _expand_axis(x, a.index(c), size), _expand_axis(y, b.index(c), size)
    batch = [c for c in common if c in needed]
    summed = [c for c in common if c not in needed]
    term = "".join(batch + [c for c in a if c not in common] + [c for c in b if c not in common])
    if not summed:
        sizes = dict(zip(a + b, x.shape + y.shape))
        shape = tuple(sizes[c] for c in term)
        x, y = _align(x, a, term, shape), _align(y, b, term, shape)
        return x & y if x.dtype == BOOL else x * y, term
    pairs = tuple(a.index(c) for c in summed), tuple(b.index(c) for c in summed)
    steps = tuple(a.index(c) for c in batch), tuple(b.index(c) for c in batch)
    return contract(x, y, pairs, steps, dtype, tf32), term


def _expand_axis(u: UOp, axis: int, size: int) -> UOp:
    return expand(u, (*u.shape[:axis], size, *u.shape[axis + 1 :]))


def _align(u: UOp, own: str, term: str, shape: Shape) -> UOp:
    """A node with axes `own`, permuted and broadcast to the axes of `term`."""
    u = permute(u, [own.index(c) for c in term if c in own])
    return expand(reshape(u, tuple(n if c in own else 1 for c, n in zip(term, shape))), shape)
