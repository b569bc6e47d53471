"""Distributions by one formula of uniform, normal or exponential numbers: cauchy, pareto, wald."""

from __future__ import annotations

import numpy as np

from tfn import dtypes
from tfn._support.validate import result_type
from tfn.array import Array, ArrayLike
from tfn.dtypes import DEFAULTS, FLOATS, INTEGERS, DType, DTypeLike
from tfn.eager.operands import a_shape, apply, array_of, broadcast_shape, scalar_kind
from tfn.lax.generators import independent_words
from tfn.random.distributions import (
    ShapeLike,
    between,
    exponential_body,
    floating,
    normal_body,
    parameters,
    rademacher_body,
    sampled,
    unit,
)
from tfn.random.keys import KeyLike, words_of
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

# Graph builders, traced inside of programs: `words` is the node of a key, uint32[2], `shape` and
# `dtype` are those of the result.  Parameters are nodes that broadcast to `shape`.


def open_unit(words: UOp, smallest: float, shape: Shape, dtype: DType) -> UOp:
    """Floats in [smallest, 1)."""
    return between(words, const(smallest, dtype), const(1, dtype), shape, dtype)


def cauchy_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """The tangent of an angle between -90 and 90 degrees."""
    u = open_unit(words, float(dtypes.finfo(dtype).eps), shape, dtype)
    return UOp(Op.TAN, (float(np.array(np.pi, dtype)) * (u - 0.5),))


def logistic_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """``log(u / (1 - u))``."""
    u = open_unit(words, float(dtypes.finfo(dtype).tiny), shape, dtype)
    return UOp(Op.LOG, (u,)) - UOp(Op.LOG1P, (-u,))


def maxwell_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """The length of three normal numbers."""
    x = normal_body(words, (*shape, 3), dtype)
    return UOp(Op.SQRT, (build.add_up(x * x, (len(shape),)),))


def double_sided_maxwell_body(words: UOp, loc: UOp, scale: UOp, shape: Shape, dtype: DType) -> UOp:
    """`maxwell_body` with a sign, scaled and moved."""
    lengths, signs = independent_words(words)
    signed = rademacher_body(signs, shape, dtype) * maxwell_body(lengths, shape, dtype)
    return signed * build.broadcast_to(scale, shape) + build.broadcast_to(loc, shape)


def pareto_body(words: UOp, b: UOp, shape: Shape, dtype: DType) -> UOp:
    """``exp(e / b)`` for an exponential number e."""
    return UOp(Op.EXP, (exponential_body(words, shape, dtype) / build.broadcast_to(b, shape),))


def lognormal_body(words: UOp, sigma: UOp, shape: Shape, dtype: DType) -> UOp:
    """``exp(sigma * x)`` for a normal number x."""
    return UOp(Op.EXP, (normal_body(words, shape, dtype) * build.broadcast_to(sigma, shape),))


def rayleigh_body(words: UOp, scale: UOp, shape: Shape, dtype: DType) -> UOp:
    """``scale * sqrt(-2 log(u))``."""
    log = UOp(Op.LOG, (unit(words, shape, dtype),))
    return build.broadcast_to(scale, shape) * UOp(Op.SQRT, (log * -2,))


def weibull_body(words: UOp, scale: UOp, concentration: UOp, shape: Shape, dtype: DType) -> UOp:
    """``scale * e**(1 / concentration)`` for an exponential number e."""
    wide = broadcast_shape("weibull_min", shape, scale.shape, concentration.shape)
    e = build.broadcast_to(exponential_body(words, shape, dtype), wide)
    power = build.broadcast_to(const(1, dtype, concentration.shape) / concentration, wide)
    return UOp(Op.POW, (e, power)) * build.broadcast_to(scale, wide)


def wald_body(words: UOp, mean: UOp, shape: Shape, dtype: DType) -> UOp:
    """One of the two roots of the equation for a squared normal number, chosen at random.

    Source: Michael, Schucany, Haas 1976, "Generating random variates using transformations with
    multiple roots".
    """
    first, second = independent_words(words)
    mean = build.broadcast_to(mean, shape)
    v = normal_body(first, shape, dtype)
    y = v * v
    root = UOp(Op.SQRT, (4 * mean * y + mean * mean * (y * y),))
    x = mean + mean * mean * y / 2 - mean / 2 * root
    below = unit(second, shape, dtype) <= mean / (mean + x)
    return build.where(below, x, mean * mean / x)


def triangular_body(
    words: UOp, left: UOp, mode: UOp, right: UOp, shape: Shape, dtype: DType
) -> UOp:
    """The inverse of the distribution function, which is a square on either side of the mode."""
    left, mode, right = (build.broadcast_to(x, shape) for x in (left, mode, right))
    u = unit(words, shape, dtype)
    rising = left + UOp(Op.SQRT, (u * (right - left) * (mode - left),))
    falling = right - UOp(Op.SQRT, ((1 - u) * (right - left) * (right - mode),))
    return build.where(u < (mode - left) / (right - left), rising, falling)


def geometric_body(words: UOp, p: UOp, shape: Shape, dtype: DType) -> UOp:
    """``floor(log(u) / log(1 - p)) + 1``."""
    u = unit(words, shape, p.dtype)
    u = build.where(build.eq(u, build.full_like(u, 0)), build.full_like(u, 1), u)
    rate = build.broadcast_to(UOp(Op.LOG1P, (-p,)), shape)
    return build.cast(UOp(Op.FLOOR, (UOp(Op.LOG, (u,)) / rate,)) + 1, dtype)


# The public functions.


def cauchy(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws floats with the standard Cauchy distribution, which has no mean.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> cauchy(key(0), (3,)).shape
        (3,)
    """
    return sampled("cauchy", cauchy_body, key, shape, dtype)


def logistic(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws floats with the standard logistic distribution.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> logistic(key(0), (3,)).shape
        (3,)
    """
    return sampled("logistic", logistic_body, key, shape, dtype)


def maxwell(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws floats with the Maxwell distribution: lengths of normal vectors of three elements.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((maxwell(key(0), (9,)) >= 0).all())
        True
    """
    return sampled("maxwell", maxwell_body, key, shape, dtype)


def double_sided_maxwell(
    key: KeyLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats with the Maxwell distribution and a random sign, times `scale`, plus `loc`.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        loc: centre, a real scalar or array.
        scale: factor, likewise; it broadcasts with `loc`.
        shape: leading sizes of the result, an integer or a sequence.
        dtype: floating dtype of the result; float32 if None.

    Returns:
        Floats, whose shape is `shape` followed by that of the parameters, broadcast.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> double_sided_maxwell(key(0), 0.0, np.ones(3), (2,)).shape
        (2, 3)
    """
    kind = floating("double_sided_maxwell", dtype)
    words = words_of("double_sided_maxwell", key)
    values, common = parameters("double_sided_maxwell", kind, None, loc, scale)
    sizes = (*a_shape("double_sided_maxwell", shape), *common)
    return apply(double_sided_maxwell_body, [words, *values], sizes, kind)


def pareto(
    key: KeyLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws floats, 1 or more, with the Pareto distribution of exponent b.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        b: the exponent, positive, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which b broadcasts; that of b if
            None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((pareto(key(0), 2.0, (9,)) >= 1).all())
        True
    """
    return sampled("pareto", pareto_body, key, shape, dtype, b)


def lognormal(
    key: KeyLike,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats whose logarithm is normal with mean 0.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        sigma: standard deviation of the logarithm, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which sigma broadcasts; that of
            sigma if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((lognormal(key(0), 0.5, (9,)) > 0).all())
        True
    """
    return sampled("lognormal", lognormal_body, key, shape, dtype, sigma)


def rayleigh(
    key: KeyLike, scale: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws floats with the Rayleigh distribution: lengths of normal vectors of two elements.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        scale: standard deviation of the elements, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which scale broadcasts; that of
            scale if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((rayleigh(key(0), 1.0, (9,)) >= 0).all())
        True
    """
    return sampled("rayleigh", rayleigh_body, key, shape, dtype, scale)


def weibull_min(
    key: KeyLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats, 0 or more, with the Weibull distribution.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        scale: factor of the result, a real scalar or array.
        concentration: the shape parameter, positive, likewise.
        shape: sizes that are broadcast with those of the parameters, an integer or a sequence.
        dtype: floating dtype of the result; float32 if None.

    Returns:
        Floats of `shape` broadcast with the parameters.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> weibull_min(key(0), 1.0, 2.0, (3,)).shape
        (3,)
    """
    kind, words = floating("weibull_min", dtype), words_of("weibull_min", key)
    values, _ = parameters("weibull_min", kind, None, scale, concentration)
    return apply(weibull_body, [words, *values], a_shape("weibull_min", shape), kind)


def wald(
    key: KeyLike, mean: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws floats with the Wald (inverse Gaussian) distribution of scale 1.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        mean: the mean, positive, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which mean broadcasts; that of mean
            if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Source: Michael, Schucany, Haas 1976, "Generating random variates using transformations with
        multiple roots".

    Example:
        >>> from tfn.random.keys import key
        >>> bool((wald(key(0), 1.0, (9,)) > 0).all())
        True
    """
    return sampled("wald", wald_body, key, shape, dtype, mean)


def triangular(
    key: KeyLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats whose density rises from `left` to `mode`, and falls from there to `right`.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        left: lower bound, a real scalar or array.
        mode: position of the largest density in [left, right], likewise.
        right: upper bound, likewise, above `left`.
        shape: sizes of the result, an integer or a sequence, to which the parameters broadcast;
            that of all three, broadcast, if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> x = triangular(key(0), -1.0, 0.0, 2.0, (100,))
        >>> bool((x >= -1.0).all() and (x <= 2.0).all())
        True
    """
    return sampled("triangular", triangular_body, key, shape, dtype, left, mode, right)


def geometric(
    key: KeyLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws the number of trials, each with probability p, until the first success: 1 or more.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        p: probability of success in (0, 1], a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which p broadcasts; that of p if
            None.
        dtype: dtype of the result; int32 if None.

    Raises:
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((geometric(key(0), 0.3, (9,)) >= 1).all())
        True
    """
    kind = DEFAULTS[int] if dtype is None else dtypes.canonical(dtype)
    result_type("geometric", kind, INTEGERS, "an integer dtype")
    words = words_of("geometric", key)
    parameter_dtype = (
        DEFAULTS[float] if scalar_kind(p) is not None else array_of("geometric", p).dtype
    )
    values, sizes = parameters(
        "geometric", parameter_dtype if parameter_dtype in FLOATS else DEFAULTS[float], shape, p
    )
    return apply(geometric_body, [words, *values], sizes, kind)
