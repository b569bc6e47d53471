"""Orders and elements: the values that jax 0.10 gives for ``key(7)``, and what must always hold."""

import numpy as np
import pytest

from tfn import random
from tfn.errors import ArgumentError, AxisError, DTypeError, ShapeError

KEY = random.key(7)
X = np.arange(12, dtype=np.int32).reshape(3, 4)
LOGITS = np.log(np.arange(1, 13, dtype=np.float32).reshape(3, 4))
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)


def test_permutation() -> None:
    assert random.permutation(KEY, 9).tolist() == [4, 2, 3, 5, 0, 7, 6, 1, 8]
    assert random.permutation(KEY, 3000)[:6].tolist() == [2846, 88, 2378, 1526, 2050, 993]
    np.testing.assert_array_equal(random.permutation(KEY, X), X[[2, 0, 1]])
    np.testing.assert_array_equal(random.permutation(KEY, X, 1), X[:, [2, 3, 0, 1]])
    assert random.permutation(KEY, X, 1, independent=True).tolist() == [
        [2, 3, 0, 1],
        [4, 5, 7, 6],
        [10, 9, 11, 8],
    ]


@pytest.mark.parametrize("size", [0, 1, 2, 17])
def test_permutation_keeps_every_element(size: int) -> None:
    assert sorted(random.permutation(KEY, size).tolist()) == list(range(size))


def test_categorical() -> None:
    assert random.categorical(KEY, LOGITS).tolist() == [1, 0, 3]
    assert random.categorical(KEY, LOGITS, axis=0).tolist() == [1, 0, 2, 2]
    assert random.categorical(KEY, LOGITS, shape=(2, 3)).tolist() == [[1, 0, 3], [2, 3, 0]]
    distinct = random.categorical(KEY, LOGITS, shape=(2, 3), replace=False)
    assert distinct.tolist() == [[1, 0, 3], [3, 1, 2]]


def test_categorical_follows_its_logits() -> None:
    draws = np.asarray(random.categorical(KEY, np.log(P), shape=(4000,)))
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 4000, P, atol=0.03)


def test_choice() -> None:
    assert random.choice(KEY, 10, (4,)).tolist() == [9, 2, 0, 7]
    assert random.choice(KEY, 10, (4,), replace=False).tolist() == [9, 4, 2, 3]
    assert random.choice(KEY, X, (2,), axis=1).tolist() == [[3, 2], [7, 6], [11, 10]]
    assert random.choice(KEY, 4, (6,), p=P).tolist() == [2, 0, 3, 2, 1, 2]
    assert random.choice(KEY, 4, (3,), replace=False, p=P).tolist() == [1, 3, 0]
    assert random.choice(KEY, X).shape == (4,)
    assert random.choice(KEY, X, (2, 3), p=P, axis=1).shape == (3, 2, 3)
    assert random.choice(KEY, X, (3,), replace=False, axis=1).shape == (3, 3)


def test_choice_follows_its_probabilities() -> None:
    draws = np.asarray(random.choice(KEY, 4, (4000,), p=P))
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 4000, P, atol=0.03)


def test_refusals() -> None:
    with pytest.raises(AxisError):
        random.permutation(KEY, X, 2)
    with pytest.raises(DTypeError, match="floating logits"):
        random.categorical(KEY, X)
    with pytest.raises(ShapeError, match="shape that the logits broadcast to"):
        random.categorical(KEY, LOGITS, shape=(1,))
    with pytest.raises(ArgumentError, match="only 4 different"):
        random.categorical(KEY, LOGITS, shape=(5, 3), replace=False)
    with pytest.raises(ArgumentError, match="11 cannot be drawn from 10"):
        random.choice(KEY, 10, (11,), replace=False)
    with pytest.raises(ArgumentError, match="1 cannot be drawn from 0"):
        random.choice(KEY, 0)
    with pytest.raises(ShapeError, match="probability for each of 3"):
        random.choice(KEY, 3, p=P)
