"""Indices of 32 bits, for processors whose registers and addresses have no more.

    i: int64 counter in [0, 95]      j = i * 288 + 3       ->   int32
                                     a[j] if j < 27648     ->   an index and a comparison of int32

An int64 number is computed in int32 if its interval and those of all that it is computed of fit, so
that no value changes.  Numbers that leave the index arithmetic, for memory or for floats, are as
before.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import INT32, INT64
from tfn.lower.index.intervals import INTERVAL, Facts, Interval, limits
from tfn.trace.build import cast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, const_value, rebuild

_COMPARISONS = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})
_ACCESSES = frozenset({Op.LOAD, Op.STORE})


def narrowed(items: Sequence[UOp]) -> tuple[UOp, ...]:
    """The same instructions, with indices and conditions on them in int32 where they fit."""
    facts = Facts({u: trips for u in items if u.op is Op.LOOP and (trips := _counts(u))})
    narrow: dict[UOp, UOp] = {}
    new: dict[UOp, UOp] = {}
    out: dict[UOp, None] = {}  # in order, each once: a number may be in int32 already
    for u in items:
        src = tuple([new.get(s, s) for s in u.src])
        if u.op in _ACCESSES and (index := _narrow(u.src[1], narrow)) is not None:
            src = (src[0], index, *src[2:])
        elif u.op in _COMPARISONS and u.src[0].dtype == INT64:
            sides = [_narrow(s, narrow) for s in u.src]
            src = src if None in sides else tuple(filter(None, sides))
        new[u] = value = rebuild(u, src)
        out[value] = None
        if u.dtype == INT64 and not u.shape and _fits(u, facts):
            small = _in_int32(u, value, narrow)
            if small is not None:
                narrow[u] = small
                out.setdefault(small)
    return tuple(out)


def _counts(loop: UOp) -> Interval | None:
    """The values of a counter whose bounds are constants."""
    if len(loop.src) == 2 and all(s.op is Op.CONST for s in loop.src):
        begin, end = map(const_value, loop.src)
        return begin, max(begin, end - 1)
    return None


def _fits(u: UOp, facts: Facts) -> bool:
    if u.op is not Op.LOOP and u.op not in INTERVAL:
        return False
    (low, high), (least, most) = facts.interval(u), limits(INT32)
    return least <= low and high <= most and facts.exact(u)


def _narrow(u: UOp, narrow: dict[UOp, UOp]) -> UOp | None:
    """An int64 number in int32, if it fits."""
    if u.op is Op.CONST and not u.shape:
        value, (least, most) = const_value(u), limits(INT32)
        return const(value, INT32) if least <= value <= most else None
    return narrow.get(u)


def _in_int32(u: UOp, value: UOp, narrow: dict[UOp, UOp]) -> UOp | None:
    """A number that fits, computed in int32 from what is in int32 already."""
    if u.op is Op.LOOP:
        return UOp(Op.CAST, (value,), INT32)
    if u.op is Op.CAST:
        return cast(value.src[0], INT32) if value.src[0].dtype != INT64 else None
    sources = [
        _narrow(s, narrow) if s.dtype == INT64 else v for s, v in zip(u.src, value.src, strict=True)
    ]
    return None if None in sources else rebuild(u, tuple(filter(None, sources)))
