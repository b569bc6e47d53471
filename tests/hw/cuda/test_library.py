"""libcuda: errors by name, and what is missing on a machine without it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.hw.cuda.simulator import SimulatedCuda
from tfn.errors import DeviceError
from tfn.hw.cuda import library
from tfn.hw.cuda.library import CudaError, checked


@pytest.fixture
def forgotten() -> Any:
    """No library is known yet, and none after."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()


def test_an_error_has_the_names_of_the_driver() -> None:
    simulated = SimulatedCuda()
    simulated.fails["cuDeviceGetCount"] = 700
    with pytest.raises(CudaError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*cuDeviceGetCount"):
        simulated.library().integer("cuDeviceGetCount")


def test_some_errors_lose_the_context() -> None:
    errors = {code: CudaError(code, "", "", "") for code in (1, 2, 700, 719)}
    assert [code for code, error in errors.items() if error.is_lost] == [700, 719]


@pytest.mark.usefixtures("forgotten")
def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "NAMES", ("libcuda-that-is-not.so",))
    with pytest.raises(DeviceError, match="no CUDA driver") as raised:
        library.library()
    assert "libcuda-that-is-not.so" in str(raised.value) and "toolkit" in str(raised.value)


@pytest.mark.usefixtures("forgotten")
def test_a_library_without_the_functions_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "NAMES", ("libcuda.so",))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(DeviceError, match=r"too old\n  got: libcuda.so without cuInit"):
        library.library()


def test_an_old_driver_and_no_device_are_refused() -> None:
    with pytest.raises(DeviceError, match=r"too old\n  got: CUDA 11.8; tfn needs 12.4"):
        checked(SimulatedCuda(version=11080).library())
    with pytest.raises(DeviceError, match=r"does not start\n  got: CUDA_ERROR_NO_DEVICE"):
        checked(SimulatedCuda(count=0).library())


def test_libraries_of_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nvidia" / "cusolver" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "empty.c").write_text("int made_here(void) { return 7; }\n")
    name = "libtfn-that-no-system-has.so.11"
    options = ["-shared", "-fPIC", str(tmp_path / "empty.c"), "-o", str(folder / name)]
    subprocess.run(["gcc", *options], check=True)
    names = ("libtfn-that-no-system-has.so.12", name)
    assert library.package_library(names) is None
    monkeypatch.syspath_prepend(tmp_path)
    found = library.package_library(names)
    assert found is not None and found.made_here() == 7
