"""Loops of assembly code, and how often blocks run."""

from __future__ import annotations

from tests.lower.pack.loops import compiled, loops
from tfn.lower.pack import assembly


def test_a_product_has_its_loop() -> None:
    for architecture in ("hexagon", "x86_64"):
        *_, loop = loops("int8 matmul", architecture)  # after those that pack its operands
        assert loop.name.startswith("loop")
        assert len(loop.body) > 20


def test_loops_that_are_tested_at_their_top_are_whole() -> None:
    (loop,) = loops("int16 axpy", "hexagon")
    texts = [item.text for item in loop.body]
    assert sum("jump" in text for text in texts) == 2  # out of it, and back
    assert any("cmp" in text for text in texts)


def test_trips() -> None:
    ((kernel, text),) = compiled("int8 matmul", "hexagon")
    (loop,) = assembly.divided(text, "hexagon").loops
    counts = assembly.executions(kernel.text, kernel.tiles)
    # 4 rows of 4 vectors of 32 lanes at once.
    assert counts[loop.name] * 4 * 4 * 32 == 64 * 128 * 256
    assert counts["entry"] == 1


def test_bounds_are_computed() -> None:
    text = """
entry:
  %v1 = call i64 @llvm.smin.i64(i64 %end, i64 5)
loop1:
  %i1 = phi i64 [ %begin, %entry ], [ %v4, %exit2 ]
  %go1 = icmp slt i64 %i1, %v1
body1:
  %v2 = add i64 %i1, 1
loop2:
  %i2 = phi i64 [ 0, %body1 ], [ %v3, %loop2 ]
  %v3 = add nsw i64 %i2, 1
  %more = icmp slt i64 %v3, 7
exit2:
  %v4 = add nsw i64 %i1, 1
exit1:
"""
    counts = assembly.executions(text, 20)
    assert counts["body1"] == 5
    assert counts["loop2"] == 35
    assert counts["exit1"] == 1
