"""Opt-ops of grids: tiles in the local memory of a group, products on the units of warps.

Records as those of `opt_ops`, of which they are rows; and what a tile is: its axes, its rows, the
elements that a thread copies at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from tfn._support.frozen import frozen
from tfn.dtypes import FLOAT32
from tfn.errors import SplitError
from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops.loop_nest import (
    Nest,
    folds,
    fresh_number,
    in_order,
    is_whole,
    name,
    substituted,
)
from tfn.trace.argument import Place, Range
from tfn.trace.grid_argument import COPY_BYTES, SWIZZLE_BYTES, Staged
from tfn.trace.op import MONOIDS, Op
from tfn.trace.uop import UOp, nodes, rebuild, walk


@frozen
class StageTile:
    """Copies the tiles of an operand to the local memory of a group, one for each iteration::

        for k: for i in 8: sum += a[y, k * 8 + i] * b[k * 8 + i, x]       y, x: local in 16 each

        ->  for k:
                barrier
                local t in 256: tile[t] = a[..]        as many loads each, neighbours of neighbours
                barrier
                for i in 8: sum += tile[y * 8 + i] * b[k * 8 + i, x]

    `loop` is a loop of a reduction; what is inside of it, and the threads and registers that the
    operand depends on, are the ranges of a tile.  With several stages, tiles are a ring::

        for k:
            wait for copy k; barrier
            start the copy of tile k + stages - 1, to where that of k - 1 was
            for i in 8: sum += tile[k % stages][y * 8 + i] * b[k * 8 + i, x]

    Attributes:
        operand: the number of a buffer.
        pad: elements between the rows of a tile; see `trace.banks`.
        stages: tiles in local memory at once.
        swizzled: whether the tile is laid out as four warps multiply it: `trace.argument.GroupMma`.
    """

    loop: int
    operand: int
    pad: int = 0
    stages: int = 1
    swizzled: bool = False

    def apply(self, n: Nest) -> Nest:
        """The nest with the operand staged.

        Raises:
            SplitError: if the loop is not a reduction's, if no load in it can be staged, if
                threads could come to a barrier in different iterations, or if elements do not lie
                as asynchronous copies want them.
        """
        r = n.loop(self.loop)
        fold = next((f for f in folds(n.body) if r in f.src[1:]), None)
        if fold is None or r.arg.place is not Place.LOOP:
            raise SplitError(f"cannot stage at {name(r)}: it is not a loop of a reduction")
        runs_apart = [u for u in n.loops if u.arg.place is Place.LOOP] or in_order(n.body)
        if len(folds(n.body)) > 1 or runs_apart:
            raise SplitError(f"cannot stage at {name(r)}: threads would not meet at its barriers")
        depends = dependences(n.body)
        inner = fold.src[1 + fold.src[1:].index(r) + 1 :]
        new: dict[UOp, UOp] = {}
        staged = 0
        for node in nodes(n.body):
            new[node] = rebuild(node, tuple([new[s] for s in node.src]))
            if node.op is not Op.LOAD or node.src[0].arg.index != self.operand:
                continue
            tile = [u for u in depends[node] if u in inner or u.arg.place in TILED_PLACES]
            in_address = set(walk([node.src[1]]))
            if {r, *inner} & set(depends[node]) and tile and in_address.issuperset(tile):
                argument = Staged(self.loop, self.pad, self.stages, self.swizzled)
                new[node] = UOp(Op.STAGED, (new[node], *tile), argument)
                _check_copies(new[node])
                staged += 1
        if not staged:
            raise SplitError(f"cannot stage operand {self.operand} at {name(r)}: it has no tile")
        return replace(n, body=new[n.body], opts=(*n.opts, self))


def _check_copies(staged: UOp) -> None:
    """Raise if the elements of a tile do not lie as its copies want them."""
    count = copied_elements(staged)
    operand = staged.src[0].src[0].arg.index
    if staged.arg.stages > 1 and not count:
        raise SplitError(f"operand {operand} cannot be copied asynchronously")
    if staged.arg.swizzled:
        axes, itemsize = row_axes(tile_axes(staged)), staged.dtype.itemsize
        row_bytes = prod(r.arg.size for r in axes) * itemsize
        along_sum = axes[-1].arg.place not in TILED_PLACES
        fits = row_bytes == SWIZZLE_BYTES and count * itemsize == 16 and not staged.arg.pad
        if not fits or not (along_sum or itemsize == 2):
            raise SplitError(
                f"operand {operand} cannot be swizzled",
                got=f"rows of {row_bytes} bytes, copied {count} elements at once",
                hint="rows of 128 bytes, of which 16 are adjacent in the operand; those of float32 "
                "are along the sum",
            )


@frozen
class ShareScan:
    """Shares a loop that carries a reduction among the threads of a group::

        for r in N: c = c + x[r]; y[r] = c

        ->  for a in ceil(N / (elements * threads)):  local t in threads:  for e in elements:
                y[..] = c + (those of the threads before t) + x[(a * elements + e) * threads + t]

    See `codegen.group_scan`.
    """

    loop: int
    elements: int
    threads: int

    def apply(self, n: Nest) -> Nest:
        """The nest with the loop shared.

        Raises:
            SplitError: if it carries anything else, or other loops have threads; or if the threads
                are no power of two.
        """
        r = n.loop(self.loop)
        node = next((u for u in n.body.src if u.op is Op.RECUR and u.src[0] is r), None)
        is_alone = len(n.body.src) == 1 and not any(s.arg.place is Place.LOCAL for s in n.loops)
        if node is None or monoid(node) is None or not is_alone or node.arg.threads > 1:
            raise SplitError(f"cannot share {name(r)}: it is no loop that carries one reduction")
        if self.threads < 2 or self.threads & (self.threads - 1) or self.elements < 1:
            raise SplitError(
                f"cannot share {name(r)} among {self.threads} threads", hint="take a power of two"
            )
        arg = replace(node.arg, threads=self.threads, elements=self.elements)
        body = UOp(Op.SINK, (UOp(Op.RECUR, node.src, arg),), n.body.arg)
        return replace(n, body=body, opts=(*n.opts, self))


def monoid(node: UOp) -> tuple[Op, UOp, UOp] | None:
    """The op of the one reduction that a RECUR carries, its CARRY and what is added; None else."""
    if node.arg.carried != 1 or node.arg.conditional:
        return None
    following = node.src[2]
    if following.op not in MONOIDS:
        return None
    for carry, value in (following.src, following.src[::-1]):
        is_carry = carry.op is Op.CARRY and carry.src[0] is node.src[0]
        if is_carry and not any(u.op is Op.CARRY for u in walk([value])):
            return following.op, carry, value
    return None


@frozen
class WarpProduct:
    """Puts a contraction on the matrix unit of warps::

        for i: for j: sum(a[i, k] * b[k, j] for k)

        ->  for a: upcast h in 2: local g in 8:  for b: local t in 4: upcast q in 2:
              sum(a[16 * a + 8 * h + g, k] * b[k, 8 * b + 2 * t + q]
                  for c: for u in 16 at once:  k = 16 * c + u)

    A thread of a warp has four sums, at the coordinates that the unit gives it; see
    `trace.argument.WarpMma`.  The new loops have the eight highest numbers, in this order.

    Attributes:
        outer, inner: the loops over rows and columns.
        loop: that of the reduction.
        depth: elements along the sum that the unit takes at once.
    """

    outer: int
    inner: int
    loop: int
    depth: int

    def apply(self, n: Nest) -> Nest:
        """The nest with the loops split as the unit wants them.

        Raises:
            SplitError: if they cannot be split, or the unit's sizes do not divide theirs.
        """
        rows, columns, sums = map(n.loop, (self.outer, self.inner, self.loop))
        sizes = (rows, 16), (columns, 8), (sums, self.depth)
        fold = next((f for f in folds(n.body) if sums in f.src[1:]), None)
        if fold is None or not all(is_whole(n, r) and r.arg.size % k == 0 for r, k in sizes):
            raise SplitError(
                f"cannot put {name(rows)}, {name(columns)}, {name(sums)} on the unit of a warp",
                got=", ".join(f"{r.arg.size} for {k}" for r, k in sizes),
                hint="its sizes have to divide those of the loops",
            )
        first = fresh_number(n.body)
        shapes = (
            *((rows.arg.size // 16, Place.LOOP), (2, Place.UPCAST), (8, Place.LOCAL)),
            *((columns.arg.size // 8, Place.LOOP), (4, Place.LOCAL), (2, Place.UPCAST)),
            *((sums.arg.size // self.depth, Place.LOOP), (self.depth, Place.UNIT)),
        )
        a, h, g, b, t, q, c, u = (
            UOp(Op.RANGE, (), Range(first + i, size, place))
            for i, (size, place) in enumerate(shapes)
        )
        values = {
            rows: a * 16 + h * 8 + g,
            columns: b * 8 + t * 2 + q,
            sums: c * self.depth + u,
        }
        loops = {rows: (a, h, g), columns: (b, t, q), sums: (c, u)}
        return substituted(n, values, loops, self)


def warp_ranges(unit: UOp, ranges: Iterable[UOp]) -> tuple[UOp, UOp, UOp, UOp]:
    """The ranges h, g, t and q of a `WarpProduct`, by that of its unit, among those around it."""
    by_number = {r.arg.number - unit.arg.number: r for r in ranges}
    return by_number[-6], by_number[-5], by_number[-3], by_number[-2]


TILED_PLACES = frozenset({Place.LOCAL, Place.UPCAST})
"""The places of ranges around a reduction that are within a tile of a group of threads."""


def operands(fold: UOp) -> tuple[UOp, UOp]:
    """The factors of a product before they were widened."""
    x, y = (s.src[0] if s.op is Op.CAST else s for s in fold.src[0].src)
    return x, y


def tile_axes(node: UOp) -> list[UOp]:
    """The ranges of a tile as they are in local memory: those of long strides first.

    In a swizzled tile the rest of what is adjacent in the operand is first: it counts boxes.
    """
    strides, _ = affine(node.src[0].src[1])
    axes = sorted(node.src[1:], key=lambda r: -abs(strides.get(r, 0)))
    if not node.arg.swizzled:
        return axes
    row, size = row_axes(axes), SWIZZLE_BYTES // node.dtype.itemsize
    inside: list[UOp] = []
    while prod(r.arg.size for r in inside) < size and len(inside) < len(row):
        inside.insert(0, row[-1 - len(inside)])
    boxes = row[: len(row) - len(inside)]
    return [*boxes, *(r for r in axes if r not in row), *inside]


def row_axes(axes: Sequence[UOp]) -> list[UOp]:
    """The last axes of a tile, which are its rows: all of the sum, or none of it.

    Of a swizzled tile, its boxes are not among them.
    """
    row: list[UOp] = []
    is_of_sum = axes[-1].arg.place not in TILED_PLACES
    for r in reversed(axes):
        if (r.arg.place not in TILED_PLACES) is not is_of_sum:
            break
        row.insert(0, r)
    return row


def padded_size(staged: UOp) -> int:
    """The elements of a tile with those between its rows."""
    axes = tile_axes(staged)
    row = prod(r.arg.size for r in row_axes(axes))
    return int(prod(r.arg.size for r in axes) // row * (row + staged.arg.pad))


def copied_elements(staged: UOp) -> int:
    """The elements of a tile that one asynchronous copy of a thread brings; 0 if it cannot.

    They are adjacent in the operand and in the tile, and begin at a multiple of their bytes in
    both.  No bound and no condition may be within them; so far, none may be on the load at all.
    """
    load, itemsize = staged.src[0], staged.dtype.itemsize
    axes, buffer = tile_axes(staged), load.src[0]
    strides, offset = affine(load.src[1])
    ranges = [r for r in walk([load]) if r.op is Op.RANGE]
    if len(load.src) > 2 or any(r.src for r in ranges):
        return 0
    run = 1  # elements that lie in the operand as they do in the tile
    for r in reversed(axes):
        if strides.get(r) != run:
            break
        run *= r.arg.size
        del strides[r]
    row = prod(r.arg.size for r in row_axes(axes)) + staged.arg.pad
    places = [run, row, offset, prod(buffer.shape), *strides.values()]
    counts = (size // itemsize for size in COPY_BYTES)
    return next((n for n in counts if n and all(k % n == 0 for k in places)), 0)


def unit_dtype(fold: UOp) -> str:
    """The dtype of the factors of a contraction, if a unit may multiply them; empty if not.

    Products of two elements of 16 bits, or of float32 rounded to tf32, are exact in float32, and
    sums are of 32 bits: so a unit differs from other code in the order of additions alone.
    """
    x, y = fold.src[0].src
    if fold.arg.tf32:
        return FLOAT32.name if x.dtype == y.dtype == fold.dtype == FLOAT32 else ""
    if x.op is not Op.CAST or y.op is not Op.CAST:
        return ""
    a, b = x.src[0].dtype, y.src[0].dtype
    wide = "int32" if a.name == "int8" else FLOAT32.name
    return a.name if a == b and fold.dtype.name == wide else ""
