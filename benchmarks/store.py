"""Measurements of the store: faults, a large index, placement, speeds.

python -m benchmarks.store                   all
python -m benchmarks.store --only faults     some of them

Full disks need a small file system (mount -t tmpfs -o size=16m none DIR), and ``--small DIR``.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tfn
from tests.nn.store import hosts
from tfn import nn, random
from tfn import numpy as jnp
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.store import Store, gc, hashing, remote, scrub, serve, verify
from tfn.nn.store.placement import MIX

MB = 1e6


def tree_of(seed: int, size: int = 4_000_000) -> dict[str, Any]:
    """Arrays of which each byte depends on a seed."""
    rng = np.random.default_rng(seed)
    return {
        "a": rng.integers(0, 256, size, np.uint8),
        "b": rng.normal(size=100),
        "n": np.asarray(seed),
    }


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether arrays are those that were written."""
    return all(np.array_equal(found[name], x) for name, x in expected.items())


def sharing(folder: Path, options: argparse.Namespace) -> None:
    """Bytes of a second checkpoint, and what an asynchronous one costs a minute of training."""
    layers = {str(i): np.random.default_rng(i).normal(size=1_600_000) for i in range(20)}
    total = sum(x.nbytes for x in layers.values())
    used = lambda: sum(path.stat().st_size for path in folder.glob("blocks/*/*"))
    run = Checkpoints("run", store=folder, keep=100, asynchronous=True)
    changed = layers | {str(i): layers[str(i)] + 1 for i in range(10)}
    for step, (what, tree) in enumerate(
        [("first", layers), ("unchanged", layers), ("half", changed)]
    ):
        before, cpu, wall = used(), time.process_time(), time.perf_counter()
        run.save(step, tree)
        blocked = time.perf_counter() - wall
        run.wait()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(
            f"{what}: {(used() - before) / total:.2%} of {total / MB:.0f} MB written, blocked "
            f"{blocked:.3f} s, CPU {cpu:.2f} s ({cpu / 60:.2%} of a minute), wall {wall:.2f} s"
        )


def training(folder: Path, options: argparse.Namespace) -> None:
    """A run that saves once a minute beside the same run without, in turns of a minute.

    Other work on the machine changes how long steps take by more than what is looked for: the time
    of the processor outside the steps is what saving costs, and steps are compared by medians.
    """
    sizes = (1024, 2048, 2048, 1024)
    optimizer = optim.adam(1e-3)
    keys = random.split(random.key(0), len(sizes))
    layers = [nn.Linear.init(keys[i], n, m) for i, (n, m) in enumerate(pairwise(sizes))]

    @tfn.jit(donate_argnums=(0, 1))
    def step(layers: Any, state: Any, x: Any) -> Any:
        def loss(layers: Any) -> Any:
            y = x
            for layer in layers:
                y = nn.tanh(layer(y))
            return jnp.mean((y - x) ** 2)

        found, grads = tfn.value_and_grad(loss)(layers)
        updates, state = optimizer.update(grads, state, layers)
        return optim.apply_updates(layers, updates), state, found

    run = Checkpoints("run", store=folder, keep=2, asynchronous=True)
    state, xs = optimizer.init(layers), random.normal(keys[-1], (64, sizes[0]))
    size = sum(np.asarray(x).nbytes for x in tfn.tree.leaves((layers, state)))
    rows: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    outside, total = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
    blocked = 0.0
    for turn in range(2 * options.minutes + 1):  # the first one compiles
        saves, own = bool(turn % 2), list[tuple[float, float]]()
        begin, cpu = time.perf_counter(), time.process_time()
        if saves:
            run.save(turn, (layers, state))
            blocked = max(blocked, time.perf_counter() - begin)
        while time.perf_counter() < begin + (options.turn_s if turn else 5):
            wall, mine = time.perf_counter(), time.thread_time()
            layers, state, found = step(layers, state, xs)
            found.block_until_ready()
            own.append((time.perf_counter() - wall, time.thread_time() - mine))
        run.wait()
        if turn:
            rows[saves] += own
            total[saves] += time.process_time() - cpu
            outside[saves] += time.process_time() - cpu - sum(x for _, x in own)
    slower = np.median(rows[True], 0) / np.median(rows[False], 0) - 1
    cost = (outside[True] - outside[False]) / options.minutes
    print(
        f"training, {size / MB:.0f} MB of state, {options.minutes} turns of {options.turn_s:.0f} s "
        f"with a checkpoint and as many without: {len(rows[True])} and {len(rows[False])} steps, a "
        f"checkpoint takes {cost:.2f} s of CPU time ({cost / 60:.2%} of a core's minute, "
        f"{(outside[True] - outside[False]) / total[True]:.2%} of what the run got), and blocks "
        f"{blocked:.3f} s; the median step {slower[0]:+.2%} of wall, {slower[1]:+.2%} of CPU time"
    )


def faults(folder: Path, options: argparse.Namespace) -> None:
    """Two thousand flipped bits, cut and swapped blocks, a vanished folder."""
    chance = Random(options.seed)
    folders = [folder / name for name in "abc"]
    store = Store(folders, replicas=2, block_bytes=4096)
    tree = tree_of(0)
    store.put("run", tree)
    named = mended = 0
    for _ in range(20):
        whole = {p for f in folders for p in f.glob("blocks/*/*")}
        bad: dict[Path, bytes] = {}
        for path in chance.sample(sorted(whole), 140):
            if path.name in {other.name for other in bad}:
                continue
            raw = bytearray(path.read_bytes())
            bad[path] = bytes(raw)
            at = chance.randrange(8 * len(raw))
            raw[at // 8] ^= 1 << at % 8
            kind = len(bad)
            path.write_bytes(raw if kind < 101 else raw[:-1] if kind % 2 else b"swapped" * 100)
        found = scrub(store)
        named += {damage.file for damage in found} == {*map(str, bad)}
        mended += all(path.read_bytes() == raw for path, raw in bad.items())
    print(
        f"20 rounds of 100 flipped bits and some 35 cut or other blocks: all named in {named}, "
        f"all mended in {mended}, whole now: {verify(store) == [] and same(store.get('run'), tree)}"
    )
    folders[1].rename(folder / "away")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store.put("more", tree_of(1))
        print(
            "a folder vanished:", same(store.get("run"), tree), same(store.get("more"), tree_of(1))
        )


def full(folder: Path, options: argparse.Namespace) -> None:
    """A disk that gets full: what was acknowledged is there, and writing goes on after that."""
    if options.small is None:
        print("full disk: not measured, for want of --small")
        return
    store, kept, failed = Store(options.small / "store", block_bytes=1 << 16), [], 0
    for turn in range(40):
        name = f"run/{turn}"
        try:
            store.put(name, tree_of(turn, 1_500_000))
            kept.append(turn)
        except OSError:
            failed += 1
            assert all(same(store.get(f"run/{i}"), tree_of(i, 1_500_000)) for i in kept)
            store.delete(f"run/{kept.pop(0)}")
            gc(store, age_seconds=0)
    print(f"full disk: {failed} puts failed, {len(kept)} kept, damage: {verify(store)}")


def lost(folder: Path, options: argparse.Namespace) -> None:
    """A host that is killed while it is read from, and written to."""
    remote.LOST_SECONDS = 0.2
    chance, good = Random(options.seed), {"read": 0, "write": 0}
    Store(folder / "b")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def started() -> int:
        child = os.fork()
        if not child:
            serve(folder / "b", port=port).serve_forever()
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return child
            except OSError:
                time.sleep(0.02)
        raise TimeoutError

    child, store, acknowledged = started(), None, []
    for turn in range(2 * options.turns):
        store = store or Store(
            [folder / "a", f"http://127.0.0.1:{port}"], replicas=2, block_bytes=1 << 16
        )
        kind = ("read", "write")[turn % 2]
        killer = os.fork()
        if not killer:
            time.sleep(chance.uniform(0, 0.3))
            os.kill(child, signal.SIGKILL)
            os._exit(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "write" or not acknowledged:
                store.put(f"run/{turn}", tree_of(turn))
                acknowledged.append(turn)
            else:
                assert same(store.get(f"run/{acknowledged[-1]}"), tree_of(acknowledged[-1]))
        os.waitpid(killer, 0)
        os.waitpid(child, 0)
        assert all(same(Store(folder / "a").get(f"run/{i}"), tree_of(i)) for i in acknowledged[-2:])
        child = started()
        time.sleep(0.25)
        scrub(store)
        good[kind] += verify(store) == []
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    here = all(same(Store(folder / "b").get(f"run/{i}"), tree_of(i)) for i in acknowledged)
    print(f"a host lost {options.turns} times each: whole again {good}, all on the other: {here}")


def links(folder: Path, options: argparse.Namespace) -> None:
    """Namespaces as hosts, whose links go down while a client reads and writes."""
    refused = hosts.namespaces.allowed()
    if refused:
        print(f"links that go down: not measured, {refused}")
        return
    with hosts.namespaces.hosts(3):
        found = hosts.lost(folder, options.turns, seed=options.seed)
    print(
        f"a link went down {options.turns} times each: all well in {found['read']} reads and "
        f"{found['write']} writes, {found['named']} missing copies named and written"
    )


def index(folder: Path, options: argparse.Namespace) -> None:
    """A million blocks: open, a page of names, a pass over all, memory."""
    store = Store(folder)
    rng = np.random.default_rng(0)
    for i in range(256):
        (folder / "blocks" / f"{i:02x}").mkdir(exist_ok=True)
    for raw in rng.bytes(32 * options.blocks).hex(" ", 32).split(" "):
        os.close(os.open(folder / "blocks" / raw[:2] / raw, os.O_CREAT | os.O_WRONLY))
    for i in range(2000):
        store.put(f"run-{i % 20}/step-{i:09}", {"n": np.asarray(i)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(9):
        start = time.perf_counter()
        Store(folder).get("run-3/step-000000003")
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    page = Store(folder).ls("run-7/", limit=50)
    listed = time.perf_counter() - start
    count = sum(1 for _ in store.folders()[0].items("blocks"))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{count:,} blocks: open and get {min(times):.4f} s, {len(page)} names {listed:.4f} s, "
        f"{grown:.1f} MiB more memory for all"
    )


def placement(folder: Path, options: argparse.Namespace) -> None:
    """A thousand hosts and 100 TB: shares, and what moves when one comes or goes."""
    rng, hosts = np.random.default_rng(0), 1000
    places = jnp.asarray(rng.integers(0, 1 << 64, hosts + 1, np.uint64))

    def mixed(x: Any) -> Any:
        x = (x ^ (x >> jnp.uint64(30))) * jnp.uint64(MIX[0])
        x = (x ^ (x >> jnp.uint64(27))) * jnp.uint64(MIX[1])
        return x ^ (x >> jnp.uint64(31))

    @tfn.jit
    def homes(blocks: Any) -> Any:
        score = lambda blocks, places: mixed(mixed(mixed(blocks) ^ places))
        now = jnp.argmax(score(blocks[:, None], places[:hosts]), 1)
        return now, score(blocks, places[hosts]) > score(blocks, places[now])

    @tfn.jit
    def others(blocks: Any) -> Any:
        return 1 + jnp.argmax(mixed(mixed(mixed(blocks)[:, None] ^ places[1:hosts])), 1)

    counts, came, went, checked = np.zeros(hosts, int), 0, 0, np.zeros(hosts, int)
    done, begin = 0, time.perf_counter()
    while done < options.simulated and time.perf_counter() < begin + options.simulate_s:
        blocks = rng.integers(0, 1 << 64, 1 << 16, np.uint64)
        now, takes = map(np.asarray, homes(jnp.asarray(blocks)))
        counts += np.bincount(now, minlength=hosts)
        came += int(takes.sum())
        if done < 1 << 21:  # when the first host goes, its blocks alone find another
            went += int((now != np.asarray(others(jnp.asarray(blocks)))).sum())
            checked += np.bincount(now, minlength=hosts)
        done += len(blocks)
    print(
        f"{done:,} blocks of 4 MiB ({done * 4 / 1024**2:.0f} TiB) on {hosts} hosts: fullest "
        f"{counts.max() / counts.mean():.3f} of the mean, emptiest "
        f"{counts.min() / counts.mean():.3f}; a host comes: {came * (hosts + 1) / done:.3f} of the "
        f"least move; goes: {went / checked[0]:.3f}; {time.perf_counter() - begin:.0f} s"
    )


def speeds(folder: Path, options: argparse.Namespace) -> None:
    """Hashes, and reads beside those of the disk, none of it in the system's cache."""
    raw = np.random.default_rng(0).integers(0, 256, 1 << 22, np.uint8)
    words = jnp.asarray(raw.view("<u4"))
    for name, call in {
        "blake3, the package": lambda: hashing.digest(raw),
        "blake3, arrays": lambda: hashing._whole(words).block_until_ready(),
    }.items():
        print(f"{name}: {len(raw) / best(call) / 1e9:.2f} GB/s of CPU time")
    store = Store(folder)
    rng = np.random.default_rng(1)
    store.put("x", {str(i): rng.integers(0, 256, 1 << 26, np.uint8) for i in range(4)})
    files = [path for path in folder.glob("blocks/*/*") if path.stat().st_size > 1 << 20]

    def cold() -> None:
        for path in files:
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    took: dict[str, list[float]] = {"disk": [], "store": []}
    for _ in range(5):
        for name, call in {
            "disk": lambda: [path.read_bytes() for path in files],
            "store": lambda: store.get("x"),
        }.items():
            cold()
            start = time.perf_counter()
            call()
            took[name].append(time.perf_counter() - start)
    size = sum(path.stat().st_size for path in files)
    disk, own = (size / min(took[name]) / 1e9 for name in ("disk", "store"))
    print(f"cold reads: disk {disk:.2f} GB/s, store {own:.2f} GB/s ({own / disk:.0%})")


def best(call: Callable[[], Any]) -> float:
    """The least CPU time of a call."""
    times = []
    for _ in range(15):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


PARTS = {
    f.__name__: f for f in (sharing, training, faults, full, lost, links, index, placement, speeds)
}


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure the store.")
    parser.add_argument("--only", choices=PARTS, nargs="*", default=[*PARTS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", type=Path, help="a small file system")
    parser.add_argument("--turns", type=int, default=20, help="of a host that is lost")
    parser.add_argument("--minutes", type=int, default=3, help="of training, with and without each")
    parser.add_argument("--turn-s", type=float, default=60.0, help="from a checkpoint to the next")
    parser.add_argument("--blocks", type=int, default=1_000_000, help="in the index")
    parser.add_argument("--simulated", type=int, default=25_000_000, help="blocks that are placed")
    parser.add_argument("--simulate-s", type=float, default=500.0, help="the most time for them")
    options = parser.parse_args()
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder), options)


if __name__ == "__main__":
    main()
