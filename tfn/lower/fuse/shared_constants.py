"""Shared constants: kernels that differ in numbers alone become one kernel, which loads them.

Before -> after, for five kernels `x * 0.3 + y`, `x * 0.7 + y`, ...::

    store out[r0], load a[r0] * 0.3 + load b[r0]
    store out[r0], load a[r0] * 0.7 + load b[r0]    ->    store k1[0], 0.3; store k2[0], 0.7; ...
    ...                                                   store out[r0], load a[r0] * load k[0] + ..

Each distinct kernel takes milliseconds to lower and compile.  A program with few of a kind keeps
its numbers as immediate operands, and so do products of matrices, whose tiles are chosen by their
operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import frexp, isfinite
from typing import TypeVar

from tfn.dtypes import FLOAT32, FLOAT64, INT64
from tfn.lower.fuse.indexing import IndexedKernel
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, reshaped, substitute, walk

MIN_KERNELS_TO_SHARE = 4
"""Kernels that differ in numbers alone, from which on they share their code.

A sum over rows takes 6 ms to lower and compile, and 64 stores of numbers 15 (AMD EPYC): with fewer
kernels little is saved, and each would load what it has in its code.
"""

MAX_STORED_ARRAYS = 64
"""Arrays of numbers that one kernel stores: LLVM's time grows faster than its input."""

_ARITHMETIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV})
"""Ops to whose code the value of an operand makes no difference, but for the simplest numbers."""

_DTYPES = (FLOAT32, FLOAT64)


T = TypeVar("T")


def share_constants(kernels: Sequence[IndexedKernel | T], number: int) -> list[IndexedKernel | T]:
    """The kernels, and other steps, in their order: those that differ in numbers alone as one.

    Kernels that store the numbers come first.  `number` is that of a kernel which does not exist.
    """
    orders: dict[UOp, list[UOp]] = {}
    same_ops: dict[tuple[Op, ...], dict[int, list[UOp]]] = {}
    for i, kernel in enumerate(kernels):
        if isinstance(kernel, IndexedKernel) and kernel.body.op is Op.SINK:
            order = orders.get(kernel.body)
            if order is None:
                order = orders[kernel.body] = list(walk([kernel.body]))
            same_ops.setdefault(tuple([u.op for u in order]), {})[i] = order
    shared: list[IndexedKernel | T] = list(kernels)
    arrays: dict[UOp, UOp] = {}
    for places in same_ops.values():
        if len({order[-1] for order in places.values()}) < MIN_KERNELS_TO_SHARE:
            continue
        for group in _groups(kernels, places):
            for i, (body, numbers) in group.items():
                value = numbers[0] if len(numbers) == 1 else build.concat(numbers, 0)
                array = arrays.setdefault(value, UOp(Op.GBARRIER, (value,), number))
                kernel = kernels[i]
                assert isinstance(kernel, IndexedKernel)
                shared[i] = IndexedKernel(body, (*kernel.operands, array), kernel.written)
    return [*_stores(list(arrays.values())), *shared]


Loading = tuple[UOp, list[UOp]]
"""A body that loads numbers, and these, each of shape (1,)."""


def _groups(
    kernels: Sequence[IndexedKernel | T], orders: dict[int, list[UOp]]
) -> Iterator[dict[int, Loading]]:
    """Kernels that are to load their numbers, by their places, those of one body together.

    Args:
        kernels: all of them.
        orders: for the places of some with the same ops the nodes of their bodies, in their order.
    """
    numbers = {i: _numbers(order) for i, order in orders.items()}
    bodies: dict[tuple[UOp, int], dict[int, UOp]] = {}

    def loading(i: int, some: Sequence[UOp]) -> UOp:
        kernel = kernels[i]
        assert isinstance(kernel, IndexedKernel)
        param = Param(len(kernel.operands), (len(some),), some[0].dtype)
        array = UOp(Op.PARAM, (), param)
        loads = {u: UOp(Op.LOAD, (array, const(j, INT64))) for j, u in enumerate(some)}
        return substitute([kernel.body], loads, orders[i])[0]

    for i, own in numbers.items():
        if own:
            body = loading(i, own)
            bodies.setdefault((body, len(own)), {})[i] = body
    for group in bodies.values():
        rows = dict.fromkeys(tuple(numbers[i]) for i in group)
        if len(rows) >= MIN_KERNELS_TO_SHARE:
            varying = [j for j, column in enumerate(zip(*rows)) if len({*column}) > 1]
            yield {
                i: (
                    body
                    if len(varying) == len(numbers[i])
                    else loading(i, [numbers[i][j] for j in varying]),
                    [reshaped(numbers[i][j], (1,)) for j in varying],
                )
                for i, body in group.items()
            }


def _numbers(order: Sequence[UOp]) -> list[UOp]:
    """The constants that a kernel could load as well, of one dtype, in the order of its body."""
    if any(u.op is Op.FOLD and u.src[0].op is Op.MUL for u in order):
        return []  # a product of matrices
    fixed = {s for u in order if u.op not in _ARITHMETIC for s in u.src if s.op is Op.CONST}
    found = [u for u in order if u.op is Op.CONST and u not in fixed and _is_plain(u)]
    return [u for u in found if u.dtype == found[0].dtype]


def _is_plain(u: UOp) -> bool:
    """Whether a constant has no code of its own, as powers of two, 0, infinity and NaN may have."""
    if u.dtype not in _DTYPES or u.shape:
        return False
    value = float(u.arg.value)
    return isfinite(value) and abs(frexp(value)[0]) not in (0.0, 0.5)


def _stores(arrays: Sequence[UOp]) -> Iterator[IndexedKernel]:
    """Kernels that write arrays of constants, some arrays each."""
    for first in range(0, len(arrays), MAX_STORED_ARRAYS):
        operands = tuple(arrays[first : first + MAX_STORED_ARRAYS])
        stores = []
        for i, array in enumerate(operands):
            value = array.src[0]
            to = UOp(Op.PARAM, (), Param(i, value.shape, value.dtype))
            numbers = value.src if value.op is Op.CONCAT else (value,)
            stores += [
                UOp(Op.STORE, (to, const(j, INT64), reshaped(u, ()))) for j, u in enumerate(numbers)
            ]
        yield IndexedKernel(UOp(Op.SINK, tuple(stores)), operands, len(operands))
