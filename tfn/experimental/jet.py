"""`jet`: Taylor-mode differentiation, all derivatives along a curve in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

from tfn import tree
from tfn.dtypes import INEXACT
from tfn.errors import ArgumentError, GradientError, TreeError
from tfn.experimental.taylor import Propagation, Series
from tfn.extend import UOp, a_function, as_value, build, several, tracing
from tfn.transforms.arguments import show
from tfn.transforms.grad import variable


class ZeroSeries:
    """The class of `zero_series`."""


zero_series = ZeroSeries()
"""In `jet`, the terms of an argument that stays where it is, of as many as the others have."""


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any] | ZeroSeries],
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """The value of a function of a curve, and its derivatives by the curve's parameter.

    The curve is ``x(t) = x0 + x1 t + x2 t**2 / 2 + ...``.  All orders are computed together, at a
    cost that grows with the square of the order, where nested `tfn.jvp` doubles it each time.

    Args:
        fun: a function of trees of arrays.
        primals: its arguments, x0.
        series: for each argument a list of its derivatives x1, x2, ..., all lists of one length, or
            `zero_series`.
        factorial_scaled: whether terms are derivatives; otherwise they are coefficients of powers,
            x2 of t**2.

    Returns:
        (value, derivatives): for each array of the value a list of derivatives.

    Raises:
        ArgumentError: for lists of different lengths.
        TreeError: for a term that is unlike its argument.
        GradientError: for an argument of integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> value, (first, second, third) = jet(tnp.sin, (0.0,), ((1.0, 0.0, 0.0),))
        >>> float(value), float(first), float(second), float(third)
        (0.0, 1.0, 0.0, -1.0)
    """
    a_function("jet", "fun", fun)
    primals = several("jet", "primals", primals, "arguments")
    given = several("jet", "series", series)
    longest = max((len(terms) for terms in given if isinstance(terms, Sequence)), default=0)
    terms_of: list[Sequence[Any]] = [
        [tree.map(lambda leaf: leaf * 0, primals[i])] * longest
        if terms is zero_series and i < len(primals)
        else several("jet", "series", terms, "terms")
        for i, terms in enumerate(given)
    ]
    lengths = {len(terms) for terms in terms_of}
    if len(lengths) != 1 or len(primals) != len(terms_of):
        raise ArgumentError(
            "jet needs a list of as many terms for each argument",
            got=f"{len(primals)} argument(s), and {[len(terms) for terms in terms_of]} terms",
            hint="write a zero for a term that is not there",
        )
    (order,) = lengths
    flat, structure = tree.flatten(tuple(primals))
    values = [as_value(x, f"primals[{i}]") for i, x in enumerate(flat)]
    for value in values:
        if value.dtype not in INEXACT:
            raise GradientError(
                "jet differentiates by floating and complex arguments", got=show(value)
            )
    terms = [_term(structure, tuple(some[k] for some in terms_of), k) for k in range(order)]
    recorded = tracing.record(
        "jet", fun, lambda xs: fun(*tree.unflatten(structure, xs)), values, known=True
    )
    curves: dict[UOp, Series] = {}
    for i, (x, value) in enumerate(zip(recorded.inputs, values, strict=True)):
        curve: Series = [x]
        for k in range(order):
            term = as_value(terms[k][i], f"series[{i}][{k}]")
            if term.shape != value.shape:
                raise TreeError(
                    f"term {k} of argument {i} of jet must be of the shape of the argument",
                    got=f"{show(term)} instead of {show(value)}",
                )
            scaled = build.cast(variable(term, term), value.dtype)
            curve.append(scaled / factorial(k + 1) if factorial_scaled else scaled)
        curves[x] = curve
    found = Propagation(order, curves).series(recorded.outputs)
    rows = [
        [
            build.zeros(u.shape, u.dtype)
            if y is None
            else y * (factorial(k) if factorial_scaled else 1)
            for k, y in enumerate(row[1:], 1)
        ]
        for u, row in zip(recorded.outputs, found, strict=True)
    ]
    outputs, *lists = recorded.evaluate(recorded.outputs, *rows)
    return tree.unflatten(recorded.structure, outputs), tree.unflatten(recorded.structure, lists)


def _term(structure: tree.Structure, term: Any, k: int) -> list[Any]:
    """The leaves of term `k` of all arguments."""
    leaves, got = tree.flatten(term)
    if got != structure:
        raise TreeError(
            f"term {k} of jet must have the structure of the arguments",
            got=f"{tree.show(got)} instead of {tree.show(structure)}",
            hint="series has a list for each argument, each with terms like the argument",
        )
    return leaves
