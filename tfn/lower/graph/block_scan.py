"""Scans of associative functions where their lines lie, in blocks for machines of many threads.

A scan is a loop: each line of elements takes one thread, or on a grid a group.  Where lines are few
they are cut into blocks, which are scanned at the same time after what precedes them is known.
Before -> after, on sums::

    1 2 3 4 5 6 7  ->  1 2 3 | 4 5 6 | 7     blocks
                   ->  6, 15                 the totals of all but the last
                   ->  6, 21                 the scan of these: in blocks again, if they are many
                   ->  1 3 6 | 10 15 21 | 28 a scan of each block from there on

Each step is a kernel over ranges that reads and writes lines where they lie in memory, along
whatever axis, so that nothing is transposed.  A processor runs one such kernel, of whole lines.
Totals of a monoid are a reduction, and its blocks are long enough for a group of threads each
(`codegen.group_scan`); those of another function are scanned by a thread each, twice.

Source: Blelloch 1990, "Prefix sums and their applications".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from tfn._support.frozen import frozen
from tfn.dtypes import INT64, DType
from tfn.lower.target.register_tile import MAX_LANES_TO_TRANSPOSE
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Carry, CustomKernel, Fold, Param, Range, Recur
from tfn.trace.axes import running_op
from tfn.trace.interpreter import Nest
from tfn.trace.jaxpr import param
from tfn.trace.op import ELEMENTWISE, Op, Shape
from tfn.trace.regions import form
from tfn.trace.uop import UOp, const, rebuild, walk

MAX_LINES = 4096
"""Lines up to which they are cut: more are threads enough, as `grid_heuristics` counts them."""

MAX_NEIGHBOURS_APART = 8
"""Elements from one of a line to the next, below which a group shares the line: a sector of memory
of 32 bytes then has several of them.  Columns further apart are left to threads side by side."""

MIN_GROUP_ELEMENTS = 64
"""Elements of a line from which on a group shares it: two of each thread of a warp."""

GROUP_BLOCK_ELEMENTS = 2048
"""Elements of a block that a group scans: 8 of each of 256 threads, all in flight together."""

MIN_GROUP_BLOCKS = 4
"""Blocks of a group that are worth three kernels instead of one loop of as many turns."""

THREAD_BLOCK_ELEMENTS = 32
"""Elements of a block that a thread scans: the totals of a million elements are scanned in three
more steps, of 32,768, 1,024 and 32, and a thread reads whole sectors of memory."""

MIN_THREAD_ELEMENTS = 128
"""Shorter lines are scanned by a thread, in less time than three kernels take to follow another."""

MIN_SQUARES = 2
"""Squares of a line, as many elements as a vector has lanes, from which on a processor scans lines
where they lie.  Not measured: of fewer, half may be left over for single elements."""

Values = list[UOp]


def scan_in_place(u: UOp, target: Target) -> Values | None:
    """The results of a SCAN that a processor computes where its lines lie; None if it copies."""
    return _scanned(u, lambda line, axis: _spares_copies(line, axis, target), is_cut=False)


def scan_in_blocks(u: UOp, target: Target) -> Values | None:
    """The results of a SCAN as those of its blocks; None if it is not associative, or short."""
    return _scanned(u, lambda line, axis: _is_worth_it(line), is_cut=True)


def _scanned(u: UOp, pays: Callable[[_Lines, int], bool], is_cut: bool) -> Values | None:
    arg, parts = u.arg, form(u)
    firsts, arrays = parts.carries, parts.arrays
    if parts.consts[0] or not _is_associative(u):
        return None
    is_flipped = all(x.op is Op.FLIP and x.arg == (0,) for x in arrays)
    if is_flipped:
        arrays = tuple(x.src[0] for x in arrays)
    axis, reverse = _axis(arrays), arg.reverse is not is_flipped
    line = _Lines.of(u, axis, reverse)
    if line is None:
        return None
    line = replace(line, is_cut=is_cut)
    if not pays(line, axis):
        return None
    results = _prefixes(line, firsts, [_in_memory(x, axis) for x in arrays])
    outs = [build.moveaxis(y, axis, 0) for y in results]
    last = 0 if reverse else arg.length - 1
    ends = [
        build.reshape(_row(y, last), first.shape) for y, first in zip(outs, firsts, strict=True)
    ]
    return [*ends, *(build.flip(y, (0,) if is_flipped else ()) for y in outs)]


def scan_after_first(u: UOp, target: Target) -> tuple[Values, dict[tuple[UOp, UOp], UOp]] | None:
    """The results of a SCAN of all rows but the first, which a processor writes behind that::

        x[0], scan f x[0] x[1:]   ->   y[0] = c = x[0]; for i: c = f(c, x[i + 1]); y[i + 1] = c

    Returns:
        The results, as parts of these arrays; and the arrays themselves, by their first row, of any
        shape, and the others.  None if there are no such arrays.
    """
    arg, parts = u.arg, form(u)
    (body,), firsts, slices = parts.functions, parts.carries, parts.arrays
    n = len(firsts)
    wholes = [x.src[0] for x in slices if x.op is Op.SHRINK and x.arg == _all_but_first(x.src[0])]
    carried = [body.src[:n].index(y) for y in body.src[n:] if y in body.src[:n]]
    if parts.consts[0] or arg.reverse or arg.length < 2 or not 0 < len(wholes) == len(slices):
        return None
    if len(carried) < len(body.src) - n or wholes[0].shape[0] != arg.length + 1:
        return None
    axis = _axis(wholes)
    line = _Lines.of(u, axis, reverse=False)
    if line is None:
        return None
    line = replace(line, size=line.size + 1, is_cut=False)
    if not line.outer * line.inner or (axis and not _spares_copies(line, axis, target)):
        return None
    k = _Kernel(line, 1, line.size - 1)
    shape = _in_memory(wholes[0], axis).shape
    outs = [k.result(shape, line.dtypes[i]) for i in carried]
    xs = k.operands([_in_memory(x, axis) for x in wholes])
    start, index = k.index(const(0, INT64)), k.index(k.r + 1)
    rows = {_row(x, 0): load for x, load in zip(wholes, (UOp(Op.LOAD, (x, start)) for x in xs))}
    begin = [
        rows[c] if (c := unshaped(first)) in rows else k.scalar(first, k.o * line.inner + k.j)
        for first in firsts
    ]
    following = line.combine(k.carries, [UOp(Op.LOAD, (x, index)) for x in xs])
    stores = [UOp(Op.STORE, (out, index, following[i])) for out, i in zip(outs, carried)]
    initial = [UOp(Op.STORE, (out, start, begin[i])) for out, i in zip(outs, carried)]
    recur = UOp(Op.RECUR, (k.r, *begin, *following, *stores), Recur(n, len(outs), False))
    results = [build.moveaxis(y, axis, 0) for y in k.made("prefixes", *initial, recur)]
    later = [build.shrink(y, (1, *(0,) * (y.ndim - 1)), y.shape) for y in results]
    of_carry = dict(zip(carried, results))
    if len(of_carry) < n:  # a last carry that is no prefix is computed by the loop alone
        return None
    ends = [
        build.reshape(_row(of_carry[i], arg.length), first.shape) for i, first in enumerate(firsts)
    ]
    rows_at = {(unshaped(firsts[i]), y): whole for i, y, whole in zip(carried, later, results)}
    return [*ends, *later], rows_at


def _all_but_first(x: UOp) -> object:
    """The argument of a SHRINK to all rows but the first."""
    return build.shrink(x, (1, *(0,) * (x.ndim - 1)), x.shape).arg if x.shape[0] > 1 else None


def unshaped(x: UOp) -> UOp:
    """A value before it was reshaped, whose elements are in the same order."""
    while x.op is Op.RESHAPE:
        x = x.src[0]
    return x


def _is_worth_it(line: _Lines) -> bool:
    lines = line.outer * line.inner
    if not lines:
        return False
    if line.by_group:
        return line.size >= MIN_GROUP_ELEMENTS
    if lines > MAX_LINES:  # a loop around slices would have another axis transposed, there and back
        return line.inner >= MAX_NEIGHBOURS_APART
    return line.size > MIN_THREAD_ELEMENTS


def _spares_copies(line: _Lines, axis: int, target: Target) -> bool:
    """Whether a processor scans lines where they lie, instead of copies with the axis in front.

    By vectors along neighbouring lines, or in squares that are transposed in registers.
    """
    lanes = target.vector_bytes // max(target.lane_bytes, *(d.itemsize for d in line.dtypes))
    if not axis or not line.outer or line.size < MIN_SQUARES * lanes:
        return False
    return line.inner >= lanes or (line.inner == 1 and 1 < lanes <= MAX_LANES_TO_TRANSPOSE)


def monoid(u: UOp) -> Op | None:
    """The op of a SCAN that carries the reduction of its one array; None for other scans."""
    return running_op(u) if len(u.src[0].src) == 2 else None


def _is_associative(u: UOp) -> bool:
    """Whether a body combines carries with as many slices of their types, and gives them twice."""
    body, n = u.src[0], len(form(u).carries)
    if not n or len(body.arg.params) != 2 * n or body.src[:n] != body.src[n:]:
        return False
    types = [(q.shape, q.dtype) for q in body.arg.params]
    return (u.arg.associative or monoid(u) is not None) and types[:n] == types[n:]


# Lines where they lie in memory.


def _axis(arrays: Sequence[UOp]) -> int:
    """The axis along which arrays are scanned before it is moved to the front; 0 if they differ."""
    axes = {_moved_from(x) for x in arrays}
    return axes.pop() if len(axes) == 1 else 0


def _moved_from(x: UOp) -> int:
    if x.op is not Op.PERMUTE:
        return 0
    axis, *others = x.arg
    return int(axis) if others == sorted(others) else 0


def _in_memory(x: UOp, axis: int) -> UOp:
    """An array before its axis was moved to the front."""
    return x.src[0] if axis else x


def _row(y: UOp, i: int) -> UOp:
    return build.shrink(y, (i, *(0,) * (y.ndim - 1)), (i + 1, *y.shape[1:]))


@frozen
class _Lines:
    """The lines of a scan: element `i` of line (o, j) is at ``(o * size + i) * inner + j``.

    Attributes:
        body: a pointwise function (carries, slices) -> (carries, carries).
        op: the monoid that it is, or None.
        dtypes: of the carries.
        outer, size, inner: lines before and after the axis, and elements along it.
        reverse: whether the last element comes first.
        is_cut: whether lines are cut into blocks.
    """

    body: UOp
    op: Op | None
    dtypes: tuple[DType, ...]
    outer: int
    size: int
    inner: int
    reverse: bool
    is_cut: bool = True

    @staticmethod
    def of(u: UOp, axis: int, reverse: bool) -> _Lines | None:
        """The lines of a SCAN along an axis; None unless its body is pointwise."""
        body, n = u.src[0], len(form(u).carries)
        shape = body.arg.params[0].shape
        if any(q.shape != shape for q in body.arg.params) or not _is_pointwise(body, shape):
            return None
        dtypes = tuple(q.dtype for q in body.arg.params[:n])
        sizes = prod(shape[:axis]), u.arg.length, prod(shape[axis:])
        return _Lines(body, monoid(u), dtypes, *sizes, reverse)

    @property
    def by_group(self) -> bool:
        """Whether a group of threads shares a line."""
        return self.op is not None and self.inner < MAX_NEIGHBOURS_APART

    @property
    def block(self) -> int:
        """The elements of a block: all of a line that is not cut."""
        if not self.is_cut or self.outer * self.inner > MAX_LINES:
            return self.size
        if self.by_group:
            is_long = self.size > MIN_GROUP_BLOCKS * GROUP_BLOCK_ELEMENTS
            return GROUP_BLOCK_ELEMENTS if is_long else self.size
        return THREAD_BLOCK_ELEMENTS if self.size > MIN_THREAD_ELEMENTS else self.size

    def combine(self, carries: Sequence[UOp], slices: Sequence[UOp]) -> Values:
        """The body on scalars."""
        params = map(param, self.body.arg.params)
        new: dict[UOp, UOp] = dict(zip(params, [*carries, *slices], strict=True))
        for node in walk(self.body.src):
            if node not in new:
                value = _constant(node)
                if value is not None:
                    new[node] = const(value.arg.value, value.dtype)
                else:
                    new[node] = rebuild(node, tuple(new[s] for s in node.src))
        return [new[s] for s in self.body.src[: len(carries)]]


def _is_pointwise(body: UOp, shape: Shape) -> bool:
    return all(
        node.op is Op.PARAM
        or _constant(node) is not None
        or (node.op in ELEMENTWISE and node.shape == shape)
        for node in walk(body.src)
    )


def _constant(node: UOp) -> UOp | None:
    """The constant that a value repeats."""
    while node.op in (Op.EXPAND, Op.RESHAPE):
        node = node.src[0]
    return node if node.op is Op.CONST else None


# Kernels.


def _prefixes(line: _Lines, firsts: Sequence[UOp], arrays: Sequence[UOp]) -> Values:
    """All prefixes, in the shape of the arrays, of lines that begin with `firsts`."""
    blocks = -(-line.size // line.block)
    before: Values = []
    if blocks > 1:
        totals = _totals(line, blocks - 1, arrays)
        short = _Lines(
            line.body, line.op, line.dtypes, line.outer, blocks - 1, line.inner, reverse=False
        )
        before = _prefixes(short, firsts, totals)
    k = _Kernel(line, blocks, line.block)
    outs = [k.result(x.shape, dtype) for x, dtype in zip(arrays, line.dtypes, strict=True)]
    xs, totals = k.operands(arrays), k.operands(before)
    begin = [k.scalar(first, k.o * line.inner + k.j) for first in firsts]
    if blocks > 1:
        has_before = const(0, INT64) < k.b
        place = (k.o * (blocks - 1) + (k.b - 1)) * line.inner + k.j
        loads = (UOp(Op.LOAD, (total, place, has_before)) for total in totals)
        begin = [build.where(has_before, x, y) for x, y in zip(loads, begin, strict=True)]
    position = k.b * line.block + k.r
    inside = None if blocks * line.block == line.size else position < line.size
    index, predicate = k.index(position), () if inside is None else (inside,)
    carries = k.carries if k.r.op is Op.RANGE else begin
    following = line.combine(carries, [UOp(Op.LOAD, (x, index, *predicate)) for x in xs])
    stores = [
        UOp(Op.STORE, (out, index, value, *predicate))
        for out, value in zip(outs, following, strict=True)
    ]
    if k.r.op is not Op.RANGE:  # one element of each line
        return k.made("prefixes", *stores)
    arg = Recur(len(xs), len(xs), conditional=False)
    return k.made("prefixes", UOp(Op.RECUR, (k.r, *begin, *following, *stores), arg))


def _totals(line: _Lines, blocks: int, arrays: Sequence[UOp]) -> Values:
    """The reductions of the first blocks, which are whole: arrays [outer, blocks, inner]."""
    k = _Kernel(line, blocks, line.block if line.op is not None else line.block - 1)
    outs = [k.result((line.outer, blocks, line.inner), dtype) for dtype in line.dtypes]
    xs = k.operands(arrays)
    place, start = (k.o * blocks + k.b) * line.inner + k.j, k.b * line.block
    if line.op is not None:
        value = UOp(Op.LOAD, (xs[0], k.index(start + k.r)))
        fold = UOp(Op.FOLD, (value, k.r), Fold(line.op))
        return k.made("totals", UOp(Op.STORE, (outs[0], place, fold)))
    begin = [UOp(Op.LOAD, (x, k.index(start))) for x in xs]
    slices = [UOp(Op.LOAD, (x, k.index(start + (k.r + 1)))) for x in xs]
    following = line.combine(k.carries, slices)
    stores = [
        UOp(Op.STORE, (out, place, carry)) for out, carry in zip(outs, k.carries, strict=True)
    ]
    arg = Recur(len(xs), 0, conditional=False)
    return k.made("totals", UOp(Op.RECUR, (k.r, *begin, *following, *stores), arg))


class _Kernel:
    """A kernel over all blocks of lines that is being written.

    Attributes:
        o, b, j: the ranges of lines before the axis, of blocks, of lines after it.
        r: that of the elements of a block.
        carries: the present values of what the loop over `r` carries.
    """

    def __init__(self, line: _Lines, blocks: int, size: int) -> None:
        self.line = line
        sizes = line.outer, blocks, line.inner, size
        self.o, self.b, self.j, self.r = (_range(i, n) for i, n in enumerate(sizes))
        axes = [x for x in (self.o, self.b, self.j) if x.op is Op.RANGE]
        self.carries = [
            UOp(Op.CARRY, (self.r, *axes), Carry(i, dtype)) for i, dtype in enumerate(line.dtypes)
        ]
        self._results: list[tuple[Shape, DType]] = []
        self._takes: Values = []

    def index(self, position: UOp) -> UOp:
        """The index of an element of the present line."""
        if self.line.reverse:
            position = const(self.line.size - 1, INT64) - position
        return (self.o * self.line.size + position) * self.line.inner + self.j

    def result(self, shape: Shape, dtype: DType) -> UOp:
        """The buffer of a further result; all come before the operands."""
        self._results.append((shape, dtype))
        return UOp(Op.PARAM, (), Param(len(self._results) - 1, (prod(shape),), dtype))

    def operands(self, values: Sequence[UOp]) -> Values:
        """The buffers of further operands: in memory they may have another shape."""
        values = [u if (v := unshaped(u)).op is Op.CONST else v for u in values]
        first = len(self._results) + len(self._takes)
        self._takes += values
        return [
            UOp(Op.PARAM, (), Param(first + i, (x.size,), x.dtype)) for i, x in enumerate(values)
        ]

    def scalar(self, value: UOp, index: UOp) -> UOp:
        """An element of an operand; of a constant, the constant."""
        constant = _constant(value)
        if constant is not None:
            return const(constant.arg.value, value.dtype)
        return UOp(Op.LOAD, (*self.operands([value]), index))

    def made(self, name: str, *statements: UOp) -> Values:
        """The results of the kernel of some statements."""
        sink = UOp(Op.SINK, statements)
        takes = tuple((x.shape, x.dtype) for x in self._takes)
        arg = CustomKernel(name, takes, tuple(self._results), Nest(sink), sink)
        return build.several(UOp(Op.KERNEL, tuple(self._takes), arg))


def _range(number: int, size: int) -> UOp:
    return const(0, INT64) if size == 1 else UOp(Op.RANGE, (), Range(number, size))
