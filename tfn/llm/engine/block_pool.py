"""The blocks of pages: which are free, which are used, and which hold texts that may come again.

A full block has a name, the hash of its tokens and of the name of the block before it, so that
equal names mean equal texts from the beginning on.  A text that begins like an earlier one takes
that one's blocks instead of computing them; a block counts the texts that use it.  One with a name
that no text uses is kept until memory is needed, the one that was longest unused first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

NAME_BYTES = 16


def chained(before: bytes, tokens: Sequence[int]) -> bytes:
    """The name of a block.

    Args:
        before: the name of the block before it; empty for the first one.
        tokens: in the block.
    """
    data = np.asarray(tokens, np.int32).tobytes()
    return hashlib.blake2b(before + data, digest_size=NAME_BYTES).digest()


class BlockPool:
    """Blocks 1 to `size`.

    Args:
        size: the number of blocks.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = [*range(size, 0, -1)]
        self.users: dict[int, int] = {}
        self.names: dict[int, bytes] = {}
        self.known: dict[bytes, int] = {}
        self.idle: dict[int, None] = {}

    @property
    def used(self) -> int:
        """Blocks that texts use."""
        return len(self.users)

    @property
    def available(self) -> int:
        """Blocks that may be taken."""
        return len(self.free) + len(self.idle)

    def take(self) -> int | None:
        """A block for new tokens; None if there is none."""
        block: int
        if self.free:
            block = self.free.pop()
        elif self.idle:
            block = next(iter(self.idle))
            del self.idle[block], self.known[self.names.pop(block)]
        else:
            return None
        self.users[block] = 1
        return block

    def find(self, name: bytes) -> int | None:
        """The block of a name, with one user more; None if there is none."""
        block = self.known.get(name)
        if block is not None:
            self.idle.pop(block, None)
            self.users[block] = self.users.get(block, 0) + 1
        return block

    def name(self, block: int, name: bytes) -> None:
        """Names a block that is full, unless another one has its tokens."""
        if name not in self.known and block not in self.names:
            self.known[name], self.names[block] = block, name

    def give_back(self, blocks: Sequence[int]) -> None:
        """One user less of each; the last blocks of a text will be taken first."""
        for block in reversed(blocks):
            self.users[block] -= 1
            if self.users[block]:
                continue
            del self.users[block]
            if block in self.names:
                self.idle[block] = None
            else:
                self.free.append(block)
