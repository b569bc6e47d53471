"""Matrix units: what one instruction of the target multiplies, and contractions put on them::

    for i: for j: sum over r of a[i * K + r] * b[(j // W * K / 2 + r // 2) * 2 * W + ...]
    ->  blocks of 32 x 32 sums; along r 32 at once

Operands are where `prepare` has put them, or else they are multiplied by vectors.  The units take
numbers below 2**-126 for zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfn._support.frozen import frozen
from tfn.dtypes import BFLOAT16, FLOAT32, FLOATS, INT32, DType, int8, int16, uint8
from tfn.lower.index.affine import Terms, affine
from tfn.lower.loops import loop_nest
from tfn.lower.loops.cost_model import Model, model_of
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Split, Tile
from tfn.lower.target.target import Target
from tfn.trace import matrix_tiles
from tfn.trace.argument import Place
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


@frozen
class Unit:
    """An instruction that adds ``a[rows, depth] @ b[depth, columns]`` to sums of 32 bits.

    With one row it is one of vectors, which adds products of neighbours.  With more, operands and
    sums are matrices in registers of their own.

    Attributes:
        dtype: of the operands.
        rows, columns, depth: how many it takes at once.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int

    @property
    def together(self) -> int:
        """How many neighbours along the sum lie side by side in `b`."""
        return matrix_tiles.together(self.dtype.itemsize)

    @property
    def whole(self) -> bool:
        """Whether it multiplies matrices."""
        return self.rows > 1

    def fits(self, rows: int, columns: int, depth: int) -> bool:
        """Whether a product fills it once, and its sums consist of whole groups of neighbours."""
        large = rows >= self.rows and columns >= self.columns and depth >= self.depth
        return large and depth % self.together == 0

    def block(self, rows: int, columns: int) -> tuple[int, int]:
        """How many matrices of sums below and beside each other are open at once.

        Each that is loaded is multiplied twice, and eight registers hold four sums and what is
        multiplied.
        """
        return min(2, -(-rows // self.rows)), min(2, -(-columns // self.columns))


def units(target: Target, dtype: DType) -> Iterator[Unit]:
    """The units of a target that multiply a dtype, larger ones first.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: TDPBF16PS,
    TDPBSSD, TDPBUUD, VDPBF16PS and VPDPWSSD.
    """
    features = target.features.split(",")
    bits = 8 * dtype.itemsize
    if Op.MMA not in target.lacks and _TILES.get(dtype) in features:
        yield Unit(dtype, 16, 16, 512 // bits)
    if target.vector_bytes == 64 and _PAIRS.get(dtype) in features:
        yield Unit(dtype, 1, 16, 2)


_TILES = {BFLOAT16: "+amx-bf16", int8.dtype: "+amx-int8", uint8.dtype: "+amx-int8"}
_PAIRS = {BFLOAT16: "+avx512bf16", int16.dtype: "+avx512vnni"}


def on_unit(n: Nest, fold: UOp, target: Target) -> tuple[Nest, UOp] | None:
    """The nest with its reduction on the largest unit that can do it, and its vector axis."""
    loads = [s.src[0] if s.op is Op.CAST else s for s in fold.src[0].src]
    if any(u.op is not Op.LOAD or len(u.src) > 2 or u.dtype != loads[0].dtype for u in loads):
        return None
    if fold.dtype != (FLOAT32 if loads[0].dtype in FLOATS else INT32):
        return None
    for unit in units(target, loads[0].dtype):
        for r in fold.src[1:]:
            if r.arg.size % unit.together == 0:
                made = (_matrices if unit.whole else _neighbours)(n, r, unit, target)
                if made is not None:
                    return made
    return None


def _neighbours(n: Nest, r: UOp, unit: Unit, target: Target) -> tuple[Nest, UOp] | None:
    """With vectors of neighbours.

    Along the reduction both operands step by one; along the vector axis one of them steps by two,
    from pair to pair, and the other stands still.
    """
    made = Split(r.arg.number, unit.depth, Place.UNIT).apply(n)
    neighbour = made.newest(2)[1]
    made = loop_nest.simplified(made)
    model = model_of(made, target)
    both = _both(model, neighbour)
    if len(both) != 2 or any(model.stride(*one, neighbour) != 1 for one in both):
        return None
    for lane in made.loops:
        steps = sorted(model.stride(*one, lane) for one in both)
        if steps == [0, unit.together]:
            return made, lane
    return None


def _both(model: Model, r: UOp) -> list[tuple[UOp, Terms]]:
    """What is loaded along a range."""
    return [(u, t) for u, t, _ in model.access if u.op is Op.LOAD and r in model.depends[u]]


class _Block(NamedTuple):
    """What a unit takes at once: rows of one operand, columns of the other."""

    rows: UOp
    columns: UOp


def _matrices(n: Nest, r: UOp, unit: Unit, target: Target) -> tuple[Nest, UOp] | None:
    """With whole matrices: the vector axis is then the loop over blocks of columns."""
    if len(loop_nest.folds(n.body)) > 1 or loop_nest.in_order(n.body):
        return None
    made = Split(r.arg.number, unit.depth, Place.UNIT).apply(n)
    q = made.newest(2)[1]
    made = loop_nest.simplified(made)
    model = model_of(made, target)
    both = _both(model, q)
    block = None
    for a, b in (both, both[::-1]) if len(both) == 2 else ():
        block = block or _block(model, a, b, q, unit)
    if block is None or not unit.fits(block.rows.arg.size, block.columns.arg.size, r.arg.size):
        return None
    height, width = unit.block(block.rows.arg.size, block.columns.arg.size)
    made = Tile(block.rows.arg.number, height, unit.rows, Place.UNIT).apply(made)
    made = Tile(block.columns.arg.number, width, unit.columns).apply(made)
    blocks = made.newest(3)[0].arg.number
    made = loop_nest.simplified(made)
    return made, made.loop(blocks)


def _block(
    model: Model, a: tuple[UOp, Terms], b: tuple[UOp, Terms], q: UOp, unit: Unit
) -> _Block | None:
    """The rows and columns along which two operands lie as a unit wants them, if they do."""
    loops, depends = model.nest.loops, model.depends
    if not (_plain(a[1], q) and a[1][q] == 1 and _grouped(b[1], q, unit)):
        return None
    rows = [
        r for r in loops if _plain(a[1], r) and r not in depends[b[0]] and r.arg.size >= unit.rows
    ]
    columns = [
        c
        for c in loops
        if c not in depends[a[0]]
        and model.stride(*b, c) == unit.together
        and _aligned(b[0], q, c, unit)
    ]
    if not rows or not columns:
        return None
    return _Block(min(rows, key=lambda r: abs(a[1][r])), columns[0])


def _plain(terms: Terms, r: UOp) -> bool:
    """Whether an address steps along a range by one length everywhere."""
    return r in terms and not any(t is not r and r in walk([t]) for t in terms)


def _grouped(terms: Terms, q: UOp, unit: Unit) -> bool:
    """Whether neighbours along a range lie together in groups."""
    steps = {t.op: k for t, k in terms.items() if q in t.src and _by(t, unit.together)}
    others = [t for t in terms if q in walk([t]) and not (q in t.src and _by(t, unit.together))]
    return set(steps) == {Op.FLOORDIV, Op.MOD} and steps[Op.MOD] == 1 and not others


def _by(t: UOp, n: int) -> bool:
    """Whether a term divides by a number."""
    divides = t.op in (Op.FLOORDIV, Op.MOD) and t.src[1].op is Op.CONST
    return divides and int(t.src[1].arg.value) == n


def _aligned(load: UOp, q: UOp, columns: UOp, unit: Unit) -> bool:
    """Whether a row of as many columns as the unit takes is in memory as a whole wherever one of
    them is: memory consists of such rows.
    """
    step = unit.columns * unit.together
    terms, constant = affine(load.src[1])
    for t, k in terms.items():
        inside = t is columns or (t.op is Op.MOD and t.src[0] in (columns, q))
        if t.op is Op.MOD and t.src[0] is columns and int(t.src[1].arg.value) % unit.columns:
            return False
        if not inside and k % step:
            return False
    return constant % step == 0 and count(load.src[0].shape) % step == 0
