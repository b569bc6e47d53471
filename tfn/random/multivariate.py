"""Random vectors and matrices: multivariate_normal, orthogonal."""

from __future__ import annotations

from tfn import numpy as tnp
from tfn._support.validate import one_of, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.eager.operands import a_shape, array_of, broadcast_shape
from tfn.errors import ShapeError
from tfn.random.distributions import ShapeLike, floating, normal, parameter_dtype
from tfn.random.keys import KeyLike, words_of


def multivariate_normal(
    key: KeyLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
) -> Array:
    """Draws vectors with the normal distribution of a mean and a covariance.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        mean: shape (..., n).
        cov: shape (..., n, n), symmetric; leading axes broadcast with those of `mean`.
        shape: of the result without its last axis; that of the parameters, broadcast, if None.
        dtype: floating dtype of the result; that of the parameters if None, float32 at most, or
            float64 with ``config.x64``.
        method: the factor of the covariance: 'cholesky', or 'eigh' or 'svd', which take one
            that is singular too.

    Returns:
        Floats, shape (*shape, n).

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if mean and covariance do not fit together, or to the shape.
        ArgumentError: for another method.

    Example:
        >>> from tfn.random.keys import key
        >>> multivariate_normal(key(0), tnp.zeros(2), tnp.eye(2), (5,)).shape
        (5, 2)
    """
    words = words_of("multivariate_normal", key)
    values = array_of("multivariate_normal", mean), array_of("multivariate_normal", cov)
    kind = floating("multivariate_normal", parameter_dtype(*values) if dtype is None else dtype)
    one_of("multivariate_normal", "method", method, ("cholesky", "eigh", "svd"))
    centre, spread = values[0].astype(kind), values[1].astype(kind)
    if not centre.shape or spread.shape[-2:] != (centre.shape[-1],) * 2:
        raise unfit(
            "multivariate_normal needs a mean (..., n) and a covariance (..., n, n)",
            (centre, spread),
            "tfn.numpy.diag makes a matrix of variances",
        )
    lines = broadcast_shape("multivariate_normal", centre.shape[:-1], spread.shape[:-2])
    sizes = lines if shape is None else a_shape("multivariate_normal", shape)
    if broadcast_shape("multivariate_normal", sizes, lines) != sizes:
        raise ShapeError(
            "multivariate_normal needs parameters that broadcast to its shape",
            got=f"parameters {lines}, shape={sizes}",
            hint="the last axes of the shape are those of the parameters",
        )
    noise = normal(words, (*sizes, centre.shape[-1]), kind)
    return centre + tnp.einsum("...ij,...j->...i", _factor(spread, method), noise)


def _factor(cov: Array, method: str) -> Array:
    """Returns a matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        factor: Array = tnp.linalg.cholesky(cov)
        return factor
    if method == "eigh":
        sizes, vectors = tnp.linalg.eigh(cov)
    else:
        vectors, sizes, _ = tnp.linalg.svd(cov)
    factor = vectors * tnp.sqrt(sizes[..., None, :])
    return factor


def orthogonal(
    key: KeyLike,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
) -> Array:
    """Draws orthogonal matrices, every one equally likely.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        n: number of rows.
        shape: sizes of the leading axes, an integer or a sequence; () for one matrix.
        dtype: floating or complex dtype of the result; float32 if None.
        m: number of columns, n if None; columns are orthonormal, or rows where those are fewer.

    Returns:
        Numbers, shape (*shape, n, m); unitary matrices for a complex dtype.

    Raises:
        DTypeError: unless `dtype` is floating or complex.

    Source: Mezzadri 2007, "How to generate random matrices from the classical compact groups".

    Example:
        >>> from tfn.random.keys import key
        >>> q = orthogonal(key(0), 3)
        >>> bool((abs(q @ q.T - tnp.eye(3)) < 1e-5).all())
        True
    """
    words = words_of("orthogonal", key)
    n, columns = a_shape("orthogonal", (n, n if m is None else m))
    sizes = a_shape("orthogonal", shape)
    z = normal(words, (*sizes, max(n, columns), min(n, columns)), dtype)
    q, r = tnp.linalg.qr(z)
    q = q * tnp.expand_dims(tnp.sign(tnp.diagonal(r, axis1=-2, axis2=-1)), -2)
    out: Array = (q.mT if n < columns else q).astype(z.dtype)
    return out
