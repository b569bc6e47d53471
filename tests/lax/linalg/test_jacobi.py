"""Jacobi's methods: small values keep their digits, and sweeps are few."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tfn.numpy as tnp
from tfn.lax.linalg import jacobi


def hilbert(n: int) -> np.ndarray:
    return 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_small_singular_values_keep_their_digits(n: int) -> None:
    """Of a graded matrix, whose values LAPACK has to the precision of the largest one."""
    scales = 10.0 ** -np.arange(0, 2 * n, 2)
    a = (np.eye(n) + 0.1 * hilbert(n)) * scales
    with mpmath.workdps(60):
        exact = [float(x) for x in mpmath.svd_r(mpmath.matrix(a.tolist()), compute_uv=False)]
    _, values, _ = jacobi.svd(tnp.asarray(a))
    np.testing.assert_allclose(values, sorted(exact, reverse=True), 1e-13)


def test_every_pair_meets_in_a_sweep() -> None:
    for n in (2, 4, 6, 14):
        seats, met = tnp.arange(n), set()
        for _ in range(n - 1):
            top, bottom = np.asarray(seats).reshape(2, -1)
            met |= {frozenset(pair) for pair in zip(top.tolist(), bottom.tolist(), strict=True)}
            seats = jacobi._next_seats(seats, 0)
        assert len(met) == n * (n - 1) // 2
        np.testing.assert_array_equal(seats, np.arange(n))


def test_sweeps_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobi, "MAX_SWEEPS", 10)
    a = np.random.default_rng(0).standard_normal((40, 40))
    values, vectors = jacobi.eigh(tnp.asarray(a + a.T))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a + a.T), 0, 1e-11)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(40), 0, 1e-12)
