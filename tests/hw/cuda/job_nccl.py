"""Job: a process with a simulated GPU and a simulated NCCL, among others.

    python job_nccl.py RANK SIZE FOLDER [collectives | absent | shared | lost | fails]

Processes write what they send to files of the folder.  The host carries nothing, except where it is
said to.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tests.distributed import job_collectives
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tfn import lax
from tfn.config import config
from tfn.distributed.transport import timeout, wait
from tfn.errors import DistributedError
from tfn.hw.cuda import library, nccl, nccl_processes
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace.processes import processes

DEADLINE_S = 60.0
LARGE = job_collectives.SUMMED_LATER // 4 + 1  # words that are summed by the transport
REDUCE = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum}
KINDS = {number: name for name, number in nccl_processes.DTYPES.items()}


def put(path: Path, data: bytes) -> None:
    """Write a file that is there as a whole, or not at all."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(data)
    part.rename(path)


def get(path: Path) -> bytes:
    """The bytes of a file, once it is there."""
    end = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.001)
    return path.read_bytes()


class Gpu(SimulatedCuda):
    """A GPU whose stream runs while it is asked for, up to a message that has not come."""

    def cuEventQuery(self, event: Any) -> int:
        point = self._at(event)[0]
        while not point.done:
            if getattr(point.stream.work[0], "waits", bool)():
                return library.NOT_READY
            point.stream.run(1)
        return 0


class Receive:
    """Work of a stream: messages that come."""

    def __init__(self, paths: Sequence[Path], act: Callable[[list[bytes]], None]) -> None:
        self.paths, self.act = paths, act

    def waits(self) -> bool:
        return not all(path.exists() for path in self.paths)

    def __call__(self) -> None:
        self.act([get(path) for path in self.paths])


class SimulatedNccl:
    """The functions of NCCL of one process; a group is enqueued at its end."""

    def __init__(self, gpus: SimulatedCuda, folder: Path) -> None:
        self.gpus, self.folder, self.calls, self.fails = gpus, folder, [], ""
        self.members: dict[int, tuple[str, int, int]] = {}
        self.counts: dict[tuple[str, int, int], int] = {}
        self.polled: dict[int, int] = {}
        self.group: list[Callable[[], None]] = []

    def functions(self) -> dict[str, Any]:
        return {name: partial(self.call, name) for name in nccl.FUNCTIONS}

    def call(self, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        return 3 if name == self.fails else getattr(self, name)(*arguments) or 0

    def ncclGetErrorString(self, code: int) -> bytes:
        return b"internal error"

    def ncclGetUniqueId(self, out: Any) -> None:
        out._obj.internal = os.urandom(32).hex().encode()

    def ncclCommInitRankConfig(self, out: Any, n: int, id_: Any, rank: int, config: Any) -> int:
        assert config._obj.magic == 0xCAFEBEEF and config._obj.blocking == 0
        out._obj.value = 0x100 + len(self.members)
        self.members[out._obj.value] = id_.internal.decode(), rank, n
        return nccl_processes.IN_PROGRESS

    def ncclCommGetAsyncError(self, comm: Any, out: Any) -> None:
        self.polled[comm.value] = self.polled.get(comm.value, 0) + 1
        out._obj.value = 7 if self.polled[comm.value] == 1 else 0

    def ncclCommDestroy(self, comm: Any) -> None:
        del self.members[comm.value]

    ncclCommAbort = ncclCommDestroy

    def ncclGroupStart(self) -> None:
        assert not self.group

    def ncclGroupEnd(self) -> None:
        sends = [act for act in self.group if not isinstance(act, Receive)]
        for act in [*sends, *(act for act in self.group if isinstance(act, Receive))]:
            self.stream.work.append(act)
        self.group.clear()

    def path(self, id_: str, source: int, target: int) -> Path:
        """The file of the next message of a pair, as either of them counts."""
        key = id_, source, target
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.folder / f"{id_}-{source}-{target}-{self.counts[key]}"

    def ncclSend(self, place: Any, size: Any, kind: int, peer: int, comm: Any, stream: Any) -> None:
        id_, rank, _ = self.members[comm.value]
        path, self.stream = self.path(id_, rank, peer), self.gpus._at(stream)
        # As the messages to this process itself are counted once, by the sender.
        self.group.append(lambda: put(path, ctypes.string_at(place.value, size.value)))

    def receives(self, id_: str, peers: Sequence[int], rank: int) -> list[Path]:
        return [self.folder / f"{id_}-{peer}-{rank}-{self.next(id_, peer, rank)}" for peer in peers]

    def next(self, id_: str, peer: int, rank: int) -> int:
        key = f"received {id_}", peer, rank
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.counts[key]

    def ncclRecv(self, place: Any, size: Any, kind: int, peer: int, comm: Any, stream: Any) -> None:
        id_, rank, _ = self.members[comm.value]

        def act(came: list[bytes]) -> None:
            assert len(came[0]) == size.value
            ctypes.memmove(place.value, came[0], size.value)

        self.group.append(Receive(self.receives(id_, [peer], rank), act))

    def ncclAllGather(
        self, sent: Any, got: Any, size: Any, kind: int, comm: Any, stream: Any
    ) -> None:
        *_, n = self.members[comm.value]
        for peer in range(n):
            self.ncclSend(sent, size, kind, peer, comm, stream)
            place = ctypes.c_void_p(got.value + peer * size.value)
            self.ncclRecv(place, size, kind, peer, comm, stream)

    def ncclAllReduce(
        self, sent: Any, got: Any, count: Any, kind: int, op: int, comm: Any, stream: Any
    ) -> None:
        id_, rank, n = self.members[comm.value]
        dtype = tfn.numpy.dtype(KINDS[kind])
        size = ctypes.c_size_t(count.value * dtype.itemsize)

        def act(came: list[bytes]) -> None:
            total, *more = [np.frombuffer(x, dtype) for x in came]
            for x in more:
                total = REDUCE[op](total, x)
            ctypes.memmove(got.value, total.astype(dtype).tobytes(), size.value)

        for peer in range(n):
            self.ncclSend(sent, size, kind, peer, comm, stream)
        self.group.append(Receive(self.receives(id_, range(n), rank), act))


def exchanged(folder: Path, own: bytes, ranks: Sequence[int], what: str) -> list[bytes]:
    """The bytes of each, by files: the connection of the job."""
    exchanged.count += 1  # type: ignore[attr-defined]
    name = f"{'-'.join(map(str, ranks))}-{exchanged.count}"  # type: ignore[attr-defined]
    put(folder / f"control-{name}-of-{processes.index}", own)
    return [get(folder / f"control-{name}-of-{rank}") for rank in ranks]


exchanged.count = 0  # type: ignore[attr-defined]


def gathered(mesh: Any) -> None:
    """One message, of four numbers of each."""
    over = NamedSharding(mesh, P("d"))
    body = tfn.shard_map(
        lambda x: lax.all_gather(x, "d"), mesh=mesh, in_specs=P("d"), out_specs=P("d")
    )
    x = tfn.device_put(np.arange(4.0 * mesh.size, dtype="float32"), over)
    tfn.block_until_ready(tfn.jit(body)(x))


def main(rank: int, size: int, folder: Path, what: str) -> None:
    gpus = Gpu()
    simulated = SimulatedNccl(gpus, folder)
    functions = simulated.functions()
    has_nccl = what != "absent" or rank != 0
    gpus.machine = 7 if what == "shared" else gpus.machine
    nccl.library = lambda: functions if has_nccl else None  # type: ignore[assignment]
    processes.index, processes.device_counts = rank, (1,) * size
    processes.exchanged = partial(exchanged, folder)
    deadline_s = 0.5 if what == "lost" else DEADLINE_S
    processes.wait = lambda name, pending: wait(
        pending, deadline_s, lambda s: timeout(name, waited_s=s)
    )
    processes.agree = lambda *of: None
    config.disk_cache = False
    with default(device_of(gpus)):
        mesh = tfn.make_mesh((size,), ("d",), (AxisType.Auto,))
        if what == "collectives":
            done = job_collectives.check("float32", mesh, (0, 13))
            assert {"ncclAllGather", "ncclSend", "ncclRecv"} <= {*simulated.calls}
            done += job_collectives.check("int32", mesh, (LARGE,))
            assert "ncclAllReduce" in simulated.calls
            print(f"{done} results", flush=True)
            return
        if what == "fails":
            simulated.fails = "ncclAllGather"
        if what == "lost" and rank == 1:
            simulated.ncclGroupEnd = lambda: simulated.group.clear()  # type: ignore[method-assign]
        try:
            gathered(mesh)
        except (DistributedError, AssertionError) as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        if rank == 0 and what not in ("absent", "shared"):
            assert not simulated.members and "ncclCommAbort" in simulated.calls


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
