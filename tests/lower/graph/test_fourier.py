"""Fourier transforms as products: NumPy's values, for lengths of every kind, forward and back."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tests.lower.graphs import jaxpr, p, run_oracle
from tfn.dtypes import FLOAT64
from tfn.lower.graph import constants
from tfn.lower.graph.complex_pairs import lower_complex
from tfn.lower.graph.fourier import Products
from tfn.trace.argument import Fft, FftType
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

COMPLEX128 = np.dtype("complex128")


def values(kind: FftType, x: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    """The transform by products, of the real function that they become."""
    u = UOp(Op.FFT, (p(0, *x.shape, dtype=x.dtype),), Fft(kind, lengths))
    real = lower_complex(jaxpr([u]).function, Products.ALL)
    assert not any(node.op in (Op.HOST, Op.FFT) for node in walk([real]))
    data = x.view(FLOAT64).reshape(*x.shape, 2) if x.dtype == COMPLEX128 else x
    (result,) = run_oracle(real.src, [data])
    return result if u.dtype == FLOAT64 else np.ascontiguousarray(result).view(COMPLEX128)[..., 0]


def drawn(*shape: int) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.normal(size=shape) + 1j * random.normal(size=shape)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 32, 33, 36, 37, 74, 128, 131, 262, 521, 1000])
@pytest.mark.parametrize("kind", FftType)
def test_lines_of_every_length(n: int, kind: FftType) -> None:
    """One product, sums and differences, mixed radix, primes by Bluestein, and several of them."""
    whole = drawn(2, n)
    x = whole.real.copy() if kind is FftType.RFFT else whole
    x = whole[:, : n // 2 + 1].copy() if kind is FftType.IRFFT else x
    transform = getattr(np.fft, kind.value)
    want = transform(x, n, axis=-1)
    np.testing.assert_allclose(values(kind, x, (n,)), want, rtol=0, atol=1e-13 * n)


@pytest.mark.parametrize("kind", FftType)
def test_several_axes(kind: FftType) -> None:
    whole = drawn(2, 6, 5, 8)
    x = whole.real.copy() if kind is FftType.RFFT else whole
    x = whole[..., :5].copy() if kind is FftType.IRFFT else x
    want = getattr(np.fft, f"{kind.value}n")(x, (6, 5, 8), (1, 2, 3))
    np.testing.assert_allclose(values(kind, x, (6, 5, 8)), want, rtol=0, atol=1e-11)


def test_large_transforms_are_those_of_the_host() -> None:
    def host_calls(*shape: int, products: Products = Products.FAST) -> int:
        u = UOp(Op.FFT, (p(0, *shape, dtype=COMPLEX128),), Fft(FftType.FFT, shape[-1:]))
        real = lower_complex(jaxpr([u]).function, products)
        return sum(node.op is Op.HOST for node in walk([real]))

    assert host_calls(2, 1024) == host_calls(20, 32) == host_calls(64) == 0
    assert host_calls(1, 1912) == host_calls(40, 37) == 0
    assert host_calls(64, 1024) == host_calls(1, 521) == host_calls(64, products=Products.NONE) == 1


def products_of(kind: FftType, n: int) -> int:
    """Products of two numbers in the transform of a line."""
    x = p(0, n, dtype=FLOAT64 if kind is FftType.RFFT else COMPLEX128)
    graph = lower_complex(jaxpr([UOp(Op.FFT, (x,), Fft(kind, (n,)))]).function)
    dots = [node for node in walk([graph]) if node.op is Op.DOT]
    return sum(u.size * prod(u.src[0].shape[i] for i in u.arg.contract_a) for u in dots)


def test_work_grows_with_the_sum_of_the_factors() -> None:
    assert products_of(FftType.FFT, 1024) == 2 * 2 * 1024 * (32 + 32)


def test_lines_of_large_primes_are_folded() -> None:
    """Two real matrices of half the length for each part; real numbers have one part."""
    assert products_of(FftType.FFT, 131) == 2 * (66 * 66 + 65 * 65)
    assert products_of(FftType.RFFT, 131) == 66 * 66 + 65 * 65


@pytest.mark.parametrize("rows", [1, 4])
def test_roots_of_unity_are_tables(rows: int) -> None:
    """No angle is computed in a call, whatever the number of lines is."""
    x = p(0, rows, 256, dtype=COMPLEX128)
    u = UOp(Op.FFT, (x,), Fft(FftType.FFT, (256,)))
    reduced, tables = constants.hoist(lower_complex(jaxpr([u]).function, Products.ALL))
    assert tables is not None
    assert not any(node.op in (Op.COS, Op.SIN) for node in walk([reduced]))
    assert sum(table.size for table in tables.src) == 2 * 256 + (2 * 16) ** 2


def test_angles_are_reduced_before_they_are_rounded() -> None:
    """Sines of float32 have the error of an angle below pi / 4."""
    x = np.zeros((1, 1024), np.complex64)
    x[0, 1] = 1
    u = UOp(Op.FFT, (p(0, *x.shape, dtype=x.dtype),), Fft(FftType.FFT, (1024,)))
    real = lower_complex(jaxpr([u]).function)
    (result,) = run_oracle(real.src, [x.view(np.float32).reshape(1, 1024, 2)])
    want = np.fft.fft(x.astype(COMPLEX128))
    assert np.abs(result[..., 0] + 1j * result[..., 1] - want).max() < 2e-7
