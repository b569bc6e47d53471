"""Python functions applied to arrays, against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, ShapeError

X = sample("float64", (2, 3, 4), 1, special=False)


def test_vectorize_single_elements():
    def f(x, y):
        assert x.shape == y.shape == ()
        return x * tnp.where(y > 0, y, 2.0)

    y = sample("float64", (3, 1), 2, special=False)
    want = X * np.where(y > 0, y, 2.0)
    close(tnp.vectorize(f)(X, y), want, 4)
    close(tfn.jit(tnp.vectorize(f))(X, y), want, 4)
    close(
        tfn.grad(lambda x: tnp.vectorize(f)(x, y).sum())(X),
        np.broadcast_to(np.where(y > 0, y, 2.0), X.shape),
        4,
    )


@pytest.mark.parametrize(
    "signature, function, shapes",
    [
        ("(n)->()", lambda x: x.sum(), [(2, 3, 4)]),
        ("(n),(n)->()", lambda x, y: x @ y, [(5, 1, 4), (3, 4)]),
        ("(m,n),(n)->(m)", lambda a, x: a @ x, [(2, 3, 4), (4,)]),
        ("(n)->(n),()", lambda x: (x * 2, x.max()), [(2, 3)]),
        ("(3),(3)->(3)", lambda x, y: x + y, [(3,), (2, 3)]),
        ("(),()->()", lambda x, y: x - y, [(2, 1), (3,)]),
    ],
)
def test_vectorize_with_a_signature(signature, function, shapes):
    xs = [sample("float64", shape, i, special=False) for i, shape in enumerate(shapes)]
    got, want = (v.vectorize(function, signature=signature)(*xs) for v in (tnp, np))
    several = isinstance(want, tuple)
    for a, b in zip(got if several else (got,), want if several else (want,), strict=True):
        close(a, b, 64)


def test_vectorize_leaves_arguments_out():
    @tnp.vectorize(excluded={1, "scale"})
    def f(x, power, scale=1):
        assert isinstance(power, int)
        return scale * x**power

    close(f(X, 3), X**3, 8)
    close(f(X, 2, scale=0.5), X**2 / 2, 8)
    with pytest.raises(ArgumentError, match="positional arguments"):
        f(X, power=3)


def test_errors_of_vectorize():
    for bad in ("(n)", "n->n", "(n->())"):
        with pytest.raises(ArgumentError, match="signature such as"):
            tnp.vectorize(abs, signature=bad)
    with pytest.raises(ShapeError, match="one size for each name"):
        tnp.vectorize(lambda x, y: x, signature="(n),(n)->()")(np.ones(2), np.ones(3))
    with pytest.raises(ShapeError, match=r"the axes \(n\) of its signature"):
        tnp.vectorize(lambda x: x, signature="(n)->()")(1.0)
    with pytest.raises(ArgumentError, match="as many arguments"):
        tnp.vectorize(lambda x: x, signature="(n)->()")(np.ones(2), np.ones(2))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_and_over_axes(axis):
    close(tnp.apply_along_axis(lambda x: x.sum(), axis, X), np.sum(X, axis), 64)
    close(
        tnp.apply_along_axis(lambda x, k: x[:2] * k, axis, X, 3.0),
        np.apply_along_axis(lambda x, k: x[:2] * k, axis, X, 3.0),
        4,
    )
    close(
        tnp.apply_along_axis(lambda x: tnp.outer(x[:2], x[:1]), axis, X),
        np.apply_along_axis(lambda x: np.outer(x[:2], x[:1]), axis, X),
        4,
    )
    close(
        tnp.apply_over_axes(tnp.sum, X, (0, axis) if axis else 0),
        np.apply_over_axes(np.sum, X, (0, axis) if axis else 0),
        64,
    )


def test_functions_of_places_and_pieces():
    close(
        tnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int),
        np.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=np.int32),
    )
    x = X[0, 0]
    conditions = [x < 0, x > 0.5]
    for functions in ([lambda x: -x, 7.0], [lambda x: -x, 7.0, lambda x: x * 2]):
        close(tnp.piecewise(x, conditions, functions), np.piecewise(x, conditions, functions), 4)
    close(tnp.piecewise(x, x < 0, [1, 2]), np.piecewise(x, x < 0, [1, 2]))
    with pytest.raises(ArgumentError, match="a function for each condition"):
        tnp.piecewise(x, conditions, [1])


def test_ufuncs():
    add = tnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    for axis in (0, 1, -1):
        close(add.reduce(X, axis), np.add.reduce(X, axis), 64)
        close(add.reduce(X, axis, True), np.add.reduce(X, axis, keepdims=True), 64)
        close(add.accumulate(X, axis), np.add.accumulate(X, axis), 64)
    close(add.outer(X[0], X[1, 0]), np.add.outer(X[0], X[1, 0]))
    close(add.at(X[0, 0], np.array([1, 2]), 5.0), X[0, 0] + np.float64([0, 5, 5, 0]))
    close(add.reduce(np.zeros((0, 2))), np.zeros(2))
    with pytest.raises(ArgumentError, match="identity"):
        tnp.frompyfunc(lambda x, y: x, 2, 1).reduce(np.zeros(0))
