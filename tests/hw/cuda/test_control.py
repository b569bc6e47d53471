"""Control kernels: iterations, addresses and conditions, on the simulated GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.hw.cuda.ptxas import assemble, needs_ptxas
from tests.hw.cuda.simulator import SimulatedCuda, _objects, threads, translate
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cuda import control
from tfn.hw.cuda.target import TARGETS


def run(simulated: SimulatedCuda, name: str, count: int, *values: int) -> None:
    _, kernels = _objects(translate([control.TEXT], TARGETS["sm_90"], 1).decode())
    library = threads()
    place = ctypes.c_void_p.in_dll(library, "sim_condition")
    place.value = ctypes.addressof(simulated.conditions)
    words = (ctypes.c_uint64 * 8)(*[v & (1 << 64) - 1 for v in values])
    assert not library.sim_launch(ctypes.c_void_p(kernels[name].address), words, 1, count, 0)


def address(x: Any) -> int:
    return int(x.ctypes.data)


def test_a_loop_counts_and_moves_addresses() -> None:
    simulated = SimulatedCuda()
    rows = np.array([[i, 400, 402, 16, 401, 1000] for i in range(400)], np.int64)
    table = np.zeros(403, np.int64)
    table[400], table[401] = 5000, 2  # an origin, and the iteration of an outer loop
    for number in range(4):
        step = min(number, 1)
        run(simulated, "tfn_loop", 256, address(table), address(rows), 400, 2, 402, step, 3, 7)
        assert table[402] == number and simulated.conditions[7] == (number < 3)
        assert (table[:400] == 5000 + 2 * 1000 + number * 16).all()


def test_a_loop_without_a_count_leaves_its_condition_alone() -> None:
    simulated = SimulatedCuda()
    table, rows = np.zeros(1, np.int64), np.zeros((0, 2), np.int64)
    simulated.conditions[3] = 1
    run(simulated, "tfn_loop", 256, address(table), address(rows), 0, 0, 0, 1, -1, 3)
    assert table[0] == 1 and simulated.conditions[3] == 1


@pytest.mark.parametrize("byte", [0, 1, 255])
def test_a_byte_is_a_condition(byte: int) -> None:
    simulated, data = SimulatedCuda(), np.array([byte], np.uint8)
    run(simulated, "tfn_test", 1, address(np.array([address(data)])), 5)
    assert simulated.conditions[5] == (byte != 0)


@pytest.mark.parametrize("index", [-9, 0, 1, 2, 9])
def test_a_branch_is_that_of_the_clamped_index(index: int) -> None:
    simulated, data = SimulatedCuda(), np.array([index], np.int32)
    table = np.array([address(data)])
    for branch in range(3):
        run(simulated, "tfn_choose", 1, address(table), branch, 2, branch)
    assert list(simulated.conditions[:3]) == [min(max(index, 0), 2) == i for i in range(3)]


@needs_ptxas
def test_they_assemble() -> None:
    ptx = LlvmCompiler(verify=True).translate([control.TEXT], TARGETS["sm_90"], 1)
    # The driver has the function that sets a condition; for ptxas it stays to be linked.
    kernels = assemble(ptx, "sm_90a", "--compile-only")
    assert set(kernels) == {"tfn_loop", "tfn_test", "tfn_choose"}
    assert not any(kernel.spill_bytes for kernel in kernels.values())
