"""Functions that move elements move random keys too."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.compat.key_arrays import MOVES, moving_keys
from tfn.compat.omitted import adapted
from tfn.errors import TreeError

KEYS = tfn.random.split(tfn.random.key(0), 3)
WORDS = np.asarray(tfn.random.key_data(KEYS))
CASES = {
    "stack": (tnp.stack, lambda f, k: f([k, k], axis=1), (3, 2)),
    "concatenate": (tnp.concatenate, lambda f, k: f([k, k], axis=-1), (6,)),
    "broadcast_to": (tnp.broadcast_to, lambda f, k: f(k, (2, 3)), (2, 3)),
    "transpose": (tnp.transpose, lambda f, k: f(k.reshape(3, 1)), (1, 3)),
    "take": (tnp.take, lambda f, k: f(k, tnp.array([2, 0]), axis=0), (2,)),
    "dynamic_slice": (lax.dynamic_slice, lambda f, k: f(k, (1,), (2,)), (2,)),
}
"""A function, a call of it on an array of three, the shape of the result."""


@pytest.mark.parametrize("name", CASES)
def test_keys_move_as_numbers_do(name: str) -> None:
    function, call, shape = CASES[name]
    actual = call(moving_keys(function), KEYS)
    assert actual.shape == shape
    for word in range(2):
        expected = call(function, tnp.asarray(WORDS[:, word]))
        np.testing.assert_array_equal(tfn.random.key_data(actual)[..., word], expected)


def test_where_chooses_keys() -> None:
    chosen = moving_keys(tnp.where)(tnp.array([True, False, True]), KEYS, KEYS[0])
    np.testing.assert_array_equal(tfn.random.key_data(chosen), WORDS[[0, 0, 2]])


def test_numbers_are_left_to_the_function() -> None:
    assert moving_keys(tnp.stack)([tnp.ones(2), tnp.ones(2)]).shape == (2, 2)


def test_several_results() -> None:
    first, second = moving_keys(tnp.split)(tfn.random.split(tfn.random.key(0), 4), 2)
    assert first.shape == second.shape == (2,)


@pytest.mark.parametrize("module", MOVES)
def test_the_table_names_functions(module: str) -> None:
    source = {"jax.numpy": tnp, "jax.lax": lax}[module]
    assert not [name for name in MOVES[module] if not callable(getattr(source, name, None))]


def test_trees_with_keys_are_mapped_beside_trees_of_arrays() -> None:
    map_trees = adapted("jax.tree", "map", tfn.tree.map)
    keys, shapes = {"a": tfn.random.key(1)}, {"a": tnp.zeros(3)}
    drawn = map_trees(lambda key, x: tfn.random.normal(key, x.shape), keys, shapes)
    assert drawn["a"].tolist() == tfn.random.normal(tfn.random.key(1), (3,)).tolist()
    assert map_trees(lambda a, b: (a == b).all(), keys, keys)["a"].data.item()
    assert map_trees(lambda x, y, z: z, shapes, keys, [[1]], is_leaf=lambda x: True) == [[1]]
    with pytest.raises(TreeError, match="one structure"):
        map_trees(lambda x, y: x, shapes, {"b": 0})
