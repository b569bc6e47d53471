"""WebGPU driver: the adapter of this process, its device, and what it can do as a target.

The package wgpu is imported when the device is first used, and nowhere else.  It finds Vulkan,
Metal or Direct3D 12.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from tfn.errors import DeviceError
from tfn.extend import Grid, Op, Target, driven, frozen
from tfn.hw.webgpu.wgsl import LACKS

HINT = (
    "pip install 'tfn[webgpu]' brings wgpu; on Linux without a GPU, apt-get install "
    "mesa-vulkan-drivers brings an adapter for processors"
)
LIMITS = (
    "max-storage-buffers-per-shader-stage",
    "max-storage-buffer-binding-size",
    "max-buffer-size",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
)
"""The limits that are asked of the adapter; others stay those that WebGPU guarantees."""

WIDE = ("shader-f64", "shader-int64")
"""Features by which shaders have numbers of 64 bits: Vulkan's and Direct3D's, no browser's."""

TRIPLES = ("webgpu", "webgpu64")
"""The architecture of an adapter without numbers of 64 bits, and of one with them."""

TIMES = "timestamp-query"
"""The feature by which passes write their times."""

PROBE = """\
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(1) fn main() { x[1] = fma(x[0], x[0], -(x[0] * x[0])); }
"""
"""A kernel whose result is 0 where a product is rounded before the sum."""

CORES = 16
"""Groups that run at the same time, as nothing in WebGPU tells: a small GPU's."""


@cache
def package() -> Any:
    """The module wgpu.

    Raises:
        DeviceError: if it is not installed, or cannot be loaded.
    """
    return driven.driver_package("webgpu", "wgpu", HINT)


@frozen
class Driver:
    """An adapter of WebGPU, opened.

    Attributes:
        wgpu: the module.
        device: as wgpu knows it.
        name: of the adapter, with its backend.
        limits: of the device, by name.
        target: what code is generated for.
        tick_ns: of the clock by which passes write their times; 0 if they cannot.
    """

    wgpu: Any
    device: Any
    name: str
    limits: dict[str, int]
    target: Target
    tick_ns: float = 0.0


@contextmanager
def reached(driver: Driver) -> Iterator[None]:
    """Work of a driver; that the device is gone is no lack of memory, and no fault of a kernel.

    Raises:
        DeviceError: if it is lost: reset, unplugged, or hung.
    """
    try:
        yield
    except driver.wgpu.GPUError as error:
        if "device is lost" not in str(error).lower():
            raise
        raise DeviceError(
            f"the WebGPU device {driver.name} was lost, with all arrays on it",
            got=str(error).strip().splitlines()[-1].strip(),
            hint="other devices go on; a new process opens it again, if the system has reset it",
        ) from None


def available() -> str:
    """The reason why no WebGPU device can be used here; empty if one can."""
    return driven.refusal(partial(driver, True))


@cache
def driver(wide: bool) -> Driver:
    """The adapter that the system prefers, opened with its own limits.

    Args:
        wide: whether features of 64 bits are asked for.

    Raises:
        DeviceError: if there is none, or it does not open.
    """
    wgpu = package()
    # Debian's Vulkan drivers bring an LLVM with a libz3 of its own; proofs by the z3 of Python
    # abort if that one was loaded first.
    with suppress(ImportError):
        import_module("z3")
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        if adapter is None:
            raise RuntimeError("no adapter")
        limits = {name: adapter.limits[name] for name in LIMITS}
        wide = wide and set(WIDE) <= set(adapter.features)
        names = [*(WIDE if wide else ()), *({TIMES} & set(adapter.features))]
        device = adapter.request_device_sync(required_limits=limits, required_features=names)
    except (RuntimeError, wgpu.GPUError) as error:
        raise DeviceError("no WebGPU adapter opens here", got=str(error), hint=HINT) from None
    info = adapter.info
    name = f"{info['device']} ({info['backend_type']})"
    found = {name: int(device.limits[name]) for name in LIMITS}
    target = target_of(name, found, set(WIDE) <= set(device.features), fuses(wgpu, device))
    return Driver(wgpu, device, name, found, target, tick_ns(device))


def tick_ns(device: Any) -> float:
    """The nanoseconds of a tick of the adapter's clock; 0 if passes cannot write their times."""
    if TIMES not in device.features:
        return 0.0
    native = import_module("wgpu.backends.wgpu_native").lib
    return float(native.wgpuQueueGetTimestampPeriod(device.queue._internal))


def fuses(wgpu: Any, device: Any) -> bool:
    """Whether ``fma`` rounds once: WGSL leaves it to the machine."""
    usage = wgpu.BufferUsage
    x = np.array([1 + 2.0**-12, 0.0], np.float32)
    memory = device.create_buffer_with_data(data=x, usage=usage.STORAGE | usage.COPY_SRC)
    shader = device.create_shader_module(code=PROBE)
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": shader, "entry_point": "main"}
    )
    whole = {"buffer": memory, "offset": 0, "size": memory.size}
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": whole}]
    )
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    device.queue.submit([encoder.finish()])
    return bool(np.frombuffer(device.queue.read_buffer(memory), np.float32)[1] == 2.0**-24)


def target_of(name: str, limits: dict[str, int], wide: bool, fuses: bool) -> Target:
    """An adapter as a target: one element a thread, and local memory for each group.

    Args:
        name: of the adapter.
        limits: as in `Driver`.
        wide: whether it has numbers of 64 bits.
        fuses: whether ``fma`` rounds once.
    """
    grid = Grid(
        warp_threads=1,
        group_threads=min(
            limits["max-compute-invocations-per-workgroup"],
            limits["max-compute-workgroup-size-x"],
        ),
        local_bytes=limits["max-compute-workgroup-storage-size"],
        cores=CORES,
    )
    lacks = LACKS if fuses else LACKS | {Op.FMA}
    return Target(TRIPLES[wide], name, "", vector_bytes=4, lacks=lacks, grid=grid)
