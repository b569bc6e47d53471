"""Native launches: from the entry of a program to the driver, without a frame of Python."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.hw import op_table
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tests.lower.graphs import jaxpr, p
from tfn.array import Array
from tfn.config import config
from tfn.dtypes import FLOAT32
from tfn.eager import operators, run
from tfn.errors import DeviceError
from tfn.hw.cpu.interpreter import supported
from tfn.hw.device import Device, EntryForm, EntryInput, EntryOutput
from tfn.lower import pipeline
from tfn.trace.aval import kind_of

pytestmark = pytest.mark.skipif(
    not supported(), reason="this interpreter lays out objects in another way: it has no entries"
)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture
def simulated() -> Iterator[SimulatedCuda]:
    """The default device is a simulated GPU with native entries."""
    gpu = SimulatedCuda()
    with default(device_of(gpu, native=True)):
        yield gpu


SOURCES = f"{Path(tfn.__file__).parent}{os.sep}"
"""Where tfn lies, which a clone in a folder called tfn is no part of."""

JIT = ["__call__", "__bool__"]
"""What runs in Python before the entry of a jitted function, on any device."""


def test_the_frames_of_a_jitted_function_on_the_cpu() -> None:
    x, f = tnp.arange(5.0), tfn.jit(lambda x: x * 2 + 1)
    for _ in range(4):
        f(x)
    assert config.device != "cpu" or frames(lambda: f(x)) == JIT


def frames(call: Any) -> list[str]:
    """The functions of Python that run during a call, apart from those of the simulated driver."""
    seen: list[str] = []

    def profile(frame: Any, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            seen.append(frame.f_code.co_name)

    gc.disable()  # a collection would release, in functions of tfn, what other tests have left
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return seen


def test_a_jitted_call_and_an_operator_run_no_python(simulated: SimulatedCuda) -> None:
    x, f = tnp.arange(5.0), tfn.jit(lambda x: x * 2 + 1)
    for _ in range(4):
        y, z = f(x), x + x
    before = simulated.calls["cuGraphLaunch"]
    results: list[Any] = []
    assert frames(lambda: results.append(f(x))) == JIT
    assert frames(lambda: results.append(x + x)) == []
    assert simulated.calls["cuGraphLaunch"] == before + 2
    assert np.asarray(results[0]).tolist() == np.asarray(y).tolist() == [1, 3, 5, 7, 9]
    assert np.asarray(results[1]).tolist() == np.asarray(z).tolist() == [0, 2, 4, 6, 8]


def test_results_that_come_back_as_arguments_send_no_addresses(simulated: SimulatedCuda) -> None:
    step = tfn.jit(lambda w, m: (w - 0.5 * m, m * 0.5))
    w, m = tnp.ones(4), tnp.ones(4)
    for _ in range(12):
        w, m = step(w, m)
    before = simulated.calls["cuMemcpyHtoDAsync"]
    for _ in range(12):
        w, m = step(w, m)
    assert simulated.calls["cuMemcpyHtoDAsync"] == before
    np.testing.assert_allclose(np.asarray(w), 0.5**24, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(m), 0.5**24, rtol=1e-5)


def test_more_sets_of_addresses_than_copies(simulated: SimulatedCuda) -> None:
    f = tfn.jit(lambda x: x.sum() + x)
    arrays = [tnp.full(3, float(i)) for i in range(9)]
    for _ in range(2):
        results = [f(x) for x in arrays]
    for i, y in enumerate(results):
        assert np.asarray(y).tolist() == [4.0 * i] * 3


def test_donated_arguments_and_results_that_are_arguments(simulated: SimulatedCuda) -> None:
    f = tfn.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x, y = tnp.ones(100), tnp.ones(100)
    for _ in range(5):
        given = x
        x, same = f(x, y)
        assert given.is_deleted()
    assert np.asarray(x)[0] == 6 and np.asarray(same)[7] == 1


def test_a_program_that_launches_nothing(simulated: SimulatedCuda) -> None:
    f, x = tfn.jit(lambda x: (x, x)), tnp.arange(3.0)
    for _ in range(4):
        y, z = f(x)
    assert np.asarray(y).tolist() == np.asarray(z).tolist() == [0, 1, 2]


def test_a_function_of_the_host_has_no_entry(simulated: SimulatedCuda) -> None:
    like = tfn.ShapeDtypeStruct((5,), "float32")
    f = tfn.jit(lambda x: tfn.pure_callback(np.square, like, x * 2) + 1)
    x = tnp.arange(5.0)
    for _ in range(3):
        y = f(x)
    np.testing.assert_array_equal(np.asarray(y), (np.arange(5) * 2) ** 2 + 1)


def test_a_launch_that_fails_is_an_error_of_the_next_read(simulated: SimulatedCuda) -> None:
    f, x = tfn.jit(lambda x: x * 2), tnp.arange(3.0)
    for _ in range(3):
        y = f(x)
    simulated.fails["cuGraphLaunch"] = 1
    y = f(x)
    with pytest.raises(DeviceError, match="has failed in one of the kernels") as raised:
        np.asarray(y)
    assert "INVALID_VALUE" in str(raised.value) and "should have computed" in str(raised.value)
    for _ in range(3):
        y = f(x)
    assert frames(lambda: f(x)) == JIT  # the device goes on, natively
    assert np.asarray(y).tolist() == [0, 2, 4]


def test_a_context_that_is_lost_stays_lost(simulated: SimulatedCuda) -> None:
    f, x = tfn.jit(lambda x: x * 2), tnp.arange(3.0)
    for _ in range(3):
        y = f(x)
    simulated.lost = 700
    y = f(x)
    for _ in range(2):
        with pytest.raises(DeviceError, match="context"):
            np.asarray(y)
        with pytest.raises(DeviceError, match="context"):
            f(x)


def test_a_table_that_was_not_sent_is_sent_again(simulated: SimulatedCuda) -> None:
    f = tfn.jit(lambda x: x * 2)
    x, other = tnp.arange(3.0), tnp.ones(3)
    for _ in range(3):
        f(x)
    simulated.fails["cuMemcpyHtoDAsync"] = 2
    lost = f(other)
    with pytest.raises(DeviceError, match="OUT_OF_MEMORY"):
        np.asarray(lost)
    del lost
    for _ in range(5):
        assert np.asarray(f(other)).tolist() == [2, 2, 2]


def test_other_threads_call_too(simulated: SimulatedCuda) -> None:
    f = tfn.jit(lambda x: x * 2 + 1)
    x = tnp.arange(50.0)
    f(x)
    wrong: list[int] = []

    def work(number: int) -> None:
        y = x + number
        for _ in range(30):
            if not np.array_equal(np.asarray(f(y)), (np.arange(50) + number) * 2 + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_copy_into_a_block_waits_for_the_calls_before_it_was_freed(
    simulated: SimulatedCuda,
) -> None:
    """Natively counted programs hold copies back; those that nothing uses run beside them."""
    f, size = tfn.jit(lambda x: x * 2), 100_000
    x = tnp.ones(size)
    for _ in range(3):
        y = f(x)
    y = f(x)
    del x
    waits = simulated.calls["cuStreamWaitEvent"]
    z = tnp.array(np.zeros(size, np.float32))  # in the block of x
    assert simulated.calls["cuStreamWaitEvent"] == waits + 2
    assert np.asarray(y).tolist() == [2.0] * size and not np.asarray(z).any()
    waits, more = simulated.calls["cuStreamWaitEvent"], tnp.array(np.zeros(3 * size, np.float32))
    assert simulated.calls["cuStreamWaitEvent"] == waits + 1 and not np.asarray(more).any()


def test_operators_follow_the_default_device(simulated: SimulatedCuda) -> None:
    config.device = "cpu"
    run.device().queue.serve(Array, operators.learn)  # a test before may have served another one
    x = tnp.arange(4.0)
    for _ in range(3):
        y = x + x
    assert frames(lambda: x + x) == []
    config.device = "cuda"
    a = tnp.arange(4.0)
    for _ in range(3):
        b = a + a
    assert frames(lambda: a + a) == []
    assert np.asarray(b).tolist() == [0, 2, 4, 6]
    with pytest.raises(DeviceError, match="not on the device cuda"):
        x + x
    config.device = "cpu"
    assert frames(lambda: x + x) == [] and np.asarray(y).tolist() == [0, 2, 4, 6]
    with pytest.raises(DeviceError, match="on the device cuda, and the program runs on another"):
        a + a


def test_memory_of_the_device_is_not_that_of_the_host(simulated: SimulatedCuda) -> None:
    buffer: Any = tnp.ones(4).concrete().buffer
    with pytest.raises(TypeError):
        memoryview(buffer)
    with pytest.raises(DeviceError, match="on the device cuda"):
        buffer.address  # noqa: B018
    assert buffer.pointer and buffer.size_bytes == 16


@pytest.mark.parametrize("start", op_table.STARTS[:1])
def test_the_table_of_ops_by_entries(simulated: SimulatedCuda, start: int) -> None:
    op_table.assert_cases_hold(run.device("cuda"), start)


def test_an_entry_is_a_builtin_of_the_trees_of_a_call() -> None:
    device: Device = device_of(SimulatedCuda(), native=True)
    device.queue.serve(Array)
    loaded = device.load(pipeline.lower(jaxpr([p(0, 4) * 2.0]), device.target))
    kind = kind_of((4,), FLOAT32)
    row = EntryOutput(kind, False, 16, -1, -1)
    form = EntryForm([EntryInput(kind, None, False)], [row], [0], 0)
    entry = loaded.entry(form)
    assert type(entry) is BuiltinFunctionType
    without = device_of(SimulatedCuda())
    program = pipeline.lower(jaxpr([p(0, 4) * 2.0]), device.target)
    assert without.load(program).entry(form) is None
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def test_jitted_functions_follow_the_default_device(simulated: SimulatedCuda) -> None:
    f = tfn.jit(lambda x: x * 2 + 1)
    for name in ("cuda", "cpu", "cuda", "cpu"):
        config.device = name
        x = tnp.arange(3.0)
        for _ in range(3):
            y = f(x)
        assert frames(lambda: f(x)) == JIT  # noqa: B023
        assert np.asarray(y).tolist() == [1, 3, 5]


def test_numbers_beside_arrays_are_those_of_each_operation() -> None:
    """Operations run after their calls: none may find the number of a later one."""
    with default(device_of(SimulatedCuda(), native=True)):
        x = tnp.array([1.0, 2.0], "float32")
        for results in ([x * (0.5 * k) for k in range(6)], [k + x for k in range(6)]):
            got = [np.asarray(y).tolist() for y in results]
        assert got == [[k + 1.0, k + 2.0] for k in range(6)]
        got = [np.asarray(y).tolist() for y in [x * (0.5 * k) for k in range(6)]]
        assert got == [[0.5 * k, float(k)] for k in range(6)]
        assert frames(lambda: x * 0.25) == [] and frames(lambda: 3 + x) == []
