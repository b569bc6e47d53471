"""Targets: keys of caches, equal in every process, and immutable."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST, SMALL
from tfn.lower.target.target import Target

CHANGES = {
    "cpu": "other",
    "features": "+other",
    "vector_bytes": 8,
    "vector_registers": 7,
    "l1_bytes": 1,
    "l2_bytes": 2,
    "l3_bytes": 3,
    "lacks": frozenset(),
}


@pytest.mark.parametrize("target", [HOST, SMALL])
def test_a_target_is_equal_after_pickling(target: Target) -> None:
    copy = pickle.loads(pickle.dumps(target))
    assert copy == target and hash(copy) == hash(target)
    assert {target: "program"}[copy] == "program"


@pytest.mark.parametrize("name", CHANGES)
def test_each_field_is_part_of_the_key(name: str) -> None:
    base = Target("triple", "cpu", "")
    assert replace(base, **{name: CHANGES[name]}) != base
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(base, name, CHANGES[name])
