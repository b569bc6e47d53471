"""Test problems of others: fits of the NIST, sums of squares of Moré, Garbow and Hillstrom.

Functions take the module that computes them, NumPy or `tfn.numpy`, so that SciPy and tfn solve the
same problem.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STRD = Path(__file__).parents[1] / "data" / "nist_strd.json"
"""The nonlinear regression of the NIST's statistical reference datasets, all 27, as published at
https://www.itl.nist.gov/div898/strd: data, two starts, certified parameters, their deviations and
the sum of squares."""


@cache
def strd() -> dict[str, Any]:
    """The datasets by name."""
    found: dict[str, Any] = json.loads(STRD.read_text())
    return found


def _gauss(m: Any, x: Any, b: Any) -> Any:
    first, second = (b[i] * m.exp(-((x - b[i + 1]) ** 2) / b[i + 2] ** 2) for i in (2, 5))
    return b[0] * m.exp(-b[1] * x) + first + second


def _enso(m: Any, x: Any, b: Any) -> Any:
    def wave(c: Any, s: Any, period: Any) -> Any:
        return c * m.cos(2 * np.pi * x / period) + s * m.sin(2 * np.pi * x / period)

    return b[0] + wave(b[1], b[2], 12) + wave(b[4], b[5], b[3]) + wave(b[7], b[8], b[6])


def _rational(degree: int) -> Any:
    def model(m: Any, x: Any, b: Any) -> Any:
        over = sum(b[i] * x**i for i in range(degree + 1))
        return over / (1 + sum(b[degree + i] * x**i for i in range(1, degree + 1)))

    return model


# fmt: off
MODELS: dict[str, Any] = {
    "Bennett5": lambda m, x, b: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": lambda m, x, b: b[0] * (1 - m.exp(-b[1] * x)),
    "Chwirut": lambda m, x, b: m.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda m, x, b: b[0] * x ** b[1],
    "ENSO": _enso,
    "Eckerle4": lambda m, x, b: b[0] / b[1] * m.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss": _gauss,
    "Hahn1": _rational(3), "Thurber": _rational(3), "Kirby2": _rational(2),
    "Lanczos": lambda m, x, b: sum(b[i] * m.exp(-b[i + 1] * x) for i in (0, 2, 4)),
    "MGH09": lambda m, x, b: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
    "MGH10": lambda m, x, b: b[0] * m.exp(b[1] / (x + b[2])),
    "MGH17": lambda m, x, b: b[0] + b[1] * m.exp(-x * b[3]) + b[2] * m.exp(-x * b[4]),
    "Misra1a": lambda m, x, b: b[0] * (1 - m.exp(-b[1] * x)),
    "Misra1b": lambda m, x, b: b[0] * (1 - (1 + b[1] * x / 2) ** -2.0),
    "Misra1c": lambda m, x, b: b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5),
    "Misra1d": lambda m, x, b: b[0] * b[1] * x / (1 + b[1] * x),
    "Rat42": lambda m, x, b: b[0] / (1 + m.exp(b[1] - b[2] * x)),
    "Rat43": lambda m, x, b: b[0] / (1 + m.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Roszman1": lambda m, x, b: b[0] - b[1] * x - m.arctan(b[2] / (x - b[3])) / np.pi,
}
# fmt: on


class Fit(NamedTuple):
    """One dataset: `model` takes the module, places and parameters."""

    model: Any
    x: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    certified: np.ndarray
    deviations: np.ndarray
    squares: float


def fit(name: str) -> Fit:
    """A dataset by name."""
    row = strd()[name]
    y, x = np.array(row["y"]), np.array(row["x"])
    model = MODELS.get(name) or MODELS.get(name[:-1])
    if name == "Nelson":
        y = np.log(y)
        model = lambda m, x, b: b[0] - b[1] * x[0] * m.exp(-b[2] * x[1])
    else:
        x = x[0]
    keys = ("starts", "certified", "deviations")
    starts, certified, deviations = (np.array(row[key]) for key in keys)
    return Fit(model, x, y, starts, certified, deviations, row["squares"])


# Sums of squares.  Source: J. Moré, B. Garbow, K. Hillstrom, Testing unconstrained optimization
# software (1981); the numbers are those of the paper.

BARD = np.array(
    [.14, .18, .22, .25, .29, .32, .35, .39, .37, .58, .73, .96, 1.34, 2.1, 4.39]
)  # fmt: skip
GAUSSIAN = np.array(
    [.0009, .0044, .0175, .0540, .1295, .2420, .3521, .3989,
     .3521, .2420, .1295, .0540, .0175, .0044, .0009]
)  # fmt: skip
KOWALIK: Any = np.array(
    [[.1957, .1947, .1735, .1600, .0844, .0627, .0456, .0342, .0323, .0235, .0246],
     [4, 2, 1, .5, .25, .167, .125, .1, .0833, .0714, .0625]]
)  # fmt: skip
MEYER = np.array(
    [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820,
     3307, 2872]
)  # fmt: skip
OSBORNE = np.array(
    [.844, .908, .932, .936, .925, .908, .881, .850, .818, .784, .751, .718, .685, .658, .628,
     .603, .580, .558, .538, .522, .506, .490, .478, .467, .457, .448, .438, .431, .424, .420,
     .414, .411, .406]
)  # fmt: skip


def _helical(m: Any, x: Any) -> Any:
    angle = m.arctan2(x[1], x[0]) / (2 * np.pi)
    angle = m.where(angle < -0.25, angle + 1, angle)  # the branch of the paper
    return 10 * (x[2] - 10 * angle), 10 * (m.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]


def _bard(m: Any, x: Any) -> Any:
    u = np.arange(1.0, 16)
    return BARD - (x[0] + u / (x[1] * (16 - u) + x[2] * np.minimum(u, 16 - u)))


def _brown_dennis(m: Any, x: Any) -> Any:
    t = np.arange(1.0, 21) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


def _box(m: Any, x: Any) -> Any:
    t = np.arange(1.0, 11) / 10
    return m.exp(-t * x[0]) - m.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def _biggs(m: Any, x: Any) -> Any:
    t = np.arange(1.0, 14) / 10
    y = np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t)
    return x[2] * m.exp(-t * x[0]) - x[3] * m.exp(-t * x[1]) + x[5] * m.exp(-t * x[4]) - y


def _watson(m: Any, x: Any) -> Any:
    t, j = np.arange(1.0, 30)[:, None] / 29, np.arange(float(len(x)))
    slope = (t ** np.maximum(j - 1, 0) * j) @ x
    rest = slope - (t**j @ x) ** 2 - 1
    return m.concatenate([rest, m.stack([x[0], x[1] - x[0] ** 2 - 1])])


def _osborne(m: Any, x: Any) -> Any:
    t = 10 * np.arange(33.0)
    return OSBORNE - (x[0] + x[1] * m.exp(-t * x[3]) + x[2] * m.exp(-t * x[4]))


def _meyer(m: Any, x: Any) -> Any:
    return x[0] * m.exp(x[1] / (45 + 5 * np.arange(1.0, 17) + x[2])) - MEYER


def _kowalik(m: Any, x: Any) -> Any:
    y, u = KOWALIK
    return y - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


def _gaussian(m: Any, x: Any) -> Any:
    t = (8 - np.arange(1.0, 16)) / 2
    return x[0] * m.exp(-x[1] * (t - x[2]) ** 2 / 2) - GAUSSIAN


def _beale(m: Any, x: Any) -> Any:
    return [y - x[0] * (1 - x[1] ** i) for i, y in ((1, 1.5), (2, 2.25), (3, 2.625))]


def _trigonometric(m: Any, x: Any) -> Any:
    i = np.arange(1.0, len(x) + 1)
    return len(x) - m.cos(x).sum() + i * (1 - m.cos(x)) - m.sin(x)


def _tridiagonal(m: Any, x: Any) -> Any:
    zero = np.zeros(1)
    before, after = m.concatenate([zero, x[:-1]]), m.concatenate([x[1:], zero])
    return (3 - 2 * x) * x - before - 2 * after + 1


def _almost_linear(m: Any, x: Any) -> Any:
    return m.concatenate([(x + x.sum() - len(x) - 1)[:-1], m.prod(x)[None] - 1])


def _discrete_boundary(m: Any, x: Any) -> Any:
    h = 1 / (len(x) + 1)
    t, zero = h * np.arange(1.0, len(x) + 1), np.zeros(1)
    before, after = m.concatenate([zero, x[:-1]]), m.concatenate([x[1:], zero])
    return 2 * x - before - after + h * h * (x + t + 1) ** 3 / 2


def _boundary_start(n: int) -> Any:
    t = np.arange(1.0, n + 1) / (n + 1)
    return t * (t - 1)


def _jennrich(m: Any, x: Any) -> Any:
    i = np.arange(1.0, 11)
    return 2 + 2 * i - (m.exp(i * x[0]) + m.exp(i * x[1]))


# fmt: off
SQUARES: dict[str, Any] = {
    "rosenbrock": (lambda m, x: [10 * (x[1] - x[0] ** 2), 1 - x[0]], [-1.2, 1], 0),
    "freudenstein and roth": (
        lambda m, x: [-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1],
                      -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]], [.5, -2], 48.98425367924),
    "powell badly scaled": (
        lambda m, x: [1e4 * x[0] * x[1] - 1, m.exp(-x[0]) + m.exp(-x[1]) - 1.0001], [0, 1], 0),
    "brown badly scaled": (
        lambda m, x: [x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2], [1, 1], 0),
    "beale": (_beale, [1, 1], 0),
    "jennrich and sampson": (_jennrich, [.3, .4], 124.3621823556),
    "helical valley": (_helical, [-1, 0, 0], 0),
    "bard": (_bard, [1, 1, 1], 8.214877306578e-3),
    "gaussian": (_gaussian, [.4, 1, 0], 1.127932769619e-8),
    "meyer": (_meyer, [.02, 4000, 250], 87.94585517057),
    "box": (_box, [0, 10, 20], 0),
    "powell singular": (
        lambda m, x: [x[0] + 10 * x[1], 5**.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2,
                      10**.5 * (x[0] - x[3]) ** 2], [3, -1, 0, 1], 0),
    "wood": (
        lambda m, x: [10 * (x[1] - x[0] ** 2), 1 - x[0], 90**.5 * (x[3] - x[2] ** 2), 1 - x[2],
                      10**.5 * (x[1] + x[3] - 2), .1**.5 * (x[1] - x[3])], [-3, -1, -3, -1], 0),
    "kowalik and osborne": (_kowalik, [.25, .39, .415, .39], 3.075056038492e-4),
    "brown and dennis": (_brown_dennis, [25, 5, -5, -1], 85822.20162636),
    "osborne": (_osborne, [.5, 1.5, -1, .01, .02], 5.464894697483e-5),
    "biggs": (_biggs, [1, 2, 1, 1, 1, 1], 0),
    "watson": (_watson, [0] * 6, 2.287670053552e-3),
    "trigonometric": (_trigonometric, [.1] * 10, 2.795056122e-5),
    "broyden tridiagonal": (_tridiagonal, [-1] * 10, 0),
    "brown almost linear": (_almost_linear, [.5] * 10, 0),
    "discrete boundary": (_discrete_boundary, _boundary_start(10), 0),
}
# fmt: on
"""By name the residuals, a start, and the least sum of squares."""


def residuals(name: str, m: Any, x: Any) -> Any:
    """The residuals of a problem of `SQUARES` as one vector."""
    found = SQUARES[name][0](m, x)
    return m.stack([m.asarray(f) for f in found]) if isinstance(found, (list, tuple)) else found
