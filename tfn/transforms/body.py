"""The functions inside loops and branches, as the rules of those need them.

A FUNCTION is opened on fresh leaves, so that a transform can work on its graph, and closed again.
`residuals` finds what a linear graph takes from the computation beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tfn.trace.argument import Leaf, Param, Scan, While
from tfn.trace.build import several, spread, zeros
from tfn.trace.inline import sealed
from tfn.trace.jaxpr import Jaxpr, function, inline, param
from tfn.trace.op import COMPARE, Op
from tfn.trace.uop import UOp, substitute, walk


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


def scan(
    body: UOp,
    consts: Sequence[UOp],
    carries: Sequence[UOp],
    arrays: Sequence[UOp],
    length: int,
    reverse: bool = False,
) -> list[UOp]:
    """`build.scan`, whose body may have leaves that rules of the user have captured."""
    arg = Scan(length, reverse, len(consts), len(carries))
    return several(sealed(UOp(Op.SCAN, (body, *consts, *carries, *arrays), arg)))


def repeat_while(
    cond: UOp,
    body: UOp,
    cond_consts: Sequence[UOp],
    body_consts: Sequence[UOp],
    carries: Sequence[UOp],
    names: Sequence[str] = (),
) -> list[UOp]:
    """`build.repeat_while`, whose functions may have such leaves too."""
    arg = While(len(cond_consts), len(body_consts), tuple(names))
    src = (cond, body, *cond_consts, *body_consts, *carries)
    return several(sealed(UOp(Op.WHILE, src, arg)))


def filled(u: UOp | None, like: UOp) -> UOp:
    """A node, or zeros where None stands for them."""
    return zeros(like.shape, like.dtype) if u is None else u


def depending(outputs: Sequence[UOp], inputs: Iterable[UOp]) -> dict[UOp, None]:
    """The nodes that depend on some of their leaves, sources first, beginning with those."""
    found = dict.fromkeys(inputs)
    for node in walk(outputs):
        if node.op is not Op.FUNCTION and not found.keys().isdisjoint(node.src):
            found[node] = None
    return found


VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP})
_NUMBERS = frozenset({Op.CONST, Op.IOTA, Op.FUNCTION})


def residuals(outputs: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """The nodes that graphs need beside what is linear in the inputs.

    Constants are made again and views taken again, so that nothing is kept twice.
    """
    linear = depending(outputs, inputs)
    found: dict[UOp, None] = {}
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
            found[node] = None
    return list(found)


_CHEAP = COMPARE | {
    Op.NEG,
    Op.ABS,
    Op.ADD,
    Op.SUB,
    Op.MUL,
    Op.DIV,
    Op.MAX,
    Op.MIN,
    Op.NOT,
    Op.AND,
    Op.OR,
    Op.WHERE,
    Op.CAST,
}
_FEW = 6
"""Operations that cost less than to keep a value in memory and read it back."""


def thinned(kept: Sequence[UOp], given: Collection[UOp]) -> list[UOp]:
    """Fewer nodes, of which the others are cheap to make again, with help of those given.

    Of ``exp(x)``, ``1 + exp(x)`` and ``1 / (1 + exp(x))`` only the first is kept.
    """
    stays = dict.fromkeys(node for node in walk(kept) if node in set(kept))
    helpers: dict[UOp, None] = {}
    for node in reversed(list(stays)):
        if node in given:
            continue
        recipe = _recipe(node, stays, given)
        if recipe is not None:
            del stays[node]
            helpers |= dict.fromkeys(recipe)
    return list(stays | {node: None for node in helpers if node in given})


def _recipe(node: UOp, stays: Collection[UOp], given: Collection[UOp]) -> list[UOp] | None:
    """What a node can be made of with few cheap operations."""
    found: list[UOp] = []
    count, waiting = 0, [node]
    while waiting:
        u = waiting.pop()
        if u is not node and (u in stays or u in given):
            found.append(u)
        elif u.op in _CHEAP or u.op in VIEWS:
            count += u.op in _CHEAP
            waiting += u.src
        elif u.op not in _NUMBERS:
            return None
        if count > _FEW:
            return None
    return found
