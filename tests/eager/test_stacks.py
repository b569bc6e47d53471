"""The buffers of divided arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.eager import run, stacks

X = np.arange(32, dtype="float32").reshape(4, 8)


@pytest.mark.usefixtures("eight_devices")
def test_a_buffer_is_the_stack_of_parts() -> None:
    mesh = tfn.make_mesh((2, 4), ("x", "y"))
    memory = run.device().memory
    for spec, shape in {
        tfn.P("x", "y"): (2, 4, 2, 2),
        tfn.P("y", "x"): (2, 4, 1, 4),
        tfn.P(None, ("y", "x")): (2, 4, 4, 1),
        tfn.P("y"): (4, 1, 8),
        tfn.P(): (4, 8),
    }.items():
        sharding = tfn.NamedSharding(mesh, spec)
        x = tfn.device_put(X, sharding)
        stack = stacks.stack_of(x, memory)
        assert stack.shape == shape
        for device, index in sharding.devices_indices_map(X.shape).items():
            at = dict(zip("xy", divmod(device.id, 4)))
            names = [name for name in "xy" if name in str(spec)]
            assert np.array_equal(stack[tuple(at[name] for name in names)], X[index])
        assert np.array_equal(stacks.read(x, memory), X)
        assert not stacks.read(x, memory).flags.writeable
        copied = stacks.duplicate(x, memory)
        assert copied.buffer is not x.buffer and copied.kind is x.kind
        assert np.array_equal(copied, X)


def test_an_array_of_no_place() -> None:
    x = tnp.ones(3)
    assert stacks.is_divided(None, 1) is None and stacks.platform_of(x) is None
    assert stacks.stack_of(x, run.device().memory).tolist() == [1, 1, 1]
