"""Loop restructuring before tiles are chosen: index-set splitting, coalescing, interchange.

    for i in 8: where(i < 4, x, y)        ->  for a in 2: for b in 4: where(a < 1, x, y)
    for i in 4: for j in 6: x[i * 6 + j]  ->  for i in 24: x[i]
    sum over j, i of x[i * 6 + j]         ->  sum over i, j of x[i * 6 + j]

Loops are then as addresses see them, on processors and on grids.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd

from tfn.lower.index.affine import affine, sum_interval
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import Facts
from tfn.lower.loops import loop_nest, sum_order
from tfn.lower.loops.cost_model import Model
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Merge, Reorder, ReorderReductions, SplitAt, steps_as_one
from tfn.lower.target.target import Target
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const_value, nodes

MAX_CONCATENATED_PARTS = 4
"""Parts of a concatenation that get a loop each, instead of a condition for each element.

The gradients of queries, keys and values, as one array, took 305 us with conditions, 100 without.
"""


def split_at_boundaries(n: Nest, target: Target, lanes: int) -> Nest:
    """Splits long loops where conditions on them change, or by divisors of their indices.

    A concatenation of a few parts of one length becomes a loop over parts and one within; an index
    ``r // d`` becomes the loop over quotients, ``r % d`` that within.
    """
    divided = [u for u in nodes(n.body) if u.op in loop_nest.DIVISIONS and u.src[1].op is Op.CONST]
    inner = [r for f in loop_nest.folds(n.body) if _may_split(f, n, target) for r in f.src[1:]]
    for r in (*n.loops, *dict.fromkeys(inner)):
        size: int = r.arg.size
        part = gcd(size, *_condition_boundaries(n, r))
        if part < lanes or size // part not in range(2, MAX_CONCATENATED_PARTS + 1):
            divisors = sorted({int(u.src[1].arg.value) for u in divided if u.src[0] is r})
            # Only if each divides the next do quotients and remainders stay affine in both loops.
            chain = all(b % a == 0 for a, b in pairwise([*divisors, size]))
            part = divisors[-1] if divisors and chain and divisors[0] >= lanes else 0
            part = part or max((_regrouped_part(u, r) for u in divided), default=0)
        if part and loop_nest.is_whole(n, r):
            return split_at_boundaries(SplitAt(r.arg.number, part).apply(n), target, lanes)
    return n


def _may_split(fold: UOp, n: Nest, target: Target) -> bool:
    """Whether the ranges of a reduction may be split: vectors run along them, or may.

    Of a product of matrices, each of which has an axis of its own, they run along that; but rows
    that a gather takes in blocks have their index read once for each.
    """
    body, depends = fold.src[0], dependences(n.body)
    free = [r for r in n.loops if r.arg.place is Place.LOOP and r.arg.size > 1]
    sides = [{*free} & {*depends[s]} for s in body.src] if body.op is Op.MUL else []
    matrices = bool(sides) and bool(sides[0] - sides[1]) and bool(sides[1] - sides[0])
    any_order = sum_order.partial_sums(fold, target) is None and fold.arg.index is None
    return any_order and (not matrices or _gathers(body))


def _gathers(body: UOp) -> bool:
    """Whether a body loads from an index that it has loaded."""
    loads = [u for u in nodes(body) if u.op is Op.LOAD]
    return any(u.op is Op.LOAD for load in loads for s in load.src[1:] for u in nodes(s))


def _regrouped_part(division: UOp, r: UOp) -> int:
    """The length of the inner of two loops over `r` that take a division apart; 0 if none do.

    An axis of groups of channels, read where channels, rows and columns are loops::

        (channel * 441 + row * 21 + column) // 882   ->   the outer loop of channels by 2
    """
    terms, constant = affine(division.src[0])
    step, divisor = terms.get(r, 0), const_value(division.src[1])
    if step < 2 or divisor % step or not 1 < divisor // step < r.arg.size:
        return 0
    inner = {t: k for t, k in terms.items() if k < step}
    whole = all(k % divisor == 0 for t, k in terms.items() if t is not r and t not in inner)
    low, high = sum_interval(inner, constant, Facts())
    fits = whole and low >= 0 and high < step and r.arg.size % (divisor // step) == 0
    return divisor // step if fits else 0


def _condition_boundaries(n: Nest, r: UOp) -> set[int]:
    """The indices of a loop at which a condition on it alone begins or ceases to hold."""
    boundaries = set()
    for u in nodes(n.body):
        if u.op in (Op.LT, Op.LE) and r in u.src:
            side = u.src.index(r)
            if u.src[1 - side].op is Op.CONST:
                boundaries.add(const_value(u.src[1 - side]) + ((u.op is Op.LT) == bool(side)))
    return boundaries


def merge_loops(n: Nest, target: Target) -> Nest:
    """Neighbouring loops merged where addresses allow, outside and inside of reductions."""
    changed = True
    while changed:
        changed = False
        groups = [list(pairwise(n.loops))]
        for f in loop_nest.folds(n.body):
            pairs = pairwise(f.src[1:])
            groups.append([(a, b) for a, b in pairs if sum_order.may_merge(f, b, target)])
        for group in groups:
            for a, b in group:
                if steps_as_one(n, a, b):
                    n, changed = Merge(a.arg.number, b.arg.number).apply(n), True
                    break
            if changed:  # the groups hold ranges that are gone now
                break
    return n


def longest_strides_outside(n: Nest, model: Model) -> Nest:
    """Reductions step through memory with the longest strides outside."""
    strides = largest_strides(model)
    free = [f for f in loop_nest.folds(n.body) if sum_order.partial_sums(f, model.target) is None]
    reduced = dict.fromkeys(r for fold in free for r in fold.src[1:])
    order = sorted(reduced, key=lambda r: -strides.get(r, 0))
    return ReorderReductions(tuple([r.arg.number for r in order])).apply(n)


def largest_strides(model: Model) -> dict[UOp, int]:
    """For each range its largest stride in elements, over all loads."""
    strides: dict[UOp, int] = {}
    for u, terms, _ in model.accesses:
        for r, k in terms.items():
            if u.op is Op.LOAD:
                strides[r] = max(strides.get(r, 0), abs(k))
    return strides


def reordered(n: Nest, first: Sequence[UOp]) -> Nest:
    """Some loops outside of all others."""
    order = [*first, *(r for r in n.loops if r not in first)]
    return Reorder(tuple([r.arg.number for r in order])).apply(n) if order != [*n.loops] else n
