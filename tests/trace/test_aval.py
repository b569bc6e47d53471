"""Kinds are one object each."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tfn.dtypes import ALL, FLOAT32
from tfn.trace.aval import _KINDS, Kind, kind_of
from tfn.trace.mesh import Device
from tfn.trace.named_sharding import SingleDeviceSharding


def test_one_object_for_each_shape_and_dtype() -> None:
    kinds = [kind_of(shape, dtype) for shape in ((), (1,), (2, 3), (3, 2)) for dtype in ALL]
    assert len(set(map(id, kinds))) == len(kinds)
    assert kind_of((2, 3), np.dtype("float32")) is kind_of((2, 3), FLOAT32)
    assert kind_of((2, 3), FLOAT32).shape == (2, 3) and kind_of((2, 3), FLOAT32).dtype == FLOAT32
    assert repr(kind_of((), FLOAT32)) == "Kind((), float32)"


def test_one_object_for_each_sharding() -> None:
    rows = SingleDeviceSharding(Device("cpu", 0)), SingleDeviceSharding(Device("cpu", 1))
    first, second = (kind_of((2,), FLOAT32, sharding) for sharding in rows)
    assert first is kind_of((2,), FLOAT32, SingleDeviceSharding(Device("cpu", 0)))
    assert first is not second and first is not kind_of((2,), FLOAT32)
    assert first.sharding == rows[0] and repr(first).endswith("SingleDeviceSharding(cpu:0))")


def test_a_kind_is_immutable() -> None:
    kind = kind_of((2, 3), FLOAT32)
    with pytest.raises(AttributeError, match="a Kind is immutable: cannot set shape"):
        kind.shape = (1 << 30,)
    assert kind.shape == (2, 3)


def test_threads_agree() -> None:
    found: list[Kind] = []

    def work() -> None:
        found.extend(kind_of((7, i), FLOAT32) for i in range(1000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1000


def test_a_kind_lives_as_long_as_somebody_has_it() -> None:
    kept = kind_of((3, 9999), FLOAT32)
    before = len(_KINDS)
    for i in range(10_000):
        assert kind_of((i, 9999), FLOAT32).shape == (i, 9999)
    assert len(_KINDS) == before and kind_of((3, 9999), FLOAT32) is kept
