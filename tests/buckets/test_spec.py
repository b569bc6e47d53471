"""Declarations: axes by name, and what sizes are rounded up to."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
from tfn.buckets.spec import parsed
from tfn.errors import ArgumentError, ShapeError


@pytest.mark.parametrize(
    ("sizes", "rounded"),
    [
        (2.0, {1: 8, 8: 8, 9: 16, 500: 512}),
        (1.5, {1: 8, 9: 12, 13: 18, 500: 710}),
        ((300, 30, 3), {1: 3, 4: 30, 300: 300}),
        ({"n": (5, 7)}, {1: 5, 6: 7}),
        ({"other": (5, 7)}, {6: 8}),
    ],
)
def test_sizes_are_rounded_up(sizes: Any, rounded: dict[int, int]) -> None:
    buckets = tfn.Buckets({"x": "n"}, sizes)
    assert {n: buckets.rounded("n", n) for n in rounded} == rounded
    for bucket in rounded.values():
        below = buckets.below("n", bucket)
        assert buckets.rounded("n", below + 1) == bucket and below < bucket


@pytest.mark.parametrize("sizes", [1.0, 0, True, (), (3, 0), (2.5,), "2"])
def test_what_is_no_size_is_refused(sizes: Any) -> None:
    with pytest.raises(ArgumentError, match="positive integers, or a factor"):
        tfn.Buckets({"x": "n"}, sizes).rounded("n", 3)


def test_a_size_above_all_buckets_is_refused() -> None:
    with pytest.raises(ShapeError, match="n = 9, and the largest bucket is 8"):
        tfn.Buckets({"x": "n"}, (4, 8)).rounded("n", 9)


def test_texts_name_axes() -> None:
    assert parsed("batch, _ 3 ...") == ["batch", "_", "3", "..."]
    for wrong in ("a-b", "... n", "n*2"):
        with pytest.raises(ArgumentError, match="does not name an axis"):
            parsed(wrong)
