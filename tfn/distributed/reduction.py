"""The arithmetic of messages: parts of all processes combined by a compiled program.

    f(x0, x1, ..., xn) = ((x0 + x1) + ...) + xn     in the order of ranks, for every dtype

A large value is combined in pieces, each by one process.  Pieces have sizes of powers of two, so
that a few programs serve all values: the last one of a part begins before its place, and gives
some elements again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from functools import reduce as fold
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tfn.config import config
from tfn.dtypes import DType
from tfn.extend import (
    Buffer,
    Executable,
    Jaxpr,
    Op,
    UOp,
    argument,
    build,
    frozen,
    function,
    param,
    run,
)

Array = np.ndarray[Any, Any]
PLATFORMS = ("cpu", "cpu-debug", "python")
"""Platforms whose memory is that of the host; messages of others are combined on the CPU."""


class Piece(NamedTuple):
    """Elements of a value that are combined at once.

    Attributes:
        start: the first one.
        size: how many.
    """

    start: int
    size: int


@frozen
class Reduction:
    """A monoid over values of all processes.

    Attributes:
        op: the monoid.
        dtype: of the elements.
    """

    op: Op
    dtype: DType

    def pieces(self, size: int, ranks: int, most_bytes: int) -> list[list[Piece]]:
        """The pieces that each process combines, as many for each and all of one size.

        Args:
            size: elements of the value, one for each process at least.
            ranks: the number of processes.
            most_bytes: of a piece.

        Example:
            >>> pieces = Reduction(Op.ADD, np.dtype("int8")).pieces(11, 2, 4)
            >>> [[piece.start for piece in row] for row in pieces]
            [[0, 1], [5, 7]]
        """
        ends = [size * i // ranks for i in range(ranks + 1)]
        most = max(most_bytes // self.dtype.itemsize, 1)
        width = 1 << (min(most, size // ranks).bit_length() - 1)
        count = -(-max(b - a for a, b in pairwise(ends)) // width)
        return [
            [Piece(begin + min(k * width, end - begin - width), width) for k in range(count)]
            for begin, end in pairwise(ends)
        ]

    def program(self, ranks: int, size: int) -> Executable:
        """The program that combines values of some elements, of so many processes."""
        platform = config.device if config.device in PLATFORMS else "cpu"
        return _program(self.op, self.dtype, ranks, size, platform)

    def combine(self, values: Sequence[Array], out: Array) -> None:
        """The values combined, in their order."""
        buffers = [Buffer(_address(x), x.nbytes, x) for x in (*values, out)]
        self.program(len(values), out.size)(buffers[:-1], buffers[-1:])


def _address(x: Array) -> int:
    address: int = x.__array_interface__["data"][0]
    return address


@lru_cache(maxsize=256)
def _program(op: Op, dtype: DType, ranks: int, size: int, platform: str) -> Executable:
    params = tuple([argument.Param(i, (size,), dtype) for i in range(ranks)])
    wide = build.accumulator(dtype) if op in (Op.ADD, Op.MUL) else dtype
    terms = [build.cast(param(p), wide) for p in params]
    total = fold(lambda x, y: UOp(op, (x, y)), terms)
    jaxpr = Jaxpr(function([build.cast(total, dtype)], params))
    return run.ready(jaxpr, platform, "all_reduce")[1]


class Called:
    """A program as steps of `tfn.hw.cpu.exchange` call it.

    Attributes:
        call: the address of its words.
        work: that of its working memory.
    """

    def __init__(self, program: Any) -> None:
        self._keep = program, np.zeros(program.work_bytes + 64, "uint8")
        self.call = ctypes.c_void_p.from_buffer(ctypes.c_char_p(program.call)).value or 0
        self.work = -(-_address(self._keep[1]) // 64) * 64
