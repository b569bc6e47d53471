"""Executor: ops and programs are run, on any device, in memory that is known before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import Array
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.eager import platforms, registry, run
from tfn.errors import ArgumentError, OutOfMemoryError
from tfn.hw.device import Device, EntryForm, Learn
from tfn.hw.python import OracleExecutable, python
from tfn.lower.program import Program
from tfn.trace.argument import Param
from tfn.trace.aval import kind_of
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import Op


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

    def entry(self, form: EntryForm) -> Any:
        kinds = ([row.kind for row in rows] for rows in (form.inputs, form.outputs))
        self.entries.append((*kinds, form.arguments, form.result, form.captured))
        return lambda *arguments: NotImplemented if len(self.entries) < 2 else "an entry's result"


def test_a_new_device_needs_its_row_and_nothing_else(monkeypatch: Any) -> None:
    queue = Counting()
    monkeypatch.setitem(platforms.MAKERS, "counting", queue.device)
    monkeypatch.setattr(registry, "DEVICES", {})
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


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_results_that_are_an_argument_or_another_result(device: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "device", device)
    x = tnp.asarray(np.ones((2, 3), np.float32))
    found = tfn.make_jaxpr(lambda a: (a, a + 1, a + 1, a))(x)
    for got, want in zip(run.call(found, [x]), (1, 2, 2, 1), strict=True):
        assert (np.asarray(got) == want).all()
