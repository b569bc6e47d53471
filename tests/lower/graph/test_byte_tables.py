"""Functions of a byte as tables: the same values, where they cost more than a load."""

from __future__ import annotations

import pytest

from tests.lower.graphs import assert_matches_oracle, p
from tfn.dtypes import FLOAT32, INT32, DType, int8, int16, uint8
from tfn.lower.graph.byte_tables import byte_tables
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, walk

SHAPE = (4, 32, 40)


def scale(index: int, shape: Shape = SHAPE) -> UOp:
    """A number of the caller, at least 0.1."""
    return build.broadcast_to(UOp(Op.ABS, (p(index),)) + 0.1, shape)


def quantized(x: UOp, by: UOp, dtype: DType = uint8.dtype) -> UOp:
    low, high = (0, 255) if dtype == uint8.dtype else (-128, 127)
    rounded = UOp(Op.ROUND, (x / by,)) + 3.0
    top = build.minimum(rounded, const(high, FLOAT32, x.shape))
    clipped = build.maximum(top, const(low, FLOAT32, x.shape))
    return build.cast(build.cast(clipped, INT32), dtype)


def floats(code: UOp, by: UOp) -> UOp:
    return build.cast(build.cast(code, INT32) - 3, FLOAT32) * by


def swish(code: UOp, to: DType = uint8.dtype) -> UOp:
    """A hard swish of quantized values, quantized after each of its steps."""
    first, second, third = (scale(i, code.shape) for i in (1, 2, 3))
    x = floats(code, first)
    gate = quantized(build.maximum(x / 6.0 + 0.5, const(0, FLOAT32, x.shape)), second)
    return quantized(x * floats(gate, second), third, to)


def codes(dtype: DType = uint8.dtype, index: int = 0) -> UOp:
    return p(index, *SHAPE, dtype=dtype)


def of_one_and_of_two() -> UOp:
    first = quantized(floats(swish(codes()), scale(1)) + p(4, *SHAPE), scale(2))
    return build.cast(swish(first), FLOAT32)


@pytest.mark.parametrize(
    ("u", "tables"),
    [
        (swish(codes()), 1),
        (swish(codes(int8.dtype), int8.dtype), 1),
        (of_one_and_of_two(), 2),
        (swish(codes() + codes(index=5)), 1),
        (build.pad(build.permute(swish(codes()), (2, 0, 1)), (1, 0, 0), (0, 2, 0)), 1),
        (UOp(Op.TANH, (UOp(Op.EXP, (floats(codes(), scale(1)),)),)), 1),
    ],
    ids=["unsigned", "signed", "two in a row", "a sum of codes", "moved", "other functions"],
)
def test_values_are_the_same(u: UOp, tables: int) -> None:
    assert [v.op for v in walk(byte_tables([u]))].count(Op.GATHER) == tables
    assert_matches_oracle([u])


@pytest.mark.parametrize(
    "u",
    [
        floats(codes(), scale(1)),
        quantized(floats(codes(), scale(1)), scale(2)),
        swish(codes(int16.dtype)),
        floats(codes(), scale(1)) * floats(codes(index=5), scale(2)) / scale(3) / p(4, *SHAPE),
        swish(p(0, 15, 256, dtype=uint8.dtype)),
    ],
    ids=["scaled", "scaled again", "16 bits", "two arrays", "few elements"],
)
def test_others_stay(u: UOp) -> None:
    assert byte_tables([u]) == [u]
