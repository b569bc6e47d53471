"""Indices of 32 bits: what becomes int32, what stays, and that no value changes."""

from __future__ import annotations

from tfn.dtypes import INT32, INT64
from tfn.lower.codegen.narrow_indices import narrowed
from tfn.trace.argument import Access, Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

BUFFER = UOp(Op.PARAM, (), Param(0, (4096,), INT32))
LOOP = UOp(Op.LOOP, (const(0, INT64), const(96, INT64)), 1)


def accessed(index: UOp, *predicate: UOp) -> UOp:
    """A load at an index."""
    return UOp(Op.LOAD, (BUFFER, index, *predicate), Access(0, 1, 1))


def dtypes(items: tuple[UOp, ...], op: Op) -> list[object]:
    """The dtypes of the instructions of one op."""
    return [u.dtype for u in items if u.op is op]


def test_an_index_and_its_condition_are_computed_in_32_bits() -> None:
    """The counter is cast once."""
    scaled = LOOP * 40
    index = scaled + 7
    inside = index < 3000
    load = accessed(index, inside)
    items = narrowed((LOOP, scaled, index, inside, load))
    (got,) = (u for u in items if u.op is Op.LOAD)
    assert got.src[1].dtype == INT32
    assert got.src[2].src[0].dtype == INT32
    assert len([u for u in items if u.op is Op.CAST]) == 1


def test_large_numbers_stay() -> None:
    """Their interval does not fit, nor does that of what is computed of them."""
    large = LOOP * 3_000_000_000
    rest = large % 17
    items = narrowed((LOOP, large, rest, accessed(rest)))
    (got,) = (u for u in items if u.op is Op.LOAD)
    assert got.src[1].dtype == INT64


def test_numbers_of_the_user_stay() -> None:
    """An index is data, too: what is stored keeps its dtype."""
    scaled = LOOP * 40
    store = UOp(
        Op.STORE, (UOp(Op.PARAM, (), Param(1, (96,), INT64)), LOOP, scaled), Access(0, 1, 1)
    )
    items = narrowed((LOOP, scaled, store))
    (got,) = (u for u in items if u.op is Op.STORE)
    assert (got.src[1].dtype, got.src[2].dtype) == (INT32, INT64)


def test_each_number_is_computed_once() -> None:
    """An index that was loaded as int32 is that load."""
    load = accessed(const(0, INT64))
    wide = UOp(Op.CAST, (load,), INT64)
    items = narrowed((load, wide, accessed(wide)))
    assert len(items) == len(set(items))
    assert items[-1].src[1] is items[0]
