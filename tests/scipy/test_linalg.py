"""Factorisations, solutions, exponentials and structured matrices, against SciPy."""

import math

import numpy as np
import pytest
import scipy.linalg

import tfn
import tfn.numpy as tnp
from tests.numpy.test_linalg import matrices, near, positive
from tfn.errors import ArgumentError, ShapeError
from tfn.scipy import linalg

KINDS = ["float64", "complex128"]


@pytest.mark.parametrize("name", KINDS)
def test_factors_that_are_kept(name):
    a, b = matrices(name, 4, 4), matrices(name, 4, 2, seed=1)
    spd = positive(a)
    for lower in (False, True):
        near(linalg.cholesky(spd, lower), scipy.linalg.cholesky(spd, lower))
        near(linalg.cho_solve(linalg.cho_factor(spd, lower), b), np.linalg.solve(spd, b), 8)
        for trans in (0, 1, True, 2, "C"):
            got = linalg.solve_triangular(a, b, trans, lower)
            near(got, scipy.linalg.solve_triangular(a, b, trans, lower), 8)
    near(linalg.solve(spd, b, assume_a="pos"), np.linalg.solve(spd, b), 8)
    near(linalg.solve_triangular(a, b[:, 0]), scipy.linalg.solve_triangular(a, b[:, 0]), 8)
    for trans, op in ((0, a), (1, a.T), (2, np.conj(a).T)):
        near(linalg.lu_solve(linalg.lu_factor(a), b, trans), np.linalg.solve(op, b), 8)
        near(linalg.lu_solve(linalg.lu_factor(a), b[:, 0], trans), np.linalg.solve(op, b[:, 0]), 8)
    for shape in ((4, 4), (5, 3), (3, 5)):
        x = matrices(name, *shape)[::-1]
        p, low, high = map(np.asarray, linalg.lu(x))
        near(p @ low @ high, x)
        near(linalg.lu(x, permute_l=True)[0], p @ low)
    with pytest.raises(ArgumentError, match="knows no trans 'X'"):
        linalg.solve_triangular(a, b, "X")


@pytest.mark.parametrize("name", KINDS)
def test_eigenvalues_of_pairs(name):
    a, b = matrices(name, 4, 4), positive(matrices(name, 4, 4, seed=1))
    a = a + np.conj(a).T
    values, vectors = map(np.asarray, linalg.eigh(a, b))
    near(values, scipy.linalg.eigh(a, b, eigvals_only=True), 4)
    near(a @ vectors, b @ vectors * values, 16)
    near(linalg.eigh(a, b, eigvals_only=True), values)
    near(linalg.eigh(a, eigvals_only=True), np.linalg.eigvalsh(a))
    assert len(linalg.qr(a)) == 2 and len(linalg.qr(a, mode="r")) == 1 and len(linalg.svd(a)) == 3


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_exponentials(name, size):
    a = matrices(name, 2, 3, 3) - 3 * np.eye(3)
    a = (a * size).astype(name)
    want = scipy.linalg.expm(a)
    near(np.asarray(linalg.expm(a)) / np.abs(want).max(), want / np.abs(want).max(), 10 + size)
    near(tfn.vmap(linalg.expm)(a), linalg.expm(a))


def test_gradient_of_an_exponential():
    a, direction = matrices("float64", 3, 3), matrices("float64", 3, 3, seed=2)
    _, got = tfn.jvp(linalg.expm, (a,), (direction,))
    want = scipy.linalg.expm_frechet(a, direction, compute_expm=False)
    near(np.asarray(got) / np.abs(want).max(), want / np.abs(want).max(), 20)
    back = tfn.grad(lambda a: (linalg.expm(a) * got).sum())(a)
    forth = scipy.linalg.expm_frechet(a.T, np.asarray(got), compute_expm=False)
    near(np.asarray(back) / np.abs(forth).max(), forth / np.abs(forth).max(), 20)
    assert np.isnan(np.asarray(linalg.expm(a * 1e9, max_squarings=3))).all()


def test_patterns():
    a, b = np.ones((2, 3)), np.full((1, 2), 5.0)
    near(linalg.block_diag(a, b, 7.0), scipy.linalg.block_diag(a, b, 7.0))
    c, r = np.float64([1, 2, 3]), np.float64([9, 4, 5, 6])
    near(linalg.toeplitz(c, r), scipy.linalg.toeplitz(c, r))
    near(linalg.toeplitz(c), scipy.linalg.toeplitz(c))
    near(linalg.hilbert(4), scipy.linalg.hilbert(4))
    for scale in (None, "n", "sqrtn"):
        near(linalg.dft(5, scale), scipy.linalg.dft(5, scale), 4)
    with pytest.raises(ShapeError, match="block_diag needs a matrix"):
        linalg.block_diag(np.ones((1, 1, 1)))


LOWER = np.array([[4.0, 9.0, -7.0], [2.0, 5.0, 8.0], [1.0, 0.5, 6.0]])  # positive by its lower part


@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_is_read_as_scipy_reads_it(lower):
    a = LOWER if lower else LOWER.T
    near(linalg.cholesky(a, lower=lower), scipy.linalg.cholesky(a, lower=lower))
    near(linalg.cho_factor(a, lower)[0], scipy.linalg.cholesky(a, lower=lower))
    b = LOWER @ LOWER.T + np.eye(3)
    for second in (None, b):
        near(linalg.eigh(a, second, lower)[0], scipy.linalg.eigh(a, second, lower=lower)[0])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("assume", ["gen", "sym", "her", "pos"])
@pytest.mark.parametrize("turn", [0, 1j], ids=["real", "complex"])
def test_a_solution_is_of_the_triangle_that_scipy_reads(assume, lower, turn):
    a, b = (LOWER if lower else LOWER.T), np.array([1.0, -2.0, 3.0])
    a = a + turn * (np.tri(3, k=-1) - np.tri(3, k=-1).T + (assume == "sym") * np.eye(3))
    want = scipy.linalg.solve(a, b, lower=lower, assume_a=assume)
    near(linalg.solve(a, b, lower, assume_a=assume), want)
    near(linalg.solve(np.stack([a, a]), b[:, None], lower, assume_a=assume)[1, :, 0], want)


def test_gradients_are_of_the_triangle_that_is_read():
    a = tnp.array(LOWER)
    plain = {"symmetrize_input": False}
    for upper in (False, True):
        x = a.T if upper else a
        functions = [
            lambda x, u="UL"[not upper]: tnp.linalg.eigh(x, u, **plain)[0][0],
            lambda x, u="UL"[not upper]: tnp.linalg.eigvalsh(x, u, **plain)[-1],
        ]
        functions += [] if upper else [lambda x: tnp.linalg.cholesky(x, **plain).sum()]
        for f in functions:
            steps = [
                [1e-6 * np.eye(9)[3 * i + j].reshape(3, 3) for j in range(3)] for i in range(3)
            ]
            want = [[((f(x + h) - f(x - h)) / 2e-6).item() for h in row] for row in steps]
            np.testing.assert_allclose(tfn.grad(f)(x), want, 1e-6, 1e-8)


def test_a_determinant_overflows_only_if_it_is_too_large():
    parts = np.array([1e-200, 1e200, 1e-150, 1e150])
    assert tnp.linalg.det(tnp.diag(tnp.array(parts))).item() == pytest.approx(1, rel=1e-12)
    assert tnp.linalg.det(tnp.diag(tnp.array(parts * 1j))).item() == pytest.approx(1, rel=1e-12)
    assert linalg.det(tnp.diag(np.array([5e-324, 1e300]))).item() == pytest.approx(
        4.94e-24, rel=1e-3
    )


@pytest.mark.parametrize("ends", [[1e-200, 1e200, 1e-150, 1e150], [1e200, 0, 1e-200], [3, 0, 0]])
def test_a_gradient_of_a_determinant_overflows_only_if_it_is_too_large(ends):
    got = np.asarray(tfn.grad(tnp.linalg.det)(tnp.diag(tnp.array(np.array(ends, float)))))
    want = [
        math.exp(sum(map(math.log, rest))) if all(rest) else 0
        for rest in (ends[:i] + ends[i + 1 :] for i in range(len(ends)))
    ]
    np.testing.assert_allclose(got, np.diag(want), 1e-12)
