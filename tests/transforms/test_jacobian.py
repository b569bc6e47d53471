"""Jacobians and hessians: structure, both modes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import GradientError


def f(p: dict[str, Any], y: Any) -> Any:
    return {"outer": tnp.sin(p["a"])[:, None] * y, "sum": p["b"].sum() * y[0]}


P = {"a": tnp.array([0.5, 1.0]), "b": tnp.ones((2, 2))}
Y = tnp.array([2.0, 3.0, 4.0])


@pytest.mark.parametrize("jacobian", [tfn.jacfwd, tfn.jacrev])
def test_structure_and_values(jacobian: Any) -> None:
    found = jacobian(f)(P, Y)
    shapes = {out: {name: x.shape for name, x in found[out].items()} for out in found}
    assert shapes == {
        "outer": {"a": (2, 3, 2), "b": (2, 3, 2, 2)},
        "sum": {"a": (2,), "b": (2, 2)},
    }
    expected = np.einsum("i,ij,k->ikj", np.cos([0.5, 1.0]), np.eye(2), np.asarray(Y))
    np.testing.assert_allclose(np.asarray(found["outer"]["a"]), expected, rtol=1e-6)
    assert np.asarray(found["sum"]["b"]).tolist() == [[2, 2], [2, 2]]
    assert not np.asarray(found["outer"]["b"]).any()
    both = jacobian(f, argnums=(1, 0))(P, Y)
    assert both["sum"][0].shape == (3,) and both["sum"][1]["a"].shape == (2,)


def test_hessian() -> None:
    def g(p: dict[str, Any]) -> Any:
        return (p["x"] ** 2).sum() * p["y"]

    found = tfn.hessian(g)({"x": tnp.array([1.0, 2.0]), "y": tnp.array(3.0)})
    assert np.asarray(found["x"]["x"]).tolist() == [[6, 0], [0, 6]]
    assert np.asarray(found["x"]["y"]).tolist() == [2, 4]
    assert np.asarray(found["y"]["x"]).tolist() == [2, 4] and float(found["y"]["y"]) == 0


def test_modes_agree_at_every_order() -> None:
    cube = lambda x: (x**3 * x[::-1]).sum()
    x = tnp.array([1.0, 2.0, 0.5])
    expected = np.asarray(tfn.jacrev(tfn.jacrev(tfn.jacrev(cube)))(x))
    assert expected.shape == (3, 3, 3)
    for outer in (tfn.jacfwd, tfn.jacrev):
        for inner in (tfn.jacfwd, tfn.jacrev):
            found = tfn.jit(outer(inner(tfn.grad(cube))))(x)
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)


def test_aux_and_python_control_flow() -> None:
    def g(x: Any) -> Any:
        return (x * x if x[0] > 0 else -x), x.sum()

    found, aux = tfn.jacfwd(g, has_aux=True)(tnp.array([-1.0, 2.0]))
    assert np.asarray(found).tolist() == [[-1, 0], [0, -1]] and float(aux) == 1
    found, aux = tfn.jacrev(g, has_aux=True)(tnp.array([1.0, 2.0]))
    assert np.asarray(found).tolist() == [[2, 0], [0, 4]] and float(aux) == 3


def test_empty() -> None:
    assert tfn.jacfwd(lambda x: x)(tnp.zeros((0, 2))).shape == (0, 2, 0, 2)
    assert tfn.jacrev(lambda x: x)(tnp.zeros((0, 2))).shape == (0, 2, 0, 2)


def test_errors() -> None:
    with pytest.raises(GradientError, match="jacfwd needs floating inputs, and x is not"):
        tfn.jacfwd(lambda x: x)(3)
    with pytest.raises(
        GradientError, match="jacrev needs a floating result, and that of <lambda> is not"
    ):
        tfn.jacrev(lambda x: x > 0)(3.0)


def test_of_complex_functions() -> None:
    z = tnp.array([1 + 2j, -0.5 + 0.3j])

    def f(z: tfn.Array) -> tfn.Array:
        return z * z.sum()

    want = np.diag(np.full(2, np.asarray(z).sum())) + np.asarray(z)[:, None]
    for jacobian in (tfn.jacrev, tfn.jacfwd):
        np.testing.assert_allclose(jacobian(f, holomorphic=True)(z), want, rtol=1e-6)
    second = tfn.hessian(lambda z: (z**3).sum(), holomorphic=True)(z)
    np.testing.assert_allclose(second, np.diag(6 * np.asarray(z)), rtol=1e-6, atol=1e-6)
    wave = tfn.jacfwd(lambda t: tnp.exp(1j * t))(1.0)
    np.testing.assert_allclose(wave, 1j * np.exp(1j), rtol=1e-6)
    rows = tfn.jacrev(abs)(z)
    np.testing.assert_allclose(rows, np.diag(np.conj(z) / np.abs(z)), rtol=1e-6)
    with pytest.raises(GradientError, match="jacfwd needs real inputs, and x is not"):
        tfn.jacfwd(lambda x: abs(x))(z)
    with pytest.raises(GradientError, match="jacrev needs a real result"):
        tfn.jacrev(lambda z: z * 2)(z)
