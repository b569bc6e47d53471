"""Stage printer: all kernels under their headings."""

from __future__ import annotations

from typing import Any

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL


def ranges(f: Any, *shapes: tuple[int, ...]) -> str:
    args = [tfn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return str(tfn.show(f, *args, at="ranges", target=SMALL))


def test_headings_name_results_and_operands() -> None:
    assert ranges(lambda x: x + 1, (4,)).startswith(
        "kernel 0: d:f32[4] <- a:f32[4]\n  for r0 in 4:"
    )


def test_a_scatter_has_two_parts() -> None:
    text = ranges(lambda x: x.at[tnp.array([1])].add(1.0), (4,))
    assert "kernel 0: " in text and "kernel 0, part 2: " in text


def test_a_sort_is_one_line() -> None:
    assert "sort rows of a by 1 key, stable" in ranges(lambda x: tnp.sort(x), (4, 5))


def test_long_headings_are_wrapped() -> None:
    shapes = [(4, 4)] * 12
    text = ranges(lambda *xs: sum(xs[1:], xs[0]), *shapes)
    assert max(map(len, text.splitlines())) <= 110


def test_loops_name_carries_and_slices() -> None:
    def walk(xs: Any, w: Any) -> Any:
        return tfn.lax.scan(lambda c, x: (c @ w, c.sum() * x), w, xs, reverse=True)

    text = ranges(walk, (5,), (4, 4))
    assert text.startswith("scan 0, 5 times, from the last slice: ")
    first, *rest = (line.strip() for line in text.split("\n\n")[0].splitlines()[1:])
    assert first.startswith("carry ") and ": first b, then " in first and ", at last " in first
    assert [line.split()[0] for line in rest] == ["slice", "slices"]
    assert "\n  kernel 0.0: " in text and "\n    for r0 in 4:" in text


def test_branches_name_the_results_of_each_case() -> None:
    def either(x: Any, w: Any) -> Any:
        return tfn.lax.cond(x.sum() > 0, lambda x, w: x @ w, lambda x, w: w, x, w)

    text = ranges(either, (4, 4), (4, 4))
    assert "clamped to 0..1" in text
    assert "\n  case 0: gives b\n" in text and "\n  case 1: gives " in text


def test_equal_kernels_are_printed_once() -> None:
    text = ranges(
        lambda x, w: tfn.lax.fori_loop(0, 3, lambda i, c: (c @ w) @ w, x @ w), (4, 4), (4, 4)
    )
    assert text.count("+=") == 1 and text.count("the same as kernel 0") == 2
