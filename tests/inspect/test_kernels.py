"""Kernels by their operations, work and bytes."""

from __future__ import annotations

from typing import Any

import tfn
from tests.inspect.viewer.programs import TARGET, floats, layer, rnn
from tfn import numpy as jnp
from tfn.inspect.kernels import by_body, evaluations, factors, of_program, title
from tfn.inspect.show import View
from tfn.lower.fuse.ranges import IndexedKernel
from tfn.trace.op import Op
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


def test_evaluations_are_in_all_loops_around_a_load() -> None:
    """An operand of a product would be computed for each row or column of the other."""

    def f(x: Any, w: Any) -> Any:
        return jnp.tanh(x) @ w

    *_, product = view(f, floats(8, 5), floats(5, 7)).stages
    assert isinstance(product, IndexedKernel) and len(product.operands) == 3
    assert evaluations(product.body) == {1: 8 * 5 * 7, 2: 8 * 5 * 7}


def test_an_operand_that_is_read_in_part_counts_for_that_part() -> None:
    """The end of a long sum reads the few elements that its blocks have left."""
    made = view(lambda x: x.sum(), floats(90_001))
    (blocks,), (end,) = by_body(made.graph).values()
    assert blocks.traffic_bytes > 4 * 80_000
    assert 0 < end.traffic_bytes < 4 * 2_000


def test_the_work_of_kernels_is_that_of_the_function() -> None:
    made = view(layer, floats(64, 128), floats(128, 256))
    works = [work for equal in by_body(made.graph).values() for work in equal]
    assert sum(work.flops for work in works) == made.cost["flops"]
    assert sum(work.traffic_bytes for work in works) == made.cost["bytes accessed"]


def test_the_arithmetic_of_a_kernel_has_the_dtype_of_its_factors() -> None:
    def dtype(dtype: str) -> set[str]:
        x = floats(4, 4).update(dtype=dtype)
        jaxpr = tfn.jit(lambda x: tfn.numpy.exp(x @ x)).trace(x).jaxpr
        return {factors([u]) for u in walk(jaxpr.outputs) if u.op is Op.DOT}

    for name in ("bfloat16", "float16", "float32", "float64"):
        assert dtype(name) == {name}
    assert factors([]) == "float32"
