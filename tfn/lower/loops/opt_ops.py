"""Opt-ops: ranges split, merged and given a place.  Each is a substitution, and is recorded.

A `Nest` is a kernel with its loops in order.  Every opt-op takes a nest and returns another that
means the same; one that is not legal raises SplitError with the reason.  What was applied stands
in `Nest.opts`, and `replay` does it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import INT32, INT64, UINT32, DType
from tfn.errors import SplitError
from tfn.lower.index.affine import affine
from tfn.lower.index.laws import simplify
from tfn.trace.argument import Place, Range
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, nodes, rebuild, walk

NARROW = frozenset({INT32, UINT32})
DIVISIONS = frozenset({Op.FLOORDIV, Op.MOD})


@frozen
class Nest:
    """A kernel's body and the order of the loops around its stores.

    Attributes:
        body: SINK of stores.
        loops: the ranges of the stores, outermost first; a fold's ranges are in its sources.
        opts: the opt-ops applied so far.
    """

    body: UOp
    loops: tuple[UOp, ...]
    opts: tuple[str, ...] = ()


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
    found = {number for u in body.src if u.op is Op.STORE for number in u.arg or ()}
    return frozenset(found | {u.src[0].arg.number for u in body.src if u.op is Op.RECUR})


def _fresh(body: UOp) -> int:
    return 1 + max((r.arg.number for r in ranges(body)), default=-1)


def _rewrite(
    n: Nest, values: Mapping[UOp, UOp], lists: Mapping[UOp, Sequence[UOp]], note: str
) -> Nest:
    """The nest with ranges replaced: by values where they are used, by lists where they loop."""
    new: dict[UOp, UOp] = {}
    for node in nodes(n.body):
        if node in values:
            new[node] = values[node]
        elif node.op is Op.FOLD:
            inner = [new_r for r in node.src[1:] for new_r in lists.get(r, [new.get(r, r)])]
            new[node] = rebuild(node, (new[node.src[0]], *inner))
        else:
            new[node] = rebuild(node, tuple([new[s] for s in node.src]))
    loops = tuple(new_r for r in n.loops for new_r in lists.get(r, [new.get(r, r)]))
    return Nest(new[n.body], loops, (*n.opts, note))


def _bounding(n: Nest) -> set[UOp]:
    """The ranges that decide how far others run."""
    return {u for r in {*ranges(n.body), *n.loops} for u in walk(r.src) if u.op is Op.RANGE}


def is_whole(n: Nest, r: UOp) -> bool:
    """Whether a range may be cut: nothing has been done to it, and its order does not matter."""
    plain = r.arg.place is Place.LOOP and not r.src and r not in _bounding(n)
    return plain and r.arg.number not in in_order(n.body)


def split(n: Nest, r: UOp, amount: int, place: Place) -> tuple[Nest, UOp, UOp]:
    """Cut a range into blocks::

        for r in range(N): f(r)
        ->  for a in range(ceil(N / amount)):  for b in range(amount): f(a * amount + b)

    `b` gets `place`.  If `amount` does not divide N, `b` carries its bound, N - a * amount, as a
    source, and runs no further; then it must be unrolled or a vector.

    Raises:
        SplitError: if the amount is not positive, or the range does not run in its default place.
    """
    size = r.arg.size
    if amount < 1 or not is_whole(n, r):
        raise SplitError(
            f"cannot split {name(r)} by {amount}",
            hint="only whole loops without an order are split, by positive amounts",
        )
    if size % amount and place not in (Place.UPCAST, Place.LANE, Place.UNIT):
        raise SplitError(
            f"cannot split {name(r)} by {amount} into loops: {size % amount} of {size} are left",
            hint="take an amount that divides it, or unroll the inner part",
        )
    number = _fresh(n.body)
    a = UOp(Op.RANGE, (), Range(number, -(-size // amount)))
    bound = () if size % amount == 0 else (const(size, INT64) - a * amount,)
    b = UOp(Op.RANGE, bound, Range(number + 1, amount, place))
    note = f"split({name(r)}, {amount}, {place.value})"
    return _rewrite(n, {r: a * amount + b}, {r: (a, b)}, note), a, b


def part(n: Nest, r: UOp, amount: int) -> Nest:
    """Cut a loop by what its index is divided by, or where a condition on it changes::

        for r in range(60): y[r] = x[r % 20, r // 20]
        ->  for a in range(3):  for b in range(20): y[a * 20 + b] = x[b, a]

        for r in range(60): y[r] = x[r] if r < 20 else z[r]
        ->  for a in range(3):  for b in range(20): y[..] = x[a * 20 + b] if a < 1 else z[..]

    Raises:
        SplitError: as `split` does.
    """
    made, _, _ = split(n, r, amount, Place.LOOP)
    return tidy(replace(made, opts=(*n.opts, f"part({name(r)}, {amount})")))


def tile(n: Nest, r: UOp, upcast: int, lanes: int, where: Place = Place.LANE) -> tuple[Nest, UOp]:
    """Cut a range into blocks of `upcast` vectors::

        for r in range(N): f(r)
        ->  for a in range(ceil(N / (upcast * lanes))):
                for b in range(upcast):          # unrolled
                    for c in range(lanes):       # one vector
                        f((a * upcast + b) * lanes + c)

    Or of so many rows that a matrix unit takes at once, if `where` says so.  Returns the nest
    and `a`.

    Raises:
        SplitError: as `split` does.
    """
    size, block = r.arg.size, upcast * lanes
    if min(upcast, lanes) < 1 or not is_whole(n, r):
        raise SplitError(
            f"cannot tile {name(r)} by {upcast} x {lanes}",
            hint="only whole loops without an order are tiled, by positive amounts",
        )
    number = _fresh(n.body)
    a = UOp(Op.RANGE, (), Range(number, -(-size // block)))
    left = const(size, INT64) - a * block
    whole = size % block == 0
    src_b = () if whole else ((left + (lanes - 1)) // lanes,)
    b = UOp(Op.RANGE, src_b, Range(number + 1, upcast, Place.UPCAST))
    src_c = () if whole else (left - b * lanes,)
    c = UOp(Op.RANGE, src_c, Range(number + 2, lanes, where))
    note = f"tile({name(r)}, {upcast}, {lanes}{'' if where is Place.LANE else f', {where.value}'})"
    return _rewrite(n, {r: a * block + b * lanes + c}, {r: (a, b, c)}, note), a


def tc(n: Nest, r: UOp, depth: int = 2) -> tuple[Nest, UOp]:
    """Run a reduction of products on a matrix unit, which takes so many neighbours at once::

        for r in range(N): sum += a[r] * b[r]
        ->  for p in range(N / 2):
                for q in range(2):       # one instruction
                    sum += a[2 * p + q] * b[2 * p + q]

    A unit that multiplies whole matrices takes rows and columns at once, too, by `tile`::

        for i in range(M): for j in range(N): for r in range(K): sum += a[i, r] * b[r, j]
        ->  for p in range(K / 32):
                for x in range(16): for y in range(16): for q in range(32):  # one instruction
                    sum += a[.. + x, 32 * p + q] * b[32 * p + q, .. + y]

    Raises:
        SplitError: as `split` does.
    """
    n, _, q = split(n, r, depth, Place.UNIT)
    return n, q


def place(n: Nest, r: UOp, where: Place) -> tuple[Nest, UOp]:
    """Give a loop another place, as it is.

    Raises:
        SplitError: for the inner part of a split, or a loop whose iterations have an order.
    """
    if r.src:
        raise SplitError(f"cannot move {name(r)}: it is the inner part of a split")
    if r.arg.number in in_order(n.body):
        raise SplitError(f"cannot move {name(r)}: its iterations must happen in order")
    new = UOp(Op.RANGE, (), Range(r.arg.number, r.arg.size, where))
    return _rewrite(n, {r: new}, {r: (new,)}, f"place({name(r)}, {where.value})"), new


def reorder(n: Nest, loops: Sequence[UOp]) -> Nest:
    """Run the loops around the stores in another order, outermost first.

    Raises:
        SplitError: if it is no permutation, if an inner part would run outside its bound, or if
            iterations that have an order would get another.
    """
    if set(loops) != set(n.loops) or len(loops) != len(n.loops):
        raise SplitError("reorder needs each loop once")
    ordered = [r for r in n.loops if r.arg.number in in_order(n.body)]
    if [r for r in loops if r in ordered] != ordered:
        raise SplitError(f"{', '.join(map(name, ordered))} must stay in this order")
    for i, r in enumerate(loops):
        for s in walk(r.src):
            if s.op is Op.RANGE and s in loops[i:]:
                raise SplitError(f"{name(r)} is bounded by {name(s)}, which must be outside it")
    note = f"reorder({', '.join(map(name, loops))})"
    return replace(n, loops=tuple(loops), opts=(*n.opts, note))


def reorder_folds(n: Nest, distance: Mapping[UOp, int]) -> Nest:
    """Let reductions step through memory with the longest strides outside::

    for a: for b: sum += x[b * 100 + a]    ->    for b: for a: sum += x[b * 100 + a]
    """
    if not folds(n.body):
        return n
    new: dict[UOp, UOp] = {}
    order: list[UOp] = []
    for node in nodes(n.body):
        src = tuple([new[s] for s in node.src])
        if node.op is Op.FOLD:
            fixed = node.arg.index is not None  # which rises in this order
            inner = sorted(node.src[1:], key=lambda r: 0 if fixed else -distance.get(r, 0))
            order += inner
            src = (src[0], *(new[r] for r in inner))
        new[node] = rebuild(node, src)
    if new[n.body] is n.body:
        return n
    note = f"reorder_folds({', '.join(map(name, dict.fromkeys(order)))})"
    return replace(n, body=new[n.body], opts=(*n.opts, note))


def merge(n: Nest, a: UOp, b: UOp) -> Nest | None:
    """Two neighbouring loops that every address steps through as one become one::

        for a in range(A): for b in range(B): f(x[a * B + b])
        ->  for m in range(A * B): f(x[m])

    None if some use of them is not of that form.
    """
    pair = {a, b}
    size = b.arg.size
    if not (is_whole(n, a) and is_whole(n, b)):
        return None
    for node in nodes(n.body):
        if node.op in (Op.LOAD, Op.STORE):
            terms, _ = affine(node.src[1])
            if terms.get(a, 0) != terms.get(b, 0) * size:
                return None
            if any(t not in pair and not pair.isdisjoint(walk([t])) for t in terms):
                return None
        elif node.op is Op.FOLD and len(pair.intersection(node.src[1:])) == 1:
            return None
    if not pair.isdisjoint(_beside_addresses(n.body)):
        return None
    m = UOp(Op.RANGE, (), Range(_fresh(n.body), a.arg.size * size))
    note = f"merge({name(a)}, {name(b)})"
    return _rewrite(n, {a: const(0, INT64), b: m}, {a: (), b: (m,)}, note)


def _beside_addresses(body: UOp) -> set[UOp]:
    """Every node that is used for more than an address, or as a fold's own range."""
    seen: set[UOp] = set()
    stack = [body]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node.op is Op.FOLD:
                stack.append(node.src[0])
            elif node.op is not Op.CARRY:
                stack.extend(node.src[2:] if node.op in (Op.LOAD, Op.STORE) else node.src)
    return seen


def fuse(n: Nest, a: UOp, b: UOp, where: Place) -> tuple[Nest, UOp]:
    """Two neighbouring loops become one that counts through both, by division::

    for a in range(A): for b in range(B): f(a, b)
    ->  for m in range(A * B): f(m // B, m % B)

    Raises:
        SplitError: if they are not, or if iterations of one have an order.
    """
    neighbours = {a, b} <= set(n.loops) and n.loops.index(b) == n.loops.index(a) + 1
    if not neighbours or not is_whole(n, a) or not is_whole(n, b):
        raise SplitError(f"cannot fuse {name(a)} and {name(b)}: they are not whole neighbours")
    m = UOp(Op.RANGE, (), Range(_fresh(n.body), a.arg.size * b.arg.size, where))
    note = f"fuse({name(a)}, {name(b)}, {where.value})"
    values = {a: m // b.arg.size, b: m % b.arg.size}
    return _rewrite(n, values, {a: (), b: (m,)}, note), m


def replay(n: Nest, opts: Sequence[str]) -> Nest:
    """Apply opt-ops as another nest of the same body has recorded them.

    Raises:
        SplitError: if one is unknown, or its ranges are not there, or it is refused.
    """
    for opt in opts:
        head, _, rest = opt.removesuffix(")").partition("(")
        words = [word.strip() for word in rest.split(",") if word.strip()]
        known = {name(r): r for r in (*n.loops, *ranges(n.body))}
        lost = [word for word in words if word[0] == "r" and word not in known]
        if head not in _REPLAY or lost:
            raise SplitError(f"cannot replay {opt}", got="loops " + ", ".join(known))
        n = _REPLAY[head](n, [known.get(word, word) for word in words])
    return n


def _merged(n: Nest, a: UOp, b: UOp) -> Nest:
    made = merge(n, a, b)
    if made is None:
        raise SplitError(f"cannot merge {name(a)} and {name(b)}: they are not one")
    return made


# fmt: off
_REPLAY: dict[str, Callable[[Nest, Sequence[Any]], Nest]] = {
    "split":         lambda n, words: split(n, words[0], int(words[1]), Place(words[2]))[0],
    "part":          lambda n, words: part(n, words[0], int(words[1])),
    "tile":          lambda n, words: tile(n, words[0], int(words[1]), int(words[2]),
                                           *map(Place, words[3:]))[0],
    "place":         lambda n, words: place(n, words[0], Place(words[1]))[0],
    "reorder":       reorder,
    "reorder_folds": lambda n, rs: reorder_folds(n, {r: -i for i, r in enumerate(rs)}),
    "merge":         lambda n, words: _merged(n, *words),
    "fuse":          lambda n, words: fuse(n, words[0], words[1], Place(words[2]))[0],
}
# fmt: on


def tidy(n: Nest) -> Nest:
    """What splits have left behind, made smaller.

    Addresses are simplified again, where there are sums now in place of ranges.  A position that
    is wanted as a narrower integer is computed as one: wrapping around, it is the same.
    """
    if not any(
        u.op in DIVISIONS or u.op is Op.CARRY or _narrows(u) or _compares(u) for u in nodes(n.body)
    ):
        return n
    new: dict[UOp, UOp] = {}
    for node in nodes(n.body):
        src = tuple([new[s] for s in node.src])
        if node.op in (Op.LOAD, Op.STORE) and _divides(src[1]):
            src = (src[0], simplify(src[1]), *src[2:])
        elif node.op is Op.CARRY:  # it may stand in an address, too, and is one node
            src = (src[0], *map(simplify, src[1:]))
        if _narrows(node):
            new[node] = _narrow(src[0], node.dtype)
        elif (node.op is Op.MOD and node.dtype == INT64) or _compares(node):
            new[node] = simplify(rebuild(node, src))
        else:
            new[node] = rebuild(node, src)
    return replace(n, body=new[n.body], loops=tuple(new.get(r, r) for r in n.loops))


def _compares(u: UOp) -> bool:
    """Whether a node compares a sum of ranges; what is read from memory stays as it is."""
    if u.op not in (Op.LT, Op.LE) or u.src[0].dtype != INT64 or Op.ADD not in {s.op for s in u.src}:
        return False
    return not any(s.op in (Op.LOAD, Op.CARRY) for s in walk(u.src))


def _narrows(u: UOp) -> bool:
    return u.op is Op.CAST and u.dtype in NARROW and u.src[0].dtype == INT64


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
    """A range as opt-ops and prints call it: ``r3``."""
    return f"r{r.arg.number}"
