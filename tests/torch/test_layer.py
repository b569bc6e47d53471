"""Functions of tfn as functions of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.beside import HERE, MARKS
from tfn import lax
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.torch import to_torch
from tfn.torch.library import pytorch

torch: Any = pytorch() if HERE else None
pytestmark = MARKS


def test_a_function_is_a_layer_of_a_network() -> None:
    layer = to_torch(lambda x, w: jnp.tanh(x @ w))
    x, w = torch.randn(5, 3), torch.randn(3, 4, requires_grad=True)
    own = w.detach().clone().requires_grad_()
    (layer(torch.nn.functional.pad(x, (0, 0)), w) ** 2).sum().backward()
    (torch.tanh(x @ own) ** 2).sum().backward()
    torch.testing.assert_close(w.grad, own.grad)
    assert not layer(x, w.detach()).requires_grad


def test_trees_go_in_and_come_out() -> None:
    layer = to_torch(lambda p: {"y": p["a"] * p["n"], "n": p["n"] + 1})
    a = torch.ones(3, requires_grad=True)
    out = layer({"a": a, "n": torch.arange(3)})
    assert out["n"].tolist() == [1, 2, 3] and not out["n"].requires_grad
    out["y"].sum().backward()
    assert a.grad.tolist() == [0, 1, 2]


def test_what_is_written_later_is_seen_and_results_stay() -> None:
    layer = to_torch(lambda x: x)
    x = torch.zeros(100)
    first = layer(x)
    x.fill_(1)
    assert first.sum() == 0 and layer(x).sum() == 100


def test_loops_of_tfn_have_gradients_in_pytorch() -> None:
    def settle(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, y: (y + x / y) / 2, x)

    x = torch.tensor([2.0, 9.0], dtype=torch.float64, requires_grad=True)
    root = to_torch(settle)(x)
    torch.testing.assert_close(root.detach(), x.detach().sqrt(), rtol=1e-4, atol=1e-4)
    assert torch.autograd.gradcheck(to_torch(settle), (x,))


def test_complex_gradients_are_those_of_pytorch() -> None:
    z = torch.tensor([1.0 + 2j, 3 - 1j], requires_grad=True)
    own = z.detach().clone().requires_grad_()
    to_torch(lambda z: (z * z * (1 + 2j)).real.sum())(z).backward()
    (own * own * (1 + 2j)).real.sum().backward()
    torch.testing.assert_close(z.grad, own.grad)


def test_an_argument_that_is_no_tensor_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="takes tensors"):
        to_torch(lambda x: x)(1.0)
