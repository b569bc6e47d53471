"""Graph builders for the tests of lowering, and how to run them: compiled, or by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tfn.dtypes import BOOL, FLOAT32, FLOATS, INTEGERS, DType
from tfn.hw.buffer import Buffer
from tfn.hw.cpu.device import cpu
from tfn.hw.cpu.target import host
from tfn.hw.device import Device
from tfn.lower.pipeline import lower
from tfn.lower.program import Program, Space
from tfn.lower.target.target import Target
from tfn.trace import build, oracle
from tfn.trace.argument import Conv, Param
from tfn.trace.jaxpr import Jaxpr, function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

Value = np.ndarray[Any, Any]


def p(index: int, *shape: int, dtype: DType = FLOAT32) -> UOp:
    """The parameter of a graph with an index, a shape and a dtype: ``p(0, 30, 20)``."""
    return UOp(Op.PARAM, (), Param(index, shape, dtype))


def params(outputs: Sequence[UOp]) -> list[UOp]:
    """The parameters of graphs, by position; one that is not used is a scalar."""
    found = {u.arg.index: u for u in walk(outputs) if u.op is Op.PARAM}
    return [found.get(i, p(i)) for i in range(max(found, default=-1) + 1)]


def jaxpr(outputs: Sequence[UOp]) -> Jaxpr:
    """The closed function of graphs over parameters."""
    return Jaxpr(function(outputs, tuple(u.arg for u in params(outputs))))


def draw(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Value:
    """Random values: normally distributed, small integers, or booleans."""
    random = np.random.default_rng((seed, len(shape), dtype.itemsize))
    if dtype == BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        return random.integers(0, 5, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def inputs(outputs: Sequence[UOp], seed: int = 0) -> list[Value]:
    """Values for the parameters of graphs."""
    return [draw(u.shape, u.dtype, seed + i) for i, u in enumerate(params(outputs))]


@cache
def device(target: Target) -> Device:
    """This machine, with code for a target that it can run."""
    machine = cpu()
    return replace(machine, target=target)


def run_compiled(
    outputs: Sequence[UOp], values: Sequence[Value], target: Target | None = None
) -> list[Value]:
    """Compiles graphs, runs them on this machine, and returns their values."""
    return run_on(device(target or host()), jaxpr(outputs), values)


def run_on(
    on: Device, closed: Jaxpr, values: Sequence[Value], functions: Sequence[object] = ()
) -> list[Value]:
    """Compiles a function, runs it on a device with functions of the host, and returns values."""
    program = lower(closed, on.target)
    buffers = [on.memory.copy(x) for x in values]
    results = result_buffers(on, program, buffers)
    run = on.load(program)
    (run.with_callbacks(functions) if functions else run)(buffers, results)
    return [
        np.array(on.memory.read(b, shape, dtype))
        for b, (shape, dtype) in zip(results, program.outputs, strict=True)
    ]


def result_buffers(on: Device, program: Program, inputs: Sequence[Buffer]) -> list[Buffer]:
    """Buffers for the outputs of a program; aliases are an input, or another of them."""
    shared, results = dict(program.aliases), list[Buffer]()
    for i, (shape, dtype) in enumerate(program.outputs):
        slot = shared.get(i)
        if slot is None:
            results.append(on.memory.allocate(prod(shape) * dtype.itemsize))
        else:
            results.append((inputs if slot.space is Space.INPUT else results)[slot.at])
    return results


def run_oracle(outputs: Sequence[UOp], values: Sequence[Value]) -> list[Value]:
    """Returns the values of graphs as the oracle defines them."""
    return oracle.evaluate(outputs, dict(zip(params(outputs), values, strict=True)))


def assert_close(
    got: Value, expected: Value, rtol: float = 0.0, atol: float = 0.0, what: Any = ""
) -> None:
    """Raises unless two values are equal up to tolerances; the sign of zero does not count."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, (what, got, expected)
    if got.dtype in FLOATS:
        with np.errstate(invalid="ignore"):  # a signalling NaN is no error
            got, expected = got.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol, atol, equal_nan=True, err_msg=str(what))


def assert_matches_oracle(
    outputs: Sequence[UOp],
    values: Sequence[Value] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    target: Target | None = None,
) -> None:
    """Raises unless compiled graphs have the values that the oracle defines."""
    values = inputs(outputs) if values is None else values
    for i, (got, expected) in enumerate(
        zip(run_compiled(outputs, values, target), run_oracle(outputs, values), strict=True)
    ):
        assert_close(got, expected, rtol, atol, f"output {i}")


def softmax(x: UOp, function: Op = Op.EXP) -> UOp:
    """A softmax along the last axis, by the exponential or another function."""
    top = build.reduce(x, Op.MAX, (x.ndim - 1,), keepdims=True)
    e = build.unary(function, x - build.expand(top, x.shape))
    total = build.add_up(e, (x.ndim - 1,), keepdims=True)
    return e / build.expand(total, x.shape)


def matmul(a: UOp, b: UOp) -> UOp:
    """The product of two matrices."""
    return build.dot(a, b, ((1,), (0,)))


def ops(outputs: Sequence[UOp], op: Op) -> list[UOp]:
    """The nodes of an op."""
    return [u for u in walk(outputs) if u.op is op]


def conv(
    x: UOp,
    w: UOp,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
) -> UOp:
    """A convolution over two axes of space."""
    arg = Conv((stride,) * 2, (padding,) * 2, (dilation,) * 2, (1, 1), groups, 1, x.dtype)
    return build.conv(x, w, arg)
