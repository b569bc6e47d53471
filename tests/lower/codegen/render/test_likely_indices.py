"""Indices that are compared before they are changed: the same elements, by one comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.lower.codegen.render.likely_indices import compared_first

CLAMPED = """define void @f(ptr %x, i32 %i) {
entry:
  %a = icmp slt i32 %i, 0
  %b = add i32 %i, 10
  %c = select i1 %a, i32 %b, i32 %i
  %d = sext i32 %c to i64
  %e = call i64 @llvm.smax.i64(i64 %d, i64 0)
  %f = call i64 @llvm.smin.i64(i64 %e, i64 9)
  br label %loop1
loop1:
  %k = phi i64 [ %f, %entry ], [ %n, %loop1 ]
  %n = add i64 %k, 1
  br label %loop1
}
"""


def test_a_clamped_index_is_compared_first() -> None:
    text = compared_first(CLAMPED)
    assert "%in.f = icmp ult i32 %i, 10" in text
    assert "br i1 %in.f, label %within.f, label %beyond.f, !prof" in text
    assert "%f = phi i64 [ %wide.f, %entry ], [ %changed.f, %beyond.f ]" in text
    assert "%k = phi i64 [ %f, %within.f ], [ %n, %loop1 ]" in text


def test_other_text_stays_as_it_is() -> None:
    text = "define void @f() {\nentry:\n  %a = icmp slt i32 7, 9\n  ret void\n}\n"
    assert compared_first(text) == text


@pytest.mark.parametrize("first", [-25, -12, -3, 0, 4])
@pytest.mark.parametrize("step", [1, 3, -2])
def test_indices_in_loops_are_those_of_numpy(first: int, step: int) -> None:
    """Reads are clamped, and writes beyond the end are left out."""

    @tfn.jit
    def run(x: Any, start: Any) -> Any:
        def body(_: Any, s: Any) -> Any:
            x, i = s
            return x.at[i].add(1 + x[i + 1]), i + step

        return lax.fori_loop(0, 200, body, (x, start))[0]

    x, i = np.arange(9, dtype=np.int32), first
    expected = x.copy()
    for _ in range(200):
        read = i + 1 + (9 if i + 1 < 0 else 0)
        write = i + (9 if i < 0 else 0)
        if 0 <= write < 9:
            expected[write] += 1 + expected[np.clip(read, 0, 8)]
        i += step
    assert run(tnp.asarray(x), first).tolist() == expected.tolist()
