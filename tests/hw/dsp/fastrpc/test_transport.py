"""FastRPC's transport on simulated nodes: programs, mappings, host calls, faults, deadlines."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tfn
from tests.hw.dsp.fastrpc.simulation import SimulatedNode
from tests.hw.programs import SCALE, scale
from tfn import numpy as jnp
from tfn.config import config
from tfn.dtypes import FLOAT32
from tfn.eager import registry, run
from tfn.errors import DeviceError
from tfn.hw.device import Device
from tfn.hw.dsp import device as devices
from tfn.hw.dsp.commands import Copy, Wait
from tfn.hw.dsp.fastrpc import transport
from tfn.hw.dsp.fastrpc.interfaces import INTERFACES, Interface
from tfn.hw.dsp.fastrpc.transport import FastRpc
from tfn.hw.dsp.memory import SharedMemory
from tfn.hw.dsp.queue import DspQueue

needs_qemu = pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed: apt install qemu-user"
)
MEMORY_BYTES = 512 << 20


def made(interface: Interface) -> Device:
    """A device behind a simulated node of a driver."""
    shared = SharedMemory(size_bytes=MEMORY_BYTES)
    return devices._device(
        "dsp-fastrpc", shared, lambda program: FastRpc(shared, program, interface, SimulatedNode)
    )


@pytest.fixture(params=INTERFACES, ids=lambda interface: interface.path.split("/")[-1])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device, with either driver."""
    made_now = made(request.param)
    yield made_now
    queue_of(made_now).transport.stop()


@pytest.fixture
def as_default(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """It is the default device."""
    monkeypatch.setitem(registry.DEVICES, "dsp-fastrpc", device)
    monkeypatch.setattr(config, "device", "dsp-fastrpc")
    run.clear_caches()  # programs are kept by the name of their device
    yield device
    run.clear_caches()


def queue_of(device: Device) -> DspQueue:
    assert isinstance(device.queue, DspQueue)
    return device.queue


def node_of(device: Device) -> SimulatedNode:
    rpc = queue_of(device).transport
    assert isinstance(rpc, FastRpc)
    assert isinstance(rpc.node, SimulatedNode)
    return rpc.node


@needs_qemu
def test_a_program_is_loaded_and_called(device: Device) -> None:
    loaded = device.load(scale(1000))
    x = np.arange(1000, dtype=np.float32)
    source, out = device.memory.copy(x), device.memory.allocate(4000)
    for _ in range(3):
        loaded([source], [out])
    assert (device.memory.read(out, (1000,), FLOAT32) == x * 3).all()
    node, shared = node_of(device), queue_of(device).shared
    assert node.mappings == {shared.base: (shared.file, MEMORY_BYTES)}
    names = [name.split("_IOCTL_")[1] for name in node.calls]
    assert names[-4:] == ["INVOKE"] * 4  # the start, and three calls
    assert names[:-4] in (["INIT_CREATE", "MEM_MAP"], ["GETINFO", "INIT_ATTRS", "MMAP_64"])


@needs_qemu
def test_memory_is_unmapped_and_mapped_elsewhere(device: Device) -> None:
    loaded = device.load(scale(10))
    x, out = device.memory.copy(np.ones(10, np.float32)), device.memory.allocate(40)
    bases = set()
    for _ in range(3):  # the program is linked anew for each address
        loaded([x], [out])
        assert (device.memory.read(out, (10,), FLOAT32) == 3).all()
        node = node_of(device)
        bases.add(queue_of(device).shared.base)
        queue_of(device).transport.stop()
        assert node.mappings == {}
        assert "UNMAP" in node.calls[-1]
        assert node.is_closed
    assert len(bases) == 3


@needs_qemu
def test_functions_of_arrays_and_of_the_host(as_default: Device) -> None:
    x = jnp.arange(100)
    assert ((x * x).sum() + jnp.sort(x[::-1])[7]).item() == 328350 + 7
    kind = tfn.ShapeDtypeStruct((3,), "float32")
    doubled = tfn.jit(lambda x: tfn.pure_callback(lambda a: np.asarray(a) * 2, kind, x) + 1)
    assert doubled(jnp.ones(3)).tolist() == [3.0] * 3


@needs_qemu
def test_a_bell_while_a_call_is_under_way(device: Device) -> None:
    queue, memory = queue_of(device), device.memory
    queue.start()
    on_device = queue.shared.on_device
    flag, source, to = (memory.copy(np.full(4, n, np.int32)) for n in (0, 5, 0))
    batch = [
        Wait(on_device(flag.address), 9),
        Copy(on_device(to.address), on_device(source.address), 12),
    ]
    thread = threading.Thread(target=queue.run, args=[batch])
    thread.start()
    time.sleep(0.1)
    flag.view((4,), np.dtype(np.int32))[0] = 9
    queue.transport.ring(1)
    thread.join(timeout=30)
    assert to.view((4,), np.dtype(np.int32)).tolist() == [5, 5, 5, 0]


@needs_qemu
def test_a_fault_names_the_kernel(device: Device) -> None:
    wild = SCALE.replace("store float %y, ptr %to", "store float %y, ptr inttoptr (i32 64 to ptr)")
    program = scale(10)
    bad = replace(program.steps[0].kernel, text=wild)
    broken = device.load(replace(program, steps=(replace(program.steps[0], kernel=bad),)))
    good = device.load(program)
    x, out = device.memory.copy(np.ones(10, np.float32)), device.memory.allocate(40)
    with pytest.raises(DeviceError, match="has died, in kernel 1 of 1, scale") as info:
        broken([x], [out])
    assert os.strerror(errno.ECONNRESET) in str(info.value)
    good([x], [out])
    assert (device.memory.read(out, (10,), FLOAT32) == 3).all()


@needs_qemu
def test_a_process_that_is_killed(as_default: Device) -> None:
    x = jnp.arange(100)
    assert (x + 1).sum().item() == 5050
    process = node_of(as_default).process
    assert process is not None
    threading.Timer(0.3, os.kill, (process.pid, signal.SIGKILL)).start()
    with pytest.raises(DeviceError, match=r"has died, in kernel \d of \d+, k[0-9a-f]{20}"):
        tfn.jit(endless)(x)
    assert x.tolist() == list(range(100))
    assert (x + 1).sum().item() == 5050


@needs_qemu
def test_a_program_that_hangs(as_default: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_of(as_default), "deadline_seconds", 0.2)
    monkeypatch.setattr("tfn.hw.dsp.queue.SLOWNESS", 0.0)
    x = jnp.arange(64)
    began = time.monotonic()
    with pytest.raises(DeviceError, match="does not answer, in kernel"):
        tfn.jit(lambda x: endless(x) * 2)(x)
    assert time.monotonic() - began < 10
    monkeypatch.setattr(queue_of(as_default), "deadline_seconds", 60.0)
    assert (x * 2).tolist() == list(range(0, 128, 2))


def endless(x: tfn.Array) -> tfn.Array:
    return tfn.lax.while_loop(lambda x: x[0] >= 0, lambda x: x.at[0].set(0), x)


@pytest.mark.parametrize(
    "interface", INTERFACES, ids=lambda interface: interface.path.split("/")[-1]
)
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_the_driver_refuses_is_named(interface: Interface, failing: int) -> None:
    """Creation, mapping, the first call."""

    def opened(path: str) -> SimulatedNode:
        node = SimulatedNode(path)
        names = [n for n in node._handlers if n.startswith(path.split("/")[-1][:7].upper())]
        for word in (("INIT",), ("MAP",), ("INVOKE",))[failing - 1]:
            node.fails = {n: errno.EPERM for n in names if word in n and "UNMAP" not in n}
        nodes.append(node)
        return node

    nodes: list[SimulatedNode] = []
    shared = SharedMemory(size_bytes=MEMORY_BYTES)
    rpc = FastRpc(shared, b"\x7fELF", interface, opened)
    expected = "has died" if failing == 3 else "refuses (FAST|ADSP)RPC_IOCTL"
    with pytest.raises(DeviceError, match=expected) as info:
        rpc.start()
    assert os.strerror(errno.EPERM) in str(info.value)
    assert not rpc.is_running
    assert nodes[0].is_closed
    assert not nodes[0].mappings


def test_a_node_that_cannot_be_opened() -> None:
    def refused(path: str) -> SimulatedNode:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    rpc = FastRpc(SharedMemory(size_bytes=MEMORY_BYTES), b"", INTERFACES[0], refused)
    with pytest.raises(DeviceError, match="cannot be opened"):
        rpc.start()


def test_machines_without_a_node_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    with pytest.raises(DeviceError, match="no DSP"):
        devices.dsp_fastrpc()
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/dev/adsprpc-smd")
    assert transport.present().path == "/dev/adsprpc-smd"
