"""Attention of com.microsoft: laws between its operations; values are in `test_microsoft`."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.onnx.ops.fused_attention import Attention, GroupQueryAttention, MultiHeadAttention

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 8)).astype(np.float32)
W = RNG.normal(size=(8, 24)).astype(np.float32)


def test_one_matrix_of_weights_is_three() -> None:
    q, k, v = np.split(X @ W, 3, axis=-1)
    packed, apart = Attention(X, W, num_heads=2), MultiHeadAttention(q, k, v, num_heads=2)
    np.testing.assert_allclose(packed, apart, rtol=1e-5)


def test_later_keys_do_not_change_earlier_rows() -> None:
    whole = np.asarray(Attention(X, W, num_heads=2, unidirectional=1))
    begin = np.asarray(Attention(X[:, :3], W, num_heads=2, unidirectional=1))
    np.testing.assert_allclose(whole[:, :3], begin, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_cache_has_what_was_read_before(groups: int) -> None:
    q = RNG.normal(size=(1, 4, 32)).astype(np.float32)
    k, v = RNG.normal(size=(2, 1, 4, 8 * groups)).astype(np.float32)
    options = {"num_heads": 4, "kv_num_heads": groups, "outputs": 3}
    none = np.zeros((1, groups, 0, 8), np.float32)
    at = (np.asarray([3], np.int32), np.asarray(4, np.int32))
    whole, keys, values = GroupQueryAttention(q, k, v, none, none, *at, **options)
    past = keys[:, :, :3], values[:, :, :3]
    last = GroupQueryAttention(q[:, 3:], k[:, 3:], v[:, 3:], *past, *at, **options)[0]
    np.testing.assert_allclose(last[:, 0], whole[:, 3], rtol=1e-4, atol=1e-6)
