"""Windows of divided axes: which rows are received, and what is put together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.dtypes import FLOAT32, INT32
from tfn.trace import oracle
from tfn.trace.argument import Leaf
from tfn.trace.op import Op
from tfn.trace.sharding import Axis
from tfn.trace.uop import UOp
from tfn.transforms.batch import batch
from tfn.transforms.shard.halo import Place, Window, part_size, windowed

small = st.integers(-9, 9)


@given(small, small, st.integers(0, 7), st.integers(1, 12), st.sampled_from([1, 2, 3, 4]))
def test_each_device_has_its_window(
    first: int, step: int, length: int, size: int, parts: int
) -> None:
    """On the stack of all parts, whatever is in their padding."""
    part = part_size(size, parts)
    x = UOp(Op.LEAF, (), Leaf((part, 2), FLOAT32))
    index = UOp(Op.LEAF, (), Leaf((), INT32))
    window = Window(first, step, length, size)
    out = windowed(x, 0, window, Place(index, parts, Axis("x", parts), index))
    rows = np.full((part * parts, 2), np.nan, np.float32)
    rows[:size] = np.arange(1, 2 * size + 1).reshape(size, 2)
    stack, indices = (
        UOp(Op.LEAF, (), Leaf((parts, part, 2), FLOAT32)),
        UOp(Op.LEAF, (), Leaf((parts,), INT32)),
    )
    (lane,) = batch([out], {x: stack, index: indices}, parts)
    values = {stack: rows.reshape(parts, part, 2), indices: np.arange(parts, dtype=np.int32)}
    (found,) = oracle.evaluate([lane.full(parts)], values)
    for i, j in product(range(parts), range(length)):
        row = first + i * step + j
        expected = rows[row] if 0 <= row < size else 0
        np.testing.assert_array_equal(found[i, j], expected, err_msg=f"device {i}, row {j}")


@pytest.mark.parametrize(
    ("window", "slabs"),
    [
        (Window(-1, 4, 6, 16), [(-1, 3, 4), (0, 0, 4), (1, 0, 1)]),  # a row from both sides
        (Window(0, 4, 4, 16), [(0, 0, 4)]),  # the own part
        (Window(-9, 4, 4, 16), [(-3, 3, 4), (-2, 0, 3)]),  # nothing of the own part
        (Window(20, 4, 4, 16), [(0, 0, 0)]),  # nothing at all
    ],
)
def test_slabs(window: Window, slabs: list[tuple[int, int, int]]) -> None:
    assert window.slabs(4) == slabs
    assert window.received(4) == sum(high - low for hop, low, high in slabs if hop)
