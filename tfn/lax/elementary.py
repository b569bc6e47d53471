"""Elementary functions: exponentials, trigonometry, erf, lgamma, element by element."""

from __future__ import annotations

from tfn.array import Array, ArrayLike
from tfn.lax.operand import array, arrays, together
from tfn.trace.op import Op


def unary(op: Op, x: ArrayLike) -> Array:
    """One op on one operand."""
    return together(op, array(x))


# Exponentials, logarithms, roots.


def exp(x: ArrayLike) -> Array:
    """e to the power of x.

    Example:
        >>> exp(0.0).tolist()
        1.0
    """
    return unary(Op.EXP, x)


def exp2(x: ArrayLike) -> Array:
    """2 to the power of x.

    Example:
        >>> exp2(3.0).tolist()
        8.0
    """
    return unary(Op.EXP2, x)


def expm1(x: ArrayLike) -> Array:
    """``exp(x) - 1``, accurate near zero.

    Example:
        >>> expm1(0.0).tolist()
        0.0
    """
    return unary(Op.EXPM1, x)


def log(x: ArrayLike) -> Array:
    """The natural logarithm.

    Example:
        >>> log(1.0).tolist(), log(0.0).tolist()
        (0.0, -inf)
    """
    return unary(Op.LOG, x)


def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2.

    Example:
        >>> log2(8.0).tolist()
        3.0
    """
    return unary(Op.LOG2, x)


def log1p(x: ArrayLike) -> Array:
    """``log(1 + x)``, accurate near zero.

    Example:
        >>> log1p(0.0).tolist()
        0.0
    """
    return unary(Op.LOG1P, x)


def sqrt(x: ArrayLike) -> Array:
    """The square root.

    Example:
        >>> sqrt(9.0).tolist()
        3.0
    """
    return unary(Op.SQRT, x)


def rsqrt(x: ArrayLike) -> Array:
    """``1 / sqrt(x)``.

    Example:
        >>> rsqrt(4.0).tolist()
        0.5
    """
    return unary(Op.RSQRT, x)


def cbrt(x: ArrayLike) -> Array:
    """The cube root, of negative values too.

    Example:
        >>> cbrt(-8.0).tolist()
        -2.0
    """
    return unary(Op.CBRT, x)


# Trigonometry.


def sin(x: ArrayLike) -> Array:
    """The sine of an angle in radians.

    Example:
        >>> sin(0.0).tolist()
        0.0
    """
    return unary(Op.SIN, x)


def cos(x: ArrayLike) -> Array:
    """The cosine of an angle in radians.

    Example:
        >>> cos(0.0).tolist()
        1.0
    """
    return unary(Op.COS, x)


def tan(x: ArrayLike) -> Array:
    """The tangent of an angle in radians.

    Example:
        >>> tan(0.0).tolist()
        0.0
    """
    return unary(Op.TAN, x)


def asin(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] with this sine.

    Example:
        >>> asin(0.0).tolist()
        0.0
    """
    return unary(Op.ASIN, x)


def acos(x: ArrayLike) -> Array:
    """The angle in [0, pi] with this cosine.

    Example:
        >>> acos(1.0).tolist()
        0.0
    """
    return unary(Op.ACOS, x)


def atan(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] with this tangent.

    Example:
        >>> atan(0.0).tolist()
        0.0
    """
    return unary(Op.ATAN, x)


def atan2(y: ArrayLike, x: ArrayLike) -> Array:
    """The angle in [-pi, pi] of the point (x, y).

    Example:
        >>> atan2(0.0, 1.0).tolist()
        0.0
    """
    return together(Op.ATAN2, *arrays(y, x))


def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine.

    Example:
        >>> sinh(0.0).tolist()
        0.0
    """
    return unary(Op.SINH, x)


def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine.

    Example:
        >>> cosh(0.0).tolist()
        1.0
    """
    return unary(Op.COSH, x)


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent.

    Example:
        >>> tanh(100.0).tolist()
        1.0
    """
    return unary(Op.TANH, x)


def asinh(x: ArrayLike) -> Array:
    """The inverse of `sinh`.

    Example:
        >>> asinh(0.0).tolist()
        0.0
    """
    return unary(Op.ASINH, x)


def acosh(x: ArrayLike) -> Array:
    """The inverse of `cosh`, not negative.

    Example:
        >>> acosh(1.0).tolist()
        0.0
    """
    return unary(Op.ACOSH, x)


def atanh(x: ArrayLike) -> Array:
    """The inverse of `tanh`.

    Example:
        >>> atanh(0.0).tolist()
        0.0
    """
    return unary(Op.ATANH, x)


# Special functions.


def logistic(x: ArrayLike) -> Array:
    """``1 / (1 + exp(-x))``.

    Example:
        >>> logistic(0.0).tolist()
        0.5
    """
    return unary(Op.LOGISTIC, x)


def erf(x: ArrayLike) -> Array:
    """The error function.

    Example:
        >>> erf(0.0).tolist(), erf(10.0).tolist()
        (0.0, 1.0)
    """
    return unary(Op.ERF, x)


def erfc(x: ArrayLike) -> Array:
    """``1 - erf(x)``, accurate for large x.

    Example:
        >>> erfc(0.0).tolist()
        1.0
    """
    return unary(Op.ERFC, x)


def erf_inv(x: ArrayLike) -> Array:
    """The inverse of `erf`.

    Example:
        >>> erf_inv(1.0).tolist()
        inf
    """
    return unary(Op.ERFINV, x)


def lgamma(x: ArrayLike) -> Array:
    """The logarithm of the magnitude of the gamma function.

    Example:
        >>> lgamma(2.0).tolist()
        0.0
    """
    return unary(Op.LGAMMA, x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of `lgamma`.

    Example:
        >>> digamma(1.0)
        Array(-0.5772157, dtype=float32)
    """
    return unary(Op.DIGAMMA, x)
