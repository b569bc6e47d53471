"""Iterative solutions of A x = b on vectors: each step multiplies by A and by M, which is near
the inverse of A.

All stop when the norm of b - A x is below a bound, or after so many steps, or when they cannot go
on.

Sources: M. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems",
1952; H. van der Vorst, "Bi-CGSTAB", 1992; Y. Saad and M. Schultz, "GMRES", 1986.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfn import numpy as jnp
from tfn.array import Array
from tfn.dtypes import finfo
from tfn.lax.linalg import triangular_solve
from tfn.lax.loops import while_loop

if TYPE_CHECKING:
    from jaxtyping import Inexact, Real

Vector = Array
Operator = Callable[[Array], Array]


def squared(x: Inexact[Vector, " n"]) -> Real[Array, ""]:
    """The square of the norm of a vector."""
    return jnp.vdot(x, x).real


def norm(x: Inexact[Vector, " n"]) -> Real[Array, ""]:
    """The norm of a vector."""
    return jnp.sqrt(squared(x))


def conjugate_gradients(
    A: Operator,
    M: Operator,
    b: Inexact[Vector, " n"],
    x: Inexact[Vector, " n"],
    bound: Real[Array, ""],
    steps: int,
) -> Inexact[Vector, " n"]:
    """The method of conjugate gradients, for hermitian positive definite A.

    Each direction is conjugate to all before it.

    Args:
        A: linear function of vectors.
        M: linear function of vectors, near the inverse of `A`.
        b: right side.
        x: first guess.
        bound: the iteration ends when the norm of b - A x is not above it.
        steps: largest number of steps.
    """

    def more(state: Any) -> Any:
        k, _, r, _, _ = state
        return (squared(r) > bound * bound) & (k < steps)

    def step(state: Any) -> Any:
        k, x, r, p, size = state
        moved = A(p)
        length = size / jnp.vdot(p, moved).real
        x, r = x + length * p, r - length * moved
        z = M(r)
        after = jnp.vdot(r, z).real
        return k + 1, x, r, z + after / size * p, after

    r = b - A(x)
    z = M(r)
    found: Vector = while_loop(more, step, (0, x, r, z, jnp.vdot(r, z).real))[1]
    return found


def stabilized(
    A: Operator,
    M: Operator,
    b: Inexact[Vector, " n"],
    x: Inexact[Vector, " n"],
    bound: Real[Array, ""],
    steps: int,
) -> Inexact[Vector, " n"]:
    """The method of stabilised biconjugate gradients, for any A.

    Each step is followed by one that makes the residual smallest.

    Args:
        A: linear function of vectors.
        M: linear function of vectors, near the inverse of `A`.
        b: right side.
        x: first guess.
        bound: the iteration ends when the norm of b - A x is not above it.
        steps: largest number of steps.
    """

    def more(state: Any) -> Any:
        k, _, r, *_, going = state
        return (squared(r) > bound * bound) & (k < steps) & going

    def step(state: Any) -> Any:
        k, x, r, p, q, size, length, omega, _ = state
        after = jnp.vdot(shadow, r)
        p = r + after / size * (length / omega) * (p - omega * q)
        towards = M(p)
        q = A(towards)
        length = after / jnp.vdot(shadow, q)
        half = r - length * q
        enough = squared(half) <= bound * bound
        also = M(half)
        moved = A(also)
        omega = jnp.where(enough, 0, jnp.vdot(moved, half) / jnp.vdot(moved, moved))
        x, r = x + length * towards + omega * also, half - omega * moved
        # From a zero no step goes on; nothing is divided by it unless there are more steps.
        going = (after != 0) & (length != 0) & (omega != 0)
        return k + 1, x, r, p, q, after, length, omega, going

    shadow = r = b - A(x)
    one = jnp.ones((), b.dtype)
    zero = jnp.zeros_like(b)
    first = 0, x, r, zero, zero, one, one, one, True
    found: Vector = while_loop(more, step, first)[1]
    return found


def minimal_residual(
    A: Operator,
    M: Operator,
    b: Inexact[Vector, " n"],
    x: Inexact[Vector, " n"],
    bound: Real[Array, ""],
    cycles: int,
    restart: int,
) -> Inexact[Vector, " n"]:
    """The method of generalised minimal residuals, for any A, restarted.

    A cycle finds the linear combination of a number of directions that leaves the least residual.

    Args:
        A: linear function of vectors.
        M: linear function of vectors, near the inverse of `A`.
        b: right side.
        x: first guess.
        bound: the iteration ends when the norm of b - A x is not above it.
        cycles: largest number of cycles.
        restart: largest number of directions in a cycle.
    """

    def more(state: Any) -> Any:
        k, _, r, going = state
        return (squared(r) > bound * bound) & (k < cycles) & going

    def cycle(state: Any) -> Any:
        k, x, r, _ = state
        found = x + M(_best(lambda v: A(M(v)), r, bound, min(restart, b.size)))
        left = b - A(found)
        better = squared(left) < squared(r)  # where it stands still, it ends
        return k + 1, jnp.where(better, found, x), jnp.where(better, left, r), better

    found: Vector = while_loop(more, cycle, (0, x, b - A(x), True))[1]
    return found


def _best(
    A: Operator, r: Inexact[Vector, " n"], bound: Real[Array, ""], most: int
) -> Inexact[Vector, " n"]:
    """The y among the sums of r, A r, A A r, ... for which A y is nearest to r.

    `basis` holds orthonormal sums of these, and A basis[:k] = basis[:k + 1] H.  `turn` is unitary,
    and makes H the upper triangle `high`; so it says how far the best y is without finding it.
    """
    dtype, beta = r.dtype, norm(r)
    eps = 8 * float(finfo(dtype).eps)

    def more(state: Any) -> Any:
        k, _, _, _, left, going = state
        return (k < most) & (left > bound) & going

    def step(state: Any) -> Any:
        k, basis, high, turn, left, _ = state
        w = A(basis[k])
        size = norm(w)
        column = jnp.zeros(most + 1, dtype)
        for _ in range(2):  # once leaves rounding errors along the basis
            along = basis.conj() @ w
            w, column = w - along @ basis, column + along
        rest = norm(w)
        new = rest > eps * size  # else the basis holds all that A can reach
        rest = jnp.where(new, rest, 0)
        basis = basis.at[k + 1].set(jnp.where(new, w / jnp.where(new, rest, 1), 0))
        column = turn @ column
        upper = column[k]
        whole = jnp.sqrt((upper * upper.conj()).real + rest * rest)
        good = whole > eps * size
        c, s = jnp.where(good, upper / whole, 1), jnp.where(good, rest / whole, 0).astype(dtype)
        first, second = turn[k], turn[k + 1]
        # Row k + 1 of `turn` is still that of the identity: it has not met `column`.
        turn = turn.at[k].set(c.conj() * first + s * second)
        turn = turn.at[k + 1].set(c * second - s * first)
        column = jnp.where(jnp.arange(most + 1) == k, whole.astype(dtype), column)
        column = jnp.where(jnp.arange(most + 1) > k, 0, column)[:most]
        high = jnp.where(good, high.at[:, k].set(column), high)
        left = jnp.where(good, beta * abs(turn[k + 1, 0]), left)
        return k + good, basis, high, turn, left, good & new

    basis = jnp.zeros((most + 1, r.size), dtype).at[0].set(r / jnp.where(beta > 0, beta, 1))
    first = 0, basis, jnp.eye(most, dtype=dtype), jnp.eye(most + 1, dtype=dtype), beta, beta > 0
    k, basis, high, turn, _, _ = while_loop(more, step, first)
    right = jnp.where(jnp.arange(most) < k, beta * turn[:most, 0], 0)
    weights = triangular_solve(high, right[:, None], left_side=True)[:, 0]
    found: Vector = weights @ basis[:most]
    return found
