"""The parts that rules of gather and scatter are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.cases import leaf, run
from tfn.transforms.gather_rules import clamped, inside, last

X = np.zeros((4, 3))


def over(indices: list[Any], dtype: str = "int32") -> tuple[Any, Any]:
    value = np.array(indices, dtype)
    return leaf(value), value


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_clamped(dtype: str) -> None:
    u, value = over([[0], [3], [4], [100]], dtype)
    (found,) = run([clamped(leaf(X), u, (2, 3), 0)], {u: value})
    assert found.tolist() == [[0], [2], [2], [2]] and found.dtype == dtype


def test_clamped_in_an_axis_longer_than_the_index_type() -> None:
    u, value = over([[-5], [100]], "int8")
    (found,) = run([clamped(leaf(np.zeros(1000)), u, (1,), 0)], {u: value})
    assert found.tolist() == [[0], [100]]


def test_inside() -> None:
    u, value = over([[0, 1], [3, 1], [0, 2], [-1, 0]])
    (found,) = run([inside(leaf(X), u, (2, 2), 0)], {u: value})
    assert found[:, 0, 0].tolist() == [True, False, False, False] and found.shape == (4, 2, 2)


def test_last_writer_of_every_element() -> None:
    u, value = over([[0, 0], [0, 0], [2, 0], [1, 0], [3, 0]])
    updates = leaf(np.zeros((5, 2, 1)))
    (found,) = run([last(leaf(X), u, updates, 0)], {u: value})
    # rows 0-1 by the first two, 2-3 by the third, 1-2 by the fourth; the last does not fit
    expected = [[False, False], [True, False], [False, True], [True, True], [False, False]]
    assert found[..., 0].tolist() == expected


def test_last_with_one_point_or_none() -> None:
    u, value = over([1])
    (found,) = run([last(leaf(X), u, leaf(np.zeros((1, 3))), 0)], {u: value})
    assert found.all()
    u, value = leaf(np.zeros((0, 1), np.int32)), np.zeros((0, 1), np.int32)
    assert run([last(leaf(X), u, leaf(np.zeros((0, 1, 3))), 0)], {u: value})[0].shape == (0, 1, 3)
