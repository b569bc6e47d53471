"""The driver: order, memory, ends, counts, and depth."""

from __future__ import annotations

import pytest

from tfn.dtypes import FLOAT32, INT32
from tfn.trace.argument import Param, Range
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.pattern import FLOAT, INDEX, INT, hole, law
from tfn.trace.records import collecting
from tfn.trace.rewrite import rewrite, rules
from tfn.trace.uop import UOp, const, walk


class Everything:
    """Facts with one answer for all conditions."""

    def __init__(self, exact=True, holds=True):
        self.is_exact, self.is_true = exact, holds

    def exact(self, u):
        return self.is_exact

    def holds(self, condition):
        return self.is_true


x, y = (UOp(Op.PARAM, (), Param(i, (), FLOAT32)) for i in range(2))
v = hole("v", FLOAT)
DOUBLE_NEG = law("neg-neg", UOp(Op.NEG, (-v,)), v, FLOAT)
ADD = law("neg-add", -v + v, v - v, FLOAT)
i, c = hole("i", INDEX), hole("c", INDEX, constant=True)
MUL_DIV = law("mul-div", (i * c) // c, i, INDEX, where=c > 0)
r = UOp(Op.RANGE, (), Range(0, 8))


def test_laws_apply_from_the_leaves_up():
    u = UOp(Op.NEG, (-(UOp(Op.NEG, (-x,)) + y),))
    assert rewrite([u], rules({}, [DOUBLE_NEG]), Everything()) == [x + y]


def test_the_result_of_a_rule_is_rewritten_in_its_turn():
    table = rules({}, [DOUBLE_NEG, ADD])
    u = -UOp(Op.NEG, (-x,)) + UOp(Op.NEG, (-x,))
    assert rewrite([u], table, Everything()) == [x - x]


def test_nothing_to_do_returns_the_same_nodes():
    u = x * y + x
    assert rewrite([u, x], rules({}, [DOUBLE_NEG]), Everything()) == [u, x]
    assert rewrite([], {}, Everything()) == []


def test_laws_of_z_ask_whether_arithmetic_is_exact():
    u = (r * 4) // 4
    assert rewrite([u], rules({}, [MUL_DIV]), Everything()) == [r]
    assert rewrite([u], rules({}, [MUL_DIV]), Everything(exact=False)) == [u]


def test_conditions_are_asked():
    u = (r * 4) // 4
    assert rewrite([u], rules({}, [MUL_DIV]), Everything(holds=False)) == [u]


def fold_square(u, facts):
    """x * x -> -x, for want of a better one."""
    return -u.src[0] if u.src[0] is u.src[1] else None


def test_folds_come_first_and_are_recorded_by_name():
    table = rules({Op.MUL: (fold_square,)}, [DOUBLE_NEG])
    with collecting() as records:
        assert rewrite([-(x * x), (x * x) + y], table, Everything()) == [x, -x + y]
    assert [(one.rule, one.before, one.after) for one in records] == [
        ("fold-square", x * x, -x),
        ("neg-neg", UOp(Op.NEG, (-x,)), x),
    ]


def test_each_node_is_visited_once():
    seen = []

    def look(u, facts):
        seen.append(u)
        return None

    u = x
    for _ in range(40):  # a tree of 2 ** 40, a graph of 41
        u = u + u
    rewrite([u, u], rules({Op.ADD: (look,)}, []), Everything())
    assert len(seen) == 40


def test_rewrite_reuses_its_memo():
    table = rules({}, [DOUBLE_NEG])
    done: dict[UOp, UOp] = {}
    u = UOp(Op.NEG, (-x,))
    with collecting() as records:
        rewrite([u], table, Everything(), done)
        assert rewrite([u + y], table, Everything(), done) == [x + y]
    assert [one.rule for one in records] == ["neg-neg"]


def test_functions_are_closed():
    inner = function([UOp(Op.NEG, (-x,))], (x.arg,))
    outer = UOp(Op.TUPLE, (inner, UOp(Op.NEG, (-y,))))
    table = rules({}, [DOUBLE_NEG])
    (found,) = rewrite([outer], table, Everything())
    assert found.src == (inner, y)
    assert rewrite([inner], table, Everything()) == [function([x], (x.arg,))]


def test_ranges_stay_the_variables_that_they_are():
    bound = const(3, r.dtype) * 4 // 4 + r
    limited = UOp(Op.RANGE, (bound,), Range(1, 4))
    assert rewrite([limited + 0], rules({}, [MUL_DIV]), Everything())[0].src[0] is limited


def test_depth_does_not_matter():
    u = x
    for _ in range(100_000):
        u = -u
    assert rewrite([u], rules({}, [DOUBLE_NEG]), Everything()) == [x]


def test_rules_that_do_not_end_are_named():
    up, n = hole("n", INT), UOp(Op.PARAM, (), Param(0, (), INT32))
    grows = law("grows", up + 1, (up + 1) + 1, INT)
    with pytest.raises(AssertionError, match="from itself"):
        rewrite([n + 1], rules({}, [grows]), Everything())
    turns = [law("there", up + 1, up - 1, INT), law("back", up - 1, up + 1, INT)]
    with pytest.raises(AssertionError, match="circle"):
        rewrite([n + 1], rules({}, turns), Everything())

    def count_up(u, facts):
        return u.src[0] + (int(u.src[1].arg.value) + 1)

    with pytest.raises(AssertionError, match="count-up does not end"):
        rewrite([n + 1], rules({Op.ADD: (count_up,)}, []), Everything())


def test_shapes_of_results_are_those_of_what_is_replaced():
    wide = UOp(Op.PARAM, (), Param(0, (2, 3), FLOAT32))
    zero = law("zero", v - v, v * 0.0, FLOAT)
    (found,) = rewrite([wide - wide], rules({}, [zero]), Everything())
    assert found is wide * const(0.0, FLOAT32, (2, 3))
    assert all(node.shape == (2, 3) for node in walk([found]))
