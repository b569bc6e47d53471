"""Windows begin below true sizes; points of the tail write nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import together
from tfn import lax
from tfn import numpy as jnp
from tfn.errors import ShapeError

pytestmark = pytest.mark.usefixtures("uncompiled")

FUNCTIONS: dict[str, Any] = {
    "rows": lambda x, i: x[i],
    "rows beyond the end": lambda x, i: x.at[i * 2].get(mode="clip"),
    "rows beyond the end are filled": lambda x, i: x.at[i * 2].get(mode="fill", fill_value=7),
    "windows": lambda x, i: lax.dynamic_slice(x, (i[0] + 3, 1), (3, 2)),
    "nearly all": lambda x, i: lax.dynamic_slice_in_dim(x, i[1], x.shape[0] - 1, 0),
    "a part of a longer array": lambda x, i: lax.dynamic_slice_in_dim(
        jnp.arange(12.0), i[0] + 4, x.shape[0], 0
    ),
    "set": lambda x, i: x.at[i].set(jnp.arange(3.0)),
    "set beyond the end": lambda x, i: x.at[i * 3].set(9.0),
    "set from the front": lambda x, i: x.at[:-1].set(x[1:]),
    "added": lambda x, i: x.at[i // 2].add(x),
    "multiplied": lambda x, i: jnp.ones(4).at[i % 4].multiply(x[:, 0]),
    "largest": lambda x, i: jnp.zeros((4, 3)).at[i % 4].max(x),
    "the last one wins": lambda x, i: jnp.zeros((2, 3)).at[i % 2].set(x),
    "a window into a longer array": lambda x, i: lax.dynamic_update_slice(
        jnp.zeros((12, 3)), x, (i[0] + 4, 0)
    ),
    "a window that is moved to fit": lambda x, i: lax.dynamic_update_slice(
        x, jnp.ones((2, 3)), (i[-1] + 5, 0)
    ),
    "windows that are added": lambda x, i: jnp.zeros(40).at[3 : 3 + x.shape[0]].add(x[:, 0]),
}  # fmt: skip


@together("name", FUNCTIONS)
def test_lookups_are_those_of_the_true_size(name: str) -> None:
    f = FUNCTIONS[name]
    bucketed = tfn.jit(f, buckets={"x": "n _", "i": "n"})
    for n in (5, 7):
        x = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
        i = np.random.default_rng(n).integers(0, n, n).astype(np.int32)
        np.testing.assert_allclose(
            bucketed(x, i), f(jnp.asarray(x), jnp.asarray(i)), rtol=1e-6, atol=1e-6
        )
    assert bucketed.cache_info().exact == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool"])
def test_elements_of_the_tail_come_last_in_every_order(dtype: str) -> None:
    x = np.array([3, 1, 0, 255, 255, 0], dtype) if dtype == "uint8" else np.array([3, 1, 0], dtype)
    if dtype.startswith("float"):
        x = np.array([np.nan, np.inf, -np.inf, 1, np.nan, -0.0], dtype)
    f = tfn.jit(lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 2)), buckets={"x": "n"})
    plain = tfn.jit(f.function)
    for found, expected in zip(tfn.tree.leaves(f(x)), tfn.tree.leaves(plain(x)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_several_windows_that_end_in_the_tail_are_refused() -> None:
    def f(x: Any) -> Any:
        dims = lax.ScatterDimensionNumbers(
            update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
        )
        updates = jnp.broadcast_to(x, (2, *x.shape))
        return lax.scatter(jnp.zeros(20), jnp.array([[0], [9]]), updates, dims)

    with pytest.raises(ShapeError, match="sets windows that end in the tail"):
        tfn.jit(f, buckets={"x": "n"})(np.ones(5, np.float32))
