"""Triangular systems by blocks: products of matrices, for machines of many threads.

    host[trsm] a b  ->  inverses of the blocks on the diagonal;  for k:  x_k = i_k (b_k - a_k x)

Row by row a system is as many steps as it has rows, each of little work.  Here the blocks on the
diagonal are inverted all at once, by doubling, and then a step knows the rows of a whole block: all
arithmetic but the first divisions is in products of matrices.  A stack is solved at once.

::

    p 0  ->    p^-1          0       blocks of 1, 2, 4, ... rows
    l q       -q^-1 l p^-1   q^-1

Where a right side is infinite or NaN, all its elements of that block are NaN, and those after it.

Sources: N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002, section
8.4, for the method and its errors; J. Dongarra et al., "Accelerating numerical dense linear algebra
calculations with GPUs", 2014, for the sizes of blocks.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod

from tfn.array import Array
from tfn.dtypes import INT64, DType
from tfn.eager.operands import apply
from tfn.numpy.concatenation import concatenate
from tfn.numpy.contraction import matmul
from tfn.numpy.creation import zeros_like
from tfn.numpy.logic import where
from tfn.numpy.manipulation import diagonal, flip, matrix_transpose, moveaxis
from tfn.numpy.matrices import tril
from tfn.numpy.padding import pad
from tfn.numpy.ranges import arange
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import Shape
from tfn.trace.uop import UOp
from tfn.transforms.jit import jit
from tfn.transforms.shapes import ShapeDtypeStruct

MAX_BLOCK_ROWS = 64
"""Rows of a block: six doublings, of two products each, invert it; the steps that follow are 16 for
1,024 rows.  Not measured on a GPU; MAGMA and cuBLAS take 32 to 128."""


@cache
def program(flags: str, kinds: tuple[tuple[Shape, DType], ...]) -> Jaxpr:
    """`trsm` of operands of these shapes and dtypes.

    Example:
        >>> import numpy as np
        >>> kinds = ((3, 3), np.dtype("float32")), ((1, 3), np.dtype("float32"))
        >>> [u.shape for u in program("LNN", kinds).outputs]
        [(1, 3)]
    """
    structs = [ShapeDtypeStruct(shape, dtype) for shape, dtype in kinds]
    jaxpr: Jaxpr = jit(partial(trsm, flags)).trace(*structs).jaxpr
    return jaxpr


def trsm(flags: str, lines: Array, right: Array) -> Array:
    """The routine of BLAS: matrices by columns, see `tfn.numpy.linalg.lapack`.

    Args:
        flags: U or L, N or T, U for a diagonal of 1 or N.
        lines: the triangular matrices, transposed.
        right: the right sides, transposed.

    Returns:
        The solutions, transposed.
    """
    a = matrix_transpose(lines) if flags[1] == "N" else lines
    is_lower, is_unit = (flags[0] == "L") == (flags[1] == "N"), flags[2] == "U"
    b = matrix_transpose(right)
    a, b = (a, b) if is_lower else (flip(a, (-2, -1)), flip(b, -2))
    x = solve_lower(tril(a), b, is_unit)
    x = x if is_lower else flip(x, -2)
    return matrix_transpose(x)


def solve_lower(a: Array, b: Array, is_unit: bool) -> Array:
    """The solution x of a x = b.

    Args:
        a: lower triangular matrices, zero above the diagonal.
        b: matrices of right sides, with the same batches.
        is_unit: whether the diagonal is 1, whatever `a` has there.

    Example:
        >>> from tfn.numpy import array
        >>> solve_lower(array([[2.0, 0.0], [1.0, 4.0]]), array([[2.0], [9.0]]), False).tolist()
        [[1.0], [2.0]]
    """
    n = a.shape[-1]
    if 0 in b.shape:
        return b
    rows = min(MAX_BLOCK_ROWS, 1 << (n - 1).bit_length())
    batch, more = [(0, 0)] * (a.ndim - 2), -n % rows
    places = arange(n + more)
    a = pad(a, [*batch, (0, more), (0, more)])
    is_one = (places[:, None] == places) & ((places >= n) | is_unit)
    a = where(is_one, 1, a).astype(b.dtype)
    b = pad(b, [*batch, (0, more), (0, 0)])
    inverses = _inverses(_diagonal_blocks(a, rows))
    count = (n + more) // rows
    if count == 1:
        return matmul(inverses[..., 0, :, :], b)[..., :n, :]
    by_block = [
        moveaxis(x.reshape(prod(a.shape[:-2]), count, rows, x.shape[-1]), 1, 0)
        for x in (a, b, inverses)
    ]
    x: Array = apply(_steps, by_block)
    return x.reshape(b.shape)[..., :n, :]


def _steps(a: UOp, b: UOp, inverses: UOp) -> UOp:
    """The solutions, (stack, rows of all blocks, right sides), a block after the other.

    Args:
        a: the rows of each block, (blocks, stack, rows, rows of all blocks).
        b: the right sides of each block, (blocks, stack, rows, right sides).
        inverses: of the blocks on the diagonal, (blocks, stack, rows, rows).
    """
    count, stack, rows, sides = b.shape
    start = build.zeros((stack, count * rows, sides), b.dtype)
    numbers = build.iota((count,), 0, INT64)
    kinds = [(start.shape, start.dtype), *((u.shape[1:], u.dtype) for u in (a, b, inverses))]
    params = tuple(Param(i, *kind) for i, kind in enumerate([*kinds, ((), INT64)]))
    x, row, own, inverse, k = map(param, params)
    last, first = ((2,), (1,)), ((0,), (0,))
    known = build.dot(inverse, own - build.dot(row, x, last, first), last, first)
    blocks = build.reshape(x, (stack, count, rows, sides))
    known = build.broadcast_to(build.reshape(known, (stack, 1, rows, sides)), blocks.shape)
    here = build.eq(build.iota(blocks.shape, 1, INT64), build.broadcast_to(k, blocks.shape))
    following = build.reshape(build.where(here, known, blocks), x.shape)
    turn = function([following], params)
    return build.scan(turn, [], [start], [a, b, inverses, numbers], count)[0]


def _diagonal_blocks(a: Array, rows: int) -> Array:
    """The blocks on the diagonal, (..., count, rows, rows)."""
    *batch, n, _ = a.shape
    blocks = a.reshape(*batch, n // rows, rows, n // rows, rows)
    return moveaxis(diagonal(blocks, 0, -4, -2), -1, -3)


def _inverses(a: Array) -> Array:
    """The inverses of lower triangular matrices, whose size is a power of two."""
    size, rows = a.shape[-1], 1
    inverse = 1 / diagonal(a, 0, -2, -1)[..., None, None]
    while rows < size:
        low = _diagonal_blocks(a, 2 * rows)[..., rows:, :rows]
        p, q = inverse[..., ::2, :, :], inverse[..., 1::2, :, :]
        corner = -matmul(matmul(q, low), p)
        top = concatenate([p, zeros_like(p)], -1)
        inverse, rows = concatenate([top, concatenate([corner, q], -1)], -2), 2 * rows
    return inverse[..., 0, :, :]
