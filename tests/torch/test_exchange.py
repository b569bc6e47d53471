"""Tensors as arrays and arrays as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.torch.beside import HERE, MARKS
from tfn import numpy as jnp
from tfn.errors import NotAvailableError
from tfn.torch.exchange import array, tensor
from tfn.torch.library import pytorch

torch: Any = pytorch() if HERE else None
pytestmark = MARKS

NAMES = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("name", NAMES)
def test_tensors_and_arrays_have_the_same_elements(name: str) -> None:
    t = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name))
    x = array(t)
    assert x.dtype.name == name and x.shape == (2, 3)
    back = tensor(x)
    assert back.dtype == t.dtype and torch.equal(back, t)


def test_memory_is_shared_and_not_copied() -> None:
    t = torch.zeros(64)
    x = array(t)
    t[3] = 5
    assert x.unsafe_buffer_pointer() == t.data_ptr() and x[3].item() == 5
    y = jnp.arange(64.0) + 1
    assert y.unsafe_buffer_pointer() == tensor(y).data_ptr()


CONSTANT = jnp.ones(8)
SHARED = {
    "an operand": lambda x: x,
    "the same result twice": lambda x: (x + 1, x + 1),
    "a constant": lambda x: CONSTANT,
    "a constant of the trace": lambda x: jnp.asarray(np.arange(8.0)),
    "a result that was given away": lambda x: x * 3,
}


@pytest.mark.parametrize("what", SHARED)
def test_what_is_written_into_a_tensor_changes_no_array(what: str) -> None:
    run, x = tfn.jit(SHARED[what]), jnp.arange(8.0)
    want = [np.array(y) for y in tfn.tree.leaves(run(x))]
    for _ in range(2):
        tensors = [tensor(y) for y in tfn.tree.leaves(run(x))]
        for t, expected in zip(tensors, want, strict=True):
            np.testing.assert_array_equal(t.numpy(), expected)
            t.fill_(-1)
    assert x.tolist() == list(range(8)) and CONSTANT.tolist() == [1] * 8


STRIDED = {
    "transposed": lambda t: t.t(),
    "a step": lambda t: t[:, ::2],
    "a part that begins anywhere": lambda t: t.reshape(-1)[3:7],
    "expanded": lambda t: t[:1].expand(4, 6),
    "without elements": lambda t: t[:0],
    "one element": lambda t: t[1, 1],
    "a negative view": lambda t: torch.complex(t, t).conj().imag,
}


@pytest.mark.parametrize("how", STRIDED)
def test_views_are_the_values_that_they_show(how: str) -> None:
    view = STRIDED[how](torch.arange(24.0).reshape(4, 6))
    np.testing.assert_array_equal(array(view), view.resolve_neg().numpy())


def test_tensors_live_as_long_as_their_arrays() -> None:
    x = array(torch.arange(1000.0))
    others = [torch.full((1000,), float(i)) for i in range(8)]
    assert float(x.sum()) == 499500 and len(others) == 8


def test_a_tensor_without_an_array_is_an_error() -> None:
    with pytest.raises(NotAvailableError, match="no arrays like this tensor"):
        array(torch.eye(3).to_sparse())


def test_requires_grad_is_of_no_account() -> None:
    assert float(array(torch.ones((), requires_grad=True))) == float(tfn.numpy.ones(()))
