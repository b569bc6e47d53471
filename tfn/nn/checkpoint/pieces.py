"""The pieces of a tree: which process writes which part of which array.

    w:f32[8,4] over P('x') on 4 devices of 2 hosts     host 0: w[0:2,:] w[2:4,:]   host 1: ...
    b:f32[4], the same on all devices                  the host that has the least to write

Each part is written once, however many devices have it.  All hosts compute the same division, from
shapes and shardings, which all know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tfn import random, tree
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.nn import fields, safetensors, state
from tfn.nn.checkpoint.manifest import Entry, Mesh, Number, Piece, Shape
from tfn.nn.hosts import Hosts
from tfn.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

MOST_KEY_WORDS = 64
"""Keys up to this size are written in the manifest, where people read them; a run has a few keys of
two words, while a split for each row of a batch is an array like others."""

LEAVES = ("numbers", "keys", "meshes", "arrays", "static")
"""The fields of a manifest that describe the tree."""

Data = np.ndarray[Any, Any]


class Owned(NamedTuple):
    """A piece that this host writes.

    Attributes:
        array: the name of the array that it belongs to.
        piece: without its file and digest.
        dtype: of its elements.
        read: gives its elements; called more than once.
    """

    array: str
    piece: Piece
    dtype: np.dtype[Any]
    read: Callable[[], Data]

    @property
    def shape(self) -> Shape:
        """The sizes of its axes."""
        return self.piece.shape


class Held(NamedTuple):
    """A tree as it is written: everything that later steps may change is held.

    Attributes:
        numbers: leaves that are Python numbers.
        keys: small random keys: shapes and words.
        meshes: of the arrays.
        arrays: without pieces.
        static: the static fields of the tree.
        owned: the pieces that this host writes.
        others: those of other hosts: host, name of the array, the array, piece.
    """

    numbers: dict[str, Number]
    keys: dict[str, tuple[Shape, tuple[int, ...]]]
    meshes: tuple[Mesh, ...]
    arrays: dict[str, Entry]
    static: dict[str, str]
    owned: list[Owned]
    others: list[tuple[int, str, Any, Piece]]

    def leaves(self) -> dict[str, Any]:
        """The fields of a manifest that describe the tree."""
        return {name: getattr(self, name) for name in LEAVES}


def hold(pytree: Any, hosts: Hosts, *, copy: bool) -> Held:
    """A tree as it is now, of whose arrays nothing is copied.

    A step that is given one of the arrays as a donation meanwhile puts its result elsewhere, since
    the memory has a reader.  NumPy arrays can be written to, and are copied if it is asked for.

    Args:
        pytree: a tree of arrays and numbers.
        hosts: that save it together.
        copy: whether NumPy arrays are copied.

    Raises:
        ArgumentError: for a leaf that is no array or number.
        DeletedArrayError: for an array that was donated.

    Example:
        >>> held = hold({"w": np.ones((2, 3)), "n": 1}, Hosts(0, 1), copy=False)
        >>> held.numbers, [(p.array, p.piece.shape) for p in held.owned]
        ({'n': 1}, [('w', (2, 3))])
    """
    leaves = dict(zip(state.names(pytree), tree.leaves(pytree), strict=True))
    safetensors.check_text("".join(leaves))
    keys = _small_keys(pytree)
    numbers = {name: x for name, x in leaves.items() if isinstance(x, state.NUMBERS)}
    for name, x in numbers.items():
        safetensors.checked(name, x)
    meshes: dict[Mesh, int] = {}
    arrays: dict[str, Entry] = {}
    parts: list[_Part] = []
    for name, x in leaves.items():
        if name not in keys and name not in numbers:
            arrays[name], found = _divided(name, x, hosts, meshes)
            parts += found
    owned, others = [], []
    for part, owner in zip(parts, _owners(parts, hosts.count), strict=True):
        if owner == hosts.index:
            owned.append(_held(part, copy))
        else:
            others.append((owner, part.array, leaves[part.array], part.piece))
    static = fields.record(pytree)
    return Held(numbers, keys, tuple(meshes), arrays, static, owned, others)


def _small_keys(pytree: Any) -> dict[str, tuple[Shape, tuple[int, ...]]]:
    is_key: Callable[[Any], bool] = lambda x: isinstance(x, random.Key)
    found = {}
    for path, x in tree.leaves_with_path(pytree, is_key):
        if is_key(x) and isinstance(x.data, Array) and x.data.size <= MOST_KEY_WORDS:
            ((last, data),) = tree.leaves_with_path(x)
            if data.is_fully_addressable:
                name = tree.keystr((*path, *last), simple=True, separator=".")
                found[name] = data.shape, tuple(np.asarray(data).reshape(-1).tolist())
    return found


class _Part(NamedTuple):
    """A part of an array, and the hosts that have it."""

    array: str
    piece: Piece
    size_bytes: int
    holders: tuple[int, ...]
    read: Callable[[], Any]


def _divided(name: str, x: Any, hosts: Hosts, meshes: dict[Mesh, int]) -> tuple[Entry, list[_Part]]:
    """An array without its pieces, and its parts."""
    if not isinstance(x, Array):
        x = safetensors.checked(name, x)
    elif x.dtype not in safetensors.NAMES:
        safetensors.checked(name, x)
    shape, kind = tuple(x.shape), safetensors.NAMES[x.dtype]
    sharding = x.sharding if isinstance(x, Array) and x.committed else None
    if not isinstance(sharding, NamedSharding):
        holder = hosts.writer_of(x) if sharding is None else hosts.host_of(sharding.devices[0])
        piece = Piece(0, name, (0,) * len(shape), shape, None)
        entry = Entry(kind, shape, None, ((),) * len(shape), ())
        return entry, [_Part(name, piece, x.nbytes, (holder,), lambda: x)]
    mesh = meshes.setdefault(_mesh(sharding, hosts), len(meshes))
    shards = {bounds(shard.index, shape)[0]: shard for shard in x.addressable_shards}
    by_start: dict[tuple[Shape, Shape], list[int]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        holders = by_start.setdefault(bounds(index, shape), [])
        holders.append(hosts.host_of(device))
    parts = []
    for (start, local), holders in by_start.items():
        piece = Piece(0, piece_name(name, (start, local), shape), start, local, None)
        size_bytes = prod(local) * x.dtype.itemsize
        read = lambda start=start: shards[start].data
        parts.append(_Part(name, piece, size_bytes, tuple(sorted({*holders})), read))
    return Entry(kind, shape, mesh, sharding.partition(len(shape)).spec, ()), parts


def bounds(index: Sequence[slice], shape: Shape) -> tuple[Shape, Shape]:
    """The first element and the shape of a part, from its index.

    Example:
        >>> bounds((slice(2, 4), slice(None)), (8, 3))
        ((2, 0), (2, 3))
    """
    ranges = [range(n)[at] for at, n in zip(index, shape, strict=True)]
    return tuple([r.start for r in ranges]), tuple([len(r) for r in ranges])


def piece_name(name: str, box: tuple[Shape, Shape], shape: Shape) -> str:
    """The name of a part of an array in a file.

    Example:
        >>> piece_name("w", ((2, 0), (2, 3)), (8, 3)), piece_name("w", ((0,), (3,)), (3,))
        ('w[2:4,0:3]', 'w')
    """
    start, local = box
    if local == shape:
        return name
    return f"{name}[{','.join(f'{a}:{a + n}' for a, n in zip(start, local, strict=True))}]"


def _mesh(sharding: NamedSharding, hosts: Hosts) -> Mesh:
    mesh = sharding.mesh
    devices = tuple([(d.platform, d.id, hosts.host_of(d)) for d in mesh.devices.flat])
    return Mesh(tuple(map(str, mesh.axis_names)), tuple(mesh.axis_sizes), devices)


def _owners(parts: list[_Part], hosts: int) -> list[int]:
    """The host that writes each part: of those that have it, the one with the least so far.

    Source: Graham 1969, "Bounds on Multiprocessing Timing Anomalies", the longest job first.
    """
    written = [0] * hosts
    owners = [0] * len(parts)
    for i in sorted(range(len(parts)), key=lambda i: -parts[i].size_bytes):
        owners[i] = min(parts[i].holders, key=lambda host: written[host])
        written[owners[i]] += parts[i].size_bytes
    return owners


def _held(part: _Part, copy: bool) -> Owned:
    """A part with its data: a view of the memory of the array, where that is the host's."""
    source = part.read()
    data = np.asarray(source)
    if copy and isinstance(source, np.ndarray):
        data = np.array(data, order="C")
    data = np.ascontiguousarray(data).reshape(data.shape)
    return Owned(part.array, part.piece, data.dtype, lambda: data)


def sharding_like(x: Any) -> NamedSharding | SingleDeviceSharding | None:
    """The sharding that a leaf of a template asks for; None for one that asks for none.

    Raises:
        ArgumentError: for one that is no sharding.
    """
    if isinstance(x, Array):
        sharding: Any = x.sharding if x.committed else None
    else:
        sharding = getattr(x, "sharding", None)
    if sharding is None or isinstance(sharding, (NamedSharding, SingleDeviceSharding)):
        return sharding
    raise ArgumentError(
        "a template has a sharding for each array, or none",
        got=repr(sharding)[:80],
        hint=f"NamedSharding(mesh, {PartitionSpec('x')!r})",
    )
