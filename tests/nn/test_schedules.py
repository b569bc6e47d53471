"""Schedules at their ends and corners."""

import numpy as np

import tfn
from tfn import numpy as jnp
from tfn.nn import schedules
from tfn.nn.optim import Schedule


def values(schedule: Schedule, *counts: int) -> list[float]:
    return [round(float(schedule(jnp.array(n))), 4) for n in counts]


def test_values() -> None:
    assert values(schedules.constant_schedule(0.5), 0, 9) == [0.5, 0.5]
    assert values(schedules.linear_schedule(1.0, 0.0, 10, 5), 0, 5, 10, 15, 99) == [1, 1, 0.5, 0, 0]
    assert values(schedules.cosine_decay_schedule(2.0, 10, 0.1), 0, 5, 10, 11) == [2, 1.1, 0.2, 0.2]
    warm = schedules.warmup_cosine_decay_schedule(0.1, 1.0, 10, 30, 0.2)
    assert values(warm, 0, 5, 10, 20, 30, 40) == [0.1, 0.55, 1, 0.6, 0.2, 0.2]
    steps = schedules.piecewise_constant_schedule(1.0, {3: 0.5, 2: 0.1})
    assert values(steps, 0, 2, 3) == [1, 0.1, 0.05]


def test_schedules_are_traced() -> None:
    schedule = schedules.warmup_cosine_decay_schedule(0.0, 1.0, 5, 20)
    counts = jnp.arange(22)
    each = [float(schedule(n)) for n in counts]
    np.testing.assert_allclose(tfn.jit(tfn.vmap(schedule))(counts), each, rtol=1e-5, atol=1e-6)
