"""Tokens: where they are, and that they keep effects apart, alive and in order."""

from __future__ import annotations

from typing import Any

import numpy as np

import tfn
from tfn.trace import build, effects, runtime, traces
from tfn.trace.argument import Host, Param, VmapMethod
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

HOST = Host(lambda results, operands: None, (((), np.dtype(bool)),), VmapMethod.SEQUENTIAL, True)


def act(*xs: Any) -> None:
    effects.act(HOST, [runtime.installed().asarray(x) for x in xs])


def nodes(f: Any, *args: Any) -> list[Any]:
    return list(walk(tfn.make_jaxpr(f)(*args).outputs))


def test_equal_effects_are_two() -> None:
    found = nodes(lambda x: (act(x), act(x), x)[2], 1.0)
    assert sum(u.op is Op.HOST for u in found) == 2


def test_two_traces_of_one_function_are_one() -> None:
    f = lambda x: (act(x), x + 1)[1]
    assert tfn.make_jaxpr(f)(1.0) == tfn.make_jaxpr(f)(1.0)


def test_effects_follow_each_other() -> None:
    found = nodes(lambda x: (act(x), act(2.0), x)[2], 1.0)
    first, second = (u for u in found if u.op is Op.HOST)
    assert second.src[0].src[0] is first


def test_which_operands_and_results_are_tokens() -> None:
    def body(c: Any, x: Any) -> Any:
        act(x)
        return c + 1, x

    found = nodes(lambda xs: tfn.lax.scan(body, 0.0, xs), np.ones(3, np.float32))
    (scan,) = (u for u in found if u.op is Op.SCAN)
    assert effects.tokens(scan.src[0]) == effects.token_results(scan.src[0]) == {0}
    assert list(effects.token_operands(scan)) == [scan.src[1]]
    choose = lambda p, x: tfn.lax.cond(p, lambda x: (act(x), x)[1], lambda x: x, x)
    (cond,) = (u for u in nodes(choose, True, 1.0) if u.op is Op.COND)
    assert [sorted(effects.tokens(f)) for f in cond.src[1:3]] == [[], [0]]
    assert list(effects.token_operands(cond)) == [cond.src[3]]


def test_a_trace_without_effects_has_no_token() -> None:
    with traces.tracing("f") as trace:
        assert not trace.cells
        effects.token()
        assert not trace.written
        act(1.0)
        assert trace.written == [effects.TOKEN]


def test_tokens_of_deeply_nested_functions_are_found() -> None:
    """Each function is looked at once, not once for each result of all functions around it."""
    params = (Param(0, (), np.dtype(bool)), *(Param(i, (), np.dtype("f4")) for i in range(1, 8)))
    xs = [param(p) for p in params]
    node = acted(xs[0])
    f = function([node, *xs[1:]], params)
    for depth in range(30):
        f = function(build.call(f"level {depth}", f, xs), params)
    assert effects.token_results(f) == effects.tokens(f) == {0}


def acted(token: UOp) -> UOp:
    """The token after an effect."""
    return UOp(Op.GET, (UOp(Op.HOST, (token,), HOST),), 0)
