"""Calibration: ranges over batches, percentiles, moving averages."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.nn.quantize import Range, calibrate, follow, observe


def test_ranges_cover_all_batches() -> None:
    batches = [jnp.array([[1.0, 2.0]]), jnp.array([[-7.0, 0.0]]), jnp.array([[3.0, 0.5]])]
    ranges = calibrate(lambda x: {"x": x, "squares": [x * x]}, batches)
    assert (ranges["x"].low.item(), ranges["x"].high.item()) == (-7, 3)
    assert (ranges["squares"][0].low.item(), ranges["squares"][0].high.item()) == (0, 49)


def test_percentiles_cut_outliers() -> None:
    x = jnp.concatenate([jnp.linspace(-1, 1, 999), jnp.array([1e6])])
    narrow = observe(x, percent=99)
    assert -1 < narrow.low.item() < -0.98
    assert 0.98 < narrow.high.item() <= 1
    assert observe(x).high.item() == 1e6


def test_quantization_of_a_range() -> None:
    q = Range(jnp.float32(0), jnp.float32(510)).quantization()
    assert (q.scale.item(), q.zero_point.item()) == (2, -128)


def test_moving_average_in_a_scan() -> None:
    start = Range(jnp.float32(0), jnp.float32(0))
    xs = jnp.asarray(np.arange(12, dtype=np.float32).reshape(4, 3))

    def step(average: Range, x: tfn.Array) -> tuple[Range, None]:
        return follow(average, observe(x), momentum=0.5), None

    average, _ = tfn.lax.scan(step, start, xs)
    assert average.high.item() == 0.5 * (11 + 0.5 * (8 + 0.5 * (5 + 0.5 * 2)))


def test_no_data() -> None:
    with pytest.raises(ArgumentError, match="needs data"):
        calibrate(lambda x: x, [])
    with pytest.raises(ArgumentError, match="elements to cover"):
        observe(jnp.ones(0))
    with pytest.raises(ArgumentError, match="elements to cover"):
        observe(jnp.ones(3), percent=0)
