"""Cost model: strides along loops, contractions, and the cheapest vector axis."""

from __future__ import annotations

import pytest

from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import jaxpr, matmul, p
from tfn.dtypes import FLOAT32, FLOAT64, int8
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops.cost_model import UNKNOWN_STRIDE, Model, few_operations, loop_body, model_of
from tfn.lower.loops.loop_nest import folds, nest
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def modelled(u: UOp, target: Target = HOST) -> Model:
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr([u]).function, target))
    return model_of(nest(stage.body), target)


def load_strides(model: Model, axis: int) -> list[int]:
    """The stride of each load along one of the loops."""
    lane = model.nest.loops[axis]
    return [model.stride(u, terms, lane) for u, terms, _ in model.accesses if u.op is Op.LOAD]


def test_lanes_are_of_the_widest_dtype_of_at_least_32_bits() -> None:
    for dtype, lanes in ((FLOAT32, 16), (FLOAT64, 8), (int8.dtype, 16)):
        assert modelled(p(0, 64, dtype=dtype) + p(1, 64, dtype=dtype)).lanes == lanes
    assert modelled(p(0, 64) + p(1, 64), SMALL).lanes == 4


def test_strides_along_loops() -> None:
    x = p(0, 6, 7) + build.permute(p(1, 7, 6), (1, 0))
    assert [load_strides(modelled(x), axis) for axis in (0, 1)] == [[7, 1], [1, 6]]
    pieces = build.reshape(build.permute(build.reshape(p(0, 6, 35), (6, 5, 7)), (1, 0, 2)), (30, 7))
    assert UNKNOWN_STRIDE in load_strides(modelled(pieces + 1.0), 0)  # through a division


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
def test_the_vector_axis_is_the_contiguous_one(target: Target) -> None:
    rows = modelled(build.add_up(p(0, 64, 512), (1,)), target)
    assert rows.vector_axis(frozenset()) in folds(rows.nest.body)[0].src[1:]
    columns = modelled(build.add_up(p(0, 64, 512), (0,)), target)
    assert columns.vector_axis(frozenset()) is columns.nest.loops[0]
    product = modelled(matmul(p(0, 40, 30), p(1, 30, 50)), target)
    assert product.vector_axis(frozenset()) is product.nest.loops[1]


def test_contractions_reuse_their_loads() -> None:
    product = modelled(matmul(p(0, 40, 30), p(1, 30, 50)))
    (fold,) = folds(product.nest.body)
    assert product.is_contraction(fold) and product.reuses_loads(fold, product.nest.loops[1])
    square = modelled(build.add_up(p(0, 40, 30) * p(0, 40, 30), (1,)))
    assert not square.is_contraction(folds(square.nest.body)[0])


def test_more_work_costs_more() -> None:
    small, large = (modelled(p(0, n, 512) + 1.0).total_ns() for n in (10, 100))
    assert 9 < large / small < 11


def test_the_loop_body_of_a_reduction_excludes_inner_reductions() -> None:
    x = p(0, 40, 300)
    top = build.reduce(x, Op.MAX, (1,), keepdims=True)
    e = build.unary(Op.EXP, x - build.expand(top, x.shape))
    model = modelled(build.add_up(e, (1,)))
    small, large = folds(model.nest.body)
    assert Op.EXP not in {u.op for u in loop_body(small)}
    assert {Op.SUB, Op.EXP} <= {u.op for u in loop_body(large)}
    assert small not in loop_body(large) and few_operations(loop_body(small))
