"""Rounding to whole numbers: down, up, nearest, towards zero."""

from __future__ import annotations

import numpy as np

from tfn._support.validate import integer, no_out
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, FLOATS, INEXACT
from tfn.eager.operands import REAL, apply, array_of, need
from tfn.numpy.arithmetic import composed, plain, signed
from tfn.trace.build import cast, complex_, imag, real, unary, where
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def floor(x: ArrayLike, /) -> Array:
    """The largest whole number that is not above x.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> floor(tnp.array([-1.5, 1.2]))
        Array([-2.,  1.], dtype=float32)
    """
    return _whole(Op.FLOOR, "floor", x)


def ceil(x: ArrayLike, /) -> Array:
    """The smallest whole number that is not below x.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> ceil(tnp.array([-1.5, 1.2]))
        Array([-1.,  2.], dtype=float32)
    """
    return _whole(Op.CEIL, "ceil", x)


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, halves to even; always floating.

    Example:
        >>> import tfn.numpy as tnp
        >>> rint(tnp.array([0.5, 1.5, 2.6]))
        Array([0., 2., 3.], dtype=float32)
    """
    return composed(_rint, "rint", x, floating=True)


def _rint(x: UOp) -> UOp:
    return _round(x, 0)


def trunc(x: ArrayLike) -> Array:
    """The number rounded towards zero.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> trunc(tnp.array([-1.5, 1.2]))
        Array([-1.,  1.], dtype=float32)
    """
    x = array_of("trunc", x)
    need("trunc", x.dtype, REAL | {BOOL}, "real numbers")
    return apply(_trunc, (x,), weak=x.weak_type) if x.dtype in FLOATS else x


def _trunc(x: UOp) -> UOp:
    return where(signed(x), unary(Op.CEIL, x), unary(Op.FLOOR, x))


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """The number rounded to a number of decimals, halves to even.

    Args:
        a: array or number, of any shape.
        decimals: digits behind the point that stay; before it, if negative.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ArgumentError: unless `decimals` is an integer.

    Example:
        >>> round(2.5), round(0.125, 2)
        (Array(2., dtype=float32, weak_type=True), Array(0.12, dtype=float32, weak_type=True))
    """
    no_out("round", out)
    a, decimals = array_of("round", a), integer("round", "decimals", decimals)
    if a.dtype not in INEXACT and decimals >= 0:
        return a
    if not decimals and a.dtype in FLOATS:
        return plain(Op.ROUND, "round", a)
    return apply(_round, (a,), decimals, weak=a.weak_type)


def _round(x: UOp, decimals: int) -> UOp:
    if x.dtype in COMPLEXES:
        return complex_(_round(real(x), decimals), _round(imag(x), decimals))
    if x.dtype not in FLOATS:
        step = 10**-decimals
        return cast(unary(Op.ROUND, cast(x, np.dtype("float64")) / step) * step, x.dtype)
    if decimals < 0:
        return unary(Op.ROUND, x / float(10**-decimals)) * float(10**-decimals)
    return unary(Op.ROUND, x * float(10**decimals)) / float(10**decimals)


def _whole(op: Op, name: str, x: ArrayLike) -> Array:
    x = array_of(name, x)
    need(name, x.dtype, REAL | {BOOL}, "real numbers")
    return plain(op, name, x) if x.dtype in FLOATS else x


fix, around = trunc, round
