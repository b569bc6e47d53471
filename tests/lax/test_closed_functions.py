"""Users' functions in loops: traced once, closed over what they use, refused in words."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn._support import cache
from tfn.config import config
from tfn.errors import ArgumentError, DTypeError, ShapeError, TreeError
from tfn.lax.closed_functions import _CLOSED, closed
from tfn.transforms.shapes import ShapeDtypeStruct

SCALAR = ShapeDtypeStruct((), "float32")
ONE, TWO = tfn.tree.structure((0,)), tfn.tree.structure((0, 0))


def test_a_function_is_traced_once_for_each_type() -> None:
    calls = []

    def body(c: Any, x: Any) -> Any:
        calls.append(1)
        return c + x, c

    for _ in range(3):
        lax.scan(body, 0.0, tnp.arange(4.0))
    assert len(calls) == 1
    lax.scan(body, tnp.zeros(2), tnp.ones((4, 2)))
    assert len(calls) == 2


def test_captured_values_become_parameters() -> None:
    w = tnp.array([1.0, 2.0])
    f = closed("scan", lambda x: x * w + w, [SCALAR], ONE)
    assert len(f.captured) == 1 and f.captured[0] is w
    assert [p.shape for p in f.function.arg.params] == [(2,), ()]


def test_equal_bodies_with_other_captured_values_are_one_function() -> None:
    one, other = (
        closed("scan", lambda x, w=w: x * w, [SCALAR], ONE) for w in (tnp.ones(2), tnp.zeros(2))
    )
    assert one.function is other.function


def test_values_of_an_outer_trace_are_not_kept() -> None:
    def body(c: Any, x: Any) -> Any:
        return c * scale[0] + x, None

    scale: list[Any] = []

    def f(s: Any) -> Any:
        scale[:] = [s]
        return lax.scan(body, 1.0, tnp.ones(2))[0]

    assert float(tfn.jit(f)(2.0)) == 7.0
    assert float(tfn.jit(f)(tnp.array(3.0))) == 13.0
    assert float(tfn.grad(f)(2.0)) == 5.0


def test_a_weak_carry_takes_the_dtype_that_the_body_gives() -> None:
    last, _ = lax.scan(lambda c, x: (c + x, None), 0, tnp.array([0.5, 1.5]))
    assert last.dtype == "float32" and float(last) == 2.0
    last, _ = lax.scan(lambda c, x: (c + x, None), 0, tnp.array([1, 2], dtype="int8"))
    assert last.dtype == "int8" and not last.weak_type
    assert lax.scan(lambda c, x: (c + 1, None), 0, length=3)[0].weak_type
    last, before = lax.scan(lambda c, x: (c * 1.5, c), 1, length=3)
    assert last.dtype == before.dtype == "float32" and not last.weak_type and not before.weak_type


@pytest.mark.parametrize("step, times", [(1, 1), (tnp.int32(1), 1), (1.5, 2), (tnp.int16(1), 2)])
def test_a_body_is_traced_again_for_another_dtype_only(step: Any, times: int) -> None:
    calls = []

    def body(i: Any, x: Any) -> Any:
        calls.append(1)
        return x + step

    assert float(lax.fori_loop(0, 4, body, 0)) == 4 * float(step) and len(calls) == times
    calls.clear()
    total = lax.while_loop(lambda x: x < 4 * step, lambda x: body(0, x), 0)
    assert float(total) == 4 * float(step) and len(calls) == times


def test_a_weak_result_takes_the_dtype_of_the_carry() -> None:
    last, _ = lax.scan(lambda c, x: (1, None), tnp.array(2.0), length=2)
    assert last.dtype == "float32" and float(last) == 1.0


@pytest.mark.parametrize(
    ("init", "body", "kind", "words"),
    [
        (
            {"h": tnp.ones(2)},
            lambda c: {"h": tnp.ones(3)},
            ShapeError,
            r"carry\['h'\] goes in as f32\[2\] and comes out as f32\[3\]",
        ),
        (
            {"h": tnp.ones(2)},
            lambda c: {"h": c["h"].astype("float64")},
            DTypeError,
            r"begin with carry\['h'\] of float64, or return it .astype\('float32'\)",
        ),
        (
            {"h": tnp.ones(2)},
            lambda c: {"g": c["h"]},
            TreeError,
            r"it takes {'h': \*} and returns {'g': \*}",
        ),
        ((1.0, 2), lambda c: (c[0], c[1] + 0.5 * tnp.ones(2)), ShapeError, r"carry\[1\] goes in"),
    ],
)
def test_a_carry_that_changes_is_named(init: Any, body: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        lax.scan(lambda c, x: (body(c), None), init, length=2)


def test_a_body_must_return_a_pair() -> None:
    with pytest.raises(ArgumentError, match=r"must return a pair \(carry, y\)"):
        lax.scan(lambda c, x: c, 0.0, tnp.ones(2))


# Memory.


def test_cache_of_closures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_limit_bytes", 1 << 20)

    def body(c: Any, x: Any) -> Any:
        return c + (x * w).sum(), None

    for n in range(1, 200):
        w = tnp.ones(64 * n)
        closed("scan", body, [SCALAR, ShapeDtypeStruct((64 * n,), "float32")], TWO)
    kept = _CLOSED[body]
    assert len(kept) < 100
    assert sum(f.size_bytes for _, f in kept.items()) <= 1 << 20


def test_a_body_that_leads_back_to_itself_dies(compiled: None) -> None:
    """A cached closure may refer to its function, by a callback: it is freed after two turns."""

    class Model:
        def __init__(self) -> None:
            self.body = lambda c, x: self.step(c, x)

        def step(self, c: Any, x: Any) -> Any:
            tfn.debug.callback(self.note, x)
            return c + x, None

        def note(self, x: Any) -> None:
            self.seen = x

    model = Model()
    lax.scan(model.body, 0.0, tnp.arange(3.0))
    alive = weakref.ref(model)
    del model
    for _ in range(2):
        cache.turn()
    gc.collect()
    assert alive() is None


XS = tnp.arange(3.0)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: lax.scan(lambda c: (c, c), 0.0, XS), r"scan calls <lambda> with 2 arguments"),
        (lambda: lax.fori_loop(0, 3, lambda c: c, 0.0), "fori_loop calls <lambda> with 2"),
        (lambda: lax.while_loop(lambda: True, lambda c: c, 0), "while_loop cond calls"),
        (lambda: lax.map(lambda a, b: a, (XS, XS)), "map calls <lambda> with 1 argument\n"),
        (lambda: lax.cond(True, lambda: 1, lambda: 2, 3), "cond calls <lambda> with 1"),
        (lambda: lax.switch(0, [lambda: 1], 3), "switch calls <lambda> with 1"),
        (lambda: lax.switch(0, [lambda: 1, lambda x: x], 3), "switch calls <lambda> with 1"),
        (lambda: tfn.jit(lambda p: lax.cond(p, lambda: 1, lambda x: x, 3))(True), "cond calls"),
    ],
)
def test_a_function_that_takes_other_arguments_is_refused_in_words(call: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        call()


def test_errors_of_a_function_that_takes_its_arguments_are_its_own() -> None:
    with pytest.raises(TypeError, match="NoneType") as raised:
        lax.scan(lambda c, x: (c + None, x), 0.0, XS)
    assert not isinstance(raised.value, ArgumentError)
