"""Python functions called from within programs."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
from tests.growth import NONE, growth
from tfn.config import config
from tfn.eager.run import device, load
from tfn.errors import ArgumentError, DTypeError, GradientError, ShapeError, TreeError

pytestmark = pytest.mark.usefixtures("compiled")

SCALAR, THREE = tfn.ShapeDtypeStruct((), "float32"), tfn.ShapeDtypeStruct((3,), "float32")
X = np.float32([3, 1, 2])


def ordered(x: Any) -> Any:
    return tfn.pure_callback(np.sort, THREE, x, vmap_method="sequential")


def test_at_once_and_in_a_program() -> None:
    for f in (ordered, tfn.jit(ordered), tfn.jit(lambda x: ordered(x * 2) / 2)):
        for _ in range(3):
            assert np.asarray(f(X)).tolist() == [1, 2, 3]


def test_trees_in_and_out() -> None:
    def f(a: Any, *, b: Any) -> Any:
        assert set(a) == {"u", "v"}
        return {"sum": a["u"] + b[0], "difference": (a["v"] - b[1],)}

    declared = {"sum": THREE, "difference": (SCALAR,)}

    @tfn.jit
    def run(u: Any, v: Any) -> Any:
        return tfn.pure_callback(f, declared, {"u": u, "v": v}, b=(v, v * 3))

    found = run(X, 5.0)
    assert found["sum"].tolist() == [8, 6, 7] and float(found["difference"][0]) == -10


def test_without_operands_and_without_elements() -> None:
    run = tfn.jit(lambda: tfn.pure_callback(lambda: np.float32(4), SCALAR))
    assert float(run()) == 4
    none = tfn.ShapeDtypeStruct((0, 3), "float32")
    run = tfn.jit(lambda x: tfn.pure_callback(lambda a: a[:, :3] + 1, none, x))
    assert run(np.zeros((0, 5), np.float32)).shape == (0, 3)


PAIRS = tfn.ShapeDtypeStruct((3,), "complex64")
KEEPERS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "eager": lambda f: lambda x: tfn.pure_callback(f, THREE, x * 2),
    "jit": lambda f: tfn.jit(lambda x: tfn.pure_callback(f, THREE, x * 2)),
    "argument": lambda f: tfn.jit(lambda x: tfn.pure_callback(f, THREE, x)),
    "scan": lambda f: tfn.jit(
        lambda x: tfn.lax.scan(lambda c, _: (tfn.pure_callback(f, THREE, c + x), None), x, None, 1)
    ),
    "grad": lambda f: tfn.jit(
        tfn.grad(lambda x: tfn.pure_callback(f, THREE, tfn.stop_gradient(x * 2)) @ x)
    ),
    "complex": lambda f: tfn.jit(lambda x: tfn.pure_callback(f, PAIRS, x * (2 + 0j))),
    "io": lambda f: tfn.jit(lambda x: tfn.io_callback(f, THREE, x * 2)),
    "debug": lambda f: tfn.jit(lambda x: [x, tfn.debug.callback(f, x * 2)][0]),
    "keyword": lambda f: tfn.jit(
        lambda x: tfn.pure_callback(lambda *, a: f(a["b"]), THREE, a={"b": x * 2})
    ),
}


@pytest.mark.parametrize("kind", KEEPERS)
def test_a_callback_may_keep_its_arguments(kind: str) -> None:
    """What it gets is its own: later calls, and memory that is given back, do not change it."""
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        assert not x.flags.writeable and x.flags.owndata
        kept.append(x)
        return x

    factor = 1 if kind == "argument" else 2
    run = KEEPERS[kind](keep)
    for i in range(4):
        run(tfn.numpy.full(3, i, "float32"))
    assert [x.tolist() for x in kept] == [[factor * i] * 3 for i in range(4)]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_a_callback_of_many_lanes_may_keep_its_arguments(method: str) -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    each = lambda x: tfn.pure_callback(keep, SCALAR, x * 2, vmap_method=method)
    run = tfn.jit(tfn.vmap(each))
    for i in range(3):
        run(tfn.numpy.full(2, i, "float32"))
    assert np.concatenate([x.reshape(-1) for x in kept]).tolist() == [0, 0, 2, 2, 4, 4]


def test_a_kept_argument_outlives_the_memory_of_its_program() -> None:
    kept: list[Any] = []
    n = 1 << 20
    big = tfn.ShapeDtypeStruct((n,), "float32")
    tfn.jit(lambda x: tfn.pure_callback(lambda q: [kept.append(q), q][1], big, x * 2))(
        tfn.numpy.ones(n)
    )
    memory: Any = device().memory
    memory.pool.release()  # unmaps what nothing refers to
    assert float(kept[0].sum()) == 2 * n


def test_a_result_is_copied_from_what_the_callback_returned() -> None:
    own = np.zeros(3, np.float32)
    call = lambda x: tfn.pure_callback(lambda q: own, THREE, x)
    for run in (call, tfn.jit(call)):
        own[:] = 1
        y = run(X)
        own[:] = 2
        assert y.tolist() == [1, 1, 1]


def test_in_scan() -> None:
    def step(c: Any, x: Any) -> Any:
        y = tfn.pure_callback(lambda a, b: a * b, SCALAR, c, x)
        return y + 1, c

    scan = lambda c, xs: tfn.lax.scan(step, c, xs)
    for run in (scan, tfn.jit(scan)):
        last, ys = run(np.float32(1), X)
        assert float(last) == 11 and ys.tolist() == [1, 4, 5]


def test_in_while_cond_and_fori() -> None:
    @tfn.jit
    def run(x: Any) -> Any:
        below = lambda c: tfn.pure_callback(lambda a: a < 100, tfn.ShapeDtypeStruct((), bool), c)
        x = tfn.lax.while_loop(below, lambda c: ordered(c)[2] * c[0] + 1 if c.ndim else c * 2, x)
        twice = lambda c: tfn.pure_callback(lambda a: 2 * a, SCALAR, c)
        y = tfn.lax.cond(x > 1000, lambda c: c, twice, x)
        return tfn.lax.fori_loop(0, 3, lambda i, c: twice(c), y)

    assert float(run(np.float32(3))) == 3 * 64 * 2 * 8


def test_a_branch_that_is_not_taken_is_not_called() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x

    @tfn.jit
    def run(p: Any, x: Any) -> Any:
        called = lambda x: tfn.pure_callback(f, THREE, x)
        return tfn.lax.cond(p, called, lambda x: x, x)

    run(False, X)
    assert calls == []
    run(True, X)
    assert calls == [1]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap_agrees_with_a_loop(method: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return tfn.pure_callback(lambda a, b: np.sort(a) * b, THREE, x * 2, y, vmap_method=method)

    xs, y = np.stack([X, -X]), X
    expected = [np.sort(x * 2) * y for x in xs]
    many = tfn.vmap(f, in_axes=(0, None))
    for run in (many, tfn.jit(many)):
        np.testing.assert_array_equal(run(xs, y), expected)


def test_vmap_of_scan_and_scan_of_vmap() -> None:
    def step(c: Any, x: Any) -> Any:
        return tfn.pure_callback(np.add, SCALAR, c, x, vmap_method="expand_dims"), c

    xs = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = [[0, 0, 1], [0, 3, 7]]
    inner = tfn.jit(tfn.vmap(lambda x: tfn.lax.scan(step, np.float32(0), x)[1]))
    outer = tfn.jit(lambda xs: tfn.lax.scan(tfn.vmap(step), np.zeros(2, np.float32), xs)[1])
    assert inner(xs).tolist() == expected and outer(xs.T).T.tolist() == expected


def test_errors_of_the_function_reach_the_caller_with_its_frames() -> None:
    def bad(x: Any) -> Any:
        raise KeyError("mine")

    @tfn.jit
    def run(x: Any) -> Any:
        return tfn.lax.fori_loop(0, 5, lambda i, c: tfn.pure_callback(bad, THREE, c) + 1, x)

    for _ in range(3):
        with pytest.raises(KeyError, match="mine") as caught:
            run(X)
        frames = [entry.name for entry in caught.traceback]
        assert "bad" in frames and "test_errors_of_the_function_reach_the_caller" in frames[0]
    assert np.asarray(tfn.jit(ordered)(X)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_every_exception_is_passed_on(error: type[BaseException]) -> None:
    def bad(x: Any) -> Any:
        raise error

    with pytest.raises(error):
        tfn.jit(lambda x: tfn.pure_callback(bad, THREE, x))(X)


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (np.zeros(4, np.float32), ShapeError, r"\(4,\) instead of \(3,\)"),
        (np.zeros(3, np.complex64), DTypeError, "complex64 instead of float32"),
        ((X, X), TreeError, "structure"),
    ],
)
def test_results_that_were_not_declared(returned: Any, error: Any, words: str) -> None:
    run = tfn.jit(lambda x: tfn.pure_callback(lambda a: returned, THREE, x))
    with pytest.raises(error, match=words):
        run(X)


def test_a_derivative_is_refused_and_stop_gradient_is_the_cure() -> None:
    def loss(x: Any) -> Any:
        return ordered(x).sum()

    with pytest.raises(GradientError, match="sort"):
        tfn.grad(loss)(X)
    stopped = lambda x: (ordered(tfn.stop_gradient(x)) * x).sum()
    assert tfn.jit(tfn.grad(stopped))(X).tolist() == [1, 2, 3]


def test_a_method_that_there_is_not() -> None:
    with pytest.raises(ArgumentError, match="sequential"):
        tfn.pure_callback(np.sort, THREE, X, vmap_method="fast")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_with_several_workers(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "threads", threads)
    n = 200_000
    big = tfn.ShapeDtypeStruct((n,), "float32")

    @tfn.jit
    def run(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            y = tfn.pure_callback(lambda a: a + 1, big, tfn.numpy.exp(c))
            return tfn.numpy.log(y - 1) + 1, y.sum()

        return tfn.lax.scan(step, x, None, 4)

    last, sums = run(np.zeros(n, np.float32))
    np.testing.assert_allclose(last, 4, rtol=1e-5)
    np.testing.assert_allclose(sums, n * (1 + np.exp(np.arange(4))), rtol=1e-5)

    @tfn.jit
    def fails(x: Any) -> Any:
        def bad(c: Any) -> Any:
            if c[0] > 2:
                raise ValueError("three")
            return c

        step = lambda i, c: tfn.pure_callback(bad, big, tfn.numpy.exp(c)) + 1
        return tfn.lax.fori_loop(0, 9, step, x)

    for _ in range(2):
        with pytest.raises(ValueError, match="three"):
            fails(np.zeros(n, np.float32))


def test_a_function_may_run_programs_itself() -> None:
    inner = tfn.jit(ordered)

    def f(x: Any) -> Any:
        return np.asarray(inner(x + 1)) - 1

    run = tfn.jit(lambda x: tfn.pure_callback(f, THREE, x))
    assert run(X).tolist() == [1, 2, 3]


def test_without_native_calls_and_on_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tfn.jit(tfn.vmap(ordered))
    monkeypatch.setattr(config, "debug_nans", True)
    assert run(np.stack([X, X])).tolist() == [[1, 2, 3]] * 2
    monkeypatch.setattr(config, "debug_nans", False)
    monkeypatch.setattr(config, "device", "python")
    assert tfn.jit(tfn.vmap(ordered))(np.stack([X, X])).tolist() == [[1, 2, 3]] * 2


def test_io_callbacks_count() -> None:
    calls: list[int] = []

    def count() -> Any:
        calls.append(1)
        return np.int32(len(calls))

    number = tfn.ShapeDtypeStruct((), "int32")
    pair = lambda: (tfn.io_callback(count, number), tfn.io_callback(count, number, ordered=True))
    assert [int(i) for i in pair()] == [1, 2]
    run = tfn.jit(pair)
    for first in (3, 5):
        assert [int(i) for i in run()] == [first, first + 1]
    many = tfn.jit(lambda: tfn.lax.scan(lambda c, _: (c, pair()[0]), 0, None, 3)[1])
    assert many().tolist() == [7, 9, 11]
    lanes = tfn.jit(tfn.vmap(lambda x: x * 100 + tfn.io_callback(lambda x: count(), number, x)))
    assert lanes(np.int32([1, 2])).tolist() == [113, 214]
    tfn.effects_barrier()


def test_io_callbacks_of_floats_have_no_derivative() -> None:
    f = lambda x: tfn.io_callback(lambda x: x, SCALAR, x) * x
    with pytest.raises(GradientError):
        tfn.grad(f)(1.0)
    assert float(tfn.grad(lambda x: f(tfn.stop_gradient(x)) * x)(2.0)) == 4


def test_io_callback_in_lanes_that_do_nothing() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(float(x))
        return x * 10

    act = lambda x: tfn.io_callback(f, SCALAR, x)
    run = tfn.jit(tfn.vmap(lambda x: tfn.lax.cond(x > 1, act, lambda x: x, x)))
    assert run(X).tolist() == [30, 1, 20] and seen == [3, 2]


def test_the_text_of_a_program_holds_no_address() -> None:
    text = lambda f: tfn.show(lambda x: tfn.pure_callback(f, THREE, x), X, at="driver").text
    assert text(np.sort) == text(np.flip)
    run = [tfn.jit(lambda x, f=f: tfn.pure_callback(f, THREE, x)) for f in (np.sort, np.flip)]
    assert [f(X).tolist() for f in run] == [[1, 2, 3], [2, 1, 3]]


def test_an_interrupt_ends_the_program() -> None:
    calls: list[int] = []

    def interrupted(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return x

    step = lambda i, c: tfn.pure_callback(interrupted, THREE, c) + 1
    with pytest.raises(KeyboardInterrupt):
        tfn.jit(lambda x: tfn.lax.fori_loop(0, 1000, step, x))(X)
    assert len(calls) == 3


@pytest.mark.parametrize("at_ms", [5, 6, 7, 8, 9])
def test_an_interrupt_from_outside_ends_the_program(
    at_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes while native code runs is pending when the host is asked the next time."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # where ctypes reports it
    calls: list[int] = []
    step = lambda i, c: tfn.pure_callback(lambda x: calls.append(1) or x, THREE, c) + 1
    f, steps = tfn.jit(lambda x, n: tfn.lax.fori_loop(0, n, step, x)), 100_000
    f(X, 1)
    main = threading.get_ident()
    timer = threading.Timer(at_ms / 1000, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        f(X, steps)
    timer.join()
    assert len(calls) < steps
    assert f(X, 2).tolist() == [5, 3, 4]


# Memory.


def test_callbacks_keep_nothing() -> None:
    x = tfn.numpy.ones((64, 64))
    same = tfn.ShapeDtypeStruct(x.shape, x.dtype)

    def step() -> None:
        c, noted = np.asarray(x + 1), [x + 2]
        tfn.jit(lambda y: tfn.pure_callback(lambda a: a + c, same, y))(x)
        three = lambda y: tfn.pure_callback(
            lambda a: a + c[0, :3], THREE, y, vmap_method="sequential"
        )
        tfn.vmap(three)(x[:, :3])
        tfn.grad(lambda y: (tfn.io_callback(lambda a: noted.append(a), None, y), y.sum())[1])(x)
        tfn.jit(lambda y: (tfn.debug.callback(lambda a: noted.append(a), y), y)[1])(x)

    assert growth(step) == NONE


def test_programs_are_shared_by_callbacks_that_differ() -> None:
    def plus(n: float) -> Any:
        return tfn.jit(lambda x: tfn.pure_callback(lambda a: a + n, THREE, x) * 2)

    first = plus(1.0)
    assert first(X).tolist() == [8, 4, 6] and first.cache_info().last.kernels
    made = load(first.trace(X).jaxpr)
    second = plus(10.0)
    assert load(second.trace(X).jaxpr) is made
    assert second(X).tolist() == [26, 22, 24] and first(X).tolist() == [8, 4, 6]


def test_an_object_that_compiles_its_own_callback_dies() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.seen: list[Any] = []
            self.step = tfn.jit(self._step)

        def note(self, x: Any) -> None:
            self.seen.append(x)

        def _step(self, x: Any) -> Any:
            tfn.io_callback(self.note, None, x)
            return x + 1

    trainer = Trainer()
    for _ in range(3):
        trainer.step(X)
    assert len(trainer.seen) == 3
    alive = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert alive() is None


def test_a_branch_that_is_not_taken_does_not_call():
    calls = []

    def f(x):
        row = tfn.ShapeDtypeStruct((), "float32")
        run = lambda: tfn.pure_callback(lambda: calls.append(1) or np.float32(0), row)
        return tfn.lax.cond(x > 0, run, lambda: x)

    assert float(tfn.jit(f)(-1.0)) == -1.0 and not calls
    assert float(tfn.jit(f)(1.0)) == 0.0 and calls
