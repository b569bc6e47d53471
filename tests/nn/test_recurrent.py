"""LSTM and GRU: values of PyTorch, cells against sequences, gradients through time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.waves import agrees, wave
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError

KEY = random.key(0)
XS = wave(4, 1, 3, start=11)


def test_lstm_against_torch() -> None:
    cell = nn.LSTMCell(nn.Linear(wave(8, 3).T, wave(8, start=7)), wave(8, 2, start=3).T)
    ys, (last,) = nn.LSTM((cell,))(XS)
    agrees(ys, [0.32939, -0.28201, 0.09149, 0.06068, 0.25151, 0.06687, 0.3611, -0.10851])
    agrees(last.cell, [0.55365, -0.17899])


def test_gru_against_torch() -> None:
    linear = nn.Linear(wave(6, 3).T, wave(6, start=7))
    cell = nn.GRUCell(linear, wave(6, 2, start=3).T, wave(2, start=13))
    ys, _ = nn.GRU((cell,))(XS)
    agrees(ys, [0.84447, -0.14934, 0.81135, 0.67857, 0.85575, 0.68521, 0.99092, 0.50451])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_sequence_is_its_cells(kind: Any, reverse: bool) -> None:
    model = kind.init(KEY, 3, 4, layers=2)
    xs = wave(5, 2, 3)
    ys, states = model(xs, reverse=reverse)
    now = [cell.start((2,)) for cell in model.cells]
    outputs = []
    for x in xs[::-1] if reverse else xs:
        for i, cell in enumerate(model.cells):
            now[i] = cell(x, now[i])
            x = cell.output(now[i])
        outputs.append(x)
    expected = jnp.stack(outputs[::-1] if reverse else outputs)
    np.testing.assert_allclose(ys, expected, rtol=1e-4, atol=1e-5)
    for actual, reference in zip(tree.leaves(states), tree.leaves(now), strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_it_goes_on_from_a_state(kind: Any) -> None:
    model = kind.init(KEY, 3, 4)
    xs = wave(6, 3)
    whole, end = model(xs)
    first, middle = model(xs[:4])
    second, last = model(xs[4:], middle)
    np.testing.assert_allclose(jnp.concatenate([first, second]), whole, rtol=1e-5, atol=1e-6)
    for a, b in zip(tree.leaves(end), tree.leaves(last), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_gradients_through_time(kind: Any) -> None:
    model, xs = kind.init(KEY, 3, 4), wave(6, 2, 3)

    def loss(model: Any) -> Any:
        return (model(xs)[0] ** 2).sum()

    slope = tfn.jit(tfn.grad(loss))(model)
    where = lambda m: m.cells[0].states
    nudge = wave(*where(model).shape) * 1e-2
    up, down = (loss(nn.tree_at(where, model, where(model) + s * nudge)) for s in (1, -1))
    np.testing.assert_allclose(2 * (where(slope) * nudge).sum(), up - down, rtol=2e-2, atol=1e-4)
    each = tfn.vmap(lambda x: model(x)[0], in_axes=1, out_axes=1)(xs)
    np.testing.assert_allclose(each, model(xs)[0], rtol=1e-4, atol=1e-5)


def test_first_values() -> None:
    cell = nn.LSTMCell.init(KEY, 3, 5)
    assert cell.inputs.bias is not None
    assert cell.inputs.bias.tolist() == [0] * 5 + [1] * 5 + [0] * 10
    assert nn.LSTMCell.init(KEY, 3, 5, dtype="bfloat16").states.dtype == jnp.bfloat16
    for kind in (nn.LSTM, nn.GRU):
        with pytest.raises(ArgumentError, match="needs layers >= 1"):
            kind.init(KEY, 3, 4, layers=0)
    ys, _ = nn.GRU.init(KEY, 3, 4)(jnp.zeros((0, 2, 3)))
    assert ys.shape == (0, 2, 4)
