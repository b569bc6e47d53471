"""`closure_convert` and `custom_gradient`: what a function closes over, found and passed on."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tests.lax.control import check
from tfn.custom_derivatives import linear_call
from tfn.errors import ArgumentError, GradientError, TreeError


def test_converted_values_can_be_differentiated() -> None:
    def solve(f: Any, x: Any) -> Any:
        """A function of a function, of which the rule wants to know everything."""
        g, values = tfn.closure_convert(f, x)
        return run(g, x, *values)

    def run_fwd(g: Any, x: Any, *values: Any) -> Any:
        return g(x, *values), (x, values)

    def run_bwd(g: Any, kept: Any, ct: Any) -> Any:
        x, values = kept
        return tuple(100 * c for c in tfn.vjp(g, x, *values)[1](ct))

    run = tfn.custom_vjp(lambda g, x, *values: g(x, *values), nondiff_argnums=(0,))
    run.defvjp(run_fwd, run_bwd)
    loss = lambda w: solve(lambda x: (x * w["a"] + w["b"]).sum(), tnp.ones(3))
    found = tfn.grad(loss)({"a": tnp.array(2.0), "b": tnp.ones(3)})
    check(found, {"a": tnp.array(300.0), "b": tnp.full(3, 100.0)})


def test_only_traced_floats_are_hoisted() -> None:
    table = tnp.arange(3.0)
    assert tfn.closure_convert(lambda x: x + table, 1.0)[1] == []

    def f(w: Any, n: Any) -> Any:
        g, values = tfn.closure_convert(lambda x: (x * w + table) * n, 1.0)
        assert [v.dtype.name for v in values] == ["float32"]
        return g(3.0, *values).sum() + g(3.0, 0.0 * values[0]).sum()

    assert float(tfn.jit(f)(2.0, 2)) == (6 * 3 + 3) * 2 + 3 * 2


def test_a_converted_function_takes_what_it_was_made_for() -> None:
    g, _ = tfn.closure_convert(lambda x: x["a"], {"a": 1.0})
    with pytest.raises(TreeError, match="takes what it was converted for"):
        g(1.0)


def test_a_gradient_may_close_over_what_was_computed() -> None:
    @tfn.custom_gradient
    def f(x: Any, y: Any) -> Any:
        big = tnp.exp(x)
        return big * y, lambda ct: (7 * ct * big, ct * 2)

    expected = 7 * tnp.exp(tnp.array(1.0)), tnp.array(2.0)
    for run in (tfn.grad(f, (0, 1)), tfn.jit(tfn.grad(f, (0, 1))), tfn.grad(tfn.jit(f), (0, 1))):
        check(run(1.0, 3.0), expected)
    xs = tnp.array([0.0, 1.0])
    check(tfn.vmap(tfn.grad(f), (0, None))(xs, 3.0), 7 * tnp.exp(xs))
    total = tfn.grad(lambda xs, y: tfn.vmap(f, (0, None))(xs, y).sum(), 1)
    check(total(xs, 3.0), tnp.array(4.0))
    inside = lambda x: tfn.lax.fori_loop(0, 2, lambda i, v: f(v, 0.5), x)
    assert float(tfn.grad(inside)(0.0)) == pytest.approx(49 * 1.6487, rel=1e-3)
    assert float(tfn.grad(tfn.grad(f))(0.0, 1.0)) == 7.0


def test_trees() -> None:
    @tfn.custom_gradient
    def f(p: Any) -> Any:
        return {"y": p["a"] * 2}, lambda ct: {"a": ct["y"] * 5, "b": None}

    check(
        tfn.grad(lambda p: f(p)["y"])({"a": 1.0, "b": 2.0}),
        {"a": tnp.array(5.0), "b": tnp.array(0.0)},
    )
    with pytest.raises(ArgumentError, match=r"must return a pair \(result, gradient\)"):
        tfn.custom_gradient(lambda x: x)(1.0)


def test_linear_call() -> None:
    def f(x: Any, r: Any = 2.0) -> Any:
        return linear_call(
            lambda r, x: {"y": x["a"] / r}, lambda r, ct: {"a": 10 * ct["y"] / r}, r, {"a": x}
        )["y"]

    assert float(f(6.0)) == 3.0 == float(tfn.jit(f)(6.0))
    assert float(tfn.jvp(f, (6.0,), (1.0,))[1]) == 0.5
    for run in (tfn.grad(f), tfn.jit(tfn.grad(f)), tfn.grad(tfn.jit(f))):
        assert float(run(6.0)) == 5.0
    check(tfn.vmap(tfn.grad(f))(tnp.ones(2)), tnp.full(2, 5.0))
    assert float(tfn.linear_transpose(f, 6.0)(1.0)[0]) == 5.0
    with pytest.raises(GradientError, match="no derivative by its residuals"):
        tfn.grad(f, 1)(6.0, 2.0)


# Memory.


def test_converted_functions_keep_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1

        def f(y: Any) -> Any:
            g, values = tfn.closure_convert(lambda z: z * y * c, y)
            return g(y, *values).sum()

        tfn.grad(f)(x)

    assert growth(step) == NONE


def test_effects_of_a_converted_function_happen() -> None:
    seen: list[float] = []
    total = tfn.new_ref(0.0)

    def f(x: Any) -> Any:
        tfn.debug.callback(lambda x: seen.append(float(x)), x)
        total[...] += x
        return 2 * x

    g, _ = tfn.closure_convert(f, 1.0)
    assert float(g(2.0)) == 4.0 and float(tfn.jit(g)(3.0)) == 6.0
    tfn.effects_barrier()
    assert seen == [2.0, 3.0] and float(total[...]) == 5.0
