"""Dispatch: encoded trees; equal behaviour with and without native entries; fork and exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.hw.entries import device, entry, numbers, toy
from tfn.config import config
from tfn.eager import registry, run
from tfn.errors import DeletedArrayError, OutOfMemoryError
from tfn.hw.cpu import native
from tfn.hw.cpu.dispatch import encode


def test_encoding_of_a_tree() -> None:
    words: list[int] = []
    assert encode([0, (None, 1), {"a": 2}], words)
    leaf, none, list_, tuple_, dict_, _ = native.TREE.values()
    key = words[-3]
    assert words == [list_, 3, leaf, 0, tuple_, id(tuple), 2, none, leaf, 1, dict_, 1, key, leaf, 2]
    assert not encode({1: 0}, []) and not encode([0.5], []) and not encode({"a": {2}}, [])


def test_entries_refuse_buffers_of_another_device() -> None:
    one, other = device(), device()
    assert entry(one)(toy(other)) is NotImplemented
    assert numbers(one, entry(one)(toy(one))) == [3] * 5


@pytest.fixture(params=["native", "ctypes"])
def way(request: Any, monkeypatch: Any) -> Iterator[str]:
    """Both ways of the real device."""
    monkeypatch.setattr(config, "device", "cpu")
    monkeypatch.setattr(registry, "DEVICES", {})
    monkeypatch.setattr("tfn.hw.cpu.device.supported", lambda: request.param == "native")
    run.clear_caches()
    yield request.param
    run.clear_caches()


def test_results_equal_with_and_without_native_entries(way: str) -> None:
    f = tfn.jit(lambda x, y: {"sum": x + y, "same": x, "both": (y * 2, y * 2)})
    x, y = tnp.arange(5.0), tnp.ones(5)
    for _ in range(3):
        found = f(x, y)
        assert found["sum"].tolist() == [1, 2, 3, 4, 5] and found["same"].tolist() == x.tolist()
        assert found["both"][0].tolist() == found["both"][1].tolist() == [2] * 5
        assert tnp.sin(x * 2 + 0.5).tolist() == pytest.approx(np.sin(np.arange(5) * 2 + 0.5))
    assert len(f._direct) == (way == "native")


def test_donated_arrays_are_deleted(way: str) -> None:
    f = tfn.jit(lambda state, x: ({"w": state["w"] + x}, x), donate_argnums=0)
    state, x = {"w": tnp.ones(3)}, tnp.ones(3)
    for i in range(4):
        old = state["w"]
        state, _ = f(state, x)
        assert old.is_deleted() and state["w"].tolist() == [i + 2] * 3
        with pytest.raises(DeletedArrayError):
            f({"w": old}, x)
    x.delete()
    with pytest.raises(DeletedArrayError):
        x + 1
    with pytest.raises(DeletedArrayError):
        f(state, x)


def counting(n: int, look: Any) -> Any:
    """A donating function that counts in place, and calls `look` after each step."""

    def step(c: Any, _: None) -> Any:
        c = c + 1
        tfn.debug.callback(look, c)
        return c, None

    return tfn.jit(lambda x: tfn.lax.scan(step, x, None, n)[0], donate_argnums=0)


def test_donated_arrays_are_deleted_before_they_are_overwritten(way: str) -> None:
    """A callback of the program, or another thread, must not see an array change."""
    seen: list[Any] = []
    x = tnp.zeros(4)
    f = counting(3, lambda c: seen.append(x.is_deleted()))
    for _ in range(2):
        x = tnp.zeros(4)
        assert f(x).tolist() == [3] * 4
    assert seen == [True] * 6


def test_donated_arrays_are_deleted_if_the_program_fails(way: str) -> None:
    def look(c: Any) -> None:
        if c[0] > 2:
            raise KeyError("third")

    f = counting(5, look)
    for _ in range(3):
        x = tnp.zeros(4)
        view = np.asarray(x)
        with pytest.raises(KeyError, match="third"):
            f(x)
        assert x.is_deleted() and view.tolist() == [0] * 4


def test_donated_memory_with_numpy_views_is_not_overwritten(way: str) -> None:
    f = tfn.jit(lambda x: x + 1, donate_argnums=0)
    run = f.lower(tnp.zeros(400)).compile()
    for add in (f, f, run):
        for export in (np.asarray, np.from_dlpack, lambda x: memoryview(np.asarray(x))[1:]):
            x = tnp.zeros(400)
            seen = export(x)
            assert add(x).tolist() == [1] * 400
            assert x.is_deleted() and not np.asarray(seen).any()


def test_weak_types_are_preserved(way: str) -> None:
    f = tfn.jit(lambda x: (x * 2, x.astype("float32")))
    for _ in range(3):
        assert [y.weak_type for y in f(1.5)] == [True, False]
        assert [y.weak_type for y in f(tnp.float32(1.5))] == [False, False]
    for _ in range(3):
        assert (tnp.asarray(1) + 2).weak_type and not (tnp.ones(2) + 2).weak_type


def test_memory_limit_is_respected(way: str, monkeypatch: Any) -> None:
    f, x = tfn.jit(lambda x: x + 1), tnp.zeros(1 << 18)
    f(x)
    monkeypatch.setattr(config, "memory_limit_bytes", 1 << 19)
    with pytest.raises(OutOfMemoryError):
        f(x)
    monkeypatch.setattr(config, "memory_limit_bytes", 0)
    assert f(x)[0] == 1


def test_many_threads_share_a_function(way: str) -> None:
    f, wrong = tfn.jit(lambda x, y: (x + y, [x * y])), []

    def work(mark: int) -> None:
        for size in (3, 3, 3, 4 + mark):
            x, y = tnp.full(size, float(mark)), tnp.full(size, 2.0)
            for _ in range(30):
                total, [product] = f(x, y)
                if total.tolist() != [mark + 2] * size or product.tolist() != [mark * 2] * size:
                    wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_deleted_capture_is_an_error(way: str) -> None:
    w = tnp.ones(3)
    f = tfn.jit(lambda x: x * w)
    assert f(tnp.ones(3)).tolist() == f(tnp.ones(3)).tolist() == [1, 1, 1]
    w.delete()
    with pytest.raises(DeletedArrayError):
        f(tnp.ones(3))


PROGRAM = """
import os, sys
import tfn, tfn.numpy as tnp
f = tfn.jit(lambda t: {"b": t["a"] + 1, "c": [t["a"] * 2]})
x = tnp.ones(8)
kept = [f({"a": x}) for _ in range(200)]
child = os.fork()
if child == 0:
    assert f({"a": x})["b"].tolist() == [2.0] * 8 and (x @ x).item() == 8
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
cycle = [kept]
cycle.append(cycle)
"""


WITHOUT_NATIVE_CALLS = "import tfn.hw.cpu.device as d\nd.supported = lambda: False\n"


@pytest.mark.parametrize("before", [WITHOUT_NATIVE_CALLS, ""], ids=["ctypes", "native"])
def test_a_process_with_entries_forks_and_exits(before: str) -> None:
    environment = os.environ | {"TFN_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


DAEMONS = """
import threading, time
import tfn, tfn.numpy as tnp
f, x = tfn.jit(lambda x: tnp.sin(x) * 2 + x), tnp.ones(300_000)
g, y = tfn.jit(lambda x: [x + 1]), tnp.ones(8)
def work(h, z):
    while True:
        h(z)
for h, z in ((f, x), (f, x), (g, y), (g, y)):
    threading.Thread(target=work, args=(h, z), daemon=True).start()
time.sleep(0.2)
"""


def test_a_process_ends_while_threads_call_entries() -> None:
    environment = os.environ | {"TFN_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", DAEMONS], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
