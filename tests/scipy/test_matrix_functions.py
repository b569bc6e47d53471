"""Functions of matrices against SciPy's; derivatives against differences; batches; compiled."""

import numpy as np
import pytest
import scipy.linalg

import tfn
import tfn.numpy as tnp
from tfn.errors import TfnError
from tfn.scipy import linalg

RNG = np.random.default_rng(1)
REAL, DIRECTION = RNG.standard_normal((5, 5)), RNG.standard_normal((5, 5))
COMPLEX = REAL + 1j * RNG.standard_normal((5, 5))
both = pytest.mark.parametrize("a", [REAL, COMPLEX], ids=["real", "complex"])


def near(got, want, tolerance=1e-10):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@both
def test_forms_are_factors(a):
    h, q = linalg.hessenberg(a, calc_q=True)
    near(q @ h @ q.conj().T, a)
    near(linalg.hessenberg(a), scipy.linalg.hessenberg(a))
    t, z = linalg.schur(a)
    near(z @ t @ z.conj().T, a)
    t, z = linalg.rsf2csf(t, z)
    near(z @ t @ z.conj().T, a)
    near(np.tril(t, -1), 0)
    for side in ("left", "right"):
        for got, want in zip(linalg.polar(a, side), scipy.linalg.polar(a, side), strict=True):
            near(got, want)


@both
def test_functions_are_those_of_scipy(a):
    b, c = RNG.standard_normal((4, 4)).astype(a.dtype), RNG.standard_normal((5, 4)).astype(a.dtype)
    near(linalg.solve_sylvester(a, b, c), scipy.linalg.solve_sylvester(a, b, c))
    root = linalg.sqrtm(a)
    near(root @ root, a)
    positive = a @ a.conj().T + np.eye(5)
    near(linalg.sqrtm(positive), scipy.linalg.sqrtm(positive))
    near(linalg.funm(a, tnp.exp), scipy.linalg.funm(a, np.exp), 1e-8)
    assert linalg.funm(a, tnp.exp, disp=False)[1] < 1e-10
    for got, want in zip(
        linalg.expm_frechet(a, DIRECTION),
        scipy.linalg.expm_frechet(a, DIRECTION + 0 * a),
        strict=True,
    ):
        near(got, want, 1e-9)


@both
@pytest.mark.parametrize("mode", ["left", "right"])
@pytest.mark.parametrize("pivoting", [False, True])
def test_products_with_the_orthonormal_factor(a, mode, pivoting):
    c = RNG.standard_normal((5, 3) if mode == "left" else (3, 5))
    got = linalg.qr_multiply(a, c, mode, pivoting)
    want = scipy.linalg.qr_multiply(a, c, mode, pivoting)
    for x, y in zip(got, want, strict=True):
        near(x, y)
    q, r, p = linalg.qr(a, pivoting=True)
    near(q @ r, a[:, np.asarray(p)])


def test_tridiagonal_eigenvalues():
    d, e = RNG.standard_normal(6), RNG.standard_normal(5)
    values, vectors = linalg.eigh_tridiagonal(d, e)
    near(values, scipy.linalg.eigh_tridiagonal(d, e)[0])
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    near(matrix @ vectors, vectors * values)
    some = linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3))
    near(some, values[1:4])


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_generalized_problems(kind):
    a, b = REAL + REAL.T, REAL @ REAL.T + np.eye(5)
    values, vectors = linalg.eigh(a, b, type=kind)
    near(values, scipy.linalg.eigh(a, b, type=kind, eigvals_only=True))
    left, right = {1: (a, b), 2: (a @ b, np.eye(5)), 3: (b @ a, np.eye(5))}[kind]
    near(left @ vectors, right @ np.asarray(vectors) * np.asarray(values), 1e-9)
    near(linalg.eigh(a, eigvals=(1, 2), eigvals_only=True), np.linalg.eigvalsh(a)[1:3])


POSITIVE = REAL @ REAL.T + np.eye(5)
DIFFERENTIABLE = {
    "sqrtm": lambda x: linalg.sqrtm(x).real,
    "sylvester": lambda x: linalg.solve_sylvester(x, POSITIVE, x @ x),
    "polar": lambda x: linalg.polar(x)[1],
    "expm_frechet": lambda x: linalg.expm_frechet(x / 9, DIRECTION, compute_expm=False),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_batches_and_compiled_forms(name):
    f, step = DIFFERENTIABLE[name], 1e-6
    value, slope = tfn.jvp(f, (POSITIVE,), (DIRECTION,))
    after, before = (np.asarray(f(POSITIVE + h * DIRECTION)) for h in (step, -step))
    near(slope, (after - before) / (2 * step), 1e-6)
    _, pull = tfn.vjp(f, POSITIVE)
    ct = RNG.standard_normal(value.shape)
    near((pull(ct)[0] * DIRECTION).sum(), (ct * np.asarray(slope)).sum(), 1e-9)
    stack = np.stack([POSITIVE, POSITIVE + np.eye(5)])
    near(tfn.vmap(f)(stack), np.stack([f(x) for x in stack]))
    near(tfn.jit(f)(POSITIVE), value)


def test_stacks_and_wrong_calls():
    stack = np.stack([POSITIVE, POSITIVE + np.eye(5)])
    near(linalg.sqrtm(stack)[1], linalg.sqrtm(stack[1]))
    near(
        linalg.solve_sylvester(stack, stack, stack)[1],
        linalg.solve_sylvester(stack[1], stack[1], stack[1]),
    )
    for call in (
        lambda: linalg.solve_sylvester(REAL, REAL, REAL[:, :3]),
        lambda: linalg.polar(REAL, "other"),
        lambda: linalg.sqrtm(REAL, blocksize=2),
        lambda: linalg.schur(REAL, "other"),
        lambda: linalg.expm_frechet(REAL, REAL[:3, :3]),
        lambda: linalg.eigh_tridiagonal(REAL[0], REAL[1]),
        lambda: linalg.eigh(REAL, type=4),
    ):
        with pytest.raises(TfnError):
            call()
