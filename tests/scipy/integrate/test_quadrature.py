"""Integrals of functions: smooth, peaked, with singular and infinite ends, of several axes."""

import numpy as np
import pytest
import scipy.integrate

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.errors import TfnError
from tfn.scipy.integrate import cubature, quad
from tfn.scipy.integrate.quadrature import RULES

INF = np.inf
# By name a function, the ends, and the integral.  The first seven are those of QUADPACK's authors.
INTEGRALS = {
    "logarithm at an end": (lambda x: x**0.5 * tnp.log(1 / x), 0.0, 1.0, 4 / 9),
    "peak": (lambda x: 4**-5.0 / ((x - np.pi / 4) ** 2 + 16**-5.0), 0.0, 1.0, None),
    "oscillation": (lambda x: tnp.cos(8 * tnp.sin(x)), 0.0, np.pi, np.pi * 0.1716508071375539),
    "inverse root": (lambda x: 1 / tnp.sqrt(x), 0.0, 1.0, 2.0),
    "both ends": (lambda x: 1 / tnp.sqrt(x * (1 - x)), 0.0, 1.0, np.pi),
    "strong singularity": (lambda x: x**-0.75, 0.0, 1.0, 4.0),
    "square of a logarithm": (lambda x: tnp.log(x) ** 2, 0.0, 1.0, 2.0),
    "exponential": (lambda x: tnp.exp(-x), 0.0, INF, 1.0),
    "normal": (lambda x: tnp.exp(-x * x), -INF, INF, np.pi**0.5),
    "slow decay": (lambda x: 1 / (1 + x * x), -INF, INF, np.pi),
    "root and decay": (lambda x: tnp.exp(-x) / tnp.sqrt(x), 0.0, INF, np.pi**0.5),
    "from minus infinity": (lambda x: tnp.exp(x), -INF, 1.0, np.e),
    "backwards": (lambda x: x, 2.0, 0.0, -2.0),
    "no interval": (lambda x: x, 1.0, 1.0, 0.0),
    "constant": (lambda x: 3.0, 0.0, 2.0, 6.0),
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_known_integrals(name):
    f, a, b, expected = INTEGRALS[name]
    a, b = np.array(a), np.array(b)
    if expected is None:
        expected = np.arctan((4 - np.pi) * 4**4.0) + np.arctan(np.pi * 4**4.0)
    value, error = quad(f, a, b, epsabs=1e-10, epsrel=1e-10)
    within = 1e-7 if name == "both ends" else 1e-8  # places next to 1 have few digits
    assert abs(value - expected) < within * max(1, abs(expected)) and error < 1e-7


def test_places_that_are_not_smooth_divide_the_interval():
    f = lambda x: abs(x - 0.3) ** 0.5 + abs(x - 0.7)
    ends = (np.array(0.0), np.array(1.0))
    with_points, _, report = quad(f, *ends, full_output=1, points=(0.3, 0.7))
    expected = (0.3**1.5 + 0.7**1.5) * 2 / 3 + (0.7**2 + 0.3**2) / 2
    assert abs(with_points - expected) < 1e-9 and report["last"] == 3 and report["neval"] == 63


def test_integrals_have_derivatives_and_batch():
    value = lambda k, b: quad(lambda x, k: tnp.exp(-k * x) / tnp.sqrt(x), 0.0, b, args=(k,))[0]
    whole = lambda k: value(k, np.array(np.inf))
    k = np.array(2.0)
    slope = -0.5 * np.pi**0.5 * 2.0**-1.5
    for derivative in (tfn.jacfwd, tfn.jacrev):
        np.testing.assert_allclose(derivative(whole)(k), slope, rtol=1e-8)
    by_end = tfn.grad(value, 1)(k, np.array(1.5))
    np.testing.assert_allclose(by_end, np.exp(-3) / 1.5**0.5, rtol=1e-7)
    batch = tfn.jit(tfn.vmap(whole))(np.float64([1, 2, 3]))
    np.testing.assert_allclose(batch, (np.pi / np.arange(1, 4)) ** 0.5, rtol=1e-9)


def test_too_few_parts_show_in_the_error():
    value, error = quad(lambda x: tnp.sin(300 * x), np.array(0.0), np.array(1.0), limit=2)
    assert error > 1e-6
    wave = lambda x: 1j * tnp.exp(1j * x)
    value, _ = quad(wave, np.array(0.0), np.array(np.pi))
    np.testing.assert_allclose(value, -2, atol=1e-12)


def genz(x):
    return tnp.exp(-(x**2).sum(-1))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("axes", in_turn(2, [1, 2, 3]))
def test_boxes_of_several_axes(rule, axes):
    if (rule == "gk21" and axes == 3) or (rule == "genz-malik" and axes == 1):
        axes = 2
    low, high = np.linspace(0, 0.2, axes), np.ones(axes)
    found = cubature(genz, low, high, rule=rule, rtol=1e-6)
    theirs = scipy.integrate.cubature(lambda x: np.asarray(genz(x)), low, high, rtol=1e-10)
    assert found.status == 0 and found.error < 1e-6
    np.testing.assert_allclose(found.estimate, theirs.estimate, rtol=1e-6)


def test_boxes_give_arrays_and_derivatives_by_corners():
    f = lambda x, k: tnp.stack([tnp.exp(k * x[:, 0] * x[:, 1]), x[:, 0]], 1)

    def value(b, k):
        return cubature(f, np.zeros(2), b, args=(k,), rtol=1e-6).estimate

    b, k = np.float64([1.0, 2.0]), np.array(0.5)
    np.testing.assert_allclose(value(b, k)[1], 1.0)
    h = 1e-5
    step = np.float64([h, 0])
    difference = (value(b + step, k) - value(b - step, k)) / (2 * h)
    np.testing.assert_allclose(tfn.jacfwd(value)(b, k)[:, 0], difference, rtol=1e-6)
    few = cubature(lambda x: tnp.sin(90 * x[:, 0]), np.zeros(1), np.ones(1), max_subdivisions=0)
    assert few.status == 1 and few.subdivisions == 0


def test_wrong_calls():
    for call in (
        lambda: quad(1.0, 0.0, 1.0),
        lambda: quad(lambda x: tnp.stack([x, x]), 0.0, 1.0),
        lambda: cubature(genz, np.zeros(2), np.ones(3)),
        lambda: cubature(genz, np.zeros(2), np.ones(2), rule="other"),
    ):
        with pytest.raises(TfnError):
            call()
