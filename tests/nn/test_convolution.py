"""Convolutions: against loops in NumPy, values of PyTorch, and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.waves import agrees, wave
from tfn import nn, random
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.nn.convolution import Steps

KEY = random.key(0)


def slow(x: np.ndarray, w: np.ndarray, stride: int, dilation: int, groups: int) -> np.ndarray:
    """A convolution of sequences without padding, as it is defined."""
    n, width, _ = x.shape
    k, channels, outputs = w.shape
    places = (width - (k - 1) * dilation - 1) // stride + 1
    y = np.zeros((n, places, outputs))
    for o in range(outputs):
        first = o // (outputs // groups) * channels
        for i in range(places):
            for j in range(k):
                seen = x[:, i * stride + j * dilation, first : first + channels]
                y[:, i, o] += seen @ w[j, :, o]
    return y


@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (3, 2, 1)])
def test_conv1d(stride: int, dilation: int, groups: int) -> None:
    layer = nn.Conv1d.init(
        KEY, 4, 6, 3, strides=stride, dilation=dilation, groups=groups, padding="VALID"
    )
    x = wave(2, 11, 4)
    expected = slow(np.asarray(x), np.asarray(layer.weight), stride, dilation, groups)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_conv2d() -> None:
    x = wave(2, 8, 9, 4)
    layer = nn.Conv2d.init(KEY, 4, 6, (3, 2), strides=2, padding="VALID", groups=2)
    assert layer.weight.shape == (3, 2, 2, 6)
    assert layer.steps == Steps((2, 2), "VALID", (1, 1), 2)
    expected = tfn.lax.conv_general_dilated(
        x,
        layer.weight,
        (2, 2),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=2,
    )
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5)
    padded = nn.Conv2d.init(KEY, 4, 6, 3, padding=[(1, 2), (0, 0)], dilation=2)
    assert padded(x).shape == (2, 7, 5, 6)
    assert nn.Conv2d.init(KEY, 4, 6, 3, use_bias=False, dtype="bfloat16").bias is None


def test_conv3d() -> None:
    weight = wave(3, 2, 2, 2, 2, start=5).transpose(2, 3, 4, 1, 0)
    layer = nn.Conv3d(weight, None, Steps((1, 2, 1), "VALID", (1, 1, 1), 1))
    y = layer(wave(1, 2, 3, 4, 5).transpose(0, 2, 3, 4, 1))
    agrees(
        y.transpose(0, 4, 1, 2, 3),
        [
            -2.20553,
            -2.2947,
            -1.30463,
            0.29903,
            -2.28262,
            -1.2706,
            0.339,
            1.78917,
            -1.23621,
        ],
    )


def test_transposed_against_torch() -> None:
    # Weights of PyTorch are (inputs, outputs, window), and its window is flipped.
    weight = wave(2, 3, 3, start=5).transpose(2, 0, 1)[::-1]
    x = wave(1, 2, 4).transpose(0, 2, 1)
    layer = nn.ConvTranspose1d(weight, None, Steps((2,), ((1, 1),), (1,), 1))
    y = layer(x).transpose(0, 2, 1)
    assert y.shape == (1, 3, 7)
    agrees(y, [-0.29469, -0.42544, -0.2529, -0.3157, -0.09217, -0.05748, 0.11191, 0.01126])
    whole = nn.ConvTranspose1d(weight, None, Steps((2,), "VALID", (1,), 1))(x)
    agrees(whole.transpose(0, 2, 1), [-0.12277, -0.29469, -0.42544, -0.2529, -0.3157, -0.09217])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_transposed_one_is_the_adjoint(rank: int, padding: str) -> None:
    """<y, conv x> = <transposed y, x>, if the weights are turned around."""
    kinds: Any = {
        1: (nn.Conv1d, nn.ConvTranspose1d),
        2: (nn.Conv2d, nn.ConvTranspose2d),
        3: (nn.Conv3d, nn.ConvTranspose3d),
    }
    conv, transposed = kinds[rank]
    forth = conv.init(KEY, 3, 2, 3, strides=2, padding=padding, use_bias=False)
    turned = jnp.flip(forth.weight, tuple(range(rank))).swapaxes(-1, -2)
    sizes = (7,) * rank if padding == "VALID" else (6,) * rank
    x = wave(2, *sizes, 3)
    there = forth(x)
    back = transposed(turned, None, forth.steps)(wave(*there.shape, start=3))
    assert back.shape == x.shape
    np.testing.assert_allclose(
        (wave(*there.shape, start=3) * there).sum(), (back * x).sum(), rtol=2e-4, atol=1e-4
    )


def test_wrong_arguments_raise() -> None:
    with pytest.raises(ArgumentError, match="groups must divide"):
        nn.Conv2d.init(KEY, 4, 6, 3, groups=4)
    with pytest.raises(ArgumentError, match="has no groups"):
        nn.ConvTranspose2d.init(KEY, 4, 6, 3, groups=2)
    with pytest.raises(ArgumentError, match="2 of them"):
        nn.Conv2d.init(KEY, 4, 6, (3, 3, 3))


def test_transforms() -> None:
    layer = nn.Conv2d.init(KEY, 2, 3, 3)
    x = wave(2, 5, 5, 2)
    slope = tfn.jit(tfn.grad(lambda layer: (layer(x) ** 2).sum()))(layer)
    step = 1e-2
    for at in [(0, 0, 0, 0), (1, 2, 1, 2)]:
        up, down = (
            nn.tree_at(lambda m: m.weight, layer, layer.weight.at[at].add(d)) for d in (step, -step)
        )
        numeric = ((up(x) ** 2).sum() - (down(x) ** 2).sum()) / (2 * step)
        np.testing.assert_allclose(slope.weight[at], numeric, rtol=1e-2)
    each = tfn.vmap(lambda x: layer(x[None])[0])(x)
    np.testing.assert_allclose(each, layer(x), rtol=1e-5, atol=1e-5)
    half = nn.cast(layer, "bfloat16")(x.astype("bfloat16"))
    np.testing.assert_allclose(half.astype("float32"), layer(x), rtol=0.05, atol=0.05)
