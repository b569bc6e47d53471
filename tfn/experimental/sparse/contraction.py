"""Products of sparse arrays, with dense ones and with each other: `bcoo_dot_general`.

    out[i, n] = sum of data[e] * rhs[k, n] over the elements e at (i, k)

The rows of the dense operand are gathered at the contracted indices, multiplied with the elements,
and added up at the others: work and memory in proportion to the stored elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn import vmap
from tfn.errors import ArgumentError, NotAvailableError
from tfn.experimental.sparse.conversions import bcoo_update_layout
from tfn.experimental.sparse.coordinates import (
    full_batch,
    gathered,
    inside,
    over_batch,
    padding,
    scattered,
)
from tfn.lax import dot_general

LETTERS = "abcdfghijklmnopqrstuvwxyzABCDFGHIJKLMNOPQRSTUVWXYZ"  # e is for the elements

Dims = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def has_coordinates(x: object) -> bool:
    """Whether a value has coordinates."""
    return hasattr(x, "n_sparse") and hasattr(x, "indices")


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Dims,
    precision: object = None,
    preferred_element_type: Any = None,
    out_sharding: object = None,
) -> Any:
    """A product with contracted and batch axes, as `tfn.lax.dot_general`, of sparse operands.

    Args:
        lhs, rhs: at least one is sparse.
        dimension_numbers: ((contracted of lhs, of rhs), (batch of lhs, of rhs)).
        precision: accepted; there is one precision.
        preferred_element_type: the dtype of the result; promoted from the operands if None.
        out_sharding: accepted, and changes nothing.

    Returns:
        A dense array, or a sparse one of two sparse operands: (batch, free of lhs, free of rhs).

    Raises:
        ArgumentError: for axes that do not fit.
        NotAvailableError: for two sparse operands with dense axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.asarray([[0.0, 2.0], [3.0, 0.0]]))
        >>> dims = ((1,), (0,)), ((), ())
        >>> bcoo_dot_general(mat, tnp.asarray([1.0, 10.0]), dimension_numbers=dims).tolist()
        [20.0, 3.0]
    """
    (contract_l, contract_r), (batch_l, batch_r) = dimension_numbers
    cl, bl = _axes(contract_l, lhs.ndim), _axes(batch_l, lhs.ndim)
    cr, br = _axes(contract_r, rhs.ndim), _axes(batch_r, rhs.ndim)
    pairs = [*zip(cl, cr, strict=True), *zip(bl, br, strict=True)]
    if any(lhs.shape[a] != rhs.shape[b] for a, b in pairs):
        raise ArgumentError(
            "bcoo_dot_general needs axes of the same sizes",
            got=f"{lhs.shape} and {rhs.shape} with {dimension_numbers}",
        )
    if has_coordinates(lhs) and has_coordinates(rhs):
        out = _both_sparse(lhs, rhs, cl, cr, bl, br)
    elif has_coordinates(lhs):
        out = _one_sparse(lhs, tnp.asarray(rhs), cl, cr, bl, br)
    elif has_coordinates(rhs):
        turned = _one_sparse(rhs, tnp.asarray(lhs), cr, cl, br, bl)
        free = rhs.ndim - len(cr) - len(br)
        order = [*range(len(bl)), *range(len(bl) + free, turned.ndim)]
        out = turned.transpose((*order, *range(len(bl), len(bl) + free)))
    else:
        return dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _axes(axes: Sequence[int], ndim: int) -> list[int]:
    return [int(axis) % ndim for axis in axes]


def _one_sparse(
    mat: Any, dense: Any, cl: list[int], cr: list[int], bl: list[int], br: list[int]
) -> Any:
    """(batch, free of the sparse operand, free of the dense one)."""
    dtype = tnp.result_type(mat.data, dense)
    data, indices = full_batch(mat)
    return _batched(mat, data.astype(dtype), indices, dense.astype(dtype), cl, cr, bl, br)


def _batched(
    mat: Any, data: Any, indices: Any, dense: Any, cl: Any, cr: Any, bl: Any, br: Any
) -> Any:
    """Batch axes of the sparse operand, one after another, mapped."""
    if indices.ndim == 2:
        return _unbatched(mat, data, indices, dense, cl, cr, bl, br)
    inner = mat.shape[1:]
    rest = _Shape(inner, indices.ndim - 3, mat.n_dense)

    def down(axes: list[int]) -> list[int]:
        return [axis - 1 for axis in axes if axis]

    def without(axes: list[int], at: int) -> list[int]:
        taken = axes[at]
        return [axis - (axis > taken) for i, axis in enumerate(axes) if i != at]

    if 0 in bl:
        at = bl.index(0)
        gone = br[at]

        def of_batch(d: Any, i: Any, x: Any) -> Any:
            kept = [a - (a > gone) for a in cr]
            return _batched(rest, d, i, x, down(cl), kept, down(bl), without(br, at))

        return vmap(of_batch, (0, 0, gone), at)(data, indices, dense)
    if 0 in cl:
        at = cl.index(0)
        gone = cr[at]

        def of_sum(d: Any, i: Any, x: Any) -> Any:
            kept = [a - (a > gone) for a in br]
            return _batched(rest, d, i, x, down(cl), without(cr, at), down(bl), kept)

        return vmap(of_sum, (0, 0, gone))(data, indices, dense).sum(0)

    def of_own(d: Any, i: Any) -> Any:
        return _batched(rest, d, i, dense, down(cl), cr, down(bl), br)

    return vmap(of_own, (0, 0), len(bl))(data, indices)


def of_elements(shape: tuple[int, ...], data: Any, indices: Any, dense: Any) -> Any:
    """The product of a matrix, as elements with their indices, with a vector or columns."""
    return _unbatched(_Shape(shape, 0, 0), data, indices, dense, [1], [0], [], [])


class _Shape:
    """The shape of a lane of a sparse operand, and the number of its dense axes."""

    def __init__(self, shape: tuple[int, ...], n_batch: int, n_dense: int) -> None:
        self.shape, self.n_batch, self.n_dense = shape, n_batch, n_dense


def _unbatched(
    mat: Any, data: Any, indices: Any, dense: Any, cl: Any, cr: Any, bl: Any, br: Any
) -> Any:
    """A product of an operand without batch axes."""
    n_sparse = indices.shape[1]
    names = list(LETTERS[: len(mat.shape)])
    of_dense = [""] * dense.ndim
    for a, b in [*zip(cl, cr, strict=True), *zip(bl, br, strict=True)]:
        of_dense[b] = names[a]
    unnamed = iter(LETTERS[len(names) :])
    of_dense = [name or next(unnamed) for name in of_dense]
    shared = [axis for axis in [*cl, *bl] if axis < n_sparse]
    taken = [of_dense.index(names[axis]) for axis in shared]
    left = [i for i in range(dense.ndim) if i not in taken]
    rows = gathered(dense.transpose((*taken, *left)), indices[:, np.asarray(shared, int)])
    kept = [axis for axis in range(n_sparse) if axis not in cl]  # of the result, by scattering
    result = [names[axis] for axis in bl]
    result += [names[axis] for axis in range(len(names)) if axis not in (*cl, *bl)]
    result += [of_dense[i] for i in range(dense.ndim) if i not in (*cr, *br)]
    inside_names = [name for name in result if name not in [names[k] for k in kept]]
    text = f"e{''.join(names[n_sparse:])},e{''.join(of_dense[i] for i in left)}"
    if kept:
        values = tnp.einsum(f"{text}->e{''.join(inside_names)}", data, rows)
        out = scattered(
            [*(mat.shape[k] for k in kept), *values.shape[1:]],
            indices[:, np.asarray(kept, int)],
            values,
        )
    else:
        out = tnp.einsum(f"{text}->{''.join(inside_names)}", data, rows)
    have = [*(names[k] for k in kept), *inside_names]
    return out.transpose([have.index(name) for name in result])


def _both_sparse(
    lhs: Any, rhs: Any, cl: list[int], cr: list[int], bl: list[int], br: list[int]
) -> Any:
    """A product of two sparse operands: each pair of elements with the same contracted indices."""
    if lhs.n_dense or rhs.n_dense:
        raise NotAvailableError(
            "a product of two sparse arrays needs arrays without dense axes",
            got=f"{lhs!r} and {rhs!r}",
            hint="update_layout(n_dense=0) makes them sparse axes",
        )
    count = len(bl)
    leading = bl == list(range(count)) == br
    if not leading or lhs.n_batch != count:
        lhs, bl, cl = _batch_first(lhs, bl, cl)
    if not leading or rhs.n_batch != count:
        rhs, br, cr = _batch_first(rhs, br, cr)
    dtype = tnp.result_type(lhs.data, rhs.data)
    sizes_l, sizes_r = lhs.shape[count:], rhs.shape[count:]
    own_l, own_r = ([axis - count for axis in axes] for axes in (cl, cr))
    free_l = [axis for axis in range(len(sizes_l)) if axis not in own_l]
    free_r = [axis for axis in range(len(sizes_r)) if axis not in own_r]
    shape = [*(sizes_l[a] for a in free_l), *(sizes_r[a] for a in free_r)]

    def pairs(dl: Any, il: Any, dr: Any, ir: Any) -> tuple[Any, Any]:
        nl, nr = il.shape[0], ir.shape[0]
        same = tnp.ones((nl, nr), bool)
        for a, b in zip(own_l, own_r, strict=True):
            same = same & (il[:, None, a] == ir[None, :, b])
        same = same & inside(il, sizes_l)[:, None] & inside(ir, sizes_r)[None, :]
        data = tnp.where(same, dl[:, None].astype(dtype) * dr[None, :].astype(dtype), 0)
        left = tnp.broadcast_to(il[:, None, np.asarray(free_l, int)], (nl, nr, len(free_l)))
        right = tnp.broadcast_to(ir[None, :, np.asarray(free_r, int)], (nl, nr, len(free_r)))
        rows = tnp.concatenate([left, right.astype(il.dtype)], -1)
        rows = tnp.where(same[..., None], rows, padding(shape, rows))
        return data.reshape(nl * nr), rows.reshape(nl * nr, len(shape))

    data, indices = over_batch(pairs, count)(*full_batch(lhs), *full_batch(rhs))
    return lhs.like(data, indices, (*lhs.shape[:count], *shape))


def _batch_first(mat: Any, batch: list[int], contract: list[int]) -> Any:
    """An operand whose batch axes are those of the product, in front; and where all axes are."""
    flat = bcoo_update_layout(mat, n_batch=0)
    order = [*batch, *(axis for axis in range(mat.ndim) if axis not in batch)]
    moved = flat.like(
        flat.data,
        flat.indices[:, np.asarray(order, int)],
        [mat.shape[axis] for axis in order],
        False,
        flat.unique_indices,
    )
    moved = bcoo_update_layout(moved, n_batch=len(batch), on_inefficient=None)
    return moved, list(range(len(batch))), [order.index(axis) for axis in contract]


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Dims) -> Any:
    """The elements of a dense product at some indices, which alone are computed.

    Args:
        A, B: dense arrays.
        indices: of shape (*batch, nse, sparse axes); batch axes are those of the product.
        dimension_numbers: as in `bcoo_dot_general`.

    Returns:
        Elements of shape (*batch, nse, *dense).

    Example:
        >>> import tfn.numpy as tnp
        >>> a, b = tnp.ones((2, 3)), tnp.arange(6.0).reshape(3, 2)
        >>> dims = ((1,), (0,)), ((), ())
        >>> where = tnp.asarray([[0, 1], [1, 0]])
        >>> bcoo_dot_general_sampled(a, b, where, dimension_numbers=dims).tolist()
        [9.0, 6.0]
    """
    a, b, indices = tnp.asarray(A), tnp.asarray(B), tnp.asarray(indices)
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    ca, cb = _axes(contract_a, a.ndim), _axes(contract_b, b.ndim)
    ba, bb = _axes(batch_a, a.ndim), _axes(batch_b, b.ndim)
    free_a = [axis for axis in range(a.ndim) if axis not in (*ca, *ba)]
    free_b = [axis for axis in range(b.ndim) if axis not in (*cb, *bb)]
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    if n_batch != len(ba) or n_sparse != len(free_a) + len(free_b):
        product = dot_general(a, b, ((ca, cb), (ba, bb)))
        return over_batch(gathered, n_batch)(product, indices)
    a, b = a.transpose((*ba, *free_a, *ca)), b.transpose((*bb, *free_b, *cb))

    def at(a: Any, b: Any, rows: Any) -> Any:
        left, right = gathered(a, rows[:, : len(free_a)]), gathered(b, rows[:, len(free_a) :])
        return (left * right).sum(tuple(range(1, left.ndim)))

    return over_batch(at, n_batch)(a, b, indices)
