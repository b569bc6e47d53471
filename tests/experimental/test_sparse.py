"""Sparse arrays: each function gives what the same on dense arrays gives, in every layout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.errors import ArgumentError, DTypeError, NotAvailableError, OutOfBoundsError, ShapeError
from tfn.experimental import sparse
from tfn.experimental.sparse import BCOO
from tfn.scipy.sparse.linalg import cg

LAYOUTS = [(b, d) for b in range(3) for d in range(3) if b + d <= 3]


def dense(seed: int, *shape: int, share: float = 0.4) -> np.ndarray:
    """Random small integers, most of them zero, as float32."""
    random = np.random.default_rng(seed)
    values = random.integers(-4, 5, shape).astype("float32")
    return np.where(random.random(shape) < share, values, 0).astype("float32")


def same(got: Any, expected: Any, rtol: float = 1e-6) -> None:
    """Compare a sparse or dense result with a dense one."""
    got = got.todense() if hasattr(got, "todense") else got
    assert got.shape == expected.shape, (got.shape, expected.shape)
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rtol, atol=1e-6)


@pytest.fixture(params=LAYOUTS, ids=lambda layout: f"batch{layout[0]}-dense{layout[1]}")
def cube(request: Any) -> tuple[np.ndarray, BCOO]:
    """A dense array of three axes, and the same as a sparse one of some layout with padding."""
    n_batch, n_dense = request.param
    full = dense(1, 3, 4, 5)
    tight = BCOO.fromdense(full, n_batch=n_batch, n_dense=n_dense)
    mat = BCOO.fromdense(full, nse=tight.nse + 2, n_batch=n_batch, n_dense=n_dense)
    return full, mat


def test_there_and_back(cube: Any) -> None:
    full, mat = cube
    same(mat, full)
    assert mat.n_batch + mat.n_sparse + mat.n_dense == mat.ndim == 3
    same(tfn.jit(lambda m: m.todense())(mat), full)
    same(tfn.jit(lambda x: BCOO.fromdense(x, nse=60))(full), full)
    same(mat.sort_indices(), full)
    same(mat.sum_duplicates(), full)
    same(tfn.jit(lambda m: m.sum_duplicates())(mat), full)
    same(mat.astype("int32"), full.astype("int32"))


@pytest.mark.parametrize("layout", in_turn(2, LAYOUTS), ids=str)
def test_layouts_change(cube: Any, layout: tuple[int, int]) -> None:
    full, mat = cube
    new = mat.update_layout(n_batch=layout[0], n_dense=layout[1], on_inefficient=None)
    assert (new.n_batch, new.n_dense) == layout
    same(new, full)
    if layout[0] > mat.n_batch or layout[1] > mat.n_dense:
        with pytest.raises(NotAvailableError, match="would store more"):
            mat.update_layout(n_batch=layout[0], n_dense=layout[1])


def test_movement(cube: Any) -> None:
    full, mat = cube
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    for order in itertools.permutations(range(3)):
        groups = [sorted(order[a:b]) for a, b in ((0, first), (first, last), (last, 3))]
        if groups == [list(range(first)), list(range(first, last)), list(range(last, 3))]:
            same(mat.transpose(order), full.transpose(order))
        else:
            with pytest.raises(NotAvailableError, match="within its batch, sparse and dense"):
                mat.transpose(order)
    for shape in ((60,), (3, 20), (12, 5), (3, 2, 2, 5), (5, 4, 3), (1, 3, 4, 5, 1), (3, 4, 5)):
        same(mat.reshape(shape), full.reshape(shape))
    same(mat.reshape(3, -1), full.reshape(3, -1))
    for axes in ((0,), (1,), (2,), (0, 1, 2)):
        same(sparse.bcoo_rev(mat, axes), np.flip(full, axes))


INDICES = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[..., 3],
    np.s_[1:],
    np.s_[:, 1:3, ::2],
    np.s_[::-1],
    np.s_[:, ::-2, 4:0:-1],
    np.s_[0, 1, 2],
    np.s_[None, :, 1],
    np.s_[2:2],
    np.s_[..., None],
]


@pytest.mark.parametrize("index", in_turn(2, INDICES), ids=str)
def test_indices(cube: Any, index: Any) -> None:
    full, mat = cube
    same(mat[index], full[index])


def test_indices_that_are_refused() -> None:
    mat = BCOO.fromdense(dense(1, 3, 4))
    with pytest.raises(OutOfBoundsError, match="has no index 3"):
        mat[3]
    with pytest.raises(OutOfBoundsError, match="has 2 axes"):
        mat[1, 1, 1]
    with pytest.raises(NotAvailableError, match="indexed by integers"):
        mat[tnp.asarray([0, 1])]


def test_dynamic_slices(cube: Any) -> None:
    full, mat = cube
    for start in ((0, 0, 0), (1, 2, 2), (9, 9, 9), (-1, -2, -3)):
        at = [tnp.asarray(s) for s in start]
        expected = tfn.lax.dynamic_slice(tnp.asarray(full), at, (2, 2, 3))
        same(sparse.bcoo_dynamic_slice(mat, at, (2, 2, 3)), expected)
        jitted = tfn.jit(lambda m, a: sparse.bcoo_dynamic_slice(m, a, (2, 2, 3)))
        same(jitted(mat, at), expected)


@pytest.mark.parametrize("axis", range(3))
def test_concatenation(cube: Any, axis: int) -> None:
    full, mat = cube
    other = np.take(dense(2, 3, 4, 5), range(2), axis)
    second = BCOO.fromdense(other, n_batch=mat.n_batch, n_dense=mat.n_dense)
    expected = np.concatenate([full, other, full], axis)
    same(sparse.bcoo_concatenate([mat, second, mat], dimension=axis), expected)


def test_broadcasting(cube: Any) -> None:
    full, mat = cube
    for shape, at in (((3, 4, 5), (0, 1, 2)), ((2, 3, 4, 5), (1, 2, 3)), ((3, 4, 2, 5), (0, 1, 3)),
                      ((3, 4, 5, 2), (0, 1, 2)), ((3, 2, 4, 5), (0, 2, 3))):  # fmt: skip
        expected = np.broadcast_to(
            np.expand_dims(full, [a for a in range(len(shape)) if a not in at]), shape
        )
        same(sparse.bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=at), expected)
    thin = dense(3, 3, 1, 5)
    one = BCOO.fromdense(thin, n_batch=mat.n_batch, n_dense=mat.n_dense)
    wide = sparse.bcoo_broadcast_in_dim(one, shape=(3, 4, 5), broadcast_dimensions=(0, 1, 2))
    same(wide, np.broadcast_to(thin, (3, 4, 5)))
    same(sparse.bcoo_squeeze(one, dimensions=(1,)), thin.squeeze(1))


def test_sums(cube: Any) -> None:
    full, mat = cube
    for count in range(4):
        for axes in itertools.combinations(range(3), count):
            same(mat.sum(axes), full.sum(axes))
            same(mat.sum(axes, keepdims=True), full.sum(axes, keepdims=True))
    same(mat.sum(), full.sum())


def test_arithmetic(cube: Any) -> None:
    full, mat = cube
    other = dense(5, 3, 4, 5)
    second = BCOO.fromdense(other)
    twin = BCOO.fromdense(other, n_batch=mat.n_batch, n_dense=mat.n_dense)
    same(-mat, -full)
    same(abs(mat), abs(full))
    same(mat * 3, full * 3)
    same(mat / 2, full / 2)
    same(2 * mat, full * 2)
    same(mat + second, full + other)
    same(mat - twin, full - other)
    same(mat * twin, full * other)
    same(mat * second, full * other)
    same(mat + other, full + other)
    same(other - mat, other - full)
    same(mat**2, full**2)
    for shape in ((3, 4, 5), (5,), (4, 1), (3, 1, 1), (1, 4, 5), ()):
        factor = dense(6, *shape, share=1)
        same(mat * factor, full * factor)
        same(factor * mat, full * factor)


def test_duplicates_count_as_their_sum() -> None:
    data, indices = tnp.asarray([1.0, -3.0, 4.0]), tnp.asarray([[1, 0], [1, 0], [9, 9]])
    mat = BCOO((data, indices), shape=(3, 2))
    full = np.array([[0, 0], [-2, 0], [0, 0]], "float32")
    same(mat, full)
    same(abs(mat), abs(full))
    same(mat**2, full**2)
    assert mat.sum_duplicates().nse == 1
    assert mat.sum_duplicates(nse=5).nse == 5
    same(mat.sum_duplicates(nse=5), full)
    same(mat @ tnp.ones(2), full @ np.ones(2, "float32"))
    taken = sparse.bcoo_extract(mat, full)
    same(taken, full)
    assert taken.data.tolist() == [-2.0, 0.0, 0.0]


PRODUCTS = [
    ((3, 4, 5), (5, 2), ((2,), (0,)), ((), ())),
    ((3, 4, 5), (4, 2), ((1,), (0,)), ((), ())),
    ((3, 4, 5), (2, 3), ((0,), (1,)), ((), ())),
    ((3, 4, 5), (5, 3, 2), ((2,), (0,)), ((0,), (1,))),
    ((3, 4, 5), (3, 4, 5), ((2, 1), (2, 1)), ((0,), (0,))),
    ((3, 4, 5), (3, 4, 5), ((0, 1, 2), (0, 1, 2)), ((), ())),
    ((3, 4, 5), (4, 3, 2), ((), ()), ((0, 1), (1, 0))),
    ((3, 4, 5), (2,), ((), ()), ((), ())),
]


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_products_with_dense_arrays(cube: Any, case: Any) -> None:
    full, mat = cube
    _, shape, contract, batch = case
    other = dense(7, *shape, share=1)
    dims = (contract, batch)
    expected = tfn.lax.dot_general(tnp.asarray(full), tnp.asarray(other), dims)
    same(sparse.bcoo_dot_general(mat, other, dimension_numbers=dims), expected)
    turned = (contract[::-1], batch[::-1])
    expected = tfn.lax.dot_general(tnp.asarray(other), tnp.asarray(full), turned)
    same(sparse.bcoo_dot_general(other, mat, dimension_numbers=turned), expected)


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_products_of_sparse_arrays(case: Any) -> None:
    shape_l, shape, contract, batch = case
    a, b = dense(1, *shape_l), dense(7, *shape)
    dims = (contract, batch)
    expected = tfn.lax.dot_general(tnp.asarray(a), tnp.asarray(b), dims)
    for n_l, n_r in itertools.product(range(2), range(2)):
        left, right = BCOO.fromdense(a, n_batch=n_l), BCOO.fromdense(b, n_batch=n_r)
        same(sparse.bcoo_dot_general(left, right, dimension_numbers=dims), expected)


@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 5), (5, 3)), ((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((2, 4, 5), (5, 3)),
     ((2, 4, 5), (2, 5, 3)), ((4, 5), (2, 5, 3)), ((2, 4, 5), (5,)), ((5,), (2, 5, 3))],
    ids=str,
)  # fmt: skip
def test_matmul(left: Any, right: Any) -> None:
    a, b = dense(1, *left), dense(2, *right)
    expected = a @ b
    same(BCOO.fromdense(a) @ b, expected)
    same(a @ BCOO.fromdense(b), expected)
    same(BCOO.fromdense(a) @ BCOO.fromdense(b), expected)
    with pytest.raises(ArgumentError, match="matmul needs"):
        BCOO.fromdense(a) @ np.ones(7)


def test_sampled_products() -> None:
    a, b = dense(1, 2, 4, 3, share=1), dense(2, 2, 3, 5, share=1)
    where = BCOO.fromdense(dense(3, 2, 4, 5), n_batch=1)
    dims = ((2,), (1,)), ((0,), (0,))
    data = sparse.bcoo_dot_general_sampled(a, b, where.indices, dimension_numbers=dims)
    same(BCOO((data, where.indices), shape=(2, 4, 5)), (a @ b) * (where.todense() != 0))


def test_transforms() -> None:
    full, x = dense(1, 4, 5), dense(2, 5, 3, share=1)
    mat = BCOO.fromdense(full)
    f = lambda m, x: (tnp.sin(m @ x) ** 2).sum()
    g = sparse.grad(f, (0, 1))(mat, x)
    expected = tfn.grad(f, (0, 1))(full, x)
    assert g[0].nse == mat.nse
    same(g[0], np.asarray(expected[0]) * (full != 0), 1e-5)
    same(g[1], expected[1], 1e-5)
    value, (first, _) = tfn.jit(sparse.value_and_grad(f, (0, 1)))(mat, x)
    same(first, np.asarray(expected[0]) * (full != 0), 1e-5)
    assert float(value) == pytest.approx(float(f(full, x)), rel=1e-5)
    h = lambda m: m @ x
    jac = sparse.jacrev(h)(mat)
    assert jac.shape == (4, 3, 4, 5) and jac.n_batch == 2
    same(jac, np.asarray(tfn.jacrev(h)(full)) * (full != 0), 1e-5)
    same(sparse.jacfwd(h)(mat), jac.todense(), 1e-5)
    stack = np.stack([full, 2 * full, dense(3, 4, 5)])
    many = BCOO.fromdense(stack, n_batch=1)
    same(tfn.vmap(lambda m: m @ x)(many), stack @ x)
    same(tfn.vmap(lambda m: m * 2)(many), stack * 2)
    dx = tfn.jvp(lambda d: mat.like(d, mat.indices, mat.shape) @ x, (mat.data,), (mat.data,))[1]
    same(dx, full @ x)


def test_empty_and_eye() -> None:
    for k in (-5, -1, 0, 2, 9):
        same(sparse.eye(3, 5, k), np.eye(3, 5, k, dtype="float32"))
        same(sparse.eye(3, 5, k, n_batch=1), np.eye(3, 5, k, dtype="float32"))
    same(sparse.empty((2, 3)), np.zeros((2, 3), "float32"))
    same(sparse.empty((2, 3), sparse_format="bcsr"), np.zeros((2, 3), "float32"))
    with pytest.raises(ArgumentError, match="sparse_format"):
        sparse.empty((2, 3), sparse_format="dia")


def test_wrong_parts_are_refused() -> None:
    half, rows = tnp.ones(2), tnp.asarray([0, 1, 2])
    with pytest.raises(DTypeError, match="integer indices"):
        sparse.BCOO((half, tnp.ones((2, 2))), shape=(2, 2))
    for parts in ((half, half, rows), (half, rows[:2], rows * 1.0)):
        for kind in (sparse.BCSR, sparse.CSR, sparse.CSC):
            with pytest.raises(DTypeError, match="integer indices"):
                kind(parts, shape=(2, 2))
    with pytest.raises(DTypeError, match="integer indices"):
        sparse.COO((half, half, rows[:2]), shape=(2, 2))
    with pytest.raises(ShapeError, match=r"data of \(2,\) fits these indices"):
        BCOO((tnp.ones(3), tnp.zeros((2, 2), "int32")), shape=(3, 3))
    with pytest.raises(ArgumentError, match="batch, sparse and dense"):
        BCOO.fromdense(np.ones(3), n_batch=1, n_dense=1)


def test_random_arrays() -> None:
    for n_batch, n_dense in ((0, 0), (1, 0), (0, 1)):
        mat = sparse.random_bcoo(
            tfn.random.key(0), (5, 6, 7), nse=0.3, n_batch=n_batch, n_dense=n_dense
        )
        assert mat.shape == (5, 6, 7) and (mat.n_batch, mat.n_dense) == (n_batch, n_dense)
        assert mat.sum_duplicates(remove_zeros=False).nse == mat.nse
    assert sparse.random_bcoo(tfn.random.key(0), (10, 10), nse=7).nse == 7


@pytest.mark.parametrize("cls", [sparse.COO, sparse.CSR, sparse.CSC, sparse.BCSR])
def test_other_formats(cls: Any) -> None:
    full, x = dense(1, 4, 5), dense(2, 5, 3, share=1)
    mat = cls.fromdense(full)
    same(mat, full)
    assert mat.nse == int((full != 0).sum()) and mat.ndim == 2 and mat.size == 20
    same(mat @ x, full @ x)
    same(mat @ x[:, 0], full @ x[:, 0])
    same(tfn.jit(lambda m, x: m @ x)(mat, x), full @ x)
    same(mat.T, full.T) if cls is not sparse.BCSR else None
    g = sparse.grad(lambda m: (m @ x).sum())(mat)
    same(g, np.asarray(tfn.grad(lambda m: (m @ x).sum())(full)) * (full != 0), 1e-5)
    scipy_sparse = pytest.importorskip("scipy.sparse")
    if hasattr(cls, "from_scipy_sparse"):
        same(cls.from_scipy_sparse(scipy_sparse.csr_matrix(full)), full)


def test_bcsr_batches() -> None:
    full = dense(1, 3, 4, 5)
    mat = sparse.BCSR.fromdense(full, n_batch=1)
    same(mat, full)
    same(mat.to_bcoo(), full)
    same(sparse.BCSR.from_bcoo(BCOO.fromdense(full, n_batch=1)), full)
    other = dense(2, 3, 5, 2, share=1)
    dims = ((2,), (1,)), ((0,), (0,))
    same(sparse.bcsr_dot_general(mat, other, dimension_numbers=dims), full @ other)


SPARSE_PROGRAMS: dict[str, Any] = {
    "product": lambda m, x: m @ x,
    "transposed": lambda m, x: x.T @ m.T,
    "scaled": lambda m, x: (2 * m) @ x / 3,
    "sin": lambda m, x: tnp.sin(m) @ x,
    "twice": lambda m, x: tnp.sum(m + m, axis=0) @ x,
    "reshaped": lambda m, x: m.reshape(2, 2, 5)[1] @ x,
    "masked": lambda m, x: (m * (x[:, 0] > 0)).sum(1),
    "loss": lambda m, x: tnp.mean(tnp.tanh(m @ x) ** 2),
    "gram": lambda m, x: (m @ m.T).sum(0),
    "relu": lambda m, x: tnp.tensordot(tnp.maximum(m, 0), x, 1),
    "jitted": lambda m, x: tfn.jit(lambda m: 2 * m)(m) @ x,
    "sliced": lambda m, x: m[1:3, ::-1] @ x,
    "stacked": lambda m, x: tnp.concatenate([m, 3 * m]) @ x,
    "cast": lambda m, x: m.astype("int32").sum(1),
}


@pytest.mark.parametrize("name", SPARSE_PROGRAMS)
def test_sparsify(name: str) -> None:
    f, full, x = SPARSE_PROGRAMS[name], dense(1, 4, 5), dense(2, 5, 3, share=1)
    mat = BCOO.fromdense(full)
    g = sparse.sparsify(f)
    same(g(mat, x), f(tnp.asarray(full), tnp.asarray(x)), 1e-5)
    same(tfn.jit(g)(mat, x), f(tnp.asarray(full), tnp.asarray(x)), 1e-5)
    slope = sparse.grad(lambda m, x: tnp.asarray(sparse.todense(g(m, x))).sum() * 1.0)(mat, x)
    expected = tfn.grad(lambda m: f(m, tnp.asarray(x)).sum() * 1.0)(full)
    same(slope, np.asarray(expected) * (full != 0), 1e-5)


def test_sparsify_tells_what_it_cannot() -> None:
    mat = BCOO.fromdense(dense(1, 4, 5))
    with pytest.raises(NotAvailableError, match="cos"):
        sparse.sparsify(tnp.cos)(mat)


def test_linear_solvers() -> None:
    full = dense(1, 6, 6) + 9 * np.eye(6, dtype="float32")
    b = dense(2, 6, share=1)
    mat = sparse.CSR.fromdense(full)
    x = sparse.linalg.spsolve(mat.data, mat.indices, mat.indptr, tnp.asarray(b))
    same(full @ np.asarray(x), b, 1e-4)
    slope = tfn.grad(
        lambda d: sparse.linalg.spsolve(d, mat.indices, mat.indptr, tnp.asarray(b)).sum()
    )(mat.data)
    dense_slope = tfn.grad(lambda m: tnp.linalg.solve(m, tnp.asarray(b)).sum())(full)
    same(slope, np.asarray(dense_slope)[full != 0], 1e-4)


def test_products_of_any_two_layouts() -> None:
    a, b = np.array([[1.0, 0, 2], [0, 0, 3]]), np.array([[0, 4.0], [5, 0], [0, 6]])
    layouts = sparse.BCOO, sparse.BCSR, sparse.COO, sparse.CSR, sparse.CSC
    for one in layouts:
        for other in layouts:
            x, y = one.fromdense(a), other.fromdense(b)
            assert np.array_equal((x @ y).todense(), a @ b), (one, other)
            assert np.array_equal((x * other.fromdense(a)).todense(), a * a), (one, other)


@pytest.mark.parametrize("form", [sparse.BCSR, sparse.CSR, sparse.BCOO])
@pytest.mark.parametrize("columns", [(), (3,)])
def test_products_by_loops_have_values_derivatives_and_batches(form, columns):
    """Rows without elements, and a solver around the loop."""
    a = np.where(np.random.default_rng(0).random((7, 7)) < 0.3, 2.0, 0.0).astype(np.float32)
    a[2] = 0
    x = np.random.default_rng(1).standard_normal((7, *columns)).astype(np.float32)
    mat = form.fromdense(tnp.asarray(a))
    np.testing.assert_allclose(mat @ tnp.asarray(x), a @ x, rtol=1e-6)
    slope = tfn.grad(lambda x: ((mat @ x) ** 2).sum())(tnp.asarray(x))
    np.testing.assert_allclose(slope, 2 * a.T @ (a @ x), rtol=1e-5, atol=1e-5)
    many = tfn.vmap(lambda x: mat @ x)(tnp.stack([x, 2 * x]))
    np.testing.assert_allclose(many, np.stack([a @ x, 2 * a @ x]), rtol=1e-6)


def test_a_solver_runs_a_product_by_loops():
    a = np.eye(5, dtype=np.float32) * 4 - np.eye(5, k=1) - np.eye(5, k=-1)
    mat = sparse.BCSR.fromdense(tnp.asarray(a, "float32"))
    solved = tfn.jit(lambda b: cg(lambda v: mat @ v, b, tol=0, atol=0, maxiter=100)[0])
    np.testing.assert_allclose(solved(tnp.ones(5)), np.linalg.solve(a, np.ones(5)), rtol=1e-5)
