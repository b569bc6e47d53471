"""Operations of com.microsoft beside what onnxruntime 1.32 gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.covering import in_turn
from tests.onnx.building import graph, model, node, value
from tfn import onnx

Case = tuple[list[Any], dict[str, Any]]


def wave(*shape: int, start: int = 0) -> np.ndarray[Any, Any]:
    """Numbers from -1 to 1 without a pattern."""
    n = int(np.prod(shape))
    return np.sin(np.arange(start, start + n) ** 1.3).astype(np.float32).reshape(shape)


def codes(*shape: int, least: int = 0, most: int = 256) -> np.ndarray[Any, Any]:
    dtype = np.int8 if least < 0 else np.uint8
    steps = np.arange(int(np.prod(shape))) * 37 % (most - least) + least
    return steps.astype(dtype).reshape(shape)


def ints(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def f(number: float) -> np.ndarray[Any, Any]:
    return np.array(number, np.float32)


def u(number: int) -> np.ndarray[Any, Any]:
    return np.array(number, np.uint8)


X, W, KEYS = wave(2, 4, 8), wave(8, 24, start=9), wave(2, 5, 8, start=5)
MASK = ints([1, 1, 1, 0], [1, 1, 0, 0])
ROW, ROWS = wave(8, start=3), wave(2, 4, 8, start=50)
GROUPS = [wave(2, 1, 32), wave(2, 1, 16, start=7), wave(2, 1, 16, start=3)]
CACHE = [wave(2, 2, 7, 8), wave(2, 2, 7, 8, start=5), ints(5, 3), ints(6)]
ANGLES = [wave(10, 4), wave(10, 4, start=4)]
PAIR = [codes(3, 4), f(0.1), u(120), codes(4), f(0.05), u(100), f(0.12), u(110)]
ONE = [codes(1, 2, 4, 4), f(0.05), u(120), f(0.04), u(100)]
IMAGE, KERNEL = wave(1, 3, 6, 6), wave(4, 3, 3, 3, start=2)
BITS = [wave(2, 32), codes(6, 2, 8), wave(12)]

# fmt: off
CASES: dict[str, Case] = {
    "Attention": ([X, W, wave(24)], {"num_heads": 2}),
    "Attention mask": ([X, W, wave(24), MASK], {"num_heads": 2, "unidirectional": 1}),
    "Attention lengths": ([X, W, wave(24), ints(3, 2)], {"num_heads": 2}),
    "Attention ends": ([X, W, wave(24), ints(3, 4, 0, 1)], {"num_heads": 2}),
    "Attention past": ([X, W, wave(24), None, wave(2, 2, 2, 3, 4)], {"num_heads": 2}),
    "MultiHeadAttention": ([X, KEYS, KEYS[::-1].copy()], {"num_heads": 2}),
    "MultiHeadAttention bias": ([X, KEYS, KEYS, wave(24)], {"num_heads": 2}),
    "MultiHeadAttention mask": (
        [X, X, X, None, MASK, wave(1, 2, 4, 4)], {"num_heads": 2, "unidirectional": 1}),
    "GroupQueryAttention": ([*GROUPS, *CACHE], {"num_heads": 4, "kv_num_heads": 2}),
    "GroupQueryAttention window": (
        [*GROUPS, *CACHE], {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2}),
    "GroupQueryAttention turned": (
        [wave(2, 1, 128), None, None, *[wave(2, 2, 7, 16, start=i) for i in (2, 9)], ints(5, 3),
         ints(6), wave(10, 8), wave(10, 8, start=4)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}),
    "RotaryEmbedding": ([wave(2, 4, 16), np.array([3]), *ANGLES], {}),
    "RotaryEmbedding heads": (
        [wave(2, 2, 4, 8), np.arange(8).reshape(2, 4), *ANGLES], {"interleaved": 1}),
    "SkipLayerNormalization": ([X, ROWS, ROW, ROW, ROW], {"epsilon": 1e-5}),
    "SkipSimplifiedLayerNormalization": ([X, ROWS, ROW], {"epsilon": 1e-5}),
    "EmbedLayerNormalization": (
        [ints([1, 2, 3, 4], [0, 2, 5, 1]), ints([0, 0, 1, 1], [1, 0, 0, 0]), wave(9, 8),
         wave(6, 8), wave(2, 8), ROW, ROW], {"epsilon": 1e-5}),
    "BiasGelu": ([X, ROW], {}), "Gelu": ([X], {}), "FastGelu": ([X, ROW], {}),
    "QuickGelu": ([X], {"alpha": 1.5}),
    "FusedMatMul": ([X, KEYS], {"transB": 1, "alpha": 0.5}),
    "FusedMatMul batch": ([wave(3, 2, 4), wave(2, 4, 5)], {"transBatchA": 1}),
    "FusedGemm": ([wave(3, 4), wave(4, 5), wave(5)],
                  {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    "FusedConv": ([IMAGE, KERNEL, wave(4), wave(1, 4, 4, 4)], {"activation": "Relu"}),
    "FusedConv clip": (
        [IMAGE, KERNEL], {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    "MatMulNBits": (BITS, {"K": 32, "N": 6, "bits": 4, "block_size": 16}),
    "MatMulNBits zeros": ([*BITS, codes(6)], {"K": 32, "N": 6, "bits": 4, "block_size": 16}),
    "MatMulNBits bytes": (
        [wave(2, 32), codes(6, 2, 16), wave(12)], {"K": 32, "N": 6, "bits": 8, "block_size": 16}),
    "MatMulIntegerToFloat": (
        [codes(3, 4), codes(4, 5, least=-40, most=40), f(0.1), np.abs(wave(5)), u(120),
         codes(5, least=-9, most=9), wave(5)], {}),
    "DynamicQuantizeMatMul": (
        [wave(3, 4), codes(4, 5, least=-40, most=40), f(0.2), None, wave(5)], {}),
    "QGemm": ([codes(3, 4), f(0.1), u(120), codes(5, 4, least=-40, most=40), np.abs(wave(5)) / 9,
               codes(5, least=0, most=1).astype(np.int8), ints(5, -3, 2, 9, 1), f(2.0), u(100)],
              {"transB": 1}),
    "QGemm floats": (
        [codes(4, 3), f(0.1), u(120), codes(4, 5, least=-40, most=40), f(0.2),
         np.array(3, np.int8)],
        {"transA": 1, "alpha": 0.5}),
    "QLinearAdd": (PAIR, {}), "QLinearMul": (PAIR, {}),
    "QLinearSigmoid": ([codes(3, 4), f(0.05), u(120), f(1 / 256), u(0)], {}),
    "QLinearLeakyRelu": (ONE, {"alpha": 0.1}),
    "QLinearSoftmax": ([codes(3, 4), f(0.05), u(120), f(1 / 256), u(0)],
                       {"axis": -1, "opset": 13}),
    "QLinearConcat": ([f(0.1), u(110), codes(2, 3), f(0.05), u(120), codes(2, 4), f(0.1), u(110)],
                      {"axis": 1}),
    "QLinearAveragePool": (ONE, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "QLinearGlobalAveragePool": (ONE, {"channels_last": 0}),
    "QuantizeLinear": ([wave(3, 4), f(0.05), u(120)], {}),
}
RECORDED: dict[str, tuple[list[float], float]] = {
    "Attention": ([-4.1999, -1.9388, -0.73043, 0.81911], -0.039633),
    "Attention mask": ([-1.4169, -1.1328, -1.5219, 0.77041], -0.096266),
    "Attention lengths": ([-4.248, -1.9773, -0.74197, 0.81829], -0.17147),
    "Attention ends": ([-4.248, -1.9773, -0.74197, 0.81829], -0.014136),
    "Attention past": ([-3.7991, -1.7504, -0.71513, 0.78311], -0.07369),
    "MultiHeadAttention": ([0.15545, -0.012538, -0.34075, 0.062969], 0.0040515),
    "MultiHeadAttention bias": ([-0.54287, 0.57925, -0.62649, 0.62693], -0.045696),
    "MultiHeadAttention mask": ([0.0, 0.84147, 0.62825, -0.85708], 0.022362),
    "GroupQueryAttention": ([0.47926, -0.44749, 0.16554, 0.13913], 0.026556),
    "GroupQueryAttention window": ([-0.091696, -0.067471, 0.078775, 0.16903], -0.036833),
    "GroupQueryAttention turned": ([0.052911, 0.0021182, -0.53583, -0.19161], -0.006831),
    "RotaryEmbedding": ([-0.17658, -0.67229, -0.99034, -0.57336], -0.010166),
    "RotaryEmbedding heads": ([0.1839, 0.0, 1.3592, -0.11238], -0.10476),
    "SkipLayerNormalization": ([-0.057197, -0.36221, 2.0508, 0.2448], 0.3962),
    "SkipSimplifiedLayerNormalization": ([0.66162, -0.23956, 0.82919, 1.079], -0.0059751),
    "EmbedLayerNormalization": ([-1.1199, -0.28377, 2.1655, 0.45127], 0.33409),
    "BiasGelu": ([-0.16773, 0.45682, 1.5093, -0.086992], 0.2858),
    "Gelu": ([0.0, 0.67314, 0.46182, -0.16773], 0.17922),
    "FastGelu": ([-0.16783, 0.45678, 1.5091, -0.087173], 0.28572),
    "QuickGelu": ([0.0, 0.65585, 0.45208, -0.18564], 0.16718),
    "FusedMatMul": ([0.12751, -0.51775, 0.17756, -0.68252], -0.16121),
    "FusedMatMul batch": ([0.78741, -0.28862, -0.66732, 1.503], -0.021163),
    "FusedGemm": ([0.78741, 0.55285, -0.0078138, 0.64589], 0.31517),
    "FusedConv": ([0.0, 0.0, 0.019906, 1.2167], 1.2143),
    "FusedConv clip": ([-0.41837, -0.5, -0.5, 0.5], 0.020387),
    "MatMulNBits": ([3.257, -17.44, -6.5795, -3.9499], -5.3953),
    "MatMulNBits zeros": ([-1.9617, -11.189, -9.0594, 2.3721], -5.0562),
    "MatMulNBits bytes": ([-132.35, -11.191, 84.824, 210.82], -52.001),
    "MatMulIntegerToFloat": ([0.0, -162.4, -287.61, 9.7707], -79.78),
    "DynamicQuantizeMatMul": ([-7.2321, 1.7339, -7.3425, -0.7032], -1.9903),
    "QGemm": ([100.0, 86.0, 101.0, 112.0], 99.533),
    "QGemm floats": ([46.6, -26.5, -45.2, -22.3], 2.74),
    "QLinearAdd": ([0.0, 15.0, 61.0, 107.0], 74.833),
    "QLinearMul": ([255.0, 255.0, 160.0, 106.0], 129.17),
    "QLinearSigmoid": ([1.0, 4.0, 23.0, 100.0], 98.833),
    "QLinearLeakyRelu": ([85.0, 90.0, 94.0, 99.0], 128.12),
    "QLinearSoftmax": ([1.0, 5.0, 34.0, 216.0], 64.0),
    "QLinearConcat": ([50.0, 68.0, 87.0, 0.0], 96.929),
    "QLinearAveragePool": ([66.0, 78.0, 116.0, 48.0], 87.0),
    "QLinearGlobalAveragePool": ([77.0, 97.0], 87.0),
    "QuantizeLinear": ([120.0, 137.0, 133.0, 103.0], 121.17),
}
# fmt: on
"""The first four values of onnxruntime and the mean of all, for each case."""


def file_of(name: str) -> bytes:
    inputs, attributes = CASES[name]
    op = name.split()[0]
    names = ["." if x is None else chr(97 + i) for i, x in enumerate(inputs)]
    count = {"GroupQueryAttention": 3, "EmbedLayerNormalization": 2}.get(op, 1)
    outputs = [f"y{i}" for i in range(2 if name == "Attention past" else count)]
    row = node(op, " ".join(names), " ".join(outputs), "com.microsoft", **attributes)
    typed = [value(n, x.dtype, x.shape) for n, x in zip(names, inputs) if x is not None]
    dtype = np.uint8 if op.startswith("Q") and ("Linear" in op or len(inputs) > 6) else np.float32
    return model(graph([row], typed, [value("y0", dtype)]), 20)


@pytest.mark.parametrize("name", in_turn(2, CASES))
def test_the_values_are_those_of_onnxruntime(name: str) -> None:
    first, mean = RECORDED[name]
    loaded = onnx.load(file_of(name))
    (y,) = loaded(*(x for x in CASES[name][0] if x is not None)).values()
    got = np.asarray(y).astype(np.float64)
    bound = {"rtol": 1e-3, "atol": 1e-4 if np.asarray(y).dtype.kind == "f" else 1.0}
    np.testing.assert_allclose(got.reshape(-1)[:4], first, **bound)
    np.testing.assert_allclose(got.mean(), mean, **bound)
