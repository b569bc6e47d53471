"""Functions of a distribution that follow from its density, by a formula each.

The module of a distribution defines ``logpdf`` or ``logpmf``, with parameters and their meaning:

    pdf = density(logpdf, 0.242)
    cdf = of_point(logpdf, "cdf", ndtr, 0.841)
    sf = of_point(logpdf, "sf", lambda z: ndtr(-z), 0.159)
    logcdf = logarithm(cdf, sf, -0.173)
    ppf = of_probability(logpdf, "ppf", ndtri, 1.282)

Each has the parameters and the example of ``logpdf``; the last argument is its result there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tfn import numpy as jnp
from tfn.array import Array
from tfn.scipy.stats.location_scale import rescale, standardize

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Array])
Formula = Callable[..., Array]

TITLES = {
    "cdf": "The probability of a value of at most {}.",
    "sf": "The probability of a value above {}.",
    "logcdf": "The logarithm of `cdf`.",
    "logsf": "The logarithm of `sf`.",
    "ppf": "The point that is not exceeded with probability {}: the inverse of `cdf`.",
    "isf": "The point that is exceeded with probability {}: the inverse of `sf`.",
}
"""First lines of docstrings, for the name of the first parameter."""


def density(log: Callable[P, Array], result: float) -> Callable[P, Array]:
    """`pdf` of ``logpdf``, or `pmf` of ``logpmf``."""

    def values(*args: P.args, **kwargs: P.kwargs) -> Array:
        return jnp.exp(log(*args, **kwargs))

    first_line, _, _ = (log.__doc__ or "").partition("\n")
    title = first_line.replace("The logarithm of the", "The").replace("-inf", "0")
    return _described(values, log, log.__name__.removeprefix("log"), result, title=title)


def logarithm(
    of: Callable[P, Array], rest: Callable[P, Array], result: float
) -> Callable[P, Array]:
    """`logcdf` of ``cdf`` and ``sf``, or `logsf` of ``sf`` and ``cdf``: of the smaller of both."""

    def values(*args: P.args, **kwargs: P.kwargs) -> Array:
        part = of(*args, **kwargs)
        large = part > 0.5
        small = jnp.where(large, rest(*args, **kwargs), 0)
        return jnp.where(large, jnp.log1p(-small), jnp.log(jnp.where(large, 1, part)))

    return _described(values, of, f"log{of.__name__}", result)


def of_point(
    model: Callable[P, Array], name: str, formula: Formula, result: float
) -> Callable[P, Array]:
    """`cdf`, `sf`, or the logarithm of one: a formula of ``(x - loc) / scale`` and the shapes."""
    signature = inspect.signature(model)
    full_name = f"{_distribution(model)}.{name}"
    unit = () if "scale" in signature.parameters else (1,)

    def values(*args: P.args, **kwargs: P.kwargs) -> Array:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        z, *shapes, _ = standardize(full_name, *bound.args, *unit)
        return formula(z, *shapes)

    return _described(values, model, name, result)


def of_probability(
    model: Callable[P, Array], name: str, formula: Formula, result: float, parameter: str = "q"
) -> Callable[..., Array]:
    """`ppf` or `isf`: a formula of probabilities and the shapes, for no loc and a scale of 1.

    Args:
        model: the function whose parameters it has, but for the first.
        name: its name.
        formula: its values.
        result: its value at 0.9, and the other arguments of the model's example.
        parameter: its first parameter.
    """
    full_name = f"{_distribution(model)}.{name}"

    def values(*args: Any, **kwargs: Any) -> Array:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        *q_shapes, loc, scale = bound.args
        z, *shapes, _ = standardize(full_name, *q_shapes, 0, 1)
        return rescale(formula(z, *shapes), loc, scale)

    run = _described(values, model, name, result, parameter)
    signature = inspect.signature(run)
    return run


def _distribution(model: Any) -> str:
    """The name of a distribution, which is that of its module."""
    return str(model.__module__).rpartition(".")[2]


def _described(
    function: F, model: Any, name: str, result: float, parameter: str = "", title: str = ""
) -> F:
    """A function with the documentation of a model, but for its name, title and result."""
    signature = inspect.signature(model)
    first, *others = signature.parameters.values()
    text = (model.__doc__ or "").partition("\n")[2]
    text = re.sub(rf"\.{model.__name__}(\(.*\n\s+).*\n", rf".{name}\g<1>{result}\n", text)
    if parameter:
        text = text.replace(f"{first.name}: points,", f"{parameter}: probabilities from 0 to 1,")
        text = re.sub(rf"(?<=\.{name}\()[^,)]+", "0.9", text)
        first = first.replace(name=parameter)
    title = title or TITLES[name].format(first.name)
    values: Any = function
    values.__doc__ = f"{title}\n{text}"
    values.__name__ = values.__qualname__ = name
    values.__module__ = model.__module__
    values.__signature__ = signature.replace(parameters=[first, *others])
    values.__annotations__ = {p.name: p.annotation for p in (first, *others)} | {
        "return": signature.return_annotation
    }
    return function
