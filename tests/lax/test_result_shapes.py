"""Shapes of results: those that the operations give."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tfn import lax
from tfn.errors import ShapeError

LAYOUTS = [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("NHWC", "OIHW", "HWNC")]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 2), (0, 1))], ids=str)
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)], ids=str)
def test_convolutions(layout: Any, padding: Any, strides: Any) -> None:
    sizes = {"N": 2, "C": 3, "I": 3, "O": 5}
    space, window = iter((7, 8)), iter((3, 2))
    x = np.ones([sizes[c] if c in sizes else next(space) for c in layout[0]], "float32")
    w = np.ones([sizes[c] if c in sizes else next(window) for c in layout[1]], "float32")
    out = lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=layout)
    shape = lax.conv_general_shape_tuple(x.shape, w.shape, strides, padding, layout)
    assert shape == out.shape
    if layout == LAYOUTS[0]:
        assert lax.conv_shape_tuple(x.shape, w.shape, strides, padding) == out.shape
    if not isinstance(padding, str):
        return
    out = lax.conv_transpose(x, w, strides, padding, dimension_numbers=layout)
    assert lax.conv_transpose_shape_tuple(x.shape, w.shape, strides, padding, layout) == out.shape
    any_batch = [-1 if c == "N" else n for c, n in zip(layout[0], x.shape, strict=True)]
    shape = lax.conv_transpose_shape_tuple(any_batch, w.shape, strides, padding, layout)
    assert shape == tuple(-1 if c == "N" else n for c, n in zip(layout[2], out.shape, strict=True))


def test_windows() -> None:
    x = np.ones((7, 8), "float32")
    for padding, strides, dilation in itertools.product(("SAME", "VALID"), (1, 2), (1, 2)):
        args = (3, 2), (strides,) * 2, padding, (1, 1), (dilation,) * 2
        out = lax.reduce_window(x, 0.0, lax.add, *args)
        assert lax.reduce_window_shape_tuple(x.shape, *args) == out.shape


def test_others() -> None:
    assert lax.shape_as_value((3, 4)).dtype == np.int32
    assert lax.conv_general_permutations(LAYOUTS[0]) == ((0, 1, 2, 3),) * 3
    with pytest.raises(ShapeError, match="as many axes"):
        lax.conv_shape_tuple((1, 2, 3), (1, 2, 3, 4), (1,), "SAME")
