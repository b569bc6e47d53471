"""Roots of systems of equations: `root`, by steps of Newton's method in a trust region."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tfn import jacfwd, lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ShapeError
from tfn.extend import a_function, one_of, shown
from tfn.scipy.optimize.residuals import floating, search, solve_dense

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

METHODS = ("hybr", "lm")

STEPS_PER_VARIABLE = 100
"""The most evaluations for each variable and one, as in MINPACK."""


class RootsResults(NamedTuple):
    """The result of `root`.

    Attributes:
        x: the root.
        success: whether Newton's step from there is within the tolerance.
        status: 1 for success, 2 if there were too many evaluations, 4 where no step helps.
        fun: the values there.
        jac: their Jacobian matrix.
        nfev: evaluations of the function.
        njev: evaluations of its Jacobian matrix.
    """

    x: Float[Array, " n"]
    success: Bool[Array, ""]
    status: Int[Array, ""]
    fun: Float[Array, " n"]
    jac: Float[Array, "n n"]
    nfev: Int[Array, ""]
    njev: Int[Array, ""]


def root(
    fun: Callable[..., Any],
    x0: Float[ArrayLike, " n"],
    args: tuple[Any, ...] = (),
    method: str = "hybr",
    jac: Callable[..., Any] | None = None,
    tol: float | None = None,
    *,
    max_nfev: int | None = None,
) -> RootsResults:
    """The root of as many equations as variables, near a place; compiles and batches.

    Args:
        fun: ``fun(x, *args)`` gives a vector like `x`.
        x0: the first place.
        args: further arguments.
        method: "hybr" or "lm": the same steps, the first with scales of variables that never
            shrink, the second with none.
        jac: ``jac(x, *args)`` gives the Jacobian matrix; None for forward mode.
        tol: relative length of a step at which to stop; 1.49e-8 by default.
        max_nfev: the most evaluations; None for 100 (n + 1).

    Returns:
        The result; `x` has derivatives by what `fun` closes over, and by `args`.

    Raises:
        ArgumentError: for another method.
        ShapeError: unless there are as many equations as variables.
        DTypeError: unless `x0` is floating.

    Source: M. Powell, A hybrid method for nonlinear equations (1970); J. More, The
        Levenberg-Marquardt algorithm (1977).

    Example:
        >>> import tfn.numpy as tnp
        >>> f = lambda x: tnp.stack([x[0] + x[1] - 3, x[0] * x[1] - 2])
        >>> root(f, tnp.array([0.0, 1.5])).x.round(3).tolist()
        [1.0, 2.0]
    """
    a_function("root", "fun", fun)
    one_of("root", "method", method, METHODS)
    x = floating("root", x0)

    def values(x: Array) -> Array:
        f = jnp.asarray(fun(x, *args)).astype(x.dtype)
        if f.shape != x.shape:
            raise ShapeError("root needs as many equations as variables", got=shown(f))
        return f

    def jacobian(x: Array) -> Array:
        given = jac if jac is not None else jacfwd(values)
        return jnp.asarray(given(x, *args) if jac is not None else given(x)).astype(x.dtype)

    xtol = max(1.49012e-8 if tol is None else tol, float(jnp.finfo(x.dtype).eps))
    most = STEPS_PER_VARIABLE * (x.size + 1) if max_nfev is None else max_nfev

    def find(_: Any, start: Array) -> Any:
        infinite = jnp.full_like(start, jnp.inf)
        return search(
            values,
            lambda x, f: (f, jacobian(x)),
            lambda f: f @ f / 2,
            start,
            -infinite,
            infinite,
            False,
            None if method == "hybr" else jnp.ones_like(start),
            (0.0, xtol, 0.0),
            most,
        )

    x, counts = lax.custom_root(values, x, find, solve_dense, has_aux=True)
    f, matrix = values(x), jacobian(x)
    exact = (f == 0).all()
    regular = jnp.where(exact, jnp.eye(x.size, dtype=x.dtype), matrix)
    newton = jnp.linalg.norm(jnp.linalg.solve(regular, f))
    success = exact | (newton <= 10 * xtol * (xtol + jnp.linalg.norm(x)))
    status = jnp.where(success, 1, jnp.where(counts["nfev"] >= most, 2, 4))
    return RootsResults(x, success, status, f, matrix, counts["nfev"], counts["njev"])
