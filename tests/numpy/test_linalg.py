"""Norms, powers and chains of matrices against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, ShapeError

X = sample("float64", (3, 4), 1, special=False)


@pytest.mark.parametrize("order", [None, 2, 1, 0, 3, 0.5, -1, np.inf, -np.inf])
def test_norms_of_vectors(order):
    close(tnp.linalg.norm(X[0], order), np.linalg.norm(X[0], order), 32)
    for keepdims in (False, True):
        got = tnp.linalg.norm(X, order, axis=1, keepdims=keepdims)
        close(got, np.linalg.norm(X, order, axis=1, keepdims=keepdims), 32)
    if order is not None:
        close(tnp.linalg.vector_norm(X, ord=order), np.linalg.norm(X.ravel(), order), 64)


@pytest.mark.parametrize("order", [None, "fro", 1, -1, np.inf, -np.inf])
def test_norms_of_matrices(order):
    close(tnp.linalg.norm(X, order), np.linalg.norm(X, order), 32)
    y = sample("float64", (2, 3, 4), 2, special=False)
    for axes in ((0, 2), (2, 1)):
        for keepdims in (False, True):
            got = tnp.linalg.norm(y, order, axes, keepdims)
            close(got, np.linalg.norm(y, order, axes, keepdims), 32)


def test_dtypes_and_errors_of_norms():
    assert tnp.linalg.norm(np.int32([3, 4])).dtype == np.float32
    close(tnp.linalg.norm(np.full(10_000, 10, np.float16)), np.float16(1000))
    for order in (2, "nuc", 5):
        with pytest.raises(ArgumentError, match="norm knows no order"):
            tnp.linalg.norm(X, order)
    with pytest.raises(ArgumentError, match="of vectors"):
        tnp.linalg.norm(X[0], "fro")


def test_gradient_of_a_norm():
    close(tfn.grad(tnp.linalg.norm)(np.float32([3, 4])), np.float32([0.6, 0.8]))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
def test_powers(n):
    a = X[:, :3] / 2
    close(tnp.linalg.matrix_power(a, n), np.linalg.matrix_power(a, n), 512)
    both = np.stack([a, a.T])
    close(tnp.linalg.matrix_power(both, n), np.linalg.matrix_power(both, n), 512)


def test_errors_of_powers():
    with pytest.raises(ShapeError, match="square"):
        tnp.linalg.matrix_power(X, 2)
    with pytest.raises(ArgumentError, match="not negative"):
        tnp.linalg.matrix_power(tnp.eye(2), -1)


def test_chains():
    sizes = [(3,), (3, 50), (50, 2), (2, 7), (7,)]
    chain = [sample("float64", s, i, special=False) for i, s in enumerate(sizes)]
    for part in (chain, chain[1:], chain[:-1], chain[1:-1], chain[:2]):
        np.testing.assert_allclose(np.asarray(tnp.linalg.multi_dot(part)),
                                   np.linalg.multi_dot(part), rtol=1e-9)  # fmt: skip
    with pytest.raises(ArgumentError, match="at least two"):
        tnp.linalg.multi_dot([X])
