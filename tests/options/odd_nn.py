"""Rows of `tfn.nn`: functions and initializers by recorded JAX, losses by recorded optax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tests.numpy.rows import Row
from tests.options.calls import Odd
from tests.options.keywords import AXIS, last, mask, none

MATRIX = [((3, 4),), ((2, 3, 5),)]


def row(shapes: Sequence[Any] = MATRIX, *args: Any, **rest: Any) -> Row:
    """Operands of a function, with arguments that follow them."""
    how = {"ulps": 64, "spread": True, "kinds": ["float32"], "within": (-2, 2), **rest}
    return Row(how.pop("kinds"), shapes, [args], **how)


def odd(row: Row, **values: Any) -> Odd:
    """A row with the odd values of its keywords."""
    return Odd(row, {}, values)


KINDS = ["float32", "float16", "bfloat16", "complex64", "float64"]
SIZES = [(2, 3), (5,), (), (3, 3, 2, 4), (3, 3, 4, 2)]


def made(
    f: Callable[..., Any], _: Any, sizes: Sequence[int], asked: bool = False, **how: Any
) -> Any:
    """The array of an initializer, which is told its dtype when it is made or when it is asked."""
    dtype = [how.pop("dtype")] if asked and "dtype" in how else []
    key = import_module(f"{f.__module__.split('.')[0]}.random").key(7)
    return (f if f.__name__ in ("zeros", "ones") else f(**how))(key, sizes, *dtype)


def initial(given: Mapping[str, Any] = {}, **values: Any) -> Odd:
    """An initializer: shapes and dtypes are odd."""
    drawn = Row(["float32"], [()], spread=True, ulps=2**8, call=made, jit=False)
    odds = {"dtype": KINDS, "asked": [True], "sizes": SIZES, **values}
    return Odd(drawn, {"sizes": (3, 2, 4), **given}, odds)


# fmt: off
FANS = {"in_axis": [0, (0, 1), -1, 7], "out_axis": [0, (-1, 0), 1, 7], "batch_axis": [0, (0,), (1,
    2), 7]}
COLUMNS = {"scale": [2., 0.], "column_axis": [0, 1, -2, 7], "dtype": ["float32", "complex64"]}
SCALED = {"scale": [0., 9.], "mode": ["fan_out", "fan_avg", "fan_geo_avg", "odd"],
    "distribution": ["uniform", "truncated_normal", "odd"]}
INITIALIZERS = {
    "zeros": initial(dtype=(), asked=()), "ones": initial(dtype=(), asked=()),
    "constant": initial({"value": 2.5}, value=[np.nan, -1, np.float32([1, 2, 3, 4])]),
    "uniform": initial(scale=[2., -1., 0.]), "normal": initial(stddev=[2., -1., 0.]),
    "truncated_normal": initial(stddev=[2., 0.], lower=[-.5, -np.inf, 3.], upper=[.5, np.inf]),
    "orthogonal": initial(**COLUMNS), "delta_orthogonal": initial(**COLUMNS),
    "variance_scaling": initial({"scale": 2., "mode": "fan_in", "distribution": "normal"}, **SCALED,
        **FANS),
    **{f"{name}_{kind}": initial(**FANS) for name in ("lecun", "glorot", "he")
        for kind in ("normal", "uniform")},
}
LEFT = {"fans": "its axes are those of the initializers"}
TWO = [((3, 4), (3, 4))]
PLACED = {"axis": [0, -1, 1, 7], "where": [mask, last, none]}
OF_CLASSES = {"where": [mask, none, lambda x, y: mask(x)[..., 0]]}
LOSSES = {
    "softmax_cross_entropy": odd(row(TWO, within=((-2, 2), (0, 1))), **OF_CLASSES,
        axis=[0, -1, 1, 7]),
    "softmax_cross_entropy_with_integer_labels": odd(row([((3, 4), (3,)), ((2, 4, 3), (2, 4))],
        kinds=(["float32"], ["int32"]), within=((-2, 2), (0, 2))), **OF_CLASSES,
        axis=[0, -1, -2, 7]),
    "squared_error": odd(row([((3, 4),)]), targets=[lambda x: x / 3 - 1]),
    "l2_loss": odd(row([((3, 4),)]), targets=[lambda x: x / 3 - 1]),
    "log_cosh": odd(row([((3, 4),)]), targets=[0., 2., np.float32([1, 2, 3, 4]), lambda x: x / 3]),
    "huber_loss": odd(row([((3, 4),)]), targets=[0., 2., lambda x: x / 3 - 1],
        delta=[.5, 0., -1., 99.]),
    "cosine_similarity": odd(row(TWO), **PLACED, epsilon=[0., .5, 50.]),
    "kl_divergence": odd(row(TWO, within=((-3, 0), (0, 1))), **PLACED),
}
MASKED = {"axis": [*AXIS, (0, 1), None], "where": [mask, last, none]}
NN = {
    **{name: odd(row(), **MASKED) for name in ("softmax", "log_softmax",
        "logmeanexp")},
    "standardize": odd(row(ulps=2**14), **{**MASKED, "where": [mask, last]}, mean=[0., None],
        variance=[1., None], epsilon=[.5, 0.]),
    "logsumexp": odd(row(), **MASKED, b=[2., -1., lambda x: x], return_sign=[True, False]),
    "celu": odd(row(), alpha=[.5, 2.]), "elu": odd(row(), alpha=[.5, 2., 0.]),
    "gelu": odd(row(), approximate=[True, False]), "glu": odd(row([((4, 6),)]), axis=[0, -1, 7]),
    "leaky_relu": odd(row(), negative_slope=[.5, 0., -1.]), "squareplus": odd(row(), b=[1., 0.]),
    "one_hot": odd(row([((3,),), ((2, 2),)], 4, kinds=["int32"], within=(-1, 5)), num_classes=[0, 1,
        3], axis=[0, -1, 1, 7], dtype=["float32", "int32", "bool"]),
}
# fmt: on
