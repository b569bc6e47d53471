"""Where kernels end: a GBARRIER is put on every value that must, or should, be materialised.

Before -> after, for a layer whose activation is used twice::

    d = dot a b;  e = add d c;  f = exp e;  g = reduce e
    d = dot a b;  e = barrier[0] (add d c);  f = barrier[1] (exp e);  g = barrier[2] (reduce e)

Barriers with one number are the outputs of one kernel.  *Legality* (`must`) says which values
have to exist in memory; *policy* (the methods of `Uses`) says which are worth it, one question
after the other, until none has anything to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tfn.lower.fuse.analysis import (
    CHEAP,
    CONTRACTIONS,
    LEAVES,
    SEVERAL_RESULTS,
    Uses,
    computed,
    viewed,
)
from tfn.lower.graph.flash import strips
from tfn.lower.graph.packing import prepare
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.jaxpr import function as make_function
from tfn.trace.op import LOOPS, Op
from tfn.trace.uop import UOp, rebuild, walk

SPARSE = 16
"""Of so many elements a gather takes one at most, if what it reads is made where it is read."""


@lru_cache(maxsize=64)  # layers alike are loops alike
def kernels(function: UOp, target: Target) -> UOp:
    """The function with numbered barriers: the stage KERNELS.

    What is too large to be kept becomes loops over strips first, since what `prepare` says of
    operands depends on their sizes; the bodies of the loops come here in their turn.
    """
    outputs = prepare(strips(function.src, target), target)
    order = [u for u in walk(outputs) if u.op is not Op.FUNCTION]
    barriers = must(outputs)
    barriers |= operands(outputs, barriers)
    apart: dict[UOp, UOp] = {}
    while True:
        uses = Uses(order, frozenset(outputs), barriers, apart, target.l2_bytes // 2)
        more = uses.reductions() or uses.manifold() or uses.dear() or uses.repeated()
        if not more:
            parts = uses.too_large()
            apart |= parts
            more = set(parts)
        if not more:
            break
        barriers |= more
    return _place(outputs, uses, function)


def must(outputs: Iterable[UOp]) -> set[UOp]:
    """Legality: outputs, users' barriers, and what kernels of their own read and write."""
    outputs = list(outputs)
    found = {u for u in outputs if u.op is not Op.PARAM}
    for node in walk(outputs):
        if node.op is Op.GBARRIER or node.op is Op.SCATTER:
            found.add(node)
        elif node.op in SEVERAL_RESULTS:
            plain = (Op.PARAM, Op.FUNCTION, Op.CONST) if node.op in LOOPS else (Op.PARAM,)
            found.update(s for s in map(origin, node.src) if s.op not in plain)
        elif node.op is Op.GET:
            found.add(node)
        elif node.op is Op.AFTER:
            found.update(s for s in map(origin, node.src) if s.op not in LEAVES)
    return found


def origin(node: UOp) -> UOp:
    """What an AFTER stands for."""
    while node.op is Op.AFTER:
        node = node.src[0]
    return node


def operands(outputs: Iterable[UOp], barriers: set[UOp]) -> set[UOp]:
    """Policy: what contractions and gathers read many times exists in memory.

    Of what is gathered but here and there only those elements are made.  So exist a few elements
    that are made of what they update: it may be updated where it is, once they are known.
    """
    found: set[UOp] = set()
    for node in walk(outputs):
        if node.op in CONTRACTIONS:
            found.update(filter(None, (_operand(s, barriers) for s in node.src)))
        elif node.op is Op.GATHER and node.size * SPARSE > node.src[0].size:
            found.update(s for s in node.src[:1] if computed(s, barriers))
        elif node.op is Op.SCATTER and node.src[2].size < node.src[0].size:
            whole, _, updates = (viewed(s, barriers) for s in node.src)
            if updates is not whole and whole in walk([updates], lambda u: u not in barriers):
                found.add(updates)
    return found


def _operand(node: UOp, barriers: set[UOp]) -> UOp | None:
    """What of an operand, read many times, needs a barrier, if anything."""
    if not computed(node, barriers):
        return None
    while node.op in CHEAP and node.op is not Op.CAST and node not in barriers:
        if node.op is Op.EXPAND or build.count(node.src[0].shape) <= build.count(node.shape):
            node = node.src[0]
        else:
            break
    return node


def _place(outputs: Sequence[UOp], uses: Uses, function: UOp) -> UOp:
    """The graph with a numbered GBARRIER on each value that has one, kernels in running order.

    Barriers of which a kernel only wants that they have run follow the value among the sources.
    """
    numbers: dict[UOp, int] = {}
    for node in uses.order:
        if node in uses.barriers:
            numbers.setdefault(uses.kernel[node], len(numbers))
    waits: dict[UOp, list[UOp]] = {}  # what must run before a kernel, though it does not read it
    for node in uses.order:
        if node.op is Op.AFTER:
            for first in uses.places.get(node, {}):
                waits.setdefault(first, []).extend(map(origin, node.src[1:]))
    new: dict[UOp, UOp] = {}
    for node in uses.order:
        late = node.op is Op.AFTER
        made = new[node.src[0]] if late else rebuild(node, tuple(new.get(s, s) for s in node.src))
        if node in uses.barriers:
            first = uses.kernel[node]
            value = made.src[0] if made.op is Op.GBARRIER and not late else made
            earlier = dict.fromkeys(new[u] for u in waits.get(first, ()) if u in new)
            waited = [u for u in earlier if u.op is Op.GBARRIER and u.arg != numbers[first]]
            made = UOp(Op.GBARRIER, (value, *waited), numbers[first])
        new[node] = made
    return make_function([new[u] for u in outputs], function.arg.params)
