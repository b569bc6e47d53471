"""Elementwise operations beside NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.onnx.ops.cases import F, holds, outputs, ramp
from tfn.errors import NotAvailableError

X, Y = ramp(3, 4), ramp(4) + F(0.125)
Z = F([1, np.inf, -np.inf, np.nan])
N, M = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)

# fmt: off
CASES: list[tuple[Any, ...]] = [
    (np.abs(X), "Abs", X), (X + Y, "Add", X, Y), (X * Y, "Mul", X, Y), (X / Y, "Div", X, Y),
    (np.array([3, -3, -3, 3], np.int32), "Div", N, M), (np.mod(N, M), "Mod", N, M),
    (np.maximum(np.maximum(X, Y), F(0)), "Max", X, Y, np.zeros((), F)),
    ((X + Y + X) / F(3), "Mean", X, Y, X), (X > Y, "Greater", X, Y), (X + Y + X, "Sum", X, Y, X),
    (np.logical_xor(X > 0, Y > 0), "Xor", X > 0, Y > 0), (~N, "BitwiseNot", N),
    (np.round(X), "Round", X), (1 / Y, "Reciprocal", Y), (np.tanh(X), "Tanh", X),
    (np.where(X > 0, X, Y), "Where", X > 0, X, Y), (np.isinf(Z), "IsInf", Z),
    (X.astype(np.int64), "CastLike", X, np.zeros(1, np.int64)), (X, "Identity", X),
    (np.where(X < 0, X * F(0.01), X), "LeakyRelu", X), (np.where(X < 0, X * Y, X), "PRelu", X, Y),
    (np.where(X > 0, X, np.expm1(X)), "Elu", X), (np.maximum(X, 0), "Relu", X),
    (1 / (1 + np.exp(-X)), "Sigmoid", X), (np.clip(X * F(0.2) + F(0.5), 0, 1), "HardSigmoid", X),
    (X / (1 + np.exp(-X)), "Swish", X), (np.log1p(np.exp(X)), "Softplus", X),
    (np.float32([4, 9]), "Pow", np.float32([2, 3]), np.int32([2, 2])),
    (np.uint8([4, 2]), "BitShift", np.uint8([16, 8]), np.uint8([2, 2])),
]
OPTIONS: list[tuple[Any, dict[str, Any], str, Any]] = [
    (np.fmod(N, 3), {"fmod": 1}, "Mod", (N, np.int32([3]))),
    (np.uint8([64, 32]), {"direction": "LEFT"}, "BitShift", (np.uint8([16, 8]), np.uint8([2, 2]))),
    (np.where(F(1) < X, X, F(0)), {"alpha": 1.0}, "ThresholdedRelu", (X,)),
    (np.sign(X) * np.maximum(np.abs(X) - F(0.5), 0), {"bias": 0.5}, "Shrink", (X,)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_values_are_those_of_numpy(case: Any) -> None:
    attributes = {"direction": "RIGHT"} if case[1] == "BitShift" else {}
    holds(*case, **attributes)


@pytest.mark.parametrize(("want", "attributes", "op", "inputs"), OPTIONS)
def test_attributes_change_what_they_say(want: Any, attributes: Any, op: str, inputs: Any) -> None:
    holds(want, op, *inputs, **attributes)


def test_softmax_before_version_13_is_of_all_axes_from_one_on() -> None:
    x = ramp(2, 3, 4)
    for opset, over in ((13, (2,)), (11, (1, 2))):
        e = np.exp(x - x.max(over, keepdims=True))
        holds(e / e.sum(over, keepdims=True), "Softmax", x, opset=opset)
    assert outputs("Hardmax", ramp(3))[0].tolist() == [0, 0, 1]


def test_clip_has_bounds_as_inputs_or_attributes() -> None:
    holds(np.clip(X, -1, 1), "Clip", X, F(-1), F(1))
    holds(np.minimum(X, 1), "Clip", X, None, F(1))
    holds(np.clip(X, -1, 1), "Clip", X, opset=6, min=-1.0, max=1.0)
    holds(np.full_like(X, -1), "Clip", X, F(1), F(-1))


def test_casts_to_narrow_floats_saturate_if_asked() -> None:
    x = np.float32([1000.0, -1000.0, 1.0])
    narrow = np.dtype(ml_dtypes.float8_e4m3fn)
    top = float(ml_dtypes.finfo(narrow).max)
    got = [outputs("Cast", x, to=17, saturate=s)[0].astype(F).tolist() for s in (1, 0)]
    assert got[0] == [top, -top, 1.0] and np.isnan(got[1][0])
    with pytest.raises(NotAvailableError, match="texts"):
        outputs("Cast", x, to=8)


def test_bits_are_read_as_another_dtype() -> None:
    holds(X.view(np.int32), "BitCast", X, to=6)
    holds(np.uint8([0, 1]), "BitCast", np.array([False, True]), to=2)
