"""Indices, sorts and reductions beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.ops.cases import F, holds, outputs, ramp

X = ramp(3, 4)


def n(*values: Any) -> Any:
    return np.array(values, np.int64)


CASES: list[tuple[Any, ...]] = [
    (X[[0, -1]], "Gather", X, n(0, -1)),
    (X[[0, 2], [1, 3]], "GatherND", X, n([0, 1], [2, 3])),
    (X[n(0, 2, 1, 0)[None], np.arange(4)], "GatherElements", X, n([0, 2, 1, -3])),
    (X.argmax(0)[None], "ArgMax", X),
    (np.cumsum(X, 1), "CumSum", X, n(1)[0]),
    (X.sum(keepdims=True), "ReduceSum", X),
    (X.max(1, keepdims=True), "ReduceMax", X, n(1)),
    (np.sqrt((X * X).sum(0, keepdims=True)), "ReduceL2", X, n(0)),
    (np.log(np.exp(X).sum(0, keepdims=True)), "ReduceLogSumExp", X, n(0)),
    (np.stack(np.nonzero(X > 0)), "NonZero", X > 0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_values_are_those_of_numpy(case: Any) -> None:
    holds(*case)


def test_updates_are_set_or_combined() -> None:
    x, places = np.zeros(4, F), n([1], [1])
    updates = F([2, 3])
    holds(F([0, 5, 0, 0]), "ScatterND", x, places, updates, reduction="add")
    holds(F([0, 3, 0, 0]), "ScatterND", x, places, updates, reduction="max")
    holds(F([0, 0, 2, 3]), "ScatterElements", x, n(-2, 3), updates)


def test_running_sums_exclude_or_reverse() -> None:
    x = F([1, 2, 3])
    holds(F([0, 1, 3]), "CumSum", x, n(0)[0], exclusive=1)
    holds(F([5, 3, 0]), "CumSum", x, n(0)[0], exclusive=1, reverse=1)
    holds(F([1, 1, 2]), "CumProd", x, n(0)[0], exclusive=1, opset=26)


def test_the_largest_and_smallest_in_order() -> None:
    values, places = outputs("TopK", X, n(2), count=2)
    np.testing.assert_array_equal(values, -np.sort(-X)[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(X, np.asarray(places), 1), values)
    np.testing.assert_array_equal(
        outputs("TopK", X, n(1), count=2, largest=0)[0], X.min(1)[:, None]
    )


def test_distinct_elements_in_order_or_as_they_come() -> None:
    x = F([3, 1, 3, 2])
    values, first, inverse, counts = map(np.asarray, outputs("Unique", x, count=4, sorted=0))
    assert values.tolist() == [3, 1, 2] and first.tolist() == [0, 1, 3]
    assert inverse.tolist() == [0, 1, 0, 2] and counts.tolist() == [2, 1, 1]
    assert outputs("Unique", x, count=4)[0].tolist() == [1, 2, 3]


def test_the_last_of_equal_extremes_if_asked() -> None:
    x = F([[1, 2, 2]])
    assert outputs("ArgMax", x, axis=1, keepdims=0)[0].tolist() == [1]
    assert outputs("ArgMax", x, axis=1, keepdims=0, select_last_index=1)[0].tolist() == [2]


def test_reductions_of_nothing_have_a_neutral_element() -> None:
    empty = np.zeros((2, 0), F)
    assert outputs("ReduceMax", empty, n(1))[0].tolist() == [[-np.inf], [-np.inf]]
    assert outputs("ReduceProd", empty, n(1), keepdims=0)[0].tolist() == [1, 1]


def test_no_axes_reduce_nothing_if_asked() -> None:
    holds(X, "ReduceSum", X, noop_with_empty_axes=1)


def test_one_of_two_values_at_an_index() -> None:
    holds(F([[5, 2, 5], [5, 5, 2]]), "OneHot", n(1, -1), n(3)[0], F([5, 2]))


def test_kept_elements_and_rows_of_a_cache() -> None:
    holds(X[:, [0, 2]], "Compress", X, np.array([True, False, True]), axis=1)
    past, rows = np.zeros((2, 1, 4, 1), F), np.ones((2, 1, 2, 1), F)
    got = outputs("TensorScatter", past, rows, n(0, 3), opset=24, mode="circular")[0]
    assert np.asarray(got)[:, 0, :, 0].tolist() == [[1, 1, 0, 0], [1, 0, 0, 1]]
