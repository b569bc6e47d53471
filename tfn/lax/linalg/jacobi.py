"""Eigenvalues and singular values by Jacobi's methods: rotations of pairs of columns.

    top     0 1 2 3        pairs (0 4) (1 5) (2 6) (3 7) are rotated together, and all but the first
    bottom  4 5 6 7        move on by one seat; after 7 turns, a sweep, each has met each

A turn is the same for all matrices of a stack and touches each element once, in vectors; no code
grows with the matrices.  Small values keep their digits.

Sources: G. Golub and C. Van Loan, Matrix Computations, 4th edition, 2013, sections 8.5 (symmetric
matrices, parallel orderings) and 8.6.3 (singular values); J. Demmel and K. Veselic, "Jacobi's
method is more accurate than QR", 1992.
"""

from __future__ import annotations

from math import inf

from tfn.array import Array
from tfn.dtypes import BOOL, INT32, finfo
from tfn.lax.loops import fori_loop, while_loop
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.complex import conj, real
from tfn.numpy.concatenation import concatenate
from tfn.numpy.creation import full, ones_like, zeros
from tfn.numpy.elementary import sqrt
from tfn.numpy.indexing import take_along_axis
from tfn.numpy.linalg.stacks import adjoint
from tfn.numpy.logic import where
from tfn.numpy.manipulation import broadcast_to, diagonal, moveaxis
from tfn.numpy.matrices import eye
from tfn.numpy.padding import pad
from tfn.numpy.reductions import max as largest
from tfn.numpy.reductions import sum as add_up
from tfn.numpy.sorting import argsort
from tfn.transforms.jit import jit

MAX_SWEEPS = 30
"""Sweeps after which an iteration ends; matrices of 100 rows need 7 to 10."""

Pair = tuple[Array, Array]


def eigh(a: Array) -> Pair:
    """The ascending eigenvalues and the vectors, in columns, of finite hermitian matrices.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, vectors = eigh(tnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> tnp.allclose(values, tnp.array([1.0, 3.0])).item()
        True
    """
    n = a.shape[-1]
    if n < 2:
        return real(diagonal(a, 0, -2, -1)), ones_like(a)
    a, scale = _scaled(a)
    a = _even(a, (-2, -1))
    identity = broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    a, vectors = _until_diagonal(a, identity)
    values, vectors = real(diagonal(a, 0, -2, -1)), vectors[..., :n, :]
    order = _order(values, vectors, n)
    return take_along_axis(values, order, -1) * scale[..., 0], take_along_axis(
        vectors, order[..., None, :], -1
    )


def svd(a: Array) -> tuple[Array, Array, Array]:
    """Orthogonal columns x, their lengths, descending, and a unitary v, with a v = x.

    The matrices are finite, and have no fewer rows than columns.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, values, v = svd(tnp.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> values.tolist(), tnp.allclose(x @ v.T, tnp.array([[0.0, 2.0], [3.0, 0.0]])).item()
        ([3.0, 2.0], True)
    """
    n = a.shape[-1]
    x, scale = _scaled(a)
    x = _even(x, (-1,))
    v = eye(x.shape[-1], dtype=x.dtype)
    x, v = _until_orthogonal(x, broadcast_to(v, (*x.shape[:-2], *v.shape)))
    v = v[..., :n, :]
    values = sqrt(add_up(_squares(x), -2))
    order = _order(-values, v, n)
    x, v = (take_along_axis(z, order[..., None, :], -1) for z in (x, v))
    return x * scale.astype(a.dtype), take_along_axis(values, order, -1) * scale[..., 0], v


def _scaled(a: Array) -> Pair:
    """Matrices whose largest element is 1, so that no square overflows; and what it was."""
    size = largest(magnitude(a), (-2, -1), keepdims=True, initial=0)
    scale = where(size > 0, size, 1)
    return a / scale.astype(a.dtype), scale


def _even(x: Array, axes: tuple[int, ...]) -> Array:
    """Zeros after the last element of axes of odd length."""
    return pad(x, [(0, x.shape[i] % 2 * (i - x.ndim in axes)) for i in range(x.ndim)])


def _order(values: Array, vectors: Array, n: int) -> Array:
    """The order of n ascending values: without that of a column that `_even` has added.

    It was rotated with no other, so that none of its elements is in the rows of the matrix.
    """
    if values.shape[-1] > n:
        is_added = add_up(magnitude(vectors), -2) == 0
        values = where(is_added, inf, values)
    return argsort(values, -1)[..., :n]


def _halves(x: Array, axis: int) -> Pair:
    """Both halves of an axis of even length: elements at one place are a pair."""
    moved = moveaxis(x, axis, 0)
    middle = moved.shape[0] // 2
    return moveaxis(moved[:middle], 0, axis), moveaxis(moved[middle:], 0, axis)


def _next_seats(x: Array, axis: int) -> Array:
    """All but the first move on by one seat, around both halves."""
    if x.shape[axis] == 2:
        return x
    top, bottom = (moveaxis(half, axis, 0) for half in _halves(x, axis))
    seats = [top[:1], bottom[:1], top[1:-1], bottom[1:], top[-1:]]
    return moveaxis(concatenate(seats), 0, axis)


def _rotation(first: Array, second: Array, mixed: Array) -> Pair:
    """The cosine, and the sine with a phase, that make [first mixed; . second] diagonal."""
    size, limits = magnitude(mixed), finfo(mixed.dtype)
    is_mixed = size > float(limits.tiny) / float(limits.eps)  # quotients of less would not be exact
    safe = where(is_mixed, size, 1)
    half = (second - first) / (2 * safe)
    tangent = where(half < 0, -1, 1) / (magnitude(half) + sqrt(1 + half * half))
    tangent = where(is_mixed, tangent, 0)
    cosine = 1 / sqrt(1 + tangent * tangent)
    phase = mixed / safe.astype(mixed.dtype)
    return cosine.astype(mixed.dtype), (tangent * cosine).astype(mixed.dtype) * phase


def _rotated(x: Array, cosine: Array, sine: Array) -> Array:
    """Matrices whose pairs of columns are rotated."""
    top, bottom = _halves(x, -1)
    cosine, sine = cosine[..., None, :], sine[..., None, :]
    return concatenate([top * cosine - bottom * conj(sine), top * sine + bottom * cosine], -1)


def _squares(x: Array) -> Array:
    return real(x * conj(x))


@jit
def _until_diagonal(a: Array, vectors: Array) -> Pair:
    """Hermitian matrices after rotations of their rows and columns, and the product of these."""
    n, eps = a.shape[-1], float(finfo(a.dtype).eps)
    whole = add_up(_squares(a), (-2, -1))

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        a, _, sweep = carry
        outside = add_up(where(eye(n, dtype=BOOL), 0, _squares(a)), (-2, -1))
        is_mixed: Array = (outside > eps * eps * whole).any()
        return (sweep < MAX_SWEEPS) & is_mixed

    def turn(_: Array, carry: Pair) -> Pair:
        a, vectors = carry
        first, second = _halves(real(diagonal(a, 0, -2, -1)), -1)
        mixed = diagonal(_halves(_halves(a, -2)[0], -1)[1], 0, -2, -1)
        rotation = _rotation(first, second, mixed)
        a = adjoint(_rotated(adjoint(_rotated(a, *rotation)), *rotation))
        a = _next_seats(_next_seats(a, -1), -2)
        return a, _next_seats(_rotated(vectors, *rotation), -1)

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, vectors, count = carry
        return (*fori_loop(0, n - 1, turn, (a, vectors)), count + 1)

    a, vectors, _ = while_loop(goes_on, sweep, (a, vectors, zeros((), INT32)))
    return a, vectors


@jit
def _until_orthogonal(x: Array, v: Array) -> Pair:
    """Matrices after rotations of their columns (Hestenes), and the product of these with v."""
    n, tolerance = x.shape[-1], float(finfo(x.dtype).eps) * x.shape[-2] ** 0.5
    Carry = tuple[Array, Array, Array, Array]

    def turn(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, v, goes_on = carry
        top, bottom = _halves(x, -1)
        first, second = (add_up(_squares(half), -2) for half in (top, bottom))
        mixed = add_up(conj(top) * bottom, -2)
        is_mixed = magnitude(mixed) > tolerance * sqrt(first) * sqrt(second)
        rotation = _rotation(first, second, where(is_mixed, mixed, 0))
        x, v = (_next_seats(_rotated(z, *rotation), -1) for z in (x, v))
        return x, v, goes_on | is_mixed.any()

    def sweep(carry: Carry) -> Carry:
        x, v, _, count = carry
        return (*fori_loop(0, max(n - 1, 1), turn, (x, v, zeros((), BOOL))), count + 1)

    def goes_on(carry: Carry) -> Array:
        more: Array = carry[2] & (carry[3] < MAX_SWEEPS)
        return more

    x, v, _, _ = while_loop(goes_on, sweep, (x, v, full((), True), zeros((), INT32)))
    return x, v
