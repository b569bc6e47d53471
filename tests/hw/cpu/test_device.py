"""The five parts of the CPU."""

from __future__ import annotations

import pytest

from tfn.config import config
from tfn.hw.cpu.device import cpu
from tfn.hw.cpu.target import host


@pytest.mark.parametrize("name", ["cpu", "cpu-debug"])
def test_the_parts_fit(name, monkeypatch):
    monkeypatch.setattr(config, "device", name)
    device = cpu()
    assert device.name == name and device.target is host()
    assert device.queue.memory is device.memory
    assert device.queue.loader.compiler is device.compiler


def test_devices_share_nothing():
    one, other = cpu(), cpu()
    keep = one.memory.allocate(1000)
    assert keep and other.memory.pool.live_bytes == 0
