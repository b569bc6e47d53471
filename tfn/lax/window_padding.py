"""Padding of windows, in words or in pairs, and the extent of dilated windows."""

from __future__ import annotations

from collections.abc import Sequence

from tfn._support.validate import integers, of_each_axis, several, shown
from tfn.errors import ArgumentError

Pairs = Sequence[tuple[int, int]]


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Returns the padding (low, high) of each axis for 'SAME', 'SAME_LOWER' or 'VALID'.

    'VALID' pads nothing.  'SAME' gives ceil(size / stride) windows; an odd element is padded at the
    end, with 'SAME_LOWER' at the beginning.

    Args:
        in_shape: sizes of the spatial axes.
        window_shape: sizes of the window along them, dilation included.
        window_strides: steps of the window along them, at least 1.
        padding: the word, in capitals or not.

    Raises:
        ArgumentError: for another word.
        ShapeError: if the numbers of axes differ.

    Example:
        >>> padtype_to_pads((8,), (3,), (2,), "SAME")
        [(0, 1)]
    """
    word, rank = str(padding).upper(), len(in_shape)
    if word not in ("SAME", "SAME_LOWER", "VALID"):
        raise ArgumentError(
            "padding is 'SAME', 'SAME_LOWER', 'VALID' or pairs",
            got=f"padding={padding!r}",
            hint="write pairs such as ((1, 1), (0, 2)), low and high of each axis",
        )
    window_shape = of_each_axis("a window", "window_shape", window_shape, rank, 0)
    window_strides = of_each_axis("a window", "window_strides", window_strides, rank)
    if word == "VALID":
        return [(0, 0)] * rank
    totals = [
        max((-(-n // stride) - 1) * stride + window - n, 0)
        for n, window, stride in zip(in_shape, window_shape, window_strides, strict=True)
    ]
    if word == "SAME":
        return [(total // 2, total - total // 2) for total in totals]
    return [(total - total // 2, total // 2) for total in totals]


def pairs_of(name: str, padding: object, rank: int) -> tuple[tuple[int, int], ...]:
    """Returns a padding as a pair (low, high) for each axis.

    Args:
        name: the calling function, for messages.
        padding: as the user passed it.
        rank: number of axes.

    Raises:
        ArgumentError: for something else.
    """
    pairs = [integers(name, "padding", p) for p in several(name, "padding", padding, "pairs")]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ArgumentError(
            f"{name} needs a padding of {rank} pairs, or a word",
            got=f"padding={shown(padding)}",
            hint="write (low, high) for each axis, or 'SAME' or 'VALID'",
        )
    return tuple((low, high) for low, high in pairs)


def dilated(window: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Returns the extent of a window whose elements are spread by a dilation, per axis."""
    return [(n - 1) * d + 1 if n else 0 for n, d in zip(window, dilation, strict=True)]
