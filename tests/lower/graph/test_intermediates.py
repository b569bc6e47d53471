"""Which values are too large to be kept, what lies between them, and in which order they come."""

from __future__ import annotations

from tests.lower.graphs import matmul, p, softmax
from tfn.dtypes import int8
from tfn.lower.graph.intermediates import Landscape, Level, size_bytes, sizes
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

LIMIT = 64 * 64 * 4


def transposed(u: UOp) -> UOp:
    return build.permute(u, (1, 0))


def landscape(*outputs: UOp) -> Landscape:
    return Landscape(outputs, list(walk(outputs)), LIMIT)


Q, K, V = (p(i, 64, 3) for i in range(3))
SCORES = matmul(Q, transposed(K))
WEIGHTS = softmax(SCORES)


def made(levels: list[Level]) -> list[tuple[int, int, int]]:
    """Of each level how many values are inside, how many ends it has, and what is made again."""
    return [(len(level.inside), len(level.ends), len(level.again)) for level in levels]


def test_sizes_of_what_contractions_touch() -> None:
    assert size_bytes(p(0, 3, dtype=int8.dtype)) == 12
    assert sizes([matmul(WEIGHTS, V)], LIMIT) == {LIMIT}
    assert sizes([matmul(WEIGHTS, V)], LIMIT + 1) == set()
    assert sizes([WEIGHTS], LIMIT) == {LIMIT}
    assert sizes([softmax(p(0, 64, 64))], LIMIT) == set()
    assert sizes([matmul(p(0, 64, 64), p(1, 64, 64))], LIMIT) == set()


def test_a_softmax_is_one_level() -> None:
    found = landscape(matmul(WEIGHTS, V))
    assert {u.op for u in found.between} == {Op.REDUCE, Op.RESHAPE}
    assert all(SCORES.shape == u.shape for u in found.large)
    ((level,),) = found.clusters()
    (end,) = level.ends
    assert end.op is Op.DOT and set(level.around()) == {Q, V, transposed(K)}


def test_what_comes_back_from_elsewhere_is_another_level() -> None:
    out = matmul(WEIGHTS, V)
    back = matmul(transposed(WEIGHTS), out * out)
    ((first, second),) = landscape(back).clusters()
    assert list(second.ends) == [back] and second.again == [SCORES]
    assert out in first.ends and not first.again
    # The maxima and sums are kept by the first, and not made again.
    kept = set(first.ends) - {out}
    assert kept and kept <= set(second.around())
    assert not any(u.op is Op.REDUCE for u in second.inside)


def test_what_does_not_come_back_is_together() -> None:
    out = matmul(WEIGHTS, V)
    other = matmul(transposed(WEIGHTS), V)
    ((level,),) = landscape(out, other).clusters()
    assert set(level.ends) == {out, other}


def test_layers_are_apart() -> None:
    x = matmul(WEIGHTS, V)
    y = matmul(softmax(matmul(x, transposed(x))), x)
    first, second = sorted(landscape(y).clusters(), key=lambda levels: x in levels[0].ends)[::-1]
    assert list(first[0].ends) == [x] and list(second[0].ends) == [y]


def test_what_somebody_wants_whole_is_not_large() -> None:
    assert not landscape(WEIGHTS, matmul(WEIGHTS, V)).large
    (row, *_) = build.sort([SCORES])
    assert not landscape(build.add_up(row, (1,))).large
    assert landscape(matmul(SCORES, V), build.shrink(SCORES, (0, 0), (1, 64))).large == set()


def test_numbers_are_made_anew() -> None:
    before = build.iota((64, 64), 0) < build.iota((64, 64), 1)
    zero = build.zeros((64, 64), SCORES.dtype)
    out = matmul(build.where(before, SCORES, zero), V)
    found = landscape(out)
    assert {before, zero} <= found.numbers and not found.numbers & found.large
    ((level,),) = found.clusters()
    assert level.computed(before) and before not in level.around()
    assert SCORES in level.inside and made([level]) == [(2, 1, 0)]


def test_counted_elements_in_a_shape_are_numbers() -> None:
    line = build.iota((64 * 64,), 0)
    square = build.reshape(line, (64, 64))
    turned = build.reshape(-line, (64, 64))
    found = landscape(matmul(build.cast(square + turned, SCORES.dtype) + SCORES, V))
    assert square in found.numbers and turned not in found.numbers
