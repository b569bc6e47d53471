"""Questions to z3, against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.lower.graphs import p
from tests.lower.indices import RANGES, predicates
from tfn.dtypes import INT32, INT64
from tfn.errors import MissingPackageError
from tfn.lower.index import solver
from tfn.lower.index.intervals import Facts
from tfn.trace import build
from tfn.trace.argument import Access
from tfn.trace.interpreter import values
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = UOp(Op.LOAD, (p(0, 4, dtype=INT32), const(0, INT64)), Access(0, 1, 0))


@given(predicates(3), predicates(3))
def test_two_conditions(a: UOp, b: UOp) -> None:
    found = solver.holds([a, b], Facts(), [])
    (both,) = values([a & b], RANGES)
    if found.never:
        assert not both.any()
    elif found.at is not None and all(u.op is Op.RANGE for u in found.at):
        assert both[tuple(found.at.get(r, 0) for r in RANGES)]


def test_what_wraps_around_may_be_anything() -> None:
    assert solver.holds([X + 1 < X], Facts()).never is False
    wide = build.cast(X, INT64)
    assert solver.holds([wide + 1 < wide], Facts()).never
    assert not solver.holds([build.cast(wide + 1, INT32) < X], Facts()).never
    assert not solver.holds([build.cast(wide + 1, INT32) < -100], Facts()).never


def test_what_is_given() -> None:
    facts = Facts({X: (3, 5)})
    assert solver.holds([X < 3], facts).never
    assert solver.holds([X < 4], facts, [X, X * 2]).values == (3, 6)


def test_shifts_and_truths() -> None:
    a, b = X < 3, const(5, INT32) < X
    assert solver.holds([a & b], Facts()).never and solver.holds([a ^ a], Facts()).never
    assert solver.holds([build.minimum(a, b)], Facts()).never
    assert solver.holds([X * 4 - (X << 2) < 0], Facts({X: (0, 9)})).never
    assert solver.holds([(X >> 1) * 2 - X < -1], Facts({X: (-9, 9)})).never
    assert solver.holds(
        [build.cast(X, np.dtype(bool)), UOp(Op.EQ, (X, const(0, INT32)))], Facts()
    ).never


def test_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)
    with pytest.raises(MissingPackageError, match="z3"):
        solver.holds([], Facts())
