"""Activation functions, softmax, one_hot: plain functions of arrays.

Integers become float32, as everywhere in tfn.numpy.  Complex numbers are ordered by their real
parts.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from tfn import lax
from tfn import numpy as jnp
from tfn._support.validate import integer, size_limit
from tfn.array import Array, ArrayLike
from tfn.custom_derivatives import custom_jvp
from tfn.dtypes import DTypeLike
from tfn.eager.arrays import weaken
from tfn.eager.operands import one_axis

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Integer, Shaped

Axes = int | Sequence[int] | None


def _floating(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)


# Activations, element by element.


def relu(x: Shaped[Array, "*axes"]) -> Shaped[Array, "*axes"]:
    """Returns the positive part; NaN stays NaN, and the derivative at 0 is 0.

    Example:
        >>> relu(jnp.array([-1.0, 0.0, 2.0])).tolist()
        [0.0, 0.0, 2.0]
    """
    x = jnp.asarray(x)
    return jnp.where(x <= 0, jnp.zeros_like(x), x)


def relu6(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns `relu`, at most 6; the derivative at 6 is 0.

    Example:
        >>> relu6(jnp.array([-1.0, 3.0, 9.0])).tolist()
        [0.0, 3.0, 6.0]
    """
    return jnp.where(jnp.asarray(x) >= 6, 6.0, relu(x))


def leaky_relu(x: Float[Array, "*axes"], negative_slope: ArrayLike = 0.01) -> Float[Array, "*axes"]:
    """Returns x where it is not negative, else x times a small slope.

    Example:
        >>> leaky_relu(jnp.array([-1.0, 2.0]), 0.5).tolist()
        [-0.5, 2.0]
    """
    x = _floating(x)
    return jnp.where(x >= 0, x, negative_slope * x)


def elu(x: Float[Array, "*axes"], alpha: ArrayLike = 1.0) -> Float[Array, "*axes"]:
    """Returns x where it is positive, else ``alpha * (exp(x) - 1)``.

    Source: Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289.

    Example:
        >>> elu(jnp.array([-100.0, 2.0])).tolist()
        [-1.0, 2.0]
    """
    x = _floating(x)
    positive = x > 0
    # The other branch is not evaluated where exp would overflow, so its gradient is not NaN.
    return jnp.where(positive, x, alpha * jnp.expm1(jnp.where(positive, 0.0, x)))


def celu(x: Float[Array, "*axes"], alpha: ArrayLike = 1.0) -> Float[Array, "*axes"]:
    """Returns `elu` with a continuous derivative for every alpha.

    Source: Barron 2017, arXiv:1704.07483.

    Example:
        >>> celu(jnp.array([-100.0, 2.0]), 2.0).tolist()
        [-2.0, 2.0]
    """
    x = _floating(x)
    positive = x > 0
    return jnp.where(positive, x, alpha * jnp.expm1(jnp.where(positive, 0.0, x) / alpha))


def selu(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns `elu` scaled so that activations keep mean 0 and variance 1.

    Source: Klambauer, Unterthiner, Mayr, Hochreiter 2017, arXiv:1706.02515.

    Example:
        >>> selu(jnp.array([-1.0, 1.0])).tolist()
        [-1.111..., 1.050...]
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def gelu(x: Float[Array, "*axes"], approximate: bool = True) -> Float[Array, "*axes"]:
    """Returns x times the probability that a standard normal number is below x.

    Args:
        approximate: use tanh instead of erf; the two differ by at most 0.0005.

    Source: Hendrycks, Gimpel 2016, arXiv:1606.08415.

    Example:
        >>> round(gelu(jnp.array(1.0)).item(), 4), round(gelu(jnp.array(1.0), False).item(), 4)
        (0.8412, 0.8413)
    """
    x = weaken(_floating(x), False)
    if approximate and x.dtype.kind == "c":
        return 0.5 * x * (1 + jnp.tanh(_gelu_logit(x) / 2))
    if approximate:
        result: Array = _gelu_by_tanh(x)
        return result
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


_GELU_SCALE, _GELU_CUBE = 2 * math.sqrt(2 / math.pi), 0.044715
_GELU_END = 30.0
"""The probability is 0 or 1 from here on in every dtype: larger numbers would overflow as cubes."""


@custom_jvp
def _gelu_by_tanh(x: Array) -> Array:
    """With ``(1 + tanh(u)) / 2`` as ``logistic(2 * u)``, which keeps its digits below 0."""
    return jnp.maximum(x, -_GELU_END) * lax.logistic(
        _gelu_logit(jnp.clip(x, -_GELU_END, _GELU_END))
    )


def _gelu_logit(x: Array) -> Array:
    return _GELU_SCALE * (x + _GELU_CUBE * (x * x * x))


@_gelu_by_tanh.defjvp
def _gelu_by_tanh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """By the probabilities of both sides: one minus the larger has no digits."""
    (x,), (dx,) = primals, tangents
    inside = jnp.clip(x, -_GELU_END, _GELU_END)
    logit = _gelu_logit(inside)
    below, above = lax.logistic(logit), lax.logistic(-logit)
    slope_of_logit = _GELU_SCALE * (1 + 3 * _GELU_CUBE * (inside * inside))
    return _gelu_by_tanh(x), dx * (below * (1 + inside * above * slope_of_logit))


def sigmoid(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``1 / (1 + exp(-x))``.

    Example:
        >>> sigmoid(jnp.array([0.0, 100.0])).tolist()
        [0.5, 1.0]
    """
    x = _floating(x)
    return 0.5 + 0.5 * jnp.tanh(x / 2) if x.dtype.kind == "c" else lax.logistic(x)


def log_sigmoid(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns the logarithm of `sigmoid`, finite for all finite x.

    Example:
        >>> log_sigmoid(jnp.array(-1000.0)).item()
        -1000.0
    """
    return -softplus(-_floating(x))


def silu(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``x * sigmoid(x)``.

    Source: Elfwing, Uchibe, Doya 2017, arXiv:1702.03118.

    Example:
        >>> silu(jnp.array(1.0)).item()
        0.731...
    """
    x = _floating(x)
    result: Array = x * sigmoid(x) if x.dtype.kind == "c" else _silu(x)
    return result


_SILU_END = 800.0
"""The logistic function is 0 or 1 from here on in every dtype."""


@custom_jvp
def _silu(x: Array) -> Array:
    return jnp.maximum(x, -_SILU_END) * lax.logistic(x)


@_silu.defjvp
def _silu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """By the values at x and -x: one minus the larger has no digits."""
    (x,), (dx,) = primals, tangents
    inside = jnp.clip(x, -_SILU_END, _SILU_END)
    return _silu(x), dx * (lax.logistic(x) * (1 + inside * lax.logistic(-x)))


swish = silu


def mish(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``x * tanh(softplus(x))``.

    Source: Misra 2019, arXiv:1908.08681.

    Example:
        >>> mish(jnp.array(1.0)).item()
        0.865...
    """
    x = _floating(x)
    return x * jnp.tanh(softplus(x))


def softplus(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``log(1 + exp(x))``, without overflow.

    Example:
        >>> softplus(jnp.array([0.0, 1000.0])).tolist()
        [0.693..., 1000.0]
    """
    return jnp.logaddexp(x, 0.0)


def squareplus(x: Float[Array, "*axes"], b: ArrayLike = 4.0) -> Float[Array, "*axes"]:
    """Returns ``(x + sqrt(x**2 + b)) / 2``: like `softplus`, without exp and log.

    Source: Barron 2021, arXiv:2112.11687.

    Example:
        >>> squareplus(jnp.array(0.0)).item()
        1.0
    """
    x = _floating(x)
    root = jnp.sqrt(jnp.add(jnp.square(x), b))
    size = jnp.where(x < 0, -x, x)
    return jnp.where(x < 0, b / (2 * (root + size)), (x + root) / 2)


def sparse_plus(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns 0 below -1, x above 1, and a parabola between them.

    Source: Martins, Astudillo 2016, arXiv:1602.02068: the loss of sparsemax for two classes.

    Example:
        >>> sparse_plus(jnp.array([-2.0, 0.0, 2.0])).tolist()
        [0.0, 0.25, 2.0]
    """
    x = _floating(x)
    middle = jnp.where((x <= -1) | (x >= 1), 0.0, x)
    return jnp.where(x <= -1, 0.0, jnp.where(x >= 1, x, jnp.square(middle + 1) / 4))


def sparse_sigmoid(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``(x + 1) / 2`` clipped to [0, 1]: the derivative of `sparse_plus`.

    Example:
        >>> sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    return jnp.clip((_floating(x) + 1) / 2, 0.0, 1.0)


def log1mexp(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``log(1 - exp(-x))`` for x > 0, accurate near zero and far from it.

    Source: Maechler 2012, "Accurately computing log(1 - exp(-|a|))".

    Example:
        >>> log1mexp(jnp.array(1.0)).item()
        -0.458...
    """
    x = _floating(x)
    near = x < math.log(2)
    # Each branch is given only what it is meant for, so that gradients are not NaN.
    small, large = jnp.where(near, x, 1.0), jnp.where(near, 1.0, x)
    return jnp.where(near, jnp.log(-jnp.expm1(-small)), jnp.log1p(-jnp.exp(-large)))


def identity(x: Shaped[Array, "*axes"]) -> Shaped[Array, "*axes"]:
    """Returns x.

    Example:
        >>> identity(jnp.array([1, 2])).tolist()
        [1, 2]
    """
    return jnp.asarray(x)


def soft_sign(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``x / (1 + abs(x))``.

    Example:
        >>> soft_sign(jnp.array([-1.0, 3.0])).tolist()
        [-0.5, 0.75]
    """
    result: Array = _soft_sign(_floating(x))
    return result


@custom_jvp
def _soft_sign(x: Array) -> Array:
    return x / (1 + jnp.abs(x))


_soft_sign.defjvps(lambda dx, out, x: dx / (1 + jnp.abs(x)) ** 2)  # a difference loses digits


def tanh(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns the hyperbolic tangent.

    Example:
        >>> tanh(jnp.array(100.0)).item()
        1.0
    """
    return jnp.tanh(x)


def hard_tanh(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Clips x to [-1, 1].

    Example:
        >>> hard_tanh(jnp.array([-4.0, 0.5])).tolist()
        [-1.0, 0.5]
    """
    x = jnp.asarray(x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


def hard_sigmoid(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns `sigmoid` approximated by three straight pieces.

    Example:
        >>> hard_sigmoid(jnp.array([-4.0, 0.0, 4.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    return relu6(_floating(x) + 3) / 6


def hard_silu(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Returns ``x * hard_sigmoid(x)``.

    Source: Howard et al. 2019, arXiv:1905.02244.

    Example:
        >>> hard_silu(jnp.array([0.0, 4.0])).tolist()
        [0.0, 4.0]
    """
    x = _floating(x)
    inside = jnp.where(jnp.isinf(x), 0, x)  # the slope of the product would be infinity times 0
    return jnp.where(jnp.isinf(x), jnp.maximum(x, 0), inside * hard_sigmoid(inside))


hard_swish = hard_silu


def glu(x: Float[Array, "*axes"], axis: int = -1) -> Float[Array, "*half"]:
    """Returns the first half along an axis times the sigmoid of the second (gated linear unit).

    Raises:
        ArgumentError: if the axis cannot be halved.

    Source: Dauphin, Fan, Auli, Grangier 2016, arXiv:1612.08083.

    Example:
        >>> glu(jnp.array([3.0, 0.0])).tolist()
        [1.5]
    """
    value, gate = jnp.split(x, 2, axis)
    return value * sigmoid(gate)


# Over an axis.


def softmax(
    x: Float[Array, "*axes"], axis: Axes = -1, where: Bool[Array, "*#axes"] | None = None
) -> Float[Array, "*axes"]:
    """Returns positive numbers in proportion to ``exp(x)`` that add up to 1 along an axis.

    Args:
        x: floats of any shape; integers become float32.
        axis: one or several axes, negative ones count from the end; None for all.
        where: booleans that broadcast to x, True for the elements that take part; all if None.  The
            others get 0.

    Returns:
        Floats of the shape and dtype of x.

    Example:
        >>> softmax(jnp.array([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    return _unmasked(_softmax(_masked(_floating(x), where), axis), where, 0.0)


@partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Array, axis: Axes) -> Array:
    wide = _wide(x)
    powers = jnp.exp(wide - _largest(wide.real, axis))
    return (powers / jnp.sum(powers, axis, keepdims=True)).astype(x.dtype)


@_softmax.defjvp
def _softmax_jvp(axis: Axes, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """Uses the result alone: rules of its steps would compute powers and sums again."""
    out, (dx,) = _softmax(*primals, axis), tangents
    share, change = _wide(out), _wide(dx)
    slope = share * (change - jnp.sum(share * change, axis, keepdims=True))
    return out, slope.astype(dx.dtype)


def _wide(x: Array) -> Array:
    """Half floats as float32: a sum of 70,000 ones is infinite in float16."""
    return x.astype("float32") if x.dtype.itemsize < 4 else x


def log_softmax(
    x: Float[Array, "*axes"], axis: Axes = -1, where: Bool[Array, "*#axes"] | None = None
) -> Float[Array, "*axes"]:
    """Returns the logarithm of `softmax`, without its rounding to 0.

    Args:
        x: floats of any shape; integers become float32.
        axis: one or several axes, negative ones count from the end; None for all.
        where: booleans that broadcast to x, True for the elements that take part; all if None.  The
            others get -inf.

    Returns:
        Floats of the shape and dtype of x.

    Example:
        >>> log_softmax(jnp.array([0.0, -200.0])).tolist()
        [0.0, -200.0]
    """
    x = _masked(_floating(x), where)
    shifted: Array = _wide(x) - lax.stop_gradient(_largest(_wide(x).real, axis))
    out = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, keepdims=True))
    return _unmasked(out.astype(x.dtype), where, -jnp.inf)


def _largest(x: Array, axis: Axes) -> Array:
    """The maximum along an axis; -inf along an axis without elements, where exp adds up to 0."""
    return jnp.max(x, axis, keepdims=True, initial=None if x.size else -jnp.inf)


def _masked(x: Array, where: Array | None) -> Array:
    return x if where is None else jnp.where(where, x, -jnp.inf)


def _unmasked(out: Array, where: Array | None, value: float) -> Array:
    """Replaces the masked elements: a row with none but them would be NaN."""
    return out if where is None else jnp.where(where, out, value)


@overload
def logsumexp(
    a: Float[Array, "*axes"],
    axis: Axes = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: Bool[Array, "*#axes"] | None = None,
) -> Float[Array, "*rest"]: ...
@overload
def logsumexp(
    a: Float[Array, "*axes"],
    axis: Axes = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
    where: Bool[Array, "*#axes"] | None = None,
) -> tuple[Float[Array, "*rest"], Float[Array, "*rest"]]: ...
def logsumexp(
    a: Float[Array, "*axes"],
    axis: Axes = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Bool[Array, "*#axes"] | None = None,
) -> Any:
    """Returns ``log(sum(b * exp(a)))`` over axes, without overflow.

    Args:
        a: floats of any shape; integers become float32.
        axis: one or several axes, negative ones count from the end; None for all.
        b: factors of the terms, which broadcast to a and may be negative; 1 if None.
        keepdims: whether the axes stay, with size 1.
        return_sign: whether to return the logarithm of the magnitude of the sum, and its sign.
        where: booleans that broadcast to a, True for the elements that take part; all if None.

    Returns:
        Floats; -inf where no element takes part, and NaN where a sum is negative, unless
        `return_sign`.

    Example:
        >>> logsumexp(jnp.array([1000.0, 1000.0])).item() - 1000
        0.693...
    """
    a = _masked(_floating(a), where)
    if b is not None:
        a = jnp.where(jnp.asarray(b) == 0, -jnp.inf, a)
    kind, a = a.dtype, _wide(a)
    largest = _largest(a.real, axis)
    largest = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0.0))
    terms = jnp.exp(a - largest)
    total = jnp.sum(terms if b is None else b * terms, axis, keepdims=True)
    sign = jnp.sign(total)
    if return_sign:
        total = jnp.abs(total)
    out = jnp.log(total) + largest
    if kind.itemsize < 4:
        out, sign = out.astype(kind), sign.astype(kind)
    if not keepdims:
        out, sign = (jnp.squeeze(v, _axes(axis, a.ndim)) for v in (out, sign))
    return (out, sign) if return_sign else out


def logmeanexp(
    x: Float[Array, "*axes"],
    axis: Axes = None,
    where: Bool[Array, "*#axes"] | None = None,
    keepdims: bool = False,
) -> Float[Array, "*rest"]:
    """Returns ``log(mean(exp(x)))`` over axes, without overflow.

    Args:
        x: floats of any shape; integers become float32.
        axis: one or several axes, negative ones count from the end; None for all.
        where: booleans that broadcast to x, True for the elements that take part; all if None.
        keepdims: whether the axes stay, with size 1.

    Returns:
        Floats; NaN where no element takes part.

    Example:
        >>> logmeanexp(jnp.array([1000.0, 1000.0])).item()
        1000.0
    """
    x = _floating(x)
    kind, x = x.dtype, _wide(x)
    count = jnp.sum(jnp.ones_like(x), axis, keepdims=keepdims, where=where)
    out: Array = logsumexp(x, axis, keepdims=keepdims, where=where) - jnp.log(count)
    return out.astype(kind)


def _axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def standardize(
    x: Float[Array, "*axes"],
    axis: Axes = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: Bool[Array, "*#axes"] | None = None,
) -> Float[Array, "*axes"]:
    """Returns x minus its mean, divided by its standard deviation, along an axis.

    Args:
        x: floats of any shape; integers become float32.
        axis: one or several axes, negative ones count from the end; None for all.
        mean, variance: to be used instead of those of x.
        mean: used instead of that of x; broadcasts to x.
        variance: used instead of that of x; broadcasts to x.
        epsilon: added to the variance.
        where: booleans that broadcast to x, True for the elements that take part; all if None.  Of
            the mean and the variance only.

    Returns:
        Floats of the shape and dtype of x.

    Example:
        >>> standardize(jnp.array([1.0, 3.0]), epsilon=0.0).tolist()
        [-1.0, 1.0]
    """
    x = _floating(x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    centred = x - mean
    if variance is None:
        size = jnp.abs(centred) if x.dtype.kind == "c" else centred
        variance = jnp.mean(jnp.square(size), axis, keepdims=True, where=where)
    return centred * lax.rsqrt(jnp.asarray(variance) + epsilon)


def one_hot(
    x: Integer[Array, "*axes"], num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Shaped[Array, "*more"]:
    """Returns a new axis with 1 at the index that x gives and 0 elsewhere; all 0 if it is outside.

    Args:
        x: integers of any shape.
        num_classes: size of the new axis; it may be 0.
        dtype: dtype of the result; float32 if None.
        axis: position of the new axis in the result; negative ones count from the end.

    Raises:
        AxisError: if the result has no such axis.

    Example:
        >>> one_hot(jnp.array([1, 3]), 3).tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    x = jnp.asarray(x)
    place = one_axis("one_hot", axis, x.ndim + 1)
    num_classes = integer("one_hot", "num_classes", num_classes, 0)
    size_limit("one_hot", (*x.shape, num_classes))
    shape = [1] * (x.ndim + 1)
    shape[place] = num_classes
    narrow = x.dtype.kind in "iu" and num_classes > jnp.iinfo(x.dtype).max
    kind = jnp.promote_types(x.dtype, "int32") if narrow else x.dtype
    classes = jnp.arange(num_classes, dtype=kind).reshape(shape)
    return (jnp.expand_dims(x, place) == classes).astype(float if dtype is None else dtype)
