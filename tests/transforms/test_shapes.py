"""The type of an array."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn.errors import DTypeError, ShapeError


def test_fields() -> None:
    x = tfn.ShapeDtypeStruct([np.int64(2), 3], float)
    assert x.shape == (2, 3) and x.dtype == np.float32 and x.ndim == 2 and x.size == 6
    assert not x.weak_type and x.floating
    assert x == tfn.ShapeDtypeStruct((2, 3), "float32") and hash(x) == hash(
        tfn.ShapeDtypeStruct((2, 3), "float32")
    )
    assert tfn.tree.leaves({"a": x}) == [x]


def test_refused() -> None:
    with pytest.raises(ShapeError, match="a shape is a tuple of integers"):
        tfn.ShapeDtypeStruct(3, "float32")
    with pytest.raises(DTypeError):
        tfn.ShapeDtypeStruct((3,), "datetime64[s]")
    with pytest.raises(AttributeError):
        tfn.ShapeDtypeStruct((3,), "float32").shape = (4,)  # type: ignore[misc]
