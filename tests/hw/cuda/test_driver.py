"""CUDA driver: a GPU becomes a target, and nothing is touched before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.hw.cuda.devices import gpu, needs_gpu
from tests.hw.cuda.simulator import SimulatedCuda
from tfn.errors import DeviceError
from tfn.hw.cuda import driver


def test_a_gpu_is_a_target_with_the_numbers_that_it_says() -> None:
    simulated = SimulatedCuda()
    simulated.attributes |= {"cores": 114, "l2_bytes": 49 << 20}
    first = gpu(simulated)
    grid = first.target.grid
    assert grid is not None and grid.cores == 114 and first.target.l2_bytes == 49 << 20
    assert first.target.cpu == "sm_90a" and first.name == "a simulated GPU"
    assert first.total_bytes == 1 << 30 and first.version == 13000


def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match="no GPU 1\n  got: 1 devices"):
        driver.opened(SimulatedCuda().library(), 1)


def test_a_chip_without_a_row_is_refused() -> None:
    simulated = SimulatedCuda()
    simulated.attributes |= {"major": 7, "minor": 0}
    with pytest.raises(DeviceError, match=r"compute capability 7\.0"):
        gpu(simulated)


def test_importing_tfn_loads_no_driver() -> None:
    code = "import sys, tfn, tfn.eager.run; print(*(m for m in sys.modules if 'cuda' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() in (["tfn.hw.cuda"], [])  # the package alone, without its files


@needs_gpu
def test_the_first_gpu_can_be_used() -> None:
    first = driver.driver()
    assert first.total_bytes > 1 << 30 and driver.driver() is first
