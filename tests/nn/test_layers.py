"""Layers: what they compute, and that they are pytrees of their parameters."""

import dataclasses

import numpy as np
import pytest

import tfn
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError

KEY = random.key(0)


def normal(*shape: int) -> np.ndarray:
    return np.asarray(random.normal(random.key(9), shape))


def test_linear() -> None:
    layer = nn.Linear.init(KEY, 3, 4)
    x = normal(2, 5, 3)
    np.testing.assert_allclose(layer(x), x @ np.asarray(layer.weight), rtol=1e-5, atol=1e-6)
    assert layer.bias is not None
    assert layer.bias.tolist() == [0] * 4
    bare = nn.Linear.init(KEY, 3, 4, use_bias=False, weight_init=nn.initializers.ones)
    assert len(tree.leaves(bare)) == 1
    np.testing.assert_allclose(bare(x)[..., 0], x.sum(-1), rtol=1e-5, atol=1e-6)
    half = nn.Linear.init(KEY, 3, 4, dtype="bfloat16")
    assert half.weight.dtype == jnp.bfloat16


def test_conv2d() -> None:
    x = normal(2, 8, 9, 4)
    layer = nn.Conv2d.init(KEY, 4, 6, (3, 2), strides=2, padding="VALID", groups=2)
    assert layer.weight.shape == (3, 2, 2, 6)
    expected = tfn.lax.conv_general_dilated(
        x, layer.weight, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=2,
    )  # fmt: skip
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5)
    padded = nn.Conv2d.init(KEY, 4, 6, 3, padding=[(1, 2), (0, 0)], dilation=2)
    assert padded(x).shape == (2, 7, 5, 6)
    with pytest.raises(ArgumentError, match="groups must divide"):
        nn.Conv2d.init(KEY, 4, 6, 3, groups=4)


def test_pools() -> None:
    x = normal(2, 4, 6, 3)
    blocks = x.reshape(2, 2, 2, 3, 2, 3)
    np.testing.assert_array_equal(nn.max_pool(x, 2), blocks.max((2, 4)))
    np.testing.assert_allclose(nn.avg_pool(x, 2), blocks.mean((2, 4)), rtol=1e-5, atol=1e-6)
    assert nn.max_pool(x, (3, 2), 1).shape == (2, 2, 5, 3)
    ones = np.ones((1, 3, 3, 1), np.float32)
    np.testing.assert_array_equal(nn.avg_pool(ones, 2, 1, "SAME"), ones)
    corner = nn.avg_pool(ones, 2, 1, "SAME", count_include_pad=True)[0, 2, 2, 0]
    assert corner.item() == 0.25


def test_gradient_of_max_pool_goes_to_the_largest() -> None:
    x = jnp.asarray(np.array([[1, 2], [4, 3]], np.float32).reshape(1, 2, 2, 1))
    slope = tfn.grad(lambda x: nn.max_pool(x, 2).sum())(x)
    np.testing.assert_array_equal(slope[0, :, :, 0], [[0, 0], [1, 0]])


def test_dropout() -> None:
    x = np.ones((100, 100), np.float32)
    layer = nn.Dropout(0.25)
    y = np.asarray(layer(x, key=KEY))
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(layer(x, key=KEY), y)
    np.testing.assert_array_equal(layer(x, inference=True), x)
    np.testing.assert_array_equal(nn.Dropout(0.25, inference=True)(x), x)
    np.testing.assert_array_equal(nn.Dropout(0.0)(x), x)
    np.testing.assert_array_equal(nn.Dropout(1.0)(x, key=KEY), 0 * x)
    with pytest.raises(ArgumentError, match="needs a key"):
        layer(x)
    assert tree.leaves(layer) == []


def test_norms() -> None:
    x = normal(3, 5) * 4 + 2
    y = np.asarray(nn.LayerNorm.init(5)(x))
    np.testing.assert_allclose(y.mean(-1), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(y.std(-1), np.ones(3), rtol=1e-3)
    assert tree.leaves(nn.LayerNorm.init(5, use_weight=False, use_bias=False)) == []
    y = np.asarray(nn.RMSNorm.init(5)(x))
    np.testing.assert_allclose((y * y).mean(-1), np.ones(3), rtol=1e-4)


def test_embedding_and_its_gradient() -> None:
    layer = nn.Embedding.init(KEY, 6, 3)
    ids = np.array([[1, 1], [5, 0]])
    np.testing.assert_array_equal(layer(ids), np.asarray(layer.weight)[ids])
    slope = tfn.grad(lambda layer: layer(jnp.asarray(ids)).sum())(layer)
    assert isinstance(slope, nn.Embedding)
    np.testing.assert_array_equal(slope.weight[:, 0], [1, 2, 0, 0, 0, 1])


def test_mlp() -> None:
    model = nn.MLP.init(KEY, (4, 8, 8, 2), activation=nn.tanh)
    x = normal(3, 4)
    h = x
    for layer in model.layers[:-1]:
        h = np.tanh(h @ np.asarray(layer.weight))
    np.testing.assert_allclose(
        model(x), h @ np.asarray(model.layers[-1].weight), rtol=1e-4, atol=1e-5
    )
    assert not np.array_equal(model.layers[0].weight[:4, :4], model.layers[1].weight[:4, :4])
    with pytest.raises(ArgumentError, match="sizes"):
        nn.MLP.init(KEY, (4,))


def test_layers_are_immutable_pytrees() -> None:
    layer = nn.Conv2d.init(KEY, 1, 2, 3, strides=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.weight = None  # type: ignore[misc,assignment]
    doubled = tree.map(lambda leaf: 2 * leaf, layer)
    assert isinstance(doubled, nn.Conv2d)
    assert doubled.steps.strides == (2, 2)
    np.testing.assert_array_equal(doubled.weight, 2 * layer.weight)


def test_layers_go_through_transforms() -> None:
    model = nn.MLP.init(KEY, (4, 8, 2))
    x = jnp.asarray(normal(3, 4))
    loss = lambda model, x: (model(x) ** 2).sum()
    slopes = tfn.jit(tfn.grad(loss))(model, x)
    assert tree.structure(slopes) == tree.structure(model)
    each = tfn.vmap(tfn.grad(loss), in_axes=(None, 0))(model, x)
    for whole, part in zip(tree.leaves(slopes), tree.leaves(each), strict=True):
        np.testing.assert_allclose(np.asarray(part).sum(0), whole, rtol=1e-3, atol=1e-5)
    models = tfn.vmap(lambda key: nn.MLP.init(key, (4, 8, 2)))(random.split(KEY, 5))
    assert tfn.vmap(lambda model: model(x))(models).shape == (5, 3, 2)
