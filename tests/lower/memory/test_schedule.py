"""Program schedule: loops and branches as steps, carries in place or copied, live ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from tests.lower.check_passes import HOST
from tests.lower.graphs import (
    assert_close,
    assert_matches_oracle,
    draw,
    inputs,
    jaxpr,
    matmul,
    p,
    run_oracle,
)
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tests.lower.thread_team import all_shared, run_on_threads
from tfn.dtypes import BOOL, FLOAT32, INT32
from tfn.lower.pipeline import lower
from tfn.lower.program import BARRIER_NS, Branch, HostCall, Launch, Loop, Program, Space, Step
from tfn.trace import build
from tfn.trace.argument import Host as HostFunction
from tfn.trace.argument import VmapMethod
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def body(own: Sequence[UOp], *outputs: UOp) -> UOp:
    return function(outputs, tuple(u.arg for u in own))


def program(*outputs: UOp) -> Program:
    return lower(jaxpr(outputs), HOST)


def loops(steps: Sequence[Step]) -> list[Loop]:
    return [s for s in steps if isinstance(s, Loop)]


def launches(steps: Sequence[Step]) -> list[Launch]:
    return [s for s in steps if isinstance(s, Launch)]


X, W = p(0, 6, 6), p(1, 6, 6)


def repeated(step: Callable[[UOp, UOp], UOp], length: int = 4) -> list[UOp]:
    """The last carry of a loop that does `step` with a constant beside it."""
    return build.scan(body([X, W], step(W, X)), [p(1, 6, 6)], [p(0, 6, 6)], [], length)


def mixed(c: UOp, w: UOp) -> UOp:
    """Reads every element of the carry for each of its own."""
    return build.unary(Op.TANH, matmul(c, w))


# Carries.


def test_carries_read_at_other_indices_are_copied() -> None:
    outputs = repeated(mixed)
    with all_shared():
        (loop,) = loops(program(*outputs).steps)
    assert len(loop.body) == 2 and loop.trips == 4
    computed, copied = launches(loop.body)
    assert computed.operands[0] == copied.operands[1] and copied.barrier
    assert_matches_oracle(outputs)


def test_elementwise_carries_are_in_place() -> None:
    """The other carry is summed, which keeps this from being a loop in one kernel."""
    v, c = p(0, 6), p(1, 6, 6)
    step = body([v, c], build.unary(Op.TANH, build.add_up(c, (0,))), c * 0.9 + 0.1)
    outputs = build.scan(step, [], [v, c], [], 5)
    (loop,) = loops(program(*outputs).steps)
    over = [s for s in launches(loop.body) if s.operands[0] == s.operands[1]]
    assert len(launches(loop.body)) == 2 and len(over) == 1
    assert_matches_oracle(outputs)


def test_permuted_carries() -> None:
    a, b, c = (p(i, 3, 3) for i in range(3))
    swap = body([a, b, c], b, c, matmul(a, b))
    outputs = build.scan(swap, [], [a, b, c], [], 5)
    assert_matches_oracle(outputs, rtol=1e-3, atol=1e-3)
    turned = build.scan(body([a, b, c], c, a, b), [], [a, b, c], [], 4)
    assert_matches_oracle(turned)


def test_slices_of_carries_are_copied_before_carries() -> None:
    for length in (1, 2, 5):
        for first in ((), (4,), (3, 3)):
            a = p(0, *first)
            step = body([a], build.unary(Op.TANH, a * 1.5), a, a + 1.0)
            assert_matches_oracle(build.scan(step, [], [a], [], length))
    step = body([X], mixed(X, X), X)
    assert_matches_oracle(build.scan(step, [], [X], [], 3))


# Slices.


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_slices_move_with_the_loop(length: int, reverse: bool) -> None:
    c, x, xs = p(0, 3, 5), p(1, 3, 5), p(1, length, 3, 5)
    across = build.permute(x, (1, 0))
    step = body([c, x], mixed(matmul(c, across), c), matmul(c, across))
    outputs = build.scan(step, [], [p(0, 3, 5)], [xs], length, reverse)
    assert_matches_oracle(outputs, rtol=1e-4, atol=1e-4)
    if length > 1:
        (loop,) = loops(program(*outputs).steps)
        moved = {s.strides for launch in launches(loop.body) for s in launch.operands if s.strides}
        sign = -1 if reverse else 1
        assert moved == {((loop.number, sign * 60),), ((loop.number, sign * 36),)}


def test_loops_read_reshaped_operands_in_place() -> None:
    """Of inputs, and of values that other kernels make; once, whatever their shapes."""
    c, x, w = p(0, 6), p(1, 6), p(2, 2, 3)
    step = body([w, c, x], c * 2 + x * build.reshape(w, (6,)))
    weights = build.reshape(p(2, 6), (2, 3))
    for whole in (p(1, 24), build.unary(Op.EXP, p(1, 24)), p(1, 2, 1, 12)):
        rows = build.permute(build.reshape(whole, (4, 1, 6)), (1, 0, 2))  # no element moves
        rows = build.reshape(rows, (4, 6))
        outputs = build.scan(step, [weights], [p(0, 6)], [rows], 4)
        assert_matches_oracle(outputs, rtol=1e-5, atol=1e-5)
        lowered = program(*outputs)
        made = 0 if whole.op is Op.PARAM else 96
        assert lowered.arena_bytes <= made + 64, "slices are read where the operand is"


@pytest.mark.parametrize(("start", "stop"), [(1, 6), (0, 5), (2, 6), (1, 4)])
def test_loops_read_elements_in_a_row_where_they_are(start: int, stop: int) -> None:
    """Of inputs, and of values that other kernels make, under shapes of other ranks."""
    c, x = p(0, 2, 3), p(1, 2, 3)
    step = body([c, x], c * 2 + x)
    for whole in (p(1, 36), build.unary(Op.EXP, p(1, 36)), p(1, 6, 6)):
        rows = build.shrink(build.reshape(whole, (6, 6)), (start, 0), (stop, 6))
        rows = build.reshape(rows, (stop - start, 2, 3))
        outputs = build.scan(step, [], [p(0, 2, 3)], [rows], stop - start)
        assert_matches_oracle(outputs, rtol=1e-5, atol=1e-5)
        made = 0 if whole.op is Op.PARAM else 144
        assert program(*outputs).arena_bytes <= made + 64


def test_small_parts_of_values_are_copied() -> None:
    """Their values need not stay in memory while the loop runs; inputs stay anyway."""
    c, x = p(0, 6), p(1, 6)
    step = body([c, x], c * 2 + x)
    for whole, made in ((p(1, 60, 6), 0), (build.sort([p(1, 60, 6)])[0], 2)):
        outputs = build.scan(step, [], [p(0, 6)], [build.shrink(whole, (7, 0), (9, 6))], 2)
        assert_matches_oracle(outputs, rtol=1e-5, atol=1e-5)
        first_carry = 1
        assert len(launches(program(*outputs).steps)) == made + first_carry


def test_results_are_written_in_the_memory_of_other_shapes() -> None:
    """No copy gives a stack, or what a kernel makes, the shape of the result."""
    c, x = p(0, 3), p(1, 3)
    stack = build.scan(body([c, x], c + x, c * x), [], [p(0, 3)], [p(1, 4, 3)], 4)[1]
    for value in (stack, build.unary(Op.EXP, p(1, 4, 3)), build.sort([p(1, 4, 3)])[0]):
        flat, other = build.reshape(value, (12,)), build.reshape(value, (2, 6))
        assert_matches_oracle([flat])
        steps = program(flat).steps
        written = {s.operands[0].space for s in launches(steps)}
        assert len(steps) <= 2 and (loops(steps) or written == {Space.OUTPUT})
        # Two results of one value are two arrays.
        assert_matches_oracle([flat, other])
        assert_matches_oracle([value, flat])
    assert_matches_oracle([build.reshape(p(0, 4), (2, 2)), p(0, 4)])
    assert_matches_oracle([build.reshape(const(3.0, FLOAT32, (4,)), (2, 2))])


def test_bodies_give_reshaped_carries() -> None:
    c = p(0, 6)
    turned = build.reshape(build.permute(build.reshape(c, (2, 3)), (1, 0)), (6,))
    assert_matches_oracle(build.scan(body([c], turned), [], [p(0, 6)], [], 3))
    halved = build.reshape(build.reshape(c, (2, 3)) * 0.5, (6,))
    assert_matches_oracle(build.scan(body([c], halved, halved), [], [p(0, 6)], [], 3))
    limit = p(1, dtype=INT32)
    going = build.reshape(build.reshape(limit, (1,)) < 5, ())
    assert_matches_oracle(
        build.repeat_while(
            body([c, limit], going), body([c, limit], halved, limit + 1), [], [], [c, limit]
        )
    )


def test_a_constant_is_filled_in_the_shape_that_a_loop_reads() -> None:
    c, x = p(0, 3), p(1, 3)
    rows = build.reshape(const(2.0, FLOAT32, (6,)), (2, 3))
    assert_matches_oracle(build.scan(body([c, x], c * x), [], [p(0, 3)], [rows], 2))


def test_nested_loops() -> None:
    c, w = p(0, 4, 4), p(1, 4, 4)
    within = build.scan(body([c, w], mixed(c, w), w), [], [c, w], [], 3)[0]
    outer = body([c, w], within + c, w, within)
    assert_matches_oracle(build.scan(outer, [], [c, w], [], 4), rtol=1e-3, atol=1e-3)


# While, and branches.


@pytest.mark.parametrize("limit", [0, 1, 6])
def test_while(limit: int) -> None:
    n, i = p(0, dtype=INT32), p(1, dtype=INT32)
    cond = body([n, i, p(2, 3, 3)], i < n)
    i, c = p(0, dtype=INT32), p(1, 3, 3)
    step = body([i, c], i + 1, mixed(c, c))
    outputs = build.repeat_while(cond, step, [n], [], [const(0, INT32), c])
    values = [np.array(limit, np.int32), np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)]
    assert_matches_oracle(outputs, values)
    (loop,) = loops(program(*outputs).steps)
    assert loop.trips is None and loop.condition is not None and loop.head


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 50])
def test_branches(index: int) -> None:
    x = p(0, 5, 5)
    ways = [
        body([x], x + 1.0, build.add_up(x, (0,))),
        body([x], matmul(x, x), build.add_up(x, (1,))),
        body([x], x, build.reduce(x, Op.MAX, (0,))),
    ]
    outputs = build.choose(p(1, dtype=INT32), ways, [x])
    values = [np.arange(25, dtype=np.float32).reshape(5, 5), np.array(index, np.int32)]
    assert_matches_oracle(outputs, values)
    (branch,) = (s for s in program(*outputs).steps if isinstance(s, Branch))
    assert len(branch.branches) == 3


def test_conditions_of_several_kernels() -> None:
    c = p(0, 4)
    cond = body([c], build.reduce(c, Op.MAX, (0,)) < const(50.0, FLOAT32))
    step = body([c], c + build.flip(c, (0,)) + 1.0)
    outputs = build.repeat_while(cond, step, [], [], [c])
    assert_matches_oracle(outputs, [np.array([0, 1, 2, 3], np.float32)])


def test_conditions_are_live_until_all_threads_have_left_the_loop() -> None:
    """Threads read it after the last barrier, and its memory is reused right after the loop."""
    n, c, w = p(0, dtype=INT32), p(1, 4, 4), p(2, 4, 32)
    i, d = p(1, dtype=INT32), p(2, 4, 4)
    cond = body([n, i, d], i < n)
    i, d = p(0, dtype=INT32), p(1, 4, 4)
    step = body([i, d], i + 1, mixed(d, d))
    last = build.repeat_while(cond, step, [n], [], [const(0, INT32), c])[1]
    outputs = [matmul(matmul(last, w), build.permute(w, (1, 0)))]
    with all_shared():
        steps = program(*outputs).steps
    (loop,) = loops(steps)
    after = steps[steps.index(loop) + 1]
    assert isinstance(after, Launch) and loop.condition is not None
    start = after.operands[0].at
    assert start <= loop.condition.at < start + 4 * 32 * 4, "its memory is reused"
    assert after.barrier
    values = [np.array(2, np.int32), draw((4, 4), FLOAT32), draw((4, 32), FLOAT32)]
    (want,) = run_oracle(outputs, values)
    for _ in range(5):
        with all_shared():
            (got,) = run_on_threads(3, outputs, values)
        assert_close(got, want, 1e-4, 1e-4)


def test_conditions_that_are_carries_are_read_before_they_are_overwritten() -> None:
    """A thread may be late to read the condition while another one begins the next iteration."""
    more, i, c = p(0, dtype=BOOL), p(1, dtype=INT32), p(2, 4, 4)
    cond = body([more, i, c], more)
    step = body([more, i, c], i < const(3, INT32), i + 1, mixed(c, c))
    first = build.unary(Op.NOT, p(0, dtype=BOOL))
    outputs = build.repeat_while(cond, step, [], [], [first, const(0, INT32), p(1, 4, 4)])
    with all_shared():
        (loop,) = loops(program(*outputs).steps)
    assert loop.condition is not None and not loop.head
    body_steps = launches(loop.body)
    (write,) = [i for i, step in enumerate(body_steps) if loop.condition in step.operands]
    assert any(step.barrier for step in body_steps[: write + 1])
    values = [np.array(False), draw((4, 4), FLOAT32)]
    want = run_oracle(outputs, values)
    for _ in range(5):
        with all_shared():
            results = run_on_threads(3, outputs, values)
        for got, meant in zip(results, want, strict=True):
            assert_close(got, meant, 1e-4, 1e-4)


# Live ranges and memory.


def test_values_read_in_a_loop_are_live_until_its_end() -> None:
    """Memory of values computed before a loop must not be reused for those computed in it."""
    c, w, v = p(0, 8, 8), p(1, 8, 8), p(2, 8, 8)
    a, b, d = p(0, 8, 8), p(1, 8, 8), p(2, 8, 8)
    step = body([a, b, d], mixed(matmul(matmul(d, a), b), a))
    early, late = matmul(w, v), matmul(v, w)
    outputs = build.scan(step, [early, late], [c], [], 5)
    assert_matches_oracle([*outputs, matmul(early, c)], rtol=1e-3, atol=1e-3)


def test_the_arena_does_not_grow_with_the_trips() -> None:
    sizes = {program(*repeated(mixed, length)).arena_bytes for length in (2, 20, 2000)}
    assert len(sizes) == 1
    texts = {len(program(*repeated(mixed, length)).text) for length in (200, 999)}
    assert len(texts) == 1


def test_work_counts_trips() -> None:
    few, many = program(*repeated(mixed, 10)), program(*repeated(mixed, 1000))
    assert 50 * few.work_ns < many.work_ns


def test_results_of_loops_are_written_to_outputs() -> None:
    lowered = program(*repeated(mixed))
    spaces = {s.space for launch in lowered.launches for s in launch.operands}
    assert Space.OUTPUT in spaces


# Any loop.


@given(graphs(most=5, steps=STEPS + LOOPS * 6))
@settings(max_examples=60)
def test_random_loops(outputs: list[UOp]) -> None:
    assert_matches_oracle(outputs, rtol=1e-3, atol=1e-3)


@given(graphs(most=4, steps=STEPS + LOOPS * 6))
@settings(max_examples=15)
def test_random_loops_on_several_threads(outputs: list[UOp]) -> None:
    """Results do not depend on which thread is first, nor on which steps are serial."""
    values = inputs(outputs)
    want = run_oracle(outputs, values)
    alone = run_on_threads(1, outputs, values)
    for barrier_ns in (-1, 20, BARRIER_NS):
        with all_shared(barrier_ns):
            results = run_on_threads(3, outputs, values)
        for got, first, meant in zip(results, alone, want, strict=True):
            assert got.tobytes() == first.tobytes()
            assert_close(got, meant, 1e-3, 1e-3)


def called(*operands: UOp) -> list[UOp]:
    """A function of the host with two results."""
    kinds = (((6, 6), FLOAT32), ((), FLOAT32))
    host = HostFunction(lambda results, operands: None, kinds, VmapMethod.REFUSE)
    return build.several(UOp(Op.HOST, operands, host))


def test_host_calls_wait_for_their_operands():
    lowered = program(called(X + W)[0])
    first, call = lowered.steps
    assert isinstance(first, Launch) and isinstance(call, HostCall) and call.barrier
    assert lowered.host_calls == (call,)
    read, written = call.operands[2], call.operands[0]
    assert read == first.operands[0] and written.space is Space.OUTPUT
    assert [shape for shape, _ in call.types] == [(6, 6), (), (6, 6)]
    assert "call void @barrier" in lowered.text and "label %stop" in lowered.text


def test_host_calls_read_inputs_without_a_copy():
    (call,) = program(called(X, W)[0]).steps
    assert isinstance(call, HostCall) and not call.barrier
    assert [slot.space for slot in call.operands[2:]] == [Space.INPUT, Space.INPUT]
    assert call.operands[1].space is Space.ARENA  # an unused result


def test_host_calls_get_constants_and_views_in_memory():
    steps = program(called(const(1.0, FLOAT32), build.permute(X, (1, 0)))[1]).steps
    assert [type(step) for step in steps] == [Launch, Launch, HostCall]


def test_host_calls_in_loops():
    (loop,) = loops(program(repeated(lambda w, x: called(x)[0])[0]).steps)
    assert isinstance(loop.body[0], HostCall)
