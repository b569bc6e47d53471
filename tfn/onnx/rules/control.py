"""Rules of loops, branches and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn.dtypes import BOOL, INT64
from tfn.onnx.builder import Body, Builder, Name, Rule, Term, Value
from tfn.onnx.insides import Op, UOp, form, param


def _call(b: Builder, u: UOp) -> tuple[Term, ...]:
    parts = form(u)
    return tuple(b.call(parts.functions[0], [b.term(x) for x in parts.operands]))


def _inputs(b: Builder, nodes: Sequence[UOp]) -> tuple[list[Value], list[Term]]:
    """Inputs of a body, in the shapes of nodes."""
    values = [Value(b.fresh("arg"), u.dtype, u.shape) for u in nodes]
    return values, [Term(v.name, u.shape) for v, u in zip(values, nodes, strict=True)]


def _results(b: Builder, function: UOp, operands: list[Term]) -> list[Name]:
    """The results of a function in a body, each in its own shape."""
    results = b.call(function, operands)
    return [_whole(b, t, u) for t, u in zip(results, function.src, strict=True)]


def _typed(names: Sequence[Name], nodes: Sequence[UOp]) -> list[Value]:
    return [Value(name, u.dtype, u.shape) for name, u in zip(names, nodes, strict=True)]


def _whole(b: Builder, term: Term, u: UOp) -> Name:
    return term.name if term.shape == u.shape else b.add("Expand", term.name, b.ints(u.shape))


def _scan(b: Builder, u: UOp) -> tuple[Term, ...]:
    parts = form(u)
    body: UOp = parts.functions[0]
    if _sums(u):
        return _cumulative(b, u)
    params = [param(p) for p in body.arg.params]
    consts = [b.term(x) for x in parts.consts[0]]
    count, inner = len(parts.carries), b.nested()
    taken, terms = _inputs(inner, params[len(consts) :])
    arrays = [b.full(x) for x in parts.arrays]
    if not arrays:  # a loop that counts
        limits = b.number(0, INT64), b.number(u.arg.length, INT64), b.number(1, INT64)
        arrays = [b.add("Range", *limits)]
        taken = [*taken, Value(inner.fresh("arg"), INT64, ())]
    names = _results(inner, body, [*consts, *terms])
    results = _typed(names, body.src)
    attributes: dict[str, Any] = {"num_scan_inputs": len(arrays)}
    if u.arg.reverse:
        attributes["scan_input_directions"] = [1] * len(arrays)
        if len(names) > count:
            attributes["scan_output_directions"] = [1] * (len(names) - count)
    operands = [*(b.full(x) for x in parts.carries), *arrays]
    outs = b.many("Scan", operands, len(names), body=Body(inner.rows, taken, results), **attributes)
    shapes = [r.shape if i < count else (u.arg.length, *r.shape) for i, r in enumerate(body.src)]
    return tuple(Term(name, shape) for name, shape in zip(outs, shapes, strict=True))


def _sums(u: UOp) -> bool:
    """Whether a scan adds the slices of one array up from 0."""
    parts = form(u)
    body: UOp = parts.functions[0]
    if len(parts.carries) != 1 or len(parts.arrays) != 1 or len(body.src) != 2 or parts.consts[0]:
        return False
    total, params = body.src[0], [param(p) for p in body.arg.params]
    first = parts.carries[0]
    zero = first.op is Op.CONST and not first.arg.value
    both = body.src[1] is total and total.op is Op.ADD and set(total.src) == set(params)
    return zero and both and total.dtype.name in ("float32", "float64", "int32", "int64")


def _cumulative(b: Builder, u: UOp) -> tuple[Term, ...]:
    array = form(u).arrays[0]
    first = b.number(0, np.dtype(np.int64))
    reverse = {"reverse": 1} if u.arg.reverse else {}
    sums = b.add("CumSum", b.full(array), first, **reverse)
    last = b.add("Gather", sums, b.number(0 if u.arg.reverse else -1, INT64), axis=0)
    return Term(last, array.shape[1:]), Term(sums, array.shape)


def _while(b: Builder, u: UOp) -> tuple[Term, ...]:
    parts = form(u)
    test, body = parts.functions
    tests, consts = ([b.term(x) for x in row] for row in parts.consts)
    first = [Term(b.full(x), x.shape) for x in parts.carries]
    going = _results(b, test, [*tests, *first])[0]
    inner = b.nested()
    head = [Value(inner.fresh("turn"), INT64, ()), Value(inner.fresh("going"), BOOL, ())]
    taken, terms = _inputs(inner, list(parts.carries))
    names = _results(inner, body, [*consts, *terms])
    after = [Term(n, r.shape) for n, r in zip(names, body.src, strict=True)]
    again = _results(inner, test, [*tests, *after])[0]
    results = [Value(again, BOOL, ()), *_typed(names, body.src)]
    operands = ["", going, *(t.name for t in first)]
    graph = Body(inner.rows, [*head, *taken], results)
    outs = b.many("Loop", operands, len(names), body=graph)
    return tuple(Term(n, r.shape) for n, r in zip(outs, body.src, strict=True))


def _cond(b: Builder, u: UOp) -> tuple[Term, ...]:
    """Branches one within the other: each asks whether the index is larger."""
    parts = form(u)
    operands = [b.term(x) for x in parts.operands]
    results = parts.functions[0].src
    index, dtype = b.full(parts.selector[0]), parts.selector[0].dtype

    def branch(inner: Builder, functions: tuple[UOp, ...], number: int) -> list[Name]:
        if len(functions) == 1:
            return _results(inner, functions[0], operands)
        more = inner.add("Greater", index, inner.number(number, dtype))
        bodies = []
        for chosen, place in ((functions[1:], number + 1), (functions[:1], number)):
            deeper = inner.nested()
            names = branch(deeper, chosen, place)
            bodies.append(Body(deeper.rows, [], _typed(names, results)))
        return inner.many("If", [more], len(results), then_branch=bodies[0], else_branch=bodies[1])

    names = branch(b, parts.functions, 0)
    return tuple(Term(n, r.shape) for n, r in zip(names, results, strict=True))


def _get(b: Builder, u: UOp) -> Term:
    several = b.terms[u.src[0]]
    assert isinstance(several, tuple), u
    term: Term = several[u.arg]
    return term


def _tuple(b: Builder, u: UOp) -> tuple[Term, ...]:
    return tuple(b.term(s) for s in u.src)


RULES: dict[Op, Rule] = {
    Op.CALL: _call,
    Op.CUSTOM: _call,
    Op.SCAN: _scan,
    Op.WHILE: _while,
    Op.COND: _cond,
    Op.GET: _get,
    Op.TUPLE: _tuple,
}
