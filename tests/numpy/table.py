"""The table: a row for each function that NumPy has too, by family, in the order of the files.

`ELSEWHERE` lists the functions without a row, with the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.numpy.rows import (
    ANY,
    BITS,
    COMPLEX,
    LINES,
    NUMBERS,
    ONE,
    ORDERED,
    REAL,
    TWO,
    Row,
    listed,
)
from tests.numpy.values import FLOATS, INTEGERS

INT = ["int32", "int64", "int8", "uint8", "uint32"]
MIXED = ["float32", "int32", "float64", "complex64", "bool", "int8"]
MATRICES = [((2, 3),), ((5, 5),), ((1, 7),), ((2, 3, 3),)]
SQUARE = [((3, 3),), ((1, 1),), ((2, 5, 5),)]
AXES: list[Any] = [{"axis": 1}, {}, {"axis": -1, "keepdims": True}, {"keepdims": True}]
FULL = [((2, 3),), ((3, 5),), ((7, 1),), ((2, 3, 5),)]  # two axes at least, no empty one
TRIPLES = [((3, 1), (2,), ()), ((5,), (5,), (5,)), ((0,), (), (1,))]
WELL = (0.5, 2.0)
SUM: dict[str, Any] = {"within": (-9, 9), "smooth": (-2, 2), "spread": True, "ulps": 16}
NEAR: dict[str, Any] = {"within": (-2, 2), "smooth": (-2, 2), "spread": True, "ulps": 64}
SOLVED: dict[str, Any] = {**NEAR, "ulps": 2**14}
RUNNING: dict[str, Any] = {"within": (1, 2), "smooth": WELL, "spread": True, "ulps": 64}
ANGLES = (-1.2, 1.2)


def each(kinds: Any = ANY, **rest: Any) -> Row:
    """A function of one operand, element by element."""
    return Row(kinds, ONE, **rest)


def pair(kinds: Any = ORDERED, **rest: Any) -> Row:
    """A function of two operands that broadcast."""
    return Row(kinds, TWO, **rest)


def fold(kinds: Any = ANY, options: Any = AXES, **rest: Any) -> Row:
    """A reduction."""
    return Row(kinds, FULL, options, **{"spread": True, "ulps": 8, **rest})


def moved(*options: Any, shapes: Any = FULL, smooth: Any = (-2, 2), **rest: Any) -> Row:
    """A function that puts elements elsewhere, whatever they are."""
    return Row(ANY, shapes, options or ((),), smooth=smooth, ulps=0, **rest)


def joined(*options: Any, shapes: Any, **rest: Any) -> Row:
    """A function of a list of arrays."""
    return Row(ANY, shapes, options or ((),), call=listed, smooth=(-2, 2), ulps=0, **rest)


def made(*options: Any, **rest: Any) -> Row:
    """A function of numbers, without operands."""
    return Row(ANY, [()], options, **rest)


def real(smooth: Any = None, within: Any = None, **rest: Any) -> Row:
    """A function of real numbers, in floating point."""
    return Row(FLOATS, ONE, smooth=smooth, within=within, **rest)


def _long_division(u: Any, v: Any, trimmed: bool) -> Any:
    """np.polydiv, with the remainder as long as the dividend unless trimmed."""
    quotient, rest = np.polydiv(u, v)
    return quotient, rest if trimmed else np.pad(rest, (len(u) - len(rest), 0))


def _filled(x: np.ndarray, *args: Any) -> np.ndarray:
    """np.fill_diagonal, which changes its argument, on a copy."""
    filled = x.copy()
    np.fill_diagonal(filled, *args)
    return filled


def _of_symmetric(f: Any, xs: Any) -> Any:
    """A factorisation of the symmetric part, so that every direction of a derivative counts."""
    (x,) = xs
    return f((x + x.mT) / 2)


# fmt: off
TABLE: dict[str, Row] = {
    # arithmetic
    "add": pair(ANY, smooth=WELL), "subtract": pair(NUMBERS, smooth=WELL),
    "multiply": pair(ANY, smooth=WELL, within=(-9, 9), ulps=8, spread=True),
    "divide": pair(NUMBERS, smooth=WELL, within=(1, 9), ulps=8),
    "floor_divide": pair(["float32", *INTEGERS, "float64"], within=(1, 99)),
    "remainder": pair(["float32", *INTEGERS, "float64"], within=(1, 99),
        smooth=((5.1, 5.9), (2.1, 2.4))),
    "divmod": pair(["float32", *INTEGERS, "float64"], within=(1, 99)),
    "fmod": pair(["float32", *INTEGERS, "float64"], within=(1, 99),
        smooth=((5.1, 5.9), (2.1, 2.4))),
    "power": pair(["float32", "float64", "int64", "uint64"], within=(0, 5), smooth=WELL, ulps=16),
    "float_power": pair(REAL, smooth=WELL, ulps=16),
    "maximum": pair(smooth=(-2, 2)), "minimum": pair(smooth=(-2, 2)),
    "fmax": pair(["float32", *INTEGERS, *FLOATS], smooth=(-2, 2)),
    "fmin": pair(["float32", *INTEGERS, *FLOATS], smooth=(-2, 2)),
    "arctan2": pair(REAL, smooth=WELL), "hypot": pair(REAL, smooth=WELL),
    "logaddexp": pair(REAL, smooth=(-2, 2), spread=True),
    "logaddexp2": pair(REAL, smooth=(-2, 2), ulps=16, spread=True),
    "copysign": pair(REAL), "heaviside": pair(REAL), "nextafter": pair(REAL, exact=True),
    "negative": each(NUMBERS, smooth=(-2, 2)), "positive": each(ANY, smooth=(-2, 2), want=np.copy),
    "abs": each([*ORDERED, "complex64"], smooth=WELL),
    "sign": each([*ORDERED[:-1], "complex64"], within=(-9, 9)),
    "square": each(NUMBERS, smooth=(-2, 2), within=(-9, 9), ulps=8, spread=True),
    "reciprocal": each(["float32", "float64", *COMPLEX], smooth=WELL, within=WELL),
    "floor": each(FLOATS), "ceil": each(FLOATS), "trunc": each(FLOATS), "rint": each(FLOATS),
    "round": each(REAL, options=[(), (2,), (-1,)], within=(-99, 99)),
    "clip": Row(ORDERED[:-1], TRIPLES, want=lambda x, a, b: np.minimum(np.maximum(x, a), b),
        smooth=(-2, 2)),
    # complex
    "real": each(smooth=(-2, 2)), "imag": each(), "conj": each(smooth=(-2, 2), want=np.conjugate),
    "angle": each(["complex64", "complex128", *REAL], within=(-9, 9)),
    "isreal": each(), "iscomplex": each(),
    # functions
    "exp": real((-2, 2)), "exp2": real((-2, 2)), "expm1": real((-2, 2)),
    "fabs": real(WELL),
    "log": real(WELL), "log2": real(WELL), "log10": real(WELL), "log1p": real(WELL),
    "sqrt": real(WELL), "cbrt": real(WELL), "sin": real((-2, 2)), "cos": real((-2, 2)),
    "tan": real(ANGLES),
    "arcsin": real((-.8, .8)), "arccos": real((-.8, .8)), "arctan": real((-2, 2)),
    "sinh": real((-2, 2)), "cosh": real((-2, 2)), "tanh": real((-2, 2)),
    "arcsinh": real((-2, 2)), "arccosh": real((1.3, 4)), "arctanh": real((-.8, .8)),
    "deg2rad": real((-2, 2)), "rad2deg": real((-2, 2)), "sinc": real((.2, .8), (-.9, .9), ulps=16),
    "i0": Row(REAL, ONE[:1] + ONE[3:], smooth=(.2, 2), within=(-9, 9), ulps=16),
    # logic
    **{name: pair(ANY) for name in ("equal", "not_equal", "logical_and", "logical_or",
        "logical_xor")},
    **{name: pair() for name in ("less", "less_equal", "greater", "greater_equal")},
    **{name: pair(BITS) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "left_shift": Row(INT, TWO, within=(0, 6)), "right_shift": Row(INT, TWO, within=(0, 6)),
    "invert": each(BITS), "bitwise_count": each([*INTEGERS]), "logical_not": each(ANY),
    "isnan": each(ANY), "isinf": each(ANY), "isfinite": each(ANY), "signbit": each(FLOATS),
    "isneginf": each(FLOATS), "isposinf": each(FLOATS),
    "isclose": pair(REAL, options=[(), {"equal_nan": True}]), "allclose": pair(REAL),
    "array_equal": pair(REAL), "array_equiv": pair(REAL, within=(0, 1)),
    "nan_to_num": each(REAL, options=[{"nan": 1.0, "posinf": 2.0, "neginf": 3.0}]),
    "where": Row((["bool"], ["float32", *FLOATS], ["float32"]), TRIPLES, smooth=(-2, 2)),
    # parts
    "gcd": pair(INTEGERS, within=(0, 60)), "lcm": pair(INTEGERS, within=(0, 10)),
    "frexp": each(REAL, exact=True, within=(-99, 99)),
    "modf": each(REAL, exact=True, within=(-99, 99)),
    "ldexp": Row((REAL, ["int32"]), TWO, within=((-9, 9), (-9, 9)), smooth=((-2, 2), (-3, 3))),
    "spacing": each(REAL, exact=True, within=WELL),
    "packbits": Row(["uint8", "bool"], LINES + ONE[:1], [{}, {"axis": 0}, {"bitorder": "little"}]),
    "unpackbits": Row(["uint8"], LINES + ONE[:1],
        [{}, {"axis": 0}, {"count": 3}, {"bitorder": "little"}], exact=True),
    # reductions
    "sum": fold(within=(-9, 9), smooth=(-2, 2)), "prod": fold(within=(1, 2), smooth=WELL, ulps=16),
    "mean": fold(within=(-9, 9), smooth=(-2, 2)),
    "max": fold(ORDERED, smooth=(-2, 2)), "min": fold(ORDERED, smooth=(-2, 2)),
    "all": fold(), "any": fold(), "argmax": fold(ORDERED), "argmin": fold(ORDERED),
    "count_nonzero": fold(), "ptp": fold(ORDERED[:-1], within=(0, 99), smooth=(-2, 2)),
    **{name: fold([*REAL, "complex64", "int32"], [*AXES, {"ddof": 1}], **SUM)
        for name in ("var", "std")},
    "average": Row(REAL, [((2, 3), (2, 3)), ((7,), (7,))], within=(.1, 2), smooth=WELL,
        spread=True, ulps=8, call=lambda f, xs: f(xs[0], weights=xs[1])),
    **{name: fold(REAL, **{**SUM, "ulps": 32})
        for name in ("nansum", "nanmean", "nanvar", "nanstd")},
    "nanprod": fold(REAL, smooth=WELL, within=(1, 2), ulps=16),
    "nanmax": fold(REAL, smooth=(-2, 2)), "nanmin": fold(REAL, smooth=(-2, 2)),
    "nanargmax": fold(REAL, within=(-9, 9)), "nanargmin": fold(REAL, within=(-9, 9)),
    "median": fold(REAL, within=(-9, 9), smooth=(-2, 2)),
    "nanmedian": fold(REAL, within=(-9, 9), smooth=(-2, 2)),
    **{name: fold(REAL,
        [(.3,), ((.3,), {"axis": -1, "keepdims": True}), ((.7,), {"method": "lower"}),
        ((.5,), {"axis": 0, "method": "nearest"})], **{**SUM, "ulps": 32})
        for name in ("quantile", "nanquantile")},
    **{name: fold(REAL, [(30,), ((70,), {"axis": -1}), ((25,), {"method": "midpoint"})],
        **{**SUM, "ulps": 32}) for name in ("percentile", "nanpercentile")},
    # running sums
    **{name: Row(NUMBERS, FULL, [{"axis": 1}, {}, {"axis": 0}], **RUNNING)
        for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    **{name: Row(NUMBERS, FULL, [{"axis": 1}, {"axis": 0, "include_initial": True}], **RUNNING)
        for name in ("cumulative_sum", "cumulative_prod")},
    "diff": Row(ANY, FULL, [(), {"n": 2}, {"axis": 0}], **SUM),
    "ediff1d": Row(NUMBERS, FULL, [()], **SUM),
    # shapes and orders
    "reshape": moved(((3, 2),), (-1,), shapes=[((2, 3),), ((6,),)]), "ravel": moved((), ("F",)),
    "transpose": moved(), "permute_dims": moved(((1, 0),), shapes=MATRICES[:2]),
    "matrix_transpose": moved(),
    "swapaxes": moved((0, 1)), "moveaxis": moved((0, -1)), "rollaxis": moved((1,)),
    "expand_dims": moved((0,), (-1,), (1,)),
    "squeeze": moved((0,), (), shapes=[((1, 3),), ((1, 1, 5),)]),
    "atleast_1d": moved(shapes=ONE), "atleast_2d": moved(shapes=ONE),
    "atleast_3d": moved(shapes=ONE),
    "broadcast_to": moved(((4, 2, 3),), shapes=[((2, 3),), ((3,),), ((),)]),
    "broadcast_arrays": Row(ANY, TWO, smooth=(-2, 2), ulps=0),
    "flip": moved((), (1,), (0,)), "fliplr": moved(), "flipud": moved(),
    "rot90": moved((), (2,), (-1,)),
    "diag": moved((), (1,), (-1,), shapes=[((2, 3),), ((3,),), ((0,),)]),
    "diagflat": moved((), (1,), shapes=ONE[:1] + LINES),
    "diagonal": moved((), (1,), (-1,)), "trace": Row(NUMBERS, MATRICES, [(), (1,)], **SUM),
    "tril": moved((), (1,), (-1,)), "triu": moved((), (1,), (-1,)),
    "fill_diagonal": Row(ANY, [((3, 3),), ((2, 5),), ((7, 3),), ((3, 3, 3),)], [(7,), (1, True)],
        want=_filled, smooth=(-2, 2), ulps=0),
    "roll": moved((2,), (-1, 1), ((1, 2), (0, 1))), "repeat": moved((2,), (3, 0)),
    "tile": moved((2,), ((2, 1, 2),)),
    "resize": moved(((3, 4),), ((2,),)),
    "pad": moved((1,), ((2, 1),), (1, "edge"), (1, "reflect"), (2, "wrap"), (1, "symmetric"),
        shapes=[((3, 5),), ((7,),)]),
    "concatenate": joined((), {"axis": 0},
        shapes=[((2, 3), (2, 3)), ((0, 3), (2, 3)), ((1, 5), (7, 5))]),
    "stack": joined((), {"axis": 1}, {"axis": -1}, shapes=[((2, 3), (2, 3)), ((7,), (7,))]),
    **{name: joined(shapes=[((2, 3), (2, 3)), ((5,), (5,)), ((), ())])
        for name in ("hstack", "vstack", "dstack", "column_stack")},
    "block": joined(shapes=[((2, 3), (2, 2)), ((5,), (5,))]),
    "append": Row(ANY, [((2, 3), (1, 3)), ((2, 3), (5, 3))], [{}, {"axis": 0}], smooth=(-2, 2),
        ulps=0),
    "split": moved((3, 1), ([1, 2], 0), shapes=[((2, 3),)]), "array_split": moved((3,), (2, 1)),
    "unstack": moved(),
    "hsplit": moved((3,), shapes=[((2, 3),)]), "vsplit": moved((2,), shapes=[((2, 3),)]),
    "dsplit": moved((2,), shapes=[((1, 3, 2),)]),
    "insert": moved((1, 9), (-1, 7, 1)), "delete": moved((1,), (-1, 1), ([0, 1], 0)),
    "take": moved((np.array([0, 2, 1]),), (1, 0), (np.array([[0, 1]]), 1),
        shapes=[((2, 3),), ((3, 5),)]),
    "take_along_axis": Row((ANY, ["int32"]), [((2, 3), (2, 3)), ((3, 5), (3, 2))], [{"axis": 1}],
        within=((-9, 9), (0, 1)), smooth=((-2, 2), (0, 1)), exact=True),
    "choose": Row((["int32"], REAL, REAL), TRIPLES[:2], within=((0, 1), (-9, 9), (-9, 9)),
        smooth=((0, 1), (-2, 2), (-2, 2)), exact=True, call=lambda f, xs,
        **how: f(xs[0], list(xs[1:]), **how), options=[{"mode": "clip"}]),
    "select": Row((["bool"], ["bool"], REAL, REAL),
        [((5,), (5,), (5,), (5,)), ((2, 3), (2, 3), (3,), ())], exact=True, smooth=(-2, 2),
        call=lambda f, xs, *rest: f(list(xs[:2]), list(xs[2:]), *rest)),
    "compress": Row(ANY, ONE[:1] + LINES[:1], [([True],), ([False, True], 0)], call=lambda f, xs,
        mask, *axis: f(np.array(mask), xs[0], *axis), smooth=(-2, 2), ulps=0),
    # products
    **{name: Row(MIXED, [((3,), (3,)), ((7,), (7,)), ((0,), (0,))], **SUM)
        for name in ("vdot", "inner")},
    **{name: Row(MIXED, [((2, 3), (3, 5)), ((3,), (3,)), ((5,), (5, 1)), ((2, 0), (0, 3))], **SUM)
        for name in ("dot", "matmul")},
    "outer": Row(MIXED, [((3,), (2,)), ((2, 3), (5,)), ((0,), (3,))], **SUM),
    "vecdot": Row(MIXED, [((2, 3), (3,)), ((7,), (7,))], **SUM),
    "matvec": Row(MIXED, [((2, 3), (3,)), ((5, 2, 3), (3,))], **SUM),
    "vecmat": Row(MIXED, [((2,), (2, 3)), ((2,), (5, 2, 3))], **SUM),
    "tensordot": Row(MIXED, [((2, 3, 2), (3, 2, 5)), ((3, 2), (3, 2))], **SUM),
    "kron": Row(MIXED, [((2, 3), (1, 2)), ((3,), (2,)), ((), (3,))], **SUM),
    "cross": Row(MIXED[:4], [((2, 3), (2, 3)), ((3,), (5, 3))], **SUM),
    "convolve": Row(REAL, [((7,), (3,)), ((2,), (5,)), ((1,), (1,))], [(), ("same",), ("valid",)],
        **SUM),
    "correlate": Row(REAL, [((7,), (3,)), ((2,), (5,))], [("full",), ("same",), ("valid",)], **SUM),
    "einsum": Row(MIXED, [((2, 3), (3, 5)), ((1, 7), (7, 2))],
        [("ij,jk",), ("ij,jk->k",), ("ij,jk->ki",)], **SUM, call=lambda f, xs,
        formula: f(formula, *xs)),
    # orders
    "sort": fold([*ORDERED], [{}, {"axis": 0}, {"axis": None}], smooth=(-2, 2)),
    "argsort": fold([*ORDERED], [{"stable": True}, {"axis": 0, "stable": True}]),
    "sort_complex": Row(["complex64", "complex128"], LINES, within=(-9, 9)),
    "searchsorted": Row(REAL, [((7,), (3,)), ((1,), (2, 3))], [(), ("right",)], exact=True,
        within=(-1, 1), prepare=lambda a, v: (np.sort(a), v)),
    "digitize": Row(REAL, [((5,), (1,)), ((2, 3), (1,))], [(), (True,)], exact=True,
        within=(-1, 1)),
    "lexsort": Row(["int32", "int8"], [((5,), (5,)), ((7,), (7,))], call=listed, within=(0, 3)),
    # sets and places
    **{name: Row(["int32", "float32", "bool"], [((7,),), ((2, 3),), ((0,),)], within=(0, 4),
        jit=False) for name in ("unique", "unique_counts", "nonzero", "flatnonzero", "argwhere")},
    "unique_values": Row(["int32", "float32", "bool"], [((7,),), ((2, 3),)], within=(0, 4),
        jit=False, want=np.unique),
    "unique_inverse": Row(["int32", "float32"], [((7,),), ((2, 3),)], within=(0, 4), jit=False),
    "unique_all": Row(["int32", "float32"], [((7,),), ((2, 3),)], within=(0, 4), jit=False),
    **{name: Row(["int32", "float32"], [((7,), (5,)), ((1,), (3,))], within=(0, 5), jit=False)
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")},
    "isin": Row(["int32", "float32"], [((2, 3), (5,)), ((7,), (1,))], [(), {"invert": True}],
        within=(0, 5)),
    "extract": Row((["bool"], REAL), [((7,), (7,)), ((2, 3), (2, 3))], jit=False),
    "trim_zeros": Row(["int32", "float32"], LINES, [(), ("f",)], within=(0, 1), jit=False),
    # histograms
    "bincount": Row(["int32", "uint8"], LINES, [{"minlength": 5}, {}], within=(0, 6), jit=False),
    "histogram": Row(["float64"], LINES + ONE[:1],
        [(), (5,), {"density": True}, {"range": (-1, 1)}], within=(-2, 2), ulps=16, exact=True,
        spread=True),
    "histogram_bin_edges": Row(REAL, LINES + ONE[:1], [(), (5,), {"range": (-1, 1)}],
        within=(-2, 2), ulps=16, spread=True),
    "histogram2d": Row(["float64"], [((13,), (13,)), ((7,), (7,))], [(), (5,)], within=(-2, 2),
        ulps=16, spread=True),
    "histogramdd": Row(["float64"], [((13, 2),), ((7, 3),)], [(4,)], within=(-2, 2), ulps=16,
        spread=True),
    # samples
    "trapezoid": Row(REAL, FULL, [(), {"dx": .5}, {"axis": 0}], **SUM),
    "polyval": Row(REAL, [((3,), (5,)), ((1,), (2, 3)), ((7,), ())], within=(-2, 2),
        smooth=(-2, 2), spread=True, ulps=512),
    "interp": Row(REAL, [((5,),), ((2, 3),)], [(np.array([-1.0, 0, 2]), np.array([3.0, 1, 2]))],
        within=(-2, 3), smooth=(.1, .9), spread=True, ulps=16),
    "cov": Row(REAL, [((2, 7),), ((5,),)], [(), {"ddof": 0}], **{**SUM, "ulps": 64}),
    "corrcoef": Row(REAL, [((2, 7),), ((3, 5),)], **{**SUM, "ulps": 64}),
    "gradient": Row(REAL, [((7,),), ((3, 5),)], [(), (2.0,)], **SUM),
    "unwrap": Row(REAL, FULL, within=(-20, 20), smooth=(-2, 2), spread=True, ulps=16),
    # polynomials
    **{name: Row(REAL, [((3,), (5,)), ((7,), (1,))], **SUM)
        for name in ("polyadd", "polysub", "polymul")},
    "polyder": Row(REAL, LINES[:1], [(), (2,)], **SUM),
    "polyint": Row(REAL, LINES, [(), (2,)], **SUM),
    "poly": Row(["float64"], [((3,),), ((5,),)], **NEAR),
    "polydiv": Row(["float64"], [((5,), (2,)), ((3,), (1,))], [(), {"trim_leading_zeros": True}],
        within=(1, 2), smooth=(1, 2), spread=True, ulps=512, jit=False, want=lambda u, v,
        trim_leading_zeros=False: _long_division(u, v, trim_leading_zeros)),
    "polyfit": Row(["float64"], [((7,), (7,))], [(2,)], within=(-2, 2), spread=True, ulps=10**6),
    "vander": Row(REAL, LINES, [(), (3,), {"increasing": True}], within=(-1, 1), smooth=(.2, 1),
        spread=True, ulps=64),
    # made of numbers
    "zeros": made(((2, 3),), (0,)), "ones": made(((2, 3),), (0,)),
    "full": made(((2, 3), 1.5), (5, 2)),
    "zeros_like": each(), "ones_like": each(), "full_like": each(NUMBERS, options=[(3,)]),
    "arange": made((5,), (1, 7, 2), (2.0, 0.0, -.5)),
    "linspace": made((0, 1, 7), (2, -1, 5), ((0, 1, 4), {"endpoint": False}), ulps=8, spread=True),
    "logspace": made((0, 2, 5), ulps=64), "geomspace": made((1, 100, 5), ulps=64),
    "eye": made((3,), (2, 5, 1), (3, 3, -1)), "identity": made((3,), (0,)),
    "tri": made((3,), (2, 5, 1)),
    **{name: made((7,), (1,), (2,), spread=True, ulps=16)
        for name in ("bartlett", "blackman", "hamming", "hanning")},
    "kaiser": made((7, 2.0), (5, 0.0), spread=True, ulps=16),
    "indices": made(((2, 3),), ((0, 3),)), "diag_indices": made((3,), (2, 3)),
    "tril_indices": made((3,), (2, 1, 3)), "triu_indices": made((3,), (2, 1, 3)),
    "tril_indices_from": Row(REAL, MATRICES[:2]),
    "triu_indices_from": Row(REAL, MATRICES[:2], [(), (1,)]),
    "diag_indices_from": Row(REAL, SQUARE[:2]),
    "meshgrid": Row(REAL, [((3,), (2,)), ((0,), (3,))], [{}, {"indexing": "ij"}], smooth=(-2, 2)),
    "ix_": Row(["int32"], [((3,), (2,)), ((1,), (5,))], within=(0, 3)),
    "ravel_multi_index": Row(["int32"], [((3,), (3,))], [((7, 5),)], call=listed, within=(0, 4),
        jit=False, want=lambda xs, dims: np.ravel_multi_index(tuple(xs), dims)),
    "unravel_index": Row(["int32"], [((3,),), ((2, 3),)], [((3, 5),)], within=(0, 14)),
    # linear algebra
    "linalg.det": Row(REAL, SQUARE, within=WELL, smooth=(-2, 2), spread=True, ulps=64),
    "linalg.slogdet": Row(REAL, SQUARE[:2], within=WELL, smooth=(-2, 2), spread=True, ulps=512),
    "linalg.inv": Row(["float64"], SQUARE[:2], **SOLVED),
    "linalg.pinv": Row(["float64"], MATRICES, within=(-2, 2), spread=True, ulps=2**14),
    "linalg.solve": Row(["float64"], [((3, 3), (3, 2)), ((2, 2), (2,))], **SOLVED),
    "linalg.matrix_power": Row(REAL, SQUARE, [(3,), (0,), (1,)], within=(-2, 2), smooth=(-2, 2),
        spread=True, ulps=256),
    "linalg.norm": Row(REAL, MATRICES[:3],
        [(), ("fro",), (1,), (np.inf,), {"axis": 0}, {"axis": 1, "ord": 3, "keepdims": True}],
        within=(-9, 9), smooth=(.5, 2), spread=True, ulps=64),
    "linalg.vector_norm": Row(REAL, ONE[:1] + LINES, [(), {"ord": 1}, {"ord": 3}], within=(-9, 9),
        smooth=(.5, 2), spread=True, ulps=64),
    "linalg.matrix_norm": Row(REAL, MATRICES, [(), {"ord": 1}, {"ord": np.inf}], within=(-9, 9),
        smooth=(.5, 2), spread=True, ulps=64),
    "linalg.svdvals": Row(REAL, MATRICES, **NEAR),
    "linalg.matrix_rank": Row(REAL, MATRICES, within=(-2, 2)),
    "linalg.cond": Row(["float64"], SQUARE, within=WELL, spread=True, ulps=2**20),
    "linalg.eigvalsh": Row(REAL, SQUARE, within=(-2, 2), spread=True, ulps=256,
        prepare=lambda x: (x + x.mT,)),
    "linalg.cholesky": Row(REAL, SQUARE, within=(-2, 2), smooth=(-2, 2), spread=True, ulps=256,
        prepare=lambda x: (x @ x.mT + 3 * np.eye(x.shape[-1], dtype=x.dtype),), call=_of_symmetric),
    "linalg.multi_dot": Row(REAL, [((2, 3), (3, 5), (5, 1))], call=listed, **NEAR),
    **{f"linalg.{name}": row
        for name, row in { "cross": Row(MIXED[:4], [((2, 3), (2, 3))], **SUM),
        "outer": Row(MIXED, [((3,), (2,))], **SUM),
        "diagonal": Row(ANY, MATRICES, [{}, {"offset": 1}], smooth=(-2, 2), ulps=0),
        "trace": Row(NUMBERS, MATRICES, [{}, {"offset": 1}], **SUM),
    }.items()},
    "linalg.tensorinv": Row(["float64"], [((2, 3, 6),)], within=(-2, 2), smooth=(-2, 2),
        spread=True, ulps=2**16, options=[{"ind": 2}]),
    "linalg.tensorsolve": Row(["float64"], [((2, 3, 6), (2, 3))], within=(-2, 2), smooth=(-2, 2),
        spread=True, ulps=2**16),
    # Fourier transforms
    **{f"fft.{name}": Row([*COMPLEX, *REAL], [((7,),), ((2, 5),), ((3, 1, 4),)],
        [(), (5,), {"norm": "ortho"}, {"axis": 0}], **{**NEAR, "smooth": None})
        for name in ("fft", "ifft")},
    "fft.rfft": Row(REAL, [((7,),), ((2, 5),)], [(), (5,), {"norm": "ortho"}, {"axis": 0}], **NEAR),
    "fft.ihfft": Row(REAL, [((7,),), ((2, 5),)], [(), (5,), {"norm": "ortho"}], **NEAR),
    **{f"fft.{name}": Row(COMPLEX, [((7,),), ((2, 5),)], [(), (5,), {"norm": "forward"}],
        **{**NEAR, "smooth": None}) for name in ("irfft", "hfft")},
    **{f"fft.{name}": Row(COMPLEX, [((2, 3),), ((3, 5, 4),)], [(), {"norm": "ortho"}],
        **{**NEAR, "smooth": None})
        for name in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn")},
    **{f"fft.{name}": Row(REAL, [((2, 3),), ((3, 5, 4),)], [(), {"norm": "ortho"}], **NEAR)
        for name in ("rfft2", "rfftn")},
    "fft.fftshift": moved(shapes=FULL), "fft.ifftshift": moved(shapes=FULL),
    "fft.fftfreq": made((7,), (6, .5)), "fft.rfftfreq": made((7,), (6, .5)),
}

ELSEWHERE = {
    **dict.fromkeys(("array", "asarray", "astype", "copy", "empty", "empty_like", "from_dlpack",
        "frombuffer", "fromfile", "fromiter", "fromstring"),
        "what they take are NumPy's arrays, or files: test_creation.py"),
    **dict.fromkeys(("array_repr", "array_str", "save", "savez", "load"),
        "text and files: test_storage.py"),
    **dict.fromkeys(("finfo", "iinfo", "isdtype", "can_cast", "issubdtype", "promote_types",
        "result_type"), "functions of dtypes: tests/test_dtypes.py, test_inspection.py"),
    **dict.fromkeys(("ndim", "shape", "size", "isscalar", "iterable", "iscomplexobj", "isrealobj",
        "broadcast_shapes"),
        "Python values of what is known of an argument: test_operands.py, test_inspection.py"),
    **dict.fromkeys(("apply_along_axis", "apply_over_axes", "fromfunction", "frompyfunc",
        "piecewise", "vectorize"), "functions of functions: test_functional.py"),
    **dict.fromkeys(("place", "put", "put_along_axis"),
        "NumPy changes its argument: test_editing.py, test_updates.py"),
    **dict.fromkeys(("partition", "argpartition"),
        "an order that NumPy leaves open: test_editing.py"),
    **dict.fromkeys(("linalg.qr", "linalg.svd", "linalg.eig", "linalg.eigh", "linalg.eigvals",
        "roots"), "unique but for signs or order: test_linalg.py, test_polynomials.py"),
    "linalg.lstsq": "residues that are empty or not, by rank: test_linalg.py",
    "mask_indices": "a function of functions: test_editing.py",
    "einsum_path": "an order, and no array: test_einstein_summation.py",
}
# fmt: on
