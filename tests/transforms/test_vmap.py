"""vmap through the public face: axes, trees, nesting, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tfn.errors import (
    ArgumentError,
    AxisError,
    ShapeError,
    TfnError,
    TracerBoolConversionError,
    TreeError,
)

X = tnp.arange(24.0).reshape(2, 3, 4)


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out", [0, 1, -1, -2])
def test_axes(axis: int, out: int) -> None:
    found = tfn.vmap(lambda x: tnp.sin(x).sum(0), in_axes=axis, out_axes=out)(X)
    rows = np.moveaxis(np.asarray(X), axis, 0)
    same(found, np.moveaxis(np.stack([np.sin(r).sum(0) for r in rows]), 0, out))


def test_trees_and_prefixes() -> None:
    def f(p: dict[str, Any], x: Any, scale: Any, *, shift: Any) -> Any:
        return {"y": p["w"] * x + shift, "z": (scale, p["b"][0])}

    p = {"w": tnp.ones((5, 3)), "b": [tnp.arange(4.0).reshape(2, 2), None]}
    found = tfn.vmap(f, in_axes=({"w": 1, "b": None}, 0, None), out_axes={"y": 1, "z": (None, 0)})(
        p, tnp.arange(3.0), 7.0, shift=tnp.ones(3)
    )
    assert found["y"].shape == (5, 3) and float(found["z"][0]) == 7
    assert found["z"][1].shape == (3, 2, 2)
    same(found["y"], np.broadcast_to(np.arange(3.0) + 1, (5, 3)))
    assert tfn.vmap(lambda x, y: x + y, [0, None])(tnp.ones(3), 1.0).shape == (3,)


def test_unmapped_arguments_are_not_traced() -> None:
    found = tfn.vmap(lambda x, flag, name: -x if flag and name == "n" else x, (0, None, None))(
        tnp.ones(3), tnp.array(1.0), "n"
    )
    assert found.tolist() == [-1, -1, -1]


def test_axis_size() -> None:
    assert tfn.vmap(lambda: 3.0, axis_size=4)().tolist() == [3, 3, 3, 3]
    assert tfn.vmap(lambda x: x, in_axes=None, axis_size=2)(1.0).shape == (2,)
    assert tfn.vmap(lambda x: x * 2)(tnp.zeros((0, 3))).shape == (0, 3)


def test_nested() -> None:
    outer = tfn.vmap(tfn.vmap(lambda a, b: a * b, (None, 0)), (0, None))
    same(outer(tnp.arange(3.0), tnp.arange(4.0)), np.outer(np.arange(3.0), np.arange(4.0)))
    matmul = tfn.vmap(tfn.vmap(tnp.dot, (None, 1)), (0, None))
    same(matmul(X[0], X[1].T), np.asarray(X[0]) @ np.asarray(X[1].T))


def test_per_example_gradients() -> None:
    def loss(w: Any, x: Any) -> Any:
        return tnp.tanh(w @ x).sum()

    w, xs = tnp.ones((2, 3)) * 0.1, tnp.arange(12.0).reshape(4, 3)
    found = tfn.jit(tfn.vmap(tfn.grad(loss), in_axes=(None, 0)))(w, xs)
    same(found, np.stack([np.asarray(tfn.grad(loss)(w, x)) for x in xs]))


def test_weak_types_are_kept() -> None:
    weak = tfn.vmap(lambda x: x * 2)(tnp.arange(3).astype("float32"))
    assert not weak.weak_type
    assert tfn.vmap(lambda x: (x, 1.0), out_axes=(0, None))(tnp.ones(3))[1].weak_type


def test_a_value_is_not_known() -> None:
    with pytest.raises(TracerBoolConversionError, match="depends on x"):
        tfn.vmap(lambda x: x if x > 0 else -x)(tnp.ones(3))
    with pytest.raises(TracerBoolConversionError):
        tfn.grad(lambda y: tfn.vmap(lambda x: x if x > 0 else -x)(y).sum())(tnp.ones(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tfn.vmap(lambda p, *, y: p, in_axes=1)(
                {"w": tnp.ones((2, 3)), "b": tnp.ones((2, 3))}, y=tnp.ones((4, 2))
            ),
            ShapeError,
            "vmap of <lambda> needs mapped axes of one size\n"
            "  got: p['b']: axis 1 of f32[2,3] has size 3; p['w']: axis 1 of f32[2,3] has size 3; "
            "y: axis 0 of f32[4,2] has size 4",
        ),
        (
            lambda: tfn.vmap(lambda x: x, in_axes=None)(tnp.ones(3)),
            ArgumentError,
            "vmap of <lambda> has no mapped axis",
        ),
        (
            lambda: tfn.vmap(lambda x: x)(1.0),
            AxisError,
            "vmap cannot map x over axis 0\n  got: x: f32[]",
        ),
        (
            lambda: tfn.vmap(lambda x: x, out_axes=None)(tnp.ones(3)),
            ArgumentError,
            "the result of vmap differs from lane to lane\n  got: out_axes=None",
        ),
        (
            lambda: tfn.vmap(lambda x: {"a": x}, out_axes={"a": 2})(tnp.ones(3)),
            AxisError,
            "vmap cannot put the mapped axis at 2 of the result['a']\n  got: 1 axes",
        ),
        (
            lambda: tfn.vmap(lambda x, y: x, in_axes=(0,))(tnp.ones(3), tnp.ones(3)),
            TreeError,
            "in_axes of vmap does not fit the arguments\n"
            "  got: in_axes=(0,), which differs at args: ",
        ),
        (
            lambda: tfn.vmap(lambda x: x["a"], in_axes={"a": 0}),
            ArgumentError,
            "in_axes of vmap is an integer, None, or a tuple with an entry for each argument\n",
        ),
        (
            lambda: tfn.vmap(lambda x: x, in_axes="0")(tnp.ones(3)),
            ArgumentError,
            "in_axes of vmap takes integers and None\n  got: in_axes='0'",
        ),
        (
            lambda: tfn.vmap(lambda x: x, axis_size=4)(tnp.ones(3)),
            ShapeError,
            "vmap of <lambda> needs mapped axes of one size\n"
            "  got: x: axis 0 of f32[3] has size 3; axis_size=4",
        ),
        (
            lambda: tfn.vmap(lambda x: x, axis_name=["i"]),
            ArgumentError,
            "vmap needs a name as axis_name\n  got: axis_name=['i']",
        ),
    ],
)
def test_errors(call: Any, error: type[TfnError], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


# Memory.


def test_vmap_keeps_no_arrays() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        tfn.vmap(lambda row: row * c[0] + c.sum())(x + 0)

    assert growth(step) == NONE


def test_vmap_of_grad_keeps_no_arrays() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        tfn.vmap(tfn.grad(lambda row: (row * row * c[0]).sum()))(x + 0)

    assert growth(step) == NONE


def test_functions_need_no_name():
    class Layer:
        __name__ = property(lambda self: 3)

        def __call__(self, x):
            return x + 1

    assert tfn.vmap(Layer())(np.arange(2)).tolist() == [1, 2]
    assert tfn.jit(Layer())(1).item() == 2
