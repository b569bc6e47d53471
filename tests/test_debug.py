"""Prints and callbacks: in order, once for each time, under every transform."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import debug, lax, tree
from tfn.config import config
from tfn.errors import ArgumentError, StaticArgumentError

XS = np.float32([1, 2, 3])
Lines = Callable[[], list[str]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """Returns the lines printed since the last call."""
    return lambda: capsys.readouterr().out.splitlines()


def square(x: Any) -> Any:
    debug.print("x={}", x)
    debug.print("x={}", x)  # an equal one is not the same one
    return x * x


def step(c: Any, x: Any) -> Any:
    debug.print("{c} {x}", c=c, x=x)
    return c * x, tfn.numpy.sin(c)


def summed(xs: Any) -> Any:
    last, ys = lax.scan(step, np.float32(1), xs)
    return last + ys.sum()


def double(c: Any) -> Any:
    debug.print("body {}", c)
    return c * 2


def below(c: Any) -> Any:
    debug.print("test {}", c)
    return c < 10


@tfn.custom_vjp
def traced(x: Any) -> Any:
    debug.print("value {}", x)
    return x * x


def backward(x: Any, ct: Any) -> Any:
    debug.print("cotangent {}", ct)
    return (2 * x * ct,)


traced.defvjp(lambda x: (x * x, x), backward)

SCANNED = ["1.0 1.0", "1.0 2.0", "2.0 3.0"]
# fmt: off
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "plain": (square, (2.0,), ["x=2.0"] * 2),
    "grad": (tfn.grad(square), (2.0,), ["x=2.0"] * 2),
    "second grad": (tfn.grad(tfn.grad(square)), (2.0,), ["x=2.0"] * 2),
    "jvp": (lambda x: tfn.jvp(square, (x,), (1.0,)), (2.0,), ["x=2.0"] * 2),
    "linearize": (lambda x: tfn.linearize(square, x)[1](1.0), (2.0,), ["x=2.0"] * 2),
    "vjp": (lambda x: tfn.vjp(square, x)[1](1.0), (2.0,), ["x=2.0"] * 2),
    "grad of jit": (tfn.grad(tfn.jit(square)), (2.0,), ["x=2.0"] * 2),
    "twice": (lambda x: tfn.jit(square)(x) + square(x), (2.0,), ["x=2.0"] * 4),
    "call": (lambda x: tfn.call(square)(x) + tfn.call(square)(x), (2.0,), ["x=2.0"] * 4),
    "vmap": (tfn.vmap(square), (XS,), ["x=1.0", "x=2.0", "x=3.0"] * 2),
    "vmap, the same in all lanes": (
        tfn.vmap(lambda x, y: x * square(y), in_axes=(0, None)), (XS, 2.0), ["x=2.0"] * 2),
    "vmap of grad": (tfn.vmap(tfn.grad(square)), (XS,), ["x=1.0", "x=2.0", "x=3.0"] * 2),
    "vmap of vmap": (tfn.vmap(tfn.vmap(lambda x: debug.print("{}", x))), (XS.reshape(3, 1),),
                     ["1.0", "2.0", "3.0"]),
    "map": (lambda xs: lax.map(square, xs), (XS,), [f"x={x}" for x in XS for _ in range(2)]),

    "scan": (summed, (XS,), SCANNED),
    "scan reverse": (lambda xs: lax.scan(step, np.float32(1), xs, reverse=True), (XS,),
                     ["1.0 3.0", "3.0 2.0", "6.0 1.0"]),
    "scan unrolled": (lambda xs: lax.scan(step, np.float32(1), xs, unroll=2), (XS,), SCANNED),
    "grad of scan": (tfn.grad(summed), (XS,), SCANNED),
    "second grad of scan": (tfn.grad(lambda xs: tfn.grad(summed)(xs).sum()), (XS,), SCANNED),
    "vmap of grad of scan": (
        tfn.vmap(tfn.grad(summed)), (np.stack([XS, -XS]),),
        ["1.0 1.0", "1.0 -1.0", "1.0 2.0", "-1.0 -2.0", "2.0 3.0", "2.0 -3.0"]),
    "scan in scan": (
        lambda xs: lax.scan(lambda c, x: (c + lax.scan(step, c, xs[:2])[0], None), 1.0, xs[:2]),
        (XS,), ["1.0 1.0", "1.0 2.0", "3.0 1.0", "3.0 2.0"]),

    "while": (lambda x: lax.while_loop(lambda c: c < 10, double, x), (3.0,),
              ["body 3.0", "body 6.0"]),
    "while, the condition too": (lambda x: lax.while_loop(below, double, x), (3.0,),
                                 ["test 3.0", "body 3.0", "test 6.0", "body 6.0", "test 12.0"]),
    "while, the condition alone": (lambda x: lax.while_loop(below, lambda c: c * 2, x), (6.0,),
                                   ["test 6.0", "test 12.0"]),
    "while, forward": (
        lambda x: tfn.jvp(lambda x: lax.while_loop(lambda c: c < 10, double, x), (x,), (1.0,)),
        (3.0,), ["body 3.0", "body 6.0"]),
    "while bounded, reverse": (
        tfn.grad(lambda x: lax.while_loop(lambda c: c < 10, double, x, max_steps=4)), (3.0,),
        ["body 3.0", "body 6.0"]),
    "vmap of while": (tfn.vmap(lambda x: lax.while_loop(lambda c: c < 10, double, x)),
                      (np.float32([3, 6]),), ["body 3.0", "body 6.0", "body 6.0"]),
    "fori": (lambda x: lax.fori_loop(0, 2, lambda i, c: double(c), x), (3.0,),
             ["body 3.0", "body 6.0"]),
    "fori, unknown bounds": (lambda n, x: lax.fori_loop(0, n, lambda i, c: double(c), x), (2, 3.0),
                             ["body 3.0", "body 6.0"]),

    "a rule": (traced, (3.0,), ["value 3.0"]),
    "checkpoint": (tfn.checkpoint(square), (3.0,), ["x=3.0"] * 2),
    "grad of checkpoint": (tfn.grad(tfn.checkpoint(square)), (3.0,), ["x=3.0"] * 2),
    "grad of checkpoint in scan": (
        tfn.grad(lambda xs: lax.scan(tfn.checkpoint(step), np.float32(1), xs)[0]), (XS,), SCANNED),

    "cond": (lambda p, x: lax.cond(p, square, double, x), (True, 2.0), ["x=2.0"] * 2),
    "cond, the other": (lambda p, x: lax.cond(p, square, double, x), (False, 2.0), ["body 2.0"]),
    "cond, silent": (lambda p, x: lax.cond(p, square, lambda x: x, x), (False, 2.0), []),
    "grad of cond": (tfn.grad(lambda x: lax.cond(x > 0, square, double, x)), (2.0,), ["x=2.0"] * 2),
    "switch": (lambda i: lax.switch(i, [double, square, lambda x: x], 2.0), (1,), ["x=2.0"] * 2),
    "vmap of cond": (
        tfn.vmap(lambda x: (lax.cond(x > 1, double, lambda x: x, x), debug.print("done"))[0]),
        (XS,), ["body 2.0", "body 3.0", "done"]),
    "vmap of cond in scan": (
        tfn.vmap(lambda x: lax.scan(
            lambda c, _: (lax.cond(c > 2, double, lambda x: x + 1, c), None), x, None, 2)[0]),
        (XS,), ["body 3.0", "body 3.0", "body 6.0"]),
}
# fmt: on


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints(name: str, lines: Lines) -> None:
    run, args, expected = PROGRAMS[name]
    compiled = tfn.jit(run)
    for how in (run, compiled, compiled):
        how(*args)
        assert lines() == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_of_the_oracle(name: str, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    run, args, expected = PROGRAMS[name]
    monkeypatch.setattr(config, "device", "python")
    tfn.jit(run)(*args)
    assert lines() == expected


def test_a_rule_prints_cotangents(lines: Lines) -> None:
    tfn.grad(traced)(3.0)
    assert sorted(lines()) == ["cotangent 1.0", "value 3.0"]
    tfn.jit(tfn.vmap(tfn.grad(lambda x: 5 * traced(x))))(XS)
    assert lines() == ["value 1.0", "value 2.0", "value 3.0", "cotangent 5.0"]
    twice = lambda x: lax.scan(lambda c, _: (traced(c), None), x, None, 2)[0]
    tfn.jit(tfn.grad(twice))(2.0)
    assert lines() == ["value 2.0", "value 4.0", "cotangent 1.0", "cotangent 8.0"]


def test_a_trace_prints_nothing(lines: Lines) -> None:
    tfn.make_jaxpr(square)(1.0)
    tfn.eval_shape(square, 1.0)
    tfn.jit(lambda x: tfn.grad(square)(3.0) * 0 + x).trace(1.0)
    assert lines() == []


def test_inside_a_trace_constants_are_printed_at_run_time(lines: Lines) -> None:
    run = tfn.jit(lambda x: x + tfn.grad(square)(3.0))
    assert float(run(1.0)) == 7 and lines() == ["x=3.0"] * 2
    assert float(run(1.0)) == 7 and lines() == ["x=3.0"] * 2


def test_python_may_look_at_values(lines: Lines) -> None:
    def f(x: Any) -> Any:
        debug.print("a {}", x)
        if x > 1:
            debug.print("b {}", x * 2)
        return x * x

    tfn.grad(f)(2.0)
    assert lines() == ["a 2.0", "b 4.0"]


def test_callbacks_do_not_change_results() -> None:
    quiet = lambda x: x * x
    for f in (tfn.grad, tfn.jit, lambda f: tfn.vmap(f, axis_size=2, in_axes=None)):
        assert np.asarray(f(square)(3.0)).tolist() == np.asarray(f(quiet)(3.0)).tolist()


def test_a_function_without_effects_costs_nothing() -> None:
    text = str(tfn.make_jaxpr(lambda xs: lax.scan(lambda c, x: (c + x, c), 0.0, xs))(XS))
    assert "bool" not in text


def test_trees_arrays_and_formats(lines: Lines) -> None:
    run = tfn.jit(lambda x: debug.print("{0} {t[a]} {x:.3f} {1}", x[:2], 7, t={"a": x}, x=x[0]))
    run(XS)
    assert lines() == ["[1. 2.] [1. 2. 3.] 1.000 7"]
    debug.print("nothing, {{}}")
    debug.print("{} {:.2f}", np.float32(0.1), np.float16(2 / 3))
    debug.print("{}", 1.5, ordered=True)
    assert lines() == ["nothing, {}", "0.1 0.67", "1.5"]


@tree.register_node_class
class Shown:
    """A node that says of what type it holds an array."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple[Any]) -> Shown:
        return cls(*children)

    def __repr__(self) -> str:
        return f"{self.x.dtype} {self.x.shape}"


def test_nodes_of_the_user_print_the_arrays_that_they_hold(lines: Lines) -> None:
    debug.print("{}", Shown(tnp.asarray(1.0)))
    debug.print("{}", [tnp.asarray(0.1)])
    assert lines() == ["float32 ()", "[0.1]"]


def test_strings_and_other_objects_are_passed_as_they_are(lines: Lines) -> None:
    debug.print("{name} {} {}", "first", 2, name="layer")
    tfn.jit(lambda x: debug.print("{} {x} {}", "a", "b", x=x))(3)
    assert lines() == ["layer first 2", "a 3 b"]
    with pytest.raises(StaticArgumentError, match=r"\{1, 2\}"):
        debug.callback(lambda s: None, {1, 2})


@pytest.mark.parametrize(
    ("fmt", "args", "words"),
    [
        ("{} {}", (1,), "missing: 1"),
        ("{}", (1, 2), "not in the format: 1"),
        ("{x}", (), "missing: x"),
        (3.0, (), "format string"),
    ],
)
def test_formats_that_do_not_fit(fmt: Any, args: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        tfn.jit(lambda: debug.print(fmt, *args))()


def test_callbacks_may_keep_what_they_get() -> None:
    kept: list[Any] = []

    @tfn.jit
    def run(xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            debug.callback(lambda a, b: kept.append((a, b["y"])), c + x, b={"y": x})
            return c + 1, None

        return lax.scan(body, np.zeros(2, np.float32), xs)

    run(XS)
    assert [a.tolist() for a, _ in kept] == [[1, 1], [3, 3], [5, 5]]
    assert [float(b) for _, b in kept] == [1, 2, 3]


def test_errors_end_the_program(lines: Lines) -> None:
    def stop(x: Any) -> None:
        if x > 2:
            raise StopIteration

    def body(i: Any, c: Any) -> Any:
        debug.print("{}", i)
        debug.callback(stop, c)
        return c + 1

    for _ in range(2):
        with pytest.raises(StopIteration):
            tfn.jit(lambda c: lax.fori_loop(0, 9, body, c))(1.0)
        assert lines() == ["0", "1", "2"]


def test_a_breakpoint_stops_with_the_local_values_of_each_call(monkeypatch):
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(sys._getframe(1)))

    @tfn.jit
    def f(x):
        y = {"a": x * 2}
        debug.breakpoint(name=3)
        return y["a"]

    f(1.0), f(2.0)
    assert [float(s.f_globals["y"]["a"]) for s in stops] == [2, 4]
    assert stops[0].f_globals["name"] == 3 and "test_debug.py:" in stops[0].f_code.co_filename
