"""Instructions that do something with several lanes, or with the mask of lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hw.amd.devices import needs_llvm
from tests.hw.amd.emulator.runs import run

pytestmark = needs_llvm
LANE = np.arange(32, dtype=np.uint32)
ODD = "v_and_b32 v2, 1, v0\nv_cmpx_eq_u32 1, v2\n"
ALL = "\ns_mov_b32 exec_lo, -1\n"


def test_results_are_those_of_the_lanes_that_run() -> None:
    got = run(f"v_mov_b32 v3, 7\n{ODD}v_add_nc_u32 v3, v0, v0{ALL}", 3)
    np.testing.assert_array_equal(got, np.where(LANE & 1, 2 * LANE, 7))


# fmt: off
MASKS = {
    "s_and_saveexec_b32": lambda s, e: s & e, "s_or_saveexec_b32": lambda s, e: s | e,
    "s_xor_saveexec_b32": lambda s, e: s ^ e, "s_nand_saveexec_b32": lambda s, e: ~(s & e),
    "s_nor_saveexec_b32": lambda s, e: ~(s | e), "s_xnor_saveexec_b32": lambda s, e: ~(s ^ e),
    "s_and_not0_saveexec_b32": lambda s, e: e & ~s, "s_and_not1_saveexec_b32": lambda s, e: s & ~e,
    "s_or_not0_saveexec_b32": lambda s, e: e | ~s, "s_or_not1_saveexec_b32": lambda s, e: s | ~e,
    "s_and_not0_wrexec_b32": lambda s, e: e & ~s, "s_and_not1_wrexec_b32": lambda s, e: s & ~e,
}
# fmt: on


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_saved_and_changed(name: str) -> None:
    """The word and the mask are constants, or come from comparisons: both ways of masks."""
    s, e, ones = 0x0FF00FF3, 0x3C3CA5A5, 0xFFFFFFFF
    begin = f"s_mov_b32 s8, {s:#x}\ns_mov_b32 exec_lo, {e:#x}\n"
    lanes = "v_lshrrev_b32 v4, v0, s8\nv_and_b32 v4, 1, v4\nv_cmp_eq_u32 vcc_lo, 1, v4\n"
    for lines, word in (
        (begin + f"{name} s9, s8\n", s),
        (begin + lanes + f"{name} s9, vcc_lo\n", s & e),
    ):
        now = MASKS[name](word, e) & ones
        before = now if "wrexec" in name else e
        mask = run(lines + f"s_mov_b32 s10, exec_lo{ALL}v_mov_b32 v3, s10\n", 3)
        saved = run(lines + f"s_nop 0{ALL}v_mov_b32 v3, s9\n", 3)
        code = run(lines + f"s_cselect_b32 s10, 1, 0{ALL}v_mov_b32 v3, s10\n", 3)
        assert (int(mask[0]), int(saved[0]), int(code[0])) == (now, before, int(now != 0))


def test_values_of_single_lanes() -> None:
    first = run(f"{ODD}v_readfirstlane_b32 s8, v0{ALL}v_mov_b32 v3, s8\n", 3)
    assert set(first) == {1}
    third = run("s_mov_b32 s9, 35\nv_readlane_b32 s8, v0, s9\nv_mov_b32 v3, s8\n", 3)
    assert set(third) == {3}  # the lane is taken modulo 32
    written = run("v_mov_b32 v3, 9\nv_writelane_b32 v3, 5, 4\n", 3)
    np.testing.assert_array_equal(written, np.where(LANE == 4, 5, 9))


def test_a_swap_changes_both() -> None:
    lines = "v_mov_b32 v3, 7\nv_swap_b32 v3, v0\n"
    np.testing.assert_array_equal(run(lines, 3), LANE)
    assert set(run(lines, 0)) == {7}


def test_both_instructions_of_a_pair_read_before_they_write() -> None:
    lines = "v_mov_b32 v2, 7\nv_mov_b32 v3, 8\nv_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2\n"
    assert (set(run(lines, 2)), set(run(lines, 3))) == ({8}, {7})
