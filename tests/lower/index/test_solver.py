"""SMT queries, against trying all values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given

from tests.lower.graphs import p
from tests.lower.random_indices import RANGES, predicates
from tfn.dtypes import INT32, INT64, UINT32
from tfn.errors import MissingPackageError
from tfn.lower.index import solver
from tfn.lower.index.intervals import Facts
from tfn.trace import build
from tfn.trace.argument import Access, Range
from tfn.trace.interpreter import values
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = UOp(Op.LOAD, (p(0, 4, dtype=INT32), const(0, INT64)), Access(0, 1, 0))


@given(predicates(3), predicates(3))
def test_conjunctions_of_two_conditions(a: UOp, b: UOp) -> None:
    answer = solver.solve([a, b], Facts(), [])
    (both,) = values([a & b], RANGES)
    if answer.unsatisfiable:
        assert not both.any()
    elif answer.model is not None and all(u.op is Op.RANGE for u in answer.model):
        assert both[tuple(answer.model.get(r, 0) for r in RANGES)]


def test_operations_that_may_wrap_around_are_free_variables() -> None:
    assert solver.solve([X + 1 < X], Facts()).unsatisfiable is False
    wide = build.cast(X, INT64)
    assert solver.solve([wide + 1 < wide], Facts()).unsatisfiable
    assert not solver.solve([build.cast(wide + 1, INT32) < X], Facts()).unsatisfiable
    assert not solver.solve([build.cast(wide + 1, INT32) < -100], Facts()).unsatisfiable


def test_assumed_intervals_narrow() -> None:
    facts = Facts({X: (3, 5)})
    assert solver.solve([X < 3], facts).unsatisfiable
    assert solver.solve([X < 4], facts, [X, X * 2]).values == (3, 6)


def test_shifts_and_booleans() -> None:
    a, b = X < 3, const(5, INT32) < X
    assert (
        solver.solve([a & b], Facts()).unsatisfiable
        and solver.solve([a ^ a], Facts()).unsatisfiable
    )
    assert solver.solve([build.minimum(a, b)], Facts()).unsatisfiable
    assert solver.solve([X * 4 - (X << 2) < 0], Facts({X: (0, 9)})).unsatisfiable
    assert solver.solve([(X >> 1) * 2 - X < -1], Facts({X: (-9, 9)})).unsatisfiable
    assert solver.solve(
        [build.cast(X, np.dtype(bool)), UOp(Op.EQ, (X, const(0, INT32)))], Facts()
    ).unsatisfiable


def test_unsigned_comparisons_bound_both_sides() -> None:
    unsigned = UOp(Op.BITCAST, (X,), UINT32)
    assert solver.solve([unsigned < 7, X < 0], Facts()).unsatisfiable
    assert solver.solve([unsigned < 7, const(6, INT32) < X], Facts()).unsatisfiable
    assert solver.solve([unsigned < 7, const(5, INT32) < X], Facts(), [X]).values == (6,)
    assert solver.solve([const(2**31, UINT32) < unsigned, X < -7], Facts()).unsatisfiable is False


def test_without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)
    with pytest.raises(MissingPackageError, match="z3"):
        solver.solve([], Facts())


def test_threads_ask_at_the_same_time() -> None:
    """Programs may be verified by several threads; z3's terms belong to one of them at a time."""
    i = UOp(Op.RANGE, (), Range(0, 60))

    def ask(n: int) -> list[tuple[int, ...]]:
        """Sums that reach 400 + n at some i."""
        sums = [i * 7 + k for k in range(20)]
        return [
            solver.solve([build.eq(s, const(400 + n, s.dtype))], Facts(), [s]).values for s in sums
        ]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, range(12)))
    assert together == [ask(n) for n in range(12)]
    assert any((400,) in found for found in together)
