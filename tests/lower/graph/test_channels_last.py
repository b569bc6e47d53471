"""Images between convolutions stay in the order of these: no permutation is left between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tfn
from tests.lower.graphs import assert_close, inputs, ops, p, run_oracle
from tfn import lax
from tfn import numpy as jnp
from tfn.dtypes import BOOL, FLOAT32, INT32
from tfn.lower.graph.channels_last import channels_last
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _conv(x: UOp, w: UOp) -> UOp:
    return build.conv(x, w, Conv((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1, FLOAT32))


def _by_channels(x: UOp, w: UOp) -> UOp:
    """A convolution of an image with channels first."""
    return build.permute(_conv(build.permute(x, LAST), w), FIRST)


def _bias(x: UOp) -> UOp:
    return x + build.expand(build.reshape(p(3, x.shape[1]), (1, x.shape[1], 1, 1)), x.shape)


def _border(x: UOp) -> UOp:
    inside = build.pad(build.full_like(build.cast(x, BOOL), 1), (0, 0, 1, 0), (0, 0, 2, 1))
    padded = build.pad(x, (0, 0, 1, 0), (0, 0, 2, 1))
    return build.where(inside, padded, build.full_like(padded, -1.0))


BETWEEN: dict[str, Callable[[UOp], UOp]] = {
    "bias": _bias,
    "relu": lambda x: build.maximum(x, build.full_like(x, 0)),
    "rounded": lambda x: build.cast(build.cast(x, INT32), FLOAT32),
    "border": _border,
    "slices": lambda x: build.shrink(x, (0, 1, 0, 1), x.shape, (1, 1, 2, 1)),
    "flipped": lambda x: build.flip(x, (1, 3)),
    "joined": lambda x: build.concat([x, _bias(x)], 1),
    "positions": lambda x: x * build.expand(p(3, 1, 1, *x.shape[2:]), x.shape),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_between_two_convolutions_nothing_is_permuted(name: str) -> None:
    x = BETWEEN[name](_by_channels(p(0, 2, 3, 8, 7), p(1, 2, 3, 3, 5)))
    u = _by_channels(x, p(2, 3, 2, x.shape[1], 4))
    (rewritten,) = channels_last([u])
    assert [v.arg for v in ops([u], Op.PERMUTE)] == [LAST, FIRST, LAST, FIRST]
    assert [v.arg for v in ops([rewritten], Op.PERMUTE)] == [LAST, FIRST]
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)


def test_a_residual_is_moved_with_what_it_is_added_to() -> None:
    x = _bias(_by_channels(p(0, 2, 5, 8, 7), p(1, 1, 1, 5, 5)))
    u = _by_channels(x + _by_channels(x, p(2, 1, 1, 5, 5)), p(4, 1, 1, 5, 5))
    (rewritten,) = channels_last([u, x])[:1]
    assert len(ops([u], Op.PERMUTE)) == 6 and len(ops([rewritten], Op.PERMUTE)) == 2
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)


def test_a_whole_array_with_channels_first_is_not_copied() -> None:
    """Neither an image that is added between convolutions, nor one with the batch last."""
    x = _by_channels(p(0, 2, 5, 8, 7), p(1, 1, 1, 5, 5)) + p(2, 2, 5, 8, 7)
    u = _by_channels(x, p(3, 1, 1, 5, 5))
    assert channels_last([u]) == [u]
    batch_last = _conv(build.permute(_bias(p(0, 8, 7, 5, 2)), (3, 0, 1, 2)), p(1, 1, 1, 5, 5))
    assert channels_last([batch_last]) == [batch_last]


def test_gradients_of_a_network_with_channels_first() -> None:
    """They are those of the same network with channels last."""

    def loss(params: tuple[tfn.Array, ...], x: tfn.Array, order: str) -> tfn.Array:
        numbers = (order, "HWIO", order)
        for w in params:
            x = jnp.tanh(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers))
        return (x * x).sum()

    r = np.random.default_rng(0)
    x, *params = (
        jnp.asarray(r.standard_normal(shape).astype("float32"))
        for shape in ((2, 6, 5, 3), (3, 3, 3, 4), (3, 3, 4, 2))
    )
    slope = tfn.jit(tfn.grad(loss), static_argnums=2)
    first = slope(tuple(params), jnp.moveaxis(x, 3, 1), "NCHW")
    for a, b in zip(first, slope(tuple(params), x, "NHWC"), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-4, 1e-5)
