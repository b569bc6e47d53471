"""Effects in a pure language: what a program does beside computing its results.

Nodes are values, equal ones are one, and what nobody uses is never computed.  So an effect is a
value too: it takes a token, gives another, and each trace begins with one token and ends with
what it has come to, as one more result::

    print x; print x; return x + 1        t1 = host[print] t0 x
                                          t2 = host[print] t1 x
                                          in (t2, x + 1)

Everything else follows.  Two equal prints differ in their tokens, so they are two.  The last token
is a result, so nothing on the way to it is dropped.  A loop carries the token, a branch and a call
pass it through, and effects happen in the order in which Python asked for them.  A token has no
tangent, so derivatives leave effects alone.  A program without effects has no token.

A token is a boolean: whether the effect is to happen.  It is true but where `vmap` runs what some
lanes did not ask for: the branch that they have not chosen, the steps after their loop has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfn.dtypes import BOOL
from tfn.trace import bind
from tfn.trace.argument import Host, Leaf
from tfn.trace.op import Op
from tfn.trace.uop import UOp, remembered, walk


def token() -> Any:
    """The token of the innermost trace that runs, as a Value; a concrete one if none does."""
    running = bind.traces()
    return _token(running, len(running) - 1)


def first() -> Any:
    """The token of what runs now, outside of all traces."""
    return bind.face().asarray(np.True_)


def _token(running: Sequence[bind.Trace], at: int) -> Any:
    if at < 0:
        return first()
    trace = running[at]
    if trace.token is None:
        leaf = Leaf((), BOOL, _token(running, at - 1), "effects")
        trace.begin = trace.token = UOp(Op.LEAF, (), leaf)
    known = all(outer.known for outer in running[: at + 1])
    return bind.face().wrap(trace.token, trace, known)


def outside(door: bind.Door, part: int | None = None) -> bind.Door:
    """A door of a function with effects, which is shut while a trace runs: they belong to that.

    `part` is the number of the result among what the door gives; None for all of it.
    """

    def enter(*arguments: Any) -> Any:
        if bind.traces():
            return NotImplemented
        found = door(*arguments)
        return found if part is None or found is NotImplemented else found[part]

    return enter


def act(host: Host, operands: Sequence[Any]) -> list[Any]:
    """The results, the token aside, of a function of the host that has an effect.

    It belongs to the innermost trace, whatever its operands belong to, so that what stands in a
    loop happens in each step.
    """
    running = bind.traces()
    if not running:
        return bind.call_host(host, [token(), *operands])[1:]
    before, trace = token(), running[-1]
    node = UOp(Op.HOST, tuple([bind.lift(x, trace) for x in (before, *operands)]), host)
    trace.token = UOp(Op.GET, (node,), 0)
    known = before.known and all(x.trace is None or x.known for x in operands)
    count = len(host.results)
    return [bind.face().wrap(UOp(Op.GET, (node,), i), trace, known) for i in range(1, count)]


@remembered
def tokens(function: UOp) -> frozenset[int]:
    """The numbers of the parameters of a function that are tokens."""
    found = set()
    for node in walk(function.src):
        for u in taken(node):
            while u.op is Op.AND:  # a token is the first operand of what masks it
                u = u.src[0]
            if u.op is Op.PARAM:
                found.add(u.arg.index)
    return frozenset(found)


def taken(node: UOp) -> Iterator[UOp]:
    """The sources of a node that are tokens."""
    if node.op is Op.HOST and node.arg.acts:
        yield node.src[0]
    for f in node.src:
        if f.op is Op.FUNCTION:
            yield from (node.src[_first(node) + i] for i in tokens(f))


def _first(node: UOp) -> int:
    """Where the operands of the functions of a node begin."""
    if node.op is Op.WHILE:
        count: int = 2 + node.arg.cond_consts  # those of the body: a condition does not act
        return count
    return sum(s.op is Op.FUNCTION for s in node.src) + (node.op is Op.COND)


def given(function: UOp) -> frozenset[int]:
    """The numbers of the outputs of a function that are tokens."""
    return frozenset(i for i, u in enumerate(function.src) if _is_token(u, function))


def _is_token(u: UOp, function: UOp) -> bool:
    if u.op is Op.PARAM:
        return u.arg.index in tokens(function)
    if u.op is not Op.GET:
        return False
    node = u.src[0]
    if node.op is Op.HOST:
        return bool(node.arg.acts) and u.arg == 0
    return any(u.arg in given(f) for f in node.src if f.op is Op.FUNCTION and f.src)
