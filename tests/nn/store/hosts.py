"""Hosts of a store as namespaces of the network, of which one is lost while a client works.

The client and the servers are processes made by fork, since importing tfn takes longer than a turn;
each enters the namespace of its host.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tfn.nn.store import Store, remote, scrub, serve, verify

_SPEC = importlib.util.spec_from_file_location(
    "namespaces", Path(__file__).parents[3] / "benchmarks" / "namespaces.py"
)
assert _SPEC and _SPEC.loader
namespaces: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(namespaces)

NEW_NETWORK = 0x40000000  # CLONE_NEWNET of Linux
TOKEN, PORT = "0011223344556677", 8400


def tree_of(seed: int, size: int) -> dict[str, Any]:
    """Arrays of which each byte depends on a seed."""
    rng = np.random.default_rng(seed)
    return {"a": rng.integers(0, 256, size, np.uint8), "n": np.asarray(seed)}


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether arrays are those that were written."""
    return all(np.array_equal(found[name], x) for name, x in expected.items())


def on(host: str, work: Callable[[], Any]) -> int:
    """The id of a process on a host: its exit status is 0 if the work ends without an error."""
    child = os.fork()
    if child:
        return child
    try:
        with open(f"/run/netns/tfn-{namespaces.TAG}-{host}") as file:
            assert ctypes.CDLL(None).setns(file.fileno(), NEW_NETWORK) == 0
        warnings.simplefilter("ignore")  # of hosts that are lost
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def ended(child: int) -> bool:
    """Whether a process ended without an error."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def lost(folder: Path, turns: int, size: int = 4_000_000, seed: int = 0) -> dict[str, int]:
    """Turns in which a host is lost while it is read from, or written to; how many went well.

    A turn is well if what was acknowledged is read from the others while the host is away, and if,
    when it is back, what is missing there is named and written.
    """
    chance, good = Random(seed), {"read": 0, "write": 0, "named": 0}
    servers, acknowledged = [], list[int]()
    urls = [f"http://10.77.0.{i}:{PORT}" for i in (2, 3)]
    for i, name in enumerate("bc", 2):
        Store(folder / name)
        begin = lambda i=i, name=name: serve(
            folder / name, f"10.77.0.{i}", PORT, token=TOKEN
        ).serve_forever()
        servers.append(on(f"host{i}", begin))
    remote.CONNECT_SECONDS = 0.3

    def opened() -> Store:
        places = [folder / "a", *urls]
        store = Store(places, replicas=2, token=TOKEN, block_bytes=max(4096, size >> 6))
        for place in store.places:
            if isinstance(place, remote.Remote):
                place._timeout_s = 0.5
        return store

    def worked(kind: str, turn: int) -> None:
        store = opened()
        (folder / "begun").touch()
        if kind == "write":
            store.put(f"run/{turn}", tree_of(turn, size))
        else:
            for seed in acknowledged[-3:]:
                assert same(store.get(f"run/{seed}"), tree_of(seed, size))

    def read_without() -> None:
        store = Store(folder / "a", token=TOKEN)  # it knows of the others
        for seed in acknowledged[-3:]:
            assert same(store.get(f"run/{seed}"), tree_of(seed, size))

    def mended() -> None:
        store = opened()
        found = [damage for damage in scrub(store) if damage.what != "misplaced"]
        assert all(damage.mended and damage.holds for damage in found), found
        left = verify(store)
        assert not left, left
        (folder / "found").write_text(str(len(found)))

    def ready() -> None:
        for _ in range(100):
            try:
                opened()
                return
            except Exception:
                time.sleep(0.05)
        raise TimeoutError("no server answers")

    try:
        assert ended(on("host1", ready))
        assert ended(on("host1", lambda: worked("write", 0)))
        acknowledged.append(0)
        for turn in range(1, 2 * turns + 1):
            kind, host = ("read", "write")[turn % 2], ("host2", "host3")[turn // 2 % 2]
            (folder / "begun").unlink(missing_ok=True)
            client = on("host1", lambda kind=kind, turn=turn: worked(kind, turn))
            while not (folder / "begun").exists():
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.25))
            down(host)
            well = ended(client)
            acknowledged += [turn] * (well and kind == "write")
            well &= ended(on("host1", read_without))
            namespaces.up(host)
            assert ended(on("host1", ready))
            well &= ended(on("host1", mended))
            good[kind] += well
            good["named"] += int((folder / "found").read_text())
    finally:
        for child in servers:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return good


def down(host: str) -> None:
    """Set the link of a host down."""
    words = ["ip", "-n", f"tfn-{namespaces.TAG}-{host}", "link", "set", "eth0", "down"]
    subprocess.run(words, check=True)
