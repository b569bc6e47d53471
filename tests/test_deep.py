"""A function of 5,000 nodes in one chain: traced, differentiated, compiled, run and printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.lower.check_passes import SMALL
from tfn.inspect.show import STAGES, View, show
from tfn.trace.uop import walk

SHAPE = tfn.ShapeDtypeStruct((4, 5), "float32")


def chain(steps: int) -> Callable[[Any, Any], Any]:
    """Three operations a step, with a root now and then that the gradient must remember."""

    def deep(x: Any, w: Any) -> Any:
        for i in range(steps):
            x = x - 0.05 * tnp.sqrt(x + w) if i % 100 == 0 else (x - w) * 0.999 + w
        return (x**2).sum()

    return deep


def reference(x: Any, w: Any, steps: int) -> tuple[Any, Any]:
    """The value, and its gradient to x, by hand."""
    slope = np.ones_like(x)
    for i in range(steps):
        if i % 100 == 0:
            root = np.sqrt(x + w)
            x, slope = x - 0.05 * root, slope * (1 - 0.025 / root)
        else:
            x, slope = (x - w) * 0.999 + w, slope * 0.999
    return (x**2).sum(), 2 * x * slope


STEPS = 1700


def test_it_has_so_many_nodes() -> None:
    for f, count in ((chain(STEPS), 5000), (tfn.grad(chain(STEPS), argnums=(0, 1)), 6000)):
        function = tfn.make_jaxpr(f)(SHAPE, SHAPE).function
        assert sum(1 for _ in walk(function.src)) > count


@pytest.mark.parametrize("steps", [3, 230, STEPS])
def test_it_runs(steps: int) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(0.3, 0.6, SHAPE.shape).astype("f4") for _ in range(2))
    value, slope = tfn.jit(tfn.value_and_grad(chain(steps)))(x, w)
    wanted, wanted_slope = reference(x.astype("f8"), w.astype("f8"), steps)
    np.testing.assert_allclose(value, wanted, rtol=1e-4)
    np.testing.assert_allclose(slope, wanted_slope, rtol=1e-3, atol=1e-5)
    assert np.abs(wanted_slope).max() > 0.05


def test_kernels_do_not_grow_with_it() -> None:
    sizes, counts = [], []
    for steps in (STEPS, 2 * STEPS):
        jaxpr = tfn.make_jaxpr(tfn.grad(chain(steps)))(SHAPE, SHAPE)
        program = View(jaxpr, SMALL).program
        sizes.append(max(kernel.text.count("\n") for kernel in program.kernels))
        counts.append(len(program.launches))
    assert max(sizes) < 5000 and sizes[1] < 1.2 * sizes[0]
    assert counts[0] < counts[1] < 20


@pytest.mark.parametrize("stage", in_turn(3, STAGES))
def test_its_gradient_prints(stage: str) -> None:
    text = show(tfn.grad(chain(STEPS)), SHAPE, SHAPE, at=stage, target=SMALL).text
    assert len(text.splitlines()) > (2 if stage == "cycles" else 20)  # cycles: a table a loop


def test_loops_make_it_small() -> None:
    def rolled(x: Any, w: Any) -> Any:
        x = tfn.lax.fori_loop(0, STEPS, lambda i, x: (x - w) * 0.999 + w, x)
        return (x**2).sum()

    jaxpr = tfn.make_jaxpr(tfn.grad(rolled))(SHAPE, SHAPE)
    assert sum(len(kernel.text) for kernel in View(jaxpr, SMALL).program.kernels) < 20_000
