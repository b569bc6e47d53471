"""Factorisations: what they are, and their derivatives, batches and compiled forms."""

from itertools import product

import numpy as np
import pytest
import scipy.linalg

import tfn
import tfn.numpy as tnp
from tests.covering import cover, in_turn
from tfn import tree
from tfn.errors import GradientError, ShapeError, TfnError
from tfn.lax import linalg
from tfn.numpy.linalg import lapack


def matrix(rows, columns, kind, seed=0):
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, columns)) + 2 * np.eye(rows, columns)
    return x + 1j * random.standard_normal((rows, columns)) if kind == "complex" else x


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def rebuilt(x):
    """Results that do not depend on the phases of singular vectors."""
    u, s, vh = linalg.svd(x, full_matrices=False)
    return (u * s.astype(u.dtype) ** 2) @ vh


def projected(x):
    """Results that do not depend on the phases of eigenvectors."""
    v, w = linalg.eigh(x)
    return (v * tnp.exp(-w).astype(v.dtype)) @ tnp.conj(v).T


TRIANGLES = {
    f"triangular {flags}": (
        lambda a, b, f=tuple(f == "1" for f in flags): linalg.triangular_solve(
            a,
            b if f[0] else b.T,
            left_side=f[0],
            lower=f[1],
            transpose_a=f[2],
            conjugate_a=f[3],
            unit_diagonal=f[4],
        ),
        [(4, 4), (4, 2)],
    )
    for flags in ("10000", "11000", "10100", "00000", "01010", "11111", "00101")
}
CASES = TRIANGLES | {
    "solve": (linalg.solve, [(4, 4), (4, 2)]),
    "lu": (lambda a: linalg.lu(a)[0], [(4, 4)]),
    "lu wide": (lambda a: linalg.lu(a)[0], [(3, 5)]),
    "lu tall": (lambda a: linalg.lu(a)[0], [(5, 3)]),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu(a)[:2], b), [(4, 4), (4, 2)]),
    "lu_solve 1": (lambda a, b: linalg.lu_solve(*linalg.lu(a)[:2], b, 1), [(4, 4), (4, 2)]),
    "lu_solve 2": (lambda a, b: linalg.lu_solve(*linalg.lu(a)[:2], b, 2), [(4, 4), (4, 2)]),
    "cholesky": (lambda a: linalg.cholesky(a @ tnp.conj(a).T), [(4, 4)]),
    "qr": (lambda a: linalg.qr(a, full_matrices=False), [(4, 4)]),
    "qr wide": (lambda a: linalg.qr(a, full_matrices=False), [(3, 5)]),
    "qr tall": (lambda a: linalg.qr(a, full_matrices=False), [(5, 3)]),
    "eigh": (lambda a: projected(a + tnp.conj(a).T), [(4, 4)]),
    "eigvalsh": (lambda a: linalg.eigvalsh(a + tnp.conj(a).T), [(4, 4)]),
    "eigvals": (lambda a: tnp.exp(linalg.eigvals(a)).sum(), [(4, 4)]),
    "eig": (lambda a: (lambda w, _, v: linalg.solve(v.T, (v * w**2).T))(*linalg.eig(a)), [(4, 4)]),
    "svd": (rebuilt, [(4, 4)]),
    "svd wide": (rebuilt, [(3, 5)]),
    "svd tall": (rebuilt, [(5, 3)]),
    "svdvals": (linalg.svdvals, [(5, 3)]),
    "det": (linalg.det, [(4, 4)]),
    "slogdet": (linalg.slogdet, [(4, 4)]),
    "adjugate": (linalg.adjugate, [(4, 4)]),
}


DECOMPOSITIONS = ("solve", "lu", "cholesky", "qr", "eigh", "eig", "svd", "svd tall")
KINDS = ("real", "complex")


@pytest.mark.parametrize(
    ("name", "kind"),
    in_turn(2, dict.fromkeys([*cover(CASES, KINDS), *product(DECOMPOSITIONS, KINDS)])),
)
def test_derivatives_batches_and_compiled_forms(name, kind):
    function, shapes = CASES[name]
    xs = [matrix(*shape, kind, i) for i, shape in enumerate(shapes)]
    dxs = [matrix(*shape, kind, i + 7) for i, shape in enumerate(shapes)]

    def f(*xs):
        return tree.leaves(function(*xs))

    ys, pull = tfn.vjp(f, *xs)
    _, dys = tfn.jvp(f, tuple(xs), tuple(dxs))
    step = 1e-6
    after = f(*[tnp.asarray(x + step * dx) for x, dx in zip(xs, dxs)])
    before = f(*[tnp.asarray(x - step * dx) for x, dx in zip(xs, dxs)])
    for dy, a, b in zip(dys, after, before, strict=True):
        slope = (np.asarray(a) - np.asarray(b)) / (2 * step)
        np.testing.assert_allclose(dy, slope, atol=1e-7 * (1 + np.abs(slope).max()))

    cts = [np.asarray(matrix(1, y.size, "complex", 9).reshape(y.shape)) for y in ys]
    cts = [ct if np.iscomplexobj(y) else ct.real for ct, y in zip(cts, map(np.asarray, ys))]
    actual = pull(list(map(tnp.asarray, cts)))
    forth = sum(np.sum(ct * np.asarray(dy)).real for ct, dy in zip(cts, dys))
    back = sum(np.sum(np.asarray(ct) * dx).real for ct, dx in zip(actual, dxs))
    np.testing.assert_allclose(forth, back, atol=1e-9 * (1 + abs(forth)))

    for got, want in zip(tfn.jit(f)(*xs), ys, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)
    stacked = [np.stack([x, x + 0.1]) for x in xs]
    other = f(*[tnp.asarray(x + 0.1) for x in xs])
    for many, first, second in zip(tfn.vmap(f)(*stacked), ys, other, strict=True):
        np.testing.assert_allclose(many[0], first, atol=1e-12)
        np.testing.assert_allclose(many[1], second, atol=1e-12)
    lanes = tfn.vmap(lambda *xs: tfn.vjp(f, *xs)[1](list(map(tnp.asarray, cts))))(*stacked)
    for many, one in zip(lanes, actual, strict=True):
        np.testing.assert_allclose(many[0], one, atol=1e-9)


def test_second_derivatives():
    a = matrix(3, 3, "real") @ matrix(3, 3, "real").T
    b = matrix(3, 1, "real", 1)

    def energy(a):
        return (b.T @ linalg.solve(a, tnp.asarray(b))).sum()

    inverse = np.linalg.inv(a)
    x = inverse @ b
    got = np.asarray(tfn.hessian(energy)(a))
    np.testing.assert_allclose(got, got.transpose(2, 3, 0, 1), atol=1e-9)
    direction = matrix(3, 3, "real", 4)
    twice = np.einsum("ijkl,ij,kl", got, direction, direction)
    moved = direction @ inverse @ direction
    np.testing.assert_allclose(twice, 2 * float((x.T @ moved @ x)[0, 0]), rtol=1e-9)


def test_shared_operands_under_vmap():
    a, b = matrix(3, 3, "real"), np.stack([matrix(3, 2, "real", i) for i in range(4)])
    loss = tfn.grad(lambda a, b: (linalg.solve(a, b) ** 2).sum())
    many = tfn.vmap(loss, in_axes=(None, 0))(a, b)
    for got, one in zip(np.asarray(many), b):
        np.testing.assert_allclose(got, loss(a, one), atol=1e-10)
    total = tfn.grad(lambda a: tfn.vmap(lambda b: (linalg.solve(a, b) ** 2).sum())(b).sum())(a)
    np.testing.assert_allclose(total, np.asarray(many).sum(0), atol=1e-9)


def test_one_factorisation_serves_a_solution_and_its_derivatives(monkeypatch):
    a, b = matrix(9, 9, "real"), matrix(9, 2, "real", 1)
    counted, address = [], lapack.lapack
    monkeypatch.setattr(lapack, "lapack", lambda name: counted.append(name) or address(name))
    tfn.jit(tfn.value_and_grad(lambda a: (linalg.solve(a, b) ** 2).sum()))(a)
    assert counted.count("dgetrf") == 1 and counted.count("dgetrs") == 2


def test_permutations():
    for shape in ((4, 4), (5, 3), (3, 5)):
        a = np.stack([matrix(*shape, "real", i)[::-1] for i in range(3)])
        packed, pivots, rows = map(np.asarray, linalg.lu(a))
        size = min(shape)
        low = np.tril(packed, -1)[..., :size] + np.eye(shape[0], size)
        taken = np.take_along_axis(a, rows[..., None], -2)
        np.testing.assert_allclose(low @ np.triu(packed)[..., :size, :], taken, atol=1e-12)
        assert rows.dtype == pivots.dtype == np.int32


def test_undetermined_factors_have_no_derivative():
    tall = tnp.ones((3, 2))
    for f in (lambda a: linalg.svd(a)[0].sum(), lambda a: linalg.qr(a)[0].sum()):
        with pytest.raises(GradientError, match="square"):
            tfn.grad(f)(tall)


def test_errors_name_the_function():
    with pytest.raises(ShapeError, match="cholesky needs square matrices"):
        linalg.cholesky(tnp.ones((2, 3)))
    with pytest.raises(ShapeError, match="triangular_solve needs as many columns"):
        linalg.triangular_solve(tnp.eye(2), tnp.ones((2, 3)))


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("bits", [1, 2])
def test_failures_stay_with_their_matrices(kind, bits):
    good = matrix(3, 3, kind)
    dtypes = {"real": "fd", "complex": "FD"}[kind]
    good = (good @ adjoint(good)).astype(dtypes[bits - 1])
    sick = good.copy()
    sick[1, 0] = np.nan
    endless = good.copy()
    endless[1, 0] = np.inf
    stack = np.stack([good, sick, endless, -good, 0 * good])
    right = np.ones((5, 3, 1), good.dtype)
    close = {"rtol": 1e-4 if bits == 1 else 1e-12}
    factor = tfn.jit(linalg.cholesky)(stack)
    np.testing.assert_allclose(factor[0], np.linalg.cholesky(good), **close)
    assert np.isnan(np.asarray(factor[3:])).all()
    for actual in (linalg.svdvals(stack), linalg.svd(stack)[1]):
        np.testing.assert_allclose(actual[0], np.linalg.svd(good, compute_uv=False), **close)
        assert (
            np.isnan(np.asarray(actual[1:3])).all() and not np.isnan(np.asarray(actual[3:])).any()
        )
    solved = linalg.solve(stack, right)
    np.testing.assert_allclose(good @ np.asarray(solved[0]), right[0], rtol=1e-3)
    assert np.isnan(np.asarray(solved[4])).all()
    solved = linalg.triangular_solve(stack, right, left_side=True, lower=True)
    assert np.isnan(np.asarray(solved[4])).all()
    np.testing.assert_allclose(np.tril(good) @ np.asarray(solved[0]), right[0], rtol=1e-3)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0), (0, 3, 2)])
def test_empty_matrices(shape):
    x = np.zeros(shape, "float32")
    for complete in (False, True):
        mode = "complete" if complete else "reduced"
        ours = *linalg.svd(x, full_matrices=complete), *linalg.qr(x, full_matrices=complete)
        theirs = *np.linalg.svd(x, full_matrices=complete), *np.linalg.qr(x, mode)
        for got, want in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(got, want)
    packed, pivots, rows = linalg.lu(x)
    assert (packed.shape, pivots.shape[-1], rows.shape[-1]) == (shape, min(shape[-2:]), shape[-2])


def test_wild_pivots_are_not_followed():
    actual = linalg.lu_pivots_to_permutation(np.int32([-5, 100, 2]), 3)
    assert sorted(actual.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_determinants(kind, n):
    one = matrix(n, n, kind)
    stack = np.stack([one, one[::-1], 0 * one, one * np.nan, -one])
    with np.errstate(divide="ignore", invalid="ignore"):
        whole, (sign, size) = np.linalg.det(stack), np.linalg.slogdet(stack)
    sign = np.where(np.isnan(size), np.nan, sign)  # NumPy has a sign for NaN
    np.testing.assert_allclose(linalg.det(stack), whole, rtol=1e-12)
    for got, want in zip(linalg.slogdet(stack), (sign, size), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(1,), (6,), (2, 5)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_tridiagonal_solve(shape, dtype):
    draw = np.random.default_rng(0)
    lower, main, upper = (draw.normal(size=shape).astype(dtype) for _ in range(3))
    main, right = main * 0.1, draw.normal(size=(*shape, 2)).astype(dtype)
    full = np.zeros((*shape, shape[-1]), dtype)
    for i in range(shape[-1]):
        full[..., i, i] = main[..., i]
        if i:
            full[..., i, i - 1], full[..., i - 1, i] = lower[..., i], upper[..., i - 1]
    actual = tfn.jit(linalg.tridiagonal_solve)(lower, main, upper, right)
    np.testing.assert_allclose(actual, np.linalg.solve(full, right), rtol=1e-8)


def test_tridiagonal_solve_needs_shapes_that_fit():
    with pytest.raises(ShapeError, match="one axis more"):
        linalg.tridiagonal_solve(np.ones(2), np.ones(2), np.ones(2), np.ones(2))


def test_householder_reflections():
    draw = np.random.default_rng(0)
    a, c = draw.normal(size=(5, 3)), draw.normal(size=(5, 2))
    packed, scales = linalg.geqrf(a)
    q = np.linalg.qr(a, mode="complete")[0]
    np.testing.assert_allclose(linalg.householder_product(packed, scales), q[:, :3])
    np.testing.assert_allclose(linalg.ormqr(packed, scales, c), q @ c)
    np.testing.assert_allclose(
        linalg.ormqr(packed, scales, c.T, left=False, transpose=True), c.T @ q.T
    )
    h, taus = tfn.numpy.linalg.qr(a, mode="raw")
    np.testing.assert_allclose(h, np.linalg.qr(a, mode="raw")[0])
    np.testing.assert_allclose(taus, scales)
    with pytest.raises(ShapeError, match="as many rows"):
        linalg.householder_product(np.ones((2, 3)), np.ones(2))


# Decompositions with JAX's options.


def drawn(*shape, dtype):
    random = np.random.default_rng(7)
    x = random.standard_normal(shape)
    x = x + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else x
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_schur_hessenberg_and_tridiagonal_forms_are_those_of_scipy(dtype):
    a = drawn(3, 5, 5, dtype=dtype)
    tolerance = 2e-4 if np.finfo(dtype).bits == 32 else 1e-12
    t, z = linalg.schur(a)
    np.testing.assert_allclose(z @ t @ adjoint(z), a, atol=tolerance)
    np.testing.assert_allclose(z @ adjoint(z), np.stack([np.eye(5)] * 3), atol=tolerance)
    kind = "complex" if "complex" in dtype else "real"
    want, _ = scipy.linalg.schur(a[0], output=kind)
    np.testing.assert_allclose(abs(np.asarray(t[0])), abs(want), atol=tolerance * 10)
    packed, scales = linalg.hessenberg(a)
    np.testing.assert_allclose(
        np.triu(packed[0], -1), scipy.linalg.hessenberg(a[0]), atol=tolerance
    )
    assert scales.shape == (3, 4)
    hermitian = a + np.asarray(adjoint(tnp.asarray(a)))
    for lower in (True, False):
        _, d, e, _ = (np.asarray(x) for x in linalg.tridiagonal(hermitian, lower=lower))
        line = np.diag(d[1]) + np.diag(e[1], 1) + np.diag(e[1], -1)
        np.testing.assert_allclose(
            np.linalg.eigvalsh(line), np.linalg.eigvalsh(hermitian[1]), atol=tolerance * 10
        )
    same = tfn.vmap(lambda a: linalg.schur(a)[0])(a)
    np.testing.assert_array_equal(same, t)


def test_eigenvectors_of_both_sides():
    a = drawn(4, 4, dtype="complex128")
    w, left, right = (np.asarray(x) for x in linalg.eig(a))
    np.testing.assert_allclose(a @ right, right * w, atol=1e-12)
    np.testing.assert_allclose(left.conj().T @ a, w[:, None] * left.conj().T, atol=1e-12)
    assert len(linalg.eig(a, compute_left_eigenvectors=False)) == 2
    alone = linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    assert len(alone) == 1


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (4, 4)])
def test_pivoting_takes_the_columns_in_the_order_of_lapack(shape):
    a = drawn(*shape, dtype="float64")
    q, r, p = linalg.qr(a, pivoting=True, full_matrices=False)
    want = scipy.linalg.qr(a, pivoting=True, mode="economic")
    for got, value in zip((q, r, p), want, strict=True):
        np.testing.assert_allclose(got, value, atol=1e-12)
    stacked = tfn.vmap(lambda a: linalg.qr(a, pivoting=True, full_matrices=False)[2])(
        tnp.stack([a, a[:, ::-1]])
    )
    np.testing.assert_array_equal(stacked[0], want[2])
    slope = tfn.grad(lambda a: abs(linalg.qr(a, pivoting=True, full_matrices=False)[1][0, 0]))(a)
    first = a[:, want[2][0]]
    np.testing.assert_allclose(slope[:, want[2][0]], first / np.linalg.norm(first), atol=1e-12)


def test_subsets_products_and_updates():
    a = drawn(4, 4, dtype="float64")
    s = a @ a.T + np.eye(4)
    vectors, values = linalg.eigh(s, subset_by_index=(1, 3))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(s)[1:3])
    np.testing.assert_allclose(s @ vectors, vectors * values, atol=1e-12)
    u, d, vh = linalg.svd(a, full_matrices=False, subset_by_index=(0, 2))
    assert (u.shape, d.shape, vh.shape) == ((4, 2), (2,), (2, 4))
    np.testing.assert_allclose(linalg.symmetric_product(a, s, alpha=2, beta=-1), 2 * a @ a.T - s)
    upper, w = np.linalg.cholesky(s).T, a[0]
    np.testing.assert_allclose(
        linalg.cholesky_update(upper, w),
        np.linalg.cholesky(s + np.outer(w, w)).T,
        atol=1e-12,
    )
    polar, h, *_ = linalg.qdwh(a)
    np.testing.assert_allclose(polar @ h, a, atol=1e-12)
    np.testing.assert_allclose(polar @ polar.T, np.eye(4), atol=1e-12)
    for call in (
        lambda: linalg.eigh(s, subset_by_index=(2, 2)),
        lambda: linalg.svd(drawn(3, 4, dtype="float64"), subset_by_index=(0, 1)),
        lambda: linalg.qdwh(drawn(3, 4, dtype="float64")),
        lambda: linalg.cholesky_update(s, a),
    ):
        with pytest.raises(TfnError):
            call()
