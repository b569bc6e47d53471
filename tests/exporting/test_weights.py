"""Weights of bytes are stored in the order in which products read them; values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn.exporting.weights import stored
from tfn.extend import param
from tfn.trace.oracle import evaluate

X, W = np.arange(-6, 6, dtype=np.int8).reshape(3, 4), np.arange(20, dtype=np.int8).reshape(4, 5)
IMAGE = np.arange(-18, 18, dtype=np.int8).reshape(1, 6, 6, 1)
WINDOW = np.arange(36, dtype=np.int8).reshape(3, 3, 1, 4)


def product(x: Any, w: Any) -> Any:
    return lax.dot(x, w, preferred_element_type="int32")


def convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        preferred_element_type="int32",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("f", "x", "w", "axes"),
    [
        (product, X, W, (1, 0)),
        (convolution, IMAGE, WINDOW, (3, 0, 1, 2)),
        (lambda x, w: product(x, w) + w[0], X, W, (0, 1)),  # read by two
        (product, X.astype(np.int16), W.astype(np.int16), (0, 1)),
        (lambda w, x: product(w.T, x.T).T, X.T, W.T, (0, 1)),  # the first operand
    ],
    ids=["product", "convolution", "two readers", "int16", "not embedded"],
)
def test_weights_are_stored_as_they_are_read(f: Any, x: Any, w: Any, axes: Any) -> None:
    jaxpr = tfn.make_jaxpr(f)(x, w)
    moved, data = stored(jaxpr, {1: w.tobytes()})
    array = np.ascontiguousarray(w.transpose(axes))
    assert data[1] == array.tobytes() and moved.params[1].shape == array.shape
    values = [
        evaluate(found.outputs, dict(zip(map(param, found.params), given, strict=True)))[0]
        for found, given in ((moved, (x, array)), (jaxpr, (x, w)))
    ]
    assert np.array_equal(*values)
