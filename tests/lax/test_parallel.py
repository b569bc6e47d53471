"""Collectives against NumPy on the stack of the values of all lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.dtypes import BFLOAT16

Stack = np.ndarray[Any, Any]
SIZES = [1, 2, 3, 5]
DTYPES = ["float32", "int32", "uint8", "bool", "complex64", "bfloat16"]
RNG = np.random.default_rng(5)


def stack_of(n: int, *shape: int, dtype: Any = "float32") -> Stack:
    """Small numbers, whose sums are exact in every dtype."""
    x = RNG.integers(0, 4, (n, *shape))
    if dtype == "complex64":
        return (x + 1j * x[..., ::-1]).astype(dtype)
    return x.astype(BFLOAT16 if dtype == "bfloat16" else dtype)


def lanes(f: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """The results of a function over the lanes of the axis "i"."""
    results = tfn.vmap(f, axis_name="i", **options)(*map(tnp.asarray, arrays))
    return tfn.tree.map(np.asarray, results)


def same(found: Any, expected: Any) -> None:
    """Equal in values, shape and dtype."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)


def each(x: Stack, n: int) -> Stack:
    """The same value for each lane."""
    return np.stack([x] * n)


# Reductions.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_reductions_are_those_of_the_stack(n: int, dtype: str) -> None:
    x = stack_of(n, 2, 3, dtype=dtype)
    wide = x.astype("int32") if dtype == "bool" else x
    same(lanes(lambda v: lax.psum(v, "i"), x), each(wide.sum(0, dtype=wide.dtype), n))
    if dtype != "complex64":
        same(lanes(lambda v: lax.pmax(v, "i"), x), each(x.max(0), n))
        same(lanes(lambda v: lax.pmin(v, "i"), x), each(x.min(0), n))


@pytest.mark.parametrize("n", SIZES)
def test_the_mean_of_integers_is_a_float(n: int) -> None:
    x = stack_of(n, 3, dtype="int32")
    found = lanes(lambda v: lax.pmean(v, "i"), x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, each(x.mean(0), n), rtol=1e-6)


def test_sums_of_16_bit_floats_are_rounded_once() -> None:
    x = np.array([256, 1, 1, 1], BFLOAT16)
    assert lanes(lambda v: lax.psum(v, "i"), x)[0] == np.float32(259).astype(BFLOAT16)


def test_the_sum_of_a_number_is_a_number() -> None:
    def f(x: Any) -> Any:
        assert lax.psum(1, "i") == 3 and type(lax.psum(1, "i")) is int
        assert lax.psum(2.5, "i") == 7.5 and lax.pmean(3, "i") == 3.0
        assert type(lax.axis_size("i")) is int
        return x * lax.axis_size("i")

    same(lanes(f, np.arange(3)), np.arange(3) * 3)


def test_values_that_all_lanes_share_are_multiplied() -> None:
    shared = tnp.arange(4.0)
    x = np.zeros(3, np.float32)
    same(lanes(lambda v: lax.psum(shared, "i") + v, x), each(np.arange(4.0) * 3, 3).astype("f"))
    same(lanes(lambda v: lax.psum(True, "i"), x), np.full(3, 3, np.int32))
    same(lanes(lambda v: lax.pmax(2, "i"), x), np.full(3, 2, np.int32))


def test_weak_types_stay_weak() -> None:
    def f(x: Any) -> Any:
        number = tnp.asarray(3.0)
        assert number.weak_type and lax.pmax(number, "i").weak_type
        assert not lax.pmax(x, "i").weak_type
        return lax.all_gather(number, "i") * x

    assert lanes(f, np.ones((2, 2), np.float16)).dtype == np.float16


def test_trees_are_reduced_leaf_by_leaf() -> None:
    x = np.arange(6.0, dtype="f").reshape(2, 3)
    found = lanes(lambda v: lax.psum({"a": v, "b": (v[0], None, 1)}, "i"), x)
    same(found["a"], each(x.sum(0), 2))
    same(found["b"][0], each(x.sum(0)[0], 2))
    assert found["b"][1] is None and found["b"][2].tolist() == [2, 2]


GROUPS = [[0, 3], [5, 1], [2, 4]]


def by_group(f: Callable[[Stack], Stack], x: Stack) -> Stack:
    """A function of the stack of each group; row i of its result is for member i."""
    out: list[Any] = [None] * len(x)
    for group in GROUPS:
        for member, row in zip(group, f(x[group]), strict=True):
            out[member] = row
    return np.stack(out)


def test_groups_exchange_among_themselves() -> None:
    x = stack_of(6, 2, 4)
    g = {"axis_index_groups": GROUPS}
    same(lanes(lambda v: lax.psum(v, "i", **g), x), by_group(lambda s: each(s.sum(0), 2), x))
    same(lanes(lambda v: lax.pmax(v, "i", **g), x), by_group(lambda s: each(s.max(0), 2), x))
    same(lanes(lambda v: lax.pmean(v, "i", **g), x), by_group(lambda s: each(s.mean(0), 2), x))
    same(lanes(lambda v: lax.all_gather(v, "i", **g), x), by_group(lambda s: each(s, 2), x))
    same(lanes(lambda v: lax.psum_scatter(v, "i", **g), x), by_group(lambda s: s.sum(0), x))
    same(
        lanes(lambda v: lax.all_to_all(v, "i", 0, 0, **g), x),
        by_group(lambda s: s.swapaxes(0, 1), x),
    )
    same(
        lanes(lambda v: lax.pswapaxes(v, "i", 0, **g), x),
        by_group(lambda s: s.swapaxes(0, 1), x),
    )
    assert lanes(lambda v: v[0, 0] * 0 + lax.psum(1, "i", **g), x).tolist() == [2] * 6


def test_groups_of_values_that_all_lanes_share() -> None:
    x = np.zeros(4, np.float32)
    g = {"axis_index_groups": [[0, 2], [1, 3]]}
    number = lambda v: lax.psum(lax.axis_size("i") * 2.0, "i", **g) + v
    assert lanes(number, x).tolist() == [16.0] * 4
    shared = lambda v: lax.all_gather(tnp.arange(2.0), "i", **g)
    same(lanes(shared, x), each(each(np.arange(2.0, dtype="f"), 2), 4))


# Exchanges.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_gathered_values_are_the_stack(n: int, dtype: str) -> None:
    x = stack_of(n, 2, 3, dtype=dtype)
    same(lanes(lambda v: lax.all_gather(v, "i"), x), each(x, n))
    same(lanes(lambda v: lax.all_gather(v, "i", axis=1), x), each(x.swapaxes(0, 1), n))
    same(lanes(lambda v: lax.all_gather(v, "i", axis=-1), x), each(np.moveaxis(x, 0, -1), n))
    tiled = np.concatenate(list(x), 1)
    same(lanes(lambda v: lax.all_gather(v, "i", axis=1, tiled=True), x), each(tiled, n))
    same(lanes(lambda v: lax.all_gather(v, "i", axis=-1, tiled=True), x), each(tiled, n))


def test_invariant_gathers_are_the_same_in_all_lanes() -> None:
    x = stack_of(3, 2)
    same(lanes(lambda v: lax.all_gather_invariant(v, "i"), x, out_axes=None), x)
    same(lanes(lambda v: lax.all_gather(v, "i", to="invarying"), x, out_axes=None), x)
    tiled = lambda v: lax.all_gather_invariant(v, "i", axis=-1, tiled=True)
    same(lanes(tiled, x, out_axes=None), x.reshape(-1))


@pytest.mark.parametrize("n", SIZES)
def test_scattered_sums_are_parts_of_the_sum(n: int) -> None:
    x = stack_of(n, 2, n)
    total = x.sum(0)
    same(lanes(lambda v: lax.psum_scatter(v, "i", scatter_dimension=1), x), total.T)
    same(lanes(lambda v: lax.psum_scatter(v, "i", scatter_dimension=-1), x), total.T)
    x = stack_of(n, 2 * n, 3)
    found = lanes(lambda v: lax.psum_scatter(v, "i", tiled=True), x)
    same(found, x.sum(0).reshape(n, 2, 3))
    flags = lanes(lambda v: lax.psum_scatter(v, "i"), stack_of(n, n, dtype="bool"))
    assert flags.dtype == np.int32


@pytest.mark.parametrize("n", SIZES)
def test_all_to_all_swaps_lanes_and_parts(n: int) -> None:
    x = stack_of(n, n, 3, 4)
    same(lanes(lambda v: lax.all_to_all(v, "i", 0, 0), x), x.swapaxes(0, 1))
    same(lanes(lambda v: lax.all_to_all(v, "i", 0, 2), x), x.transpose(1, 2, 3, 0))
    same(lanes(lambda v: lax.pswapaxes(v, "i", 0), x), x.swapaxes(0, 1))
    x = stack_of(n, 3, 2 * n)
    parts = x.reshape(n, 3, n, 2)
    tiled = lambda v: lax.all_to_all(v, "i", 1, 0, tiled=True)
    same(lanes(tiled, x), parts.transpose(2, 0, 1, 3).reshape(n, 3 * n, 2))
    tiled = lambda v: lax.all_to_all(v, "i", -1, -1, tiled=True)
    same(lanes(tiled, x), parts.transpose(2, 1, 0, 3).reshape(n, 3, 2 * n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_permutations_move_rows(dtype: str) -> None:
    x = stack_of(5, 2, dtype=dtype) + stack_of(5, 2, dtype=dtype)
    ring = [(i, (i + 1) % 5) for i in range(5)]
    same(lanes(lambda v: lax.ppermute(v, "i", ring), x), np.roll(x, 1, 0))
    some = np.zeros_like(x)
    some[[3, 0]] = x[[1, 4]]
    same(lanes(lambda v: lax.ppermute(v, "i", [(1, 3), (4, 0)]), x), some)
    same(lanes(lambda v: lax.ppermute(v, "i", []), x), np.zeros_like(x))
    same(lanes(lambda v: lax.ppermute(v, "i", [(i, i) for i in range(5)]), x), x)
    order = [3, 1, 4, 0, 2]
    same(lanes(lambda v: lax.pshuffle(v, "i", order), x), x[order])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_a_broadcast_value_is_that_of_its_source(n: int, dtype: str) -> None:
    x = stack_of(n, 3, dtype=dtype)
    same(lanes(lambda v: lax.pbroadcast(v, "i", n - 1), x), each(x[-1], n))


def test_a_broadcast_value_hides_nans_of_others() -> None:
    x = np.array([np.nan, 2, np.inf], np.float32)
    assert lanes(lambda v: lax.pbroadcast(v, "i", 1), x).tolist() == [2, 2, 2]


def test_values_of_vmap_may_always_vary() -> None:
    x = stack_of(3, 2)
    same(lanes(lambda v: lax.pvary(v, "i"), x), x)
    same(lanes(lambda v: lax.pcast(v, "i", to="varying"), x), x)


# Indices, sizes, names.


@pytest.mark.parametrize("n", [0, *SIZES])
def test_indices_count_lanes(n: int) -> None:
    found = tfn.vmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=n)()
    same(np.asarray(found), np.arange(n, dtype=np.int32))


def test_an_axis_of_no_lanes() -> None:
    x = np.zeros((0, 2), np.float32)
    for f in (
        lambda v: lax.psum(v, "i"),
        lambda v: lax.ppermute(v, "i", []),
        lambda v: lax.pmean(v, "i"),
    ):
        assert lanes(f, x).shape == (0, 2)


def test_inner_names_hide_outer_ones() -> None:
    x = stack_of(2, 3)
    both = tfn.vmap(tfn.vmap(lambda v: lax.psum(v, "i"), axis_name="i"), axis_name="i")(x)
    same(np.asarray(both), np.repeat(x.sum(1, keepdims=True), 3, 1))


def test_any_hashable_object_is_a_name() -> None:
    for name in (0, 1.5, frozenset("ab"), object()):
        found = tfn.vmap(lambda v, name=name: lax.psum(v, name), axis_name=name)(tnp.arange(3))
        assert found.tolist() == [3, 3, 3]


IJ = "i", "j"


def grid(f: Callable[..., Any], x: Stack) -> Stack:
    """The results of a function over the axes "i" and "j"."""
    return np.asarray(tfn.vmap(tfn.vmap(f, axis_name="j"), axis_name="i")(tnp.asarray(x)))


def flat(x: Stack) -> Stack:
    """Two axes of lanes as one."""
    return x.reshape(-1, *x.shape[2:])


ALONG_BOTH: dict[str, Callable[[Any, Any], Any]] = {
    "psum": lambda v, i: lax.psum(v, i),
    "pmean": lambda v, i: lax.pmean(v, i),
    "pmax": lambda v, i: lax.pmax(v, i),
    "gather": lambda v, i: lax.all_gather(v, i, axis=1),
    "gather tiled": lambda v, i: lax.all_gather(v, i, axis=1, tiled=True),
    "invariant": lambda v, i: lax.all_gather_invariant(v, i),
    "scatter": lambda v, i: lax.psum_scatter(v, i),
    "scatter tiled": lambda v, i: lax.psum_scatter(v, i, scatter_dimension=1, tiled=True),
    "all to all": lambda v, i: lax.all_to_all(v, i, 0, 1),
    "all to all tiled": lambda v, i: lax.all_to_all(v, i, 1, 0, tiled=True),
    "ring": lambda v, i: lax.ppermute(v, i, [(k, (k + 1) % 6) for k in range(6)]),
    "back": lambda v, i: lax.ppermute(v, i, [(k, k - 1) for k in range(1, 6)]),
    "any": lambda v, i: lax.ppermute(v, i, [(0, 5), (5, 1), (2, 2), (4, 0)]),
    "shuffle": lambda v, i: lax.pshuffle(v, i, [4, 2, 0, 5, 1, 3]),
    "broadcast": lambda v, i: lax.pbroadcast(v, i, 4),
    "index": lambda v, i: v * lax.axis_index(i) + lax.axis_size(i),
}


@pytest.mark.parametrize("name", ALONG_BOTH)
def test_two_names_are_one_axis_of_all_devices(name: str) -> None:
    x = stack_of(2, 3, 6, 12)
    f = ALONG_BOTH[name]
    same(flat(grid(lambda v: f(v, IJ), x)), lanes(lambda v: f(v, "i"), flat(x)))


def test_three_names_permute_as_one_axis() -> None:
    x = stack_of(2, 2, 3)
    perm = [(int(a), int(b)) for a, b in zip(RNG.permutation(12), RNG.permutation(12))][:9]
    f = lambda v, i: lax.ppermute(v, i, perm)
    g = lambda v: f(v, ("i", "j", "k"))
    found = tfn.vmap(tfn.vmap(tfn.vmap(g, axis_name="k"), axis_name="j"), axis_name="i")(x)
    same(np.asarray(found).reshape(-1), lanes(lambda v: f(v, "i"), x.reshape(-1)))


def test_a_collective_over_no_name_does_nothing() -> None:
    x = stack_of(2, 3)
    same(lanes(lambda v: lax.psum(v, ()), x), x)
    same(lanes(lambda v: lax.ppermute(v, (), [(0, 0)]), x), x)
    assert lax.axis_size(()) == 1 and int(lax.axis_index(())) == 0
