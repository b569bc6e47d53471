"""The reference interpreter of kernels: nests and instruction lists written in the test."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.dtypes import BOOL, FLOAT32, INT32, INT64
from tfn.trace import interpreter
from tfn.trace.argument import Access, Fold, Param, Place, Range
from tfn.trace.build import maximum
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

A, B, C = (UOp(Op.PARAM, (), Param(i, (100,), FLOAT32)) for i in range(3))
AT = UOp(Op.PARAM, (), Param(3, (100,), INT32))
BEGIN, END = (UOp(Op.PARAM, (), Param(i, (), INT64)) for i in (-2, -1))
RANDOM = np.random.default_rng(0)


def ranged(number: int, size: int, *bound: UOp, place: Place = Place.LOOP) -> UOp:
    return UOp(Op.RANGE, bound, Range(number, size, place))


def index(value: int) -> UOp:
    return const(value, INT64)


def load(buffer: UOp, at: UOp, *gate: UOp) -> UOp:
    return UOp(Op.LOAD, (buffer, at, *gate))


def run(*stores: UOp) -> list[np.ndarray]:
    """Four buffers after a nest; the first starts at 100 everywhere."""
    buffers = start()
    interpreter.nest(UOp(Op.SINK, stores), buffers)
    return buffers


def start() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    out = np.full(100, 100, np.float32)
    floats = [random.standard_normal(100).astype(np.float32) for _ in range(2)]
    return [out, *floats, random.integers(0, 7, 100).astype(np.int32)]


_, X, Y, K = start()
R, S = ranged(0, 5), ranged(1, 7)


# Nests.


def test_a_store_over_ranges() -> None:
    out, *_ = run(UOp(Op.STORE, (A, R * 7 + S, load(B, S * 5 + R) * 2.0)))
    assert np.array_equal(out[:35].reshape(5, 7), X[:35].reshape(7, 5).T * 2)
    assert (out[35:] == 100).all()


def test_a_fold_over_one_of_its_ranges() -> None:
    total = UOp(Op.FOLD, (load(B, R * 7 + S), S), Fold(Op.ADD))
    out, *_ = run(UOp(Op.STORE, (A, R, total)))
    np.testing.assert_allclose(out[:5], X[:35].reshape(5, 7).sum(1), 1e-6)


def test_a_fold_of_what_does_not_change_counts_each_time() -> None:
    total = UOp(Op.FOLD, (load(B, R), S), Fold(Op.ADD))
    out, *_ = run(UOp(Op.STORE, (A, R, total)))
    np.testing.assert_allclose(out[:5], X[:5] * 7, 1e-6)


def test_a_fold_in_a_fold() -> None:
    t = ranged(2, 7)
    top = UOp(Op.FOLD, (load(B, R * 7 + S), S), Fold(Op.MAX))
    total = UOp(Op.FOLD, (load(B, R * 7 + t) - top, t), Fold(Op.ADD))
    out, *_ = run(UOp(Op.STORE, (A, R, total)))
    rows = X[:35].reshape(5, 7)
    np.testing.assert_allclose(out[:5], (rows - rows.max(1, keepdims=True)).sum(1), 1e-5)


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.MIN, Op.MUL])
def test_a_bounded_range_stops_at_its_bound(op: Op) -> None:
    """10 in blocks of 4: the last block has two."""
    a = ranged(4, 3)
    b = ranged(5, 4, index(10) - a * 4)
    total = UOp(Op.FOLD, (load(B, a * 4 + b), a, b), Fold(op))
    out, *_ = run(UOp(Op.STORE, (A, index(0), total)))
    want = {Op.ADD: np.sum, Op.MAX: np.max, Op.MIN: np.min, Op.MUL: np.prod}[op](X[:10])
    np.testing.assert_allclose(out[0], want, 1e-5)
    out, *_ = run(UOp(Op.STORE, (A, a * 4 + b, load(B, a * 4 + b))))
    assert np.array_equal(out[:10], X[:10]) and (out[10:] == 100).all()


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
def test_a_fold_of_pairs_gives_the_index_of_the_extreme(op: Op) -> None:
    a = ranged(4, 3)
    b = ranged(5, 4, index(10) - a * 4)
    pair = UOp(Op.TUPLE, (load(B, a * 4 + b), a * 4 + b))
    place = UOp(Op.FOLD, (pair, a, b), Fold(op, INT32))
    out, *_ = run(UOp(Op.STORE, (A, index(0), UOp(Op.CAST, (place,), FLOAT32))))
    assert out[0] == (np.argmax if op is Op.MAX else np.argmin)(X[:10])
    place = UOp(Op.FOLD, (UOp(Op.TUPLE, (load(B, R * 7 + S), S)), S), Fold(op, INT32))
    out, *_ = run(UOp(Op.STORE, (A, R, UOp(Op.CAST, (place,), FLOAT32))))
    want = (np.argmax if op is Op.MAX else np.argmin)(X[:35].reshape(5, 7), 1)
    assert out[:5].tolist() == want.tolist()


def test_gates() -> None:
    inside = (index(2) <= S) & (S < 6)
    out, *_ = run(UOp(Op.STORE, (A, S, load(B, S * 50, inside), S < 5)))
    assert out[:7].tolist() == [0, 0, X[99], X[99], X[99], 100, 100] or out[2] == X[99]
    assert (out[:2] == 0).all(), "a load that is shut gives zero, and reads nothing"
    assert (out[5:7] == 100).all(), "a store that is shut writes nothing"


def test_stores_in_order() -> None:
    """a[k[r]] += 1 counts, though several r have one k."""
    at = UOp(Op.CAST, (load(AT, R),), INT64)
    store = UOp(Op.STORE, (A, at, load(A, at) + 1.0), (R.arg.number,))
    out, *_ = run(store)
    assert np.array_equal(out[:7], 100 + np.bincount(K[:5], minlength=7)[:7])


def test_one_store_after_the_other() -> None:
    first = UOp(Op.STORE, (A, R, load(B, R)))
    second = UOp(Op.STORE, (C, R, load(A, R) * 2.0))
    _, _, c, _ = run(first, second)
    assert np.array_equal(c[:5], X[:5] * 2)


def test_places_change_nothing() -> None:
    def summed(place: Place) -> np.ndarray:
        r, s = ranged(0, 5, place=place), ranged(1, 7, place=place)
        total = UOp(Op.FOLD, (load(B, r * 7 + s), s), Fold(Op.ADD))
        return run(UOp(Op.STORE, (A, r, total)))[0]

    assert len({summed(place).tobytes() for place in Place}) == 1


# Lists in order.


def listed(*items: UOp, begin: int = 0, end: int = 1) -> list[np.ndarray]:
    buffers = start()
    interpreter.instructions(items, begin, end, buffers)
    return buffers


def test_a_loop_over_tiles() -> None:
    loop = UOp(Op.LOOP, (BEGIN, END), 1)
    x = UOp(Op.LOAD, (B, loop), Access(3, 1, 0))
    y = x * 2.0
    store = UOp(Op.STORE, (A, loop, y), Access(0, 1, 0))
    out, *_ = listed(loop, x, y, store, UOp(Op.END, (loop,)), begin=2, end=6)
    assert np.array_equal(out[2:6], X[5:9] * 2)
    assert (out[:2] == 100).all() and (out[6:] == 100).all()


def test_a_loop_of_no_iterations() -> None:
    loop = UOp(Op.LOOP, (BEGIN, END), 1)
    store = UOp(Op.STORE, (A, loop, const(1.0, FLOAT32)), Access(0, 1, 0))
    out, *_ = listed(loop, store, UOp(Op.END, (loop,)), begin=4, end=4)
    assert (out == 100).all()


def test_accumulators_carry_and_are_values_after_the_loop() -> None:
    loop = UOp(Op.LOOP, (index(0), index(10)), 1)
    total = UOp(Op.ACCUMULATOR, (loop, const(0.0, FLOAT32)), 0)
    top = UOp(Op.ACCUMULATOR, (loop, const(-9.0, FLOAT32)), 1)
    x = UOp(Op.LOAD, (B, loop), Access(0, 1, 0))
    more, higher = total + x, maximum(top, x)
    end = UOp(Op.END, (loop, total, top, more, higher))
    both = total - top
    store = UOp(Op.STORE, (A, index(0), both), Access(0, 1, 0))
    out, *_ = listed(loop, total, top, x, more, higher, end, both, store)
    np.testing.assert_allclose(out[0], X[:10].sum() - X[:10].max(), 1e-5)


def test_loops_in_loops_start_anew() -> None:
    outer = UOp(Op.LOOP, (index(0), index(3)), 1)
    inner = UOp(Op.LOOP, (index(0), index(5)), 2)
    total = UOp(Op.ACCUMULATOR, (inner, const(0.0, FLOAT32)), 0)
    row = outer * 5
    at = row + inner
    x = UOp(Op.LOAD, (B, at), Access(0, 1, 0))
    more = total + x
    store = UOp(Op.STORE, (A, outer, total), Access(0, 1, 0))
    items = (
        outer,
        row,
        inner,
        total,
        at,
        x,
        more,
        UOp(Op.END, (inner, total, more)),
        store,
        UOp(Op.END, (outer,)),
    )
    out, *_ = listed(*items)
    np.testing.assert_allclose(out[:3], X[:15].reshape(3, 5).sum(1), 1e-5)


@pytest.mark.parametrize("stride", [1, -1, 3])
def test_vectors_meet_memory_by_a_stride(stride: int) -> None:
    x = UOp(Op.LOAD, (B, index(20)), Access(1, 4, stride))
    store = UOp(Op.STORE, (A, index(50), x), Access(0, 4, stride))
    out, *_ = listed(x, store)
    places = 50 + stride * np.arange(4)
    assert np.array_equal(out[places], X[21 + stride * np.arange(4)])
    assert (np.delete(out, places) == 100).all()


def test_masked_lanes_are_neither_read_nor_written() -> None:
    some = UOp(Op.LT, (UOp(Op.LANES, (), 4), const(3, INT64, (4,))))
    x = UOp(Op.LOAD, (B, index(97), some), Access(0, 4, 1))  # the fourth is out of bounds
    store = UOp(Op.STORE, (A, index(97), x, some), Access(0, 4, 1))
    out, *_ = listed(some, x, store)
    assert np.array_equal(out[97:], X[97:]) and (out[:97] == 100).all()


def test_gathers_at_a_vector_of_indices() -> None:
    at = UOp(Op.MUL, (UOp(Op.LANES, (), 4), const(7, INT64, (4,))))
    x = UOp(Op.LOAD, (B, at), Access(2, 1, 0))
    store = UOp(Op.STORE, (A, index(0), x), Access(0, 4, 1))
    out, *_ = listed(at, x, store)
    assert np.array_equal(out[:4], X[2:24:7])


def test_lanes_are_filled_and_combined() -> None:
    one = UOp(Op.LOAD, (B, index(0)), Access(0, 1, 0))
    wide = UOp(Op.SPLAT, (one,), 4)
    x = UOp(Op.LOAD, (B, index(8)), Access(0, 4, 1))
    total = UOp(Op.ACROSS, (wide + x,), Op.ADD)
    store = UOp(Op.STORE, (A, index(0), total), Access(0, 1, 0))
    out, *_ = listed(one, wide, x, wide + x, total, store)
    np.testing.assert_allclose(out[0], X[8:12].sum() + 4 * X[0], 1e-5)


def test_a_value_is_what_it_was_when_it_was_last_computed() -> None:
    """The same instruction twice: the second sees what has been carried since."""
    loop = UOp(Op.LOOP, (index(0), index(3)), 1)
    total = UOp(Op.ACCUMULATOR, (loop, const(0.0, FLOAT32)), 0)
    more = total + 1.0
    store = UOp(Op.STORE, (A, index(0), more), Access(0, 1, 0))
    out, *_ = listed(loop, total, more, UOp(Op.END, (loop, total, more)), more, store)
    assert out[0] == 4


def test_a_gated_scalar() -> None:
    for shut in (False, True):
        gate = const(not shut, BOOL)
        x = UOp(Op.LOAD, (B, index(1000 if shut else 3), gate), Access(0, 1, 0))
        store = UOp(Op.STORE, (A, index(0), x), Access(0, 1, 0))
        out, *_ = listed(x, store)
        assert out[0] == (0 if shut else X[3])
