"""Gradient clipping: by value, by the norm of each leaf, by the norm of all."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array
from tfn.eager.operands import array_of
from tfn.nn.optim.protocol import GradientTransformation, Params, Updates, stateless

if TYPE_CHECKING:
    from jaxtyping import Float


def global_norm(updates: Updates) -> Float[Array, ""]:
    """Returns the Euclidean norm of all leaves together.

    Example:
        >>> global_norm({"a": jnp.array([3.0]), "b": jnp.array([4.0])}).item()
        5.0
    """
    return jnp.sqrt(sum(jnp.sum(jnp.square(u)) for u in tree.leaves(updates)))


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Scales updates down until their `global_norm` is at most `max_norm`.

    Source: Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063.

    Example:
        >>> part, g = clip_by_global_norm(1.0), jnp.array([0.0, 4.0])
        >>> part.update(g, part.init(g))[0].tolist()
        [0.0, 1.0]
    """

    array_of("clip_by_global_norm", max_norm)

    def clip(updates: Updates, params: Params | None) -> Updates:
        norm = global_norm(updates)
        factor = max_norm / jnp.maximum(norm, max_norm)
        return tree.map(lambda u: u * factor.astype(u.dtype), updates)

    return stateless(clip)


def clip(max_delta: float) -> GradientTransformation:
    """Clips each element of the updates to [-max_delta, max_delta].

    Example:
        >>> part, g = clip(1.0), jnp.array([3.0, -0.5])
        >>> part.update(g, part.init(g))[0].tolist()
        [1.0, -0.5]
    """
    array_of("clip", max_delta)
    return stateless(
        lambda updates, params: tree.map(lambda u: jnp.clip(u, -max_delta, max_delta), updates)
    )


def clip_by_block_rms(threshold: float) -> GradientTransformation:
    """Scales each leaf of the updates down until its root mean square is at most `threshold`.

    Example:
        >>> part, g = clip_by_block_rms(1.0), jnp.array([2.0, -2.0])
        >>> part.update(g, part.init(g))[0].tolist()
        [1.0, -1.0]
    """

    def clip(u: Array) -> Array:
        return u / jnp.maximum(1.0, jnp.sqrt(jnp.mean(jnp.square(u))) / threshold)

    return stateless(lambda updates, params: tree.map(clip, updates))
