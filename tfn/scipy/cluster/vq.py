"""Vector quantization: the nearest entry of a code book."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.extend import operands, unfit


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The nearest code of each observation, and the distance to it.

    Args:
        obs: observations in rows, or numbers.
        code_book: codes in rows, or numbers.
        check_finite: accepted as in SciPy: what is not finite gives NaN.

    Returns:
        The numbers of the codes, of which the first of several, and the Euclidean distances.

    Raises:
        ShapeError: unless both are vectors, or matrices of as many columns.

    Example:
        >>> import tfn.numpy as tnp
        >>> codes, distances = vq(tnp.array([0.0, 2.5]), tnp.array([0.0, 2.0]))
        >>> codes.tolist(), distances.tolist()
        ([0, 1], [0.0, 0.5])
    """
    (points, codes), dtype, _ = operands.together("vq", obs, code_book, floating=True)
    if points.ndim != codes.ndim or points.ndim not in (1, 2):
        raise unfit("vq needs two vectors or two matrices", (points, codes), "add an axis")
    if points.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    if points.shape[1] != codes.shape[1]:
        raise unfit("vq needs as many columns in codes", (points, codes), "rows are points")
    # Differences, not products: a distance that is small keeps its digits.
    square = ((points.astype(dtype)[:, None] - codes.astype(dtype)) ** 2).sum(-1)
    best = jnp.argmin(square, 1)
    return best, jnp.sqrt(jnp.take_along_axis(square, best[:, None], 1)[:, 0])
