"""Explicit Runge-Kutta steps, by tables of coefficients.

Sources: P. Bogacki and L. Shampine, A 3(2) pair of Runge-Kutta formulas (1989); J. Dormand and P.
Prince, A family of embedded Runge-Kutta formulae (1980); L. Shampine, Some practical Runge-Kutta
formulas (1986), for polynomials through steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfn import numpy as jnp
from tfn.array import Array
from tfn.scipy.integrate import dormand_prince_8 as eighth
from tfn.scipy.integrate.step_control import SAFETY, Attempt, Problem, chosen, error_norm, power


class Tableau(NamedTuple):
    """The coefficients of a method whose last stage is the first one of the next step.

    Attributes:
        order: of the solution.
        estimate: the order of the estimate of the error.
        nodes: times of the stages, in parts of the step.
        stages: coefficients of the slopes before each stage but the first.
        solution: coefficients of the slopes of all stages but the last.
        error: coefficients of all slopes of the estimate of the error; of two, in two rows.
        polynomial: for each slope, the coefficients of ascending powers from the first.
        further: coefficients of slopes of stages after the end, which the polynomial has.
    """

    order: int
    estimate: int
    nodes: Any
    stages: Any
    solution: Any
    error: Any
    polynomial: Any
    further: Any = ()


def _order_8() -> Tableau:
    """The method of order 8, whose polynomial is a sum of products of powers of x and 1 - x."""
    nodes, solution = np.array(eighth.NODES), np.array(eighth.SOLUTION)
    move = np.pad(solution, (0, 4))
    first, last = np.eye(16)[0], np.eye(16)[12]
    rows = [move, first - move, 2 * move - first - last, *np.array(eighth.POLYNOMIAL)]
    x, rest, term = np.poly1d([1, 0]), np.poly1d([-1, 1]), np.poly1d([1.0])
    powers = np.zeros((7, 16))
    for i, row in enumerate(rows):
        term = term * (rest if i % 2 else x)
        powers[: i + 1] += np.outer(term.coeffs[::-1][1:], row)
    errors, further = np.array(eighth.ERRORS), eighth.FURTHER
    return Tableau(8, 7, nodes, eighth.STAGES, solution, errors, powers.T, further)


# fmt: off
TABLES = {
    "RK23": Tableau(
        3, 2,
        np.array([0, 1 / 2, 3 / 4]),
        [[1 / 2], [0, 3 / 4]],
        np.array([2 / 9, 1 / 3, 4 / 9]),
        np.array([5 / 72, -1 / 12, -1 / 9, 1 / 8]),
        np.array([[1, -4 / 3, 5 / 9], [0, 1, -2 / 3], [0, 4 / 3, -8 / 9], [0, -1, 1]]),
    ),
    "RK45": Tableau(
        5, 4,
        np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1]),
        [
            [1 / 5],
            [3 / 40, 9 / 40],
            [44 / 45, -56 / 15, 32 / 9],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        ],
        np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]),
        np.array([-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40]),
        np.array([
            [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
            [0, 0, 0, 0],
            [0, 131558114200 / 32700410799, -68118460800 / 10900136933,
             87487479700 / 32700410799],
            [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
            [0, 127303824393 / 49829197408, -318862633887 / 49829197408,
             701980252875 / 199316789632],
            [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
            [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
        ]),
    ),
    "DOP853": _order_8(),
}
# fmt: on


def start(problem: Problem, t: Any, y: Array, f: Array, h: Array) -> Any:
    """The memory of the method: the slope, and whether the step before was rejected."""
    return f, jnp.array(False)


def attempt(table: Tableau, problem: Problem, t: Any, y: Array, h: Array, memory: Any) -> Attempt:
    """One step by a table."""
    f, rejected = memory
    slopes = [f]

    def at(node: Any, weights: Any) -> Array:
        moved = sum(w * k for w, k in zip(weights, slopes, strict=True) if w)
        return problem.fun(t + node * h, y + h * moved)

    for node, weights in zip(table.nodes[1:], table.stages):
        slopes.append(at(node, weights))
    new = y + h * sum(w * k for w, k in zip(table.solution, slopes, strict=True) if w)
    slopes.append(problem.fun(t + h, new))
    errors = jnp.asarray(table.error, y.dtype) @ jnp.stack(slopes)
    if errors.ndim == 1:
        ratio = error_norm(problem, h * errors, y, new)
    else:  # the higher order, weighed by the lower one
        high, low = (error_norm(problem, h * row, y, new) for row in errors)
        total = high * high + 0.01 * low * low
        ratio = high * high / jnp.sqrt(jnp.where(total > 0, total, 1))
    accepted = ratio <= 1
    factor = chosen(accepted, SAFETY * power(ratio, table.estimate + 1), rejected)
    for node, weights in zip(table.nodes[len(slopes) :], table.further):
        slopes.append(at(node, weights))
    rows = h * (jnp.asarray(table.polynomial.T, y.dtype) @ jnp.stack(slopes))
    kept = (jnp.where(accepted, slopes[len(table.stages) + 1], f), ~accepted)
    calls = (len(slopes) - 1, 0, 0)
    return Attempt(new, accepted, factor, jnp.concatenate([y[None], rows]), kept, calls)
