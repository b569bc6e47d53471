"""Shapes of results without the results."""

import numpy as np
import pytest

from tfn import lax
from tfn.errors import TfnError

LAYOUT = "NHWC", "HWIO", "NHWC"


def test_shapes_are_those_of_the_results():
    x, w = np.zeros((2, 9, 8, 3), "float32"), np.zeros((3, 2, 3, 4), "float32")
    for padding in ("SAME", "VALID", ((1, 2), (0, 1))):
        args = x.shape, w.shape, (2, 1), padding, LAYOUT
        for f, shape in (
            (lax.conv_general_dilated, lax.conv_general_shape_tuple(*args)),
            (lax.conv_transpose, lax.conv_transpose_shape_tuple(*args)),
        ):
            assert f(x, w, (2, 1), padding, dimension_numbers=LAYOUT).shape == shape
    first = lax.conv_shape_tuple((2, 3, 9, 8), (4, 3, 3, 2), (2, 1), "SAME")
    assert first == (2, 4, 5, 8)
    window = (1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 0), (0, 0))
    got = lax.reduce_window_shape_tuple(x.shape, *window)
    assert lax.reduce_window(x, 0.0, lax.add, *window).shape == got
    assert lax.conv_general_permutations(LAYOUT)[1] == (3, 2, 0, 1)
    with pytest.raises(TfnError):
        lax.conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 5, 4), (1, 1), "SAME", LAYOUT)


def test_values():
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3]
    assert lax.broadcast_like(1.0, np.zeros((2, 3))).shape == (2, 3)
    assert lax.empty((2,), "int8").dtype == "int8" and lax.stage(2.0).dtype == "float32"


def test_a_transposed_convolution_undoes_the_padding_of_a_convolution():
    x, w = np.ones((1, 5, 1), "float32"), np.ones((3, 1, 1), "float32")
    y = lax.conv_general_dilated(x, w, (2,), ((1, 1),), dimension_numbers=("NWC", "WIO", "NWC"))
    back = lax.conv_transpose(y, w, (2,), ((1, 1),), use_consistent_padding=True)
    assert back.shape == x.shape
