"""Sign, rounding to integers, real and imaginary parts."""

from __future__ import annotations

import enum

import numpy as np

from tfn._support.validate import one_of
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOATS
from tfn.lax.elementary import unary
from tfn.lax.elementwise import add, binary, ge, lt, select, sub
from tfn.lax.operand import array
from tfn.trace.op import Op

# Sign and rounding.


def neg(x: ArrayLike) -> Array:
    """Returns ``-x``; integers wrap around.

    Raises:
        DTypeError: for booleans.

    Example:
        >>> neg(2).tolist()
        -2
    """
    return unary(Op.NEG, x)


def abs(x: ArrayLike) -> Array:
    """Returns the magnitude, which is real for complex x; the smallest integer stays negative.

    Raises:
        DTypeError: for booleans.

    Example:
        >>> abs(-2).tolist()
        2
    """
    return unary(Op.ABS, x)


def sign(x: ArrayLike) -> Array:
    """Returns -1, 0 or 1, for complex x ``x / abs(x)``; keeps -0.0, and NaN stays NaN.

    Raises:
        DTypeError: for booleans.

    Example:
        >>> sign(-2.5).tolist()
        -1.0
    """
    return unary(Op.SIGN, x)


def floor(x: ArrayLike) -> Array:
    """Rounds down to an integer, as a float.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> floor(-1.5).tolist()
        -2.0
    """
    return unary(Op.FLOOR, x)


def ceil(x: ArrayLike) -> Array:
    """Rounds up to an integer, as a float.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> ceil(-1.5).tolist()
        -1.0
    """
    return unary(Op.CEIL, x)


class RoundingMethod(enum.IntEnum):
    """The rounding of halves by `round`.

    Example:
        >>> round(0.5, RoundingMethod.AWAY_FROM_ZERO).tolist()
        1.0
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Rounds to the nearest integer, as a float; the method decides about halves.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> round(2.5).tolist(), round(2.5, RoundingMethod.TO_NEAREST_EVEN).tolist()
        (3.0, 2.0)
    """
    x = array(x)
    one_of("round", "rounding_method", rounding_method, tuple(RoundingMethod))
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return unary(Op.ROUND, x)
    whole = trunc(x)
    return select(ge(abs(sub(x, whole)), 0.5), add(whole, sign(x)), whole)


def trunc(x: ArrayLike) -> Array:
    """Rounds towards zero to an integer, as a float.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> trunc(-1.5).tolist()
        -1.0
    """
    x = array(x)
    return select(lt(x, 0), ceil(x), floor(x))


def is_finite(x: ArrayLike) -> Array:
    """Whether a floating value is neither infinite nor NaN.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> is_finite(float("inf")).tolist()
        False
    """
    return lt(abs(x), np.inf)


# Complex numbers.


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the complex numbers with real part x and imaginary part y.

    Raises:
        DTypeError, ShapeError: unless both are floating, of one dtype and shape.

    Example:
        >>> complex(1.0, 2.0).tolist()
        (1+2j)
    """
    return binary(Op.COMPLEX, x, y)


def real(x: ArrayLike) -> Array:
    """Returns the real part.

    Raises:
        DTypeError: unless x is complex; see `tfn.numpy.real`.

    Example:
        >>> real(1 + 2j).tolist()
        1.0
    """
    return unary(Op.REAL, x)


def imag(x: ArrayLike) -> Array:
    """Returns the imaginary part.

    Raises:
        DTypeError: unless x is complex; see `tfn.numpy.imag`.

    Example:
        >>> imag(1 + 2j).tolist()
        2.0
    """
    return unary(Op.IMAG, x)


def conj(x: ArrayLike) -> Array:
    """Returns the complex conjugate; of real numbers as complex ones.

    Raises:
        DTypeError: unless x is floating or complex.

    Example:
        >>> conj(1 + 2j).tolist()
        (1-2j)
    """
    x = array(x)
    if x.dtype in FLOATS:
        return complex(x, 0.0)
    return complex(real(x), neg(imag(x)))
