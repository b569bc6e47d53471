"""NCCL: one group for each message, ranks by place in the mesh, errors by name."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tests.hw.cuda.test_exchange import drivers
from tfn import lax
from tfn.config import config
from tfn.errors import DeviceError
from tfn.hw.cuda import nccl
from tfn.hw.cuda.exchange import PeerCopies
from tfn.hw.cuda.nccl import Nccl
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P


class SimulatedNccl:
    """The functions of NCCL: what is sent and received in a group meets at its end.

    As with NCCL a message is in the streams of both GPUs: it begins when both have come to it.
    """

    def __init__(self, gpus: SimulatedCuda) -> None:
        self.gpus, self.calls, self.fails = gpus, [], ""
        self.listed: list[tuple[str, int, int, int, int, Any]] = []
        self.communicators: dict[int, int] = {}

    def functions(self) -> dict[str, Any]:
        return {name: self._function(name) for name in nccl.FUNCTIONS}

    def _function(self, name: str) -> Any:
        def function(*arguments: Any) -> Any:
            self.calls.append(name)
            if name == self.fails:
                return 3
            return getattr(self, name)(*arguments) or 0

        return getattr(self, name) if name == "ncclGetErrorString" else function

    def ncclGetErrorString(self, code: int) -> bytes:
        return b"internal error"

    def ncclCommInitAll(self, out: Any, count: int, numbers: Any) -> None:
        self.numbers = list(numbers)
        for rank in range(count):
            out[rank] = 0x100 + rank
            self.communicators[0x100 + rank] = rank

    def ncclCommDestroy(self, communicator: Any) -> None:
        del self.communicators[communicator.value]

    def ncclGroupStart(self) -> None:
        assert not self.listed

    def ncclSend(self, *arguments: Any) -> None:
        self._add("send", *arguments)

    def ncclRecv(self, *arguments: Any) -> None:
        self._add("receive", *arguments)

    def _add(
        self, what: str, place: Any, size: Any, kind: int, peer: int, comm: Any, stream: Any
    ) -> None:
        rank = self.communicators[comm.value]
        assert kind == 0 and self.gpus._at(stream).device == self.numbers[rank] and peer != rank
        self.listed.append((what, rank, peer, place.value, size.value, stream))

    def ncclGroupEnd(self) -> None:
        sent = [row for row in self.listed if row[0] == "send"]
        received = [row for row in self.listed if row[0] == "receive"]
        assert len(sent) == len(received)
        for _, rank, peer, address, size, stream in received:
            match = next(row for row in sent if row[1:3] == (peer, rank) and row[4] == size)
            sent.remove(match)
            self._meet(stream, match[5])
            self.gpus._copy(address, match[3], size, stream)
            self._meet(stream, match[5])
        self.listed.clear()

    def _meet(self, first: Any, second: Any) -> None:
        events = []
        for stream in (first, second):
            event = ctypes.c_void_p()
            self.gpus.cuEventCreate(ctypes.byref(event), 2)
            self.gpus.cuEventRecord(event, stream)
            events.append(event)
        self.gpus.cuStreamWaitEvent(first, events[1], 0)
        self.gpus.cuStreamWaitEvent(second, events[0], 0)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SimulatedCuda, SimulatedNccl]]:
    """Four GPUs, and NCCL."""
    monkeypatch.setattr(config, "disk_cache", False)
    gpus = SimulatedCuda(count=4)
    simulated = SimulatedNccl(gpus)
    functions = simulated.functions()
    monkeypatch.setattr(nccl, "library", lambda: functions)
    with default(device_of(gpus, native=True)):
        yield gpus, simulated


def mesh() -> Any:
    return tfn.make_mesh((2, 2), ("data", "model"), (AxisType.Auto,) * 2)


def test_values_go_by_nccl(both: tuple[SimulatedCuda, SimulatedNccl]) -> None:
    gpus, simulated = both
    x = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")

    def f(v: Any) -> Any:
        moved = lax.ppermute(v, "data", [(0, 1)])
        return (
            lax.psum(v, "model")
            + moved
            + lax.all_to_all(v, "data", 1, 0, tiled=True).reshape(v.shape)
        )

    run = tfn.shard_map(
        f, mesh=mesh(), in_specs=P("data", "model"), out_specs=P("data", "model"), check_vma=False
    )
    y = tfn.device_put(x, NamedSharding(mesh(), P("data", "model")))
    got = np.asarray(run(y))
    assert simulated.numbers == [0, 1, 2, 3] and not gpus.calls["cuMemcpyPeerAsync"]
    assert simulated.calls.count("ncclGroupStart") == simulated.calls.count("ncclGroupEnd") >= 2
    parts = {(i, j): x[2 * i : 2 * i + 2, 4 * j : 4 * j + 4] for i in (0, 1) for j in (0, 1)}
    for (i, j), v in parts.items():
        total = parts[i, 0] + parts[i, 1]
        moved = parts[0, j] if i == 1 else np.zeros_like(v)
        halves = [parts[k, j][:, 2 * i : 2 * i + 2] for k in (0, 1)]
        expected = total + moved + np.concatenate(halves, 0).reshape(v.shape)
        part = got[2 * i : 2 * i + 2, 4 * j : 4 * j + 4]
        np.testing.assert_allclose(part, expected, rtol=1e-6)


def test_an_error_of_nccl_has_its_name(both: tuple[SimulatedCuda, SimulatedNccl]) -> None:
    _, simulated = both
    y = tfn.device_put(np.ones((4, 4), "float32"), NamedSharding(mesh(), P("data")))
    simulated.fails = "ncclSend"
    with pytest.raises(DeviceError, match="NCCL could not exchange") as raised:
        tfn.jit(lambda y: y.sum())(y)
    assert "internal error (3), from ncclSend" in str(raised.value)


def test_communicators_end_with_what_has_made_them() -> None:
    simulated = SimulatedNccl(SimulatedCuda(count=2))
    gpus = drivers(simulated.gpus)
    carrier = Nccl(gpus, simulated.functions())
    assert len(simulated.communicators) == 2
    del carrier
    assert not simulated.communicators


def test_without_nccl_the_driver_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "library", lambda: None)
    assert isinstance(nccl.carrier(drivers(SimulatedCuda(count=2))), PeerCopies)


def test_a_library_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "NAMES", ("libno-such-library.so",))
    nccl.library.cache_clear()
    try:
        assert nccl.library() is None
    finally:
        nccl.library.cache_clear()
