"""Trees from checkpoints: each leaf as its template is, on the devices that it asks for.

A process reads what its own devices need, and no more: the parts of an array are those of the
sharding of the template, whatever parts it was saved in.  Threads read and verify some leaves ahead
of the one that is put on its devices.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from tfn import device_put, make_array_from_callback
from tfn.extend import PathLike, one_of, platforms
from tfn.nn import state
from tfn.nn.checkpoint.files import THREADS, Box, Reader
from tfn.nn.checkpoint.manifest import Shape
from tfn.nn.checkpoint.pieces import Data, bounds, sharding_like
from tfn.nn.checkpoint.stored import opened
from tfn.nn.state import STATIC, Static
from tfn.sharding import NamedSharding


def load(
    path: PathLike,
    template: Any = None,
    *,
    only: str | Sequence[str] = (),
    at: str = "",
    static: Static = "check",
) -> Any:
    """Reads the tree of a checkpoint: of its folder, in a store, or of a single safetensors file.

    Args:
        path: of the folder of one step, ``run/step-000000300``, of a step in a store,
            ``store/run/step-000000300``, or of a file.
        template: a tree of the structure expected, of arrays, of `ShapeDtypeStruct`s, or of
            numbers.  Arrays come to the devices on which those of the template are, or, of a
            `ShapeDtypeStruct`, to its sharding, divided as they are there; others to the default
            device.  If None, the result is a dict of NumPy arrays and numbers by their names.
        only: patterns of the names that are wanted, such as ``"encoder.*"``; all if there are
            none.  Other leaves of the template are given back as they are; other data
            are not read.
        at: the name of the subtree that the template describes, such as ``"model.encoder"``.
        static: "check" compares the static fields of the template with those that were saved;
            "ignore" does not.

    Raises:
        DamagedError: if the checkpoint is not what was written.
        StateError: if it does not hold what the template describes.
        ArgumentError: if a leaf of the template has no shape.
        OSError: if a file cannot be opened.

    Example:
        >>> from tfn.nn.checkpoint import Checkpoints
        >>> checkpoints = Checkpoints("/tmp/tfn-example-run")
        >>> checkpoints.clear()
        >>> checkpoints.save(7, {"w": np.ones(3), "epoch": 2})
        >>> load(checkpoints.path(7), {"w": np.zeros(3), "epoch": 0})
        {'epoch': 2, 'w': array([1., 1., 1.])}
        >>> load(checkpoints.path(7), only="e*")
        {'epoch': 2}
    """
    with opened(path) as reader:
        result = restored(path, reader, template, only, at, static)
        if not (only or at):  # else the rest would be read, too
            verify(path, reader)
    return result


def verify(path: PathLike, reader: Reader, share: slice = slice(None)) -> None:
    """Compares the digests of pieces that were not read whole: by this process, or by workers.

    Args:
        path: of the checkpoint.
        reader: of it.
        share: of all pieces, those of this host.

    Raises:
        DamagedError: for the first that is not what was written.
    """
    cluster = platforms.cluster()
    if cluster is None or not os.path.isdir(path):
        reader.verify(share)
    else:
        cluster.verify(os.path.abspath(path))


def restored(
    path: PathLike,
    reader: Reader,
    template: Any,
    only: str | Sequence[str] = (),
    at: str = "",
    static: Static = "check",
) -> Any:
    """The tree of an open checkpoint; see `load`.  Pieces that were read in part are not verified.

    Args:
        path: of the checkpoint, for messages.
        reader: of it.
        template, only, at, static: as of `load`.
    """
    one_of("load", "static", static, STATIC)
    # Names as the caller knows them, and those of the checkpoint.
    whole = state.chosen(path, {name: name for name in reader.manifest.names()}, only, at)
    if template is None:
        numbers = reader.manifest.numbers
        return {
            name: numbers[own] if own in numbers else reader.whole(own)
            for name, own in whole.items()
        }
    expected, restore = state.wanted(template, only)
    types = {name: reader.type_of(own) for name, own in whole.items()}
    kinds = {n: np.broadcast_to(np.empty((), dtype), shape) for n, (shape, dtype) in types.items()}
    record = reader.manifest.static if static == "check" else {}
    state.refuse(path, template, record, kinds, expected, only, at)
    cluster, folder = platforms.cluster(), os.path.abspath(path)
    found = {
        name: cluster.read(folder, whole[name], *types[name], sharding_like(like))
        for name, like in expected.items()
        if cluster is not None and _is_of_workers(like)
    }
    here = {name: like for name, like in expected.items() if name not in found}
    plans = [(whole[name], _boxes(types[name][0], like)) for name, like in here.items()]
    for name, (_, boxes), parts in zip(here, plans, _ahead(reader, plans), strict=True):
        found[name] = _leaf(types[name], dict(zip(boxes, parts, strict=True)), here[name])
    return restore(found)


def _is_of_workers(like: Any) -> bool:
    """Whether a leaf is divided among devices of workers, which read it themselves."""
    if isinstance(like, (*state.NUMBERS, np.ndarray)):
        return False
    sharding = sharding_like(like)
    return sharding is not None and sharding.devices[0].platform in platforms.CONTROLLERS


def _ahead(reader: Reader, plans: Sequence[tuple[str, list[Box]]]) -> Iterator[list[Data]]:
    """The parts of each array, of which some are read ahead."""
    running: deque[Future[list[Data]]] = deque()
    with ThreadPoolExecutor(THREADS) as threads:
        for plan in plans:
            running.append(threads.submit(reader.parts, *plan))
            if len(running) == THREADS:  # so many are in memory twice, and no more
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _boxes(shape: Shape, like: Any) -> list[Box]:
    """The parts of an array that this process needs for a leaf."""
    sharding = None if isinstance(like, (*state.NUMBERS, np.ndarray)) else sharding_like(like)
    if not isinstance(sharding, NamedSharding):
        return [((0,) * len(shape), shape)]
    indices = sharding.addressable_devices_indices_map(shape).values()
    return [*dict.fromkeys([bounds(index, shape) for index in indices])]


def _leaf(kind: tuple[Shape, np.dtype[Any]], parts: Mapping[Box, Data], like: Any) -> Any:
    """A leaf as its template is, from its parts."""
    (whole, *_), (shape, dtype) = parts.values(), kind
    if isinstance(like, state.NUMBERS):
        return type(like)(whole.item())
    if isinstance(like, np.ndarray):
        return whole
    sharding = sharding_like(like)
    if sharding is None:
        return state.as_array(whole)
    if not isinstance(sharding, NamedSharding):
        return device_put(whole, sharding)
    return make_array_from_callback(
        shape, sharding, lambda index: parts[bounds(index, shape)], dtype
    )
