"""Types of loops, branches and calls."""

from __future__ import annotations

import pytest

from tfn._support.validate import shown
from tfn.dtypes import FLOAT32, INT32
from tfn.trace.argument import Custom, Linear, Param
from tfn.trace.build import choose, repeat_while, scan
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.regions import result, results
from tfn.trace.uop import UOp


def p(shape=(), dtype=FLOAT32, index=0):
    return UOp(Op.PARAM, (), Param(index, shape, dtype))


def test_results_of_loops_have_types():
    body = function([p(), p((3,), INT32, 1), p((2,))], _params(((), FLOAT32), ((3,), INT32)))
    carries, arrays = [p()], [p((5, 3), INT32)]
    last, same, stack = scan(body, [], carries, arrays, 5)
    assert [shown(u) for u in (last, same, stack)] == ["f32[]", "i32[5,3]", "f32[5,2]"]
    assert results(last.src[0]) == (((), FLOAT32), ((5, 3), INT32), ((5, 2), FLOAT32))
    assert results(p((2,))) == (((2,), FLOAT32),)
    assert [result(last.src[0], i) for i in range(3)] == [*results(last.src[0])]


def _params(*types):
    return tuple(Param(i, shape, dtype) for i, (shape, dtype) in enumerate(types))


def test_loops_whose_functions_do_not_fit_cannot_be_made():
    body = function([p() * 2.0], _params(((), FLOAT32)))
    with pytest.raises(AssertionError):
        scan(body, [], [p((2,))], [], 3)
    with pytest.raises(AssertionError):
        scan(function([p((), INT32)], _params(((), FLOAT32))), [], [p()], [], 3)
    with pytest.raises(AssertionError):
        repeat_while(body, body, [], [], [p()])
    with pytest.raises(AssertionError):
        choose(p(), [body], [p()])


def test_results_of_functions_with_rules():
    body = function([p((3,), INT32, 1), p()], _params(((), FLOAT32), ((3,), INT32)))
    node = UOp(Op.CUSTOM, (body, p(), p((3,), INT32)), Custom("f", None))
    assert results(node) == (((3,), INT32), ((), FLOAT32))
    linear = UOp(Op.LINEAR, (p(), p((3,))), Linear("f", 1, (((2,), FLOAT32),), None))
    assert results(linear) == (((2,), FLOAT32),)
    with pytest.raises(AssertionError):
        UOp(Op.CUSTOM, (body, p()), Custom("f", None))
