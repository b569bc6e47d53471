"""Interval analysis: intervals hold every value, and are tight in index arithmetic."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import covering
from tests.covering import together
from tests.lower.random_indices import RANGES, at_every_point, index, indices, predicates, ranged
from tfn.dtypes import BOOL, FLOAT32, INT32, INT64, INTEGERS, UINT64, iinfo, int8, uint8
from tfn.lower.index.intervals import Facts, bounds
from tfn.trace.argument import Param, Range
from tfn.trace.build import cast, iota, maximum, minimum, where
from tfn.trace.op import Op
from tfn.trace.oracle import apply
from tfn.trace.uop import UOp, const, const_value

r, s, t = RANGES


def loaded(dtype):
    buffer = UOp(Op.PARAM, (), Param(0, (10,), dtype))
    return UOp(Op.LOAD, (buffer, index(0)))


@given(st.one_of(indices(), predicates()))
@settings(max_examples=covering.examples(300), deadline=None)
def test_the_interval_holds_every_value(u):
    low, high = bounds(u)
    values = at_every_point(u)
    assert low <= values.min()
    assert values.max() <= high


@together(
    "u, expected",
    [
        (r * 4 + s, (0, 14)),
        ((r * 3 + s) // 3, (0, 3)),
        (t % 4, (0, 3)),
        (t % 6, (0, 5)),
        ((t + 6) % 6, (0, 5)),
        (-t, (-5, 0)),
        (r - s, (-2, 3)),
        (t // 2 - 1, (-1, 1)),
        ((t - 1) // 2, (-1, 2)),
        (maximum(r, s), (0, 3)),
        (minimum(r, s + 1), (0, 3)),
        (where(r < 2, s, t + 10), (0, 15)),
        (t << 2, (0, 20)),
        (t >> 1, (0, 2)),
        (t & 3, (0, 3)),
        (r < 4, (1, 1)),
        (r < 0, (0, 0)),
        (r < 2, (0, 1)),
        (UOp(Op.EQ, (r, t + 10)), (0, 0)),
        (UOp(Op.NE, (r, t + 10)), (1, 1)),
        (UOp(Op.ABS, (r - 3,)), (0, 3)),
        (cast(r, INT32), (0, 3)),
        (cast(r < 2, INT64), (0, 1)),
        (UOp(Op.BITCAST, (t,), UINT64), (0, 5)),
        (UOp(Op.BITCAST, (-t - 1,), UINT64), (2**64 - 6, 2**64 - 1)),
        (UOp(Op.BITCAST, (-t,), UINT64), (0, 2**64 - 1)),
        (UOp(Op.BITCAST, (UOp(Op.BITCAST, (-t - 1,), UINT64),), INT64), (-6, -1)),
    ],
)
def test_intervals_of_index_arithmetic(u, expected):
    assert bounds(u) == expected


def test_a_loaded_value_may_be_any_of_its_dtype():
    assert bounds(loaded(uint8.dtype)) == (0, 255)
    assert bounds(loaded(INT32)) == (-(2**31), 2**31 - 1)
    assert bounds(loaded(BOOL)) == (0, 1)
    assert bounds(cast(loaded(FLOAT32), int8.dtype)) == (-128, 127)
    assert bounds(loaded(FLOAT32) < const(0, FLOAT32)) == (0, 1)


def test_assumed_intervals_narrow():
    assert bounds(r * 4 - 1, {r: (2, 3)}) == (7, 11)
    assert bounds(r % 2, {r % 2: (1, 1)}) == (1, 1)


def test_ranges_of_any_size_and_with_a_bound():
    assert bounds(ranged(5, 1)) == (0, 0)
    block = UOp(Op.RANGE, (index(10) - r * 4,), Range(6, 4))
    assert bounds(block) == (0, 3)
    assert bounds(UOp(Op.RANGE, (const(2, INT64) + r * 0,), Range(6, 4))) == (0, 1)


def test_arithmetic_that_may_wrap_around_is_not_exact():
    facts = Facts()
    assert facts.exact(r * 4 + s)
    assert not facts.exact(loaded(INT64) * 2)
    assert not facts.exact((loaded(INT64) + 1) // 2)
    assert facts.exact(cast(loaded(INT32), INT64) * 1000 + r)
    assert not facts.exact(r // s)  # s may be 0
    assert facts.exact(r // (s + 1))
    assert facts.interval(loaded(INT64) * 2) == (-(2**63), 2**63 - 1)
    byte = cast(r, uint8.dtype)
    assert not facts.exact(byte - 1)
    assert facts.interval(byte - 1) == (0, 255)


def test_constants_of_every_dtype():
    for dtype in INTEGERS:
        info = iinfo(dtype)
        for value in (int(info.min), 0, 1, int(info.max)):
            assert const_value(const(value, dtype)) == value


def test_iota_and_movement():
    assert bounds(iota((3, 5), 1)) == (0, 4)


def test_long_chains_do_not_recurse():
    u = r
    for _ in range(20_000):
        u = UOp(Op.XOR, (u, s))
    assert bounds(u) == (0, 3)


@given(st.data())
@settings(max_examples=covering.examples(300), deadline=None)
def test_each_rule_against_the_oracle_on_bytes(data):
    """Of dtypes of 8 bits, which often wrap around."""
    op = data.draw(st.sampled_from(sorted(BYTES, key=lambda op: op.value)))
    dtype = data.draw(st.sampled_from([int8.dtype, uint8.dtype]))
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    edges = st.tuples(st.integers(least, most), st.integers(least, most)).map(sorted)
    count = 1 if op in (Op.NEG, Op.ABS, Op.NOT, Op.BITCAST) else 2
    arg = (uint8.dtype if dtype.kind == "i" else int8.dtype) if op is Op.BITCAST else None
    ends = [data.draw(edges) for _ in range(count)]
    leaves = [UOp(Op.PARAM, (), Param(i, (), dtype)) for i in range(count)]
    node = UOp(op, tuple(leaves), arg)
    low, high = bounds(node, {u: tuple(e) for u, e in zip(leaves, ends)})
    values = [data.draw(st.integers(*e)) for e in ends]
    got = int(apply(op, arg, *(np.array(v, dtype) for v in values)))
    assert low <= got <= high


BYTES = {
    Op.NEG,
    Op.ABS,
    Op.NOT,
    Op.BITCAST,
    Op.ADD,
    Op.SUB,
    Op.MUL,
    Op.FLOORDIV,
    Op.MOD,
    Op.MAX,
    Op.MIN,
    Op.AND,
    Op.OR,
    Op.XOR,
    Op.SHL,
    Op.SHR,
    Op.LT,
    Op.LE,
    Op.EQ,
    Op.NE,
}
