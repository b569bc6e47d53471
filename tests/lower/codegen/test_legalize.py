"""Operations that no language has, as operations that all have: the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.dtypes import BFLOAT16, FLOAT32, INT32, INT64, UINT32, DType, int8, uint8
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.legalize import LEGAL, legalized
from tfn.trace import interpreter
from tfn.trace.argument import Param
from tfn.trace.build import cast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

LANES, START = 8, const(0, INT64)
INTEGERS = (int8.dtype, uint8.dtype, INT32, UINT32, INT64)
CONSTANTS = (-7, -1, 0, 1, 3, 8)


def buffer(index: int, dtype: DType, size: int) -> UOp:
    return UOp(Op.PARAM, (), Param(index, (size,), dtype))


def outcome(items: tuple[UOp, ...], *operands: np.ndarray, dtype: DType) -> np.ndarray:
    result = np.zeros(LANES, dtype)
    interpreter.instructions(items, 0, 1, [result, *operands])
    return result


def division(op: Op, dtype: DType, divisor: int | None) -> tuple[UOp, ...]:
    """The quotient, or the rest, of a vector by another one, or by a number."""
    code = Builder()
    x, y = (code.load(buffer(i, dtype, LANES), START, LANES) for i in (1, 2))
    y = y if divisor is None else const(divisor, dtype, (LANES,))
    code.store(buffer(0, dtype, LANES), START, UOp(op, (x, y)))
    return tuple(code.scopes.root.items)


@pytest.mark.parametrize("op", [Op.FLOORDIV, Op.MOD])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_divisions_are_floored_and_by_zero_are_zero(op: Op, dtype: DType) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([low, low, low + 1, 0, 5, 7, high, high], dtype)
    for shift in range(LANES):
        y = np.roll(np.array([low, 2, 0, 1, 3, high, 4, 0], dtype), shift)
        y = np.where(y == 2, np.array(-1).astype(dtype), y)
        before, after = division(op, dtype, None), legalized(division(op, dtype, None))
        expected = outcome(before, x, y, dtype=dtype)
        np.testing.assert_array_equal(outcome(after, x, y, dtype=dtype), expected)
    for divisor in CONSTANTS:
        if divisor >= low:
            before, after = division(op, dtype, divisor), legalized(division(op, dtype, divisor))
            expected = outcome(before, x, x, dtype=dtype)
            np.testing.assert_array_equal(outcome(after, x, x, dtype=dtype), expected)


def test_powers_of_two_are_shifts_and_masks() -> None:
    ops = [{u.op for u in legalized(division(op, INT32, 8))} for op in (Op.FLOORDIV, Op.MOD)]
    assert Op.SHR in ops[0] and Op.AND in ops[1]
    assert not any({Op.QUOTIENT, Op.WHERE} & some for some in ops)


@pytest.mark.parametrize("pair", [(BFLOAT16, FLOAT32), (FLOAT32, BFLOAT16)], ids=str)
def test_bfloat16_is_widened_and_rounded_half_to_even(pair: tuple[DType, DType]) -> None:
    source, to = pair
    code = Builder()
    x = code.load(buffer(1, source, LANES), START, LANES)
    code.store(buffer(0, to, LANES), START, cast(x, to))
    after = legalized(code.scopes.root.items)
    assert not any(u.op is Op.CAST and BFLOAT16 in (u.dtype, u.src[0].dtype) for u in after)
    bits = [0, 0x80000000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
    values = np.array(bits, np.uint32).view(np.float32).astype(source)
    expected = outcome(tuple(code.scopes.root.items), values, dtype=to)
    assert outcome(after, values, dtype=to).tobytes() == expected.tobytes()
    nan = outcome(after, np.full(LANES, np.nan, source), dtype=to)
    assert np.isnan(nan.astype(np.float32)).all()


def test_a_value_of_one_loop_is_computed_again_in_another() -> None:
    """The steps of a quotient do not dominate those of a remainder in the next loop."""
    code = Builder()
    for op in (Op.FLOORDIV, Op.MOD):
        with code.loop(0, 3) as i:
            code.store(buffer(0, INT64, LANES), i, UOp(op, (i + 5, const(3, INT64))))
    after = legalized(code.scopes.root.items)
    assert sum(u.op is Op.QUOTIENT for u in after) == 2
    assert not {*LEGAL} & {u.op for u in after}
    np.testing.assert_array_equal(outcome(after, dtype=INT64)[:3], [2, 0, 1])
