"""Scheduling heuristics for products of matrices on grids: tiles of results, staged operands.

Three ways, the first that fits::

    groups   four warps multiply tiles of both operands, in swizzled rows of local memory
    warps    a warp multiplies fragments, which its threads load from local memory
    threads  each thread multiplies elements one by one, a few rows by a few columns
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

from tfn.dtypes import DType
from tfn.errors import SplitError
from tfn.lower.loops import loop_nest
from tfn.lower.loops.cost_model import Model
from tfn.lower.loops.grid_opt_ops import (
    TILED_PLACES,
    StageTile,
    WarpProduct,
    copied_elements,
    padded_size,
    row_axes,
    tile_axes,
    unit_dtype,
)
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Bind, Split, Tile
from tfn.lower.loops.restructuring import reordered
from tfn.lower.target.grid import Grid, GridMatrixUnit
from tfn.trace import banks
from tfn.trace.argument import Place
from tfn.trace.grid_argument import GROUP_ROWS, SWIZZLE_BYTES
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes, walk

WARP_TILE_DOWN = 4
WARP_TILES_ACROSS = 8, 4
"""Products of a unit down, and across, that a warp has open: 64 x 64 sums, 128 of each thread.

On an H100 groups of four such warps, with tiles of 32 elements along the sum, reach 54 % of the
best speed there (which needs warp groups), and 64 % of what the unit does from registers alone.
Half as many across where that leaves a core without a group."""

WARP_DEPTH = 4
"""Products along the sum that tiles in local memory hold: 64 elements of 16 bits are 128 bytes."""

TILE_THREADS = 16
"""Threads of a group along each side of a tile of results."""

MAX_TILE_REGISTERS = 4
"""Results of one thread along each side of a tile: 16 sums, for 8 loads from local memory."""

MAX_TILE_DEPTH = 16
"""Elements of a sum that a tile in local memory holds: 2 tiles of 64 x 16 floats take 8 KiB."""

MIN_TILE_DEPTH = 4
"""With fewer elements of a sum between two barriers, threads wait more than they compute."""

GROUP_TILE_TIMES_US = {
    (128, 256): 0.67,
    (64, 256): 0.47,
    (128, 128): 0.34,
    (128, 64): 0.28,
    (64, 128): 0.25,
    (64, 64): 0.20,
}
"""Microseconds of a core for 128 bytes along the sum, by rows and columns of a tile.

On an H100, with copies that run ahead; a wave of groups takes 2 us more.  Times by it were within
5 % of those measured, from 512 cubed to 16,384 x 1,024 x 1,024."""

WAVE_US = 2.0

PRODUCTS_OF_A_ROW = 4
"""Products along the sum of 128 bytes: four of 16 elements of 16 bits, 8 of tf32, 32 of int8."""

BOX_COLUMNS = 64
"""Elements of 16 bits across the sum in a row of a tile."""


def product_tiles(n: Nest, model: Model, grid: Grid) -> Nest | None:
    """A product of matrices as tiles, in the first way that fits; None for all other kernels."""
    return _group_tiles(n, model, grid) or _warp_tiles(n, model, grid) or _tiles(n, model, grid)


def _group_tiles(n: Nest, model: Model, grid: Grid) -> Nest | None:
    """Products of matrices by groups of four warps, where a tile divides the product."""
    found = _contraction(n, model)
    if found is None:
        return None
    dtype, (_, (down, across), depth, operands) = unit_dtype(found[0]), found
    unit = grid.unit(dtype, warps=4)
    left, right = operands
    if unit is None or left is None or right is None or left == right:
        return None
    row = PRODUCTS_OF_A_ROW * unit.depth
    if depth.arg.size % row:
        return None
    others = [r for r in n.loops if r not in (down, across)]
    batch, turns = prod(r.arg.size for r in others), depth.arg.size // row

    def time_us(tile: tuple[int, int]) -> float:
        groups: int = batch * (down.arg.size // tile[0]) * (across.arg.size // tile[1])
        return float(-(-groups // grid.cores) * (turns * GROUP_TILE_TIMES_US[tile] + WAVE_US))

    sizes = down.arg.size, across.arg.size
    tiles = [t for t in GROUP_TILE_TIMES_US if not sizes[0] % t[0] and not sizes[1] % t[1]]
    if not tiles or turns < 2:
        return None
    rows, columns = min(tiles, key=time_us)
    n = WarpProduct(down.arg.number, across.arg.number, depth.arg.number, row).apply(n)
    a, h, g, b, t, q, at = n.newest(8)[:7]
    warps: list[UOp] = []
    blocks: list[UOp] = []
    for size in (4, rows // GROUP_ROWS):
        if size > 1:
            n = Split(a.arg.number, size, Place.LOCAL).apply(n)
            a, warp = n.newest(2)
            warps.insert(0, warp)
    for size in (8, columns // BOX_COLUMNS):
        if size > 1:
            n = Split(b.arg.number, size, Place.UPCAST).apply(n)
            b, block = n.newest(2)
            blocks.insert(0, block)
    groups = [r for r in (*others, a, b) if r in n.loops]
    n = reordered(n, [r for r in (*groups, *warps, g, t, *blocks, h, q) if r in n.loops])
    for r in groups:
        n = Bind(r.arg.number, Place.GROUP).apply(n)
    tile_bytes = SWIZZLE_BYTES * (rows + columns)
    stages = min(MAX_RING_TILES, turns, grid.local_bytes // tile_bytes)
    try:
        for operand in (left, right):
            n = StageTile(at.arg.number, operand, 0, stages, swizzled=True).apply(n)
    except SplitError:  # rows that do not begin at multiples of 16 bytes
        return None
    return n


def _warp_tiles(n: Nest, model: Model, grid: Grid) -> Nest | None:
    """Products of matrices by warps, where the sizes of the unit divide those of the product."""
    found = _contraction(n, model)
    unit = None if found is None else _warp_unit(found[0], grid)
    if found is None or unit is None:
        return None
    _, (down, across), depth, operands = found
    left, right = operands
    if (
        left is None
        or right is None
        or left == right
        or down.arg.size % 16
        or across.arg.size % 8
        or depth.arg.size % unit.depth
    ):
        return None
    sums_of_wide = 16 * WARP_TILE_DOWN * 8 * WARP_TILES_ACROSS[0] * WARPS_OF_A_SIDE**2
    wide_groups = prod(r.arg.size for r in n.loops) // sums_of_wide
    tile_across = WARP_TILES_ACROSS[wide_groups < grid.cores]
    others = [r for r in n.loops if r not in (down, across)]
    numbers = down.arg.number, across.arg.number, depth.arg.number
    n = WarpProduct(*numbers, unit.depth).apply(n)
    a, h, g, b, t, q = n.newest(8)[:6]
    groups: list[UOp] = []
    warps: list[UOp] = []
    tiles: list[UOp] = []
    for r, most in ((a, WARP_TILE_DOWN), (b, tile_across)):
        n, parts = _parts(n, r, WARPS_OF_A_SIDE, most)
        groups, warps, tiles = [*groups, parts[0]], [*warps, parts[1]], [*tiles, parts[2]]
    # The threads of a warp count fastest: their ranges come last of all LOCAL ones.
    n = reordered(n, [r for r in (*others, *groups, *warps, g, t, *tiles, h, q) if r in n.loops])
    for r in (*others, *groups):
        if r in n.loops:
            n = Bind(r.arg.number, Place.GROUP).apply(n)
    (fold,) = loop_nest.folds(n.body)
    c, found_nests = fold.src[-2], []
    for size in (k for k in (WARP_DEPTH, 2, 1) if c.arg.size % k == 0):
        split = n if size == c.arg.size else Split(c.arg.number, size, Place.LOOP).apply(n)
        (fold,) = loop_nest.folds(split.body)
        at = fold.src[1]
        if at.arg.place is not Place.LOOP or at.arg.size == 1:
            return split
        staged = _staged(split, at, (left, right), grid, _pad)
        if staged is not None:
            found_nests.append(staged)
            if not grid.copies_asynchronously or _ring(staged) >= MIN_RING_TILES:
                break
    # The deepest tiles of which enough are under way, or else of which most are.
    return max(found_nests, key=lambda n: min(_ring(n), MIN_RING_TILES), default=None)


WARPS_OF_A_SIDE = 2
"""Warps of a group, down and across: each tile of an operand is read by two of them."""


def _warp_unit(fold: UOp, grid: Grid) -> GridMatrixUnit | None:
    """The unit of a single warp that multiplies the factors of a contraction."""
    dtype = unit_dtype(fold)
    return grid.unit(dtype) if grid.exchanges else None


def _parts(n: Nest, r: UOp, warps: int, tile: int) -> tuple[Nest, tuple[UOp, UOp, UOp]]:
    """A loop as groups, warps of a group and products of a warp, as many as divide it."""
    tile = next(k for k in (tile, 4, 2, 1) if r.arg.size % k == 0)
    n = Split(r.arg.number, tile, Place.UPCAST).apply(n)
    rest, products = n.newest(2)
    warps = warps if rest.arg.size % warps == 0 else 1
    n = Split(rest.arg.number, warps, Place.LOCAL).apply(n)
    group, warp = n.newest(2)
    return n, (group, warp, products)


def _pad(dtype: DType, row: int, along_rows: bool) -> int:
    """Elements between rows of a tile with which the threads of a warp meet each bank once.

    They are whole words of 16 bytes, so that rows begin where asynchronous copies may.

    An operand whose rows are along the sum is read at ``g * pitch + n * t`` by the thread of row g
    and column t of its warp, the other one at ``n * t * pitch + g``.  With rows of 128 bytes copies
    meet each bank once too; of 64 bytes, eight threads that copy to two rows meet some twice.
    """
    n = 4 // dtype.itemsize

    def waits(pad: int) -> int:
        pitch, threads = row + pad, [divmod(lane, 4) for lane in range(banks.BANKS)]
        at = (g * pitch + n * t if along_rows else n * t * pitch + g for g, t in threads)
        read = banks.degree(i * dtype.itemsize // banks.WORD_BYTES for i in at)
        # Eight threads at a time write 16 bytes each, over as many rows as these take.
        places = [i // row * pitch + i % row for i in range(0, 512 * n, 4 * n)]
        words = [i // n + j for i in places for j in range(4)]
        writes = (words[i : i + banks.BANKS] for i in range(0, len(words), banks.BANKS))
        return read + max(map(banks.degree, writes))

    return min(range(0, 64 * n, 4 * n), key=waits)


def _tiles(n: Nest, model: Model, grid: Grid) -> Nest | None:
    """Each group computes a tile of a contraction's results; None for all other kernels."""
    found = _contraction(n, model)
    if found is None:
        return None
    fold, (down, across), depth, operands = found
    x, y = fold.src[0].src
    if min(down.arg.size, across.arg.size) < TILE_THREADS:
        return None
    size = depth.arg.size
    amount = max((k for k in range(1, MAX_TILE_DEPTH + 1) if size % k == 0), default=1)
    threads = TILE_THREADS * TILE_THREADS
    if amount < MIN_TILE_DEPTH or None in operands or threads > grid.group_threads:
        return None
    sides_bytes = [_tile_side(r) * amount * s.dtype.itemsize for r, s in ((down, x), (across, y))]
    if sum(sides_bytes) > grid.local_bytes:
        return None
    others = [r for r in n.loops if r not in (down, across)]
    n = reordered(n, others)
    inner = []
    for r in (down, across):
        n = Tile(r.arg.number, _tile_side(r) // TILE_THREADS, TILE_THREADS, Place.LOCAL).apply(n)
        inner.append(n.newest(3))
    n = Split(depth.arg.number, amount, Place.LOOP).apply(n)
    at, _ = n.newest(2)
    (i, u, y_thread), (j, v, x_thread) = inner
    n = reordered(n, [*others, i, j, u, v, y_thread, x_thread])
    for r in (*others, i, j):
        n = Bind(r.arg.number, Place.GROUP).apply(n)
    return _staged(n, at, [u for u in operands if u is not None], grid)


def _staged(
    n: Nest, at: UOp, operands: Iterable[int], grid: Grid, pad: PadRule | None = None
) -> Nest | None:
    """The operands of a contraction in local memory; None if there is not enough of it.

    As a ring of tiles where the machine copies asynchronously and elements lie so that it can.
    """
    loop, operands = at.arg.number, list(dict.fromkeys(operands))
    plain = n
    for operand in operands:
        plain = StageTile(loop, operand).apply(plain)
    tiles = [u for u in nodes(plain.body) if u.op is Op.STAGED]
    opts = []
    for tile in tiles:
        row = row_axes(tile_axes(tile))
        size = prod(r.arg.size for r in row)
        along_rows = row[-1].arg.place not in TILED_PLACES
        between = pad(tile.dtype, size, along_rows) if pad else 0
        opts.append(StageTile(loop, tile.src[0].src[0].arg.index, between))
    tiles = [
        UOp(u.op, u.src, replace(u.arg, pad=opt.pad)) for u, opt in zip(tiles, opts, strict=True)
    ]
    one_bytes = sum(padded_size(u) * u.dtype.itemsize for u in tiles)
    stages = 1
    if grid.copies_asynchronously and all(map(copied_elements, tiles)):
        stages = max(
            1, min(MAX_RING_TILES, at.arg.size, grid.local_bytes // GROUPS_OF_A_CORE // one_bytes)
        )
    if stages * one_bytes > grid.local_bytes:
        return None
    for opt in dict.fromkeys(opts):
        n = replace(opt, stages=stages).apply(n)
    return n


MIN_RING_TILES = 3
"""Tiles that are worth shallower ones: from 2 to 3 an H100 gains a quarter to two thirds."""


def _ring(n: Nest) -> int:
    """The tiles of an operand in local memory at once."""
    return max(int(u.arg.stages) for u in nodes(n.body) if u.op is Op.STAGED)


GROUPS_OF_A_CORE = 2
"""Groups between which a core switches, with rings of tiles: one computes while the other waits.

On an H100 the same tiles are multiplied at 54 % of the best speed by two groups of four warps."""

PadRule = Callable[[DType, int, bool], int]
"""From the dtype of a tile, the elements of a row and whether rows are along the sum."""

MAX_RING_TILES = 4
"""Tiles of an operand in local memory: with 3 an H100 multiplies at 97 to 100 % of the speed with
4, with 2 at 59 to 75 %."""


def _contraction(
    n: Nest, model: Model
) -> tuple[UOp, tuple[UOp, UOp], UOp, tuple[int | None, int | None]] | None:
    """The one reduction of a nest, if it is a product of matrices.

    Returns:
        The FOLD, the loops over rows and columns, the longest along the sum, and the buffers.
    """
    folds = loop_nest.folds(n.body)
    if len(folds) != 1 or loop_nest.in_order(n.body) or any(r.src for r in n.loops):
        return None
    (fold,) = folds
    if not model.is_contraction(fold) or not model.reuses_loads(fold, None):
        return None
    x, y = fold.src[0].src
    a, b = ({*model.depends[s]} for s in (x, y))
    sides = [[r for r in n.loops if r in side] for side in (a - b, b - a)]
    depth = fold.src[-1]
    if not all(sides) or depth not in a & b:
        return None
    down, across = (max(side, key=lambda r: r.arg.size) for side in sides)
    left, right = (_operand(s, (r, depth)) for s, r in ((x, down), (y, across)))
    return fold, (down, across), depth, (left, right)


def _tile_side(r: UOp) -> int:
    """The rows or columns of a tile of results."""
    size: int = r.arg.size
    return TILE_THREADS * min(MAX_TILE_REGISTERS, -(-size // TILE_THREADS))


def _operand(value: UOp, ranges: Sequence[UOp]) -> int | None:
    """The buffer of the one load of a factor, if its address depends on these ranges."""
    loads = [u for u in nodes(value) if u.op is Op.LOAD]
    if len(loads) != 1:
        return None
    inside, everywhere = (
        {r for r in walk(src) if r.op is Op.RANGE} for src in (loads[0].src[1:2], loads)
    )
    # A predicate on other ranges than the address would select other elements of the same tile.
    is_tile = inside == everywhere and inside.issuperset(ranges)
    return int(loads[0].src[0].arg.index) if is_tile else None
