"""Iterative solvers of A x = b on trees of arrays: `cg`, `bicgstab`, `gmres`.

Their derivatives are those of solutions, by one more linear system: none goes through the
iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError, TreeError
from tfn.extend import one_of, shown
from tfn.flatten_util import ravel_pytree
from tfn.lax import custom_linear_solve
from tfn.scipy.sparse import krylov

Linear = Callable[[Any], Any]
Solver = Callable[..., Array]


def cg(
    A: Linear | ArrayLike,
    b: object,
    x0: object = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Linear | ArrayLike | None = None,
) -> tuple[Any, None]:
    """The solution x of A x = b for hermitian positive definite A, by conjugate gradients.

    Args:
        A: square matrix, or a linear function of trees like `b`.
        b: right side, an array or a tree of arrays.
        x0: first guess, a tree like `b`; None takes zero.
        tol: relative tolerance: the end is a norm of b - A x of ``max(tol * norm(b), atol)``.
        atol: absolute tolerance, 0 by default.
        maxiter: largest number of steps; None takes 10 times the number of elements of `b`.
        M: approximate inverse of `A`, a matrix or a function, which saves steps; None for the
            identity.

    Returns:
        The solution, a tree like `b`, and None.

    Raises:
        ArgumentError: if `A` or `M` is no function and no square matrix.
        TreeError, ShapeError: if x0 is not like b.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, _ = cg(tnp.array([[4.0, 1.0], [1.0, 3.0]]), tnp.array([1.0, 2.0]))
        >>> (11 * x).round(4).tolist()
        [1.0, 7.0]
    """
    real = not any(jnp.iscomplexobj(leaf) for leaf in tree.leaves(b))
    return _solved("cg", krylov.conjugate_gradients, A, b, x0, tol, atol, maxiter, M, real)


def bicgstab(
    A: Linear | ArrayLike,
    b: object,
    x0: object = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Linear | ArrayLike | None = None,
) -> tuple[Any, None]:
    """The solution x of A x = b for any A, by stabilised biconjugate gradients.

    Two products with A in each step, and memory of a few vectors.

    Args:
        A: square matrix, or a linear function of trees like `b`.
        b: right side, an array or a tree of arrays.
        x0: first guess, a tree like `b`; None takes zero.
        tol: relative tolerance: the end is a norm of b - A x of ``max(tol * norm(b), atol)``.
        atol: absolute tolerance, 0 by default.
        maxiter: largest number of steps; None takes 10 times the number of elements of `b`.
        M: approximate inverse of `A`, a matrix or a function, which saves steps; None for the
            identity.

    Returns:
        The solution, a tree like `b`, and None.

    Raises:
        ArgumentError: if `A` or `M` is no function and no square matrix.
        TreeError: if `x0` has another structure than `b`.
        ShapeError: if `x0` has other shapes than `b`.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, _ = bicgstab(tnp.array([[2.0, 1.0], [0.0, 1.0]]), tnp.array([3.0, 1.0]))
        >>> x.round(4).tolist()
        [1.0, 1.0]
    """
    return _solved("bicgstab", krylov.stabilized, A, b, x0, tol, atol, maxiter, M, False)


def gmres(
    A: Linear | ArrayLike,
    b: object,
    x0: object = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Linear | ArrayLike | None = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """The solution x of A x = b for any A, by generalised minimal residuals.

    Args:
        A: square matrix, or a linear function of trees like `b`.
        b: right side, an array or a tree of arrays.
        x0: first guess, a tree like `b`; None takes zero.
        tol: relative tolerance: the end is a norm of b - A x of ``max(tol * norm(b), atol)``.
        atol: absolute tolerance, 0 by default.
        restart: number of directions after which the search begins again from the best x, 20 by
            default.
        maxiter: largest number of such cycles; None takes 10 times the number of elements of `b`.
        M: approximate inverse of `A`, a matrix or a function, which saves steps; None for the
            identity.
        solve_method: accepted as in JAX, "batched" or "incremental", and changes nothing.

    Returns:
        The solution, a tree like `b`, and None.

    Raises:
        ArgumentError: as `cg`, and for another `solve_method`.
        TreeError: as `cg`.
        ShapeError: as `cg`.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, _ = gmres(tnp.array([[0.0, 1.0], [-1.0, 0.0]]), tnp.array([1.0, 2.0]))
        >>> x.round(4).tolist()
        [-2.0, 1.0]
    """
    one_of("gmres", "solve_method", solve_method, ("batched", "incremental"))
    solver = partial(krylov.minimal_residual, restart=restart)
    return _solved("gmres", solver, A, b, x0, tol, atol, maxiter, M, False)


def _solved(
    name: str,
    solver: Solver,
    A: object,
    b: object,
    x0: object,
    tol: float,
    atol: float,
    maxiter: int | None,
    M: object,
    symmetric: bool,
) -> tuple[Any, None]:
    b = tree.map(jnp.asarray, b)
    matvec, _ = _operator(name, "A", A)
    preconditioner, preconditioner_transposed = _operator(name, "M", M)
    guess = tree.map(jnp.zeros_like, b) if x0 is None else tree.map(jnp.asarray, x0)
    _check_start(name, guess, b)
    start, _ = ravel_pytree(guess)

    def solve(preconditioner: Linear) -> Callable[[Linear, Any], Any]:
        def run(matvec: Linear, right: Any) -> Any:
            vector, unravel = ravel_pytree(right)
            dtype = vector.dtype

            def flat(f: Linear) -> krylov.Operator:
                return lambda x: ravel_pytree(f(unravel(x)))[0].astype(dtype)

            bound = jnp.maximum(tol * krylov.norm(vector), atol)
            steps = 10 * vector.size if maxiter is None else maxiter
            return unravel(
                solver(
                    flat(matvec), flat(preconditioner), vector, start.astype(dtype), bound, steps
                )
            )

        return run

    solution = custom_linear_solve(
        matvec, b, solve(preconditioner), solve(preconditioner_transposed), symmetric
    )
    return solution, None


def _operator(name: str, argument: str, operator: object) -> tuple[Linear, Linear]:
    """A linear function from a matrix or a function, and its transpose; of a function itself."""
    if operator is None:
        return (lambda x: x), (lambda x: x)
    if callable(operator):
        return operator, operator
    matrix = jnp.asarray(operator)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentError(
            f"{name} needs a function or a square matrix as {argument}",
            got=f"{argument}={shown(matrix)}",
            hint="pass a matrix of n rows and n columns, or x -> matrix @ x",
        )
    return (lambda x: matrix @ x), (lambda x: matrix.T @ x)


def _check_start(name: str, x0: object, b: object) -> None:
    got, expected = tree.structure(x0), tree.structure(b)
    if got != expected:
        raise TreeError(
            f"{name} needs x0 of the structure of b",
            got=f"{tree.show(got)} instead of {tree.show(expected)}",
            hint="leave x0 out to begin with zeros",
        )
    for x, y in zip(tree.leaves(x0), tree.leaves(b), strict=True):
        if x.shape != y.shape:
            raise ShapeError(
                f"{name} needs x0 of the shapes of b",
                got=f"{shown(x)} instead of {shown(y)}",
                hint="leave x0 out to begin with zeros",
            )
