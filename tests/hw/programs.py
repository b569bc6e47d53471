"""Programs written by hand, in the form that lowering gives them."""

from __future__ import annotations

from tfn.dtypes import FLOAT32
from tfn.lower.kernel import Kernel, Launch, Program, Slot, Space
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
    return Program("main", function([zeros((size,), FLOAT32)], ()), (launch,), (shape,), (shape,),
                   (), 0, 0, SCALE_DRIVER.format(size=size), False)  # fmt: skip
