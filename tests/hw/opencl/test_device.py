"""OpenCL as a device: all ops with derivatives and batches, random programs, and training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given

import tfn
import tfn.numpy as tnp
from tests.hw import op_table
from tests.hw.opencl.devices import needs_opencl, quick
from tests.hw.training import assert_squares_train_alike, char_gpt_losses
from tests.lower.graphs import assert_close, inputs, jaxpr, run_on, run_oracle
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.config import config
from tfn.errors import DeviceError
from tfn.trace.uop import UOp

pytestmark = needs_opencl


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture
def on_opencl(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The default device is the OpenCL device, as ``TFN_DEVICE=opencl`` makes it."""
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "opencl", quick())
    before, config.device = config.device, "opencl"
    yield
    config.device = before


@pytest.mark.parametrize("start", op_table.STARTS[::2])  # a driver builds for seconds
def test_the_table_of_ops_with_derivatives_and_batches(start: int) -> None:
    op_table.assert_cases_hold(quick(), start)


@given(graphs(most=6, steps=(*STEPS, *LOOPS)))
def test_random_programs_have_the_values_of_the_oracle(outputs: list[UOp]) -> None:
    values = inputs(outputs)
    got = run_on(quick(), jaxpr(outputs), values)
    for i, (x, y) in enumerate(zip(got, run_oracle(outputs, values), strict=True)):
        assert_close(x, y, 2e-3, 2e-3, f"output {i}")


@pytest.mark.usefixtures("on_opencl")
def test_mnist_trains_as_on_the_cpu() -> None:
    assert_squares_train_alike("opencl")


@pytest.mark.usefixtures("on_opencl")
def test_a_gpt_has_the_losses_of_the_cpu() -> None:
    own, cpu = (char_gpt_losses(d, 5, layers=1, width=16, length=12) for d in ("opencl", "cpu"))
    np.testing.assert_allclose(own, cpu, rtol=1e-4)
    assert cpu[-1] < cpu[0] - 0.05  # it learns: a loss that stays where it is shows little


@pytest.mark.usefixtures("on_opencl")
def test_arrays_of_two_devices_do_not_mix() -> None:
    x = tnp.arange(3.0)
    config.device = "cpu"
    y = tnp.arange(3.0)
    with pytest.raises(DeviceError, match="on the device opencl, and the program runs on another"):
        x + y
    config.device = "opencl"
    with pytest.raises(DeviceError, match="not on the device opencl"):
        x + y


@pytest.mark.usefixtures("on_opencl")
def test_donated_arguments_and_functions_of_the_host() -> None:
    x = tnp.arange(5.0)
    y = tfn.jit(lambda x: x * 2 + 1, donate_argnums=0)(x)
    assert x.is_deleted() and np.asarray(y).tolist() == [1, 3, 5, 7, 9]
    like = tfn.ShapeDtypeStruct((5,), "float32")
    z = tfn.jit(lambda y: tfn.pure_callback(np.square, like, y * 2) + 1)(y)
    np.testing.assert_array_equal(np.asarray(z), (np.asarray(y) * 2) ** 2 + 1)


@pytest.mark.usefixtures("on_opencl")
def test_eager_operations_indexing_and_printing() -> None:
    x = tnp.arange(7.0)
    assert repr(x[1:4] * 2) == "Array([2., 4., 6.], dtype=float32)"
    np.testing.assert_array_equal(np.asarray(x.at[2].set(9.0)), [0, 1, 9, 3, 4, 5, 6])
    assert float(x.sum()) == 21 and x[3:3].shape == (0,)
    assert x.block_until_ready() is x
