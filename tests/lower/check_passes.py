"""Translation validation: after every pass the graph is legal and has the values of the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from tests.lower import grid_interpreter
from tfn.dtypes import COMPLEXES, part
from tfn.lower.fuse.analysis import output_in_memory
from tfn.lower.fuse.ranges import IndexedKernel
from tfn.lower.grids.passes import thread_count
from tfn.lower.languages import passes_of
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.passes import Pass, Passes, tile_count
from tfn.lower.target.grid import Grid
from tfn.lower.target.target import Target
from tfn.trace import interpreter, oracle
from tfn.trace.jaxpr import Jaxpr, param
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp

HOST = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32)
GRID = Target("opencl", "", "", 4, 16, lacks=frozenset({Op.LDEXP, Op.MMA}), grid=Grid())
SMALL = Target("x86_64-unknown-linux-gnu", "x86-64", "", 16, 16)


def check_passes(
    jaxpr: Jaxpr,
    inputs: Sequence[Any],
    target: Target = HOST,
    passes: Passes | None = None,
    tolerance: float = 1e-5,
) -> list[IndexedKernel]:
    """Run the passes one by one, with the spec and the oracle after each.

    Raises AssertionError naming the pass that broke something.
    """
    passes = passes or passes_of(target)
    params = [param(p) for p in jaxpr.params]
    env = dict(zip(params, inputs, strict=True))
    expected = oracle.evaluate(jaxpr.outputs, env)
    check(jaxpr.outputs, Stage.JAXPR)

    real = passes.complex_pairs(jaxpr.function, target)
    env = {
        param(p): _real(x).reshape(p.shape) for p, x in zip(real.arg.params, inputs, strict=True)
    }
    expected = [_real(x).reshape(u.shape) for x, u in zip(expected, real.src, strict=True)]
    _check_stage(passes.complex_pairs, real.src, Stage.JAXPR)
    _check_values(passes.complex_pairs, expected, oracle.evaluate(real.src, env), tolerance)

    function = passes.boundaries(real, target)
    _check_stage(passes.boundaries, function.src, Stage.KERNELS)
    _check_values(passes.boundaries, expected, oracle.evaluate(function.src, env), tolerance)

    kernels: list[IndexedKernel] = passes.ranges(function, target)
    values: list[Any] = [kernel.body for kernel in kernels]
    for kernel in kernels:
        _check_stage(passes.ranges, [kernel.body], Stage.RANGES)
    _check_values(passes.ranges, expected, _run(function, kernels, values, env), tolerance)

    tiles = [1] * len(values)
    threads = [1] * len(values) if target.grid else []
    for steps in zip_longest(*(passes.of_kernel(kernel.body) for kernel in kernels)):
        for step in dict.fromkeys(filter(None, steps)):
            before = list(values)
            for i, value in enumerate(before):
                if steps[i] is step:
                    if Stage[step.after] is Stage.LINEAR and not isinstance(value, tuple):
                        tiles[i] = tile_count(value)
                        if target.grid:
                            threads[i] = thread_count(value)
                    values[i] = step(value, target)
                    _check_stage(step, _roots(values[i]), Stage[step.after])
            if values != before:
                got = _run(function, kernels, values, env, tiles, threads)
                _check_values(step, expected, got, tolerance)
    return kernels


def _real(x: Any) -> Any:
    """An array as kernels see it: the real and imaginary parts of complex numbers alternate."""
    x = np.asarray(x)
    return np.ascontiguousarray(x).view(part(x.dtype)) if x.dtype in COMPLEXES else x


def _is_sort(value: Any) -> bool:
    return isinstance(value, UOp) and value.op is Op.TUPLE


def _body(value: Any) -> UOp:
    return value.body if isinstance(value, Nest) else value


def _roots(value: Any) -> Sequence[UOp]:
    """The roots of all nodes: the instructions themselves, or the body of a nest."""
    return value if isinstance(value, tuple) else [_body(value)]


def _check_stage(step: Pass, roots: Sequence[UOp], stage: Stage) -> None:
    try:
        check(roots, stage)
    except AssertionError as error:
        raise AssertionError(f"pass {step.name!r} left an illegal graph: {error}") from None


def _check_values(
    step: Pass, expected: Sequence[Any], got: Sequence[Any], tolerance: float
) -> None:
    for i, pair in enumerate(zip(expected, got, strict=True)):
        before, after = (np.asarray(x).astype(np.float64) for x in pair)
        if not np.allclose(before, after, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise AssertionError(
                f"pass {step.name!r} changed the meaning of output {i}: {before} -> {after}"
            )


def _run(
    function: UOp,
    kernels: Sequence[IndexedKernel],
    values: Sequence[Any],
    env: dict[UOp, Any],
    tiles: Sequence[int] = (),
    threads: Sequence[int] = (),
) -> list[Any]:
    memory: dict[UOp, Any] = {u: np.array(x).reshape(-1) for u, x in env.items()}
    for i, (kernel, value) in enumerate(zip(kernels, values, strict=True)):
        for u in kernel.operands:
            if u not in memory:  # not zero, so that an element that is not written is noticed
                memory[u] = np.full(int(np.prod(u.shape)), 113, u.dtype)
        buffers = [memory[u] for u in kernel.operands]
        if _is_sort(value):
            _run_sort(kernel, buffers)
        elif isinstance(value, tuple) and threads:
            grid_interpreter.grid(value, tiles[i], threads[i], buffers)
        elif isinstance(value, tuple):
            # In two parts, as two threads would: a part must not rely on what the other computes.
            if tiles[i] > 1:
                interpreter.instructions(value, 0, tiles[i] // 2, buffers)
            interpreter.instructions(value, tiles[i] // 2, tiles[i], buffers)
        else:
            interpreter.nest(_body(value), buffers)
    stored = [(u, memory.get(output_in_memory(u))) for u in function.src]
    return [np.zeros(u.shape, u.dtype) if v is None else v.reshape(u.shape) for u, v in stored]


def _run_sort(kernel: IndexedKernel, buffers: Sequence[Any]) -> None:
    outputs = kernel.body.src
    node = outputs[0].src[0]
    first = kernel.written
    rows = [b.reshape(u.shape) for b, u in zip(buffers[first:], node.src, strict=True)]
    results = oracle.sort(node.arg, *rows)
    for output, buffer in zip(outputs, buffers, strict=False):
        buffer[:] = results[output.arg].reshape(-1)
