"""What operations are tested by: a model of one node beside what NumPy says."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx.building import one
from tfn import onnx

F = np.float32


def ramp(*shape: int) -> np.ndarray[Any, Any]:
    """Distinct numbers of both signs."""
    n = int(np.prod(shape))
    return ((np.arange(n) * 7 % n - n / 3) / 4).astype(F).reshape(shape)


def outputs(op: str, *inputs: Any, count: int = 1, opset: int = 23, **attributes: Any) -> list[Any]:
    """The results of one node."""
    loaded = onnx.load(one(op, *inputs, outputs=count, opset=opset, **attributes))
    return list(loaded(*(x for x in inputs if x is not None)).values())


def holds(want: Any, op: str, *inputs: Any, opset: int = 23, **attributes: Any) -> None:
    """Raise unless a node gives an array: its values, shape and dtype."""
    got = np.asarray(outputs(op, *inputs, opset=opset, **attributes)[0])
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), 1e-5, 1e-6)
