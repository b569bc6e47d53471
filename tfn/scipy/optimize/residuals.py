"""Least squares: `least_squares`, with bounds and robust losses, and `curve_fit`.

Solutions are differentiated by the implicit function theorem, at the solution alone: derivatives
by what the residuals close over, and by bounds that a solution lies on.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfn import jacfwd, jvp, lax, vmap
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.extend import a_function, one_of, operands, rank, shown
from tfn.scipy.linalg import solve_triangular
from tfn.scipy.optimize import trust_region

if TYPE_CHECKING:
    from jaxtyping import Float

METHODS = ("trf", "lm")

LOSSES: dict[str, Callable[[Array], Array]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (z / (1 + jnp.sqrt(1 + z))),
    "huber": lambda z: jnp.where(z <= 1, z, 2 * jnp.sqrt(jnp.where(z <= 1, 1, z)) - 1),
    "cauchy": lambda z: jnp.log1p(z),
    "arctan": lambda z: jnp.arctan(z),
}
"""Losses of the square of a residual."""

FIRST_DISTANCE = 1e-10
"""The distance from its bounds at which a variable begins, relative to the bound."""

Pair = tuple[Array, Array]


class LeastSquaresResults(NamedTuple):
    """The result of `least_squares`.

    Attributes:
        x: the solution.
        cost: half the sum of the losses there.
        fun: residuals there.
        jac: their Jacobian matrix, with rows scaled as a robust loss weighs them.
        grad: the gradient of the cost.
        optimality: the largest element of the gradient, scaled by distances to bounds.
        active_mask: for each variable -1 at its lower bound, 1 at the upper one, else 0.
        nfev, njev: the numbers of evaluations, of residuals and of Jacobian matrices.
        status: why it ended: 0 too many evaluations, 1 a small gradient, 2 a small change of the
            cost, 3 a small step, 4 both.
        success: whether the status is above 0.
    """

    x: Array
    cost: Array
    fun: Array
    jac: Array
    grad: Array
    optimality: Array
    active_mask: Array
    nfev: Array
    njev: Array
    status: Array
    success: Array


class _State(NamedTuple):
    x: Array
    f: Array
    jac: Array
    cost: Array
    scale: Array
    radius: Array
    damping: Array
    calls: Array
    jacobians: Array
    status: Array


def floating(name: str, x: ArrayLike) -> Array:
    """A vector of floating numbers, of which the first place of a search is one."""
    place = operands.array_of(name, x)
    rank(name, place, 1, 1)
    if not jnp.issubdtype(place.dtype, jnp.floating):
        raise DTypeError(f"{name} needs a floating vector", got=str(place.dtype), hint="x0 * 1.0")
    return place


def bounds_of(name: str, bounds: Any, x: Array) -> Pair:
    """The lower and upper bounds of each variable."""
    pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else tuple(bounds)
    if len(pair) != 2:
        raise ArgumentError(f"{name} needs a pair of bounds", got=f"{len(pair)} of them")
    lower, upper = (jnp.broadcast_to(jnp.asarray(b, x.dtype), x.shape) for b in pair)
    return lower, upper


def any_bound(bounds: Any) -> bool:
    """Whether a bound may be finite."""
    pair = bounds if isinstance(bounds, tuple) else (bounds,)
    return not all(isinstance(b, float) and math.isinf(b) for b in pair)


def solve_dense(linear: Callable[[Array], Array], y: Array) -> Array:
    """The solution of a linear system whose matrix is written out: few variables."""
    matrix = vmap(linear)(jnp.eye(y.size, dtype=y.dtype)).T
    solution: Array = jnp.linalg.solve(matrix, y)
    return solution


def _losses(loss: str | Callable[[Array], Array], f_scale: Any) -> Callable[[Array], Array]:
    """The loss of residuals, with its first and second derivatives by squares."""

    def of(f: Array) -> Array:
        z = (f / f_scale) ** 2
        if callable(loss):
            rows = jnp.asarray(loss(z))
        else:
            rho = LOSSES[loss]
            one = jnp.ones_like(z)
            slope = lambda z: jvp(rho, (z,), (one,))[1]
            rows = jnp.stack([rho(z), *jvp(slope, (z,), (one,))])
        factors = jnp.stack(jnp.broadcast_arrays(f_scale**2, 1.0, 1 / f_scale**2))
        return rows * factors.astype(f.dtype)[:, None]

    return of


def _weighed(f: Array, jac: Array, rows: Array) -> Pair:
    """Residuals and a Jacobian matrix of the same gradient and Hessian as the robust cost."""
    eps = jnp.finfo(f.dtype).eps
    weight = jnp.sqrt(jnp.maximum(rows[1] + 2 * rows[2] * f * f, eps))
    return f * (rows[1] / weight), jac * weight[:, None]


def least_squares(
    fun: Callable[..., Any],
    x0: Float[ArrayLike, " n"],
    jac: Callable[..., Any] | str | None = None,
    bounds: Any = (-jnp.inf, jnp.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: ArrayLike | str | None = None,
    loss: str | Callable[[Array], Array] = "linear",
    f_scale: ArrayLike = 1.0,
    *,
    max_nfev: int | None = None,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> LeastSquaresResults:
    """The place with the least sum of losses of residuals, within bounds; compiles and batches.

    Args:
        fun: ``fun(x, *args, **kwargs)`` gives a vector of residuals.
        x0: the first place.
        jac: ``jac(x, *args, **kwargs)`` gives the Jacobian matrix; None, or a name of a formula of
            differences in SciPy, finds it by forward mode.
        bounds: a pair of the lower and the upper bounds, numbers or vectors.
        method: "trf", reflected steps in a trust region, or "lm", the same without bounds and with
            scales by the Jacobian matrix.
        ftol: the relative change of the cost at which to stop; None never stops.
        xtol: the relative length of a step at which to stop; None never stops.
        gtol: the largest element of the gradient at which to stop; None never stops.
        x_scale: lengths of the variables; "jac" for the inverse norms of columns of the Jacobian
            matrix; None for 1, and for "jac" with "lm".
        loss: "linear", "soft_l1", "huber", "cauchy", "arctan", or a function of the vector of
            squares that gives losses and their first and second derivatives, shape (3, m).
        f_scale: residuals below are hardly changed by the loss.
        max_nfev: the most evaluations of residuals; None for 100 n, or 100 n (n + 1) with "lm".
        args: further arguments of `fun` and `jac`.
        kwargs: further arguments by name.

    Returns:
        The result; `x` and what follows from it have derivatives.

    Raises:
        ArgumentError: for another method or loss, or bounds with "lm".
        ShapeError: unless `x0` and residuals are vectors.
        DTypeError: unless `x0` is floating.

    Source: J. More, The Levenberg-Marquardt algorithm (1977); M. Branch, T. Coleman, Y. Li, A
        subspace, interior and conjugate gradient method (1999); B. Triggs and others, Bundle
        adjustment (2000), for the losses.

    Example:
        >>> import tfn.numpy as tnp
        >>> rosenbrock = lambda x: tnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
        >>> result = least_squares(rosenbrock, tnp.array([-1.2, 1.0]))
        >>> result.x.round(3).tolist(), bool(result.success)
        ([1.0, 1.0], True)
    """
    a_function("least_squares", "fun", fun)
    one_of("least_squares", "method", method, METHODS)
    if not callable(loss):
        one_of("least_squares", "loss", loss, tuple(LOSSES))
    x = floating("least_squares", x0)
    lower, upper = bounds_of("least_squares", bounds, x)
    limited = any_bound(bounds)
    if limited and method == "lm":
        raise ArgumentError("lm takes no bounds", got="bounds", hint='method="trf"')
    keywords = dict(kwargs or {})
    kind = x.dtype

    def residuals(x: Array) -> Array:
        f = jnp.asarray(fun(x, *args, **keywords))
        f = f[None] if f.ndim == 0 else f
        if f.ndim != 1:
            raise ShapeError("least_squares needs a vector of residuals", got=shown(f))
        return f.astype(kind)

    def jacobian(x: Array) -> Array:
        if callable(jac):
            return jnp.asarray(jac(x, *args, **keywords)).astype(kind)
        found: Array = jacfwd(residuals)(x)
        return found

    losses = _losses(loss, jnp.asarray(f_scale, kind))
    plain = loss == "linear"

    def cost_of(f: Array) -> Array:
        return (f @ f if plain else losses(f)[0].sum()) / 2

    def weighed(x: Array, f: Array) -> Pair:
        matrix = jacobian(x)
        return (f, matrix) if plain else _weighed(f, matrix, losses(f))

    eps = float(jnp.finfo(kind).eps)
    tolerances = [0.0 if t is None else max(t, eps) for t in (ftol, xtol, gtol)]
    by_jac = x_scale == "jac" if isinstance(x_scale, str) else x_scale is None and method == "lm"
    lengths = 1.0 if x_scale is None or by_jac else x_scale
    fixed = jnp.broadcast_to(jnp.asarray(lengths, kind), x.shape)
    most = 100 * x.size * (x.size + 1 if method == "lm" else 1) if max_nfev is None else max_nfev

    def stationary(x: Array) -> Array:
        f = residuals(x)
        grad = (f if plain else losses(f)[1] * f) @ jacobian(x)
        # A variable at a bound stays there: the projection of a step of descent.
        return x - jnp.clip(x - grad, lower, upper) if limited else grad

    def find(_: Any, start: Array) -> Any:
        lengths = None if by_jac else fixed
        functions = (residuals, weighed, cost_of)
        return search(*functions, start, lower, upper, limited, lengths, tolerances, most)

    x, counts = lax.custom_root(stationary, x, find, solve_dense, has_aux=True)
    raw = residuals(x)
    f, matrix = weighed(x, raw)
    grad = f @ matrix
    near, _ = trust_region.distances(x, grad, lower, upper, jnp.ones_like(x))
    status = counts["status"]
    return LeastSquaresResults(
        x,
        cost_of(raw),
        raw,
        matrix,
        grad,
        abs(grad * near).max(),
        counts["active"],
        counts["nfev"],
        counts["njev"],
        status,
        status > 0,
    )


def search(
    residuals: Callable[[Array], Array],
    weighed: Callable[[Array, Array], Pair],
    cost_of: Callable[[Array], Array],
    x: Array,
    lower: Array,
    upper: Array,
    limited: bool,
    fixed: Array | None,
    tolerances: Sequence[float],
    most: int,
) -> tuple[Array, dict[str, Array]]:
    """Steps until one of the tolerances is met; `fixed` are lengths, None for those of columns."""
    ftol, xtol, gtol = tolerances

    def lengths(jac: Array, before: Array | None) -> Array:
        if fixed is not None:
            return fixed
        norms = jnp.linalg.norm(jac, axis=0)
        if before is None:
            return 1 / jnp.where(norms == 0, 1, norms)
        return 1 / jnp.maximum(1 / before, norms)

    if limited:
        finite = [jnp.where(jnp.isfinite(b), b, 0) for b in (lower, upper)]
        margin = [FIRST_DISTANCE * jnp.maximum(1, abs(b)) for b in finite]
        low, high = lower + margin[0], upper - margin[1]
        x = jnp.where(low > high, (lower + upper) / 2, jnp.clip(x, low, high))

    def gradient(s: _State) -> Pair:
        grad = s.f @ s.jac
        near, _ = trust_region.distances(s.x, grad, lower, upper, jnp.ones_like(x))
        return grad, abs(grad * near).max()

    def goes_on(s: _State) -> Any:
        return (s.status < 0) & (s.calls < most)

    def step(s: _State) -> _State:
        problem = trust_region.region(s.x, s.f, s.jac, lower, upper, s.scale)
        p, damping = trust_region.within_radius(problem, s.radius, s.damping)
        if limited:
            theta = jnp.maximum(0.995, 1 - gradient(s)[1])
            p = trust_region.reflected(problem, s.x, p, lower, upper, s.radius, theta)
        move = problem.scale * p
        x = s.x + move
        x = trust_region.strictly_inside(x, lower, upper) if limited else x
        raw = residuals(x)
        cost = cost_of(raw)
        cost = jnp.where(jnp.isfinite(cost), cost, jnp.inf)
        predicted, actual = -trust_region.model(problem, p), s.cost - cost
        exact = (predicted == 0) & (actual == 0)
        ratio = jnp.where(
            predicted > 0, actual / jnp.where(predicted > 0, predicted, 1), exact * 1.0
        )
        size = jnp.linalg.norm(p)
        radius = jnp.where(ratio < 0.25, 0.25 * size, s.radius)
        radius = jnp.where((ratio > 0.75) & (size > 0.95 * s.radius), 2 * s.radius, radius)
        failed = ~jnp.isfinite(cost)
        radius = jnp.where(failed, 0.25 * size, radius)
        flat = (actual < ftol * s.cost) & (ratio > 0.25) & ~failed
        length = jnp.linalg.norm(move)
        short = (length < xtol * (xtol + jnp.linalg.norm(s.x))) & ~failed
        status = jnp.where(flat & short, 4, jnp.where(flat, 2, jnp.where(short, 3, -1)))
        accepted = actual > 0
        f, jac = lax.cond(accepted, lambda: weighed(x, raw), lambda: (s.f, s.jac))
        scale = jnp.where(accepted, lengths(jac, s.scale), s.scale)
        new = _State(
            jnp.where(accepted, x, s.x),
            f,
            jac,
            jnp.where(accepted, cost, s.cost),
            scale,
            radius,
            damping * s.radius / radius,
            s.calls + 1,
            s.jacobians + accepted,
            status,
        )
        small = gradient(new)[1] < gtol
        return new._replace(status=jnp.where(small & (status < 0), 1, status))

    raw = residuals(x)
    f, jac = weighed(x, raw)
    scale = lengths(jac, None)
    near, _ = trust_region.distances(x, f @ jac, lower, upper, scale)
    radius = jnp.linalg.norm(x / scale / jnp.sqrt(near))
    radius = jnp.where(radius == 0, 1, radius)
    one, zero = jnp.array(1), jnp.zeros_like(radius)
    start = _State(x, f, jac, cost_of(raw), scale, radius, zero, one, one, one - 2)
    done = gradient(start)[1] < gtol
    start = start._replace(status=jnp.where(done, 1, start.status))
    end = lax.while_loop(goes_on, step, start)
    # A variable is at a bound when its distance is below the tolerance of a step.
    threshold = max(xtol, float(jnp.finfo(x.dtype).eps))
    at_lower, at_upper = (
        abs(end.x - b) < jnp.where(jnp.isfinite(b), threshold * jnp.maximum(1, abs(b)), 0)
        for b in (lower, upper)
    )
    active = jnp.where(at_lower, -1, jnp.where(at_upper, 1, 0))
    counts = {"active": active, "nfev": end.calls, "njev": end.jacobians}
    return end.x, {**counts, "status": jnp.maximum(end.status, 0)}


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Float[ArrayLike, " m"],
    p0: Float[ArrayLike, " n"],
    sigma: ArrayLike | None = None,
    absolute_sigma: bool = False,
    *,
    bounds: Any = (-jnp.inf, jnp.inf),
    method: str | None = None,
    jac: Callable[..., Any] | str | None = None,
    **options: Any,
) -> Pair:
    """The parameters with which a function fits data best, and their covariance.

    Args:
        f: ``f(xdata, *parameters)`` gives a vector like `ydata`.
        xdata: where the data were measured: whatever `f` takes.
        ydata: the data.
        p0: the first parameters.
        sigma: deviations of the data, a vector, or their covariance matrix; None for equal ones.
        absolute_sigma: whether `sigma` has the scale of the data; else residuals say the scale.
        bounds: of the parameters, as in `least_squares`.
        method: "lm" or "trf"; None for "lm" without bounds.
        jac: ``jac(xdata, *parameters)`` gives the derivatives of `f`; None for forward mode.
        options: of `least_squares`.

    Returns:
        The parameters, and their covariance matrix, infinite where data do not determine it.

    Raises:
        ArgumentError, ShapeError, DTypeError: as `least_squares`.

    Source: W. Press and others, Numerical recipes (2007), section 15.6, for the covariance.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.linspace(0.0, 4.0, 9)
        >>> y = 2.0 * tnp.exp(-0.5 * x)
        >>> best, covariance = curve_fit(lambda x, a, b: a * tnp.exp(-b * x), x, y, [1.0, 1.0])
        >>> best.round(3).tolist(), covariance.shape
        ([2.0, 0.5], (2, 2))
    """
    a_function("curve_fit", "f", f)
    y = operands.array_of("curve_fit", ydata).reshape(-1)
    p = floating("curve_fit", jnp.asarray(p0))
    deviations = None if sigma is None else jnp.asarray(sigma, p.dtype)
    factor = None
    if deviations is not None and deviations.ndim == 2:
        factor = jnp.linalg.cholesky(deviations)

    def whitened(residual: Array) -> Array:
        if factor is not None:
            white: Array = solve_triangular(factor, residual, lower=True)
            return white
        if deviations is None:
            return residual
        return (residual.T / deviations).T

    def residuals(p: Array) -> Array:
        return whitened((jnp.asarray(f(xdata, *p)).reshape(-1) - y).astype(p.dtype))

    slopes = None
    if callable(jac):
        slopes = lambda p: whitened(jnp.asarray(jac(xdata, *p)).astype(p.dtype))
    limited = any_bound(bounds)
    chosen = method or ("trf" if limited else "lm")
    result = least_squares(residuals, p, slopes, bounds, chosen, **options)
    count, size = y.size, p.size
    _, values, vectors = jnp.linalg.svd(result.jac, full_matrices=False)
    threshold = jnp.finfo(p.dtype).eps * max(count, size) * values[0]
    known = values > threshold
    columns = vectors.T / jnp.where(known, values, 1) * known
    covariance = columns @ columns.T
    if not absolute_sigma:
        covariance = covariance * (2 * result.cost / (count - size) if count > size else jnp.inf)
    return result.x, jnp.where(known.all(), covariance, jnp.inf)
