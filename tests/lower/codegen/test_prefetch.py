"""Prefetch insertion: each line after a reduction is requested once before it, where it pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.lower.check_passes import HOST, SMALL, check_passes
from tests.lower.graphs import inputs, jaxpr, matmul, p, params, run_compiled
from tfn.lower.codegen.loop_scopes import NOT_INSTRUCTIONS
from tfn.lower.codegen.prefetch import CACHED_L2_DIVISOR, MAX_LINES, insert_prefetches
from tfn.lower.graph.layout import LINE_BYTES
from tfn.lower.passes import CORES as passes
from tfn.lower.target.target import Target
from tfn.trace import build, oracle
from tfn.trace.op import Op
from tfn.trace.uop import UOp

FLOATS_PER_LINE = LINE_BYTES // 4


def linear(outputs: list[UOp], target: Target = HOST) -> list[tuple[UOp, ...]]:
    """The instructions of the last kernel of a function, before the pass and after it."""
    value = passes.complex_pairs(jaxpr(outputs).function, target)
    *_, stage = passes.ranges(passes.boundaries(value, target), target)
    bodies = [stage.body]
    for step in passes.of_kernel(stage.body):
        bodies.append(step.run(bodies[-1], target))
    return bodies[-2:]


def update(m: int, k: int, n: int) -> list[UOp]:
    """Weights and their momentum, updated where their gradient is summed."""
    x, g, w, v = p(0, k, m), p(1, k, n), p(2, m, n), p(3, m, n)
    v = v * 0.9 + build.dot(x, g, ((0,), (0,)))
    return [w - v * 0.1, v]


def lines(items: Sequence[UOp], op: Op) -> Counter[tuple[UOp, UOp, int]]:
    """The cache lines that an op accesses, by array, base and number."""
    touched: Counter[tuple[UOp, UOp, int]] = Counter()
    for u in items:
        if u.op is op:
            touched[u.src[0], u.src[1], u.arg.offset // FLOATS_PER_LINE] += 1
    return touched


def test_each_updated_line_is_prefetched_once() -> None:
    before, after = linear(update(768, 128, 512))
    end = max(i for i, u in enumerate(before) if u.op is Op.FMA)
    updated = {key for key in lines(before[end:], Op.LOAD) if key[0].shape == (768 * 512,)}
    prefetched = lines(after, Op.PREFETCH)
    assert prefetched == dict.fromkeys(updated, 1) and len(prefetched) > 32
    around, *_, inner = [i for i, u in enumerate(after) if u.op is Op.LOOP]
    prefetches = [i for i, u in enumerate(after) if u.op is Op.PREFETCH]
    assert around < min(prefetches) and max(prefetches) < inner


def test_other_instructions_stay_and_operands_come_first() -> None:
    x, w, r = p(0, 768, 128), p(1, 128, 512), p(2, 768, 512)
    before, after = linear([matmul(x, w) + r])
    assert Op.PREFETCH in {u.op for u in after}
    assert Counter(before) == Counter(u for u in after if u.op is not Op.PREFETCH)
    seen: set[UOp] = set()
    for u in after:
        assert all(s in seen or s.op in NOT_INSTRUCTIONS for s in u.src), u
        seen.add(u)


@pytest.mark.parametrize(
    ("m", "k", "n", "l2_bytes"),
    [
        (768, 128, 512, CACHED_L2_DIVISOR * 768 * 512 * 4),
        (768, 8, 512, 1 << 20),
        (16, 128, 16, 1 << 20),
    ],
    ids=["in L2", "short reduction", "small"],
)
def test_no_prefetch_where_it_does_not_pay(m: int, k: int, n: int, l2_bytes: int) -> None:
    target = replace(HOST, l2_bytes=l2_bytes)
    assert Op.PREFETCH not in {u.op for u in linear(update(m, k, n), target)[1]}


def test_prefetches_are_limited_to_a_part_of_l1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total = matmul(p(0, 768, 1024), p(1, 1024, 512))
    for i in range(2, 10):
        total = total + p(i, 768, 512)
    assert Op.PREFETCH not in {u.op for u in linear([total])[1]}
    monkeypatch.setattr("tfn.lower.codegen.prefetch.MAX_LINES", 1000)
    assert sum(u.op is Op.PREFETCH for u in linear([total])[1]) > MAX_LINES


def test_reductions_without_fma_are_left_alone() -> None:
    x = p(0, 512, 4096)
    mean = build.add_up(x, (1,)) * (1 / 4096)
    before, after = linear([x - build.broadcast_to(build.reshape(mean, (512, 1)), x.shape)])
    assert before == after == insert_prefetches(before, HOST)


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
@pytest.mark.parametrize("shape", [(7, 40, 37), (13, 64, 64), (1, 70, 33), (65, 33, 1)], ids=str)
def test_prefetches_keep_results(shape: tuple[int, int, int], target: Target) -> None:
    outputs = update(*shape)
    run = lambda u, target: insert_prefetches(u, replace(target, l2_bytes=0))
    always = replace(passes.prefetch, run=run)
    changed = replace(passes, prefetch=always)
    check_passes(jaxpr(outputs), inputs(outputs), target, changed, 1e-4)


@pytest.mark.parametrize("shape", [(511, 64, 509), (2048, 33, 257)], ids=str)
def test_prefetches_on_this_machine(shape: tuple[int, int, int]) -> None:
    outputs = update(*shape)
    values = inputs(outputs)
    want = oracle.evaluate(outputs, dict(zip(params(outputs), values, strict=True)))
    for got, expected in zip(run_compiled(outputs, values), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
