"""The checkpoints of a run in a folder: a folder for each step, a file for each host.

`stored` has the same methods for checkpoints in a store.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from tfn._support.files import sync_folder, unfinished
from tfn.errors import StateError
from tfn.extend import PathLike
from tfn.nn.checkpoint import manifest as manifests
from tfn.nn.checkpoint.files import write_pieces
from tfn.nn.checkpoint.manifest import NAME, File, Manifest, Piece, Written
from tfn.nn.checkpoint.pieces import Held

STEP = re.compile(r"step-([0-9]{9}|[1-9][0-9]{9,})")
OF_BEFORE = re.compile(STEP.pattern + r"\.safetensors")  # checkpoints of tfn 0.1: single files


class Steps(Protocol):
    """The place of the checkpoints of a run.

    Attributes:
        root: a folder for locks and meetings.
    """

    root: Path

    def path(self, step: int) -> Path:
        """The path by which `load` finds a checkpoint."""

    def found(self) -> list[tuple[int, bool]]:
        """The steps that something is there of, and whether its writer came to its end."""

    def begin(self, step: int) -> None:
        """Make what a checkpoint needs."""

    def writing(self) -> Any:
        """A context in which nothing is deleted that was written."""

    def write(self, step: int, held: Held, token: str, index: int, count: int) -> dict[str, Any]:
        """Write the pieces of a host; what it says of them to host 0."""

    def commit(self, step: int, blank: Manifest, payloads: Sequence[Any]) -> None:
        """Write the manifest of what all hosts have written: now the checkpoint is there."""

    def discard(self, step: int, token: str) -> None:
        """Delete what a single host has written, if the manifest does not name it."""

    def broken(self, step: int) -> bool:
        """Whether a checkpoint is not whole, as far as can be told without reading it."""

    def pinned(self, step: int) -> bool:
        """Whether a checkpoint is not to be deleted."""

    def delete(self, step: int) -> None:
        """Delete a checkpoint."""

    def sweep(self, step: int) -> None:
        """Delete what belongs to no checkpoint, after one was written."""


class InFolder:
    """Checkpoints in a folder.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: PathLike) -> None:
        self.root = Path(folder)

    def path(self, step: int) -> Path:
        """The folder of a step, or its file, if tfn 0.1 wrote it."""
        path = self.root / f"step-{step:09}"
        before = path.with_name(path.name + ".safetensors")
        return before if before.exists() and not (path / NAME).exists() else path

    def found(self) -> list[tuple[int, bool]]:
        """The steps that something is there of, and whether its writer came to its end."""
        try:
            names = os.listdir(self.root)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found: dict[int, bool] = {}
        for match in filter(None, map(STEP.fullmatch, names)):
            found[int(match[1])] = (self.root / match[0] / NAME).exists()
        for match in filter(None, map(OF_BEFORE.fullmatch, names)):
            found[int(match[1])] = True
        return [*found.items()]

    def _folder(self, step: int) -> Path:
        return self.root / f"step-{step:09}"

    def begin(self, step: int) -> None:
        """Make the folder of a step."""
        self._folder(step).mkdir(exist_ok=True)
        sync_folder(self.root)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A context in which nothing is deleted that was written: in all, here."""
        yield

    def write(self, step: int, held: Held, token: str, index: int, count: int) -> dict[str, Any]:
        """Write the file of a host; the file and its pieces."""
        name = f"host-{index:05}-of-{count:05}-{token}.safetensors"
        written = write_pieces(self._folder(step) / name, held.owned, token)
        return {"file": written.file, "pieces": written.pieces}

    def commit(self, step: int, blank: Manifest, payloads: Sequence[Any]) -> None:
        """Write the manifest of all files."""
        manifest = manifests.filled(blank, list(map(_written, payloads)))
        manifests.write(self._folder(step), manifest)

    def discard(self, step: int, token: str) -> None:
        """Delete the file of a single host, and its folder."""
        folder = self._folder(step)
        for path in folder.glob(f"*-{token}.safetensors"):
            if path.name not in _files_of(folder):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # of a save before there may be others
            folder.rmdir()

    def broken(self, step: int) -> bool:
        """Whether files of a checkpoint are missing, or shorter than they were."""
        try:
            manifests.quick_check(self.path(step), manifests.read(self.path(step)))
        except StateError:
            return True
        return False

    def pinned(self, step: int) -> bool:
        """Whether a checkpoint is not to be deleted: none, in a folder."""
        return False

    def delete(self, step: int) -> None:
        """Delete a checkpoint: first the manifest, without which it is none."""
        path = self._folder(step)
        path.with_name(path.name + ".safetensors").unlink(missing_ok=True)
        (path / NAME).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)

    def sweep(self, step: int) -> None:
        """Delete files that belong to no checkpoint: of killed processes, and of saves before."""
        path = self._folder(step)
        used = {NAME, *_files_of(path)}
        for name in sorted({*os.listdir(path)} - used):
            (path / name).unlink(missing_ok=True)
        before = path.with_name(path.name + ".safetensors")
        before.unlink(missing_ok=True)
        for file in unfinished(self.root, OF_BEFORE):
            file.unlink(missing_ok=True)


def _written(payload: dict[str, Any]) -> Written:
    """A file of pieces, as another host tells of it."""
    pieces = [(name, Piece(*record)) for name, record in payload["pieces"]]
    pieces = [(n, p._replace(start=tuple(p.start), shape=tuple(p.shape))) for n, p in pieces]
    return Written(File(*payload["file"]), tuple(pieces))


def _files_of(folder: Path) -> set[str]:
    """The files that the manifest of a checkpoint names; none if there is no whole one."""
    try:
        return {file.name for file in manifests.read(folder).files}
    except (StateError, OSError):
        return set()
