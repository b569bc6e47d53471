"""Arguments of the operations of ATen that `tfn.torch.ops` has rows for."""

from __future__ import annotations

from typing import Any

import numpy as np


def F(*shape: int, low: float = -2.0, seed: int = 0) -> np.ndarray[Any, Any]:
    """Floats that are all different, from `low` on."""
    n = int(np.prod(shape))
    values = np.random.default_rng(n + seed).permutation(n).astype(np.float32)
    return (values * (4.0 / max(n, 1)) + low + 0.013).astype(np.float32).reshape(shape)


def P(*shape: int) -> np.ndarray[Any, Any]:
    """Floats between 0 and 1."""
    return F(*shape) / 8 + np.float32(0.5)


def I(*shape: int, below: int = 5, low: int = 0) -> np.ndarray[Any, Any]:  # noqa: E743
    """Integers."""
    return np.random.default_rng(1).integers(low, below, shape).astype(np.int64)


def B(*shape: int) -> np.ndarray[Any, Any]:
    """Booleans."""
    return I(*shape, below=2).astype(bool)


def C(*shape: int) -> np.ndarray[Any, Any]:
    """Complex numbers."""
    return (F(*shape) + 1j * F(*shape, seed=1)).astype(np.complex64)


def D(*shape: int) -> np.ndarray[Any, Any]:
    """Positive definite matrices."""
    a = F(*shape, shape[-1]) / 2
    return (a @ a.swapaxes(-1, -2) + np.eye(shape[-1])).astype(np.float32)


def U(*shape: int) -> np.ndarray[Any, Any]:
    """Triangular roots of `D`; PyTorch gives also the other half of these derivatives."""
    return np.linalg.cholesky(D(*shape)).swapaxes(-1, -2)


X, Y = F(3, 4), F(4, seed=1)
IMAGE, VOLUME = F(2, 3, 7, 6), F(1, 2, 5, 4, 6)
ATTENTION = F(2, 3, 5, 4), F(2, 3, 6, 4, seed=1), F(2, 3, 6, 4, seed=2)
CELL = [F(8, 3) / 2, F(8, 2, seed=1) / 2, F(8), F(8, seed=1)]
ROWS = (np.full((1, 2, 2), 0.3, np.float32), np.full((1, 2, 2), -0.2, np.float32))
NORM = F(2, 4, 3, 5)

ONE = "abs neg relu sin cos tanh exp erf sigmoid floor ceil trunc round sign isnan isinf isfinite "
ONE += "reciprocal square silu expm1 sinh cosh atan asinh tan gelu logical_not erfc exp2 alias "
ONE += "clone detach sgn angle signbit"
OF_POSITIVE = "log log2 log10 log1p sqrt rsqrt lgamma digamma asin acos atanh erfinv"
TWO = "sub mul div maximum minimum fmod remainder atan2 eq ne lt le gt ge logical_and logical_or "
TWO += "logical_xor floor_divide hypot copysign logaddexp fmax fmin"

OF_CYLINDERS = "i0 special_i0e special_i1 special_i1e special_ndtri special_erfcx "
OF_CYLINDERS += "special_modified_bessel_i0 special_modified_bessel_i1 special_spherical_bessel_j0"

# fmt: off
SAMPLES: list[tuple[Any, ...]] = [
    *((name, X) for name in ONE.split()), *((name, P(3, 4)) for name in OF_POSITIVE.split()),
    *((name, X, Y) for name in TWO.split()), ("add", X, Y, {"alpha": 2}),
    ("acosh", P(5) + np.float32(1)), ("add", I(3), 1.5), ("mul", B(3), B(3)),
    ("div", I(3), I(3) + 1), ("div", X, Y, {"rounding_mode": "floor"}),
    ("div", X, Y, {"rounding_mode": "trunc"}),
    ("div", I(4, low=-9), I(4) + 2, {"rounding_mode": "trunc"}), ("rsub", X, Y),
    ("div", I(4, low=-9), I(4) + 2, {"rounding_mode": "floor"}), ("add", X, np.array(1.0)),
    ("add", X.astype(np.float16), np.array(1.0, np.float32)),
    ("add", I(3), np.array(2.5, np.float32)), ("remainder", I(4, low=-9), I(4) + 2),
    ("sin", I(3)), ("pow", X, 3), ("pow", X, 2.0), ("pow", P(4), P(4)), ("pow", 2.0, Y),
    ("pow", P(4), 0.5), ("pow", P(4), -0.5), ("pow", I(4), 2), ("clamp", X, -0.5, 1.0),
    ("clamp", X, None, Y), ("clamp_min", X, 0.1), ("clamp_max", X, 0.1), ("hardtanh", X),
    ("leaky_relu", X, 0.1), ("elu", X, 0.7), ("gelu", X, {"approximate": "tanh"}),
    ("where", B(3, 4), X, Y), ("xlogy", P(4), P(4)), ("ldexp", Y, I(4)),
    ("bitwise_and", I(5), I(5) + 1), ("bitwise_or", I(5), 3), ("bitwise_xor", I(5), 3),
    ("bitwise_not", I(5)), ("gcd", I(5), I(5) + 3), ("bitwise_left_shift", I(5), I(5)),
    ("bitwise_right_shift", I(5) * 8, I(5)), ("real", C(4)), ("imag", C(4)),
    ("view_as_real", C(4)), ("view_as_complex", F(3, 2)), ("complex", X, X), ("polar", P(4), Y),
    ("_conj", C(4)), ("view", X, [2, -1]), ("view", F(0, 3), [-1, 3]), ("expand", Y, [3, -1]),
    ("squeeze", F(1, 3, 1)), ("squeeze", F(1, 3, 1), 0), ("squeeze", F(1, 3, 1), [0, 1]),
    ("unsqueeze", X, -1), ("permute", VOLUME, [4, 0, -2, 1, 2]), ("transpose", X, 0, 1), ("t", X),
    ("select", X, 1, -1), ("slice", X, 1, 1, 99, 2), ("slice", X, 0, -2),
    ("slice_scatter", X, F(3, 2), 1, 0, 4, 2), ("select_scatter", X, F(4), 0, 1),
    ("diagonal", X, 1), ("diagonal_scatter", X, F(3), 1), ("split", F(7), 3),
    ("split_with_sizes", F(7), [2, 5]), ("unbind", X), ("cat", [X, F(1, 4)]),
    ("cat", [F(0), X], 1), ("cat", [I(3), Y]), ("stack", [X, X], -1), ("repeat", X, [2, 1, 2]),
    ("flip", X, [0, -1]), ("roll", X, [1, -2], [0, 1]), ("roll", X, [3]),
    ("constant_pad_nd", X, [1, -1, 2, 0], 0.5), ("reflection_pad1d", F(2, 5), [2, 1]),
    ("reflection_pad2d", IMAGE, [1, 2, 3, 0]), ("reflection_pad3d", VOLUME, [1, 0, 2, 1, 1, 1]),
    ("replication_pad2d", IMAGE, [1, 2, 3, 0]), ("replication_pad3d", VOLUME, [1, 0, 2, 1, 1, 1]),
    ("replication_pad1d", F(2, 5), [2, 1]), ("unfold", F(7), 0, 3, 2), ("full", [2, 3], 1.5),
    ("full", [2], 3), ("full_like", I(3), 2), ("zeros", [2]), ("ones", [2]), ("zeros_like", I(2)),
    ("ones_like", X), ("fill", X, 2.0), ("copy", X, Y), ("arange.start_step", 1, 9, 3),
    ("arange.start_step", 0.5, 2.0, 0.25), ("tril", X, -1), ("triu", X, 1), ("scalar_tensor", 2),
    ("index", F(5, 4), [None, I(3, below=4)]), ("index", F(5, 4), [I(2, 1), I(3, below=4)]),
    ("index_put", F(5, 4), [np.array([4, 0, 2])], F(3, 4)),
    ("index_put", F(5, 4), [I(6)], F(6, 4), True), ("gather", F(5, 4), 0, I(3, 4)),
    ("gather", F(5, 4), -1, I(5, 2, below=4)),
    ("scatter", F(5, 4), 0, np.array([[0, 1, 2, 0], [3, 4, 0, 1]]), F(2, 4)),
    ("scatter", F(5, 4), 1, I(5, 1, below=4), 2.5), ("scatter_add", F(5, 4), 0, I(6, 4), F(6, 4)),
    ("index_add", F(5, 4), 0, I(3), F(3, 4), {"alpha": 2}),
    ("index_select", F(5, 4), 1, I(3, below=4)),
    ("index_select", np.full((), 3.0, np.float32), 0, I(1, below=1)),
    ("nonzero", I(3, 4, below=2)),
    *(("scatter_reduce", F(5, 4), 0, I(6, 4), F(6, 4, seed=1), how, {"include_self": own}) for
     how in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)),
    ("masked_scatter", X, B(3, 4), F(12)), ("embedding", F(5, 4), I(2, 3), 1),
    ("embedding_dense_backward", F(2, 3, 4), I(2, 3), 5, 1, False),
    *(("_embedding_bag", F(5, 4), I(7), np.array([0, 2, 2, 5]), False, mode) for mode in (0, 1,
     2)), ("searchsorted", np.sort(F(9)), X),
    ("searchsorted", np.sort(F(3, 9)), X, {"right": True}), ("bucketize", X, np.sort(F(9))),
    ("_unsafe_index", X, [I(3, below=3)]), ("sum", X, [0]), ("sum", B(3, 4), [1], True),
    ("sum", I(3), None), ("mean", X), ("mean", X, [1], True), ("prod", X, 1),
    ("var", X, [1], {"correction": 1}), ("var", X, [0, 1], {"correction": 0}),
    ("var_mean", X, [1], {"correction": 1}), ("any", I(3, 4, below=2), 1),
    ("all", B(3, 4), 0, True), ("any", X), ("amax", X, [1]), ("amin", X, [0, 1], True),
    ("max", X), ("min", X), ("argmax", X), ("argmax", X, 1, True), ("argmin", X, 0),
    ("max.dim", X, 1), ("min.dim", I(3, 4), 1, True), ("cumsum", X, 1), ("cumsum", I(4), 0),
    ("cumprod", X, 0), ("cummax", X, 1), ("cummin", X, 0), ("logcumsumexp", X, 1), ("sort", X),
    ("sort", X, 0, True), ("topk", X, 2), ("logsumexp", X, [1]), ("topk", X, 2, 0, False),
    ("_softmax", X, 1, False), ("_log_softmax", X, -1, False),
    ("sort.stable", I(9), {"stable": True}),
    ("convolution", IMAGE, F(4, 3, 3, 2), F(4), [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    ("convolution", F(2, 4, 5), F(6, 2, 3), None, [1], [2], [1], False, [0], 2),
    ("convolution", F(1, 4, 5, 4), F(4, 3, 3, 2), F(6), [2, 3], [1, 0], [1, 2], True, [1, 0], 2),
    ("convolution", VOLUME, F(2, 2, 2, 2, 2), None, [1], [0], [1], False, [0], 1),
    ("convolution_backward", F(2, 4, 7, 5), IMAGE, F(4, 3, 3, 2), [4], [1, 1], [1, 0], [1, 1],
     False, [0, 0], 1, [True, True, True]), ("avg_pool1d", F(2, 3, 8), [3], [2], [1]),
    ("avg_pool2d", IMAGE, [3, 2], [2, 2], [1, 1], True, False),
    ("avg_pool2d", IMAGE, [3, 3], [2, 2], [1, 1], True), ("avg_pool3d", VOLUME, [2, 2, 2]),
    ("avg_pool2d", IMAGE[0], [2, 2], [], [0, 0], False, True, 3),
    ("avg_pool2d_backward", F(2, 3, 3, 3), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None),
    ("_adaptive_avg_pool2d", IMAGE, [3, 2]), ("_adaptive_avg_pool2d", IMAGE, [1, 1]),
    ("_adaptive_avg_pool3d", VOLUME, [2, 3, 6]),
    ("_adaptive_avg_pool2d_backward", F(2, 3, 3, 2), IMAGE),
    ("max_pool2d_with_indices", IMAGE, [3, 2], [2, 1], [1, 0], [1, 2], True),
    ("max_pool2d_with_indices", np.zeros((1, 4, 4), np.float32), [2, 2]),
    ("max_pool3d_with_indices", VOLUME, [2, 2, 2]),
    ("max_pool2d_with_indices_backward", F(2, 3, 3, 3), IMAGE, [2, 2], [2, 2], [0, 0], [1, 1],
     False, np.tile(np.arange(9).reshape(3, 3), (2, 3, 1, 1))),
    ("adaptive_max_pool2d", IMAGE, [3, 2]), ("native_layer_norm", X, [4], F(4), F(4), 1e-5),
    ("native_layer_norm", X, [3, 4], None, None, 1e-5),
    ("native_layer_norm_backward", X, F(3, 4, seed=1), [4], F(3, 1), P(3, 1), F(4), F(4),
     [True] * 3), ("native_group_norm", NORM, F(4), F(4), 2, 4, 15, 2, 1e-5),
    ("native_group_norm_backward", NORM, F(2, 4, 3, 5, seed=1), F(2, 2), P(2, 2), F(4), 2, 4,
     15, 2, [True] * 3),
    ("_native_batch_norm_legit_no_training", NORM, F(4), F(4), F(4), P(4), 0.1, 1e-5),
    ("_native_batch_norm_legit.no_stats", NORM, F(4), F(4), True, 0.1, 1e-5),
    ("_native_batch_norm_legit_functional", NORM, F(4), F(4), F(4), P(4), True, 0.1, 1e-5),
    ("rms_norm", X, [4], F(4)), ("mm", X, F(4, 2)), ("bmm", F(2, 3, 4), F(2, 4, 2)),
    ("addmm", F(2), X, F(4, 2)), ("addmm", F(2), X, F(4, 2), {"beta": 0.5, "alpha": 2}),
    ("linear", F(2, 3, 4), F(5, 4), F(5)), ("matmul", F(2, 3, 4), F(4)),
    ("baddbmm", F(2, 3, 2), F(2, 3, 4), F(2, 4, 2)), ("dot", Y, Y), ("mv", X, Y),
    ("einsum", "b i j, b j k -> b k i", [F(2, 3, 4), F(2, 4, 2)]), ("mm", I(2, 3), I(3, 2)),
    ("scaled_dot_product_attention", *ATTENTION),
    ("scaled_dot_product_attention", *ATTENTION, B(5, 6)),
    ("scaled_dot_product_attention", *ATTENTION, F(3, 5, 6), 0.0, False, {"scale": 0.3}),
    ("scaled_dot_product_attention", *ATTENTION, None, 0.0, True),
    ("_scaled_dot_product_flash_attention_for_cpu", *ATTENTION),
    *(("_cdist_forward", F(3, 4), F(5, 4) * np.float32(1.37), p, None) for p in (0.0, 1.0, 2.0,
     3.0, np.inf)), ("_pdist_forward", F(5, 4), 2.0), ("_fft_r2c", X, [0, 1], 0, True),
    ("_fft_r2c", X, [1], 2, False), ("_fft_c2c", C(3, 4), [1], 1, True),
    ("_fft_c2c", C(3, 4), [0, 1], 2, False), ("_fft_c2r", C(3, 4), [0, 1], 2, 6),
    ("_fft_c2r", C(3, 4), [1], 0, 7),
    *(("linalg_vector_norm", X, p, [1]) for p in (0, 1, 2, 3.5, np.inf, -np.inf)),
    ("linalg_solve_triangular", np.tril(F(3, 3)) + 3 * np.eye(3, dtype=np.float32), F(3, 2),
     {"upper": False}),
    ("lstm.input", F(4, 2, 3), [*ROWS], CELL, True, 1, 0.0, False, False, False),
    ("gru.input", F(2, 4, 3), ROWS[0], [F(6, 3), F(6, 2), F(6), F(6)], True, 1, 0.0, False,
     False, True),
    ("rnn_tanh.input", F(4, 2, 3), np.concatenate(ROWS), [F(2, 3), F(2, 2), F(2, 3, seed=1),
     F(2, 2, seed=1)], False, 1, 0.0, False, True, False),
    ("rnn_relu.input", F(4, 3), ROWS[0][:, 0], [F(2, 3), F(2, 2)], False, 1, 0.0, False, False,
     False), ("sym_size", X, 1), ("sym_numel", X),
    ("_local_scalar_dense", np.array(3.5, np.float32)),
    *((name, P(3, 4)) for name in OF_CYLINDERS.split()), ("igamma", P(4), P(4)),
    ("igammac", P(4), P(4)), ("polygamma", 1, P(4)), ("special_zeta", P(4) + 2, P(4)),
    ("lcm", I(5) + 1, I(5) + 3), ("frexp", X), ("std", X, [1], {"correction": 1}),
    ("std", np.ones((2, 3), np.float32), [0], {"correction": 1}),
    ("std_mean", X, [0], {"correction": 0}), ("kthvalue", X, 2), ("kthvalue", X, 1, 0, True),
    ("median.dim", X, 1), ("median", X), ("median", np.array([1, np.nan, 3], np.float32)),
    ("nanmedian.dim", np.array([[1, np.nan, 3, 2]], np.float32), 1, True), ("nanmedian", X),
    ("mode", I(4, 9, below=3)), ("mode", I(5, 3, below=2), 0, True), ("histc", X, 5, -1.5, 1.5),
    ("histc", X, 4), ("index_reduce", F(5, 4), 0, I(3), F(3, 4, seed=1), "amax"),
    ("index_reduce", F(5, 4), 1, I(3, below=4), F(5, 3), "mean", {"include_self": False}),
    ("put", X, np.array([0, 5, -1]), F(3)), ("put", X, np.array([2, 2]), F(2), True),
    ("masked_select", X, B(3, 4)), ("nonzero_static", I(3, 4, below=2), {"size": 5}),
    ("bincount", I(9)), ("bincount", I(9), P(9), 8), ("unique_dim", I(6, 2, below=2), 0, True,
     True, True), ("unique_consecutive", np.array([1, 1, 2, 2, 2, 1]), True, True),
    ("tril_indices", 3, 4, 1), ("triu_indices", 3, 4, -1), ("narrow_copy", X, 1, 1, 2),
    ("addbmm", F(3, 2), F(5, 3, 4), F(5, 4, 2), {"beta": 0.5}), ("dist", X, F(3, 4, seed=1), 3.0),
    ("_trilinear", F(2, 3), F(4, 3, 5), F(2, 5), [1, 3], [0], [1, 2], [2, 3]),
    ("cholesky", D(2, 3)), ("cholesky", D(3), True), ("linalg_cholesky_ex", D(3)),
    ("cholesky_solve", F(3, 2).astype(np.float64), U(3).astype(np.float64), True),
    ("cholesky_inverse", U(3).astype(np.float64), True),
    ("triangular_solve", F(3, 2), U(3)), ("triangular_solve", F(3, 2), U(3), True, True),
    ("linalg_qr", D(2, 3)), ("linalg_qr", D(3)[:, :2], "complete"), ("linalg_inv_ex", D(2, 3)),
    ("_linalg_svd", D(3), False, False), ("_linalg_eigh", D(3), "U", False),
    ("_linalg_solve_ex", D(2, 3), F(2, 3, 2)), ("_linalg_solve_ex", D(3), F(3)),
    ("_linalg_solve_ex", D(3), F(2, 3), {"left": False}), ("linalg_lu_factor_ex", F(4, 3)),
    ("linalg_lu", F(4, 3)), ("linalg_lu", F(3, 4)), ("_linalg_det", D(2, 3)),
    ("_linalg_slogdet", D(2, 3)), ("linalg_pinv.atol_rtol_tensor", F(4, 3), {"rtol": np.array(
     0.2, np.float32)}), ("linalg_matrix_exp", F(2, 3, 3)), ("linalg_lu_solve", D(3),
     np.array([1, 2, 3], np.int32), F(3, 2)),
]
# fmt: on
"""Operations with their arguments; a dictionary at the end has those by name."""

CORE = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _cdist_forward
_embedding_bag _fft_c2r _fft_r2c _local_scalar_dense _log_softmax _native_batch_norm_legit
_native_batch_norm_legit_no_training _pdist_forward _softmax _to_copy abs acos acosh add addmm
alias amax amin any arange argmax argmin as_strided asin asinh atan atan2 atanh avg_pool2d
avg_pool2d_backward avg_pool3d bitwise_and bitwise_not bitwise_or bitwise_xor bmm cat ceil
clamp clone col2im constant_pad_nd convolution convolution_backward copy cos cosh cumsum
diagonal div elu embedding embedding_dense_backward empty empty_strided eq erf exp expand
expm1 fill flip floor fmod full full_like gather ge gelu grid_sampler_2d gt hardtanh index
index_put index_select isinf isnan le leaky_relu log log10 log1p log2 logical_and logical_not
logical_or logical_xor lt masked_scatter max max_pool2d_with_indices
max_pool2d_with_indices_backward max_pool3d_with_indices maximum mean min minimum mm mul
native_dropout native_group_norm native_group_norm_backward native_layer_norm
native_layer_norm_backward ne neg nonzero permute pow prod rand randn randperm reciprocal
reflection_pad1d reflection_pad2d reflection_pad3d relu remainder repeat replication_pad2d
replication_pad3d round rsqrt scalar_tensor scatter scatter_add scatter_reduce select
select_scatter sigmoid sign sin sinh slice slice_scatter sort split_with_sizes sqrt squeeze
sub sum sym_numel sym_size sym_storage_offset sym_stride tan tanh topk trunc unsqueeze
upsample_bilinear2d upsample_nearest2d var view where
"""
"""The packets of core ATen, as PyTorch 2.13 tags them."""
