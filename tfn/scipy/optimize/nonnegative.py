"""Least squares of variables that are not negative: `nnls`; and assignments.

Source: C. Lawson and R. Hanson, Solving least squares problems (1974), chapter 23.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfn import ShapeDtypeStruct, lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ShapeError
from tfn.extend import operands, rank, shown
from tfn.scipy import on_host
from tfn.scipy.optimize.residuals import solve_dense

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Real


class _State(NamedTuple):
    x: Array
    positive: Array
    retreats: Array
    done: Array
    steps: Array


def active_set(
    a: Float[Array, "m n"], b: Float[Array, " m"], free: Bool[Array, " n"], most: int
) -> tuple[Array, Array]:
    """The least squares solution with variables not negative but for those that are free.

    Variables join the set of positive ones by their gradient; where the solution over the set has
    a negative one, the step towards it ends at the first zero, which leaves the set.

    Returns:
        The solution, and whether it was found within so many steps.
    """
    q, r = jnp.linalg.qr(a)
    right = q.T @ b
    eps = jnp.finfo(a.dtype).eps
    tolerance = 10 * eps * abs(r).sum(0).max() * jnp.maximum(abs(right).max(), 1) * a.shape[1]

    def goes_on(s: _State) -> Any:
        return ~s.done & (s.steps < most)

    def step(s: _State) -> _State:
        gradient = jnp.where(s.positive, -jnp.inf, r.T @ (right - r @ s.x))
        best = gradient.argmax()
        joins = ~s.retreats & (s.steps > 0)
        done = joins & (gradient[best] <= tolerance)
        joining = (jnp.arange(s.x.size) == best) & joins & ~done
        positive = s.positive | joining
        target = jnp.linalg.lstsq(r * positive, right)[0] * positive
        # A variable that would leave at once is only in the set by rounding.
        spurious = joining & (target <= 0)
        negative = positive & ~free & (target <= 0) & ~joining
        ratio = jnp.where(negative, s.x / jnp.where(negative, s.x - target, 1), 1)
        part = ratio.min()
        moved = s.x + part * (target - s.x)
        leaves = negative & (ratio <= part)
        x = jnp.where(leaves, 0, jnp.where(free, moved, jnp.maximum(moved, 0)))
        stops = done | spurious.any()
        x = jnp.where(stops, s.x, x)
        return _State(x, positive & ~leaves & ~spurious, negative.any(), stops, s.steps + 1)

    no = jnp.array(False)
    start = _State(jnp.zeros(a.shape[1], a.dtype), free, no, no, jnp.array(0))
    end = lax.while_loop(goes_on, step, start)
    return end.x, end.done


def nnls(
    A: Float[ArrayLike, "m n"], b: Float[ArrayLike, " m"], maxiter: int | None = None
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """The least squares solution of A x = b without negative variables.

    Args:
        A: matrix.
        b: right side.
        maxiter: the most steps of the method; None for 3 n.

    Returns:
        The solution, with derivatives by both, and the norm of b - A x; the solution is NaN where
        the steps do not suffice.

    Raises:
        ShapeError: unless the matrix has as many rows as `b` has elements.

    Source: C. Lawson and R. Hanson, Solving least squares problems (1974), chapter 23.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, norm = nnls(tnp.array([[1.0, 0.0], [0.0, 1.0]]), tnp.array([2.0, -1.0]))
        >>> x.tolist(), norm.item()
        ([2.0, 0.0], 1.0)
    """
    a, right = (operands.array_of("nnls", x) for x in (A, b))
    rank("nnls", a, 2, 2)
    if right.shape != a.shape[:1]:
        raise ShapeError("nnls needs an element of b for each row of A", got=shown(right))
    kind = jnp.promote_types(jnp.result_type(a, right), "float32")
    a, right = a.astype(kind), right.astype(kind)
    free = jnp.zeros(a.shape[1], bool)
    most = 3 * a.shape[1] + 1 if maxiter is None else maxiter

    def find(_: Any, start: Array) -> Any:
        x, done = active_set(a, right, free, most)
        return jnp.where(done, x, jnp.nan), ()

    def stationary(x: Array) -> Array:
        return x - jnp.maximum(x - a.T @ (a @ x - right), 0)

    start = jnp.zeros(a.shape[1], kind)
    x, _ = lax.custom_root(stationary, start, find, solve_dense, has_aux=True)
    return x, jnp.linalg.norm(a @ x - right)


def linear_sum_assignment(
    cost_matrix: Real[ArrayLike, "rows columns"], maximize: bool = False
) -> tuple[Int[Array, " pairs"], Int[Array, " pairs"]]:
    """The assignment of rows to columns of least cost.  SciPy computes it, on the host.

    Args:
        cost_matrix: the cost of each row in each column.
        maximize: whether to seek the largest cost.

    Returns:
        The rows in order, and the column of each: as many pairs as the shorter side.

    Raises:
        ShapeError: unless costs are a matrix.

    Source: D. Crouse, On implementing 2D rectangular assignment algorithms (2016).

    Example:
        >>> import tfn.numpy as tnp
        >>> rows, columns = linear_sum_assignment(tnp.array([[4.0, 1.0], [2.0, 3.0]]))
        >>> rows.tolist(), columns.tolist()
        ([0, 1], [1, 0])
    """
    costs = operands.array_of("linear_sum_assignment", cost_matrix)
    rank("linear_sum_assignment", costs, 2, 2)
    pairs = ShapeDtypeStruct((min(costs.shape),), np.int32)
    name = "optimize.linear_sum_assignment"
    rows, columns = on_host.call(name, (pairs, pairs), costs, maximize=maximize)
    return rows, columns
