"""Grids as data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tfn.lower.target.grid import Grid, GridMatrixUnit
from tfn.lower.target.target import Target


def test_a_target_of_cores_has_no_grid() -> None:
    assert Target("x86_64-unknown-linux-gnu", "", "").grid is None


def test_grids_are_keys_of_caches() -> None:
    units = (GridMatrixUnit("bfloat16", 64, 256, 16, warps=4),)
    assert {Grid(matrix_units=units): 1}[Grid(matrix_units=units)] == 1
    with pytest.raises(FrozenInstanceError):
        Grid().local_bytes = 1  # type: ignore[misc]


def test_the_scarcest_resource_bounds_the_groups_of_a_core() -> None:
    grid = Grid(local_bytes=227 << 10)
    assert grid.groups_at_once(256, 32, 0) == 8  # threads
    assert grid.groups_at_once(256, 128, 0) == 2  # registers
    assert grid.groups_at_once(256, 33, 0) == 6  # registers are handed out by 256
    assert grid.groups_at_once(256, 32, 100 << 10) == 2  # memory
    assert grid.groups_at_once(32, 16, 0) == 32
