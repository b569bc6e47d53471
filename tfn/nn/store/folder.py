"""The files of a store on one host: each is written under another name, synced, and renamed.

A process that is killed, or a disk that is full, leaves at most a file in ``tmp``.  Names of new
files are on the disk after `Folder.sync`, which comes before anything refers to them.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tfn._support.files import sync_folder
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.extend import PathLike, parsing, replacing

FORMAT, VERSION = "tfn store", 1
CONFIG = "store.json"
BLOCKS, REFS, TMP = "blocks", "refs", "tmp"
SAFE = re.compile(
    r"blocks/([0-9a-f]{2})/\1[0-9a-f]{62}|refs(/[A-Za-z0-9_][A-Za-z0-9._-]{0,127}){1,16}|store\.json"
)
"""The names of files: none leads out of the folder."""


class Item(NamedTuple):
    """A file: its name in the store, its size, and when it was last written or asked for."""

    path: str
    size_bytes: int
    used: float


class Place(Protocol):
    """Files of a store on one host.

    Attributes:
        address: of the folder or of the server.
    """

    address: str

    @property
    def id(self) -> str:
        """A name that no other place has, and that stays when the host gets another address."""

    def read(self, path: str) -> bytearray:
        """The bytes of a file; FileNotFoundError if there is none, OSError without an answer."""

    def write(self, path: str, data: Any, *, replace: bool = False) -> None:
        """Write a file, if there is none of this length or `replace` says so."""

    def items(self, kind: str, after: str = "") -> Iterator[Item]:
        """All files of a kind, in the order of their names, after one."""

    def sync(self) -> None:
        """Wait until the names of all files that were written are on the disk."""


class Folder:
    """The files of a store in a folder of this host.

    Args:
        path: of the folder.
        id: of the folder, if it is known.
    """

    def __init__(self, path: PathLike, id: str = "") -> None:
        self.root = Path(os.path.abspath(path))
        self.address = str(self.root)
        self._id = id
        self._unsynced: set[Path] = set()
        self._syncing = threading.Lock()

    @property
    def id(self) -> str:
        """A name that stays when the folder is mounted elsewhere."""
        self._id = self._id or str(self.config()["id"])
        return self._id

    def config(self) -> dict[str, Any]:
        """The description of the folder, and of the store that it is part of.

        Raises:
            StateError: if it is no folder of a store.
        """
        path = self.root / CONFIG
        with parsing(path, "description of a store", DamagedError):
            record = json.loads(path.read_bytes())
            if record["format"] != FORMAT or not re.fullmatch("[0-9a-f]{16}", record["id"]):
                raise ValueError("another format")
            if record["version"] != VERSION:
                raise StateError(
                    f"{self.root} was written by another version of tfn",
                    got=f"version {record['version']} of the store, {VERSION} is known",
                    hint="install that tfn",
                )
            places = {str(k): str(v) for k, v in record["places"].items()}
        return {"id": record["id"], "places": places, "replicas": int(record["replicas"])}

    def configure(self, places: dict[str, str], replicas: int) -> None:
        """Write which places make up the store."""
        record = {"format": FORMAT, "version": VERSION, "id": self.id}
        with replacing(self.root / CONFIG) as file:
            text = json.dumps(record | {"places": places, "replicas": replicas}, indent=1)
            file.write(text.encode())

    def create(self) -> None:
        """Make an empty store.

        Raises:
            StateError: if the folder holds other things.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        if {*os.listdir(self.root)} - {BLOCKS, REFS, TMP}:
            raise StateError(
                f"{self.root} is no store, and not empty", hint="name an empty folder, or a new one"
            )
        for name in (BLOCKS, REFS, TMP):
            (self.root / name).mkdir(exist_ok=True)
        self._id = os.urandom(8).hex()
        self.configure({self._id: self.address}, 1)

    def read(self, path: str) -> bytearray:
        """The bytes of a file.

        Raises:
            FileNotFoundError: if there is none.
        """
        with open(self.root / _checked(path), "rb", buffering=0) as file:
            memory = bytearray(os.fstat(file.fileno()).st_size)
            view, done = memoryview(memory), 0
            while done < len(view) and (n := file.readinto(view[done:])):
                done += n
        return memory if done == len(view) else memory[:done]

    def write(self, path: str, data: Any, *, replace: bool = False) -> None:
        """Write a file, if there is none of this length or `replace` says so.

        Raises:
            OSError: if the system refuses, or the folder is gone.
        """
        target, view = self.root / _checked(path), memoryview(data).cast("B")
        if not replace:
            with suppress(FileNotFoundError):
                if os.stat(target).st_size == len(view):
                    os.utime(target)  # garbage that was asked for is none
                    self._unsynced.add(target.parent)
                    return
        part = self.root / TMP / os.urandom(12).hex()  # forked processes draw others, too
        try:
            with open(part, "xb", buffering=0) as file:
                done = 0
                while done < len(view):
                    done += file.write(view[done:])
                os.fdatasync(file.fileno())
            self._rename(part, target)
            self._unsynced.add(target.parent)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _rename(self, part: Path, target: Path) -> None:
        try:
            os.replace(part, target)
        except FileNotFoundError:
            missing = [p for p in target.parents if p != self.root and self.root in p.parents]
            for folder in reversed(missing[:-1]):  # never the root, which may be unmounted
                with suppress(FileExistsError):
                    folder.mkdir()
                self._unsynced.add(folder.parent)
            os.replace(part, target)

    def items(self, kind: str, after: str = "") -> Iterator[Item]:
        """All files of a kind, in the order of their names, after one: a folder at a time."""
        with os.scandir(self.root / kind) as found:
            entries = sorted((entry.name + "/" * entry.is_dir(), entry) for entry in found)
        for name, entry in entries:
            path = f"{kind}/{name}"
            if entry.is_dir():
                if path >= after[: len(path)]:
                    yield from self.items(path[:-1], after)
            elif path > after and SAFE.fullmatch(path):
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield Item(path, status.st_size, status.st_mtime)

    def delete(self, path: str) -> None:
        """Delete a file, if there is one; folders stay, since a writer may be about to use them."""
        (self.root / _checked(path)).unlink(missing_ok=True)

    def sweep(self, age_seconds: float) -> int:
        """Delete what killed writers left; returns its bytes."""
        total = 0
        for entry in os.scandir(self.root / TMP):
            with suppress(FileNotFoundError):
                status = entry.stat()
                if status.st_mtime <= time.time() - age_seconds:
                    os.unlink(entry.path)
                    total += status.st_size
        return total

    def sync(self) -> None:
        """Wait until the names of all files that were written are on the disk."""
        with self._syncing:
            while self._unsynced:
                folder = self._unsynced.pop()
                try:
                    sync_folder(folder)
                except FileNotFoundError:
                    raise
                except OSError:  # of another thread's names, too, which it must not take as synced
                    self._unsynced.add(folder)
                    raise

    @contextmanager
    def lock(self, *, exclusive: bool = False) -> Iterator[None]:
        """Hold off the collection of garbage, or, if exclusive, all writers.

        Raises:
            StateError: if others write.
        """
        descriptor = os.open(self.root / BLOCKS, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
            yield
        except BlockingIOError:
            raise StateError(
                f"{self.root} is being written to", hint="collect garbage when no run saves"
            ) from None
        finally:
            os.close(descriptor)


def _checked(path: str) -> str:
    if not SAFE.fullmatch(path):
        raise ArgumentError(
            "a name in a store is made of letters, digits, and _ . - between slashes",
            got=repr(path.partition("/")[2][:80]),
            hint="such as run-1/step-000000300; no part begins with a dot",
        )
    return path
