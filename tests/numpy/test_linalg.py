"""Norms, powers and chains of matrices against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import cover, covering
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, ShapeError
from tfn.lax.linalg import triangular_solve

X = sample("float64", (3, 4), 1, special=False)
DTYPES = ["float32", "float64", "complex64", "complex128"]


def near(got, want, scale=1.0):
    """Equal as far as the precision of the dtype, at the size of the largest value, allows."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    size = max(float(np.abs(want).max(initial=0)), 1.0)
    np.testing.assert_allclose(got, want, atol=scale * 200 * size * np.finfo(got.dtype).eps)


def matrices(name, *shape, seed=0):
    """Random matrices of a dtype, away from singular ones."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    x = x + 3 * np.eye(*shape[-2:])
    return (x if name.startswith("complex") else x.real).astype(name)


def positive(x):
    return x @ np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("order", [None, 2, 1, 0, 3, 0.5, -1, np.inf, -np.inf])
def test_norms_of_vectors(order):
    close(tnp.linalg.norm(X[0], order), np.linalg.norm(X[0], order), 32)
    for keepdims in (False, True):
        got = tnp.linalg.norm(X, order, axis=1, keepdims=keepdims)
        close(got, np.linalg.norm(X, order, axis=1, keepdims=keepdims), 32)
    if order is not None:
        close(tnp.linalg.vector_norm(X, ord=order), np.linalg.norm(X.ravel(), order), 64)


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_norms_of_matrices(order):
    close(tnp.linalg.norm(X, order), np.linalg.norm(X, order), 64)
    y = sample("float64", (2, 3, 4), 2, special=False)
    for axes in ((0, 2), (2, 1)):
        for keepdims in (False, True):
            got = tnp.linalg.norm(y, order, axes, keepdims)
            close(got, np.linalg.norm(y, order, axes, keepdims), 64)


def test_dtypes_and_errors_of_norms():
    assert tnp.linalg.norm(np.int32([3, 4])).dtype == np.float32
    close(tnp.linalg.norm(np.full(10_000, 10, np.float16)), np.float16(1000))
    for order in ("best", 5):
        with pytest.raises(ArgumentError, match="norm knows no order"):
            tnp.linalg.norm(X, order)
    with pytest.raises(ArgumentError, match="norm needs a number as ord"):
        tnp.linalg.norm(X[0], "fro")


def test_gradient_of_a_norm():
    close(tfn.grad(tnp.linalg.norm)(np.float32([3, 4])), np.float32([0.6, 0.8]))


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 5, 8])
def test_powers(n):
    a = X[:, :3] / 2
    near(tnp.linalg.matrix_power(a, n), np.linalg.matrix_power(a, n))
    both = np.stack([a, a.T])
    near(tnp.linalg.matrix_power(both, n), np.linalg.matrix_power(both, n))


def test_errors_of_powers():
    with pytest.raises(ShapeError, match="square"):
        tnp.linalg.matrix_power(X, 2)


def test_chains():
    sizes = [(3,), (3, 50), (50, 2), (2, 7), (7,)]
    chain = [sample("float64", s, i, special=False) for i, s in enumerate(sizes)]
    for part in (chain, chain[1:], chain[:-1], chain[1:-1], chain[:2]):
        np.testing.assert_allclose(
            np.asarray(tnp.linalg.multi_dot(part)), np.linalg.multi_dot(part), rtol=1e-9
        )
    with pytest.raises(ArgumentError, match="at least two"):
        tnp.linalg.multi_dot([X])


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3), (0, 3, 3), (0, 0)])
def test_square_matrices(name, shape):
    a, b = matrices(name, *shape), matrices(name, *shape, seed=1)
    near(tnp.linalg.solve(a, b), np.linalg.solve(a, b))
    near(tnp.linalg.inv(a), np.linalg.inv(a))
    near(tnp.linalg.det(a), np.linalg.det(a))
    for got, want in zip(tnp.linalg.slogdet(a), np.linalg.slogdet(a), strict=True):
        near(got, want)
    near(tnp.linalg.cholesky(positive(a)), np.linalg.cholesky(positive(a)))
    upper = tnp.linalg.cholesky(positive(a), upper=True)
    near(np.conj(np.swapaxes(upper, -1, -2)) @ np.asarray(upper), positive(a))
    near(tnp.linalg.eigvalsh(positive(a)), np.linalg.eigvalsh(positive(a)))
    values, vectors = (np.asarray(x) for x in tnp.linalg.eigh(positive(a)))
    near((vectors * values[..., None, :]) @ np.conj(np.swapaxes(vectors, -1, -2)), positive(a))
    if shape[0]:
        values, vectors = (np.asarray(x) for x in tnp.linalg.eig(a))
        near(a @ vectors, vectors * values[..., None, :])
        near(np.sort_complex(tnp.linalg.eigvals(a)), np.sort_complex(values), 4)
        near(tnp.linalg.cond(a), np.linalg.cond(a), 4)
        near(tnp.linalg.cond(a, 1), np.linalg.cond(a, 1), 4)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (3, 1), (0, 2, 3), (0, 3)])
def test_other_matrices(name, shape):
    a = matrices(name, *shape)
    near(tnp.linalg.svdvals(a), np.linalg.svd(a, compute_uv=False))
    for full in (False, True):
        u, s, vh = (np.asarray(x) for x in tnp.linalg.svd(a, full_matrices=full))
        size = min(shape[-2:])
        near((u[..., :size] * s[..., None, :]) @ vh[..., :size, :], a)
        q, r = (np.asarray(x) for x in tnp.linalg.qr(a, "complete" if full else "reduced"))
        near(q @ r, a)
        inner = np.conj(np.swapaxes(q, -1, -2)) @ q
        near(inner, np.broadcast_to(np.eye(q.shape[-1], dtype=name), inner.shape))
        near(tnp.linalg.qr(a, "r"), np.linalg.qr(a, "r"))
    near(tnp.linalg.matrix_norm(a), np.linalg.matrix_norm(a))
    if 0 not in shape:
        near(tnp.linalg.pinv(a), np.linalg.pinv(a))
        np.testing.assert_array_equal(tnp.linalg.matrix_rank(a), np.linalg.matrix_rank(a))


def test_solve_of_vectors_and_batches():
    a, b = matrices("float64", 2, 1, 3, 3), matrices("float64", 4, 3, 2)
    near(tnp.linalg.solve(a, b), np.linalg.solve(a, b))
    near(tnp.linalg.solve(a, b[0, :, 0]), np.linalg.solve(a, b[0, :, 0]))
    assert tnp.linalg.solve(np.eye(2, dtype="int32"), np.ones(2, "int8")).dtype == np.float32
    assert tnp.linalg.inv(np.eye(2, dtype="float16")).dtype == np.float32
    for wrong in (np.ones((2, 3)), np.ones(3)):
        with pytest.raises(ShapeError, match="square matrices"):
            tnp.linalg.inv(wrong)
    with pytest.raises(ShapeError, match="as many rows"):
        tnp.linalg.solve(np.eye(2), np.ones((3, 1)))


@covering("n, dtype", [1, 2, 3, 5, 8, 9], DTYPES)
def test_small_systems_are_eliminated_with_pivots(n, dtype):
    random = np.random.default_rng(n)
    a = matrices(dtype, 7, n, n, seed=n) - 3 * np.eye(n, dtype=dtype)
    a[0] = np.eye(n)[::-1]  # zeros where pivots are looked for
    a[1] *= 1e20
    a[2] = np.diag(np.float64(10) ** -np.arange(n))[random.permutation(n)]
    b = matrices(dtype, 7, n, 3, seed=n + 1)
    x = np.asarray(tnp.linalg.solve(a, b))
    wide = "complex128" if dtype.startswith("complex") else "float64"
    residual = a.astype(wide) @ x.astype(wide) - b
    scale = np.abs(a).sum(-1, keepdims=True) * np.abs(x).max(-2, keepdims=True) + np.abs(b)
    assert (np.abs(residual) <= 30 * n * np.finfo(dtype).eps * scale).all()
    mapped = tfn.vmap(tnp.linalg.solve)(a, b)
    near(mapped, x)
    ct = matrices(dtype, 7, n, 3, seed=n + 2)
    slope = tfn.vjp(lambda b: tnp.linalg.solve(a[3:], b), b[3:])[1](ct[3:])[0]
    near(slope, np.linalg.solve(np.swapaxes(a[3:], -1, -2), ct[3:]), 100)


@covering("n, dtype", [1, 2, 5, 8, 9], DTYPES)
def test_small_triangular_systems_and_factors_are_those_of_large_ones(n, dtype):
    """Beside the same matrices in the corner of a unit matrix of 16 rows, which LAPACK takes."""
    a, b = matrices(dtype, 3, n, n) / n + 2 * np.eye(n, dtype=dtype), matrices(dtype, 3, n, 2)
    wide, right = np.tile(np.eye(16, dtype=dtype), (3, 1, 1)), np.zeros((3, 16, 2), dtype)
    wide[:, :n, :n], right[:, :n] = a, b
    flags = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for row in cover(*[(True, False)] * 5, pairs=[(1, 2), (2, 3), (1, 4), (0, 2)]):
        options = dict(zip(flags, row, strict=True))
        sides = [b, right] if row[0] else [np.swapaxes(x, 1, 2) for x in (b, right)]
        x, y = (triangular_solve(*xs, **options) for xs in zip((a, wide), sides, strict=True))
        near(x, y[:, :n] if row[0] else y[:, :, :n], 10)
    definite = a @ np.swapaxes(a.conj(), 1, 2)
    wide[:, :n, :n] = definite
    near(tnp.linalg.cholesky(definite), tnp.linalg.cholesky(wide)[:, :n, :n], 10)
    weights = matrices(dtype, 3, n, n, seed=5)
    slopes = [
        tfn.grad(lambda a: tnp.real(tnp.linalg.cholesky(a)[:, :n, :n] * weights).sum())(x)
        for x in (tnp.asarray(definite), tnp.asarray(wide))
    ]
    near(slopes[0], slopes[1][:, :n, :n], 100)


def test_gradients_of_small_factors_call_no_library():
    """A call of the host takes longer than a small matrix, in a loop once for each step."""
    loss = tfn.grad(lambda a: tnp.linalg.cholesky(a).sum())
    assert "host" not in str(tfn.show(loss, tnp.eye(8), at="ranges"))
    assert "potrf" in str(tfn.show(loss, tnp.eye(9), at="ranges"))


@pytest.mark.parametrize("n", [2, 9])
def test_matrices_of_each_step_of_a_loop_reach_the_routine_in_place(n, compiled):
    """Their addresses differ in each step; workspaces and success codes are of the call."""
    a = matrices("float32", 70, n, n) / n + 2 * np.eye(n, dtype="float32")
    b = matrices("float32", 70, n, 1)
    shift = np.float32(0.5)

    def steps(f, *xs):
        return tfn.jit(lambda *xs: tfn.lax.scan(lambda c, x: (c, f(*x, c)), shift, xs)[1])(*xs)

    def solved(a, b, c):
        return triangular_solve(a + c, b, left_side=True, lower=True)

    near(steps(solved, a, b), np.linalg.solve(np.tril(a + shift), b), 10)
    near(steps(lambda a, c: tnp.linalg.qr(a + c)[1], a), np.linalg.qr(a + shift)[1], 100)
    values = np.linalg.svd(a + shift, compute_uv=False)
    near(steps(lambda a, c: tnp.linalg.svd(a + c)[1], a), values, 100)
    a[40] = 0
    factors = np.asarray(steps(lambda a, c: tnp.linalg.cholesky(a @ a.T + 0 * c), a))
    assert np.isnan(factors[40]).all() and np.isfinite(np.delete(factors, 40, 0)).all()


@pytest.mark.parametrize("n", [1, 3, 8, 9])
def test_what_is_not_finite_stays_in_its_matrix(n):
    a, b = matrices("float32", 6, n, n), matrices("float32", 6, n, 2)
    clean = np.linalg.solve(a, b)
    a[1, 0, 0], a[2, -1, -1], b[3, 0, 0] = np.nan, np.inf, np.nan
    x = np.asarray(tnp.linalg.solve(a, b))
    near(x[[0, 4, 5]], clean[[0, 4, 5]])
    assert np.isnan(x[1]).any() and np.isnan(x[3, :, 0]).any() and np.isfinite(x[3, :, 1]).all()


def test_systems_without_matrices_or_right_sides():
    for shape, columns in (((0, 3, 3), 2), ((2, 3, 3), 0), ((2, 0, 0), 2)):
        b = np.ones((*shape[:-1], columns), np.float32)
        assert tnp.linalg.solve(np.ones(shape, np.float32), b).shape == b.shape


def test_singular_matrices_give_nan_and_leave_others():
    a = np.stack([np.eye(2), np.ones((2, 2)), -np.eye(2)])
    inverse = np.asarray(tnp.linalg.inv(a))
    assert np.isnan(inverse[1]).all()
    near(inverse[::2], a[::2])
    factor = np.asarray(tnp.linalg.cholesky(a))
    assert np.isnan(factor[2]).all() and not np.isnan(factor[0]).any()
    sign, size = tnp.linalg.slogdet(a[1])
    assert sign == 0 and size == -np.inf and tnp.linalg.det(a[1]) == 0
    values = np.asarray(tnp.linalg.eigvalsh(np.stack([np.full((2, 2), np.nan), np.eye(2)])))
    assert np.isnan(values[0]).all() and (values[1] == 1).all()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_least_squares(shape):
    a, b = matrices("float64", *shape), matrices("float64", shape[0], 2)
    for right in (b, b[:, 0]):
        got, want = tnp.linalg.lstsq(a, right, numpy_resid=True), np.linalg.lstsq(a, right)
        near(got.x, want[0])
        near(got.residuals, np.atleast_1d(want[1]))
        assert got.rank == want[2]
        near(got.s, want[3])
    low = a[:, :1] @ a[:1]
    near(tnp.linalg.pinv(low), np.linalg.pinv(low, 1e-13))
    assert tnp.linalg.matrix_rank(low) == 1 and tnp.linalg.lstsq(low, b).rank == 1
    assert tnp.linalg.matrix_rank(a, tol=1e9) == 0 and tnp.linalg.matrix_rank(np.zeros(3)) == 0


def test_tensors():
    a = sample("float64", (2, 3, 6), 1, special=False) + np.eye(6).reshape(2, 3, 6)
    near(tnp.linalg.tensorinv(a), np.linalg.tensorinv(a))
    near(tnp.linalg.tensorsolve(a, a[..., 0]), np.linalg.tensorsolve(a, a[..., 0]))
    moved = np.moveaxis(a, -1, 0)
    near(
        tnp.linalg.tensorsolve(moved, a[..., 0], (0,)),
        np.linalg.tensorsolve(moved, a[..., 0], (0,)),
    )
    with pytest.raises(ShapeError, match="as many elements"):
        tnp.linalg.tensorinv(a, 1)


def test_the_last_two_axes_are_matrices():
    x = sample("float64", (2, 3, 4), 3, special=False)
    near(tnp.linalg.diagonal(x, offset=1), np.linalg.diagonal(x, offset=1))
    near(tnp.linalg.trace(x, offset=-1), np.linalg.trace(x, offset=-1))
    near(tnp.linalg.cross(x[..., :3], x[..., 1:]), np.linalg.cross(x[..., :3], x[..., 1:]))
    near(tnp.linalg.outer(x[0, 0], x[1, 1]), np.linalg.outer(x[0, 0], x[1, 1]))
    for wrong in (tnp.linalg.cross, tnp.linalg.outer):
        with pytest.raises(ShapeError, match=r"needs (a vector|vectors)"):
            wrong(x, x)


def test_derivatives_at_equal_eigenvalues():
    """Functions that do not depend on the basis of a subspace have their usual derivatives."""
    identity = tnp.eye(3, dtype="float64")
    gradient = tfn.grad(lambda a: tnp.linalg.eigh(a).eigenvalues.sum())(identity)
    near(gradient, np.eye(3))
    near(tfn.grad(lambda a: (tnp.linalg.svdvals(a) ** 2).sum())(identity), 2 * np.eye(3))
    near(tfn.grad(lambda a: tnp.linalg.pinv(a).sum())(identity), -np.ones((3, 3)))
    near(tfn.hessian(tnp.linalg.det)(identity)[0, 0], np.diag([0.0, 1, 1]))
    low = tnp.array(np.diag([1.0, 2.0, 0.0]))
    near(tfn.grad(tnp.linalg.det)(low), np.diag([0.0, 0.0, 2.0]))


def test_gradients_of_least_squares():
    a, b = matrices("float64", 5, 3), matrices("float64", 5, 1)[:, 0]

    def loss(a, b):
        found = tnp.linalg.lstsq(a, b)
        return (found.x**2).sum() + found.residuals.sum()

    got = tfn.grad(loss)(a, b)
    step = 1e-6
    for place in ((0, 0), (4, 2)):
        change = np.zeros_like(a)
        change[place] = step
        slope = (loss(a + change, b) - loss(a - change, b)) / (2 * step)
        assert abs(float(slope) - float(got[place])) < 1e-6


@pytest.mark.parametrize("compute_uv", [True, False])
def test_hermitian_matrices_are_square(compute_uv):
    with pytest.raises(ShapeError, match="svd needs square matrices"):
        tnp.linalg.svd(tnp.ones((2, 3)), compute_uv=compute_uv, hermitian=True)
