"""`custom_vjp`: fwd and bwd are what counts, under every transform and in every place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tests.lax.control import check
from tfn import lax
from tfn.custom_derivatives import CustomVJPPrimal, SymbolicZero
from tfn.errors import ArgumentError, GradientError, ShapeError, TreeError, UnexpectedTracerError


@tfn.custom_vjp
def product(x: Any, y: Any) -> Any:
    """sin(x) y, with slopes that are told from the true ones by factors 2 and 3."""
    return tnp.sin(x) * y


def product_fwd(x: Any, y: Any) -> Any:
    return product(x, y), {"cos": tnp.cos(x), "sin": tnp.sin(x), "y": [y]}


product.defvjp(product_fwd, lambda r, ct: (2 * r["cos"] * ct * r["y"][0], 3 * r["sin"] * ct))


@tfn.custom_vjp
def clipped(x: Any) -> Any:
    """The identity; cotangents are clipped."""
    return x


clipped.defvjp(lambda x: (x, None), lambda _, ct: (tnp.clip(ct, -1, 1),))


@tfn.custom_vjp
def marked(x: Any) -> Any:
    """The identity with slope ten."""
    return x


marked.defvjp(lambda x: (x, ()), lambda _, ct: (10 * ct,))


def test_value_and_slopes() -> None:
    expected = tnp.array(2 * np.cos(1.0) * 2, "float32"), tnp.array(3 * np.sin(1.0), "float32")
    for f in (product, tfn.jit(product)):
        for run in (tfn.grad(f, (0, 1)), tfn.jit(tfn.grad(f, (0, 1))), tfn.jacrev(f, (0, 1))):
            check(run(1.0, 2.0), expected)
    value, pullback = tfn.vjp(product, 1.0, 2.0)
    check(pullback(tnp.array(2.0)), tuple(2 * w for w in expected))
    assert float(value) == pytest.approx(2 * np.sin(1.0))


def test_second_derivatives_are_those_of_bwd() -> None:
    slope = tfn.grad(tfn.grad(product))(1.0, 2.0)
    assert float(slope) == pytest.approx(-2 * np.sin(1.0) * 2, rel=1e-5)
    assert float(tfn.grad(tfn.grad(marked))(1.0)) == 0.0


def test_forward_mode_is_the_transpose_of_bwd() -> None:
    pushed = tfn.jvp(product, (1.0, 2.0), (1.0, 10.0))[1]
    expected = 2 * np.cos(1.0) * 2 + 30 * np.sin(1.0)
    assert float(pushed) == pytest.approx(expected, rel=1e-6)
    assert float(tfn.linearize(product, 1.0, 2.0)[1](1.0, 10.0)) == pytest.approx(
        expected, rel=1e-6
    )
    assert float(tfn.jit(tfn.jacfwd(product))(1.0, 2.0)) == pytest.approx(4 * np.cos(1.0))
    with pytest.raises(GradientError, match="clipped has no forward mode: it is a custom_vjp"):
        tfn.jvp(clipped, (1.0,), (1.0,))
    assert float(tfn.grad(lambda x: 5 * clipped(x))(1.0)) == 1.0


def test_lanes() -> None:
    xs = tnp.array([0.0, 1.0, 2.0])
    slopes = 4 * np.cos(np.asarray(xs))
    check(tfn.vmap(tfn.grad(product), (0, None))(xs, 2.0), tnp.asarray(slopes))
    total = lambda xs, y: tfn.vmap(product, (0, None))(xs, y).sum()
    found = tfn.grad(total, (0, 1))(xs, 2.0)
    check(found, (tnp.asarray(slopes), tnp.array(3 * np.sin(np.asarray(xs)).sum())))
    check(tfn.jvp(lambda xs: total(xs, 2.0), (xs,), (tnp.ones(3),))[1], tnp.array(slopes.sum()))
    nested = lambda xs: tfn.vmap(lambda y: tfn.vmap(product, (0, None))(xs, y))(xs).sum()
    check(
        tfn.grad(nested)(xs),
        tfn.grad(
            lambda xs: (
                2 * tnp.sin(xs)[:, None] * lax.stop_gradient(xs)
                + 3 * lax.stop_gradient(tnp.sin(xs))[:, None] * xs
            ).sum()
        )(xs),
    )


@pytest.mark.parametrize(
    ("loop", "slope"),
    [
        (lambda x: lax.scan(lambda c, _: (marked(c), c), x, None, 3)[0], 1000.0),
        (lambda x: lax.fori_loop(0, 2, lambda i, v: marked(v), x), 100.0),
        (lambda x: lax.while_loop(lambda v: v < 10, lambda v: marked(v) * 2, x, max_steps=9), 16e4),
        (lambda x: lax.cond(x > 0, marked, lambda v: v, x), 10.0),
        (lambda x: lax.map(marked, x * tnp.ones(3)).sum(), 30.0),
        (lambda x: marked(marked(x)), 100.0),
        (lambda x: tfn.checkpoint(marked)(x), 10.0),
        (lambda x: tfn.call(marked)(x), 10.0),
        (lambda x: tfn.grad(lambda y: marked(y) ** 2)(x), 200.0),
    ],
)
def test_inside(loop: Any, slope: float) -> None:
    for run in (tfn.grad(loop), tfn.jit(tfn.grad(loop)), tfn.grad(tfn.jit(loop)), tfn.jacfwd(loop)):
        assert float(run(1.0)) == pytest.approx(slope)
    check(tfn.vmap(tfn.grad(loop))(tnp.array([1.0, 1.0])), tnp.full(2, slope))


def test_rules_may_capture_arrays_wherever_they_are_asked() -> None:
    table = np.arange(3, dtype=np.float32)

    @tfn.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda r, ct: (ct * tnp.asarray(table).sum(),))
    limit = tnp.array(5.0)
    for loop in (
        lambda x: lax.fori_loop(0, 3, lambda i, v: f(v), x),
        lambda x: lax.scan(
            lambda c, _: (lax.cond(c < limit * 100, f, lambda v: v, c), None),
            x,
            None,
            3,
            checkpoint_every=2,
        )[0],
        lambda x: lax.while_loop(lambda v: v < limit, f, x, max_steps=8),
        lambda x: tfn.call(lambda v: f(f(f(v))))(x),
    ):
        assert float(tfn.jit(tfn.grad(loop))(1.0)) == 27.0
        check(tfn.grad(lambda xs: tfn.vmap(loop)(xs).sum())(tnp.ones(2)), tnp.full(2, 27.0))  # noqa: B023


def test_python_branches_on_known_values() -> None:
    @tfn.custom_vjp
    def f(x: Any) -> Any:
        return x * 2 if x > 0 else x

    def fwd(x: Any) -> Any:
        return f(x), x if float(x) > 0 else -5 * x

    f.defvjp(fwd, lambda r, ct: (r * ct if float(r) < 10 else ct,))
    assert float(tfn.grad(f)(3.0)) == 3.0
    assert float(tfn.grad(f)(-1.0)) == 5.0
    assert float(tfn.grad(f)(-3.0)) == 1.0


def test_arguments_that_are_not_differentiated() -> None:
    def f(scale: float, x: Any, name: str) -> Any:
        return x * scale * len(name)

    g = tfn.custom_vjp(f, nondiff_argnums=(0, 2))
    g.defvjp(
        lambda scale, x, name: (f(scale, x, name), x),
        lambda scale, name, x, ct: (ct * scale * 100 * len(name),),
    )
    assert float(tfn.grad(lambda x: g(2.0, x, "abc"))(1.0)) == 600.0
    assert float(tfn.jit(tfn.grad(g, 1), static_argnums=(0, 2))(2.0, 1.0, "abc")) == 600.0


def test_integers_have_no_cotangent() -> None:
    @tfn.custom_vjp
    def take(x: Any, i: Any) -> Any:
        return x[i], i + 1

    take.defvjp(
        lambda x, i: (take(x, i), (i, x.shape[0] * 1.0)),
        lambda r, ct: (tnp.zeros(3).at[r[0]].set(ct[0] * r[1]), None),
    )
    check(tfn.grad(lambda x: take(x, 1)[0])(tnp.ones(3)), tnp.array([0.0, 3.0, 0.0]))
    many = tfn.vmap(tfn.grad(lambda x, i: take(x, i)[0]), (None, 0))(tnp.ones(3), tnp.arange(2))
    check(many, tnp.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]]))


def test_symbolic_zeros() -> None:
    seen: list[Any] = []

    @tfn.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y, x + y

    def fwd(x: Any, y: Any) -> Any:
        assert isinstance(x, CustomVJPPrimal)
        seen.append((x.perturbed, y.perturbed))
        return (x.value * y.value, x.value + y.value), y.value

    def bwd(y: Any, cts: Any) -> Any:
        seen.append(type(cts[1]))
        return cts[0] * y, SymbolicZero((), np.dtype("float32"))

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(tfn.grad(lambda x: f(x, tnp.array(5.0))[0])(2.0)) == 5.0
    assert seen == [(True, False), SymbolicZero]


def test_none_stands_for_zero() -> None:
    f = tfn.custom_vjp(lambda p, y: p["a"] * y)
    f.defvjp(lambda p, y: (f(p, y), y), lambda y, ct: (None, ct))
    check(
        tfn.grad(f, (0, 1))({"a": 2.0, "b": 3.0}, 4.0),
        ({"a": tnp.array(0.0), "b": tnp.array(0.0)}, tnp.array(1.0)),
    )


def test_residuals_that_nobody_needs_are_not_computed() -> None:
    f = tfn.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, tnp.exp(x)), lambda r, ct: (ct * 3,))
    assert "exp" not in str(tfn.make_jaxpr(tfn.grad(f))(1.0))


def test_rules_cannot_capture_dead_tracers() -> None:
    def f(x: Any, w: Any) -> Any:
        g = tfn.custom_vjp(lambda y: y * 2)
        g.defvjp(lambda y: (y * 2, None), lambda _, ct: (ct * w,))
        return g(x)

    assert float(tfn.jit(lambda x, w: tfn.grad(f)(x, w))(1.0, 3.0)) == 3.0
    with pytest.raises(UnexpectedTracerError) as caught:
        tfn.grad(tfn.jit(f))(1.0, 3.0)
    assert "must be an argument, or a residual" in "\n".join(caught.value.__notes__)


def bad(fwd: Any, bwd: Any) -> Any:
    f = tfn.custom_vjp(lambda x: x * 2)
    f.__name__ = f.function.__name__ = "f"
    f.defvjp(fwd, bwd)
    return tfn.grad(f)


def kept(x: Any) -> Any:
    return x * 2, x


def captures(x: Any) -> Any:
    f = tfn.custom_vjp(lambda y: x * y)
    f.defvjp(lambda y: (f(y), None), lambda _, ct: (ct,))
    return f(2.0 * x)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: tfn.grad(tfn.custom_vjp(tnp.sin))(1.0),
            GradientError,
            r"sin is a custom_vjp without a rule(.|\n)*define one with sin.defvjp",
        ),
        (
            lambda: bad(lambda x: x * 2, lambda r, ct: (ct,))(1.0),
            ArgumentError,
            r"the fwd of f must return a pair \(result, residuals\)",
        ),
        (
            lambda: bad(lambda x: ((x, x), None), lambda r, ct: (ct,))(1.0),
            TreeError,
            r"the fwd of f must return a result of the structure(.|\n)*\(\*, \*\) instead of \*",
        ),
        (
            lambda: bad(kept, lambda r, ct: ct)(1.0),
            TreeError,
            r"the bwd of f must return a tuple with a cotangent for each of its 1 argument",
        ),
        (lambda: bad(kept, lambda r, ct: (ct, ct))(1.0), TreeError, "got: tuple of 2"),
        (
            lambda: bad(kept, lambda r, ct: ({"a": ct},))(1.0),
            ArgumentError,
            r"cotangent of x is not an array",
        ),
        (
            lambda: bad(kept, lambda r, ct: (tnp.ones(2),))(1.0),
            ShapeError,
            r"the cotangent of x must have the shape of its value(.|\n)*f32\[2\] for f32\[\]",
        ),
        (
            lambda: bad(lambda x: (x * 2, "text"), lambda r, ct: (ct,))(1.0),
            ArgumentError,
            "is not an array",
        ),
        (
            lambda: tfn.grad(captures)(1.0),
            GradientError,
            "closes over a value by which it is differentiated",
        ),
    ],
)
def test_illegal_calls_are_refused(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_errors_name_the_rule() -> None:
    with pytest.raises(TreeError) as caught:
        bad(kept, lambda r, ct: ct)(1.0)
    assert any(
        "while: running the rule <lambda> (test_custom_vjp.py:" in n for n in caught.value.__notes__
    )


# Memory.


def test_a_custom_vjp_keeps_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x[0] + 1

        @tfn.custom_vjp
        def f(y: Any) -> Any:
            return y * c

        f.defvjp(lambda y: (y * c, y), lambda y, ct: (ct * c * y,))
        tfn.grad(lambda y: f(y).sum())(x)
        tfn.vmap(tfn.grad(lambda y: f(y).sum()))(x)

    assert growth(step) == NONE


def test_fixed_arguments_need_no_hash():
    f = tfn.custom_vjp(lambda options, x: options[0]["scale"] * x, nondiff_argnums=0)
    f.defvjp(lambda options, x: (f(options, x), None), lambda options, _, ct: (7 * ct,))
    assert float(tfn.grad(lambda x: f(({"scale": 2.0},), x))(1.0)) == 7.0


def test_residuals_that_are_true_or_false_can_be_asked() -> None:
    @tfn.custom_vjp
    def f(x, negative):
        return -x if negative else x

    def bwd(residuals, ct):
        negative, scale = residuals
        assert negative is True
        return (-ct * scale if negative else ct, None)

    f.defvjp(lambda x, negative: (-x, (True, x)), bwd)
    assert float(tfn.jit(tfn.grad(lambda x: f(x, True)))(3.0)) == -3.0
