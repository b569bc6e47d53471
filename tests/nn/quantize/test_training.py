"""Fake quantization: values of the quantized network, straight-through gradients, training."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.errors import DTypeError
from tfn.nn import quantize
from tfn.nn.quantize import Quantization, fake_quantize, fake_weights


def test_values_are_those_of_integers() -> None:
    x = random.normal(random.key(0), (200,)) * 3
    q = quantize.observe(x, percent=90).quantization(bits=4)
    assert (fake_quantize(x, q) == q.dequantize(q.quantize(x))).all().item()


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_pass_within_the_range(compiled: bool) -> None:
    q = Quantization(jnp.float32(0.5), jnp.int32(4), bits=4)  # from -6 to 1.5
    x = jnp.array([-6.5, -6.0, 0.3, 1.5, 1.7])

    def f(x: tfn.Array) -> tfn.Array:
        return (fake_quantize(x, q) * jnp.arange(1.0, 6.0)).sum()

    assert (tfn.jit(tfn.grad(f)) if compiled else tfn.grad(f))(x).tolist() == [0, 2, 3, 4, 0]
    batched = tfn.vmap(tfn.grad(lambda x: fake_quantize(x, q)))(x)
    assert batched.tolist() == [0, 1, 1, 1, 0]


def test_scales_have_no_gradient() -> None:
    slopes = tfn.grad(lambda scale: fake_quantize(0.3, Quantization(scale, jnp.int32(0))))(0.5)
    assert slopes.item() == 0


def test_weights_take_few_values() -> None:
    net = nn.MLP.init(random.key(1), (8, 16, 4))
    faked = fake_weights({"a": [net]}, bits=3)["a"][0]
    for weight in (x for x in tfn.tree.leaves(faked) if x.ndim == 2):
        for column in np.asarray(weight).T:
            assert len(np.unique(column)) <= 7
    assert tfn.tree.structure(faked) == tfn.tree.structure(net)


def test_training_with_two_bits_beats_conversion() -> None:
    """Weights of two bits: a network that was trained with them fits, a converted one does not."""
    x = random.normal(random.key(2), (256, 8))
    target = jnp.tanh(x @ random.normal(random.key(3), (8, 4)))
    net = nn.MLP.init(random.key(4), (8, 32, 4))

    def loss(net: nn.MLP, bits: int | None) -> tfn.Array:
        used = net if bits is None else fake_weights(net, bits)
        return ((used(x) - target) ** 2).mean()

    def train(net: nn.MLP, bits: int | None) -> nn.MLP:
        def step(net: nn.MLP, _: None) -> tuple[nn.MLP, None]:
            slopes = tfn.grad(loss)(net, bits)
            return tfn.tree.map(lambda p, g: p - 0.2 * g, net, slopes), None

        out: nn.MLP = tfn.jit(lambda net: tfn.lax.scan(step, net, None, length=400)[0])(net)
        return out

    floats = train(net, None)
    converted, trained = loss(floats, 2).item(), loss(train(floats, 2), 2).item()
    assert trained < 0.7 * converted  # 0.46, or 0.51 with vectors of 16 bytes


def test_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match="needs floats"):
        fake_quantize(jnp.arange(3), Quantization(jnp.float32(1), jnp.int32(0)))
