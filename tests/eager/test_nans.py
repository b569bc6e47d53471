"""`config.debug_nans`: the operation and the line that made the first NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn import numpy as tnp
from tfn.config import config
from tfn.errors import NanError

X = np.float32([-1, 2])


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(config, "debug_nans", True)
    yield
    monkeypatch.undo()
    assert not config.debug_nans


def loss(x: Any) -> Any:
    y = x * 2
    z = tnp.log(y)
    return (z * z).sum()


@pytest.mark.parametrize("f", [loss, tfn.jit(loss), tfn.grad(loss), tfn.jit(tfn.grad(loss))])
def test_the_line_and_the_operation(f: Any) -> None:
    with pytest.raises(FloatingPointError, match=r"log\n  at: test_nans.py.*z = tnp.log\(y\)"):
        f(X)
    assert np.isfinite(f(X * X)).all()


def test_inside_of_loops() -> None:
    def step(c: Any, x: Any) -> Any:
        return tnp.sqrt(c - x), c

    with pytest.raises(NanError, match=r"sqrt\n  at: .*return tnp.sqrt"):
        tfn.jit(lambda xs: lax.scan(step, 1.0, xs)[0])(np.float32([1, 2, 3]))


def test_each_operation_outside_of_programs() -> None:
    x = tnp.asarray(X)
    with pytest.raises(NanError, match=r"sqrt\n  at: .*tnp.sqrt"):
        tnp.sqrt(x)
    assert tnp.sqrt(abs(x)).shape == (2,)


def test_a_nan_that_came_in() -> None:
    with pytest.raises(NanError, match="came in"):
        tfn.jit(lambda x: x.reshape(2, 1))(np.float32([np.nan, 1]))


def test_functions_compiled_before_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tfn.jit(loss)
    config.debug_nans = False
    assert np.isnan(run(X)) and np.isnan(run(X))
    config.debug_nans = True
    with pytest.raises(NanError, match="log"):
        run(X)
    config.debug_nans = False
    assert np.isnan(run(X))
