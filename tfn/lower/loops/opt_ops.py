"""Opt-ops: loop transformations (schedule primitives) as frozen records.

Each record says what is done to which loops, `apply` does it: it maps a nest to one that means the
same, or raises SplitError with the reason.  A nest keeps the records that were applied to it, so
that a schedule can be printed, kept on disk as plain rows (`to_rows`, `from_rows`), and replayed on
another nest of the same body.  Nothing here decides what pays: that is for `heuristics.py` and
`beam_search.py`.

Source: the scheduling primitives of Halide (Ragan-Kelley et al., PLDI 2013), TVM and Exo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import FLOAT32, FLOAT64, FLOATS, INT32, INT64, DType
from tfn.errors import SplitError
from tfn.lower.index.affine import affine
from tfn.lower.index.intervals import bounds
from tfn.lower.loops.grid_opt_ops import ShareScan, StageTile, WarpProduct
from tfn.lower.loops.loop_nest import (
    Nest,
    folds,
    fresh_number,
    in_order,
    is_whole,
    name,
    simplified,
    substituted,
)
from tfn.lower.program import OptOp
from tfn.trace import build
from tfn.trace.argument import Place, Range
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, nodes, rebuild, walk

BOUNDED_PLACES = frozenset({Place.UPCAST, Place.LANE, Place.UNIT, Place.LOCAL})
"""The places of a range that may end at a bound: code for a partial block leaves iterations out."""

Row = tuple[str | int, ...]
"""An opt-op as plain values: its name and its fields."""


@frozen
class Split:
    """Splits a loop into blocks::

        for r in range(N): f(r)
        ->  for a in range(ceil(N / amount)):  for b in range(amount): f(a * amount + b)

    `b` gets `place`; UNIT puts `amount` neighbours of a reduction on a matrix unit.  With LOCAL the
    iterations of `b` are the threads of a group::

        for r in range(N): y[r] = f(r)
        ->  group a in ceil(N / 256):  local b in 256: y[a * 256 + b] = f(a * 256 + b)

    and a reduction becomes one of each thread, of which local memory takes the results::

        s = sum(x[r] for r in range(N))
        ->  local b in 256: t[b] = sum(x[a * 256 + b] for a in ceil(N / 256))
            s = t[0] + t[1] + ...       as a tree, with a barrier after each of its levels

    The new loops have the two highest numbers.  If `amount` does not divide N, `b` carries its
    bound, N - a * amount, as a source, and runs no further; then it must be unrolled, a vector, or
    threads.
    """

    loop: int
    amount: int
    place: Place

    def apply(self, n: Nest) -> Nest:
        """The nest with the loop split.

        Raises:
            SplitError: if the amount is not positive, if the loop has been split or placed already,
                or if its iterations have an order.
        """
        r = n.loop(self.loop)
        size, amount = r.arg.size, self.amount
        rest = size % amount if amount > 0 else 0
        if amount < 1 or not is_whole(n, r):
            raise SplitError(
                f"cannot split {name(r)} by {amount}",
                hint="only whole loops without an order are split, by positive amounts",
            )
        if rest and self.place not in BOUNDED_PLACES:
            raise SplitError(
                f"cannot split {name(r)} by {amount} into loops: {rest} of {size} are left",
                hint="take an amount that divides it, or unroll the inner part",
            )
        number = fresh_number(n.body)
        a = UOp(Op.RANGE, (), Range(number, -(-size // amount)))
        bound = () if rest == 0 else (const(size, INT64) - a * amount,)
        b = UOp(Op.RANGE, bound, Range(number + 1, amount, self.place))
        return substituted(n, {r: a * amount + b}, {r: (a, b)}, self)


@frozen
class SplitAt:
    """Splits a loop at the divisor of its index, or where a condition on it changes::

    for r in range(60): y[r] = x[r % 20, r // 20]
    ->  for a in range(3):  for b in range(20): y[a * 20 + b] = x[b, a]

    for r in range(60): y[r] = x[r] if r < 20 else z[r]
    ->  for a in range(3):  for b in range(20): y[..] = x[a * 20 + b] if a < 1 else z[..]
    """

    loop: int
    amount: int

    def apply(self, n: Nest) -> Nest:
        """The nest with the loop split, and its index arithmetic simplified.

        Raises:
            SplitError: as for `Split`.
        """
        after = Split(self.loop, self.amount, Place.LOOP).apply(n)
        return simplified(replace(after, opts=(*n.opts, self)))


@frozen
class Tile:
    """Splits a loop into blocks of `upcast` vectors of `lanes`::

        for r in range(N): f(r)
        ->  for a in range(ceil(N / (upcast * lanes))):
                for b in range(upcast):          # unrolled
                    for c in range(lanes):       # one vector
                        f((a * upcast + b) * lanes + c)

    With `place` UNIT, `lanes` are the rows that a matrix unit takes at once::

        for i in range(M): for j in range(N): for r in range(K): sum += a[i, r] * b[r, j]
        ->  for p in range(K / 32):
                for x in range(16): for y in range(16): for q in range(32):  # one instruction
                    sum += a[.. + x, 32 * p + q] * b[32 * p + q, .. + y]

    The new loops have the three highest numbers.
    """

    loop: int
    upcast: int
    lanes: int
    place: Place = Place.LANE

    def apply(self, n: Nest) -> Nest:
        """The nest with the loop tiled.

        Raises:
            SplitError: as for `Split`.
        """
        r, upcast, lanes = n.loop(self.loop), self.upcast, self.lanes
        size, block = r.arg.size, upcast * lanes
        if min(upcast, lanes) < 1 or not is_whole(n, r):
            raise SplitError(
                f"cannot tile {name(r)} by {upcast} x {lanes}",
                hint="only whole loops without an order are tiled, by positive amounts",
            )
        number = fresh_number(n.body)
        a = UOp(Op.RANGE, (), Range(number, -(-size // block)))
        left = const(size, INT64) - a * block
        whole = size % block == 0
        src_b = () if whole else ((left + (lanes - 1)) // lanes,)
        b = UOp(Op.RANGE, src_b, Range(number + 1, upcast, Place.UPCAST))
        src_c = () if whole else (left - b * lanes,)
        # One lane is no vector: scalars are unrolled.
        place = Place.UPCAST if lanes == 1 and self.place is Place.LANE else self.place
        c = UOp(Op.RANGE, src_c, Range(number + 2, lanes, place))
        return substituted(n, {r: a * block + b * lanes + c}, {r: (a, b, c)}, self)


@frozen
class Bind:
    """Binds a whole loop to a place: unrolled, a vector, or shared among the threads::

    for r in range(N): f(r)    ->    parallel for r in range(N): f(r)

    With GROUP each iteration is a group of threads; several such ranges are one grid.
    """

    loop: int
    place: Place

    def apply(self, n: Nest) -> Nest:
        """The nest with the loop in its place.

        Raises:
            SplitError: for the inner part of a split, or a loop whose iterations have an order.
        """
        r = n.loop(self.loop)
        if r.src:
            raise SplitError(f"cannot move {name(r)}: it is the inner part of a split")
        if r.arg.number in in_order(n.body):
            raise SplitError(f"cannot move {name(r)}: its iterations must happen in order")
        new = UOp(Op.RANGE, (), Range(r.arg.number, r.arg.size, self.place))
        return substituted(n, {r: new}, {r: (new,)}, self)


@frozen
class Reorder:
    """Interchanges the loops around the stores; `loops` are all of them, outermost first::

    for a: for b: f(a, b)    ->    for b: for a: f(a, b)
    """

    loops: tuple[int, ...]

    def apply(self, n: Nest) -> Nest:
        """The nest with its loops in this order.

        Raises:
            SplitError: if it is no permutation, if an inner part would run outside its bound, or if
                iterations that have an order would get another.
        """
        loops = tuple(map(n.loop, self.loops))
        if set(loops) != set(n.loops) or len(loops) != len(n.loops):
            raise SplitError("reorder needs each loop once")
        ordered = [r for r in n.loops if r.arg.number in in_order(n.body)]
        if [r for r in loops if r in ordered] != ordered:
            raise SplitError(f"{', '.join(map(name, ordered))} must stay in this order")
        for i, r in enumerate(loops):
            for s in walk(r.src):
                if s.op is Op.RANGE and s in loops[i:]:
                    raise SplitError(f"{name(r)} is bounded by {name(s)}, which must be outside it")
        return replace(n, loops=loops, opts=(*n.opts, self))


@frozen
class ReorderReductions:
    """Interchanges the loops of reductions, those that come first in `loops` outside::

        for a: for b: sum += x[b * 100 + a]    ->    for b: for a: sum += x[b * 100 + a]

    A reduction that returns an index keeps its order, in which the index rises.
    """

    loops: tuple[int, ...]

    def apply(self, n: Nest) -> Nest:
        """The nest with its reductions in this order; the same nest if nothing changes."""
        if not folds(n.body):
            return n
        rank = {number: i for i, number in enumerate(self.loops)}
        new: dict[UOp, UOp] = {}
        order: list[int] = []
        for node in nodes(n.body):
            src = tuple([new[s] for s in node.src])
            if node.op is Op.FOLD:
                inner = list(node.src[1:])
                if node.arg.index is None:
                    inner.sort(key=lambda r: rank.get(r.arg.number, len(rank)))
                order += [r.arg.number for r in inner]
                src = (src[0], *(new[r] for r in inner))
            new[node] = rebuild(node, src)
        if new[n.body] is n.body:
            return n
        opt = ReorderReductions(tuple(dict.fromkeys(order)))
        return replace(n, body=new[n.body], opts=(*n.opts, opt))


@frozen
class Merge:
    """Merges two neighbouring loops that every address steps through as one::

    for a in range(A): for b in range(B): f(x[a * B + b])    ->    for m in range(A * B): f(x[m])
    """

    outer: int
    inner: int

    def apply(self, n: Nest) -> Nest:
        """The nest with the two loops as one.

        Raises:
            SplitError: if some address or value depends on the loops otherwise.
        """
        a, b = n.loop(self.outer), n.loop(self.inner)
        if not steps_as_one(n, a, b):
            raise SplitError(f"cannot merge {name(a)} and {name(b)}: they do not step as one")
        m = UOp(Op.RANGE, (), Range(fresh_number(n.body), a.arg.size * b.arg.size))
        return substituted(n, {a: const(0, INT64), b: m}, {a: (), b: (m,)}, self)


EXACT_INTEGERS = {FLOAT32: 1 << 24, FLOAT64: 1 << 53}
"""Integers up to which a float is exact."""


@frozen
class SumLanesLast:
    """Adds up the lanes of a reduction after the loops of the one around it::

        for b: s += d[b] * sum(x[b, c] for c in 8 lanes)
        ->  for c in 8 lanes: for b: s[c] += d[b] * x[b, c]    then sum(s)

    The outer one is a sum of products with what the inner one gives.  Of short blocks, several are
    in one vector::

        for b in B: s += d[b] * sum(x[b, c] for c in 4 lanes)
        ->  for m in 8 lanes: for a in B / 2: s[m] += d[2 a + m // 4] * x[2 a + m // 4, m % 4]

    Attributes:
        loop: the lanes.
        blocks: iterations of the outer loop in one vector; the new loops have the two highest
            numbers.
    """

    loop: int
    blocks: int = 1

    def apply(self, n: Nest) -> Nest:
        """The nest with the lanes in the outer reduction.

        Raises:
            SplitError: if there is no reduction around it that is linear in it, or its loop is not
                one of whole groups of blocks.
        """
        lane = n.loop(self.loop)
        pair = linear_sums(n, lane)
        if pair is None:
            raise SplitError(f"the lanes of {name(lane)} are of no sum in another")
        inner, outer = pair
        last, size = outer.src[-1], lane.arg.size
        values, ranges = dict[UOp, UOp](), (*outer.src[1:], lane)
        if self.blocks > 1:
            if not block_loop(n, outer, self.blocks):
                raise SplitError(f"cannot take {self.blocks} blocks of {name(last)} at once")
            number = fresh_number(n.body)
            a = UOp(Op.RANGE, (), Range(number, last.arg.size // self.blocks))
            m = UOp(Op.RANGE, (), Range(number + 1, self.blocks * size, Place.LANE))
            values = {last: a * self.blocks + m // size, lane: m % size}
            ranges = (*outer.src[1:-1], a, m)
        rest = [r for r in inner.src[1:] if r is not lane]
        first = values.get(lane, lane) < const(1, INT64)
        between = {u for u in walk([outer.src[0]], lambda u: u is not inner) if inner in walk([u])}
        new: dict[UOp, UOp] = {}
        for node in nodes(n.body):
            if node in values:
                new[node] = values[node]
                continue
            src = tuple([new[s] for s in node.src])
            if node is inner:
                new[node] = rebuild(node, (src[0], *rest)) if rest else src[0]
            elif node is outer:
                new[node] = rebuild(node, (src[0], *ranges))
            else:
                if node in between and node.op in ADDITIONS:  # once, and not in each lane
                    src = tuple(
                        value if s in between else build.where(first, value, const(0, s.dtype))
                        for s, value in zip(node.src, src)
                    )
                new[node] = rebuild(node, src)
        after = replace(n, body=new[n.body], opts=(*n.opts, self))
        return simplified(after) if values else after


def block_loop(n: Nest, outer: UOp, blocks: int) -> bool:
    """Whether the last loop of a reduction, and of no other, is one of groups of iterations."""
    last = outer.src[-1]
    alone = all(last not in f.src for f in folds(n.body) if f is not outer)
    return alone and is_whole(n, last) and bool(last.arg.size % blocks == 0)


def linear_sums(n: Nest, lane: UOp) -> tuple[UOp, UOp] | None:
    """A sum with a vector axis, and the one around it, if each is added to the other as products.

    Between them are conversions, and factors that do not depend on the inner one.
    """
    inner = next((f for f in folds(n.body) if lane in f.src[1:]), None)
    users: dict[UOp, list[UOp]] = {}
    for node in nodes(n.body):
        for s in node.src:
            users.setdefault(s, []).append(node)
    # A bound of partial vectors depends on loops that stay in the inner one.
    if inner is None or inner.arg.op is not Op.ADD or lane.arg.place is not Place.LANE or lane.src:
        return None
    at, added = inner, list[UOp]()
    while True:
        readers = users.get(at, [])
        if len(readers) != 1 or readers[0].src.count(at) != 1:
            return None
        user = readers[0]
        if user.op is Op.FOLD:
            fits = user.src[0] is at and user.arg.op is Op.ADD and user.dtype in FLOATS
            return (inner, user) if fits else None
        if user.op is Op.CAST:
            if user.dtype not in FLOATS or not _converts_exactly(inner, added, user.dtype):
                return None
        elif user.op in ADDITIONS and user.dtype in FLOATS | {INT32}:
            added += [s for s in user.src if s is not at]
        elif user.op is not Op.MUL or user.dtype not in FLOATS:
            return None
        at = user


ADDITIONS = frozenset({Op.ADD, Op.SUB})


def _converts_exactly(inner: UOp, added: Iterable[UOp], dtype: DType) -> bool:
    """Whether partial sums, added up as floats, are what their sum would have been.

    Args:
        inner: the sum.
        added: what is added to it before it is converted.
        dtype: that it is converted to.
    """
    if inner.dtype in FLOATS:
        return bool(inner.dtype.itemsize <= dtype.itemsize)
    low, high = bounds(inner.src[0])
    largest = max(-low, high) * prod([r.arg.size for r in inner.src[1:]])
    largest += sum(max(-low, high) for low, high in map(bounds, added))
    return bool(largest <= EXACT_INTEGERS.get(dtype, 0))


ADDRESSES = {Op.LOAD: 1, Op.STORE: 1, Op.MEMO: 2}
"""The source that is an address, by op."""


def steps_as_one(n: Nest, a: UOp, b: UOp) -> bool:
    """Whether every address steps through two loops as through one: as ``a * B + b``."""
    pair = {a, b}
    size = b.arg.size
    if not (is_whole(n, a) and is_whole(n, b)):
        return False
    for node in nodes(n.body):
        if node.op in ADDRESSES:
            terms, _ = affine(node.src[ADDRESSES[node.op]])
            if terms.get(a, 0) != terms.get(b, 0) * size:
                return False
            if any(t not in pair and not pair.isdisjoint(walk([t])) for t in terms):
                return False
        elif node.op is Op.FOLD and len(pair.intersection(node.src[1:])) == 1:
            return False
    return pair.isdisjoint(_beside_addresses(n.body))


def _beside_addresses(body: UOp) -> set[UOp]:
    """Every node that is used for more than an address, or as a reduction's own range."""
    seen: set[UOp] = set()
    stack = [body]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node.op is Op.FOLD:
                stack.append(node.src[0])
            elif node.op is not Op.CARRY:
                at = ADDRESSES.get(node.op)
                stack.extend(s for i, s in enumerate(node.src) if i != at)
    return seen


@frozen
class Fuse:
    """Fuses two neighbouring loops into one that counts through both, by division::

    for a in range(A): for b in range(B): f(a, b)
    ->  for m in range(A * B): f(m // B, m % B)

    The new loop has the highest number.
    """

    outer: int
    inner: int
    place: Place

    def apply(self, n: Nest) -> Nest:
        """The nest with the two loops as one.

        Raises:
            SplitError: if they are not neighbours, or if iterations of one have an order.
        """
        a, b = n.loop(self.outer), n.loop(self.inner)
        neighbours = {a, b} <= set(n.loops) and n.loops.index(b) == n.loops.index(a) + 1
        if not neighbours or not is_whole(n, a) or not is_whole(n, b):
            raise SplitError(f"cannot fuse {name(a)} and {name(b)}: they are not whole neighbours")
        m = UOp(Op.RANGE, (), Range(fresh_number(n.body), a.arg.size * b.arg.size, self.place))
        values = {a: m // b.arg.size, b: m % b.arg.size}
        return substituted(n, values, {a: (), b: (m,)}, self)


@frozen
class UnrollRecurrence:
    """Takes several iterations of a loop that carries values at a time, in order::

        for r in N: c = f(c, x[r]); y[r] = c

        ->  for a in N / 4: c = f(c, x[4 a]); y[4 a] = c; c = f(c, x[4 a + 1]); ...

    As many as vectors have lanes are squares, transposed in registers: see `codegen.recurrence`.
    """

    loop: int
    elements: int

    def apply(self, n: Nest) -> Nest:
        """The nest with the loop unrolled.

        Raises:
            SplitError: if it carries no values, ends by a condition, or is unrolled already.
        """
        r = n.loop(self.loop)
        node = next((u for u in n.body.src if u.op is Op.RECUR and u.src[0] is r), None)
        if node is None or node.arg.conditional or node.arg.elements > 1 or self.elements < 1:
            raise SplitError(
                f"cannot unroll {name(r)} by {self.elements}",
                hint="a loop that carries values is unrolled once, by a positive amount",
            )
        new = UOp(Op.RECUR, node.src, replace(node.arg, elements=self.elements))
        statements = tuple(new if u is node else u for u in n.body.src)
        body = UOp(Op.SINK, statements, n.body.arg)
        return replace(n, body=body, opts=(*n.opts, self))


MAX_STAGES = 3
"""Iterations of a pipelined loop side by side, at the most: on machines whose results are there
after one or two cycles more gain nothing, and each is a copy before the loop and one after it."""


@frozen
class Pipeline:
    """Lets iterations of the innermost loops overlap, once they are instructions::

        for i: x = load; y = f(x); store y

        ->  x = load[0]; for i: y = f(x); x = load[i + 1]; store y;   y = f(x); store y

    Nothing changes in the nest: the text is rewritten (`lower.pack.pipelined`), where the target's
    latencies are known.

    Attributes:
        stages: iterations side by side.
    """

    stages: int

    def apply(self, n: Nest) -> Nest:
        """The nest, with this opt-op in its record.

        Raises:
            SplitError: for another number of stages, or if there is one already.
        """
        if not 1 <= self.stages <= MAX_STAGES or stages(n.opts):
            raise SplitError(
                f"loops are pipelined once, in 1 to {MAX_STAGES} stages",
                got=f"{self.stages} stages, after {stages(n.opts)}",
            )
        return replace(n, opts=(*n.opts, self))


def stages(opts: Iterable[OptOp]) -> int:
    """The stages of innermost loops; 0 if they are not pipelined."""
    return next((opt.stages for opt in opts if isinstance(opt, Pipeline)), 0)


# fmt: off
OPT_OPS: dict[str, type[Any]] = {
    "split":              Split,
    "split_at":           SplitAt,
    "tile":               Tile,
    "bind":               Bind,
    "reorder":            Reorder,
    "reorder_reductions": ReorderReductions,
    "merge":              Merge,
    "fuse":               Fuse,
    "stage":              StageTile,
    "warp_product":       WarpProduct,
    "share_scan":         ShareScan,
    "unroll_recurrence":  UnrollRecurrence,
    "sum_lanes_last":     SumLanesLast,
    "pipeline":           Pipeline,
}
"""Every opt-op, by the name under which it is printed and kept on disk."""
# fmt: on
_NAMES = {kind: name for name, kind in OPT_OPS.items()}
_LOOPS = frozenset({"loop", "loops", "outer", "inner"})
"""Fields that hold numbers of loops."""


def replay(n: Nest, opts: Iterable[OptOp]) -> Nest:
    """Applies opt-ops that another nest of the same body has recorded.

    Raises:
        SplitError: if its loops are not there, or it is refused.
    """
    for opt in opts:
        n = opt.apply(n)
    return n


def show(opt: OptOp) -> str:
    """An opt-op as pictures show it: ``tile(r1, 2, 16)``.

    Example:
        >>> show(Split(0, 8, Place.LANE)), show(Reorder((1, 0)))
        ('split(r0, 8, lane)', 'reorder(r1, r0)')
    """
    words: list[str] = []
    for field in fields(opt):  # type: ignore[arg-type]
        value = getattr(opt, field.name)
        if value == field.default:
            continue
        values = value if isinstance(value, tuple) else (value,)
        sign = "r" if field.name in _LOOPS else ""
        words += [v.value if isinstance(v, Place) else f"{sign}{v}" for v in values]
    return f"{_NAMES[type(opt)]}({', '.join(words)})"


def to_rows(opts: Iterable[OptOp]) -> tuple[Row, ...]:
    """Opt-ops as plain values, to be kept on disk.

    Example:
        >>> to_rows([Split(0, 8, Place.LANE), Reorder((1, 0))])
        (('split', 0, 8, 'lane'), ('reorder', 1, 0))
    """
    return tuple(tuple(_row(opt)) for opt in opts)


def _row(opt: OptOp) -> Iterable[str | int]:
    yield _NAMES[type(opt)]
    for field in fields(opt):  # type: ignore[arg-type]
        value = getattr(opt, field.name)
        values = value if isinstance(value, tuple) else (value,)
        yield from (v.value if isinstance(v, Place) else v for v in values)


def from_rows(rows: Iterable[Sequence[Any]]) -> tuple[OptOp, ...]:
    """Opt-ops that `to_rows` has written.

    Raises:
        SplitError: for a row that is not one of this version's.
    """
    return tuple(map(_from_row, rows))


def _from_row(row: Sequence[object]) -> OptOp:
    kind = OPT_OPS.get(row[0]) if row and isinstance(row[0], str) else None
    if kind is not None:
        types = list(kind.__annotations__.values())
        values: Any = [tuple(row[1:])] if types[0] == "tuple[int, ...]" else row[1:]
        if len(values) == len(types) and all(map(_fits, values, types)):
            return kind(*[Place(v) if isinstance(v, str) else v for v in values])  # type: ignore[no-any-return]
    raise SplitError("an opt-op on disk is not one of this version's", got=str(row)[:80])


_PLACES = frozenset(place.value for place in Place)


def _fits(value: object, type_name: object) -> bool:
    """Whether a value of a row is one of the type that a field is annotated with."""
    if type_name == "Place":
        return isinstance(value, str) and value in _PLACES
    if type_name in ("int", "bool"):
        return type(value).__name__ == type_name
    return isinstance(value, tuple) and all(type(v) is int for v in value)
