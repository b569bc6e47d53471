"""Learning rates that depend on the number of steps made before."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tfn import numpy as jnp
from tfn.array import Array
from tfn.nn.optim import Schedule


def constant_schedule(value: float) -> Schedule:
    """Always the same."""
    return lambda count: value


def linear_schedule(init_value: float, end_value: float, transition_steps: int,
                    transition_begin: int = 0) -> Schedule:  # fmt: skip
    """From one value to another in equal steps.

    Example:
        >>> float(linear_schedule(1.0, 0.0, 10)(jnp.array(5)))
        0.5
    """

    def value(count: Array) -> Array:
        done = jnp.clip((count - transition_begin) / transition_steps, 0.0, 1.0)
        return init_value + (end_value - init_value) * done

    return value


def cosine_decay_schedule(init_value: float, decay_steps: int, alpha: float = 0.0) -> Schedule:
    """From a value to `alpha` times it along half a period of a cosine.

    Source: Loshchilov, Hutter 2016, arXiv:1608.03983.
    """

    def value(count: Array) -> Array:
        done = jnp.clip(count / decay_steps, 0.0, 1.0)
        return init_value * ((1 - alpha) * 0.5 * (1 + jnp.cos(math.pi * done)) + alpha)

    return value


def warmup_cosine_decay_schedule(init_value: float, peak_value: float, warmup_steps: int,
                                 decay_steps: int, end_value: float = 0.0) -> Schedule:  # fmt: skip
    """Linear up to a peak, then along a cosine down to `end_value` at step `decay_steps`.

    Example:
        >>> schedule = warmup_cosine_decay_schedule(0.0, 1.0, 10, 110)
        >>> [round(float(schedule(jnp.array(n))), 3) for n in (0, 5, 10, 60, 110)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    rise = linear_schedule(init_value, peak_value, max(warmup_steps, 1))
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, end_value / peak_value)
    return lambda count: jnp.where(count < warmup_steps, rise(count), fall(count - warmup_steps))


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float]
) -> Schedule:
    """A value that is multiplied by a scale after each boundary."""

    def value(count: Array) -> Array:
        out = jnp.asarray(init_value, float)
        for boundary, factor in sorted(boundaries_and_scales.items()):
            out = out * jnp.where(count >= boundary, factor, 1.0)
        return out

    return value
