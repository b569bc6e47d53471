"""Rows of `tfn.scipy`, compared with SciPy, and with recorded JAX where the option is JAX's own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.ndimage

from tests.numpy.rows import Row
from tests.options.calls import Odd
from tests.options.keywords import AXIS

F64 = ["float64"]
SQUARE = [((3, 3),), ((2, 4, 4),)]


def row(
    shapes: Sequence[Any], *args: Any, within: Any = (-2, 2), kinds: Any = F64, **rest: Any
) -> Row:
    """Operands of a function, with arguments that follow them."""
    return Row(kinds, shapes, [args], within=within, spread=True, **{"ulps": 64, **rest})


def odd(row: Row, **values: Any) -> Odd:
    """A row with the odd values of its keywords."""
    return Odd(row, {}, values)


MODES: dict[str, Any] = {
    "precision": (),
    "mode": ["full", "same", "valid", "odd"],
    "method": ["auto", "fft", "direct", "odd"],
}
WINDOWS = {
    "fs": [2.0, 0.5], "window": ["hann", "boxcar", "hamming"], "nperseg": [16, 15, 4],
    "noverlap": [None, 0, 3, 7], "nfft": [None, 32, 33], "detrend": ["constant", "linear", False],
    "return_onesided": [True, False], "scaling": ["density", "spectrum", "odd"],
    "axis": [-1, 0, 7], "average": ["mean", "median"],
}  # fmt: skip
SIGNALS = [((64,),), ((3, 40),)]
DCT = {"type": [2], "n": [None, 3, 9, 1, 0], "axis": [*AXIS], "norm": [None, "ortho",
    "odd"]}  # fmt: skip
DCTN = {"type": [2], "s": [None, (3, 4), (6, 2)], "axes": [None, (0,), (-1, 0), (7,)],
    "norm": [None, "ortho", "odd"]}  # fmt: skip


BORDERS = {"constant": "grid-constant", "nearest": "nearest", "wrap": "grid-wrap",
    "reflect": "reflect", "mirror": "mirror", "odd": "odd"}  # fmt: skip


def mapped(x: Any, places: Any, order: int, mode: str = "constant", cval: float = 0.0) -> Any:
    """SciPy's values between elements, by JAX's names of modes."""
    if mode == "odd":
        raise ValueError(mode)
    return scipy.ndimage.map_coordinates(
        x, places, order=order, mode=BORDERS[mode], cval=cval, prefilter=False
    )


def spd(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """A positive definite matrix."""
    return (x @ x.mT + 3 * np.eye(x.shape[-1], dtype=x.dtype),)


# fmt: off
SIGNAL = {
    **{name: odd(row([((7,), (3,)), ((4, 5), (2, 3)), ((2,), (5,))], ulps=2**10), **MODES)
        for name in ("convolve", "correlate")},
    **{name: odd(row([((4, 5), (2, 3)), ((5, 3), (3, 3))], ulps=2**10), mode=MODES["mode"],
        boundary=["fill", "odd"], fillvalue=[0], precision=())
        for name in ("convolve2d", "correlate2d")},
    "fftconvolve": odd(row([((7,), (3,)), ((5,), (5,))], ulps=2**10), mode=MODES["mode"],
        axes=[None, 0, -1, (0,), 7]),
    "detrend": odd(row(SIGNALS, ulps=2**12, jit=False), axis=[-1, 0, 7], type=["linear", "constant",
        "odd"], bp=[0, [3], [5, 20]], overwrite_data=()),
    "welch": odd(row(SIGNALS, ulps=2**12, jit=False), **WINDOWS),
    "csd": odd(row([((64,), (64,))], ulps=2**12, jit=False), **WINDOWS),
    "stft": odd(row(SIGNALS, ulps=2**12, jit=False), **{k: v for k, v in WINDOWS.items() if k not in
        ("scaling", "average")}, boundary=["zeros", "even", "odd", "constant", None, "none"],
        padded=[True, False]),
}
FFT = {
    **{name: odd(row([((7,),), ((3, 4),)], ulps=2**10), **DCT) for name in ("dct",
        "idct")},
    **{name: odd(row([((3, 4),), ((2, 5),)], ulps=2**10), **DCTN) for name in ("dctn",
        "idctn")},
}
LINALG = {
    "cholesky": odd(row(SQUARE[:1], ulps=2**10, prepare=spd), lower=[True, False],
),
    "inv": odd(row(SQUARE[:1], ulps=2**14, prepare=spd)),
    "det": odd(row(SQUARE[:1], ulps=2**14, prepare=spd)),
    "solve": odd(row([((3, 3), (3, 2))], ulps=2**14, prepare=lambda a, b: (*spd(a), b)),
        lower=[True], assume_a=["gen", "sym", "her", "pos", "odd"],
        debug=[]),
    "solve_triangular": odd(row([((3, 3), (3, 2))], within=((1, 2), (-2, 2)), ulps=2**14),
        trans=[0, 1, 2, "N", "T", "C"], lower=[True], unit_diagonal=[True], debug=[],),
    "svd": odd(row([((3, 4),)], ulps=2**12, call=lambda f, xs, **how: f(xs[0],
        compute_uv=False, **how)), full_matrices=[True, False], compute_uv=[]),
    "toeplitz": odd(row([((3,), (4,))]), r=()), "hankel": odd(row([((3,), (4,))])),
    "pascal": odd(Row(F64, [()], [(4,)]), kind=["symmetric", "lower", "upper", "odd"]),
    "invpascal": odd(Row(F64, [()], [(4,)]), kind=["symmetric", "lower", "upper", "odd"]),
    "helmert": odd(Row(F64, [()], [(4,)], ulps=64), full=[True, False]),
    "dft": odd(Row(F64, [()], [(4,)], ulps=64, spread=True), scale=[None, "sqrtn", "n", "odd"],
        dtype=()),
    "hadamard": odd(Row(F64, [()], [(4,)]), dtype=["int32", "float64"]),
    "convolution_matrix": odd(row([((3,),)], 5), mode=["full", "same", "valid", "odd"],
        n=[1, 3, 0]),
    "expm": odd(row(SQUARE[:1], ulps=2**14), max_squarings=()),
    "eigh": odd(row(SQUARE[:1], ulps=2**14, prepare=lambda x: (x + x.mT,),
        call=lambda f, xs, **how: f(xs[0], eigvals_only=True, **how)), b=[None],
        lower=[True, False], eigvals_only=[], eigvals=[], type=[1], turbo=[]),
}
INTEGRATE = {
    "trapezoid": odd(row([((3, 4),)]), x=[np.array([0., 1, 3, 4])], dx=[.5, -2.],
        axis=[-1, 1, 5]),
}
SPECIAL = {
    **{name: odd(row([((3, 4),), ((5,),)]), axis=[None, *AXIS, (0, 1)]) for name in
        ("softmax", "log_softmax")},
    "comb": odd(row([((6,), (6,))], within=((0, 9), (-1, 5)), ulps=2**10, prepare=lambda n,
        k: (np.floor(n), np.floor(k))), repetition=[True, False], exact=[False]),
    "factorial": odd(row([((6,),)], within=(-1, 9), ulps=2**10), exact=[False]),
    "zeta": odd(row([((6,),)], within=(-3, 9), ulps=2**12), q=[None, 1., .25, 40., 0., -1.,
        np.nan]),
}
PLACES: dict[str, Any] = {"mode": list(BORDERS), "cval": [7.5, -1, np.nan], "order": [0, 1]}
NDIMAGE = {
    "map_coordinates": Odd(row([((5,), (1, 9)), ((4, 3), (2, 2, 3)), ((1, 3), (2, 0)), ((4,), (1,
        1))], within=((-2, 2), (-9, 9)), call=lambda f, xs, **how: f(*xs, **how), want=mapped),
        {"order": 1}, PLACES),
}
VQ = {
    "vq": odd(row([((5, 3), (4, 3)), ((5,), (4,)), ((0, 3), (2, 3)), ((5, 1), (1, 1))], ulps=2**12,
        kinds=["float64", "float32"]), check_finite=[True, False]),
}
ITERATIVE = {"x0": [None, lambda a, b: np.ones_like(b), lambda a, b: np.linalg.solve(a, b)],
    "tol": [1e-12], "atol": [0., 1e-10], "maxiter": [None, 60], "M": [None, lambda a, b:
    np.diag(1 / np.diag(a)), lambda a, b: np.linalg.inv(a)]}
SOLVERS = {
    name: Odd(row([((4, 4), (4,)), ((1, 1), (1,))], ulps=2**24, prepare=lambda a, b: (*spd(a), b),
        call=lambda f, xs, **how: f(*xs, **how)[0], want=lambda a, b, **_: [np.linalg.solve(a, b)]),
        {"tol": 1e-12}, {**ITERATIVE, **further})
    for name, further in (("cg", {}), ("bicgstab", {}), ("gmres", {"restart": [4, 9, 1],
        "solve_method": ["batched", "incremental"]}))
}
LOCATED = {"loc": [-2., np.nan], "scale": [-1., np.array([[1.], [2.]])]}
SHAPES = {"beta": 2, "chi2": 1, "gamma": 1, "gennorm": 1, "pareto": 1, "t": 1, "cauchy": 0,
    "expon": 0, "gumbel_l": 0, "gumbel_r": 0, "laplace": 0, "logistic": 0, "norm": 0, "uniform": 0}
LOOPS = ("beta", "chi2", "gamma", "gennorm", "t")
FUNCTIONS = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
STATS = {
    **{f"{name}.{function}": odd(row([((5,),) * (1 + shapes)], ulps=2**16, jit=False,
        within=((0, 1) if function in ("ppf", "isf") else (-2, 4), *[(.5, 3)] * shapes)), **LOCATED)
        for name, shapes in SHAPES.items()
        for function in FUNCTIONS
        if hasattr(import_module(f"tfn.scipy.stats.{name}"), function)
        and (name not in LOOPS or "pdf" in function)},
    "sem": odd(row([((3, 4),), ((5,),)]), axis=[None, *AXIS], ddof=[0, 2, 1.5],
        nan_policy=["propagate", "odd"], keepdims=[True, False]),
    "rankdata": odd(row([((3, 4),), ((5,),)], kinds=["int32"]), axis=[None, *AXIS], method=[
        "average", "min", "max", "dense", "ordinal", "odd"], nan_policy=["propagate", "odd"]),
    "mode": odd(row([((3, 4),), ((5,),)], kinds=["int32"]), axis=[None, *AXIS], nan_policy=[
        "propagate", "odd"], keepdims=[True, False]),
}
# fmt: on
SCIPY: dict[str, dict[str, Odd]] = {
    "signal": SIGNAL,
    "fft": FFT,
    "linalg": LINALG,
    "integrate": INTEGRATE,
    "special": SPECIAL,
    "stats": STATS,
    "ndimage": NDIMAGE,
    "cluster.vq": VQ,
    "sparse.linalg": SOLVERS,
    "optimize": {},
}  # fmt: skip
LEFT: dict[str, dict[str, str]] = {
    "signal": {
        "istft": "the inverse of what stft gives: test_signal.py",
        **dict.fromkeys(
            ("filtfilt", "lfilter", "sosfilt", "sosfiltfilt"), "beside SciPy: test_filters.py"
        ),
    },
    "fft": {},
    "linalg": {
        **dict.fromkeys(("cho_factor", "lu", "lu_solve", "qr"), "factors: test_linalg.py"),
        "expm_frechet": "test_matrix_functions.py",
    },
    "integrate": {
        name: f"of a function, beside SciPy: integrate/{file}"
        for name, file in (
            ("cubature", "test_quadrature.py"),
            ("quad", "test_quadrature.py"),
            ("solve_ivp", "test_initial_value.py"),
        )
    },
    "ndimage": {},
    "cluster.vq": {},
    "sparse.linalg": {},
    "optimize": {
        "minimize": "of a function: test_optimize.py",
        **dict.fromkeys(
            (
                *("bisect", "brentq", "curve_fit", "least_squares", "linear_sum_assignment"),
                *("newton", "nnls", "root", "root_scalar"),
            ),
            "of functions and problems, beside SciPy: optimize/",
        ),
    },
    "special": {
        "bessel_jn": "JAX's alone: test_spherical.py",
        "sph_harm_y": "JAX's keywords: test_spherical.py",
    },
    "stats": {
        "gaussian_kde": "a class: test_stats.py",
        **{
            f"{name}.{function}": "a slow loop in NumPy; loc and scale are as in `pdf`"
            for name in LOOPS
            for function in FUNCTIONS[2:]
            if hasattr(import_module(f"tfn.scipy.stats.{name}"), function)
        },
    },
}
"""Functions without a row, with the reason."""
