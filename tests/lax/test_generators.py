"""Philox against its authors' numbers and XLA's, and the laws of its keys."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import lax, random
from tfn.config import config
from tfn.dtypes import UINT32
from tfn.eager.operands import apply
from tfn.errors import KeyReuseError
from tfn.lax import RandomAlgorithm
from tfn.lax.generators import philox, word
from tfn.trace import build
from tfn.trace.uop import UOp

# Known answers of Salmon and others' library Random123, file kat_vectors.
KNOWN = [  # counter, key, result
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def _hash(words: UOp) -> UOp:
    x0, x1, x2, x3, k0, k1 = (word(words, i) for i in range(6))
    outputs = philox((k0, k1), (x0, x1, x2, x3))
    return build.concat([build.reshape(x, (1,)) for x in outputs], 0)


def _words(text: str) -> list[int]:
    return [int(part, 16) for part in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_of_its_authors(counter: str, key: str, expected: str) -> None:
    hashed = apply(_hash, [tfn.numpy.asarray(np.array([*_words(counter), *_words(key)], UINT32))])
    assert hashed.tolist() == _words(expected)


def test_keys_and_numbers_are_those_of_jax() -> None:
    """JAX 0.10.2 on a CPU, ``jax.random.key(42, impl="rbg")``."""
    first, _, third = random.split(random.key(42, impl="rbg"), 3)
    key = random.PRNGKey(42, impl="rbg")
    assert key.tolist() == [0, 42, 0, 42]
    assert first.data.tolist() == [1832780943, 270669613, 1832780943, 270669613]
    assert third.data.tolist() == [2465931498, 255383827, 2465931498, 255383827]
    assert random.fold_in(key, 7).tolist() == [2547012911, 1371500959, 2547012911, 1371500959]
    assert random.bits(key, (5,)).tolist() == [
        2620864722, 2991908441, 282133475, 2589630650, 1779689962,
    ]  # fmt: skip
    assert random.bits(key, (3,), "uint8").tolist() == [210, 89, 227]
    assert random.bits(key, (3,), "uint64").tolist() == [
        12850148909342210258, 11122378950751355875, 4595359157297867242,
    ]  # fmt: skip
    np.testing.assert_allclose(random.normal(key, (3,)), [0.27988622, 0.51466948, -1.5086882], 1e-6)
    assert random.permutation(key, 10).tolist() == [2, 1, 3, 6, 4, 9, 8, 5, 0, 7]
    assert random.randint(key, (4,), 0, 1000).tolist() == [301, 720, 235, 541]


LATE = np.array([1, 2, 2**32 - 2, 2**32 - 1], UINT32)
"""A state whose counter of 64 bits is one block before its end."""


@pytest.mark.parametrize(
    ("algorithm", "dtype", "shape", "end", "bits"),
    [
        (1, "uint8", (3, 5), 7, [111, 233, 68, 255, 51, 51, 241, 167, 210, 171, 185, 252]),
        (1, "uint32", (5,), 1, [4115258991, 2695274985, 3850963268, 2619805951, 629071667]),
        (1, "uint32", (2, 1, 3), 1, [4115258991, 3850963268, 629071667, 2695274985]),
        (1, "uint64", (2,), 0, [11576117918417149551, 11251980885262141764]),
        (2, "uint32", (5,), 0, [2440199171, 2734589407, 1297845474, 626431447, 875035680]),
        (2, "uint64", (5,), 1, [11744972073493232643, 2690502579348802786, 10554666489077038112]),
        (0, "uint16", (), -1, [31747]),
    ],
)
def test_bits_of_a_state_are_those_of_xla(
    algorithm: int, dtype: str, shape: tuple[int, ...], end: int, bits: list[int]
) -> None:
    state, drawn = lax.rng_bit_generator(LATE, shape, dtype, RandomAlgorithm(algorithm))
    assert state.tolist() == [1, 2, *divmod(end % 2**64, 2**32)[::-1]]
    assert drawn.shape == shape and drawn.dtype == dtype
    assert drawn.ravel()[: len(bits)].tolist() == bits


def test_counters_carry_into_the_upper_half() -> None:
    _, drawn = lax.rng_bit_generator(LATE, (12,))
    for block in range(3):
        count = ((2**64 - 2 + block) + ((2 << 32 | 1) << 64)) % 2**128
        words = [count >> 32 * i & 0xFFFFFFFF for i in range(4)]
        hashed = apply(_hash, [tfn.numpy.asarray(np.array([*words, 1, 2], UINT32))])
        assert drawn[4 * block : 4 * block + 4].tolist() == hashed.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 7])
def test_numbers_of_fewer_elements_are_the_first(size: int, dtype: str) -> None:
    key = random.PRNGKey(5, impl="rbg")
    assert random.bits(key, size, dtype).tolist() == random.bits(key, 9, dtype)[:size].tolist()


def test_a_batch_of_keys_is_a_stack() -> None:
    keys = random.split(random.key(1, impl="rbg"), 3)
    assert keys.shape == (3,) and keys.data.shape == (3, 4)
    together = tfn.vmap(lambda key: random.normal(key, (5,)))(keys)
    alone = [random.normal(random.clone(keys[i]), (5,)).tolist() for i in range(3)]
    assert together.tolist() == alone and len({tuple(row) for row in alone}) == 3


def test_keys_in_loops_and_their_reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(key: random.Key, _: None) -> tuple[random.Key, tfn.Array]:
        key, now = random.split(key)
        return key, random.uniform(now)

    last, drawn = tfn.jit(lambda key: lax.scan(step, key, length=4))(random.key(0, impl="rbg"))
    assert random.key_impl(last) == "rbg" and len(set(drawn.tolist())) == 4
    monkeypatch.setattr(config, "key_reuse", False)
    key = random.key(0, impl="rbg")
    random.normal(key)
    with pytest.raises(KeyReuseError):
        random.normal(key)


def test_every_distribution_takes_either_key() -> None:
    for impl in ("threefry2x32", "rbg"):
        keys = iter(random.split(random.key(2, impl=impl), 8))
        for drawn in (
            random.gamma(next(keys), 2.0, (500,)) / 2,
            random.poisson(next(keys), 1.0, (500,)),
            random.exponential(next(keys), (500,)),
            random.bernoulli(next(keys), 0.5, (500,)) * 2,
            random.rayleigh(next(keys), np.sqrt(2 / np.pi), (500,)),
        ):
            assert abs(float(tfn.numpy.mean(drawn)) - 1) < 0.2
        order = random.choice(next(keys), 100, (100,), replace=False)
        assert sorted(order.tolist()) == list(range(100)) != order.tolist()
