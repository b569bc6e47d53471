"""`composite`: the decomposition under every transform, and one call in every trace."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import ArgumentError


@partial(lax.composite, name="my.tangent", version=2)
def tangent(x: Any, /, *, scale: float = 1.0, note: str | None = None) -> Any:
    """scale * sin(x) / cos(x)."""
    return {"y": scale * tnp.sin(x) / tnp.cos(x)}


XS = np.linspace(-1, 1, 5, dtype="float32")


def test_it_is_its_decomposition() -> None:
    np.testing.assert_allclose(tangent(XS)["y"], np.tan(XS), rtol=1e-5)
    run = lambda x: tangent(x, scale=2.0)["y"]
    np.testing.assert_allclose(tfn.jit(run)(XS), 2 * np.tan(XS), rtol=1e-5)
    np.testing.assert_allclose(tfn.vmap(run)(XS), 2 * np.tan(XS), rtol=1e-5)
    slope = tfn.vmap(tfn.grad(run))(XS)
    np.testing.assert_allclose(slope, 2 / np.cos(XS) ** 2, rtol=1e-5)


def test_it_is_one_call_in_a_trace() -> None:
    text = str(tfn.make_jaxpr(lambda x: tangent(x, scale=2.0, note=None)["y"])(XS))
    assert "call[my.tangent.v2{scale=2.0}]" in text


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match="attribute scale of the composite"):
        tfn.jit(lambda s: tangent(1.0, scale=s)["y"])(2.0)
    with pytest.raises(ArgumentError, match="a composite has a name"):
        lax.composite(lambda x: x, name="")
