"""Integer layers: exact sums, agreement with floats, and the same bits on devices and in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.exporting.building import COMPILERS, in_c, needs_cc
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError, DTypeError
from tfn.nn import quantize
from tfn.nn.convolution import Steps
from tfn.nn.quantize import Quantization, Requantization
from tfn.trace.uop import walk

KEY = random.key(0)


def int8(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (17, 300, 33), (64, 64, 64)])
def test_products_are_exact(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = int8(1, m, k), int8(2, k, n)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    got = quantize.matmul(jnp.asarray(a), jnp.asarray(b))
    assert got.dtype == np.int32
    assert (np.asarray(got) == expected).all()
    assert (np.asarray(tfn.jit(quantize.matmul)(a, b)) == expected).all()


def test_extreme_products_fit() -> None:
    a = jnp.full((1, quantize.layers.MAX_PRODUCTS), -128, "int8")
    assert quantize.matmul(a, a.T).item() == quantize.layers.MAX_PRODUCTS * 2**14
    with pytest.raises(ArgumentError, match="might not fit"):
        more = jnp.zeros((1, quantize.layers.MAX_PRODUCTS + 1), "int8")
        quantize.matmul(more, more.T)


@pytest.mark.parametrize(
    "steps",
    [
        Steps((1, 1), "SAME", (1, 1), 1),
        Steps((2, 1), "VALID", (1, 2), 2),
        Steps((2, 2), ((1, 0), (2, 3)), (1, 1), 1),
    ],
)
def test_convolutions_pad_with_the_zero_point(steps: Steps) -> None:
    x, w, zero = int8(3, 2, 9, 8, 4), int8(4, 3, 2, 4 // steps.groups, 6), 11
    expected = tfn.lax.conv_general_dilated(
        x.astype(np.int32) - zero,
        w.astype(np.int32),
        steps.strides,
        steps.padding,
        rhs_dilation=steps.dilation,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=steps.groups,
    )
    got = quantize.conv(jnp.asarray(x), jnp.asarray(w), steps, zero_point=zero)
    shifts = zero * w.astype(np.int32).reshape(-1, 6).sum(0)
    assert (np.asarray(got) - shifts == np.asarray(expected)).all()


def test_layers_agree_with_floats() -> None:
    layer = nn.Linear.init(KEY, 40, 16)
    layer = nn.tree_at(lambda t: t.bias, layer, random.normal(random.key(3), (16,)))
    x = random.uniform(random.key(1), (50, 40), minval=-0.5, maxval=2.0)
    y = nn.relu(layer(x))
    from_, to = quantize.observe(x).quantization(), quantize.observe(y).quantization()
    made = quantize.Linear.of(layer, from_, to, relu=True)
    error = abs(to.dequantize(made(from_.quantize(x))) - y).max().item()
    assert error < 4 * to.scale.item()
    sums = quantize.Linear.of(layer, from_, None)(from_.quantize(x))
    assert sums.dtype == np.int32
    assert (sums.argmax(-1) == layer(x).argmax(-1)).mean().item() > 0.9


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_convolutions_agree_with_floats(kind: Any) -> None:
    rank = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}[kind]
    layer = kind.init(KEY, 4, 8, 3, padding="SAME", strides=2)
    x = random.uniform(random.key(1), (2, *(6,) * rank, 4), minval=-1.0, maxval=3.0)
    y = layer(x)
    from_, to = quantize.observe(x).quantization(), quantize.observe(y).quantization()
    made = quantize.Conv.of(layer, from_, to)
    error = abs(to.dequantize(made(from_.quantize(x))) - y).max().item()
    assert error < 4 * to.scale.item()


def network(seed: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """Two integer layers with pooling, and images for them."""
    keys = random.split(random.key(seed), 2)
    x = Quantization(jnp.float32(1 / 255), jnp.int32(-128))
    y = Quantization(jnp.float32(0.02), jnp.int32(-100))
    first = quantize.Conv.of(nn.Conv2d.init(keys[0], 3, 8, 3), x, y, relu=True)
    second = quantize.Linear.of(nn.Linear.init(keys[1], 128, 10), y, None)
    return (first, second), int8(seed, 5, 8, 8, 3)


def run(layers: Any, x: tfn.Array) -> tuple[tfn.Array, tfn.Array]:
    """Values in the middle, and sums at the end."""
    middle = nn.max_pool(layers[0](x), 2)
    return middle, layers[1](middle.reshape(x.shape[0], -1))


def test_devices_agree_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, images = network(5)
    compiled = [np.asarray(y) for y in tfn.jit(run)(layers, images)]
    eager = [np.asarray(y) for y in run(layers, jnp.asarray(images))]
    monkeypatch.setattr(config, "device", "python")
    reference = [np.asarray(y) for y in tfn.jit(run)(layers, images)]
    for one, two, three in zip(compiled, eager, reference, strict=True):
        assert (one == three).all()
        assert (two == three).all()
    assert len(np.unique(compiled[0])) > 20


@needs_cc
def test_exported_c_agrees_bit_by_bit(tmp_path: Path) -> None:
    layers, images = network(6)
    expected = tfn.jit(run)(layers, images)
    got = in_c(run, layers, images, folder=tmp_path, compiler=COMPILERS[:1])
    for one, two in zip(got, expected, strict=True):
        assert (one == np.asarray(two)).all()


def test_programs_hold_no_floats() -> None:
    layers, images = network(7)
    jaxpr = tfn.jit(run).trace(layers, images).jaxpr
    nodes = list(walk(jaxpr.outputs))
    assert len(nodes) > 20
    assert {u.dtype.kind for u in nodes if not isinstance(u.dtype, tuple)} <= set("iub")


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError, match="needs int8"):
        quantize.matmul(jnp.ones((2, 2)), jnp.ones((2, 2), "int8"))


def test_one_scale_for_inputs() -> None:
    x = Quantization(jnp.ones(3), jnp.zeros(3, "int32"), axis=-1)
    with pytest.raises(ArgumentError, match="one scale"):
        quantize.Linear.of(nn.Linear.init(KEY, 3, 2), x, None)


def test_layers_are_trees_of_integers() -> None:
    made = quantize.Linear.of(
        nn.Linear.init(KEY, 3, 2, use_bias=False), quantize.per_tensor(-1.0, 1.0), None
    )
    assert [x.dtype.name for x in tfn.tree.leaves(made)] == ["int8", "int32"]
    assert isinstance(network(1)[0][0].requantization, Requantization)


def test_a_layer_may_have_one_scale_for_all_outputs() -> None:
    layer = nn.Linear.init(random.key(0), 32, 8)
    x = random.normal(random.key(1), (64, 32))
    places = quantize.observe(x).quantization(), quantize.observe(layer(x)).quantization()
    each, one = (quantize.Linear.of(layer, *places, per_channel=p) for p in (True, False))
    assert each.requantization.multiplier.shape == (8,)  # type: ignore[union-attr]
    assert one.requantization.multiplier.shape == ()  # type: ignore[union-attr]
    for quantized in (each, one):
        found = places[1].dequantize(quantized(places[0].quantize(x)))
        assert float(abs(found - layer(x)).max()) < 0.08
