"""The frame of masking: true sizes as scalars, and errors that name the operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn import numpy as jnp
from tfn.errors import ShapeError


def text(f: Any, *args: object) -> str:
    return str(tfn.jit(f, buckets={"x": "n ..."}).lower(*args).as_text())


def test_a_tail_of_zeros_is_not_masked_again() -> None:
    x = np.ones((5, 3), np.float32)
    assert "select" not in text(lambda x: (x - x.T.T).sum(), x)
    assert "select" in text(lambda x: (x + 1).sum(), x)
    assert "select" not in text(lambda x: jnp.exp(x), x)


def test_functions_within_take_the_sizes_they_use() -> None:
    def f(x: Any, chosen: Any) -> Any:
        return lax.cond(chosen, lambda x: x.mean(0), lambda x: x[0], x)

    x = np.arange(15.0).reshape(5, 3)
    bucketed = tfn.jit(f, buckets={"x": "n _"})
    np.testing.assert_allclose(bucketed(x, True), x.mean(0))
    np.testing.assert_allclose(bucketed(x, False), x[0])


def test_a_refusal_names_the_operation_its_operands_and_its_line() -> None:
    with pytest.raises(ShapeError) as caught:
        tfn.jit(lambda x: jnp.fft.fft(x), buckets={"x": "n"})(np.ones(5, np.float32))
    message = str(caught.value)
    assert "<lambda> cannot be padded to a bucket: fft transforms a padded axis" in message
    assert "fft of complex64[n], test_scope.py:" in message
