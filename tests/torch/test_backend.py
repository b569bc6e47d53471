"""`torch.compile(module, backend="tfn")` beside PyTorch without it."""

from __future__ import annotations

import copy
import logging
import threading
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.torch import drawn
from tests.torch.beside import HERE, MARKS
from tests.torch.networks import NAMES, made
from tfn.torch.backend import backend
from tfn.torch.library import pytorch

torch: Any = pytorch() if HERE else None
pytestmark = [
    *MARKS,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # PyTorch's own, while it traces
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Let each test trace anew."""
    if HERE:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(0)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def equal(ours: Any, theirs: Any) -> None:
    """Tensors, or lists of them, of the same dtype, strides, and nearly the same elements."""
    if isinstance(theirs, (list, tuple)):
        for one, other in zip(ours, theirs, strict=True):
            equal(one, other)
        return
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if ours.numel():
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_entry_point_names_the_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    place = project["project"]["entry-points"]["torch_dynamo_backends"]["tfn"]
    module, _, name = place.partition(":")
    assert getattr(import_module(module), name) is backend


def total(outputs: Any) -> Any:
    leaves = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum((leaf**2).mean() for leaf in leaves)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "recurrent"])
def test_training_steps_are_those_of_pytorch(name: str) -> None:
    """Recurrent layers are left to PyTorch by Dynamo itself."""
    module, inputs = made()[name]
    own = copy.deepcopy(module)
    run = compiled(own)
    losses: list[list[float]] = [[], []]
    for called, trained, kept in ((run, own, losses[0]), (module, module, losses[1])):
        optimizer = torch.optim.SGD(trained.parameters(), 0.05)
        for _ in range(4):
            optimizer.zero_grad()
            loss = total(called(*inputs))
            loss.backward()
            optimizer.step()
            kept.append(loss.item())
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    equal(list(own.buffers()), list(module.buffers()))


def writes_into_argument(x: Any) -> Any:
    x.mul_(2)
    return x + 1


def writes_into_a_view(x: Any) -> Any:
    x[0].add_(1)
    x.view(-1)[2:4].fill_(7)
    return x.sum()


def writes_a_transposed_part(x: Any) -> Any:
    x.t()[1].copy_(x[0, 0] * torch.ones(x.shape[0]))
    return x * 2


# fmt: off
FUNCTIONS: dict[str, Any] = {
    "an argument is written": writes_into_argument,
    "a view of an argument is written": writes_into_a_view,
    "a transposed view is written": writes_a_transposed_part,
    "an argument is returned": lambda x: x,
    "a view is returned": lambda x: x.t()[1:],
    "an argument is returned twice": lambda x: (x, x, x.view(-1)),
    "equal results are two": lambda x: (x + 1, x + 1),
    "a result and a view of it": lambda x: (y := x * 2, y[0], y.t()),
    "a copy is no alias": lambda x: x.clone(),
    "a constant": lambda x: (torch.arange(3), x.new_ones(2)),
    "a number": lambda x: (x.shape[0], 2.5, x * 3),
    "nothing": lambda x: (None, x.sin()),
    "results of a detour": lambda x: x.permute(1, 0).contiguous().sin().t(),
    "no elements": lambda x: (x[:0] * 2, x[:, :0].sum(0), torch.cat([x[:0], x])),
    "a scalar": lambda x: x.sum() * x.max(),
    "expanded": lambda x: x[:1].expand(5, -1) + x[:1].expand(5, -1),
    "integers": lambda x: ((x * 3).long() // 2, (x * 3).int() % 2, x > 0),
    "sorted": lambda x: (*x.sort(stable=True), x.topk(2, 1)[0]),
}
VIEWS: dict[str, Any] = {
    "whole": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "with gaps": lambda t: torch.cat([t, t], 1)[:, ::2],
    "that begins in a row": lambda t: torch.cat([t.new_zeros(1), t.reshape(-1)])[1:].view(t.shape),
    "expanded": lambda t: t[:1].expand(t.shape).clone(),
}
# fmt: on


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_writes_aliases_and_strides_are_those_of_pytorch(name: str, view: str) -> None:
    if view != "whole" and sum(map(ord, name + view)) % 3:
        return  # a third of all pairs, and each function once
    given = torch.tensor(np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32))
    ours, theirs = (VIEWS[view](given.clone()) for _ in range(2))
    run = compiled(FUNCTIONS[name])
    for _ in range(2):
        mine, want = run(ours), FUNCTIONS[name](theirs)
        parts = [(m, w) for m, w in zip(listed(mine), listed(want), strict=True)]
        for m, w in parts:
            assert type(m) is type(w)
            if isinstance(w, torch.Tensor):
                equal(m, w)
                assert m.stride() == w.stride() or m.numel() < 2 or "expanded" in name
            else:
                assert m == w
        equal(ours, theirs)
        for m, w in parts:  # what is written now shows which are the same memory
            if isinstance(w, torch.Tensor) and w.is_floating_point():
                m.add_(1)
                w.add_(1)
        equal([m for m, _ in parts if isinstance(m, torch.Tensor)],
              [w for _, w in parts if isinstance(w, torch.Tensor)])  # fmt: skip
        equal(ours, theirs)


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def test_a_tensor_that_is_written_between_calls_is_read_again() -> None:
    weight = torch.ones(3)
    run = compiled(lambda x: x * weight)
    assert run(torch.ones(3)).tolist() == [1, 1, 1]
    weight.fill_(2)
    assert run(torch.ones(3)).tolist() == [2, 2, 2]


def test_an_argument_may_be_passed_twice() -> None:
    x = torch.arange(4.0)

    def add(a: Any, b: Any) -> Any:
        a.add_(b)
        return a * b

    equal(compiled(add)(x, x), torch.arange(4.0) * 4 * torch.arange(4.0))


def test_an_operation_that_tfn_lacks_leaves_the_graph_to_pytorch(caplog: Any) -> None:
    run = compiled(lambda x: torch.special.airy_ai(x) + 1)
    with caplog.at_level(logging.WARNING, "tfn.torch"):
        equal(run(torch.arange(5.0)), torch.special.airy_ai(torch.arange(5.0)) + 1)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "tfn.torch"]
    assert "aten.special_airy_ai.default (1)" in line


def test_dropout_follows_the_seed_of_pytorch() -> None:
    run = compiled(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(1000, requires_grad=True)
    torch.manual_seed(3)
    first, second = run(x), run(x)
    torch.manual_seed(3)
    assert torch.equal(first, run(x)) and not torch.equal(first, second)
    assert set(first.tolist()) == {0.0, 2.0} and 400 < int((first == 0).sum()) < 600
    second.sum().backward()
    assert torch.equal(x.grad, second.detach())


def test_open_sizes_are_one_graph() -> None:
    run = compiled(lambda x: (x.reshape(-1).softmax(0) * x.shape[0], x.shape[0] + 1), dynamic=True)
    for n in (3, 5, 3, 8, 2):
        x = torch.arange(2.0 * n).reshape(n, 2)
        y, size = run(x)
        equal(y, x.reshape(-1).softmax(0) * n)
        assert type(size) is int and size == n + 1
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_open_sizes_in_buckets_share_programs() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Softmax(0))
    whole = copy.deepcopy(module)
    run = compiled(module, dynamic=True, options={"buckets": 2.0})
    for n in (3, 5, 8):
        x = torch.randn(n, 4)
        for ours, theirs in ((run(x), whole(x)),):
            equal(ours, theirs)
            ours.square().mean().backward()
            theirs.square().mean().backward()
        equal(*([p.grad for p in m.parameters()] for m in (module, whole)))
    with pytest.raises(Exception, match="one option: buckets"):
        compiled(torch.sin, options={"sizes": 2.0})(x)


def test_open_sizes_that_the_backward_graph_needs_are_numbers() -> None:
    run = compiled(lambda x: (x.flatten() * x.shape[0]).view(-1, x.shape[0]).sin(), dynamic=True)
    for n in (3, 5):
        x = torch.arange(2.0 * n).reshape(n, 2).requires_grad_()
        run(x).sum().backward()
        equal(x.grad, n * torch.cos(x.detach() * n))


def test_autocast_and_no_grad_are_followed() -> None:
    module, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
    run = compiled(module)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = run(x), module(x)
    assert ours.dtype is torch.bfloat16
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    ours.float().sum().backward()
    assert module.weight.grad is not None
    with torch.no_grad():
        assert not run(x).requires_grad


def test_threads_may_call_at_once() -> None:
    run = compiled(lambda x: (x @ x.t()).sin().sum(1))
    inputs = [torch.randn(16, 16) for _ in range(4)]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not torch.allclose(
                run(inputs[i]), (inputs[i] @ inputs[i].t()).sin().sum(1), atol=1e-4
            ):
                wrong.append(i)

    run(inputs[0])
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_second_results_keep_their_memory() -> None:
    """A result stays what it is while the next call runs."""
    run = compiled(lambda x: x * 2)
    kept = [run(torch.full((100,), float(i))) for i in range(10)]
    assert [float(k[7]) for k in kept] == [2.0 * i for i in range(10)]


@settings(max_examples=10)
@given(drawn.modules())
def test_drawn_modules_train_as_in_pytorch(steps: Any) -> None:
    torch._dynamo.reset()
    module, x = drawn.made(steps)
    own = copy.deepcopy(module)
    run = compiled(own)
    for called, trained in ((run, own), (module, module)):
        optimizer = torch.optim.SGD(trained.parameters(), 0.01)
        for _ in range(2):
            optimizer.zero_grad()
            drawn.loss(called(x)).backward()
            optimizer.step()
    torch.testing.assert_close(own.state_dict(), module.state_dict(), rtol=1e-3, atol=1e-4)
