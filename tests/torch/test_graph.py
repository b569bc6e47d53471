"""Graphs of PyTorch, node by node."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
from tests.torch.beside import HERE, MARKS
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.torch.graph import Runner, missing, unsupported
from tfn.torch.library import pytorch
from tfn.torch.ops import OPS

torch: Any = pytorch() if HERE else None
pytestmark = MARKS


def graph_of(module: Any, *args: Any) -> Any:
    return torch.export.export(module, args).module()


class Function(torch.nn.Module if HERE else object):  # type: ignore[misc]
    """A function of tensors as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported(function: Any, *args: Any) -> Any:
    return torch.export.export(Function(function), args).run_decompositions({}).graph_module


def test_operations_that_lack_a_row_are_counted() -> None:
    module = exported(lambda x: torch.special.airy_ai(x) + torch.special.airy_ai(x), torch.ones(3))
    assert missing(module, OPS) == {"aten.special_airy_ai.default": 2}
    assert "aten.special_airy_ai.default (2)" in str(unsupported(missing(module, OPS), "a network"))


def test_results_have_the_dtypes_of_pytorch() -> None:
    module = exported(lambda x: (x.sum(), x.argmax(), x > 0, x / 2), torch.arange(3).int())
    got = Runner(OPS)(module, [jnp.arange(3, dtype="int32")])
    assert [v.dtype.name for v in got] == ["int64", "int64", "bool", "float32"]


def test_random_operations_ask_for_a_key() -> None:
    module = exported(lambda x: x + torch.rand(3) + torch.rand(3), torch.zeros(3))
    with pytest.raises(ArgumentError, match="key"):
        Runner(OPS)(module, [jnp.zeros(3)])
    (once,) = Runner(OPS, tfn.random.key(0))(module, [jnp.zeros(3)])
    (again,) = Runner(OPS, tfn.random.key(0))(module, [jnp.zeros(3)])
    assert once.tolist() == again.tolist() and len(set(once.tolist())) == 3


def test_branches_are_those_of_values() -> None:
    module = exported(
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,)), torch.ones(2)
    )
    run = tfn.jit(lambda x: Runner(OPS)(module, [x])[0])
    assert run(-jnp.ones(2)).tolist() == [-2, -2]
    assert run(jnp.ones(2)).tolist() == jnp.sin(jnp.ones(2)).tolist()


def test_strides_of_a_result_are_those_of_its_rows() -> None:
    module = exported(
        lambda x: torch.as_strided(x.t().contiguous(), (2, 2), (1, 2), 1), torch.ones(2, 3)
    )
    x = jnp.arange(6.0).reshape(2, 3)
    want = torch.as_strided(torch.arange(6.0).reshape(2, 3).t().contiguous(), (2, 2), (1, 2), 1)
    assert Runner(OPS)(module, [x])[0].tolist() == want.tolist()
