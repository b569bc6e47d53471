"""Control flow in the forms that JAX takes beside those of `tfn.lax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn import lax
from tfn.dtypes import INTEGERS
from tfn.extend import run

ARGUMENTS_BY_BRANCH = 4
"""The number of arguments of a `cond` whose branches have operands of their own."""


def cond(pred: Any, *args: Any, **kwargs: Any) -> Any:
    """`tfn.lax.cond`, or of branches with an operand each: ``cond(p, x, f, y, g)``.

    Example:
        >>> float(cond(False, 1.0, lambda x: x, 2.0, lambda y: 10 * y))
        20.0
    """
    if len(args) == ARGUMENTS_BY_BRANCH and callable(args[1]) and callable(args[3]):
        x, f, y, g = args
        return lax.cond(pred, lambda x, _: f(x), lambda _, y: g(y), x, y, **kwargs)
    return lax.cond(pred, *args, **kwargs)


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, **options: Any
) -> Any:
    """`tfn.lax.fori_loop`, whose bounds may be floating too.

    Example:
        >>> float(fori_loop(0.0, 2.5, lambda i, total: total + i, 0.0))
        3.0
    """
    low, high = run.asarray(lower), run.asarray(upper)
    if low.dtype in INTEGERS and high.dtype in INTEGERS:
        return lax.fori_loop(lower, upper, body_fun, init_val, **options)
    _, value = lax.while_loop(
        lambda carry: carry[0] < high,
        lambda carry: (carry[0] + 1, body_fun(*carry)),
        (low.astype(high.dtype) if low.weak_type else low, init_val),
    )
    return value
