"""Effect tokens: side effects of a program, ordered by data dependence in a pure language.

Nodes are values, equal ones are one, and a value that is not used is never computed.  So an effect
is a value too: it takes a token, gives another, and each trace begins with one token and returns
the last one as one more result::

    print x; print x; return x + 1        t1 = host[print] t0 x
                                          t2 = host[print] t1 x
                                          in (t2, x + 1)

Everything else follows.  Two equal prints differ in their tokens, so they are two.  The last token
is a result, so nothing on the way to it is dropped.  A loop carries the token, a branch and a call
pass it through, and effects happen in the order of the Python program.  A token has no
tangent, so derivatives leave effects alone.  A program without effects has no token.

A reference is state as well, treated in the same way: each trace that uses it takes its value and
returns the last one (`trace.refs`).  The token and references are the cells of a trace.

A token is a boolean: whether the effect is to happen.  It is false only where `vmap` runs code that
some lanes do not take: a branch that they have not chosen, steps after their loop has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn.trace import bind, runtime, traces
from tfn.trace.argument import Host, Leaf
from tfn.trace.op import Op
from tfn.trace.regions import ROWS, form
from tfn.trace.uop import UOp, remembered, walk


@frozen
class Token:
    """The order of side effects, as state: see the top of this file."""

    @property
    def lasting(self) -> bool:
        """True."""
        return True

    def read(self) -> runtime.Value:
        """The current token of the innermost running trace; a concrete one if there is none."""
        return token()

    def write(self, value: runtime.Value) -> None:
        """Set the current token of a trace; that of no trace stays true."""
        if value.owner is not None:
            assert value.uop is not None
            set_current(value.owner, TOKEN, value.uop)


TOKEN = Token()


def token() -> runtime.Value:
    """The current token of the innermost running trace; a concrete one if there is none."""
    running = traces.running()
    return _current(TOKEN, running, len(running) - 1, None, first)


def first() -> runtime.Value:
    """The token that effects outside of all traces begin with."""
    outermost: runtime.Value = runtime.installed().asarray(np.True_)
    return outermost


def current(
    cell: traces.Cell, home: traces.Trace | None, outermost: Callable[[], runtime.Value]
) -> runtime.Value:
    """The value of a cell in the innermost running trace; `outermost` is that in its home."""
    running = traces.running()
    return _current(cell, running, len(running) - 1, home, outermost)


def _current(
    cell: traces.Cell,
    running: Sequence[traces.Trace],
    at: int,
    home: traces.Trace | None,
    outermost: Callable[[], runtime.Value],
) -> runtime.Value:
    if at < 0 or running[at] is home:
        return outermost()
    trace = running[at]
    if cell not in trace.cells:
        outer = _current(cell, running, at - 1, home, outermost)
        leaf = UOp(Op.LEAF, (), Leaf(outer.shape, outer.dtype, outer, "effects"))
        trace.cells[cell] = leaf, leaf
    known = all(outer.known for outer in running[: at + 1])
    value: runtime.Value = runtime.installed().wrap(trace.cells[cell][1], trace, known)
    return value


def set_current(trace: traces.Trace, cell: traces.Cell, uop: UOp) -> None:
    """Set the current node of a cell in a trace that uses it."""
    begin, _ = trace.cells.get(cell, (uop, uop))
    trace.cells[cell] = begin, uop


def outside(entry: runtime.Entry, part: int | None = None) -> runtime.Entry:
    """The native entry of a function with effects: refuses while a trace runs, which records them.

    `part` is the index of the result in what the entry returns, beside the token; None for all.
    """

    def call(*arguments: Any) -> Any:
        if traces.running():
            return NotImplemented
        results = entry(*arguments)
        return results if part is None or results is NotImplemented else results[part]

    return call


def act(host: Host, operands: Sequence[runtime.Value]) -> list[runtime.Value]:
    """The results, without the token, of a function of the host that has an effect.

    It is recorded in the innermost trace, whatever its operands belong to, so that an effect in the
    body of a loop happens in each step.
    """
    running = traces.running()
    if not running:
        return bind.call_host(host, [token(), *operands])[1:]
    before, trace = token(), running[-1]
    node = UOp(Op.HOST, tuple([bind.lift(x, trace) for x in (before, *operands)]), host)
    set_current(trace, TOKEN, UOp(Op.GET, (node,), 0))
    known = before.known and all(x.owner is None or x.known for x in operands)
    count = len(host.results)
    return [
        runtime.installed().wrap(UOp(Op.GET, (node,), i), trace, known) for i in range(1, count)
    ]


@remembered
def tokens(function: UOp) -> frozenset[int]:
    """The numbers of the parameters of a function that are tokens."""
    indices: set[int] = set()
    for node in walk(function.src):
        for u in token_operands(node):
            while u.op is Op.AND:  # a token is the first operand of the AND that masks it
                u = u.src[0]
            if u.op is Op.PARAM:
                indices.add(u.arg.index)
    return frozenset(indices)


def token_operands(node: UOp) -> Iterator[UOp]:
    """The sources of a node that are tokens."""
    if node.op is Op.HOST and node.arg.has_effects:
        yield node.src[0]
    if node.op in ROWS:
        parts = form(node)
        for k, f in enumerate(parts.functions):
            yield from (parts.taken(k)[i] for i in tokens(f))


@remembered  # for each output of each function outside, else
def token_results(function: UOp) -> frozenset[int]:
    """The numbers of the outputs of a function that are tokens."""
    return frozenset(i for i, u in enumerate(function.src) if _is_token(u, function))


def _is_token(u: UOp, function: UOp) -> bool:
    if u.op is Op.PARAM:
        return u.arg.index in tokens(function)
    if u.op is not Op.GET:
        return False
    node = u.src[0]
    if node.op is Op.HOST:
        return bool(node.arg.has_effects) and u.arg == 0
    return any(u.arg in token_results(f) for f in node.src if f.op is Op.FUNCTION and f.src)
