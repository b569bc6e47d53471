"""Compiler pipeline: kernels of programs are fused, shared, and small."""

from __future__ import annotations

from tests.lower.check_passes import HOST
from tests.lower.graphs import matmul, p, softmax
from tfn.dtypes import FLOAT32
from tfn.lower import pipeline
from tfn.trace import build
from tfn.trace.jaxpr import Jaxpr, function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def jaxpr(outputs: list[UOp], params: list[UOp]) -> Jaxpr:
    return Jaxpr(function(outputs, tuple(u.arg for u in params)))


def launches(*outputs: UOp, params: list[UOp]) -> int:
    return len(pipeline.lower(jaxpr(list(outputs), params), HOST).launches)


def test_pointwise_chains_and_reductions_fuse_into_one_kernel() -> None:
    x, w, b = p(0, 32, 64), p(1, 64, 48), p(2, 48)
    assert launches(softmax(x), params=[x]) == 1
    dense = matmul(x, w) + build.broadcast_to(b, (32, 48))
    assert launches(build.maximum(dense, const(0.0, FLOAT32, dense.shape)), params=[x, w, b]) == 1
    m, v, g = p(0, 50, 20), p(1, 50, 20), p(2, 50, 20)
    m2, v2 = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    step = m2 / (build.unary(Op.SQRT, v2) + 1e-8)
    assert launches(m2, v2, step, params=[m, v, g]) == 1
    assert launches(build.add_up(softmax(x), (0, 1)), params=[x]) == 1


def test_a_gradient_is_fused_into_its_update() -> None:
    x, dy, w = p(0, 32, 64), p(1, 32, 48), p(2, 64, 48)
    gradient = build.dot(x, dy, ((0,), (0,)))
    assert launches(w - gradient * 0.1, params=[x, dy, w]) == 1


def test_equal_kernels_are_lowered_once() -> None:
    x, ws = p(0, 16, 32), [p(i + 1, 32, 32) for i in range(6)]
    y = x
    for w in ws:
        y = build.maximum(matmul(y, w), const(0.0, FLOAT32, y.shape))
    program = pipeline.lower(jaxpr([y], [x, *ws]), HOST)
    assert len(program.launches) == 6
    assert len(program.kernels) == 1


def test_code_does_not_grow_with_shapes() -> None:
    def line_count(n: int) -> int:
        x, w = p(0, n, n), p(1, n, n)
        program = pipeline.lower(jaxpr([matmul(x, w)], [x, w]), HOST)
        return sum(k.text.count("\n") for k in program.kernels)

    assert (
        max(map(line_count, (251, 509, 1021, 2039, 4093, 16381))) < 700
    )  # primes: loops have tails


def test_the_arena_is_reused() -> None:
    x, w = p(0, 64, 64), p(1, 64, 64)
    y = x
    for _ in range(10):
        y = matmul(y, w)
    assert pipeline.lower(jaxpr([y], [x, w]), HOST).arena_bytes == 2 * 64 * 64 * 4
