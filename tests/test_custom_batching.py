"""`sequential_vmap`: a loop over the lanes, with the values and derivatives of all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.custom_batching import sequential_vmap

XS = np.linspace(-1, 2, 4, dtype="float32")


def test_trees() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"sum": x + y["b"], "product": x * y["b"]}

    out = tfn.vmap(sequential_vmap(f), (0, {"b": None}))(XS, {"b": 3.0})
    np.testing.assert_allclose(out["sum"], XS + 3)
    np.testing.assert_allclose(out["product"], XS * 3)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_it_is_vmap_with_derivatives(axes: Any) -> None:
    f = lambda x, y: tnp.sin(x) * tnp.exp(y)
    g = sequential_vmap(f)
    args = [XS if axis == 0 else np.float32(0.5) for axis in axes]
    for run in (
        lambda f: tfn.vmap(f, axes)(*args),
        lambda f: tfn.grad(lambda *a: tfn.vmap(f, axes)(*a).sum(), (0, 1))(*args),
        lambda f: tfn.vmap(lambda *a: tfn.jvp(f, a, (1.0, 1.0))[1], axes)(*args),
        lambda f: tfn.jit(tfn.vmap(f, axes))(*args),
    ):
        for got, expected in zip(tfn.tree.leaves(run(g)), tfn.tree.leaves(run(f)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_two_axes() -> None:
    f = lambda x, y: tnp.sin(x) * y
    both = lambda f: tfn.vmap(tfn.vmap(f, (0, None)), (None, 0))(XS, XS)
    np.testing.assert_allclose(both(sequential_vmap(f)), both(f), rtol=1e-6)
