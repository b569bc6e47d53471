"""Fusion analysis: the results that share a kernel, and the same ones in every process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, jaxpr, matmul, p
from tests.lower.random_graphs import graphs
from tfn.dtypes import FLOAT64
from tfn.lower.fuse import analysis, boundaries
from tfn.lower.fuse.analysis import (
    MAX_RECOMPUTED_READS,
    MAX_SHARED_BUFFERS,
    MOVED,
    REGROUPED,
    FusionAnalysis,
    few_nodes,
    output_in_memory,
)
from tfn.lower.pipeline import lower
from tfn.lower.program import Program
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

X, Y = p(0, 30, 20), p(1, 30, 20)


def program(outputs: Sequence[UOp]) -> Program:
    return lower(jaxpr(outputs), HOST)


def launches(*outputs: UOp) -> int:
    assert_matches_oracle(outputs)
    return len(program(outputs).launches)


def test_results_of_the_same_inputs_share_a_kernel() -> None:
    sine = build.unary(Op.SIN, X)
    assert launches(X + 1.0, X * 2.0) == 1
    assert launches(X + 1.0, X * 2.0, sine, X - 3.0) == 1
    assert launches(X + Y, X * Y, Y - 1.0) == 1
    assert launches(X + 1.0, Y * 2.0) == 2, "they have nothing in common"


@pytest.mark.parametrize(
    "other",
    (
        build.flip(X, (0,)) * 2.0,
        build.add_up(X, (1,)),
        build.permute(X, (1, 0)) + 1.0,
        matmul(build.permute(X, (1, 0)), X),
        build.cast(X, FLOAT64) * 2.0,
        build.shrink(X, (0, 0), (30, 19)) * 2.0,
    ),
    ids=("flip", "sum", "transpose", "product", "wider", "smaller"),
)
def test_results_read_or_written_at_other_indices_do_not_share(other: UOp) -> None:
    assert launches(X + 1.0, other) == 2


def test_a_result_that_reads_a_sum_of_the_other_does_not_share() -> None:
    first = X + 1.0
    total = build.expand(build.reshape(build.add_up(first, (0,)), (1, 20)), (30, 20))
    assert launches(first, X * 2.0, total * X) >= 2


def test_buffers_of_a_shared_kernel_are_limited() -> None:
    results = [X * float(i) for i in range(3 * MAX_SHARED_BUFFERS)]
    lowered = program(results)
    assert 3 <= len(lowered.launches) <= 5
    assert max(len(launch.operands) for launch in lowered.launches) <= MAX_SHARED_BUFFERS


def test_adam_is_one_kernel_per_parameter() -> None:
    def adam(p, g, m, v):  # type: ignore[no-untyped-def]
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 0.1 * m / (tnp.sqrt(v) + 1e-8), m, v

    x = {name: tfn.ShapeDtypeStruct((30, n), "float32") for n, name in enumerate("abc", 4)}
    update = tfn.make_jaxpr(lambda *trees: tfn.tree.map(adam, *trees))(x, x, x, x)
    assert len(lower(update, HOST).launches) == 3


def test_every_process_lowers_to_the_same_program() -> None:
    """Inputs and groups beyond a limit are dropped in graph order, not in that of a set."""
    code = (
        "import tfn, tfn.scipy.special as special; x = tfn.ShapeDtypeStruct((1000,), 'float32'); "
        "print(tfn.jit(special.gammainc).lower(x, x).as_text('llvm'))"
    )
    texts = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(3)
    }
    assert len(texts) == 1


def facts(found: FusionAnalysis) -> object:
    """All that an analysis says, with the index behind each number of a moved one."""
    moved = {
        number: (*key, place)
        for key, known in found.moved_ids.items()
        for place, number in known.items()
    }

    def index(access: Any) -> Any:
        if not isinstance(access, tuple) or access[:1] not in ((MOVED,), (REGROUPED,)):
            return access
        if access[0] == MOVED:
            *key, place = cast(Any, moved[access[2]])
            return (*access[:2], *key, tuple(map(index, place)))
        return (*access[:2], tuple(map(index, access[2])))

    def plain(maps: frozenset[analysis.AccessMap]) -> object:
        many = len(maps) > MAX_RECOMPUTED_READS
        return "many" if many else frozenset(tuple(map(index, place)) for place in maps)

    maps = {
        u: [(root, plain(each)) for root, each in readers.items()]
        for u, readers in found.access_maps.items()
    }
    return found.kernel, found.feeds, found.depth_cost, found.inputs, maps


def analysed(
    order: Sequence[UOp], results: frozenset[UOp], barriers: set[UOp], parts: dict[UOp, UOp]
) -> FusionAnalysis:
    found = FusionAnalysis(order, results, barriers, parts, HOST.l2_bytes)
    found.add((), {}, {})
    return found


@settings(max_examples=50)
@given(outputs=graphs(), data=st.data())
def test_barriers_that_are_added_change_what_they_would_have_been_from_the_start(
    outputs: list[UOp], data: st.DataObject
) -> None:
    order = [u for u in walk(outputs) if u.op is not Op.FUNCTION]
    results = frozenset(map(output_in_memory, outputs))
    barriers = {u for u in results if u.op is not Op.PARAM}
    updated = analysed(order, results, set(barriers), {})
    computed = [u for u in order if u.src and u.op not in analysis.SEVERAL_RESULTS]
    for _ in range(3 if computed else 0):
        added = data.draw(st.lists(st.sampled_from(computed), max_size=3))
        parts = {u: added[0] for u in added if data.draw(st.booleans())}
        updated.add(added, parts, {})
        fresh = analysed(order, results, set(updated.barriers), dict(updated.parts))
        assert facts(updated) == facts(fresh)


def test_only_what_new_barriers_change_is_analysed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Towers of sines beside each other: a barrier in one leaves the others as they are."""
    towers = [X * float(i + 1) for i in range(20)]
    for _ in range(10):
        towers = [build.unary(Op.SIN, u) for u in towers]
    order = list(walk(towers))
    found = analysed(order, frozenset(towers), set(towers), {})
    visited: list[UOp] = []
    through = FusionAnalysis._through

    def visit(self: FusionAnalysis, node: UOp, index: int) -> object:
        visited.append(node)
        return through(self, node, index)

    monkeypatch.setattr(FusionAnalysis, "_through", visit)
    found.add([towers[7].src[0].src[0]], {}, {})
    assert 0 < len(visited) < 40, "of 220 nodes, those of one tower and the readers of X"


@settings(max_examples=50)
@given(outputs=graphs(), data=st.data())
def test_a_kernel_feeds_its_readers_and_theirs(outputs: list[UOp], data: st.DataObject) -> None:
    order = [u for u in walk(outputs) if u.op is not Op.FUNCTION]
    results = frozenset(map(output_in_memory, outputs))
    computed = [u for u in order if u.src and u.op not in analysis.SEVERAL_RESULTS]
    stored = {u for u in computed if data.draw(st.booleans())}
    barriers = stored | {u for u in results if u.op is not Op.PARAM}
    found = analysed(order, results, barriers, {})
    readers: dict[UOp, set[UOp]] = {}
    for u in found.kernel:
        root = found.kernel[u]
        readers.setdefault(root, set()).update(set(found.reader_maps[u]) - {root})
    for start in readers:
        reached: set[UOp] = set()
        stack = [start]
        while stack:
            new = readers[stack.pop()] - reached
            reached |= new
            stack += new
        assert {goal for goal in readers if found._feeds(start, goal)} == reached


def test_updates_of_many_layers_are_analysed_in_linear_time() -> None:
    """Whether kernels feed each other is looked up: paths between them were followed each time."""

    def lines(layers: int) -> int:
        """Lines of the analysis that run for a network whose gains are updated by shared rates."""
        x = tfn.ShapeDtypeStruct((8, 16), "float32")
        gain = tfn.ShapeDtypeStruct((16,), "float32")

        def loss(gains: Any, x: Any, w: Any) -> Any:
            for gain in gains:
                x = tnp.tanh((x - tnp.mean(x, -1, keepdims=True)) * gain @ w)
            return tnp.sum(x)

        def step(gains: Any, rates: Any, x: Any, w: Any) -> Any:
            g = tfn.grad(loss)(gains, x, w)
            return [a - rates * b for a, b in zip(gains, g, strict=True)]

        square = tfn.ShapeDtypeStruct((16, 16), "float32")
        function = tfn.make_jaxpr(step)([gain] * layers, gain, x, square).function
        count = 0

        def trace(frame: Any, event: str, arg: object) -> Any:
            nonlocal count
            if frame.f_code.co_filename != analysis.__file__:
                return None
            count += event == "line"
            return trace

        sys.settrace(trace)
        try:
            boundaries.insert_barriers(function, HOST)
        finally:
            sys.settrace(None)
        return count

    assert lines(32) < 2.2 * lines(16)


def test_of_a_long_program_few_nodes_are_looked_at() -> None:
    """The limit counts nodes; so many alone are asked for, not those at the leaves."""
    chain = [p(0, 5)]
    for _ in range(1000):
        chain.append(chain[-1] + chain[-1])
    asked: list[UOp] = []
    enter = lambda u: asked.append(u) or True
    assert not few_nodes(chain[-1], enter, 20) and len(asked) < 30
    assert few_nodes(chain[19], lambda u: True, 20) == chain[:20]
    assert not few_nodes(chain[20], lambda u: True, 20)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_value_that_reads_a_stored_concatenation_has_loops_over_all_of_it(axis: int) -> None:
    def both(x: Any) -> Any:
        x = tnp.sin(x)
        swapped = tnp.roll(x, x.shape[axis] // 2, axis)
        return swapped * 2 + x.mean(), swapped

    def joined(x: Any, y: Any) -> Any:
        stacked = tnp.concatenate([x + y, x - y], axis)
        return stacked * 2 + x.mean(), stacked

    x = tnp.asarray(np.random.default_rng(0).normal(size=(4, 2, 96)), "float32")
    for function, args in ((both, (x,)), (joined, (x, x + 1))):
        scaled, kept = tfn.jit(function)(*args)
        np.testing.assert_allclose(
            scaled, kept * 2 + scaled[0, 0, 0] - kept[0, 0, 0] * 2, atol=1e-5
        )
