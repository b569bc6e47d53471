"""Sorts, running sums, extremes and irregular access along divided axes, on the devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.transforms.shard.test_report import moved, put
from tfn import lax
from tfn.config import config
from tfn.transforms.shard.across import can_sort

pytestmark = pytest.mark.usefixtures("eight_devices")
RNG = np.random.default_rng(5)


def of_lines(*shape: int) -> Any:
    """Numbers with ties, NaN, infinities and zeros of both signs."""
    x = RNG.integers(-40, 40, shape).astype(np.float32)
    flat = x.reshape(-1)
    flat[::7], flat[3::11], flat[5::13], flat[1::17] = np.nan, -0.0, 0.0, np.inf
    return x


def same_bits(f: Callable[..., Any], x: Any, **exchanges: int) -> None:
    """The result on eight devices is that of one, after some exchanges."""
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    run = tfn.jit(f)
    parts = put(x, mesh, "x")
    for got, want in zip(tfn.tree.leaves(run(parts)), tfn.tree.leaves(run(x)), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()
    counts = moved(run, parts)
    assert {name for name, _ in counts} == set(exchanges)


def test_a_long_sort_is_done_in_parts() -> None:
    x = of_lines(2048)
    names = dict.fromkeys(("all_to_all", "permute"), 1)
    same_bits(lambda x: tnp.sort(x), x, **names)
    same_bits(lambda x: tnp.argsort(x), x, **names)
    same_bits(lambda x: lax.sort((x, tnp.arange(2048), x * 2), num_keys=2), x, **names)
    assert can_sort(2048, 8) and not can_sort(2040, 8) and not can_sort(512, 8)


def test_a_short_sort_is_done_along_other_axes_or_gathered() -> None:
    same_bits(lambda x: tnp.sort(x, 0), of_lines(64, 3), all_gather=1)
    same_bits(lambda x: tnp.sort(x, 0), of_lines(64, 16), all_to_all=1)


def test_transforms_along_a_divided_axis_are_done_along_other_axes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "batch_invariant", True)  # few lines would be sums of products
    x = RNG.standard_normal((16, 24)).astype(np.float32)
    for f in (lambda x: tnp.fft.fft(x, axis=0), tnp.fft.fft2, tnp.fft.ifft2):
        same_bits(f, x, all_to_all=1)
    same_bits(tnp.fft.rfft, x)
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    half = np.fft.rfft2(x).astype(np.complex64)
    back = tfn.device_put(half, tfn.NamedSharding(mesh, tfn.P("x")))
    np.testing.assert_allclose(tfn.jit(tnp.fft.irfft2)(back), x, atol=1e-5)
    cube = RNG.standard_normal((8, 4, 16)).astype(np.float32)
    same_bits(tnp.fft.fftn, cube, all_to_all=1)


def test_running_reductions_pass_totals_on() -> None:
    x = RNG.integers(-9, 9, (64, 3)).astype(np.float32)  # sums of integers are exact
    same_bits(lax.cumsum, x, all_gather=1)
    same_bits(lax.cummax, x, all_gather=1)
    same_bits(partial(lax.cumsum, reverse=True), x, all_gather=1, permute=2)
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    cost = tfn.jit(lambda x: tnp.cumsum(x, 0)).lower(put(x, mesh, "x")).cost_analysis()
    assert cost["all_gather[x] bytes"] == 7 * 3 * 4, "a total of each device"


def test_extremes() -> None:
    for f in (tnp.argmax, tnp.argmin):
        same_bits(partial(f, axis=0), of_lines(64, 5), all_gather=1)
        same_bits(partial(f, axis=0), np.full((16, 2), -np.inf, np.float32), all_gather=1)


def test_rows_that_are_looked_up() -> None:
    rows = np.array([3, 63, -1, 0, 17])
    x = of_lines(64, 5)
    same_bits(lambda x: x[rows], x, all_reduce=1)
    same_bits(lambda x: x[-1], x, all_reduce=1)
    same_bits(lambda x: (x > 0)[rows], x, all_reduce=1)


def test_rows_that_are_updated_move_nothing() -> None:
    rows = np.array([3, 63, -1, 0, 17])
    x = of_lines(64, 5)
    same_bits(lambda x: x.at[rows].set(1.5), x)
    same_bits(lambda x: x.at[rows].max(1.5), x)
    same_bits(lambda x: lax.dynamic_update_slice(x, tnp.ones((1, 5)), (40, 0)), x)
