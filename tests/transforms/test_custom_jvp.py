"""`custom_jvp`: the rule is what counts, under every transform and in every place."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tests.lax.control import check
from tfn import lax
from tfn.errors import ArgumentError, DTypeError, GradientError, ShapeError, TreeError


@tfn.custom_jvp
def softplus(x: Any) -> Any:
    """log(1 + exp(x)), whose slope would overflow if it were computed as it is written."""
    return tnp.log(1 + tnp.exp(x))


@softplus.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return softplus(x), dx * (1 - 1 / (1 + tnp.exp(x)))


@tfn.custom_jvp
def marked(x: Any) -> Any:
    """The identity with slope ten, so that it shows how often the rule was asked."""
    return x


marked.defjvp(lambda primals, tangents: (primals[0], 10 * tangents[0]))


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x)))


def test_value_and_slope() -> None:
    assert float(softplus(1.0)) == pytest.approx(np.log1p(np.e))
    for run in (
        tfn.grad(softplus),
        tfn.jit(tfn.grad(softplus)),
        tfn.grad(tfn.jit(softplus)),
        tfn.jacfwd(softplus),
        tfn.jacrev(softplus),
    ):
        assert float(run(100.0)) == 1.0
    assert float(tfn.grad(tfn.grad(softplus))(0.5)) == pytest.approx(
        logistic(0.5) * (1 - logistic(0.5)), rel=1e-5
    )
    assert float(tfn.grad(tfn.grad(tfn.grad(softplus)))(0.0)) == pytest.approx(0, abs=1e-6)


def test_lanes() -> None:
    xs = tnp.array([-1.0, 0.0, 100.0])
    check(tfn.vmap(tfn.grad(softplus))(xs), tnp.asarray(logistic(xs)))
    check(tfn.grad(lambda xs: tfn.vmap(softplus)(xs).sum())(xs), tnp.asarray(logistic(xs)))
    twice = tfn.vmap(tfn.vmap(softplus))
    check(tfn.grad(lambda xs: twice(xs).sum())(xs[None]), tnp.asarray(logistic(xs))[None])


def test_lanes_that_share_an_argument() -> None:
    @tfn.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y, y

    f.defjvp(lambda p, t: (f(*p), (2 * (t[0] * p[1] + p[0] * t[1]), t[1])))
    xs = tnp.array([1.0, 2.0, 3.0])
    total = lambda xs, y: sum(part.sum() for part in tfn.vmap(f, (0, None))(xs, y))
    check(tfn.grad(total, (0, 1))(xs, 5.0), (tnp.full(3, 10.0), tnp.array(2 * 6.0 + 3)))
    check(tfn.jvp(total, (xs, 5.0), (tnp.ones(3), 1.0))[1], tnp.array(30.0 + 15.0))


@pytest.mark.parametrize(
    ("loop", "slope"),
    [
        (lambda x: lax.scan(lambda c, _: (marked(c), c), x, None, 3)[0], 1000.0),
        (lambda x: lax.fori_loop(0, 2, lambda i, v: marked(v), x), 100.0),
        (lambda x: lax.while_loop(lambda v: v < 10, lambda v: marked(v) * 2, x, max_steps=9), 16e4),
        (lambda x: lax.cond(x > 0, marked, lambda v: v, x), 10.0),
        (lambda x: lax.switch(2, [lambda v: v, marked], x), 10.0),
        (lambda x: lax.map(marked, x * tnp.ones(3)).sum(), 30.0),
        (lambda x: marked(marked(x)), 100.0),
        (lambda x: tfn.checkpoint(marked)(x), 10.0),
        (lambda x: tfn.call(marked)(x), 10.0),
        (lambda x: tfn.grad(lambda y: marked(y) ** 2)(x), 200.0),
    ],
)
def test_inside(loop: Any, slope: float) -> None:
    for run in (tfn.grad(loop), tfn.jit(tfn.grad(loop)), tfn.jacfwd(loop)):
        assert float(run(1.0)) == pytest.approx(slope)
    check(tfn.vmap(tfn.grad(loop))(tnp.array([1.0, 1.0])), tnp.full(2, slope))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.cond(x > 0, lambda v: v * v, lambda v: 3 * v, x),
        lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * v + 1, x, max_steps=9),
        lambda x: lax.cond(x > 9, lambda v: 1 / v, lambda v: v * v, x),  # no lane takes the first
    ],
)
def test_rules_that_branch_within_lanes_have_a_reverse_mode(f: Any) -> None:
    """Operands of branches that a lane has not taken are detached, tangents too."""
    custom = tfn.custom_jvp(f)
    custom.defjvp(lambda primals, tangents: tfn.jvp(f, primals, tangents))
    xs, cts = tnp.array([-1.5, 2.0, 0.5]), tnp.array([1.0, 2.0, 3.0])
    for g in (tfn.vmap(custom), tfn.jit(tfn.vmap(custom))):
        check(tfn.vjp(g, xs)[1](cts)[0], tfn.vjp(tfn.vmap(f), xs)[1](cts)[0])
        check(tfn.jvp(g, (xs,), (cts,))[1], tfn.vjp(tfn.vmap(f), xs)[1](cts)[0])


def test_python_branches_on_known_values() -> None:
    @tfn.custom_jvp
    def f(x: Any) -> Any:
        return 2 * x if x > 0 else -x

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return f(*primals), tangents[0] * (10 if float(primals[0]) > 0 else 100)

    assert float(tfn.grad(f)(1.0)) == 10 and float(tfn.grad(f)(-1.0)) == 100
    assert float(tfn.grad(lambda x: f(x * x) + f(-x))(1.0)) == -80
    assert float(tfn.jvp(f, (-1.0,), (2.0,))[1]) == 200
    with pytest.raises(tfn.errors.TracerBoolConversionError):
        tfn.jit(tfn.grad(f))(1.0)


def test_one_rule_for_each_argument() -> None:
    @tfn.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda dx, out, x, y: 3 * dx * y, None)
    check(tfn.grad(f, (0, 1))(2.0, 5.0), (tnp.array(15.0), tnp.array(0.0)))
    f.defjvps(None, None)
    check(tfn.grad(f)(2.0, 5.0), tnp.array(0.0))


def test_trees_integers_and_keywords() -> None:
    @tfn.custom_jvp
    def f(p: Any, n: int, *, scale: float = 2.0) -> Any:
        return {"y": p["x"] * n * scale, "n": n + 1}

    with pytest.raises(ArgumentError, match="arguments that have a position"):
        f({"x": 1.0}, 3, scale=1.0)

    @tfn.custom_jvp
    def g(p: Any, n: Any, scale: Any = 2.0) -> Any:
        return {"y": p["x"] * n * scale, "n": n + 1}

    @g.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        assert tangents[1] is None
        return g(*primals), {"y": tangents[0]["x"] * 7, "n": None}

    assert float(tfn.grad(lambda x: g(n=3, p={"x": x})["y"])(1.0)) == 7.0
    assert int(tfn.jit(lambda x: g({"x": x}, 3)["n"])(1.0)) == 4


def test_arguments_that_are_not_differentiated() -> None:
    @partial(tfn.custom_jvp, nondiff_argnums=(0,))
    def apply(f: Any, x: Any) -> Any:
        return f(x)

    @apply.defjvp
    def _(f: Any, primals: Any, tangents: Any) -> Any:
        return f(*primals), 5 * tangents[0] * f(1.0)

    assert float(tfn.grad(lambda x: apply(tnp.exp, x))(2.0)) == pytest.approx(5 * np.e)
    by_name = tfn.custom_jvp(lambda x, mode: x * len(mode), nondiff_argnames="mode")
    by_name.defjvp(lambda mode, p, t: (by_name(*p, mode), t[0] * 100 * len(mode)))
    assert float(tfn.grad(lambda x: by_name(x, "abc"))(1.0)) == 300.0


def test_symbolic_zeros() -> None:
    seen: list[Any] = []

    @tfn.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        seen.extend(tangents)
        return f(*primals), tangents[0] * primals[1]

    f.defjvp(rule, symbolic_zeros=True)
    assert float(tfn.grad(f)(2.0, tnp.array(3.0))) == 3.0
    assert isinstance(seen[1], tfn.custom_derivatives.SymbolicZero) and seen[1].shape == ()


def test_methods() -> None:
    class Model:
        @tfn.custom_jvp
        def f(self, x: Any) -> Any:
            return x

        f.defjvp(lambda p, t: (p[1], 4 * t[1]))

    tfn.tree.register_static(Model)
    assert float(tfn.grad(Model().f)(1.0)) == 4.0


def test_transposed_as_it_is_written() -> None:
    double = tfn.custom_jvp(lambda x: 2 * x)
    double.defjvp(lambda p, t: (double(*p), double(*t)))
    assert float(tfn.linear_transpose(double, 1.0)(3.0)[0]) == 6.0
    assert float(tfn.grad(double)(1.0)) == 2.0


def bad(rule: Any) -> Any:
    f = tfn.custom_jvp(lambda x: {"y": x * 2})
    f.__name__ = f.function.__name__ = "f"
    f.defjvp(rule)
    return tfn.grad(lambda x: f(x)["y"])


def captures(x: Any) -> Any:
    f = tfn.custom_jvp(lambda y: x * y)
    f.defjvp(lambda p, t: (f(*p), t[0]))
    return f(2.0 * x)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: tfn.custom_jvp(3), ArgumentError, "needs a function"),
        (
            lambda: tfn.grad(tfn.custom_jvp(tnp.sin))(1.0),
            GradientError,
            r"sin is a custom_jvp without a rule(.|\n)*define one with sin.defjvp",
        ),
        (
            lambda: bad(lambda p, t: t)(1.0),
            ArgumentError,
            r"the jvp of f must return a pair \(result, tangent\)(.|\n)*tuple of 1",
        ),
        (
            lambda: bad(lambda p, t: (p[0], t[0]))(1.0),
            TreeError,
            r"must return a result of the structure that it has(.|\n)*\* instead of {'y': \*}",
        ),
        (
            lambda: bad(lambda p, t: ({"y": tnp.ones(2)}, {"y": t[0]}))(1.0),
            ShapeError,
            r"result\['y'\] is f32\[2\] instead of f32\[\]",
        ),
        (
            lambda: bad(lambda p, t: ({"y": p[0]}, t[0]))(1.0),
            TreeError,
            "the tangents must have the structure of their values",
        ),
        (
            lambda: bad(lambda p, t: ({"y": p[0]}, {"y": tnp.ones(3)}))(1.0),
            ShapeError,
            r"the tangent at \['y'\](.|\n)*f32\[3\] for f32\[\]",
        ),
        (
            lambda: bad(lambda p, t: ({"y": p[0]}, {"y": np.float16(1)}))(1.0),
            DTypeError,
            "must have the dtype",
        ),
        (
            lambda: tfn.grad(captures)(1.0),
            GradientError,
            r"closes over a value by which it is differentiated(.|\n)*pass it as an argument",
        ),
        (
            lambda: tfn.custom_jvp(lambda x, n: x, nondiff_argnums=1).defjvps(None),
            ArgumentError,
            "cannot be used with nondiff_argnums",
        ),
        (lambda: tfn.custom_jvp(lambda x: x, nondiff_argnums=3), ArgumentError, "no argument 3"),
    ],
)
def test_illegal_calls_are_refused(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


# Memory.


def test_a_custom_jvp_keeps_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1

        @tfn.custom_jvp
        def f(y: Any) -> Any:
            return y * c

        f.defjvp(lambda primals, tangents: (primals[0] * c, tangents[0] * c))
        tfn.grad(lambda y: f(y).sum())(x)
        tfn.jvp(f, (x,), (x,))

    assert growth(step) == NONE


def test_arguments_without_derivative_may_be_traced() -> None:
    @partial(tfn.custom_jvp, nondiff_argnums=(0, 2))
    def scaled(n: Any, x: Any, name: str) -> Any:
        assert name == "a"
        return n["by"] * x

    @scaled.defjvp
    def jvp(n: Any, name: str, primals: Any, tangents: Any) -> Any:
        return scaled(n, *primals, name), 10 * n["by"] * tangents[0]

    def f(n: Any, x: Any) -> Any:
        return scaled({"by": n, "text": "t"}, x, "a")

    assert float(tfn.jit(f)(2.0, 3.0)) == 6.0
    assert [float(g(2.0, 3.0)) for g in (tfn.grad(f, 1), tfn.jit(tfn.grad(f, 1)))] == [20.0, 20.0]
    assert float(tfn.grad(tfn.jit(f), 1)(2.0, 3.0)) == 20.0
    assert float(tfn.grad(f)(2.0, 3.0)) == 0.0
    close = tfn.vmap(tfn.grad(f, 1))(np.float32([1, 2]), np.float32([3, 4]))
    assert close.tolist() == [10.0, 20.0]
