"""One value of each derivative, in whatever order and mode it is asked for, at special points."""

import itertools
import math

import numpy as np
import pytest

import tfn
import tfn.lax as lax
import tfn.numpy as tnp
import tfn.scipy.special as special
from tests.covering import in_turn
from tfn.nn import functions
from tfn.numpy.forward_mode import by_forward_mode

POINTS = np.float64(
    [0, -0.0, 1, -1, 0.5, -0.5, 2, -3, math.inf, -math.inf, math.nan, 40, 800, -800, 1e-5]
)
PAIRS = np.float64([0, -0.0, 1, -1, 0.5, -0.5, 2, -3, math.inf, -math.inf, math.nan, 40])

ONE = {
    "i0": special.i0,
    "i1": special.i1,
    "numpy.i0": tnp.i0,
    "gamma": special.gamma,
    "exp1": special.exp1,
    "zeta": special.zeta,
    "hard_silu": functions.hard_silu,
    "sparse_plus": functions.sparse_plus,
}
TWO = {
    name: getattr(special, name)
    for name in (
        *("xlogy", "xlog1py", "gammainc", "gammaincc", "poch", "betaln", "beta", "comb"),
        *("boxcox", "boxcox1p", "zeta", "owens_t"),
    )
}

OF_FEW_OPS = ("xlogy", "xlog1py", "boxcox", "owens_t")
"""Functions whose second derivatives are traced in little time; all are found in the same way."""


def forward(f):
    return lambda x: tfn.jvp(f, (x,), (tnp.ones_like(x),))[1]


def reverse(f):
    return tfn.grad(lambda x: f(x).sum())


def in_all_orders(f, x, highest=2):
    """The first derivatives in two modes, and the second ones in four."""
    first = [np.asarray(mode(f)(x)) for mode in (forward, reverse)]
    modes = itertools.product((forward, reverse), repeat=2) if highest == 2 else ()
    return first, [np.asarray(outer(inner(f))(x)) for outer, inner in modes]


def agree(f, x, but=(), highest=2):
    for found in in_all_orders(f, tnp.asarray(x), highest):
        left_out = np.isin(x, but)
        for other in found[1:]:
            np.testing.assert_allclose(
                np.where(left_out, 0, other), np.where(left_out, 0, found[0]), 1e-6, 1e-15
            )


@pytest.mark.parametrize("name", in_turn(2, ONE))
def test_orders_agree_of_functions_of_one_number(name, uncompiled):
    agree(ONE[name], POINTS, but=[math.inf] if name == "gamma" else ())


@pytest.mark.parametrize("name", in_turn(2, TWO))
def test_modes_agree_of_functions_of_two(name, uncompiled):
    a, b = (x.ravel() for x in np.meshgrid(PAIRS, PAIRS))
    agree(lambda x: TWO[name](x, tnp.asarray(b)), a, highest=1 + (name in OF_FEW_OPS))
    agree(lambda x: TWO[name](tnp.asarray(a), x), b, highest=1 + (name in OF_FEW_OPS))


def test_modes_agree_of_the_incomplete_beta_function(uncompiled):
    a = np.float64([-1, 0, 0.5, 1, math.inf, math.nan])
    agree(lambda u: special.betainc(u, 2.0, 0.3), a, highest=1)
    agree(lambda u: special.betainc(0.5, 2.0, u), a, highest=1)


VALUES = {  # name: function, point, value, first and second derivative
    "i0": (tnp.i0, math.inf, math.inf, math.inf, math.inf),
    "i1 that overflows": (special.i1, -800.0, -math.inf, math.inf, -math.inf),
    "gamma at its pole": (special.gamma, 0.0, math.inf, -math.inf, math.inf),
    "exp1 beside its domain": (special.exp1, -math.inf, math.nan, math.nan, math.nan),
    "expn": (lambda x: special.expn(2, x), 0.0, 1.0, -math.inf, math.inf),
    "zeta below 0": (special.zeta, -1e-300, -0.5, -0.9189385332046727, -2.006356455908585),
    "zeta near 0": (special.zeta, -1e-5, -0.4999908107150, -0.918918469778, -2.00629639),
    "boxcox by x": (lambda x: special.boxcox(x, 3.0), 0.0, -1 / 3, 0.0, 0.0),
    "boxcox by lmbda": (lambda p: special.boxcox(0.0, p), 2.0, -0.5, 0.25, -0.25),
    "boxcox of inf": (lambda p: special.boxcox(math.inf, p), -2.0, 0.5, 0.25, 0.25),
    "xlogy": (lambda x: special.xlogy(x, 0.0), 2.0, -math.inf, -math.inf, 0.0),
    "hard_silu": (functions.hard_silu, math.inf, math.inf, 1.0, 0.0),
}


@pytest.mark.parametrize("row", in_turn(2, VALUES.values()), ids=in_turn(2, VALUES))
def test_values_at_special_points(row, uncompiled):
    f, point, *want = row
    x = tnp.float64(point)
    first, second = in_all_orders(f, x)
    got = [float(f(x)), *{str(float(v)) for v in first}, *{str(float(v)) for v in second}]
    np.testing.assert_allclose(np.float64(got), want, rtol=1e-8)


REDUCTIONS = {  # of arrays that have a NaN, and of those without a number
    "max": (tnp.max, [math.nan, 1, 2], math.nan),
    "ptp": (tnp.ptp, [3, 3, math.nan], math.nan),
    "norm": (lambda x: tnp.linalg.norm(x, tnp.inf), [1, math.nan], math.nan),
    "nanmean": (tnp.nanmean, [math.nan] * 3, 0),
    "nanvar": (tnp.nanvar, [math.nan] * 3, 0),
    "nanvar of less than ddof": (lambda x: tnp.nanvar(x, ddof=1), [math.nan, 2], 0),
    "mean of none": (lambda x: tnp.mean(x, where=False), [1, 2], 0),
}


@pytest.mark.parametrize("row", REDUCTIONS.values(), ids=REDUCTIONS)
def test_slopes_of_reductions_that_are_nan(row, uncompiled):
    f, values, want = row
    x = tnp.asarray(np.float64(values))
    assert np.isnan(f(x))
    for jacobian in (tfn.jacfwd, tfn.jacrev):
        np.testing.assert_array_equal(jacobian(f)(x), np.full(len(values), want))


def test_branches_not_taken_have_no_slope():
    def f(x):
        return tnp.where(x > 0, tnp.log(x), 0.0)

    x = tnp.float32([0.0, 2.0])
    assert np.isnan(reverse(f)(x)[0])
    np.testing.assert_array_equal(reverse(by_forward_mode(f))(x), [0, 0.5])
    assert tfn.hessian(lambda x: by_forward_mode(lax.exp)(x).sum())(x)[1, 1] == lax.exp(2.0)
