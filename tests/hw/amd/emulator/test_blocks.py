"""Blocks, masks of all lanes, and waits that are missing."""

from __future__ import annotations

import pytest

from tests.hw.amd.devices import needs_llvm
from tests.hw.amd.emulator.assembled import instructions
from tfn.errors import CompileError
from tfn.hw.amd.emulator.blocks import EXEC_REGISTER, check_waits, divided, full_masks

pytestmark = needs_llvm
LOOP = """
s_mov_b32 s0, 4
v_mov_b32 v1, 0
s_add_u32 s0, s0, -1
s_cmp_lg_u32 s0, 0
s_cbranch_scc1 0xfffd
s_endpgm
"""


def test_a_loop_is_three_blocks() -> None:
    blocks = divided(instructions(LOOP))
    assert {at: block.after for at, block in blocks.items()} == {0: (8,), 8: (8, 20), 20: ()}


def test_a_branch_to_no_instruction_is_refused() -> None:
    with pytest.raises(CompileError, match="goes to no instruction"):
        divided(instructions("s_branch 0x40\ns_endpgm"))


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        ("v_mov_b32 v1, 0", True),
        ("v_cmpx_lt_i32 v1, v2", False),
        ("s_and_saveexec_b32 s0, vcc_lo", False),
        ("s_and_saveexec_b32 s0, vcc_lo\ns_or_b32 exec_lo, exec_lo, s0", True),
        ("s_and_saveexec_b32 s0, vcc_lo\ns_mov_b32 s0, 1\ns_or_b32 exec_lo, exec_lo, s0", False),
        ("s_mov_b32 s3, exec_lo\nv_cmpx_lt_i32 v1, v2\ns_mov_b32 exec_lo, s3", True),
        ("v_cmpx_lt_i32 v1, v2\ns_mov_b32 exec_lo, -1", True),
    ],
)
def test_a_mask_of_all_lanes_is_known_until_it_changes(lines: str, known: bool) -> None:
    blocks = divided(instructions(f"{lines}\ns_branch 0\ns_endpgm"))
    last = max(blocks)
    assert (EXEC_REGISTER in full_masks(blocks, full=True)[last]) == known
    assert EXEC_REGISTER not in full_masks(blocks, full=False)[0]


LOADS = {
    "global": ("global_load_b32 v1, v0, s[2:3]", "v_mov_b32 v2, v1", "s_waitcnt vmcnt(0)"),
    "scalar": ("s_load_b32 s4, s[2:3], null", "s_mov_b32 s5, s4", "s_waitcnt lgkmcnt(0)"),
    "group": ("ds_load_b32 v1, v0", "v_mov_b32 v2, v1", "s_waitcnt lgkmcnt(0)"),
    "overwritten": ("global_load_b32 v1, v0, s[2:3]", "v_mov_b32 v1, 0", "s_waitcnt vmcnt(0)"),
    "barrier": ("ds_store_b32 v0, v1", "s_barrier", "s_waitcnt lgkmcnt(0)"),
    "flat": ("flat_load_b32 v1, v[2:3]", "v_mov_b32 v2, v1", "s_waitcnt vmcnt(0) lgkmcnt(0)"),
}


@pytest.mark.parametrize("kind", LOADS)
def test_a_missing_wait_is_named_with_its_load(kind: str) -> None:
    load, use, wait = LOADS[kind]
    check_waits(divided(instructions(f"{load}\n{wait}\n{use}\ns_endpgm")))
    name = load.split()[0]
    for other in ("s_nop 0", "s_waitcnt vmcnt(1)", "s_waitcnt lgkmcnt(1)"):
        with pytest.raises(CompileError, match="a wait is missing") as info:
            check_waits(divided(instructions(f"{load}\n{other}\n{use}\ns_endpgm")))
        assert f"by {name} at byte 0x0" in str(info.value)


def test_loads_of_one_counter_are_waited_for_in_order() -> None:
    two = "global_load_b32 v1, v0, s[2:3]\nglobal_load_b32 v2, v0, s[2:3]\ns_waitcnt vmcnt(1)\n"
    check_waits(divided(instructions(two + "v_mov_b32 v3, v1\ns_endpgm")))
    with pytest.raises(CompileError, match="a wait is missing"):
        check_waits(divided(instructions(two + "v_mov_b32 v3, v2\ns_endpgm")))


def test_a_wait_that_one_path_lacks_is_missing() -> None:
    lines = """
    global_load_b32 v1, v0, s[2:3]
    s_cbranch_scc1 1
    s_waitcnt vmcnt(0)
    v_mov_b32 v2, v1
    s_endpgm
    """
    with pytest.raises(CompileError, match="a wait is missing"):
        check_waits(divided(instructions(lines)))
    check_waits(divided(instructions(lines.replace("scc1 1", "scc1 0"))))
