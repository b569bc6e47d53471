"""A call of a function with rules: one node, closed, the same for equal calls."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import TfnError
from tfn.trace.argument import Leaf
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.custom import Fixed, is_known


def customs(f: Any, *args: Any) -> list[UOp]:
    return [u for u in walk(tfn.make_jaxpr(f)(*args).outputs) if u.op is Op.CUSTOM]


@tfn.custom_jvp
def square(x: Any) -> Any:
    return x * x


square.defjvp(lambda p, t: (square(*p), 2 * p[0] * t[0]))


def test_a_call_is_one_node() -> None:
    (node,) = customs(lambda x: square(x) + square(x), 1.0)
    assert node.arg.name == "square" and "custom[" in str(tfn.make_jaxpr(square)(1.0))
    assert len(customs(lambda x: square(x) + square(2 * x), 1.0)) == 2


def test_equal_calls_make_equal_programs() -> None:
    one, other = (tfn.make_jaxpr(lambda x: square(x) + 1)(1.0).function for _ in range(2))
    assert one is other


def test_outside_of_a_trace_it_is_only_called() -> None:
    seen: list[Any] = []
    f = tfn.custom_vjp(lambda x: (seen.append(type(x)), x * 2)[1])
    assert float(f(3.0)) == 6.0 and seen == [float]


def test_captured_values_are_operands() -> None:
    def f(w: Any) -> Any:
        g = tfn.custom_jvp(lambda x: x * w)
        return g(2.0 * tfn.lax.stop_gradient(w))

    (node,) = customs(f, 1.0)
    assert len(node.src) == 3
    assert float(tfn.jit(f)(3.0)) == 18.0


def test_lowering_forgets_the_rules() -> None:
    before = tfn.jit(lambda x: square(x))
    assert float(before(3.0)) == 9.0
    text = str(tfn.show(lambda x: square(x) * 2, tnp.ones(3), at="kernels"))
    assert "mul" in text and "custom" not in text


def test_fixed_arguments_are_compared_by_value_if_they_can_be() -> None:
    assert Fixed((0,), (1,)) == Fixed((0,), (1,)) != Fixed((0,), (1.0,))
    assert hash(Fixed((0,), ((1, 2),))) == hash(Fixed((0,), ((1, 2),)))
    shared = [1]
    assert Fixed((0,), (shared,)) == Fixed((0,), (shared,)) != Fixed((0,), ([1],))
    assert Fixed((1,), ("b",)).join(["a", "c"]) == ["a", "b", "c"]


def test_known_values() -> None:
    def of(value: Any) -> UOp:
        return UOp(Op.LEAF, (), Leaf((), tnp.float32(0).dtype, value))

    concrete, unknown = of(tnp.array(1.0)), of(None)
    assert is_known(concrete * 2.0) and not is_known(concrete * unknown)


def test_errors_pass_through_with_a_note() -> None:
    f = tfn.custom_jvp(lambda x: x @ x)
    with pytest.raises(TfnError) as caught:
        tfn.jit(f)(1.0)
    assert any("custom_jvp traced <lambda>" in note for note in caught.value.__notes__)
