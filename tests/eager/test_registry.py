"""Devices by name: one for each name, and errors for names of none."""

from __future__ import annotations

from typing import Any

import pytest

from tfn.config import config
from tfn.eager import platforms, registry
from tfn.errors import DeviceError


def test_a_device_is_made_once() -> None:
    assert registry.device("python") is registry.device("python")
    assert registry.device() is registry.device(config.device)


def test_names_of_no_device() -> None:
    with pytest.raises(DeviceError, match="there is no device 'tpu'"):
        registry.device("tpu")
    with pytest.raises(DeviceError, match="there is no device 'tpu:1'"):
        registry.device("tpu:1")
    with pytest.raises(DeviceError, match="there is no device 'python:1'"):
        registry.device("python:1")


def test_devices_are_made_once_and_named(monkeypatch: Any) -> None:
    for name in ("cpu", "python", "null"):
        monkeypatch.setattr(config, "device", name)
        assert registry.device() is registry.device() and registry.device().name == name
    monkeypatch.setattr(config, "device", "abacus")
    listed = f"TFN_DEVICE, is one of {', '.join(platforms.MAKERS)}"
    assert {"cpu", "cpu-debug", "cuda", "opencl", "dsp", "python", "null"} < set(platforms.MAKERS)
    with pytest.raises(DeviceError, match=rf"abacus(.*\s)*.*{listed}"):
        registry.device()
