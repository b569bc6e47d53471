"""Loops of as many steps as a bucket has leave their carries in the tail."""

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


def recurrence(reverse: bool) -> Any:
    def f(x: Any) -> Any:
        step = lambda c, row: ((c[0] + 1, c[1] * 0.5 + row), c[1] - row.mean())
        return lax.scan(step, (0, jnp.zeros(3)), x, reverse=reverse)

    return f


FUNCTIONS: dict[str, Any] = {
    "scan": recurrence(False),
    "scan from the end": recurrence(True),
    "slopes of a scan": tfn.grad(lambda x: (recurrence(False)(x)[1] ** 2).sum()),
    "running totals": lambda x: jnp.cumsum(x, 0)[-1] + lax.cumsum(x, 0, reverse=True),
    "running products": lambda x: lax.cumprod(jnp.cos(x), 0, reverse=True),
    "running maxima": lambda x: lax.cummax(x, 0) + lax.cummin(x, 0, reverse=True),
    "associative": lambda x: lax.associative_scan(lambda a, b: a * 0.5 + b, x, axis=0),
    "for": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, jnp.zeros(3)),
    "while": lambda x: lax.while_loop(lambda c: c.max() < 9, lambda c: c + c.mean() + 1, abs(x)),
    "many whiles": tfn.vmap(
        lambda row: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1 + abs(row[0]), c[1] + 1),
                                   (0.0, 0))
    ),
    "branches": lambda x: lax.switch(x.shape[0] % 3, [lambda x: x.mean(0), lambda x: x.sum(0)], x)
    if x.shape[0] < 3
    else lax.cond(x.mean() > 0, lambda x: x.sum(0), lambda x: -x.max(0), x),
    "a scan over columns": lambda x: lax.scan(lambda c, col: (c + col.mean(), col - c), 0.0, x.T),
    "a map": lambda x: lax.map(lambda row: jnp.sort(row), x),
}  # fmt: skip


@together("name", FUNCTIONS)
def test_loops_are_those_of_the_true_size(name: str) -> None:
    f = FUNCTIONS[name]
    bucketed = tfn.jit(f, buckets=("n _",))
    for n in (5, 7):
        x = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
        found, expected = map(tfn.tree.leaves, (bucketed(x), f(jnp.asarray(x))))
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
    assert bucketed.cache_info().exact == 0


def test_functions_of_the_host_are_not_called_for_the_tail() -> None:
    row = tfn.ShapeDtypeStruct((3,), "float32")
    f = lambda x: lax.map(lambda row_: tfn.pure_callback(np.sort, row, row_), x)
    with pytest.raises(ShapeError, match="calls a function of the host in each step"):
        tfn.jit(f, buckets={"x": "n _"})(np.ones((5, 3), np.float32))
