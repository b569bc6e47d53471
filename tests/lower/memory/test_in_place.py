"""In-place results: outputs over donated inputs, and carries, that nothing reads any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_close, inputs, jaxpr, matmul, p, run_oracle
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tests.lower.thread_team import all_shared, run
from tfn.dtypes import INT32
from tfn.lower.memory.in_place import in_place_outputs
from tfn.lower.pipeline import lower
from tfn.lower.program import Loop, Program, Space, all_launches, is_serial
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.uop import UOp

X, G = p(0, 40, 30), p(1, 40, 30)
EVERY = range(4)


def program(*outputs: UOp) -> Program:
    return lower(jaxpr(outputs), HOST)


def donations(*outputs: UOp) -> dict[int, int]:
    lowered = program(*outputs)
    return in_place_outputs(lowered, range(len(lowered.inputs)))


def test_a_new_state_is_written_over_the_old_one() -> None:
    assert donations(X - G * 0.1) == {0: 0}
    m = X * 0.9 + G
    assert donations(p(2, 40, 30) - m, m) == {0: 0, 1: 1}


def test_inputs_of_the_same_shape_and_dtype_come_first() -> None:
    n = p(0, 1200, dtype=INT32)
    assert donations(build.cast(build.reshape(n, (40, 30)), G.dtype) + G) == {0: 1}
    assert donations(build.cast(n, G.dtype)) == {0: 0}, "as large is enough"


def test_only_donated_inputs_are_overwritten() -> None:
    assert in_place_outputs(program(X - G * 0.1), [1]) == {0: 1}
    assert in_place_outputs(program(X - G * 0.1), []) == {}


def test_each_input_is_overwritten_once() -> None:
    both = donations(X + 1, X * 2, X - 3)
    assert sorted(both.values()) == sorted(set(both.values()))


@pytest.mark.parametrize(
    "output",
    (
        build.flip(X, (0,)) + 1,
        build.permute(p(0, 30, 30), (1, 0)) * 2,
        matmul(p(0, 30, 30), p(0, 30, 30)),
        X - build.expand(build.add_up(X, (1,), keepdims=True), X.shape),
        build.concat([build.shrink(X, (1, 0), (40, 30)), build.shrink(X, (0, 0), (1, 30))], 0),
    ),
    ids=("flip", "transpose", "matmul", "row sum", "rolled"),
)
def test_not_over_an_input_read_at_other_indices(output: UOp) -> None:
    assert donations(output) == {}


def test_not_over_an_input_that_a_later_kernel_reads() -> None:
    first = X + 1.0
    later = build.add_up(build.flip(first, (0,)) * X, (0,))
    assert donations(first, later) == {}


def test_not_over_an_input_that_a_later_store_reads() -> None:
    first = build.unary(build.Op.SIN, G)
    lowered = program(first, first * X)
    assert len(lowered.launches) == 1
    over = in_place_outputs(lowered, [0])
    assert over in ({}, {1: 0}), "the product may go over X, the sine may not"


def test_not_over_an_aliased_input() -> None:
    assert donations(X, X + 1) == {} and donations(X + 1, X) == {}


def test_carries_stay_in_donated_memory() -> None:
    first, second = p(0, 30, 30), p(1, 30, 30)
    new = build.unary(build.Op.TANH, matmul(second, first)) + second
    body = function([new], (first.arg, second.arg))
    outputs = build.scan(body, [second], [first], [], 5)
    assert in_place_outputs(program(*outputs), [0]) == {0: 0}
    assert in_place_outputs(program(*outputs, build.flip(first, (0,)) * 2), [0]) == {}


def run_over(outputs: Sequence[UOp], threads: int) -> tuple[list[Any], dict[int, int]]:
    """The values of graphs, written over inputs wherever that is allowed."""
    lowered = program(*outputs)
    over = in_place_outputs(lowered, range(len(lowered.inputs)))
    arguments = [np.array(x) for x in inputs(outputs)]
    results = []
    for i, u in enumerate(outputs):
        if i in over:
            old = arguments[over[i]]
            results.append(old.reshape(-1).view(u.dtype).reshape(u.shape))
        else:
            results.append(np.zeros(u.shape, u.dtype))
    arena = np.zeros(lowered.arena_bytes + 64, np.uint8)
    run(lowered.steps, [*arguments, *results], arena, threads, inputs=len(arguments))
    for i, slot in lowered.aliases:
        results[i] = (arguments if slot.space is Space.INPUT else results)[slot.at]
    return results, over


@given(graphs(most=6, steps=STEPS + LOOPS * 3))
@settings(max_examples=60)
def test_in_place_results_of_random_programs(outputs: list[UOp]) -> None:
    expected = run_oracle(outputs, inputs(outputs))
    for threads in (1, 3):
        for got, want in zip(run_over(outputs, threads)[0], expected, strict=True):
            assert_close(got, want, 1e-3, 1e-3)


@given(graphs(most=3, steps=STEPS))
@settings(max_examples=60)
def test_in_place_updates_of_random_states(others: list[UOp]) -> None:
    """A new state for every parameter of a drawn program, computed from its values."""
    state = [u for u in map(_param, inputs(others), EVERY) if u.dtype == X.dtype]
    news = [
        build.unary(build.Op.SIN, u) + 0.5 * build.flip(u, range(u.ndim)[:i])
        for i, u in enumerate(state)
    ]
    outputs = [*news, *others]
    expected = run_oracle(outputs, inputs(outputs))
    for got, want in zip(run_over(outputs, 2)[0], expected, strict=True):
        assert_close(got, want, 1e-3, 1e-3)


def _param(x: np.ndarray[Any, Any], index: int) -> UOp:
    return p(index, *x.shape, dtype=x.dtype)


# In use.


def test_donated_arrays_are_updated_in_place_and_the_peak_is_known() -> None:
    def step(state: Any, g: Any) -> Any:
        return {name: x - 0.1 * g[name] for name, x in state.items()}

    update = tfn.jit(step, donate_argnums=0)
    state = {"w": tnp.ones((300, 7)) * 2, "b": tnp.ones(11) * 3}
    slope = {name: x * 0 + 1 for name, x in state.items()}
    size_bytes = sum(x.size * 4 for x in state.values())
    room = update.memory_analysis(state, slope)
    assert room.output_bytes == 0 and room.alias_bytes == size_bytes
    assert room.peak_bytes == 2 * size_bytes + room.temporary_bytes
    at = {name: x.buffer.address for name, x in state.items()}
    for count in range(1, 4):
        old, state = state, update(state, slope)
        assert all(x.is_deleted() for x in old.values())
        assert {name: x.buffer.address for name, x in state.items()} == at
        assert float(abs(state["w"] - (2 - 0.1 * count)).max()) < 1e-5


def test_arrays_with_other_references_are_not_overwritten() -> None:
    update = tfn.jit(lambda x, y: (x + 1, y * 2), donate_argnums=0)
    x = tnp.ones(100) * 3
    seen = np.asarray(x)
    update(x, tnp.ones(100))
    assert (seen == 3).all()
    twice = tnp.ones(100) * 3
    new, other = update(twice, twice)
    assert (np.asarray(new) == 4).all() and (np.asarray(other) == 6).all()


def test_carries_are_read_before_they_are_written() -> None:
    """Two results of one kernel: the carry is written first, and the other one reads the old."""

    def body(c: Any, x: Any) -> Any:
        new = tnp.exp(x) + tnp.flip(x, 0)
        return new, new * c

    rng = np.random.default_rng(0)
    c, xs = rng.normal(size=500).astype("f"), rng.normal(size=(3, 500)).astype("f")
    news = np.exp(xs) + xs[:, ::-1]
    _, products = tfn.jit(lambda c, xs: tfn.lax.scan(body, c, xs))(c, xs)
    np.testing.assert_allclose(np.asarray(products), news * [c, *news[:-1]], rtol=1e-5, atol=1e-5)


def test_indexed_updates_of_a_carry_are_in_place() -> None:
    """A table whose next row is computed from the last one: within the loop nothing is copied."""

    def fill(table: Any) -> Any:
        def row(i: Any, t: Any) -> Any:
            return t.at[i + 1].set(tnp.flip(t[i], 0) * 0.5 + t[i // 2])

        return tfn.lax.fori_loop(0, 39, row, table)

    table = np.random.default_rng(0).normal(size=(40, 300)).astype("f")
    expected = table.copy()
    for i in range(39):
        expected[i + 1] = expected[i, ::-1] * 0.5 + expected[i // 2]
    np.testing.assert_allclose(np.asarray(tfn.jit(fill)(table)), expected, rtol=1e-5, atol=1e-5)
    steps = lower(tfn.make_jaxpr(fill)(table), HOST).steps
    (loop,) = (step for step in steps if isinstance(step, Loop))
    inside = [step.kernel for step in all_launches(loop.body)]
    assert inside and not any(kernel.is_copy and kernel.tiles > 4 for kernel in inside)


def test_inputs_are_not_overwritten_without_a_barrier() -> None:
    """No barrier is between the two kernels, which read the same input."""
    outputs = build.add_up(X, (0,)), X + 1
    with all_shared():
        assert not any(step.barrier for step in program(*outputs).steps)
        assert donations(*outputs) == {}


def test_serial_steps_overwrite_what_earlier_ones_have_read() -> None:
    outputs = build.add_up(X, (0,)), X + 1
    steps = program(*outputs).steps
    assert not any(step.barrier for step in steps) and all(map(is_serial, steps))
    assert donations(*outputs) == {1: 0}
