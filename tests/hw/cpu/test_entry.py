"""Native entries: mismatched arguments, memory, donation, references, threads."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tests.hw.entries import KIND, SIZE, Toy, device, entry, numbers, toy
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.hw.buffer import Buffer
from tfn.hw.cpu.threads import Threads
from tfn.hw.memory import size_class
from tfn.lower.program import Slot, Space
from tfn.trace.aval import kind_of


@pytest.fixture(scope="module")
def on() -> Any:
    return device()


def test_a_call_computes_and_makes_an_array(on: Any) -> None:
    enter, x = entry(on), toy(on, 2)
    y = enter(x)
    assert y.kind is KIND and y.shape == (SIZE,) and y.dtype == FLOAT32 and y.weak_type is False
    assert y.uop is None and y.owner is None and y.known is True
    assert y.buffer.exclusive and y.buffer.size_bytes == 4 * SIZE
    assert type(y) is Toy and numbers(on, y) == [6] * SIZE
    assert numbers(on, enter(enter(y))) == [54] * SIZE and numbers(on, x) == [2] * SIZE


def misfits(on: Any) -> list[Any]:
    deleted, foreign, half_made = toy(on), toy(on), Toy()
    deleted.buffer = None
    memory = np.ones(SIZE, np.float32)
    foreign.buffer = Buffer(memory.ctypes.data, memory.nbytes, memory)
    half_made.kind, half_made.weak_type = KIND, False
    return [
        toy(on, weak=True),
        toy(on, kind=kind_of((SIZE,), INT32)),
        Toy(),
        half_made,
        toy(on, kind=kind_of((SIZE, 1), FLOAT32)),
        deleted,
        foreign,
        1.0,
        None,
        memory,
        [toy(on)],
    ]


def test_mismatched_arguments_are_refused_without_effects(on: Any) -> None:
    enter, x = entry(on, (0, 1), [0, 1], count=2, donated=True), toy(on)
    live = on.memory.pool.live_bytes
    for other in misfits(on):
        assert enter(x, other) is NotImplemented
        assert enter(other, x) is NotImplemented
    assert enter(x) is NotImplemented and enter() is NotImplemented
    assert enter(x, x, x) is NotImplemented
    assert x.buffer is not None
    del other
    assert on.memory.pool.live_bytes == live


def test_inputs_of_any_weakness(on: Any) -> None:
    enter = entry(on, weak=None)
    assert numbers(on, enter(toy(on, 1, weak=True))) == numbers(on, enter(toy(on, 1)))


def test_debug_nans_and_other_devices_disable_entries(on: Any, monkeypatch: Any) -> None:
    enter, x = entry(on), toy(on)
    for name, value in (("debug_nans", True), ("device", "python")):
        with monkeypatch.context() as patch:
            patch.setattr(config, name, value)
            assert enter(x) is NotImplemented
        assert enter(x) is not NotImplemented


def test_memory_limit_refuses_without_effects(on: Any, monkeypatch: Any) -> None:
    enter = entry(on, (0, 1, 2), [0, 1, 2], count=3, arena_bytes=64)
    xs = [toy(on, i) for i in range(3)]
    keep = enter(*xs)  # so that the free lists are full
    del keep
    pool = on.memory.pool
    live = pool.live_bytes
    for room in range(4):
        monkeypatch.setattr(config, "memory_limit_bytes", live + room * 64)
        assert enter(*xs) is NotImplemented
        assert pool.live_bytes == live
    monkeypatch.setattr(config, "memory_limit_bytes", live + 4 * 64)
    assert [numbers(on, y)[0] for y in enter(*xs)] == [0, 3, 6]


def test_an_empty_free_list_refuses(on: Any) -> None:
    enter, x, ys = entry(on), toy(on), []
    while (y := enter(x)) is not NotImplemented:
        ys.append(y)
    assert len(ys) < 1000  # a slab ends some time
    ys.append(x)
    on.memory.allocate(4 * SIZE)  # brings another
    assert enter(x) is not NotImplemented
    assert all(numbers(on, y) == [3] * SIZE for y in ys[:-1])


def test_donated_arrays_lose_their_buffers(on: Any) -> None:
    enter = entry(on, (0,), 0, donated=True)
    x = toy(on, 2)
    assert numbers(on, enter(x)) == [6] * SIZE
    assert x.buffer is None and enter(x) is NotImplemented
    both, x = entry(on, (0, 1), [0, 1], count=2, donated=True), toy(on)
    assert [numbers(on, y) for y in both(x, x)] == [[3] * SIZE] * 2
    assert x.buffer is None


def test_outputs_that_are_inputs_share_their_buffers(on: Any) -> None:
    aliases = ((1, Slot(Space.INPUT, 0)),)
    enter, x = entry(on, (0, 1), [0, 1], count=2, aliases=aliases, donated=True), toy(on, 7)
    buffer = x.buffer
    _, same = enter(x, toy(on))
    count = sys.getrefcount(buffer)
    assert count == 3 and same.buffer is buffer and x.buffer is None


def test_captured_arrays_are_no_arguments(on: Any) -> None:
    captured = toy(on, 5, weak=True)
    enter = entry(on, (0,), [0, 1], count=2, captured=(captured,))
    assert [numbers(on, y)[0] for y in enter(toy(on))] == [3, 15]
    captured.buffer = None
    assert enter(toy(on)) is NotImplemented


@pytest.mark.parametrize("work", [0, 10**9], ids=["short", "long"])
def test_nothing_leaks(on: Any, work: int) -> None:
    """References are counted for all that a call touches, when it works and when it refuses."""
    enter = entry(on, (0, [1]), {"a": 0, "b": (1, None)}, count=2, work_ns=work, arena_bytes=640)
    x, other = toy(on), toy(on, weak=True)
    enter(x, [x])
    watched = [
        x,
        x.buffer,
        KIND,
        KIND.shape,
        KIND.dtype,
        Toy,
        type(x.buffer),
        enter,
        enter.__self__,
    ]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(each) for each in watched]

    before, live = counts(), on.memory.pool.live_bytes
    singletons = [sys.getrefcount(each) for each in (None, True, False, NotImplemented)]
    for _ in range(5000):
        enter(x, [x])
        enter(x, [other])
        enter(x)
    after = [sys.getrefcount(each) for each in (None, True, False, NotImplemented)]
    assert counts() == before and on.memory.pool.live_bytes == live
    assert all(abs(a - b) < 1000 for a, b in zip(singletons, after, strict=True))


def test_unlocked_programs_hold_their_arguments(on: Any) -> None:
    """While it runs without the lock, its arguments are deleted and its list is emptied."""
    size = 3_000_000
    kind = kind_of((size,), FLOAT32)
    enter = entry(on, [[0]], kind=kind, work_ns=10**7)
    spare = [on.memory.allocate(4 * size) for _ in range(4)]
    del spare
    for _ in range(5):
        x = toy(on, 2, kind=kind)
        given, started = [x], threading.Event()
        del x

        def meddle(given: list[Any] = given, started: threading.Event = started) -> None:
            started.wait()
            given[0].buffer = None
            given.clear()
            for _ in range(3):
                on.memory.allocate(4 * size).view((size,), FLOAT32)[...] = -1

        thread = threading.Thread(target=meddle)
        thread.start()
        started.set()
        y = enter(given)
        thread.join()
        if y is not NotImplemented:  # it was faster than the meddler
            found = on.memory.read(y.buffer, (size,), FLOAT32)
            assert (found == 6).all()


def test_many_threads_enter_at_once(on: Any) -> None:
    for work in (0, 10**9):
        enter = entry(on, (0, 1), (0, 1), count=2, work_ns=work, arena_bytes=64)
        wrong: list[Any] = []

        def call(mark: int, enter: Any = enter, wrong: list[Any] = wrong) -> None:
            x, y = toy(on, mark), toy(on, -mark)
            for _ in range(2000):
                found = enter(x, y)
                if found is NotImplemented:  # the free lists were empty
                    on.memory.allocate(4 * SIZE)
                elif numbers(on, found[0])[0] != 3 * mark or numbers(on, found[1])[0] != -3 * mark:
                    wrong.append(found)

        threads = [threading.Thread(target=call, args=(mark,)) for mark in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_an_error_of_the_thread_pool_is_raised_without_leaks(on: Any, monkeypatch: Any) -> None:
    enter, x = entry(on, parallel=True), toy(on)
    monkeypatch.setattr(config, "threads", 1)
    assert numbers(on, enter(x)) == [3] * SIZE
    counts, live = (sys.getrefcount(x), sys.getrefcount(x.buffer)), on.memory.pool.live_bytes

    def fail(*_: Any) -> None:
        raise TypeError("no workers")

    monkeypatch.setattr(Threads, "_resize", fail)
    monkeypatch.setattr(config, "threads", 5)
    with pytest.raises(TypeError, match="no workers"):
        enter(x)
    assert (sys.getrefcount(x), sys.getrefcount(x.buffer)) == counts
    assert on.memory.pool.live_bytes == live and x.buffer.size_bytes <= size_class(1)


def test_a_donated_buffer_is_reused_for_the_result(on: Any) -> None:
    enter = entry(on, (0, 1), [0, 1], count=2, donated=True, in_place=0)
    x, other = toy(on, 2), toy(on, 5)
    address, live = x.buffer.address, on.memory.pool.live_bytes
    y, z = enter(x, other)
    assert y.buffer.address == address and x.buffer is None and y.buffer.exclusive
    count = sys.getrefcount(y.buffer)
    assert on.memory.pool.live_bytes == live and count == 2
    assert numbers(on, y) == [6] * SIZE and numbers(on, z) == [15] * SIZE


def test_a_shared_buffer_is_not_overwritten(on: Any) -> None:
    enter = entry(on, (0, 1), [0, 1], count=2, donated=True, in_place=0)
    x, seen, kept = toy(on, 2), toy(on, 3), toy(on, 4)
    data, second = on.memory.read(seen.buffer, (SIZE,), FLOAT32), toy(on)
    second.buffer = kept.buffer
    for first, value in ((x, 2), (seen, 3), (kept, 4)):
        old = first.buffer
        y, _ = enter(first, x if first is x else toy(on))
        assert y.buffer is not old and old.view((SIZE,), FLOAT32).tolist() == [value] * SIZE
        assert numbers(on, y) == [3 * value] * SIZE and first.buffer is None
    assert data.tolist() == [3] * SIZE and numbers(on, second) == [4] * SIZE
