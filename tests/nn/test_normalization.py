"""Norms: their statistics, values of PyTorch, and the state of BatchNorm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.waves import agrees, wave
from tfn import nn, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError, ShapeError

IMAGES = wave(2, 6, 3, 3).transpose(0, 2, 3, 1)


def test_layer_and_rms() -> None:
    x = wave(3, 5) * 4 + 2
    y = np.asarray(nn.LayerNorm.init(5)(x))
    np.testing.assert_allclose(y.mean(-1), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(y.std(-1), np.ones(3), rtol=1e-3)
    assert tree.leaves(nn.LayerNorm.init(5, use_weight=False, use_bias=False)) == []
    y = np.asarray(nn.RMSNorm.init(5)(x))
    np.testing.assert_allclose((y * y).mean(-1), np.ones(3), rtol=1e-4)
    scaled = nn.LayerNorm(jnp.full((5,), 2.0), jnp.ones(5))(x)
    np.testing.assert_allclose(scaled, 2 * np.asarray(nn.LayerNorm.init(5)(x)) + 1, rtol=1e-5)


def test_group() -> None:
    y = nn.GroupNorm.init(3, 6)(IMAGES)
    agrees(
        y.transpose(0, 3, 1, 2),
        [
            0.00126,
            0.91335,
            1.39648,
            1.22341,
            0.47554,
            -0.49538,
            -1.23273,
            -1.38971,
            -0.8925,
        ],
    )
    one = nn.GroupNorm.init(1, 6)(IMAGES[:, 0, 0])
    np.testing.assert_allclose(one, nn.LayerNorm.init(6)(IMAGES[:, 0, 0]), rtol=1e-5, atol=1e-5)
    with pytest.raises(ArgumentError, match="divide"):
        nn.GroupNorm.init(4, 6)


def test_batch() -> None:
    norm, state = nn.BatchNorm.init(6)
    y, state = norm(IMAGES, state)
    agrees(
        y.transpose(0, 3, 1, 2),
        [
            0.00111,
            0.91326,
            1.39641,
            1.22333,
            0.47542,
            -0.49557,
            -1.23296,
            -1.38996,
            -0.89271,
        ],
    )
    agrees(state.mean, [-8e-05, -7e-05, -7e-05, -6e-05, -6e-05, -6e-05])
    agrees(state.variance, [0.95281, 0.95281, 0.95281, 0.95281, 0.9528, 0.9528])
    y, after = norm(IMAGES, state, inference=True)
    assert after is state
    agrees(
        y.transpose(0, 3, 1, 2),
        [
            8e-05,
            0.66005,
            1.00963,
            0.8844,
            0.34326,
            -0.35928,
            -0.89281,
            -1.0064,
            -0.64663,
        ],
    )
    with pytest.raises(ArgumentError, match="no variance"):
        norm(IMAGES[:1, 0, 0], state)
    norm(IMAGES[:1, 0, 0], state, inference=True)


def test_gradients_of_batch_go_through_its_statistics() -> None:
    norm, state = nn.BatchNorm.init(6)
    target = wave(2, 3, 3, 6, start=4)

    def loss(x: tfn.Array) -> tfn.Array:
        return ((norm(x, state)[0] - target) ** 2).sum()

    slope = tfn.grad(loss)(IMAGES)
    np.testing.assert_allclose(slope.sum((0, 1, 2)), np.zeros(6), atol=1e-4)  # moving all: nothing
    nudge = wave(2, 3, 3, 6, start=9) * 1e-2
    numeric = loss(IMAGES + nudge) - loss(IMAGES - nudge)
    np.testing.assert_allclose(2 * (slope * nudge).sum(), numeric, rtol=2e-3)
    state_slope = tfn.grad(lambda x: norm(x, state)[1].mean.sum())(IMAGES)
    assert not np.asarray(state_slope).any()


@pytest.mark.parametrize("names", ["data", ("data", "model")])
def test_a_batch_that_is_divided_has_the_statistics_of_all_parts(names: Any) -> None:
    whole, state = nn.BatchNorm.init(6)
    norm, _ = nn.BatchNorm.init(6, axis_name=names)
    images, target = wave(4, 3, 3, 6), wave(4, 3, 3, 6, start=4)

    def loss(norm: nn.BatchNorm, x: tfn.Array, t: tfn.Array) -> Any:
        y, new = norm(x, state)
        return ((y - t) ** 2).sum(), (y, new)

    def in_parts(x: tfn.Array, t: tfn.Array) -> Any:
        return tfn.value_and_grad(lambda x: loss(norm, x, t), has_aux=True)(x)

    f, lanes = tfn.vmap(in_parts, axis_name="data"), [4]
    if names != "data":
        f, lanes = tfn.vmap(f, axis_name="model"), [2, 2]
    parts = (x.reshape(*lanes, 1, 3, 3, 6) for x in (images, target))
    (_, (y, new)), slope = f(*parts)
    _, (expected_y, expected_state) = loss(whole, images, target)
    np.testing.assert_allclose(y.reshape(images.shape), expected_y, atol=1e-5)
    expected_slope = tfn.grad(lambda x: loss(whole, x, target)[0])(images)
    np.testing.assert_allclose(slope.reshape(images.shape), expected_slope, atol=1e-4)
    for name in ("mean", "variance"):
        rows = np.asarray(getattr(new, name)).reshape(4, 6)
        np.testing.assert_allclose(rows, [getattr(expected_state, name)] * 4, atol=1e-6)


@pytest.mark.parametrize(
    "norm", [nn.LayerNorm.init(64), nn.RMSNorm.init(64), nn.GroupNorm.init(1, 64)]
)
def test_sums_of_halves_are_wide(norm: nn.LayerNorm) -> None:
    x = wave(4, 64) + 20
    exact = np.asarray(norm(x.astype("bfloat16").astype("float32")))
    half = nn.cast(norm, "bfloat16")(x.astype("bfloat16"))
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype("float32"), exact, rtol=2e-2, atol=2e-2)


def test_under_vmap_and_jit() -> None:
    x = wave(3, 5, 8)
    for norm in (nn.LayerNorm.init(8), nn.RMSNorm.init(8)):
        np.testing.assert_allclose(tfn.jit(tfn.vmap(norm))(x), norm(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("space", [(5,), (3, 4), (1, 1)])
def test_an_instance_norm_is_a_group_norm_of_single_channels(space: tuple[int, ...]) -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(3, 2, (2, *space, 4)), "float32")
    norm = nn.tree_at(lambda n: n.weight, nn.InstanceNorm.init(4), jnp.arange(4.0))
    axes = tuple(range(1, x.ndim - 1))
    want = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(norm(x), np.asarray(want) * np.arange(4), atol=2e-5)
    plain = nn.InstanceNorm.init(4, use_weight=False, use_bias=False)
    np.testing.assert_allclose(plain(x), nn.GroupNorm.init(4, 4)(x), atol=1e-5)
    assert plain(x.astype("bfloat16")).dtype == "bfloat16"


def test_an_instance_norm_needs_space() -> None:
    with pytest.raises(ShapeError, match="axes of space"):
        nn.InstanceNorm.init(4)(jnp.ones((2, 4)))
