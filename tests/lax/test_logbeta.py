"""Ratios of gamma functions against integers of Python, where logarithms of them would cancel."""

import math

import numpy as np
import pytest

import tfn
from tfn.lax.logbeta import log_beta, log_rise


def rise(z: int, m: int) -> float:
    """``z * (z + 1) * ... * (z + m - 1)``, by its logarithm."""
    return math.log(math.prod(range(z, z + m)))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-14), ("float32", 1e-6)])
def test_of_whole_numbers(dtype: str, rtol: float) -> None:
    sizes = [1, 2, 5, 7, 8, 9, 30, 1000, 10**6, 10**12]
    for z in sizes:
        for m in (0, 1, 2, 7, 20):
            z_, m_ = np.array(z, dtype), np.array(m, dtype)
            got = float(log_rise(tfn.numpy.asarray(z_), tfn.numpy.asarray(m_)))
            assert got == pytest.approx(rise(int(z_), m), rel=rtol, abs=rtol)
            if m:  # beta(z, m) = (m - 1)! / (z (z + 1) ... (z + m - 1))
                want = math.log(math.factorial(m - 1)) - rise(int(z_), m)
                for a, b in ((z_, m_), (m_, z_)):
                    got = float(log_beta(tfn.numpy.asarray(a), tfn.numpy.asarray(b)))
                    assert got == pytest.approx(want, rel=2 * rtol, abs=2 * rtol)


def test_where_both_are_large() -> None:
    """beta(n, n) = 2 / n / binomial(2 n, n)."""
    for n in (8, 100, 1000):
        want = math.log(2) - math.log(n) - math.log(math.comb(2 * n, n))
        assert float(log_beta(*[tfn.numpy.float64(n)] * 2)) == pytest.approx(want, rel=1e-14)
        assert float(log_beta(*[tfn.numpy.float32(n)] * 2)) == pytest.approx(want, rel=1e-6)


def test_derivatives() -> None:
    """Derivatives of logarithms of gamma functions, ties included: digamma(a) - digamma(a + b)."""
    digamma = lambda x: float(tfn.lax.digamma(tfn.numpy.float64(x)))
    for a, b in ((3.0, 3.0), (50.0, 50.0), (0.5, 20.0), (20.0, 0.5), (9.0, 700.0)):
        point = tuple(map(tfn.numpy.float64, (a, b)))
        got = [float(slope) for slope in tfn.grad(log_beta, argnums=(0, 1))(*point)]
        want = [digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)]
        np.testing.assert_allclose(got, want, rtol=1e-12)
    twice = tfn.grad(tfn.grad(log_beta))(*map(tfn.numpy.float64, (9.0, 9.0)))
    trigamma = tfn.grad(tfn.lax.digamma)
    want = float(trigamma(tfn.numpy.float64(9.0)) - trigamma(tfn.numpy.float64(18.0)))
    assert float(twice) == pytest.approx(want, rel=1e-11)


def test_limits() -> None:
    inf = math.inf
    one = tfn.numpy.float32(1)
    assert float(log_beta(one, tfn.numpy.float32(inf))) == -inf
    assert float(log_beta(tfn.numpy.float32(0), tfn.numpy.float32(100))) == inf
    assert math.isnan(float(log_beta(one, tfn.numpy.float32(math.nan))))
    assert float(log_beta(tfn.numpy.float16(300), tfn.numpy.float16(2))) == pytest.approx(
        -math.log(300 * 301), rel=1e-3
    )
