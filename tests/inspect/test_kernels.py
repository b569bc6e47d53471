"""Kernels by their operations, work and bytes."""

from __future__ import annotations

from typing import Any

import tfn
from tests.inspect.viewer.programs import TARGET, floats, layer, rnn
from tfn.inspect.kernels import by_body, of_program, title
from tfn.inspect.show import View
from tfn.trace.uop import walk


def view(function: Any, *args: Any) -> View:
    return View(tfn.jit(function).trace(*args).jaxpr, TARGET)


def test_titles_count_operations_and_end() -> None:
    nodes = list(walk(tfn.jit(layer).trace(floats(4, 8), floats(8, 8)).jaxpr.outputs))
    assert "dot_general" in title(nodes) and "+" in title(nodes * 2)
    assert title([]) == "copy"


def test_each_launch_of_a_program_has_its_kernel() -> None:
    made = view(rnn, floats(64, 128), floats(128, 128), floats(10, 64, 128))
    works = of_program(made.program, TARGET)
    assert len(works) == len(made.program.launches)
    assert all(work.title and work.traffic_bytes for work in works)
    product = next(work for work in works if "dot_general" in work.title)
    assert product.flops >= 2 * 64 * 128 * 128 and "." in product.label


def test_the_work_of_kernels_is_that_of_the_function() -> None:
    made = view(layer, floats(64, 128), floats(128, 256))
    works = by_body(made.graph).values()
    assert sum(work.flops for work in works) == made.cost["flops"]
    assert sum(work.traffic_bytes for work in works) == made.cost["bytes accessed"]
