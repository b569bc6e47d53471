"""The CPU queue: programs on one thread and on several."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.hw.programs import scale, summed
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.errors import OutOfMemoryError
from tfn.hw.cpu.device import cpu
from tfn.hw.cpu.queue import patience_ns


@pytest.fixture(scope="module")
def device():
    return cpu()


@pytest.fixture
def threads(monkeypatch):
    return lambda n: monkeypatch.setattr(config, "threads", n)


def sums(device, run, x):
    """The bits of the sum, and how many threads made it."""
    out = device.memory.allocate(8)
    run([device.memory.copy(x)], [out])
    bits, count = out.view((2,), INT32)
    return int(bits), int(count)


def test_a_program_runs(device):
    run = device.load(scale(1000))
    x = np.arange(1000, dtype=np.float32)
    out = device.memory.allocate(4000)
    run([device.memory.copy(x)], [out])
    assert (device.memory.read(out, (1000,), FLOAT32) == x * 3).all()
    device.queue.synchronize()


def test_a_program_may_write_to_its_input(device):
    """As donation asks."""
    run = device.load(scale(1000))
    x = device.memory.copy(np.ones(1000, np.float32))
    for _ in range(3):
        run([x], [x])
    assert (device.memory.read(x, (1000,), FLOAT32) == 27).all()


def test_equal_kernels_are_compiled_and_loaded_once():
    device = cpu()
    device.load(scale(10))
    before = device.compiler.counts.compiled + device.compiler.counts.from_disk
    keep = [device.load(scale(n)) for n in (11, 12, 13)]
    counts = device.compiler.counts
    assert counts.compiled + counts.from_disk == before + 3  # drivers alone
    assert counts.from_memory == 3
    first, *others = [run.code for run in keep]
    assert all(code.keeps[1] is first for code in others)  # where it was linked with the driver


def test_programs_of_one_name_are_distinct(device):
    runs = [device.load(scale(n)) for n in (3, 5)]
    outs = [np.zeros(5, np.float32) for _ in runs]
    for run, out in zip(runs, outs, strict=True):
        to = device.memory.copy(out)
        run([device.memory.copy(np.ones(5, np.float32))], [to])
        out[:] = device.memory.read(to, (5,), FLOAT32)
    assert [out.tolist() for out in outs] == [[3, 3, 3, 0, 0], [3, 3, 3, 3, 3]]


@pytest.mark.parametrize("tiles", [1, 2, 3, 37, 1000])
def test_bits_do_not_depend_on_threads(device, threads, tiles):
    run = device.load(summed(tiles))
    x = np.random.default_rng(tiles).standard_normal(64 * tiles).astype(np.float32)
    found = set()
    for count in (1, 2, 3, 2, 5, 1):
        threads(count)
        for _ in range(10):
            bits, took_part = sums(device, run, x)
            found.add(bits)
            assert 1 <= took_part <= count
    assert len(found) == 1
    value = np.array(found.pop(), np.int32).view(np.float32)
    np.testing.assert_allclose(value, x.astype(np.float64).sum(), atol=1e-2)


def test_workers_do_take_part(device, threads):
    """In programs that are long enough to wait for them, on a machine that may be busy."""
    run = device.load(summed(20_000))
    x = np.ones(20_000 * 64, np.float32)
    for count in (2, 3):
        threads(count)
        assert any(sums(device, run, x)[1] == count for _ in range(500))


def test_serial_programs_wake_no_workers(threads):
    device = cpu()
    threads(3)
    before = threading.active_count()
    run = device.load(replace(summed(50), parallel=False))
    assert sums(device, run, np.ones(50 * 64, np.float32))[1] == 1
    assert threading.active_count() == before


def test_many_callers_at_once(device, threads):
    """One has the workers, the others run alone; all get the same bits."""
    threads(2)
    run = device.load(summed(100))
    x = np.random.default_rng(0).standard_normal(6400).astype(np.float32)
    expected, found = sums(device, run, x)[0], []

    def work() -> None:
        found.extend(sums(device, run, x)[0] for _ in range(100))

    callers = [threading.Thread(target=work) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert found == [expected] * 600


def test_callers_while_the_number_of_threads_changes(device, threads):
    run = device.load(summed(20))
    x = np.ones(20 * 64, np.float32)
    expected, found, stop = sums(device, run, x)[0], set(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            found.add(sums(device, run, x)[0])

    caller = threading.Thread(target=work)
    caller.start()
    for count in (1, 3, 2, 1, 4, 2) * 3:
        threads(count)
        sums(device, run, x)
    stop.set()
    caller.join(60)
    assert found == {expected}


def test_working_memory_returns_to_the_pool():
    device = cpu()
    pool = device.memory.pool
    for arena_bytes in (100, 8 << 20):
        run = device.load(replace(scale(4), arena_bytes=arena_bytes, sync_bytes=64))
        x, y = (device.memory.copy(np.ones(4, np.float32)) for _ in range(2))
        before = pool.live_bytes
        run([x], [y])
        assert pool.live_bytes == before
        refills = pool.refills
        for _ in range(5):
            run([x], [y])
        assert pool.refills == refills and pool.live_bytes == before


def test_the_memory_limit_stops_a_program_before_it_runs(monkeypatch):
    device = cpu()
    run = device.load(replace(scale(4), arena_bytes=1 << 20))
    x, y = (device.memory.copy(np.ones(4, np.float32)) for _ in range(2))
    monkeypatch.setattr(config, "memory_limit_bytes", 1 << 19)
    with pytest.raises(OutOfMemoryError):
        run([x], [y])
    assert (y.view((4,), FLOAT32) == 1).all()
    monkeypatch.setattr(config, "memory_limit_bytes", 0)
    run([x], [y])
    assert (y.view((4,), FLOAT32) == 3).all()


def test_patience_is_less_than_the_work():
    assert patience_ns(summed(1, work=0)) == 2_000
    assert patience_ns(summed(1, work=400_000)) == 50_000
    assert patience_ns(summed(1, work=10**12)) == 100_000
