"""Checkpoints of several processes, of processes that are killed, and the command."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.checkpoint import host
from tfn import numpy as jnp
from tfn.config import config
from tfn.dtypes import ALL
from tfn.errors import DamagedError, HostError, StateError
from tfn.nn import state
from tfn.nn.checkpoint import Checkpoints, __main__, load, read, steps, verify
from tfn.nn.checkpoint.files import write_pieces
from tfn.nn.hosts import Hosts
from tfn.random import key
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    before = config.devices
    yield
    config.devices = before


def begin(module: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_save_that_is_killed_at_any_moment_loses_nothing(seed: int, tmp_path: Path) -> None:
    """Ten processes, killed in the middle of saving: all that was said to be saved is there."""
    with begin("tests.nn.checkpoint.saver", tmp_path, 10, seed) as run:
        output, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    rows = [tuple(map(int, line.split())) for line in output.splitlines()]
    assert len(rows) == 10
    for first, last, found in rows:
        assert first < last <= found <= last + 1
    assert len(Checkpoints(tmp_path).steps()) <= 4  # those that were killed while they deleted


def hosts(place: Path, count: int, *how: str) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of hosts that save together."""
    runs = [
        begin("tests.nn.checkpoint.host", place, i, count, how[i % len(how)]) for i in range(count)
    ]
    results = []
    for run in runs:
        output, errors = run.communicate(timeout=120)
        results.append((run.returncode, output, errors))
    return results


def test_hosts_save_together_and_go_on_as_any_number_of_hosts(tmp_path: Path) -> None:
    assert hosts(tmp_path, 2, "asynchronous") == [(0, "0 [1, 2, 3]\n", "")] * 2
    config.devices = 8
    record = verify(tmp_path / "step-000000003")
    assert [file.name[:19] for file in record.files] == [
        "host-00000-of-00002",
        "host-00001-of-00002",
    ]
    sizes = [file.size_bytes for file in record.files]
    assert max(sizes) < 1.2 * min(sizes)
    by_array = {name: {p.file for p in entry.pieces} for name, entry in record.arrays.items()}
    assert by_array["divided"] == by_array["rows"] == {0, 1}
    assert hosts(tmp_path, 1, "at once") == [(0, "3 [4, 5, 6]\n", "")]
    # One host dies ahead of its second save: the other says who is missing, in its time.
    dead, alive = hosts(tmp_path, 2, "wait less at 8", "die at 8")[::-1]
    assert dead[0] == 9 and alive[0] == 1
    assert "HostError: not all hosts came to: save step 8" in alive[2]
    assert "no answer from host 1 of 2" in alive[2]
    # What it had written is no checkpoint; the next run begins at what both had saved.
    first, *others = hosts(tmp_path, 4, "asynchronous")
    assert first == (0, "7 [8, 9, 10]\n", "")
    assert all(other[0] == 0 and other[1].startswith("7 [") for other in others)
    step, tree = Checkpoints(tmp_path).resume(host.tree_of(0))
    assert step == 10
    np.testing.assert_array_equal(np.asarray(tree["rows"]), np.asarray(host.tree_of(10)["rows"]))
    assert not list(tmp_path.rglob("*.tmp"))


def together(run: Any) -> list[Any]:
    """What a function gives on two hosts, which are threads."""
    results: list[Any] = [None, None]

    def of_host(index: int) -> None:
        try:
            results[index] = run(Hosts(index, 2, lambda device: device.id // 4))
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=of_host, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_host_with_a_full_disk_is_named_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = host.tree_of(1)

    def write(path: Path, owned: Any, token: str) -> Any:
        if full and "host-00001" in path.name:
            raise OSError(28, "No space left on device")
        return write_pieces(path, owned, token)

    def save(hosts: Hosts) -> list[int]:
        checkpoints = Checkpoints(tmp_path, hosts=hosts, timeout_s=20)
        checkpoints.save(4 if full else 3, tree)
        return checkpoints.steps()

    monkeypatch.setattr(steps, "write_pieces", write)
    full = False
    assert together(save) == [[3], [3]]
    full = True
    one, two = together(save)
    assert isinstance(one, HostError) and "host 1: [Errno 28] No space left" in str(one)
    assert isinstance(two, OSError) and two.errno == 28
    assert Checkpoints(tmp_path).steps() == [3]


def test_all_hosts_take_the_same_checkpoint(tmp_path: Path) -> None:
    """One finds a damage in a part that the other does not read."""
    for step in (1, 2):
        save = lambda hosts, step=step: Checkpoints(tmp_path, hosts=hosts, timeout_s=20).save(
            step, host.tree_of(step)
        )
        together(save)
    newest = tmp_path / "step-000000002"
    path = newest / read(newest).files[1].name
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    like = host.tree_of(0)
    with pytest.warns(UserWarning, match="step 2 .* passed over: host [01]: .*; step 1 is taken"):
        results = together(
            lambda hosts: Checkpoints(tmp_path, hosts=hosts, timeout_s=20).resume(like)[0]
        )
    assert results == [1, 1]


# The command.


def saved(place: Path) -> Path:
    config.devices = 4
    mesh = tfn.make_mesh((2, 2), ("data", "model"), tfn.sharding.AxisType.Auto)
    big = jnp.arange(200_000.0).reshape(1000, 200)
    tree = {
        "w": tfn.device_put(big, NamedSharding(mesh, P("data", "model"))),
        "b": jnp.ones(3, "bfloat16"),
        "key": key(3),
        "epoch": 4,
        "rate": float("inf"),
        "done": True,
    }
    checkpoints = Checkpoints(place)
    for step in (20, 3000):
        checkpoints.save(step, tree, metadata={"loss": "0.5"})
    return checkpoints.path(3000)


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = __main__.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return status, output.out + output.err


def test_checkpoints_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert command(capsys, "ls", tmp_path) == (0, f"no checkpoints in {tmp_path}\n")
    newest = saved(tmp_path)
    status, text = command(capsys, "ls", tmp_path)
    assert status == 0
    for part in ("3,000", "20", "data=2, model=2", "epoch=4", "whole"):
        assert part in text
    next(newest.glob("host-*")).write_bytes(b"short")
    status, text = command(capsys, "ls", tmp_path)
    assert status == 1 and "is not whole" in text
    assert command(capsys, "ls", tmp_path / "absent") == (2, f"there is no {tmp_path}/absent\n")


def test_checkpoints_are_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = saved(tmp_path)
    state.save(tmp_path / "a.safetensors", {"w": jnp.ones(3)})
    status, text = command(capsys, "verify", tmp_path, tmp_path / "a.safetensors")
    assert status == 0 and text.count("whole") == 3
    path = next(newest.glob("host-*"))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    status, text = command(capsys, "verify", tmp_path)
    assert status == 1
    assert text.count("whole") == text.count("damaged  ") + 1 == 1 and str(path) in text
    assert command(capsys, "verify", newest.with_name("step-000000007"))[0] == 2


def test_checkpoints_are_converted_to_one_file_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest, one = saved(tmp_path / "run"), tmp_path / "one.safetensors"
    assert command(capsys, "convert", newest, one)[0] == 0
    whole = state.load(one)
    assert whole["w"].shape == (1000, 200) and whole["epoch"].item() == 4
    assert state.metadata(one)["loss"] == "0.5"
    for count in (1, 3, 8):
        place = tmp_path / f"of-{count}"
        assert command(capsys, "convert", one, place, "--files", count)[0] == 0
        back = place / "step-000003000"
        old, new = verify(newest), verify(back)
        assert len(new.files) == count
        assert (new.numbers, new.keys, new.metadata) == (old.numbers, old.keys, old.metadata)
        for name, x in load(newest).items():
            again = load(back)[name]
            assert type(x) is type(again)
            assert np.asarray(x).tobytes() == np.asarray(again).tobytes()
        sizes = [file.size_bytes for file in new.files]
        assert max(sizes) < 1.1 * min(sizes)
    assert command(capsys, "convert", back, tmp_path / "two.safetensors")[0] == 0
    assert one.read_bytes() == (tmp_path / "two.safetensors").read_bytes()


def test_what_cannot_be_converted_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.save(tmp_path / "a.safetensors", {"w": jnp.ones(3)})
    source, place = tmp_path / "a.safetensors", tmp_path / "run"
    assert command(capsys, "convert", source, place)[0] == 2
    assert command(capsys, "convert", source, place, "--step", 3, "--files", 0)[0] == 2
    assert not place.exists()
    assert command(capsys, "convert", source, place, "--step", 3)[0] == 0
    status, text = command(capsys, "convert", source, place, "--step", 3)
    assert status == 2 and "is a checkpoint already" in text
    assert command(capsys, "convert", source, tmp_path / "b.safetensors", "--files", 2)[0] == 2
    (next((place / "step-000000003").glob("host-*"))).write_bytes(b"")
    status, text = command(capsys, "convert", place / "step-000000003", tmp_path / "b.safetensors")
    assert status == 1 and not (tmp_path / "b.safetensors").exists()
    with pytest.raises(SystemExit) as caught:
        command(capsys, "convert", source)
    assert caught.value.code == 2


def test_the_command_is_a_module(tmp_path: Path) -> None:
    with begin("tfn.nn.checkpoint", "ls", tmp_path) as run:
        output, errors = run.communicate(timeout=60)
    assert (run.returncode, output, errors) == (0, f"no checkpoints in {tmp_path}\n", "")


def test_a_part_of_a_checkpoint_is_restored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, {"model": {"w": np.ones(2), "b": np.zeros(2)}, "epoch": 5})
    path = checkpoints.path(3)
    assert load(path, only="epoch") == {"epoch": 5}
    assert load(path, at="model").keys() == {"w", "b"}
    template = {"w": np.zeros(2), "b": np.full(2, 9.0), "new": 1}
    found = load(path, template, at="model", only="w")
    assert found["w"].tolist() == [1, 1] and found["b"][0] == 9 and found["new"] == 1
    with pytest.raises(StateError, match="has nothing of this name"):
        load(path, only="v*")


@pytest.mark.parametrize("step", [None, 3])
def test_a_part_of_a_run_is_restored(tmp_path: Path, step: int | None) -> None:
    checkpoints = Checkpoints(tmp_path, asynchronous=True)
    checkpoints.save(2, {"model": {"w": jnp.zeros(2), "b": jnp.zeros(2)}, "epoch": 4})
    checkpoints.save(3, {"model": {"w": jnp.ones(2), "b": jnp.zeros(2)}, "epoch": 5})
    assert checkpoints.restore(step=step, only="epoch") == {"epoch": 5}
    assert checkpoints.restore(step=step).keys() == {"model.w", "model.b", "epoch"}
    template = {"w": jnp.zeros(2), "b": jnp.full(2, 9.0), "new": 1}
    found = checkpoints.restore(template, step=step, at="model", only="w")
    assert isinstance(found["w"], tfn.Array) and found["w"].tolist() == [1, 1]
    assert found["b"].tolist() == [9, 9] and found["new"] == 1
    assert checkpoints.restore({"epoch": 0}, step=2, only="epoch") == {"epoch": 4}
    with pytest.raises(StateError, match="has nothing of this name"):
        checkpoints.restore(step=step, only="v*")


def test_a_damaged_checkpoint_is_not_restored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(StateError, match="has no such checkpoint"):
        checkpoints.restore()
    checkpoints.save(2, {"w": np.zeros(2)})
    checkpoints.save(3, {"w": np.ones(2)})
    with pytest.raises(StateError, match=r"step=9, of steps \[2, 3\]"):
        checkpoints.restore(step=9)
    next(checkpoints.path(3).glob("host-*")).write_bytes(b"")
    with pytest.warns(UserWarning, match="step 3 .* is passed over") as caught:
        assert checkpoints.restore(only="w")["w"].tolist() == [0, 0]
    assert caught[0].filename == __file__
    with pytest.raises(DamagedError):
        checkpoints.restore(step=3)


@pytest.mark.parametrize("dtype", sorted(ALL, key=str), ids=str)
def test_a_checkpoint_keeps_every_dtype(dtype: Any, tmp_path: Path) -> None:
    x = np.array([0, 1, 0, 1]).astype(dtype)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"x": x})
    found = load(checkpoints.path(1))["x"]
    assert found.dtype == dtype and found.tobytes() == x.tobytes()
