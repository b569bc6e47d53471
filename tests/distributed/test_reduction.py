"""The arithmetic of messages: pieces that cover a value, and programs that combine them."""

from __future__ import annotations

import numpy as np
import pytest

import tfn.numpy as tnp
from tfn.distributed.reduction import Called, Reduction
from tfn.trace.op import Op

SUM = Reduction(Op.ADD, np.dtype("float32"))


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [7, 8, 64, 1001, 65_537])
def test_pieces_cover_a_value_and_stay_in_the_part_of_their_process(size: int, ranks: int) -> None:
    rows = SUM.pieces(size, ranks, 1 << 10)
    seen = np.zeros(size, bool)
    (width,) = {piece.size for row in rows for piece in row}
    assert width & (width - 1) == 0 and width <= 256 and len({*map(len, rows)}) == 1
    for rank, row in enumerate(rows):
        for start, n in row:
            assert size * rank // ranks <= start and start + n <= size * (rank + 1) // ranks
            seen[start : start + n] = True
    assert seen.all()


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "float64"])
def test_values_are_combined_in_the_order_of_ranks(op: Op, dtype: str) -> None:
    kind = tnp.dtype(dtype)
    xs = [np.random.default_rng(i).integers(1, 5, 33).astype(kind) for i in range(3)]
    out = np.zeros(33, kind)
    Reduction(op, kind).combine(xs, out)
    ufunc = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum}[op]
    wide = [x.astype("float64") for x in xs]
    assert np.array_equal(out.astype("float64"), ufunc(ufunc(wide[0], wide[1]), wide[2]))


def test_sums_of_half_floats_are_rounded_once() -> None:
    kind = tnp.dtype("bfloat16")
    xs, out = [np.full(4, x, kind) for x in (256, 1, 1)], np.zeros(4, kind)
    Reduction(Op.ADD, kind).combine(xs, out)
    assert (out.astype("float32") == 258).all()  # 257 is no bfloat16


def test_not_a_number_is_passed_on() -> None:
    xs = [np.array([1, np.nan], "float32"), np.array([np.nan, 2], "float32")]
    out = np.zeros(2, "float32")
    Reduction(Op.MAX, out.dtype).combine(xs, out)
    assert np.isnan(out).all()


def test_a_program_has_words_and_memory_for_native_code() -> None:
    called = Called(SUM.program(2, 64))
    assert called.call and called.work % 64 == 0
