"""The thread that writes: one save at a time, whose errors are never lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.nn.checkpoint import Checkpoints, steps
from tfn.nn.checkpoint.files import write_pieces
from tfn.nn.checkpoint.writer import Writer

pytestmark = pytest.mark.usefixtures("compiled")

FIRST = {"w": jnp.zeros(1000)}


class Gate:
    """A `write_pieces` that waits until it may go on."""

    def __init__(self) -> None:
        self.open, self.begun = threading.Event(), threading.Event()

    def __call__(self, *args: Any) -> Any:
        self.begun.set()
        assert self.open.wait(20)
        return write_pieces(*args)


def test_a_job_is_done_at_once_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    writer, done = Writer(), list[int]()
    writer.start(lambda: done.append(threading.get_ident()))
    assert done == [threading.get_ident()] and not writer.busy
    writer.wait()
    with pytest.raises(ZeroDivisionError):
        writer.start(lambda: 1 // 0)


def test_the_run_goes_on_while_a_thread_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that are given the arrays that are being written do not change what is written."""
    gate = Gate()
    monkeypatch.setattr(steps, "write_pieces", gate)
    step = tfn.jit(lambda w: w + 1, donate_argnums=0)
    w, plain = jnp.zeros(100_000), np.zeros(10)
    with Checkpoints(tmp_path, asynchronous=True) as checkpoints:
        for _ in range(3):
            w = step(w)
        checkpoints.save(3, {"w": w, "plain": plain})
        assert gate.begun.wait(20)
        for _ in range(3):
            w = step(w)
        plain[:] = 9
        assert checkpoints.steps() == []
        gate.open.set()
        checkpoints.wait()
        assert checkpoints.steps() == [3]
        checkpoints.save(6, {"w": w, "plain": plain})
    assert checkpoints.steps() == [3, 6]
    for number, value in ((3, 0.0), (6, 9.0)):
        loaded = folder_load(checkpoints, number)
        assert (loaded["w"] == number).all() and (loaded["plain"] == value).all()


def folder_load(checkpoints: Checkpoints, step: int) -> Any:
    return tfn.nn.checkpoint.load(checkpoints.path(step))


def test_one_save_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first: no more than one checkpoint is held."""
    gate = Gate()
    monkeypatch.setattr(steps, "write_pieces", gate)
    checkpoints = Checkpoints(tmp_path, asynchronous=True)
    checkpoints.save(1, FIRST)
    second = threading.Thread(target=checkpoints.save, args=(2, FIRST))
    second.start()
    second.join(0.2)
    assert second.is_alive() and checkpoints.steps() == []
    gate.open.set()
    second.join(20)
    checkpoints.wait()
    assert checkpoints.steps() == [1, 2]


@pytest.mark.parametrize("then", ["save", "wait", "resume", "exit"])
def test_an_error_of_the_thread_is_raised_by_the_next_call(
    then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> Any:
        raise OSError(28, "No space left on device")

    checkpoints = Checkpoints(tmp_path, asynchronous=True)
    calls: dict[str, Any] = {
        "save": lambda: checkpoints.save(2, FIRST),
        "wait": checkpoints.wait,
        "resume": lambda: checkpoints.resume(FIRST),
        "exit": lambda: checkpoints.__exit__(None, None, None),
    }
    with monkeypatch.context() as patch:
        patch.setattr(steps, "write_pieces", full)
        checkpoints.save(1, FIRST)
        with pytest.raises(OSError, match="No space left"):
            calls[then]()
    checkpoints.wait()  # once
    checkpoints.save(1, FIRST)
    checkpoints.wait()
    assert checkpoints.steps() == [1]


def test_wrong_calls_are_refused_before_the_thread_begins(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, asynchronous=True)
    for bad in ({"w": "text"}, {"w": object()}):
        with pytest.raises(tfn.errors.ArgumentError):
            checkpoints.save(1, bad)
    with pytest.raises(tfn.errors.ArgumentError, match="texts"):
        checkpoints.save(1, FIRST, metadata={"n": 3})  # type: ignore[dict-item]
    checkpoints.save(1, FIRST)
    checkpoints.wait()


def test_an_interrupt_while_waiting_leaves_the_thread_running() -> None:
    writer, go_on = Writer(), threading.Event()
    writer.start(lambda: assert_(go_on.wait(20)))
    assert writer._thread is not None
    real = writer._thread.join

    def interrupted() -> None:
        raise KeyboardInterrupt

    writer._thread.join = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        writer.wait()
    assert writer.busy
    writer._thread.join = real  # type: ignore[method-assign]
    go_on.set()
    writer.wait()
    assert not writer.busy


def assert_(value: bool) -> None:
    assert value


SCRIPT = """
import sys
from tfn import numpy as jnp
from tfn.nn import checkpoint
checkpoints = checkpoint.Checkpoints(sys.argv[1], asynchronous=True)
checkpoints.save(1, {"w": jnp.zeros(1_000_000)})
if sys.argv[2] == "full":
    checkpoints.wait()
    def full(*args):
        raise OSError(28, "No space left on device")
    checkpoint.steps.write_pieces = full
    checkpoints.save(2, {"w": jnp.zeros(3)})
"""


@pytest.mark.parametrize("how", ["whole", "full"])
def test_the_end_of_a_process_waits_and_tells(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert Checkpoints(tmp_path).steps() == [1]
    if how == "full":
        assert "a checkpoint was not written" in ended.stderr
        assert "No space left on device" in ended.stderr
    else:
        assert ended.stderr == ""
