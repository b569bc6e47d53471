"""Spherical harmonics and Bessel functions against SciPy's."""

import numpy as np
import pytest
import scipy.special

import tfn
from tests.scipy.digits import slopes
from tfn.errors import TfnError
from tfn.scipy import special


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bessel_functions(dtype):
    z = np.linspace(-20, 20, 81).astype(dtype)
    want = np.stack([scipy.special.jv(n, z.astype("float64")) for n in range(6)])
    got = special.bessel_jn(z, v=5)
    np.testing.assert_allclose(got, want, atol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(tfn.jit(lambda z: special.bessel_jn(z, v=5))(z), got, atol=1e-6)
    assert special.bessel_jn(0.0, v=2).tolist() == [1, 0, 0]


def test_derivatives_of_bessel_functions():
    for n in (0, 1, 3):
        slopes(lambda z, n=n: special.bessel_jn(z, v=3)[n], np.float64([0.5, 2.0, 9.0]))
    second = tfn.grad(tfn.grad(lambda z: special.bessel_jn(z, v=0)[0]))(np.array(1.5))
    np.testing.assert_allclose(second, scipy.special.jvp(0, 1.5, 2), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spherical_harmonics(dtype):
    n, m = np.int32([0, 1, 1, 1, 2, 3, 5, 8]), np.int32([0, 0, 1, -1, 2, -2, 4, -7])
    theta = np.linspace(0, np.pi, 9).astype(dtype)[:, None]
    phi = np.linspace(0, 6, 9).astype(dtype)[:, None]
    want = scipy.special.sph_harm_y(n, m, theta.astype("float64"), phi.astype("float64"))
    np.testing.assert_allclose(
        special.sph_harm_y(n, m, theta, phi), want, atol=16 * np.finfo(dtype).eps
    )
    traced = tfn.jit(lambda n: special.sph_harm_y(n, m, theta, phi, n_max=8))(n)
    np.testing.assert_allclose(traced, want, atol=32 * np.finfo(dtype).eps)
    with pytest.raises(TfnError):
        tfn.jit(lambda n: special.sph_harm_y(n, m, theta, phi))(n)


def test_derivatives_of_spherical_harmonics():
    def f(theta):
        return special.sph_harm_y(np.int32(3), np.int32(2), theta, 0.4, n_max=3).real

    slopes(f, np.float64([0.4, 1.2, 2.6]))
