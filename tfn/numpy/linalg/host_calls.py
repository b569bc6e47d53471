"""Host functions of matrices, on NumPy arrays and by NumPy, which `linalg` calls.

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

Data = np.ndarray[Any, Any]
Results = tuple[Data, ...]


def _each(function: Callable[[Data], Any], x: Data) -> Results:
    """A function of NumPy on all matrices at once, or one by one if it fails."""
    try:
        result = function(x)
        return result if isinstance(result, tuple) else (result,)
    except np.linalg.LinAlgError:
        return _one_by_one(function, x)


def _one_by_one(function: Callable[[Data], Any], x: Data) -> Results:
    matrices = x.reshape(-1, *x.shape[-2:])
    example = function(np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), matrices.shape))
    results = example if isinstance(example, tuple) else (example,)
    filled = tuple([np.full_like(r, math.nan) for r in results])
    for i, matrix in enumerate(matrices):
        try:
            one = function(matrix)
        except np.linalg.LinAlgError:
            continue
        for place, value in zip(filled, one if isinstance(one, tuple) else (one,), strict=True):
            place[i] = value
    return tuple([r.reshape(*x.shape[:-2], *r.shape[1:]) for r in filled])


def eig(a: Data) -> Results:
    """Complex eigenvalues and right eigenvectors."""
    return _each(_eig, a)


def _eig(a: Data) -> Results:
    wide = np.result_type(a.dtype, np.complex64)
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("not finite")
    values, vectors = np.linalg.eig(a)
    return values.astype(wide), vectors.astype(wide)


def eigvals(a: Data) -> Data:
    """Complex eigenvalues."""
    return _each(_eigvals, a)[0]


def _eigvals(a: Data) -> Data:
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("not finite")
    return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))
