"""Inner loops: the loops that are fused into one kernel, and those that are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, draw, jaxpr, matmul, p, params
from tests.lower.random_graphs import ELEMENTWISE, LOOPS, graphs
from tfn.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.fuse.inner_loops import MAX_BODY_INSTRUCTIONS
from tfn.lower.pipeline import lower
from tfn.lower.program import Launch
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, const, walk


def body(own: Sequence[UOp], *outputs: UOp) -> UOp:
    return function(outputs, tuple(u.arg for u in own))


def kernels(*outputs: UOp) -> int | None:
    """The number of kernels; None if there is a loop around some."""
    steps = lower(jaxpr(outputs), HOST).steps
    return len(steps) if all(isinstance(s, Launch) for s in steps) else None


def scanned(*shape: int, length: int = 5, reverse: bool = False) -> list[UOp]:
    """c -> c * w + x, with the old values of c as slices."""
    c, x, w = p(1, *shape), p(2, *shape), p(0, *shape)
    step = body([w, c, x], c * w + x, c)
    return build.scan(step, [w], [p(1, *shape)], [p(2, length, *shape)], length, reverse)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (67,), (2, 40)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [2, 3, 17])
def test_a_pointwise_scan_is_one_kernel(shape: tuple[int, ...], reverse: bool, length: int) -> None:
    outputs = scanned(*shape, length=length, reverse=reverse)
    assert kernels(*outputs) == 1
    assert_matches_oracle(outputs, rtol=1e-3, atol=1e-3)


def test_only_used_results_are_stored() -> None:
    last, old = scanned(3, 5)
    for used in ([last], [old], [old, last]):
        (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(used).function, HOST))
        assert isinstance(stage, ranges.IndexedKernel) and stage.written == len(used)
        check([stage.body], Stage.RANGES)
        assert_matches_oracle(used, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, FLOAT64, INT32], ids=lambda d: d.name)
def test_carries_of_other_dtypes(dtype: DType) -> None:
    c, x = p(0, 20, dtype=dtype), p(1, 20, dtype=dtype)
    step = body([c, x], x - c, build.maximum(c, x))
    outputs = build.scan(step, [], [c], [p(1, 4, 20, dtype=dtype)], 4)
    assert kernels(*outputs) == 1
    assert_matches_oracle(outputs, rtol=2e-2 if dtype.itemsize == 2 else 1e-6)


def test_scalars_beside_arrays() -> None:
    """A counter and a factor that all elements share."""
    k, i, c = p(0), p(1, dtype=INT32), p(2, 30)
    step = body([k, i, c], i + 1, c * build.broadcast_to(k, (30,)))
    assert_matches_oracle(build.scan(step, [k], [i, c], [], 6))


def test_carries_that_swap() -> None:
    a, b = p(0, 33), p(1, 33)
    outputs = build.scan(body([a, b], b, a + b), [], [a, b], [], 7)
    assert kernels(*outputs) == 1
    assert_matches_oracle(outputs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("limit", [0, 1, 9])
def test_while_of_scalars(limit: int) -> None:
    n, i, c = p(0, dtype=INT32), p(1, dtype=INT32), p(2)
    cond = body([n, i, c], i < n)
    step = body([p(0, dtype=INT32), p(1)], p(0, dtype=INT32) + 1, p(1) * 1.5 + 1.0)
    outputs = build.repeat_while(cond, step, [n], [], [const(0, INT32), p(1)])
    assert kernels(*outputs) is not None
    assert_matches_oracle(outputs, [np.array(limit, np.int32), np.array(0.5, np.float32)])


# Loops around kernels.


def test_bodies_that_mix_elements_are_not_fused() -> None:
    c = p(0, 4, 4)
    for step in (
        body([c], matmul(c, c) * 0.1),
        body([c], build.permute(c, (1, 0)) * 1.5),
        body([c], build.flip(c, (0,)) + 1.0),
        body([c], c * build.expand(build.add_up(c, (0,), keepdims=True), (4, 4)) * 0.1),
    ):
        outputs = build.scan(step, [], [c], [], 3)
        assert kernels(*outputs) is None
        assert_matches_oracle(outputs, rtol=1e-3, atol=1e-3)


def test_carries_of_two_shapes_are_not_fused() -> None:
    a, b = p(0, 4), p(1, 5)
    outputs = build.scan(body([a, b], a * 2.0, b + 1.0), [], [a, b], [], 3)
    assert kernels(*outputs) is None
    assert_matches_oracle(outputs)


def test_large_bodies_are_not_fused() -> None:
    c = p(0, 4)
    x = c
    for _ in range(MAX_BODY_INSTRUCTIONS // 2):
        x = x * 0.99 + 0.01
    outputs = build.scan(body([c], x + c), [], [c], [], 3)
    assert kernels(*outputs) is None
    assert_matches_oracle(outputs, rtol=1e-3)


@pytest.mark.parametrize("length", [0, 1])
def test_loops_of_no_or_one_iteration(length: int) -> None:
    assert_matches_oracle(scanned(3, 5, length=length))


# In registers.


def test_carries_are_never_stored_between_iterations() -> None:
    (stage,) = ranges.indexed_kernels(
        boundaries.insert_barriers(jaxpr(scanned(64)[:1]).function, HOST)
    )
    assert isinstance(stage, ranges.IndexedKernel)
    stores = [u for u in walk([stage.body]) if u.op is Op.STORE]
    assert len(stores) == 1
    (program,) = {launch.kernel.text for launch in lower(jaxpr(scanned(64)[:1]), HOST).launches}
    assert program.count("store ") + program.count("masked.store") <= 4


@given(graphs(most=4, steps=ELEMENTWISE + LOOPS * 6))
@settings(max_examples=60)
def test_any_pointwise_loop(outputs: list[UOp]) -> None:
    values = [draw(u.shape, u.dtype, i) for i, u in enumerate(params(outputs))]
    assert_matches_oracle(outputs, values, 1e-3, 1e-3)


def test_code_size_is_independent_of_length() -> None:
    texts = set()
    for length in (100, 999):
        (launch,) = lower(jaxpr(scanned(64, length=length)), HOST).launches
        texts.add(launch.kernel.text.count("\n"))
    assert len(texts) == 1
    assert_matches_oracle(
        build.scan(
            body([p(0, 9)], p(0, 9) * 0.5 + const(1.0, FLOAT32, (9,))), [], [p(0, 9)], [], 999
        )
    )


@pytest.mark.parametrize("shape", [(1,), (3, 5), (67,), (4, 33)])
@pytest.mark.parametrize("table", [(1,), (11,), (7, 3)])
def test_gathers_of_loop_invariant_operands(shape: tuple[int, ...], table: tuple[int, ...]) -> None:
    """c -> table[c] + x, which follows pointers."""
    w, c, x = p(0, *table, dtype=INT32), p(1, *shape, dtype=INT32), p(2, *shape, dtype=INT32)
    at = build.broadcast_in_dim(c, (*shape, len(table)), range(len(shape)))
    looked_up = build.reshape(build.gather(w, at, (1,) * len(table)), shape)
    outputs = build.scan(
        body([w, c, x], looked_up + x, c), [w], [c], [p(2, 4, *shape, dtype=INT32)], 4
    )
    assert kernels(*outputs) == 1
    rng = np.random.default_rng(0)
    assert_matches_oracle(
        outputs, [rng.integers(-2, 12, s).astype(np.int32) for s in (table, shape, (4, *shape))]
    )


def test_gathers_of_carries_are_not_fused() -> None:
    c, x = p(1, 67, dtype=INT32), p(2, 67, dtype=INT32)
    looked_up = build.reshape(build.gather(c, build.reshape(x, (67, 1)), (1,)), (67,))
    outputs = build.scan(body([c, x], looked_up, c), [], [c], [p(2, 4, 67, dtype=INT32)], 4)
    assert kernels(*outputs) is None


# While loops of many elements, of which each ends by itself.


def halvings(n: int, masks: bool = True) -> tuple[list[UOp], list[np.ndarray]]:
    """How often each number is halved until it is below 2, as `vmap` of a while loop has it."""
    alive, x, count = p(0, n, dtype=BOOL), p(1, n, dtype=INT32), p(2, n, dtype=INT32)
    following = build.where(alive, x // 2, x)
    going = (const(1, INT32, (n,)) < following) & alive
    counted = build.where(alive, count + 1, count) if masks else count + 1
    some = body([alive, x, count], build.reduce(alive, Op.MAX, (0,)))
    step = body([alive, x, count], going, following, counted)
    outputs = build.repeat_while(some, step, [], [], [alive, x, count])
    numbers = np.random.default_rng(0).integers(1, 1000, n).astype(np.int32)
    return outputs[1:], [numbers > 1, numbers, np.zeros(n, np.int32)]


@pytest.mark.parametrize("n", [1, 5, 16, 67, 300])
def test_a_batched_while_is_one_kernel_whose_vectors_leave_by_themselves(n: int) -> None:
    outputs, values = halvings(n)
    assert kernels(*outputs) == 1
    assert_matches_oracle(outputs, values)
    none_alive = [np.zeros(n, bool), *values[1:]]
    assert_matches_oracle(outputs, none_alive)


def test_elements_that_change_after_their_end_need_a_loop_around_kernels() -> None:
    outputs, values = halvings(20, masks=False)
    assert kernels(*outputs) is None
    assert_matches_oracle(outputs, values)
