"""The machine: what kernels compute, and the faults of those that are wrong on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.hw.amd.devices import image
from tfn.errors import CompileError, DeviceError
from tfn.hw.amd.emulator.machine import Machine
from tfn.lower.codegen.render.amdgcn import UNUSED

UNUSED_TEXT = " ".join(f'"amdgpu-no-{what}"' for what in UNUSED)
HEAD = (
    "define amdgpu_kernel void @k(ptr addrspace(1) %p0, ptr addrspace(1) %p1) "
    f'"amdgpu-flat-work-group-size"="THREADS,THREADS" {UNUSED_TEXT} {{\n'
)
FOOT = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare i32 @llvm.amdgcn.permlanex16(i32, i32, i32, i32, i1, i1)
declare i32 @llvm.amdgcn.readlane.i32(i32, i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
"""
NUMBERS = """
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %begin = mul i32 %g, THREADS
  %i = add i32 %begin, %t
  %from = getelementptr i32, ptr addrspace(1) %p1, i32 %i
  %to = getelementptr i32, ptr addrspace(1) %p0, i32 %i
"""


def text_of(before: str, body: str, threads: int) -> str:
    """A kernel by what stands before it, and its lines."""
    return (before + HEAD + NUMBERS + body + "  ret void\n}" + FOOT).replace(
        "THREADS", str(threads)
    )


def ran(body: str, x: np.ndarray[Any, Any], groups: int, threads: int, before: str = "") -> Any:
    """The words that a kernel writes, from words that it reads."""
    text = (before + HEAD + NUMBERS + body + "  ret void\n}" + FOOT).replace(
        "THREADS", str(threads)
    )
    code, machine = image(text), Machine(level=0)
    y = np.zeros_like(x)
    machine.allocations = {a.ctypes.data: a.nbytes for a in (x, y)}
    machine.launch(code, "k", groups, threads, [y.ctypes.data, x.ctypes.data])
    return y


def mapped(line: str) -> str:
    """A kernel that maps each word by a line from x to y."""
    return (
        f"  %x = load i32, ptr addrspace(1) %from\n{line}\n  store i32 %y, ptr addrspace(1) %to\n"
    )


@pytest.mark.parametrize("threads", [1, 5, 32, 33, 64, 100])
def test_all_threads_of_all_groups_run(threads: int) -> None:
    x = np.arange(3 * threads, dtype=np.int32)
    np.testing.assert_array_equal(ran(mapped("  %y = mul i32 %x, 3"), x, 3, threads), 3 * x)


def exchanged(kind: int) -> str:
    arguments = f"i32 0, i32 %x, i32 {kind}, i32 15, i32 15, i1 true"
    return f"  %y = call i32 @llvm.amdgcn.update.dpp.i32({arguments})"


LANE = np.arange(64)
OTHER_ROW = "i32 1985229328, i32 -19088744, i1 false, i1 false"
# fmt: off
EXCHANGES = [
    (exchanged(0x160 + 3), LANE ^ 3),                        # row_xmask
    (exchanged(0b00_01_10_11), LANE ^ 3),                    # quad_perm
    (exchanged(0x141), (LANE & ~7) + 7 - (LANE & 7)),        # row_half_mirror
    (exchanged(0x140), (LANE & ~15) + 15 - (LANE & 15)),     # row_mirror
    (exchanged(0x120 + 5), (LANE & ~15) + (LANE - 5 & 15)),  # row_ror
    (exchanged(0x150 + 9), (LANE & ~15) + 9),                # row_share
    (exchanged(0x100 + 2), np.where((LANE & 15) < 14, LANE + 2, -1)),  # row_shl
    (exchanged(0x110 + 1), np.where((LANE & 15) > 0, LANE - 1, -1)),   # row_shr
    (f"  %y = call i32 @llvm.amdgcn.permlanex16(i32 %x, i32 %x, {OTHER_ROW})", LANE ^ 16),
    ("  %y = call i32 @llvm.amdgcn.readlane.i32(i32 %x, i32 7)", (LANE & ~31) + 7),
    ("  %s = shl i32 %t, 3\n  %y = call i32 @llvm.amdgcn.ds.bpermute(i32 %s, i32 %x)",
     (LANE & ~31) + (2 * LANE & 31)),
]
# fmt: on


@pytest.mark.parametrize(("line", "source"), EXCHANGES)
def test_lanes_exchange_values(line: str, source: np.ndarray[Any, Any]) -> None:
    x = np.random.default_rng(0).integers(1, 1000, 64).astype(np.int32)
    got = ran(mapped(line), x, 1, 64)
    np.testing.assert_array_equal(got, np.where(source < 0, 0, x[source]))


REVERSED = """
  %x = load i32, ptr addrspace(1) %from
  %in = getelementptr i32, ptr addrspace(3) @local, i32 %t
  store i32 %x, ptr addrspace(3) %in
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = sub i32 127, %t
  %out = getelementptr i32, ptr addrspace(3) @local, i32 %other
  %y = load i32, ptr addrspace(3) %out
  store i32 %y, ptr addrspace(1) %to
"""
LOCAL = "@local = internal addrspace(3) global [128 x i32] poison\n"


def test_waves_of_a_group_wait_for_each_other() -> None:
    x = np.arange(256, dtype=np.int32)
    got = ran(REVERSED, x, 2, 128, LOCAL)
    np.testing.assert_array_equal(got, x.reshape(2, 128)[:, ::-1].reshape(-1))


def test_memory_of_a_thread_is_its_own() -> None:
    body = """
  %x = load i32, ptr addrspace(1) %from
  %own = alloca [64 x i32], addrspace(5)
  %at = and i32 %x, 63
  %in = getelementptr i32, ptr addrspace(5) %own, i32 %at
  store volatile i32 %x, ptr addrspace(5) %in
  %y = load volatile i32, ptr addrspace(5) %in
  store i32 %y, ptr addrspace(1) %to
"""
    x = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(ran(body, x, 1, 64), x)


def loaded_from(offset: int) -> str:
    """A kernel that loads words at an offset, in bytes."""
    at = f"  %at = getelementptr i8, ptr addrspace(1) %from, i32 {offset}\n"
    return mapped(at + "  %y = load i32, ptr addrspace(1) %at")


@pytest.mark.parametrize(
    ("body", "what", "where"),
    [
        (loaded_from(1 << 20), "load", "device outside"),
        (loaded_from(512), "load", "device outside"),  # the first word behind the block
        (loaded_from(2), "load", "not aligned"),
        (mapped("  %y = add i32 %x, 1").replace("%to", "null"), "store", "device outside"),
        (REVERSED.replace("sub i32 127", "add i32 127"), "ds_load", "memory of the group outside"),
    ],
)
def test_an_access_outside_of_memory_is_named(body: str, what: str, where: str) -> None:
    x = np.arange(128, dtype=np.int32)
    message = rf"{what}\w* at byte 0x\w+ of the kernel k .*{where}"
    with pytest.raises(DeviceError, match=message) as info:
        ran(body, x, 1, 128, LOCAL)
    assert "lane" in str(info.value) and "group 0" in str(info.value)


def test_a_kernel_that_never_ends_stops_at_its_first_fault() -> None:
    body = "  br label %l\nl:\n  store volatile i32 1, ptr addrspace(1) null\n  br label %l\nz:\n"
    with pytest.raises(DeviceError, match="store_b32 at byte"):
        ran(body, np.zeros(32, np.int32), 1, 32)


def test_a_missing_wait_is_found_without_running() -> None:
    """The waits of a kernel are changed to none."""
    code = image(text_of("", mapped("  %y = mul i32 %x, 3"), 32))
    kernel = code.kernels["k"]
    data = code.data.replace(b"\xf7\x03\x89\xbf", b"\x00\x00\x80\xbf")  # vmcnt(0): s_nop
    assert data != code.data
    changed = type(code)(code.architecture, data, code.kernels)
    with pytest.raises(
        CompileError, match=r"a wait is missing: v_.* a load of it may be in flight"
    ):
        Machine(level=0).compiled(changed, kernel, full=True)
