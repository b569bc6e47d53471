"""CUDA driver: a GPU becomes a target, and nothing is touched before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tfn
from tests.hw.cuda.devices import default, device_of, gpu, needs_gpu
from tests.hw.cuda.simulator import SimulatedCuda
from tfn.config import config
from tfn.errors import DeviceError
from tfn.hw.cuda import driver
from tfn.trace.processes import processes


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


def test_each_process_of_a_host_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = SimulatedCuda(count=2)
    monkeypatch.setattr(driver, "library", simulated.library)
    uuids = set()
    for host_index in range(2):
        monkeypatch.setattr(processes, "host_index", host_index)
        driver.driver.cache_clear()
        first = driver.driver()
        assert first.number == host_index
        uuids.add(first.uuid)
    assert len(uuids) == 2
    monkeypatch.setattr(processes, "host_index", 2)
    driver.driver.cache_clear()
    with pytest.raises(DeviceError, match=r"no GPU of its own\n  got: process 3 of its"):
        driver.driver()
    assert driver.own_number(1) == 0  # a launcher has given each process one, or all share it
    driver.driver.cache_clear()


def test_several_processes_with_several_gpus_each_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with default(device_of(SimulatedCuda(count=4))):
        monkeypatch.setattr(processes, "device_counts", (2, 2))
        monkeypatch.setattr(config, "devices", 2)
        with pytest.raises(DeviceError, match="each of several processes uses one GPU") as raised:
            tfn.make_mesh((4,), ("data",))
        assert "2 devices of each process, and 4 GPUs" in str(raised.value)
        monkeypatch.setattr(processes, "device_counts", (1, 1))
        monkeypatch.setattr(config, "devices", 1)
        assert [d.process_index for d in tfn.devices()] == [0, 1]
    with default(device_of(SimulatedCuda())):  # parts of one memory, to try a mesh
        monkeypatch.setattr(processes, "device_counts", (2, 2))
        monkeypatch.setattr(config, "devices", 2)
        assert len(tfn.devices()) == 4


def test_importing_tfn_loads_no_driver() -> None:
    code = "import sys, tfn, tfn.eager.run; print(*(m for m in sys.modules if 'cuda' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() in (["tfn.hw.cuda"], [])  # the package alone, without its files


@needs_gpu
def test_the_first_gpu_can_be_used() -> None:
    first = driver.driver()
    assert first.total_bytes > 1 << 30 and driver.driver() is first
