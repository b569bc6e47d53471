"""Random bits, and distributions by inversion: uniform, normal, exponential, integers.

Each element is a function of the key and of its index alone: 32 bits (or 64) of the hash of the
index become an integer, or a float in [0, 1), at which the inverse distribution function is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfn import dtypes
from tfn._support.validate import element_type, one_of, result_type
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    COMPLEXES,
    DEFAULTS,
    FLOATS,
    INEXACT,
    INT32,
    INTEGERS,
    NARROW,
    SIGNED,
    UNSIGNED,
    DType,
    DTypeLike,
    promote,
)
from tfn.eager.operands import (
    REAL,
    a_shape,
    apply,
    array_of,
    broadcast_shape,
    inexact,
    numbers_as,
    scalar_kind,
    type_of,
)
from tfn.errors import DTypeError, ShapeError
from tfn.lax.generators import independent_words, random_bits, unsigned
from tfn.numpy.number_parts import neighbour
from tfn.random.keys import KeyLike, words_of
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

ShapeLike = int | Sequence[int]


# Graph builders, traced inside of programs: `words` is the node of a key, uint32[2] or [4], `shape`
# and `dtype` are those of the result.  Parameters are nodes that broadcast to `shape`.


def unit(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """Floats in [0, 1): random bits for the mantissa of a float in [1, 2), minus 1."""
    info = dtypes.finfo(dtype)
    width = 8 if info.nmant < 8 else info.bits
    carrier = unsigned(info.bits)
    bits = build.cast(random_bits(words, shape, width), carrier) >> (width - info.nmant)
    one = int(np.array(1, dtype).view(carrier))
    return build.bitcast(bits | one, dtype) - 1


def between(words: UOp, low: UOp, high: UOp, shape: Shape, dtype: DType) -> UOp:
    """Floats in [low, high)."""
    low, high = build.broadcast_to(low, shape), build.broadcast_to(high, shape)
    return build.maximum(low, unit(words, shape, dtype) * (high - low) + low)


def normal_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """The inverse of the normal distribution function at uniform floats in (-1, 1)."""
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    u = between(words, const(low, dtype), const(1, dtype), shape, dtype)
    return UOp(Op.ERFINV, (u,)) * float(np.array(np.sqrt(2), dtype))


def complex_normal_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """Both parts normal, each with half of the variance."""
    re, im = independent_words(words)
    half = dtypes.part(dtype)
    both = build.complex_(normal_body(re, shape, half), normal_body(im, shape, half))
    return both / float(np.array(np.sqrt(2), half))


def truncated_body(words: UOp, lower: UOp, upper: UOp, shape: Shape, dtype: DType) -> UOp:
    """`normal_body` on the part of (-1, 1) between two bounds."""
    root = float(np.array(np.sqrt(2), dtype))
    u = between(words, UOp(Op.ERF, (lower / root,)), UOp(Op.ERF, (upper / root,)), shape, dtype)
    fixed = [UOp(Op.DETACH, (bound,)) for bound in (lower, upper)]
    low, high = (
        build.broadcast_to(neighbour(x, build.full_like(x, end)), shape)
        for x, end in zip(fixed, (np.inf, -np.inf), strict=True)
    )
    return build.minimum(build.maximum(UOp(Op.ERFINV, (u,)) * root, low), high)


def gumbel_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """``-log(-log(u))``, u uniform and not zero."""
    tiny = const(float(dtypes.finfo(dtype).tiny), dtype)
    u = between(words, tiny, const(1, dtype), shape, dtype)
    return -UOp(Op.LOG, (-UOp(Op.LOG, (u,)),))


def fine_gumbel_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """``-log(-log(1 - u))``, u with twice as many bits where it is small."""
    info = dtypes.finfo(dtype)
    high, low = halves(words, shape, dtype)
    small = high + low * 2.0 ** -int(info.nmant) + float(info.tiny)
    u = build.where(high < 0.5, small, high)
    return -UOp(Op.LOG, (-UOp(Op.LOG1P, (-u,)),))


def halves(words: UOp, shape: Shape, dtype: DType) -> list[UOp]:
    """Two floats in [0, 1) for each element."""
    both = unit(words, (2, *shape), dtype)
    zeros = (0,) * len(shape)
    return [
        build.reshape(build.shrink(both, (i, *zeros), (i + 1, *shape)), shape) for i in range(2)
    ]


def exponential_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """``-log(1 - u)``."""
    return -UOp(Op.LOG1P, (-unit(words, shape, dtype),))


def laplace_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """A sign times ``log(1 - u)``."""
    low = const(-1 + float(dtypes.finfo(dtype).epsneg), dtype)
    u = between(words, low, const(1, dtype), shape, dtype)
    return UOp(Op.SIGN, (u,)) * UOp(Op.LOG1P, (-UOp(Op.ABS, (u,)),))


def integers(words: UOp, low: UOp, span: UOp, shape: Shape, dtype: DType) -> UOp:
    """``low + r % span`` for a random r of twice as many bits; a span of 0 means all values."""
    width = 8 * dtype.itemsize
    high, rest = (random_bits(k, shape, width) for k in independent_words(words))
    power = _modulo(const(1 << (width // 2), span.dtype, span.shape), span)
    power = build.broadcast_to(_modulo(power * power, span), shape)
    span, low = build.broadcast_to(span, shape), build.broadcast_to(low, shape)
    offset = _modulo(_modulo(high, span) * power + _modulo(rest, span), span)
    return low + build.cast(offset, dtype)


def _modulo(x: UOp, span: UOp) -> UOp:
    return build.where(build.eq(span, build.full_like(span, 0)), x, x % span)


def clipped(u: UOp, dtype: DType) -> UOp:
    """Clips integers to the range of another integer dtype, and converts them."""
    low = max(int(np.iinfo(dtype).min), int(np.iinfo(u.dtype).min))
    high = min(int(np.iinfo(dtype).max), int(np.iinfo(u.dtype).max))
    inside = build.minimum(build.maximum(u, build.full_like(u, low)), build.full_like(u, high))
    return build.cast(inside, dtype)


def integers_between(words: UOp, low: UOp, high: UOp, shape: Shape, dtype: DType) -> UOp:
    """Integers in [low, high), or low if there are none."""
    largest = clipped(const(int(np.iinfo(dtype).max), dtype), high.dtype)
    beyond = build.broadcast_to(largest, high.shape) < high
    common = broadcast_shape("randint", low.shape, high.shape)
    low = build.broadcast_to(clipped(low, dtype), common)
    high = build.broadcast_to(clipped(high, dtype), common)
    carrier = unsigned(8 * dtype.itemsize)
    span = build.cast(high, carrier) - build.cast(low, carrier)
    empty = high <= low
    span = build.where(empty, build.full_like(span, 1), span)
    whole = build.broadcast_to(beyond, common) & ~empty
    return integers(words, low, build.where(whole, span + 1, span), shape, dtype)


# The public functions.


def bits(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws unsigned integers, every value equally likely.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: uint8, uint16, uint32 or uint64; uint32 if None, or uint64 with
            ``config.x64``.

    Raises:
        DTypeError: unless `dtype` is an unsigned integer type.

    Example:
        >>> from tfn.random.keys import key
        >>> bits(key(42), (2,)).tolist()
        [2098992034, 2919706841]
    """
    kind = dtypes.unsigned_type(DEFAULTS[int]) if dtype is None else dtypes.canonical(dtype)
    result_type("bits", kind, UNSIGNED - NARROW, "an unsigned integer dtype")
    words = words_of("bits", key)
    return apply(random_bits, [words], a_shape("bits", shape), 8 * kind.itemsize)


def floating(name: str, dtype: DTypeLike | None) -> DType:
    """Returns the floating dtype that a function is asked for: float32 for None.

    Raises:
        DTypeError: for a type that is not floating, or has less than 8 bits.
    """
    kind = dtypes.canonical(float if dtype is None else dtype)
    drawn = FLOATS - {dtypes.float4_e2m1fn.dtype}
    return result_type(name, kind, drawn, "a floating dtype of 8 bits at least")


def parameter_dtype(*values: Array) -> DType:
    """The floating dtype of parameters, which has no more bits than the default of floats."""
    kind = inexact(promote(tuple(map(type_of, values))))[0]
    return min(kind, DEFAULTS[float], key=lambda dtype: dtype.itemsize)


def parameters(
    name: str, dtype: DType, shape: ShapeLike | None, *bounds: ArrayLike
) -> tuple[list[Array], Shape]:
    """Returns parameters of a distribution as arrays of one dtype, and the shape of the result.

    Raises:
        DTypeError: for complex parameters.
        ShapeError: if they do not broadcast to the shape.
    """
    values = numbers_as(
        [b if scalar_kind(b) is not None else array_of(name, b) for b in bounds], dtype
    )
    for v in values:
        if v.dtype in COMPLEXES:
            element_type(name, v, REAL, "real parameters")
    values = [v if v.dtype == dtype else v.astype(dtype) for v in values]
    common = broadcast_shape(name, *[v.shape for v in values])
    if shape is None:
        return values, common
    sizes = a_shape(name, shape)
    if broadcast_shape(name, common, sizes) != sizes:
        raise ShapeError(
            f"{name} needs parameters that broadcast to its shape",
            got=f"parameters {common}, shape={sizes}",
            hint="the last axes of the shape are those of the parameters",
        )
    return values, sizes


def sampled(
    name: str,
    body: Callable[..., UOp],
    key: KeyLike,
    shape: ShapeLike | None,
    dtype: DTypeLike | None,
    *bounds: ArrayLike,
) -> Array:
    """Floating numbers by a graph builder.

    Args:
        name: of the sampler, for errors.
        body: takes the words of a key, parameters, shape and dtype.
        key: the key.
        shape: of the result; that of the parameters if None.
        dtype: of the result; float32 if None.
        *bounds: parameters.
    """
    kind, words = floating(name, dtype), words_of(name, key)
    if not bounds:
        return apply(body, [words], a_shape(name, shape), kind)
    values, sizes = parameters(name, kind, shape, *bounds)
    return apply(body, [words, *values], sizes, kind)


def uniform(
    key: KeyLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Draws floats that are uniform in [minval, maxval).

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.
        minval: lower bound, a real scalar or array that broadcasts to `shape`; included.
        maxval: upper bound, likewise; excluded.  Where it is not above `minval`, the result is
            `minval`.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> uniform(key(0), (3,)).round(4).tolist()  # doctest: +ELLIPSIS
        [0.947..., 0.978..., 0.332...]
    """
    if _is(minval, 0) and _is(maxval, 1):
        return sampled("uniform", unit, key, shape, dtype)
    return sampled("uniform", between, key, shape, dtype, minval, maxval)


def _is(value: ArrayLike, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


def normal(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws numbers with the standard normal distribution.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating or complex dtype; float32 if None.  Both parts of complex numbers have
            variance 1/2.

    Raises:
        DTypeError: unless `dtype` is floating or complex.

    Example:
        >>> from tfn.random.keys import key
        >>> normal(key(0), (2, 3)).shape
        (2, 3)
    """
    if dtype is not None and dtypes.canonical(dtype) in dtypes.COMPLEXES:
        words, sizes = words_of("normal", key), a_shape("normal", shape)
        return apply(complex_normal_body, [words], sizes, dtypes.canonical(dtype))
    return sampled("normal", normal_body, key, shape, dtype)


def truncated_normal(
    key: KeyLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws floats with the standard normal distribution, given that they lie in (lower, upper).

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        lower: lower bound, a real scalar or array.
        upper: upper bound, a real scalar or array.
        shape: sizes of the result, an integer or a sequence, to which the bounds broadcast; that of
            both, broadcast, if None.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ShapeError: if the parameters do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((truncated_normal(key(0), -2.0, 2.0, (100,)) < 2.0).all())
        True
    """
    return sampled("truncated_normal", truncated_body, key, shape, dtype, lower, upper)


GUMBEL = {"low": gumbel_body, "high": fine_gumbel_body}
"""The body for each mode: the number of random bits that an extreme number is made of."""


def gumbel_of(name: str, mode: str | None) -> Callable[..., UOp]:
    """The body for a mode.

    Raises:
        ArgumentError: for another mode than 'low' and 'high'.
    """
    one_of(name, "mode", mode, (*GUMBEL, None))
    return GUMBEL["low" if mode is None else mode]


def gumbel(
    key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None, mode: str | None = None
) -> Array:
    """Draws floats with the standard Gumbel distribution.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.
        mode: 'low', or 'high' for twice as many random bits, so that the largest numbers are not
            missed; 'low' if None.

    Raises:
        DTypeError: unless `dtype` is floating.
        ArgumentError: for another mode than 'low' and 'high'.

    Example:
        >>> from tfn.random.keys import key
        >>> gumbel(key(0), (3,)).shape
        (3,)
    """
    return sampled("gumbel", gumbel_of("gumbel", mode), key, shape, dtype)


def exponential(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws floats with the exponential distribution of mean 1.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((exponential(key(0), (9,)) >= 0).all())
        True
    """
    return sampled("exponential", exponential_body, key, shape, dtype)


def laplace(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws floats with the Laplace distribution of mean 0 and scale 1.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: floating dtype of the result; float32 if None.

    Raises:
        DTypeError: unless `dtype` is floating.

    Example:
        >>> from tfn.random.keys import key
        >>> laplace(key(0), (3,)).shape
        (3,)
    """
    return sampled("laplace", laplace_body, key, shape, dtype)


def bernoulli(
    key: KeyLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None, mode: str = "low"
) -> Array:
    """Draws booleans that are true with probability p.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        p: probability, a float or an array of floats; always true from 1 on, never true for NaN.
        shape: sizes of the result, an integer or a sequence, to which p broadcasts; that of p if
            None.
        mode: 'low', or 'high' for twice as many random bits, for probabilities below 1e-6.

    Raises:
        DTypeError: unless p is floating.
        ArgumentError: for another mode than 'low' and 'high'.

    Example:
        >>> from tfn.random.keys import key
        >>> bernoulli(key(0), 0.3, (5,)).dtype
        dtype('bool')
    """
    if isinstance(p, int):
        raise DTypeError(
            "bernoulli needs a floating probability", got=f"p={p!r}", hint=f"write p={float(p)}"
        )
    kind = (
        DEFAULTS[float] if isinstance(p, float) else floating("bernoulli", array_of("p", p).dtype)
    )
    words = words_of("bernoulli", key)
    one_of("bernoulli", "mode", mode, tuple(BERNOULLI))
    (chance,), sizes = parameters("bernoulli", kind, shape, p)
    return apply(BERNOULLI[mode], [words, chance], sizes, kind)


def bernoulli_body(words: UOp, p: UOp, shape: Shape, dtype: DType) -> UOp:
    """Whether a uniform float is less than p."""
    return unit(words, shape, dtype) < build.broadcast_to(p, shape)


def fine_bernoulli_body(words: UOp, p: UOp, shape: Shape, dtype: DType) -> UOp:
    """Whether a uniform float of twice as many bits is less than p."""
    high, low = halves(words, shape, dtype)
    step = 2.0 ** -int(dtypes.finfo(dtype).nmant)
    return low * step < build.broadcast_to(p, shape) - high


BERNOULLI = {"low": bernoulli_body, "high": fine_bernoulli_body}


def rademacher(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draws -1 or 1, equally likely.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        dtype: signed integer, floating or complex dtype; int32 if None.

    Raises:
        DTypeError: for a dtype that has no -1.

    Example:
        >>> from tfn.random.keys import key
        >>> bool((abs(rademacher(key(0), (9,))) == 1).all())
        True
    """
    kind = DEFAULTS[int] if dtype is None else dtypes.canonical(dtype)
    result_type("rademacher", kind, SIGNED | INEXACT, "a signed dtype")
    words = words_of("rademacher", key)
    return apply(rademacher_body, [words], a_shape("rademacher", shape), kind)


def rademacher_body(words: UOp, shape: Shape, dtype: DType) -> UOp:
    """1 where a uniform float is less than a half, else -1."""
    heads = unit(words, shape, DEFAULTS[float]) < 0.5
    return build.where(heads, const(1, dtype, shape), const(-1, dtype, shape))


def randint(
    key: KeyLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws integers that are uniform in [minval, maxval).

    Twice as many bits as needed are drawn, so that the bias of the remainder is small.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        shape: sizes of the result, an integer or a sequence; () for a scalar.
        minval: lower bound, an integer or an array that broadcasts to `shape`, of integers or
            of floats, which are cut to integers; included.
        maxval: upper bound, likewise; excluded.  Where it is not above `minval`, the result is
            `minval`.
        dtype: integer dtype of the result; int32 if None.

    Raises:
        DTypeError: unless `dtype` and the bounds are integer.
        ShapeError: if the bounds do not broadcast to `shape`.

    Example:
        >>> from tfn.random.keys import key
        >>> randint(key(0), (3,), 0, 10).shape
        (3,)
    """
    kind = DEFAULTS[int] if dtype is None else dtypes.canonical(dtype)
    result_type("randint", kind, INTEGERS - NARROW, "an integer dtype")
    words, sizes = words_of("randint", key), a_shape("randint", shape)
    drawn = INT32 if kind.itemsize < 4 else kind  # as JAX: narrow types are drawn from 32 bits
    low, high = _limit(minval, kind, drawn, 0), _limit(maxval, kind, drawn, 1)
    if isinstance(low, int) and isinstance(high, int):
        least, most = int(np.iinfo(drawn).min), int(np.iinfo(drawn).max)
        first, beyond = min(max(low, least), most), high > most
        span = min(max(high, least), most) - first
        span = span + beyond if span > 0 else 1
        carrier = unsigned(8 * drawn.itemsize)
        size = span % (1 << (8 * drawn.itemsize))
        operands = [*numbers_as([first, words], drawn)[:1], *numbers_as([size, words], carrier)[:1]]
        out = apply(integers, [words, *operands], sizes, drawn)
    else:
        bounds = [b if isinstance(b, Array) else _wide(b, words) for b in (low, high)]
        common = broadcast_shape("randint", *[b.shape for b in bounds])
        if broadcast_shape("randint", sizes, common) != sizes:
            raise ShapeError(
                "randint needs bounds that broadcast to its shape",
                got=f"bounds {common}, shape={sizes}",
                hint="the last axes of the shape are those of the bounds",
            )
        out = apply(integers_between, [words, *bounds], sizes, drawn)
    return out if drawn == kind else out.astype(kind)


def _limit(value: ArrayLike, kind: DType, drawn: DType, above: int) -> int | Array:
    """A bound; clipped to a narrow type before it is widened, as JAX has it."""
    narrow = drawn != kind
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max) + above
    if isinstance(value, int):
        return min(max(value, least), most) if narrow else value
    bound = array_of("randint", value)
    if isinstance(value, float):
        element_type("randint", bound, INTEGERS, "integer bounds")
    element_type("randint", bound, INTEGERS | FLOATS, "real bounds")
    bound = bound.astype(drawn) if bound.dtype in FLOATS else bound
    return bound.astype(drawn).clip(least, most) if narrow else bound


def _wide(value: int, words: Array) -> Array:
    return numbers_as([value, words], np.dtype("int64"))[0]
