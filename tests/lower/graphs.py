"""Small graphs for the tests of lowering: their inputs, and what this machine makes of them."""

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
from tfn.lower.program import Space
from tfn.lower.target.target import Target
from tfn.trace import build, oracle
from tfn.trace.argument import Conv, Param
from tfn.trace.jaxpr import Jaxpr, function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

Value = np.ndarray[Any, Any]


def p(index: int, *shape: int, dtype: DType = FLOAT32) -> UOp:
    """A parameter."""
    return UOp(Op.PARAM, (), Param(index, shape, dtype))


def params(outputs: Sequence[UOp]) -> list[UOp]:
    """The parameters of graphs, by position; one that is not used is a scalar."""
    found = {u.arg.index: u for u in walk(outputs) if u.op is Op.PARAM}
    return [found.get(i, p(i)) for i in range(max(found, default=-1) + 1)]


def jaxpr(outputs: Sequence[UOp]) -> Jaxpr:
    """The closed function of graphs over parameters."""
    return Jaxpr(function(outputs, tuple(u.arg for u in params(outputs))))


def draw(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Value:
    """Values of a dtype: a normal distribution, small integers, or truths."""
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
    here = cpu()
    return replace(here, target=target)


def on_cores(
    outputs: Sequence[UOp], values: Sequence[Value], target: Target | None = None
) -> list[Value]:
    """The values of graphs, compiled and run on this machine."""
    on = device(target or host())
    program = lower(jaxpr(outputs), on.target)
    shared = dict(program.aliases)
    buffers = [on.memory.copy(x) for x in values]
    made: list[Buffer] = []
    for i, (shape, dtype) in enumerate(program.outputs):
        slot = shared.get(i)
        if slot is None:
            made.append(on.memory.allocate(prod(shape) * dtype.itemsize))
        else:
            made.append((buffers if slot.space is Space.INPUT else made)[slot.at])
    on.load(program)(buffers, made)
    return [
        np.array(on.memory.read(b, shape, dtype))
        for b, (shape, dtype) in zip(made, program.outputs, strict=True)
    ]


def by_definition(outputs: Sequence[UOp], values: Sequence[Value]) -> list[Value]:
    """The values of graphs as the oracle defines them."""
    return oracle.evaluate(outputs, dict(zip(params(outputs), values, strict=True)))


def same(got: Value, want: Value, rtol: float = 0.0, atol: float = 0.0, what: Any = "") -> None:
    """Raise unless two values agree: exactly, but for the sign of zero, if nothing is allowed."""
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got, want)
    if got.dtype in FLOATS:
        with np.errstate(invalid="ignore"):  # of a NaN that signals
            got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol, atol, equal_nan=True, err_msg=str(what))


def agree(
    outputs: Sequence[UOp],
    values: Sequence[Value] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    target: Target | None = None,
) -> None:
    """Raise unless the cores and the oracle agree on graphs."""
    values = inputs(outputs) if values is None else values
    for i, (got, want) in enumerate(
        zip(on_cores(outputs, values, target), by_definition(outputs, values), strict=True)
    ):
        same(got, want, rtol, atol, f"output {i}")


def softmax(x: UOp, function: Op = Op.EXP) -> UOp:
    """Along the last axis, by the exponential or another function."""
    top = build.reduce(x, Op.MAX, (x.ndim - 1,), keepdims=True)
    e = build.unary(function, x - build.expand(top, x.shape))
    total = build.add_up(e, (x.ndim - 1,), keepdims=True)
    return e / build.expand(total, x.shape)


def matmul(a: UOp, b: UOp) -> UOp:
    """Of two matrices."""
    return build.dot(a, b, ((1,), (0,)))


def ops(outputs: Sequence[UOp], op: Op) -> list[UOp]:
    """The nodes of an op."""
    return [u for u in walk(outputs) if u.op is op]


def conv(
    x: UOp,
    w: UOp,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    spread: int = 1,
    groups: int = 1,
) -> UOp:
    """Of two axes."""
    arg = Conv((stride,) * 2, (padding,) * 2, (spread,) * 2, (1, 1), groups, 1, x.dtype)
    return build.conv(x, w, arg)
