"""Sums of products of bytes, by instructions that multiply unsigned bytes by signed ones.

    sum of (nibble - 8) * x    ->    sum of nibble * x - sum of 8 * x

Pairs of products are added in 16 bits and saturate there (VPMADDUBSW), or fours in 32 bits.  What
the values may be tells whether the former is exact.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tfn.dtypes import INT32, int8, int16, uint8
from tfn.lower.index.intervals import bounds, limits
from tfn.lower.loops.tensorize import terms_of, unwidened
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp

GROUP = 4
"""Bytes that fill a lane of 32 bits."""

_BYTES = frozenset({int8.dtype, uint8.dtype})


class ByteProduct(NamedTuple):
    """A product of two bytes, the first of which is unsigned once it is moved.

    Attributes:
        moved: a factor.
        low: what is taken from it, so that it is at least zero; at most zero.
        other: the other factor, within int8.
        pair: the largest absolute value of two products, moved or of what it is moved by.
    """

    moved: UOp
    low: int
    other: UOp
    pair: int


def byte_products(fold: UOp) -> tuple[ByteProduct, ...]:
    """The terms of a sum whose unit takes groups of bytes; none if it does not."""
    group = any(r.arg.place is Place.UNIT and r.arg.size == GROUP for r in fold.src[1:])
    return _products(fold) if group else ()


def of_bytes(fold: UOp, adds_bytes: bool) -> bool:
    """Whether a sum is one of products of bytes that instructions compute exactly.

    Args:
        fold: the sum.
        adds_bytes: whether an instruction adds four products in 32 bits.
    """
    products = _products(fold)
    exact = limits(int16.dtype)[1]
    return bool(products) and (adds_bytes or all(p.pair <= exact for p in products))


def fits_int16(fold: UOp) -> bool:
    """Whether the sums of pairs, over all iterations, are within 16 bits."""
    low, high = bounds(fold.src[0])
    unrolled = (r.arg.size for r in fold.src[1:] if r.arg.place is not Place.LANE)
    terms = 2 * prod(unrolled) // GROUP
    return bool(max(-low, high) * terms <= limits(int16.dtype)[1])


def _products(fold: UOp) -> tuple[ByteProduct, ...]:
    if fold.arg.op is not Op.ADD or fold.dtype != INT32:
        return ()
    found = []
    for term in terms_of(fold.src[0]):
        factors = [unwidened(s) for s in term.src] if term.op is Op.MUL else []
        if not factors or {u.dtype for u in factors} - _BYTES:
            return ()
        orders = [_product(*pair) for pair in (factors, factors[::-1])]
        fitting = [p for p in orders if p is not None]
        if not fitting:
            return ()
        found.append(min(fitting, key=lambda p: (p.pair, -p.low)))
    return tuple(found)


def _product(moved: UOp, other: UOp) -> ByteProduct | None:
    """A product with the first factor moved; None if the second is not signed."""
    (low, high), (least, most) = bounds(moved), bounds(other)
    if most > limits(int8.dtype)[1]:
        return None
    low = min(low, 0)
    return ByteProduct(moved, low, other, 2 * max(high - low, -low) * max(-least, most))
