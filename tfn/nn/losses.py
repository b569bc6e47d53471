"""Loss functions: cross entropies, squared errors and their like, one number per prediction."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfn import lax
from tfn import numpy as jnp
from tfn._support.validate import shown
from tfn.array import Array, ArrayLike
from tfn.eager.operands import array_of, one_axis
from tfn.errors import DTypeError, ShapeError
from tfn.nn.functions import log_sigmoid, log_softmax, logsumexp

if TYPE_CHECKING:
    from jaxtyping import Float, Integer


def _arrays(name: str, *operands: object) -> tuple[Array, ...]:
    """Operands as arrays; an error where one is a list or no array."""
    return tuple([array_of(name, x) for x in operands])


def softmax_cross_entropy(
    logits: Float[Array, "*batch classes"],
    labels: Float[Array, "*batch classes"],
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Float[Array, "*batch"]:
    """Returns the cross entropy between the softmax of logits and labels that are probabilities.

    Args:
        logits: floats; not normalized.
        labels: probabilities of the classes, of the shape of `logits`.
        axis: axis of the classes; negative ones count from the end.
        where: the classes that count, or the rows, without the axis of the classes; all if None.
            The loss of a row in which nothing counts is 0.

    Example:
        >>> labels = jnp.array([[0.5, 0.5]])
        >>> softmax_cross_entropy(jnp.zeros((1, 2)), labels).tolist()
        [0.693...]
    """
    logits, labels = _arrays("softmax_cross_entropy", logits, labels)
    where = _classes(where, axis, logits.ndim)
    return -jnp.sum(labels * log_softmax(logits, axis, where), axis, where=where)


def softmax_cross_entropy_with_integer_labels(
    logits: Float[Array, "*batch classes"],
    labels: Integer[Array, "*batch"],
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Float[Array, "*batch"]:
    """Returns the cross entropy between the softmax of logits and labels that are classes.

    Args:
        logits: floats; not normalized.
        labels: the number of a class, of the shape of `logits` without the axis of the classes.
        axis: axis of the classes; negative ones count from the end.
        where: the classes that count, or the rows, as of `softmax_cross_entropy`.

    Raises:
        DTypeError, ShapeError: unless labels are integers, one for each row of logits.

    Example:
        >>> softmax_cross_entropy_with_integer_labels(jnp.zeros((1, 2)), jnp.array([1])).tolist()
        [0.693...]
    """
    logits, labels = jnp.asarray(logits), jnp.asarray(labels)
    axis = one_axis("softmax_cross_entropy_with_integer_labels", axis, logits.ndim)
    integers = jnp.issubdtype(labels.dtype, jnp.integer)
    if not integers or labels.shape != logits.shape[:axis] + logits.shape[axis + 1 :]:
        raise (ShapeError if integers else DTypeError)(
            "labels are integers, one for each row of logits",
            got=f"logits {shown(logits)}, labels {shown(labels)}",
            hint="softmax_cross_entropy takes probabilities of all classes",
        )
    picked = jnp.take_along_axis(logits, jnp.expand_dims(labels, axis), axis).squeeze(axis)
    where = _classes(where, axis, logits.ndim)
    losses = logsumexp(logits, axis, where=where) - picked
    return losses if where is None else jnp.where(jnp.any(where, axis), losses, 0.0)


def _classes(where: ArrayLike | None, axis: int, ndim: int) -> Array | None:
    """A mask of classes; one of rows is for all classes of each."""
    if where is None or jnp.ndim(where) == ndim:
        return where if where is None else jnp.asarray(where)
    return jnp.expand_dims(where, axis)


def sigmoid_binary_cross_entropy(
    logits: Float[Array, "*batch"], labels: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """Returns the cross entropy between sigmoids of logits and labels in [0, 1].

    Example:
        >>> sigmoid_binary_cross_entropy(jnp.array([0.0]), jnp.array([1.0])).tolist()
        [0.693...]
    """
    logits, labels = _arrays("sigmoid_binary_cross_entropy", logits, labels)
    return -labels * log_sigmoid(logits) - (1.0 - labels) * log_sigmoid(-logits)


def squared_error(
    predictions: Float[Array, "*batch"], targets: ArrayLike = 0.0
) -> Float[Array, "*batch"]:
    """Returns the square of the difference.

    Example:
        >>> squared_error(jnp.array([3.0]), 1.0).tolist()
        [4.0]
    """
    predictions, targets = _arrays("squared_error", predictions, targets)
    return jnp.square(predictions - targets)


def l2_loss(
    predictions: Float[Array, "*batch"], targets: ArrayLike = 0.0
) -> Float[Array, "*batch"]:
    """Returns half the square of the difference, whose gradient is the difference.

    Example:
        >>> l2_loss(jnp.array([3.0]), 1.0).tolist()
        [2.0]
    """
    return 0.5 * squared_error(*_arrays("l2_loss", predictions, targets))


def huber_loss(
    predictions: Float[Array, "*batch"], targets: ArrayLike = 0.0, delta: float = 1.0
) -> Float[Array, "*batch"]:
    """Returns `l2_loss` up to a difference of delta, and a linear function beyond.

    Args:
        predictions: floats of any shape.
        targets: floats that broadcast with `predictions`.
        delta: the difference at which the loss becomes linear, positive.

    Source: Huber 1964, "Robust estimation of a location parameter".

    Example:
        >>> huber_loss(jnp.array([0.5, 3.0])).tolist()
        [0.125, 2.5]
    """
    predictions, targets = _arrays("huber_loss", predictions, targets)
    error = jnp.abs(predictions - targets)
    near = jnp.minimum(error, delta)
    return 0.5 * near * near + delta * (error - near)


def log_cosh(
    predictions: Float[Array, "*batch"], targets: ArrayLike = 0.0
) -> Float[Array, "*batch"]:
    """Returns the logarithm of the hyperbolic cosine of the difference: smooth, linear far away.

    Example:
        >>> log_cosh(jnp.array([0.0, 1.0])).tolist()
        [0.0, 0.433...]
    """
    predictions, targets = _arrays("log_cosh", predictions, targets)
    error = predictions - targets
    return jnp.logaddexp(error, -error) - math.log(2)


def hinge_loss(
    predictions: Float[Array, "*batch"], signs: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """Returns ``max(0, 1 - predictions * signs)``, where the signs are -1 or 1.

    Example:
        >>> hinge_loss(jnp.array([0.5, 3.0]), jnp.array([1.0, 1.0])).tolist()
        [0.5, 0.0]
    """
    predictions, signs = _arrays("hinge_loss", predictions, signs)
    return jnp.maximum(0.0, 1.0 - predictions * signs)


def kl_divergence(
    log_predictions: Float[Array, "*batch classes"],
    targets: Float[Array, "*batch classes"],
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Float[Array, "*batch"]:
    """Returns the divergence of predicted probabilities, given as logarithms, from the targets.

    Args:
        log_predictions: logarithms of probabilities.
        targets: probabilities, of the shape of `log_predictions`.
        axis: axis of the classes; negative ones count from the end.
        where: the classes that count, all if None.

    Source: Kullback, Leibler 1951, "On information and sufficiency".

    Example:
        >>> kl_divergence(jnp.log(jnp.array([0.5, 0.5])), jnp.array([0.0, 1.0])).item()
        0.693...
    """
    log_predictions, targets = _arrays("kl_divergence", log_predictions, targets)
    logs = jnp.log(jnp.where(targets > 0, targets, 1.0))
    return jnp.sum(targets * (logs - log_predictions), axis, where=where)


def cosine_similarity(
    a: Float[Array, "*batch features"],
    b: Float[Array, "*batch features"],
    epsilon: float = 1e-12,
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Float[Array, "*batch"]:
    """Returns the cosine of the angle between vectors; 0 if one of them is 0.

    Args:
        a: vectors along the last axis.
        b: vectors along the last axis; broadcast with `a`.
        epsilon: lower bound of the squared lengths, which avoids a division by 0.
        axis: axis of the features; negative ones count from the end.
        where: the features that count, all if None.

    Example:
        >>> cosine_similarity(jnp.array([1.0, 0.0]), jnp.array([3.0, 4.0])).item()
        0.6...
    """

    def total(x: Array) -> Array:
        return jnp.sum(x, axis, where=where)

    lengths = [lax.rsqrt(jnp.maximum(total(jnp.square(x)), epsilon)) for x in (a, b)]
    return total(a * b) * lengths[0] * lengths[1]


def smooth_labels(
    labels: Float[Array, "*batch classes"], alpha: float
) -> Float[Array, "*batch classes"]:
    """Returns probabilities of classes, a fraction `alpha` of which is spread over all of them.

    Source: Müller, Kornblith, Hinton 2019, arXiv:1906.02629.

    Example:
        >>> smooth_labels(jnp.array([1.0, 0.0]), 0.5).tolist()
        [0.75, 0.25]
    """
    labels, fraction = _arrays("smooth_labels", labels, alpha)
    classes = labels.shape[one_axis("smooth_labels", -1, labels.ndim)]
    return (1.0 - fraction) * labels + fraction / classes
