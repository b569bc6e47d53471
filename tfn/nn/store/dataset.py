"""Rows of an array in a store, for batches: blocks are mapped, or fetched when a row needs them.

    rows 3 4 5 | 90     runs of rows -> the blocks that hold them, some beside each other -> copies

A block is compared with its digest when it is first used.  Blocks of a folder of this host are
mapped, so that the system's cache holds them; those of other hosts are kept while there is room.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from tfn.errors import ArgumentError, StateError
from tfn.nn.store.folder import Folder
from tfn.nn.store.hashing import digest
from tfn.nn.store.repository import Store, in_order
from tfn.nn.store.trees import Block, Data, Part

FETCHED_BLOCKS, MAPPED_BLOCKS = 64, 4096
"""The most blocks that are kept: those that take memory, and those that take addresses."""


class Stored:
    """An array in a store, of which rows are read by indexing: for `tfn.nn.data.Batches`.

    Args:
        store: the store.
        name: of the tree.
        array: the name of the array in it.
        window: rows are windows of so many elements of an array with one axis, each beginning one
            element after the other; no windows if 0.

    Attributes:
        shape: the sizes of its axes.
        dtype: of its elements.

    Raises:
        StateError: if there is no such array.
        ArgumentError: for windows of an array of other axes, or of several parts.

    Example:
        >>> import tempfile
        >>> store = Store(tempfile.mkdtemp())
        >>> _ = store.put("data", {"x": np.arange(12).reshape(6, 2), "text": np.arange(5)})
        >>> Stored(store, "data", "x")[[4, 0]].tolist()
        [[8, 9], [0, 1]]
        >>> Stored(store, "data", "text", window=3)[1:3].tolist()
        [[1, 2, 3], [2, 3, 4]]
    """

    def __init__(self, store: Store, name: str, array: str, *, window: int = 0) -> None:
        tree = store.tree(name)
        if array not in tree.arrays:
            raise StateError(
                f"{name} has no array {array}", got=", ".join([*tree.arrays][:5]) or "none"
            )
        leaf = tree.arrays[array]
        if not leaf.shape or (window and (len(leaf.shape), len(leaf.parts)) != (1, 1)):
            raise ArgumentError(
                "rows are those of an array with axes, windows those of one axis",
                got=f"{array} of shape {leaf.shape}, window={window}",
                hint="store the array whole, and flat for windows",
            )
        self.dtype = leaf.numpy_dtype
        self.shape = leaf.shape
        if window:
            self.shape = (max(0, leaf.shape[0] - window + 1), window)
        self.ndim = len(self.shape)
        self._overlap = bool(window)
        self._store, self._parts = store, leaf.parts
        self._ends = [[*accumulate(b.size_bytes for b in part.blocks)] for part in leaf.parts]
        self._kept: OrderedDict[str, Data] = OrderedDict()
        self._verified: set[bytes] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Data:
        """Rows by a number, a slice, or an array of numbers, in memory of their own."""
        index = np.arange(len(self))[rows]
        flat = index.reshape(-1)
        order = np.argsort(flat, kind="stable")
        out = np.empty((flat.size, *self.shape[1:]), self.dtype)
        for part, ends in zip(self._parts, self._ends, strict=True):
            self._fill(out, flat[order], order, part, ends)
        return out.reshape((*index.shape, *self.shape[1:]))

    def _fill(self, out: Data, rows: Data, to: Data, part: Part, ends: list[int]) -> None:
        """Rows in ascending order, as far as a part has them."""
        first, count = part.start[0], len(self) if self._overlap else part.shape[0]
        low, high = np.searchsorted(rows, [first, first + count])
        if low == high:
            return
        rows, to = rows[low:high] - first, to[low:high]
        shape = self.shape[1:] if self._overlap else part.shape[1:]
        run = prod(shape) * self.dtype.itemsize
        begins = part.offset + rows * (self.dtype.itemsize if self._overlap else run)
        found = np.empty((len(rows), run), np.uint8)
        numbers = {
            i
            for begin in begins.tolist()
            for i in range(bisect_right(ends, begin), bisect_right(ends, begin + run - 1) + 1)
        }
        wanted = sorted(numbers) if run else []
        jobs = (partial(self._block, part.blocks[i]) for i in wanted)
        blocks = dict(zip(wanted, in_order(jobs), strict=True))
        for row, begin in zip(found, begins.tolist(), strict=True):
            done = 0
            while done < run:
                i = bisect_right(ends, begin + done)
                data, at = blocks[i], begin + done - (ends[i] - part.blocks[i].size_bytes)
                n = min(run - done, len(data) - at)
                row[done : done + n] = data[at : at + n]
                done += n
        columns: tuple[Any, ...] = tuple(
            [slice(a, a + n) for a, n in zip(part.start[1:], shape, strict=False)]
        )
        at_rows: Any = (to, *columns)
        out[at_rows] = found.reshape(-1).view(self.dtype).reshape(-1, *shape)

    def _block(self, block: Block) -> Data:
        """The bytes of a block: mapped, if a folder of this host has it."""
        with self._lock:
            data = self._kept.pop(block.digest, None)
        if data is None:
            data = self._mapped(block)
        if data is None:
            data = np.frombuffer(self._store.block(block), np.uint8)
        with self._lock:
            self._kept[block.digest] = data
            most = MAPPED_BLOCKS if isinstance(data, np.memmap) else FETCHED_BLOCKS
            while len(self._kept) > most:
                self._kept.popitem(last=False)
        return data

    def _mapped(self, block: Block) -> Data | None:
        for place in self._store.ranked(block.digest):
            if isinstance(place, Folder):
                try:
                    data = np.memmap(place.root / block.path, np.uint8, "r")
                except (OSError, ValueError):  # it is not there, or empty
                    continue
                own = bytes.fromhex(block.digest)
                if len(data) != block.size_bytes:
                    continue
                if own in self._verified or digest(data) == block.digest:
                    self._verified.add(own)
                    return data
        return None
