"""Operands of lax: one shape, one dtype, Python scalars that take it."""

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn.errors import AxisError, DTypeError, ShapeError


def test_a_python_scalar_takes_dtype_and_shape() -> None:
    x = np.arange(3, dtype=np.float16)
    out = lax.mul(2, lax.add(x, 1.5))
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, (x + 1.5) * 2)


def test_a_scalar_array_is_repeated() -> None:
    out = lax.sub(np.float32(1), np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(out, [1, 0, -1, -2])


def test_nothing_is_promoted() -> None:
    with pytest.raises(DTypeError, match=r"f32\[2\].*i32\[2\]"):
        lax.add(np.ones(2, np.float32), np.ones(2, np.int32))
    with pytest.raises(DTypeError, match=r"1\.5 has no value in int32"):
        lax.add(np.ones(2, np.int32), 1.5)
    with pytest.raises(DTypeError, match="1 has no value in bool"):
        lax.bitwise_and(np.ones(2, bool), 1)


def test_nothing_is_broadcast_but_scalars() -> None:
    with pytest.raises(ShapeError, match="one shape"):
        lax.add(np.ones((2, 1), np.float32), np.ones((1, 2), np.float32))


def test_axes_are_checked() -> None:
    with pytest.raises(AxisError, match="axis 2 of an array that has 2 axes"):
        lax.reduce_sum(np.ones((2, 2), np.float32), (2,))
    with pytest.raises(AxisError, match="the same axis twice"):
        lax.reduce_sum(np.ones((2, 2), np.float32), (1, -1))


def test_python_scalars_alone() -> None:
    assert lax.add(1, 2.5).dtype == np.float32
    assert lax.add(1, 2).dtype == np.int32
    assert isinstance(lax.add(1, 2), tfn.Array)
