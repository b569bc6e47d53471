"""Operand packing: copies of operands in the order in which a matmul (GEMM) reads them.

A register tile reads W neighbouring columns of the second operand for each term of its sums.  Where
these are not contiguous in memory, or rows lie so far apart that pages and cache sets collide, a
copy costs one pass and is read many times::

    pack_b                 dot a (transpose b)     ->   dot a (barrier (transpose b))
    pack_panels            b: f32[K, N]            ->   view of panels f32[N / W, K, W]
    pack_for_matrix_unit   b: bf16[K, N]           ->   view of panels bf16[N / W, K / 2, W, 2]

A product of a row or two has nothing to reuse: it is a matrix-vector product (`gemv`), which reads
the matrix once, from several streams.

`prepare` applies these, `channels_last`, `conv_padding` and `split_reduction` to a whole function:
all that must be said with arrays, before fusion makes loops of them.

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import lcm, prod
from operator import add

from tfn.dtypes import FLOAT32, FLOATS, INT32, INTEGERS, DType, int8, int16, uint8
from tfn.lower.graph import winograd
from tfn.lower.graph.byte_tables import byte_tables
from tfn.lower.graph.channels_last import channels_last
from tfn.lower.graph.conv_padding import pad_explicitly, polyphase
from tfn.lower.graph.conv_product import as_product
from tfn.lower.graph.few_bins import scatter_as_reduction
from tfn.lower.graph.layout import (
    LINE_BYTES,
    aliases_in_cache,
    is_panel_view,
    pad_rows,
    strides,
    to_panels,
)
from tfn.lower.graph.masked_update import masked_update, users
from tfn.lower.graph.split_reduction import (
    collapse_free,
    collapse_k,
    concat_tree,
    in_order_of_memory,
    split_channels,
    split_k,
    two_pass_reduce,
)
from tfn.lower.graph.unit_operands import rounded, rounded_conv
from tfn.lower.graph.wide_operands import store_second, widened
from tfn.lower.target.matrix_units import MatrixUnit, matrix_units
from tfn.lower.target.register_tile import accumulators, best_tile, cached_vectors, free_registers
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Dot
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op, Shape
from tfn.trace.records import changed
from tfn.trace.uop import UOp, const, mapped, rebuild, walk

GEMV_STREAMS = 4
"""Regions of the matrix that a matrix-vector product reads side by side.

Processors prefetch several streams at once, and one does not use all of the memory's bandwidth.
"""

GEMV_ROWS_PER_STREAM = 4
"""Rows of the matrix that each stream adds up before it touches the sums in the first cache."""

GEMV_MIN_COLUMNS = 256
"""Columns from which on rows are long enough to be streams: 1 KiB of float32."""

GEMV_MAX_OUTPUT_ROWS = 2
"""Rows of the result up to which a product is computed as a matrix-vector product.

With more rows, a register tile reuses what it reads of the matrix.
"""

MIN_ROWS_TO_PACK = 64
"""Rows of a product, which is how often a copy of the second operand is read, for it to pay.

For one row times 32000 x 288 along its rows, a copy took 15.6 ms, no copy 0.9 ms.
"""

MIN_ROWS_TO_PACK_SHALLOW = 8
"""The same for sums shorter than `DEEP_K`: along vectors, each ends in a sum across lanes.

16 products of 9 by 32 with the transpose of 64 by 32 took 31 us along sums, with a copy 11; 8 by 32
with that of 128 by 32 4.5 and 1.9; but of 4 by 32 with 64 by 32 6.6 and 7.3."""

DEEP_K = 128
"""Length of sums from which on their last step, across the lanes of a vector, does not count."""

MIN_WASTED_TERMS = 48
"""Terms of a sum by vectors of pixels that lie outside of the image, from which on vectors run
along features: then results are scattered, which takes as long.

256 features of 14 x 14 pixels by windows of 3 x 3 took 5.1 ms, and with panels 2.7.
"""

MIN_WASTED_ROWS = 16
"""Pixels outside of the image for which each weight is read, from which on a copy of it pays.

512 features of 7 x 7 pixels of 512 channels took 3.8 ms, with a copy 4.3; of every second of
14 x 14 3.8 and 2.2.
"""

MAX_WINDOW_TO_PANEL = 64
"""Elements of a window up to which it is one of weights: that of a gradient is the image."""

STRIDED_LOADS = 1.25
"""The cost of a vector of pixels that are no neighbours in the image, beside that of neighbours."""

MIN_VECTOR_COLUMNS = 16
"""Columns from which on vectors run along them: the lanes of the widest vectors."""

SCATTERED_PITCH_ROWS = 4
"""Distance of the rows of the second operand, in their own length, for a copy to pay.

Such are the rows of one head in an array of all heads: packed, attention's products took half the
time.
"""

MIN_ROWS_TO_PANEL_L2 = 256
"""Rows of a product for panels of a second operand as large as the L2 cache to pay.

Fewer rows do for a larger operand, in proportion: the copy is a pass over it, and each tile of rows
reads it again.
"""

MIN_COLUMNS_TO_PANEL_A = 64
"""Columns, which is how often the first operand is read again, for a copy of it to pay.

A gradient to weights reads its first operand across rows: panels took 512 by 64 sums of 2,048 terms
with Adam from 54 to 77 GFLOP/s, 512 by 128 from 52 to 75, 256 by 768 of 1,024 from 63 to 86, and
100 by 96 of 3,000 nowhere, from 69 to 69.
"""

MIN_COLUMNS_TO_PAD_A = 256
"""The same for a copy of rows that a matrix unit loads, padded so that they fall into different
sets: fewer were not measured."""

MIN_ROWS_OF_BYTES = 4
"""Rows of a product of bytes from which on it multiplies pairs, without a copy in panels.

A product of 32-bit integers takes two instructions, and an addition a third: 5 rows by 1208 by 557
took 101 us, and with a copy of the second operand in pairs 84.
"""

MIN_INDICES = 256
"""Points of a scatter from which on a kernel for their indices pays: 0.1 us."""

MAX_ELEMENTS_OF_INDEX = 4
"""Elements per index up to which computing it counts beside adding them."""

Pack = Callable[[UOp], UOp]
"""Copies operands of a contraction, where that pays."""

BYTE_DTYPES = frozenset({int8.dtype, uint8.dtype})


def convolution(u: UOp, target: Target, pack: Pack | None = None, widen: Pack = lambda u: u) -> UOp:
    """A convolution with padding as it is read, its channels split and its operands packed."""
    wide = widen(u)
    packed = polyphase(wide, lambda c: split_channels(pad_explicitly(c), target, pack or unpacked))
    return build.cast(changed("prepare-convolution", wide, packed), u.dtype)


def _convolution(u: UOp, target: Target) -> UOp:
    if u.arg.tf32:
        u = changed("round-to-tf32", u, rounded_conv(u))
    if _is_product(u, target):
        if winograd.fits(u):
            fewer: UOp = winograd.as_products(u, partial(_product, target=target))
            return build.cast(changed("winograd", u, fewer), u.dtype)
        (product,) = changed("as-product", u, as_product(u)).src
        return build.reshape(_product(product, target), u.shape)
    return convolution(u, target, partial(pack_b, target=target), partial(widened, target=target))


def _is_product(u: UOp, target: Target) -> bool:
    """Whether a matrix unit multiplies the windows of a convolution of integers."""
    arg, (x, w) = u.arg, u.src
    *window, channels, features = w.shape
    taps = build.count(tuple(window)) * (channels + channels % 2)
    sizes = build.count(u.shape[:-1]), features, taps
    whole = arg.groups == arg.batch_groups == 1 and max(arg.dilation_x, default=1) == 1
    exact = x.dtype in INTEGERS and build.accumulator(arg.dtype) == INT32
    few = min(sizes[:2]) < MIN_VECTOR_COLUMNS
    return whole and exact and not few and _unit(x.dtype, sizes, target) is not None


def _product(u: UOp, target: Target) -> UOp:
    """A contraction for a matrix unit, else as a GEMV, else split along its sums and packed."""
    if u.arg.tf32:
        u = changed("round-to-tf32", u, rounded(u))
    is_exact = build.accumulator(u.dtype) not in FLOATS
    packed: UOp = changed("sums-of-products", u, sums_of_products(u))
    if packed is not u:
        return packed
    if is_exact or not target.batch_invariant:
        packed = changed("pack-for-matrix-unit", u, pack_for_matrix_unit(u, target))
    if packed is not u:
        return packed
    return build.cast(_prepare_product(widened(u, target), target), u.dtype)


def sums_of_products(u: UOp) -> UOp:
    """A batch of integer vectors times matrices as sums, which kernels that read them may hold::

    dot[batch b] a[r, b, k] x[b, k]    ->    sum over k of a[r, b, k] * x[b, k]
    """
    arg: Dot = u.arg
    sides = [
        (x, (*batch, *free, *sums), len(free))
        for x, batch, sums in zip(
            u.src, (arg.batch_a, arg.batch_b), (arg.contract_a, arg.contract_b), strict=True
        )
        for free in [[i for i in range(x.ndim) if i not in (*batch, *sums)]]
    ]
    if not arg.batch_a or not arg.contract_a or all(free for *_, free in sides):
        return u
    if u.dtype not in INTEGERS:
        return u
    n, most = len(arg.batch_a), max(free for *_, free in sides)
    factors = []
    for x, order, free in sides:
        moved = build.cast(build.permute(x, order), u.dtype)
        shape = (*moved.shape[:n], *(1,) * (most - free), *moved.shape[n:])
        factors.append(build.reshape(moved, shape))
    whole = (*u.shape, *factors[0].shape[n + most :])
    product = build.broadcast_to(factors[0], whole) * build.broadcast_to(factors[1], whole)
    return build.reduce(product, Op.ADD, range(u.ndim, len(whole)))


def _prepare_product(u: UOp, target: Target) -> UOp:
    """A contraction without a matrix unit."""
    flat = changed("collapse-free-axes", u, collapse_free(u))
    if flat is not u:
        return build.reshape(_prepare_product(flat.src[0], target), u.shape)
    packed: UOp = u
    if not u.arg.contract_a or u.arg.batch_a:
        return _pack(u, target)
    if not target.batch_invariant and _is_gemv(u, target):
        packed = changed("gemv", u, gemv(u))
    else:
        packed = split_k(u, target, lambda dot: _pack(dot, target))
        if packed.op is not Op.DOT:  # else it is only packed, which has been recorded
            changed("split-k", u, packed)
    return packed


def _pack(u: UOp, target: Target) -> UOp:
    """A contraction with its second operand copied, and in panels, where that pays."""
    packed = changed("pack-b", u, pack_b(u, target))
    panels: UOp = changed("pack-panels", packed, pack_panels(packed, target))
    return store_second(panels, target)


def unpacked(u: UOp) -> UOp:
    """The operands where they are."""
    return u


def pack_b(u: UOp, target: Target) -> UOp:
    """The second operand of a contraction, copied so that its free axis has stride one::

        dot[contract (1, 1)] a b    ->    dot[contract (1, 0)] a (barrier (transpose b))

    Vectors run along that axis.  The copy costs a pass over the operand, which pays for many rows;
    for a few, sums along vectors are faster, if they are long.  Where vectors may not run along
    sums, since the target is `batch_invariant`, it always pays.
    """
    if u.op not in (Op.DOT, Op.CONV):
        return u
    a, b = u.src
    if u.op is Op.CONV:
        order = tuple(range(b.ndim))
        rows, columns, depth = build.count(u.shape[:-1]), b.shape[-1], build.count(b.shape[:-1])
    else:
        free = [i for i in range(b.ndim) if i not in u.arg.batch_b + u.arg.contract_b]
        order = (*u.arg.batch_b, *u.arg.contract_b, *free)
        columns = build.count(tuple(b.shape[i] for i in free))
        depth = build.count(tuple(b.shape[i] for i in u.arg.contract_b))
        batch = build.count(tuple(b.shape[i] for i in u.arg.batch_b))
        rows = build.count(u.shape) // max(columns * batch, 1)
    steps = strides(b)
    contiguous = steps is not None and bool(order) and steps[order[-1]] in (0, 1)
    contiguous = contiguous or (order == tuple(range(b.ndim)) and is_panel_view(b))
    # Even without a copy the order is canonical, which the passes after this one rely on.
    b = build.permute(b, order)
    min_rows = MIN_ROWS_TO_PACK if depth >= DEEP_K else MIN_ROWS_TO_PACK_SHALLOW
    min_rows = 1 if target.batch_invariant else min_rows
    if rows >= min_rows and columns >= MIN_VECTOR_COLUMNS and not contiguous:
        b = UOp(Op.GBARRIER, (b,))
    if u.op is Op.CONV:
        return rebuild(u, (a, _window_panels(u, b, target)))
    n, m = len(u.arg.batch_b), len(u.arg.contract_b)
    arg = replace(u.arg, batch_b=tuple(range(n)), contract_b=tuple(range(n, n + m)))
    return UOp(Op.DOT, (a, b), arg)


def _window_panels(u: UOp, w: UOp, target: Target) -> UOp:
    """The weights of a convolution in panels as wide as a register tile, in the image's order::

        w: f32[kh, kw, C, F]   ->   view of (barrier of w as f32[F / W, C, kh, kw, W])

    A tile reads its weights from beginning to end.  In the array they are F apart, often a power of
    two, and evict each other.
    """
    *window, depth, features = w.shape
    steps, n = strides(u.src[0]), w.ndim - 2
    one_group = u.arg.groups * u.arg.batch_groups == 1
    if not one_group or features < MIN_VECTOR_COLUMNS or not u.size or steps is None:
        return w
    by_channels, width = steps[-1] > 1, _panel_width(u, w, steps[-1] > 1, target)
    count = -(-features // max(width, 1))
    # Weights that are read where they are evict nothing if all fit the first cache.
    fits = _before_pack_b(w) is w and w.size * w.dtype.itemsize <= target.l1_bytes
    if not width or fits or (count == 1 and not by_channels):
        return w
    order = (n + 1, *((n, *range(n)) if by_channels else (*range(n), n)), n + 2)
    full = build.pad(_before_pack_b(w), (0,) * w.ndim, (0,) * (n + 1) + (count * width - features,))
    full = build.reshape(full, (*window, depth, count, width))
    panels = UOp(Op.GBARRIER, (build.permute(full, order),))
    view = build.permute(panels, tuple(map(order.index, range(n + 3))))
    view = build.reshape(view, (*window, depth, count * width))
    return build.shrink(view, (0,) * w.ndim, w.shape)


def _panel_width(u: UOp, w: UOp, by_channels: bool, target: Target) -> int:
    """The features of a panel of weights: the columns of a register tile, or its rows where vectors
    run along pixels, which are neighbours in an image `by_channels`; 0 if a copy does not pay."""
    rows, taps = build.count(u.shape[:-1]), build.count(w.shape[:-2])
    if taps > MAX_WINDOW_TO_PANEL:
        return 0
    lanes, is_strided = target.vector_bytes // max(4, w.dtype.itemsize), max(u.arg.strides) > 1
    # Pixels of images that windows do not overlap on are one axis.
    across = u.shape[-2] if taps > 1 or is_strided else build.count(u.shape[1:-1])
    vectors = -(-across // lanes) * (STRIDED_LOADS if is_strided else 1)
    wasted = vectors * lanes / across - 1 if by_channels else 1.0
    own, tile = strides(w), partial(_tile, depth=taps * w.shape[-2], lanes=lanes, target=target)
    # Weights that lie by features are read by vectors of them, whatever that wastes.
    paying = rows if own is not None and own[-1] == 1 else wasted * rows
    if wasted * taps * w.shape[-2] > MIN_WASTED_TERMS and paying > MIN_WASTED_ROWS:
        return int(lanes * tile(across, w.shape[-1])[1])
    return int(tile(w.shape[-1], across)[0]) if rows >= MIN_ROWS_TO_PACK else 0


def pack_panels(u: UOp, target: Target) -> UOp:
    """Operands that are large, or whose rows are scattered, as panels of a register tile's width::

        dot a b, b: f32[K, N]   ->   dot a (view of (barrier of b as f32[N / W, K, W]))

    Rows of a panel follow each other in memory.  In the operand they are N apart or more, often a
    power of two, where few of them fit into the cache together.  The first operand is copied if the
    sums run across its rows, as in a gradient, and one column of them does not fit the cache.
    Several axes of sums are one in an operand that is copied, whatever its memory: the gradient to
    the weights behind attention, of heads by positions, took 2.5 ms, and takes 1.6.
    """
    if u.op is not Op.DOT:
        return u
    merged = collapse_k(u, copied=True)
    packed = _pack_matrices(merged, target)
    pairs = zip(merged.src, packed.src, strict=True)
    # A reshape that is no view of memory would cost divisions in the inner loop.
    return packed if all(strides(s) is not None or new is not s for s, new in pairs) else u


def _pack_matrices(u: UOp, target: Target) -> UOp:
    """The operands of a contraction over one axis in panels, where that pays."""
    a, b = u.src
    n, lanes = len(u.arg.batch_b), target.vector_bytes // max(4, u.src[1].dtype.itemsize)
    if b.ndim != n + 2 or u.arg.batch_b != tuple(range(n)) or u.arg.contract_b != (n,):
        return u
    batch, columns = b.shape[:n], b.shape[-1]
    rows = build.count(u.shape) // max(build.count((*batch, columns)), 1)
    if 0 in b.shape or min(rows, columns) < MIN_VECTOR_COLUMNS or rows < MIN_ROWS_TO_PACK:
        return u
    steps, depth = strides(b), b.shape[n]
    height, width = _tile(rows, columns, depth, lanes, target)
    scattered = steps is not None and steps[n] >= SCATTERED_PITCH_ROWS * columns
    size_bytes = depth * columns * b.dtype.itemsize
    large = not batch and rows * size_bytes >= MIN_ROWS_TO_PANEL_L2 * target.l2_bytes
    source = _before_pack_b(b)
    copied_anyway = source is not b and n == 0
    # A transposed operand is copied anyway; into panels the copy costs the same.
    if scattered or ((large or copied_anyway) and columns >= MIN_ROWS_TO_PACK):
        b = to_panels(source, lanes * width, 1)
    c, column_bytes = u.arg.contract_a[0], depth * max(LINE_BYTES, height * a.dtype.itemsize)
    wide = n == 0 and columns >= MIN_COLUMNS_TO_PANEL_A
    if wide and column_bytes >= target.l1_bytes and _sums_across_rows(a, c):
        a = to_panels(build.permute(a, (c, 1 - c)), lcm(lanes, height), 1)
        return UOp(Op.DOT, (a, b), replace(u.arg, contract_a=(0,)))
    return UOp(Op.DOT, (a, b), u.arg)


def _before_pack_b(b: UOp) -> UOp:
    """An operand without the copy by `pack_b`: a copy into panels replaces it."""
    copied = b.op is Op.GBARRIER and b.src[0].op is Op.PERMUTE
    return b.src[0] if copied else b


def _sums_across_rows(a: UOp, axis: int) -> bool:
    """Whether neighbours along an axis of a matrix are in different rows of memory.

    Axes may be merged of several, as those of heads are.
    """
    steps = strides(a, innermost=True) if a.ndim == 2 else None
    return steps is not None and steps[axis] > steps[1 - axis] == 1


# Matrix units.


def pack_for_matrix_unit(u: UOp, target: Target) -> UOp:
    """The operands of a matrix unit, which takes neighbours along the sum together::

        dot a b, b: bf16[K, N]   ->   dot a (view of (barrier of b as bf16[N / W, K / 2, W, 2]))

    Small integers are widened to the dtype of the unit.  Zeros fill up groups of neighbours if it
    multiplies whole matrices.
    """
    arg: Dot = u.arg
    a, b = u.src
    n, wide = len(arg.batch_a), build.accumulator(arg.dtype)
    if wide not in (FLOAT32, INT32) or len(arg.contract_a) != 1 or 0 in (*u.shape, *a.shape):
        return u
    a = _as_matrix(a, arg.batch_a, arg.contract_a, sum_last=True)
    b = _as_matrix(b, arg.batch_b, arg.contract_b)
    rows, depth, columns = a.shape[n], a.shape[-1], b.shape[-1]
    unit = _unit(a.dtype, (rows, columns, depth), target)
    few = MIN_ROWS_OF_BYTES <= rows < MIN_VECTOR_COLUMNS <= columns and a.dtype in BYTE_DTYPES
    if unit is not None and few and not unit.has_tiles and depth % unit.k_group == 0:
        # Pairs of rows of the second operand are interleaved in registers.
        a, batch = UOp(Op.GBARRIER, (build.cast(a, unit.dtype),)), tuple(range(n))
        b = build.cast(b, unit.dtype)
        product = build.dot(a, b, ((n + 1,), (n,)), (batch, batch), arg.dtype)
        return build.reshape(product, u.shape)
    if unit is None or min(rows, columns) < MIN_VECTOR_COLUMNS:
        return u
    # Zeros at the end of the sums change nothing, and make the last group of neighbours whole.
    fill = -depth % unit.k_group
    steps = strides(a)
    contiguous = steps is not None and steps[-1] == 1
    unchanged = contiguous and not fill and a.dtype == unit.dtype and not _is_converted(a)
    a = build.pad(build.cast(a, unit.dtype), (0,) * (n + 2), (0,) * (n + 1) + (fill,))
    pitch = steps[-2] if steps is not None and unchanged else a.shape[-1]
    # A unit loads whole matrices, up to 16 rows at once: these must not evict each other.
    aliased = unit.has_tiles and aliases_in_cache(pitch * a.dtype.itemsize)
    aliased = aliased and columns >= MIN_COLUMNS_TO_PAD_A
    if not contiguous or not (unchanged or aliased):
        a = UOp(Op.GBARRIER, (a,))
    a = pad_rows(a) if aliased else a
    b = build.pad(build.cast(b, unit.dtype), (0,) * (n + 2), (0,) * n + (fill, 0))
    width = unit.columns * unit.register_block(rows, columns)[1]
    if not unit.has_tiles:
        lanes = target.vector_bytes // 4
        width = lanes * _tile(rows, columns, depth + fill, lanes, target, unit.dtype)[1]
    b = to_panels(b, width, unit.k_group)
    batch = tuple(range(n))
    product = build.dot(a, b, ((n + 1,), (n,)), (batch, batch), arg.dtype)
    return build.reshape(product, u.shape)


def _tile(
    rows: int, columns: int, depth: int, lanes: int, target: Target, dtype: DType = FLOAT32
) -> tuple[int, int]:
    """The register tile of a contraction, as heuristics will choose it."""
    most, cached = accumulators(target), cached_vectors(depth, target)
    return best_tile(rows, columns, lanes, most, free_registers(target, dtype), cached)


def _as_matrix(u: UOp, batch: Shape, sums: Shape, sum_last: bool = False) -> UOp:
    """An operand as [*batch, sum, free], or as [*batch, free, sum]."""
    free = tuple(i for i in range(u.ndim) if i not in batch + sums)
    parts = (batch, free, sums) if sum_last else (batch, sums, free)
    lead, m, n = (tuple(u.shape[i] for i in axes) for axes in parts)
    return build.reshape(build.permute(u, sum(parts, ())), (*lead, prod(m), prod(n)))


def _is_converted(u: UOp) -> bool:
    """Whether a value is a view of one converted from another dtype."""
    while u.op in MOVEMENT:
        u = u.src[0]
    return u.op is Op.CAST


def _unit(dtype: DType, sizes: tuple[int, int, int], target: Target) -> MatrixUnit | None:
    """The matrix unit for a product of (rows, columns, depth), if the target has one that fits."""
    rows, columns, depth = sizes
    for kind in (dtype, int16.dtype) if dtype in BYTE_DTYPES else (dtype,):
        for unit in matrix_units(target, kind):
            filled = depth + -depth % unit.k_group if unit.has_tiles else depth
            if unit.fits(rows, columns, filled):
                return unit
    return None


# Scatters.


def compute_indices_before(u: UOp) -> UOp:
    """Computed indices of a scatter that runs in order, by a kernel of their own::

        scatter-add y (where (i < 0) (i + n) i) x   ->   scatter-add y (barrier (..)) x

    That kernel has vectors; in order, each instruction counts for one element.
    """
    indices, updates = u.src[1], u.src[2]
    points, value = build.count(indices.shape[:-1]), indices
    while value.op in MOVEMENT or value.op is Op.CAST:
        value = value.src[0]
    few = updates.size <= MAX_ELEMENTS_OF_INDEX * points
    if u.arg.op is Op.WHERE or value.op not in ELEMENTWISE or points < MIN_INDICES or not few:
        return u
    return rebuild(u, (u.src[0], UOp(Op.GBARRIER, (indices,)), *u.src[2:]))


# Matrix times vector.


def _is_gemv(u: UOp, target: Target) -> bool:
    """Whether a product reads a large matrix once, for a row or two."""
    arg: Dot = u.arg
    a, b = u.src
    rows = build.count(tuple(n for i, n in enumerate(a.shape) if i not in arg.contract_a))
    row_major = arg.contract_b == (0,) and strides(b) == (b.shape[-1], 1)
    if rows > GEMV_MAX_OUTPUT_ROWS or not row_major:
        return False
    depth, columns = b.shape
    # A smaller matrix stays in the cache, where a register tile reads it as fast.
    large = 4 * depth * columns * b.dtype.itemsize >= target.l2_bytes
    divides = depth % (GEMV_STREAMS * GEMV_ROWS_PER_STREAM) == 0
    return large and columns >= GEMV_MIN_COLUMNS and divides


def gemv(u: UOp) -> UOp:
    """``dot a b`` for few rows of a -> sums of rows of b, which are read from beginning to end::

        for part in 4: for i in K / 16: out[part] += sum of a[part, j, i] * b[part, j, i] for j in 4

    Several regions of memory are read side by side, which the processor prefetches, and the sums
    stay in the first cache.  The regions are shared among threads.
    """
    arg: Dot = u.arg
    a, b = u.src
    (depth, columns), (i,) = b.shape, arg.contract_a
    rows, wide = a.size // depth, build.accumulator(arg.dtype)
    steps = depth // (GEMV_STREAMS * GEMV_ROWS_PER_STREAM)
    a = build.moveaxis(a, i, 0)

    def row(u: UOp, k: int, shape: Shape) -> UOp:
        """Row k of each group of rows, for all streams and steps."""
        groups = build.reshape(u, (GEMV_STREAMS, GEMV_ROWS_PER_STREAM, steps, *shape))
        start, stop = (0, k, *(0,) * (len(shape) + 1)), (GEMV_STREAMS, k + 1, steps, *shape)
        one = build.reshape(build.shrink(groups, start, stop), (GEMV_STREAMS, steps, *shape))
        return build.expand(build.cast(one, wide), (GEMV_STREAMS, steps, rows, columns))

    products = (row(a, k, (rows, 1)) * row(b, k, (1, columns)) for k in range(GEMV_ROWS_PER_STREAM))
    start = const(0, wide, (GEMV_STREAMS, rows, columns))
    # A scatter of whole rows is a loop that adds to memory in order, which is what is meant.
    everywhere = const(0, INT32, (GEMV_STREAMS, steps, 0))
    sums = build.scatter(start, everywhere, reduce(add, products), Op.ADD, 1)
    total = build.add_up(sums, (0,))
    return build.reshape(build.cast(total, u.dtype), u.shape)


# Functions.


def reduction(u: UOp, target: Target, whole_rows: bool = True) -> UOp:
    """A reduction in the order of memory, in two passes if it is long: see `two_pass_reduce`."""
    u = changed("reduce-in-order-of-memory", u, in_order_of_memory(u, target))
    split: UOp = changed("two-pass-reduce", u, two_pass_reduce(u, target, whole_rows))
    return split


def _scatter(u: UOp, target: Target) -> UOp:
    reduced: UOp = changed("few-bins", u, scatter_as_reduction(u, target))
    if reduced is u:
        reduced = changed("compute-indices-before", u, compute_indices_before(u))
    return reduced


def _flip(u: UOp, target: Target) -> UOp:
    is_undone = u.src[0].op is Op.FLIP and u.src[0].arg == u.arg
    return u.src[0].src[0] if is_undone else u


Rules = Mapping[Op, Callable[[UOp, Target], UOp]]

# fmt: off
RULES: Rules = {
    Op.CONV: _convolution, Op.DOT: _product, Op.REDUCE: reduction, Op.SCATTER: _scatter,
    Op.CONCAT: lambda u, target: changed("concat-tree", u, concat_tree(u)),
    Op.PERMUTE: lambda u, target: build.permute(u.src[0], u.arg),
    Op.FLIP: _flip,
    Op.DETACH: lambda u, target: u.src[0],
}
# fmt: on
"""Ops as loops of a processor compute them; all others stay."""


def prepare(outputs: Sequence[UOp], target: Target, rules: Rules = RULES) -> list[UOp]:
    """Rewrites contractions, reductions and concatenations for their loops on a target.

    Bodies of loops and branches stay as they are: they are lowered by themselves.
    """
    outputs = channels_last(outputs)
    if rules is RULES:
        outputs = byte_tables(outputs)
    order = list(walk(outputs))
    has_updates = any(node.op is Op.SCATTER for node in order)
    count = users(outputs, order) if has_updates else {}

    def prepared(node: UOp, u: UOp) -> UOp:
        if u.op is Op.WHERE and has_updates:
            # An update that others read too would be computed twice.
            if all(s.op is not Op.SCATTER or count[t] == 1 for s, t in zip(u.src, node.src)):
                u = changed("masked-update", u, masked_update(u))
            return u
        rule = rules.get(u.op)
        return u if rule is None else rule(u, target)

    return mapped(outputs, prepared, order=order)
