"""`pmap`: one element of an axis on each device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.config import config
from tfn.errors import ArgumentError, DeviceError, ShapeError


@pytest.fixture(autouse=True)
def eight_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "devices", 8)


def test_axes_and_collectives() -> None:
    x = np.arange(16, dtype=np.float32).reshape(8, 2)

    def f(v: Any, w: Any) -> Any:
        return lax.psum(v * w, "i"), {"a": v + lax.axis_index("i")}

    total, rest = tfn.pmap(f, "i", in_axes=(0, None), out_axes=(None, -1))(x, 2.0)
    np.testing.assert_array_equal(total, 2 * x.sum(0))
    np.testing.assert_array_equal(rest["a"], (x + np.arange(8)[:, None]).T)


def test_a_data_parallel_step() -> None:
    x, w = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.ones(4, np.float32)
    loss = lambda w, x: ((x @ w) ** 2).mean()
    step = tfn.pmap(
        lambda w, x: w - 0.1 * lax.pmean(tfn.grad(loss)(w, x), "batch"),
        "batch",
        in_axes=(None, 0),
        out_axes=None,
    )
    expected = w - 0.1 * np.asarray(tfn.grad(loss)(w, x))
    np.testing.assert_allclose(step(w, x), expected, rtol=1e-5)


def test_arrays_on_the_only_device_of_the_axis() -> None:
    x = tfn.device_put(np.float32([[1, 2]]), tfn.devices()[0])  # committed to it
    assert tfn.pmap(lambda x: x + 1)(x).tolist() == [[2, 3]]
    pair = tfn.device_put(np.ones((2, 3), "float32"), tfn.devices()[0])
    with pytest.raises(DeviceError, match="an array that is on one device"):
        tfn.pmap(lambda x: x + 1)(pair)


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="mapped axes of one size"):
        tfn.pmap(lambda a, b: a)(np.ones(2), np.ones(3))
    with pytest.raises(ArgumentError, match="needs as many devices"):
        tfn.pmap(lambda a: a, devices=tfn.devices()[:3])(np.ones(2))
    with pytest.raises(ArgumentError, match="size 5000 needs as many devices"):
        tfn.pmap(lambda a: a)(np.ones(5000))
    with pytest.raises(ArgumentError, match="no mapped axis"):
        tfn.pmap(lambda a: a, in_axes=None)(np.ones(2))


def test_keyword_arguments_are_mapped_and_static_ones_are_not() -> None:
    f = tfn.pmap(lambda x, n, y: x * n + y, static_broadcasted_argnums=1)
    assert f(tnp.ones((1, 2)), 3, y=tnp.ones((1, 2))).tolist() == [[4.0, 4.0]]
