"""Layers of JAX's examples: shapes, training, and sums over branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.compat import optimizers, stax
from tfn.errors import ArgumentError


def layer_of(layer: Any, shape: Any, seed: int = 0, **options: Any) -> tuple[Any, Any, Any]:
    """The shape that a layer says, its parameters, and its result on random inputs."""
    init, apply = layer
    said, params = init(tfn.random.key(seed), (-1, *shape[1:]))
    x = tfn.random.normal(tfn.random.key(seed + 1), shape)
    y = apply(params, x, **options)
    assert tuple(said[1:]) == y.shape[1:], (said, y.shape)
    return params, x, y


LAYERS: dict[str, tuple[Any, Any]] = {
    "Dense": (stax.Dense(3), (2, 5)),
    "Conv": (stax.Conv(4, (3, 3), (2, 2), padding="SAME"), (2, 9, 8, 3)),
    "GeneralConv": (stax.GeneralConv(("NCH", "OIH", "NCH"), 4, (3,)), (2, 3, 9)),
    "ConvTranspose": (stax.ConvTranspose(4, (3, 3), (2, 2)), (2, 4, 5, 3)),
    "Conv1DTranspose": (stax.Conv1DTranspose(4, (3,), padding="SAME"), (2, 4, 3)),
    "BatchNorm": (stax.BatchNorm(), (2, 4, 5, 3)),
    "MaxPool": (stax.MaxPool((2, 2), strides=(2, 2)), (2, 6, 8, 3)),
    "SumPool": (stax.SumPool((2, 2), spec="NCHW"), (2, 3, 6, 8)),
    "AvgPool": (stax.AvgPool((3, 3), padding="SAME"), (2, 6, 8, 3)),
    "Flatten": (stax.Flatten, (2, 3, 4)),
    "Identity": (stax.Identity, (2, 3)),
    "Softmax": (stax.Softmax, (2, 3)),
    "LogSoftmax": (stax.LogSoftmax, (2, 3)),
    **{name: (getattr(stax, name), (2, 3)) for name in
       ("Relu", "Tanh", "Exp", "Softplus", "Sigmoid", "Elu", "LeakyRelu", "Selu", "Gelu")},
    "shape_dependent": (stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])), (2, 3)),
    "residual": (stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity),
                             stax.FanInSum), (2, 3)),
    "joined": (stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(4), stax.Identity),
                           stax.FanInConcat(-1)), (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", in_turn(2, LAYERS))
def test_layers_say_the_shape_that_they_give(name: str) -> None:
    layer_of(*LAYERS[name])


def test_means_over_windows_count_what_is_there() -> None:
    _, apply = stax.AvgPool((3, 3), padding="SAME")
    np.testing.assert_allclose(apply((), tnp.ones((1, 4, 5, 2))), 1.0, rtol=1e-6)


def test_dropout_needs_a_key() -> None:
    _, apply = stax.Dropout(0.5)
    x = tnp.ones((1000,))
    y = apply((), x, rng=tfn.random.key(0))
    assert {*np.asarray(y).tolist()} == {0.0, 2.0} and 400 < int((y > 0).sum()) < 600
    with pytest.raises(ArgumentError, match="needs a random key"):
        apply((), x)


def test_a_network_learns() -> None:
    init, apply = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(1))
    _, params = init(tfn.random.key(3), (-1, 2))
    x = tfn.random.normal(tfn.random.key(1), (64, 2))
    target = (x[:, :1] * x[:, 1:]) + 1
    loss = lambda params: ((apply(params, x) - target) ** 2).mean()
    start, update, get_params = optimizers.adam(0.02)
    step = tfn.jit(lambda i, state: update(i, tfn.grad(loss)(get_params(state)), state))
    state = start(params)
    for i in range(150):
        state = step(i, state)
    assert float(loss(get_params(state))) < 0.2 * float(loss(params))
