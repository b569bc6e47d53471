"""Proofs of bounds and of coverage, against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.graphs import p
from tests.lower.indices import ranged
from tfn.dtypes import FLOAT32, INT32, INT64
from tfn.lower.index import solver
from tfn.lower.report.verify import kernels
from tfn.trace import build
from tfn.trace.interpreter import values
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

A, B, C = ranged(0, 6), ranged(1, 5), ranged(2, 4)
HUGE, WIDE = ranged(3, 1 << 20), ranged(4, 1 << 20)
X = p(0, 100, dtype=INT32)


def loaded(index: UOp) -> UOp:
    return build.cast(UOp(Op.LOAD, (X, index)), INT64)


def store(index: UOp, *gate: UOp, value: UOp | None = None) -> UOp:
    value = const(0.0, FLOAT32) if value is None else value
    return UOp(Op.STORE, (p(1, 100), index, value, *gate))


def test_within_by_intervals_by_trying_and_by_z3() -> None:
    assert kernels.within(A * 5 + B, 30) is None
    assert kernels.within(A * B - A * B, 1) is None  # intervals know less
    far = HUGE * WIDE - HUGE * WIDE + HUGE
    assert kernels.within(far, 1 << 20) is None  # too many points, so z3
    assert kernels.within(loaded(A), 100) is not None
    clamped = build.minimum(build.maximum(loaded(A), const(0, INT64)), const(99, INT64))
    assert kernels.within(clamped, 100) is None
    assert kernels.within(loaded(A) % 100, 100) is None
    assert (
        kernels.within(loaded(A), 100, (loaded(A) < 100) & (const(-1, INT64) < loaded(A))) is None
    )


def test_examples_of_what_is_outside() -> None:
    found = kernels.within(A * 5 + B, 29)
    assert found and found.at == {A: 5, B: 4} and found.value == 29
    assert str(found) == "at r0 = 5, r1 = 4 it is 29"
    far = kernels.within(HUGE + WIDE, 1 << 20)
    assert far and sum(far.at.values()) == far.value and far.value >= 1 << 20
    assert str(kernels.within(const(7, INT64), 7)) == "it is 7"
    assert kernels.within(A, 5, A < 5) is None and kernels.within(A, 5, A < 6) is not None


def test_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)
    found = kernels.within(HUGE * WIDE - HUGE * WIDE + HUGE, 1 << 20)
    assert found and str(found) == "it cannot be proved"


TERMS = st.recursive(
    st.sampled_from([A, B, C, const(1, INT64), const(3, INT64), const(-2, INT64)]),
    lambda inner: st.tuples(
        st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.MIN, Op.MAX]), inner, inner
    ).map(lambda t: UOp(t[0], t[1:])),
    max_leaves=6,
)


@given(TERMS, st.integers(1, 30), st.booleans())
def test_any_index(index: UOp, size: int, small: bool) -> None:
    """Both ways agree with trying everything; the solver may only fail to prove."""
    (found,) = values([index], [A, B, C])
    wrong = ((found < 0) | (found >= size)).any()
    most = kernels.MOST_POINTS
    try:
        kernels.MOST_POINTS = most if small else 0
        verdict = kernels.within(index, size)
    finally:
        kernels.MOST_POINTS = most
    if wrong:
        assert verdict is not None
    if verdict is not None and verdict.value is not None:
        assert wrong and not 0 <= verdict.value < size
        at = [verdict.at.get(r, 0) for r in (A, B, C)]
        assert found[tuple(at)] == verdict.value


def test_each_element_once() -> None:
    assert kernels.once([store(A * 5 + B)], 30) is None
    assert kernels.once([store(B * 6 + A)], 30) is None
    assert kernels.once([store((A * 5 + B) * 4 + C)], 120) is None
    assert kernels.once([store(HUGE * (1 << 20) + WIDE)], 1 << 40) is None
    assert kernels.once([store(A), store(B + 6)], 11) is None
    assert kernels.once([store(A, A < 3), store(A, const(2, INT64) < A)], 6) is None
    assert kernels.once([store(const(5, INT64) - A)], 6) is None


def test_elements_that_are_not() -> None:
    assert kernels.once([store(B)], 6) == "element 5, counted flat, is written by nobody"
    twice = kernels.once([store(A), store(const(1, INT64))], 6)
    assert twice == "element 1, counted flat, is written more than once"
    summed = build.cast(B, FLOAT32)
    assert kernels.once([store(A, value=summed)], 6) is not None
    assert kernels.once([], 1) is not None
    assert kernels.once([store(loaded(A))], 6) is not None
    assert kernels.once([store(HUGE * (1 << 20) + WIDE, HUGE < 3)], 1 << 40) is not None


def test_indices_as_people_write_them() -> None:
    assert kernels.show(A * 4 + 1) == "r0 * 4 + 1"
    assert kernels.show(loaded(A) % 3) == "i64(x[...]) % 3"
    assert np.dtype(FLOAT32) == FLOAT32
