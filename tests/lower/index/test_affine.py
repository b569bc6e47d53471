"""Sums of coefficients times terms."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.lower.indices import RANGES, at_every_point, index, indices
from tfn.dtypes import INT64
from tfn.lower.index.affine import affine, plus, span, total
from tfn.lower.index.intervals import Facts
from tfn.trace.uop import UOp, const

r, s, t = RANGES


def test_a_sum_is_taken_apart():
    assert affine((r * 8 + s) * 4 + 3) == ({r: 32, s: 4}, 3)
    assert affine(r - s * 2 - (t - 5)) == ({r: 1, s: -2, t: -1}, 5)
    assert affine(-(r << 3)) == ({r: -8}, 0)
    assert affine(index(-4)) == ({}, -4)
    assert affine(r - r) == ({}, 0)
    assert affine(3 * r) == ({r: 3}, 0)


def test_what_is_no_sum_stays_whole():
    product = r * s
    assert affine(product * 2 + t // 2) == ({product: 2, t // 2: 1}, 0)


def test_the_one_form():
    assert total({r: 4, s: 1}, 3, r) is r * 4 + s + 3
    assert total({r: -1}, 7, r) is index(7) - r
    assert total({r: -1}, 0, r) is -r
    assert total({r: -1, s: 2}, 0, r) is s * 2 - r
    assert total({r: -3, s: 1}, 1, r) is s - r * 3 + 1
    assert total({}, 5, r) is index(5)
    assert total({}, 5, const(0, INT64, (4,))).shape == (4,)


@given(indices())
@settings(max_examples=200, deadline=None)
def test_taking_apart_and_putting_together_keeps_the_values(u):
    form = total(*affine(u), u)
    assert np.array_equal(at_every_point(form), at_every_point(u))
    assert total(*affine(form), form) is form


@given(indices())
@settings(max_examples=100, deadline=None)
def test_the_span_holds_every_value(u):
    low, high = span(*affine(u), Facts())
    values = at_every_point(u)
    assert low <= values.min()
    assert values.max() <= high


def test_terms_are_added():
    assert plus({r: 1, s: 2}, {r: 1, t: 1}, -1) == {s: 2, t: -1}


def test_a_long_sum_stays_in_lumps():
    u: UOp = r
    for i in range(10_000):
        u = u + (s + i)
    terms, _ = affine(u)
    assert len(terms) < 100
