"""x.at[index].apply: a function is applied as often as its index is given."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close

X = np.float32([[0.5, 0.25], [2.0, 3.0], [1.5, 0.125]])


def square(x):
    return x * x


INDICES = [
    np.array([0, 0]),
    np.array([[2, 1], [2, 2]]),
    np.array([0, -3, 2]),
    np.array([0, 2]),
    (np.array([0, 1, 0]), np.array([1, 1, 1])),
    (np.array([[0], [0]]), np.array([[0, 1]])),
    (slice(1, None), np.array([1, 1, 0])),
    (np.array([1, 1]), slice(None, None, -1)),
    (np.array([True, False, True]), np.array([0, 0])),
    [1, 1, 1],
    (),
    1,
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_a_function_is_applied_as_often_as_numpy_applies_it(index):
    want = X.copy()
    np.square.at(want, index)
    x = tnp.asarray(X)
    close(x.at[index].apply(square), want)
    close(tfn.jit(lambda x: x.at[index].apply(square))(x), want)


@pytest.mark.parametrize("index", [[0, 0, 2], [0, 1], [-1, 2, -1, 2]], ids=str)
def test_traced_indices_repeat_too(index):
    want = X.copy()
    np.square.at(want, index)
    apply = tfn.jit(lambda x, i: x.at[i].apply(square))
    close(apply(X, np.array(index)), want)
    close(tfn.vmap(apply, (None, 0))(X, np.array([index, index]))[1], want)


@pytest.mark.parametrize("transform", [lambda f: f, tfn.jit], ids=["known", "traced"])
@pytest.mark.parametrize("index, powers", [([0, 2, 0], [4, 1, 2]), ([0, 1], [2, 2, 1])], ids=str)
def test_derivatives_are_of_all_applications(transform, index, powers):
    x, powers = np.float32([1.5, 2.0, 0.5]), np.float32(powers)
    sums = transform(lambda x, i: x.at[i].apply(square).sum())
    slope = tfn.grad(sums)
    close(slope(x, np.array(index)), powers * x ** (powers - 1), 1e-6)
    second = tfn.jacfwd(slope)(x, np.array(index))
    close(second, np.diag(powers * (powers - 1) * x ** np.maximum(powers - 2, 0)), 1e-6)


def test_indices_outside_are_left_out_or_clipped():
    x, i = tnp.asarray(np.float32([2, 3])), np.array([5, 1, 1, -7])
    for transform in (lambda f: f, tfn.jit):
        for mode, want in (("drop", [2, 81]), ("clip", [4, 6561])):
            out = transform(lambda x, i, mode=mode: x.at[i].apply(square, mode=mode))(x, i)
            close(out, np.float32(want))


def test_unique_indices_need_no_loop():
    trace = tfn.make_jaxpr(lambda x, i: x.at[i].apply(square, unique_indices=True))
    assert "scan" not in str(trace(X, np.array([0, 1])))
