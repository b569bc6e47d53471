"""Kernel timer: kernels that fail, crash or hang in the child."""

from __future__ import annotations

from math import inf

import pytest

from tfn.dtypes import FLOAT32
from tfn.hw.cpu.kernel_timer import ChildTimer, _filled
from tfn.hw.cpu.target import host
from tfn.lower.program import Kernel
from tfn.trace.uop import const

HEAD = "define void @kernel(i64 %begin, i64 %end, ptr %operands) {\n"
GOOD = HEAD + "  ret void\n}\n"
ENDLESS = HEAD + "  br label %again\nagain:\n  br label %again\n}\n"
CRASHES = (
    HEAD
    + "  store i8 0, ptr null\n  call void @llvm.trap()\n  ret void\n}\n"
    + ("declare void @llvm.trap()\n")
)
NONSENSE = "no text at all"


def kernel(text: str) -> Kernel:
    return Kernel("kernel", const(0, FLOAT32), (), 1, text, 0)


def test_failed_kernels_are_inf_and_the_next_has_a_new_child() -> None:
    with ChildTimer(host(), timeout_seconds=20) as timer:
        assert 0 < timer.measure(kernel(GOOD), [(8, FLOAT32)]) < 1e9
        child = timer._child
        assert timer.measure(kernel(NONSENSE), []) == inf
        assert timer._child is child
        assert timer.measure(kernel(CRASHES), []) == inf
        assert 0 < timer.measure(kernel(GOOD), []) < 1e9
        timer.timeout_seconds = 0.5
        assert timer.measure(kernel(ENDLESS), []) == inf
    assert timer._child is None


@pytest.mark.parametrize("size", [0, 1, 17])
def test_buffers_of_any_size(size: int) -> None:
    found = _filled(size, FLOAT32)
    assert found.shape == (size,)
    assert size == 0 or found.ctypes.data % 64 == 0
