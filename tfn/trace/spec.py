"""Graph verifier: the ops that are legal at each stage of the compiler, and their forms.

Tests run `check` after every pass, so that a pass which leaves an illegal node is named at once.

    JAXPR    arrays: what tracing and transforms make
    KERNELS  the same, cut by numbered barriers
    RANGES   scalars over ranges: loads, stores, reductions
    SPLIT    the same, with ranges split and given a place
    LINEAR   a list in order: loops, vectors, loads and stores at offsets, barriers of a group
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

from tfn.dtypes import BOOL, COMPLEXES, INT64
from tfn.trace.argument import Access, Fold, Place, Range
from tfn.trace.grid_argument import COPY_BYTES, Copy, Fragment, GroupMma, LocalMemory, Staged
from tfn.trace.matrix_tiles import Tile
from tfn.trace.op import ELEMENTWISE, MANUAL, MOVEMENT, PARTS, SEVERAL, Op
from tfn.trace.uop import UOp, walk


class Stage(enum.Enum):
    """The levels of the intermediate representation, from arrays to instructions."""

    JAXPR = "jaxpr"
    KERNELS = "kernels"
    RANGES = "ranges"
    SPLIT = "split"
    LINEAR = "linear"


_COMPUTE = ELEMENTWISE - {Op.DETACH} | {Op.CONST, Op.PARAM}

JAXPR_OPS = _COMPUTE | MOVEMENT | PARTS | MANUAL | SEVERAL - {Op.LINEAR}
JAXPR_OPS |= {Op.IOTA, Op.REDUCE, Op.DOT, Op.CONV, Op.FFT, Op.GATHER, Op.SCATTER, Op.GET}
JAXPR_OPS |= {Op.FUNCTION, Op.DETACH, Op.AFTER, Op.GBARRIER}
KERNELS_OPS = JAXPR_OPS - PARTS - MANUAL - {Op.FFT, Op.DETACH, Op.CUSTOM, Op.AFTER}
RANGES_OPS = _COMPUTE | {Op.RANGE, Op.LOAD, Op.STORE, Op.FOLD, Op.CARRY, Op.RECUR, Op.MEMO, Op.SINK}
RANGES_OPS |= {Op.SORT, Op.KERNEL, Op.TUPLE, Op.GET}  # kernels of their own, and pairs to fold
SPLIT_OPS = RANGES_OPS | {Op.STAGED}
LINEAR_OPS = _COMPUTE | {Op.LOAD, Op.STORE, Op.PREFETCH, Op.LOOP, Op.ACCUMULATOR, Op.LEAVE, Op.END}
LINEAR_OPS |= {Op.SPLAT, Op.LANES, Op.SHUFFLE, Op.ACROSS, Op.QUOTIENT, Op.DOT2}
LINEAR_OPS |= {Op.TILE, Op.MMA, Op.SPILL, Op.ROW}
LINEAR_OPS |= {Op.LOCAL_MEMORY, Op.BARRIER, Op.COPY, Op.COPY_GROUP, Op.COPY_WAIT, Op.EXCHANGE}
LINEAR_OPS |= {Op.FRAGMENT, Op.WARP_MMA, Op.GROUP_MMA, Op.GROUP_WAIT}
LINEAR_OPS |= {Op.RANGE}  # the number of a thread

OPS: dict[Stage, frozenset[Op]] = {
    Stage.JAXPR: JAXPR_OPS,
    Stage.KERNELS: KERNELS_OPS,
    Stage.RANGES: RANGES_OPS,
    Stage.SPLIT: SPLIT_OPS,
    Stage.LINEAR: LINEAR_OPS,
}
"""The ops that may appear at each stage."""


MEMORY = frozenset({Op.PARAM, Op.LOCAL_MEMORY})
"""Nodes that a load or a store has an address in."""


def _numbered(u: UOp) -> bool:
    return isinstance(u.arg, int) and u.arg >= 0


def _address(u: UOp) -> bool:
    return u.src[0].op in MEMORY and u.src[1].dtype == INT64


def _are_predicates(nodes: Iterable[UOp]) -> bool:
    return all(u.dtype == BOOL for u in nodes)


def _load(u: UOp) -> bool:
    return u.arg is None and _address(u) and _are_predicates(u.src[2:3])


def _store(u: UOp) -> bool:
    fits = u.src[2].dtype == u.src[0].dtype
    return _address(u) and fits and _are_predicates(u.src[3:])


def _fold(u: UOp) -> bool:
    pairs = u.src[0].op is Op.TUPLE
    ranges = all(r.op is Op.RANGE for r in u.src[1:])
    return isinstance(u.arg, Fold) and pairs == (u.arg.index is not None) and ranges


def _memo(u: UOp) -> bool:
    """A value, an address in a result of its dtype, and the reduction that has kept it if any."""
    fits = u.src[1].op is Op.PARAM and u.src[1].dtype == u.dtype and u.src[2].dtype == INT64
    return fits and all(s.op is Op.FOLD for s in u.src[3:]) and len(u.src) in (3, 4)


def _whole_range(u: UOp) -> bool:
    return isinstance(u.arg, Range) and u.arg.size > 1 and not u.src and u.arg.place is Place.LOOP


def _range(u: UOp) -> bool:
    return isinstance(u.arg, Range) and u.arg.size > 0 and len(u.src) <= 1


def _staged(u: UOp) -> bool:
    """A load, and the ranges of its tile, all of which its address depends on."""
    ranges = u.src[1:]
    inside = set(walk(u.src[0].src[1:2]))
    is_tile = bool(ranges) and all(r.op is Op.RANGE and r in inside for r in ranges)
    return isinstance(u.arg, Staged) and u.src[0].op is Op.LOAD and is_tile


def _thread(u: UOp) -> bool:
    return isinstance(u.arg, Range) and u.arg.place is Place.LOCAL and not u.src


def _local_memory(u: UOp) -> bool:
    return isinstance(u.arg, LocalMemory) and not u.src and u.arg.shape > (0,)


def _barrier(u: UOp) -> bool:
    return isinstance(u.arg, int) and not u.src


def _copy(u: UOp) -> bool:
    """Addresses in local memory and in an operand of its dtype; a predicate if there is one."""
    memory, buffer = u.src[0], u.src[2]
    fits = memory.op is Op.LOCAL_MEMORY and buffer.op is Op.PARAM and memory.dtype == buffer.dtype
    return fits and isinstance(u.arg, Copy) and u.arg.count * memory.dtype.itemsize in COPY_BYTES


def _exchange(u: UOp) -> bool:
    return u.arg in (1, 2, 4, 8, 16) and not u.src[0].shape


def _fragment(u: UOp) -> bool:
    """An address in local memory; elements of 16 bits alone are transposed."""
    itemsize = u.dtype.itemsize
    fits = itemsize == 2 or (itemsize in (1, 4) and not u.arg.transposed)
    return _address(u) and u.src[0].op is Op.LOCAL_MEMORY and isinstance(u.arg, Fragment) and fits


def _warp_mma(u: UOp) -> bool:
    """Elements of two operands, and four sums of 32 bits, as `WarpMma` lists them."""
    operands, sums = u.src[:-4], u.src[-4:]
    fits = len(operands) == 6 * u.arg.together and all(s.dtype == u.arg.dtype for s in operands)
    return fits and all(s.dtype == u.dtype and s.dtype.itemsize == 4 for s in sums)


def _group_mma(u: UOp) -> bool:
    """Two places in local memory, and the sums of a thread."""
    a, _, b, _, *sums = u.src
    are_places = a.op is Op.LOCAL_MEMORY and b.op is Op.LOCAL_MEMORY and a.dtype == b.dtype
    fits = isinstance(u.arg, GroupMma) and len(sums) == u.arg.columns // 2
    return are_places and fits and all(s.dtype == u.dtype for s in sums)


def _sink(u: UOp) -> bool:
    return all(s.op in (Op.STORE, Op.RECUR) for s in u.src)


def _access(u: UOp) -> bool:
    return _address(u) and isinstance(u.arg, Access)


def _tile(u: UOp) -> bool:
    return _address(u) and isinstance(u.arg, Tile)


def _accumulator(u: UOp) -> bool:
    return u.src[0].op is Op.LOOP


_OVER_RANGES: dict[Op, Callable[[UOp], bool]] = {
    Op.LOAD: _load,
    Op.STORE: _store,
    Op.FOLD: _fold,
    Op.MEMO: _memo,
    Op.SINK: _sink,
}
FORMS: dict[Stage, dict[Op, Callable[[UOp], bool]]] = {
    Stage.JAXPR: {},
    Stage.KERNELS: {Op.GBARRIER: _numbered},
    Stage.RANGES: {**_OVER_RANGES, Op.RANGE: _whole_range},
    Stage.SPLIT: {**_OVER_RANGES, Op.RANGE: _range, Op.STAGED: _staged},
    Stage.LINEAR: {
        Op.LOAD: _access,
        Op.STORE: _access,
        Op.PREFETCH: _access,
        Op.TILE: _tile,
        Op.ACCUMULATOR: _accumulator,
        Op.RANGE: _thread,
        Op.LOCAL_MEMORY: _local_memory,
        Op.BARRIER: _barrier,
        Op.COPY: _copy,
        Op.COPY_GROUP: _barrier,
        Op.COPY_WAIT: _barrier,
        Op.EXCHANGE: _exchange,
        Op.FRAGMENT: _fragment,
        Op.WARP_MMA: _warp_mma,
        Op.GROUP_MMA: _group_mma,
        Op.GROUP_WAIT: lambda u: isinstance(u.arg, int) and u.arg < len(u.src),
    },
}
"""Conditions on the nodes of an op at a stage, beside the op being legal there."""


def check(roots: Iterable[UOp], stage: Stage) -> None:
    """Raise if a graph is not legal at a stage.

    Raises:
        AssertionError: naming the offending node.

    Example:
        >>> from tfn.trace.argument import Param
        >>> from tfn.dtypes import FLOAT32
        >>> check([UOp(Op.PARAM, (), Param(0, (3,), FLOAT32)) * 2.0], Stage.JAXPR)
    """
    ops, forms = OPS[stage], FORMS[stage]
    roots = list(roots)
    for node in walk(roots):
        if node.op is Op.FUNCTION and node not in roots:
            check(node.src, stage)
        if node.op not in ops:
            raise AssertionError(f"{node.op.name} is not legal at stage {stage.name}: {node}")
        if node.dtype in COMPLEXES and stage is not Stage.JAXPR:
            raise AssertionError(f"{node} is complex at stage {stage.name}")
        form = forms.get(node.op)
        if form is not None and not form(node):
            raise AssertionError(f"{node} is malformed at stage {stage.name}: {list(node.src)}")
