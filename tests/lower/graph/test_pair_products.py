"""Complex products: every layout of the operands, one real contraction, the larger not copied."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import covering
from tests.lower.check_passes import HOST
from tests.lower.graph.test_complex_pairs import c, check
from tests.lower.graphs import jaxpr
from tfn.dtypes import COMPLEX64, COMPLEX128
from tfn.lower.graph.complex_pairs import lower_complex
from tfn.lower.pipeline import lower
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

LAYOUTS = ["ab", "aTb", "abT", "aTbT"]


def product(layout: str, m: int, k: int, n: int, dtype: object = COMPLEX64) -> UOp:
    """A product of matrices, each of which may be turned."""
    a = (
        build.permute(c(0, k, m, dtype=dtype), (1, 0))
        if "aT" in layout
        else c(0, m, k, dtype=dtype)
    )
    b = (
        build.permute(c(1, n, k, dtype=dtype), (1, 0))
        if "bT" in layout
        else c(1, k, n, dtype=dtype)
    )
    return build.dot(a, b, ((1,), (0,)))


@covering("layout, dtype", LAYOUTS, [COMPLEX64, COMPLEX128], ids=str)
def test_turned_operands(layout: str, dtype: object) -> None:
    for m, k, n in ((3, 5, 4), (1, 7, 9), (9, 7, 1), (4, 1, 6), (1, 1, 1), (2, 3, 40), (40, 3, 2)):
        check(product(layout, m, k, n, dtype))


@pytest.mark.parametrize(
    ("a", "b", "contract", "batch"),
    [
        ((4, 3, 5), (4, 5, 6), ((2,), (1,)), ((0,), (0,))),
        ((3, 5, 4), (6, 5, 4), ((1,), (1,)), ((2,), (2,))),  # the batch comes last in memory
        ((3, 4, 5), (5, 4), ((1, 2), (1, 0)), ((), ())),
        ((4, 5), (2, 3, 5, 4), ((0, 1), (3, 2)), ((), ())),
        ((5,), (5,), ((0,), (0,)), ((), ())),
        ((4, 5), (4, 5), ((1,), (1,)), ((0,), (0,))),
        ((5,), (6, 5, 7), ((0,), (1,)), ((), ())),
        ((2, 6, 5, 7), (5,), ((2,), (0,)), ((), ())),
        ((4, 2), (4, 3), ((), ()), ((0,), (0,))),
        ((2,), (3, 2), ((), ()), ((), ())),
        ((2, 0), (0, 3), ((1,), (0,)), ((), ())),
        ((3, 0), (3, 4), ((0,), (0,)), ((), ())),
    ],
    ids=str,
)
def test_axes(a: tuple[int, ...], b: tuple[int, ...], contract: tuple, batch: tuple) -> None:
    check(build.dot(c(0, *a), c(1, *b), contract, batch))


def test_a_wider_result() -> None:
    check(build.dot(c(0, 3, 5), c(1, 5, 4), ((1,), (0,)), dtype=COMPLEX128))
    check(build.dot(c(0, 3, 1), c(1, 1, 4), ((1,), (0,)), dtype=COMPLEX128))


def test_computed_and_reshaped_operands() -> None:
    a, b = c(0, 3, 8), c(1, 8, 20)
    check(build.dot(a * 1j, build.conj(b) + 1j, ((1,), (0,))))
    check(build.dot(build.reshape(a, (6, 4)), build.reshape(b, (4, 40)), ((1,), (0,))))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_larger_operand_is_read_where_it_is(layout: str) -> None:
    """One contraction, whose larger operand is a view of a parameter; one rewrites the other."""
    closed = jaxpr([product(layout, 8, 64, 96)])
    real = lower_complex(closed.function)
    dots = [u for u in walk(real.src) if u.op is Op.DOT]
    assert len(dots) == 1
    views = [
        u for u in dots[0].src if {v.op for v in walk([u])} <= {Op.PARAM, Op.RESHAPE, Op.PERMUTE}
    ]
    assert len(views) == 1 and np.prod(views[0].shape) == 2 * 64 * 96
    assert len(lower(closed, HOST).launches) <= 3


def test_a_product_without_a_sum_is_no_contraction() -> None:
    real = lower_complex(jaxpr([product("ab", 5, 1, 6)]).function)
    assert not any(u.op is Op.DOT for u in walk(real.src))
