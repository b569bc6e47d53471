"""The names for what extends tfn: a device made with them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tfn
from tests import toy_grid
from tfn import extend, lax
from tfn import numpy as jnp

MAX_NAMES = 100
"""Names of `tfn.extend`: each is a promise.  The last are for tables of launches and for slopes."""


def test_the_names_are_few_and_documented() -> None:
    names = [name for name in dir(extend) if name[0].isalpha()]
    assert len(names) <= MAX_NAMES
    doc = extend.__doc__ or ""
    assert not [name for name in names if f"`{name}`" not in doc]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The device of two rows: its maker and its language."""
    monkeypatch.setitem(extend.MAKERS, "toy", toy_grid.device)
    monkeypatch.setitem(extend.LANGUAGES, "toy", toy_grid.language)
    before = tfn.config.device
    tfn.config.device = "toy"
    yield
    tfn.config.device = before


X = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
# fmt: off
PROGRAMS: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "elements": (lambda x: jnp.exp(x) * 2, lambda x: np.exp(x) * 2),
    "sums": (lambda x: x.sum(1), lambda x: x.sum(1)),
    "softmax": (tfn.nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "product": (lambda x: x @ x.T, lambda x: x @ x.T),
    "sort": (lambda x: jnp.sort(-x, 1), lambda x: np.sort(-x, 1)),
    "prefix sums": (lambda x: jnp.cumsum(x, 0), lambda x: np.cumsum(x, 0)),
    "gradient": (tfn.grad(lambda x: lax.tanh(x).sum()), lambda x: 1 - np.tanh(x) ** 2),
}
# fmt: on


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_grid_from_outside_runs_programs(name: str, toy: None) -> None:
    function, expected = PROGRAMS[name]
    got = np.asarray(tfn.jit(function)(X))
    np.testing.assert_allclose(got, expected(X), rtol=2e-6, atol=1e-6)
