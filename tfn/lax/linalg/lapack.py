"""Matrix factorisations on NumPy arrays, by LAPACK: what `linalg` calls on the host.

Each function takes and returns arrays whose last two axes are matrices.  Where LAPACK fails - a
matrix is singular, not positive, not finite - its results are NaN, and those of other matrices
are not touched.

Source: E. Anderson et al., "LAPACK Users' Guide", 3rd edition, 1999.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tfn.frozen import frozen

Data = np.ndarray[Any, Any]
Results = tuple[Data, ...]


def _each(function: Callable[[Data], Any], x: Data) -> Results:
    """A function of NumPy on all matrices, or one after another if one of them fails."""
    try:
        found = function(x)
        return found if isinstance(found, tuple) else (found,)
    except np.linalg.LinAlgError:
        return _one_by_one(function, x)


def _one_by_one(function: Callable[[Data], Any], x: Data) -> Results:
    matrices = x.reshape(-1, *x.shape[-2:])
    found = function(np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), matrices.shape))
    results = found if isinstance(found, tuple) else (found,)
    filled = tuple([np.full_like(r, math.nan) for r in results])
    for i, matrix in enumerate(matrices):
        try:
            one = function(matrix)
        except np.linalg.LinAlgError:
            continue
        for place, value in zip(filled, one if isinstance(one, tuple) else (one,), strict=True):
            place[i] = value
    return tuple([r.reshape(*x.shape[:-2], *r.shape[1:]) for r in filled])


def cholesky(a: Data) -> Data:
    """The lower triangle L of L L^H = a, of which only the lower triangle is read."""
    return _each(np.linalg.cholesky, a)[0]


def eigh(a: Data) -> Results:
    """Eigenvalues, ascending, and eigenvectors of hermitian matrices; lower triangles are read."""
    return _each(_eigh, a)


def _eigh(a: Data) -> Results:
    return tuple(np.linalg.eigh(a))


def eig(a: Data) -> Results:
    """Complex eigenvalues and right eigenvectors."""
    return _each(_eig, a)


def _eig(a: Data) -> Results:
    wide = np.result_type(a.dtype, np.complex64)
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("not finite")
    values, vectors = np.linalg.eig(a)
    return values.astype(wide), vectors.astype(wide)


def eigvalsh(a: Data) -> Data:
    """Eigenvalues, ascending, of hermitian matrices; lower triangles are read."""
    return _each(np.linalg.eigvalsh, a)[0]


def eigvals(a: Data) -> Data:
    """Complex eigenvalues."""
    return _each(_eigvals, a)[0]


def _eigvals(a: Data) -> Data:
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("not finite")
    return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))


def svd(a: Data) -> Results:
    """U, the singular values, descending, and V^H; as many vectors as values."""
    return _each(_svd, a)


def _svd(a: Data) -> Results:
    return tuple(np.linalg.svd(a, full_matrices=False))


def svd_full(a: Data) -> Results:
    """U, the singular values, descending, and V^H; U and V are square."""
    return _each(_svd_full, a)


def _svd_full(a: Data) -> Results:
    return tuple(np.linalg.svd(a))


def singular_values(a: Data) -> Data:
    """The singular values, descending."""
    return _each(_singular_values, a)[0]


def _singular_values(a: Data) -> Data:
    return np.linalg.svd(a, compute_uv=False)


def qr(a: Data) -> Results:
    """Q and R; Q has as many columns as R has rows, the smaller size of the matrix."""
    return tuple(np.linalg.qr(a))


def qr_full(a: Data) -> Results:
    """Q and R; Q is square."""
    return tuple(np.linalg.qr(a, "complete"))


def det(a: Data) -> Data:
    """The determinants."""
    return np.asarray(np.linalg.det(a))


def slogdet(a: Data) -> Results:
    """The signs of the determinants and the logarithms of their sizes."""
    return tuple(np.linalg.slogdet(a))


def adjugate(a: Data) -> Data:
    """The transposed cofactors, also of singular matrices.

    Source: G. W. Stewart, "On the adjugate matrix", Linear Algebra and its Applications, 1998.
    """
    u, s, vh = np.linalg.svd(a)
    n = a.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    product = (np.conj(np.swapaxes(vh, -1, -2)) * others[..., None, :]) @ np.conj(
        np.swapaxes(u, -1, -2)
    )
    return np.asarray(phase[..., None, None] * product, a.dtype)


def _lapack(*names: str) -> Callable[[np.dtype[Any]], Any]:
    """The routines of LAPACK for a dtype."""

    def routines(dtype: np.dtype[Any]) -> Any:
        import scipy.linalg

        return scipy.linalg.get_lapack_funcs(names, dtype=dtype)

    return routines


_getrf = _lapack("getrf")
_getrs = _lapack("getrs")
_trtrs = _lapack("trtrs")


def lu(a: Data) -> Results:
    """L below the diagonal and U on and above it, and with which later row each row was swapped."""
    (getrf,) = _getrf(a.dtype)
    out, pivots = np.empty_like(a), np.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    for index in np.ndindex(a.shape[:-2]):
        if a[index].size:
            out[index], pivots[index], _ = getrf(a[index])
    return out, pivots


@frozen
class Permutation:
    """The order of the rows after all swaps that pivots say.

    Attributes:
        size: the number of rows.
    """

    size: int

    def __call__(self, pivots: Data) -> Data:
        """Which row each row was."""
        line = np.arange(self.size, dtype=np.int32)
        order = np.broadcast_to(line, (*pivots.shape[:-1], self.size)).copy()
        for i in range(pivots.shape[-1]):
            other = pivots[..., i : i + 1]
            here, there = order[..., i : i + 1].copy(), np.take_along_axis(order, other, -1)
            np.put_along_axis(order, other, here, -1)
            order[..., i : i + 1] = there
        return order


@frozen
class LuSolve:
    """x of op(a) x = b, from what `lu` gives; op is nothing, or the transpose.

    Attributes:
        transposed: whether op is the transpose.
    """

    transposed: bool

    def __call__(self, packed: Data, pivots: Data, b: Data) -> Data:
        """The solutions, one for each column of `b`."""
        (getrs,) = _getrs(b.dtype)
        out = np.empty_like(b)
        for index in np.ndindex(b.shape[:-2]):
            if not b[index].size:
                continue
            factors = packed[index], pivots[index]
            out[index], _ = getrs(*factors, b[index], trans=int(self.transposed))
            if not np.diagonal(packed[index]).all():
                out[index] = math.nan
        return out


@frozen
class TriangularSolve:
    """x of op(a) x = b for triangular a; op is nothing, or the transpose.

    Attributes:
        lower: which triangle is read.
        transposed: whether op is the transpose.
        unit: whether the diagonal is taken to be 1.
    """

    lower: bool
    transposed: bool
    unit: bool

    def __call__(self, a: Data, b: Data) -> Data:
        """The solutions, one for each column of `b`; NaN if the diagonal has a zero."""
        (trtrs,) = _trtrs(b.dtype)
        out = np.empty_like(b)
        for index in np.ndindex(b.shape[:-2]):
            if b[index].size:
                out[index], failed = trtrs(
                    a[index], b[index], lower=self.lower, trans=int(self.transposed),
                    unitdiag=self.unit,
                )  # fmt: skip
                if failed:
                    out[index] = math.nan
        return out
