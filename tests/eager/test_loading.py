"""Programs are loaded once for each device, and kept while they are used."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import Array
from tfn._support import cache
from tfn.config import config
from tfn.eager import loading, run
from tfn.errors import DeletedArrayError
from tfn.lower.index import simplify


@pytest.fixture
def small(monkeypatch: Any) -> int:
    """Room for a dozen programs."""
    loading.clear_caches()
    monkeypatch.setattr(config, "cache_limit_bytes", 1 << 20)
    return 1 << 20


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_a_function_is_lowered_once_for_each_device(device: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "device", device)
    loading.clear_caches()
    x = tnp.asarray(np.arange(4, dtype=np.float32))
    for _ in range(3):
        found = tfn.make_jaxpr(lambda a: tnp.tanh(a) * 2)(x)
        (y,) = run.call(found, [x])
        np.testing.assert_allclose(np.asarray(y), np.tanh(np.arange(4)) * 2, 1e-6)
    assert [name for _, name in loading._LOADED] == [device]


def test_other_numbers_are_no_other_program(monkeypatch: Any) -> None:
    x = tnp.asarray(np.arange(3, dtype=np.float32))
    np.testing.assert_allclose(np.asarray(x * 0.5), np.arange(3) * 0.5)
    np.testing.assert_allclose(np.asarray(x * 2), np.arange(3) * 2)
    monkeypatch.setattr(loading, "lower", None)
    for number in (-3.25, 1000.5, 7, -1):
        np.testing.assert_allclose(np.asarray(x * number), np.arange(3) * number)


@pytest.mark.parametrize("looks", [True, False])
def test_garbage_is_looked_for_after_lowering_as_before(looks: bool) -> None:
    before = gc.isenabled()
    (gc.enable if looks else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError), loading.undisturbed():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is looks
    finally:
        (gc.enable if before else gc.disable)()


def test_however_many_shapes_there_are_few_programs_are_kept(small: int) -> None:
    most = small // loading.PROGRAM_BYTES
    for n in range(1, 41):
        x = tnp.asarray(np.arange(n, dtype=np.float32))
        assert float((x * 2.0).sum()) == n * (n - 1)
        assert tfn.grad(lambda x: (x * x).sum())(x)[-1] == 2 * (n - 1)
        info = loading.cache_info()
        assert info.size_bytes <= small and sum(info.entries.values()) <= 5 * most
        assert info.entries["programs"] <= most
    gc.collect()
    assert len(loading._LOADED) <= most  # no other references to them
    assert info.dropped > 40


def test_recently_used_programs_are_not_evicted(small: int) -> None:
    x = tnp.arange(3.0)
    slope = tfn.grad(lambda x: (x * x).sum())
    for n in range(4, 44):
        tnp.ones(n) + tnp.ones(n)
        before = len(loading._LOADED)
        assert slope(x).tolist() == [0, 2, 4] and (x + x).tolist() == [0, 2, 4]
        assert len(loading._LOADED) == before or n == 4


def test_forgetting_drops_all() -> None:
    f = tfn.jit(lambda x: x * 2 + 1)
    x = tnp.arange(5.0)
    assert f(x).tolist() == [1, 3, 5, 7, 9] and (x - 1).tolist() == [-1, 0, 1, 2, 3]
    loading.clear_caches()
    gc.collect()
    assert not any(loading.cache_info().entries.values()) and not loading._LOADED
    assert not simplify._MEMO[0].simplified
    assert f(x).tolist() == [1, 3, 5, 7, 9] and f.cache_info()[:2] == (1, 2)


def test_a_program_lives_as_long_as_a_function_that_has_it() -> None:
    """And is found by others meanwhile, even if it was not used lately."""
    f = tfn.jit(lambda x: x * 3 - 1).lower(tnp.arange(5.0)).compile()
    jaxpr = f.lowered.traced.jaxpr
    made = loading.load(jaxpr)
    cache.turn()
    cache.turn()
    assert loading.cache_info().entries["programs"] == 0 and loading.load(jaxpr) is made
    loading.clear_caches()
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
    loaded = loading.load(f.trace(x).jaxpr)
    (table,) = loaded.tables
    assert table.shape == (2000,) and [s for s, _ in loaded.program.inputs] == [(2000,)] * 2
    assert all("fma" not in kernel.text for kernel in loaded.program.kernels)
    np.testing.assert_allclose(run.call(f.trace(x).jaxpr, [x])[0], want, atol=1e-6)
    assert loaded.compile_stats.size_bytes >= 8000


def test_what_depends_on_captured_arrays_alone_is_computed_once() -> None:
    """For each set of arrays; one program serves all."""
    x = tnp.ones((64, 32))

    def over(w: Array) -> Any:
        return tfn.jit(lambda x: tnp.einsum("ij,kj->ik", x, w))

    weights = [tnp.asarray(np.sin(np.arange(1024, dtype="f4") + i)).reshape(32, 32) for i in (1, 2)]
    functions = [over(w) for w in weights]
    for _ in range(3):
        for f, w in zip(functions, weights):
            for product in (f(x), f.lower(x).compile()(x)):
                np.testing.assert_allclose(product, np.asarray(x) @ np.asarray(w).T, atol=1e-5)
    loaded = loading.load(functions[0].trace(x).jaxpr)
    prelude = loaded.program.prelude
    assert prelude is not None and len(prelude.launches) == 1
    assert loading.load(functions[1].trace(x).jaxpr) is loaded
    first, second = (loaded.kept([w], None) for w in weights)
    again = loaded.kept([weights[1]], None)
    assert again[0] is second[0] and not np.array_equal(first[0], second[0])
    weights[0].delete()
    with pytest.raises(DeletedArrayError):
        functions[0](x)


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
