"""Convolutions, pools and normalizations beside loops and formulas of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.ops.cases import F, holds, outputs, ramp
from tfn.onnx.ops.windows import around

X = ramp(2, 4, 5, 6)


def convolved(x: Any, w: Any, stride: int = 1, group: int = 1) -> np.ndarray[Any, Any]:
    """A convolution by its definition."""
    n, c, h, width = x.shape
    out, _, a, b = w.shape
    y = np.zeros((n, out, (h - a) // stride + 1, (width - b) // stride + 1), np.float64)
    for o in range(out):
        first = o // (out // group) * (c // group)
        part = x[:, first : first + c // group]
        for i in range(y.shape[2]):
            for j in range(y.shape[3]):
                block = part[:, :, i * stride : i * stride + a, j * stride : j * stride + b]
                y[:, o, i, j] = (block * w[o]).sum((1, 2, 3))
    return y.astype(F)


@pytest.mark.parametrize(("stride", "group"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_convolutions_are_sums_of_windows(stride: int, group: int) -> None:
    w, b = ramp(4, 4 // group, 3, 2), ramp(4)
    want = convolved(X, w, stride, group) + b[:, None, None]
    got = outputs("Conv", X, w, b, strides=[stride] * 2, group=group)[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_transposed_convolutions_are_transposes() -> None:
    """The sum of products of one with y is that of its transpose with x."""
    w = ramp(3, 4, 2, 3)
    y = ramp(2, 3, 4, 4)
    back = np.asarray(outputs("ConvTranspose", y, w)[0])
    forth = convolved(X, w)
    np.testing.assert_allclose((forth * y).sum(), (X * back).sum(), rtol=1e-4)
    wide = outputs("ConvTranspose", y, w, strides=[2, 2], output_padding=[1, 0], pads=[0, 1, 0, 1])[
        0
    ]
    assert wide.shape == (2, 4, 9, 7)


def test_same_pads_give_sizes_divided_by_strides() -> None:
    for mode, want in (("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0))):
        assert around((6,), (3,), (2,), (1,), None, mode) == [want]
    assert outputs("Conv", X, ramp(1, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")[0].shape == (
        2,
        1,
        3,
        3,
    )


def test_pools_count_what_they_are_told_to() -> None:
    x = np.ones((1, 1, 4, 4), F)
    edge = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    assert outputs("AveragePool", x, **edge)[0][0, 0, 0, 0] == 1
    np.testing.assert_allclose(
        outputs("AveragePool", x, count_include_pad=1, **edge)[0][0, 0, 0, 0], 4 / 9
    )
    assert outputs("AveragePool", ramp(1, 1, 5), kernel_shape=[2], strides=[2], ceil_mode=1)[
        0
    ].shape == (1, 1, 3)


def test_the_largest_elements_and_their_places_go_back() -> None:
    x = ramp(1, 2, 4, 4)
    y, places = outputs("MaxPool", x, count=2, kernel_shape=[2, 2], strides=[2, 2])
    want = x.reshape(1, 2, 2, 2, 2, 2).max((3, 5))
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(x.reshape(-1)[np.asarray(places)], want)
    spread = outputs("MaxUnpool", y, places, kernel_shape=[2, 2], strides=[2, 2])[0]
    np.testing.assert_array_equal(spread, np.where(np.isin(x, want), x, 0))


def test_norms_have_mean_0_and_deviation_1() -> None:
    scale, bias = F([2, 2, 2, 2]), F([1, 1, 1, 1])
    for op, axes, more in (
        ("InstanceNormalization", (2, 3), {}),
        ("GroupNormalization", (2, 3), {"num_groups": 4}),
    ):
        y = np.asarray(outputs(op, X, scale, bias, **more)[0])
        np.testing.assert_allclose(y.mean(axes), 1, atol=1e-4)
        np.testing.assert_allclose(y.std(axes), 2, rtol=1e-3)
    y, mean, inverse = outputs("LayerNormalization", X, np.ones(6, F), count=3)
    np.testing.assert_allclose(mean, X.mean(-1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(X.var(-1, keepdims=True) + 1e-5), rtol=1e-4)
    np.testing.assert_allclose(y, (X - mean) * inverse, rtol=1e-3, atol=1e-4)
    root = np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5)
    holds(X / root, "RMSNormalization", X, np.ones(6, F))


def test_batch_norm_uses_given_moments_or_those_of_the_batch() -> None:
    scale, bias, mean, var = ramp(4), ramp(4), ramp(4), np.abs(ramp(4)) + 1
    shape = (-1, 1, 1)
    want = (X - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    want = want * scale.reshape(shape) + bias.reshape(shape)
    np.testing.assert_allclose(
        outputs("BatchNormalization", X, scale, bias, mean, var)[0], want, rtol=1e-4, atol=1e-4
    )
    y, m, v = outputs("BatchNormalization", X, scale, bias, mean, var, count=3, training_mode=1)
    np.testing.assert_allclose(m, 0.9 * mean + 0.1 * X.mean((0, 2, 3)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(v, 0.9 * var + 0.1 * X.var((0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(np.asarray(y).mean((0, 2, 3)), bias, atol=1e-3)


def test_vectors_without_a_norm_stay_zero() -> None:
    assert outputs("LpNormalization", np.zeros((2, 3), F))[0].tolist() == [[0] * 3] * 2
    holds(np.full((1, 2), F(0.5)), "LpNormalization", np.ones((1, 2), F), p=1)
