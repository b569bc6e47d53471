"""The devices of a process, and the default one."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tfn
import tfn.numpy as tnp
from tfn.config import config
from tfn.eager import devices
from tfn.errors import DeviceError


def test_there_is_one_device() -> None:
    assert tfn.devices() == tfn.local_devices() == [tfn.Device(config.device, 0)]
    assert tfn.device_count() == tfn.local_device_count() == tfn.process_count() == 1
    assert tfn.process_index() == 0 and tfn.process_indices() == [0]
    assert tfn.default_backend() == config.device


def test_the_environment_counts_them() -> None:
    code = "import tfn; print(tfn.devices(), tfn.devices('null')[2])"
    command = [sys.executable, "-c", code]
    environment = {"TFN_DEVICES": "3", "TFN_DEVICE": "python"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "[python:0, python:1, python:2] null:2\n"


def test_platforms_beside_each_other() -> None:
    (python,) = tfn.devices("python")
    x = tfn.device_put([1.0, 2.0], python)[0]
    assert (x + 1).device == tfn.jit(lambda v: v * 2)(x).device == python
    assert (x + tnp.ones(())).device == python, "an array without a place follows"
    y = tfn.device_put(x, tfn.devices()[0])
    assert y.device == tfn.devices()[0] and (y + 1).item() == 2
    null = tfn.device_put(y, tfn.devices("null")[0])
    with pytest.raises(DeviceError, match="null device has no data"):
        (null + 1).item()
    with pytest.raises(DeviceError, match="add got arrays that are on different devices"):
        x + y


def test_a_block_on_another_device() -> None:
    x = tnp.ones(3)
    before = x.device
    with tfn.default_device("python"):
        assert tfn.default_backend() == "python" and tnp.ones(3).device.platform == "python"
        assert (x + 1).tolist() == [2, 2, 2] and not (x + 1).committed
    assert tnp.ones(3).device == before
    with tfn.default_device(None):
        assert tnp.ones(3).device == before


@pytest.mark.usefixtures("eight_devices")
def test_a_block_on_another_device_of_the_platform() -> None:
    with tfn.default_device(tfn.devices()[3]):
        assert tnp.ones(3).device.id == 3
        with tfn.default_device(tfn.devices()[5]):
            assert tnp.ones(3).device.id == 5
        assert tnp.ones(3).device.id == 3


def test_devices_that_do_not_exist() -> None:
    for wrong in ("moon", "cpu:9", "cpu:x", 3, tfn.Device("cpu", 4)):
        with pytest.raises(DeviceError):
            devices.as_device(wrong)
    with pytest.raises(DeviceError, match="no device 'gpu'"):
        tfn.devices("gpu")
    with pytest.raises(DeviceError, match="no process 1"):
        tfn.local_devices(1)
    with pytest.raises(DeviceError, match="a mesh of 2 devices does not fit on 1"):
        tfn.make_mesh((2,), ("x",))
    sharding = tfn.sharding.SingleDeviceSharding(tfn.Device("cpu", 4))
    with pytest.raises(DeviceError, match="no device cpu:4"):
        tfn.device_put(1.0, sharding)
