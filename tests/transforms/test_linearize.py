"""Linear maps: jvp, linearize, vjp and linear_transpose through the public face."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tfn.errors import ArgumentError, DTypeError, GradientError, ShapeError, TreeError
from tfn.trace.op import Op
from tfn.trace.uop import walk


def f(params: dict[str, Any], x: Any) -> Any:
    return {"out": tnp.tanh(x @ params["w"]), "count": tnp.array(3)}


PARAMS = {"w": tnp.array([[0.5, -1.0], [2.0, 0.1]])}
X = tnp.array([[1.0, 2.0], [-0.5, 0.3], [0.0, 1.0]])


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_jvp_and_linearize_agree() -> None:
    direction = {"w": tnp.ones((2, 2))}, tnp.zeros((3, 2))
    value, slope = tfn.jvp(f, (PARAMS, X), direction)
    same, push = tfn.linearize(f, PARAMS, X)
    close(value["out"], same["out"])
    close(slope["out"], push(*direction)["out"])
    assert slope["count"] is None and int(value["count"]) == 3
    half = {"w": direction[0]["w"] * 0.5}
    close(push(half, direction[1])["out"] * 2, slope["out"])
    h = 1e-3
    above, below = (f({"w": PARAMS["w"] + s * h}, X)["out"] for s in (1, -1))
    np.testing.assert_allclose(
        np.asarray(slope["out"]), np.asarray(above - below) / (2 * h), atol=1e-3
    )


def test_vjp_is_the_adjoint() -> None:
    value, pull = tfn.vjp(f, PARAMS, X)
    _, push = tfn.linearize(f, PARAMS, X)
    rng = np.random.default_rng(1)
    for _ in range(2):  # to be called many times
        dw, dx, ct = (tnp.array(rng.normal(size=s), "float32") for s in ((2, 2), (3, 2), (3, 2)))
        back = pull({"out": ct, "count": None})
        assert isinstance(back, tuple) and len(back) == 2
        forward = (push({"w": dw}, dx)["out"] * ct).sum()
        close(forward, (back[0]["w"] * dw).sum() + (back[1] * dx).sum())
    assert value["out"].shape == (3, 2)


def test_the_map_holds_values_and_not_the_function() -> None:
    _, push = tfn.linearize(lambda x: tnp.exp(tnp.sin(x)), 1.0)
    ops = {node.op for node in walk(push.jaxpr.outputs)}
    assert ops == {Op.PARAM, Op.MUL}
    _, push = tfn.linearize(lambda x: x * tnp.ones((100, 100)), X[0, 0])
    assert all(x.size == 1 for x in push.residuals)


def test_the_map_is_a_pytree() -> None:
    @tfn.jit
    def forward(x: Any) -> Any:
        return tfn.vjp(lambda y: y * y * y, x)

    value, pull = forward(2.0)
    assert float(value) == 8 and float(pull(1.0)[0]) == 12
    assert float(tfn.jit(lambda p, ct: p(ct))(pull, 2.0)[0]) == 24


def test_within_other_transforms() -> None:
    def slope(x: Any) -> Any:
        return tfn.jvp(tnp.sin, (x,), (1.0,))[1]

    close(tfn.grad(slope)(0.5), -np.sin(0.5))
    close(tfn.vmap(slope)(tnp.array([0.5, 1.0])), np.cos([0.5, 1.0]))
    close(tfn.jit(lambda x: tfn.vjp(slope, x)[1](1.0)[0])(0.5), -np.sin(0.5))
    # the direction is the variable
    close(tfn.grad(lambda d: tfn.jvp(lambda x: x * x, (3.0,), (d,))[1])(1.0), 6.0)
    pull = tfn.vjp(lambda x: x * x, 3.0)[1]
    close(tfn.grad(lambda ct: pull(ct)[0])(1.0), 6.0)


def test_aux() -> None:
    pair = lambda x: (x * x, {"x": x, "name": "n"})
    value, slope, aux = tfn.jvp(pair, (3.0,), (1.0,), has_aux=True)
    assert (float(value), float(slope), float(aux["x"]), aux["name"]) == (9, 6, 3, "n")
    value, pull, aux = tfn.vjp(pair, 3.0, has_aux=True)
    assert (float(value), float(pull(1.0)[0]), float(aux["x"])) == (9, 6, 3)
    value, push, aux = tfn.linearize(pair, 3.0, has_aux=True)
    assert (float(value), float(push(1.0)), float(aux["x"])) == (9, 6, 3)


def test_integers_have_no_tangents() -> None:
    value, slope = tfn.jvp(lambda x, n: x * n, (2.0, 3), (1.0, None))
    assert (float(value), float(slope)) == (6, 3)
    float0 = np.zeros((), np.dtype([("float0", "V")]))
    assert float(tfn.jvp(lambda x, n: x * n, (2.0, 3), (1.0, float0))[1]) == 3
    assert tfn.vjp(lambda x, n: x * n, 2.0, 3)[1](1.0)[1] is None


def test_none_is_zero() -> None:
    assert float(tfn.jvp(lambda x, y: x * y, (2.0, 3.0), (None, 1.0))[1]) == 2
    assert float(tfn.linearize(lambda x, y: x * y, 2.0, 3.0)[1](None, 1.0)) == 2
    back = tfn.vjp(lambda x: {"a": x, "b": x * x}, 3.0)[1]({"a": 1.0, "b": None})
    assert float(back[0]) == 1


def test_linear_transpose() -> None:
    shape = tfn.ShapeDtypeStruct((3,), "float32")
    weights = tnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    transposed = tfn.linear_transpose(lambda x: weights @ x, tnp.zeros(shape.shape))
    close(transposed(tnp.array([1.0, 10.0]))[0], [41, 52, 63])
    close(
        tfn.linear_transpose(lambda x: weights @ x, shape)(tnp.array([1.0, 10.0]))[0], [41, 52, 63]
    )
    for function in (lambda x: x * x, tnp.sin, lambda x: 1.0 / x):
        with pytest.raises(GradientError, match="not linear"):
            tfn.linear_transpose(function, shape)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tfn.jvp(tnp.sin, 1.0, 1.0),
            ArgumentError,
            "jvp needs primals as a tuple, one for each argument\n  got: primals=1.0",
        ),
        (
            lambda: tfn.jvp(tnp.sin, (tnp.ones(3),), (tnp.ones(2),)),
            ShapeError,
            "the tangent at [0] must have the shape of its value\n  got: f32[2] for f32[3]",
        ),
        (
            lambda: tfn.jvp(tnp.sin, (tnp.ones(3),), (tnp.ones(3, "float64"),)),
            DTypeError,
            "the tangent at [0] must have the dtype of its value\n  got: f64[3] for f32[3]",
        ),
        (
            lambda: tfn.jvp(lambda p: p["a"], ({"a": 1.0},), ({"b": 1.0},)),
            TreeError,
            "the tangents must have the structure of their values\n"
            "  got: ({'b': *},) instead of ({'a': *},)",
        ),
        (
            lambda: tfn.jvp(lambda x: x * 1.0, (3,), (1.0,)),
            DTypeError,
            "the tangent at [0] belongs to a value of int32, which has none\n  got: f32[]",
        ),
        (
            lambda: tfn.vjp(lambda x: (x, x), 1.0)[1](1.0, 1.0),
            ArgumentError,
            "a vjp function takes one cotangent\n  got: 2",
        ),
        (
            lambda: tfn.vjp(tnp.sin, tnp.ones(3))[1](tnp.ones(2)),
            ShapeError,
            "the cotangent must have the shape of its value\n  got: f32[2] for f32[3]",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


# Memory.


@pytest.mark.parametrize("transform", [tfn.vjp, tfn.linearize])
def test_linear_maps_keep_arrays_only_while_they_live(transform: Any) -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        y, linear = transform(lambda x: tnp.sin(x) * c, x + 0)
        linear(y)

    assert growth(step) == NONE


def test_jvp_keeps_no_arrays() -> None:
    x = tnp.ones((64, 64))
    assert growth(lambda: tfn.jvp(lambda x: tnp.sin(x) * x, (x + 1,), (x + 2,))) == NONE


def test_linear_transpose_keeps_no_arrays() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        tfn.linear_transpose(lambda x: x * c, x)(x)

    assert growth(step) == NONE
