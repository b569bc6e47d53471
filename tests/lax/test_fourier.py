"""The Fourier transform of lax."""

from __future__ import annotations

import numpy as np
import pytest

from tfn import lax
from tfn.errors import ArgumentError, DTypeError, ShapeError


def test_kinds() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    z = x + 1j * x[::-1]
    near = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(lax.fft(z, "FFT", (3, 4)), np.fft.fft2(z), **near)
    np.testing.assert_allclose(lax.fft(z, lax.FftType.IFFT, (4,)), np.fft.ifft(z), **near)
    np.testing.assert_allclose(lax.fft(x, "rfft", (3, 4)), np.fft.rfft2(x), **near)
    np.testing.assert_allclose(lax.fft(z, lax.FftType.IRFFT, (7,)), np.fft.irfft(z, 7), **near)


def test_refused() -> None:
    x = np.ones((2, 4), np.float32)
    with pytest.raises(ArgumentError, match="there is no Fourier transform 'DCT'"):
        lax.fft(x, "DCT", (4,))
    with pytest.raises(DTypeError, match="fft needs complex values"):
        lax.fft(x, "FFT", (4,))
    with pytest.raises(ShapeError, match="last axes of its lengths"):
        lax.fft(x, "RFFT", (5,))
