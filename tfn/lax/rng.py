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
from tfn.dtypes import UINT32, UINT64, UNSIGNED, DType
from tfn.eager.operands import a_shape, apply
from tfn.errors import ArgumentError
from tfn.lax.operand import array, show
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp


class RandomAlgorithm(enum.IntEnum):
    """The generator of the bits; each of the names means Threefry here.

    Example:
        >>> state, algorithm = np.zeros(4, "uint32"), RandomAlgorithm.RNG_THREE_FRY
        >>> rng_bit_generator(state, (2,), algorithm=algorithm)[1].shape
        (2,)
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def _word(words: UOp, i: int) -> UOp:
    return build.reshape(build.shrink(words, (i,), (i + 1,)), ())


def _begin(state: UOp) -> UOp:
    """Returns the counter, the number of blocks drawn, from the last two words."""
    low, high = (build.cast(_word(state, i), UINT64) for i in (2, 3))
    return low | (high << 32)


def _bits(state: UOp, shape: Shape, dtype: DType) -> UOp:
    size = prod(shape)
    place = build.iota((size,), 0, UINT64) + build.broadcast_to(_begin(state), (size,))
    operands = (
        *(build.broadcast_to(_word(state, i), (size,)) for i in (0, 1)),
        build.cast(place >> 32, UINT32),
        build.cast(place, UINT32),
    )
    first, second = (UOp(Op.THREEFRY, operands, i) for i in (0, 1))
    if dtype == UINT64:
        bits = (build.cast(first, UINT64) << 32) | build.cast(second, UINT64)
    else:
        bits = build.cast(first ^ second, dtype)
    return build.reshape(bits, shape)


def _after(state: UOp, size: int) -> UOp:
    """The state after `size` more blocks."""
    end = _begin(state) + size
    ends = [build.reshape(build.cast(part, UINT32), (1,)) for part in (end, end >> 32)]
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
        algorithm: accepted as in JAX; every generator is Threefry.

    Returns:
        The state uint32[4] after the draw, and an array of `shape` and `dtype`.

    Raises:
        DTypeError: unless `dtype` is an unsigned integer type.
        ArgumentError: for another state.

    Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".

    Example:
        >>> state, bits = rng_bit_generator(np.zeros(4, "uint32"), (3,))
        >>> state.tolist(), bits.shape
        ([0, 0, 3, 0], (3,))
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
    return apply(_after, [state], prod(sizes)), apply(_bits, [state], sizes, kind)
