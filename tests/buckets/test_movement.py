"""Elements that move by true sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import together
from tfn import numpy as jnp
from tfn.buckets.movement import axis_groups
from tfn.exporting import symbolic_shape

pytestmark = pytest.mark.usefixtures("uncompiled")

FUNCTIONS: dict[str, Any] = {
    "rows to a line": lambda x: x.reshape(-1),
    "columns to a line": lambda x: x.T.reshape(-1),
    "a line to columns": lambda x: jnp.tile(x.T, (2, 1)).reshape(-1).reshape(-1, 2, 3),
    "both in the middle": lambda x: jnp.stack([x, x + 1], 1).transpose(1, 2, 0).reshape(3, -1),
    "squares": lambda x: (x @ x.T).reshape(-1),
    "flipped": lambda x: jnp.flip(x, (0, 1)),
    "joined in front": lambda x: jnp.concatenate([x, jnp.ones((2, 3))]),
    "joined behind": lambda x: jnp.concatenate([jnp.ones((2, 3)), x]),
    "joined around": lambda x: jnp.concatenate([x, x[:, ::-1], x + 1, x[1:]]),
    "zeros around": lambda x: jnp.pad(x, ((1, 2), (0, 1))),
    "ones around": lambda x: jnp.pad(x, 1, constant_values=1),
    "zeros between": lambda x: tfn.lax.pad(x, 0.0, ((2, 1, 2), (0, 0, 0))),
    "as many zeros in front": lambda x: jnp.pad(x, ((x.shape[0], 0), (0, 0))),
    "from the end": lambda x: x[x.shape[0] - 3 :],
    "every other one": lambda x: jnp.repeat(x, 2, 0)[::2],
    "halves": lambda x: x[1::2].mean(0) - x[::2].mean(0) + x[x.shape[0] // 2],
    "quarters": lambda x: jnp.concatenate([x[1::4], x[::4]]),
    "the last": lambda x: x[-1],
    "rolled": lambda x: jnp.roll(x, 2, 0),
    "repeated": lambda x: jnp.tile(x[:, None], (1, 2, 1)).reshape(-1, 3),
    "empty": lambda x: x[:, :0].reshape(0, -1),
}  # fmt: skip


@together("name", FUNCTIONS)
def test_elements_are_where_they_are_at_the_true_size(name: str) -> None:
    f = FUNCTIONS[name]
    bucketed = tfn.jit(lambda x: (f(jnp.exp(x)), f(x)), buckets={"x": "n _"})
    for n in (6, 7, 11):
        x = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
        for found, at in zip(bucketed(x), (jnp.exp(x), jnp.asarray(x)), strict=True):
            np.testing.assert_allclose(found, f(at), rtol=1e-6, atol=1e-6)
    assert bucketed.cache_info().exact == 0


def test_groups_of_axes_hold_the_same_elements() -> None:
    b, t = symbolic_shape("b, t")
    assert axis_groups((b, 3, t), (3 * b, t)) == [([0, 1], [0]), ([2], [1])]
    assert axis_groups((b, 1, t), (t * b,)) == [([0, 2], [0])]
    assert axis_groups((b, t, 2), (b, 2 * t, 1)) == [([0], [0]), ([1, 2], [1])]
    assert axis_groups((), (1,)) == []
