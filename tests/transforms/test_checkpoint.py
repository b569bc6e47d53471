"""`checkpoint` changes the memory of the arena, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tests.lax.control import check
from tfn import checkpoint_policies as policies
from tfn import lax
from tfn.errors import ArgumentError
from tfn.trace.inline import plain
from tfn.trace.op import Op
from tfn.trace.uop import walk

pytestmark = pytest.mark.usefixtures("compiled")

LAYERS, WIDTH, ROWS = 16, 32, 128
ACTIVATION = ROWS * WIDTH * 4
RNG = np.random.default_rng(3)
WEIGHTS = [
    tnp.asarray(RNG.normal(size=(WIDTH, WIDTH)).astype("f") / WIDTH**0.5) for _ in range(LAYERS)
]
X = tnp.asarray(RNG.normal(size=(ROWS, WIDTH)).astype("f"))


def layer(w: Any, x: Any) -> Any:
    return tnp.tanh(tfn.checkpoint_name(tnp.sin(x @ w), "sine"))


def block(weights: Any, x: Any) -> Any:
    for w in weights:
        x = layer(w, x)
    return x


def loss(around: Callable[[Any], Any], size: int = 4) -> Callable[..., Any]:
    """The loss of a deep network, in blocks of so many layers."""

    def run(weights: Any, x: Any) -> Any:
        part = around(block)
        for i in range(0, LAYERS, size):
            x = part(weights[i : i + size], x)
        return (x * x).sum()

    return run


def peak(f: Any) -> float:
    """Activations that live at once in the gradient."""
    return float(tfn.jit(tfn.grad(f)).memory_analysis(WEIGHTS, X).temporary_bytes / ACTIVATION)


def with_policy(policy: Any) -> Callable[[Any], Any]:
    return lambda f: tfn.checkpoint(f, policy=policy)


def test_gradients_stay_the_same() -> None:
    expected = tfn.jit(tfn.grad(loss(lambda f: f)))(WEIGHTS, X)
    for policy in (
        None,
        policies.everything_saveable,
        policies.dots_saveable,
        policies.save_only_these_names("sine"),
    ):
        check(tfn.jit(tfn.grad(loss(with_policy(policy))))(WEIGHTS, X), expected, 1e-6)


def test_memory() -> None:
    """Four blocks of four layers: inputs of blocks, and the residuals of one block.

    A layer has three: the slope of a tanh needs its operand beside its result, which has no digits
    of the slope where it is near 1.
    """
    without = peak(loss(lambda f: f))
    nothing = peak(loss(tfn.checkpoint))
    assert without >= 2 * LAYERS
    assert nothing <= 4 + 3 * 4
    assert peak(loss(tfn.checkpoint, 16)) > peak(loss(tfn.checkpoint, 8)) > nothing
    assert peak(loss(tfn.checkpoint, 1)) > nothing
    assert peak(loss(with_policy(policies.everything_saveable))) == without
    assert peak(loss(lambda f: tfn.checkpoint(f, prevent_cse=False))) == without


def test_memory_by_policy() -> None:
    nothing = peak(loss(tfn.checkpoint))
    dots = peak(loss(with_policy(policies.dots_saveable)))
    named = peak(loss(with_policy(policies.save_only_these_names("sine"))))
    assert nothing + 6 <= dots <= LAYERS + 12
    assert nothing + 6 <= named <= LAYERS + 12
    assert peak(loss(with_policy(policies.save_only_these_names("other")))) == nothing
    assert peak(loss(with_policy(policies.dots_with_no_batch_dims_saveable))) == dots
    both = policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("sine")
    )
    assert peak(loss(with_policy(both))) > max(dots, named)


def count(f: Any, op: Op, *args: Any) -> int:
    """How often an op is computed by what runs at last."""
    function = plain(tfn.make_jaxpr(f)(*args).function)
    return sum(node.op is op for node in walk(function.src))


def test_the_second_run_is_real() -> None:
    f = lambda x: tnp.sin(tnp.sin(tnp.sin(x)))
    assert count(tfn.grad(f), Op.SIN, 1.0) == 2
    assert count(tfn.grad(tfn.checkpoint(f)), Op.SIN, 1.0) == 2  # the value is not asked for
    both = tfn.value_and_grad(tfn.checkpoint(f))
    assert count(both, Op.SIN, 1.0) == 3 + 2
    assert count(tfn.value_and_grad(f), Op.SIN, 1.0) == 3
    merged = tfn.value_and_grad(tfn.checkpoint(f, prevent_cse=False))
    assert count(merged, Op.SIN, 1.0) == 3
    assert count(lambda x: tfn.jvp(tfn.checkpoint(f), (x,), (x,)), Op.SIN, 1.0) == 3


def test_a_policy_is_a_function_of_nodes() -> None:
    asked: set[Op] = set()

    def policy(node: Any) -> bool:
        asked.add(node.op)
        return node.op is Op.EXP

    f = tfn.checkpoint(lambda x: tnp.sin(tnp.exp(tnp.sin(x))), policy=policy)
    assert count(tfn.value_and_grad(f), Op.EXP, 1.0) == 1
    assert count(tfn.value_and_grad(f), Op.SIN, 1.0) == 2
    assert {Op.EXP, Op.SIN} <= asked
    check(tfn.grad(f)(1.0), tfn.grad(lambda x: tnp.sin(tnp.exp(tnp.sin(x))))(1.0))


def test_arguments() -> None:
    @tfn.checkpoint(static_argnums=(1,))
    def f(x: Any, n: int, *, y: Any = 2.0) -> Any:
        return {"a": x["v"] ** n * y}

    slope = tfn.grad(lambda x, y: f(x, 3, y=y)["a"], (0, 1))
    check(slope({"v": 2.0}, 5.0), ({"v": tnp.array(60.0)}, tnp.array(8.0)))
    assert float(f({"v": 2.0}, 2)["a"]) == 8.0
    assert tfn.remat is tfn.checkpoint
    with pytest.raises(ArgumentError, match="checkpoint needs a function"):
        tfn.checkpoint(3)


def test_captured_values_are_differentiated() -> None:
    f = lambda w: tfn.checkpoint(lambda x: tnp.sin(x * w))(2.0)
    expected = 2 * np.cos(2.0)
    for run in (tfn.grad(f), tfn.jit(tfn.grad(f)), tfn.jacfwd(f), tfn.grad(tfn.jit(f))):
        assert float(run(1.0)) == pytest.approx(expected)
    check(tfn.vmap(tfn.grad(f))(tnp.ones(2)), tnp.full(2, expected))
    check(tfn.grad(lambda w: tfn.vmap(f)(w).sum())(tnp.ones(2)), tnp.full(2, expected))


def test_python_branches_on_known_values() -> None:
    f = tfn.checkpoint(lambda x: x * x if x > 0 else -x)
    assert float(tfn.grad(f)(3.0)) == 6.0 and float(tfn.grad(f)(-3.0)) == -1.0


def test_higher_orders_and_nesting() -> None:
    inner = tfn.checkpoint(tnp.sin)
    f = tfn.checkpoint(lambda x: inner(x) * inner(2 * x))
    g = lambda x: tnp.sin(x) * tnp.sin(2 * x)
    for transform in (
        tfn.grad,
        lambda h: tfn.grad(tfn.grad(h)),
        tfn.hessian,
        lambda h: tfn.grad(tfn.grad(tfn.grad(h))),
    ):
        check(transform(f)(0.7), transform(g)(0.7))
        check(
            tfn.jit(tfn.vmap(transform(f)))(tnp.array([0.7, 0.1])),
            tfn.vmap(transform(g))(tnp.array([0.7, 0.1])),
        )


def test_effects_happen_once(capfd: Any) -> None:
    def f(x: Any) -> Any:
        tfn.debug.print("x = {}", x)
        return tnp.sin(x)

    slope = tfn.jit(tfn.grad(tfn.checkpoint(f)))(1.0)
    tfn.effects_barrier()
    assert float(slope) == pytest.approx(np.cos(1.0))
    assert capfd.readouterr().out == "x = 1.0\n"


def test_an_array_is_not_copied_to_be_read_again() -> None:
    """A long vector: the second run reads the input where it is."""
    x = tnp.ones(1 << 16)
    f = tfn.jit(tfn.grad(lambda x: tfn.checkpoint(lambda v: tnp.exp(tnp.sin(v)))(x).sum()))
    assert f.memory_analysis(x).temporary_bytes < x.nbytes
    batched = tfn.jit(tfn.grad(lambda x: tfn.checkpoint(lambda v: tnp.sin(v.T))(x).sum()))
    assert batched.memory_analysis(x.reshape(256, 256)).temporary_bytes < x.nbytes


def test_a_scan_of_checkpointed_layers_keeps_their_inputs() -> None:
    stacked = tnp.stack(WEIGHTS)

    def f(around: Any) -> Any:
        step = around(layer)

        def run(weights: Any, x: Any) -> Any:
            last, _ = lax.scan(lambda c, w: (step(w, c), None), x, weights)
            return (last * last).sum()

        return tfn.jit(tfn.grad(run))

    lean, full = f(tfn.checkpoint), f(lambda g: g)
    check(lean(stacked, X), full(stacked, X), 1e-6)
    sizes = [g.memory_analysis(stacked, X).temporary_bytes / ACTIVATION for g in (lean, full)]
    assert sizes[0] < sizes[1] and sizes[0] <= LAYERS + 6


# Memory.


def test_checkpoint_keeps_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        f = tfn.checkpoint(lambda y: tnp.sin(tnp.sin(y) * c))
        tfn.grad(lambda y: f(y).sum())(x)

    assert growth(step) == NONE


def test_static_arguments_need_no_hash():
    f = tfn.checkpoint(lambda n, x: n["times"] * x, static_argnums=0)
    assert float(tfn.grad(lambda x: f({"times": 3.0}, x))(2.0)) == 3.0
