"""Checkpoints in a store: manifests refer to pieces in blocks, which steps and runs share.

    store/refs/run/step-000000300  ->  tree of arrays, with the manifest as a text

An array of which this host has all parts is stored whole, whatever the mesh: what has been trained
on other devices has the same blocks.  An array that has not changed costs a line of the tree.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.extend import PathLike
from tfn.nn.checkpoint import manifest as manifests
from tfn.nn.checkpoint.files import Reader
from tfn.nn.checkpoint.manifest import IN_STORE, File, Manifest, Piece, Written
from tfn.nn.checkpoint.pieces import Data, Held, Owned
from tfn.nn.checkpoint.steps import STEP, InFolder, Steps
from tfn.nn.store import Store, Tree, gc, located
from tfn.nn.store.folder import REFS
from tfn.nn.store.trees import Block, Leaf, Part

TEXT = "checkpoint"  # of a tree: the manifest
AGE_SECONDS = 600.0
"""Hosts that save together wait so long for each other: younger blocks may yet get a name."""


class InStore:
    """The checkpoints of a run in a store.

    Args:
        store: the store.
        run: the beginning of their names.
        age_seconds: what is younger is no garbage: a host may be about to name it.
    """

    def __init__(self, store: Store, run: str, age_seconds: float) -> None:
        self._store, self._run, self._age_seconds = store, run.strip("/"), age_seconds
        folders = store.folders()
        if not folders:
            raise ArgumentError(
                "a run saves into a store of which this host has a folder",
                got=", ".join(place.address for place in store.places),
                hint="Store([folder, url, ...])",
            )
        self.base = folders[0].root / self._run
        self.root = folders[0].root / REFS / self._run
        self._collected = time.monotonic()

    def _name(self, step: int) -> str:
        return f"{self._run}/step-{step:09}"

    def path(self, step: int) -> Path:
        """The path by which `load` finds a checkpoint."""
        return self.base / f"step-{step:09}"

    def found(self) -> list[tuple[int, bool]]:
        """The steps that are there."""
        names = [name.rpartition("/")[2] for name in self._store.ls(f"{self._run}/step-")]
        return [(int(match[1]), True) for match in map(STEP.fullmatch, names) if match]

    def begin(self, step: int) -> None:
        """Nothing: a store is ready."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold off the collection of garbage."""
        with self._store.writing():
            yield

    def write(self, step: int, held: Held, token: str, index: int, count: int) -> dict[str, Any]:
        """Write the pieces of a host; what it says of them."""
        whole = _joined(held)
        extents = self._store.put_data(owned.read() for owned in whole)
        self._store.sync()
        pairs = zip(whole, extents, strict=True)
        return {"parts": [(x.array, x.piece, x.dtype.itemsize, extent) for x, extent in pairs]}

    def commit(self, step: int, blank: Manifest, payloads: Sequence[Any]) -> None:
        """Write the tree of what all hosts have written, and its name."""
        parts: dict[str, list[Part]] = {name: [] for name in blank.arrays}
        written = []
        for payload in payloads:
            pieces, size = [], 0
            for array, row, itemsize, (offset, blocks) in payload["parts"]:
                _, name, start, shape, _ = row
                piece = Piece(0, name, tuple(start), tuple(shape), "")
                pieces.append((array, piece))
                size += prod(shape) * itemsize
                rows = tuple([Block(*block) for block in blocks])
                parts[array].append(Part(piece.start, piece.shape, offset, rows))
            written.append(Written(File(IN_STORE, size, "", ""), tuple(pieces)))
        leaves = {
            name: Leaf(
                entry.dtype,
                entry.shape,
                entry.spec,
                tuple(sorted(parts[name], key=lambda part: part.start)),
            )
            for name, entry in blank.arrays.items()
        }
        text = manifests.encode(manifests.filled(blank, written)).decode()
        self._store.put_tree(self._name(step), Tree(leaves, {TEXT: text}))

    def discard(self, step: int, token: str) -> None:
        """Nothing: blocks without a name are garbage."""

    def broken(self, step: int) -> bool:
        """Whether the tree of a checkpoint cannot be read."""
        try:
            _manifest(self._store, self._name(step))
        except StateError:
            return True
        return False

    def pinned(self, step: int) -> bool:
        """Whether a checkpoint is not to be deleted."""
        found = self._store.ref(self._name(step))
        return found is not None and found.pinned

    def delete(self, step: int) -> None:
        """Delete the name of a checkpoint."""
        self._store.delete(self._name(step))

    def sweep(self, step: int) -> None:
        """Delete blocks that no name refers to, now and then, unless others write."""
        if time.monotonic() > self._collected + self._age_seconds:
            self._collected = time.monotonic()
            with suppress(StateError, OSError):
                gc(self._store, age_seconds=self._age_seconds)


def _joined(held: Held) -> list[Owned]:
    """The pieces of a host, where those of an array that it has all of are one."""
    groups: dict[str, list[Owned]] = {}
    for owned in held.owned:
        groups.setdefault(owned.array, []).append(owned)
    joined: list[Owned] = []
    for name, group in groups.items():
        shape = held.arrays[name].shape if name in held.arrays else ()
        if len(group) > 1 and sum(prod(x.shape) for x in group) == prod(shape):
            piece = Piece(0, name, (0,) * len(shape), shape, None)
            read = lambda group=group, shape=shape: _assembled(group, shape)
            joined.append(Owned(name, piece, group[0].dtype, read))
        else:
            joined += group
    return joined


def _assembled(group: Sequence[Owned], shape: tuple[int, ...]) -> Data:
    out = np.empty(shape, group[0].dtype)
    for owned in group:
        at = [slice(a, a + n) for a, n in zip(owned.piece.start, owned.piece.shape, strict=True)]
        out[tuple(at)] = owned.read()
    return out


def steps_of(folder: PathLike, store: Any = None, age_seconds: float = AGE_SECONDS) -> Steps:
    """The place of the checkpoints of a run: in a store, or in a folder, which may lead into one.

    Args:
        folder: of the run, or its name in the store.
        store: a store, or its folder; None if there is none, or `folder` leads into it.
        age_seconds: as of `InStore`.

    Raises:
        ArgumentError: if `folder` is that of a store.
    """
    if store is not None:
        store = store if isinstance(store, Store) else Store(store)
        return InStore(store, os.fspath(folder), age_seconds)
    found = located(folder)
    if found is None:
        return InFolder(folder)
    if not found[1]:
        raise ArgumentError(
            f"{os.fspath(folder)} is a store, and holds runs by name",
            hint="name one in it: store/run",
        )
    return InStore(Store(found[0], create=False), found[1], age_seconds)


def opened(path: PathLike) -> Reader:
    """A reader of a checkpoint: in a store, of a folder, or of a single file.

    Raises:
        DamagedError: if it is damaged, or there is none.
        OSError: if it cannot be read.

    Example:
        >>> import tempfile
        >>> from tfn.nn.checkpoint import Checkpoints
        >>> checkpoints = Checkpoints("run", store=tempfile.mkdtemp())
        >>> checkpoints.save(7, {"w": np.ones(3)})
        >>> with opened(checkpoints.path(7)) as reader:
        ...     reader.whole("w").tolist()
        [1.0, 1.0, 1.0]
    """
    found = None if os.path.exists(path) else located(path)
    if found is None:
        return Reader(path, manifests.read(path))
    store = Store(found[0], create=False)
    record, tree = _manifest(store, found[1])
    return Reader(path, record, _Blocks(store, record, tree))


def read(path: PathLike) -> Manifest:
    """The manifest of a checkpoint: in a store, of a folder, or of a single file.

    Raises:
        DamagedError: if it is damaged, or there is none.
        OSError: if it cannot be read.

    Example:
        >>> from tfn.nn import state
        >>> state.save("/tmp/tfn-example.safetensors", {"w": np.ones(3)}, metadata={"step": "7"})
        >>> read("/tmp/tfn-example.safetensors").step
        7
    """
    return opened(path).manifest


def _manifest(store: Store, name: str) -> tuple[Manifest, Tree]:
    tree = store.tree(name)
    if TEXT not in tree.metadata:
        raise DamagedError(f"{name} is no checkpoint", got="a tree without a manifest")
    return manifests.decode(name, tree.metadata[TEXT].encode()), tree


class _Blocks:
    """The bytes of pieces in a store; each block is verified when it is read."""

    def __init__(self, store: Store, record: Manifest, tree: Tree) -> None:
        self._store = store
        self._parts: dict[str, Part] = {}
        for name, entry in record.arrays.items():
            leaf = tree.arrays.get(name)
            rows = {(part.start, part.shape): part for part in leaf.parts} if leaf else {}
            for piece in entry.pieces:
                part = rows.get((piece.start, piece.shape))
                if part is None or leaf is None or leaf.dtype != entry.dtype:
                    raise DamagedError("a manifest is not that of its tree", got=piece.name)
                self._parts[piece.name] = part

    def close(self) -> None:
        """Nothing is open."""

    def read(self, piece: Piece, dtype: np.dtype[Any], out: Data, offset: int) -> None:
        self._store.read(self._parts[piece.name], offset, out)

    def whole(self, piece: Piece, dtype: np.dtype[Any], out: Data | None) -> None:
        if out is not None:
            self.read(piece, dtype, out, 0)
            return
        part = self._parts[piece.name]
        if len(part.blocks) == 1:  # which may hold many small pieces, and is read once
            self.read(piece, dtype, np.empty(prod(part.shape) * dtype.itemsize, np.uint8), 0)
        else:
            for block in part.blocks:
                self._store.block(block)

    def verify_files(self) -> None:
        """Blocks are verified when they are read."""
