"""Preludes: what is computed of captured arrays alone, what stays, and that both mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.graphs import draw, jaxpr, p, run_oracle
from tfn.lower.fuse import prelude
from tfn.lower.fuse.prelude import split
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def barrier(u: UOp, number: int, *waits: UOp) -> UOp:
    return UOp(Op.GBARRIER, (u, *waits), number)


X, W = p(0, 5, 4), p(1, 6, 4)
COPY = barrier(build.permute(W, (1, 0)), 0)
PRODUCT = barrier(build.dot(X, COPY, ((1,), (0,))), 1)


def test_a_copy_of_a_captured_array_becomes_a_parameter() -> None:
    function = jaxpr([PRODUCT]).function
    reduced, early = split(function, 1)
    assert early is not None and [u.shape for u in early.src] == [(4, 6)]
    assert [q.shape for q in early.arg.params] == [(6, 4)]
    assert [q.shape for q in reduced.arg.params] == [(5, 4), (6, 4), (4, 6)]
    data = [draw(u.shape, u.dtype) for u in (X, W)]
    made = run_oracle(early.src, data[1:])
    got, want = run_oracle(reduced.src, [*data, *made]), run_oracle(function.src, data)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("output", "first"),
    [
        (PRODUCT, 2),
        (PRODUCT.src[0].src[1].src[0], 1),
        (barrier(X + 1.0, 0), 1),
        (barrier(PRODUCT + 1.0, 2, COPY), 1),
        (COPY, 1),
        (build.reshape(COPY, (3, 8)), 1),
    ],
    ids=[
        "no array is captured",
        "nothing is stored",
        "an argument",
        "another kernel waits for it",
        "a result",
        "a result in another shape",
    ],
)
def test_what_stays(output: UOp, first: int) -> None:
    function = jaxpr([output]).function
    assert split(function, first) == (function, None)


def test_what_a_prelude_reads_is_computed_in_it(monkeypatch: Any) -> None:
    """Of values that follow from each other, those alone are kept that the program reads."""
    scaled = barrier(build.permute(barrier(W * 2.0, 0), (1, 0)), 1)
    function = jaxpr([barrier(build.dot(X, scaled, ((1,), (0,))), 2)]).function
    _, early = split(function, 1)
    assert early is not None and [u.shape for u in early.src] == [(4, 6)]
    monkeypatch.setattr(prelude, "MAX_PRELUDE_BYTES", 100)  # one of the two
    _, early = split(function, 1)
    assert early is not None and [u.shape for u in early.src] == [(6, 4)]
