"""CUDA targets: a row for each chip, and what runs on chips without one."""

from __future__ import annotations

import pytest

from tfn.errors import DeviceError
from tfn.hw.cuda.target import TARGETS, of_capability
from tfn.lower.languages import language_of


@pytest.mark.parametrize("name", TARGETS)
def test_every_chip_has_numbers_that_fit_together(name: str) -> None:
    target = TARGETS[name]
    grid = target.grid
    assert grid is not None and language_of(target).symbol_prefix == "@"
    assert target.cpu.startswith(name) and grid.warp_threads == 32
    assert grid.local_bytes >= 99 << 10 and grid.matrix_units


def test_wgmma_is_of_one_architecture() -> None:
    groups = {
        name
        for name, target in TARGETS.items()
        if any(unit.warps == 4 for unit in target.grid.matrix_units)  # type: ignore[union-attr]
    }
    assert groups == {"sm_90"} and TARGETS["sm_90"].cpu == "sm_90a"


def test_a_chip_without_a_row_runs_the_code_of_an_older_one() -> None:
    assert of_capability(9, 0).cpu == "sm_90a"
    assert of_capability(8, 7).cpu == "sm_86"
    assert of_capability(10, 3).cpu == "sm_100"
    assert of_capability(12, 1).cpu == "sm_120"


@pytest.mark.parametrize("capability", [(7, 5), (3, 0), (11, 0)])
def test_chips_that_no_code_is_for_are_refused(capability: tuple[int, int]) -> None:
    with pytest.raises(DeviceError, match=r"no code for GPUs of compute capability") as raised:
        of_capability(*capability)
    assert f"{capability[0]}.{capability[1]}" in str(raised.value)


def test_some_chips_run_fewer_threads_at_once() -> None:
    threads = {name: t.grid.core_threads for name, t in TARGETS.items() if t.grid is not None}
    assert [name for name, count in threads.items() if count == 1536] == [
        "sm_86",
        "sm_89",
        "sm_120",
    ]
    assert {*threads.values()} == {1536, 2048}
