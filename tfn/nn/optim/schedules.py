"""Schedules: learning rates and other numbers as functions of the number of steps made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tfn import numpy as jnp
from tfn._support.validate import integer
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.nn.optim.protocol import Schedule


def constant_schedule(value: float) -> Schedule:
    """Returns a schedule that is always the same.

    Example:
        >>> constant_schedule(0.1)(jnp.array(7))
        0.1
    """
    return lambda count: value


def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Returns a schedule from one value to another, by a power of the steps that remain.

    Args:
        init_value: value up to step `transition_begin`.
        end_value: value from step ``transition_begin + transition_steps`` on.
        power: exponent of the fraction of steps that remain; 1 is linear.
        transition_steps: number of steps between, at least 1.
        transition_begin: number of steps before the transition.

    Raises:
        ArgumentError: for fewer than one step.

    Example:
        >>> float(polynomial_schedule(1.0, 0.0, 2, 10)(jnp.array(5)))
        0.25
    """
    _some("transition_steps", transition_steps)

    def value(count: Array) -> Array:
        fraction = 1 - jnp.clip((count - transition_begin) / transition_steps, 0.0, 1.0)
        return end_value + (init_value - end_value) * fraction**power

    return value


def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Returns a schedule from one value to another in equal steps.

    Args:
        init_value: value up to step `transition_begin`.
        end_value: value from step ``transition_begin + transition_steps`` on.
        transition_steps: number of steps between, at least 1.
        transition_begin: number of steps before the transition.

    Raises:
        ArgumentError: for fewer than one step.

    Example:
        >>> float(linear_schedule(1.0, 0.0, 10)(jnp.array(5)))
        0.5
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Returns a schedule from a value to `alpha` times it, along half a period of a cosine.

    Args:
        init_value: value at step 0.
        decay_steps: number of steps until the last value, at least 1.
        alpha: the last value, as a fraction of the first.
        exponent: power of the cosine curve.

    Raises:
        ArgumentError: for fewer than one step.

    Source: Loshchilov, Hutter 2016, arXiv:1608.03983.

    Example:
        >>> schedule = cosine_decay_schedule(1.0, 10, alpha=0.5)
        >>> [round(float(schedule(jnp.array(n))), 3) for n in (0, 5, 10, 20)]
        [1.0, 0.75, 0.5, 0.5]
    """
    _some("decay_steps", decay_steps)

    def value(count: Array) -> Array:
        fraction = jnp.clip(count / decay_steps, 0.0, 1.0)
        curve = 0.5 * (1 + jnp.cos(math.pi * fraction))
        curve = curve if exponent == 1 else curve**exponent
        return init_value * ((1 - alpha) * curve + alpha)

    return value


def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Returns a schedule that is multiplied by `decay_rate` within every `transition_steps` steps.

    Args:
        init_value: value up to step `transition_begin`.
        transition_steps: number of steps for one factor, at least 1.
        decay_rate: the factor, positive; above 1 the value grows.
        transition_begin: number of steps before the decay.
        staircase: whether to multiply at once at the end of the steps, not little by little.
        end_value: lower bound of the value (upper if `decay_rate` is 1 or more); none if None.

    Raises:
        ArgumentError: for fewer than one step.

    Example:
        >>> round(float(exponential_decay(1.0, 10, 0.25)(jnp.array(5))), 6)
        0.5
    """
    _some("transition_steps", transition_steps)
    bound = jnp.maximum if decay_rate < 1 else jnp.minimum

    def value(count: Array) -> Array:
        times = jnp.maximum(count - transition_begin, 0) / transition_steps
        decayed = init_value * decay_rate ** (jnp.floor(times) if staircase else times)
        return decayed if end_value is None else bound(decayed, end_value)

    return value


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """Returns a schedule that is multiplied by a scale from each boundary on.

    Example:
        >>> schedule = piecewise_constant_schedule(1.0, {10: 0.5})
        >>> float(schedule(jnp.array(9))), float(schedule(jnp.array(10)))
        (1.0, 0.5)
    """

    def value(count: Array) -> Array:
        out = jnp.asarray(init_value, float)
        for boundary, factor in sorted((boundaries_and_scales or {}).items()):
            out = out * jnp.where(count >= boundary, factor, 1.0)
        return out

    return value


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Returns several schedules in sequence; each counts from the boundary at which it begins.

    Raises:
        ArgumentError: unless there is one boundary between each two.

    Example:
        >>> joined = join_schedules([constant_schedule(1.0), linear_schedule(1.0, 0.0, 10)], [5])
        >>> [float(joined(jnp.array(n))) for n in (4, 5, 10)]
        [1.0, 1.0, 0.5]
    """
    if len(boundaries) != len(schedules) - 1 or list(boundaries) != sorted(boundaries):
        raise ArgumentError(
            "schedules are joined at one boundary between each two, which rise",
            got=f"{len(schedules)} schedules, boundaries={list(boundaries)}",
            hint="boundaries are numbers of steps from the beginning",
        )

    def value(count: Array) -> Array:
        out = schedules[0](count)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            out = jnp.where(count < boundary, out, later(count - boundary))
        return jnp.asarray(out)

    return value


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Returns a linear schedule up to a peak, then a cosine down to `end_value`.

    Args:
        init_value: value at step 0.
        peak_value: value at step `warmup_steps`.
        warmup_steps: number of steps up to the peak; 0 for none.
        decay_steps: step of the last value, counted from the beginning, above `warmup_steps`.
        end_value: value from step `decay_steps` on; 0 if `peak_value` is 0.
        exponent: power of the cosine curve.

    Raises:
        ArgumentError: unless `decay_steps` is above `warmup_steps`.

    Example:
        >>> schedule = warmup_cosine_decay_schedule(0.0, 1.0, 10, 110)
        >>> [round(float(schedule(jnp.array(n))), 3) for n in (0, 5, 10, 60, 110)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    alpha = end_value / peak_value if peak_value else 0.0
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    if warmup_steps == 0:
        return fall
    return join_schedules(
        [linear_schedule(init_value, peak_value, warmup_steps), fall], [warmup_steps]
    )


def _some(name: str, steps: int) -> None:
    integer("a schedule", name, steps, 1)
