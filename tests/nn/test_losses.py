"""Losses against their definitions."""

from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.waves import agrees, wave
from tfn import nn
from tfn import numpy as jnp
from tfn.errors import ArgumentError, DTypeError, ShapeError

RANDOM = np.random.default_rng(4)
LOGITS = RANDOM.normal(size=(5, 3)).astype(np.float32)
CLASSES = np.array([0, 2, 1, 1, 0])


def test_cross_entropies_agree() -> None:
    powers = np.exp(LOGITS)
    expected = -np.log(powers / powers.sum(-1, keepdims=True))[np.arange(5), CLASSES]
    by_class = nn.softmax_cross_entropy_with_integer_labels(LOGITS, CLASSES)
    np.testing.assert_allclose(by_class, expected, rtol=1e-5)
    by_probability = nn.softmax_cross_entropy(LOGITS, nn.one_hot(CLASSES, 3))
    np.testing.assert_allclose(by_probability, expected, rtol=1e-5)


def test_gradient_is_softmax_less_labels() -> None:
    def loss(x: tfn.Array) -> tfn.Array:
        return nn.softmax_cross_entropy_with_integer_labels(x, CLASSES).sum()

    expected = np.asarray(nn.softmax(LOGITS)) - np.eye(3)[CLASSES]
    np.testing.assert_allclose(tfn.grad(loss)(jnp.asarray(LOGITS)), expected, rtol=1e-4, atol=1e-6)


def test_labels_are_checked() -> None:
    with pytest.raises(ShapeError, match="one for each row"):
        nn.softmax_cross_entropy_with_integer_labels(LOGITS, CLASSES[:3])
    with pytest.raises(DTypeError, match="labels are integers"):
        nn.softmax_cross_entropy_with_integer_labels(LOGITS, LOGITS[:, 0])


@pytest.mark.parametrize(
    "loss",
    [
        nn.softmax_cross_entropy, nn.sigmoid_binary_cross_entropy, nn.squared_error, nn.l2_loss,
        nn.huber_loss, nn.log_cosh, nn.hinge_loss, nn.kl_divergence, nn.smooth_labels,
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", [[[1.0, 2.0]], None, "a"], ids=str)
def test_what_is_no_array_is_named_with_the_loss(loss: Any, given: object) -> None:
    with pytest.raises(ArgumentError, match=f"{loss.__name__} needs arrays"):
        loss(given, jnp.ones((1, 2)))


def test_rows_that_do_not_count_have_no_loss_and_no_slope() -> None:
    x, rows = jnp.asarray(LOGITS), np.array([True, False, True, True, False])
    every = nn.softmax_cross_entropy_with_integer_labels(x, CLASSES)
    for loss, labels in (
        (nn.softmax_cross_entropy, nn.one_hot(CLASSES, 3)),
        (nn.softmax_cross_entropy_with_integer_labels, CLASSES),
    ):
        found = loss(x, labels, where=rows)
        np.testing.assert_allclose(found, np.where(rows, every, 0), rtol=1e-5)
        slope = tfn.grad(lambda x, f=loss, y=labels: f(x, y, where=rows).sum())(x)
        assert np.isfinite(slope).all() and not np.asarray(slope)[~rows].any()


def test_binary_cross_entropy() -> None:
    x, y = np.array([-2.0, 0.5, 100], np.float32), np.array([0, 1, 0.25], np.float32)
    expected = np.logaddexp(0, x) - x * y
    np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(x, y), expected, rtol=1e-5)


def test_squares_and_huber() -> None:
    x = np.array([-3.0, 0.5, 2], np.float32)
    np.testing.assert_allclose(nn.squared_error(x, 1.0), [16, 0.25, 1])
    np.testing.assert_allclose(nn.l2_loss(x), [4.5, 0.125, 2])
    np.testing.assert_allclose(nn.huber_loss(x, delta=1.0), [2.5, 0.125, 1.5])


def test_others_have_the_values_of_optax() -> None:
    soft = nn.softmax(wave(2, 4, start=9))
    agrees(nn.kl_divergence(nn.log_softmax(wave(2, 4)), soft), [4.3299515e-05, 2.15685e-05])
    hard = jnp.array([[0, 0.5, 0.5, 0], [1.0, 0, 0, 0]])
    agrees(nn.kl_divergence(nn.log_softmax(wave(2, 4)), hard), [0.56572795, 0.72790843])
    agrees(nn.cosine_similarity(wave(2, 4), wave(2, 4, start=9)), [0.99987805, 0.99985594])
    agrees(nn.log_cosh(wave(4) * 3, wave(4, start=2)), [0.42274427, 0.48764622, 1.9334857])
    signs = jnp.sign(wave(4, start=2))
    agrees(nn.hinge_loss(wave(4), signs), [1.0, 0.35578233, 0.01455027, 1.8632094])
    agrees(nn.smooth_labels(hard, 0.1), [0.025, 0.475, 0.475, 0.025, 0.925, 0.025])


def test_at_zero_gradients_are_finite() -> None:
    zeros = jnp.zeros((2, 3))
    for loss in (nn.cosine_similarity, nn.log_cosh, nn.kl_divergence):
        for argument in (0, 1):
            slope = tfn.grad(lambda *a, f=loss: f(*a).sum(), argument)(zeros, zeros)
            assert np.isfinite(slope).all(), loss
    assert nn.log_cosh(jnp.array([200.0])).item() == pytest.approx(200 - np.log(2))
