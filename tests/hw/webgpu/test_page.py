"""Programs as data for pages: memories, shaders and commands, on machines without a browser."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tfn
from tests.lower.graphs import jaxpr, p
from tfn import extend, nn
from tfn import numpy as jnp
from tfn.exporting import programs
from tfn.extend import commands
from tfn.hw.webgpu import page
from tfn.lower import pipeline
from tfn.lower.program import Program
from tfn.trace import build


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extend, "LANGUAGES", dict(extend.LANGUAGES))


def lowered(*outputs: Any) -> Program:
    return pipeline.lower(jaxpr(outputs), *page.browser()[:1])


def test_an_array_is_a_memory_and_a_kernel_binds_those_it_uses() -> None:
    program = lowered(p(0, 100) * p(1, 100))
    record, layout = page.recorded(program, (), {})
    assert layout.places == ((0, 0), (1, 0), (2, 0), (3, 0))
    assert record["memories"] == [512, 512, 512, 256]
    (launch,) = record["commands"]
    assert launch["memories"] == [2, 0, 1] and launch["at"] == [0, 0, 0]
    (shader,) = record["shaders"]
    assert shader["writes"] == [True, False, False]
    assert json.loads(json.dumps(record)) == record


def test_an_output_over_an_input_is_one_memory() -> None:
    record, layout = page.recorded(lowered(p(0, 100) * p(1, 100)), (), {0: 1})
    assert layout.places[2] == layout.places[1]
    assert record["commands"][0]["memories"] == [1, 0]
    assert record["shaders"][0]["writes"] == [True, False]


def test_an_output_that_is_an_input_is_read_where_that_lies() -> None:
    _, layout = page.recorded(lowered(p(0, 10), p(0, 10) + 1.0), (), {})
    assert layout.places[1] == layout.places[0]


def test_constants_share_memories_as_large_as_a_browser_binds() -> None:
    x = [p(i, 1 << 24) for i in range(3)]  # of 64 MiB
    record, layout = page.recorded(lowered(build.add_up(x[0] + x[1] + x[2], (0,))), (0, 1, 2), {})
    assert layout.places[:3] == ((0, 0), (0, 1 << 26), (1, 0))
    assert record["memories"][:2] == [1 << 27, 1 << 26]


def test_operands_of_a_kernel_with_too_many_share_a_memory() -> None:
    total = p(0, 12)
    for i in range(1, 14):
        total = total * p(i, 12)
    record, _ = page.recorded(lowered(total), (), {})
    (launch,) = record["commands"]
    assert len(launch["memories"]) == 1 and len(set(launch["at"])) == 15
    assert len(record["memories"]) == 1


def test_no_more_kernels_than_on_the_cpu() -> None:
    """Of a step of training: its products, sums and updates are fused as there."""

    def step(w: Any, v: Any, x: Any, y: Any) -> Any:
        def loss(w: Any, v: Any) -> Any:
            return nn.losses.softmax_cross_entropy(nn.relu(x @ w) @ v, y).mean()

        return [a - 0.1 * b for a, b in zip((w, v), tfn.grad(loss, (0, 1))(w, v))]

    shapes = ((784, 512), (512, 10), (128, 784), (128, 10))
    args = tuple(np.zeros(shape, np.float32) for shape in shapes)
    request = programs.closed(step, args, {}, ())
    here, there = (
        sum(isinstance(c, commands.Launch) for c in commands.every(commands.record(program)))
        for program in (
            pipeline.lower(request.jaxpr, extend.host()),
            programs.lowered(request.jaxpr, *page.browser()),
        )
    )
    assert 5 < there <= 1.1 * here


def test_positions_that_become_numbers_have_32_bits() -> None:
    f = lambda x: (jnp.argmax(x, 1) == 3).sum() + jnp.arange(10)
    request = programs.closed(f, (np.zeros((10, 30), np.float32),), {}, ())
    program = programs.lowered(request.jaxpr, *page.browser())
    assert not any(f": {kind}64" in k.text for k in program.kernels for kind in "iu")
