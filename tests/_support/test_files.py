"""Atomic files under errors and interrupts; errors of parsers."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tfn._support import files
from tfn._support.files import parsing, replacing, unfinished
from tfn.errors import DTypeError, ExportError, OutOfMemoryError, StateError
from tfn.nn import state

SAVERS: dict[str, Callable[[Path, float], object]] = {
    "a.safetensors": lambda path, x: state.save(path, {"w": tnp.full(9, x), "b": x}),
    "a.npy": lambda path, x: tnp.save(path, tnp.full(9, x)),
    "a.h": lambda path, x: tfn.export(lambda y: y * x, tnp.ones(3), path=path.with_suffix(".c")),
    "a.npz": lambda path, x: tnp.savez(path, tnp.full(9, x), b=x),
}
"""What writes files of users, by the names of the files."""


class Failing:
    """A file of which the write number `at` fails."""

    def __init__(self, file: Any, at: int, error: BaseException) -> None:
        self.file, self.left, self.error = file, at, error

    def write(self, data: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.file.write(data)

    def __enter__(self) -> Failing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def failing(at: int, error: BaseException, opened: Any = open) -> Callable[..., Failing]:
    """`open`, but for a write that fails."""
    return lambda *args: Failing(opened(*args), at, error)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()],
    ids=["full disk", "interrupt"],
)
@pytest.mark.parametrize("name", SAVERS)
def test_a_write_that_fails_leaves_the_file_before(
    name: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    SAVERS[name](path, 1.0)
    before = contents(tmp_path)
    at = 0
    while contents(tmp_path) == before:
        with monkeypatch.context() as patch:
            patch.setattr(files, "open", failing(at, error), raising=False)
            try:
                SAVERS[name](path, 2.0)
            except BaseException as caught:
                assert caught is error
                assert contents(tmp_path) == before
        assert contents(tmp_path).keys() == before.keys()
        at += 1
    assert at > 1


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["fsync", "replace"])
@pytest.mark.parametrize("name", SAVERS)
def test_a_file_is_whole_or_what_it_was(
    name: str, moment: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    SAVERS[name](path, 1.0)
    before = contents(tmp_path)

    def fail(*args: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, fail)
        with pytest.raises(type(error)):
            SAVERS[name](path, 2.0)
    assert contents(tmp_path) == before


def test_two_threads_may_write_one_file(tmp_path: Path) -> None:
    path, wrong = tmp_path / "a.bin", []

    def write(letter: bytes) -> None:
        try:
            for _ in range(20):
                with replacing(path) as file:
                    for _ in range(10):
                        file.write(letter * 100)
                        file.flush()
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert path.read_bytes() in (b"a" * 1000, b"b" * 1000)
    assert os.listdir(tmp_path) == ["a.bin"]


def test_links_are_followed_and_devices_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    with replacing(tmp_path / "link") as file:
        file.write(b"here")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"here"
    with replacing("/dev/null") as file:
        file.write(b"nothing")
    assert not Path("/dev/null").is_file()


def test_an_unfinished_file_cannot_be_foreseen(tmp_path: Path) -> None:
    """A link that somebody has put beside a file would be written through."""
    names = []
    for _ in range(2):
        with replacing(tmp_path / "a"):
            (name,) = (name for name in os.listdir(tmp_path) if name != "a")
            names.append(name)
            with pytest.raises(FileExistsError):
                open(tmp_path / name, "xb").close()
    assert names[0] != names[1]


def test_unfinished_files_of_other_processes_are_found(tmp_path: Path) -> None:
    pid = os.getpid()
    old = [".a.1073741824.tmp", f".a.{pid}.tmp", f".a.{pid}-00000000-3.tmp"]
    for name in (*old, ".b.1-00000000-3.tmp", "a", ".a.tmp", "a.1.tmp"):
        (tmp_path / name).write_bytes(b"")
    with replacing(tmp_path / "a"):  # of this one
        found = unfinished(tmp_path, re.compile("a"))
    assert sorted(path.name for path in found) == sorted(old)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("w"),
        RecursionError(),
        SyntaxError("?"),
        OSError("an error of gzip"),
        OSError(errno.EINVAL, "seek"),
    ],
    ids=repr,
)
def test_errors_of_parsers_become_one(error: Exception) -> None:
    with (
        pytest.raises(ExportError, match=r"a.bin is no picture") as caught,
        parsing("a.bin", "picture", ExportError),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_other_errors_pass() -> None:
    for error in (OSError(errno.EIO, "disk"), DTypeError("an error of tfn"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, parsing("a.bin", "picture"):
            raise error
        assert caught.value is error and not isinstance(error, StateError)
    with (
        pytest.raises(OutOfMemoryError, match=r"a.bin does not fit into memory"),
        parsing("a.bin", "picture"),
    ):
        raise MemoryError
