"""Complex functions: errors against mpmath, special values against NumPy and Annex G."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math import complex_functions
from tfn.lower.math.complex_functions import Pair
from tfn.trace import oracle
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp

RNG = np.random.default_rng(5)


def run(name: str, *values: Any) -> Any:
    """A function of `complex_functions` on complex arrays."""
    env, pairs = {}, []
    for k, z in enumerate(values):
        parts = []
        for h, x in enumerate((z.real, z.imag)):
            u = UOp(Op.PARAM, (), Param(2 * k + h, x.shape, x.dtype))
            env[u] = x
            parts.append(u)
        pairs.append(Pair(*parts))
    result = getattr(complex_functions, name)(*pairs)
    if not isinstance(result, Pair):
        return oracle.evaluate([result], env)[0]
    re, im = oracle.evaluate(result, env)
    out = np.empty(re.shape, values[0].dtype)
    out.real, out.imag = re, im
    return out


def around(center: complex, radius: float, n: int = 20) -> Any:
    """Random numbers near a center."""
    return center + radius * (RNG.normal(size=n) + 1j * RNG.normal(size=n))


POINTS = np.concatenate(
    [
        around(0, 1),
        around(0, 1e-4),
        around(0, 12),
        around(1, 1e-7),
        around(-1, 1e-7),
        around(1j, 1e-7),
        around(-1j, 1e-5),
        np.exp(1j * RNG.uniform(-4, 4, 20)),
        np.exp(RNG.uniform(-20, 3, 20) + 1j * RNG.uniform(-4, 4, 20)),
        RNG.normal(size=20) * 3 + 1e-9j * RNG.normal(size=20),
    ]
)

# fmt: off
EXACT = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "sqrt": mpmath.sqrt,
    "log1p": lambda z: mpmath.log(1 + z), "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "log2": lambda z: mpmath.log(z) / mpmath.log(2), "exp2": lambda z: mpmath.power(2, z),
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)), "modulus": abs, "sign": mpmath.sign,
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh,
}
# fmt: on
ULPS = {"exp2": 30}
"""Bounds above 3 ulp: the error of an angle grows with it."""


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["c64", "c128"])
@pytest.mark.parametrize("name", EXACT)
def test_errors_in_ulp(name: str, dtype: Any) -> None:
    z = POINTS.astype(dtype)
    got = run(name, z)
    unit = 2 * np.finfo(dtype).epsneg
    with mpmath.workprec(200):
        for point, value in zip(z, got, strict=True):
            expected = EXACT[name](mpmath.mpc(float(point.real), float(point.imag)))
            error = abs(mpmath.mpmathify(complex(value)) - expected) / abs(expected)
            assert error <= ULPS.get(name, 3) * unit, (point, value, expected)


def test_powers() -> None:
    z, w = around(0, 1), around(0, 1)
    got = run("power", z, w)
    np.testing.assert_allclose(got, z**w, rtol=1e-14)
    zero = np.zeros(4, complex)
    with np.errstate(all="ignore"):
        w = np.array([0, 2, -1, 1 + 1j])
        np.testing.assert_array_equal(run("power", zero, w), zero**w)


def test_quotients() -> None:
    z, w = around(0, 1), around(0, 1)
    np.testing.assert_allclose(run("divide", z, w), z / w, rtol=1e-15)
    edges = np.array([1, 0, 1j, 1e300 + 1e300j, 1e-300 + 1e-300j, np.inf, 2 - 3j])
    a, b = (x.ravel() for x in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run("divide", a, b), a / b, rtol=1e-15)


INF, NAN = np.inf, np.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, NAN, 1e300, -1e300, 1e-310, 800.0, -800.0]
PLANE = np.array([complex(x, y) for x in EDGES for y in EDGES])

# Arguments at which Annex G leaves the sign of a zero or an infinity open: signs may differ there
# from those of NumPy.
OPEN = {
    "sin": lambda z: ~np.isfinite(z.real) & np.isinf(z.imag),
    "sinh": lambda z: np.isinf(z.real) & ~np.isfinite(z.imag),
    "cos": lambda z: (~np.isfinite(z.real) & (z.imag == 0)) | ((z.real == 0) & np.isnan(z.imag)),
    "cosh": lambda z: (~np.isfinite(z.imag) & (z.real == 0)) | ((z.imag == 0) & np.isnan(z.real)),
    "exp": lambda z: np.isinf(z.real) & np.isinf(z.imag),
}
NUMPY = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "modulus": np.abs,
    "log2": np.log2,
}


@pytest.mark.parametrize("name", NUMPY)
def test_special_values(name: str) -> None:
    with np.errstate(all="ignore"):
        expected, got = NUMPY[name](PLANE), run(name, PLANE)
    free = OPEN.get(name, lambda z: np.zeros(z.shape, bool))(PLANE)
    for e, g in ((expected.real, got.real), (expected.imag, got.imag)):
        np.testing.assert_allclose(np.abs(g), np.abs(e), rtol=1e-9, atol=0)
        signed = ~free & ~np.isnan(e)
        assert np.array_equal(np.signbit(g[signed]), np.signbit(e[signed]))


def test_special_values_where_numpy_is_inaccurate() -> None:
    z = np.array([complex(INF, 0), complex(-INF, NAN), complex(-INF, INF), 800, 1e-310 + 1e-310j])
    expected = [complex(INF, 0), -1, -1, complex(INF, 0), 1e-310 + 1e-310j]
    np.testing.assert_array_equal(run("expm1", z), expected)
    np.testing.assert_array_equal(run("log1p", z[-1:]), expected[-1:])
    np.testing.assert_array_equal(run("logistic", np.array([1e4 + 3j, -1e4 + 3j])), [1, 0])
    small = run("sign", np.array([3 + 4j, 0, complex(INF, 1), complex(1, -INF)]))
    np.testing.assert_allclose(small, [0.6 + 0.8j, 0, 1, -1j], rtol=1e-15)


def test_signed_zeros_select_the_side_of_a_branch_cut() -> None:
    above, below = complex(-2, 0.0), complex(-2, -0.0)
    for name, factor in (("sqrt", 1j), ("log", 1j)):
        up, down = run(name, np.array([above, below]))
        assert up == np.conj(down) and (up / factor).real > 0
    right, left = run("asinh", np.array([complex(0.0, 2), complex(-0.0, 2)]))
    assert right.real > 0 > left.real and right.imag == left.imag


def test_intermediate_overflow_is_avoided() -> None:
    for name, x in (("exp", 709.8), ("sinh", 710.45), ("cosh", -710.45)):
        (got,) = run(name, np.array([x + 0.78j]))
        expected = getattr(mpmath, name)(mpmath.mpc(x, 0.78))
        assert complex(got / 4) == pytest.approx(complex(expected / 4), rel=1e-14)
    big = np.array([1e308 + 1e308j])
    assert run("sqrt", big)[0] == pytest.approx(complex(np.sqrt(big[0])), rel=1e-15)
    assert run("modulus", big / 2)[0] == pytest.approx(np.sqrt(0.5) * 1e308, rel=1e-15)


def test_both_precisions_are_kept() -> None:
    for dtype, real in ((np.complex64, FLOAT32), (np.complex128, FLOAT64)):
        for name in EXACT:
            assert run(name, np.ones(1, dtype) * 2).real.dtype == real
