"""Checkpoints: which are kept, which is the newest, and runs that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfn import numpy as jnp
from tfn.errors import ArgumentError, StateError
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.data import Position

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
    assert Checkpoints(tmp_path).steps() == []


def test_a_renamed_one_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, FIRST)
    checkpoints.path(3).rename(checkpoints.path(4))
    with pytest.raises(StateError, match=r"another step[^$]*step 3"):
        checkpoints.resume(FIRST)


def test_every_changed_bit_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(4, {"w": jnp.zeros(3)})
    path = checkpoints.path(4)
    raw = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for at in range(len(raw)):
            os.pwrite(file.fileno(), bytes([raw[at] ^ 1 << at % 8]), at)
            with pytest.raises(StateError):
                checkpoints.resume({"w": jnp.zeros(3)})
            os.pwrite(file.fileno(), raw[at : at + 1], at)


def test_a_damaged_one_is_refused_with_advice(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, FIRST)
    checkpoints.save(4, FIRST)
    newest = checkpoints.path(4)
    raw = newest.read_bytes()
    for bad in (raw[:-1], raw[:-1] + b"\x07"):
        newest.write_bytes(bad)
        with pytest.raises(StateError) as caught:
            checkpoints.resume(FIRST)
        assert caught.value.__notes__ == [
            f"delete {newest} to do without it; the one before is of step 3"
        ]
    newest.unlink()
    assert checkpoints.resume(FIRST)[0] == 3
    with pytest.raises(StateError, match=r"w is float32\[3\] in the file, float32\[2\]"):
        checkpoints.resume({"w": jnp.zeros(2), "at": Position()})


def test_files_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    (tmp_path / f".step-000000009.safetensors.{2**30}.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.steps() == []
    checkpoints.save(1, FIRST)
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "step-000000001.safetensors"]


def begin(folder: Path) -> subprocess.Popen[str]:
    script = [sys.executable, "-m", "tests.nn.training", str(folder), "70", "2"]
    return subprocess.Popen(
        script,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """Killed at random moments, it ends in the state of an undisturbed run."""
    with begin(tmp_path / "calm") as calm:
        assert calm.wait(timeout=60) == 0
    chance = random.Random(0)
    folder, begun_at = tmp_path / "killed", []
    for turn in range(4):
        with begin(folder) as run:
            assert run.stdout is not None
            begun_at.append(int(run.stdout.readline()))
            for _ in range(chance.randrange(1, 16)):
                run.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.005))
            assert run.poll() is None
            run.send_signal(signal.SIGKILL if turn < 3 else signal.SIGINT)
            assert run.wait(timeout=20) != 0
    with begin(folder) as run:
        assert run.wait(timeout=60) == 0
    assert sorted(begun_at) == begun_at
    assert begun_at[-1] > 0
    for name in ("end.safetensors", "step-000000070.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "calm" / name).read_bytes()
