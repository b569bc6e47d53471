"""Iterative solutions: against dense ones, on trees, under transforms, at breakdowns."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.errors import ArgumentError, ShapeError, TreeError
from tfn.scipy.sparse.linalg import bicgstab, cg, gmres

SOLVERS = [cg, bicgstab, gmres]
GENERAL = [bicgstab, gmres]
every = pytest.mark.parametrize("solver", SOLVERS)
general = pytest.mark.parametrize("solver", GENERAL)
kinds = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])


def matrix(n, dtype="float64", seed=0, positive=True):
    random = np.random.default_rng(seed)
    x = random.standard_normal((n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * random.standard_normal((n, n))
    x = x @ x.conj().T / n + np.eye(n) if positive else x / np.sqrt(n) + 2 * np.eye(n)
    return x.astype(dtype)


def vector(n, dtype="float64", seed=1):
    random = np.random.default_rng(seed)
    x = random.standard_normal(n)
    return (x + 1j * x[::-1] if np.dtype(dtype).kind == "c" else x).astype(dtype)


def tolerance(dtype):
    return 1e-5 if np.dtype(dtype).char in "fF" else 1e-11


@every
@kinds
@pytest.mark.parametrize("n", in_turn(3, [7, 1, 40]))
def test_solutions(solver, dtype, n):
    a, b = matrix(n, dtype, positive=solver is cg), vector(n, dtype)
    expected, tol = np.linalg.solve(a, b), tolerance(dtype)
    for made in (lambda a: a, lambda a: lambda v: a @ v):
        x = tfn.jit(lambda a, b, made=made: solver(made(a), b, tol=tol)[0])(a, b)
        assert x.dtype == dtype and x.shape == (n,)
        np.testing.assert_allclose(x, expected, rtol=0, atol=100 * tol)
    assert np.linalg.norm(a @ np.asarray(x) - b) <= 3 * tol * np.linalg.norm(b)


@every
def test_they_stop(solver):
    a, b = matrix(30), vector(30)
    x, info = solver(a, 0 * b)
    assert info is None
    assert np.asarray(x).tolist() == [0] * 30
    x, _ = solver(a, b, maxiter=0)
    assert np.asarray(x).tolist() == [0] * 30
    exact = np.linalg.solve(a, b)
    x, _ = solver(a, b, exact, maxiter=0)
    np.testing.assert_array_equal(x, exact)
    x, _ = solver(a, b, tol=0.0, atol=0.5)
    assert 1e-12 < np.linalg.norm(a @ np.asarray(x) - b) <= 0.5
    near, _ = solver(a, b, exact + 1e-3, tol=1e-10)
    np.testing.assert_allclose(near, exact, atol=1e-8)


@every
def test_preconditioners(solver):
    n = 40
    scale = np.geomspace(1, 1e6, n)
    a, b = matrix(n) * np.sqrt(scale) * np.sqrt(scale)[:, None], vector(n)
    few = {"maxiter": 1, "restart": 30} if solver is gmres else {"maxiter": 30}
    for near in (np.diag(1 / np.diag(a)), lambda x: x / np.diag(a)):
        x, _ = solver(a, b, tol=1e-9, M=near, **few)
        assert np.linalg.norm(a @ np.asarray(x) - b) < 1e-6
    x, _ = solver(a, b, tol=1e-9, **few)
    assert not np.linalg.norm(a @ np.asarray(x) - b) < 1e-4


@every
def test_trees(solver):
    n = 6
    a = matrix(2 * n)
    b = {"u": vector(n).reshape(2, 3), "v": (vector(n, seed=3),)}

    def operator(x):
        flat = tnp.asarray(a) @ tnp.concatenate([x["u"].ravel(), x["v"][0]])
        return {"u": flat[:n].reshape(2, 3), "v": (flat[n:],)}

    expected = np.linalg.solve(a, np.r_[b["u"].ravel(), b["v"][0]])
    for begin in (None, b):
        x, _ = solver(operator, b, begin, tol=1e-12)
        assert x["u"].shape == (2, 3)
        found = np.r_[np.asarray(x["u"]).ravel(), x["v"][0]]
        np.testing.assert_allclose(found, expected, atol=1e-9)


@every
def test_derivatives(solver):
    n = 8
    a, b = matrix(n, positive=solver is cg), vector(n)

    def dense(a, b):
        return (tnp.linalg.solve(a, b) ** 2).sum()

    for made in (lambda a: a, lambda a: lambda x: a @ x):

        def loss(a, b, made=made):
            return (solver(made(a), b, tol=1e-13)[0] ** 2).sum()

        for got, want in zip(tfn.grad(loss, (0, 1))(a, b), tfn.grad(dense, (0, 1))(a, b)):
            if solver is cg and got.ndim == 2:  # of a hermitian matrix, only this part counts
                got, want = got + got.T, want + want.T
            np.testing.assert_allclose(got, want, atol=1e-8)
        _, slope = tfn.jvp(loss, (a, b), (a, b))
        np.testing.assert_allclose(slope, tfn.jvp(dense, (a, b), (a, b))[1], atol=1e-8)
    twice = tfn.hessian(lambda b: loss(a, b))(b)
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(twice, 2 * inverse.T @ inverse, atol=1e-8)


@general
def test_preconditioned_derivatives(solver):
    n = 12
    a, b = matrix(n, positive=False), vector(n)
    near = np.triu(a)

    def loss(a):
        return solver(a, b, tol=1e-13, M=np.linalg.inv(near))[0].sum()

    expected = tfn.grad(lambda a: tnp.linalg.solve(a, b).sum())(a)
    np.testing.assert_allclose(tfn.jit(tfn.grad(loss))(a), expected, atol=1e-9)


@every
def test_transforms(solver):
    stack = np.stack([matrix(5, seed=i, positive=solver is cg) for i in range(3)])
    right = np.stack([vector(5, seed=i) for i in range(3)])
    run = lambda a, b: solver(a, b, tol=1e-12)[0]
    expected = np.linalg.solve(stack, right[..., None])[..., 0]
    np.testing.assert_allclose(tfn.vmap(run)(stack, right), expected, atol=1e-9)
    np.testing.assert_allclose(tfn.jit(run)(stack[0], right[0]), expected[0], atol=1e-9)
    many = tfn.jit(tfn.vmap(run, (None, 0)))(stack[0], right)
    np.testing.assert_allclose(many, np.linalg.solve(stack[0], right.T).T, atol=1e-9)
    pulled = tfn.vmap(tfn.grad(lambda b, a: run(a, b).sum()))(right, stack)
    np.testing.assert_allclose(pulled, np.linalg.inv(stack).sum(1), atol=1e-9)


def test_restarts():
    a, b = matrix(50, positive=False), vector(50)
    for method in ("batched", "incremental"):
        x, _ = gmres(a, b, tol=1e-10, restart=5, solve_method=method)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), atol=1e-7)
    turn = np.roll(np.eye(9), 1, 0)  # nothing is gained before the last vector
    x, _ = gmres(turn, np.eye(9)[0], restart=9)
    np.testing.assert_allclose(turn @ np.asarray(x), np.eye(9)[0], atol=1e-6)
    x, _ = gmres(turn, np.eye(9)[0], restart=8)  # stands still, and ends
    assert np.isfinite(np.asarray(x)).all()


def test_singular_matrices():
    a, b = np.diag([1.0, 2, 0]), np.array([1.0, 2, 0])
    x, _ = gmres(a, b)
    np.testing.assert_allclose(a @ np.asarray(x), b, atol=1e-6)
    x, _ = gmres(a, np.array([1.0, 2, 3]))
    np.testing.assert_allclose(a @ np.asarray(x), b, atol=1e-6)  # as near as they come
    x, _ = gmres(0 * a, b)
    assert np.asarray(x).tolist() == [0, 0, 0]


@every
def test_errors(solver):
    a, b = matrix(3), vector(3)
    for wrong in (a[:2], b):
        with pytest.raises(ArgumentError, match=f"{solver.__name__}.*square matrix as A"):
            solver(wrong, b)
    with pytest.raises(ArgumentError, match="as M"):
        solver(a, b, M=b)
    with pytest.raises(TreeError, match="x0 of the structure"):
        solver(a, b, [b])
    with pytest.raises(ShapeError, match=r"x0.*\n.*f64\[2\]"):
        solver(a, b, b[:2])
    with pytest.raises(TreeError, match="matvec"):
        solver(lambda x: [a @ x], b)
    with pytest.raises(ArgumentError, match="solve_method"):
        gmres(a, b, solve_method="fast")
