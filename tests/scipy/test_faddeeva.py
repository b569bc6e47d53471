"""The Faddeeva function and its relatives against SciPy: digits, derivatives, borders."""

import numpy as np
import pytest
import scipy.special

import tfn
from tests.scipy.digits import digits, slopes
from tfn.scipy import special

LINE = np.concatenate([np.linspace(-6, 30, 301), 10.0 ** np.linspace(-8, 6, 60)])
ULPS = {"erfcx": (24, 4), "dawsn": (64, 6)}


@pytest.mark.parametrize("name", ULPS)
def test_digits(name):
    f, g = getattr(special, name), getattr(scipy.special, name)
    for dtype, ulps in zip(("float64", "float32"), ULPS[name], strict=True):
        digits(f, g, LINE.astype(dtype), ulps=ulps)
    slopes(f, np.float64([-4.0, -0.5, 0.1, 0.99, 2.4, 2.6, 7.0]))


def test_fresnel_integrals():
    x = LINE[abs(LINE) < 300]
    for i in range(2):
        for dtype, ulps in (("float64", 64), ("float32", 16)):
            digits(
                lambda x, i=i: special.fresnel(x)[i],
                lambda x, i=i: scipy.special.fresnel(x)[i],
                x.astype(dtype),
                ulps=ulps,
                scale=0.5,
            )
        slopes(lambda x, i=i: special.fresnel(x)[i], np.float64([-2.0, 0.3, 1.5, 1.7, 4.0]))
    s, c = special.fresnel(np.float64([np.inf, -np.inf, np.nan, 0.0]))
    np.testing.assert_array_equal(s, [0.5, -0.5, np.nan, 0])
    np.testing.assert_array_equal(c, [0.5, -0.5, np.nan, 0])


def test_faddeeva_function():
    z = np.linspace(-8, 8, 41)[:, None] + 1j * np.linspace(-2.5, 8, 22)
    for dtype, ulps in (("complex128", 64), ("complex64", 16)):
        digits(special.wofz, scipy.special.wofz, z.astype(dtype), ulps=ulps)
    point, step = np.array(0.7 + 0.4j), 1e-6
    _, slope = tfn.jvp(special.wofz, (point,), (np.ones_like(point),))
    after, before = (complex(special.wofz(np.array(point + h))) for h in (step, -step))
    assert abs(complex(slope) - (after - before) / (2 * step)) < 1e-8
    np.testing.assert_array_equal(tfn.vmap(special.wofz)(z[3]), special.wofz(z[3]))


def test_borders():
    x = np.float64([-np.inf, -40, np.inf, np.nan, 0])
    np.testing.assert_array_equal(special.erfcx(x), [np.inf, np.inf, 0, np.nan, 1])
    assert special.dawsn(0.0) == 0 and tfn.grad(special.dawsn)(0.0) == 1
    assert special.erfcx(np.array(1e300)) > 0
    assert special.wofz(1).dtype == "complex64" and special.erfcx(1).dtype == "float32"
