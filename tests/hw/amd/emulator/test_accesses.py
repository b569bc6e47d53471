"""Loads and stores: each size, sign and half, run on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.hw.amd.devices import needs_llvm
from tests.hw.amd.emulator.runs import run

pytestmark = needs_llvm
BYTES = np.arange(1024, dtype=np.uint8) * 37 + 11
LANE = np.arange(32)


def words(form: str, offset: int = 0) -> Any:
    """The number of a type at each lane's four bytes."""
    size = np.dtype(form).itemsize
    parts = [BYTES[4 * n + offset : 4 * n + offset + size].view(form)[0] for n in LANE]
    return np.array(parts)


# fmt: off
LOADS = {
    "global_load_u8": words("u1"), "global_load_i8": words("i1"), "global_load_u16": words("<u2"),
    "global_load_i16": words("<i2"), "global_load_b32": words("<u4"),
    "global_load_d16_b16": words("<u2"), "global_load_d16_u8": words("u1"),
    "global_load_d16_i8": words("i1").astype("i2").view("u2"),
}
# fmt: on


@pytest.mark.parametrize("name", LOADS)
def test_a_load_extends_what_it_loads(name: str) -> None:
    lines = f"v_mov_b32 v3, 0\n{name} v3, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    got = run(lines, 3, memory=BYTES)
    np.testing.assert_array_equal(got, LOADS[name].astype(np.int64) & 0xFFFFFFFF)


@pytest.mark.parametrize("name", ["global_load_d16_hi_b16", "global_load_d16_hi_u8"])
def test_a_load_of_an_upper_half_keeps_the_lower_one(name: str) -> None:
    lines = f"v_mov_b32 v3, 0x1234\n{name} v3, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    expected = words("u1" if "u8" in name else "<u2").astype(np.uint32) << 16 | 0x1234
    np.testing.assert_array_equal(run(lines, 3, memory=BYTES), expected)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_load_of_several_words_fills_as_many_registers(count: int) -> None:
    load = f"global_load_b{32 * count} v[4:{3 + count}], v1, s[2:3] offset:4\ns_waitcnt vmcnt(0)\n"
    for i in range(count):
        got = run(load, 4 + i, memory=BYTES)
        expected = [BYTES[4 * (n + 1 + i) : 4 * (n + 2 + i)].view("<u4")[0] for n in LANE]
        np.testing.assert_array_equal(got, expected)


# fmt: off
GROUP = {
    "two": ("ds_store_2addr_b32 v1, v0, v1 offset0:0 offset1:32",
            "ds_load_2addr_b32 v[4:5], v1 offset0:32 offset1:0"),
    "far": ("ds_store_2addr_stride64_b32 v1, v0, v1 offset0:0 offset1:1",
            "ds_load_2addr_stride64_b32 v[4:5], v1 offset0:1 offset1:0"),
}
# fmt: on


@pytest.mark.parametrize("kind", GROUP)
def test_two_words_of_the_group_at_once(kind: str) -> None:
    store, load = GROUP[kind]
    wait = "\ns_waitcnt lgkmcnt(0)\n"
    lines = store + wait + load + wait
    np.testing.assert_array_equal(run(lines, 4, group_bytes=1024), 4 * LANE)
    np.testing.assert_array_equal(run(lines, 5, group_bytes=1024), LANE)


@pytest.mark.parametrize(
    ("store", "load", "mask"),
    [
        ("ds_store_b8", "ds_load_u8", 0xFF),
        ("ds_store_b16", "ds_load_u16", 0xFFFF),
        ("ds_store_b32", "ds_load_b32", 0xFFFFFFFF),
    ],
)
def test_a_store_to_the_group_keeps_its_bytes(store: str, load: str, mask: int) -> None:
    wait = "s_waitcnt lgkmcnt(0)\n"
    lines = f"v_mul_u32_u24 v2, 0x12345, v0\n{store} v1, v2\n{wait}{load} v3, v1\n{wait}"
    np.testing.assert_array_equal(run(lines, 3, group_bytes=256), (0x12345 * LANE) & mask)


def test_memory_of_a_thread_by_its_own_instructions() -> None:
    lines = """
    scratch_store_b32 off, v0, off offset:8
    s_waitcnt_vscnt null, 0
    scratch_load_b32 v3, off, off offset:8
    s_waitcnt vmcnt(0)
    """
    np.testing.assert_array_equal(run(lines, 3, private_bytes=16), LANE)
