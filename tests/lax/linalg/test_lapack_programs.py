"""Programs in the place of LAPACK: factorisations equal LAPACK's, also of singular matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import cover, in_turn
from tfn import scipy
from tfn.eager import run
from tfn.lax.linalg.lapack_programs import PROGRAMS, without_lapack
from tfn.numpy import linalg
from tfn.numpy.linalg.lapack import CALLS
from tfn.trace.inline import has
from tfn.trace.op import Op

SHAPES = {
    "float32": [(2, 3, 7, 7)],
    "float64": [(1, 1), (33, 33)],
    "complex64": [(3, 3)],
    "complex128": [(2, 8, 8)],
}


def matrix(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    random = np.random.default_rng((seed, *shape))
    a = random.standard_normal(shape)
    return (a + 1j * random.standard_normal(shape) if "c" in dtype else a).astype(dtype)


def positive(a: Any) -> Any:
    """A positive definite matrix made of another one."""
    return a @ adjoint(a) + a.shape[-1] * tnp.eye(a.shape[-1], dtype=a.dtype)


def adjoint(a: Any) -> Any:
    return tnp.swapaxes(tnp.conj(a), -1, -2)


def triangles(a: Any) -> Any:
    """Systems of triangles of all kinds, well-conditioned."""
    low, b = linalg.cholesky(positive(a)), a[..., :1]
    solve = scipy.linalg.solve_triangular
    unit = low * 0.1 / a.shape[-1]
    return (
        solve(low, b, lower=True),
        solve(adjoint(low), b),
        solve(low, b, lower=True, trans=1),
        solve(adjoint(low), b, trans=2),
        solve(unit, b, lower=True, unit_diagonal=True),
    )


def of_eigh(a: Any) -> Any:
    """Results of eigh that do not depend on signs."""
    values, vectors = linalg.eigh(positive(a))
    return values, (vectors * values[..., None, :]) @ adjoint(vectors), adjoint(vectors) @ vectors


def of_svd(a: Any, **how: Any) -> Any:
    """Results of svd that do not depend on signs."""
    u, s, vh = linalg.svd(a, **how)
    k = s.shape[-1]
    again = (u[..., :, :k] * s[..., None, :]) @ vh[..., :k, :]
    return s, again, adjoint(u) @ u, vh @ adjoint(vh)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda a: linalg.cholesky(positive(a)),
    "not positive": linalg.cholesky,
    "solve": lambda a: (linalg.solve(positive(a), a), linalg.inv(positive(a))),
    "singular": lambda a: linalg.solve(a * 0, a),
    "det": lambda a: (linalg.det(a), linalg.slogdet(a)),
    "lu": lambda a: tnp.matmul(*scipy.linalg.lu(a)[1:]),
    "lu_solve": lambda a: [
        scipy.linalg.lu_solve(scipy.linalg.lu_factor(positive(a)), a[..., :1], trans)
        for trans in range(3 if a.ndim == 2 else 0)
    ],
    "qr": lambda a: linalg.qr(positive(a)),
    "qr, tall": lambda a: tuple(linalg.qr(a[..., :, :2], mode="complete"))[1],
    "qr, wide": lambda a: linalg.qr(a[..., :2, :]),
    "triangles": triangles,
    "eigh": of_eigh,
    "eigvalsh": lambda a: linalg.eigvalsh(a),
    "svd": of_svd,
    "svd, tall": lambda a: of_svd(a[..., :, :2]),
    "svd, wide": lambda a: of_svd(a[..., :2, :], full_matrices=False),
    "svd, singular": lambda a: of_svd(a * (tnp.arange(a.shape[-1]) > 1)),
    "svdvals": linalg.svdvals,
    "rank": lambda a: (linalg.matrix_rank(a), linalg.pinv(positive(a))),
    "adjugate": tfn.lax.linalg.adjugate,
}


def both(f: Callable[[Any], Any], a: Any) -> tuple[list[Any], list[Any]]:
    """The results by programs alone, and by LAPACK."""
    traced = tfn.jit(f).trace(a)
    jaxpr = without_lapack(traced.jaxpr)
    assert not has(jaxpr.outputs, Op.HOST)
    got = run.call(jaxpr, [tnp.asarray(a), *traced.captured])
    want = tfn.tree.leaves(tfn.jit(f)(a))
    return [np.asarray(x) for x in got], [np.asarray(x) for x in want]


@pytest.mark.parametrize(
    "name, kind, bits",
    in_turn(2, cover(FUNCTIONS, ("float", "complex"), (32, 64), pairs=[(0, 1)])),
)
def test_results_are_those_of_lapack(name: str, kind: str, bits: int) -> None:
    dtype = f"{kind}{bits if kind == 'float' else 2 * bits}"
    for shape in SHAPES[dtype]:
        got, want = both(FUNCTIONS[name], matrix(shape, dtype))
        for mine, theirs in zip(got, want, strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
            np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs))
            size = np.nan_to_num(np.abs(theirs), posinf=0).max(initial=1e-30)
            bound = 2_000 * np.finfo(dtype).eps * size
            np.testing.assert_allclose(np.nan_to_num(mine), np.nan_to_num(theirs), 0, bound)


def test_gradients() -> None:
    def f(a: Any) -> Any:
        b = positive(a)
        q, r = linalg.qr(b)
        values, vectors = linalg.eigh(b)
        u, s, vh = linalg.svd(a, full_matrices=False)
        logarithm = linalg.slogdet(b)[1] + linalg.det(b / 8)
        parts = (q * r, linalg.cholesky(b), linalg.solve(b, a), vectors**2 * values, (u * s) @ vh)
        return logarithm + sum(part.sum() for part in parts)

    got, want = both(tfn.grad(f), matrix((5, 5), "float64"))
    np.testing.assert_allclose(got[0], want[0], 1e-9, 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matrices_that_are_not_finite(dtype: str) -> None:
    a = np.stack([matrix((4, 4), dtype)] * 3)
    a[1, 2, 2], a[2, 0, 0] = np.nan, np.inf
    for name in ("cholesky", "eigh", "svd"):
        for mine, theirs in zip(*both(FUNCTIONS[name], a), strict=True):
            assert np.isnan(theirs[1]).any() and np.isnan(mine[1]).any()
            np.testing.assert_allclose(mine[0], theirs[0], 0, 1e-4)


def test_matrices_without_elements() -> None:
    for name in ("cholesky", "solve", "eigvalsh", "det"):
        for mine, theirs in zip(*both(FUNCTIONS[name], np.zeros((2, 0, 0))), strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_array_equal(mine, theirs)


def test_small_and_large_numbers() -> None:
    a = matrix((6, 6), "float32")
    for scale in (1e-30, 1e30):
        for name in ("eigvalsh", "svdvals"):
            got, want = both(FUNCTIONS[name], a * np.float32(scale))
            np.testing.assert_allclose(got[0], want[0], 1e-4, 1e-5 * scale)


def test_code_does_not_grow_with_the_matrices() -> None:
    def nodes(n: int, name: str) -> int:
        jaxpr = without_lapack(tfn.jit(FUNCTIONS[name]).trace(matrix((n, n), "float32")).jaxpr)
        return len(str(jaxpr).splitlines())

    for name in FUNCTIONS:
        assert nodes(12, name) <= nodes(120, name) == nodes(240, name), name


def test_programs_are_of_routines() -> None:
    assert PROGRAMS.keys() <= CALLS.keys()
    assert CALLS.keys() - PROGRAMS.keys() == {"gees", "gehrd", "sytrd"}
