"""Affine forms: sums of coefficients times terms."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests import covering
from tests.lower.random_indices import RANGES, at_every_point, index, indices
from tfn.dtypes import INT64
from tfn.lower.index.affine import add_scaled, affine, sum_interval, sum_node
from tfn.lower.index.intervals import Facts
from tfn.trace.uop import UOp, const

r, s, t = RANGES


def test_affine_form_of_a_sum():
    assert affine((r * 8 + s) * 4 + 3) == ({r: 32, s: 4}, 3)
    assert affine(r - s * 2 - (t - 5)) == ({r: 1, s: -2, t: -1}, 5)
    assert affine(-(r << 3)) == ({r: -8}, 0)
    assert affine(index(-4)) == ({}, -4)
    assert affine(r - r) == ({}, 0)
    assert affine(3 * r) == ({r: 3}, 0)


def test_nonlinear_nodes_are_terms():
    product = r * s
    assert affine(product * 2 + t // 2) == ({product: 2, t // 2: 1}, 0)


def test_sum_nodes_are_canonical():
    assert sum_node({r: 4, s: 1}, 3, r) is r * 4 + s + 3
    assert sum_node({r: -1}, 7, r) is index(7) - r
    assert sum_node({r: -1}, 0, r) is -r
    assert sum_node({r: -1, s: 2}, 0, r) is s * 2 - r
    assert sum_node({r: -3, s: 1}, 1, r) is s - r * 3 + 1
    assert sum_node({}, 5, r) is index(5)
    assert sum_node({}, 5, const(0, INT64, (4,))).shape == (4,)


@given(indices())
@settings(max_examples=covering.examples(200), deadline=None)
def test_affine_and_back_keeps_the_values(u):
    form = sum_node(*affine(u), u)
    assert np.array_equal(at_every_point(form), at_every_point(u))
    assert sum_node(*affine(form), form) is form


@given(indices())
@settings(max_examples=covering.examples(100), deadline=None)
def test_the_interval_of_a_sum_holds_every_value(u):
    low, high = sum_interval(*affine(u), Facts())
    values = at_every_point(u)
    assert low <= values.min()
    assert values.max() <= high


def test_scaled_terms_are_added():
    assert add_scaled({r: 1, s: 2}, {r: 1, t: 1}, -1) == {s: 2, t: -1}


def test_a_long_sum_is_not_taken_apart_whole():
    u: UOp = r
    for i in range(10_000):
        u = u + (s + i)
    terms, _ = affine(u)
    assert len(terms) < 100
