"""Laws as data: matched, built, printed."""

from __future__ import annotations

import pytest

from tfn.dtypes import BFLOAT16, BOOL, FLOAT32, INT32, INT64, uint8
from tfn.trace.argument import Param, Range
from tfn.trace.build import eq, where
from tfn.trace.op import Op
from tfn.trace.pattern import (
    BITS,
    FLOAT,
    INDEX,
    INT,
    builder,
    hole,
    infix,
    law,
    matcher,
)
from tfn.trace.uop import UOp, const

x, y = hole("x", INDEX), hole("y", INDEX)
c, d = hole("c", INDEX, constant=True), hole("d", INDEX, constant=True)
r, s = (UOp(Op.RANGE, (), Range(n, 8)) for n in range(2))


def match(pattern, node, over=INDEX):
    bindings = {}
    return bindings if matcher(pattern, over)(node, bindings) else None


def test_holes_are_bound():
    assert match(x + y, r + s) == {x: r, y: s}
    assert match((x % c) % c, r % 4 % 4) == {x: r, c: const(4, INT64)}


def test_matcher_refuses_other_forms():
    assert match(x + y, r - s) is None
    assert match((x % c) % c, r % 4 % 5) is None
    assert match(x + x, r + s) is None
    assert match(x + c, r + s) is None
    assert match(x + 1, r + 2) is None
    assert match(x * 1, r * 1) == {x: r}


def test_a_sort_says_which_dtypes_fit():
    i = hole("i", INT)
    for dtype, fits in ((INT32, True), (uint8.dtype, True), (INT64, True), (FLOAT32, False)):
        u = UOp(Op.PARAM, (), Param(0, (), dtype))
        assert (match(i + 1, u + 1, INT) is not None) == fits
    f = hole("f", FLOAT)
    half = UOp(Op.PARAM, (), Param(0, (), BFLOAT16))
    assert match(f + -0.0, half + -0.0, FLOAT) == {f: half}
    assert match(f + -0.0, half + 0.0, FLOAT) is None


def test_operands_of_three():
    b = hole("b", BITS)
    flag = UOp(Op.PARAM, (), Param(0, (), BOOL))
    assert match(where(~b, x, y), where(~flag, r, s)) == {b: flag, x: r, y: s}
    assert match(where(~b, x, y), where(flag, r, s)) is None


def test_building_follows_dtype_and_shape():
    i = hole("i", INT)
    wide = UOp(Op.PARAM, (), Param(0, (3,), uint8.dtype))
    built = builder(i + 1, INT)({i: wide}, uint8.dtype, (3,))
    assert built is wide + const(1, uint8.dtype, (3,))
    assert builder(eq(i, i), INT)({i: wide}, uint8.dtype, (3,)) is eq(wide, wide)
    yes = builder(const(True, BOOL), INT)({}, uint8.dtype, (3,))
    assert yes is const(True, BOOL, (3,))


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (
            law("mod-mod", (x % c) % c, x % c, where=c > 0, over=INDEX),
            "(x % c) % c -> x % c  where c > 0  over INDEX",
        ),
        (law("split", x // c * c + x % c, x, INDEX), "(x // c) * c + x % c -> x  over INDEX"),
        (law("neg", -(x + y), -x - y, INDEX), "-(x + y) -> -x - y  over INDEX"),
        (law("less", ~(x < y), y <= x, INDEX), "~(x < y) -> y <= x  over INDEX"),
        (law("sub", x - (y - x), x - y + x, INDEX), "x - (y - x) -> x - y + x  over INDEX"),
    ],
)
def test_laws_print_as_people_write_them(one, text):
    assert str(one) == text


def test_indices_print_too():
    assert infix(r * 4 + s) == "r0 * 4 + r1"
    assert infix((r * 4 + s) // 2) == "(r0 * 4 + r1) // 2"
    assert infix((r < 2) & (s < 3)) == "r0 < 2 & r1 < 3"
    assert infix(where(r < 2, r, s)) == "select(r0 < 2, r0, r1)"


def test_a_law_must_make_sense():
    with pytest.raises(AssertionError, match="does not bind"):
        law("free", x + c, x + d, INDEX)
    with pytest.raises(AssertionError, match="everything"):
        law("all", x, x + 0, INDEX)
    with pytest.raises(AssertionError, match="dtype"):
        law("type", x + y, x < y, INDEX)
    with pytest.raises(AssertionError, match="does not bind"):
        law("condition", x + c, x, INDEX, where=d > 0)


def test_sorts_are_named():
    assert len({sort.name for sort in (INDEX, INT, FLOAT, BITS)}) == 4
    assert str(INDEX) == "INDEX"
