"""Folds: simplifications that have to compute something, as named functions of a node.

    r * 4 + s < 12               ->   r < 3        where s in [0, 3]
    cast(cast(r, int32), int64)  ->   r            where r fits in int32
    x / 4.0                      ->   x * 0.25     exact: 4 is a power of two

A fold takes a node and the facts that are known of values; it returns a better node or None.
`FOLDS` says which are tried for each op, in which order; laws come after them.
"""

from __future__ import annotations

from math import frexp, gcd

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, FLOATS, INT64, INTEGERS, DType
from tfn.lower.index import divmod
from tfn.lower.index.affine import Terms, add_scaled, affine, sum_interval, sum_node
from tfn.lower.index.intervals import Facts
from tfn.lower.index.predicates import simplify_conjunction
from tfn.trace.build import cast
from tfn.trace.op import Op
from tfn.trace.oracle import apply
from tfn.trace.primitives import PRIMITIVES
from tfn.trace.rewrite import Apply
from tfn.trace.uop import UOp, const

MAX_CAST_DEPTH = 8
"""Operations of index arithmetic through which a cast to INT64 is moved to the ranges below."""

FLOAT_DIGITS = {FLOAT16: 11, BFLOAT16: 8, FLOAT32: 24, FLOAT64: 53}
"""Bits of the significand: integers up to 2**digits are exact."""


def single_value(u: UOp, facts: Facts) -> UOp | None:
    """An integer or bool whose interval is one value is that constant."""
    if u.dtype in FLOATS:
        return None
    low, high = facts.interval(u)
    return const(low, u.dtype, u.shape) if low == high else None


def fold_constants(u: UOp, facts: Facts) -> UOp | None:
    """An op of constants is the constant that the oracle computes."""
    for s in u.src:  # a loop, since this is asked of every node: `any` costs a generator
        if s.op is not Op.CONST:
            return None
    value = apply(u.op, u.arg, *[np.asarray(s.arg.value) for s in u.src])
    return const(value, u.dtype, u.shape)


def collect_terms(u: UOp, facts: Facts) -> UOp | None:
    """A sum in its canonical form: like terms together, digits of one number recombined."""
    if u.dtype != INT64 or not facts.exact(u):
        return None
    return sum_node(*divmod.recombine_digits(*affine(u)), u)


def simplify_comparison(u: UOp, facts: Facts) -> UOp | None:
    """A comparison of sums: decided by their difference, or with smaller numbers.

    r * 4 + s < 12   ->   r < 3        where s in [0, 3]
    """
    left, right = u.src
    if left.dtype != INT64 or not facts.exact(u):
        return None
    # Only the sign of the difference counts, and in it common terms cancel.
    terms, constant = affine(left)
    right_terms, right_constant = affine(right)
    terms, constant = divmod.recombine_digits(
        add_scaled(terms, right_terms, -1), constant - right_constant
    )
    low, high = sum_interval(terms, constant, facts)
    if u.op in (Op.EQ, Op.NE):
        return _simplify_equality(u, terms, constant, low <= 0 <= high)
    if u.op is Op.LE:  # in Z, x <= y is x < y + 1
        low, high, constant = low - 1, high - 1, constant - 1
    if high < 0 or low >= 0:
        return const(high < 0, BOOL, u.shape)
    terms, limit = _divide_bound(terms, -constant, facts)
    positive, negative = _by_sign(terms)
    # One form for each comparison, so that equal conditions are one node: no negative terms.
    if not positive:
        return const(-limit, INT64, u.shape) < sum_node(negative, 0, left)
    if negative and limit == 1:
        return sum_node(positive, 0, left) <= sum_node(negative, 0, left)
    return sum_node(positive, 0, left) < sum_node(negative, limit, left)


def _simplify_equality(u: UOp, terms: Terms, constant: int, possible: bool) -> UOp:
    # A sum of multiples of n never equals a number that is none.
    divisor = gcd(*terms.values())
    if not possible or (divisor and constant % divisor):
        return const(u.op is Op.NE, BOOL, u.shape)
    if not terms:
        return const((constant == 0) == (u.op is Op.EQ), BOOL, u.shape)
    positive, negative = _by_sign({t: k // divisor for t, k in terms.items()})
    constant //= divisor
    if not positive:
        positive, negative, constant = negative, {}, -constant
    like = u.src[0]
    return UOp(u.op, (sum_node(positive, 0, like), sum_node(negative, -constant, like)))


def _by_sign(terms: Terms) -> tuple[Terms, Terms]:
    """The terms with positive coefficients, and the others with theirs negated."""
    positive = {t: k for t, k in terms.items() if k > 0}
    return positive, {t: -k for t, k in terms.items() if k < 0}


def _divide_bound(terms: Terms, limit: int, facts: Facts) -> tuple[Terms, int]:
    """``n * S + R < limit`` as ``S < limit'`` where no value of R makes a difference."""
    divisors = {abs(k) for k in terms.values()} | {gcd(*terms.values())}
    for n in sorted(divisors - {0, 1}, reverse=True):
        rest = {t: k for t, k in terms.items() if k % n}
        low, high = sum_interval(rest, 0, facts)
        divided_limit = -((low - limit) // n)
        if divided_limit == -((high - limit) // n):
            return {t: k // n for t, k in terms.items() if t not in rest}, divided_limit
    return terms, limit


def decide_extreme(u: UOp, facts: Facts) -> UOp | None:
    """The larger or smaller of two integers whose intervals do not overlap."""
    if u.dtype in FLOATS:
        return None
    left, right = u.src
    x, y = facts.interval(left), facts.interval(right)
    if x[0] >= y[1]:
        return left if u.op is Op.MAX else right
    if y[0] >= x[1]:
        return right if u.op is Op.MAX else left
    return None


_WIDENING = {(FLOAT32, FLOAT64)} | {
    (half, wide) for half in FLOATS for wide in (FLOAT32, FLOAT64) if half.itemsize == 2
}
"""Casts between floats that keep every value."""


def _is_lossless(u: UOp, to: DType, facts: Facts) -> bool:
    """Whether every value of `u` is a value of `to`."""
    if u.dtype in FLOATS:
        return (u.dtype, to) in _WIDENING
    low, high = facts.interval(u)
    if to in FLOATS:
        return max(-low, high) <= 1 << FLOAT_DIGITS[to]
    if to == BOOL:
        return u.dtype == BOOL
    info = np.iinfo(to)
    return bool(info.min <= low and high <= info.max)


def _has_cast(start: DType, to: DType) -> bool:
    """Whether there is a cast between two dtypes: 16-bit floats are cast by way of float32 only."""
    return start == to or FLOAT32 in (start, to) or not {FLOAT16, BFLOAT16} & {start, to}


def simplify_cast(u: UOp, facts: Facts) -> UOp | None:
    """A cast of a lossless cast is one cast; casts to INT64 move down to the ranges."""
    inner, to = u.src[0], u.dtype
    if inner.dtype == to:
        return inner
    if inner.op is Op.CAST:
        start = inner.src[0]
        integers = start.dtype in INTEGERS and inner.dtype in INTEGERS and to in INTEGERS
        # Narrowing keeps the low bits, whatever was between.
        if integers and to.itemsize <= inner.dtype.itemsize:
            return cast(start, to)
        # From floats to integers a cast saturates, between integers it wraps around.
        saturates = start.dtype not in FLOATS and inner.dtype in FLOATS and to in INTEGERS
        lossless = _is_lossless(start, inner.dtype, facts)
        lossless = lossless and (not saturates or _is_lossless(start, to, facts))
        if lossless and _has_cast(start.dtype, to):
            return cast(start, to)
    if (
        to == INT64
        and inner.op in _ARITHMETIC
        and _is_narrowed_index(inner, MAX_CAST_DEPTH)
        and facts.exact(inner)
    ):
        return UOp(inner.op, tuple(cast(s, INT64) for s in inner.src))
    return None


_ARITHMETIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.FLOORDIV, Op.MOD, Op.MAX, Op.MIN})


def _is_narrowed_index(u: UOp, depth: int) -> bool:
    """Whether `u` is integer arithmetic of constants and of casts from INT64."""
    if u.op is Op.CONST:
        return True
    if u.op is Op.CAST:
        return u.src[0].dtype == INT64
    return (
        depth > 0 and u.op in _ARITHMETIC and all(_is_narrowed_index(s, depth - 1) for s in u.src)
    )


def divide_by_power_of_two(u: UOp, facts: Facts) -> UOp | None:
    """``x / c`` as ``x * (1 / c)`` where both are exact: c is a power of two."""
    divisor = u.src[1]
    if divisor.op is not Op.CONST:
        return None
    value = float(divisor.arg.value)
    if not np.isfinite(value) or abs(frexp(value)[0]) != 0.5:
        return None
    inverse = const(1 / value, u.dtype, u.shape)
    # The inverse of a denormal overflows, and that of a very large number may be rounded.
    if float(inverse.arg.value) * value != 1:
        return None
    return u.src[0] * inverse


def decide_predicate(u: UOp, facts: Facts) -> UOp | None:
    """A load whose predicate is constant: a plain load, or zero."""
    if len(u.src) < 3 or u.src[2].op is not Op.CONST:
        return None
    if u.src[2].arg.bits:
        return UOp(Op.LOAD, u.src[:2], u.arg)
    return const(0, u.dtype, u.shape)


_OWN: dict[Op, tuple[Apply[Facts], ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.SHL), (collect_terms,)),
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ, Op.NE), (simplify_comparison,)),
    **dict.fromkeys((Op.MAX, Op.MIN), (decide_extreme,)),
    Op.FLOORDIV: (divmod.divide,),
    Op.MOD: (divmod.remainder,),
    Op.AND: (simplify_conjunction,),
    Op.CAST: (simplify_cast,),
    Op.DIV: (divide_by_power_of_two,),
}
FOLDS: dict[Op, tuple[Apply[Facts], ...]] = {
    **{
        op: (single_value, fold_constants, *_OWN.get(op, ()))
        for op, row in PRIMITIVES.items()
        if row.exact
    },
    Op.LOAD: (decide_predicate,),
}
"""The folds of each exact op, in the order in which they are tried; laws come after them.

Each target rounds inexact ops in its own way: evaluated when compiling, results would differ.
"""
