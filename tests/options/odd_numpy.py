"""Rows of `tfn.numpy`: operands are those of its table, with the odd values of keywords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.numpy.rows import ANY, REAL, Row
from tests.numpy.table import ELSEWHERE, FULL, TABLE
from tests.options.calls import Odd
from tests.options.keywords import AXIS, last, mask, none

FIRST = [0, -1, 1, 4, -9]  # one axis, out of bounds twice
MODES = ["clip", "wrap", "fill", "odd"]
BINS = [1, 7, "auto", np.array([-1.0, 0.0, 0.5, 2.0]), np.array([0.0]), 0]
EDGES = [(-1, 1), (0.0, 0.0), (1, -1), (-np.inf, 1)]
HALF = [0.5, -1, np.array([0.5, 1.0])]
QUANTILES = [
    0,
    1,
    0.25,
    np.array([0.1, 0.9]),
    np.array([[0.5], [1.0]]),
    np.array([]),
    -0.1,
    1.5,
    np.nan,
]
METHODS = [
    "linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf",
    "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased",
    "normal_unbiased", "odd",
]  # fmt: skip
SETS = {"size": [2, 30], "fill_value": [0, 9]}


def weights(x: Any, *_: Any) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.1, 2, np.shape(x))


def _filled(x: np.ndarray, val: Any, wrap: bool = False, inplace: bool = False) -> np.ndarray:
    """np.fill_diagonal, which changes its argument, on a copy."""
    filled = x.copy()
    np.fill_diagonal(filled, val, wrap)
    return filled


def alike(names: Sequence[str], values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Functions whose keywords have the same odd values."""
    return dict.fromkeys(names, values)


# fmt: off
VALUES: dict[str, dict[str, Any]] = {
    "angle": {"deg": [True, False]},
    "append": {"axis": [None, *AXIS]},
    **alike(("argmax", "argmin", "nanargmax", "nanargmin"), {"axis": [None, *AXIS]}),
    "sort": {"axis": [None, *AXIS], "kind": ["quicksort", "stable", "odd"], "order": [None]},
    "argsort": {"axis": [None, *AXIS], "kind": [None], "dtype": ["int64"], "order": [None]},
    "array_split": {"axis": FIRST, "indices_or_sections": [1, 4, [1], [0, 9], [-1], [2, 1], 0]},
    "split": {"axis": FIRST, "indices_or_sections": [1, 2, [1], [0, 9], [-1], [2, 1], 0]},
    "average": {"weights": (), "axis": [None, *AXIS], "returned": [True]},
    "bincount": {"weights": [weights, lambda x: np.ones(len(x), "int32")], "minlength": [0, 3, 20],
        "length": [3, 10, 0]},
    "choose": {"mode": ["wrap", "clip", "raise", "odd"]},
    "clip": {"min": (), "max": ()},
    "compress": {"axis": [None, *AXIS], "size": [0, 1], "fill_value": [0, 5]},
    "concatenate": {"axis": [None, *FIRST], "dtype": ["float64", "complex64"]},
    **alike(("convolve", "correlate"), {"mode": ["full", "same", "valid", "odd"],
        "preferred_element_type": [None, "float64"]}),
    "corrcoef": {"y": [lambda x: np.flip(x), np.arange(3.)], "rowvar": [True, False],
        "dtype": ["float64"]},
    "cov": {"y": [lambda x: np.flip(x), np.arange(3.)], "rowvar": [True, False],
        "bias": [True, False], "dtype": ["float64"],
        "fweights": [lambda x: np.arange(1, 1 + x.shape[-1])],
        "aweights": [lambda x: np.arange(1., 1 + x.shape[-1])]},
    "cross": {"axis": [-1, 1, 0, 7], "axisa": [1, 0], "axisb": [1, 0], "axisc": [0, 1, 7]},
    **alike(("cumsum", "cumprod", "nancumsum", "nancumprod"), {"axis": [None, *AXIS]}),
    **alike(("cumulative_sum", "cumulative_prod"), {"axis": [*AXIS],
        "include_initial": [True, False]}),
    "delete": {"obj": [0, -1, 1, [0, -1], [], slice(None, None, -1), slice(0, 1), 9,
        np.array([True, False])], "axis": [None, *FIRST], "assume_unique_indices": ()},
    **alike(("diag", "diagflat", "tril", "triu"), {"k": [0, 1, -1, 9, -9]}),
    "diag_indices": {"ndim": [1, 3, 0]},
    **alike(("linalg.diagonal", "linalg.trace"), {"offset": [0, 1, -1, 9, -9]}),
    **alike(("diagonal", "trace"),
        {"offset": [0, 1, -1, 9, -9], "axis1": [0, 1, -1, 5], "axis2": [0, 1, -1, 5]}),
    **alike(("max", "min", "nanmax", "nanmin"), {"where": [mask, last, none], "initial": [0, 3]}),
    **alike(("var", "std"), {"ddof": [1, 0.5], "correction": [1, 0], "dtype": ["complex64"]}),
    **alike(("nanvar", "nanstd"), {"ddof": [1, 0.5], "dtype": ["float64", "complex64"]}),
    "nanmean": {"dtype": ["float64", "complex64"]},
    **alike(("dot", "matmul"), {"preferred_element_type": [None, "complex128"]}),
    "diff": {"n": [0, 1, 3, -1], "axis": AXIS, "prepend": [0, 2, lambda x: x, np.float64(1.5)],
        "append": [1, lambda x: x]},
    "digitize": {"right": [True],
        "method": ["scan", "sort", "compare_all"]},
    "ediff1d": {"to_begin": [None, lambda x: x[:1].ravel()], "to_end": [None, np.zeros(0, "int8")]},
    "einsum": {"optimize": [True, False, "greedy", "optimal"]},
    "expand_dims": {"axis": [0, -1, 2, (0, -1), (0, 0), 9, (1, 3)]},
    "extract": {"size": [0, 2], "fill_value": [0, 9]},
    **alike(("tri",), {"M": [0, 2, 5], "k": [0, 1, -1, 9]}),
    "eye": {"M": [0, 2, 5], "k": [0, 1, -1, 9]},
    "fill_diagonal": {"wrap": [True, False], "val": [2, [1, 2], np.array([4.5])]},
    **alike(("nonzero", "flatnonzero", "argwhere"), {"size": [0, 2, 30],
        "fill_value": [0, 5, -1]}),
    "flip": {"axis": [None, *AXIS, (0, 1), ()]},
    "full": {"shape": [(), (0, 3), 4, (2, -1)], "fill_value": [1.5, 2, True, np.arange(3)],
        "dtype": ["int32", "float64"]},
    **alike(("zeros", "ones"), {"shape": [(), (0, 3), 4, (2, -1), np.int64(3)]}),
    **alike(("zeros_like", "ones_like", "empty_like"), {"shape": [(), (2, 2), 3, (0,)]}),
    "full_like": {"shape": [(), (2, 2), 3, (0,)], "fill_value": [1, 2]},
    "geomspace": {"num": [0, 1, 4, -1], "endpoint": [True, False], "axis": [0, -1, 3],
        "start": [2., np.array([1., 2.])], "stop": [16., 2., np.array([5., 9.])]},
    "logspace": {"num": [0, 1, 4, -1], "endpoint": [True, False], "axis": [0, -1, 3],
        "base": [2., 10, .5], "start": [2., np.array([1., 2.])], "stop": [np.array([3., 1.])]},
    "linspace": {"num": [0, 1, 4, -1], "endpoint": [True, False], "axis": [0, -1, 3],
        "retstep": [True], "start": [2, np.array([1., 2.])], "stop": [0, np.array([[3.], [1.]])],
        "dtype": ["float64", "int32"]},
    "arange": {"start": [3, -2, 1.5], "stop": [4, 7.5, -3], "step": [2, -1, .5, 0],
        "dtype": ["float64", "float32", "int32"]},
    "gradient": {"axis": [None, *AXIS, (0, 1), ()], "edge_order": [1, 2, 3]},
    "histogram": {"bins": BINS, "range": EDGES, "weights": [weights], "density": [True, False]},
    "histogram_bin_edges": {"bins": BINS, "range": EDGES, "weights": [weights]},
    "histogram2d": {"bins": [1, (2, 3), [np.array([-1., 0, 2]), np.array([-2., 0, .5, 1])],
        np.array([-1., 0, 2])], "range": [[(-1, 1), (0, 2)], [(-1, 1), None]],
        "weights": [weights], "density": [True]},
    "histogramdd": {"bins": [2], "range": [lambda x: [(-1, 1)] * x.shape[1]],
        "weights": [lambda x: weights(x)[:, 0]], "density": [True]},
    "indices": {"sparse": [True], "dtype": ["float32", "int32"]},
    "insert": {"obj": [0, -1, 2, [0, 1], [1, 1], [], slice(0, 2), 99, np.array([-1, 0])],
        "values": [7, [1, 2], np.array(2.5)], "axis": [None, *FIRST]},
    "interp": {"left": [-9, None, 1.5], "right": [9, None], "period": [2, 3.5, -2, 0]},
    "isin": {"invert": [True], "assume_unique": [True], "method": ["auto", "sort"]},
    **alike(("union1d", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
        SETS),
    "intersect1d": {**SETS, "assume_unique": [False], "return_indices": [True]},
    **alike(("setdiff1d", "setxor1d"), {**SETS, "assume_unique": [False]}),
    "ix_": {}, "kaiser": {"beta": [0., 14., -3.]},
    "lexsort": {"axis": [0, -1, 4]},
    "linalg.cond": {"p": [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", 3]},
    "linalg.cholesky": {"upper": [True, False], "symmetrize_input": [True]},
    "linalg.eigvalsh": {"UPLO": ["L", "U", "X"], "symmetrize_input": [True]},
    "linalg.norm": {"ord": [None, 1, -1, 2, -2, np.inf, -np.inf, 0, 3, .5, "fro", "nuc", "odd"],
        "axis": [None, *AXIS, (0, 1), (1, 0), (0, 0)]},
    "linalg.matrix_norm": {"ord": [1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc", 3]},
    "linalg.vector_norm": {"ord": [1, -1, 2, -2, np.inf, -np.inf, 0, 3, .5, -1.5]},
    "linalg.matrix_power": {"n": [0, 1, 5, -1, -3, 2.5]},
    "linalg.matrix_rank": {"rtol": [None, .1, 1.], "tol": [.5, None], "hermitian": [False]},
    "linalg.pinv": {"rtol": [None, .3], "rcond": [.2], "hermitian": [False]},
    "linalg.tensorinv": {"ind": [1, 2, 0]},
    "linalg.tensorsolve": {"axes": [None]},
    "linalg.multi_dot": {}, "linalg.slogdet": {"method": ["lu", "qr", "odd"]},
    "mask_indices": {"k": [0, 1, -1], "size": [2, 9]},
    **alike(("median", "nanmedian"), {"axis": [None, *AXIS, (0, 1), ()]}),
    **{name: {"q": [100 * q for q in QUANTILES]
        if "per" in name else QUANTILES, "method": METHODS, "axis": [None, *AXIS, (0, 1)],
        "weights": [weights]}
        for name in ("quantile", "nanquantile", "percentile", "nanpercentile")},
    "meshgrid": {"indexing": ["xy", "ij", "odd"], "sparse": [True], "copy": [True, False]},
    "moveaxis": {"source": [0, -1, (0, 1), (0, 0), 7], "destination": [0, 1, (1, 0), -1]},
    "nan_to_num": {"nan": [0., 7, -1.5], "posinf": [None, 3], "neginf": [None, -3.5]},
    "packbits": {"axis": [None, *AXIS], "bitorder": ["big", "little", "odd"]},
    "unpackbits": {"axis": [None, *AXIS], "count": [0, 3, 9, 30, -1, -9], "bitorder":
        ["big", "little", "odd"]},
    "pad": {"pad_width": [0, 2, (1, 2), ((1, 0),), [(3, 2)], -1, 9], "mode": ["constant", "edge",
        "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap",
        "empty", "odd"], "constant_values": [(1, 2), 5], "end_values": [(3, 4)], "stat_length":
        [1, (2, 1)], "reflect_type": ["odd", "even"]},
    "permute_dims": {"axes": [(0, 1), (-1, 0), (0, 0), (0,)]},
    "transpose": {"axes": [None, (0, 1), (-1, 0), (0, 0), (0,), (2, 0, 1)]},
    "poly": {}, "polyder": {"m": [0, 1, 2, 20, -1]},
    "polyint": {"m": [0, 1, 3], "k": [None, 2, np.array([1.0])]},
    **alike(("polymul", "polydiv"), {"trim_leading_zeros": [False]}),
    "polyfit": {"deg": [0, 1, 3], "rcond": [.2], "full": [True], "w": [lambda x, y: x * x + 1],
        "cov": [True, "unscaled"]},
    "polyval": {"unroll": [1, 16]},
    "ravel": {"order": ["C", "F", "A", "K", "X"]},
    "ravel_multi_index": {"mode": ["raise", "clip", "wrap"], "order": ["C", "F"], "dims": [(5, 5),
        (9, 9)], "dtype": []},
    "repeat": {"repeats": [0, 1, 3, np.array([1, 0]), [2, 1, 0], -1], "axis": [None, *AXIS],
        "total_repeat_length": [0, 3, 9, 40]},
    "reshape": {"shape": [(-1,), (3, -1), (1, 6), (6, 1, -1), (4, -1), (-1, -1), 6], "order": ["C",
        "F", "A", "X"]},
    "resize": {"new_shape": [(3, 4), (0,), (1,), 5, ()]},
    "roll": {"shift": [0, -1, 7, (1, 2), (1, -1)], "axis": [None, *AXIS, (0, 1), (0, 0)]},
    "rollaxis": {"axis": [0, 1, -1, 5], "start": [0, 1, -1, 2, 9]},
    "rot90": {"k": [0, 1, 2, 3, -1, 5], "axes": [(0, 1), (1, 0), (-1, 0), (0, 0), (0, 7)]},
    **alike(("round", "around"), {"decimals": [0, 1, -1, 3]}),
    "searchsorted": {"side": ["left", "right", "odd"], "sorter": [lambda a, v: np.arange(len(a))],
        "method": ["scan", "scan_unrolled", "sort", "compare_all", "odd"]},
    "select": {"default": [0, 7.5, -1]},
    "size": {"axis": [None, *AXIS, (0, 1)]},
    "squeeze": {"axis": [None, 0, -1, 1, (0, 1), (), 9]},
    "stack": {"axis": [0, 1, -1, 5, -9], "dtype": ["float64", "complex64"]},
    "take": {"indices": [0, -1, np.array([0, -1, 1]), np.array([7, -9]), np.array([[1], [0]])],
        "axis": [None, *AXIS], "mode": [None, *MODES], "fill_value": [5, 0], "unique_indices":
        [False], "indices_are_sorted": [False]},
    "take_along_axis": {"axis": [None, 0, 1, -1, 5], "mode": [None, "fill", "clip", "odd",
        "promise_in_bounds"], "fill_value": [5], "wrap_negative_indices": [True, False]},
    "tensordot": {"preferred_element_type": [None, "complex128"],
        "axes": [0, 1, 2, ([1], [0]), ([0, 1], [1, 0]), ((-1,), (0,)), ((0,), (0, 1)), 9, (1, 0)]},
    "tile": {"reps": [0, 1, (2, 1), (1, 2, 1), (), -1]},
    **alike(("trapezoid",), {"x": [lambda y: np.cumsum(np.arange(1., 1 + y.shape[-1]))],
        "dx": [.5, -2, np.array([2.])], "axis": AXIS}),
    **alike(("tril_indices", "triu_indices"), {"k": [0, 1, -1, 9], "m": [1, 5, 0]}),
    **alike(("tril_indices_from", "triu_indices_from"), {"k": [0, 1, -1, 9]}),
    "trim_zeros": {"trim": ["f", "b", "fb", "odd", "B"], "axis": [None, 0, -1, 3]},
    "unique": {"return_index": [True], "return_inverse": [True], "return_counts": [True], "axis":
        [None, 0, -1, 1, 5], "size": [0, 2, 30], "fill_value": [None, 9], "sorted": [True]},
    "unravel_index": {"shape": [(15,), (3, 5), (5, 1, 3)], "order": ["C", "F"]},
    "unstack": {"axis": FIRST},
    "unwrap": {"discont": [None, 4., 7.], "axis": AXIS, "period": [3., 1, 6.5]},
    "vander": {"N": [0, 1, 3], "increasing": [True]},
    "vecdot": {"axis": [-1, 0, 1, 5]}, "linalg.vecdot": {"axis": [-1, 0, 5]},
    "linalg.cross": {"axis": [-1, 1, 0, 5]},
    "where": {"x": (), "y": (), "size": (), "fill_value": ()},
    "expm1": {}, "swapaxes": {"axis1": [0, 1, -1, 5], "axis2": [0, 1, -1]},
    **alike(("all", "any"), {"where": [mask, last, False]}),
    **{f"fft.{name}": {"n": [1, 4, 9, 0, -1], "axis": AXIS}
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{i}{r}fft{n}": {"s": [None, (3, 4), (1, 1), (6,), (2, 0)], "axes": [None,
        (0,), (-1, 0), (7,), (1,)]} for i in ("", "i") for r in ("", "r") for n in "2n"},
    **alike(("fft.fftshift", "fft.ifftshift"), {"axes": [None, 0, -1, (0, 1), (1, 1), 5]}),
    **alike(("fft.fftfreq", "fft.rfftfreq"), {"n": [1, 6, 7], "d": [2., -.5],
        "dtype": ["float64"]}),
        "ptp": {"axis": [None, *AXIS, (0, 1)]},
    "isneginf": {}, "isposinf": {},
    "linalg.svdvals": {},
}
NEW: dict[str, Row] = {
    "fill_diagonal": replace(TABLE["fill_diagonal"], want=_filled),
    "unique_counts": replace(TABLE["unique_counts"], shapes=[((7,),), ((2, 3),)]),
    "partition": Row(REAL, [((7,),), ((2, 3),)], [(1,)], within=(-9, 9), want=lambda a, kth,
        axis=-1: np.sort(a, axis)),
    "ravel_multi_index": replace(TABLE["ravel_multi_index"], want=lambda xs, dims, **how:
        np.ravel_multi_index(tuple(xs), dims, **how)),
    "mask_indices": Row(REAL, [()], [(4, np.triu)], jit=False),
    "size": Row(REAL, FULL),
    "copy": Row(ANY, FULL), "empty_like": Row(ANY, FULL, want=np.zeros_like),
}


WHOLE: dict[str, Row] = {
    name: replace(TABLE[name], call=call)
    for name, call in {
        "average": lambda f, xs, **how: f(xs[0], weights=xs[1], **how),
        "select": lambda f, xs, **how: f(list(xs[:2]), list(xs[2:]), **how),
        "compress": lambda f, xs, mask, *rest, **how: f(np.array(mask), xs[0], *rest, **how),
        "linalg.cholesky": lambda f, xs, **how: f((xs[0] + xs[0].mT) / 2, **how),
        "einsum": lambda f, xs, formula, **how: f(formula, *xs, **how),
    }.items()
}
"""Rows that call with keywords, too."""


def rows() -> dict[str, Odd]:
    """A row for each function of the table."""
    table = {**TABLE, **NEW, **WHOLE}
    return {name: Odd(row, {}, VALUES.get(name, {})) for name, row in table.items()}
LEFT: dict[str, str] = {
    **ELSEWHERE,
    **dict.fromkeys(("set_printoptions", "printoptions"), "text: test_storage.py"),
    "getitem": "the indexing of arrays: test_indexing.py",
    "update": "the updates of arrays: test_updates.py",
    "starts_operand": "no function of users",
    "roots": "unique but for the order: test_polynomials.py",
}
"""Functions without a row, with the reason."""
