"""Program rows: programs read from rows are those that were lowered, but for bodies of kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.hw.cpu.target import host
from tfn.lower import pipeline
from tfn.lower.memory.in_place import accesses_of, in_place_outputs
from tfn.lower.memory.program_rows import from_rows, to_rows
from tfn.lower.program import Branch, Call, Kernel, Launch, Loop, Program, Routine, Slot, Step


def training(w: Any, m: Any, x: Any) -> Any:
    """A step over donated weights and moments."""
    slope = tfn.grad(lambda w: tnp.mean(tnp.tanh(tnp.tanh(x @ w) @ w.T) ** 2))(w)
    new = 0.9 * m + slope
    return w - 0.1 * new, new, slope.sum(axis=0), tnp.cumsum(slope, axis=1)


def loops(x: Any, n: Any) -> Any:
    """A scan with a branch inside, a loop with a condition, and an output that is an input."""
    inner = tfn.call(lambda c: tnp.tanh(c @ c) / (1 + abs(c.sum(axis=1))))

    def step(c: Any, row: Any) -> Any:
        c = lax.cond(row[0] > 0, lambda c: inner(c) + row, lambda c: inner(inner(c)) - row, c)
        return c, c.sum(axis=0)

    c, rows = lax.scan(step, x, x)
    halved = lax.while_loop(lambda s: abs(s).max() > 0.1, lambda s: s / 2 - s.mean(), c)
    return n, halved, rows, x


def with_tables(x: Any) -> Any:
    """Transforms, whose factors are tables."""
    return tnp.fft.irfft(tnp.fft.rfft(x) * 2).cumsum(axis=0), tnp.sort(x, axis=0) - x.mean(axis=0)


WEIGHTS = tnp.ones((32, 32))


def closed(x: Any) -> Any:
    """Captured weights, which a prelude packs."""
    return tnp.einsum("ij,kj->ik", x, WEIGHTS)


def floats(*shape: int) -> Any:
    return np.sin(np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "training": (training, (floats(6, 5), floats(6, 5), floats(7, 6))),
    "loops": (loops, (floats(4, 4), np.int32(3))),
    "tables": (with_tables, (floats(6, 60),)),
    "prelude": (closed, (floats(64, 32),)),
}


def lowered(name: str) -> tuple[Program, Program]:
    """A program as it is lowered, and as it is read from its rows."""
    f, args = PROGRAMS[name]
    jaxpr = tfn.jit(f).trace(*args).jaxpr
    program = pipeline.lower(jaxpr, host(), hoist=True)
    return program, from_rows(json.loads(json.dumps(to_rows(program))), jaxpr, program.tables)


def plain(x: Any) -> Any:
    """All fields of steps, with kernels by their names, and routines, which have no equality."""
    if isinstance(x, Kernel):
        return x.name
    if isinstance(x, tuple):
        return tuple(map(plain, x))
    if isinstance(x, Step | Slot | Routine | Program):
        return type(x), *(plain(getattr(x, field.name)) for field in fields(x))
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_read_programs_are_the_lowered_ones(name: str) -> None:
    program, found = lowered(name)
    for field in fields(program):
        ours, theirs = getattr(program, field.name), getattr(found, field.name)
        assert plain(ours) == plain(theirs), field.name
    for kernel, read in zip(program.kernels, found.kernels, strict=True):
        assert kernel.body is not None and read.body is None
        accesses = accesses_of(kernel.body)
        assert replace(kernel, body=None, source=None, accesses=accesses) == read


def test_the_programs_have_all_kinds_of_steps() -> None:
    kinds: set[type] = set()
    for name in PROGRAMS:
        steps = [*lowered(name)[0].steps]
        while steps:
            step = steps.pop()
            kinds.add(type(step))
            if isinstance(step, Loop):
                steps += [*step.head, *step.body]
            elif isinstance(step, Branch):
                steps += [inner for way in step.branches for inner in way]
    assert kinds == {Launch, Loop, Branch, Call}
    assert lowered("tables")[0].tables is not None
    assert lowered("prelude")[0].prelude is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_bodies_are_made_again(name: str) -> None:
    program, found = lowered(name)
    whole = pipeline.with_bodies(found, host())
    assert whole.name == program.name
    assert [k.source or k.body for k in whole.kernels] == [
        k.source or k.body for k in program.kernels
    ]
    assert pipeline.with_bodies(program, host()) is program


def test_donated_arguments_are_overwritten_as_before() -> None:
    program, found = lowered("training")
    donated = [0, 1]
    assert in_place_outputs(found, donated) == in_place_outputs(program, donated) != {}


@pytest.mark.parametrize("row", [{}, {"kernels": [[1]]}, {"kernels": [], "routines": 1}, []])
def test_other_rows_are_refused(row: Any) -> None:
    jaxpr = tfn.jit(training).trace(*PROGRAMS["training"][1]).jaxpr
    with pytest.raises((ValueError, TypeError, LookupError)):
        from_rows(row, jaxpr, None)
