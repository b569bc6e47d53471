"""Gradients: values, structure, control flow, nesting, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tfn.errors import (
    ArgumentError,
    GradientError,
    TracerBoolConversionError,
    UnexpectedTracerError,
)
from tfn.trace import oracle
from tfn.trace.jaxpr import param


def test_value_and_structure() -> None:
    def loss(params: dict[str, Any], x: Any) -> Any:
        return (tnp.tanh(x @ params["w"] + params["b"]) ** 2).sum()

    params = {"w": tnp.ones((3, 2)) * 0.1, "b": tnp.zeros(2), "none": None}
    x = tnp.arange(6.0).reshape(2, 3)
    value, slope = tfn.value_and_grad(loss)(params, x)
    assert slope["none"] is None and slope["w"].shape == (3, 2)
    expected = loss(params, x)
    np.testing.assert_allclose(np.asarray(value), np.asarray(expected), rtol=1e-6)
    shifted = loss(params | {"b": tnp.array([1e-2, 0.0])}, x) - loss(
        params | {"b": tnp.array([-1e-2, 0.0])}, x
    )
    np.testing.assert_allclose(float(slope["b"][0]), float(shifted) / 2e-2, rtol=1e-3)


class Point(NamedTuple):
    x: Any
    y: Any


def test_argnums() -> None:
    def f(a: Any, b: Any, c: Any = 1.0) -> Any:
        return a * b.x * b.y * c

    args = 2.0, Point(3.0, 5.0)
    assert float(tfn.grad(f)(*args)) == 15
    assert tfn.grad(f, argnums=1)(*args) == Point(10.0, 6.0)
    assert tfn.grad(f, argnums=-1)(*args) == Point(10.0, 6.0)
    both = tfn.grad(f, argnums=(1, 0))(*args, c=2.0)
    assert both == (Point(20.0, 12.0), 30.0)
    assert isinstance(both, tuple)
    assert tfn.grad(f, argnums=(0,))(*args) == (15.0,)


def test_other_arguments_may_be_anything() -> None:
    def f(x: Any, mode: str, *, power: int) -> Any:
        return x**power if mode == "power" else x

    assert float(tfn.grad(f)(2.0, "power", power=3)) == 12


def test_aux() -> None:
    def f(x: Any) -> Any:
        return x * x, {"double": 2 * x, "name": "f", "constant": tnp.ones(2), "none": None}

    (value, aux), slope = tfn.value_and_grad(f, has_aux=True)(3.0)
    assert (float(value), float(slope), float(aux["double"])) == (9, 6, 6)
    assert aux["name"] == "f" and aux["none"] is None and aux["constant"].shape == (2,)
    slope, aux = tfn.grad(f, has_aux=True)(3.0)
    assert float(slope) == 6 and float(aux["double"]) == 6
    with pytest.raises(ArgumentError, match="must return a pair"):
        tfn.grad(lambda x: x, has_aux=True)(3.0)


def test_python_sees_values() -> None:
    def f(x: Any) -> Any:
        y = x
        while float(y) < 100:
            y = y * x if y > 0 else -y
        assert isinstance(np.asarray(y), np.ndarray)
        return y

    assert float(tfn.grad(f)(3.0)) == 5 * 3**4
    assert float(tfn.grad(f)(-3.0)) == -5 * 3**4
    assert float(tfn.grad(tfn.grad(f))(3.0)) == 5 * 4 * 3**3


def test_python_sees_no_values_under_jit() -> None:
    def branch(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(TracerBoolConversionError, match="depends on x"):
        tfn.jit(tfn.grad(branch))(3.0)
    with pytest.raises(TracerBoolConversionError):
        tfn.grad(tfn.jit(branch))(3.0)
    assert float(tfn.grad(branch)(-3.0)) == -1


def test_perturbations_are_not_confused() -> None:
    # Siskind and Pearlmutter 2005: d/dx (x * d/dy (x + y)) = 1; d/dx (x * d/dy (x * y)) = 2 x.
    def outer(inner: Any) -> Any:
        return lambda x: x * tfn.grad(lambda y: inner(x, y))(1.0)

    assert float(tfn.grad(outer(lambda x, y: x + y))(1.0)) == 1
    assert float(tfn.grad(outer(lambda x, y: x * y))(3.0)) == 6
    # Manzyuk et al. 2019: the derivative of a curried function, applied twice.
    shift = lambda u: lambda f: lambda x: f(x + u)
    twice = lambda h: lambda x: tfn.jvp(lambda u: shift(u)(h)(x), (0.0,), (1.0,))[1]
    assert np.isclose(float(twice(twice(tnp.exp))(1.0)), np.e)


def test_every_nesting_agrees() -> None:
    def f(x: Any) -> Any:
        return tnp.sin(x) * x

    xs = tnp.array([0.5, 1.0, 2.0])
    third = -3 * np.sin(np.asarray(xs)) - np.asarray(xs) * np.cos(np.asarray(xs))
    once = tfn.grad(lambda x: tfn.vmap(tfn.jit(tfn.grad(f)))(x).sum())
    twice = tfn.jit(tfn.vmap(tfn.grad(tfn.jit(tfn.grad(f)))))
    thrice = tfn.vmap(tfn.grad(tfn.jit(tfn.grad(tfn.jit(tfn.grad(f))))))
    second = 2 * np.cos(np.asarray(xs)) - np.asarray(xs) * np.sin(np.asarray(xs))
    np.testing.assert_allclose(np.asarray(once(xs)), second, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(twice(xs)), second, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(thrice(xs)), third, rtol=1e-5)

    @tfn.grad
    def outermost(scale: Any) -> Any:
        @tfn.jit
        def inner(x: Any) -> Any:
            return tfn.vmap(tfn.grad(lambda v: f(v) * scale * scale))(x).sum()

        return inner(xs)

    first = np.sin(np.asarray(xs)) + np.asarray(xs) * np.cos(np.asarray(xs))
    np.testing.assert_allclose(float(outermost(3.0)), 6 * first.sum(), rtol=1e-5)


def test_captured_values_belong_to_the_outer_trace() -> None:
    def f(x: Any) -> Any:
        y = x * x
        return tfn.grad(lambda z: z * y)(2.0) + tfn.vmap(lambda z: z * y)(tnp.ones(3)).sum()

    assert float(tfn.grad(f)(3.0)) == 6 + 18


def test_an_argument_that_does_not_matter() -> None:
    slope = tfn.grad(lambda x, y: y * y, argnums=(0, 1))(tnp.ones((2, 3)), 3.0)
    assert slope[0].shape == (2, 3) and not np.asarray(slope[0]).any() and float(slope[1]) == 6
    assert float(tfn.grad(lambda x: 1.0)(3.0)) == 0


def test_weak_types_are_kept() -> None:
    assert tfn.grad(lambda x: x * x)(3.0).weak_type
    assert not tfn.grad(lambda x: x * x)(tnp.float32(3.0)).weak_type
    assert tfn.grad(lambda x: x * 2.0)(tnp.array(3.0, tnp.bfloat16)).dtype == tnp.bfloat16
    c = tnp.float32(4.0)
    assert tfn.grad(lambda x: x * c)(3.0).weak_type and not c.weak_type


def test_stop_gradient() -> None:
    assert float(tfn.grad(lambda x: x * tfn.stop_gradient(x))(3.0)) == 3
    assert float(tfn.grad(lambda x: tfn.stop_gradient({"a": x, "b": 1})["a"] * x)(3.0)) == 3
    assert float(tfn.stop_gradient(3.0)) == 3


def test_five_thousand_nodes() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(2500):
            y = tnp.sin(y) + x
        return y

    def value(g: Any, x: Any) -> Any:
        traced = tfn.jit(g).trace(x)
        assert len(str(traced.jaxpr).splitlines()) > 7_000
        operands = zip(traced.jaxpr.params, (x, *traced.captured))
        return oracle.evaluate(traced.jaxpr.outputs, {param(p): np.asarray(v) for p, v in operands})

    (expected,) = value(lambda x: tfn.jvp(f, (x,), (1.0,))[1], np.float32(0.9))
    (found,) = value(tfn.grad(f), np.float32(0.9))
    (many,) = value(tfn.vmap(tfn.grad(f)), np.array([0.9, 0.5], "f4"))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(many[0], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tfn.grad(lambda x: x * 2)(tnp.ones(3)),
            GradientError,
            "grad needs a scalar result, and that of <lambda> is not\n  got: shape (3,)",
        ),
        (
            lambda: tfn.grad(lambda x: (x, x))(1.0),
            GradientError,
            "grad needs a scalar result, and that of <lambda> is not\n  got: the tree (*, *)",
        ),
        (
            lambda: tfn.grad(lambda x: x > 0)(1.0),
            GradientError,
            "grad needs a floating result, and that of <lambda> is not\n  got: bool",
        ),
        (
            lambda: tfn.grad(lambda params: params["n"])({"n": 3}),
            GradientError,
            "grad needs floating inputs, and params['n'] is not\n  got: params['n']: i32[]",
        ),
        (
            lambda: tfn.grad(lambda x: x, argnums=1)(1.0),
            ArgumentError,
            "grad needs argnums among the 1 positional argument(s)\n  got: argnums=1",
        ),
        (
            lambda: tfn.grad(lambda x, *rest: x, argnums=2)(1.0, 2.0, "three"),
            ArgumentError,
            "rest[1] is not an array or a number\n  got: str 'three'",
        ),
        (
            lambda: tfn.grad(lambda x: {"a": "text"})(1.0),
            ArgumentError,
            "the result['a'] of <lambda> is not an array or a number\n  got: str 'text'",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert "hint: " in str(caught.value)


def test_integers_if_allowed() -> None:
    value, slope = tfn.value_and_grad(lambda t: t["x"] * t["n"], allow_int=True)({"x": 2.0, "n": 3})
    assert float(value) == 6 and float(slope["x"]) == 3 and slope["n"] is None


def test_a_leak_is_found() -> None:
    kept = []

    def f(x: Any) -> Any:
        kept.append(x)
        return x

    tfn.grad(f)(1.0)
    with pytest.raises(UnexpectedTracerError, match="it leaked"):
        kept[0] + 1


def test_holomorphic_functions() -> None:
    z = tnp.array([1 + 2j, -0.5 + 0.3j])
    slope = tfn.grad(lambda z: (z**3).sum(), holomorphic=True)(z)
    np.testing.assert_allclose(slope, 3 * z**2, rtol=1e-6)
    value, slope = tfn.value_and_grad(lambda z: tnp.exp(2j * z), holomorphic=True)(1j)
    assert value.dtype == np.complex64
    np.testing.assert_allclose(slope, 2j * np.exp(-2), rtol=1e-6)
    twice = tfn.grad(tfn.grad(tnp.sin, holomorphic=True), holomorphic=True)
    np.testing.assert_allclose(twice(1 + 1j), -np.sin(1 + 1j), rtol=1e-6)


def test_complex_results_need_a_word() -> None:
    z = tnp.array([1 + 2j, 3.0])
    with pytest.raises(GradientError, match="grad needs a real result, and that of <lambda>"):
        tfn.grad(lambda z: z.sum())(z)
    with pytest.raises(GradientError, match="holomorphic=True needs a complex result"):
        tfn.grad(lambda z: abs(z).sum(), holomorphic=True)(z)
    with pytest.raises(GradientError, match="holomorphic=True needs complex inputs, and x is not"):
        tfn.grad(lambda x: x * 1j, holomorphic=True)(1.0)


# Memory.


def test_grad_keeps_no_arrays() -> None:
    w = [tnp.ones((64, 64))]

    def step() -> None:
        w[0] = w[0] - 0.1 * tfn.grad(lambda w: (w * w).sum())(w[0])

    assert growth(step) == NONE


def test_grad_of_grad_keeps_no_arrays() -> None:
    x = tnp.arange(1024.0)

    def step() -> None:
        c = x + 1
        tfn.grad(lambda x: (tfn.grad(lambda x: (x**3 * c).sum())(x) ** 2).sum())(x)

    assert growth(step) == NONE


def test_grad_that_looks_at_values_keeps_no_arrays() -> None:
    x = tnp.arange(1024.0)

    def loss(x: Any) -> Any:
        y = x * x
        return y.sum() if float(y[0]) < 1 else y.max()

    assert growth(lambda: tfn.value_and_grad(loss)(x + 0)) == NONE
