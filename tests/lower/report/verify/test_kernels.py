"""Bounds proofs of custom kernels, compared with evaluation at every point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.graphs import p
from tests.lower.random_indices import ranged
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


def store(index: UOp, *predicate: UOp, value: UOp | None = None) -> UOp:
    value = const(0.0, FLOAT32) if value is None else value
    return UOp(Op.STORE, (p(1, 100), index, value, *predicate))


def test_bounds_by_intervals_by_evaluation_and_by_z3() -> None:
    assert kernels.check_bounds(A * 5 + B, 30) is None
    assert kernels.check_bounds(A * B - A * B, 1) is None  # intervals are too wide
    far = HUGE * WIDE - HUGE * WIDE + HUGE
    assert kernels.check_bounds(far, 1 << 20) is None  # too many points, so z3
    assert kernels.check_bounds(loaded(A), 100) is not None
    clamped = build.minimum(build.maximum(loaded(A), const(0, INT64)), const(99, INT64))
    assert kernels.check_bounds(clamped, 100) is None
    assert kernels.check_bounds(loaded(A) % 100, 100) is None
    assert (
        kernels.check_bounds(loaded(A), 100, (loaded(A) < 100) & (const(-1, INT64) < loaded(A)))
        is None
    )


def test_counterexamples() -> None:
    result = kernels.check_bounds(A * 5 + B, 29)
    assert result and result.at == {A: 5, B: 4} and result.value == 29
    assert str(result) == "at r0 = 5, r1 = 4 it is 29"
    far = kernels.check_bounds(HUGE + WIDE, 1 << 20)
    assert far and sum(far.at.values()) == far.value and far.value >= 1 << 20
    assert str(kernels.check_bounds(const(7, INT64), 7)) == "it is 7"
    assert (
        kernels.check_bounds(A, 5, A < 5) is None and kernels.check_bounds(A, 5, A < 6) is not None
    )


def test_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)
    result = kernels.check_bounds(HUGE * WIDE - HUGE * WIDE + HUGE, 1 << 20)
    assert result and str(result) == "it cannot be proved"


TERMS = st.recursive(
    st.sampled_from([A, B, C, const(1, INT64), const(3, INT64), const(-2, INT64)]),
    lambda inner: st.tuples(
        st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.MIN, Op.MAX]), inner, inner
    ).map(lambda t: UOp(t[0], t[1:])),
    max_leaves=6,
)


@given(TERMS, st.integers(1, 30), st.booleans())
def test_random_indices(index: UOp, size: int, small: bool) -> None:
    """Both methods agree with evaluation at every point; the solver may fail to prove."""
    (indices,) = values([index], [A, B, C])
    wrong = ((indices < 0) | (indices >= size)).any()
    most = kernels.MAX_POINTS
    try:
        kernels.MAX_POINTS = most if small else 0
        verdict = kernels.check_bounds(index, size)
    finally:
        kernels.MAX_POINTS = most
    if wrong:
        assert verdict is not None
    if verdict is not None and verdict.value is not None:
        assert wrong and not 0 <= verdict.value < size
        at = [verdict.at.get(r, 0) for r in (A, B, C)]
        assert indices[tuple(at)] == verdict.value


def test_coverage_of_each_element_once() -> None:
    assert kernels.check_coverage([store(A * 5 + B)], 30) is None
    assert kernels.check_coverage([store(B * 6 + A)], 30) is None
    assert kernels.check_coverage([store((A * 5 + B) * 4 + C)], 120) is None
    assert kernels.check_coverage([store(HUGE * (1 << 20) + WIDE)], 1 << 40) is None
    assert kernels.check_coverage([store(A), store(B + 6)], 11) is None
    assert kernels.check_coverage([store(A, A < 3), store(A, const(2, INT64) < A)], 6) is None
    assert kernels.check_coverage([store(const(5, INT64) - A)], 6) is None


def test_coverage_violations() -> None:
    assert kernels.check_coverage([store(B)], 6) == "element 5, counted flat, is never written"
    twice = kernels.check_coverage([store(A), store(const(1, INT64))], 6)
    assert twice == "element 1, counted flat, is written more than once"
    summed = build.cast(B, FLOAT32)
    assert kernels.check_coverage([store(A, value=summed)], 6) is not None
    assert kernels.check_coverage([], 1) is not None
    assert kernels.check_coverage([store(loaded(A))], 6) is not None
    assert kernels.check_coverage([store(HUGE * (1 << 20) + WIDE, HUGE < 3)], 1 << 40) is not None


def test_indices_as_text() -> None:
    assert kernels.show(A * 4 + 1) == "r0 * 4 + 1"
    assert kernels.show(loaded(A) % 3) == "i64(x[...]) % 3"
    assert np.dtype(FLOAT32) == FLOAT32
