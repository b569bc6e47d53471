"""Hand-written programs in the form that lowering produces."""

from __future__ import annotations

from tfn.dtypes import FLOAT32
from tfn.lower.program import Kernel, Launch, Program, Slot, Space
from tfn.trace.build import zeros
from tfn.trace.jaxpr import function

SCALE = """
define void @scale(i64 %begin, i64 %end, ptr %operands) {
entry:
  %in = load ptr, ptr %operands
  %second = getelementptr ptr, ptr %operands, i64 1
  %out = load ptr, ptr %second
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
  %from = getelementptr float, ptr %in, i64 %i
  %to = getelementptr float, ptr %out, i64 %i
  %x = load float, ptr %from
  %y = fmul float %x, 3.0
  store float %y, ptr %to
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}
"""
SCALE_DRIVER = """
declare void @scale(i64, i64, ptr)
define void @main(i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync) {{
  call void @scale(i64 0, i64 {size}, ptr %buffers)
  ret void
}}
"""


def scale(size: int) -> Program:
    """``x * 3`` for `size` float32, on one thread."""
    kernel = Kernel("scale", zeros((), FLOAT32), (), size, SCALE, 1000)
    launch = Launch(kernel, (Slot(Space.INPUT, 0), Slot(Space.OUTPUT, 0)), False)
    shape = ((size,), FLOAT32)
    return Program(
        "main",
        function([zeros((size,), FLOAT32)], ()),
        (launch,),
        1000,
        (shape,),
        (shape,),
        (),
        0,
        0,
        SCALE_DRIVER.format(size=size),
        False,
    )


PARTIAL = """
define void @partial(i64 %begin, i64 %end, ptr %operands) {
entry:
  %in = load ptr, ptr %operands
  %second = getelementptr ptr, ptr %operands, i64 1
  %out = load ptr, ptr %second
  br label %tiles
tiles:
  %tile = phi i64 [%begin, %entry], [%tile1, %store]
  %some = icmp slt i64 %tile, %end
  br i1 %some, label %tile_start, label %exit
tile_start:
  %start = mul i64 %tile, 64
  %stop = add i64 %start, 64
  br label %loop
loop:
  %i = phi i64 [%start, %tile_start], [%i1, %loop]
  %sum = phi float [0.0, %tile_start], [%sum1, %loop]
  %at = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %at
  %sum1 = fadd float %sum, %x
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %stop
  br i1 %more, label %loop, label %store
store:
  %to = getelementptr float, ptr %out, i64 %tile
  store float %sum1, ptr %to
  %tile1 = add i64 %tile, 1
  br label %tiles
exit:
  ret void
}
"""
TOTAL = """
define void @total(i64 %begin, i64 %end, ptr %operands) {{
entry:
  %in = load ptr, ptr %operands
  %second = getelementptr ptr, ptr %operands, i64 1
  %out = load ptr, ptr %second
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %sum = phi float [0.0, %entry], [%sum1, %loop]
  %at = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %at
  %sum1 = fadd float %sum, %x
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, {tiles}
  br i1 %more, label %loop, label %exit
exit:
  store float %sum1, ptr %out
  ret void
}}
"""
# sync: the number of the next tile, and 64 bytes on, how many threads are at the barrier.
SUM_DRIVER = """
declare void @partial(i64, i64, ptr)
declare void @total(i64, i64, ptr)
declare i32 @sched_yield()

define void @summed(i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync) {{
entry:
  %first = alloca [2 x ptr]
  %second = alloca [2 x ptr]
  %x = load ptr, ptr %buffers
  %y_at = getelementptr ptr, ptr %buffers, i64 1
  %y = load ptr, ptr %y_at
  store ptr %x, ptr %first
  %first1 = getelementptr ptr, ptr %first, i64 1
  store ptr %arena, ptr %first1
  store ptr %arena, ptr %second
  %second1 = getelementptr ptr, ptr %second, i64 1
  store ptr %y, ptr %second1
  br label %take
take:
  %tile = atomicrmw add ptr %sync, i64 1 monotonic
  %some = icmp slt i64 %tile, {tiles}
  br i1 %some, label %run, label %barrier
run:
  %next = add i64 %tile, 1
  call void @partial(i64 %tile, i64 %next, ptr %first)
  br label %take
barrier:
  %count = getelementptr i8, ptr %sync, i64 64
  %before = atomicrmw add ptr %count, i64 1 acq_rel
  br label %wait
wait:
  %here = load atomic i64, ptr %count acquire, align 8
  %all = icmp eq i64 %here, %threads
  br i1 %all, label %through, label %yield
yield:
  call i32 @sched_yield()
  br label %wait
through:
  %mine = icmp eq i64 %thread, 0
  br i1 %mine, label %last, label %exit
last:
  call void @total(i64 0, i64 1, ptr %second)
  store i64 %threads, ptr %sync
  %threads_at = getelementptr float, ptr %y, i64 1
  %threads_i = trunc i64 %threads to i32
  store i32 %threads_i, ptr %threads_at
  br label %exit
exit:
  ret void
}}
"""


def summed(tiles: int, work: int = 10_000_000) -> Program:
    """The sum of 64 * `tiles` float32 on all threads, and beside it how many threads there were."""
    partial = Kernel("partial", zeros((), FLOAT32), (), tiles, PARTIAL, work)
    total = Kernel("total", zeros((), FLOAT32), (), 1, TOTAL.format(tiles=tiles), 1)
    x, y, arena = Slot(Space.INPUT, 0), Slot(Space.OUTPUT, 0), Slot(Space.ARENA, 0)
    launches = Launch(partial, (x, arena), False), Launch(total, (arena, y), True)
    return Program(
        "summed",
        function([zeros((2,), FLOAT32)], ()),
        launches,
        work,
        (((64 * tiles,), FLOAT32),),
        (((2,), FLOAT32),),
        (),
        4 * tiles,
        128,
        SUM_DRIVER.format(tiles=tiles),
        True,
    )
