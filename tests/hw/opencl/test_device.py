"""OpenCL as a device: all ops with derivatives and batches, random programs, and training."""

from __future__ import annotations

import pytest
from hypothesis import given

import tfn
from tests.covering import in_turn
from tests.hw import device_laws as laws
from tests.hw import op_table
from tests.hw.opencl.devices import needs_opencl, quick
from tests.hw.training import assert_squares_train_alike
from tests.lower.graphs import assert_close, inputs, jaxpr, run_on, run_oracle
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.config import config
from tfn.trace.uop import UOp

pytestmark = needs_opencl


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture
def on_opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default device is the OpenCL device, as ``TFN_DEVICE=opencl`` makes it."""
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "opencl", quick())
    monkeypatch.setattr(config, "device", "opencl")


@pytest.mark.parametrize("start", in_turn(6, op_table.STARTS))  # a driver builds for seconds
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
    laws.assert_a_gpt_has_the_losses_of_the_cpu("opencl")


@pytest.mark.usefixtures("on_opencl")
def test_arrays_of_two_devices_do_not_mix() -> None:
    laws.assert_arrays_of_two_devices_do_not_mix("opencl")


@pytest.mark.usefixtures("on_opencl")
def test_donated_arguments_and_functions_of_the_host() -> None:
    laws.assert_arguments_are_donated_and_the_host_is_called()


@pytest.mark.usefixtures("on_opencl")
def test_eager_operations_indexing_and_printing() -> None:
    laws.assert_arrays_are_indexed_and_printed()
