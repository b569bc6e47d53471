"""Krylov methods for A x = b on vectors: each step multiplies by A and by a preconditioner M.

All stop when the norm of the residual b - A x is below a bound, after a number of steps, or at a
breakdown.

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
from tfn.lax import while_loop
from tfn.lax.linalg import triangular_solve

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

    def unfinished(state: Any) -> Any:
        k, _, r, _, _ = state
        return (squared(r) > bound * bound) & (k < steps)

    def step(state: Any) -> Any:
        k, x, r, p, size = state
        product = A(p)
        length = size / jnp.vdot(p, product).real
        x, r = x + length * p, r - length * product
        z = M(r)
        after = jnp.vdot(r, z).real
        return k + 1, x, r, z + after / size * p, after

    r = b - A(x)
    z = M(r)
    solution: Vector = while_loop(unfinished, step, (0, x, r, z, jnp.vdot(r, z).real))[1]
    return solution


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

    def unfinished(state: Any) -> Any:
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
        product = A(also)
        omega = jnp.where(enough, 0, jnp.vdot(product, half) / jnp.vdot(product, product))
        x, r = x + length * towards + omega * also, half - omega * product
        # A zero is a breakdown: the next step, which would divide by it, is not taken.
        going = (after != 0) & (length != 0) & (omega != 0)
        return k + 1, x, r, p, q, after, length, omega, going

    shadow = r = b - A(x)
    one = jnp.ones((), b.dtype)
    zero = jnp.zeros_like(b)
    first = 0, x, r, zero, zero, one, one, one, True
    solution: Vector = while_loop(unfinished, step, first)[1]
    return solution


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

    def unfinished(state: Any) -> Any:
        k, _, r, going = state
        return (squared(r) > bound * bound) & (k < cycles) & going

    def cycle(state: Any) -> Any:
        k, x, r, _ = state
        candidate = x + M(_best(lambda v: A(M(v)), r, bound, min(restart, b.size)))
        residual = b - A(candidate)
        better = squared(residual) < squared(r)  # stagnation ends the search
        return k + 1, jnp.where(better, candidate, x), jnp.where(better, residual, r), better

    found: Vector = while_loop(unfinished, cycle, (0, x, b - A(x), True))[1]
    return found


def _best(
    A: Operator, r: Inexact[Vector, " n"], bound: Real[Array, ""], restart: int
) -> Inexact[Vector, " n"]:
    """The y in the span of r, A r, A A r, ... for which A y is nearest to r, by Arnoldi's method.

    `basis` is an orthonormal basis, with A basis[:k] = basis[:k + 1] H.  `turn` is unitary, and
    makes H the upper triangle `high`: its first column is the residual norm, before y is known.
    """
    dtype, beta = r.dtype, norm(r)
    eps = 8 * float(finfo(dtype).eps)

    def unfinished(state: Any) -> Any:
        k, _, _, _, residual_norm, going = state
        return (k < restart) & (residual_norm > bound) & going

    def step(state: Any) -> Any:
        k, basis, high, turn, residual_norm, _ = state
        w = A(basis[k])
        size = norm(w)
        column = jnp.zeros(restart + 1, dtype)
        for _ in range(2):  # a second time removes rounding errors along the basis
            along = basis.conj() @ w
            w, column = w - along @ basis, column + along
        rest = norm(w)
        fresh = rest > eps * size  # else the basis spans an invariant subspace of A
        rest = jnp.where(fresh, rest, 0)
        basis = basis.at[k + 1].set(jnp.where(fresh, w / jnp.where(fresh, rest, 1), 0))
        column = turn @ column
        upper = column[k]
        radius = jnp.sqrt((upper * upper.conj()).real + rest * rest)
        independent = radius > eps * size
        c, s = (
            jnp.where(independent, upper / radius, 1),
            jnp.where(independent, rest / radius, 0).astype(dtype),
        )
        first, second = turn[k], turn[k + 1]
        # Row k + 1 of `turn` is still that of the identity, so `column` has its element in `rest`.
        turn = turn.at[k].set(c.conj() * first + s * second)
        turn = turn.at[k + 1].set(c * second - s * first)
        column = jnp.where(jnp.arange(restart + 1) == k, radius.astype(dtype), column)
        column = jnp.where(jnp.arange(restart + 1) > k, 0, column)[:restart]
        high = jnp.where(independent, high.at[:, k].set(column), high)
        residual_norm = jnp.where(independent, beta * abs(turn[k + 1, 0]), residual_norm)
        return k + independent, basis, high, turn, residual_norm, independent & fresh

    basis = jnp.zeros((restart + 1, r.size), dtype).at[0].set(r / jnp.where(beta > 0, beta, 1))
    first = (
        0,
        basis,
        jnp.eye(restart, dtype=dtype),
        jnp.eye(restart + 1, dtype=dtype),
        beta,
        beta > 0,
    )
    k, basis, high, turn, _, _ = while_loop(unfinished, step, first)
    right = jnp.where(jnp.arange(restart) < k, beta * turn[:restart, 0], 0)
    weights = triangular_solve(high, right[:, None], left_side=True)[:, 0]
    solution: Vector = weights @ basis[:restart]
    return solution
