"""`call`: what it means, under every transform, and that nothing is made twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.growth import NONE, growth
from tests.lower.thread_team import run
from tfn.errors import ArgumentError, StaticArgumentError
from tfn.hw.cpu.target import host
from tfn.lower.fuse import boundaries
from tfn.lower.pipeline import lower
from tfn.lower.program import Call, Program, routines
from tfn.trace.op import Op
from tfn.trace.uop import walk

pytestmark = pytest.mark.usefixtures("compiled")

RNG = np.random.default_rng(3)
W = RNG.normal(size=(3, 5, 5)).astype(np.float32) * 0.5
X = RNG.normal(size=(4, 5)).astype(np.float32)


def plain(w: Any, x: Any) -> Any:
    """A layer: two reductions, a product, elementwise work."""
    centered = x - x.mean(axis=-1, keepdims=True)
    return tnp.tanh(centered @ w) * x.sum(axis=-1, keepdims=True) + x


def net(layer: Callable[..., Any]) -> Callable[..., Any]:
    def run(w: Any, x: Any) -> Any:
        for i in range(3):
            x = layer(w[i], x)
        return (x * x).sum()

    return run


def close(found: Any, expected: Any) -> None:
    for a, b in zip(tfn.tree.leaves(found), tfn.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=1e-5)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: tfn.grad(f, (0, 1)),
    "grad of one": lambda f: tfn.grad(f, 1),
    "hessian": lambda f: tfn.hessian(f, 1),
    "forward of forward": lambda f: tfn.jacfwd(tfn.jacfwd(f, 1), 1),
    "jvp": lambda f: lambda w, x: tfn.jvp(f, (w, x), (w * 0.5, x + 1)),
    "linearize": lambda f: lambda w, x: tfn.linearize(f, w, x)[1](w, x),
    "vjp": lambda f: lambda w, x: tfn.vjp(f, w, x)[1](2.0),
    "vmap": lambda f: lambda w, x: tfn.vmap(f, (None, 0))(w, tnp.stack([x, x * 2])),
    "vmap of grad": lambda f: lambda w, x: tfn.vmap(tfn.grad(f), (0, None))(tnp.stack([w, -w]), x),
    "grad of vmap": lambda f: tfn.grad(
        lambda w, x: tfn.vmap(f, (0, None))(tnp.stack([w, -w]), x).sum()
    ),
}


@pytest.mark.parametrize("jitted", (False, True))
@pytest.mark.parametrize("name", in_turn(2, TRANSFORMS))
def test_means_the_same_under_every_transform(name: str, jitted: bool) -> None:
    transform = TRANSFORMS[name]
    called, expected = transform(net(tfn.call(plain))), tfn.jit(transform(net(plain)))
    close((tfn.jit(called) if jitted else called)(W, X), expected(W, X))


AROUND: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scan": lambda f, w, x: tfn.lax.scan(lambda c, wi: (f(wi, c), c.sum()), x, w),
    "fori": lambda f, w, x: tfn.lax.fori_loop(0, 3, lambda i, c: f(w[i], c), x),
    "while": lambda f, w, x: tfn.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, f(w[0], c[1])), (0, x), max_steps=4
    ),
    "cond": lambda f, w, x: tfn.lax.cond(x.sum() > 0, lambda: f(w[0], x), lambda: x),
    "map": lambda f, w, x: tfn.lax.map(lambda wi: f(wi, x), w),
    "call": lambda f, w, x: tfn.call(lambda w, x: f(w[0], f(w[1], x)))(w, x),
    "vmap": lambda f, w, x: tfn.vmap(f, (0, None))(w, x),
}


@pytest.mark.parametrize("name", AROUND)
def test_within_loops_branches_and_calls(name: str) -> None:
    def loss(f: Any) -> Any:
        def run(w: Any, x: Any) -> Any:
            return sum((y * y).sum() for y in tfn.tree.leaves(AROUND[name](f, w, x)))

        return tfn.jit(tfn.value_and_grad(run, (0, 1)))

    close(loss(tfn.call(plain))(W, X), loss(plain)(W, X))


@pytest.mark.parametrize("name", ("scan", "while", "cond", "call"))
def test_loops_branches_and_calls_within(name: str) -> None:
    inner = tfn.call(lambda w, x: AROUND[name](plain, w, x))

    def loss(f: Any) -> Any:
        def run(w: Any, x: Any) -> Any:
            first = sum(y.sum() for y in tfn.tree.leaves(f(w, x)))
            return sum((y * y).sum() for y in tfn.tree.leaves(f(w * 0.5, x + first * 0.01)))

        return tfn.jit(tfn.value_and_grad(run, (0, 1)))

    close(loss(inner)(W, X), loss(lambda w, x: AROUND[name](plain, w, x))(W, X))


def test_the_oracle_agrees() -> None:
    jaxpr = tfn.make_jaxpr(net(tfn.call(plain)))(W, X)
    assert any(u.op is Op.CALL for u in walk(jaxpr.outputs))
    from_device = tfn.jit(net(tfn.call(plain)))(W, X)
    close(tfn.trace.oracle.call(jaxpr.function, [W, X]), [from_device])


def test_trees_captured_arrays_static_arguments_and_methods() -> None:
    scale = tnp.asarray(X[0])

    class Model:
        @tfn.call
        def layer(self: Any, x: Any) -> Any:  # a tree, by the registration below
            return {"y": x * self.w * scale}

        def __init__(self, w: Any) -> None:
            self.w = w

    tfn.tree.register_node(Model, lambda m: ((m.w,), None), lambda _, w: Model(*w))
    power = tfn.call(lambda x, n: x**n, static_argnums=1)

    def f(w: Any, x: Any) -> Any:
        return power(Model(w).layer(Model(w).layer(x)["y"])["y"], 2).sum() + power(x, 3).sum()

    def expected(w: Any, x: Any) -> Any:
        return ((x * w * scale * w * scale) ** 2).sum() + (x**3).sum()

    close(tfn.jit(tfn.grad(f, (0, 1)))(X[1], X), tfn.grad(expected, (0, 1))(X[1], X))
    with pytest.raises(StaticArgumentError, match="n of"):
        power(X, [2])


def test_values_of_an_outer_trace_are_operands() -> None:
    def f(x: Any) -> Any:
        g = tfn.call(lambda y: y * x)
        return (g(x) + g(2 * x)).sum()

    close(tfn.jit(tfn.grad(f))(X), 6 * X)


def test_results_that_are_operands_and_results_twice() -> None:
    f = tfn.call(lambda x, y: (x, y * 2, y * 2, x))

    @tfn.jit
    def run(x: Any, y: Any) -> Any:
        return f(*f(x, y)[:2])

    close(run(X, X + 1), (X, 4 * (X + 1), 4 * (X + 1), X))


def test_no_elements_and_no_results() -> None:
    f = tfn.call(lambda x: (x * 2, None))
    assert tfn.jit(lambda x: f(x)[0])(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert tfn.jit(lambda x: tfn.call(lambda x: ())(x))(X) == ()


def test_integers_have_no_derivative() -> None:
    f = tfn.call(lambda x, n: (x * n, n + 1))
    close(tfn.jit(tfn.grad(lambda x: f(x, 3)[0].sum()))(X), np.full_like(X, 3))


def test_refused_and_shown() -> None:
    with pytest.raises(ArgumentError, match="needs a function"):
        tfn.call(3)
    assert repr(tfn.call(plain)) == "<call of plain>"
    named = tfn.call(name="layer")(plain)
    assert "call[layer]" in str(tfn.make_jaxpr(named)(W[0], X))
    assert "call[transpose(jvp(plain))]" in str(
        tfn.make_jaxpr(tfn.grad(net(tfn.call(plain))))(W, X)
    )
    twice = tfn.make_jaxpr(lambda w, x: named(w, named(w, x)[:2]))(W[0], X)
    assert "call[layer_2]" in str(twice), "another kind of arguments is another function"
    memory = str(tfn.show(net(named), W, X, at="memory"))
    assert memory.startswith("layer:\n")
    assert all(memory.count(f"call {i}") == 1 for i in range(3)), "w[i] is read where it is"
    assert str(tfn.show(net(named), W, X, at="ranges")).count("layer, the same as call") == 2


# What is made once.


def program(count: int, gradient: bool) -> Program:
    layer = tfn.call(plain)

    def loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = layer(w, x)
        return (x * x).sum()

    f = tfn.grad(loss) if gradient else loss
    jaxpr = tfn.make_jaxpr(f)([W[0]] * count, X)
    return lower(jaxpr, host())


@pytest.mark.parametrize("gradient", (False, True))
def test_kernels_and_text_of_routines_do_not_grow_with_the_calls(gradient: bool) -> None:
    few, many = program(4, gradient), program(20, gradient)
    assert {k.name for k in few.kernels} == {k.name for k in many.kernels}
    assert len(few.launches) == len(many.launches)
    assert len(routines(few.steps)) == len(routines(many.steps))
    calls = [sum(isinstance(step, Call) for step in p.steps) for p in (few, many)]
    assert calls[1] - calls[0] == 16 * (1 + gradient)


def test_a_function_is_traced_and_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts, traces = [], []
    insert = boundaries.insert_barriers
    monkeypatch.setattr(
        boundaries, "insert_barriers", lambda *a: (cuts.append(a[0]), insert(*a))[1]
    )

    @tfn.call
    def layer(w: Any, x: Any) -> Any:
        traces.append(w)
        return tnp.sin(plain(w, x)) + 0.125

    def loss(w: Any, x: Any) -> Any:
        for _ in range(9):
            x = layer(w, x)
        return x.sum()

    lower(tfn.make_jaxpr(loss)(W[0], X), host())
    assert len(traces) == 1 and len(cuts) == 2, "the caller and the routine"
    lower(tfn.make_jaxpr(lambda w, x: loss(w, x * 2))(W[0], X), host())
    assert len(traces) == 1 and len(cuts) == 3, "another program, the same routine"


def test_the_temporaries_of_calls_share_memory() -> None:
    assert program(20, False).arena_bytes == program(4, False).arena_bytes


@pytest.mark.parametrize("threads", (1, 2, 3))
def test_calls_run_by_several_threads(threads: int) -> None:
    made = program(6, True)
    expected = np.asarray(tfn.grad(net_of(6))(W[0], X))
    for _ in range(3):
        inputs = [np.array(W[0]) for _ in range(6)] + [np.array(X)]
        outputs = [np.zeros(shape, dtype) for shape, dtype in made.outputs]
        arena = np.zeros(made.arena_bytes + 64, np.uint8)
        run(made.steps, [*inputs, *outputs], arena, threads, inputs=len(inputs))
        np.testing.assert_allclose(sum(outputs), expected, rtol=2e-4, atol=1e-4)


def net_of(count: int) -> Callable[..., Any]:
    def loss(w: Any, x: Any) -> Any:
        for _ in range(count):
            x = plain(w, x)
        return (x * x).sum()

    return loss


# Memory.


def test_calls_keep_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x[0] + 1
        layer = tfn.call(lambda y: tnp.sin(y) * c)
        layer(x)
        tfn.grad(lambda y: layer(layer(y)).sum())(x)
        tfn.vmap(tfn.grad(lambda y: layer(y).sum()))(x)

    assert growth(step) == NONE
