"""Operand extents: slices moved by loops, backwards too, branches, and calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.lower import pipeline
from tfn.lower.program import Branch, Call, Launch, Loop, Program, Slot, Space, Step
from tfn.lower.report.verify.operands import out_of_bounds
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

Change = Callable[[Launch], Launch]


def operands(program: Program) -> dict[Any, dict[int, int]]:
    """The bytes that kernels take their operands to have, by their parameters."""
    by_kernel = {}
    for kernel in {launch.kernel for launch in program.launches}:
        sizes: dict[int, int] = {}
        for u in walk(pipeline.instructions(kernel, HOST)):
            if u.op is Op.PARAM and u.arg.index >= 0:
                sizes[u.arg.index] = int(np.prod(u.shape)) * u.dtype.itemsize
        by_kernel[kernel] = sizes
    return by_kernel


def wrong(program: Program) -> list[str]:
    return list(out_of_bounds(program, operands(program)))


def rewritten(steps: tuple[Step, ...], change: Change) -> tuple[Step, ...]:
    """The steps with every launch changed."""
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Launch):
            out.append(change(step))
        elif isinstance(step, Loop):
            head, body = rewritten(step.head, change), rewritten(step.body, change)
            out.append(replace(step, head=head, body=body))
        elif isinstance(step, Branch):
            branches = tuple(rewritten(branch, change) for branch in step.branches)
            out.append(replace(step, branches=branches))
        elif isinstance(step, Call):
            routine = replace(step.routine, steps=rewritten(step.routine.steps, change))
            out.append(replace(step, routine=routine))
        else:
            out.append(step)
    return tuple(out)


def moved(slot: Slot, change: Callable[[Slot], Slot]) -> Change:
    return lambda step: replace(
        step, operands=tuple(change(s) if s == slot else s for s in step.operands)
    )


@given(graphs(steps=(*STEPS, *LOOPS)))
def test_operands_of_random_programs_are_in_bounds(outputs: list[UOp]) -> None:
    assert not wrong(pipeline.lower(jaxpr(outputs), HOST))


def scanned(reverse: bool) -> Program:
    def f(xs: Any, w: Any) -> Any:
        return tfn.lax.scan(lambda c, x: (tnp.tanh(c @ w + x), c), xs[0], xs, reverse=reverse)

    x, w = tfn.ShapeDtypeStruct((7, 40), "float32"), tfn.ShapeDtypeStruct((40, 40), "float32")
    return pipeline.lower(tfn.make_jaxpr(f)(x, w), HOST)


@pytest.mark.parametrize("reverse", [False, True])
def test_slices_moved_by_loops(reverse: bool) -> None:
    program = scanned(reverse)
    assert not wrong(program)
    slots = {s for step in program.launches for s in step.operands if s.strides}
    assert slots
    for slot in slots:
        for change in (
            lambda s: replace(s, offset=s.offset + 4),
            lambda s: replace(s, offset=s.offset - 4),
            lambda s: replace(s, strides=tuple((n, 2 * stride) for n, stride in s.strides)),
        ):
            steps = rewritten(program.steps, moved(slot, change))
            where = slot.space is not Space.ARENA
            assert wrong(replace(program, steps=steps)) or not where
    texts = wrong(
        replace(
            program,
            steps=rewritten(
                program.steps,
                moved(
                    next(s for s in slots if s.space is Space.INPUT),
                    lambda s: replace(s, offset=s.offset + 4),
                ),
            ),
        )
    )
    assert texts == [t for t in texts if "of the input 0, which has 1,120" in t]


def test_an_arena_that_is_too_small() -> None:
    program = scanned(False)
    (text,) = wrong(replace(program, arena_bytes=program.arena_bytes - 64))
    assert "of the arena, which has" in text


def test_calls_of_routines() -> None:
    def f(x: Any) -> Any:
        g = tfn.call(lambda x: tnp.tanh(x @ x) @ x, name="g")
        return g(g(x) + 1.0)

    x = tfn.ShapeDtypeStruct((30, 30), "float32")
    program = pipeline.lower(tfn.make_jaxpr(f)(x), HOST)
    calls = [step for step in program.steps if isinstance(step, Call)]
    assert calls and not wrong(program)

    def late(step: Step) -> Step:
        if not isinstance(step, Call):
            return step
        first, *rest = step.operands
        return replace(step, operands=(replace(first, offset=first.offset + 4), *rest))

    assert wrong(replace(program, steps=tuple(map(late, program.steps))))

    def small(step: Step) -> Step:
        if not isinstance(step, Call):
            return step
        return replace(step, routine=replace(step.routine, arena_bytes=0))

    assert wrong(replace(program, steps=tuple(map(small, program.steps))))
