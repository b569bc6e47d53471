"""Derivatives in forward mode, for functions of many branches: `by_forward_mode`.

Reverse mode multiplies the slope of a branch that is not taken by 0, which is NaN where the slope
is infinite; forward mode chooses among tangents.  A function whose every derivative is found in
forward mode has one value for each, in whatever order it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn.array import Array
from tfn.numpy.creation import ones_like, zeros_like
from tfn.numpy.logic import where
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.linearize import jvp

Function = Callable[..., Array]


def defined(value: Array) -> Array:
    """1, and NaN where a value is NaN: a factor, since a choice would have a slope of 0 there."""
    one = ones_like(value)
    return where(value == value, one, one * float("nan"))


def slope_by(f: Function, i: int) -> Function:
    """The rule of the derivative of a function by argument i, for `custom_jvp.defjvps`.

    It is NaN where the function is, and its own derivatives are found in forward mode, too.
    """

    def slope(*xs: Array) -> Array:
        dxs = [ones_like(x) if j == i else zeros_like(x) for j, x in enumerate(xs)]
        value, found = jvp(f, xs, tuple(dxs))
        return found * defined(value)

    def rule(dx: Array, out: Array, *xs: Array) -> Array:
        product: Array = dx * by_forward_mode(slope, len(xs))(*xs)
        return product

    return rule


def by_forward_mode(f: Function, count: int = 1) -> Function:
    """The same function of so many arrays, one element at a time, with derivatives by forward mode.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> def f(x):
        ...     return tnp.where(x > 0, tnp.log(x), 0.0)
        >>> tfn.grad(f)(0.0).item(), tfn.grad(by_forward_mode(f))(0.0).item()
        (nan, 0.0)
    """
    function = custom_jvp(f)
    function.defjvps(*[slope_by(f, i) for i in range(count)])
    return function
