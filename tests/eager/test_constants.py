"""Constants of programs: operations on captured arrays, by NumPy where the bits are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.config import config
from tfn.eager import constants, registry

SMALL = np.float32(1e-42)
FLOATS = np.array([0.0, -0.0, 1.5, -2.25, 3e38, -3e38, SMALL, np.inf, -np.inf, np.nan], "f4")
INTEGERS = np.array([0, 1, -1, 7, 127, -128, 100, -100, 64, 2], np.int8)
ROWS: list[tuple[str, Callable[..., Any], np.ndarray[Any, Any]]] = [
    ("moved", lambda x: x.reshape(2, 5).T, FLOATS),
    ("reversed", lambda x: x[::-1], FLOATS),
    ("padded", lambda x: tnp.pad(x, 2), INTEGERS),
    ("wider", lambda x: x.astype("int16"), INTEGERS),
    ("narrower", lambda x: x.astype("int8"), np.arange(-2000, 2000, 37, dtype=np.int16)),
    ("unsigned", lambda x: x.astype("uint8"), INTEGERS),
    ("floating", lambda x: x.astype("float32"), np.arange(2**24 - 9, 2**24 + 9, dtype=np.int32)),
    ("wrapped", lambda x: x * x + x, INTEGERS),
    ("negated", lambda x: -x, FLOATS),
    ("added", lambda x: x + x[::-1], FLOATS),
    ("less", lambda x: x - x[::-1], FLOATS),
    ("scaled", lambda x: x * x[::-1], FLOATS),
    ("divided", lambda x: x / x[::-1], FLOATS),
]


def captured(operation: Callable[[Any], Any], x: Any) -> tuple[Any, int]:
    """The result of an operation on an array that a trace captures, and what was compiled."""
    found = []

    def run(y: Any) -> Any:
        found.append(operation(x))
        return y

    compiler = registry.device().compiler
    assert compiler is not None
    before = compiler.counts.compiled + compiler.counts.from_disk + compiler.counts.from_memory
    tfn.jit(run).eval_shape(tnp.float32(0))
    counts = compiler.counts
    return found[0], counts.compiled + counts.from_disk + counts.from_memory - before


@pytest.mark.parametrize("row", ROWS, ids=[name for name, *_ in ROWS])
def test_numpy_gives_the_bits_of_compiled_code(row: Any) -> None:
    _, operation, numbers = row
    tfn.clear_caches()
    x = tnp.asarray(numbers)
    result, loaded = captured(operation, x)
    expected = np.asarray(operation(x))
    assert loaded == 0
    assert result.dtype == expected.dtype and result.shape == expected.shape
    got, is_number = np.asarray(result), expected == expected
    np.testing.assert_array_equal(got == got, is_number)
    assert got[is_number].tobytes() == expected[is_number].tobytes()


@pytest.mark.parametrize(
    "operation",
    [lax.rsqrt, tnp.exp, lambda x: x.astype("int32"), lambda x: x.astype("float16"), tnp.sum],
)
def test_what_may_differ_is_compiled(operation: Callable[[Any], Any]) -> None:
    tfn.clear_caches()
    _, loaded = captured(operation, tnp.asarray(np.array([1.0, 2.5, 3.0], np.float32)))
    assert loaded > 0


def test_large_arrays_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MAX_ELEMENTS", 5)
    tfn.clear_caches()
    assert captured(lambda x: x.T, tnp.ones((2, 3)))[1] > 0


def test_weak_types_are_kept() -> None:
    two = tnp.asarray(2.0)
    result, _ = captured(lambda x: x * 3, two)
    assert result.weak_type == (two * 3).weak_type


def test_operations_are_compiled_while_nans_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "debug_nans", True)
    tfn.clear_caches()
    assert captured(lambda x: x.T, tnp.ones((2, 3)))[1] > 0
