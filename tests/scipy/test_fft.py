"""Discrete cosine transforms, held against SciPy."""

import numpy as np
import pytest
import scipy.fft

import tfn
from tfn.errors import ArgumentError
from tfn.scipy import fft

NAMES = "dct", "idct", "dctn", "idctn"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 5), (2, 1, 6)])
def test_equal_to_scipy(name, norm, shape):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    actual = tfn.jit(lambda x: getattr(fft, name)(x, norm=norm))(x)
    np.testing.assert_allclose(actual, getattr(scipy.fft, name)(x, norm=norm), atol=1e-4)


def test_axes_and_lengths():
    x = np.random.default_rng(1).normal(size=(4, 5))
    for n in (3, 7):
        np.testing.assert_allclose(
            fft.dct(x, n=n, axis=0), scipy.fft.dct(x, n=n, axis=0), atol=1e-12
        )
    np.testing.assert_allclose(fft.dctn(x, s=(2, 9)), scipy.fft.dctn(x, s=(2, 9)), atol=1e-12)
    assert fft.dct(np.arange(3)).dtype == "float32"


def test_other_transforms_are_refused():
    for arguments in ({"type": 1}, {"norm": "forward"}):
        with pytest.raises(ArgumentError):
            fft.dct(np.ones(3), **arguments)
    with pytest.raises(ArgumentError, match="real numbers"):
        fft.idct(np.ones(3, complex))


@pytest.mark.parametrize("keywords", [{"n": 0}, {"n": -1}])
def test_lengths_below_one_are_refused(keywords):
    for name in ("dct", "idct"):
        with pytest.raises(ArgumentError, match="at least one number"):
            getattr(fft, name)(np.ones(7), **keywords)
    with pytest.raises(ArgumentError, match="a length for each"):
        fft.dctn(np.ones((3, 3)), s=(2, 2), axes=(0,))
