"""The type of an array."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.transforms.shapes import ShapeDtypeStruct


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
    with pytest.raises(ArgumentError, match="needs a dtype"):
        tfn.ShapeDtypeStruct((3,), None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        tfn.ShapeDtypeStruct((3,), "float32").shape = (4,)  # type: ignore[misc]


def test_types_like_others_with_changes():
    x = tnp.ones((2, 3), "int8")
    like = ShapeDtypeStruct.like
    assert like(x) == like(np.ones((2, 3), np.int8)) == like(like(x))
    assert like(2.0).weak_type and like(2.0).shape == ()
    changed = like(x).update(shape=[4], dtype="float16")
    assert (changed.shape, changed.dtype) == ((4,), np.float16)
    with pytest.raises(ArgumentError, match="no such attribute"):
        changed.update(size=3)
