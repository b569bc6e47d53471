"""After every pass: is the graph legal at its stage, and does it still mean the same?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from tfn.dtypes import COMPLEXES, part
from tfn.lower import pipeline
from tfn.lower.fuse.ranges import IndexedKernel
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.pipeline import Pass, Passes
from tfn.lower.target.target import Target
from tfn.trace import interpreter, oracle
from tfn.trace.jaxpr import Jaxpr, param
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp

HOST = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32)
SMALL = Target("x86_64-unknown-linux-gnu", "x86-64", "", 16, 16)


def check_passes(
    jaxpr: Jaxpr,
    inputs: Sequence[Any],
    target: Target = HOST,
    passes: Passes = pipeline.passes,
    tolerance: float = 1e-5,
) -> list[IndexedKernel]:
    """Run the passes one by one, with the spec and the oracle after each.

    Raises AssertionError naming the pass that broke something.
    """
    params = [param(p) for p in jaxpr.params]
    env = dict(zip(params, inputs, strict=True))
    want = oracle.evaluate(jaxpr.outputs, env)
    check(jaxpr.outputs, Stage.JAXPR)

    real = passes.complex_pairs(jaxpr.function, target)
    env = {
        param(p): _real(x).reshape(p.shape) for p, x in zip(real.arg.params, inputs, strict=True)
    }
    want = [_real(x).reshape(u.shape) for x, u in zip(want, real.src, strict=True)]
    _checked(passes.complex_pairs, real.src, Stage.JAXPR)
    _same(passes.complex_pairs, want, oracle.evaluate(real.src, env), tolerance)

    function = passes.boundaries(real, target)
    _checked(passes.boundaries, function.src, Stage.KERNELS)
    _same(passes.boundaries, want, oracle.evaluate(function.src, env), tolerance)

    stages: list[IndexedKernel] = passes.ranges(function, target)
    values: list[Any] = [stage.body for stage in stages]
    for stage in stages:
        _checked(passes.ranges, [stage.body], Stage.RANGES)
    _same(passes.ranges, want, _run(function, stages, values, env), tolerance)

    tiles = [1] * len(values)
    for steps in zip_longest(*(passes.of_kernel(stage.body) for stage in stages)):
        for step in dict.fromkeys(filter(None, steps)):
            for i, value in enumerate(values):
                if steps[i] is step:
                    if Stage[step.after] is Stage.LINEAR and not isinstance(value, tuple):
                        tiles[i] = pipeline.tiles(value)
                    values[i] = step(value, target)
                    _checked(step, _roots(values[i]), Stage[step.after])
            _same(step, want, _run(function, stages, values, env, tiles), tolerance)
    return stages


def _real(x: Any) -> Any:
    """The numbers in memory: of complex ones the parts in turns."""
    x = np.asarray(x)
    return np.ascontiguousarray(x).view(part(x.dtype)) if x.dtype in COMPLEXES else x


def _sort(value: Any) -> bool:
    return isinstance(value, UOp) and value.op is Op.TUPLE


def _body(value: Any) -> UOp:
    return value.body if isinstance(value, Nest) else value


def _roots(value: Any) -> Sequence[UOp]:
    """The nodes that hold all others: instructions themselves, or the body of a nest."""
    return value if isinstance(value, tuple) else [_body(value)]


def _checked(step: Pass, roots: Sequence[UOp], stage: Stage) -> None:
    try:
        check(roots, stage)
    except AssertionError as error:
        raise AssertionError(f"pass {step.name!r} left an illegal graph: {error}") from None


def _same(step: Pass, want: Sequence[Any], got: Sequence[Any], tolerance: float) -> None:
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        w, g = np.asarray(w).astype(np.float64), np.asarray(g).astype(np.float64)
        if not np.allclose(w, g, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise AssertionError(
                f"pass {step.name!r} changed the meaning of output {i}: {w} -> {g}"
            )


def _run(
    function: UOp,
    stages: Sequence[IndexedKernel],
    values: Sequence[Any],
    env: dict[UOp, Any],
    tiles: Sequence[int] = (),
) -> list[Any]:
    memory: dict[UOp, Any] = {u: np.array(x).reshape(-1) for u, x in env.items()}
    for i, (stage, value) in enumerate(zip(stages, values, strict=True)):
        for u in stage.operands:
            if u not in memory:
                memory[u] = np.full(int(np.prod(u.shape)), 113, u.dtype)
        buffers = [memory[u] for u in stage.operands]
        if _sort(value):
            _run_sort(stage, buffers)
        elif isinstance(value, tuple):
            if tiles[i] > 1:
                interpreter.instructions(value, 0, tiles[i] // 2, buffers)
            interpreter.instructions(value, tiles[i] // 2, tiles[i], buffers)
        else:
            interpreter.nest(_body(value), buffers)
    return [memory.get(u, np.zeros(0, u.dtype)).reshape(u.shape) for u in function.src]


def _run_sort(stage: IndexedKernel, buffers: Sequence[Any]) -> None:
    outputs = stage.body.src
    node = outputs[0].src[0]
    first = stage.written
    rows = [b.reshape(u.shape) for b, u in zip(buffers[first:], node.src, strict=True)]
    results = oracle.sort(node.arg, *rows)
    for output, buffer in zip(outputs, buffers, strict=False):
        buffer[:] = results[output.arg].reshape(-1)
