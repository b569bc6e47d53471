"""Products of a sparse matrix with a vector or a few columns, as loops over its stored elements.

    for each row i:  total = 0;  for each element e of it:  total += data[e] * dense[column[e]]

On a processor such a loop is one function, which reads each element once and writes each row once;
gathers and segment sums write as many rows as there are elements.  Derivatives, and devices that
want thousands of threads, take these.
"""

from __future__ import annotations

from typing import Any

import tfn
from tfn import lax
from tfn import numpy as tnp
from tfn.experimental.sparse import contraction
from tfn.experimental.sparse.coordinates import rows_of

DTYPES = ("float32", "float64")
"""Dtypes of sums that are in registers."""


def fits(mat: Any, dense: Any) -> bool:
    """Whether a product is one of a matrix, without batch or dense axes, and columns."""
    if not hasattr(mat, "nse") or hasattr(dense, "nse") or len(mat.shape) != 2:
        return False
    is_plain = mat.data.ndim == 1 and dense.ndim in (1, 2) and mat.shape[1] == dense.shape[0]
    known = hasattr(mat, "compressed_rows") or contraction.has_coordinates(mat)
    dtype = tnp.result_type(mat.data, dense)
    is_full = mat.nse > 0 and 0 not in (*mat.shape, *dense.shape)
    return is_plain and known and is_full and dtype in DTYPES and tfn.default_backend() == "cpu"


def product(mat: Any, dense: Any) -> Any:
    """The product of a matrix with a vector or columns, which `fits`."""
    dtype = tnp.result_type(mat.data, dense)
    parts = mat.compressed_rows() if hasattr(mat, "compressed_rows") else (mat.indices,)
    return _BY_LOOP(mat.shape, mat.data.astype(dtype), dense.astype(dtype), *parts)


def _by_loop(shape: Any, data: Any, dense: Any, *parts: Any) -> Any:
    """The product, of pairs of indices, or of columns and pointers."""
    if len(parts) == 1:
        return _by_elements(shape[0], data, dense, *parts)
    return _by_rows(data, dense, *parts)


def _derivative(shape: Any, primals: Any, tangents: Any) -> Any:
    """The derivative of the product, by gathers and sums, which have derivatives of their own."""
    data, dense, *parts = primals
    gathered = _by_gathers(shape, *parts)
    slope = gathered(tangents[0], dense) + gathered(data, tangents[1])
    return _BY_LOOP(shape, *primals), slope


def _transpose(shape: Any, ct: Any, data: Any, dense: Any, *parts: Any) -> Any:
    """The cotangent of the elements or of the dense array, the one of them that is not given."""
    gathered = _by_gathers(shape, *parts)
    if dense is None:
        like = tfn.ShapeDtypeStruct((shape[1], *ct.shape[1:]), ct.dtype)
        (back,) = tfn.linear_transpose(lambda d: gathered(data, d), like)(ct)
        return (None, back, *[None] * len(parts))
    like = tfn.ShapeDtypeStruct((len(parts[0]),), ct.dtype)
    (back,) = tfn.linear_transpose(lambda d: gathered(d, dense), like)(ct)
    return (back, None, *[None] * len(parts))


def _by_gathers(shape: Any, *parts: Any) -> Any:
    """The product as a function of the elements and the dense array, without a loop."""
    indices = parts[0]
    if len(parts) == 2:
        columns, pointers = parts
        indices = tnp.stack([rows_of(pointers, len(columns)).astype(columns.dtype), columns], 1)
    return lambda data, dense: contraction.of_elements(shape, data, indices, dense)


_BY_LOOP = tfn.custom_jvp(_by_loop, nondiff_argnums=(0,))
_BY_LOOP.defjvp(_derivative)
_BY_LOOP.deftranspose(_transpose)


def _by_rows(data: Any, dense: Any, columns: Any, pointers: Any) -> Any:
    """Row by row, as the pointers to the first element of each say."""
    zero = tnp.zeros(dense.shape[1:], dense.dtype)

    def row(i: Any, s: Any) -> Any:
        out, e = s
        end = pointers[i + 1]

        def add(s: Any) -> Any:
            e, total = s
            return e + 1, total + data[e] * dense[columns[e]]

        e, total = lax.while_loop(lambda s: s[0] < end, add, (e, zero))
        return out.at[i].set(total), e

    count = pointers.shape[0] - 1
    out = tnp.zeros((count, *dense.shape[1:]), dense.dtype)
    return lax.fori_loop(0, count, row, (out, pointers[0]))[0]


def _by_elements(count: int, data: Any, dense: Any, indices: Any) -> Any:
    """Element by element, in any order; those beyond the matrix are padding."""

    def add(e: Any, out: Any) -> Any:
        return out.at[indices[e, 0]].add(data[e] * dense[indices[e, 1]])

    out = tnp.zeros((count, *dense.shape[1:]), dense.dtype)
    return lax.fori_loop(0, data.shape[0], add, out)
