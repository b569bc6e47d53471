"""WebGPU as a device: all ops with derivatives and batches, random programs, and training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tfn
import tfn.numpy as jnp
from tests.covering import exhaustive
from tests.growth import NONE, growth
from tests.hw import device_laws as laws
from tests.hw import op_table
from tests.hw.training import assert_squares_train_alike
from tests.hw.webgpu.devices import needs_webgpu, shared
from tests.lower.graphs import assert_close, inputs, jaxpr, run_on, run_oracle
from tests.lower.math import test_words
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.config import config
from tfn.eager import registry
from tfn.exporting import programs
from tfn.hw.commands import record
from tfn.lower import pipeline
from tfn.trace.uop import UOp

pytestmark = needs_webgpu


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture
def on_webgpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default device is the WebGPU device, as ``TFN_DEVICE=webgpu`` makes it."""
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "webgpu", shared())
    monkeypatch.setattr(config, "device", "webgpu")


@pytest.mark.parametrize("start", op_table.STARTS if exhaustive else [64])  # shaders compile long
def test_the_table_of_ops_with_derivatives_and_batches(start: int) -> None:
    op_table.assert_cases_hold(shared(), start)


@given(graphs(most=6, steps=(*STEPS, *LOOPS)))
def test_random_programs_have_the_values_of_the_oracle(outputs: list[UOp]) -> None:
    values = inputs(outputs)
    got = run_on(shared(), jaxpr(outputs), values)
    for i, (x, y) in enumerate(zip(got, run_oracle(outputs, values), strict=True)):
        assert_close(x, y, 2e-3, 2e-3, f"output {i}")


def test_functions_without_numbers_of_64_bits() -> None:
    """The adapter is opened without these features, as browsers have it."""
    device = shared(wide=False)
    assert device.target.triple == "webgpu"
    test_words.assert_functions_are_close(lambda *graph: run_on(device, *graph), 400, 3)


NUMBERS = [0, 1, -1, 5, -3, 127, -129, 65536, 2.0**31 - 128, -(2.0**31), 2.0**32, 2.0**63, np.nan]
INTEGERS = [
    0,
    1,
    -1,
    5,
    -3,
    127,
    -129,
    65536,
    2**31 - 1,
    2**31,
    2**32 + 1,
    2**62 + 12345,
    2**63 - 1,
]


def compared(x: Any) -> list[Any]:
    """A number as each dtype, and how those of 64 bits compare with constants."""
    own = [x.astype(name) for name in ("int8", "int32", "uint32", "float16", "float32")]
    for wide in (x.astype(name) for name in ("int64", "uint64", "float64")):
        own += [wide, wide < 5, wide <= 100, wide != 5, x.astype("int32").astype(wide.dtype)]
    return own


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64", "float32"])
def test_numbers_are_cast_to_64_bits_and_compared(on_webgpu: None, dtype: str) -> None:
    words = np.array([n % 2**64 for n in INTEGERS], np.uint64)
    x = np.array(NUMBERS, dtype) if dtype == "float32" else words.astype(dtype)
    read = lambda: [np.asarray(y) for y in tfn.jit(compared)(x)]
    got = read()
    config.device = "python"
    for i, (y, z) in enumerate(zip(got, read(), strict=True)):
        np.testing.assert_array_equal(y, z, err_msg=str(i))


@pytest.mark.usefixtures("on_webgpu")
def test_bytes_are_sorted() -> None:
    """By the counts of their digits: see `group_sort`."""
    x = np.arange(101, dtype=np.int8) * 37 % 11 - 5
    np.testing.assert_array_equal(jnp.argsort(x), np.argsort(x, kind="stable"))


@pytest.mark.usefixtures("on_webgpu")
@pytest.mark.parametrize("n", [2, 5])
def test_columns_are_sorted(n: int) -> None:
    """Of two elements all numbers of the sort are constants, which a driver folds."""
    x = np.arange(6 * n, dtype=np.float32).reshape(n, 6) * 7 % 5
    np.testing.assert_array_equal(jnp.sort(x, 0), np.sort(x, 0))


@pytest.mark.usefixtures("on_webgpu")
def test_nan_differs_from_all_numbers() -> None:
    x, y = np.array([np.nan, np.nan, 1, 1]), np.array([np.nan, 1, np.nan, 1])
    for dtype in ("float16", "float32", "float64"):
        np.testing.assert_array_equal(jnp.asarray(x, dtype) != jnp.asarray(y, dtype), x != y)


def without_64_bits(x: Any, words: Any) -> Any:
    """Functions whose usual kernels have numbers of 64 bits."""
    return [
        jnp.argsort((x * 9).astype("int8")),
        jnp.lexsort((x[0], x[1])),
        words.astype("bfloat16").astype("float32"),
        words.astype("uint32").astype("float8_e5m2").astype("float32"),
        jnp.ldexp(x[0, :5], words % 30),
    ]


def test_functions_that_use_64_bits_elsewhere(
    on_webgpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "webgpu", shared(wide=False))
    x = np.random.default_rng(0).standard_normal((5, 40), np.float32)
    words = np.array([2**31 - 1, -(2**31) + 5, 257, 2**24 + 2**16 + 1, -(2**24) - 3], np.int32)
    read = lambda: [np.asarray(y) for y in tfn.jit(without_64_bits)(x, words)]
    got = read()
    monkeypatch.setattr(config, "device", "cpu")
    for i, (y, z) in enumerate(zip(got, read(), strict=True)):
        np.testing.assert_allclose(y, z, 1e-4, 1e-5, err_msg=str(i))


@pytest.mark.usefixtures("on_webgpu")
def test_calls_keep_no_memory() -> None:
    double, x = tfn.jit(lambda x: x * 2), jnp.arange(300.0)
    assert growth(lambda: double(x)) == NONE


def test_a_training_step_is_fused_as_on_the_cpu() -> None:
    """But for one launch, which packs weights for the vectors of a processor."""

    def loss(p: Any, x: Any) -> Any:
        return jnp.square(jnp.maximum(x @ p[0] + p[1], 0) @ p[2] + p[3]).mean()

    def step(p: Any, x: Any) -> Any:
        return [a - 0.1 * b for a, b in zip(p, tfn.grad(loss)(p, x), strict=True)]

    sizes = [(784, 128), (128,), (128, 10), (10,)], (64, 784)
    like = [tfn.ShapeDtypeStruct(s, "float32") for s in sizes[0]]
    request = programs.closed(step, (like, tfn.ShapeDtypeStruct(sizes[1], "float32")), {}, ())
    own, cpu = (
        len(record(pipeline.lower(request.jaxpr, device.target)))
        for device in (shared(), registry.device("cpu"))
    )
    assert own == cpu - 1


@pytest.mark.usefixtures("on_webgpu")
def test_mnist_trains_as_on_the_cpu() -> None:
    assert_squares_train_alike("webgpu")


@pytest.mark.usefixtures("on_webgpu")
def test_a_gpt_has_the_losses_of_the_cpu() -> None:
    laws.assert_a_gpt_has_the_losses_of_the_cpu("webgpu")


@pytest.mark.usefixtures("on_webgpu")
def test_arrays_of_two_devices_do_not_mix() -> None:
    laws.assert_arrays_of_two_devices_do_not_mix("webgpu")


@pytest.mark.usefixtures("on_webgpu")
def test_donated_arguments_and_functions_of_the_host() -> None:
    laws.assert_arguments_are_donated_and_the_host_is_called()


@pytest.mark.usefixtures("on_webgpu")
def test_eager_operations_indexing_and_printing() -> None:
    laws.assert_arrays_are_indexed_and_printed()
