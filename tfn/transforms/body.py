"""Bodies of loops and branches: opened for a transform and closed again, and their residuals.

A FUNCTION is opened on fresh leaves, so that a transform can work on its graph, and closed again.
`residuals` are the values of the primal computation that a linear graph reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, ParamSpec

from tfn.trace import build
from tfn.trace.argument import Leaf, Param
from tfn.trace.build import several, spread, zeros
from tfn.trace.inline import sealed
from tfn.trace.jaxpr import Jaxpr, function, inline, param
from tfn.trace.op import COMPARE, Op
from tfn.trace.uop import UOp, substitute, walk

P = ParamSpec("P")


class Lanes(NamedTuple):
    """A value under `vmap`: with the new axis in front, or the same in every lane."""

    graph: UOp
    many: bool

    def full(self, size: int) -> UOp:
        """The value with the new axis."""
        return self.graph if self.many else spread(self.graph, size)


def fresh(like: UOp | Param) -> UOp:
    """A new leaf of a shape and dtype."""
    return UOp(Op.LEAF, (), Leaf(like.shape, like.dtype))


def opened(f: UOp) -> tuple[list[UOp], list[UOp]]:
    """Fresh leaves for the parameters of a FUNCTION, and its outputs over them."""
    inputs = [fresh(p) for p in f.arg.params]
    return inputs, inline(Jaxpr(f), inputs)


def closed(outputs: Iterable[UOp], inputs: Sequence[UOp]) -> UOp:
    """The FUNCTION of graphs over leaves, which are all the leaves that they have."""
    params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(inputs))
    return function(substitute(outputs, dict(zip(inputs, map(param, params)))), params)


def _with_leaves(make: Callable[P, list[UOp]]) -> Callable[P, list[UOp]]:
    """A function that builds a loop, whose functions may have leaves that the user captured."""

    def build_sealed(*args: P.args, **options: P.kwargs) -> list[UOp]:
        results = make(*args, **options)
        return several(sealed(results[0].src[0])) if results else results

    return build_sealed


scan = _with_leaves(build.scan)
repeat_while = _with_leaves(build.repeat_while)


def filled(u: UOp | None, like: UOp) -> UOp:
    """A node, or zeros for None."""
    return zeros(like.shape, like.dtype) if u is None else u


def depending(outputs: Sequence[UOp], inputs: Iterable[UOp]) -> dict[UOp, None]:
    """The nodes that depend on some of their leaves, sources first, beginning with those."""
    dependent = dict.fromkeys(inputs)
    for node in walk(outputs):
        if node.op is not Op.FUNCTION and not dependent.keys().isdisjoint(node.src):
            dependent[node] = None
    return dependent


VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP})
_NUMBERS = frozenset({Op.CONST, Op.IOTA, Op.FUNCTION})


def residuals(outputs: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """The nodes that graphs read beside those that are linear in the inputs.

    Constants and views are recomputed from their sources, so that nothing is stored twice.
    """
    linear = depending(outputs, inputs)
    needed: dict[UOp, None] = {}
    seen: set[UOp] = set()
    waiting = [u for u in outputs if u not in linear]
    waiting += [s for node in linear for s in node.src if s not in linear]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in VIEWS:
            waiting.extend(node.src)
        elif node.op not in _NUMBERS:
            needed[node] = None
    return list(needed)


_CHEAP = COMPARE | {Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN}
_CHEAP |= {Op.NOT, Op.AND, Op.OR, Op.WHERE, Op.CAST}
MAX_RECOMPUTED_OPS = 6
"""Elementwise operations that cost less than to store a value in memory and to read it back: a
larger limit stores fewer residuals and computes more."""


def rematerialised(candidates: Sequence[UOp], available: Collection[UOp]) -> list[UOp]:
    """Fewer residuals: candidates that are cheap to recompute from the others are dropped.

    They may be recomputed from `available` nodes too, which then are residuals.  Of ``exp(x)``,
    ``1 + exp(x)`` and ``1 / (1 + exp(x))`` only the first is stored.
    """
    stays = dict.fromkeys(node for node in walk(candidates) if node in set(candidates))
    helpers: dict[UOp, None] = {}
    for node in reversed(list(stays)):
        if node in available:
            continue
        recipe = _recipe(node, stays, available)
        if recipe is not None:
            del stays[node]
            helpers |= dict.fromkeys(recipe)
    return list(stays | {node: None for node in helpers if node in available})


def _recipe(node: UOp, stays: Collection[UOp], available: Collection[UOp]) -> list[UOp] | None:
    """The nodes that a node can be recomputed from in few cheap operations; None if in none."""
    inputs: list[UOp] = []
    count, waiting = 0, [node]
    while waiting:
        u = waiting.pop()
        if u is not node and (u in stays or u in available):
            inputs.append(u)
        elif u.op in _CHEAP or u.op in VIEWS:
            count += u.op in _CHEAP
            waiting += u.src
        elif u.op not in _NUMBERS:
            return None
        if count > MAX_RECOMPUTED_OPS:
            return None
    return inputs
