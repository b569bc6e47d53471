"""Loop nest: a kernel's body with its loops in order, and the record of the opt-ops applied to it.

Loops are RANGE nodes; a loop is known by its number, which is unique in a nest.  The opt-ops of
`opt_ops.py` map nests to nests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tfn._support.frozen import frozen
from tfn.dtypes import INT32, INT64, UINT32, DType
from tfn.errors import SplitError
from tfn.lower.index.affine import affine
from tfn.lower.index.simplify import simplify
from tfn.lower.program import OptOp
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, nodes, rebuild, walk

NARROW_INTEGERS = frozenset({INT32, UINT32})
"""Dtypes in which a position that is cast to them is computed: twice the lanes of INT64."""

DIVISIONS = frozenset({Op.FLOORDIV, Op.MOD})
"""Ops that splits and reshapes leave in addresses, and that simplification removes."""


@frozen
class Nest:
    """A kernel's body and the order of the loops around its stores.

    Attributes:
        body: SINK of stores.
        loops: the ranges of the stores, outermost first; a reduction's ranges are in its sources.
        opts: the opt-ops applied so far.
    """

    body: UOp
    loops: tuple[UOp, ...]
    opts: tuple[OptOp, ...] = ()

    def loop(self, number: int) -> UOp:
        """The range of a number.

        Raises:
            SplitError: if there is none.
        """
        for r in (*self.loops, *ranges(self.body)):
            if r.arg.number == number:
                return r
        numbers = sorted({r.arg.number for r in (*self.loops, *ranges(self.body))})
        listed = ", ".join(f"r{number}" for number in numbers)
        raise SplitError(f"there is no loop r{number}", got=f"loops {listed}")

    def newest(self, count: int) -> list[UOp]:
        """The ranges of the highest numbers, outer first: an opt-op numbers its new ranges so."""
        every = {r.arg.number: r for r in (*self.loops, *ranges(self.body))}
        return [every[number] for number in sorted(every)[-count:]]


def nest(body: UOp) -> Nest:
    """The loops of a kernel in the order of their numbers."""
    inner = {r for fold in folds(body) for r in fold.src[1:]}
    inner |= {u.src[0] for u in body.src if u.op is Op.RECUR}
    loops = [r for r in ranges(body) if r not in inner]
    return Nest(body, tuple(sorted(loops, key=lambda r: r.arg.number)))


@lru_cache(maxsize=64)
def ranges(body: UOp) -> tuple[UOp, ...]:
    """All ranges of a body."""
    return tuple([node for node in nodes(body) if node.op is Op.RANGE])


@lru_cache(maxsize=64)
def folds(body: UOp) -> tuple[UOp, ...]:
    """All reductions of a body, inner ones first."""
    return tuple([node for node in nodes(body) if node.op is Op.FOLD])


def in_order(body: UOp) -> frozenset[int]:
    """The numbers of ranges whose iterations must happen in order."""
    stores = {number for u in body.src if u.op is Op.STORE for number in u.arg or ()}
    return frozenset(stores | {u.src[0].arg.number for u in body.src if u.op is Op.RECUR})


def fresh_number(body: UOp) -> int:
    """The lowest number above those of all ranges."""
    return 1 + max((r.arg.number for r in ranges(body)), default=-1)


def substituted(
    n: Nest, values: Mapping[UOp, UOp], lists: Mapping[UOp, Sequence[UOp]], opt: OptOp
) -> Nest:
    """The nest with ranges replaced: by values where they are used, by lists where they loop."""
    new: dict[UOp, UOp] = {}
    for node in nodes(n.body):
        if node in values:
            new[node] = values[node]
        elif node.op is Op.FOLD:
            # Its ranges are loops, not values: a split one becomes two, not their sum.
            inner = [new_r for r in node.src[1:] for new_r in lists.get(r, [new.get(r, r)])]
            new[node] = rebuild(node, (new[node.src[0]], *inner))
        else:
            new[node] = rebuild(node, tuple([new[s] for s in node.src]))
    loops = tuple(new_r for r in n.loops for new_r in lists.get(r, [new.get(r, r)]))
    return Nest(new[n.body], loops, (*n.opts, opt))


def is_whole(n: Nest, r: UOp) -> bool:
    """Whether a range may be split: it is still a plain loop, and its order does not matter."""
    plain = r.arg.place is Place.LOOP and not r.src and r not in _bounding(n)
    return plain and r.arg.number not in in_order(n.body) and r not in _of_tiles(n.body)


@lru_cache(maxsize=64)
def _of_tiles(body: UOp) -> frozenset[UOp]:
    """The ranges of tiles in local memory: their copies are laid out by them."""
    return frozenset(r for u in nodes(body) if u.op is Op.STAGED for r in u.src[1:])


def _bounding(n: Nest) -> set[UOp]:
    """The ranges on which the bounds of other ranges depend."""
    return {u for r in {*ranges(n.body), *n.loops} for u in walk(r.src) if u.op is Op.RANGE}


def simplified(n: Nest) -> Nest:
    """Simplifies the addresses in which splits have put sums in place of ranges.

    A position that is cast to a narrower integer is computed in the narrower type: wrapping
    around, it is the same.
    """
    # Most nests need nothing: looking is cheaper than a pass that rebuilds all nodes.
    if not any(
        u.op in DIVISIONS or u.op is Op.CARRY or _narrows(u) or _compares(u) for u in nodes(n.body)
    ):
        return n
    new: dict[UOp, UOp] = {}
    for node in nodes(n.body):
        src = tuple([new[s] for s in node.src])
        if node.op in (Op.LOAD, Op.STORE) and _divides(src[1]):
            # The predicate too: it bounds the values that the index is computed from.
            predicate = slice(2 if node.op is Op.LOAD else 3, None)
            src = (
                src[0],
                simplify(src[1]),
                *src[2 : predicate.start],
                *map(simplify, src[predicate]),
            )
        elif node.op is Op.MEMO and _divides(src[2]):
            src = (*src[:2], simplify(src[2]), *src[3:])
        elif node.op is Op.CARRY:  # simplified once here: an address may hold the same node
            src = (src[0], *map(simplify, src[1:]))
        if _narrows(node):
            counted = simplify(src[0]) if _divides(src[0]) and Op.ADD is not src[0].op else src[0]
            new[node] = _narrow(counted, node.dtype)
        else:
            same = rebuild(node, src)
            # Of a remainder, now a sum of ranges, a comparison may be one of a range.
            index = (node.op is Op.MOD and node.dtype == INT64) or _compares(same)
            new[node] = simplify(same) if index else same
    return replace(n, body=new[n.body], loops=tuple(new.get(r, r) for r in n.loops))


def _compares(u: UOp) -> bool:
    """Whether a node compares a sum of ranges; comparisons of loaded values are left alone."""
    if u.op not in (Op.LT, Op.LE) or u.src[0].dtype != INT64:
        return False
    if {Op.ADD, Op.FLOORDIV}.isdisjoint(s.op for s in u.src):
        return False
    return not any(s.op in (Op.LOAD, Op.CARRY) for s in walk(u.src))


def _narrows(u: UOp) -> bool:
    return u.op is Op.CAST and u.dtype in NARROW_INTEGERS and u.src[0].dtype == INT64


def _narrow(u: UOp, dtype: DType) -> UOp:
    """The cast of a sum as the sum of casts."""
    terms, constant = affine(u)
    total: UOp | None = const(constant, dtype) if constant or not terms else None
    for term, k in terms.items():
        part = UOp(Op.CAST, (term,), dtype)
        part = part if k == 1 else part * const(k, dtype)
        total = part if total is None else part + total
    assert total is not None
    return total


def _divides(index: UOp) -> bool:
    return any(node.op in DIVISIONS for node in walk([index]))


def name(r: UOp) -> str:
    """The name of a range in pictures and records: ``r3``."""
    return f"r{r.arg.number}"
