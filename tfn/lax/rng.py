"""Random bits from an explicit state: `rng_bit_generator`, a building block for generators.

Programs use `tfn.random`, whose keys cannot be used twice by mistake.
"""

from __future__ import annotations

import enum
from math import prod
from typing import Any

import numpy as np

from tfn import dtypes
from tfn._support.validate import one_of, result_type
from tfn.array import Array, ArrayLike
from tfn.dtypes import UINT32, UINT64, UNSIGNED
from tfn.eager.operands import a_shape, apply
from tfn.errors import ArgumentError
from tfn.lax.generators import (
    halves_of,
    hash_pair,
    pair_of,
    philox_bits,
    philox_blocks,
    unsigned,
    wide,
)
from tfn.lax.operand import array, show
from tfn.trace import build
from tfn.trace.op import Shape
from tfn.trace.uop import UOp


class RandomAlgorithm(enum.IntEnum):
    """The generator of the bits: the default is Philox, as it is in JAX on CPUs and GPUs.

    Example:
        >>> state, algorithm = np.zeros(4, "uint32"), RandomAlgorithm.RNG_THREE_FRY
        >>> rng_bit_generator(state, (2,), algorithm=algorithm)[1].shape
        (2,)
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def _halved(shape: Shape) -> tuple[int, Shape]:
    """The axis whose two halves are the two words of a hash, and the shape of a half.

    It is the first of an even size, or else the first of the largest; the half is rounded up.
    """
    sizes = shape or (1,)
    even = [axis for axis, size in enumerate(sizes) if size % 2 == 0]
    axis = even[0] if even else sizes.index(max(sizes))
    return axis, (*sizes[:axis], -(-sizes[axis] // 2), *sizes[axis + 1 :])


def _threefry_bits(state: UOp, shape: Shape, width: int) -> UOp:
    axis, half = (0, shape) if width == 64 else _halved(shape)
    size = prod(half)
    start = build.broadcast_to(pair_of(state, 2), (size,))
    high, low = halves_of(build.reshape(start + build.iota((size,), 0, UINT64), half))
    first, second = hash_pair(build.shrink(state, (0,), (2,)), low, high)
    if width == 64:
        return wide(second, first)
    pair = [build.reshape(x, (*half[: axis + 1], 1, *half[axis + 1 :])) for x in (first, second)]
    whole = (*half[:axis], 2 * half[axis], *half[axis + 1 :])
    both = build.reshape(build.concat(pair, axis + 1), whole)
    drawn = build.shrink(both, (0,) * len(whole), shape or (1,))
    return build.reshape(build.cast(drawn, unsigned(width)), shape)


def _threefry_blocks(shape: Shape, width: int) -> int:
    return prod(shape if width == 64 else _halved(shape)[1])


def _after(state: UOp, blocks: int) -> UOp:
    """The state after so many more blocks."""
    high, low = halves_of(pair_of(state, 2) + blocks)
    ends = [build.reshape(part, (1,)) for part in (low, high)]
    return build.concat([build.shrink(state, (0,), (2,)), *ends], 0)


def rng_bit_generator(
    key: ArrayLike,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
) -> tuple[Array, Array]:
    """Returns the next state, and unsigned integers of which every value is equally likely.

    Args:
        key: the state, uint32[4]: two words of a key, and a counter as two words.
        shape: of the bits, an integer or a sequence of integers.
        dtype: of the bits: uint8, uint16, uint32 or uint64.
        algorithm: the generator.

    Returns:
        The state uint32[4] after the draw, and an array of `shape` and `dtype`.

    Raises:
        DTypeError: unless `dtype` is an unsigned integer type.
        ArgumentError: for another state.

    Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"; the
    order of counters and words is that of XLA's generators, as JAX has them on CPUs and GPUs.

    Example:
        >>> state, bits = rng_bit_generator(np.zeros(4, "uint32"), (3,))
        >>> state.tolist(), bits.shape
        ([0, 0, 1, 0], (3,))
    """
    state, kind, sizes = array(key), dtypes.canonical(dtype), a_shape("rng_bit_generator", shape)
    one_of("rng_bit_generator", "algorithm", algorithm, tuple(RandomAlgorithm))
    result_type("rng_bit_generator", kind, UNSIGNED, "an unsigned integer dtype")
    if state.dtype != UINT32 or state.shape != (4,):
        raise ArgumentError(
            "rng_bit_generator needs a state uint32[4]",
            got=show(state),
            hint="begin with tfn.numpy.zeros(4, 'uint32')",
        )
    width = 8 * kind.itemsize
    if algorithm == RandomAlgorithm.RNG_THREE_FRY:
        bits, blocks = _threefry_bits, _threefry_blocks(sizes, width)
    else:
        bits, blocks = philox_bits, philox_blocks(prod(sizes), width)
    return apply(_after, [state], blocks), apply(bits, [state], sizes, width)
