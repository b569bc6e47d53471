"""First and second derivatives of elementwise functions against mpmath, over the whole range.

Errors are relative, at zeros and where a slope is tiny too: a slope that is made of a rounded
result has no digits there.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tfn
import tfn.lax as lax
import tfn.numpy as tnp
import tfn.scipy.special as special
from tfn import nn

mp = mpmath.mp.clone()
mp.dps = 60

SIZES = [0, 1e-300, 1e-20, 1e-8, 1e-4, 0.1, 0.3, 0.5, 0.9, 1, 1.5, 2, 3, 5, 10, 20, 30, 37, 40]
SIZES += [50, 88, 100, 300, 600, 700, 1e3, 1e8, 1e20, 1e160, 1e300]
LINE = np.array(sorted({s * x for x in map(float, SIZES) for s in (1, -1)}))
FINITE = LINE[abs(LINE) <= 600]
UNIT = LINE[abs(LINE) < 1]
UNIT = np.concatenate([UNIT, 1 - 10.0 ** -np.arange(3, 16, 3), 10.0 ** -np.arange(3, 16, 3) - 1])
POSITIVE = LINE[(LINE > 1e-100) & (LINE < 1e100)]
UP, DOWN = "1/(1+mp.exp(-x))", "1/(1+mp.exp(x))"
DENSITY, BELOW = "mp.npdf(x)", "mp.erfc(-x/mp.sqrt(2))/2"
ROOT = "mp.sqrt((1-x)*(1+x))"

TABLE = {  # function, its derivative, the second one, points
    "tanh": (tnp.tanh, "mp.sech(x)**2", "-2*mp.tanh(x)*mp.sech(x)**2", LINE),
    "sigmoid": (nn.sigmoid, f"{UP}*{DOWN}", f"-{UP}*{DOWN}*mp.tanh(x/2)", LINE),
    "log_sigmoid": (nn.log_sigmoid, DOWN, f"-{UP}*{DOWN}", LINE),
    "softplus": (nn.softplus, UP, f"{UP}*{DOWN}", LINE),
    "silu": (nn.silu, f"{UP}*(1+x*{DOWN})", f"{UP}*{DOWN}*(2-x*mp.tanh(x/2))", LINE),
    "soft_sign": (
        nn.soft_sign,
        "(1+abs(x))**-2",
        "-2*mp.sign(x)/(1+abs(x))**3",
        FINITE[FINITE != 0],
    ),
    "gelu": (
        lambda x: nn.gelu(x, approximate=False),
        f"{BELOW}+x*{DENSITY}",
        f"(2-x*x)*{DENSITY}",
        FINITE,
    ),
    "elu": (nn.elu, "mp.exp(min(x,0))", "mp.exp(x)*(x<0)", FINITE[FINITE != 0]),
    "exp": (tnp.exp, "mp.exp(x)", "mp.exp(x)", FINITE),
    "exp2": (
        tnp.exp2,
        "mp.log(2)*mp.mpf(2)**x",
        "mp.log(2)**2*mp.mpf(2)**x",
        np.append(FINITE, 1024.0000000000002),
    ),
    "expm1": (tnp.expm1, "mp.exp(x)", "mp.exp(x)", FINITE),
    "log1p": (tnp.log1p, "1/(1+x)", "-1/(1+x)**2", LINE[(LINE > -1) & (LINE < 1e100)]),
    "log": (tnp.log, "1/x", "-1/x**2", POSITIVE),
    "sqrt": (tnp.sqrt, "1/mp.sqrt(x)/2", "-1/(4*x*mp.sqrt(x))", POSITIVE),
    "rsqrt": (lax.rsqrt, "-1/(2*x*mp.sqrt(x))", "3/(4*x*x*mp.sqrt(x))", POSITIVE),
    "arcsin": (tnp.arcsin, f"1/{ROOT}", f"x/{ROOT}**3", UNIT),
    "arccos": (tnp.arccos, f"-1/{ROOT}", f"-x/{ROOT}**3", UNIT),
    "arctan": (tnp.arctan, "1/(1+x*x)", "-2*x/(1+x*x)**2", LINE),
    "arctanh": (tnp.arctanh, f"1/{ROOT}**2", f"2*x/{ROOT}**4", UNIT),
    "arcsinh": (tnp.arcsinh, "1/mp.sqrt(1+x*x)", "-x/mp.sqrt(1+x*x)**3", LINE),
    "erf": (
        special.erf,
        "2/mp.sqrt(mp.pi)*mp.exp(-x*x)",
        "-4*x/mp.sqrt(mp.pi)*mp.exp(-x*x)",
        LINE,
    ),
    "ndtr": (special.ndtr, DENSITY, f"-x*{DENSITY}", LINE),
}


def _close(got: object, want: list[mpmath.mpf]) -> None:
    expected = np.array([float(w) for w in want])
    np.testing.assert_allclose(np.asarray(got), expected, 2e-13, 1e-300)


@pytest.mark.parametrize("name", TABLE)
def test_slopes_have_all_their_digits(name):
    f, slope, curvature, points = TABLE[name]
    x = tnp.array(points)
    values = [[eval(s, {"mp": mp, "x": mp.mpf(v)}) for v in points] for s in (slope, curvature)]
    backward = tfn.grad(lambda x: f(x).sum())
    _close(backward(x), values[0])
    forward = tfn.jit(lambda x: tfn.jvp(backward, (x,), (tnp.ones_like(x),)))
    _close(forward(x)[1], values[1])
    _close(tfn.grad(lambda x: backward(x).sum())(x), values[1])


MIXED = {  # function of two operands, its mixed second derivative, points
    "power": (
        tnp.power,
        "a**(b-1)*(1+b*mp.log(a))",
        [(3, 0), (0.5, 0), (2, 1), (2, -1), (1e-3, 2)],
    ),
    "arctan2": (
        tnp.arctan2,
        "(a*a-b*b)/(a*a+b*b)**2",
        [(1, 3), (1e100, 1e100), (0, 2), (1e-100, 3e-100), (1e100, 2e99)],
    ),
    "hypot": (tnp.hypot, "-a*b/mp.hypot(a,b)**3", [(1, 2), (1e200, 1e200), (3e-100, 1e-100)]),
    "xlogy": (special.xlogy, "1/b", [(0, 2), (0, 1e-50), (1, 3)]),
    "xlog1py": (special.xlog1py, "1/(1+b)", [(0, 2), (0, -0.5), (0, 0), (1, 3)]),
    "logaddexp": (
        tnp.logaddexp,
        "-1/(1+mp.exp(b-a))/(1+mp.exp(a-b))",
        [(0, 0), (40, 0), (-700, 0), (0, 300)],
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_derivatives_agree_in_both_orders(name):
    f, mixed, points = MIXED[name]
    a, b = tnp.array(np.array(points, float).T)
    want = [eval(mixed, {"mp": mp, "a": mp.mpf(x), "b": mp.mpf(y)}) for x, y in points]
    by_a, by_b = (tfn.grad(lambda a, b: f(a, b).sum(), i) for i in (0, 1))
    _close(tfn.grad(lambda a, b: by_a(a, b).sum(), 1)(a, b), want)
    _close(tfn.grad(lambda a, b: by_b(a, b).sum(), 0)(a, b), want)
