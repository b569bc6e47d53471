"""Checkpoint policies, each on a few values."""

from __future__ import annotations

import pytest

import tfn
import tfn.numpy as tnp
from tfn import checkpoint_policies as policies
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def nodes() -> dict[str, UOp]:
    """A sine, a product, a batched product, and two values with names."""

    def f(x: tfn.Array) -> list[tfn.Array]:
        first = tfn.checkpoint_name(tnp.cos(x), "first")
        second = tfn.checkpoint_name({"a": x + 1}, "second")["a"]
        return [tnp.sin(x), x @ x, tnp.einsum("bij,bjk->bik", x[None], x[None]), first, second]

    outputs = tfn.make_jaxpr(f)(tnp.ones((2, 2))).outputs
    names = ("sin", "dot", "batched", "first", "second")
    found = dict(zip(names, outputs))
    batched = [u for u in walk([found["batched"]]) if u.op is Op.DOT]
    return found | {"batched": batched[0]}


NODES = nodes()
SAVED = {
    "everything_saveable": set(NODES),
    "nothing_saveable": set(),
    "dots_saveable": {"dot", "batched"},
    "checkpoint_dots": {"dot", "batched"},
    "dots_with_no_batch_dims_saveable": {"dot"},
    "checkpoint_dots_with_no_batch_dims": {"dot"},
}


@pytest.mark.parametrize("name", SAVED)
def test_by_operation(name: str) -> None:
    policy = getattr(policies, name)
    assert {n for n, node in NODES.items() if policy(node)} == SAVED[name]


def test_by_name() -> None:
    def saved(policy: policies.Policy) -> set[str]:
        return {n for n, node in NODES.items() if policy(node)}

    assert saved(policies.save_only_these_names("first", "third")) == {"first"}
    assert saved(policies.save_any_names_but_these("first")) == {"second"}
    assert saved(policies.save_anything_except_these_names("first")) == set(NODES) - {"first"}
    both = policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("second")
    )
    assert saved(both) == {"dot", "batched", "second"}
    assert policies.name_given(NODES["first"]) == "first"
    assert policies.name_given(NODES["sin"]) is None


def test_a_name_changes_nothing() -> None:
    assert tfn.checkpoint_name(3.0, "x") == 3.0
    f = lambda x: tnp.sin(tfn.checkpoint_name(x * 2, "double"))
    for run in (tfn.grad(f), tfn.jit(tfn.grad(f)), tfn.jacfwd(f)):
        assert float(run(0.0)) == 2.0
    assert tfn.vmap(tfn.grad(f))(tnp.zeros(2)).tolist() == [2.0, 2.0]
    assert "double" in str(tfn.make_jaxpr(f)(1.0))
    assert float(tfn.linear_transpose(lambda x: tfn.checkpoint_name(x * 2, "d"), 1.0)(1.0)[0]) == 2
