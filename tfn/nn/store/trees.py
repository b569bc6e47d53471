"""Trees: arrays by name, and which blocks hold them, as bytes that a digest names.

An array is one part, or several, as many hosts wrote them; the bytes of a part, row by row, are the
blocks one after the other.  Small parts share blocks, in which they begin at an offset.

The bytes of a tree depend on nothing but what it says, so that equal trees have one digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tfn._support.files import unique
from tfn.errors import DamagedError
from tfn.extend import parsing
from tfn.nn import safetensors
from tfn.nn.store.hashing import digest

FORMAT, VERSION = "tfn tree", 1
DIGEST = re.compile("[0-9a-f]{64}")
Shape = tuple[int, ...]
Data = np.ndarray[Any, Any]


class Block(NamedTuple):
    """A block: its digest, and its length."""

    digest: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The name of its file."""
        return f"blocks/{self.digest[:2]}/{self.digest}"


class Part(NamedTuple):
    """A part of an array.

    Attributes:
        start: the index of its first element.
        shape: the sizes of its axes.
        offset: of its first byte in its first block.
        blocks: that hold it, one after the other.
    """

    start: Shape
    shape: Shape
    offset: int
    blocks: tuple[Block, ...]


class Leaf(NamedTuple):
    """An array: its dtype, its shape, how it was divided among devices, and its parts."""

    dtype: str
    shape: Shape
    sharding: tuple[tuple[str, ...], ...]
    parts: tuple[Part, ...]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype as NumPy has it."""
        return safetensors.DTYPES[self.dtype]


class Tree(NamedTuple):
    """Arrays by name, and texts."""

    arrays: dict[str, Leaf]
    metadata: dict[str, str]

    def blocks(self) -> Iterator[Block]:
        """The blocks of all arrays; one that several share comes several times."""
        for leaf in self.arrays.values():
            for part in leaf.parts:
                yield from part.blocks

    @property
    def size_bytes(self) -> int:
        """The bytes of all arrays."""
        return sum(prod(x.shape) * x.numpy_dtype.itemsize for x in self.arrays.values())


def encode(tree: Tree) -> bytes:
    """The bytes of a tree.

    Example:
        >>> decode(encode(Tree({}, {"step": "3"}))).metadata
        {'step': '3'}
    """
    record = {"format": FORMAT, "version": VERSION, **tree._asdict()}
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def decode(raw: Any, name: str = "a tree") -> Tree:
    """The tree of its bytes, each field of which is checked: anyone can write a right digest.

    Raises:
        DamagedError: if they are not those of a tree.
    """
    with parsing(name, "tree of a store", DamagedError):
        record = json.loads(bytes(raw).decode(), object_pairs_hook=unique)
        if (record["format"], record["version"]) != (FORMAT, VERSION):
            raise ValueError(f"{record['format']!r}, version {record['version']!r}")
        arrays = {str(key): _leaf(*row) for key, row in record["arrays"].items()}
        return Tree(arrays, {str(k): str(v) for k, v in record["metadata"].items()})


def _leaf(dtype: Any, shape: Any, sharding: Any, parts: Any) -> Leaf:
    leaf = Leaf(
        str(dtype),
        _shape(shape),
        tuple([tuple(map(str, names)) for names in sharding]),
        tuple([_part(*row) for row in parts]),
    )
    itemsize = leaf.numpy_dtype.itemsize
    if len(leaf.shape) > safetensors.RANK_LIMIT:
        raise ValueError(f"{len(leaf.shape)} axes")
    for part in leaf.parts:
        held = sum(block.size_bytes for block in part.blocks)
        if held < part.offset + prod(part.shape) * itemsize:
            raise ValueError(f"a part that is not in its blocks: {part[:3]}")
    if not tiled(leaf.shape, [(part.start, part.shape) for part in leaf.parts]):
        raise ValueError("parts that do not make up their array, or overlap")
    return leaf


def tiled(shape: Shape, boxes: Sequence[tuple[Shape, Shape]]) -> bool:
    """Whether boxes, by their starts and shapes, have each element of an array exactly once.

    Example:
        >>> tiled((4,), [((0,), (3,)), ((3,), (1,))]), tiled((4,), [((0,), (3,)), ((1,), (1,))])
        (True, False)
    """
    full = sorted(box for box in boxes if 0 not in box[1])
    ends = [tuple([a + n for a, n in zip(*box, strict=True)]) for box in full]
    inside = all(end <= n for row in ends for end, n in zip(row, shape, strict=True))
    if not inside or sum(prod(size) for _, size in full) != prod(shape):
        return False
    for i, ((low, _), high) in enumerate(zip(full, ends, strict=True)):
        for j in range(i + 1, len(full)):
            start, end = full[j][0], ends[j]
            if start[:1] >= high[:1]:  # so do all that follow
                break
            rows = zip(low, high, start, end, strict=True)
            if all(a < d and c < b for a, b, c, d in rows):
                return False
    return True


def _part(start: Any, shape: Any, offset: Any, blocks: Any) -> Part:
    rows = tuple([Block(str(name), _count(size)) for name, size in blocks])
    if not all(DIGEST.fullmatch(block.digest) for block in rows):
        raise ValueError("a digest that is none")
    return Part(_shape(start), _shape(shape), _count(offset), rows)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is no size")
    return value


def _shape(values: Any) -> Shape:
    if not isinstance(values, list):
        raise ValueError(f"{values!r} is no shape")
    return tuple(map(_count, values))


class Ref(NamedTuple):
    """The record of a name.

    Attributes:
        tree: the block of the tree; None of a name that was deleted.
        time_ns: of writing, by the clock of the writer: the newest copy counts.
        pinned: whether it is kept until it is unpinned.
    """

    tree: Block | None
    time_ns: int
    pinned: bool

    def encoded(self) -> bytes:
        """Its bytes: one line, with a digest of itself."""
        tree = self.tree or Block("-", 0)
        text = f"tfn-ref {tree.digest} {tree.size_bytes} {self.time_ns} {self.pinned:d}"
        return f"{text} {digest(text.encode())}\n".encode()

    @staticmethod
    def decoded(raw: Any, name: str = "a name") -> Ref:
        """The record of its bytes.

        Raises:
            DamagedError: if they are not those of one.
        """
        with parsing(name, "name in a store", DamagedError):
            text, _, check = bytes(raw).decode().rpartition(" ")
            if check != digest(text.encode()) + "\n":
                raise ValueError("another digest")
            _, tree, size, time_ns, pinned = text.split(" ")
            if tree != "-" and not DIGEST.fullmatch(tree):
                raise ValueError("a digest that is none")
            block = None if tree == "-" else Block(tree, int(size))
            return Ref(block, int(time_ns), pinned == "1")
