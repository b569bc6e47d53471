"""Oversized intermediates: their components, their segments, and the reduced values between."""

from __future__ import annotations

from tests.lower.graphs import matmul, p, softmax
from tfn.dtypes import int8
from tfn.lower.graph.intermediates import Intermediates, Segment, oversized_bytes, working_bytes
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

LIMIT = 64 * 64 * 4


def transposed(u: UOp) -> UOp:
    return build.permute(u, (1, 0))


def intermediates(*outputs: UOp) -> Intermediates:
    return Intermediates(outputs, list(walk(outputs)), LIMIT)


Q, K, V = (p(i, 64, 3) for i in range(3))
SCORES = matmul(Q, transposed(K))
WEIGHTS = softmax(SCORES)


def counts(segments: list[Segment]) -> list[tuple[int, int, int]]:
    """The number of interior values, results and recomputed contractions of each segment."""
    return [
        (len(segment.interior), len(segment.results), len(segment.recomputed))
        for segment in segments
    ]


def test_oversized_bytes_of_contractions() -> None:
    assert working_bytes(p(0, 3, dtype=int8.dtype)) == 12
    assert oversized_bytes([matmul(WEIGHTS, V)], LIMIT) == {LIMIT}
    assert oversized_bytes([matmul(WEIGHTS, V)], LIMIT + 1) == set()
    assert oversized_bytes([WEIGHTS], LIMIT) == {LIMIT}
    assert oversized_bytes([softmax(p(0, 64, 64))], LIMIT) == set()
    assert oversized_bytes([matmul(p(0, 64, 64), p(1, 64, 64))], LIMIT) == set()


def test_attention_is_one_segment() -> None:
    graph = intermediates(matmul(WEIGHTS, V))
    assert {u.op for u in graph.reduced} == {Op.REDUCE, Op.RESHAPE}
    assert all(SCORES.shape == u.shape for u in graph.oversized)
    ((segment,),) = graph.components()
    (end,) = segment.results
    assert end.op is Op.DOT and set(segment.inputs()) == {Q, V, transposed(K)}


def test_the_backward_pass_is_a_second_segment() -> None:
    out = matmul(WEIGHTS, V)
    back = matmul(transposed(WEIGHTS), out * out)
    ((first, second),) = intermediates(back).components()
    assert list(second.results) == [back] and second.recomputed == [SCORES]
    assert out in first.results and not first.recomputed
    # The maxima and sums are stored by the first segment, not recomputed by the second.
    stored = set(first.results) - {out}
    assert stored and stored <= set(second.inputs())
    assert not any(u.op is Op.REDUCE for u in second.interior)


def test_two_results_of_one_segment() -> None:
    out = matmul(WEIGHTS, V)
    other = matmul(transposed(WEIGHTS), V)
    ((segment,),) = intermediates(out, other).components()
    assert set(segment.results) == {out, other}


def test_two_layers_are_two_components() -> None:
    x = matmul(WEIGHTS, V)
    y = matmul(softmax(matmul(x, transposed(x))), x)
    first, second = sorted(
        intermediates(y).components(), key=lambda segments: x in segments[0].results
    )[::-1]
    assert list(first[0].results) == [x] and list(second[0].results) == [y]


def test_values_needed_whole_are_not_oversized() -> None:
    assert not intermediates(WEIGHTS, matmul(WEIGHTS, V)).oversized
    (row, *_) = build.sort([SCORES])
    assert not intermediates(build.add_up(row, (1,))).oversized
    assert (
        intermediates(matmul(SCORES, V), build.shrink(SCORES, (0, 0), (1, 64))).oversized == set()
    )


def test_generated_values_are_not_inputs() -> None:
    before = build.iota((64, 64), 0) < build.iota((64, 64), 1)
    zero = build.zeros((64, 64), SCORES.dtype)
    out = matmul(build.where(before, SCORES, zero), V)
    graph = intermediates(out)
    assert {before, zero} <= graph.generated and not graph.generated & graph.oversized
    ((segment,),) = graph.components()
    assert segment.computes(before) and before not in segment.inputs()
    assert SCORES in segment.interior and counts([segment]) == [(2, 1, 0)]


def test_a_reshaped_iota_is_generated() -> None:
    line = build.iota((64 * 64,), 0)
    square = build.reshape(line, (64, 64))
    negated = build.reshape(-line, (64, 64))
    graph = intermediates(matmul(build.cast(square + negated, SCORES.dtype) + SCORES, V))
    assert square in graph.generated and negated not in graph.generated
