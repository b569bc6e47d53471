"""Solutions of differential equations: records, and polynomials between steps."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike

if TYPE_CHECKING:
    from jaxtyping import Bool, Inexact, Int, Real


def polynomial(rows: Array, part: Array) -> Array:
    """The polynomials with coefficients in rows, of ascending powers, at a part of a step."""
    total = rows[-1]
    for row in rows[-2::-1]:
        total = total * part + row
    return total


class OdeSolution(NamedTuple):
    """A solution at all times: a function of a time, or of several.

    Attributes:
        ts: times of the steps; beyond the last one, infinite.
        rows: for each step the coefficients of its polynomial.
        direction: 1, or -1 where time runs backwards.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy.integrate import solve_ivp
        >>> found = solve_ivp(lambda t, y: -y, (0.0, 2.0), tnp.ones(1), dense_output=True)
        >>> print(found.sol(1.0).round(2))
        [0.37]
    """

    ts: Real[Array, " steps+1"]
    rows: Inexact[Array, "steps powers n"]
    direction: Real[Array, ""]

    def __call__(self, t: Real[ArrayLike, "*times"]) -> Inexact[Array, "n ..."]:
        """The solution at times; those outside go on with the first or the last polynomial.

        Args:
            t: a number, or a vector of times.

        Returns:
            A vector, or a matrix with a column for each time.
        """
        times = jnp.asarray(t, self.ts.dtype)
        ordered = self.ts * self.direction
        last = jnp.isfinite(ordered).sum() - 2
        found = jnp.searchsorted(ordered, times * self.direction, side="left") - 1
        step = jnp.clip(found, 0, jnp.maximum(last, 0))
        begin = self.ts[step]
        part = (times - begin) / (self.ts[step + 1] - begin)
        rows = jnp.moveaxis(self.rows[step], -2, 0)
        return jnp.moveaxis(polynomial(rows, part[..., None]), -1, 0)


class OdeResult(NamedTuple):
    """The result of `solve_ivp`.

    Within `tfn.jit`, where sizes are fixed, times that are not known beforehand fill the front of
    vectors of `max_steps` elements, or of `max_events`; NaN are behind them.

    Attributes:
        t: times.
        y: the solution there, a column for each.
        sol: the solution at all times; None without `dense_output`.
        t_events: for each event, its times; None without events.
        y_events: for each event, the solution at its times, a row for each.
        nfev: evaluations of the function.
        njev: evaluations of its Jacobian matrix.
        nlu: factorisations of matrices.
        status: 0 at the end of the span, 1 at a terminal event, -1 where steps become too small or
            too many.
        success: whether the status is not negative.
    """

    t: Real[Array, " times"]
    y: Inexact[Array, "n times"]
    sol: OdeSolution | None
    t_events: list[Array] | None
    y_events: list[Array] | None
    nfev: Int[Array, ""]
    njev: Int[Array, ""]
    nlu: Int[Array, ""]
    status: Int[Array, ""]
    success: Bool[Array, ""]


def cut(count: Any, *arrays: Array) -> Any:
    """The first rows of arrays: so many if the number is known, else all, and NaN behind."""
    if isinstance(count, int):
        return [x[:count] for x in arrays]
    found = []
    for x in arrays:
        known = jnp.arange(x.shape[0]) < count
        found.append(jnp.where(known.reshape(-1, *[1] * (x.ndim - 1)), x, jnp.nan))
    return found
