"""The files of a store on one host: whole or not there, whatever happens."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn.store import digest
from tfn.nn.store.folder import Folder

NAME = digest(b"x")
PATH = f"blocks/{NAME[:2]}/{NAME}"


def made(path: Path) -> Folder:
    folder = Folder(path)
    folder.create()
    return folder


@pytest.mark.parametrize(
    "path",
    [
        *("refs/../x", "refs/a/../b", "refs/.hidden", "refs//a", "refs/a/", "refs/", "/etc/passwd"),
        *("blocks/ab/" + "cd" * 32, f"blocks/{NAME}", "tmp/x", "token", "refs/a\n"),
        "refs/" + "a" * 129,
    ],
)
def test_no_name_leads_out_of_the_folder(path: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    for call in (folder.read, folder.delete, lambda path: folder.write(path, b"x")):
        with pytest.raises(ArgumentError, match="letters, digits"):
            call(path)


def test_a_folder_with_other_files_becomes_no_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match="not empty"):
        Folder(tmp_path).create()
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("call", ["fdatasync", "replace"])
def test_a_full_disk_leaves_what_was_there(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "s")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="no space"):
            folder.write(PATH, b"x")
    assert [*folder.items("blocks")] == []
    assert os.listdir(folder.root / "tmp") == []
    folder.write(PATH, b"x")
    assert bytes(folder.read(PATH)) == b"x"


def test_a_folder_that_vanished_is_not_made_anew(tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    folder.root.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        folder.write(PATH, b"x")
    assert not folder.root.exists()


def test_a_block_cut_short_is_written_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    folder.write(PATH, b"x" * 9)
    (folder.root / PATH).write_bytes(b"x")
    folder.write(PATH, b"x" * 9)
    assert len(folder.read(PATH)) == 9


def test_names_are_listed_in_order_and_in_pages(tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    names = sorted(
        [f"refs/{x}" for x in ("a", "a-b", "a.b", "ab", "b/1", "b/10", "b/2/x", "b-1/3")]
    )
    for name in names:
        folder.write(name, b"")
    assert [item.path for item in folder.items("refs")] == names
    for i, name in enumerate(names):
        assert [item.path for item in folder.items("refs", name)] == names[i + 1 :]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": "tfn store", "version": 1, "id": "../x", "places": {}}', "[1]"]
)
def test_a_damaged_description_is_refused(text: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    (folder.root / "store.json").write_text(text)
    with pytest.raises(DamagedError, match="no description of a store"):
        Folder(folder.root).config()


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    path = folder.root / "store.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(StateError, match="another version"):
        folder.config()


def test_garbage_is_not_collected_while_others_write(tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    busy = pytest.raises(StateError, match="being written")
    with folder.lock(), folder.lock(), busy, folder.lock(exclusive=True):
        pass
    with folder.lock(exclusive=True):
        pass


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    folder = made(tmp_path / "s")
    (folder.root / "tmp" / "left").write_bytes(b"123")
    assert folder.sweep(60.0) == 0
    assert folder.sweep(0.0) == 3
    assert os.listdir(folder.root / "tmp") == []
