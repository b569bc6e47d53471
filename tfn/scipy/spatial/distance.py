"""Distances between the rows of matrices, in the manner of `scipy.spatial.distance`."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import one_of, operands, shown

if TYPE_CHECKING:
    from jaxtyping import Float, Num, Real

Metric = Callable[[Array, Array], Array]


def cdist(
    XA: Real[ArrayLike, "m k"],
    XB: Real[ArrayLike, "n k"],
    metric: str | Metric = "euclidean",
    *,
    out: None = None,
    **kwargs: Any,
) -> Float[Array, "m n"]:
    """The distance of each row of one matrix from each row of another.

    Args:
        XA: m points, one in each row.
        XB: n points of as many coordinates.
        metric: the name of a distance, or a function of two points.
        out: None, for SciPy's calls of it: an array never changes.
        kwargs: `p` of "minkowski", the variances `V` of "seuclidean", the inverse of the covariance
            `VI` of "mahalanobis", and weights `w` of the coordinates of the others.

    Raises:
        ShapeError: unless both are matrices with rows of one length.
        ArgumentError: for an unknown metric or option.

    Example:
        >>> import tfn.numpy as tnp
        >>> cdist(tnp.array([[0.0, 0.0]]), tnp.array([[3.0, 4.0], [0.0, 1.0]])).tolist()
        [[5.0, 1.0]]
    """
    (a, b), dtype, _ = operands.together("cdist", XA, XB, floating=True)
    one_of("cdist", "out", out, (None,))
    a, b = a.astype(dtype), b.astype(dtype)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ShapeError(
            "cdist needs two matrices with rows of one length",
            got=f"{shown(a)} and {shown(b)}",
            hint="a single point is a matrix of one row: x[None]",
        )
    return _metric("cdist", metric, kwargs, a, b)(a[:, None], b[None])


def pdist(
    X: Real[ArrayLike, "n k"],
    metric: str | Metric = "euclidean",
    *,
    out: None = None,
    **kwargs: Any,
) -> Float[Array, " pairs"]:
    """The distances of all pairs of rows: of (0, 1), (0, 2), ..., (1, 2), ...; see `squareform`.

    Args:
        X: n points, one in each row.
        metric: the name of a distance, or a function of two points.
        out: None, for SciPy's calls of it.
        kwargs: options of the metric, as those of `cdist`.

    Raises:
        ShapeError: unless there is a matrix.
        ArgumentError: for an unknown metric or option.

    Example:
        >>> import tfn.numpy as tnp
        >>> pdist(tnp.array([[0.0], [1.0], [3.0]])).tolist()
        [1.0, 3.0, 2.0]
    """
    (x,), dtype, _ = operands.together("pdist", X, floating=True)
    one_of("pdist", "out", out, (None,))
    if x.ndim != 2:
        raise ShapeError("pdist needs a matrix", got=shown(x), hint="points are rows")
    x = x.astype(dtype)
    first, second = jnp.triu_indices(len(x), 1)
    return _metric("pdist", metric, kwargs, x)(x[first], x[second])


def squareform(X: Num[ArrayLike, ...], force: str = "no", checks: bool = True) -> Array:
    """The matrix of the distances of pairs from their vector, or the vector from the matrix.

    Args:
        X: n (n - 1) / 2 numbers as those of `pdist`, or n x n ones.
        force: "tovector" or "tomatrix" says which it must become; "no" takes either.
        checks: accepted for SciPy's calls; of a matrix the part above the diagonal is read.

    Raises:
        ShapeError: for another number of elements, or the form that `force` does not allow.

    Example:
        >>> import tfn.numpy as tnp
        >>> squareform(tnp.array([1.0, 3.0, 2.0])).tolist()
        [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    """
    x = operands.array_of("squareform", X)
    one_of("squareform", "force", force, ("no", "tovector", "tomatrix"))
    n = x.shape[0] if x.ndim == 2 else (1 + math.isqrt(1 + 8 * x.size)) // 2
    fits = x.shape in ((n * (n - 1) // 2,), (n, n))
    if not fits or force == ("tovector" if x.ndim == 1 else "tomatrix"):
        raise ShapeError(
            "squareform needs a square matrix, or a vector of n (n - 1) / 2 distances",
            got=f"{shown(x)}, force={force!r}",
            hint="pdist gives such a vector",
        )
    pairs = jnp.triu_indices(n, 1)
    if x.ndim == 2:
        return x[pairs]
    half = jnp.zeros((n, n), x.dtype).at[pairs].set(x)
    return half + half.T


def _metric(name: str, metric: str | Metric, options: dict[str, Any], *points: Array) -> Metric:
    """The distance of points along the last axis of two arrays."""
    if callable(metric):
        return lambda a, b: jnp.vectorize(
            lambda u, v: metric(u, v, **options), signature="(k),(k)->()"
        )(a, b)
    one_of(name, "metric", metric, tuple(_METRICS))
    function, allowed = _METRICS[metric]
    for option in options:
        if option not in allowed:
            raise ArgumentError(
                f"the metric {metric!r} has no option {option!r}",
                got=f"{option}=...",
                hint=f"its options are {', '.join(allowed)}",
            )
    dtype = points[0].dtype
    given = {key: jnp.asarray(x).astype(dtype) for key, x in options.items() if x is not None}
    w = given.pop("w", jnp.ones((), dtype))
    if metric in _OF_ALL:
        given.setdefault(*_OF_ALL[metric](jnp.concatenate(points)))
    return lambda a, b: function(a, b, w, **given)


_OF_ALL: dict[str, Callable[[Array], tuple[str, Array]]] = {
    "seuclidean": lambda x: ("V", jnp.var(x, 0, ddof=1)),
    "mahalanobis": lambda x: ("VI", jnp.linalg.inv(jnp.atleast_2d(jnp.cov(x.T))).T),
}
"""Options that are measured on all points where they are not given."""


def _root(square: Array) -> Array:
    """The square root, with a slope of 0 at 0: points that are the same."""
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def _share(a: Array, b: Array) -> Array:
    """The quotient, and 0 where both are."""
    none = (a == 0) & (b == 0)
    return jnp.where(none, 0, a / jnp.where(none, 1, b))


def _cosine(a: Array, b: Array, w: Array) -> Array:
    products = (jnp.sum(w * x, -1) for x in (a * b, a * a, b * b))
    both, one, other = products
    return 1 - both / (jnp.sqrt(one) * jnp.sqrt(other))


def _correlation(a: Array, b: Array, w: Array) -> Array:
    total = jnp.sum(jnp.broadcast_to(w, a.shape[-1:]))
    a, b = (x - jnp.sum(w * x, -1, keepdims=True) / total for x in (a, b))
    return _cosine(a, b, w)


def _minkowski(a: Array, b: Array, w: Array, p: Array | int = 2) -> Array:
    total = jnp.sum(w * abs(a - b) ** p, -1)
    zero = total == 0
    return jnp.where(zero, 0, jnp.where(zero, 1, total) ** (1 / p))


def _mahalanobis(a: Array, b: Array, w: Array, VI: Array) -> Array:
    return _root(jnp.einsum("...i,ij,...j", a - b, VI, a - b))


def _jaccard(a: Array, b: Array, w: Array) -> Array:
    either = w * ((a != 0) | (b != 0))
    differ = either * ((a == 0) | (b == 0))
    return _share(jnp.sum(differ, -1), jnp.sum(either, -1)).astype(a.dtype)


def _hamming(a: Array, b: Array, w: Array) -> Array:
    differ = jnp.sum(w * (a != b), -1)
    return (differ / jnp.sum(jnp.broadcast_to(w, a.shape[-1:]))).astype(a.dtype)


_W = ("w",)
_METRICS: dict[str, tuple[Callable[..., Array], tuple[str, ...]]] = {
    "euclidean": (lambda a, b, w: _root(jnp.sum(w * (a - b) ** 2, -1)), _W),
    "sqeuclidean": (lambda a, b, w: jnp.sum(w * (a - b) ** 2, -1), _W),
    "seuclidean": (lambda a, b, w, V: _root(jnp.sum((a - b) ** 2 / V, -1)), ("V",)),
    "mahalanobis": (_mahalanobis, ("VI",)),
    "minkowski": (_minkowski, ("p", "w")),
    "cityblock": (lambda a, b, w: jnp.sum(w * abs(a - b), -1), _W),
    "chebyshev": (lambda a, b, w: jnp.max(jnp.where(w > 0, abs(a - b), 0), -1), _W),
    "cosine": (_cosine, _W),
    "correlation": (_correlation, _W),
    "canberra": (lambda a, b, w: jnp.sum(w * _share(abs(a - b), abs(a) + abs(b)), -1), _W),
    "braycurtis": (lambda a, b, w: jnp.sum(w * abs(a - b), -1) / jnp.sum(w * abs(a + b), -1), _W),
    "hamming": (_hamming, _W),
    "jaccard": (_jaccard, _W),
}
"""Each metric as a function of two arrays of points and weights, with the names of its options."""
