"""BLAKE3 as array code, for any device; on processors by the package of that name, where it is.

A message is cut into chunks of 1024 bytes, a chunk into 16 blocks of 64.  All chunks are lanes of
one loop over blocks; their chaining values are the leaves of a binary tree:

    chunk 0   chunk 1   chunk 2            16 compressions each, lanes beside each other
        \\       /          |
         parent          chunk 2           one level a time; the last of an odd number goes up
               \\        /
                root

Source: O'Connor, Aumasson, Neves and Wilcox-O'Hearn 2020, "BLAKE3: one function, fast everywhere".
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import jit, lax
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ShapeError

if TYPE_CHECKING:
    from jaxtyping import UInt32

CHUNK_BYTES, BLOCK_BYTES = 1024, 64
WORDS, BLOCKS = 16, 16  # of a block, and blocks of a chunk
INITIAL = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
ROUNDS = 7
LOOPED_LANES = 2048
"""Levels of the tree up to this width are one loop: a tenth more time for half of compilation."""
START, END, PARENT, ROOT = 1, 2, 4, 8
# Columns, then diagonals, of the state as a matrix of 4 x 4.
MIXED = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)

Words = Sequence[Any]
"""Numbers of 32 bits, or arrays of them, one for each word of a state or a block."""


def digest(data: Any) -> str:
    """The BLAKE3 digest of bytes, or of the bytes of an array, as 64 hexadecimal digits.

    Args:
        data: bytes, or an array of NumPy's that is contiguous.

    Example:
        >>> digest(b"abc")[:16]
        '6437b3ac38465133'
    """
    raw = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    return _function()(raw.reshape(-1).view(np.uint8)).hex()


@cache
def _function() -> Callable[[Any], bytes]:
    """The faster of the ways: the package has assembly for each processor."""
    try:
        import blake3 as package
    except ImportError:
        return by_arrays
    hashed: Callable[[Any], bytes] = lambda raw: package.blake3(raw.data).digest()
    return hashed


def by_arrays(raw: np.ndarray[Any, Any]) -> bytes:
    """The digest of bytes by `blake3`; one program for each power of two of chunks."""
    chunks = max(1, -(-raw.size // CHUNK_BYTES))
    padded = np.zeros(CHUNK_BYTES << (chunks - 1).bit_length(), np.uint8)
    padded[: raw.size] = raw
    words = jnp.asarray(padded.view("<u4"))
    whole = raw.size == padded.size
    found = _whole(words) if whole else _cut(words, jnp.asarray(raw.size, jnp.uint32))
    return np.asarray(found).astype("<u4").tobytes()


def blake3(words: UInt32[Array, " words"], size: Any = None) -> UInt32[Array, " 8"]:
    """The BLAKE3 digest of bytes, as words of 32 bits in the order of a little-endian machine.

    Args:
        words: the bytes, followed by zeros, as words: 256 times a power of two.
        size: the number of bytes, below 2**32: a number, or an array without axes; all of them by
            default.

    Returns:
        The digest, 8 words.

    Raises:
        ShapeError: for another number of words.

    Example:
        >>> words = jnp.zeros(256, jnp.uint32).at[0].set(int.from_bytes(b"abc", "little"))
        >>> hex(int(jit(blake3)(words, 3)[0]))
        '0xacb33764'
    """
    lanes = words.size // (WORDS * BLOCKS)
    if words.size != lanes * WORDS * BLOCKS or lanes & (lanes - 1) or not lanes:
        raise ShapeError(
            "a message is padded to a power of two of chunks",
            got=f"{words.size} words",
            hint="append zeros, up to 256, 512, 1024, ... words, and pass the size",
        )
    whole = size is None
    size = jnp.asarray(words.size * 4 if whole else size, jnp.uint32)
    chunks = jnp.maximum((size + (CHUNK_BYTES - 1)) // CHUNK_BYTES, 1)
    values = _chunks(words.reshape(lanes, BLOCKS, WORDS), size, chunks, whole)
    return _tree(values, chunks, whole)


def _chunks(blocks: Array, size: Array, chunks: Array, whole: bool) -> Array:
    """The chaining values of all chunks, u32[8, lanes]."""
    lanes = len(blocks)
    lane = jnp.arange(lanes, dtype=jnp.uint32)
    begin = lane * CHUNK_BYTES
    length = jnp.minimum(jnp.where(size > begin, size - begin, 0), CHUNK_BYTES)
    last = jnp.where(length > BLOCK_BYTES, (length - 1) // BLOCK_BYTES, 0)
    root = jnp.where(chunks == 1, jnp.uint32(ROOT), jnp.uint32(0))
    initial = jnp.broadcast_to(jnp.asarray(INITIAL, jnp.uint32)[:, None], (8, lanes))
    zero = jnp.zeros(lanes, jnp.uint32)

    def step(values: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        block, i = row
        start = jnp.where(i == 0, jnp.uint32(START), jnp.uint32(0))
        flags = start + jnp.where(i == last, root + END, 0)
        left = jnp.where(length > i * BLOCK_BYTES, length - i * BLOCK_BYTES, 0)
        sizes = zero + BLOCK_BYTES if whole else jnp.minimum(left, BLOCK_BYTES)
        found = _compress([*values], [*block], lane, sizes, zero + flags)
        return jnp.stack(found if whole else _chosen(i <= last, found, [*values])), None

    rows = blocks.transpose(1, 2, 0), jnp.arange(BLOCKS, dtype=jnp.uint32)
    values: Array = lax.scan(step, initial, rows)[0]
    return values


def _tree(values: Array, count: Array, whole: bool) -> Array:
    """The root of the tree above chaining values, of which the first so many count."""
    while values.shape[1] > LOOPED_LANES:
        values, count = _parents(values, count, whole), (count + 1) // 2
    lanes = values.shape[1]

    def level(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        values, count = carry
        parents = _parents(values, count, False)
        return (jnp.concatenate([parents, parents], 1), (count + 1) // 2), None

    if lanes > 1:
        (values, _), _ = lax.scan(level, (values, count), length=lanes.bit_length() - 1)
    return values[:, 0]


def _parents(values: Array, count: Array, whole: bool) -> Array:
    """The chaining values of a level of the tree, from those of the level below."""
    pairs = values.reshape(8, -1, 2)
    lanes = pairs.shape[1]
    zero = jnp.zeros(lanes, jnp.uint32)
    flags = zero + jnp.where(count == 2, jnp.uint32(PARENT | ROOT), jnp.uint32(PARENT))
    initial = [zero + jnp.uint32(word) for word in INITIAL]
    block = [*pairs[:, :, 0], *pairs[:, :, 1]]
    found = _compress(initial, block, zero, zero + BLOCK_BYTES, flags)
    paired = 2 * jnp.arange(lanes, dtype=jnp.uint32) + 1 < count
    return jnp.stack(found if whole else _chosen(paired, found, block))


def _compress(values: Words, block: Words, counter: Any, size: Any, flags: Any) -> list[Any]:
    """The compression function: the chaining values after a block."""
    zero = jnp.zeros_like(counter)
    v = [*values, *[zero + jnp.uint32(word) for word in INITIAL[:4]], counter, zero, size, flags]
    for _ in range(ROUNDS):
        for i, (a, b, c, d) in enumerate(MIXED):
            v[a] = v[a] + v[b] + block[2 * i]
            v[d] = _rotated(v[d] ^ v[a], 16)
            v[c] = v[c] + v[d]
            v[b] = _rotated(v[b] ^ v[c], 12)
            v[a] = v[a] + v[b] + block[2 * i + 1]
            v[d] = _rotated(v[d] ^ v[a], 8)
            v[c] = v[c] + v[d]
            v[b] = _rotated(v[b] ^ v[c], 7)
        block = [block[i] for i in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def _chosen(condition: Array, found: Words, values: Words) -> list[Any]:
    return [jnp.where(condition, new, old) for new, old in zip(found, values)]


def _rotated(x: Any, bits: int) -> Any:
    return (x >> jnp.uint32(bits)) | (x << jnp.uint32(32 - bits))


_whole = jit(lambda words: blake3(words))
_cut = jit(blake3)
