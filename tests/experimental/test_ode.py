"""`odeint` against solutions in closed form, and its gradients against those of the solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import DTypeError, ShapeError
from tfn.experimental.ode import odeint

T = np.linspace(0, 2, 6)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def spring(y: Any, t: Any, k: Any, damping: Any) -> Any:
    """A damped oscillator."""
    x, v = y
    return tnp.stack([v, -k * x - damping * v])


def exact(x0: Any, t: Any, k: Any, damping: Any) -> Any:
    """Its place, released at rest."""
    half = damping / 2
    omega = tnp.sqrt(k - half**2)
    return x0 * tnp.exp(-half * t) * (tnp.cos(omega * t) + half / omega * tnp.sin(omega * t))


@pytest.mark.usefixtures("uncompiled")
def test_values_and_gradients_of_an_oscillator() -> None:
    args = np.array(1.5), T, np.array(9.0), np.array(0.3)

    def places(x0: Any, t: Any, k: Any, damping: Any) -> Any:
        return odeint(spring, tnp.stack([x0, 0 * x0]), t, k, damping, **CLOSE)[:, 0]

    np.testing.assert_allclose(places(*args), exact(*args), rtol=1e-5, atol=1e-6)
    loss = lambda f: lambda *args: (f(*args) * tnp.arange(1.0, 7.0)).sum()
    for got, expected in zip(
        tfn.jit(tfn.grad(loss(places), (0, 1, 2, 3)))(*args),
        tfn.grad(loss(exact), (0, 1, 2, 3))(*args),
        strict=True,
    ):
        first = 1 if got.ndim else 0  # the solution begins at t[0], wherever that is
        np.testing.assert_allclose(
            np.atleast_1d(got)[first:], np.atleast_1d(expected)[first:], rtol=1e-4, atol=1e-5
        )


@pytest.mark.usefixtures("uncompiled")
def test_trees_complex_numbers_and_closures() -> None:
    def solve(rate: Any) -> Any:
        y0 = {"z": np.array(1 + 0j), "n": np.ones(3)}
        slope = lambda y, t: {"z": 1j * rate * y["z"], "n": -rate * y["n"]}
        return odeint(slope, y0, T, **CLOSE)

    out = solve(np.array(2.0))
    np.testing.assert_allclose(out["z"], np.exp(2j * T), rtol=1e-7)
    np.testing.assert_allclose(out["n"], np.exp(-2 * T)[:, None] * np.ones(3), rtol=1e-7)
    assert out["n"].dtype == np.float64
    slope = tfn.grad(lambda rate: solve(rate)["n"].sum())(np.array(2.0))
    assert float(slope) == pytest.approx(float((-3 * T * np.exp(-2 * T)).sum()), rel=1e-6)


def test_lanes_and_backward_time() -> None:
    one = lambda k: odeint(lambda y, t: -k * y, np.array(1.0), T[:2], **CLOSE)[-1]
    ks = np.array([0.0, 1, 5])
    np.testing.assert_allclose(tfn.vmap(one)(ks), np.exp(-ks * T[1]), rtol=1e-7)
    slopes = tfn.vmap(tfn.grad(one))(ks)
    np.testing.assert_allclose(slopes, -T[1] * np.exp(-ks * T[1]), rtol=1e-6)


def test_integers_among_arguments_have_no_gradient() -> None:
    f = lambda k, n: odeint(lambda y, t, k, n: -k * y * n, 1.0, T[:2], k, n, rtol=1e-5, atol=1e-5)[
        -1
    ]
    expected = np.exp(-2 * T[1])
    assert float(tfn.grad(f)(1.0, 2)) == pytest.approx(-2 * T[1] * expected, rel=1e-3)


def test_limits_of_steps() -> None:
    slopes: list[float] = []

    def slope(y: Any, t: Any) -> Any:
        tfn.debug.callback(lambda t: slopes.append(float(t)), t)
        return -y

    odeint(slope, 1.0, tnp.array([0.0, 1.0]), rtol=1e-2, atol=1e-2, mxstep=2)
    tfn.effects_barrier()
    assert 0 < len(slopes) <= 2 + 6 * 2
    fine = odeint(lambda y, t: -y, 1.0, tnp.array([0.0, 1.0]), rtol=1.0, atol=1.0, hmax=0.01)
    assert float(fine[-1]) == pytest.approx(np.exp(-1), rel=1e-6)


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(DTypeError, match="floating or complex solution"):
        odeint(lambda y, t: y, 1, T)
    with pytest.raises(ShapeError, match="times along one axis"):
        odeint(lambda y, t: y, 1.0, 2.0)
