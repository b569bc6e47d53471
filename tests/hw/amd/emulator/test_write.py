"""The writer: loops, branches of lanes, and registers that live through them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hw.amd.devices import needs_llvm
from tests.hw.amd.emulator.runs import HEAD, image_of, run
from tfn.hw.amd.emulator.machine import Machine

pytestmark = needs_llvm
LANE = np.arange(32)


def test_lanes_leave_a_loop_one_by_one() -> None:
    """Each lane adds as many threes as its number says."""
    lines = """
    v_mov_b32 v3, 0
    v_mov_b32 v2, 0
    s_mov_b32 s8, exec_lo
    v_cmpx_lt_u32 v2, v0
    s_cbranch_execz 4
    v_add_nc_u32 v3, 3, v3
    v_add_nc_u32 v2, 1, v2
    v_cmpx_lt_u32 v2, v0
    s_cbranch_execnz 0xfffc
    s_mov_b32 exec_lo, s8
    """
    np.testing.assert_array_equal(run(lines, 3), 3 * LANE)


def test_a_scalar_lives_through_a_loop() -> None:
    lines = """
    s_mov_b32 s8, 5
    s_mov_b32 s9, 1
    s_mul_i32 s9, s9, 3
    s_add_u32 s8, s8, -1
    s_cmp_lg_u32 s8, 0
    s_cbranch_scc1 0xfffc
    v_mov_b32 v3, s9
    """
    assert set(run(lines, 3)) == {243}


@pytest.mark.parametrize("values", [1, 40])
def test_many_values_live_from_a_barrier_to_its_end(values: int) -> None:
    """Vectors and scalars, each with its own value, are summed after a barrier."""
    sets = "".join(
        f"v_mov_b32 v{4 + i}, {i + 1}\ns_mov_b32 s{20 + i}, {i}\n" for i in range(values)
    )
    sums = "".join(f"v_add3_u32 v3, v3, v{4 + i}, s{20 + i}\n" for i in range(values))
    lines = f"{sets}v_mov_b32 v3, v0\ns_cmp_eq_u32 s20, s20\ns_barrier\n{sums}"
    lines += "s_cselect_b32 s8, 1000, 0\nv_add_nc_u32 v3, s8, v3\n"
    np.testing.assert_array_equal(run(lines, 3), LANE + values**2 + 1000)


def test_waves_take_turns_at_barriers() -> None:
    """A value goes from wave to wave, one further at each barrier."""
    head = HEAD + "v_mov_b32 v3, v0\n"
    step = """
    ds_store_b32 v1, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_add_nc_u32 v2, 128, v1
    v_and_b32 v2, 0x1ff, v2
    ds_load_b32 v3, v2
    s_waitcnt lgkmcnt(0)
    s_barrier
    """
    image = image_of(
        head + 3 * step + "global_store_b32 v1, v3, s[4:5]\ns_endpgm\n", group_bytes=512
    )
    machine, to = Machine(level=0), np.zeros(128, np.uint32)
    machine.allocations = {to.ctypes.data: to.nbytes}
    machine.launch(image, "k", 1, 128, [to.ctypes.data, 0])
    np.testing.assert_array_equal(to, (np.arange(128) + 96) % 128)
