"""Checkpoints: which are kept, which is taken, and what is left when a save does not end well."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfn import numpy as jnp
from tfn._support import files as support_files
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn import state
from tfn.nn.checkpoint import Checkpoints, read, steps
from tfn.nn.checkpoint.files import write_pieces
from tfn.nn.data import Position
from tfn.random import key

FIRST = {"w": jnp.zeros(3), "at": Position()}


def test_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "new" / "folder", keep=2)
    assert checkpoints.steps() == []
    assert checkpoints.resume(FIRST) == (0, FIRST)
    for step in (1, 5, 1000, 20_000):
        checkpoints.save(step, {"w": jnp.full(3, step), "at": Position(step, 2)})
    assert checkpoints.steps() == [1000, 20_000]
    step, actual = checkpoints.resume({"w": jnp.zeros(3, int), "at": Position()})
    assert (step, actual["w"].tolist(), actual["at"]) == (20_000, [20_000] * 3, Position(20_000, 2))
    checkpoints.save(20_000, {"w": jnp.ones(3), "at": Position()})  # once more
    np.testing.assert_array_equal(checkpoints.resume(FIRST)[1]["w"], 1)


def test_all_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, FIRST)
    (tmp_path / "step-000000004").mkdir()
    checkpoints.clear()
    checkpoints.clear()
    assert os.listdir(tmp_path) == ["notes.txt"]
    checkpoints.save(1, FIRST)


def test_none_is_written_out_of_order(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(7, FIRST)
    with pytest.raises(ArgumentError, match="after all others"):
        checkpoints.save(6, FIRST)
    with pytest.raises(ArgumentError, match="keep=0"):
        Checkpoints(tmp_path, keep=0).save(8, FIRST)
    assert checkpoints.steps() == [7]


@pytest.mark.parametrize("step", [-1, 1.5, 2.0, True, "3", None])
def test_a_step_that_would_not_be_found_again(step: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="counted from 0"):
        Checkpoints(tmp_path / "new").save(step, FIRST)
    with pytest.raises(ArgumentError, match="kept"):
        Checkpoints(tmp_path / "new", keep=step if step is not None else 0.5).save(3, FIRST)
    assert os.listdir(tmp_path) == []


def test_steps_of_other_kinds_of_integers(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (0, np.int32(1), jnp.asarray(2), 10**9, 10**12):
        checkpoints.save(step, FIRST)  # type: ignore[arg-type]
        assert checkpoints.resume(FIRST)[0] == int(step)


def test_files_of_other_names_are_no_checkpoints(tmp_path: Path) -> None:
    for name in (
        "step-1.safetensors",
        "step-٣٣٣٣٣٣٣٣٣.safetensors",
        "step-0000000001.safetensors",
        "step--00000001.safetensors",
    ):
        (tmp_path / name).write_bytes(b"")
        (tmp_path / name.removesuffix(".safetensors")).mkdir()
    assert Checkpoints(tmp_path).steps() == []


def files(checkpoint: Path) -> list[Path]:
    return sorted(checkpoint.iterdir())


def test_a_renamed_one_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, FIRST)
    checkpoints.path(3).rename(checkpoints.path(4))
    with pytest.raises(DamagedError, match=r"another step[^$]*step 3"):
        checkpoints.resume(FIRST)


def test_every_changed_bit_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    first = {"w": jnp.zeros(3), "key": key(1), "n": 3}
    checkpoints.save(4, first)
    for path in files(checkpoints.path(4)):
        raw = path.read_bytes()
        with open(path, "r+b", buffering=0) as file:
            for at in range(len(raw)):
                os.pwrite(file.fileno(), bytes([raw[at] ^ 1 << at % 8]), at)
                with pytest.raises(DamagedError):
                    checkpoints.resume(first)
                os.pwrite(file.fileno(), raw[at : at + 1], at)
    assert checkpoints.resume(first)[0] == 4


def test_a_file_cut_short_anywhere_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(4, FIRST)
    for path in files(checkpoints.path(4)):
        raw = path.read_bytes()
        for size in range(len(raw)):
            path.write_bytes(raw[:size])
            with pytest.raises(DamagedError):
                checkpoints.resume(FIRST)
        path.unlink()
        if path.suffix == ".json":  # then it is none
            with pytest.warns(UserWarning, match="begins anew"):
                assert checkpoints.resume(FIRST)[0] == 0
        else:
            with pytest.raises(DamagedError, match="gone"):
                checkpoints.resume(FIRST)
        path.write_bytes(raw)


def test_damaged_ones_are_passed_over_and_written_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5)
    for step in (2, 3, 4, 5):
        checkpoints.save(step, {"w": jnp.full(3, step), "at": Position()})
    manifest, data = files(checkpoints.path(5))[::-1]
    data.write_bytes(data.read_bytes()[:-1] + b"\x07")
    files(checkpoints.path(4))[-1].unlink()  # the manifest: its writer was ended
    manifest = files(checkpoints.path(3))[-1]
    manifest.write_bytes(manifest.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="passed over") as caught:
        step, tree = checkpoints.resume(jnp_first())
    assert (step, tree["w"].tolist()) == (2, [2, 2, 2])
    texts = [str(warning.message) for warning in caught]
    for text, number, why in zip(
        texts, (5, 4, 3), ("damaged", "its writer was ended", "no manifest"), strict=True
    ):
        assert f"step {number} in {tmp_path}" in text and why in text
        assert "step 2 is taken" in text
    assert all(warning.filename == __file__ for warning in caught)
    for step in (3, 4, 5):  # although there are newer ones, of which it is known that they are bad
        checkpoints.save(step, jnp_first())
    assert checkpoints.steps() == [2, 3, 4, 5]
    assert checkpoints.resume(jnp_first())[0] == 5


def jnp_first() -> Any:
    return {"w": jnp.zeros(3, int), "at": Position()}


def test_if_none_is_whole_nothing_is_begun_anew(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (3, 4):
        checkpoints.save(step, FIRST)
        files(checkpoints.path(step))[0].write_bytes(b"")
    with pytest.raises(DamagedError, match=r"step 4:[^$]*step 3:") as caught:
        checkpoints.resume(FIRST)
    assert "clear" in caught.value.hint
    checkpoints.clear()
    assert checkpoints.resume(FIRST) == (0, FIRST)


def test_one_of_another_run_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, FIRST)
    with pytest.raises(StateError, match=r"w is float32\[3\] in the file, float32\[2\]"):
        checkpoints.resume({"w": jnp.zeros(2), "at": Position()})


def test_the_last_good_one_is_never_deleted(tmp_path: Path) -> None:
    """Damaged ones do not count among those that are kept."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(1, FIRST)
    checkpoints.save(2, FIRST)
    files(checkpoints.path(2))[0].write_bytes(b"short")
    checkpoints.save(3, FIRST)
    assert checkpoints.steps() == [1, 2, 3]
    checkpoints.save(4, FIRST)
    assert checkpoints.steps() == [3, 4]


def test_a_write_that_the_disk_loses_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, FIRST)
    preadv = os.preadv

    def of_zeros(descriptor: int, buffers: Any, at: int) -> int:
        n = preadv(descriptor, buffers, at)
        buffers[0][:n] = bytes(n)
        return n

    monkeypatch.setattr(os, "preadv", of_zeros)
    with pytest.raises(DamagedError, match="does not hold what was written"):
        checkpoints.save(2, {"w": jnp.ones(3), "at": Position()})
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["step-000000001"]
    assert checkpoints.resume(FIRST)[0] == 1


def test_what_killed_processes_left_is_deleted(tmp_path: Path) -> None:
    (tmp_path / f".step-000000009.safetensors.{2**30}.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    half = tmp_path / "step-000000001"
    half.mkdir()
    (half / f".host-00000-of-00001-0.safetensors.{2**30}.tmp").write_bytes(b"half")
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.steps() == []
    checkpoints.save(1, FIRST)
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "step-000000001"]
    assert len(files(half)) == 2
    (tmp_path / "step-000000002").mkdir()
    checkpoints.save(3, FIRST)
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "step-000000001", "step-000000003"]


def test_checkpoints_of_tfn_0_1(tmp_path: Path) -> None:
    """Single files, as they were: read, counted among those that are kept, and replaced."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    first = {"w": jnp.zeros(3), "key": key(0), "at": Position()}
    tree = {"w": jnp.arange(3.0), "key": key(5), "at": Position(2, 7)}
    for step in (3, 4):
        path = tmp_path / f"step-{step:09}.safetensors"
        state.save(path, tree, metadata={"step": str(step)})
    assert checkpoints.steps() == [3, 4]
    step, actual = checkpoints.resume(first)
    assert (step, actual["w"].tolist(), actual["at"]) == (4, [0, 1, 2], Position(2, 7))
    assert actual["key"].data.tolist() == tree["key"].data.tolist()
    checkpoints.save(4, actual)
    assert sorted(os.listdir(tmp_path)) == ["step-000000003.safetensors", "step-000000004"]
    checkpoints.save(5, actual)
    assert sorted(os.listdir(tmp_path)) == ["step-000000004", "step-000000005"]
    path = tmp_path / "step-000000006.safetensors"
    state.save(path, tree, metadata={"step": "6"})
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.warns(UserWarning, match="step 6 .* is damaged"):
        assert checkpoints.resume(first)[0] == 5
    state.save(path, tree, metadata={"step": "7"})
    with pytest.warns(UserWarning, match="another step"):
        assert checkpoints.resume(first)[0] == 5


def test_a_killed_save_leaves_the_file_of_tfn_0_1(tmp_path: Path) -> None:
    state.save(tmp_path / "step-000000004.safetensors", FIRST, metadata={"step": "4"})
    (tmp_path / "step-000000004").mkdir()
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.resume(FIRST)[0] == 4
    checkpoints.save(5, FIRST)
    assert checkpoints.steps() == [4, 5]


def test_two_writers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is refused, and changes nothing."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        begun.set()
        assert go_on.wait(20)
        return write_pieces(*args)

    one, two = Checkpoints(tmp_path, asynchronous=True), Checkpoints(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(steps, "write_pieces", slow)
        one.save(3, FIRST)
        assert begun.wait(20)
        for step in (2, 3, 4):
            with pytest.raises(StateError, match="another process is saving"):
                two.save(step, FIRST)
        go_on.set()
        one.wait()
    two.save(4, FIRST)
    assert two.steps() == [3, 4]
    assert two.resume(FIRST)[0] == 4


def contents(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()], ids=["full", "interrupt"]
)
@pytest.mark.parametrize("step", [7, 8], ids=["again", "next"])
def test_a_save_that_fails_at_any_moment_leaves_what_was_there(
    step: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of the system that changes something fails once."""
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(7, FIRST)
    new = {"w": jnp.ones(3), "at": Position(1, 1)}
    at = 0
    while True:
        left = at

        def once(call: Any) -> Any:
            def maybe(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left == -1:
                    raise error
                return call(*args, **kwargs)

            return maybe

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "mkdir"):
                patch.setattr(os, name, once(getattr(os, name)))
            patch.setattr(support_files, "open", once(open), raising=False)
            patch.setattr(Path, "unlink", once(Path.unlink))
            try:
                checkpoints.save(step, new)
            except BaseException as caught:
                assert caught is error
        if left >= 0:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what could not be deleted
            found, tree = checkpoints.resume(FIRST)
        assert found in (7, step)
        assert tree["w"].tolist() in ([0, 0, 0], [1, 1, 1])
        checkpoints.clear()
        checkpoints.save(7, FIRST)
        at += 1
    assert at > 6
    assert checkpoints.resume(FIRST)[1]["w"].tolist() == [1, 1, 1]


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writes fail in the middle of a file."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, FIRST)
    before = contents(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for asynchronous in (False, True):
        run = Checkpoints(tmp_path, asynchronous=asynchronous)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                run.save(2, {"w": jnp.zeros(1_000_000)})
                run.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert contents(tmp_path) == before
        assert os.listdir(tmp_path) == ["step-000000001"]
    run.save(2, FIRST)
    run.wait()
    assert run.steps() == [1, 2]


def begin(folder: Path) -> subprocess.Popen[str]:
    script = [sys.executable, "-m", "tests.nn.training", str(folder), "70", "2"]
    return subprocess.Popen(
        script,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """Killed at random moments, it ends in the state of an undisturbed run."""
    with begin(tmp_path / "calm") as calm:
        assert calm.wait(timeout=60) == 0
    chance = random.Random(0)
    place, begun_at = tmp_path / "killed", []
    for turn in range(4):
        with begin(place) as run:
            assert run.stdout is not None
            begun_at.append(int(run.stdout.readline()))
            for _ in range(chance.randrange(1, 16)):
                run.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.005))
            assert run.poll() is None
            run.send_signal(signal.SIGKILL if turn < 3 else signal.SIGINT)
            assert run.wait(timeout=20) != 0
    with begin(place) as run:
        assert run.wait(timeout=60) == 0
    assert sorted(begun_at) == begun_at
    assert begun_at[-1] > 0
    name = "end.safetensors"
    assert (place / name).read_bytes() == (tmp_path / "calm" / name).read_bytes()
    killed, calm = (read(path / "step-000000070") for path in (place, tmp_path / "calm"))
    assert killed.numbers == calm.numbers and killed.keys == calm.keys
    assert {n: e.pieces[0].sha256 for n, e in killed.arrays.items()} == {
        n: e.pieces[0].sha256 for n, e in calm.arrays.items()
    }
