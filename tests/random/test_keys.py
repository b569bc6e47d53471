"""Keys: the values JAX gives, and arrays of keys that behave like arrays."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import random
from tfn.config import config
from tfn.dtypes import KeyType
from tfn.errors import ArgumentError, DTypeError, KeyReuseError
from tfn.random.keys import seen_as, set_default_generator


def data(key: random.Key) -> list[object]:
    words: list[object] = random.key_data(key).tolist()
    return words


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, [0, 0]),
        (42, [0, 42]),
        (-1, [0, 4294967295]),
        (2**32 - 1, [0, 4294967295]),
        (2**40 + 5, [256, 5]),
        (-(2**40), [4294967040, 0]),
    ],
)
def test_seeds(seed: int, words: list[int]) -> None:
    assert data(random.key(seed)) == words
    assert random.PRNGKey(seed).tolist() == words


def test_seeds_that_are_arrays() -> None:
    assert data(random.key(np.int32(-1))) == [0, 4294967295]
    assert data(random.key(np.uint64(2**40 + 5))) == [256, 5]
    assert data(random.key(np.int64(-1))) == [4294967295, 4294967295]


def test_split_and_fold_in_give_the_values_of_jax() -> None:
    key = random.key(0)
    assert data(random.split(key)) == [[1797259609, 2579123966], [928981903, 3453687069]]
    assert data(random.fold_in(key, 7)) == [2716826189, 292468403]
    key = random.key(7)
    assert data(random.split(key, (2, 2))) == [
        [[3625411723, 1954958720], [195045567, 4062205631]],
        [[966301609, 1948237315], [276534068, 1641862660]],
    ]
    assert data(random.fold_in(key, 2**32 - 1)) == [3658129989, 1719350670]
    assert data(random.fold_in(key, np.int32(-1))) == [3658129989, 1719350670]
    assert random.split(key, 0).shape == (0,)


def test_words_as_keys_give_words() -> None:
    words = random.PRNGKey(0)
    assert isinstance(words, tfn.Array)
    assert random.split(words).tolist() == data(random.split(random.key(0)))
    assert random.fold_in(words, 7).tolist() == [2716826189, 292468403]
    assert data(random.wrap_key_data(words)) == [0, 0]
    np.testing.assert_array_equal(random.bits(words, (3,)), random.bits(random.key(0), (3,)))


def test_a_key_is_an_array_of_keys() -> None:
    keys = random.split(random.key(1), (3, 2))
    assert (keys.shape, keys.ndim, keys.size, len(keys)) == ((3, 2), 2, 6, 3)
    assert str(keys.dtype) == "key<fry>"
    assert "shape=(3, 2)" in repr(keys)
    assert keys[0].shape == (2,)
    assert keys[1, 1].shape == ()
    assert keys[..., 0].shape == (3,)
    assert keys[::2].shape == (2, 2)
    assert keys[None].shape == (1, 3, 2)
    assert data(keys[2, 1]) == data(keys)[2][1]  # type: ignore[index]
    assert keys.reshape(6).shape == keys.reshape((6,)).shape == (6,)
    assert [k.shape for k in keys] == [(2,)] * 3
    first, second = random.split(keys[0, 0])
    assert np.asarray(first == second).tolist() is False
    assert np.asarray(keys[0] == keys).tolist() == [[True, True], [False, False], [False, False]]
    with pytest.raises(IndexError, match="indices"):
        keys[0, 0, 0]


def test_keys_in_a_place_are_read_and_replaced() -> None:
    keys, other = random.split(random.key(1), (3, 2)), random.key(7)
    assert data(keys.at[0, 1].set(other)[0, 1]) == [0, 7]
    assert bool((keys.at[1:].set(other)[0] == keys[0]).all())
    assert data(keys.at[1].set(keys[0])[1]) == data(keys[0])
    assert data(keys.at[..., 1].get()) == data(keys[..., 1])
    assert data(keys.at[5, 0].get(mode="fill")) == [2**32 - 1] * 2  # as in JAX
    assert tfn.jit(lambda k: k.at[0].set(other))(keys).shape == (3, 2)
    with pytest.raises(DTypeError, match="only keys"):
        keys.at[0].set(3)


def test_keys_have_the_attributes_of_arrays() -> None:
    keys = random.split(random.key(1), (3, 2))
    assert (keys.T.shape, keys.ravel().shape, keys.reshape(2, -1).shape) == ((2, 3), (6,), (2, 3))
    assert data(keys.T[1, 2]) == data(keys[2, 1])
    assert (keys.itemsize, keys.dtype.itemsize, keys.nbytes) == (8, 8, 48)
    assert random.key(0, impl="rbg").itemsize == 16
    assert np.asarray(keys != keys[0, 0]).tolist() == [[False, True], [True, True], [True, True]]
    assert keys.is_fully_replicated and keys.devices() == keys.data.devices()
    assert keys.addressable_data(0).shape == (3, 2)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (bool, "no truth"),
        (np.asarray, "NumPy has no arrays of keys"),
        (tnp.sum, "no arithmetic"),
        (lambda k: k == 1, "compared with keys"),
        (lambda k: k != np.ones(2), "compared with keys"),
    ],
)
def test_keys_are_no_numbers(use: Any, words: str) -> None:
    seen_as(tfn.Array)  # as they are within `import jax`
    try:
        for key in (random.key(0), random.split(random.key(0))):
            with pytest.raises(DTypeError, match=words):
                use(key)
    finally:
        seen_as(random.Key)


def test_a_key_is_immutable_and_can_be_copied() -> None:
    key = random.key(3)
    with pytest.raises(AttributeError):
        key.data = None
    with pytest.raises(TypeError):
        hash(key)
    for same in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key), random.clone(key)):
        assert data(same) == [0, 3]


def test_a_key_is_a_node_of_pytrees() -> None:
    tree = {"key": random.key(5), "x": 1}
    leaves, structure = tfn.tree.flatten(tree)
    assert leaves[0].shape == (2,)
    assert data(tfn.tree.unflatten(structure, leaves)["key"]) == [0, 5]


@pytest.mark.parametrize(
    "operation", [lambda k: k + 1, lambda k: -k, lambda k: k * k, lambda k: k < k]
)
def test_keys_have_no_arithmetic(operation: object) -> None:
    with pytest.raises(TypeError):
        operation(random.key(0))  # type: ignore[operator]


def test_refusals() -> None:
    key = random.key(0)
    with pytest.raises(ArgumentError, match="needs a single key"):
        random.normal(random.split(key))
    with pytest.raises(ArgumentError, match="needs a key"):
        random.normal(0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="single key cannot be iterated"):
        iter(key)
    with pytest.raises(ArgumentError, match="no length"):
        len(key)
    with pytest.raises(DTypeError, match="seed is an integer"):
        random.key(1.5)
    with pytest.raises(ArgumentError, match="at most 64 bits"):
        random.key(2**64)
    with pytest.raises(ArgumentError, match="one integer"):
        random.key(np.arange(2))
    with pytest.raises(DTypeError, match="fold_in needs one integer"):
        random.fold_in(key, 0.5)
    with pytest.raises(ArgumentError, match="words of keys"):
        random.wrap_key_data(np.zeros(3, np.uint32))


def test_keys_go_through_transforms() -> None:
    keys = random.split(random.key(3), 4)
    each = [random.normal(key, (2,)) for key in keys]
    mapped = tfn.vmap(lambda key: random.normal(key, (2,)))(keys)
    np.testing.assert_array_equal(mapped, each)
    assert tfn.vmap(random.split)(keys).shape == (4, 2)
    folded = tfn.vmap(random.fold_in, in_axes=(None, 0))(keys[0], np.arange(3))
    assert data(folded[2]) == data(random.fold_in(keys[0], 2))

    @tfn.jit
    def step(key: random.Key, seed: tfn.Array) -> tuple[random.Key, tfn.Array]:
        first, second = random.split(key)
        return first, random.bits(second, (2,)) ^ random.bits(random.key(seed), (2,))

    key, bits = step(keys[1], 5)
    first, second = random.split(keys[1])
    assert isinstance(key, random.Key)
    assert data(key) == data(first)
    expected = random.bits(second, (2,)) ^ random.bits(random.key(5), (2,))
    np.testing.assert_array_equal(bits, expected)


def test_values_do_not_depend_on_being_mapped_or_compiled() -> None:
    key = random.key(8)
    for sample in (random.uniform, random.normal, random.bits, random.permutation):
        alone = sample(key, 7) if sample is random.permutation else sample(key, (7,))
        compiled = tfn.jit(lambda k, f=sample: f(k, 7))(key)
        np.testing.assert_array_equal(compiled, alone)


@pytest.fixture
def strict():
    """Keys may be used once, as they are unless the configuration says otherwise."""
    config.key_reuse = False
    yield
    config.key_reuse = True


@pytest.mark.parametrize(
    "again",
    [
        random.normal,
        random.split,
        random.bits,
        lambda k: random.permutation(k, 3),
        lambda k: random.choice(k, 5),
        lambda k: random.categorical(k, tnp.zeros(3)),
    ],
)
def test_a_key_used_twice_is_an_error_that_names_both_lines(strict, again):
    key = random.key(0)
    random.uniform(key)  # first
    with pytest.raises(KeyReuseError, match="uniform has used already") as caught:
        again(key)
    assert "random.uniform(key)  # first" in caught.value.got
    assert "split(key)" in caught.value.hint


def test_functions_that_do_not_use_a_key_up(strict):
    key = random.key(0)
    for i in range(3):
        random.uniform(random.fold_in(key, i))
    random.key_data(key), repr(key), key == key, tfn.tree.leaves(key)
    random.uniform(key)
    random.choice(random.clone(key), tnp.arange(9), (2,), replace=False)  # one use, not two
    first, second = random.split(random.clone(key))
    assert random.uniform(first) != random.uniform(second)
    random.uniform(random.key(0)), random.uniform(random.PRNGKey(0))
    words = random.PRNGKey(0)
    random.uniform(words), random.uniform(words)  # an array like others


def test_within_a_trace(strict):
    @tfn.jit
    def twice(key):
        return random.normal(key) + random.uniform(key)

    with pytest.raises(KeyReuseError, match="uniform was given a key that normal has used"):
        twice(random.key(0))

    def once(shape):
        return random.normal(key, shape)

    key = random.key(0)
    tfn.jit(once, static_argnums=0)((2,))
    tfn.jit(once, static_argnums=0)((3,))  # traced anew, not used anew


def test_branches_may_use_the_same_key(strict):
    key = random.key(0)

    @tfn.jit
    def either(flag):
        return tfn.lax.cond(flag, lambda: random.normal(key), lambda: random.uniform(key))

    assert either(True) == random.normal(random.key(0))


def test_steps_of_a_loop_are_checked(strict):
    def walk(key, steps):
        def step(key, _):
            key, now = random.split(key)
            return key, random.normal(now)

        return tfn.lax.scan(step, key, length=steps)

    assert len(set(walk(random.key(0), 5)[1].tolist())) == 5

    def careless(key, _):
        return key, random.normal(key) + random.normal(key)

    with pytest.raises(KeyReuseError):
        tfn.lax.scan(careless, random.key(0), length=2)


def test_the_generator_has_a_name():
    assert random.key_impl(random.key(0)) == "threefry2x32"
    assert random.key(1, impl="threefry2x32") == random.key(1)
    for make in (random.key, random.PRNGKey):
        with pytest.raises(ArgumentError, match="threefry2x32"):
            make(0, impl="mersenne")


def test_names_and_types_of_generators():
    for name in ("rbg", "philox", "unsafe_rbg", "urbg"):
        assert str(random.key_dtype(name)) == "key<rbg>" != str(random.key_dtype("fry"))
        for key in random.key(3, impl=name), random.key(3, dtype=random.key_dtype(name)):
            assert random.key_data(key).tolist() == [0, 3, 0, 3] and key.shape == ()
            assert random.key_impl(key) == "rbg" and key.dtype == random.key_dtype("rbg")
    words = random.key_data(random.key(3))
    assert random.wrap_key_data(words, impl="fry").shape == ()
    for call in (
        lambda: random.key(0, impl="other"),
        lambda: random.key_dtype("other"),
        lambda: random.key(0, dtype=KeyType("other")),
        lambda: random.wrap_key_data(words, dtype="other"),
        lambda: random.wrap_key_data(words, impl="rbg"),
        lambda: random.normal(words[:1]),
    ):
        with pytest.raises(ArgumentError):
            call()


def test_the_default_generator():
    try:
        set_default_generator("unsafe_rbg")
        assert random.key_impl(random.key(1)) == "rbg"
        assert random.PRNGKey(7).tolist() == [0, 7, 0, 7]
        assert random.key_impl(random.key(1, impl="threefry2x32")) == "threefry2x32"
    finally:
        set_default_generator(None)
    assert random.PRNGKey(7).tolist() == [0, 7]


def test_words_of_a_key_in_numpy():
    words = np.array([0, 7], "uint32")
    key = random.PRNGKey(7)
    assert random.split(words).tolist() == random.split(key).tolist()
    assert random.normal(words, (2,)).tolist() == random.normal(random.PRNGKey(7), (2,)).tolist()
    assert random.fold_in(words, 3).tolist() == random.fold_in(random.PRNGKey(7), 3).tolist()
    assert random.key_data(words).tolist() == [0, 7]
    with pytest.raises(ArgumentError, match="needs a key"):
        random.split(words.astype("int32"))
