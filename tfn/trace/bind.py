"""Dispatch of operations: record a node in a trace, or execute at once.

Every operation of the public functions goes through `bind`.  If an operand belongs to a running
trace, a node is recorded; otherwise the installed runtime executes the op now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.errors import UnexpectedTracerError, show_line
from tfn.trace.argument import Host, Leaf
from tfn.trace.inline import has, inlined
from tfn.trace.jaxpr import Jaxpr, alone, close, inline
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import LOOPS, SEVERAL, Op, Shape
from tfn.trace.runtime import Value, installed
from tfn.trace.traces import APART, Cell, Trace, recorder
from tfn.trace.uop import UOp, substitute, walk


def new_leaf(
    trace: Trace,
    shape: Shape,
    dtype: DType,
    name: str,
    value: Value | None = None,
    weak: bool = False,
) -> Any:
    """An input of a trace, as a Value; `value` is the concrete or outer value it represents."""
    uop = UOp(Op.LEAF, (), Leaf(shape, dtype, value, name, is_input=True))
    known = value is not None and (value.owner is None or value.known)
    return installed().wrap(uop, trace, known, weak)


def lift(value: Value, trace: Trace) -> UOp:
    """The node of a value in a trace: its own, or the leaf of a value captured from outside.

    A value of an outer trace is captured like a concrete array, so that the graph of a trace
    ends at its own leaves and a transform never walks into the graphs around it.  A number that the
    function itself makes is a constant.
    """
    owner = value.owner
    if owner is trace:
        return value.uop  # type: ignore[return-value]  # traced, so there is one
    key: int | UOp = id(value)
    if owner is None and value.uop is not None:
        return value.uop  # a number
    if owner is not None:
        check_live(value)
        assert value.uop is not None
        if not trace.apart:
            key = outer = value.uop
            if outer.op is Op.CONST or outer.op is Op.IOTA:
                return outer
    leaf = trace.captured.get(key)
    if leaf is None:
        leaf = UOp(Op.LEAF, (), Leaf(value.shape, value.dtype, value, "a captured array"))
        trace.captured[key] = leaf
    return leaf


def check_live(value: Value) -> None:
    """Raise if the trace of a value has ended.

    Raises:
        UnexpectedTracerError: naming the function it leaked from.
    """
    assert value.owner is not None and value.uop is not None
    if not value.owner.live:
        raise UnexpectedTracerError(
            f"a traced value was used after {value.owner.name} had returned: it leaked",
            got=f"{value!r}, made at {show_line(value.owner.places.get(value.uop))}, "
            f"in the trace that began at {value.owner.where}",
            hint="return the value from the function instead of storing it elsewhere",
        )


def bind(op: Op, *operands: Any, arg: object = None, weak: bool = False) -> Any:
    """The op on Values: recorded if one of them is being traced, else executed.

    `weak` says whether the dtype of the result is.
    """
    trace: Trace | None = None
    known = True
    for value in operands:
        owner = value.owner
        if owner is not None:
            if not owner.live:
                check_live(value)
            if trace is None or owner.depth > trace.depth:
                trace = owner
            known = known and value.known
    if trace is None and APART:
        trace = recorder()
    if trace is None:
        return installed().execute(op, arg, operands, weak)
    if trace.inner is not None:
        trace = trace.inner
    uop = UOp(op, tuple([v.uop if v.owner is trace else lift(v, trace) for v in operands]), arg)
    return installed().wrap(uop, trace, known, weak)


def innermost(values: Sequence[Value]) -> Trace | None:
    """The deepest live trace among values, or the branch inside it; None if all are concrete."""
    deepest = recorder() if APART else None
    for value in values:
        if value.owner is not None:
            check_live(value)
            if deepest is None or value.owner.depth > deepest.depth:
                deepest = value.owner
    return deepest if deepest is None or deepest.inner is None else deepest.inner


def evaluate(outputs: Sequence[UOp], trace: Trace, weak: Sequence[bool] = ()) -> list[Any]:
    """The values of graphs over leaves that all have a value.

    Inside an outer trace the leaves are replaced by the values they represent, and nothing runs.
    Otherwise the graph is compiled whole, or, if Python has used a value of `trace`, run op by op,
    because such a graph is different each time.  `weak` says which outputs are weak.  The effects
    of the trace happen too, or become those of the outer trace.
    """
    weak = weak or (False,) * len(outputs)
    cells = trace.written
    if not cells:
        return _evaluate(outputs, trace, weak)
    last = [trace.cells[cell][1] for cell in cells]
    values = _evaluate([*outputs, *last], trace, (*weak, *(False for _ in cells)))
    for cell, value in zip(cells, values[len(outputs) :], strict=True):
        cell.write(value)
    return values[: len(outputs)]


def _evaluate(outputs: Sequence[UOp], trace: Trace, weak: Sequence[bool]) -> list[Any]:
    order = list(walk(outputs))
    if any(node.op in LOOPS for node in order):
        outputs = tidy(outputs, order)
        order = list(walk(outputs))
    used = [node for node in order if node.op is Op.LEAF]
    outer = innermost([leaf.arg.value for leaf in used])
    if outer is not None:
        replace = {leaf: lift(leaf.arg.value, outer) for leaf in used}
        unknown = {n for n in used if n.arg.value.owner is not None and not n.arg.value.known}
        if unknown:
            for node in order:
                if not unknown.isdisjoint(node.src):
                    unknown.add(node)
        return [
            installed().wrap(new, outer, old not in unknown, is_weak, True)
            for old, new, is_weak in zip(
                outputs, substitute(outputs, replace, order), weak, strict=True
            )
        ]
    if any(node.op is Op.FUNCTION for node in order) and has(outputs, Op.CUSTOM):
        outputs = tidy(inlined(outputs))
    # An output that is an array already is that array, or at least shares its memory.
    values = {u: u.arg.value for u in outputs if u.op is Op.LEAF}
    rest = list(dict.fromkeys(u for u in outputs if u not in values))
    if trace.concretized:
        values |= {u: run_now(u, trace) for u in rest}
        trace.memo.clear()
    elif rest:
        jaxpr, captured = close(rest, [])
        values |= zip(
            rest, installed().call(jaxpr, [leaf.arg.value for leaf in captured]), strict=True
        )
    return [
        installed().weaken(values[u], is_weak) for u, is_weak in zip(outputs, weak, strict=True)
    ]


def call(
    jaxpr: Jaxpr, operands: Sequence[Value], weak: Sequence[bool], cells: Sequence[Cell] = ()
) -> list[Any]:
    """A closed function on Values: inlined into the innermost trace among them, or run now.

    The values of `cells` are among the operands, and its first outputs are the next ones, which are
    not among the results.
    """
    trace, weak = innermost(operands), [*(False for _ in cells), *weak]
    if trace is None:
        results = installed().call(jaxpr, operands)
        results = [installed().weaken(x, is_weak) for x, is_weak in zip(results, weak, strict=True)]
    else:
        known = all(value.owner is None or value.known for value in operands)
        uops = inline(jaxpr, [lift(value, trace) for value in operands])
        results = [
            installed().wrap(u, trace, known, w, True) for u, w in zip(uops, weak, strict=True)
        ]
    for cell, value in zip(cells, results):
        cell.write(value)
    return results[len(cells) :]


def call_host(host: Host, operands: Sequence[Value]) -> list[Any]:
    """The results of a function of the host, called now, on concrete Values."""
    results = [np.empty(shape, dtype) for shape, dtype in host.results]
    host.run(results, [installed().read(x) for x in operands])
    return [installed().asarray(x) for x in results]


def run_now(uop: UOp, trace: Trace) -> Any:
    """The value of one node of a known trace, op by op, each node once."""
    memo = trace.memo
    for node in walk([uop], lambda node: node not in memo):
        if node in memo:
            continue
        if node.op is Op.LEAF:
            value = node.arg.value
            memo[node] = value if value.owner is None else run_now(value.uop, value.owner)
        elif node.op is Op.FUNCTION:
            continue
        elif node.op is Op.HOST:
            memo[node] = call_host(node.arg, [memo[s] for s in node.src])
        elif node.op in SEVERAL:
            jaxpr, operands = alone(node)
            memo[node] = installed().call(jaxpr, [memo[s] for s in operands])
        elif node.op is Op.GET:
            memo[node] = memo[node.src[0]][node.arg]
        else:
            memo[node] = installed().execute(node.op, node.arg, [memo[s] for s in node.src])
    return memo[uop]
