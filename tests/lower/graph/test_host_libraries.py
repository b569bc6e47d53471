"""Host libraries: addresses of LAPACK, and transforms by SciPy that equal those by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn.lower.graph import host_libraries
from tfn.trace import oracle
from tfn.trace.argument import Fft, FftType


@pytest.mark.parametrize("shape", [(5, 12), (2, 3, 35), (1, 1)])
@pytest.mark.parametrize("kind", FftType)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axes", [1, 2])
def test_scipy_transforms_equal_numpy_ones(shape, kind, dtype, axes, monkeypatch):
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(dtype)
    if kind is not FftType.RFFT:
        x = x + 1j * x[::-1]
    arg = Fft(kind, shape[len(shape) - axes :])
    if kind is FftType.IRFFT:
        x = np.ascontiguousarray(x[..., : shape[-1] // 2 + 1])
    expected = oracle.fft(arg, x)
    out = np.full_like(expected, np.nan)
    monkeypatch.setattr(host_libraries, "SCIPY_MIN_ELEMENTS", 0)
    host_libraries.fft(arg, x, out)()
    np.testing.assert_allclose(out, expected, atol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("shape", [(5, 12), (2, 3, 35), (4, 1), (0, 6), (2, 3, 4, 5)])
@pytest.mark.parametrize("kind", FftType)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_give_the_numbers_of_the_functions_around_them(shape, kind, dtype, monkeypatch):
    assert host_libraries.numpy_fft_loops() is not None
    random = np.random.default_rng(1)
    for axes in range(1, min(3, len(shape)) + 1 if all(shape) else 2):
        x = random.standard_normal(shape).astype(dtype)
        if kind is not FftType.RFFT:
            x = x + 1j * x[::-1]
        arg = Fft(kind, shape[len(shape) - axes :])
        if kind is FftType.IRFFT:
            x = np.ascontiguousarray(x[..., : shape[-1] // 2 + 1])
        x.flags.writeable = False
        expected = oracle.fft(arg, x)
        out = np.full_like(expected, np.nan)
        call = host_libraries.fft(arg, x, out)
        for _ in range(2):
            call()
            np.testing.assert_allclose(
                out, expected, rtol=0, atol=1e-5 if dtype == "float32" else 0
            )
        monkeypatch.setattr(host_libraries, "numpy_fft_loops", lambda: None)
        host_libraries.fft(arg, x, out)()
        np.testing.assert_array_equal(out, expected)
        monkeypatch.undo()


def test_large_transforms_in_programs():
    x = (
        np.random.default_rng(0)
        .standard_normal((130, host_libraries.SCIPY_MIN_ELEMENTS // 128))
        .astype("float32")
    )
    out = tfn.jit(tfn.numpy.fft.fft2)(x)
    assert out.dtype == "complex64"
    np.testing.assert_allclose(out, np.fft.fft2(x.astype("d")), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(tfn.jit(tfn.numpy.fft.ifft2)(out).real, x, atol=1e-5)


def test_lapack_routines_by_name():
    assert host_libraries.lapack("sgetrf") and host_libraries.lapack(
        "zgesdd"
    ) != host_libraries.lapack("cgesdd")
    with pytest.raises(KeyError):
        host_libraries.lapack("dnothing")
