"""What a loop costs to trace and to lower does not depend on how often it goes round.

Counted, not timed: nodes, kernels, launches, lines of the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL
from tfn.lower.pipeline import lower
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def t(*shape: int) -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, "float32")


def lstm(p: Any, xs: Any) -> Any:
    """64 hidden numbers, carried along a sequence."""

    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        z = x @ p["x"] + h @ p["h"] + p["b"]
        i, f, g, o = (z[:, k * 64 : (k + 1) * 64] for k in range(4))
        c = tfn.nn.sigmoid(f) * c + tfn.nn.sigmoid(i) * tnp.tanh(g)
        h = tfn.nn.sigmoid(o) * tnp.tanh(c)
        return (h, c), h

    zeros = tnp.zeros((xs.shape[1], 64))
    return (tfn.lax.scan(step, (zeros, zeros), xs)[1] ** 2).sum()


def transformer(p: Any, x: Any) -> Any:
    """Layers of one kind, of which the parameters are stacked."""

    def layer(x: Any, p: Any) -> Any:
        h = tfn.nn.standardize(x)
        q, k, v = (h @ p[name] for name in ("q", "k", "v"))
        x = x + tfn.nn.softmax(q @ k.swapaxes(1, 2) / 4) @ v @ p["o"]
        return x + tfn.nn.gelu(tfn.nn.standardize(x) @ p["a"]) @ p["b"], None

    return (tfn.lax.scan(layer, x, p)[0] ** 2).sum()


def sequence(steps: int) -> tuple[Callable[..., Any], Any, Any]:
    return lstm, {"x": t(32, 256), "h": t(64, 256), "b": t(256)}, t(steps, 4, 32)


def stack(layers: int) -> tuple[Callable[..., Any], Any, Any]:
    p = {name: t(layers, 16, 16) for name in "qkvo"}
    return transformer, p | {"a": t(layers, 16, 64), "b": t(layers, 64, 16)}, t(2, 8, 16)


class Size(NamedTuple):
    """How much there is of a program."""

    nodes: int
    kernels: int
    launches: int
    kernel_lines: int
    driver_lines: int


def nodes(roots: Any) -> Iterator[UOp]:
    """All nodes, those of nested functions too."""
    for node in walk(roots):
        yield node
        if node.op is Op.FUNCTION:
            yield from nodes(node.src)


def size(f: Callable[..., Any], *types: Any) -> Size:
    jaxpr = tfn.make_jaxpr(f)(*types)
    program = lower(jaxpr, SMALL)
    return Size(
        sum(1 for _ in nodes(jaxpr.outputs)),
        len(program.kernels),
        len(program.launches),
        sum(kernel.text.count("\n") for kernel in program.kernels),
        program.text.count("\n"),
    )


@pytest.mark.parametrize("gradient", (False, True))
@pytest.mark.parametrize(("model", "few", "many"), ((sequence, 1000, 4000), (stack, 8, 16)))
def test_the_length_of_a_loop_costs_nothing(
    model: Callable[[int], Any], few: int, many: int, gradient: bool
) -> None:
    sizes = []
    for count in (few, many):
        f, *types = model(count)
        sizes.append(size(tfn.value_and_grad(f) if gradient else f, *types))
    assert sizes[0]._replace(kernel_lines=0) == sizes[1]._replace(kernel_lines=0)
    assert sizes[1].kernel_lines <= 1.02 * sizes[0].kernel_lines
    assert sizes[0].kernels <= (45 if gradient else 15)


def test_equal_layers_that_are_called_cost_one() -> None:
    def net(count: int) -> Callable[..., Any]:
        layer = tfn.call(lambda w, x: tnp.tanh(tfn.nn.standardize(x) @ w) + x)

        def loss(ws: Any, x: Any) -> Any:
            for w in ws:
                x = layer(w, x)
            return (x**2).sum()

        return tfn.value_and_grad(loss)

    first, second, third = (size(net(n), [t(16, 16)] * n, t(8, 16)) for n in (4, 8, 12))
    assert first[1:4] == second[1:4] == third[1:4]
    assert third.nodes - second.nodes == second.nodes - first.nodes
