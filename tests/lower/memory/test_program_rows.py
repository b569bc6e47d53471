"""Program rows: programs read from rows are those that were lowered, but for bodies of kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from tfn.lower.program import Program


def training(w: Any, m: Any, x: Any) -> Any:
    """A step over donated weights and moments."""
    slope = tfn.grad(lambda w: tnp.mean(tnp.tanh(tnp.tanh(x @ w) @ w.T) ** 2))(w)
    new = 0.9 * m + slope
    return w - 0.1 * new, new, slope.sum(axis=0), tnp.cumsum(slope, axis=1)


def loops(x: Any, n: Any) -> Any:
    """A scan with a branch inside, a loop with a condition, and an output that is an input."""
    inner = tfn.jit(lambda c: tnp.tanh(c @ c) / (1 + abs(c.sum(axis=1))))

    def step(c: Any, row: Any) -> Any:
        c = lax.cond(row[0] > 0, lambda c: inner(c) + row, lambda c: inner(inner(c)) - row, c)
        return c, c.sum(axis=0)

    c, rows = lax.scan(step, x, x)
    halved = lax.while_loop(lambda s: abs(s).max() > 0.1, lambda s: s / 2 - s.mean(), c)
    return n, halved, rows, x


def with_tables(x: Any) -> Any:
    """Transforms, whose factors are tables."""
    return tnp.fft.irfft(tnp.fft.rfft(x) * 2).cumsum(axis=0), tnp.sort(x, axis=0) - x.mean(axis=0)


def floats(*shape: int) -> Any:
    return np.sin(np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "training": (training, (floats(6, 5), floats(6, 5), floats(7, 6))),
    "loops": (loops, (floats(4, 4), np.int32(3))),
    "tables": (with_tables, (floats(6, 60),)),
}


def lowered(name: str) -> tuple[Program, Program]:
    """A program as it is lowered, and as it is read from its rows."""
    f, args = PROGRAMS[name]
    jaxpr = tfn.jit(f).trace(*args).jaxpr
    program = pipeline.lower(jaxpr, host(), hoist=True)
    return program, from_rows(json.loads(json.dumps(to_rows(program))), jaxpr, program.tables)


def without_body(program: Program) -> dict[str, Any]:
    """What is equal in programs from the disk, as one text for the steps."""
    text = repr(program.steps)
    for kernel in program.kernels:
        text = text.replace(repr(kernel), kernel.name)
    return {
        "steps": text if not program.host_calls else "",
        "kernels": [(k.name, k.opts, k.tiles, k.text, k.work_ns) for k in program.kernels],
        "launches": [(x.kernel.name, x.operands, x.barrier, x.serial) for x in program.launches],
        **{
            name: getattr(program, name)
            for name in ("name", "function", "inputs", "outputs", "aliases", "text", "tables")
        },
        "numbers": (program.work_ns, program.footprint, program.sync_bytes, program.parallel),
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_read_programs_are_the_lowered_ones(name: str) -> None:
    program, found = lowered(name)
    assert all(kernel.body is None for kernel in found.kernels)
    ours, theirs = without_body(program), without_body(found)
    if name == "loops":  # routines are equal by identity
        del ours["steps"], theirs["steps"]
    assert ours == theirs
    assert name != "tables" or found.tables is not None
    for kernel, read in zip(program.kernels, found.kernels, strict=True):
        assert kernel.body is not None and read.accesses == accesses_of(kernel.body)


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
