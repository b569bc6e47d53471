"""The emulated gfx1100 as a device: all ops with derivatives and batches, and training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.hw import device_laws as laws
from tests.hw import op_table
from tests.hw.amd.devices import quick
from tests.hw.training import assert_squares_train_alike
from tests.lower.graphs import assert_close, inputs, jaxpr, run_on, run_oracle
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.config import config
from tfn.trace.uop import UOp


@pytest.fixture
def on_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default device is the emulated one, as ``TFN_DEVICE=amd-emulated`` makes it."""
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "amd-emulated", quick())
    monkeypatch.setattr(config, "device", "amd-emulated")


@pytest.mark.parametrize("start", in_turn(6, op_table.STARTS))  # LLVM compiles each kernel twice
def test_the_table_of_ops_with_derivatives_and_batches(start: int) -> None:
    op_table.assert_cases_hold(quick(), start)


@settings(max_examples=8)
@given(graphs(most=6, steps=(*STEPS, *LOOPS)))
def test_random_programs_have_the_values_of_the_oracle(outputs: list[UOp]) -> None:
    values = inputs(outputs)
    got = run_on(quick(), jaxpr(outputs), values)
    for i, (x, y) in enumerate(zip(got, run_oracle(outputs, values), strict=True)):
        assert_close(x, y, 2e-3, 2e-3, f"output {i}")


TRAININGS = {
    "MNIST": assert_squares_train_alike,
    "a GPT": laws.assert_a_gpt_has_the_losses_of_the_cpu,
}


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize("name", in_turn(2, tuple(TRAININGS)))  # of a hundred kernels each
def test_training_has_the_losses_of_the_cpu(name: str) -> None:
    TRAININGS[name]("amd-emulated")


@pytest.mark.usefixtures("on_amd")
def test_arrays_of_two_devices_do_not_mix() -> None:
    laws.assert_arrays_of_two_devices_do_not_mix("amd-emulated")


@pytest.mark.usefixtures("on_amd")
def test_donated_arguments_and_functions_of_the_host() -> None:
    laws.assert_arguments_are_donated_and_the_host_is_called()


@pytest.mark.usefixtures("on_amd")
def test_eager_operations_indexing_and_printing() -> None:
    laws.assert_arrays_are_indexed_and_printed()


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32", "uint16"])
def test_arithmetic_of_each_dtype_has_the_bits_of_the_cpu(dtype: str) -> None:
    x = np.arange(-8.0, 9.0) / (1 if "int" in dtype else 3)

    def several(a: tfn.Array) -> tuple[tfn.Array, ...]:
        return a + a, a * a, a / (a + 20), tnp.maximum(a, a[::-1]), tnp.sqrt(abs(a))

    def values(device: str) -> list[Any]:
        config.device = device
        a = tnp.asarray(np.abs(x) if dtype[0] == "u" else x).astype(dtype)
        return [np.asarray(v.astype("float64")) for v in tfn.jit(several)(a)]

    for got, expected in zip(values("amd-emulated"), values("cpu"), strict=True):
        np.testing.assert_array_equal(got, expected)
