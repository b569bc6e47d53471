"""Gamma distribution by rejection, and distributions derived from it: beta, dirichlet, t, f."""

from __future__ import annotations

from functools import partial
from typing import Any

from tfn import dtypes
from tfn import numpy as tnp
from tfn._support.validate import integer, rank, real_number
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.eager.operands import a_shape, array_of, scalar_kind
from tfn.errors import ArgumentError
from tfn.lax.elementary import exp, log
from tfn.lax.loops import while_loop
from tfn.lax.special import random_gamma_grad
from tfn.random.distributions import (
    ShapeLike,
    exponential,
    floating,
    normal,
    parameters,
    rademacher,
    uniform,
)
from tfn.random.keys import KeyLike, split, words_of
from tfn.trace.op import Shape
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.jit import jit
from tfn.transforms.vmap import vmap


def _one(words: Array, a: Array, logarithm: bool) -> Array:
    """One gamma number, by rejection; for a < 1 the number of a + 1 times a power of a uniform one.

    Source: Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
    """
    dtype, one = a.dtype, tnp.ones_like(a)
    large = a >= 1
    d = tnp.where(large, a, a + 1) - 1 / 3
    c = 1 / 3 / tnp.sqrt(d)

    def rejected(state: Any) -> Any:
        _, square, v, u = state
        tail = square * 0.5 + d * ((1 - v) + log(v))
        return (u >= 1 - 0.0331 * (square * square)) & (log(u) >= tail)

    def draw(state: Any) -> Any:
        key, of_x, of_u = split(state[0], 3)

        def positive(state: Any) -> Any:
            key, now = split(state[0])
            x = normal(now, (), dtype)
            return key, x, 1 + x * c

        _, x, v = while_loop(lambda state: state[2] <= 0, positive, (of_x, 0 * one, -one))
        return key, x * x, v * v * v, uniform(of_u, (), dtype)

    first, of_power = split(words)
    _, _, v, _ = while_loop(rejected, draw, (first, 0 * one, one, 2 * one))
    if logarithm:
        power = -exponential(of_power, (), dtype)
        boost = tnp.where(large | (power == 0), 0, power * (1 / a))
        number: Array = log(d) + log(v) + boost
    else:
        boost = tnp.where(large, 1, (1 - uniform(of_power, (), dtype)) ** (1 / a))
        number = d * v * boost
    return number


@partial(jit, static_argnums=2)
def _many(words: Array, a: Array, logarithm: bool) -> Array:
    """A gamma number, with a key of its own, for each element of a."""
    out: Array = vmap(partial(_one, logarithm=logarithm))(split(words, a.size), a.ravel())
    return out.reshape(a.shape)


@partial(custom_jvp, nondiff_argnums=(2,))
def _gamma(words: Array, a: Array, logarithm: bool) -> Array:
    out: Array = _many(words, a, logarithm)
    return out


@_gamma.defjvp
def _gamma_jvp(logarithm: bool, primals: Any, tangents: Any) -> Any:
    """Implicit reparametrisation: the quantile of the number stays while a changes.

    Source: Figurnov, Mohamed, Mnih 2018, arXiv:1805.08498.
    """
    (words, a), (_, da) = primals, tangents
    out = _gamma(words, a, logarithm)
    if not logarithm:
        return out, da * random_gamma_grad(a, out)
    tiny = float(dtypes.finfo(a.dtype).tiny)
    number = tnp.maximum(exp(out), tiny)
    return out, da * (random_gamma_grad(a, number) / number)


def _drawn(
    name: str,
    key: KeyLike,
    a: ArrayLike,
    shape: ShapeLike | None,
    dtype: DTypeLike | None,
    logarithm: bool,
) -> Array:
    kind, words = floating(name, dtype), words_of(name, key)
    (value,), sizes = parameters(name, kind, shape, a)
    out: Array = _gamma(words, tnp.broadcast_to(value, sizes), logarithm)
    return out


def gamma(
    key: KeyLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws floats with the gamma distribution of shape parameter a and scale 1.

    They have a derivative by a: that of the number whose quantile is fixed.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        a: the shape parameter, positive, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which a broadcasts; that of a if
            None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Source: Marsaglia, Tsang 2000, "A simple method for generating gamma variables"; Figurnov,
        Mohamed, Mnih 2018, arXiv:1805.08498 (the derivative).

    Example:
        >>> from tfn.random.keys import key
        >>> gamma(key(0), 2.5, (3,)).shape
        (3,)
    """
    return _drawn("gamma", key, a, shape, dtype, False)


def loggamma(
    key: KeyLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws logarithms of `gamma` numbers, exact where those would be rounded to zero.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        a: the shape parameter, positive, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which a broadcasts; that of a if
            None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool(tnp.isfinite(loggamma(key(0), 1e-6, (3,))).all())
        True
    """
    return _drawn("loggamma", key, a, shape, dtype, True)


def beta(
    key: KeyLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats in [0, 1] with the beta distribution of parameters a and b.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        a: first parameter, positive, a real scalar or array.
        b: second parameter, likewise.
        shape: sizes of the result, an integer or a sequence, to which a and b broadcast; that of
            both, broadcast, if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> x = beta(key(0), 2.0, 3.0, (100,))
        >>> bool((x > 0).all() and (x < 1).all())
        True
    """
    kind, words = floating("beta", dtype), words_of("beta", key)
    (a, b), sizes = parameters("beta", kind, shape, a, b)
    first, second = split(words)
    log_a, log_b = loggamma(first, a, sizes, kind), loggamma(second, b, sizes, kind)
    largest = tnp.maximum(log_a, log_b)
    part_a, part_b = exp(log_a - largest), exp(log_b - largest)
    return part_a / (part_a + part_b)


def dirichlet(
    key: KeyLike, alpha: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws vectors of positive numbers that add up to 1, with the Dirichlet distribution.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        alpha: positive parameters, shape (*batch, n).
        shape: of the result without its last axis, to which ``(*batch)`` broadcasts; that if None.
        dtype: floating dtype of the result; float32 if None.

    Returns:
        Floats, shape (*shape, n).

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if alpha has no axis.

    Example:
        >>> from tfn.random.keys import key
        >>> dirichlet(key(0), tnp.ones(3), (5,)).sum(-1).round(4).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    kind, words = floating("dirichlet", dtype), words_of("dirichlet", key)
    values = array_of("dirichlet", alpha)
    rank("dirichlet", values, 1, what="of parameters")
    rows = None if shape is None else (*a_shape("dirichlet", shape), values.shape[-1])
    logs = loggamma(words, values, rows, kind)
    powers = exp(logs - logs.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _value(name: str, x: ArrayLike, kind: Any) -> Array:
    """A parameter in the dtype of the result."""
    return tnp.asarray(x if scalar_kind(x) is not None else array_of(name, x)).astype(kind)


def chisquare(
    key: KeyLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws floats with the chi-square distribution of `df` degrees of freedom.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        df: degrees of freedom, positive, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which df broadcasts; that of df if
            None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((chisquare(key(0), 3.0, (9,)) >= 0).all())
        True
    """
    kind, words = floating("chisquare", dtype), words_of("chisquare", key)
    return exp(loggamma(words, _value("chisquare", df, kind) / 2, shape, kind)) * 2


def f(
    key: KeyLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats with the F distribution: the ratio of two mean chi-square numbers.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        dfnum, dfden: degrees of freedom of numerator and denominator.
        dfnum: degrees of freedom of the numerator, positive, a real scalar or array.
        dfden: degrees of freedom of the denominator, likewise.
        shape: sizes of the result, an integer or a sequence, to which the parameters broadcast;
            that of both, broadcast, if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> f(key(0), 3.0, 5.0, (4,)).shape
        (4,)
    """
    kind, words = floating("f", dtype), words_of("f", key)
    (above, below), sizes = parameters("f", kind, shape, dfnum, dfden)
    second, first = split(words)
    numerator = chisquare(first, above, sizes, kind) / above
    return numerator / (chisquare(second, below, sizes, kind) / below)


def t(
    key: KeyLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws floats with Student's t distribution of `df` degrees of freedom.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        df: degrees of freedom, positive, a real scalar or array that broadcasts to `shape`.
        shape: sizes of the result, an integer or a sequence; those of `df` if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> t(key(0), 3.0, (4,)).shape
        (4,)
    """
    kind, words = floating("t", dtype), words_of("t", key)
    (freedom,), sizes = parameters("t", kind, shape, df)
    first, second = split(words)
    half = freedom / 2
    return normal(first, sizes, kind) * tnp.sqrt(half / gamma(second, half, sizes, kind))


def _power(name: str, p: object) -> Any:
    """The power of a norm: a positive number, or an array of one."""
    if scalar_kind(p) is None:
        return array_of(name, p)
    if not real_number(name, "p", p):
        raise ArgumentError(
            f"{name} needs a power that is not 0", got=f"p={p}", hint="p=2 is usual"
        )
    return p


def generalized_normal(
    key: KeyLike, p: float, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Array:
    """Draws floats with a density in proportion to ``exp(-abs(x)**p)``.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        p: the power, not 0, a number or an array of one; 2 gives a normal distribution.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ArgumentError: if p is 0.

    Example:
        >>> from tfn.random.keys import key
        >>> generalized_normal(key(0), 4.0, (4,)).shape
        (4,)
    """
    kind, words = floating("generalized_normal", dtype), words_of("generalized_normal", key)
    p, sizes = _power("generalized_normal", p), a_shape("generalized_normal", shape)
    first, second = split(words)
    size = gamma(first, 1 / p, sizes, kind) ** (1 / p)
    return rademacher(second, sizes, kind) * size


def ball(
    key: KeyLike, d: int, p: float = 2, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Array:
    """Draws points that are uniform in the unit ball of the p-norm in d dimensions.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        d: number of dimensions, which may be 0.
        p: power of the norm, not 0; 2 is the Euclidean one.
        shape: sizes of the result without its last axis, an integer or a sequence.
        dtype: floating dtype of the result; float32 if None.

    Returns:
        Floats, shape (*shape, d).

    Raises:
        DTypeError: unless `dtype` is floating.
        ArgumentError: if d is negative, or p is 0.

    Source: Barthe, Guedon, Mendelson, Naor 2005, "A probabilistic approach to the geometry of the
        l_p^n-ball".

    Example:
        >>> from tfn.random.keys import key
        >>> bool((tnp.sqrt((ball(key(0), 3, shape=(9,)) ** 2).sum(-1)) <= 1).all())
        True
    """
    d, p = integer("ball", "d", d, 0), _power("ball", p)
    kind, words = floating("ball", dtype), words_of("ball", key)
    sizes: Shape = a_shape("ball", shape)
    first, second = split(words)
    g = generalized_normal(first, p, (*sizes, d), kind)
    e = exponential(second, sizes, kind)
    return g / tnp.expand_dims(((abs(g) ** p).sum(-1) + e) ** (1 / p), -1)
