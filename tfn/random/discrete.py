"""Discrete distributions by counting and rejection: poisson, binomial, multinomial."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tfn import dtypes
from tfn import numpy as tnp
from tfn._support.validate import rank, result_type
from tfn.array import Array, ArrayLike
from tfn.dtypes import DEFAULTS, FLOAT32, FLOATS, INT32, INTEGERS, DType, DTypeLike
from tfn.eager.operands import array_of, broadcast_shape, scalar_kind
from tfn.lax.elementary import lgamma, log, log1p
from tfn.lax.loops import scan, while_loop
from tfn.random.distributions import ShapeLike, floating, parameter_dtype, parameters, uniform
from tfn.random.keys import KeyLike, split, words_of
from tfn.transforms.jit import jit

MAX_MEAN_TO_COUNT = 10
"""Below this mean events are counted one by one, which takes a step per event; above it, where
the bounds of the rejection methods hold, numbers are drawn and rejected (Hormann 1993)."""


def _poisson_by_counting(words: Array, rate: Array) -> Array:
    """Counts the uniform numbers that can be multiplied before the product is below exp(-rate).

    Source: Knuth, The Art of Computer Programming, volume 2, section 3.4.1.
    """

    def step(state: Any) -> Any:
        count, key, product = state
        key, now = split(key)
        count = tnp.where(product > -rate, count + 1, count)
        return count, key, product + log(uniform(now, rate.shape, "float32"))

    first = tnp.zeros(rate.shape, INT32), words, tnp.zeros(rate.shape, FLOAT32)
    events: Array = while_loop(lambda state: (state[2] > -rate).any(), step, first)[0]
    return events - 1


def _poisson_by_rejection(words: Array, rate: Array) -> Array:
    """Transformed rejection: draws below a hat function until a draw is below the density.

    Source: Hormann 1993, "The transformed rejection method for generating Poisson random
    variables".
    """
    b = 0.931 + 2.53 * tnp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)
    log_rate = log(rate)

    def step(state: Any) -> Any:
        sample, finished, key = state
        key, of_u, of_v = split(key, 3)
        u = uniform(of_u, rate.shape, rate.dtype) - 0.5
        v = uniform(of_v, rate.shape, rate.dtype)
        us = 0.5 - abs(u)
        k = tnp.floor((2 * a / us + b) * u + rate + 0.43)
        covered = log(v * scale / (a / (us * us) + b))
        log_density = -rate + k * log_rate - lgamma(k + 1)
        outside = (k < 0) | ((us < 0.013) & (v > us))
        accepted = ((us >= 0.07) & (v <= squeeze)) | (~outside & (covered <= log_density))
        return tnp.where(accepted, k, sample), finished | accepted, key

    first = tnp.full(rate.shape, -1, rate.dtype), tnp.zeros(rate.shape, bool), words
    samples: Array = while_loop(lambda state: ~state[1].all(), step, first)[0]
    return samples


@partial(jit, static_argnums=2)
def _poisson(words: Array, rate: Array, kind: DType) -> Array:
    few = tnp.isnan(rate) | (rate < MAX_MEAN_TO_COUNT)
    one_by_one = _poisson_by_counting(words, tnp.where(few, rate, 0.0)).astype(kind)
    rejection = _poisson_by_rejection(words, tnp.where(few, 1e5, rate)).astype(kind)
    return tnp.where(rate == 0, 0, tnp.where(few, one_by_one, rejection)).astype(kind)


def poisson(
    key: KeyLike, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Draws integers with the Poisson distribution of mean `lam`.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        lam: the mean, a real scalar or array; where it is negative or NaN the result is -1.
        shape: sizes of the result, an integer or a sequence, to which `lam` broadcasts; that of
            `lam` if None.
        dtype: integer dtype of the result; int32 if None.

    Raises:
        DTypeError: unless `dtype` is integer.
        ShapeError: if the parameters do not broadcast to `shape`.

    Source: Knuth, The Art of Computer Programming, volume 2, section 3.4.1 (mean below 10); Hormann
        1993, "The transformed rejection method for generating Poisson random variables".

    Example:
        >>> from tfn.random.keys import key
        >>> bool((poisson(key(0), 3.0, (50,)) >= 0).all())
        True
    """
    kind = DEFAULTS[int] if dtype is None else dtypes.canonical(dtype)
    result_type("poisson", kind, INTEGERS, "an integer dtype")
    words = words_of("poisson", key)
    (rate,), sizes = parameters("poisson", FLOAT32, shape, lam)
    out: Array = _poisson(words, tnp.broadcast_to(rate, sizes), kind)
    return out


# Binomial numbers.

_STIRLING_TABLE = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def _stirling(k: Array) -> Array:
    """The error of Stirling's formula for log(k!): from a table below 10, else by a series."""
    small = tnp.clip(k, 0.0, 9.0)
    square = (small + 1) * (small + 1)
    rest = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (small + 1)
    table = tnp.array(_STIRLING_TABLE, k.dtype)
    return tnp.where(k <= 9, table[tnp.floor(small).astype(INT32)], rest)


def _binomial_by_gaps(words: Array, count: Array, p: Array) -> Array:
    """Counts the geometric numbers (gaps between successes) that add up to no more than the count.

    Source: Devroye 1986, "Non-uniform random variate generation", section X.4.
    """
    rate = log1p(-p)

    def step(state: Any) -> Any:
        number, total, key = state
        now, key = split(key)
        number = tnp.where(total <= count, number + 1, number)
        return number, total + tnp.ceil(log(uniform(now, p.shape, p.dtype)) / rate), key

    zero = tnp.zeros_like(p)
    events: Array = while_loop(lambda s: (s[1] <= count).any(), step, (zero, zero, words))[0]
    return events - 1


def _binomial_by_rejection(words: Array, count: Array, p: Array) -> Array:
    """Transformed rejection: draws below a hat function until a draw is below the density.

    Source: Hormann 1993, "The generation of binomial random variates", algorithm BTRS.
    """
    spread = tnp.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    middle = count * p + 0.5
    squeeze = 0.92 - 4.2 / b
    odds = p / (1 - p)
    scale = (2.83 + 5.1 / b) * spread
    m = tnp.floor((count + 1) * p)

    def step(state: Any) -> Any:
        sample, finished, key = state
        key, of_u, of_v = split(key, 3)
        u, v = uniform(of_u, p.shape, p.dtype), uniform(of_v, p.shape, p.dtype)
        u = u - 0.5
        us = 0.5 - abs(u)
        k = tnp.floor((2 * a / us + b) * u + middle)
        outside = (k < 0) | (k > count)
        log_density = (
            (m + 0.5) * log((m + 1) / (odds * (count - m + 1)))
            + (count + 1) * log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * log(odds * (count - k + 1) / (k + 1))
            + _stirling(m)
            + _stirling(count - m)
            - _stirling(k)
            - _stirling(count - k)
        )
        inside = log(v * scale / (a / (us * us) + b)) <= log_density
        accepted = ((us >= 0.07) & (v <= squeeze)) | (~outside & inside)
        return tnp.where(accepted, k, sample), finished | accepted, key

    first = tnp.full_like(p, -1), tnp.zeros(p.shape, bool), words
    samples: Array = while_loop(lambda state: ~state[1].all(), step, first)[0]
    return samples


@partial(jit, static_argnums=3)
def _binomial(words: Array, count: Array, p: Array, kind: DType) -> Array:
    """Counts successes, or failures where those are rarer."""
    flipped = ~(p < 0.5)
    rare = tnp.where(flipped, 1 - p, p)
    wrong_count = tnp.isnan(count) | (count < 0)
    wrong = wrong_count | tnp.isnan(rare) | (rare < 0)
    endless = tnp.isinf(count)
    rare = tnp.where(tnp.isnan(rare) | (rare < 0), 0.01, rare)
    few = wrong_count | (count * rare <= MAX_MEAN_TO_COUNT)
    count = tnp.floor(count)
    jumped = _binomial_by_gaps(words, tnp.where(few, count, 0.0), rare)
    covered = _binomial_by_rejection(words, tnp.where(few, 1e4, count), tnp.where(few, 0.5, rare))
    number = tnp.where(few, jumped, covered).astype(kind)
    number = tnp.where(flipped & ~wrong & ~endless, count.astype(kind) - number, number)
    number = tnp.where(endless & ~wrong, np.inf, number)
    return tnp.where(wrong, np.nan, number).astype(kind)


def binomial(
    key: KeyLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws the number of successes among n trials, each with probability p, as floats.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        n: number of trials, a real scalar or array; fractions are dropped.
        p: probability of success in [0, 1], a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which n and p broadcast; that of
            both, broadcast, if None.
        dtype: floating dtype of the result; float32 if None.

    Returns:
        Floats in [0, n]; NaN where n is negative, p is outside [0, 1], or one of them is NaN.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Source: Hormann 1993, "The generation of binomial random variates", algorithm BTRS.

    Example:
        >>> from tfn.random.keys import key
        >>> x = binomial(key(0), 10, 0.3, (50,))
        >>> bool(((x >= 0) & (x <= 10)).all())
        True
    """
    kind, words = floating("binomial", dtype), words_of("binomial", key)
    parameter_dtype = (
        DEFAULTS[float] if scalar_kind(p) is not None else array_of("binomial", p).dtype
    )
    parameter_dtype = parameter_dtype if parameter_dtype in FLOATS else DEFAULTS[float]
    (count, chance), sizes = parameters("binomial", parameter_dtype, shape, n, p)
    out: Array = _binomial(
        words, tnp.broadcast_to(count, sizes), tnp.broadcast_to(chance, sizes), kind
    )
    return out


def multinomial(
    key: KeyLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """Draws the number of times that each result occurs in n trials.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        n: number of trials, a scalar or an array of shape (*batch).
        p: probabilities, shape (*batch, results); they need not add up to 1.
        shape: of the result, whose last axis is that of p; that of n with it if None.
        dtype: dtype of the result, of real numbers; float32 if None.
        unroll: how many results are drawn in one step of the loop over them.

    Returns:
        Counts, shape (*batch, results), which add up to n along the last axis.

    Raises:
        DTypeError: for a complex or boolean `dtype`.
        ShapeError: if p has no axis, or `shape` does not fit.

    Example:
        >>> from tfn.random.keys import key
        >>> multinomial(key(0), 9, tnp.array([0.2, 0.3, 0.5])).sum().item()
        9.0
    """
    result = dtypes.canonical(float if dtype is None else dtype)
    result_type("multinomial", result, INTEGERS | FLOATS, "a dtype of real numbers")
    words, chances = words_of("multinomial", key), array_of("multinomial", p)
    kind = parameter_dtype(array_of("multinomial", n), chances)
    rank("multinomial", chances, 1, what="of probabilities")
    (trials,), _ = parameters("multinomial", kind, None, n)
    lines = broadcast_shape("multinomial", trials.shape, chances.shape[:-1])
    full = (*lines, chances.shape[-1])
    if shape is not None and tuple(np.atleast_1d(shape)) != full:
        full = broadcast_shape("multinomial", full, tuple(np.atleast_1d(shape)))
    by_result = tnp.moveaxis(tnp.broadcast_to(chances.astype(kind), full), -1, 0)
    total = tnp.flip(tnp.cumsum(tnp.flip(by_result, 0), 0), 0)
    shares = by_result / tnp.where(total == 0, 1, total)

    def step(rest: Array, drawn: Any) -> Any:
        share, key = drawn
        count = binomial(key, rest, tnp.clip(share, 0, 1), dtype=kind)
        return rest - count, count

    keys = split(words, shares.shape[0])
    first = tnp.broadcast_to(trials, full[:-1])
    _, counts = scan(step, first, (shares, keys), unroll=unroll)
    return tnp.moveaxis(counts, 0, -1).astype(result)
