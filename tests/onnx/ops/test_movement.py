"""Shapes, slices and pads beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.building import graph, model, node
from tests.onnx.ops.cases import F, holds, outputs, ramp
from tfn import onnx
from tfn.errors import ShapeError

X = ramp(2, 3, 4)


def n(*values: int) -> Any:
    return np.array(values, np.int64)


CASES: list[tuple[Any, ...]] = [
    (n(2, 3, 4), "Shape", X),
    (np.array(24), "Size", X),
    (X.reshape(2, 12), "Flatten", X),
    (X.transpose(2, 1, 0), "Transpose", X),
    (np.tile(X, (1, 2, 1)), "Tile", X, n(1, 2, 1)),
    (np.broadcast_to(X, (5, 2, 3, 4)), "Expand", X, n(5, 1, 3, 4)),
    (X.reshape(2, 2, 6), "Reshape", X, n(0, 2, -1)),
    (X[:, None], "Unsqueeze", X, n(1)),
    (X[0], "Squeeze", X[:1], n(0)),
    (X[:, 1:, ::2], "Slice", X, n(1, 0), n(99, 99), n(1, -1), n(1, 2)),
    (X[::-1], "Slice", X, n(-1), n(-99), n(0), n(-1)),
    (np.pad(X, ((0, 0), (1, 0), (0, 2))), "Pad", X, n(0, 1, 0, 0, 0, 2)),
    (np.arange(3, 9, 2), "Range", n(3)[0], n(9)[0], n(2)[0]),
    (np.zeros((2, 3), F), "ConstantOfShape", n(2, 3)),
    (np.triu(X, 1), "Trilu", X, n(1)[0]),
    (np.eye(3, dtype=F), "EyeLike", ramp(3, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_values_are_those_of_numpy(case: Any) -> None:
    holds(*case)


def test_attributes_of_earlier_versions() -> None:
    holds(X[:, None], "Unsqueeze", X, opset=11, axes=[1])
    holds(X[:, :2], "Slice", X, opset=9, starts=[0], ends=[2], axes=[1])
    holds(
        np.pad(X, ((0, 0), (0, 0), (1, 1)), "edge"),
        "Pad",
        X,
        opset=10,
        mode="edge",
        pads=[0, 0, 1, 0, 0, 1],
    )
    holds(np.pad(X, 1, constant_values=2), "Pad", X, opset=2, pads=[1] * 6, value=2.0)


def test_negative_pads_crop() -> None:
    holds(X[:, :, 1:], "Pad", X, n(0, 0, -1, 0, 0, 0))


def test_parts_are_equal_or_as_given() -> None:
    x = ramp(7)
    assert [p.shape for p in outputs("Split", x, count=3)] == [(3,), (3,), (1,)]
    assert [p.shape for p in outputs("Split", x, n(2, 5), count=2)] == [(2,), (5,)]


def test_blocks_become_channels_and_back() -> None:
    x = ramp(1, 8, 2, 3)
    for mode in ("DCR", "CRD"):
        wide = outputs("DepthToSpace", x, blocksize=2, mode=mode)[0]
        assert wide.shape == (1, 2, 4, 6)
    deep = outputs("SpaceToDepth", outputs("DepthToSpace", x, blocksize=2)[0], blocksize=2)[0]
    np.testing.assert_array_equal(deep, x)


def test_rows_are_reversed_up_to_their_lengths() -> None:
    x = ramp(4, 2)
    want = x.copy()
    want[:3, 0], want[:2, 1] = x[2::-1, 0], x[1::-1, 1]
    holds(want, "ReverseSequence", x, n(3, 2))


def test_an_array_is_cropped_and_padded_around_its_centre() -> None:
    holds(np.pad(ramp(4, 5)[:, 1:4], ((1, 1), (0, 0))), "CenterCropPad", ramp(4, 5), n(6, 3))


def test_blocks_are_added_at_their_places() -> None:
    x = np.ones((1, 4, 4), F)
    want = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], F)[None, None]
    constants = {"size": n(3, 3), "block": n(2, 2)}
    made = onnx.load(model(graph([node("Col2Im", "x size block", "y")], ["x"], ["y"], constants)))
    np.testing.assert_array_equal(made(x)["y"], want)
    with pytest.raises(ShapeError, match="a column for each place"):
        made(np.ones((1, 4, 5), F))


def test_arrays_are_joined() -> None:
    holds(np.concatenate([X, X], 1), "Concat", X, X, axis=1)
