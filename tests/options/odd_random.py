"""Rows of `tfn.random`, compared with recorded JAX: the same keys give the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tests.numpy.rows import Row
from tests.options.calls import Odd

F32 = ["float32"]
FLOATS = ["float32", "float16", "bfloat16"]
SHAPES = [(), (3,), (0,), (2, 3), (-1,)]


def keyed(function: Callable[..., Any], operands: Sequence[Any], *rest: Any, **how: Any) -> Any:
    """A random function, with a key before the operands."""
    package = function.__module__.split(".")[0]
    asarray = import_module(f"{package}.numpy").asarray
    if str(how.get("dtype")) in FLOATS:  # JAX mixes no dtypes here
        operands = [asarray(x, how["dtype"]) for x in operands]
    return function(import_module(f"{package}.random").key(7), *operands, *rest, **how)


def words(function: Callable[..., Any], operands: Sequence[Any], *rest: Any, **how: Any) -> Any:
    """The words of the keys that a random function gives."""
    module = import_module(f"{function.__module__.split('.')[0]}.random")
    return module.key_data(keyed(function, operands, *rest, **how))


def sampled(
    *args: Any, shapes: Any = ((),), within: Any = (0.3, 2), given: Any = None, **values: Any
) -> Odd:
    """A random function: shapes and dtypes are odd."""
    drawn = Row(F32, shapes, [args], within=within, spread=True, ulps=64, call=keyed)
    return Odd(drawn, given or {}, {"dtype": FLOATS, "shape": SHAPES, **values})


# fmt: off
RANDOM = {
    **{name: sampled() for name in ("normal", "exponential", "cauchy", "laplace", "logistic",
        "maxwell", "rademacher")},
    "gumbel": sampled(mode=["low", "high", "odd"]),
    "uniform": sampled(minval=[-1., 2., np.float32([1, 2, 3])], maxval=[5., 0., np.float32([3, 4,
        5])]),
    "bernoulli": sampled(p=[0., 1., .3, np.float32([.1, .9]), np.nan], mode=["low", "high", "odd"],
        shape=[(2,), (3, 2), None], dtype=()),
    "choice": sampled(shapes=[((5,),)], replace=[True, False], axis=[0, -1, 4], dtype=(),
        mode=[None, "low", "high"], p=[np.float32([.1, .2, .3, .4, 0]),
        np.float32([.2] * 5)]),
    "categorical": sampled(shapes=[((3, 4),)], axis=[0, -1, 1, 5], replace=[True, False],
        shape=[None, (3,), (2, 3), (7,)], mode=[None, "low", "high", "odd"], dtype=()),
    "permutation": sampled(shapes=[((5,),), ((4, 3),)], shape=(), dtype=(), axis=[0, -1, 4],
        independent=[True, False]),
    "randint": sampled((3,), 0, 9, shapes=[()], minval=[-4, 9, 300], maxval=[9, 1, -4],
        dtype=["int32", "int8", "uint8", "float32"]),
    "bits": sampled(dtype=["uint8", "uint16", "uint32", "int32"], shapes=[()]),
    "split": Odd(Row(F32, [()], [()], call=words), {}, {"num": [1, 3, (2, 2), 0]}),
    "gamma": sampled(shapes=[((3,),)]), "loggamma": sampled(shapes=[((3,),)]),
    "beta": sampled(shapes=[((3,), (3,))]), "chisquare": sampled(shapes=[((3,),)]),
    "dirichlet": sampled(shapes=[((3,),)]), "f": sampled(shapes=[((3,), (3,))], shape=[(3,), None]),
    "t": sampled(shapes=[((3,),)], shape=[(3,), (2, 3)], given={"shape": (3,)}),
        "pareto": sampled(shapes=[((3,),)]),
    "geometric": sampled(shapes=[((3,),)], within=(.2, .9), dtype=["int32"]),
    "poisson": sampled(shapes=[((3,),)], within=(1, 30), dtype=["int32"]),
    "binomial": sampled(shapes=[((3,), (3,))], within=((3, 9), (.2, .8)), dtype=["float32"]),
    "rayleigh": sampled(shapes=[((3,),)]), "wald": sampled(shapes=[((3,),)]),
    "lognormal": sampled(dtype=["float32"], shapes=[()], sigma=[.5, 2., np.float32([1, 2])]),
    "triangular": sampled(shapes=[((3,), (3,), (3,))], within=((0, 1), (1, 2), (2, 3))),
    "truncated_normal": sampled(-1., 2., shapes=[()], lower=[-np.inf, 0.], upper=[np.inf, 3.]),
    "weibull_min": sampled(shapes=[((3,), (3,))]), "generalized_normal": sampled(1.5, shapes=[()]),
    "double_sided_maxwell": sampled(.5, 2., shapes=[()]), "ball": sampled(3, shapes=[()],
        d=[1, 2, 0], p=[1, 2, np.inf]),
    "orthogonal": sampled(3, shapes=[()], n=[1, 2], m=[None, 2, 5], dtype=["float32"]),
    "multivariate_normal": sampled(np.float32([1, 2]), np.float32([[2, .5], [.5, 1]]), shapes=[()],
        method=["cholesky", "svd", "eigh", "odd"], dtype=["float32"], shape=[None, (3,), ()]),
}
# fmt: on
LEFT = {
    **dict.fromkeys(("PRNGKey", "key", "key_dtype", "wrap_key_data"), "keys: tests/random"),
    "multinomial": "sums of binomial samples, whose order is ours: tests/random",
}
"""Functions without a row, with the reason."""
