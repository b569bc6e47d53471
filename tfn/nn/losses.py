"""How far predictions are from what they should be, one number for each."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError
from tfn.nn.functions import log_sigmoid, log_softmax, logsumexp

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def softmax_cross_entropy(logits: Float[Array, "*batch classes"],
                          labels: Float[Array, "*batch classes"], axis: int = -1
                          ) -> Float[Array, "*batch"]:  # fmt: skip
    """The cross entropy between the softmax of logits and labels that are probabilities.

    Example:
        >>> labels = jnp.array([[0.5, 0.5]])
        >>> softmax_cross_entropy(jnp.zeros((1, 2)), labels).tolist()
        [0.693...]
    """
    return -jnp.sum(labels * log_softmax(logits, axis), axis)


def softmax_cross_entropy_with_integer_labels(
    logits: Float[Array, "*batch classes"], labels: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The cross entropy between the softmax of logits and labels that are classes.

    Raises:
        ArgumentError: unless labels are integers, one for each row of logits.

    Example:
        >>> softmax_cross_entropy_with_integer_labels(jnp.zeros((1, 2)), jnp.array([1])).tolist()
        [0.693...]
    """
    logits, labels = jnp.asarray(logits), jnp.asarray(labels)
    if not jnp.issubdtype(labels.dtype, jnp.integer) or labels.shape != logits.shape[:-1]:
        raise ArgumentError(
            "labels are integers, one for each row of logits",
            got=f"logits {logits.shape}, labels {labels.dtype}{labels.shape}",
        )
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return logsumexp(logits, axis=-1) - picked


def sigmoid_binary_cross_entropy(
    logits: Float[Array, "*batch"], labels: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The cross entropy between sigmoids of logits and labels in [0, 1]."""
    return -labels * log_sigmoid(logits) - (1.0 - labels) * log_sigmoid(-logits)


def squared_error(predictions: Float[Array, "*batch"],
                  targets: ArrayLike = 0.0) -> Float[Array, "*batch"]:  # fmt: skip
    """The square of the difference."""
    return jnp.square(predictions - targets)


def l2_loss(
    predictions: Float[Array, "*batch"], targets: ArrayLike = 0.0
) -> Float[Array, "*batch"]:
    """Half the square of the difference, whose gradient is the difference.

    Example:
        >>> l2_loss(jnp.array([3.0]), 1.0).tolist()
        [2.0]
    """
    return 0.5 * squared_error(predictions, targets)


def huber_loss(predictions: Float[Array, "*batch"], targets: ArrayLike = 0.0,
               delta: float = 1.0) -> Float[Array, "*batch"]:  # fmt: skip
    """`l2_loss` up to a difference of delta, linear beyond.

    Source: Huber 1964, "Robust estimation of a location parameter".
    """
    error = jnp.abs(predictions - targets)
    near = jnp.minimum(error, delta)
    return 0.5 * near * near + delta * (error - near)
