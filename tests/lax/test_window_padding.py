"""Padding of windows in words."""

import pytest

from tfn import lax


@pytest.mark.parametrize(
    ("sizes", "window", "strides", "same", "lower"),
    [
        ((8,), (3,), (1,), [(1, 1)], [(1, 1)]),
        ((8,), (3,), (2,), [(0, 1)], [(1, 0)]),
        ((7,), (2,), (3,), [(0, 1)], [(1, 0)]),
        ((5,), (1,), (2,), [(0, 0)], [(0, 0)]),
    ],
)
def test_padding_in_words(
    sizes: tuple[int], window: tuple[int], strides: tuple[int], same: object, lower: object
) -> None:
    assert lax.padtype_to_pads(sizes, window, strides, "SAME") == same
    assert lax.padtype_to_pads(sizes, window, strides, "SAME_LOWER") == lower
    assert lax.padtype_to_pads(sizes, window, strides, "VALID") == [(0, 0)]
