"""Matrix tiles: matrices in the registers of a matrix unit, their type rules and their meaning.

Along the contracted axis a matrix unit reads groups of neighbours that fill 32 bits: ``b[K, N]`` is
laid out as ``[K / 2, N, 2]`` if elements have 16 bits, and as ``[K / 4, N, 4]`` if they have 8.
"""

from __future__ import annotations

import numpy as np

from tfn._support.frozen import frozen
from tfn.errors import ShapeError
from tfn.trace.op import Op, Shape
from tfn.trace.regions import Node, Type


@frozen
class Tile:
    """The addresses of a matrix in memory: base + offset + pitch * row + column, in elements.

    Attributes:
        shape: of the matrix in the register.
        rows, lanes: the part that is read; the rest is zero.
        ahead: the distance to the next matrix, in elements, which is prefetched; 0 for none.
    """

    offset: int
    pitch: int
    rows: int
    lanes: int
    shape: Shape
    ahead: int = 0


def together(itemsize: int) -> int:
    """The number of neighbours in a group of 32 bits."""
    return 4 // itemsize


def _tile(src: tuple[Node, ...], arg: Tile) -> Type:
    return arg.shape, src[0].dtype


def _mma(src: tuple[Node, ...], arg: object) -> Type:
    total, a, b = src
    n = together(a.dtype.itemsize)
    rows, columns = total.shape
    if a.dtype != b.dtype or a.shape[0] != rows or b.shape != (a.shape[1] // n, columns * n):
        raise ShapeError(
            "mma needs matrices that fit",
            got=f"{total.shape}, {a.shape}, {b.shape}",
            hint="(m, k) and (k / n, columns * n) for an (m, columns)",
        )
    return total.shape, total.dtype


def _spill(src: tuple[Node, ...], arg: object) -> Type:
    return src[0].shape, src[0].dtype


def _row(src: tuple[Node, ...], arg: object) -> Type:
    return src[0].shape[1:], src[0].dtype


TYPES = {Op.TILE: _tile, Op.MMA: _mma, Op.SPILL: _spill, Op.ROW: _row}
"""The type rules."""


def load(buffer: np.ndarray, base: int, arg: Tile) -> np.ndarray:
    """The matrix at an address of a flat buffer."""
    rows, lanes = np.arange(arg.rows)[:, None], np.arange(arg.lanes)
    out = np.zeros(arg.shape, buffer.dtype)
    out[: arg.rows, : arg.lanes] = buffer[base + arg.offset + arg.pitch * rows + lanes]
    return out


def multiply(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``total + a @ b`` in the order of a matrix unit, which flushes subnormal numbers to zero.

    The products of the i-th neighbours of all groups are summed in order, each rounded once, for
    each i; then these sums are added, and the result to the total.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: TDPBF16PS,
    TDPBSSD and TDPBUUD.
    """
    n, wide = together(a.dtype.itemsize), total.dtype
    rows, columns = total.shape
    x = a.astype(wide).reshape(rows, -1, n)
    y = b.astype(wide).reshape(-1, columns, n)
    if wide.kind != "f":
        return np.asarray(total + np.einsum("rkn,kcn->rc", x, y, dtype=wide))
    x, y = _flushed(x).astype(np.float64), _flushed(y)  # products are exact in 64 bits
    sums = np.zeros((rows, columns, n), wide)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(x.shape[1]):
            sums = _flushed((sums + x[:, None, k] * y[None, k]).astype(wide))
    return _flushed(_flushed(total) + _flushed(sums[..., 0] + sums[..., 1]))


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)
