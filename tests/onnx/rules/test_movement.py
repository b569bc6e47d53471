"""Operations that move elements, saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.saved import floats, holds, integers, operations
from tfn import lax
from tfn import numpy as tnp


def test_shapes_slices_and_joins() -> None:
    def function(x: Any) -> Any:
        shapes = x.reshape(6, 4), x.transpose(2, 0, 1), tnp.broadcast_to(x[:1], (5, 3, 4))
        cuts = x[1:, ::2], x[::-1], x[..., -2:], x[1]
        return shapes, cuts, tnp.stack([x, x]), tnp.tile(x, (2, 1, 1)), tnp.roll(x, 2, 1)

    holds(function, floats(2, 3, 4))


def test_pads_with_elements_between() -> None:
    pads = ((1, 2, 2), (-1, 0, 1), (0, 3, 0))
    holds(lambda x: lax.pad(x, np.float32(0.5), pads), floats(3, 4, 2))


def test_one_transposition_undoes_another() -> None:
    assert operations(lambda x: tnp.tanh(x.T.T), floats(2, 3)) == ["Tanh"]


@pytest.mark.parametrize("k", [-3, 2, 9])
def test_slices_at_computed_places_are_clamped(k: int) -> None:
    holds(lambda x, k: (lax.dynamic_slice(x, (k, 1), (2, 3)), x[k]), floats(5, 6), np.int32(k))


@pytest.mark.parametrize("k", [0, 2, 5])
def test_updates_at_computed_places(k: int) -> None:
    def function(x: Any, k: Any) -> Any:
        return lax.dynamic_update_slice(x, x[:2, :2] * 2, (k, k)), x.at[k, 2].add(5.0)

    holds(function, floats(5, 6), np.int32(k))


def test_elements_at_indices() -> None:
    def function(x: Any, k: Any) -> Any:
        along = tnp.take_along_axis(x, tnp.argsort(x, 1), 1)
        return x[k], x[:, k], x[k, k], along, tnp.take(x, k, 0, mode="fill")

    holds(function, floats(5, 6), np.int32([0, -1, 4, 7]))


def test_updates_at_indices_outside_are_dropped() -> None:
    def function(x: Any, k: Any) -> Any:
        at = x.at[k]
        return at.add(1.0), at.multiply(2.0), at.max(0.5), at.min(0.1), x.at[:, k[:2]].set(3.0)

    holds(function, floats(5, 6), np.int32([1, 1, 7, 4]))


def test_windows_at_indices() -> None:
    numbers = lax.GatherDimensionNumbers((1, 2), (), (0, 1))
    window = lambda x, k: lax.gather(x, k, numbers, (2, 3), mode="clip")
    holds(window, floats(5, 6), integers(6, 4, 2))
