"""Exchanges over shared memory: processes are threads here, each with its own view of it."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfn.distributed import shared
from tfn.distributed.reduction import Reduction
from tfn.distributed.shared import RANK_BYTES, SLOT_BYTES, SLOTS, Group, SharedTransport
from tfn.distributed.transport import Alone, Pending, wait
from tfn.eager import run
from tfn.errors import CollectiveTimeoutError, WorkerLostError
from tfn.hw.cpu import exchange
from tfn.trace.op import Op

SIZES = (1, 13, 4096, SLOT_BYTES - 1, SLOT_BYTES * SLOTS + 5, 3 * SLOT_BYTES * SLOTS)
Begin = Callable[[], Pending]


def late(waited_s: float) -> Exception:
    return CollectiveTimeoutError(f"late by {waited_s} s")


def alive(ranks: Sequence[int]) -> None:
    """Nobody has died."""


def groups(count: int, check: Callable[[Sequence[int]], None] = alive) -> list[Group]:
    memory = mmap.mmap(-1, count * RANK_BYTES)
    advance = exchange.load(run.device("cpu").queue)  # type: ignore[arg-type]
    return [Group(memory, range(10, 10 + count), i, check, advance) for i in range(count)]


def together(count: int, work: Callable[[int, Group], Any]) -> list[Any]:
    """The results of processes, each a thread."""
    found: list[Any] = [None] * count

    def one(i: int, group: Group) -> None:
        found[i] = work(i, group)

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(groups(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(x is not None for x in found)
    return found


def data(rank: int, size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([rank, size]).integers(0, 99, size).astype("uint8")


def finished(*begins: Begin) -> None:
    wait([begin() for begin in begins], 30.0, late)


@pytest.mark.parametrize("count", [2, 3])
def test_all_gather_and_all_to_all(count: int) -> None:
    def work(rank: int, group: Group) -> bool:
        for size in SIZES:
            got = np.zeros((count, size), "uint8")
            sent = data(rank, size)
            begin = group.prepared(group.all_gather(sent, got), sent, got)
            for _ in range(3):
                got.fill(0)
                finished(begin)
                assert all((got[i] == data(i, size)).all() for i in range(count))
            sent = data(rank, size * count)
            finished(group.prepared(group.all_to_all(sent, got), sent, got))
            for i in range(count):
                assert (got[i] == data(i, size * count).reshape(count, size)[rank]).all()
        return True

    together(count, work)


def test_permutations() -> None:
    def work(rank: int, group: Group) -> bool:
        for pairs in ([(0, 1), (1, 2), (2, 0)], [(0, 0), (1, 2)], [], [(2, 1)]):
            for size in SIZES:
                sent, got = data(rank, size), np.ones(size, "uint8")
                finished(group.prepared(group.permute(pairs, sent, got), sent, got))
                begin = next((begin for begin, end in pairs if end == rank), None)
                want = np.zeros(size, "uint8") if begin is None else data(begin, size)
                assert (got == want).all()
        return True

    together(3, work)


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
@pytest.mark.parametrize("count", [2, 3])
def test_all_reduce(dtype: str, count: int) -> None:
    def work(rank: int, group: Group) -> bool:
        for size in (count, 101, 40_001, 700_001):
            values = [
                np.random.default_rng(i).normal(0, 9, size).astype(dtype) for i in range(count)
            ]
            want = values[0]
            for x in values[1:]:
                want = want + x
            sent, got = values[rank].view("uint8"), np.zeros(size, dtype)
            reduction = Reduction(Op.ADD, got.dtype)
            table = group.all_reduce(reduction, sent, got.view("uint8"))
            begin = group.prepared(table, sent, got)
            for _ in range(2):
                finished(begin)
                assert np.array_equal(got, want)
        return True

    together(count, work)


def test_exchanges_that_began_together_end_in_order() -> None:
    def work(rank: int, group: Group) -> bool:
        small, large = data(rank, 5), data(rank, SLOT_BYTES * 9)
        a, b = np.zeros((2, small.size), "uint8"), np.zeros((2, large.size), "uint8")
        first = group.prepared(group.all_gather(large, b), large, b)()
        second = group.prepared(group.all_gather(small, a), small, a)()
        wait([second, first], 30.0, late)
        assert (a[1 - rank] == data(1 - rank, 5)).all()
        assert (b[1 - rank] == data(1 - rank, large.size)).all()
        return True

    together(2, work)


def test_a_process_that_does_not_come_is_late_and_a_dead_one_is_found() -> None:
    group, _ = groups(2)
    sent, got = data(0, 8), np.zeros((2, 8), "uint8")
    with pytest.raises(CollectiveTimeoutError):
        wait([group.prepared(group.all_gather(sent, got), sent, got)()], 0.05, late)

    def dead(ranks: Sequence[int]) -> None:
        raise WorkerLostError(f"{ranks} died")

    group, _ = groups(2, dead)
    with pytest.raises(WorkerLostError, match=r"\[11\] died"):
        wait([group.prepared(group.all_gather(sent, got), sent, got)()], 5.0, late)


class Meeting:
    """What processes that are threads tell each other."""

    def __init__(self, count: int) -> None:
        self.barrier, self.said = threading.Barrier(count), [b""] * count

    def of(self, rank: int) -> Callable[[bytes, Sequence[int], str], list[bytes]]:
        def exchanged(own: bytes, ranks: Sequence[int], what: str) -> list[bytes]:
            self.said[rank] = own
            self.barrier.wait(20)
            found = list(self.said)
            self.barrier.wait(20)
            return found

        return exchanged


class Below(Alone):
    """The transport of other messages."""

    def __init__(self, rank: int) -> None:
        self.rank, self.size = rank, 2  # type: ignore[misc]


def transports(hosts: Sequence[str]) -> list[Group | None]:
    """The group that two processes make."""
    meeting, found = Meeting(2), [None, None]

    def make(rank: int) -> None:
        own = SharedTransport(Below(rank), hosts, meeting.of(rank), alive)
        found[rank] = own.group((0, 1))  # type: ignore[call-overload]

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found  # type: ignore[return-value]


def test_processes_of_one_host_share_memory_and_leave_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared, "SHARED_FOLDER", str(tmp_path))
    assert all(isinstance(group, Group) for group in transports(("a", "a")))
    assert not os.listdir(tmp_path)
    assert transports(("a", "b")) == [None, None]


def test_without_room_messages_go_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared, "SHARED_FOLDER", str(tmp_path))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert transports(("a", "a")) == [None, None] and not os.listdir(tmp_path)


def test_a_process_that_does_not_see_the_file_sends_both_below(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared, "SHARED_FOLDER", str(tmp_path))
    mapped, count = shared._mapped, iter(range(2))
    monkeypatch.setattr(shared, "_mapped", lambda *args: mapped(*args) if next(count) else None)
    assert transports(("a", "a")) == [None, None] and not os.listdir(tmp_path)
