"""Random permutations and random sampling: permutation, choice, categorical."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log, prod

import numpy as np

from tfn._support.validate import element_type, integer, shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import DEFAULTS, FLOATS, UINT32, DType
from tfn.eager.operands import a_shape, apply, array_of, broadcast_shape, one_axis
from tfn.errors import ArgumentError, ShapeError
from tfn.lax.generators import independent_words, random_bits
from tfn.numpy.sorting import insertion_points
from tfn.random.distributions import ShapeLike, gumbel_of, integers, unit
from tfn.random.keys import KeyLike, words_of
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

# Graph builders, traced inside of programs: `words` is the node of a key, uint32[2], `shape` and
# `dtype` are those of the result.  Parameters are nodes that broadcast to `shape`.


def shuffled(words: UOp, x: UOp, axis: int) -> UOp:
    """Permutes each line along an axis at random, by sorting with random keys.

    Two equal keys would bias the order, so the sort is repeated with fresh keys until equal keys
    in every round are unlikely: size**3 < 2**(32 * rounds).
    """
    rounds = ceil(3 * log(max(1, build.count(x.shape))) / log(np.iinfo(UINT32).max))
    order = build.moveaxis(x, axis, x.ndim - 1)
    for _ in range(rounds):
        words, fresh = independent_words(words)
        keys = build.moveaxis(random_bits(fresh, x.shape, 32), axis, x.ndim - 1)
        _, order = build.sort((keys, order))
    return build.moveaxis(order, x.ndim - 1, axis)


def random_order(words: UOp, size: int) -> UOp:
    """The integers 0 to size - 1 in a random order."""
    return shuffled(words, build.iota((size,), 0, build.result_index_dtype(size)), 0)


def permuted(words: UOp, x: UOp, axis: int) -> UOp:
    """The slices along an axis in a random order."""
    return take_slices(x, random_order(words, x.shape[axis]), axis)


def take_slices(x: UOp, places: UOp, axis: int) -> UOp:
    """Gathers slices at indices along an axis, which becomes the axes of the indices."""
    front = build.moveaxis(x, axis, 0)
    starts = build.reshape(places, (*places.shape, 1))
    picked = build.gather(front, starts, (1, *front.shape[1:]))
    picked = build.reshape(picked, (*places.shape, *front.shape[1:]))
    n = places.ndim
    order = (*range(n, n + axis), *range(n), *range(n + axis, picked.ndim))
    return build.permute(picked, order)


def argsort_top(u: UOp, count: int) -> UOp:
    """The indices of the largest elements of each line, the largest first."""
    last = (u.ndim - 1,)
    places = build.flip(build.iota(u.shape, u.ndim - 1), last)
    _, order = build.sort((build.flip(u, last), places))
    best = build.flip(order, last)
    return build.shrink(best, (0,) * u.ndim, (*u.shape[:-1], count))


Body = Callable[..., UOp]


def categorical_body(words: UOp, logits: UOp, shape: Shape, axis: int, gumbel: Body) -> UOp:
    """Argmax of logits plus Gumbel noise: a draw with replacement for each element of shape."""
    prefix = shape[: len(shape) - logits.ndim + 1]
    lines = list(shape[len(prefix) :])
    lines.insert(axis, logits.shape[axis])
    noise = gumbel(words, (*prefix, *lines), logits.dtype)
    noisy = noise + build.broadcast_to(logits, noise.shape)
    at = len(prefix) + axis
    return build.reduce(noisy, Op.MAX, (at,), index=build.result_index_dtype(noisy.shape[at]))


def distinct_body(words: UOp, logits: UOp, count: int, axis: int, gumbel: Body) -> UOp:
    """The `count` largest of logits plus Gumbel noise: draws without replacement, axis 0."""
    noise = gumbel(words, logits.shape, logits.dtype)
    noisy = build.moveaxis(logits + noise, axis, logits.ndim - 1)
    return build.moveaxis(argsort_top(noisy, count), noisy.ndim - 1, 0)


def uniform_integers(words: UOp, size: int, shape: Shape) -> UOp:
    """Integers in [0, size), with replacement."""
    dtype = build.result_index_dtype(size)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return integers(words, const(0, dtype), const(size, unsigned), shape, dtype)


def weighted_integers(words: UOp, p: UOp, shape: Shape) -> UOp:
    """Integers with probabilities p, with replacement, by inversion of the prefix sums of p."""
    total, step = p, 1
    while step < p.shape[0]:  # prefix sums by doubling: log2(n) rounds
        total = total + build.pad_or_crop(total, (step,), (-step,))
        step *= 2
    r = build.broadcast_to(
        build.reshape(build.shrink(total, (p.shape[0] - 1,), p.shape), ()), shape
    ) * (1 - unit(words, shape, p.dtype))
    places = insertion_points(total, r, p.dtype, left=True)
    return build.cast(places, build.result_index_dtype(p.size))


def distinct_weighted_integers(words: UOp, p: UOp, count: int, gumbel: Body) -> UOp:
    """Distinct integers with probabilities p, by the Gumbel-top-k trick."""
    places = argsort_top(gumbel(words, p.shape, p.dtype) + UOp(Op.LOG, (p,)), count)
    return build.cast(places, build.result_index_dtype(p.size))


# The public functions.


def permutation(
    key: KeyLike, x: int | ArrayLike, axis: int = 0, independent: bool = False
) -> Array:
    """Returns the slices of an array along an axis, or the first x integers, in a random order.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        x: an array, or an integer that stands for ``arange(x)``.
        axis: the axis to permute; negative ones count from the end; without meaning for an integer
            x.
        independent: whether each line along the axis gets an order of its own.

    Returns:
        An array of the shape and dtype of x, or int32 of shape (x,).

    Raises:
        AxisError: if the array does not have the axis.

    Example:
        >>> from tfn.random.keys import key
        >>> sorted(permutation(key(0), 5).tolist())
        [0, 1, 2, 3, 4]
    """
    words = words_of("permutation", key)
    values = None if isinstance(x, int) else array_of("permutation", x)
    if values is None or not values.shape:
        (size,) = a_shape("permutation", integer("permutation", "x", x))
        return apply(random_order, [words], size)
    axis = one_axis("permutation", axis, len(values.shape))
    body = shuffled if independent or len(values.shape) == 1 else permuted
    return apply(body, [words, values], axis)


def categorical(
    key: KeyLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Draws indices along an axis with probabilities ``softmax(logits, axis)``.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        logits: floats with at least one axis; -inf means probability 0.
        axis: the axis of the categories; negative ones count from the end.
        shape: of the result, the last axes of which broadcast with those of `logits` without
            `axis`; just those if None.
        replace: whether an index may be drawn more than once along the leading axes of `shape`.
        mode: 'low' or 'high' (more random bits), as in `gumbel`; 'low' if None.

    Returns:
        Integers in [0, size of the axis), of shape `shape`.

    Raises:
        DTypeError: unless logits are floating.
        ShapeError: if shape does not end as logits without `axis` do.
        ArgumentError: if more different coordinates are asked for than there are.

    Source: Gumbel 1954 (the maximum of noisy logits); Kool, van Hoof, Welling 2019,
        arXiv:1903.06059 (without replacement).

    Example:
        >>> from tfn.random.keys import key
        >>> categorical(key(0), np.zeros((4, 3), "float32")).shape
        (4,)
    """
    noise = gumbel_of("categorical", mode)
    words, values = words_of("categorical", key), array_of("categorical", logits)
    element_type("categorical", values, FLOATS, "floating logits")
    axis = one_axis("categorical", axis, len(values.shape))
    lines = values.shape[:axis] + values.shape[axis + 1 :]
    sizes = lines if shape is None else a_shape("categorical", shape)
    if broadcast_shape("categorical", sizes, lines) != sizes:
        raise ShapeError(
            "categorical needs a shape that the logits broadcast to",
            got=f"logits {values.shape} along axis {axis}, shape={sizes}",
            hint="the last axes of the shape are those of the logits without the axis",
        )
    if replace:
        return apply(categorical_body, [words, values], sizes, axis, noise)
    count = prod(sizes[: len(sizes) - len(lines)])
    if count > values.shape[axis]:
        raise ArgumentError(
            f"only {values.shape[axis]} different coordinates can be drawn",
            got=f"shape={sizes}, replace=False",
            hint="draw with replacement, or fewer",
        )
    return apply(distinct_body, [words, values], count, axis, noise).reshape(sizes)


def choice(
    key: KeyLike,
    a: int | ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Draws slices of an array along an axis, or integers below a, at random.

    Args:
        key: a single key from `key` or `split`, used up by this call, or its words.
        a: an array, or an integer that stands for ``arange(a)``.
        shape: of the draws, an integer or a sequence; () for a single one.
        replace: whether one may be drawn more than once.
        p: a vector of probabilities, one for each, which need not add up to 1; uniform if None.
        axis: the axis of `a`; negative ones count from the end; without meaning for an integer `a`.
        mode: 'low' or 'high' (more random bits), as in `gumbel`, for draws with probabilities and
            without replacement; 'low' if None.

    Returns:
        An array of the dtype of `a` in which the axes of `shape` take the place of `axis`.

    Raises:
        ArgumentError: if there are none to draw from, or too few without replacement; for another
            mode than 'low' and 'high'.
        ShapeError: unless p has one probability for each.

    Example:
        >>> from tfn.random.keys import key
        >>> choice(key(0), 10, (3,), replace=False).shape
        (3,)
    """
    words, sizes, noise = (
        words_of("choice", key),
        a_shape("choice", shape),
        gumbel_of("choice", mode),
    )
    values = None if isinstance(a, int) else array_of("choice", a)
    if values is None or not values.shape:
        size, axis = integer("choice", "a", a), 0
        values = None
    else:
        axis = one_axis("choice", axis, len(values.shape))
        size = values.shape[axis]
    count = prod(sizes)
    if count and (size <= 0 or (not replace and count > size)):
        raise ArgumentError(
            f"{count} cannot be drawn from {size}",
            got=f"shape={sizes}, replace={replace}",
            hint="draw with replacement, or fewer",
        )
    if p is None and not replace and values is not None:
        picked = permutation(words, values, axis)
        picked = picked[(slice(None),) * axis + (slice(count),)]
    else:
        places = _drawn_indices(words, size, sizes, replace, p, noise)
        if values is None:
            return places.reshape(sizes)
        picked = apply(take_slices, [values, places.reshape(sizes)], axis)
    assert values is not None
    return picked.reshape((*values.shape[:axis], *sizes, *values.shape[axis + 1 :]))


def _drawn_indices(
    words: Array, size: int, shape: Shape, replace: bool, p: ArrayLike | None, noise: Body
) -> Array:
    if p is None:
        if replace:
            return apply(uniform_integers, [words], size, shape)
        return apply(random_order, [words], size)[: prod(shape)]
    weights = array_of("p", p)
    if weights.shape != (size,):
        raise ShapeError(
            f"choice needs a probability for each of {size}",
            got=f"p={shown(weights)}",
            hint="p is a vector as long as the axis",
        )
    kind: DType = weights.dtype if weights.dtype in FLOATS else DEFAULTS[float]
    weights = weights if weights.dtype == kind else weights.astype(kind)
    if replace:
        return apply(weighted_integers, [words, weights], shape)
    return apply(distinct_weighted_integers, [words, weights], prod(shape), noise)
