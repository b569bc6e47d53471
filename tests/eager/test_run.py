"""Executor: devices, conversion to arrays, caches of programs."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import Array
from tfn._support import cache
from tfn.config import config
from tfn.dtypes import ALL, FLOAT32, INT32
from tfn.eager import platforms, run
from tfn.errors import ArgumentError, DeviceError, DTypeError, OutOfMemoryError
from tfn.hw.device import Device, Learn
from tfn.hw.python import OracleExecutable, python
from tfn.lower.index import simplify
from tfn.lower.program import Program
from tfn.trace.argument import Param
from tfn.trace.aval import kind_of
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import Op


def test_devices_are_made_once_and_named(monkeypatch: Any) -> None:
    for name in ("cpu", "python", "null"):
        monkeypatch.setattr(config, "device", name)
        assert run.device() is run.device() and run.device().name == name
    monkeypatch.setattr(config, "device", "abacus")
    listed = f"TFN_DEVICE, is one of {', '.join(platforms.MAKERS)}"
    assert {"cpu", "cpu-debug", "cuda", "opencl", "dsp", "python", "null"} < set(platforms.MAKERS)
    with pytest.raises(DeviceError, match=rf"abacus(.*\s)*.*{listed}"):
        run.device()


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (True, "bool", False),
        (3, "int32", True),
        (2.5, "float32", True),
        (np.float64(2.5), "float32", True),  # a Python float too
        (np.float32(2.5), "float32", False),
        (np.int8(3), "int8", False),
    ],
    ids=repr,
)
def test_numbers(value: Any, dtype: str, weak: bool) -> None:
    x = run.asarray(value)
    assert x.shape == () and x.dtype == np.dtype(dtype) and x.weak_type == weak
    assert x.item() == value
    y = run.asarray(value, "float16")
    assert y.dtype == np.float16 and not y.weak_type and y.item() == float(value)


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="does not fit"):
        run.asarray(1 << 40)
    assert run.asarray(1 << 40, "int64").item() == 1 << 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert run.asarray(1e300).item() == float("inf")


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (40, 7)], ids=str)
def test_numpy_arrays_keep_shape_dtype_and_values(shape: Any, dtype: Any) -> None:
    data = np.array(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7, dtype)
    for each in (data, data.T, data[..., ::-1] if shape else data):
        x = run.asarray(each)
        assert x.shape == each.shape and x.dtype == dtype and not x.weak_type
        assert np.asarray(x).tobytes() == np.ascontiguousarray(each).tobytes()


def test_asarray_refuses_other_objects() -> None:
    with pytest.raises(ArgumentError, match="list is not an array"):
        run.asarray([1, 2])
    with pytest.raises(DTypeError):
        run.asarray(np.zeros(2, "datetime64[s]"))
    x = run.asarray(1.0)
    assert run.asarray(x) is x


def test_an_op_of_several_results_and_one_of_no_operands() -> None:
    keys = tnp.asarray(np.array([3, 1, 2], np.float32))
    for _ in range(3):
        assert tnp.argsort(keys).tolist() == [1, 2, 0]
        assert tnp.arange(4).tolist() == [0, 1, 2, 3]


@dataclass
class Counting:
    """A device of the tests' own: the oracle, with entries in Python that are counted."""

    entries: list[Any] = field(default_factory=list)
    array: type | None = None

    def device(self) -> Device:
        return replace(python(), name="counting", queue=self)

    def serve(self, array: type, learn: Learn | None = None) -> None:
        self.array = array

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Any:
        executable: Any = OracleExecutable(program.function)
        executable.entry = self.entry
        return executable

    def synchronize(self) -> None:
        pass

    def entry(self, inputs: Any, outputs: Any, *trees: Any, keep: object, number: int) -> Any:
        self.entries.append(([row.kind for row in inputs], [row.kind for row in outputs], *trees))
        return lambda *arguments: NotImplemented if len(self.entries) < 2 else "an entry's result"


def test_a_new_device_needs_its_row_and_nothing_else(monkeypatch: Any) -> None:
    queue = Counting()
    monkeypatch.setitem(platforms.MAKERS, "counting", queue.device)
    monkeypatch.setattr(run, "_DEVICES", {})
    monkeypatch.setattr(config, "device", "counting")
    x, kind = tnp.ones(3), kind_of((3,), FLOAT32)
    assert run.execute(Op.ADD, None, [x, x]).tolist() == [2, 2, 2]
    assert queue.array is Array and queue.entries == [([kind, kind], [kind], range(2), 0, ())]
    assert run.execute(Op.ADD, None, [x, x]).tolist() == [2, 2, 2]  # the entry refuses
    assert run.execute(Op.SUB, None, [x, x]).tolist() == [0, 0, 0]
    result: Any = run.execute(Op.SUB, None, [x, x])
    assert result == "an entry's result"
    with pytest.raises(ArgumentError, match="tune times kernels"):
        tfn.tune(lambda x: x, x)


def test_only_devices_with_native_entries_have_any(monkeypatch: Any) -> None:
    x = Param(0, (3,), FLOAT32)
    jaxpr = Jaxpr(function([param(x) + param(x)], (x,)))
    monkeypatch.setattr(config, "device", "python")
    assert run.entry(jaxpr, [0], 0, [None], [False]) is None
    monkeypatch.setattr(config, "device", "cpu")
    assert run.call(jaxpr, [tnp.ones(3)])[0].tolist() == [2, 2, 2]
    monkeypatch.setattr(config, "debug_nans", True)
    assert run.entry(jaxpr, [0], 0, [None], [False]) is None


def test_values_of_other_devices_are_taken(monkeypatch: Any) -> None:
    arrays = []
    for name in ("python", "cpu"):
        monkeypatch.setattr(config, "device", name)
        arrays.append(tnp.asarray(np.ones(3, np.int32)))
    for name in ("python", "cpu"):
        monkeypatch.setattr(config, "device", name)
        for _ in range(3):
            found: Array = run.execute(Op.ADD, None, arrays)
            assert found.tolist() == [2, 2, 2] and found.dtype == INT32


def test_the_memory_of_a_run_is_known_before_it(monkeypatch: Any) -> None:
    """And is what the pool then counts."""
    monkeypatch.setattr(config, "device", "cpu")
    f = tfn.jit(lambda x, y: (tnp.sort(x * 2).sum() + y, y, x))
    x, y = tnp.ones(4096), tnp.ones(3)
    found = f.memory_analysis(x, tfn.ShapeDtypeStruct((3,), "float32"))
    assert found.argument_bytes == 4 * 4096 + 12 and found.alias_bytes == 12 + 4 * 4096
    assert found.output_bytes == 12 and found.temporary_bytes >= 4 * 4096
    assert found.peak_bytes == found.argument_bytes + 12 + found.temporary_bytes
    keep = f(x, y)
    pool: Any = run.device().memory.pool  # type: ignore[attr-defined]
    pool.peak_bytes = before = pool.live_bytes
    keep = f(x, y)
    assert keep and found.new_bytes <= pool.peak_bytes - before <= 1.25 * found.new_bytes + 256


def test_memory_limit_is_checked_before_the_program_runs(monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    f = tfn.jit(lambda x: (x + 1, x + 2, x + 3), donate_argnums=0)
    x = tnp.ones(1 << 16)
    pool: Any = run.device().memory.pool  # type: ignore[attr-defined]
    live = pool.live_bytes
    monkeypatch.setattr(config, "memory_limit_bytes", live + (1 << 18) + 1000)
    with pytest.raises(OutOfMemoryError, match=r"524,\d+ bytes do not fit"):
        f(x)
    assert pool.live_bytes == live and not x.is_deleted()


@pytest.mark.parametrize(
    "data",
    [
        np.arange(12, dtype=np.float32)[::-2],
        np.arange(12, dtype=">f4"),
        np.broadcast_to(np.float32(2), (30, 40)),
        np.arange(1200, dtype=np.float32).reshape(30, 40)[:, ::3],
    ],
    ids=["backwards", "big-endian", "broadcast", "every third"],
)
def test_data_in_any_layout(data: Any) -> None:
    x = run.asarray(data)
    assert x.shape == data.shape and x.dtype == FLOAT32
    assert np.array_equal(np.asarray(x), data) and np.array_equal(np.asarray(x + 0.0), data)


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_a_function_is_lowered_once_for_each_device(device: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "device", device)
    run.forget()
    x = tnp.asarray(np.arange(4, dtype=np.float32))
    for _ in range(3):
        found = tfn.make_jaxpr(lambda a: tnp.tanh(a) * 2)(x)
        (y,) = run.call(found, [x])
        np.testing.assert_allclose(np.asarray(y), np.tanh(np.arange(4)) * 2, 1e-6)
    assert [name for _, name in run._LOADED] == [device]


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_results_that_are_an_argument_or_another_result(device: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "device", device)
    x = tnp.asarray(np.ones((2, 3), np.float32))
    found = tfn.make_jaxpr(lambda a: (a, a + 1, a + 1, a))(x)
    for got, want in zip(run.call(found, [x]), (1, 2, 2, 1), strict=True):
        assert (np.asarray(got) == want).all()


def test_other_numbers_are_no_other_program(monkeypatch: Any) -> None:
    x = tnp.asarray(np.arange(3, dtype=np.float32))
    np.testing.assert_allclose(np.asarray(x * 0.5), np.arange(3) * 0.5)
    np.testing.assert_allclose(np.asarray(x * 2), np.arange(3) * 2)
    monkeypatch.setattr(run, "lower", None)
    for number in (-3.25, 1000.5, 7, -1):
        np.testing.assert_allclose(np.asarray(x * number), np.arange(3) * number)


def test_asarray_copies() -> None:
    for size in (3, 100_000):
        data = np.ones(size, np.float32)
        x = tnp.array(data)
        data[:] = 5
        assert (np.asarray(x) == 1).all()


@pytest.mark.parametrize("looks", [True, False])
def test_garbage_is_looked_for_after_lowering_as_before(looks: bool) -> None:
    before = gc.isenabled()
    (gc.enable if looks else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError), run.undisturbed():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is looks
    finally:
        (gc.enable if before else gc.disable)()


# What is kept.


@pytest.fixture
def small(monkeypatch: Any) -> int:
    """Room for a dozen programs."""
    run.forget()
    monkeypatch.setattr(config, "cache_limit_bytes", 1 << 20)
    return 1 << 20


def test_however_many_shapes_there_are_few_programs_are_kept(small: int) -> None:
    most = small // run.PROGRAM_BYTES
    for n in range(1, 41):
        x = tnp.asarray(np.arange(n, dtype=np.float32))
        assert float((x * 2.0).sum()) == n * (n - 1)
        assert tfn.grad(lambda x: (x * x).sum())(x)[-1] == 2 * (n - 1)
        info = run.cache_info()
        assert info.size_bytes <= small and sum(info.entries.values()) <= 5 * most
        assert info.entries["programs"] <= most
    gc.collect()
    assert len(run._LOADED) <= most  # no other references to them
    assert info.dropped > 40


def test_recently_used_programs_are_not_evicted(small: int) -> None:
    x = tnp.arange(3.0)
    slope = tfn.grad(lambda x: (x * x).sum())
    for n in range(4, 44):
        tnp.ones(n) + tnp.ones(n)
        before = len(run._LOADED)
        assert slope(x).tolist() == [0, 2, 4] and (x + x).tolist() == [0, 2, 4]
        assert len(run._LOADED) == before or n == 4


def test_forgetting_drops_all() -> None:
    f = tfn.jit(lambda x: x * 2 + 1)
    x = tnp.arange(5.0)
    assert f(x).tolist() == [1, 3, 5, 7, 9] and (x - 1).tolist() == [-1, 0, 1, 2, 3]
    run.forget()
    gc.collect()
    assert not any(run.cache_info().entries.values()) and not run._LOADED
    assert not simplify._MEMO[0].simplified
    assert f(x).tolist() == [1, 3, 5, 7, 9] and f.cache_info()[:2] == (1, 2)


def test_a_program_lives_as_long_as_a_function_that_has_it() -> None:
    """And is found by others meanwhile, even if it was not used lately."""
    f = tfn.jit(lambda x: x * 3 - 1).lower(tnp.arange(5.0)).compile()
    jaxpr = f.lowered.traced.jaxpr
    made = run.load(jaxpr)
    cache.turn()
    cache.turn()
    assert run.cache_info().entries["programs"] == 0 and run.load(jaxpr) is made
    run.forget()
    assert f(tnp.arange(5.0)).tolist() == [-1, 2, 5, 8, 11]


def test_tables_are_computed_once() -> None:
    """What depends on no argument is an input that the program keeps, on all ways to run it."""

    def turned(x: Array) -> Array:
        return x * tnp.sin(tnp.arange(2000.0) * 0.01)

    f = tfn.jit(turned)
    want = np.sin(np.arange(2000, dtype=np.float32) * np.float32(0.01))
    x = tnp.ones(2000)
    for _ in range(3):
        np.testing.assert_allclose(f(x), want, atol=1e-6)
    loaded = run.load(f.trace(x).jaxpr)
    (table,) = loaded.tables
    assert table.shape == (2000,) and [s for s, _ in loaded.program.inputs] == [(2000,)] * 2
    assert all("fma" not in kernel.text for kernel in loaded.program.kernels)
    np.testing.assert_allclose(run.call(f.trace(x).jaxpr, [x])[0], want, atol=1e-6)
    assert loaded.compile_stats.size_bytes >= 8000


def test_a_table_that_is_a_result_stays_as_it_is() -> None:
    """It has the memory of the table, over which no donation writes."""

    def turned(x: Array) -> tuple[Array, Array]:
        sines = tnp.sin(tnp.arange(2000.0) * 0.01)
        return sines, x * sines

    f, x = tfn.jit(turned), tnp.ones(2000)
    negated = tfn.jit(lambda x: -x, donate_argnums=0)
    want = np.sin(np.arange(2000, dtype=np.float32) * np.float32(0.01))
    for _ in range(3):
        for sines, product in (f(x), run.call(f.trace(x).jaxpr, [x])):
            np.testing.assert_array_equal(sines, product)
            np.testing.assert_allclose(negated(sines), -want, atol=1e-6)
