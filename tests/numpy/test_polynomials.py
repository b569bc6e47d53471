"""Polynomials against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.test_linalg import near
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, ShapeError

P, Q = np.float64([2, -1, 3, 0.5]), np.float64([1, 4])


def test_arithmetic():
    for a, b in ((P, Q), (Q, P), (P, P[:1]), (np.int32([1, 2]), np.int32([3, 0, 4]))):
        close(tnp.polyadd(a, b), np.polyadd(a, b))
        close(tnp.polysub(a, b), np.polysub(a, b))
        close(tnp.polymul(a, b), np.polymul(a, b), 8)
        got, want = tnp.polydiv(a, b, trim_leading_zeros=True), np.polydiv(a, b)
        for g, w in zip(got, want, strict=True):
            near(g, w.astype(np.asarray(g).dtype))
    assert tfn.grad(lambda p: tnp.polymul(p, Q).sum())(P).tolist() == [5.0] * 4
    with pytest.raises(ShapeError, match="polyadd needs a vector of coefficients"):
        tnp.polyadd(np.ones((2, 2)), Q)


@pytest.mark.parametrize("m", [0, 1, 2, 5])
def test_derivatives_and_integrals(m):
    close(tnp.polyder(P, m), np.polyder(P, m), 8)
    close(tnp.polyint(P, m), np.polyint(P, m), 8)
    close(tnp.polyint(P, m, 2.0), np.polyint(P, m, [2.0] * m), 8)
    constants = [0.1, 2, -1.5, 4, 5][:m]
    if m:
        close(tnp.polyint(P, m, constants), np.polyint(P, m, constants), 8)
        close(tnp.polyint(P, m, tuple(constants)), np.polyint(P, m, constants), 8)


def test_roots():
    for p in (P, np.float64([1, -3, 2]), np.float64([0, 0, 1, -1, 0]), np.float64([3])):
        got, want = np.sort_complex(tnp.roots(p)), np.sort_complex(np.roots(p))
        np.testing.assert_allclose(got, want, atol=1e-12)
    assert tnp.roots(np.zeros(3)).size == 0
    got = tfn.jit(lambda p: tnp.roots(p, strip_zeros=False))(P)
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(np.roots(P)), atol=1e-12)
    near(tnp.poly(np.float64([1, 2, -3])), np.poly([1, 2, -3]))
    matrix = sample("float64", (3, 3), 1, special=False)
    near(np.asarray(tnp.poly(matrix)).real, np.poly(matrix))


def test_fits():
    x, y = np.linspace(-1, 2, 9), sample("float64", (9,), 2, special=False)
    both, w = np.stack([y, y**2], 1), np.linspace(1, 2, 9)
    for deg in (0, 2, 4):
        for right in (y, both):
            near(tnp.polyfit(x, right, deg), np.polyfit(x, right, deg), 50)
            near(tnp.polyfit(x, right, deg, w=w), np.polyfit(x, right, deg, w=w), 50)
    for cov in (True, "unscaled"):
        for got, want in zip(tnp.polyfit(x, y, 2, cov=cov), np.polyfit(x, y, 2, cov=cov)):
            near(got, want, 50)
    near(tnp.polyfit(x, y, 2, full=True)[1], np.polyfit(x, y, 2, full=True)[1], 50)
    slope = tfn.grad(lambda y: tnp.polyfit(x, y, 1)[0])(y)
    near(slope, (x - x.mean()) / ((x - x.mean()) ** 2).sum())
    with pytest.raises(ArgumentError, match="polyfit needs deg >= 0"):
        tnp.polyfit(x, y, -1)
