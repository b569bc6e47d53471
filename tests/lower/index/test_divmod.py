"""Division and remainder: laws proved, folds checked at every point; reshapes cancel."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import covering
from tests.lower.random_indices import (
    RANGES,
    at_every_point,
    flatten,
    index,
    indices,
    ranged,
    reshaped,
    unflatten,
)
from tests.z3_laws import MODELS, counterexample
from tfn.dtypes import INT64
from tfn.lower.index.affine import affine, sum_node
from tfn.lower.index.divmod import LAWS, divide, recombine_digits, remainder
from tfn.lower.index.intervals import Facts
from tfn.lower.index.simplify import simplify, simplify_all
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

r, s, t = RANGES
DIVISIONS = (Op.FLOORDIV, Op.MOD)


def divisions(*roots):
    return Counter(u.op for u in walk(roots) if u.op in DIVISIONS).total()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_z3_proves_each_law(law):
    for model in MODELS[law.over.name]:
        values = counterexample(law, model)
        assert values is None, f"{law} is wrong over {model.name}: {values}"


@given(indices(), st.sampled_from([1, 2, 3, 4, 6, 8, 12]))
@settings(max_examples=covering.examples(300), deadline=None)
def test_folds_keep_the_values(u, n):
    facts = Facts()
    for node, fold in ((u // n, divide), (u % n, remainder)):
        better = fold(node, facts)
        if better is not None:
            assert np.array_equal(at_every_point(better), at_every_point(node))


@given(indices(), st.sampled_from([2, 3, 4, 6]), st.sampled_from([2, 3, 4]))
@settings(max_examples=covering.examples(200), deadline=None)
def test_recombining_keeps_the_values(u, n, m):
    for digits in (u // n * n + u % n, u // n % m * n + u % n, u // (n * m) * m + u // n % m):
        recombined = sum_node(*recombine_digits(*affine(digits)), digits)
        assert np.array_equal(at_every_point(recombined), at_every_point(digits))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((r * 12 + t) // 4, r * 3 + t // 4),
        ((r * 12 + s) // 4, r * 3),
        ((r * 12 + s) % 4, s),
        ((r * 4 + s) // 4, r),
        ((r * 4 + s + 4) // 4, r + 1),
        ((r * 4 + s + 4) % 4, s),
        ((index(3) - r) // 4, index(0)),
        ((index(-1) - r) // 4, index(-1)),
        ((index(-1) - r) % 4, index(3) - r),
        (t // 6, index(0)),
        (t % 6, t),
        (t // 1, t),
        (t % 1, index(0)),
        (t % 12 % 4, t % 4),
        (t // 2 // 2, t // 4),
        ((t * 2) // 4, t // 2),
        ((t * 2 + 1) % 4, t % 2 * 2 + 1),
        (t // 4 * 4 + t % 4, t),
        (t % 4 + r + t // 4 * 4, r + t),
        (r * s // 2 * 2 + r * s % 2, r * s),
        ((r * s) % 24 // 4, (r * s) // 4),
        (t // 2 % 2 * 2 + t % 2, t % 4),
    ],
)
def test_index_arithmetic_of_reshapes(before, after):
    assert simplify(before) is simplify(after)
    assert divisions(simplify(before)) <= divisions(after)


SHAPES = [
    [(6, 4), (24,), (6, 4)],
    [(24,), (2, 3, 4), (24,)],
    [(6, 4), (3, 8), (24,), (4, 6), (6, 4)],
    [(5, 7, 3), (3, 5, 7), (105,), (5, 7, 3)],
    [(2, 3, 4), (3, 8), (2, 3, 4)],
    [(1, 6), (6, 1), (3, 2), (1, 6)],
    [(8, 8, 8), (512,), (64, 8), (8, 8, 8)],
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_a_reshape_there_and_back_cancels(shapes):
    place = simplify_all(reshaped(*shapes))
    sizes = shapes[-1]
    assert [u for u in place if u.op is not Op.CONST] == [
        ranged(i, n) for i, n in enumerate(sizes) if n > 1
    ]


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3, 4), (6, 4), (3, 8)],
        [(24,), (4, 6), (8, 3), (2, 3, 4)],
        [(7, 3, 5), (105,), (3, 5, 7)],
        [(4, 5, 6), (20, 6), (6, 20), (120,), (8, 15)],
    ],
    ids=str,
)
def test_reshapes_do_not_change_the_position(shapes):
    position = simplify(flatten(reshaped(*shapes), shapes[0]))
    assert position is simplify(
        flatten([ranged(i, n) for i, n in enumerate(shapes[-1])], shapes[-1])
    )
    assert divisions(position) == 0


def test_a_reshape_that_does_not_cancel_is_short():
    i, j, k = simplify_all(reshaped((2, 3, 4), (6, 4), (3, 8)))
    a, b = ranged(0, 3), ranged(1, 8)
    assert (i, j, k) == ((a * 2 + b // 4) // 3, (a * 2 + b // 4) % 3, b % 4)


@given(
    st.lists(
        st.sampled_from([(24,), (2, 12), (4, 6), (2, 3, 4), (3, 8), (24, 1)]),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_chains_of_reshapes_match_numpy(shapes):
    place = simplify_all(reshaped(*shapes))
    ranges = [ranged(i, n) for i, n in enumerate(shapes[-1])]
    got = [at_every_point(u, ranges).ravel() for u in place]
    assert np.array_equal(np.stack(got), np.stack(np.unravel_index(np.arange(24), shapes[0])))
    assert divisions(simplify(flatten(place, shapes[0]))) == 0


def test_arithmetic_that_may_wrap_around_is_not_simplified():
    x = UOp(Op.PARAM, (), Param(0, (), INT64))
    for u in ((x * 4) // 4, (x * 4 + 1) // 4, (x + x) // 2, x * 6 % 3):
        assert simplify(u).op in DIVISIONS


def test_digits_of_data_are_recombined():
    x = UOp(Op.PARAM, (), Param(0, (), INT64))
    assert simplify(x // 4 * 4 + x % 4) is x
    assert simplify(x % 12 % 4) is x % 4


def test_divisions_by_zero_or_negative_numbers_are_not_simplified():
    assert simplify(t // s).op is Op.FLOORDIV
    assert simplify(t % (s - 3)).op is Op.MOD
    assert np.array_equal(at_every_point(simplify(t // -4)), at_every_point(t // -4))


def test_unflatten_is_the_inverse_of_flatten():
    place = [r, s, t]
    assert simplify_all(unflatten(flatten(place, (4, 3, 6)), (4, 3, 6))) == place
