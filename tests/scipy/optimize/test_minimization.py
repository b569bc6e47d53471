"""Minima: known ones, compiled, batched, and failures that are told."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import TfnError
from tfn.scipy.optimize import METHODS, minimize


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(p):
    x, y = p
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def matyas(p):
    return 0.26 * (p[0] ** 2 + p[1] ** 2) - 0.48 * p[0] * p[1]


CASES = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0], [1.0, 1.0]),
    "rosenbrock of ten": (rosenbrock, [-1.0] * 10, [1.0] * 10),
    "himmelblau": (himmelblau, [1.0, 1.0], [3.0, 2.0]),
    "matyas": (matyas, [3.0, 4.0], [0.0, 0.0]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_known_minima(name, method):
    f, start, place = CASES[name]
    tol = 1e-10 if method == "SLSQP" else None  # of values, not of gradients
    result = minimize(f, np.float64(start), method=method, tol=tol)
    assert result.success and result.status == 0 and result.nfev == result.njev
    np.testing.assert_allclose(result.x, place, atol=1e-4)
    assert abs(result.jac).max() < (1e-2 if method == "SLSQP" else 1e-5) and result.nit < 100
    assert (result.hess_inv is None) == (method != "BFGS")


def test_the_name_of_a_method_may_be_in_small_letters():
    small, large = (
        minimize(lambda x: ((x - 3) ** 2).sum(), tnp.zeros(2), method=method).x
        for method in ("bfgs", "BFGS")
    )
    assert small.tolist() == large.tolist()


def test_the_inverse_hessian_is_estimated():
    a = np.float64([[3.0, 1.0], [1.0, 2.0]])
    result = minimize(lambda x: x @ a @ x / 2, np.float64([5.0, -3.0]), method="BFGS")
    np.testing.assert_allclose(result.hess_inv, np.linalg.inv(a), rtol=0.05)


def test_compiled_batched_and_with_arguments():
    def place(x, shift):
        return minimize(lambda x, s: rosenbrock(x - s), x, (shift,), method="BFGS").x

    starts = np.random.default_rng(0).standard_normal((3, 2))
    np.testing.assert_allclose(tfn.jit(place)(starts[0], 2.0), [3, 3], atol=1e-4)
    found = tfn.vmap(lambda x: place(x, 0.0))(starts)
    np.testing.assert_allclose(found, np.ones((3, 2)), atol=1e-4)


def test_stops_are_told():
    few = minimize(rosenbrock, np.float64([-1.2, 1.0]), method="BFGS", options={"maxiter": 3})
    assert not few.success and few.status == 1 and few.nit == 3
    flat = minimize(lambda x: tnp.abs(x).sum(), np.float64([1.0]), method="BFGS")
    assert flat.fun < 1e-3
    loose = minimize(rosenbrock, np.float64([-1.2, 1.0]), method="BFGS", tol=1.0)
    assert loose.success and loose.nit < 33


@pytest.mark.parametrize("method", ["BFGS", "trust-exact"])
def test_minima_move_with_what_the_function_closes_over(method):
    def place(k):
        square = lambda x: ((x - k) ** 4).sum() + (x * x).sum()
        return minimize(square, np.float64([1.0, 2.0]), method=method, tol=1e-9).x

    # 4 (x - k)^3 + 2 x = 0, so that dx/dk = c / (c + 2) with c = 12 (x - k)^2.
    k = np.array(2.0)
    c = 12 * (np.asarray(place(k)) - 2) ** 2
    np.testing.assert_allclose(tfn.jacrev(place)(k), c / (c + 2), rtol=1e-6)


def test_directions_of_negative_curvature_are_left():
    saddle = lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    for method in ("Newton-CG", "trust-exact"):
        found = minimize(saddle, np.float64([1.0, 1e-3]), method=method)
        np.testing.assert_allclose(abs(found.x), [0, 2**0.5], atol=1e-4)
    at_saddle = minimize(saddle, np.float64([1.0, 0.0]), method="trust-exact")
    assert at_saddle.fun < -0.99  # the least curvature leads away


def test_wrong_calls():
    x = np.zeros(2)
    for call in (
        lambda: minimize(rosenbrock, x, method="Powell"),
        lambda: minimize(rosenbrock, x, method="BFGS", options={"other": 1}),
        lambda: minimize(rosenbrock, x.reshape(1, 2), method="BFGS"),
        lambda: minimize(rosenbrock, np.zeros(2, int), method="BFGS"),
    ):
        with pytest.raises(TfnError):
            call()
