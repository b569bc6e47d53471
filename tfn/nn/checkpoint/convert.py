"""Checkpoints as single files, and of other numbers of files; and what is wrong with one.

    run/step-000000300/{manifest.json, host-*.safetensors}  <->  model.safetensors
    store/run/step-000000300                                <->

Arrays pass through memory one at a time, whatever the size of the whole.
"""

from __future__ import annotations

import json
import os
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.extend import PathLike, integer
from tfn.nn import fields, safetensors
from tfn.nn.checkpoint import manifest as manifests
from tfn.nn.checkpoint.files import Box, Reader
from tfn.nn.checkpoint.manifest import Manifest, Piece
from tfn.nn.checkpoint.pieces import LEAVES, Held, Owned, piece_name
from tfn.nn.checkpoint.stored import opened, steps_of

IN_MANIFEST = "tfn_numbers"  # which arrays of a single file are Python numbers in a checkpoint
SMALL_BYTES = 1 << 16
"""Arrays up to this size are not cut: what a disk reads at once."""


def verify(path: PathLike) -> Manifest:
    """Reads all bytes of a checkpoint, and returns its manifest if they are what was written.

    Args:
        path: of the folder of one step, of a step in a store, or of a safetensors file that tfn
            wrote.

    Raises:
        DamagedError: if they are not, or there is no checkpoint.
        StateError: for a file of another library, which has no checksum.
        OSError: if a file cannot be opened.

    Example:
        >>> from tfn.nn import state
        >>> state.save("/tmp/tfn-example.safetensors", {"w": np.ones(3)})
        >>> list(verify("/tmp/tfn-example.safetensors").arrays)
        ['w']
    """
    with opened(path) as reader:
        record = reader.manifest
        if any(file.crc32 is None for file in record.files):
            raise StateError(
                f"{os.fspath(path)} cannot be verified",
                got="none in its header",
                hint="files of other libraries have no checksum",
            )
        reader.verify_files()
        reader.verify()
    return record


def to_file(source: PathLike, target: PathLike) -> None:
    """Writes a checkpoint as one plain safetensors file, as other libraries read it.

    Numbers and random keys become arrays.  The texts of the file have the step, and what
    `to_checkpoint` needs on the way back.

    Args:
        source: the folder of one step, a step in a store, or a file.
        target: file to write, replaced as a whole.

    Raises:
        DamagedError: if the checkpoint is not what was written.
        ArgumentError: if the target ends in ``.json``.
        OSError: if the system refuses.

    Example:
        >>> from tfn.nn import state
        >>> from tfn.nn.checkpoint import Checkpoints
        >>> checkpoints = Checkpoints("/tmp/tfn-example-run")
        >>> checkpoints.clear()
        >>> checkpoints.save(7, {"w": np.ones(3)})
        >>> to_file(checkpoints.path(7), "/tmp/tfn-example.safetensors")
        >>> state.load("/tmp/tfn-example.safetensors")["w"].tolist()
        [1.0, 1.0, 1.0]
    """
    with opened(source) as reader:
        record = reader.manifest
        kinds = {
            name: np.broadcast_to(np.empty((), dtype), shape)
            for name in record.names()
            for shape, dtype in [reader.type_of(name)]
        }
        texts = dict(record.metadata)
        if record.step is not None:
            texts["step"] = str(record.step)
        inside = [*record.numbers, *record.keys]
        texts |= fields.encode(record.static)
        if inside:
            texts[IN_MANIFEST] = json.dumps(inside)
        if any(piece.sha256 is None for e in record.arrays.values() for piece in e.pieces):
            reader.verify_files()
        safetensors.write(target, kinds, reader.whole, metadata=texts)


def to_checkpoint(
    source: PathLike, folder: PathLike, *, files: int = 1, step: int | None = None
) -> Path:
    """Writes a checkpoint or a safetensors file as a checkpoint of so many files.

    Large arrays are cut along their first axis, into a piece for each file; others go to the file
    that has the least.

    Args:
        source: the folder of one step, a step in a store, or a file.
        folder: of the checkpoints of a run, or of the run in a store, ``store/run``.
        files: the number of files.
        step: of the new checkpoint; that of the source if None.

    Returns:
        The folder of the new checkpoint.

    Raises:
        ArgumentError: if there is one of this step, the step is not known, or `files` is none.
        DamagedError: if the source is not what was written.
        OSError: if the system refuses.

    Example:
        >>> import shutil
        >>> shutil.rmtree("/tmp/tfn-example-run", ignore_errors=True)
        >>> from tfn.nn import state
        >>> state.save("/tmp/tfn-example.safetensors", {"w": np.ones(3)})
        >>> to_checkpoint("/tmp/tfn-example.safetensors", "/tmp/tfn-example-run", step=7).name
        'step-000000007'
    """
    count = integer("to_checkpoint", "files", files, 1)
    with opened(source) as reader:
        record = reader.manifest
        number = record.step if step is None else integer("to_checkpoint", "step", step, 0)
        if number is None:
            raise ArgumentError(
                f"{os.fspath(source)} does not say of which step it is",
                hint="give it: step=300, or --step 300",
            )
        steps = steps_of(folder)
        target = steps.path(number)
        if dict(steps.found()).get(number):
            raise ArgumentError(
                f"{target} is a checkpoint already",
                hint="delete it, or name another folder or step",
            )
        if any(piece.sha256 is None for e in record.arrays.values() for piece in e.pieces):
            reader.verify_files()
        record = _with_numbers(record, reader)
        token = os.urandom(4).hex()
        same = {name: getattr(record, name) for name in ("metadata", *LEAVES)}
        blank = manifests.empty(number, token)._replace(**same)
        steps.root.mkdir(parents=True, exist_ok=True)
        steps.begin(number)
        with steps.writing():
            payloads = [
                steps.write(number, held, token, i, count)
                for i, owned in enumerate(_divided(record, reader, count))
                for held in [Held({}, {}, (), record.arrays, {}, owned, [])]
            ]
            reader.verify()
            steps.commit(number, blank, payloads)
    return target


def _with_numbers(record: Manifest, reader: Reader) -> Manifest:
    """The manifest of a file, with the numbers that were in the manifest before `to_file`."""
    texts, arrays = dict(record.metadata), dict(record.arrays)
    numbers, keys = dict(record.numbers), dict(record.keys)
    try:
        inside = json.loads(texts.pop(IN_MANIFEST, "[]"))
        for name in inside:
            data, _ = reader.whole(name), arrays.pop(name)
            if data.ndim:
                keys[name] = data.shape, tuple(data.reshape(-1).tolist())
            else:
                numbers[name] = data.item()
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(
            "the texts of the file do not fit its arrays", got=f"{IN_MANIFEST}: {error}"
        ) from error
    return record._replace(metadata=texts, arrays=arrays, numbers=numbers, keys=keys)


def _divided(record: Manifest, reader: Reader, count: int) -> list[list[Owned]]:
    """The pieces of each file."""
    owned: list[list[Owned]] = [[] for _ in range(count)]
    written = [0] * count
    for name, entry in sorted(record.arrays.items()):
        shape, dtype = reader.type_of(name)
        size_bytes = prod(shape) * dtype.itemsize
        cut = size_bytes > SMALL_BYTES and shape[0] >= count
        boxes: list[Box] = [((0,) * len(shape), shape)]
        if cut:
            ends = [shape[0] * i // count for i in range(count + 1)]
            boxes = [((a, *[0] * (len(shape) - 1)), (b - a, *shape[1:])) for a, b in pairwise(ends)]
        for i, box in enumerate(boxes):
            file = i if cut else written.index(min(written))
            written[file] += size_bytes // len(boxes)
            piece = Piece(0, piece_name(name, box, entry.shape), *box, None)
            owned[file].append(Owned(name, piece, dtype, partial(reader.part, name, box)))
    return owned


def sizes_text(meshes: Any) -> str:
    """Meshes as people read them: ``data=2, model=4``.

    Example:
        >>> sizes_text([manifests.Mesh(("data", "model"), (2, 4), ())])
        'data=2, model=4'
    """
    return "; ".join(
        ", ".join(f"{name}={n}" for name, n in zip(mesh.names, mesh.sizes, strict=True))
        for mesh in meshes
    )
