"""CUDA as a device: all ops with derivatives and batches, random programs, training, mistakes.

Everything runs on the simulated GPU, and on a real one where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.hw import device_laws as laws
from tests.hw import op_table
from tests.hw.cuda.devices import ON_GPU, default, device_of, needs_gpu, simulated_device
from tests.hw.cuda.simulator import SimulatedCuda
from tests.hw.training import char_gpt_losses, differs
from tests.lower.graphs import assert_close, inputs, jaxpr, p, run_on, run_oracle
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.config import config
from tfn.errors import DeviceError, OutOfMemoryError
from tfn.hw.cuda.device import cuda
from tfn.hw.device import Device
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@cache
def real() -> Device:
    """The GPU: one memory for all tests."""
    return cuda()


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture(params=["simulated", pytest.param("gpu", marks=ON_GPU)])
def device(request: pytest.FixtureRequest) -> Device:
    return simulated_device(native=True) if request.param == "simulated" else real()


@pytest.fixture
def on_cuda(device: Device) -> Iterator[None]:
    """The default device is the GPU."""
    with default(device):
        yield


@pytest.mark.parametrize("start", in_turn(4, op_table.STARTS))
def test_the_table_of_ops_with_derivatives_and_batches(device: Device, start: int) -> None:
    op_table.assert_cases_hold(device, start)


@pytest.mark.parametrize("start", in_turn(4, op_table.STARTS))
def test_the_order_of_threads_makes_no_difference(start: int) -> None:
    names, outputs, values = op_table.cases(start)
    whole, functions = op_table.closed(outputs, values)
    arrays = [np.asarray(x) for x in values.values()]
    results = []
    for reverse in (False, True):
        simulated = SimulatedCuda()
        simulated.reverse = reverse
        results.append(run_on(device_of(simulated), whole, arrays, functions))
    for name, x, y in zip(names, *results, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=name)


@pytest.mark.parametrize("make", [simulated_device, pytest.param(real, marks=ON_GPU, id="gpu")])
@given(outputs=graphs(most=6, steps=(*STEPS, *LOOPS)))
def test_random_programs_have_the_values_of_the_oracle(
    make: Callable[[], Device], outputs: list[UOp]
) -> None:
    values = inputs(outputs)
    got = run_on(make(), jaxpr(outputs), values)
    for i, (x, y) in enumerate(zip(got, run_oracle(outputs, values), strict=True)):
        assert_close(x, y, 2e-3, 2e-3, f"output {i}")


@pytest.mark.usefixtures("on_cuda")
def test_a_network_trains_as_on_the_cpu() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(6, 32, 20)).astype(np.float32)
    goal = np.tanh(data @ rng.normal(size=(20, 3)).astype(np.float32))
    first = {"a": rng.normal(size=(20, 16)) * 0.3, "b": rng.normal(size=(16, 3)) * 0.3}

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((tnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2).mean()

    @tfn.jit
    def epoch(w: Any, x: Any, y: Any) -> Any:
        def step(w: Any, batch: Any) -> Any:
            value, slope = tfn.value_and_grad(loss)(w, *batch)
            return tfn.tree.map(lambda p, g: p - 0.3 * g, w, slope), value

        return tfn.lax.scan(step, w, (x, y))

    losses = {}
    for name in ("cuda", "cpu"):
        config.device = name
        params = {k: tnp.array(v, "float32") for k, v in first.items()}
        for _ in range(5):
            params, losses[name] = epoch(params, tnp.array(data), tnp.array(goal))
        losses[name] = np.asarray(losses[name])
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=1e-4)
    assert losses["cuda"].mean() < 0.5


SIZES = {"simulated": (3, 1, 16, 8), "gpu": (50, 4, 128, 128)}
"""Steps, layers, width and length of a GPT: a simulated GPU is a thousand times slower."""


@pytest.mark.usefixtures("on_cuda")
def test_a_gpt_has_the_losses_of_the_cpu(request: pytest.FixtureRequest) -> None:
    sizes = SIZES[request.node.callspec.params["device"]]
    own, cpu = (char_gpt_losses(d, *sizes) for d in ("cuda", "cpu"))
    assert not differs(own, cpu), (own, cpu)
    assert len(cpu) < 10 or cpu[-1] < 0.8 * cpu[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_sorts_and_prefix_sums_by_exchanges_of_warps(reverse: bool) -> None:
    """In either order of threads; each is bit by bit that of NumPy, or of the other order."""
    simulated = SimulatedCuda()
    simulated.reverse = reverse
    gpu, rng = device_of(simulated), np.random.default_rng(0)
    for size, dtype in ((3001, np.int32), (2500, np.float64), (700, np.uint8)):
        x = (rng.normal(size=size) * 50).astype(np.int8).astype(dtype)
        outputs = build.sort([p(0, size, dtype=x.dtype), build.iota((size,), 0)])
        outputs.append(running(p(0, size, dtype=x.dtype), Op.ADD))
        keys, order, sums = run_on(gpu, jaxpr(outputs), [x])
        np.testing.assert_array_equal(keys, np.sort(x))
        np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(sums, np.cumsum(x, dtype=x.dtype))


def test_associative_scans_of_functions_are_shallow() -> None:
    """What is pointwise is cut when it is lowered, all else in blocks of few steps."""
    simulated, rng = SimulatedCuda(), np.random.default_rng(0)
    n, weight = 600, rng.uniform(0.5, 1, 600).astype(np.float32)
    maps, scale = rng.uniform(-0.7, 0.7, (n, 2, 2)).astype(np.float32), np.float32(0.5)

    def affine(x: Any, y: Any) -> Any:
        return x[0] * y[0], x[1] * y[0] + y[1]

    products, totals, ranked = [np.eye(2)], [0.0], [0.0]
    for m, w in zip(maps, weight, strict=True):
        products.append(products[-1] @ m)
        totals.append(totals[-1] * w + 1)
        ranked.append(max(ranked[-1] * 1.0, w))
    with default(device_of(simulated, native=True)):
        xs = tnp.array(weight), tnp.ones(n)
        got = tfn.jit(lambda xs: tfn.lax.associative_scan(affine, xs)[1])(xs)
        np.testing.assert_allclose(np.asarray(got), totals[1:], rtol=1e-4)
        simulated.launched.clear()
        got = tfn.jit(lambda m: tfn.lax.associative_scan(tnp.matmul, m))(tnp.array(maps))
        np.testing.assert_allclose(np.asarray(got), products[1:], rtol=1e-3, atol=1e-6)
        assert len(simulated.launched) < 120
        most = tnp.array(scale)  # a function that captures an array
        larger = lambda x, y: tnp.maximum(x, y) + 0 * most
        got = tfn.jit(lambda w: tfn.lax.associative_scan(larger, w))(xs[0])
        np.testing.assert_allclose(np.asarray(got), ranked[1:], rtol=1e-6)


@pytest.mark.usefixtures("on_cuda")
def test_a_convolution_of_tf32_with_its_gradient_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s).astype(np.float32) for s in ((2, 16, 7, 7), (16, 16, 3, 3)))

    def loss(w: Any, precision: Any) -> Any:
        return (tfn.lax.conv(tnp.array(x), w, (1, 1), "SAME", precision) ** 2).sum()

    grads = [np.asarray(tfn.grad(loss)(tnp.array(w), p)) for p in (None, "tensorfloat32")]
    scale = np.abs(grads[0]).max()
    assert 1e-5 * scale < np.abs(grads[0] - grads[1]).max() < 3e-3 * scale


@pytest.mark.usefixtures("on_cuda")
def test_donated_arguments_and_functions_of_the_host() -> None:
    laws.assert_arguments_are_donated_and_the_host_is_called()


@pytest.mark.usefixtures("on_cuda")
def test_eager_operations_indexing_and_printing() -> None:
    laws.assert_arrays_are_indexed_and_printed()
    assert tfn.devices("cuda")[0].platform == "cuda"


@pytest.mark.usefixtures("on_cuda")
def test_arrays_of_two_devices_do_not_mix() -> None:
    x = tnp.arange(3.0)
    config.device = "cpu"
    y = tnp.arange(3.0)
    with pytest.raises(DeviceError, match="on the device cuda, and the program runs on another"):
        x + y
    config.device = "cuda"
    with pytest.raises(DeviceError, match="not on the device cuda"):
        x + y


@pytest.mark.usefixtures("on_cuda")
def test_memory_that_is_not_there_is_refused_and_the_device_goes_on() -> None:
    with pytest.raises(OutOfMemoryError, match="do not fit on"):
        tfn.jit(lambda x: tnp.broadcast_to(x, (1 << 40,)) * 2.0)(tnp.float32(1.0))
    assert float(tnp.float32(2.0) * 2) == 4


def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise DeviceError("this machine has no CUDA driver", got="nothing", hint="a driver")

    monkeypatch.setattr("tfn.hw.cuda.device.driver", none)
    for name in ("cuda", "cuda-debug"):
        with pytest.raises(DeviceError, match="no CUDA driver"):
            tfn.devices(name)
    monkeypatch.setattr(config, "device", "cuda")
    with pytest.raises(DeviceError, match="no CUDA driver"):
        tnp.arange(3)


@needs_gpu
def test_the_debug_device_of_a_gpu_gives_the_same_values() -> None:
    x = np.random.default_rng(0).normal(size=(7, 300)).astype(np.float32)
    results = []
    for name in ("cuda", "cuda-debug"):
        before, config.device = config.device, name
        try:
            results.append(np.asarray(tfn.jit(tfn.nn.softmax)(tnp.array(x))))
        finally:
            config.device = before
    np.testing.assert_array_equal(*results)
