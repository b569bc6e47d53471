"""Elementary functions: exponentials, trigonometry, erf, lgamma, element by element."""

from __future__ import annotations

from tfn.array import Array, ArrayLike
from tfn.lax.operand import array, arrays, binary_of, together
from tfn.numpy.arithmetic import angle
from tfn.trace.op import Op


def unary(op: Op, x: ArrayLike) -> Array:
    """One op on one operand."""
    return together(op, array(x))


# Exponentials, logarithms, roots.


def exp(x: ArrayLike) -> Array:
    """Returns e to the power of x.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> exp(0.0).tolist()
        1.0
    """
    return unary(Op.EXP, x)


def exp2(x: ArrayLike) -> Array:
    """Returns 2 to the power of x.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> exp2(3.0).tolist()
        8.0
    """
    return unary(Op.EXP2, x)


def expm1(x: ArrayLike) -> Array:
    """Returns ``exp(x) - 1``, accurate near zero.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> expm1(0.0).tolist()
        0.0
    """
    return unary(Op.EXPM1, x)


def log(x: ArrayLike) -> Array:
    """Returns the natural logarithm: -inf at 0, NaN for negative x.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> log(1.0).tolist(), log(0.0).tolist()
        (0.0, -inf)
    """
    return unary(Op.LOG, x)


def log2(x: ArrayLike) -> Array:
    """Returns the logarithm to base 2: -inf at 0, NaN for negative x.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> log2(8.0).tolist()
        3.0
    """
    return unary(Op.LOG2, x)


def log1p(x: ArrayLike) -> Array:
    """Returns ``log(1 + x)``, accurate near zero: -inf at -1, NaN below.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> log1p(0.0).tolist()
        0.0
    """
    return unary(Op.LOG1P, x)


def sqrt(x: ArrayLike) -> Array:
    """Returns the square root, NaN for negative x.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> sqrt(9.0).tolist()
        3.0
    """
    return unary(Op.SQRT, x)


def rsqrt(x: ArrayLike) -> Array:
    """Returns ``1 / sqrt(x)``: inf at 0, NaN for negative x.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> rsqrt(4.0).tolist()
        0.5
    """
    return unary(Op.RSQRT, x)


def cbrt(x: ArrayLike) -> Array:
    """Returns the cube root, of negative values too.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> cbrt(-8.0).tolist()
        -2.0
    """
    return unary(Op.CBRT, x)


# Trigonometry.


def sin(x: ArrayLike) -> Array:
    """Returns the sine of an angle in radians.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> sin(0.0).tolist()
        0.0
    """
    return unary(Op.SIN, x)


def cos(x: ArrayLike) -> Array:
    """Returns the cosine of an angle in radians.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> cos(0.0).tolist()
        1.0
    """
    return unary(Op.COS, x)


def tan(x: ArrayLike) -> Array:
    """Returns the tangent of an angle in radians.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> tan(0.0).tolist()
        0.0
    """
    return unary(Op.TAN, x)


def asin(x: ArrayLike) -> Array:
    """Returns the angle in [-pi/2, pi/2] with this sine; NaN outside of [-1, 1].

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> asin(0.0).tolist()
        0.0
    """
    return unary(Op.ASIN, x)


def acos(x: ArrayLike) -> Array:
    """Returns the angle in [0, pi] with this cosine; NaN outside of [-1, 1].

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> acos(1.0).tolist()
        0.0
    """
    return unary(Op.ACOS, x)


def atan(x: ArrayLike) -> Array:
    """Returns the angle in [-pi/2, pi/2] with this tangent.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> atan(0.0).tolist()
        0.0
    """
    return unary(Op.ATAN, x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the angle in [-pi, pi] whose tangent is ``x / y``: that of the point (y, x).

    Raises:
        DTypeError, ShapeError: unless both are floating or complex, of one dtype and shape.

    Example:
        >>> atan2(0.0, 1.0).tolist()
        0.0
    """
    return binary_of(Op.ATAN2, angle, *arrays(x, y))


def sinh(x: ArrayLike) -> Array:
    """Returns the hyperbolic sine.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> sinh(0.0).tolist()
        0.0
    """
    return unary(Op.SINH, x)


def cosh(x: ArrayLike) -> Array:
    """Returns the hyperbolic cosine.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> cosh(0.0).tolist()
        1.0
    """
    return unary(Op.COSH, x)


def tanh(x: ArrayLike) -> Array:
    """Returns the hyperbolic tangent.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> tanh(100.0).tolist()
        1.0
    """
    return unary(Op.TANH, x)


def asinh(x: ArrayLike) -> Array:
    """Returns the inverse of `sinh`.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> asinh(0.0).tolist()
        0.0
    """
    return unary(Op.ASINH, x)


def acosh(x: ArrayLike) -> Array:
    """Returns the inverse of `cosh`, not negative; NaN below 1.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> acosh(1.0).tolist()
        0.0
    """
    return unary(Op.ACOSH, x)


def atanh(x: ArrayLike) -> Array:
    """Returns the inverse of `tanh`: infinite at -1 and 1, NaN outside of them.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> atanh(0.0).tolist()
        0.0
    """
    return unary(Op.ATANH, x)


# Special functions.


def logistic(x: ArrayLike) -> Array:
    """Returns ``1 / (1 + exp(-x))``.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> logistic(0.0).tolist()
        0.5
    """
    return unary(Op.LOGISTIC, x)


def erf(x: ArrayLike) -> Array:
    """Returns the error function.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> erf(0.0).tolist(), erf(10.0).tolist()
        (0.0, 1.0)
    """
    return unary(Op.ERF, x)


def erfc(x: ArrayLike) -> Array:
    """Returns ``1 - erf(x)``, accurate for large x.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> erfc(0.0).tolist()
        1.0
    """
    return unary(Op.ERFC, x)


def erf_inv(x: ArrayLike) -> Array:
    """Returns the inverse of `erf`: infinite at -1 and 1, NaN outside of them.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> erf_inv(1.0).tolist()
        inf
    """
    return unary(Op.ERFINV, x)


def lgamma(x: ArrayLike) -> Array:
    """Returns ``log(abs(gamma(x)))``: inf at 0 and at negative integers.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> lgamma(2.0).tolist()
        0.0
    """
    return unary(Op.LGAMMA, x)


def digamma(x: ArrayLike) -> Array:
    """Returns the derivative of `lgamma`: NaN at negative integers.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> digamma(1.0)
        Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return unary(Op.DIGAMMA, x)
