"""All kernels under their headings."""

from __future__ import annotations

from typing import Any

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL


def ranges(f: Any, *shapes: tuple[int, ...]) -> str:
    args = [tfn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return str(tfn.show(f, *args, at="ranges", target=SMALL))


def test_headings_name_what_is_written_and_read() -> None:
    assert ranges(lambda x: x + 1, (4,)).startswith(
        "kernel 0: d:f32[4] <- a:f32[4]\n  for r0 in 4:"
    )


def test_a_scatter_has_two_parts() -> None:
    text = ranges(lambda x: x.at[tnp.array([1])].add(1.0), (4,))
    assert "kernel 0: " in text and "kernel 0, part 2: " in text


def test_a_sort_is_one_line() -> None:
    assert "sort rows of a by 1 key, stable" in ranges(lambda x: tnp.sort(x), (4, 5))


def test_long_headings_go_on_in_the_next_line() -> None:
    shapes = [(4, 4)] * 12
    text = ranges(lambda *xs: sum(xs[1:], xs[0]), *shapes)
    assert max(map(len, text.splitlines())) <= 110
