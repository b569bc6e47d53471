"""Special functions and densities against SciPy, by the table that tests/numpy/rows.py explains.

Dtypes, odd shapes and broadcasting; values at borders and derivatives are in test_special.py.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.numpy.rows import ONE, REAL, TWO, Draw, Row, draws, leaves, near, point
from tests.numpy.table import TRIPLES
from tfn.scipy import special, stats

POSITIVE, UNIT, ANY = (0.1, 9.0), (0.05, 0.95), (-9.0, 9.0)


def one(within: Any = POSITIVE, ulps: int = 512) -> Row:
    """A function of one number."""
    return Row(REAL, ONE, within=within, ulps=ulps, spread=True)


def two(first: Any = POSITIVE, second: Any = POSITIVE, ulps: int = 512) -> Row:
    """A function of two numbers that broadcast."""
    return Row(REAL, TWO, within=(first, second), ulps=ulps, spread=True)


def density(first: Any, *params: Any) -> Row:
    """A density: a place, and the parameters."""
    count = len(params)
    shapes = [((2, 1), *[(5,)] * count), ((7,), *[()] * count), ((0,), *[(1,)] * count)]
    return Row(["float64"], shapes, within=(first, *params), ulps=2**16, spread=True)


# fmt: off
SPECIAL = {
    "beta": two(), "betaln": two(), "boxcox": two(POSITIVE, (.5, 2)),
    "boxcox1p": two(POSITIVE, (.5, 2)),
    "comb": two((5, 9), (1, 4)), "digamma": one(), "entr": one(ANY), "erf": one(ANY),
    "erfc": one((-3, 3)),
    "erfinv": one(UNIT), "expit": one(ANY), "factorial": one((0, 7)), "gamma": one((.5, 7)),
    "gammainc": two(), "gammaincc": two(), "gammaln": one(), "gammasgn": one(), "i0": one((-5, 5)),
    "i0e": one(ANY), "i1": one((-5, 5)), "i1e": one(ANY), "kl_div": two(), "log_ndtr": one(ANY),
    "log_softmax": one(ANY), "logit": one(UNIT), "logsumexp": one(ANY), "ndtr": one((-3, 3)),
    "ndtri": one(UNIT),
    "poch": two((1, 4), (1, 3)), "rel_entr": two(), "softmax": one(ANY), "xlog1py": two(ANY),
    "xlogy": two(ANY),
    "zeta": two((2, 5), (1, 5)),
    "betainc": Row(REAL, TRIPLES, within=((.5, 3), (.5, 3), UNIT), ulps=2048, spread=True),
}
DENSITIES = {
    "beta.logpdf": density(UNIT, (.5, 3), (.5, 3)), "cauchy.logpdf": density(ANY),
    "chi2.logpdf": density(POSITIVE, (1, 5)),
    "expon.logpdf": density(POSITIVE), "gamma.logpdf": density(POSITIVE, (.5, 5)),
    "gumbel_r.logpdf": density((-3, 3)), "gumbel_l.logpdf": density((-3, 3)),
    "laplace.logpdf": density(ANY),
    "logistic.logpdf": density(ANY), "norm.logpdf": density(ANY, (-1, 1), (.5, 2)),
    "norm.cdf": density(ANY),
    "norm.ppf": density(UNIT), "norm.sf": density((-3, 3)),
    "pareto.logpdf": density((1.5, 9), (1, 3)),
    "t.logpdf": density(ANY, (1, 5)), "uniform.logpdf": density(UNIT),
    "truncnorm.logpdf": density((-.4, .4), (-2, -1), (1, 2)),
}
ELSEWHERE = {
    "multigammaln": "a number that is no array beside it", "polygamma": "an order beside it",
    "reals": "no function of SciPy's", "real": "no function of SciPy's",
    "inexact": "no function of SciPy's",
}
# fmt: on
TABLE = {**SPECIAL, **DENSITIES}


def find(modules: Any, name: str) -> Any:
    for part in name.split("."):
        modules = getattr(modules, part)
    return modules


def ours(name: str) -> Any:
    return find(special if name in SPECIAL else stats, name)


@pytest.mark.parametrize("name", in_turn(2, TABLE))
def test_as_scipy(name: str) -> None:
    row, theirs = TABLE[name], find(scipy.special if name in SPECIAL else scipy.stats, name)
    jitted: list[Draw] = []

    @settings(max_examples=3)
    @given(draws(row))
    def same(drawn: Draw) -> None:
        if name in ("softmax", "log_softmax", "logsumexp") and not drawn.operands[0].size:
            return  # SciPy has no largest of nothing
        got = ours(name)(*drawn.operands)
        near(row, got, theirs(*[x.astype(np.float64) for x in drawn.operands]), drawn.operands)
        if not jitted:
            jitted.append(drawn)
            result = tfn.jit(ours(name))(*map(tnp.asarray, drawn.operands))
            near(row, result, got, drawn.operands)
            assert result.dtype == got.dtype

    same()


@pytest.mark.parametrize("name", in_turn(2, TABLE))
def test_vmap_is_a_stack(name: str) -> None:
    row = TABLE[name]
    points = [point(row, 10 * seed) for seed in range(3)]
    stacked = [np.stack(xs) for xs in zip(*[p.operands for p in points])]
    want = np.stack([leaves(ours(name)(*p.operands))[0] for p in points])
    near(row, tfn.vmap(ours(name))(*stacked), want, stacked)


def test_each_special_function_has_a_row() -> None:
    files = {"tfn.scipy.special", "tfn.scipy.normal"}
    names = {
        name
        for name, f in vars(special).items()
        if inspect.isfunction(f) and not name.startswith("_") and f.__module__ in files
    }
    missing = sorted(names - set(SPECIAL) - set(ELSEWHERE))
    assert not missing, f"SPECIAL in tests/scipy/test_against_scipy.py has no row for {missing}"
