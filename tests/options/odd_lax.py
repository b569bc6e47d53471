"""Rows of `tfn.lax` and `tfn.lax.linalg`, compared with recorded JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.linalg

from tests.numpy.rows import REAL, Row, listed
from tests.numpy.table import FULL
from tests.options.calls import Odd

F32 = ["float32"]
SQUARE = [((3, 3),), ((2, 4, 4),)]
PADDING = ["SAME", "VALID", "SAME_LOWER", [(1, 2), (0, 1)], "odd"]


def row(
    shapes: Sequence[Any], *args: Any, within: Any = (-2, 2), kinds: Any = F32, **rest: Any
) -> Row:
    """Operands of a function, with arguments that follow them."""
    return Row(kinds, shapes, [args], within=within, spread=True, **{"ulps": 64, **rest})


def odd(row: Row, **values: Any) -> Odd:
    """A row with the odd values of its keywords."""
    return Odd(row, {}, values)


def given(*parts: Any) -> Any:
    """A call with attributes of JAX's or tfn's `lax` before, between or behind the operands.

    A part is an index of an operand, the name of a function of `lax`, or a function of `lax`.
    """

    def call(f: Callable[..., Any], xs: Sequence[Any], *rest: Any, **how: Any) -> Any:
        lax = import_module(f"{f.__module__.split('.')[0]}.lax")
        known = [
            xs[p] if isinstance(p, int) else getattr(lax, p) if isinstance(p, str) else p(lax)
            for p in parts
        ]
        return f(*known, *rest, **how)

    return call


def sized(*which: int) -> Any:
    """A call that gives the sizes of the results that are unique but for signs."""

    def call(f: Callable[..., Any], xs: Sequence[Any], **how: Any) -> Any:
        results = f(*xs, **how)
        return [abs(r) if i in which else r for i, r in enumerate(results)]

    return call


def scanned(function: Callable[..., Any]) -> Callable[..., Any]:
    """A cumulative function of NumPy, with an axis and from either end."""

    def want(x: np.ndarray, axis: int = 0, reverse: bool = False) -> np.ndarray:
        x = np.flip(x, axis) if reverse else x
        result = function(x, axis=axis)
        return np.flip(result, axis) if reverse else result

    return want


def places_of(_: Any) -> np.ndarray:
    """Places in a matrix, some without room for a slice."""
    return np.int32([[0, 1], [2, 2], [1, 3], [-1, 0]])


def solved(factors: np.ndarray, pivots: np.ndarray, b: np.ndarray, trans: int = 0) -> np.ndarray:
    """The solution with given factors, or with the transpose of their product."""
    if trans not in (0, 1, 2):
        raise ValueError(trans)
    return scipy.linalg.lu_solve((factors, pivots), b, trans)


def some(values: np.ndarray, indices: tuple[int, int] | None) -> np.ndarray:
    """The values between two indices; all if None."""
    low, high = indices or (0, values.shape[-1])
    if not 0 <= low < high <= values.shape[-1]:
        raise ValueError(indices)
    return values[..., low:high]


def eigenvalues(x: np.ndarray, subset_by_index: Any = None, **_: bool) -> np.ndarray:
    """The eigenvalues of symmetric matrices."""
    return some(np.linalg.eigvalsh(x), subset_by_index)


def singular_values(x: np.ndarray, subset_by_index: Any = None, **_: bool) -> np.ndarray:
    """The singular values of matrices."""
    return some(np.linalg.svd(x, compute_uv=False), subset_by_index)


# fmt: off
NHWC = ("NHWC", "HWIO", "NHWC")
MODE = [None, "clip", "fill", "promise_in_bounds", "odd"]
IMAGES_WITH = row([((2, 3, 4, 3), (2, 3, 2, 2))], (1, 1), "VALID", None, None)
IMAGES = row([((2, 3, 4, 3), (2, 3, 2, 2))], (1, 1), "SAME")
LAX = {
    **{f"reduce_{name}": odd(row(FULL, kinds=kinds, want=lambda x, axes=None, f=f:
        f(x, axis=axes)), axes=[None, (0,), (1, 0), (-1,), (), (7,), (0, 0)])
        for name, f, kinds in (("sum", np.sum, F32), ("max", np.max, F32), ("min", np.min, F32),
        ("prod", np.prod, F32), ("and", np.all, ["bool"]), ("or", np.any, ["bool"]),
        ("xor", np.bitwise_xor.reduce, ["int32"]))},
    **{name: odd(row(FULL, want=scanned(f)), axis=[0, 1, -1, 7], reverse=[True, False])
        for name, f in (("cumsum", np.cumsum), ("cumprod", np.cumprod),
        ("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate),
        ("cumlogsumexp", np.logaddexp.accumulate))},
    **{name: odd(row(FULL, 1, "int32", want=lambda x, axis, index_dtype, f=f: f(x, axis)
        .astype(index_dtype)), axis=[0, 1, -1, 7], index_dtype=["int32", "uint8"])
        for name, f in (("argmax", np.argmax), ("argmin", np.argmin))},
    "conv_general_dilated": odd(IMAGES, window_strides=[(2, 1), (1, 3), (1,), (0, 1)],
        padding=PADDING, lhs_dilation=[(2, 1), (1, 3)], rhs_dilation=[(2, 1), (1, 3)],
        feature_group_count=[1, 3, 2], batch_group_count=[1, 2, 3], dimension_numbers=[None,
        ("NCHW", "OIHW", "NCHW"), ("NCHW", "OIHW", "NHWC"), ("CNHW", "IOHW", "CNHW"),
        ("NCWH", "OIWH", "NCHW"), ("NCHW", "OIHW"), ("odd", "OIHW", "NCHW")]),
    "conv_transpose": odd(row([((1, 3, 2, 2), (2, 2, 2, 2))], (2, 1), "SAME"), padding=PADDING,
        strides=[(1, 1), (3, 2)], rhs_dilation=[(2, 1)], dimension_numbers=[None, NHWC],
        transpose_kernel=[False], use_consistent_padding=[True, False]),
    "conv": odd(IMAGES, padding=PADDING[:3]),
    "conv_general_dilated_patches": odd(row([((1, 1, 4, 3),)], (2, 3), (1, 1), "SAME"),
        filter_shape=[(1, 1), (3, 2)], window_strides=[(2, 1)], padding=PADDING,
        lhs_dilation=[(2, 1)], rhs_dilation=[(1, 2)], dimension_numbers=[None, NHWC],
        precision=[None]),
    "dot_general": odd(row([((2, 3, 4), (2, 4, 5))], (((2,), (1,)), ((0,), (0,)))),
        dimension_numbers=[(((2,), (1,)), ((), ())), (((), ()), ((0,), (0,))),
        (((-1,), (-2,)), ((0,), (0,))), (((0, 2), (0, 1)), ((), ())), (((2,), (2,)), ((), ()))]),
    "dot": odd(row([((3, 4), (4, 5))]), dimension_numbers=[(((1,), (0,)), ((), ()))]),
    "stack": odd(Row(F32, [((2, 3), (2, 3))], call=listed), axis=[0, 1, -1, 2, 7]),
    "unstack": odd(row([((2, 3),)]), axis=[0, 1, -1, 7]),
    "full": odd(Row(F32, [()], [((2, 3), 2.5)]), shape=[(), (0,), (2, -1)], fill_value=[1, True],
        dtype=["int32", "float32"]),
    "batch_matmul": odd(row([((2, 3, 4), (2, 4, 5))])),
    "dynamic_index_in_dim": odd(row([((3, 4),)], 1), index=[0, -1, 9, -9], axis=[0, 1, -1, 7],
        keepdims=[True, False]),
    "index_in_dim": odd(row([((3, 4),)], 1), index=[0, -1, 9], axis=[0, 1, -1, 7],
        keepdims=[True, False]),
    "dynamic_slice_in_dim": odd(row([((3, 4),)], 1, 2), start_index=[0, -1, 9, -9],
        slice_size=[0, 1, 3], axis=[0, 1, -1]),
    "slice": odd(row([((5, 4),)], (1, 0), (5, 4)), strides=[None, (2, 1), (1, 3), (0, 1)]),
    "slice_in_dim": odd(row([((5, 4),)], 0, 3), start_index=[0, -2, None], limit_index=[None, 4,
        -1],
        stride=[1, 2, 0], axis=[0, 1, -1, 7]),
    "sort": odd(row([((3, 4),)], kinds=[*REAL, "int32"]), dimension=[0, 1, -1, 7], is_stable=[True,
        False], num_keys=[1, 2]),
    "sort_key_val": odd(row([((3, 4), (3, 4))]), dimension=[0, 1, -1, 7], is_stable=[True]),
    "top_k": odd(row([((3, 4),)], 2), k=[0, 1, 4, 5, -1], axis=[0, -1, 7]),
    "approx_max_k": odd(row([((3, 4),)], 4), reduction_dimension=[-1, 1], recall_target=[.9],
        reduction_input_size_override=[-1], aggregate_to_topk=[True]),
    "approx_min_k": odd(row([((3, 4),)], 4), reduction_dimension=[-1, 1], recall_target=[.9],
        reduction_input_size_override=[-1], aggregate_to_topk=[True]),
    "squeeze": odd(row([((1, 3, 1),)], (0,)), dimensions=[(0,), (0, 2), (-1,), (1,), ()]),
    "collapse": odd(row([((2, 3, 4),)], 0), start_dimension=[0, 1, -1], stop_dimension=[None, 1, 2,
        -1, 7]),
    "reshape": odd(row([((2, 3),)], (3, 2)), dimensions=[None, (0, 1)], new_sizes=[(6,), (4,)]),
    "reduce_precision": odd(row(FULL, 5, 10), exponent_bits=[1, 8, 0], mantissa_bits=[0, 3, 23,
        -1]),
    "split": odd(row([((6, 4),)], (2, 4)), axis=[0, -1, 7], sizes=[(6,), (1, 5), (3, 4)]),
    "broadcast_in_dim": odd(row([((3,),)], (2, 3), (1,)), broadcast_dimensions=[(1,), (0,), (7,)]),
    "full_like": odd(row([((2, 3),)], 2.), shape=[None, (4,)], dtype=["int32", "float32"]),
    "round": odd(row(FULL, within=(-9, 9)), rounding_method=()),
    "pad": odd(row([((3, 4),)], np.float32(0), ((0, 0, 0), (1, 2, 1))), padding_config=[
        ((1, -1, 0), (0, 0, 2)), ((-2, 0, 1), (-1, -1, 0)), ((0, 0, -1), (0, 0, 0)), ((-4, 0, 0),
        (0, 0, 0))]),
    "gather": odd(row([((3, 4),)], (1, 2), call=given(0, places_of, lambda lax:
        lax.GatherDimensionNumbers((1,), (0,), (0, 1)))), mode=MODE, fill_value=[None, 7.],
        unique_indices=[False], indices_are_sorted=[False]),
    **{f"scatter{name}": odd(row([((3, 4), (4, 2))], call=given(0, places_of, 1, lambda lax:
        lax.ScatterDimensionNumbers((1,), (0,), (0, 1)))), mode=MODE, unique_indices=[False],
        indices_are_sorted=[False])
        for name in ("", "_add", "_sub", "_mul", "_min", "_max")},
    "reduce_window": Odd(row([((5, 6),)], (2, 3), call=given(0, lambda lax: np.float32(0), "add")),
        {"window_strides": (1, 2)}, {"window_strides": [(2, 1), (0, 1)], "padding": ["VALID",
        "SAME", [(1, 0), (0, 2)], "odd"], "base_dilation": [None, (2, 1)],
        "window_dilation": [None, (1, 2)]}),
    "reduce": Odd(row([((5, 6),)], call=given(0, lambda _: np.float32(1), "mul")),
        {"dimensions": (0,)}, {"dimensions": [(0, 1), (), (7,)]}),
    "conv_general_dilated_local": odd(row([((1, 3, 3, 4), (18, 2, 2, 2))], (1, 1), "VALID",
        (2, 3)), rhs_dilation=[None, (1, 1)], lhs_dilation=[None, (1, 1)],
        dimension_numbers=[None, ("NCHW", "OIHW", "NCHW")]),
    "conv_with_general_padding": odd(IMAGES_WITH, padding=[[(1, 2), (0, 1)], "SAME"],
        lhs_dilation=[(2, 1)], rhs_dilation=[(1, 2)]),
    "ragged_dot": odd(row([((5, 3), (2, 3, 4))], call=given(0, 1, lambda lax: np.int32([3,
        1]))), precision=[None, "highest"], preferred_element_type=[None]),
    "broadcasted_iota": odd(Row(F32, [()], [("int32", (2, 3), 1)]), dtype=["float32", "uint8"],
        shape=[(3,), (0, 2)], dimension=[0, 7]),
    "associative_scan": odd(row(FULL, call=given("mul", 0)), reverse=[True, False],
        axis=[0, 1, 7]),
    "scan": odd(row([((3,), (5, 3))], call=given(lambda lax: lambda c, x: (c + x, c * x), 0,
        1)), reverse=[True, False], length=[None, 5, 4], unroll=[1, 2, 5, 9, True, False], xs=(),
        checkpoint_every=()),
    "map": odd(row([((5, 3),)], call=given(lambda lax: lambda x: x * x, 0)), batch_size=[None, 1,
        2, 5, 9]),
    "reduce_window_shape_tuple": odd(Row(F32, [()], [((5, 6), (2, 3), (1, 2), ((0, 0), (1, 1)))],
        jit=False), base_dilation=[None, (2, 1)], window_dilation=[None, (1, 2)]),
}
LINALG = {
    "cholesky": odd(row(SQUARE, prepare=lambda x: (x @ x.mT + 3 * np.eye(x.shape[-1],
        dtype=x.dtype),)), symmetrize_input=[True, False]),
    "eigh": odd(row(SQUARE, ulps=4096, prepare=lambda x: (x + x.mT,), call=lambda f, xs, **how:
        f(xs[0], **how) if f is
        eigenvalues else f(xs[0], **how)[1], want=eigenvalues), lower=[True, False],
        symmetrize_input=[True], sort_eigenvalues=[True],
        subset_by_index=[None, (0, 2), (1, 3), (1, 1), (2, 9)]),
    "triangular_solve": odd(row([((3, 3), (3, 3))], within=((1, 2), (-2, 2)), ulps=4096),
        left_side=[True, False], lower=[True, False], transpose_a=[True, False], conjugate_a=[True],
        unit_diagonal=[True, False]),
    "svd": odd(row([((3, 4),)], ulps=4096, call=lambda f, xs, **how: f(xs[0], compute_uv=False,
        **how), want=singular_values), full_matrices=[True, False], compute_uv=[],
        subset_by_index=[None, (0, 2), (1, 3), (1, 1), (2, 9)]),
    "symmetric_product": odd(row([((3, 4), (3, 3))], prepare=lambda a, c: (a, c + c.mT)),
        alpha=[2., 0.], beta=[1., .5], symmetrize_output=[True]),
    "tridiagonal_solve": odd(row([((4,), (4,), (4,), (4, 2))], within=((.1, .5), (2, 3), (.1, .5),
        (-2, 2)), prepare=lambda dl, d, du, b: (np.r_[np.float32(0), dl[1:]], d,
        np.r_[du[:-1], np.float32(0)], b))),
    "lu_solve": odd(row([((3, 3), (3, 2))], within=((1, 2), (-2, 2)), jit=False, call=lambda f, xs,
        **how: f(xs[0], np.int32([1, 2, 2]), xs[1], **how), ulps=2**14, want=solved), trans=[0, 1,
        2, 5]),
    "qr": odd(row([((4, 3),), ((3, 3),)], ulps=2**12, call=sized(0, 1)), pivoting=[True, False],
        full_matrices=[True, False]),
    "eig": odd(row([((3, 3),)], within=(1, 2), ulps=2**14, prepare=lambda x: (x + np.diag(
        np.float32([0, 5, 20])),), call=sized(1, 2)), compute_left_eigenvectors=[True, False],
        compute_right_eigenvectors=[True, False], enable_eigvec_derivs=[True, False]),
    "ormqr": odd(row([((4, 3), (3,), (4, 4))], ulps=2**10), left=[True, False], transpose=[True,
        False]),
    "qdwh": odd(row([((4, 3),), ((3, 3),)], ulps=2**12, jit=False, call=lambda f, xs, **how:
        f(xs[0], **how)[:2]), is_hermitian=[False], max_iterations=[20], eps=[None, 1e-5]),
    "schur": odd(row([((3, 3),)], within=(1, 2), ulps=2**14, prepare=lambda x: (x + np.diag(
        np.float32([0, 5, 20])),), call=sized(0, 1)), compute_schur_vectors=[True, False]),
    "tridiagonal": odd(row([((4, 4),)], ulps=2**12, prepare=lambda x: (x + x.mT,)), lower=[True,
        False]),
}
# fmt: on
LEFT: dict[str, dict[str, str]] = {
    "lax": {
        **dict.fromkeys(
            (
                "all_gather",
                "all_gather_invariant",
                "all_to_all",
                "pmax",
                "pmean",
                "pmin",
                "psum",
                "psum_scatter",
                "pswapaxes",
            ),
            "over a mapped axis: test_exchanges.py, test_parallel.py",
        ),
        **dict.fromkeys(
            ("cond", "fori_loop", "switch", "while_loop"),
            "with a function: test_loops.py, test_branches.py",
        ),
        **dict.fromkeys(("composite", "platform_dependent"), "with functions: test_composites.py"),
        **dict.fromkeys(("custom_linear_solve", "custom_root"), "test_custom_solve.py"),
        "conv_shape_tuple": "test_convolution.py",
        "ragged_dot_general": "test_ragged.py",
        "rng_bit_generator": "test_generators.py",
        "mul": "out_dtype is None alone",
    },
    "linalg": dict.fromkeys(("eigvalsh",), "eigh's values: tests/lax/test_linalg.py"),
}  # fmt: skip
"""Functions without a row, with the reason."""
