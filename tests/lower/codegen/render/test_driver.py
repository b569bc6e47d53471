"""LLVM IR driver, on real threads: tiles, barriers, loops and branches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.lower.graphs import (
    assert_close,
    draw,
    inputs,
    jaxpr,
    matmul,
    p,
    params,
    run_compiled,
    run_oracle,
    softmax,
)
from tests.lower.thread_team import all_shared, run, run_on_threads
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.hw.cpu.target import host
from tfn.lower.codegen.render.driver import COUNTER_BYTES, COUNTERS_OFFSET, driver_text, sync_bytes
from tfn.lower.pipeline import lower
from tfn.lower.program import Branch, Kernel, Launch, Loop, Slot, Space, Step
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp

THREADS = (1, 2, 3, 8)
every_count = pytest.mark.parametrize("threads", THREADS)


def kernel(name: str, body: str, tiles: int = 1) -> Kernel:
    """A kernel on operands %a and %b that runs `body` for each tile %i."""
    text = f"""
define void @{name}(i64 %begin, i64 %end, ptr %operands) {{
entry:
  %a = load ptr, ptr %operands
  %second = getelementptr ptr, ptr %operands, i64 1
  %b = load ptr, ptr %second
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
{body}
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}}
"""
    return Kernel(name, p(0), (), tiles, text, 1000)


COUNT = """
  %at = getelementptr i32, ptr %a, i64 %i
  %old = atomicrmw add ptr %at, i32 1 monotonic
"""
"""``a[i] += 1``"""

TAKE_SUM = """
  %first = load i32, ptr %b
  %at1 = getelementptr i32, ptr %b, i64 1
  %second1 = load i32, ptr %at1
  %at2 = getelementptr i32, ptr %b, i64 2
  %third = load i32, ptr %at2
  %two = add i32 %first, %second1
  %sum = add i32 %two, %third
  %to = getelementptr i32, ptr %a, i64 %i
  store i32 %sum, ptr %to
"""
"""``a[i] = b[0] + b[1] + b[2]``"""

OUT, ARENA = Slot(Space.OUTPUT, 0), Slot(Space.ARENA, 0)


@every_count
@pytest.mark.parametrize("tiles", [1, 2, 15, 16, 17, 1000])
def test_every_tile_is_run_once(tiles: int, threads: int) -> None:
    out, arena = np.zeros(tiles, np.int32), np.zeros(1, np.int32)
    run([Launch(kernel(f"count{tiles}", COUNT, tiles), (OUT, OUT), False)], [out], arena, threads)
    assert (out == 1).all()


@every_count
def test_barriers_make_writes_visible(threads: int) -> None:
    """Each launch sums all elements that the last one wrote, three times."""
    add = kernel("take_sum", TAKE_SUM, 3)
    slots = [Slot(Space.ARENA, 0), Slot(Space.ARENA, 64)]
    steps = [Launch(add, (slots[i % 2], slots[(i + 1) % 2]), True) for i in range(17)]
    steps.append(Launch(add, (OUT, slots[0]), True))
    out, arena = np.zeros(3, np.int32), np.zeros(32, np.int32)
    for _ in range(5):
        arena[16:19] = 1  # the first launch reads the second slot
        run(steps, [out], arena, threads)
        assert out.tolist() == [3**18] * 3


def test_barriers_are_written_where_launches_say() -> None:
    count = kernel("count4", COUNT, 4)
    steps = [Launch(count, (OUT, OUT), flag) for flag in (False, True, False, True, True)]
    assert driver_text("entry", steps, 0).count("call void @barrier") == 3


def test_counters_have_cache_lines_of_their_own() -> None:
    assert sync_bytes([]) == COUNTERS_OFFSET
    steps = [Launch(kernel("count4", COUNT, 4), (OUT, OUT), False)] * 3
    assert sync_bytes(steps) == COUNTERS_OFFSET + 3 * COUNTER_BYTES
    assert COUNTERS_OFFSET % 64 == COUNTER_BYTES % 64 == 0


def test_operands_in_inputs_outputs_and_arena() -> None:
    add = kernel("take_sum1", TAKE_SUM, 1)
    x, y, arena = (np.arange(k, k + 8, dtype=np.int32) for k in (0, 10, 20))
    steps = [
        Launch(add, (Slot(Space.OUTPUT, 0), Slot(Space.INPUT, 0, 8)), True),
        Launch(add, (Slot(Space.ARENA, 0, 4), Slot(Space.OUTPUT, 0, 4)), True),
        Launch(add, (Slot(Space.OUTPUT, 0, 28), Slot(Space.ARENA, 4, 0)), True),
    ]
    run(steps, [x, y], arena, 2, inputs=1)
    assert y.tolist() == [2 + 3 + 4, 11, 12, 13, 14, 15, 16, 11 + 12 + 13 + 22 + 23]


# Loops and branches.


@every_count
def test_a_loop_moves_its_operands(threads: int) -> None:
    moved = Slot(Space.OUTPUT, 0, 0, ((0, 20),))
    count = kernel("count5", COUNT, 5)
    out, arena = np.zeros(40, np.int32), np.zeros(1, np.int32)
    run(
        [Loop(0, 7, (), None, (Launch(count, (moved, moved), False),), False)],
        [out],
        arena,
        threads,
    )
    assert out.tolist() == [1] * 35 + [0] * 5


@every_count
def test_nested_loops_run_every_tile(threads: int) -> None:
    moved = Slot(Space.OUTPUT, 0, 0, ((0, 80), (1, 20)))
    count = kernel("count5", COUNT, 5)
    inner = Loop(1, 4, (), None, (Launch(count, (moved, moved), False),), True)
    other = Launch(count, (OUT, OUT), True)
    out, arena = np.zeros(60, np.int32), np.zeros(1, np.int32)
    run([Loop(0, 3, (), None, (inner, other), False)], [out], arena, threads)
    assert out.tolist() == [4] * 5 + [1] * 55


LESS = """
  %x = load i32, ptr %b
  %less = icmp slt i32 %x, 9
  %byte = zext i1 %less to i8
  store i8 %byte, ptr %a
"""


@every_count
@pytest.mark.parametrize("start", [0, 8, 9, 20])
def test_while_loops(start: int, threads: int) -> None:
    head = Launch(kernel("less", LESS), (ARENA, OUT), False)
    body = Launch(kernel("count3", COUNT, 3), (OUT, OUT), False)
    head = replace(head, barrier=True)  # it reads what the body has written
    out, arena = np.array([start, 0, 0], np.int32), np.zeros(16, np.int32)
    run([Loop(0, None, (head,), ARENA, (body,), False)], [out], arena, threads)
    times = max(9 - start, 0)
    assert out.tolist() == [start + times, times, times]


@every_count
@pytest.mark.parametrize("index", [-5, 0, 1, 2, 9])
def test_branches_take_the_way_of_their_index(index: int, threads: int) -> None:
    count = kernel("count5", COUNT, 5)
    places = [Slot(Space.OUTPUT, 0, 20 * i) for i in range(3)]
    ways: list[tuple[Step, ...]] = [(Launch(count, (s, s), False),) for s in places]
    ways[1] = (*ways[1], Launch(count, (places[1], places[1]), True))
    out, arena = np.zeros(15, np.int32), np.array([index], np.int32)
    run([Loop(0, 2, (), None, (Branch(ARENA, tuple(ways), True),), False)], [out], arena, threads)
    want = np.zeros(15, np.int32)
    way = min(max(index, 0), 2)
    want[5 * way : 5 * way + 5] = 4 if way == 1 else 2
    assert out.tolist() == want.tolist()


# Whole programs.


def programs() -> dict[str, list[UOp]]:
    x, w = p(0, 150, 90), p(1, 90, 130)
    at, u = p(2, 40, 1, dtype=INT32), p(3, 40, 1, 130)
    product = matmul(x, w)
    return {
        "chain": [matmul(build.unary(Op.TANH, product), build.permute(w, (1, 0)))],
        "rows": [softmax(product), build.add_up(product, (0,))],
        "long sum": [build.add_up(p(0, 300_000), (0,)), build.reduce(p(0, 300_000), Op.MAX, (0,))],
        "scatter": [build.scatter(product, at, u, Op.ADD)],
        "sort": build.sort([p(0, 40, 500), build.iota((40, 500), 1)]),
        "turned": [build.permute(p(0, 300, 400), (1, 0)) + 1.0],
    }


@pytest.mark.parametrize("name", programs())
def test_bits_do_not_depend_on_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = programs()[name]
    values = inputs(outputs)
    results = set()
    for threads in THREADS:
        monkeypatch.setattr(config, "threads", threads)
        for _ in range(3):
            results.add(b"".join(x.tobytes() for x in run_compiled(outputs, values)))
    assert len(results) == 1
    for got, want in zip(run_compiled(outputs, values), run_oracle(outputs, values), strict=True):
        assert_close(got, want, 1e-3, 1e-3)


@every_count
def test_small_programs_on_several_threads(threads: int) -> None:
    x, w = p(0, 20, 30), p(1, 30, 20)
    outputs = [softmax(matmul(matmul(x, w), x)), build.add_up(matmul(x, w), (0,))]
    values = [draw(u.shape, FLOAT32, i) for i, u in enumerate(params(outputs))]
    for barrier_ns in (-1, 100, 500):
        with all_shared(barrier_ns):
            results = run_on_threads(threads, outputs, values)
        for got, want in zip(results, run_oracle(outputs, values), strict=True):
            assert_close(got, want, 1e-4, 1e-4)


@every_count
def test_serial_steps_are_run_once_in_order(threads: int) -> None:
    """One thread runs them, with loops and branches, and shared ones see what they wrote."""
    count, add = kernel("count5", COUNT, 5), kernel("take_sum", TAKE_SUM, 3)
    serial = partial(Launch, barrier=False, serial=True)
    loop = Loop(0, 4, (), None, (serial(count, (OUT, OUT)),), False)
    branch = Branch(ARENA, ((), (serial(count, (OUT, OUT)),)), False)
    more = Slot(Space.OUTPUT, 0, 20)
    steps = [
        Launch(count, (OUT, OUT), False),
        Loop(1, 2, (), None, (loop, branch), True),
        serial(add, (more, OUT)),
        Launch(add, (Slot(Space.OUTPUT, 0, 32), more), True),
        serial(count, (OUT, OUT)),
    ]
    out, arena = np.zeros(11, np.int32), np.array([1], np.int32)
    run(steps, [out], arena, threads)
    assert out.tolist() == [12] * 5 + [33] * 3 + [99] * 3
    assert driver_text("entry", steps, 0).count("call void @barrier") == 2


@every_count
def test_copies_to_the_same_memory_are_skipped(threads: int) -> None:
    """A donated input that is an output, in the same memory."""
    x, update, at = p(0, 64, 1000), p(1, 64, 1), p(2, 2, dtype=INT32)
    program = lower(jaxpr([build.scatter(x, at, update, Op.WHERE)]), host())
    copy, put = (launch.kernel for launch in program.launches)
    assert copy.is_copy and not put.is_copy and copy.tiles > 1
    seven = "  %at = getelementptr float, ptr %a, i64 %i\n  store float 7.0, ptr %at"
    visible = replace(copy, name="seven", text=kernel("seven", seven).text)
    steps = (Launch(visible, (Slot(Space.OUTPUT, 0), Slot(Space.INPUT, 0)), False),)
    old, new, arena = np.zeros(64000, np.float32), np.zeros(64000, np.float32), np.zeros(64)
    run(steps, [old, old], arena, threads, inputs=1)
    assert not old.any()
    run(steps, [old, new], arena, threads, inputs=1)
    assert (new[: copy.tiles] == 7).all() and not old.any()


def test_kernels_that_are_copies() -> None:
    x = p(0, 64, 64)
    others = [x + 1.0, build.permute(x, (1, 0)), build.flip(x, (0,)), build.cast(x, INT32)]
    c = p(0, 64)
    turns = build.scan(function([c + 1.0], (c.arg,)), [], [c], [], 5)
    for u in (*others, *turns):
        (launch,) = lower(jaxpr([u]), host()).launches
        assert not launch.kernel.is_copy
