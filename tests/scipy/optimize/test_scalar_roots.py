"""Roots of functions of one number: beside SciPy, of arrays, compiled, differentiated."""

import numpy as np
import pytest
import scipy.optimize

import tfn
import tfn.numpy as tnp
from tfn.errors import TfnError
from tfn.scipy.optimize import bisect, brentq, newton, root_scalar

FUNCTIONS = {
    "cosine": (lambda m, x: m.cos(x) - x, 0.0, 2.0),
    "flat": (lambda m, x: (x - 0.1) ** 3 + 1e-4 * (x - 0.1), -1.0, 1.5),
    "steep": (lambda m, x: m.exp(20 * x) - 1e3, -1.0, 2.0),
    "pole": (lambda m, x: 1 / (x - 3) + 6, 0.0, 2.999),
    "reversed": (lambda m, x: 4 - x * x, 5.0, 0.0),
    "at an end": (lambda m, x: x - 1, 1.0, 2.0),
    "step": (lambda m, x: m.where(x < 0.7, -1.0, 1.0), 0.0, 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_brackets_end_where_those_of_scipy_do(name):
    f, a, b = FUNCTIONS[name]
    for ours, theirs in ((brentq, scipy.optimize.brentq), (bisect, scipy.optimize.bisect)):
        root, result = ours(
            lambda x: f(tnp, x), np.array(a, "d"), np.array(b, "d"), full_output=True
        )
        expected, report = theirs(lambda x: f(np, x), a, b, full_output=True)
        np.testing.assert_allclose(root, expected, rtol=1e-11, atol=4e-12)
        assert result.converged and result.function_calls <= report.function_calls + 2


@pytest.mark.parametrize("method", ["newton", "halley", "secant"])
def test_roots_near_a_place(method):
    for f, x0 in ((lambda x: tnp.cos(x) - x, 1.0), (lambda x: x**3 - 2 * x - 5, 2.0)):
        result = root_scalar(f, method=method, x0=np.array(x0, "d"))
        assert result.converged and abs(f(result.root)) < 1e-11 and result.iterations < 10


def test_derivatives_that_are_given_are_used():
    root, result = newton(
        lambda x, a: x * x - a, np.array(1, "d"), lambda x, a: 2 * x, (2.0,), full_output=True
    )
    assert abs(root - 2**0.5) < 1e-9 and result.converged
    third = newton(
        lambda x: x * x - 3, np.array(1, "d"), lambda x: 2 * x, fprime2=lambda x: 2 + 0 * x
    )
    assert abs(third - 3**0.5) < 1e-9


def test_elements_are_searched_together():
    a = np.linspace(0.5, 40, 50).reshape(5, 10)
    found = root_scalar(lambda x: x**3 - a, bracket=(0.0, np.array(5, "d")))
    np.testing.assert_allclose(found.root, np.cbrt(a), rtol=1e-12)
    assert found.converged.all() and found.iterations < 20


def test_roots_have_derivatives_in_both_modes_and_of_second_order():
    def root(a):
        return brentq(lambda x, a: x**3 - a, 0.0, np.array(5, "d"), args=(a,))

    for derivative in (tfn.jacfwd, tfn.jacrev):
        np.testing.assert_allclose(derivative(root)(np.array(8, "d")), 1 / 12, rtol=1e-9)
    np.testing.assert_allclose(tfn.grad(tfn.grad(root))(np.array(8, "d")), -1 / 144, rtol=1e-9)
    batched = tfn.vmap(tfn.grad(root))(np.float64([1, 8, 27]))
    np.testing.assert_allclose(batched, [1 / 3, 1 / 12, 1 / 27], rtol=1e-9)


def test_failures_are_told():
    f = lambda x: x * x + 1
    with pytest.raises(TfnError, match="different signs"):
        brentq(f, -1.0, 1.0)
    inside = tfn.jit(lambda a: root_scalar(f, bracket=(a, 1.0)))(-1.0)
    assert np.isnan(inside.root) and not inside.converged
    assert not root_scalar(f, x0=0.3).converged
    assert not root_scalar(lambda x: x - 0.3, bracket=(0.0, 1.0), maxiter=0).converged


def test_wrong_calls():
    for options in ({}, {"method": "other"}, {"method": "brentq"}, {"method": "secant"}):
        with pytest.raises(TfnError):
            root_scalar(lambda x: x, **options)
