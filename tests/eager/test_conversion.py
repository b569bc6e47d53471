"""Conversion to arrays: of numbers, and of NumPy arrays in any layout."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import together
from tfn.dtypes import ALL, FLOAT32
from tfn.eager import conversion
from tfn.errors import ArgumentError, DTypeError


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (True, "bool", False),
        (3, "int32", True),
        (2.5, "float32", True),
        (np.float64(2.5), "float32", True),  # a Python float too
        (np.float32(2.5), "float32", False),
        (np.int8(3), "int8", False),
    ],
    ids=repr,
)
def test_numbers(value: Any, dtype: str, weak: bool) -> None:
    x = conversion.asarray(value)
    assert x.shape == () and x.dtype == np.dtype(dtype) and x.weak_type == weak
    assert x.item() == value
    y = conversion.asarray(value, "float16")
    assert y.dtype == np.float16 and not y.weak_type and y.item() == float(value)


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="does not fit"):
        conversion.asarray(1 << 40)
    assert conversion.asarray(1 << 40, "int64").item() == 1 << 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert conversion.asarray(1e300).item() == float("inf")


@together("dtype", ALL, ids=str)
@together("shape", [(), (0,), (3,), (2, 0, 3), (40, 7)], ids=str)
def test_numpy_arrays_keep_shape_dtype_and_values(shape: Any, dtype: Any) -> None:
    data = np.array(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7, dtype)
    for each in (data, data.T, data[..., ::-1] if shape else data):
        x = conversion.asarray(each)
        assert x.shape == each.shape and x.dtype == dtype and not x.weak_type
        assert np.asarray(x).tobytes() == np.ascontiguousarray(each).tobytes()


def test_asarray_refuses_other_objects() -> None:
    with pytest.raises(ArgumentError, match="list is not an array"):
        conversion.asarray([1, 2])
    with pytest.raises(DTypeError):
        conversion.asarray(np.zeros(2, "datetime64[s]"))
    x = conversion.asarray(1.0)
    assert conversion.asarray(x) is x


@pytest.mark.parametrize(
    "data",
    [
        np.arange(12, dtype=np.float32)[::-2],
        np.arange(12, dtype=">f4"),
        np.broadcast_to(np.float32(2), (30, 40)),
        np.arange(1200, dtype=np.float32).reshape(30, 40)[:, ::3],
    ],
    ids=["backwards", "big-endian", "broadcast", "every third"],
)
def test_data_in_any_layout(data: Any) -> None:
    x = conversion.asarray(data)
    assert x.shape == data.shape and x.dtype == FLOAT32
    assert np.array_equal(np.asarray(x), data) and np.array_equal(np.asarray(x + 0.0), data)


def test_asarray_copies() -> None:
    for size in (3, 100_000):
        data = np.ones(size, np.float32)
        x = tnp.array(data)
        data[:] = 5
        assert (np.asarray(x) == 1).all()


@pytest.mark.parametrize("make", [tnp.uint32, np.uint32, lambda n: tnp.asarray(np.array(n, "u4"))])
def test_a_number_that_a_compiled_function_makes_is_a_constant(make: Any) -> None:
    jaxpr = tfn.make_jaxpr(lambda x: x >> make(7))(tnp.zeros(3, tnp.uint32))
    assert not jaxpr.captured and "7:u32" in str(jaxpr)


def test_a_number_made_before_a_function_is_compiled_is_an_operand() -> None:
    """So a program is the same for all of its values."""
    before = tnp.float32(7)
    assert "7" not in str(tfn.make_jaxpr(lambda x: x + before)(tnp.zeros(3)))
