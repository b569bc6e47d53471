"""Tridiagonal systems, solved by elimination with exchanges of neighbouring rows.

Source: LAPACK, xGTSV.
"""

from __future__ import annotations

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.eager.operands import array_of
from tfn.errors import ShapeError
from tfn.lax.loops import scan


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Array:
    """The solution x of A x = b for matrices A with three diagonals.

    Args:
        dl: the diagonals below, of shape (..., n); their first elements are not read.
        d: the main diagonals, of shape (..., n).
        du: the diagonals above, of shape (..., n); their last elements are not read.
        b: right sides, of shape (..., n, k).

    Returns:
        An array of the shape of `b`.

    Raises:
        ShapeError: if the shapes do not fit together.

    Example:
        >>> one, none = tnp.ones(2), tnp.zeros(2)
        >>> tridiagonal_solve(none, one, one, tnp.array([[3.0], [1.0]])).tolist()
        [[2.0], [1.0]]
    """
    below, main, above, right = (array_of("tridiagonal_solve", x) for x in (dl, d, du, b))
    if not below.shape == main.shape == above.shape == right.shape[:-1] or not main.ndim:
        raise ShapeError(
            "tridiagonal_solve needs diagonals of one shape, and right sides of one axis more",
            got=f"{below.shape}, {main.shape}, {above.shape} and {right.shape}",
            hint="dl begins, and du ends, with an element that is not read",
        )
    if not main.shape[-1]:
        return right
    last = tnp.arange(main.shape[-1]) == main.shape[-1] - 1
    lower, centre, upper, b_rows = (
        tnp.moveaxis(x, axis, 0)
        for x, axis in ((below, -1), (main, -1), (tnp.where(last, 0, above), -1), (right, -2))
    )
    first = centre[0], upper[0], b_rows[0]
    end, rows = scan(_eliminate, first, (lower[1:], centre[1:], upper[1:], b_rows[1:]))
    x = end[2] / end[0][..., None]
    _, found = scan(_substitute, (x, tnp.zeros_like(x)), rows, reverse=True)
    return tnp.moveaxis(tnp.concatenate([found, x[None]]), 0, -2)


_Row = tuple[Array, Array, Array]


def _eliminate(
    row: _Row, below: tuple[Array, Array, Array, Array]
) -> tuple[_Row, tuple[Array, Array, Array, Array]]:
    """One step: the row of the larger first element is the pivot, and the other one shrinks."""
    (d, u, b), (low, next_d, next_u, next_b) = row, below
    keep = abs(d) >= abs(low)
    pivot = tnp.where(keep, d, low)
    f = tnp.where(keep, low, d) / pivot
    upper = tnp.where(keep, u, next_d)
    far = tnp.where(keep, 0, next_u)
    right = tnp.where(keep[..., None], b, next_b)
    other = (
        tnp.where(keep, next_d, u) - f * upper,
        tnp.where(keep, next_u, -f * next_u),
        tnp.where(keep[..., None], next_b, b) - f[..., None] * right,
    )
    return other, (pivot, upper, far, right)


def _substitute(
    known: tuple[Array, Array], row: tuple[Array, Array, Array, Array]
) -> tuple[tuple[Array, Array], Array]:
    """One unknown, from the two after it."""
    (x1, x2), (pivot, upper, far, right) = known, row
    x = (right - upper[..., None] * x1 - far[..., None] * x2) / pivot[..., None]
    return (x, x1), x
