"""Functions that move elements move random keys too."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.compat.key_arrays import MOVES, moving_keys
from tfn.compat.omitted import adapted
from tfn.errors import DTypeError, TreeError

KEYS = tfn.random.split(tfn.random.key(0), 3)
WORDS = np.asarray(tfn.random.key_data(KEYS))
CASES = {
    "stack": (tnp.stack, lambda f, k: f([k, k], axis=1), (3, 2)),
    "concatenate": (tnp.concatenate, lambda f, k: f([k, k], axis=-1), (6,)),
    "broadcast_to": (tnp.broadcast_to, lambda f, k: f(k, (2, 3)), (2, 3)),
    "transpose": (tnp.transpose, lambda f, k: f(k.reshape(3, 1)), (1, 3)),
    "take": (tnp.take, lambda f, k: f(k, tnp.array([2, 0]), axis=0), (2,)),
    "append": (tnp.append, lambda f, k: f(k, k), (6,)),
    "delete": (tnp.delete, lambda f, k: f(k, 1), (2,)),
    "insert": (tnp.insert, lambda f, k: f(k, 1, k[0]), (4,)),
    "choose": (tnp.choose, lambda f, k: f(tnp.array([1, 0]), [k[:2], k[1:]]), (2,)),
    "array": (tnp.array, lambda f, k: f([k[0], k[2]]), (2,)),
    "zeros_like": (tnp.zeros_like, lambda f, k: f(k), (3,)),
    "ones_like": (tnp.ones_like, lambda f, k: f(k), (3,)),
    "full_like": (tnp.full_like, lambda f, k: f(k, k[1]), (3,)),
    "atleast_2d": (tnp.atleast_2d, lambda f, k: f(k), (1, 3)),
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


def test_keys_are_close_if_they_are_equal() -> None:
    other = KEYS.at[1].set(KEYS[0])
    isclose, allclose = (adapted("jax.numpy", n, getattr(tnp, n)) for n in ("isclose", "allclose"))
    assert isclose(KEYS, other).tolist() == [True, False, True]
    assert (bool(allclose(KEYS, other)), bool(allclose(KEYS, KEYS))) == (False, True)
    assert bool(allclose(1.0, 1.0 + 1e-9, rtol=1e-6))
    for wrong in ((KEYS, 1.0), (tnp.ones(3), KEYS)):
        with pytest.raises(DTypeError, match="compared with keys"):
            allclose(*wrong)


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


def test_numbers_beside_keys_are_refused() -> None:
    for name, operands in (("where", (True, KEYS, 1)), ("append", (KEYS, 1))):
        with pytest.raises(DTypeError, match=f"{name} of keys needs keys"):
            moving_keys(getattr(tnp, name))(*operands)


def test_arrays_of_keys_are_made_of_their_dtype_or_of_a_key() -> None:
    for name in ("zeros", "ones", "empty"):
        made = adapted("jax.numpy", name, getattr(tnp, name))((2, 3), dtype=KEYS.dtype)
        assert (made.shape, made.dtype) == ((2, 3), KEYS.dtype)
        assert adapted("jax.numpy", name, getattr(tnp, name))(2).dtype == "float32"
    for module, function in (("jax.numpy", tnp.full), ("jax.lax", tfn.lax.full)):
        made = adapted(module, "full", function)((2,), KEYS[1])
        np.testing.assert_array_equal(tfn.random.key_data(made), WORDS[[1, 1]])
        assert adapted(module, "full", function)((2,), 7).tolist() == [7, 7]
