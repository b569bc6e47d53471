"""Operations replaced by what they mean; loops without leaves of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tfn
from tfn.dtypes import FLOAT32, INT32
from tfn.lower.graph.complex_pairs import ComplexHostFunction
from tfn.trace import source_lines
from tfn.trace.argument import Custom, Host, HostSlot, Leaf, Param, VmapMethod, filled
from tfn.trace.build import call, choose, repeat_while, scan, several
from tfn.trace.inline import has, inlined, plain, runnable, runnable_anew, sealed, unfold
from tfn.trace.jaxpr import function, leaves, param
from tfn.trace.op import Op
from tfn.trace.oracle import evaluate
from tfn.trace.uop import UOp, const, walk

P = tuple(Param(i, (), FLOAT32) for i in range(3))
A, B, C = map(param, P)
SQUARE = function([A * A + B], P[:2])


def custom(f: UOp, *operands: UOp) -> UOp:
    return several(UOp(Op.CUSTOM, (f, *operands), Custom("f", None)))[0]


def leaf() -> UOp:
    return UOp(Op.LEAF, (), Leaf((), FLOAT32))


def value(u: UOp, **of: float) -> float:
    given = {A: of.get("a", 2.0), B: of.get("b", 3.0), C: of.get("c", 5.0)}
    return float(evaluate([u], {k: np.float32(v) for k, v in given.items()})[0])


def test_a_function_becomes_its_body():
    node = custom(SQUARE, A, custom(SQUARE, B, A))
    assert inlined([node]) == [A * A + (B * B + A)]
    assert value(node) == value(inlined([node])[0]) == 4 + 9 + 2


def test_in_functions_of_functions():
    body = function([custom(SQUARE, A, B), C], P)
    inner = scan(body, [], [A, B], [UOp(Op.EXPAND, (UOp(Op.RESHAPE, (C,), (1,)),), (4,))], 4)
    # the body takes carries a, b and a slice c, and gives two carries
    outer = function([custom(function([inner[0]], P), A, B, C)], P)
    whole = function([call("g", outer, [A, B, C])[0]], P)
    assert has(whole.src, Op.CUSTOM) and not has(plain(whole).src, Op.CUSTOM)
    assert value(plain(whole).src[0]) == value(whole.src[0])
    assert plain(function([A], P)) is function([A], P)


def test_a_rule_gives_all_results():
    two = function([A + B, A * B], P[:2])
    node = UOp(Op.CUSTOM, (two, A, B), Custom("f", None))
    first, second = several(node)
    found = unfold([first - second], {Op.CUSTOM: lambda u: [u.src[2], u.src[1]]})
    assert found == [B - A]


def test_leaves_of_bodies_are_passed_in():
    x, y = leaf(), leaf()
    step = function([A * x + y, A], P[:1])
    (last, _) = scan(step, [], [A], [], 3)
    loop = sealed(last.src[0])
    assert loop.src[1:] == (x, y, A) and not leaves(loop.src[0].src)
    assert (
        evaluate([UOp(Op.GET, (loop,), 0)], {A: np.float32(1), x: np.float32(2), y: np.float32(1)})[
            0
        ]
        == 15
    )


def test_leaves_of_conditions_and_branches():
    x = leaf()
    test, body = function([x > A], P[:1]), function([A * 2.0], P[:1])
    loop = sealed(repeat_while(test, body, [], [], [A])[0].src[0])
    run = lambda node: evaluate([UOp(Op.GET, (node,), 0)], {A: np.float32(1), x: np.float32(9)})
    assert not any(leaves(f.src) for f in loop.src[:2]) and run(loop)[0] == 16
    branches = [function([A * x], P[:1]), function([A], P[:1])]
    choice = sealed(choose(const(0, INT32), branches, [A])[0].src[0])
    assert not any(leaves(f.src) for f in choice.src[1:3]) and run(choice)[0] == 9
    assert sealed(A * A) is A * A


# As it is run.


def host(run: Any, x: UOp) -> UOp:
    return several(UOp(Op.HOST, (x,), Host(run, (((), FLOAT32),), VmapMethod.REFUSE)))[0]


def test_runnable_functions_hold_no_user_functions():
    """Rules become what they compute, and callbacks slots, in nested functions too."""

    def double(results: Any, operands: Any) -> None:
        results[0][...] = 2 * operands[0]

    def negate(results: Any, operands: Any) -> None:
        results[0][...] = -operands[0]

    body = function([custom(SQUARE, host(double, A), B)], P[:2])
    f = function([*call("inner", body, [A, B]), host(negate, host(double, A))], P[:2])
    made, functions = runnable(f)
    assert not has(made.src, Op.CUSTOM) and functions == (double, negate)
    called = [u for u in walk(made.src) if u.op is Op.HOST]
    assert [u.arg.run for u in called] == [HostSlot(0, "double"), HostSlot(1, "negate")]
    assert runnable(f)[0] is made

    def other(results: Any, operands: Any) -> None:
        results[0][...] = 3 * operands[0]

    other.__name__ = "double"
    swapped = {double: other, negate: negate}
    again = unfold(
        f.src,
        {Op.HOST: lambda u: several(UOp(Op.HOST, u.src, replace(u.arg, run=swapped[u.arg.run])))},
    )
    assert runnable(function(again, P[:2])) == (made, (other, negate))


def test_runnable_functions_are_made_anew_for_their_lines():
    def f(x):
        tfn.debug.callback(print, x)
        return x + 1

    with source_lines.tracking():
        jaxpr = tfn.make_jaxpr(f)(np.ones(3, np.float32))
        made, _ = runnable(jaxpr.function)
        assert made is not jaxpr.function and runnable_anew(jaxpr.function) is made
    simple = tfn.make_jaxpr(lambda x: x + 1)(np.ones(3, np.float32)).function
    assert runnable_anew(simple) is simple


def test_runnable_returns_plain_functions_unchanged():
    assert runnable(SQUARE) == (SQUARE, ())


def test_a_slot_is_filled_wherever_it_is():
    run = lambda results, operands: None
    assert filled(HostSlot(1, "f"), (None, run)) is run and filled(run, ()) is run
    assert filled(ComplexHostFunction(HostSlot(0, "f"), (), ()), (run,)) == ComplexHostFunction(
        run, (), ()
    )
    with pytest.raises(AssertionError, match="was not given the function f"):
        filled(HostSlot(0, "f"), ())([], [])


def test_runnable_functions_have_no_tuples():
    both = UOp(Op.TUPLE, (A * B, A + B))
    f = function([UOp(Op.GET, (both,), 0) * UOp(Op.GET, (both,), 1)], P[:2])
    made, _ = runnable(f)
    assert made is function([A * B * (A + B)], P[:2])
    assert not has(made.src, Op.TUPLE) and value(made.src[0]) == value(f.src[0]) == 30.0
