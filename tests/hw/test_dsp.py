"""The DSP under qemu-hexagon: programs, callbacks, the operations of NumPy, faults."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tfn
from tests import covering
from tests.fuzz import checks, programs
from tests.hw.programs import SCALE, scale
from tests.numpy.rows import draws, leaves, near
from tests.numpy.table import TABLE
from tests.numpy.test_against_numpy import find
from tfn import numpy as jnp
from tfn import random
from tfn.config import config
from tfn.dtypes import FLOAT32
from tfn.eager import run
from tfn.errors import DeviceError
from tfn.hw.device import Device
from tfn.hw.dsp.commands import Copy, Wait
from tfn.hw.dsp.device import dsp
from tfn.hw.dsp.emulator import Emulator
from tfn.hw.dsp.memory import SharedMemory, SharedPool
from tfn.hw.dsp.queue import DspQueue
from tfn.nn import quantize

needs_qemu = pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed: apt install qemu-user"
)


@pytest.fixture
def on_dsp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """The DSP as the default device."""
    monkeypatch.setattr(config, "device", "dsp")
    device = run.device()
    yield device
    assert isinstance(device.queue, DspQueue)


def queue_of(device: Device) -> DspQueue:
    assert isinstance(device.queue, DspQueue)
    return device.queue


# Programs.


@needs_qemu
def test_a_program_runs() -> None:
    device = dsp()
    loaded = device.load(scale(1000))
    x = np.arange(1000, dtype=np.float32)
    source, out = device.memory.copy(x), device.memory.allocate(4000)
    loaded([source], [out])
    assert (device.memory.read(out, (1000,), FLOAT32) == x * 3).all()
    for _ in range(2):
        loaded([source], [source])  # in place
    assert (device.memory.read(source, (1000,), FLOAT32) == x * 9).all()
    device.queue.synchronize()
    queue_of(device).transport.stop()


@needs_qemu
def test_loops_branches_and_calls(on_dsp: Device) -> None:
    def steps(x: tfn.Array) -> tfn.Array:
        def body(carry: tfn.Array, y: tfn.Array) -> tuple[tfn.Array, tfn.Array]:
            carry = tfn.lax.cond(y.sum() > 0, lambda c: c * 2, lambda c: c - 1, carry)
            return carry, jnp.sort(y)

        total, rows = tfn.lax.scan(body, jnp.ones(3, "int32"), x)
        count = tfn.lax.while_loop(lambda n: n < total.max(), lambda n: n * 3, jnp.int32(1))
        return total + rows.sum(0)[:3] + count

    x = np.random.default_rng(0).integers(-9, 9, (20, 50)).astype(np.int32)
    got = tfn.jit(steps)(x)
    config.device = "python"
    assert got.tolist() == tfn.jit(steps)(x).tolist()


@needs_qemu
def test_integers_are_those_of_the_cpu(on_dsp: Device) -> None:
    """Random bits, a sort, a matrix product of int8: all bit by bit."""

    def f(key: tfn.Array, x: tfn.Array) -> Any:
        bits = random.bits(random.wrap_key_data(key), (1000,))
        return bits, jnp.argsort(bits), quantize.matmul(x, x.T), jnp.cumsum(x[::-1], 0)

    key = np.array([3, 7], np.uint32)
    x = np.random.default_rng(0).integers(-128, 128, (65, 129)).astype(np.int8)
    got = tfn.jit(f)(key, x)
    config.device = "cpu"
    for one, two in zip(got, tfn.jit(f)(key, x), strict=True):
        assert one.dtype == two.dtype
        assert (np.asarray(one) == np.asarray(two)).all()


@needs_qemu
def test_arrays_of_another_device(on_dsp: Device) -> None:
    config.device = "cpu"
    foreign = jnp.arange(1000.0)
    config.device = "dsp"
    doubled = foreign + foreign
    assert (np.asarray(doubled) == 2 * np.arange(1000)).all()
    moved = tfn.jit(lambda x: x + 1, donate_argnums=0)(foreign)
    assert (np.asarray(moved) == np.arange(1000) + 1).all()
    config.device = "cpu"
    assert (np.asarray(doubled - 1) == 2 * np.arange(1000) - 1).all()


@needs_qemu
def test_memory_of_numpy_is_shared_by_reading_it_anew(on_dsp: Device) -> None:
    data = jnp.zeros(64)  # aligned memory
    x = tfn.numpy.from_dlpack(np.asarray(data))
    assert (x + 1).tolist() == [1.0] * 64


# Functions of the host.


@needs_qemu
def test_functions_of_the_host(on_dsp: Device) -> None:
    kind = tfn.ShapeDtypeStruct((3,), "float32")

    def body(x: tfn.Array, _: None) -> tuple[tfn.Array, None]:
        return tfn.pure_callback(lambda a: np.asarray(a) * 2, kind, x) + 1, None

    total, _ = tfn.jit(lambda x: tfn.lax.scan(body, x, None, length=5))(jnp.ones(3))
    assert total.tolist() == [63.0] * 3


@needs_qemu
def test_functions_of_the_host_that_raise(on_dsp: Device) -> None:
    kind, fails = tfn.ShapeDtypeStruct((3,), "float32"), [True]

    def function(x: Any) -> Any:
        if fails[0]:
            raise KeyError("of the user")
        return np.asarray(x)

    f = tfn.jit(lambda x: tfn.pure_callback(function, kind, x) + 1)
    with pytest.raises(KeyError, match="of the user"):
        f(jnp.ones(3))
    fails[0] = False
    assert f(jnp.ones(3)).tolist() == [2.0] * 3


# The operations of NumPy, and programs of several.


@needs_qemu
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", covering.in_turn(12, TABLE))
def test_values_are_those_of_numpy(name: str, on_dsp: Device) -> None:
    row = TABLE[name]

    @settings(max_examples=1)
    @given(draws(row))
    def same(drawn: Any) -> None:
        config.device = "python"
        expected = drawn.call(row, find(jnp, name), *drawn.operands)
        config.device = "dsp"
        if row.jit:
            compiled = tfn.jit(lambda *xs: drawn.call(row, find(jnp, name), *xs))
            got = compiled(*map(jnp.asarray, drawn.operands))
        else:
            got = drawn.call(row, find(jnp, name), *drawn.operands)
        near(row, got, expected, drawn.operands)
        assert [x.dtype for x in leaves(got)] == [x.dtype for x in leaves(expected)]

    same()


@needs_qemu
def test_drawn_programs(on_dsp: Device) -> None:
    for number in range(15):
        drawn = programs.program(programs.drawn(0, number))
        config.device = "dsp"
        inputs = checks.arrays(drawn.inputs)
        results = tfn.jit(drawn.function(checks.NARROW))(*inputs)
        checks.require_outputs(drawn, results, "the DSP and the oracle")


# Commands.


@needs_qemu
def test_commands_wait_for_a_word() -> None:
    device = dsp()
    queue, memory = queue_of(device), device.memory
    on_device = queue.shared.on_device
    flag, source, to = (memory.copy(np.full(4, n, np.int32)) for n in (0, 5, 0))
    batch = [
        Wait(on_device(flag.address), 9),
        Copy(on_device(to.address), on_device(source.address), 12),
    ]
    thread = threading.Thread(target=queue.run, args=[batch])
    thread.start()
    time.sleep(0.05)
    to_numbers = to.view((4,), np.dtype(np.int32))
    assert to_numbers.tolist() == [0] * 4
    flag.view((4,), np.dtype(np.int32))[0] = 9
    queue.transport.ring(1)
    thread.join(timeout=30)
    assert to_numbers.tolist() == [5, 5, 5, 0]
    queue.transport.stop()


@needs_qemu
def test_the_ring_goes_around(monkeypatch: pytest.MonkeyPatch) -> None:
    device = dsp()
    queue, memory = queue_of(device), device.memory
    source, to = (memory.copy(np.full(4, n, np.int32)) for n in (5, 0))
    copy = Copy(queue.shared.on_device(to.address), queue.shared.on_device(source.address), 16)
    for n in range(4):  # 4 * 30,000 * 6 words, more than twice the ring
        source.view((4,), np.dtype(np.int32))[:] = n
        queue.run([copy] * 30_000)
        assert to.view((4,), np.dtype(np.int32)).tolist() == [n] * 4
    queue.transport.stop()


# Faults.


def endless(x: tfn.Array) -> tfn.Array:
    return tfn.lax.while_loop(lambda x: x[0] >= 0, lambda x: x.at[0].set(0), x)


@needs_qemu
def test_an_emulator_that_is_killed(on_dsp: Device) -> None:
    queue, x = queue_of(on_dsp), jnp.arange(100)
    assert (x + 1).sum().item() == 5050
    transport = queue.transport
    assert isinstance(transport, Emulator)
    assert transport.process is not None
    victim = transport.process.pid
    killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    killer.start()
    with pytest.raises(DeviceError, match=r"has died, in kernel \d of \d+, k[0-9a-f]{20}") as info:
        tfn.jit(endless)(x)
    assert "SIGKILL" in str(info.value)
    assert x.tolist() == list(range(100))  # nothing is lost
    assert (x + 1).sum().item() == 5050  # and it runs again
    assert transport.process.pid != victim


@needs_qemu
def test_a_program_that_hangs(on_dsp: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_of(on_dsp), "deadline_seconds", 0.2)
    monkeypatch.setattr("tfn.hw.dsp.queue.SLOWNESS", 0.0)
    x = jnp.arange(64)
    began = time.monotonic()
    with pytest.raises(DeviceError, match=r"does not answer, in kernel"):
        tfn.jit(lambda x: endless(x) * 2)(x)
    assert time.monotonic() - began < 10
    assert (x * 2).tolist() == list(range(0, 128, 2))


@needs_qemu
def test_a_kernel_that_writes_anywhere_is_named() -> None:
    device = dsp()
    wild = SCALE.replace("store float %y, ptr %to", "store float %y, ptr inttoptr (i32 64 to ptr)")
    program = scale(10)
    bad = replace(program.steps[0].kernel, text=wild)
    broken = device.load(replace(program, steps=(replace(program.steps[0], kernel=bad),)))
    good = device.load(program)
    x, out = device.memory.copy(np.ones(10, np.float32)), device.memory.allocate(40)
    with pytest.raises(DeviceError, match="has died, in kernel 1 of 1, scale"):
        broken([x], [out])
    good([x], [out])
    assert (device.memory.read(out, (10,), FLOAT32) == 3).all()
    queue_of(device).transport.stop()


def fake(folder: Path, script: str) -> tuple[Emulator, DspQueue, SharedMemory]:
    """A queue whose emulator is a shell script."""
    path = folder / "qemu-hexagon"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o700)
    shared = SharedMemory()
    transport = Emulator(shared, b"")
    transport.path = str(path)
    return transport, DspQueue(shared, SharedPool(shared), transport, b""), shared


READY = r"printf '\377\377\377\377'; "


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (READY + "sleep 60", "does not answer"),
        (READY + r"printf '\001\002\003\004'; sleep 60", "no signal"),
        (READY + r"printf 'ab'; sleep 60", "does not answer"),
        (READY + "echo broken >&2; exit 7", "has died"),
        ("exit 3", "has died"),
        (r"printf 'what'; sleep 60", "does not start"),
    ],
)
def test_faults_of_any_emulator(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfn.hw.dsp.emulator.emulator", lambda: "qemu-hexagon")
    transport, queue, _ = fake(tmp_path, script)
    began = time.monotonic()
    with pytest.raises(DeviceError, match=message):
        queue.run([], deadline_seconds=0.3)
    assert time.monotonic() - began < 5
    assert not transport.is_running


def test_a_missing_emulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DeviceError, match="qemu-user"):
        dsp()
