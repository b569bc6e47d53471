"""Parts of loops, branches and calls, and the types of their results."""

from __future__ import annotations

import pytest

from tests import size
from tfn._support.validate import shown
from tfn.dtypes import FLOAT32, INT32
from tfn.trace.argument import Call, Cond, Custom, Linear, Param, Scan, While
from tfn.trace.build import choose, repeat_while, scan
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.regions import result, results, settle, split
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


LETTERS = {
    Op.SCAN: (Scan(5, True, 2, 1), "b cd e fg", ["cdefg"]),
    Op.WHILE: (While(2, 1, ("n",)), "cb de f ghi", ["deghi", "fghi"]),
    Op.COND: (Cond(3), "a bcd ef", ["ef"] * 3),
    Op.CALL: (Call("f"), "f abc", ["abc"]),
    Op.CUSTOM: (Custom("f", None), "f abc", ["abc"]),
}
"""For each op an argument, its sources by part, and what each function takes."""


@pytest.mark.parametrize("op", LETTERS)
def test_parts_are_what_functions_take(op: Op) -> None:
    arg, parts, taken = LETTERS[op]
    sources = parts.replace(" ", "")
    whole = split(op, arg, sources)
    assert whole.fields == (op, tuple(sources), arg)
    assert ["".join(whole.taken(k)) for k in range(len(whole.functions))] == taken
    for k, row in enumerate(taken):
        numbers = [i for part in whole.places(k) for i in part]
        assert numbers == [*range(len(row))]


@pytest.mark.parametrize("op", LETTERS)
def test_counts_follow_the_parts(op: Op) -> None:
    arg, parts, _ = LETTERS[op]
    twice = split(op, arg, parts.replace(" ", "")).spread(lambda x: (x, x))
    again = split(*twice.fields[::2], twice.sources)
    assert again._replace(arg=arg) == twice
    assert len(twice.operands) == 2 * len(split(op, arg, parts.replace(" ", "")).operands)


def test_names_of_carries_stay_with_a_loop_of_more_constants() -> None:
    arg, parts, _ = LETTERS[Op.WHILE]
    whole = split(Op.WHILE, arg, parts.replace(" ", ""))
    assert whole._replace(consts=((), ("d",))).counted.names == ("n",)


def test_what_is_known_of_carries_settles() -> None:
    """Carry i is computed from carry i - 1."""
    steps = []

    def step(known: set[int]) -> tuple[int, set[int]]:
        steps.append(known)
        return len(known), known | {i + 1 for i in known if i < 3}

    assert settle(step, {1}) == (3, {1, 2, 3}) and len(steps) == 3


def test_one_file_counts_the_sources_of_loops() -> None:
    found = set(size.places(size.POSITIONS))
    assert not found, f"take them from `regions.form`: {sorted(found)}"
