"""Live arrays, and the memory of each device."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.config import config
from tfn.errors import DeviceError, OutOfMemoryError

KIB = 1 << 10


@pytest.fixture(autouse=True)
def _four() -> Iterator[None]:
    before = config.devices, config.memory_limit_bytes
    config.devices = 4
    yield
    config.devices, config.memory_limit_bytes = before


def line(*spec: Any) -> tfn.NamedSharding:
    mesh = tfn.make_mesh((4,), "x", (tfn.sharding.AxisType.Auto,))
    return tfn.NamedSharding(mesh, tfn.P(*spec))


def in_use() -> list[int]:
    gc.collect()
    return [device.memory_stats()["bytes_in_use"] for device in tfn.devices()]


def grown(before: list[int]) -> list[int]:
    return [now - then for now, then in zip(in_use(), before, strict=True)]


def test_live_arrays_are_those_that_are_alive() -> None:
    x = tnp.arange(5) + 1
    assert any(y is x for y in tfn.live_arrays()) and tfn.live_arrays("null") == []
    count = len(tfn.live_arrays())
    x.delete()
    assert len(tfn.live_arrays()) == count - 1
    with pytest.raises(DeviceError, match="no device 'none'"):
        tfn.live_arrays("none")


def test_each_device_has_the_bytes_of_its_parts() -> None:
    before, data = in_use(), np.ones((64, 64), np.float32)
    x = tfn.device_put(data, line("x"))
    assert grown(before) == [4 * KIB] * 4, "a fourth of 16 KiB"
    part = x.addressable_shards[1].data
    assert grown(before) == [4 * KIB] * 4, "a view of a part takes nothing"
    assert part.device.live_buffers() and any(y is x for y in tfn.devices()[2].live_buffers())
    whole = tfn.device_put(data, line())
    assert grown(before) == [20 * KIB] * 4, "a value that is not divided is on each device"
    alone = tfn.device_put(data, tfn.devices()[2])
    assert grown(before) == [20 * KIB, 20 * KIB, 36 * KIB, 20 * KIB]
    del x, part, whole, alone
    assert grown(before) == [0] * 4


def test_the_numbers_of_a_device() -> None:
    config.memory_limit_bytes = 1 << 30
    x = tfn.device_put(np.ones((256, 64), np.float32), tfn.devices()[3])
    stats = tfn.devices()[3].memory_stats()
    assert stats["bytes_limit"] == (1 << 30) // 4
    assert stats["largest_alloc_size"] >= x.nbytes == 64 * KIB
    assert stats["bytes_in_use"] <= stats["peak_bytes_in_use"] <= stats["peak_pool_bytes"]
    y = tfn.device_put(np.ones(3, np.float32), tfn.devices()[3])
    assert tfn.devices()[3].memory_stats()["num_allocs"] == stats["num_allocs"] + 1
    assert y.devices() == {tfn.devices()[3]}
    with pytest.raises(DeviceError, match="no device"):
        tfn.Device(config.device, 9).memory_stats()


def test_one_device_has_the_whole_pool() -> None:
    config.devices = 1
    x = tnp.ones((128, 128))
    stats = x.device.memory_stats()
    assert stats["bytes_in_use"] >= x.nbytes
    assert stats["peak_bytes_in_use"] == stats["peak_pool_bytes"]


def test_a_device_has_its_share_of_the_limit() -> None:
    first, second = tfn.devices()[:2]
    in_use_bytes = max(in_use())
    config.memory_limit_bytes = 4 * (in_use_bytes + 600 * KIB)
    x = tfn.device_put(np.ones((256, 256), np.float32), first)  # 256 KiB
    keep = tfn.jit(lambda v: v + 1)(x)
    with pytest.raises(OutOfMemoryError, match=r"do not fit on .*:0"):
        tfn.jit(lambda v: v * 2)(x)
    with pytest.raises(OutOfMemoryError, match="4 devices share equally"):
        tfn.device_put(np.ones((256, 256), np.float32), first)
    y = tfn.device_put(x, second)
    assert float(tfn.jit(lambda v: v * 2)(y)[0, 0]) == 2.0, "another device has room"
    assert float(keep[0, 0]) == 2.0
