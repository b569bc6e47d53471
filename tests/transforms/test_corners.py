"""Derivatives at corners, ties, poles and infinities: the table of what is decided.

They are JAX's, but for those marked: there JAX gives what no limit gives, or NaN.  What JAX gives
was found by running it; nothing of it is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import lax, nn
from tfn import numpy as jnp
from tfn.scipy import special

Function = Callable[..., Any]
INF, NAN = float("inf"), float("nan")


def stacked(f: Function) -> Function:
    """A function of one vector as one of its elements."""
    return lambda *xs: f(jnp.stack(xs))


# Name, function, point, partial derivatives there.
# fmt: off
CORNERS: list[tuple[str, Function, tuple[float, ...], tuple[float, ...]]] = [
    # Corners of one argument.
    ("abs", jnp.abs, (0.0,), (1.0,)),
    ("abs", jnp.abs, (-0.0,), (1.0,)),
    ("sign", jnp.sign, (0.0,), (0.0,)),
    ("floor", jnp.floor, (1.0,), (0.0,)),
    ("rint", jnp.rint, (0.5,), (0.0,)),
    ("modf", lambda x: jnp.modf(x)[0], (-2.0,), (1.0,)),
    ("modf", lambda x: jnp.modf(x)[0], (-0.0,), (1.0,)),
    ("frexp", lambda x: jnp.frexp(x)[0], (6.0,), (0.125,)),
    ("relu", nn.relu, (0.0,), (0.0,)),
    ("relu6", nn.relu6, (6.0,), (0.0,)),
    ("relu6", nn.relu6, (0.0,), (0.0,)),
    ("hard_sigmoid", nn.hard_sigmoid, (3.0,), (0.0,)),
    ("hard_silu", nn.hard_silu, (3.0,), (1.0,)),
    ("hard_silu", nn.hard_silu, (INF,), (1.0,)),
    ("hard_tanh", nn.hard_tanh, (1.0,), (1.0,)),
    ("leaky_relu", nn.leaky_relu, (0.0,), (1.0,)),
    ("elu", nn.elu, (0.0,), (1.0,)),
    ("celu", nn.celu, (0.0,), (1.0,)),
    # Poles and infinite slopes.
    ("sqrt", jnp.sqrt, (0.0,), (INF,)),
    ("sqrt", jnp.sqrt, (INF,), (0.0,)),
    ("cbrt", jnp.cbrt, (0.0,), (INF,)),
    ("log", jnp.log, (0.0,), (INF,)),
    ("log1p", jnp.log1p, (-1.0,), (INF,)),
    ("reciprocal", jnp.reciprocal, (0.0,), (-INF,)),
    ("arcsin", jnp.arcsin, (1.0,), (INF,)),
    ("arccosh", jnp.arccosh, (1.0,), (INF,)),
    ("arctanh", jnp.arctanh, (1.0,), (INF,)),
    ("erfinv", special.erfinv, (1.0,), (INF,)),
    # Far away.
    ("tanh", jnp.tanh, (1e3,), (0.0,)),
    ("sigmoid", nn.sigmoid, (-1e3,), (0.0,)),
    ("sigmoid", nn.sigmoid, (INF,), (0.0,)),
    ("softplus", nn.softplus, (1e3,), (1.0,)),
    ("softplus", nn.softplus, (-1e3,), (0.0,)),
    ("softplus", nn.softplus, (INF,), (1.0,)),
    ("softplus", nn.softplus, (-INF,), (0.0,)),
    ("log_sigmoid", nn.log_sigmoid, (-1e3,), (1.0,)),
    ("squareplus", nn.squareplus, (1e10,), (1.0,)),
    ("arctan", jnp.arctan, (INF,), (0.0,)),
    ("arccosh", jnp.arccosh, (1e20,), (1e-20,)),  # JAX 0: the square overflows
    ("arcsinh", jnp.arcsinh, (-1e20,), (1e-20,)),  # JAX 0
    ("arcsinh", jnp.arcsinh, (INF,), (0.0,)),
    ("exp", jnp.exp, (-INF,), (0.0,)),
    ("i0", special.i0, (1e10,), (INF,)),
    ("i1", special.i1, (1e10,), (INF,)),  # JAX NaN
    # Removable singularities.
    ("sinc", jnp.sinc, (0.0,), (0.0,)),
    ("sinc", jnp.sinc, (1e-40,), (0.0,)),
    ("sinc, twice", tfn.grad(jnp.sinc), (0.0,), (-np.pi**2 / 3,)),
    ("sinc, three times", tfn.grad(tfn.grad(jnp.sinc)), (0.0,), (0.0,)),
    ("i1", special.i1, (0.0,), (0.5,)),
    ("xlogy", special.xlogy, (0.0, 0.0), (-INF, 0.0)),  # JAX NaN by y
    ("xlogy", special.xlogy, (0.0, 2.0), (np.log(2.0), 0.0)),
    ("xlog1py", special.xlog1py, (0.0, -1.0), (-INF, 0.0)),  # JAX NaN by y
    ("entr", special.entr, (0.0,), (INF,)),
    ("factorial", special.factorial, (0.0,), (-np.euler_gamma,)),
    ("poch", special.poch, (1.0, 0.0), (0.0, -np.euler_gamma)),
    # Ties.
    ("maximum", jnp.maximum, (2.0, 2.0), (0.5, 0.5)),
    ("maximum", jnp.maximum, (INF, INF), (0.5, 0.5)),
    ("maximum", jnp.maximum, (1.0, NAN), (0.0, 0.0)),
    ("fmax", jnp.fmax, (2.0, 2.0), (0.5, 0.5)),  # JAX 0 and 1
    ("max", stacked(jnp.max), (1.0, 3.0, 3.0), (0.0, 0.5, 0.5)),
    ("clip", lambda x: jnp.clip(x, 0.0, 1.0), (1.0,), (0.5,)),
    ("median", stacked(jnp.median), (2.0, 2.0), (0.5, 0.5)),
    ("quantile", stacked(lambda x: jnp.quantile(x, 0.25)), (2.0, 2.0), (0.75, 0.25)),
    ("sort", stacked(lambda x: jnp.sort(x)[0]), (2.0, 2.0), (1.0, 0.0)),
    ("prod", stacked(jnp.prod), (0.0, 0.0, 3.0), (0.0, 0.0, 0.0)),
    ("prod", stacked(jnp.prod), (0.0, 2.0, 3.0), (6.0, 0.0, 0.0)),
    ("cumprod", stacked(lambda x: jnp.cumprod(x)[2]), (0.0, 2.0, 3.0), (6.0, 0.0, 0.0)),
    # Powers.
    ("power", jnp.power, (0.0, 0.0), (0.0, 0.0)),  # JAX NaN by x
    ("power", jnp.power, (0.0, 1.0), (1.0, 0.0)),
    ("power", jnp.power, (0.0, 2.0), (0.0, 0.0)),
    ("power", jnp.power, (0.0, 0.5), (INF, 0.0)),
    ("power", jnp.power, (-2.0, 2.0), (-4.0, NAN)),
    ("power", lambda x: x**2, (0.0,), (0.0,)),
    ("integer_pow", lambda x: lax.integer_pow(x, 0), (0.0,), (0.0,)),
    # Lengths, angles and sums of exponentials.
    ("hypot", jnp.hypot, (0.0, 0.0), (0.0, 0.0)),  # JAX a half each, unlike its norm and abs
    ("hypot", jnp.hypot, (0.0, -1e-30), (0.0, -1.0)),  # JAX NaN
    ("hypot", jnp.hypot, (3e30, 4e30), (0.6, 0.8)),
    ("norm", stacked(jnp.linalg.norm), (0.0, 0.0), (NAN, NAN)),
    ("abs of complex", lambda x, y: jnp.abs(lax.complex(x, y)), (0.0, 0.0), (0.0, 0.0)),
    ("arctan2", jnp.arctan2, (0.0, 0.0), (NAN, NAN)),
    ("logaddexp", jnp.logaddexp, (0.0, 0.0), (0.5, 0.5)),
    ("logaddexp", jnp.logaddexp, (INF, INF), (0.5, 0.5)),  # JAX 1 each
    ("logaddexp", jnp.logaddexp, (-INF, -INF), (0.5, 0.5)),  # JAX NaN
    ("logaddexp", jnp.logaddexp, (INF, -INF), (1.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (1.0, INF), (0.0, 1.0)),  # JAX e and 1
    ("logaddexp", jnp.logaddexp, (1.0, -INF), (1.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (1.0, NAN), (NAN, NAN)),
    ("logaddexp2", jnp.logaddexp2, (INF, INF), (0.5, 0.5)),  # JAX 1 each
    ("logaddexp, twice", tfn.grad(jnp.logaddexp), (0.0, 0.0), (0.25, -0.25)),
    ("logsumexp", stacked(nn.logsumexp), (1.0, -INF), (1.0, 0.0)),
    ("logsumexp", stacked(nn.logsumexp), (-INF, -INF), (NAN, NAN)),
    ("softmax", stacked(lambda x: nn.softmax(x)[0]), (1.0, -INF), (0.0, 0.0)),
    # Division.
    ("floor_divide", jnp.floor_divide, (0.0, 2.0), (0.0, 0.0)),
    ("floor_divide", jnp.floor_divide, (0.0, 1e-30), (0.0, 0.0)),
    ("floor_divide", jnp.floor_divide, (1.0, INF), (0.0, 0.0)),
    ("remainder", jnp.remainder, (7.0, 3.0), (1.0, -2.0)),
    ("remainder", jnp.remainder, (-7.0, 3.0), (1.0, 3.0)),
    ("remainder", jnp.remainder, (1.0, -INF), (1.0, 1.0)),
    ("fmod", jnp.fmod, (-7.0, 3.0), (1.0, 2.0)),
    ("fmod", jnp.fmod, (-0.0, 3.0), (1.0, 0.0)),
    ("rem", lax.rem, (-0.0, 3.0), (1.0, 0.0)),
    # Choices: what is not chosen has no derivative, whatever it is.
    ("where", lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0), (0.0,), (0.0,)),
    ("where", lambda x, y: jnp.where(x > 0, x, y), (0.0, NAN), (0.0, 1.0)),
    ("interp", lambda x: jnp.interp(x, jnp.array([0.0, 1.0]), jnp.array([0.0, 4.0])),
     (0.0,), (4.0,)),
    ("interp", lambda x: jnp.interp(x, jnp.array([0.0, 1.0]), jnp.array([0.0, 4.0])),
     (2.0,), (0.0,)),
]
# fmt: on


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_corners(device: str) -> None:
    """All of them in one program, so that there is one to compile."""
    rows = [(f, tuple(map(np.float32, point))) for _, f, point, _ in CORNERS]
    points = [point for _, point in rows]
    before, tfn.config.device = tfn.config.device, device
    try:
        slopes = tfn.jit(
            lambda points: [
                tfn.grad(f, argnums=tuple(range(len(point))))(*point)
                for (f, _), point in zip(rows, points, strict=True)
            ]
        )(points)
        found = [[float(slope) for slope in row] for row in slopes]
    finally:
        tfn.config.device = before
    wrong = [
        f"{name}{point} has {got}, not {want}"
        for (name, _, point, want), got in zip(CORNERS, found, strict=True)
        if not np.allclose(got, want, rtol=1e-5, atol=1e-30, equal_nan=True)
    ]
    assert not wrong, "\n".join(wrong)


def test_forward_mode_agrees() -> None:
    """The tangent along each argument is that partial derivative."""
    # There a tangent of 0 meets an infinite slope: by the other argument, or of a factor.
    nan = {
        ("hard_silu", INF),
        ("xlogy", 0.0, 0.0),
        ("xlog1py", 0.0, -1.0),
        ("power", 0.0, 0.5),
        ("power", -2.0, 2.0),
    }
    wrong = []
    before, tfn.config.device = tfn.config.device, "python"
    try:
        for name, f, point, want in CORNERS:
            for i in range(len(point)):
                xs = tuple(map(jnp.float32, point))
                dxs = tuple(jnp.float32(i == j) for j in range(len(point)))
                got = float(tfn.jvp(f, xs, dxs)[1])
                known = np.isnan(got) and (name, *point) in nan
                if not known and not np.isclose(got, want[i], rtol=1e-5, equal_nan=True):
                    wrong.append(f"{name}{point} has {got}, not {want[i]}")
    finally:
        tfn.config.device = before
    assert not wrong, "\n".join(wrong)
