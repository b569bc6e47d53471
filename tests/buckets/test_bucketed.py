"""Functions with buckets: as at the true sizes, by few programs."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tfn
from tests.buckets.programs import STEPS, program
from tests.covering import together
from tfn import lax, nn
from tfn import numpy as jnp
from tfn.buckets.bucketed import Bucketed
from tfn.errors import ArgumentError, AxisError, ShapeError

RNG = np.random.default_rng(3)


def rows(n: int, width: int = 3) -> np.ndarray[Any, Any]:
    return RNG.normal(size=(n, width)).astype(np.float32)


def require_same(found: Any, expected: Any, rtol: float = 1e-5) -> None:
    """Two trees of arrays agree."""
    mine, others = tfn.tree.leaves(found), tfn.tree.leaves(expected)
    assert tfn.tree.structure(found) == tfn.tree.structure(expected)
    for x, y in zip(mine, others, strict=True):
        assert (x.shape, x.dtype, x.weak_type) == (y.shape, y.dtype, y.weak_type)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-5)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", STEPS)
def test_each_step_is_that_of_the_true_size(name: str) -> None:
    f = lambda x: STEPS[name](Random(len(name)), x)
    bucketed = tfn.jit(f, buckets=("n _",))
    for n in (5, 7, 8):
        x = rows(n)
        require_same(bucketed(x), tfn.jit(f)(x), rtol=1e-4)
    assert bucketed.cache_info().exact == 0


@pytest.mark.usefixtures("uncompiled")
@together("seed", range(8))
def test_random_programs_are_those_of_the_true_size(seed: int) -> None:
    f, _ = program(seed, 4)
    bucketed = tfn.jit(f, buckets=("n _",))
    for n in (5, 7):
        x = rows(n)
        require_same(bucketed(x), f(jnp.asarray(x)), rtol=1e-3)


def network(weights: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ weights["first"])
    return nn.log_softmax(hidden @ weights["second"]).mean(0)


def test_a_hundred_sizes_take_seven_programs() -> None:
    weights = {"first": rows(4, 8), "second": rows(8, 5)}
    f = tfn.jit(network, buckets={"x": "n _"})
    for n in RNG.integers(1, 513, 100):
        x = rows(int(n), 4)
        hidden = np.tanh(x @ weights["first"]) @ weights["second"]
        expected = hidden - np.log(np.exp(hidden).sum(1, keepdims=True))
        np.testing.assert_allclose(f(weights, x), expected.mean(0), rtol=1e-4, atol=1e-5)
    info = f.cache_info()
    assert len(info.buckets) <= 7 and info.exact == 0
    assert sum(b.calls for b in info.buckets) == 100 and 0.1 < info.padding < 0.5


def test_a_new_size_of_a_bucket_compiles_nothing() -> None:
    f = tfn.jit(lambda x: jnp.sort(x, axis=0) - x.mean(0), buckets={"x": "n _"})
    f(rows(5))
    before = f.lower(rows(5)).as_text()
    assert f.lower(rows(7)).as_text() == before
    assert f.plain.cache_info().entries == 0


@together("f", [
    lambda x: jnp.exp(x) * 3,
    lambda x: jnp.sort(x, axis=0),
    lambda x: x[::-1].reshape(-1),
    lambda x: x.max(0) + x.argmax(0),
    lambda x: tfn.random.normal(tfn.random.key(4), x.shape),
    lambda x: tfn.random.permutation(tfn.random.key(4), x),
    lambda x: x.sum(1),
])  # fmt: skip
def test_the_bits_are_those_of_the_true_size_where_no_sum_is_cut(f: Any) -> None:
    x = rows(6)
    np.testing.assert_array_equal(tfn.jit(f, buckets=("n _",))(x), tfn.jit(f)(x))


@pytest.mark.usefixtures("uncompiled")
def test_derivatives_within_are_those_of_the_true_size() -> None:
    weights = {"first": rows(3, 8), "second": rows(8, 5)}
    loss = lambda weights, x: -network(weights, x)[0]
    step = lambda weights, x: (
        tfn.value_and_grad(loss)(weights, x),
        tfn.vmap(tfn.grad(lambda row: jnp.sin(row).prod()))(x),
        tfn.jvp(lambda x: nn.softmax(x, axis=0), (x,), (x,)),
    )
    bucketed, x = tfn.jit(step, buckets={"x": "n _"}), rows(6)
    require_same(bucketed(weights, x), step(weights, jnp.asarray(x)))


@pytest.mark.usefixtures("uncompiled")
def test_a_larger_transform_sees_the_function_itself() -> None:
    f = lambda x: (x / x.shape[0]).sum()
    bucketed, x = tfn.jit(f, buckets={"x": "n"}), jnp.arange(5.0)
    require_same(tfn.grad(bucketed)(x), tfn.grad(f)(x))
    require_same(tfn.vmap(bucketed)(x[None]), tfn.vmap(f)(x[None]))
    require_same(tfn.jit(bucketed)(x), f(x))


@pytest.mark.usefixtures("uncompiled")
def test_two_sizes_at_once_attend_to_what_is_there() -> None:
    def attention(x: Any) -> Any:
        scores = x @ x.mT / jnp.sqrt(x.shape[1])
        causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return nn.softmax(jnp.where(causal, scores, -jnp.inf)) @ x

    f = tfn.jit(attention, buckets=tfn.Buckets({"x": "batch time _"}, {"batch": (2, 4)}))
    for batch, time in ((2, 5), (3, 7), (1, 12)):
        x = RNG.normal(size=(batch, time, 4)).astype(np.float32)
        require_same(f(x), attention(jnp.asarray(x)))
    assert [b.sizes for b in f.cache_info().buckets] == [
        {"batch": 2, "time": 8},
        {"batch": 4, "time": 8},
        {"batch": 2, "time": 16},
    ]


@pytest.mark.usefixtures("uncompiled")
def test_trees_names_statics_and_captured_arrays() -> None:
    offset = jnp.arange(3.0)

    @tfn.jit(buckets={"batch": "n ..."}, static_argnames="k")
    def f(scale: Any, *, batch: Any, k: int) -> Any:
        return {"x": scale * batch["x"] ** k + offset, "n": batch["y"].shape[0]}

    for n in (3, 5):
        batch = {"x": rows(n), "y": np.arange(n)}
        found = f(2.0, batch=batch, k=2)
        np.testing.assert_allclose(found["x"], 2 * batch["x"] ** 2 + np.arange(3), rtol=1e-6)
        assert int(found["n"]) == n
    assert len(f.cache_info().buckets) == 1


@pytest.mark.usefixtures("uncompiled")
def test_sizes_at_which_the_function_is_another_one_run_it_as_it_is() -> None:
    f = tfn.jit(lambda x: x[:3].sum(0) + x.sum(0), buckets={"x": "n _"})
    for n in (1, 2, 3, 8, 0):
        x = rows(n)
        np.testing.assert_allclose(f(x), x[:3].sum(0) + x.sum(0), rtol=1e-5, atol=1e-6)
    info = f.cache_info()
    assert info.exact == 4 and [b.calls for b in info.buckets] == [1] and info.last is None


@pytest.mark.usefixtures("uncompiled")
def test_two_sizes_that_are_small_at_once_may_be_special() -> None:
    f = tfn.jit(lambda x: x - x.reshape(-1)[1:].mean(), buckets={"x": "b t"})
    for shape in ((3, 2), (1, 4), (1, 1)):
        x = np.arange(9.0, dtype=np.float32)[: shape[0] * shape[1]].reshape(shape)
        np.testing.assert_allclose(f(x), x - x.reshape(-1)[1:].mean() if x.size > 1 else [[np.nan]])
    assert len(f.cache_info().buckets) == 1


@pytest.mark.usefixtures("uncompiled")
def test_branches_on_sizes_are_seen_at_the_ends_of_buckets() -> None:
    f = tfn.jit(lambda x: x * 2 if x.shape[0] <= 16 else x * 3, buckets={"x": "n"})
    for n in (3, 16, 17, 40):
        np.testing.assert_array_equal(f(np.ones(n)), np.full(n, 2.0 if n <= 16 else 3.0))
    assert f.cache_info().exact == 0


@pytest.mark.usefixtures("uncompiled")
def test_donated_arrays_that_are_not_padded_are_given_away() -> None:
    f = tfn.jit(lambda state, x: state + x.sum(), buckets={"x": "n"}, donate_argnames="state")
    state = jnp.zeros(3)
    np.testing.assert_array_equal(f(state, np.ones(4, "float32")), np.full(3, 4.0))
    with pytest.raises(tfn.errors.DeletedArrayError):
        np.asarray(state)


@pytest.mark.usefixtures("uncompiled")
def test_methods_have_buckets_too() -> None:
    class Model:
        scale = 3.0

        @tfn.jit(static_argnums=0, buckets={"x": "n"})
        def double(self, x: Any) -> Any:
            return self.scale * x

    np.testing.assert_array_equal(Model().double(np.ones(3)), np.full(3, 3.0))
    assert isinstance(Model.double, Bucketed)


def effects(x: Any) -> Any:
    tfn.debug.print("{}", x)
    return x


WRONG: list[tuple[str, type[Exception], str, Any]] = [
    ("a transform along a padded axis", ShapeError, "fft transforms a padded axis",
     lambda x: jnp.fft.fft(x, axis=0)),
    ("a third of a size", ShapeError, "cannot be told", lambda x: x[::3]),
    ("a root of a size", ShapeError, "cannot be told", lambda x: x / x.shape[0] ** 0.5),
    ("a callback", ShapeError, "takes arrays of their true sizes only",
     lambda x: tfn.pure_callback(np.sort, tfn.ShapeDtypeStruct(x.shape, x.dtype), x)),
    ("effects", ArgumentError, "see padded arrays", effects),
]  # fmt: skip


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name, error, text, f", WRONG, ids=[row[0] for row in WRONG])
def test_what_cannot_be_padded_is_an_error(name: str, error: Any, text: str, f: Any) -> None:
    with pytest.raises(error, match=text) as caught:
        tfn.jit(f, buckets={"x": "n _"})(rows(5))
    assert name == "effects" or "test_bucketed.py:" in str(caught.value)


@pytest.mark.usefixtures("uncompiled")
def test_wrong_declarations_are_errors() -> None:
    two = lambda x, y: x + y
    with pytest.raises(ArgumentError, match="does not have"):
        tfn.jit(two, buckets={"z": "n"})(1.0, 2.0)
    with pytest.raises(AxisError, match="another number of axes"):
        tfn.jit(two, buckets={"x": "n m"})(np.ones(3), 2.0)
    with pytest.raises(ShapeError, match="two axes that differ"):
        tfn.jit(two, buckets={"x": "n", "y": "n"})(np.ones(3), np.ones(4))
    with pytest.raises(ShapeError, match="broadcasting") as caught:
        tfn.jit(two, buckets={"x": "n", "y": "m"})(np.ones(3), np.ones(3))
    assert "traced for buckets at" in caught.value.__notes__[-1]
    with pytest.raises(ShapeError, match="above all buckets"):
        tfn.jit(two, buckets=tfn.Buckets({"x": "n"}, (4, 8)))(np.ones(9), 2.0)
    fours = tfn.Buckets({"x": "n"}, constraints="n % 4 == 0")
    with pytest.raises(ShapeError, match="constraints"):
        tfn.jit(lambda x: x.reshape(-1, 4), buckets=fours)(np.ones(9))
    with pytest.raises(ArgumentError, match="default device"):
        tfn.jit(two, buckets={"x": "n"}, device=tfn.devices()[0])


@pytest.mark.usefixtures("uncompiled")
def test_constraints_let_an_axis_be_split() -> None:
    fours = tfn.Buckets({"x": "n"}, constraints="n % 4 == 0")
    f = tfn.jit(lambda x: (x.reshape(-1, 4).sum(0), x.reshape(4, -1).sum(1)), buckets=fours)
    x = np.arange(12.0)
    found = f(x)
    np.testing.assert_allclose(found[0], x.reshape(-1, 4).sum(0))
    np.testing.assert_allclose(found[1], x.reshape(4, -1).sum(1))


@pytest.mark.usefixtures("uncompiled")
def test_a_cache_of_keys_takes_prompts_of_any_length() -> None:
    def write(cache: Any, x: Any, at: Any) -> Any:
        cache = lax.dynamic_update_slice_in_dim(cache, x, at, 0)
        return cache, lax.dynamic_slice_in_dim(cache, at, x.shape[0], 0)

    f, cache = tfn.jit(write, buckets={"x": "n"}), jnp.zeros(12, "float64")
    for at, n in ((0, 3), (7, 5), (9, 3)):  # the bucket has 8, and only 5 places are left
        found, back = f(cache, np.ones(n), at)
        expected = np.zeros(12)
        expected[at : at + n] = 1
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(back, np.ones(n))
    assert f.cache_info().exact == 0
