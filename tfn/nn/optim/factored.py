"""Factored second moments: means of squares of matrices as one row and one column.

Source: Shazeer, Stern 2018, arXiv:1804.04235 (adafactor), algorithm 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfn import lax, tree
from tfn import numpy as jnp
from tfn.array import Array
from tfn.nn.optim.protocol import GradientTransformation, Params, State, Updates, needed, stateless


class FactoredState(NamedTuple):
    """The number of steps, and means of squares: along two axes, or of each element.

    Where one kind is kept, the others are one zero.
    """

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's
    v_row: Params
    v_col: Params
    v: Params


def _axes(shape: tuple[int, ...], smallest: int) -> tuple[int, int] | None:
    """Returns the two longest axes, the longest last; None if the second is too short."""
    if len(shape) < 2:
        return None
    *_, second, first = np.argsort(shape, kind="stable").tolist()
    return None if shape[second] < smallest else (second, first)


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
) -> GradientTransformation:
    """Divides gradients by the root of the mean of their squares, stored by row and column.

    Args:
        factored: whether means are factored; if not, each element has its own mean.
        decay_rate: exponent of the decay: after n steps a mean keeps ``1 - (n + 1) ** -decay_rate``
            of its value.
        step_offset: number of steps made before the first one, as when training is resumed.
        min_dim_size_to_factor: smallest size of the two longest axes of an array that is factored.
        epsilon: added to the squares.

    Raises:
        ArgumentError: if `update` is called without parameters.

    Example:
        >>> part, w = scale_by_factored_rms(min_dim_size_to_factor=2), jnp.ones((2, 3))
        >>> state = part.init(w)
        >>> state.v_row.shape, state.v_col.shape
        ((2,), (3,))
        >>> part.update(3 * w, state, w)[0].round(3)[0].tolist()
        [1.0, 1.0, 1.0]
    """
    smallest = min_dim_size_to_factor if factored else np.iinfo(np.int64).max

    def init(params: Params) -> State:
        def without(p: Array, which: int | None) -> Array:
            axes = _axes(p.shape, smallest)
            if (axes is None) != (which is None):
                return jnp.zeros((1,), p.dtype)
            shape = list(p.shape)
            if axes is not None and which is not None:
                del shape[axes[which]]
            return jnp.zeros(shape, p.dtype)

        parts = [tree.map(lambda p, i=i: without(p, i), params) for i in (1, 0, None)]
        return FactoredState(jnp.zeros((), int), *parts)

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        needed(params, "a factored mean")
        keep = 1 - (state.count - step_offset + 1).astype(float) ** -decay_rate

        def mean(old: Array, new: Array) -> Array:
            average: Array = keep * old + (1 - keep) * new
            return average.astype(old.dtype)

        def one(g: Array, row: Array, col: Array, full: Array) -> tuple[Array, ...]:
            square, axes = jnp.square(g) + epsilon, _axes(g.shape, smallest)
            if axes is None:
                full = mean(full, square)
                return g * lax.rsqrt(full), row, col, full
            second, first = axes
            row, col = mean(row, square.mean(first)), mean(col, square.mean(second))
            inner = second - (second > first)  # where the second axis is, without the first
            by_row = lax.rsqrt(row / row.mean(inner, keepdims=True))
            u = g * jnp.expand_dims(by_row, first) * jnp.expand_dims(lax.rsqrt(col), second)
            return u, row, col, full

        results = tree.map(one, updates, state.v_row, state.v_col, state.v)
        new, *parts = (
            tree.map(lambda _, result, i=i: result[i], updates, results) for i in range(4)
        )
        return new, FactoredState(state.count + 1, *parts)

    return GradientTransformation(init, update)


def scale_by_param_block_rms(min_scale: float = 1e-3) -> GradientTransformation:
    """Multiplies each update by the root mean square of its parameter, but at least `min_scale`.

    Raises:
        ArgumentError: if `update` is called without parameters.

    Example:
        >>> part, w = scale_by_param_block_rms(), jnp.array([2.0, 2.0])
        >>> part.update(jnp.ones(2), part.init(w), w)[0].tolist()
        [2.0, 2.0]
    """

    def along(u: Array, p: Array) -> Array:
        return u * jnp.maximum(jnp.sqrt(jnp.mean(jnp.square(p))), min_scale)

    return stateless(
        lambda updates, params: tree.map(along, updates, needed(params, "the size of a block"))
    )
