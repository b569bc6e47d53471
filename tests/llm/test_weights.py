"""Weights: quantized ones beside the numbers that they stand for, and adapted ones."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.covering import in_turn
from tests.llm import building
from tfn import numpy as jnp
from tfn.llm import weights
from tfn.llm.blocks import BY_NAME
from tfn.llm.weights import Blocks

W = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)


def blocks() -> Blocks:
    raw = np.frombuffer(building.tensor(W, "Q8_0")[2], np.uint8).reshape(6, 2, 34)
    return Blocks(jnp.asarray(raw), "Q8_0")


def rounded(x: np.ndarray) -> np.ndarray:
    """Inputs as multiples of the 127th part of the largest of each block of 32."""
    by = x.astype("f8").reshape(*x.shape[:-1], -1, 32)
    step = np.maximum(np.abs(by).max(-1, keepdims=True) / 127, 1e-30)
    return (np.round(by / step) * step).reshape(x.shape)


def test_products_and_rows_of_blocks_are_those_of_their_numbers() -> None:
    w = blocks()
    plain = np.asarray(weights.dense(w))
    assert w.shape == (6, 64) and np.allclose(plain, W, atol=0.02)
    assert np.allclose(tfn.jit(weights.product)(X, w), rounded(X) @ plain.T, atol=1e-4)
    assert np.array_equal(weights.rows(w, jnp.asarray([[4, 1]])), plain[[[4, 1]]])


@pytest.mark.parametrize("form", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
@pytest.mark.parametrize("count", in_turn(2, [1, 2, 7, weights.FEW_ROWS, weights.FEW_ROWS + 1]))
def test_inputs_are_rounded_alike_few_or_many(form: str, count: int) -> None:
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 64, (6, 3, BY_NAME[form].bytes)).astype("u1")
    w, x = Blocks(jnp.asarray(raw), form), rng.standard_normal((count, 96)).astype("f4")
    x[:, :32] = 0
    exact = rounded(x) @ np.asarray(w.dense(), "f8").T
    got = tfn.jit(weights.product)(x, w)
    assert np.allclose(got, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())
    assert (
        np.array_equal(got[0], tfn.jit(weights.product)(x[0], w)) or count >= weights.SEVERAL_ROWS
    )


@pytest.mark.parametrize("form", ["Q4_0", "Q4_1", "Q8_0"])
def test_blocks_are_unpacked_once_for_a_few_inputs(form: str) -> None:
    """One kernel reads the weight, as often as for one input, whose rows are read four at once."""
    w = Blocks(jnp.zeros((64, 3, BY_NAME[form].bytes), dtype="uint8"), form)

    def loads(count: int) -> int:
        x = tfn.ShapeDtypeStruct((count, 96), "float32")
        return str(tfn.show(weights.product, x, w, at="linear", target="x86-64-v3")).count(
            "load b["
        )

    assert 0 < loads(weights.FEW_ROWS) <= loads(1)


@pytest.mark.parametrize("count", [2, weights.FEW_ROWS + 1])
def test_slopes_of_rounded_inputs_are_those_of_the_weights(count: int) -> None:
    w, x = blocks(), jnp.ones((count, 64))
    slope = tfn.grad(lambda x: weights.product(x, w).sum())(x)
    assert np.allclose(slope, np.tile(np.asarray(weights.dense(w)).sum(0), (count, 1)), atol=1e-5)


def test_narrow_floats_are_widened() -> None:
    w = jnp.asarray(W, dtype="bfloat16")
    assert weights.product(X, w).dtype == "float32"
    assert np.allclose(weights.product(X, w), X @ W.T, atol=0.2)


def test_an_adapted_weight_is_the_weight_and_a_product() -> None:
    down = jnp.asarray(np.random.default_rng(2).standard_normal((2, 64)), dtype="float32")
    w = weights.Adapted(blocks(), down, jnp.ones((6, 2)), 0.5)
    dense = np.asarray(weights.dense(w))
    more = 0.5 * np.ones((6, 2)) @ np.asarray(down)
    assert w.shape == (6, 64) and np.allclose(dense - weights.dense(w.base), more, atol=1e-6)
    exact = rounded(X) @ np.asarray(weights.dense(w.base)).T + X @ (dense - w.base.dense()).T
    assert np.allclose(weights.product(X, w), exact, atol=1e-4)
    assert np.allclose(weights.rows(w, jnp.asarray([2])), dense[[2]], atol=1e-6)


def test_weights_at_places_for_devices_are_not_copied() -> None:
    memory = np.zeros(4096, np.uint8)
    begin = -memory.ctypes.data % 64
    assert weights.held(memory[begin : begin + 64]).shape == (64,)
    assert np.array_equal(weights.held(memory[begin + 32 : begin + 96]), np.zeros(64))


@pytest.mark.parametrize("shape", [(5, 64), (8, 1, 64), (2, 3, 64)])
def test_large_weights_become_numbers_by_panels(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, uncompiled: None
) -> None:
    monkeypatch.setattr(weights, "LARGE", 1)
    monkeypatch.setattr(weights, "PANEL", 2)
    w, x = blocks(), np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    jaxpr = tfn.make_jaxpr(weights.product)(x, w)
    assert "f32[6,64]" not in str(jaxpr)
    found = weights.product(jnp.asarray(x), w)
    assert np.allclose(found, rounded(x) @ np.asarray(weights.dense(w)).T, atol=1e-4)
