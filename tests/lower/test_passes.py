"""Passes: programs of many shapes are legal and keep their values after each pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.covering import in_turn
from tests.lower.check_passes import GRID, HOST, SMALL, check_passes
from tests.lower.graphs import draw, matmul, p, softmax
from tfn.dtypes import FLOAT32, INT32
from tfn.lower import passes as table
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.jaxpr import Jaxpr, function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def jaxpr(outputs: list[UOp], params: list[UOp]) -> Jaxpr:
    return Jaxpr(function(outputs, tuple(u.arg for u in params)))


def inputs(params: list[UOp]) -> list[np.ndarray]:
    return [draw(u.shape, u.dtype, i) for i, u in enumerate(params)]


def conv(
    x: UOp,
    w: UOp,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
    batch_groups: int = 1,
) -> UOp:
    arg = Conv(
        (stride, stride),
        (padding, padding),
        (1, 1),
        (dilation, dilation),
        groups,
        batch_groups,
        x.dtype,
    )
    return build.conv(x, w, arg)


X, Y = p(0, 7, 13), p(1, 7, 13)
# fmt: off
PROGRAMS: dict[str, tuple[list[UOp], list[UOp]]] = {
    "add": ([X + Y], [X, Y]),
    "same output twice": ([X + Y, X + Y, X], [X, Y]),
    "scalar": ([p(0) * 3.0], [p(0)]),
    "empty": ([p(0, 0, 4) + 1.0, build.add_up(p(0, 0, 4), (0,))], [p(0, 0, 4)]),
    "constant": ([const(2.0, FLOAT32, (3, 5))], []),
    "iota": ([build.iota((3, 5), 1)], []),
    "transpose": ([build.permute(X, (1, 0)) * 2.0], [X]),
    "transpose of a prime": ([build.permute(p(0, 2, 3, 37), (2, 0, 1))], [p(0, 2, 3, 37)]),
    "reshape": ([build.reshape(build.permute(X, (1, 0)), (7, 13))], [X]),
    "flip": ([build.flip(X, (0, 1))], [X]),
    "slice": ([build.shrink(X, (0, 1), (7, 12), (2, 3))], [X]),
    "pad": ([build.pad(X, (1, 2), (0, 3), (1, 2))], [X]),
    "concatenate": ([build.concat([X, Y, X], 0), build.concat([X, Y], 1)], [X, Y]),
    "sums": ([build.add_up(X, axes) for axes in ((0,), (1,), (0, 1))], [X]),
    "extremes": ([build.reduce(X, Op.MAX, (1,)), build.reduce(X, Op.MIN, (0,))], [X]),
    "product": ([build.reduce(X, Op.MUL, (1,))], [X]),
    "long sum": ([build.add_up(p(0, 40_001), (0,))], [p(0, 40_001)]),
    "long columns": ([build.add_up(p(0, 33_000, 3), (0,))], [p(0, 33_000, 3)]),
    "softmax": ([softmax(p(0, 5, 37))], [p(0, 5, 37)]),
    "loss": ([build.add_up(softmax(p(0, 5, 11)), (0, 1))], [p(0, 5, 11)]),
    "matmul": ([matmul(p(0, 9, 70), p(1, 70, 37))], [p(0, 9, 70), p(1, 70, 37)]),
    "matmul nt": ([build.dot(p(0, 9, 70), p(1, 37, 70), ((1,), (1,)))],
                  [p(0, 9, 70), p(1, 37, 70)]),
    "matmul tn": ([build.dot(p(0, 70, 9), p(1, 70, 37), ((0,), (0,)))],
                  [p(0, 70, 9), p(1, 70, 37)]),
    "matvec": ([build.dot(p(0, 70), p(1, 70, 37), ((0,), (0,)))], [p(0, 70), p(1, 70, 37)]),
    "inner": ([build.dot(p(0, 70), p(1, 70), ((0,), (0,)))], [p(0, 70), p(1, 70)]),
    "outer": ([build.dot(p(0, 7), p(1, 19), ((), ()))], [p(0, 7), p(1, 19)]),
    "batched": ([build.dot(p(0, 3, 5, 7), p(1, 3, 7, 18), ((2,), (1,)), ((0,), (0,)))],
                [p(0, 3, 5, 7), p(1, 3, 7, 18)]),
    "layer": ([softmax(matmul(p(0, 9, 20), p(1, 20, 17)) + build.broadcast_to(p(2, 17), (9, 17)))],
              [p(0, 9, 20), p(1, 20, 17), p(2, 17)]),
    "conv": ([conv(p(0, 2, 6, 6, 3), p(1, 3, 3, 3, 18))], [p(0, 2, 6, 6, 3), p(1, 3, 3, 3, 18)]),
    "conv, padded and strided": ([conv(p(0, 2, 7, 6, 3), p(1, 3, 2, 3, 5), 2, (1, 2))],
                                 [p(0, 2, 7, 6, 3), p(1, 3, 2, 3, 5)]),
    "conv, dilated": ([conv(p(0, 1, 9, 9, 2), p(1, 3, 3, 2, 4), 1, (1, 1), 2)],
                      [p(0, 1, 9, 9, 2), p(1, 3, 3, 2, 4)]),
    "conv, grouped": ([conv(p(0, 2, 5, 5, 6), p(1, 2, 2, 3, 8), groups=2)],
                      [p(0, 2, 5, 5, 6), p(1, 2, 2, 3, 8)]),
    "conv, batch grouped": ([conv(p(0, 4, 5, 5, 3), p(1, 2, 2, 3, 8), batch_groups=2)],
                            [p(0, 4, 5, 5, 3), p(1, 2, 2, 3, 8)]),
    "conv, grouped in both": ([conv(p(0, 4, 5, 5, 6), p(1, 2, 2, 3, 8), groups=2, batch_groups=2)],
                              [p(0, 4, 5, 5, 6), p(1, 2, 2, 3, 8)]),
    "depthwise": ([conv(p(0, 1, 6, 6, 20), p(1, 3, 3, 1, 20), groups=20)],
                  [p(0, 1, 6, 6, 20), p(1, 3, 3, 1, 20)]),
    "gather": ([build.gather(p(0, 11, 6), p(1, 5, 1, dtype=INT32), (1, 6))],
               [p(0, 11, 6), p(1, 5, 1, dtype=INT32)]),
    "take along": ([build.gather(p(0, 5, 3), p(1, 5, 1, dtype=INT32), (1,), batch=1)],
                   [p(0, 5, 3), p(1, 5, 1, dtype=INT32)]),
    **{
        f"scatter {op.value}": (
            [build.scatter(p(0, 4, 6), p(1, 9, 1, dtype=INT32), p(2, 9, 1, 6), op)],
            [p(0, 4, 6), p(1, 9, 1, dtype=INT32), p(2, 9, 1, 6)],
        )
        for op in (Op.ADD, Op.MUL, Op.MAX, Op.WHERE)
    },
    "scatter of points": (
        [build.scatter(const(0.0, FLOAT32, (7,)), p(0, 5, 1, dtype=INT32), p(1, 5, 1), Op.ADD)],
        [p(0, 5, 1, dtype=INT32), p(1, 5, 1)]),
    "sort": (build.sort([p(0, 3, 17), build.iota((3, 17), 1)]), [p(0, 3, 17)]),
    "equal updates": (
        [build.scatter(p(0, 4), build.zeros((3, 1), INT32), const(2.0, FLOAT32, (3, 1)), Op.ADD)],
        [p(0, 4)]),
    "scatter at sums": (
        [build.scatter(p(0, 4), build.reshape(build.add_up(p(1, 3, 2, dtype=INT32), (1,)), (3, 1)),
                       build.broadcast_to(build.add_up(p(0, 4), (0,)), (3, 1)), Op.ADD)],
        [p(0, 4), p(1, 3, 2, dtype=INT32)]),
    "sum of equal terms": ([build.add_up(build.expand(p(0, 1), (300,)), (0,)) * 0.5], [p(0, 1)]),
    "product with a scalar": ([build.dot(p(0, 40), p(1), ((), ()))], [p(0, 40), p(1)]),
    "barrier": ([UOp(Op.GBARRIER, (X + Y,)) * 2.0], [X, Y]),
}
# fmt: on


@pytest.mark.parametrize("target", [HOST, SMALL, GRID], ids=["wide", "narrow", "grid"])
@pytest.mark.parametrize("name", in_turn(3, PROGRAMS))
def test_every_pass_keeps_the_values(name: str, target: Target) -> None:
    outputs, params = PROGRAMS[name]
    check_passes(jaxpr(outputs, params), inputs(params), target, tolerance=2e-3)


def test_a_wrong_pass_is_named_by_the_check() -> None:
    outputs, params = PROGRAMS["softmax"]
    (body,) = (kernel.body for kernel in check_passes(jaxpr(outputs, params), inputs(params)))
    for step in table.CORES.of_kernel(body):

        def broken(value: object, target: object, step: table.Pass = step) -> object:
            result = step.run(value, target)
            if step.after == "LINEAR":
                last = [u for u in result if u.op is Op.STORE][-1]
                return tuple(u for u in result if u is not last)
            body = result if isinstance(result, UOp) else result.body
            store = body.src[0]
            wrong = UOp(Op.STORE, (store.src[0], store.src[1], store.src[2] * 2.0), store.arg)
            body = UOp(Op.SINK, (wrong,))
            return body if isinstance(result, UOp) else replace(result, body=body)

        passes = replace(table.CORES, **{step.name: replace(step, run=broken)})
        with pytest.raises(AssertionError, match=f"pass '{step.name}' changed the meaning"):
            check_passes(jaxpr(outputs, params), inputs(params), passes=passes)
