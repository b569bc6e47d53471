"""Products, attention and 8-bit values beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.ops.cases import F, holds, outputs, ramp

A, B, C = ramp(3, 4), ramp(4, 5), ramp(5)


def test_products_with_scales_and_turns() -> None:
    np.testing.assert_allclose(outputs("MatMul", A, B)[0], A @ B, rtol=1e-5, atol=1e-5)
    got = outputs("Gemm", A.T, B.T, C, transA=1, transB=1, alpha=0.5, beta=2.0)[0]
    np.testing.assert_allclose(got, A @ B / 2 + 2 * C, rtol=1e-5, atol=1e-5)
    holds(np.einsum("ij,jk->ki", A, B), "Einsum", A, B, equation="ij, jk -> ki")


def test_quantized_values_come_back_within_half_a_step() -> None:
    scale, zero = F(0.1), np.uint8(30)
    codes = outputs("QuantizeLinear", A, scale, zero)[0]
    assert codes.dtype == np.uint8
    back = outputs("DequantizeLinear", np.asarray(codes), scale, zero)[0]
    inside = np.clip(A, -3, 22.5)
    np.testing.assert_allclose(back, inside, atol=0.0501)


def test_scales_are_of_an_axis_or_of_blocks() -> None:
    x = np.ones((2, 4), np.int8)
    got = outputs("DequantizeLinear", x, F([2, 3]), axis=0)[0]
    assert got.tolist() == [[2] * 4, [3] * 4]
    blocks = F([[1, 2], [3, 4]])
    got = outputs("DequantizeLinear", x, blocks, axis=1, block_size=2)[0]
    assert got.tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]


def test_dynamic_scales_cover_the_range_and_zero() -> None:
    codes, scale, zero = outputs("DynamicQuantizeLinear", A, count=3)
    back = (np.asarray(codes).astype(F) - np.asarray(zero).astype(F)) * np.asarray(scale)
    np.testing.assert_allclose(back, A, atol=np.asarray(scale) * 0.51)


def test_the_scale_of_zeros_is_one_as_in_onnxruntime() -> None:
    codes, scale, zero = outputs("DynamicQuantizeLinear", np.zeros(3, F), count=3)
    assert (codes.tolist(), float(scale), int(zero)) == ([0, 0, 0], 1, 0)


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_products_of_8_bits_do_not_saturate_where_pairs_leave_16_bits(op: str) -> None:
    x, w = np.full((1, 64), 255, np.uint8), np.full((64, 1), 127, np.int8)
    x, w = (x, w) if op == "MatMulInteger" else (x.reshape(1, 64, 1, 1), w.reshape(1, 64, 1, 1))
    assert outputs(op, x, w)[0].tolist() == np.full((1,) * x.ndim, 64 * 255 * 127).tolist()


@pytest.mark.parametrize("zeros", [False, True])
def test_products_of_8_bits_are_exact(zeros: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (3, 70), np.int8), rng.integers(0, 256, (70, 5), np.uint8)
    points = (np.int8(3), np.uint8(7)) if zeros else ()
    shift = (3, 7) if zeros else (0, 0)
    want = (a.astype(np.int32) - shift[0]) @ (b.astype(np.int32) - shift[1])
    holds(want, "MatMulInteger", a, b, *points)
    x, w = rng.integers(0, 256, (1, 1, 4, 4), np.uint8), rng.integers(-9, 9, (1, 1, 4, 4), np.int8)
    holds((x.astype(np.int32) * w).sum(dtype=np.int32).reshape(1, 1, 1, 1), "ConvInteger", x, w)


def test_quantized_products_are_rounded_once() -> None:
    a, b = np.uint8([[10, 20]]), np.uint8([[3], [4]])
    one = F(1)
    got = outputs("QLinearMatMul", a, one, np.uint8(0), b, one, np.uint8(0), F(10), np.uint8(1))[0]
    assert got.tolist() == [[12]]  # 110 / 10 + 1


@pytest.mark.parametrize("op", ["QLinearMatMul", "QLinearConv", "QGemm"])
def test_scales_become_one_factor_before_products_are_rounded(op: str) -> None:
    a, b, zero, scales = np.uint8([[125]]), np.int8([[-115]]), np.int8(0), F([0.02, 0.01, 0.05])
    if op == "QLinearConv":
        a, b = a[..., None, None], b[..., None, None]
    result = (None, scales[2], np.uint8(128)) if op == "QGemm" else (scales[2], np.uint8(128))
    given = (a, scales[0], np.uint8(0), b, scales[1], zero, *result)
    domain = "com.microsoft" if op == "QGemm" else ""
    got = np.asarray(outputs(op, *given, domain=domain)[0])
    assert got.ravel().tolist() == [71]  # onnxruntime 1.32; a tie, 70, by one after the other


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul", "QLinearAveragePool"])
def test_ties_of_quantized_functions_are_rounded_with_their_zero_point(op: str) -> None:
    x, one, half, zero = np.uint8([[1, 3, 5, 7]]), F(1), F(0.5), np.uint8(0)
    other = () if op == "QLinearAveragePool" else (np.uint8([op == "QLinearMul"] * 4), one, zero)
    x, options = (x, {}) if other else (x[None, None], {"kernel_shape": [1, 1]})
    given = (x, half, zero, *other, one, np.uint8(5))
    got = outputs(op, *given, domain="com.microsoft", **options)[0]
    assert got.ravel().tolist() == [6, 6, 8, 8]  # onnxruntime 1.32: 5.5, 6.5, 7.5, 8.5


def softmax(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_attention_in_groups_with_masks() -> None:
    q, k, v = ramp(1, 4, 3, 2), ramp(1, 2, 3, 2), ramp(1, 2, 3, 2) + F(1)
    wide = [np.repeat(x, 2, 1) for x in (k, v)]
    scores = q @ wide[0].swapaxes(-1, -2) / np.sqrt(2)
    np.testing.assert_allclose(
        outputs("Attention", q, k, v)[0], softmax(scores) @ wide[1], rtol=1e-4
    )
    causal = np.where(np.tri(3, dtype=bool), scores, -np.inf)
    got = outputs("Attention", q, k, v, is_causal=1)[0]
    np.testing.assert_allclose(got, softmax(causal) @ wide[1], rtol=1e-4)
    blind = np.zeros((3, 3), bool)
    assert not np.asarray(outputs("Attention", q, k, v, blind)[0]).any()


def test_a_cache_is_what_all_at_once_is() -> None:
    q, k, v = ramp(1, 1, 4, 2), ramp(1, 1, 4, 2), ramp(1, 1, 4, 2)
    whole = np.asarray(outputs("Attention", q, k, v, is_causal=1)[0])
    part = outputs(
        "Attention",
        q[:, :, 3:],
        k[:, :, 3:],
        v[:, :, 3:],
        None,
        k[:, :, :3],
        v[:, :, :3],
        count=3,
        is_causal=1,
    )
    np.testing.assert_allclose(part[0], whole[:, :, 3:], rtol=1e-5)
    np.testing.assert_array_equal(part[1], k)


def test_turned_features_keep_their_length() -> None:
    x, angle = ramp(1, 2, 3, 4), ramp(1, 3, 2)
    for interleaved in (0, 1):
        y = np.asarray(
            outputs("RotaryEmbedding", x, np.cos(angle), np.sin(angle), interleaved=interleaved)[0]
        )
        np.testing.assert_allclose((y**2).sum(-1), (x**2).sum(-1), rtol=1e-4)


def test_linear_attention_goes_on_from_its_state() -> None:
    q, k, v = ramp(1, 4, 2), ramp(1, 4, 2), ramp(1, 4, 2)
    heads = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"}
    whole, state = outputs("LinearAttention", q, k, v, count=2, opset=26, **heads)
    want = np.tril(q[0] @ k[0].T) @ v[0] / np.sqrt(2)
    np.testing.assert_allclose(whole[0], want, rtol=1e-4)
    first = outputs("LinearAttention", q[:, :2], k[:, :2], v[:, :2], count=2, **heads)
    rest = outputs(
        "LinearAttention", q[:, 2:], k[:, 2:], v[:, 2:], np.asarray(first[1]), count=2, **heads
    )
    np.testing.assert_allclose(rest[0], np.asarray(whole)[:, 2:], rtol=1e-4)
    np.testing.assert_allclose(rest[1], state, rtol=1e-4)


def test_a_causal_convolution_goes_on_from_its_state() -> None:
    x, w = ramp(1, 2, 6), ramp(2, 1, 3)
    whole = np.asarray(outputs("CausalConvWithState", x, w, count=2)[0])
    first = outputs("CausalConvWithState", x[..., :4], w, count=2)
    rest = outputs("CausalConvWithState", x[..., 4:], w, None, np.asarray(first[1]), count=2)
    np.testing.assert_allclose(rest[0], whole[..., 4:], rtol=1e-5)
