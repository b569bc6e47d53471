"""Exported networks as functions, beside the modules that they come from."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tfn
from tests.torch import drawn
from tests.torch.beside import HERE, MARKS, as_numpy
from tests.torch.networks import NAMES, made
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError, NotAvailableError, ShapeError
from tfn.torch import from_exported, from_module
from tfn.torch.library import pytorch

torch: Any = pytorch() if HERE else None
pytestmark = MARKS


def total(outputs: Any) -> Any:
    """A number that all outputs have a part in."""
    leaves = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum((leaf * leaf.shape[-1] ** -0.5 * leaf).sum() for leaf in leaves)


def arrays(inputs: Any) -> list[Any]:
    return [jnp.asarray(x.numpy()) for x in inputs]


@pytest.mark.parametrize("name", NAMES)
def test_networks_have_the_values_and_gradients_of_pytorch(name: str, uncompiled: None) -> None:
    module, inputs = made()[name]
    f, (params, buffers) = from_module(module, inputs)
    own = copy.deepcopy(module)
    want = own(*inputs)
    total(want).backward()
    outputs, after = f(params, buffers, *arrays(inputs))
    for ours, theirs in zip(as_numpy(outputs), as_numpy(want), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    for key, value in own.named_buffers():
        np.testing.assert_allclose(after[key], value, rtol=1e-5, atol=1e-6)
    slopes = tfn.grad(lambda p: total(f(p, buffers, *arrays(inputs))[0]))(params)
    largest = max(float(p.grad.abs().max()) for p in own.parameters())
    for key, parameter in own.named_parameters():
        np.testing.assert_allclose(slopes[key], parameter.grad, atol=1e-5 * largest)


@settings(max_examples=30)
@given(drawn.modules())
def test_drawn_modules_have_the_values_and_gradients_of_pytorch(steps: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "device", "python")
        module, x = drawn.made(steps)
        f, (params, buffers) = from_module(module, (x,))
        own = copy.deepcopy(module)
        want = own(x)
        drawn.loss(want).backward()
        outputs, after = f(params, buffers, *arrays([x]))
        for ours, theirs in zip(as_numpy(outputs), as_numpy(want), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(after["calls"], own.calls.numpy())
        slopes = tfn.grad(lambda p: drawn.loss(f(p, buffers, *arrays([x]))[0]))(params)
        for key, parameter in own.named_parameters():
            expected = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad
            np.testing.assert_allclose(slopes[key], expected, rtol=1e-3, atol=1e-4)


def test_a_network_is_compiled_batched_and_exported_like_any_function() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh()).eval()
    x = torch.randn(5, 3)
    f, (params, buffers) = from_module(module, (x,))
    run = tfn.jit(lambda x: f(params, buffers, x)[0])
    want = module(x).detach().numpy()
    np.testing.assert_allclose(run(jnp.asarray(x.numpy())), want, atol=1e-6)
    many = tfn.vmap(run)(jnp.asarray(torch.stack([x, x]).numpy()))
    np.testing.assert_allclose(many[1], want, atol=1e-6)


def test_open_sizes_stay_open_and_fixed_ones_are_checked() -> None:
    module, batch = torch.nn.Linear(3, 2), torch.export.Dim("batch", min=2, max=9)
    program = torch.export.export(module, (torch.ones(4, 3),), dynamic_shapes=({0: batch},))
    f, state = from_exported(program)
    assert f(*state, jnp.ones((7, 3)))[0].shape == (7, 2)
    for shape in ((7, 4), (10, 3), (3,)):
        with pytest.raises(ShapeError, match="does not allow"):
            f(*state, jnp.ones(shape))


def test_parameters_are_those_of_the_module_until_they_are_copied() -> None:
    module = torch.nn.Linear(3, 2)
    _, (shared, _) = from_module(module, (torch.ones(4, 3),))
    _, (copied, _) = from_module(module, (torch.ones(4, 3),), copy=True)
    with torch.no_grad():
        module.bias.fill_(5.0)
    assert shared["bias"].tolist() == [5, 5] and copied["bias"].tolist() != [5, 5]


def test_a_parameter_under_two_names_is_one() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    f, (params, buffers) = from_module(module, (torch.ones(2, 3),))
    assert sorted(params) == ["0.weight", "1.bias"]
    moved = {**params, "0.weight": jnp.zeros((3, 3))}
    assert f(moved, buffers, jnp.ones((2, 3)))[0][0].tolist() == params["1.bias"].tolist()


def test_dropout_takes_a_key() -> None:
    f, state = from_module(torch.nn.Dropout(0.5), (torch.ones(64),))
    y, _ = f(*state, jnp.ones(64), key=tfn.random.key(0))
    assert set(y.tolist()) == {0.0, 2.0}
    with pytest.raises(ArgumentError, match="random"):
        f(*state, jnp.ones(64))


class Named(torch.nn.Module if HERE else object):  # type: ignore[misc]
    """Arguments in trees and by name, and a result in a dictionary."""

    def forward(self, pair: Any, *, scale: Any) -> Any:
        return {"sum": (pair[0] + pair[1]) * scale, "first": pair[0]}


def test_arguments_and_results_keep_their_structure() -> None:
    ones = torch.ones(2)
    f, state = from_module(Named(), ((ones, ones),), {"scale": torch.tensor(3.0)})
    outputs, _ = f(*state, (jnp.ones(2), jnp.ones(2)), scale=jnp.asarray(2.0))
    assert outputs["sum"].tolist() == [4, 4] and set(outputs) == {"sum", "first"}
    with pytest.raises(ArgumentError, match="structure"):
        f(*state, jnp.ones(2), scale=jnp.asarray(2.0))


class Writes(torch.nn.Module if HERE else object):  # type: ignore[misc]
    """A module that counts its calls, or writes into its argument."""

    def __init__(self, argument: bool = False) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.argument = argument

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        return x.mul_(2) if self.argument else x * self.calls


def test_what_is_written_into_a_buffer_comes_back() -> None:
    f, (params, buffers) = from_module(Writes(), (torch.ones(2),))
    y, after = f(params, buffers, jnp.ones(2))
    z, last = f(params, after, jnp.ones(2))
    assert (y.tolist(), z.tolist()) == ([1, 1], [2, 2]) and float(last["calls"]) == 2


def test_a_network_that_writes_into_its_argument_is_an_error() -> None:
    with pytest.raises(NotAvailableError, match="writes into an input"):
        from_module(Writes(argument=True), (torch.ones(2),))


class Lacking(torch.nn.Module if HERE else object):  # type: ignore[misc]
    """A module with an operation that tfn lacks."""

    def forward(self, x: Any) -> Any:
        return torch.special.airy_ai(x)


def test_operations_that_tfn_lacks_are_named_and_can_be_given() -> None:
    with pytest.raises(NotAvailableError, match=r"aten\.special_airy_ai\.default \(1\)"):
        from_module(Lacking(), (torch.ones(5),))
    f, state = from_module(Lacking(), (torch.ones(5),), ops={"special_airy_ai": lambda x: x[:4]})
    assert f(*state, jnp.ones(5))[0].tolist() == [1, 1, 1, 1]


def test_something_else_than_a_program_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="exported network"):
        from_exported(torch.nn.Linear(2, 2))
