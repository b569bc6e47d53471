"""Functions of real numbers, one element at a time: exp, sin, sqrt and their like.

Integers and booleans become float32 first.
"""

from __future__ import annotations

import math

from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, DType
from tfn.eager.arrays import weaken
from tfn.eager.operands import apply, array_of, inexact, need_real
from tfn.trace.bind import bind
from tfn.trace.build import cast, complex_, full_like, imag, unary, where
from tfn.trace.build import real as part
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def real(op: Op, name: str, x: ArrayLike) -> Array:
    """An op of one operand, array or number, of which integers become float32 first.

    Args:
        op: the op.
        name: name of the function that was called, for errors.
        x: array or number, of any shape.
    """
    x = array_of(name, x)
    dtype, weak = inexact((x.dtype, x.weak_type))
    if dtype is x.dtype:
        result: Array = bind(op, x, weak=weak)
        return result
    return apply(_real, (x,), op, dtype, weak=weak)


def _real(x: UOp, op: Op, dtype: DType) -> UOp:
    return UOp(op, (cast(x, dtype),))


def exp(x: ArrayLike, /) -> Array:
    """The exponential ``e**x``.

    Example:
        >>> import tfn.numpy as tnp
        >>> exp(tnp.array([0, 1]))
        Array([1.       , 2.7182817], dtype=float32)
    """
    return real(Op.EXP, "exp", x)


def fabs(x: ArrayLike, /) -> Array:
    """The absolute value of a real number, always floating.

    Raises:
        DTypeError: for complex numbers; see `abs`.

    Example:
        >>> fabs(-3)
        Array(3., dtype=float32, weak_type=True)
    """
    need_real("fabs", x)
    return real(Op.ABS, "fabs", x)


def exp2(x: ArrayLike, /) -> Array:
    """The power ``2**x``.

    Example:
        >>> import tfn.numpy as tnp
        >>> exp2(tnp.array([-1.0, 3.0]))
        Array([0.5, 8. ], dtype=float32)
    """
    return real(Op.EXP2, "exp2", x)


def expm1(x: ArrayLike, /) -> Array:
    """The exponential less 1, ``e**x - 1``; accurate near 0.

    Example:
        >>> expm1(1e-10).item() > 0
        True
    """
    return real(Op.EXPM1, "expm1", x)


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; -inf at 0, NaN below.

    Example:
        >>> import tfn.numpy as tnp
        >>> log(tnp.array([1.0, 0.0, -1.0]))
        Array([  0., -inf,  nan], dtype=float32)
    """
    return real(Op.LOG, "log", x)


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    Example:
        >>> log2(8).item()
        3.0
    """
    return weaken(real(Op.LOG2, "log2", x), False)


def log1p(x: ArrayLike, /) -> Array:
    """The natural logarithm of 1 + x; accurate near 0.

    Example:
        >>> log1p(1e-10).item() > 0
        True
    """
    return real(Op.LOG1P, "log1p", x)


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below 0.

    Example:
        >>> import tfn.numpy as tnp
        >>> sqrt(tnp.array([4, 2]))
        Array([2.       , 1.4142135], dtype=float32)
        >>> sqrt(-1 + 0j).item()
        1j
    """
    return real(Op.SQRT, "sqrt", x)


def cbrt(x: ArrayLike, /) -> Array:
    """The cube root.

    Example:
        >>> cbrt(-8.0).item()
        -2.0
    """
    return real(Op.CBRT, "cbrt", x)


def sin(x: ArrayLike, /) -> Array:
    """The sine of an angle in radians.

    Example:
        >>> import tfn.numpy as tnp
        >>> sin(tnp.array([0.0, 0.5]))
        Array([0.        , 0.47942555], dtype=float32)
    """
    return real(Op.SIN, "sin", x)


def cos(x: ArrayLike, /) -> Array:
    """The cosine of an angle in radians.

    Example:
        >>> cos(0.0).item()
        1.0
    """
    return real(Op.COS, "cos", x)


def tan(x: ArrayLike, /) -> Array:
    """The tangent of an angle in radians.

    Example:
        >>> tan(0.0).item()
        0.0
    """
    return real(Op.TAN, "tan", x)


def arcsin(x: ArrayLike, /) -> Array:
    """The angle in radians whose sine is x.

    Example:
        >>> import tfn.numpy as tnp
        >>> arcsin(tnp.array([0.0, 2.0]))
        Array([ 0., nan], dtype=float32)
    """
    return real(Op.ASIN, "arcsin", x)


def arccos(x: ArrayLike, /) -> Array:
    """The angle in radians whose cosine is x.

    Example:
        >>> arccos(1.0).item()
        0.0
    """
    return real(Op.ACOS, "arccos", x)


def arctan(x: ArrayLike, /) -> Array:
    """The angle in radians whose tangent is x.

    Example:
        >>> import tfn.numpy as tnp
        >>> arctan(tnp.array([0.0, 1.0]))
        Array([0.       , 0.7853982], dtype=float32)
    """
    return real(Op.ATAN, "arctan", x)


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine.

    Example:
        >>> import tfn.numpy as tnp
        >>> sinh(tnp.array([0.0, 1.0]))
        Array([0.       , 1.1752012], dtype=float32)
    """
    return real(Op.SINH, "sinh", x)


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine.

    Example:
        >>> cosh(0.0).item()
        1.0
    """
    return real(Op.COSH, "cosh", x)


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.

    Example:
        >>> import tfn.numpy as tnp
        >>> tanh(tnp.array([0.0, 100.0]))
        Array([0., 1.], dtype=float32)
    """
    return real(Op.TANH, "tanh", x)


def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse of `sinh`.

    Example:
        >>> arcsinh(0.0).item()
        0.0
    """
    return real(Op.ASINH, "arcsinh", x)


def arccosh(x: ArrayLike, /) -> Array:
    """The inverse of `cosh`; NaN below 1.

    Example:
        >>> arccosh(1.0).item()
        0.0
    """
    return real(Op.ACOSH, "arccosh", x)


def arctanh(x: ArrayLike, /) -> Array:
    """The inverse of `tanh`; NaN outside of [-1, 1].

    Example:
        >>> import tfn.numpy as tnp
        >>> arctanh(tnp.array([0.0, 1.0]))
        Array([ 0., inf], dtype=float32)
    """
    return real(Op.ATANH, "arctanh", x)


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10.

    Example:
        >>> log10(1000.0).item()
        3.0
    """
    return _scaled("log10", x, Op.LOG, 1 / math.log(10))


def deg2rad(x: ArrayLike, /) -> Array:
    """The angle in radians of one in degrees.

    Example:
        >>> deg2rad(180.0).item()
        3.1415927410125732
    """
    return _scaled("deg2rad", x, None, math.pi / 180)


def rad2deg(x: ArrayLike, /) -> Array:
    """The angle in degrees of one in radians.

    Example:
        >>> import tfn.numpy as tnp
        >>> rad2deg(tnp.pi).item()
        180.0
    """
    return _scaled("rad2deg", x, None, 180 / math.pi)


def sinc(x: ArrayLike, /) -> Array:
    """The normalised sinc function ``sin(pi x) / (pi x)``, and 1 at 0.

    Example:
        >>> sinc(0.0)
        Array(1., dtype=float32)
    """
    x = array_of("sinc", x)
    return apply(_sinc, (x,), inexact((x.dtype, False))[0])


SINC_TERMS = 8
"""Terms of the power series up to 0.5: enough for the third derivative in float64."""


def _sinc(x: UOp, dtype: DType) -> UOp:
    angle = cast(x, dtype) * math.pi
    zero, one = full_like(angle, 0), full_like(angle, 1)
    small = unary(Op.ABS, angle) < 0.5  # the derivatives of the quotient cancel there
    near, far = (where(small, *pair) for pair in ((angle, zero), (one, angle)))
    square, series = near * near, zero
    for n in range(SINC_TERMS, 0, -1):
        series = (series + 1) * square * (-1 / (2 * n * (2 * n + 1)))
    return where(small, series + 1, unary(Op.SIN, far) / far)


def _scaled(name: str, x: ArrayLike, op: Op | None, factor: float) -> Array:
    x = array_of(name, x)
    return apply(_scale, (x,), op, inexact((x.dtype, False))[0], factor)


def _scale(x: UOp, op: Op | None, dtype: DType, factor: float) -> UOp:
    x = cast(x, dtype)
    x = x if op is None else unary(op, x)
    if dtype not in COMPLEXES:
        return x * factor
    return complex_(
        part(x) * factor, imag(x) * factor
    )  # a complex factor would make NaN of 0 times infinity


acos, asin, atan = arccos, arcsin, arctan
acosh, asinh, atanh = arccosh, arcsinh, arctanh
degrees, radians = rad2deg, deg2rad
