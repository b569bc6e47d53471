"""Layers: what they compute, and that they are pytrees of their parameters."""

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


def test_sequential() -> None:
    first, second = nn.Linear.init(KEY, 3, 4), nn.Linear.init(KEY, 4, 2)
    model = nn.Sequential.init(first, nn.tanh, nn.Sequential.init(second, nn.softmax))
    x = jnp.asarray(normal(5, 3))
    np.testing.assert_allclose(model(x), nn.softmax(second(nn.tanh(first(x)))), rtol=1e-5)
    assert len(tree.leaves(model)) == 4
    slopes = tfn.jit(tfn.grad(lambda model: model(x)[:, 0].sum()))(model)
    assert tree.structure(slopes) == tree.structure(model)
    assert repr(nn.Sequential.init(nn.relu)) == "Sequential(layers=(Lambda(function=relu),))"
    assert nn.Sequential.init()(x) is x


def test_drop_path_drops_whole_examples():
    x = jnp.ones((1000, 2, 3))
    y = np.asarray(nn.DropPath(0.25)(x, key=random.key(0))).reshape(1000, 6)
    assert (y == y[:, :1]).all() and set(np.unique(y)) == {0, np.float32(1 / 0.75)}
    assert abs((y[:, 0] == 0).mean() - 0.25) < 0.05
    assert nn.DropPath(0.5, True)(x) is x and nn.DropPath(0.0)(x) is x
    assert not nn.DropPath(1.0)(x, key=random.key(0)).any()
    single = tfn.vmap(lambda x, key: nn.DropPath(0.5)(x, key=key))
    assert single(jnp.ones(8), random.split(random.key(1), 8)).shape == (8,)
    with pytest.raises(ArgumentError, match="drop path needs a key"):
        nn.DropPath(0.5)(x)


def test_a_sequence_passes_keys_and_options_to_the_layers_that_take_them():
    drop = nn.Dropout(0.5)
    model = nn.Sequential.init(drop, jnp.sin, nn.Sequential.init(drop, nn.DropPath(0.5)), jnp.cos)
    x = jnp.ones((64, 4))
    one, same, other = (model(x, key=random.key(seed)) for seed in (0, 0, 1))
    assert (one == same).all() and not (one == other).all()
    want = jnp.cos(jnp.sin(x))
    np.testing.assert_allclose(model(x, inference=True), want, rtol=1e-6)
    np.testing.assert_allclose(model(x, key=random.key(0), inference=True), want, rtol=1e-6)
    plain = nn.Sequential.init(jnp.sin)
    assert plain(x, key=random.key(0), inference=True).shape == x.shape
    assert nn.Sequential.init()(3, key=random.key(0)) == 3
    with pytest.raises(ArgumentError, match="no layer of this Sequential") as caught:
        model(x, inferense=True)
    assert "inference" in caught.value.hint
    with pytest.raises(ArgumentError, match="dropout needs a key"):
        model(x)
