"""Laws of devices with memory of their own: arrays, donation, callbacks, steps of programs."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.hw.training import char_gpt_losses
from tests.lower.graphs import inputs, jaxpr, p, run_on, run_oracle
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.errors import DeviceError
from tfn.hw.device import Device
from tfn.hw.memory import HostMemory
from tfn.lower import pipeline
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = p(0, 4)


def assert_a_gpt_has_the_losses_of_the_cpu(platform: str) -> None:
    own, cpu = (char_gpt_losses(d, 5, layers=1, width=16, length=12) for d in (platform, "cpu"))
    np.testing.assert_allclose(own, cpu, rtol=1e-4)
    assert cpu[-1] < cpu[0] - 0.05  # it learns: a loss that stays where it is shows little


def assert_arrays_of_two_devices_do_not_mix(platform: str) -> None:
    """The default device is that of the platform."""
    x = tnp.arange(3.0)
    message = f"on the device {platform}, and the program runs on another"
    for other in ("python", "cpu"):
        config.device = other
        y = tnp.arange(3.0)
        with pytest.raises(DeviceError, match=message):
            x + y
        with pytest.raises(DeviceError, match=message):
            np.asarray(x)
    config.device = platform
    with pytest.raises(DeviceError, match=f"not on the device {platform}"):
        x + y


def assert_arguments_are_donated_and_the_host_is_called() -> None:
    x = tnp.arange(5.0)
    y = tfn.jit(lambda x: x * 2 + 1, donate_argnums=0)(x)
    assert x.is_deleted() and np.asarray(y).tolist() == [1, 3, 5, 7, 9]
    like = tfn.ShapeDtypeStruct((5,), "float32")
    z = tfn.jit(lambda y: tfn.pure_callback(np.square, like, y * 2) + 1)(y)
    np.testing.assert_array_equal(np.asarray(z), (np.asarray(y) * 2) ** 2 + 1)


def assert_arrays_are_indexed_and_printed() -> None:
    x = tnp.arange(7.0)
    assert repr(x[1:4] * 2) == "Array([2., 4., 6.], dtype=float32)"
    np.testing.assert_array_equal(np.asarray(x.at[2].set(9.0)), [0, 1, 9, 3, 4, 5, 6])
    assert float(x.sum()) == 21 and x[3:3].shape == (0,)
    assert x.block_until_ready() is x


def assert_values_are_those_of_the_oracle(device: Device, *outputs: UOp) -> None:
    values = inputs(outputs)
    got = run_on(device, jaxpr(outputs), values)
    for x, y in zip(got, run_oracle(outputs, values), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def assert_loops_branches_and_routines_run(device: Device) -> None:
    """Bodies of two kernels each: loops that one kernel can run are tested with other kernels."""
    total = UOp(Op.GBARRIER, (build.broadcast_to(build.add_up(X, (0,)), (4,)),))
    step = body(X * 0.5 + total, X)
    first = build.reshape(build.shrink(X, (0,), (1,)), ())
    small = body(first * first < const(1e3, FLOAT32), X)
    looped = build.scan(step, [], [p(0, 4)], [], 3, False)[0]
    (until,) = build.repeat_while(small, step, [], [], [p(0, 4)])
    ways = [step, body(X + 1.0, X)]
    index = build.cast(build.reshape(build.shrink(p(1, 2, dtype=INT32), (0,), (1,)), ()), INT32)
    chosen = [build.choose(index + i, ways, [p(0, 4)])[0] for i in (-9, 9)]
    (once,) = build.call("f", step, [p(0, 4)])
    called = build.call("f", step, [once])
    assert_values_are_those_of_the_oracle(device, looped, until, *chosen, *called)


def assert_slices_of_the_arena_are_operands(device: Device) -> None:
    """Each iteration writes a row of 12 bytes: no driver could make a buffer of its own of it."""
    row = p(0, 3)
    total = UOp(Op.GBARRIER, (build.broadcast_to(build.add_up(row, (0,)), (3,)),))
    following = row * 0.5 + total
    scanned = function([following, following], (row.arg,))
    assert_values_are_those_of_the_oracle(device, *build.scan(scanned, [], [p(0, 3)], [], 5, True))


def assert_buffers_of_others_are_refused(device: Device) -> None:
    run = device.load(pipeline.lower(jaxpr([X * 2.0]), device.target))
    with pytest.raises(DeviceError, match=f"not on the device {device.name}"):
        run([HostMemory().allocate(16)], [device.memory.allocate(16)])
