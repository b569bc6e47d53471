"""OpenCL as a device: all ops with derivatives and batches, random programs, and training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mnist
import numpy as np
import pytest
from hypothesis import given

import tfn
import tfn.numpy as tnp
from tests.hw import op_table
from tests.hw.opencl.devices import needs_opencl, quick
from tests.hw.training import char_gpt_losses
from tests.lower.graphs import assert_close, inputs, jaxpr, run_on, run_oracle
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn import nn
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
    """On squares of 4 x 4 pixels: the driver may be an emulator."""
    train, test = mnist.load("train", 512), mnist.load("t10k", 200)
    x, y = (np.asarray(a).reshape(8, 64, -1) for a in train)
    test_x, test_y = (np.asarray(a).reshape(200, -1) for a in test)
    rng = np.random.default_rng(0)
    w = {"a": rng.normal(size=(49, 16)) * 0.2, "b": rng.normal(size=(16, 10)) * 0.2}

    def logits(w: Any, x: Any) -> Any:
        squares = x.reshape(-1, 7, 4, 7, 4).astype("float32").mean((2, 4)).reshape(-1, 49)
        return nn.relu(squares / 64 @ w["a"]) @ w["b"]

    def loss(w: Any, x: Any, y: Any) -> Any:
        labels = y.astype("int32").reshape(-1)
        return nn.softmax_cross_entropy_with_integer_labels(logits(w, x), labels).mean()

    @tfn.jit
    def epoch(w: Any, x: Any, y: Any) -> Any:
        def step(w: Any, batch: Any) -> Any:
            value, slope = tfn.value_and_grad(loss)(w, *batch)
            return tfn.tree.map(lambda p, g: p - 0.3 * g, w, slope), value

        return tfn.lax.scan(step, w, (x, y))

    losses, right = {}, {}
    for name in ("opencl", "cpu"):
        config.device = name
        params = {k: tnp.array(v, "float32") for k, v in w.items()}
        for _ in range(6):
            params, losses[name] = epoch(params, tnp.array(x), tnp.array(y))
        digits = tfn.jit(logits)(params, tnp.array(test_x)).argmax(1)
        right[name] = np.asarray(digits) == test_y.reshape(-1)
        losses[name] = np.asarray(losses[name])
    np.testing.assert_allclose(losses["opencl"], losses["cpu"], rtol=1e-3)
    assert right["opencl"].mean() > 0.6
    assert (right["opencl"] == right["cpu"]).mean() > 0.99


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
