"""Index arithmetic, gates and values made smaller: laws over each sort, and named folds.

    (i * 4 + j) // 4 * 4 + j   ->   i * 4 + j        where j in [0, 3]

Integers are simplified by what they are; floats only by what IEEE 754 allows: ``x * 1`` and
``x + -0.0`` are x, but ``x + 0``, ``x * 0``, ``x - x`` and ``x / x`` stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import frexp, gcd

import numpy as np

from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT64,
    INTEGERS,
    DType,
)
from tfn.lower.index import divmod
from tfn.lower.index.affine import Terms, affine, plus, span, total
from tfn.lower.index.intervals import Facts, Interval, integer
from tfn.trace.build import cast, eq, maximum, minimum, ne, unary, where
from tfn.trace.op import Op
from tfn.trace.oracle import apply
from tfn.trace.pattern import BITS, FLOAT, INDEX, INT, Law, Sort, hole, law
from tfn.trace.primitives import PRIMITIVES
from tfn.trace.rewrite import Apply, rewrite, rules
from tfn.trace.uop import UOp, const

b, p, k = hole("b", BITS), hole("p", BITS), hole("k", BITS, constant=True)
yes, no = const(True, BOOL), const(False, BOOL)
i, j = hole("i", INT), hole("j", INT)
c, d = hole("c", INT, constant=True), hole("d", INT, constant=True)
zero, ones = const(0, INT.dtype), const(-1, INT.dtype)
n = hole("n", INDEX)
e, f = hole("e", INDEX, constant=True), hole("f", INDEX, constant=True)
x, y, g = hole("x", FLOAT), hole("y", FLOAT), hole("g", FLOAT, constant=True)
one, minus_one, minus_zero = (const(v, FLOAT.dtype) for v in (1.0, -1.0, -0.0))


def _choices(sort: Sort) -> tuple[Law, ...]:
    u, v, w = hole("u", sort), hole("v", sort), hole("w", sort)
    tag = "" if sort is INT else f"-{sort.name.lower()}"
    # fmt: off
    return (
        law("where-true" + tag,  where(yes, u, v),                u,                    sort),
        law("where-false" + tag, where(no, u, v),                 v,                    sort),
        law("where-not" + tag,   where(~b, u, v),                 where(b, v, u),       sort),
        law("where-same" + tag,  UOp(Op.WHERE, (b, u, u)),        u,                    sort),
        law("where-then" + tag,  where(b, where(b, u, v), w),     where(b, u, w),       sort),
        law("where-else" + tag,  where(b, u, where(b, v, w)),     where(b, u, w),       sort),
        law("where-and" + tag,   where(b, where(p, u, v), v),     where(b & p, u, v),   sort),
        law("not-equal" + tag,   ~eq(u, v),                       ne(u, v),             sort),
        law("not-differ" + tag,  ~ne(u, v),                       eq(u, v),             sort),
        law("max-same" + tag,    maximum(u, u),                   u,                    sort),
        law("min-same" + tag,    minimum(u, u),                   u,                    sort),
    )
    # fmt: on


# fmt: off
LAWS: tuple[Law, ...] = (
    law("add-zero",       i + 0,                   i,                     INT),
    law("sub-zero",       i - 0,                   i,                     INT),
    law("sub-self",       i - i,                   zero,                  INT),
    law("mul-one",        i * 1,                   i,                     INT),
    law("mul-zero",       i * 0,                   zero,                  INT),
    law("div-one",        i // 1,                  i,                     INT),
    law("neg-neg",        unary(Op.NEG, -i),       i,                     INT),
    law("not-not",        ~(~i),                   i,                     INT),
    law("add-constants",  (i + c) + d,             i + (c + d),           INT),
    law("mul-constants",  (i * c) * d,             i * (c * d),           INT),
    law("constant-add",   c + i,                   i + c,                 INT),
    law("constant-mul",   c * i,                   i * c,                 INT),
    law("constant-and",   c & i,                   i & c,                 INT),
    law("constant-or",    c | i,                   i | c,                 INT),
    law("constant-xor",   c ^ i,                   i ^ c,                 INT),
    law("constant-max",   maximum(c, i),           maximum(i, c),         INT),
    law("constant-min",   minimum(c, i),           minimum(i, c),         INT),
    law("and-self",       i & i,                   i,                     INT),
    law("and-zero",       i & 0,                   zero,                  INT),
    law("and-ones",       i & ones,                i,                     INT),
    law("or-self",        i | i,                   i,                     INT),
    law("or-zero",        i | 0,                   i,                     INT),
    law("xor-self",       i ^ i,                   zero,                  INT),
    law("xor-zero",       i ^ 0,                   i,                     INT),
    law("shl-zero",       i << 0,                  i,                     INT),
    law("shr-zero",       i >> 0,                  i,                     INT),
    law("max-constants",  maximum(maximum(i, c), d), maximum(i, maximum(c, d)), INT),
    law("min-constants",  minimum(minimum(i, c), d), minimum(i, minimum(c, d)), INT),
    law("not-less",       ~(i < j),                j <= i,                INT),
    law("not-at-most",    ~(i <= j),               j < i,                 INT),
    law("less-self",      i < i,                   no,                    INT),
    law("at-most-self",   i <= i,                  yes,                   INT),
    law("equal-self",     eq(i, i),                yes,                   INT),
    law("differ-self",    ne(i, i),                no,                    INT),

    law("div-less",       n // e < f,              n < f * e,             INDEX, where=e > 0),
    law("less-div",       f < n // e,              f * e + (e - 1) < n,   INDEX, where=e > 0),

    law("constant-and-bits", k & b,                b & k,                 BITS),
    law("constant-or-bits",  k | b,                b | k,                 BITS),
    law("constant-xor-bits", k ^ b,                b ^ k,                 BITS),
    law("and-true",       b & yes,                 b,                     BITS),
    law("and-false",      b & no,                  no,                    BITS),
    law("and-same",       b & b,                   b,                     BITS),
    law("or-true",        b | yes,                 yes,                   BITS),
    law("or-false",       b | no,                  b,                     BITS),
    law("or-same",        b | b,                   b,                     BITS),
    law("xor-true",       b ^ yes,                 ~b,                    BITS),
    law("xor-false",      b ^ no,                  b,                     BITS),
    law("not-not-bits",   ~(~b),                   b,                     BITS),
    law("where-bool",     where(b, yes, no),       b,                     BITS),
    law("where-not-bool", where(b, no, yes),       ~b,                    BITS),

    law("constant-add-float", g + x,               x + g,                 FLOAT),
    law("constant-mul-float", g * x,               x * g,                 FLOAT),
    law("mul-one-float",  x * one,                 x,                     FLOAT),
    law("div-one-float",  x / one,                 x,                     FLOAT),
    law("mul-minus-one",  x * minus_one,             -x,                    FLOAT),
    law("add-minus-zero", x + minus_zero,          x,                     FLOAT),
    law("sub-plus-zero",  x - 0.0,                 x,                     FLOAT),
    law("minus-zero-sub", minus_zero - x,          -x,                    FLOAT),
    law("neg-neg-float",  unary(Op.NEG, -x),       x,                     FLOAT),
    law("add-neg",        x + (-y),                x - y,                 FLOAT),
    law("neg-add",        (-x) + y,                y - x,                 FLOAT),
    law("sub-neg",        x - (-y),                x + y,                 FLOAT),
    law("neg-mul-neg",    (-x) * (-y),             x * y,                 FLOAT),
    law("abs-neg",        unary(Op.ABS, -x),       unary(Op.ABS, x),      FLOAT),
    law("abs-abs",        unary(Op.ABS, unary(Op.ABS, x)), unary(Op.ABS, x), FLOAT),

    *_choices(INT), *_choices(FLOAT), *_choices(BITS),
    *divmod.LAWS,
)
# fmt: on


def decided(u: UOp, facts: Facts) -> UOp | None:
    """An integer or bool that can have only one value is that value."""
    if u.dtype in FLOATS:
        return None
    low, high = facts.interval(u)
    return const(low, u.dtype, u.shape) if low == high else None


def known(u: UOp, facts: Facts) -> UOp | None:
    """An op of constants is what the oracle says, where every target says the same."""
    for s in u.src:
        if s.op is not Op.CONST:
            return None
    value = apply(u.op, u.arg, *[np.asarray(s.arg.value) for s in u.src])
    return const(value, u.dtype, u.shape)


def collect(u: UOp, facts: Facts) -> UOp | None:
    """A sum in its one form: like terms together, digits of one number recombined."""
    if u.dtype != INT64 or not facts.exact(u):
        return None
    return total(*divmod.recombine(*affine(u)), u)


def compare(u: UOp, facts: Facts) -> UOp | None:
    """A comparison of sums: decided by their difference, or with smaller numbers.

    r * 4 + s < 12   ->   r < 3        where s in [0, 3]
    """
    left, right = u.src
    if left.dtype != INT64 or not facts.exact(u):
        return None
    terms, constant = affine(left)
    other, less = affine(right)
    terms, constant = divmod.recombine(plus(terms, other, -1), constant - less)
    low, high = span(terms, constant, facts)
    if u.op in (Op.EQ, Op.NE):
        return _equality(u, terms, constant, low <= 0 <= high)
    if u.op is Op.LE:  # in Z, x <= y is x < y + 1
        low, high, constant = low - 1, high - 1, constant - 1
    if high < 0 or low >= 0:
        return const(high < 0, BOOL, u.shape)
    terms, limit = _coarser(terms, -constant, facts)
    above, below = _sides(terms)
    if not above:
        return const(-limit, INT64, u.shape) < total(below, 0, left)
    if below and limit == 1:
        return total(above, 0, left) <= total(below, 0, left)
    return total(above, 0, left) < total(below, limit, left)


def _equality(u: UOp, terms: Terms, constant: int, possible: bool) -> UOp:
    step = gcd(*terms.values())
    if not possible or (step and constant % step):
        return const(u.op is Op.NE, BOOL, u.shape)
    if not terms:
        return const((constant == 0) == (u.op is Op.EQ), BOOL, u.shape)
    above, below = _sides({t: k // step for t, k in terms.items()})
    constant //= step
    if not above:
        above, below, constant = below, {}, -constant
    like = u.src[0]
    return UOp(u.op, (total(above, 0, like), total(below, -constant, like)))


def _sides(terms: Terms) -> tuple[Terms, Terms]:
    above = {t: k for t, k in terms.items() if k > 0}
    return above, {t: -k for t, k in terms.items() if k < 0}


def _coarser(terms: Terms, limit: int, facts: Facts) -> tuple[Terms, int]:
    """``step * S + R < limit`` as ``S < limit'``, if R cannot tell."""
    steps = {abs(k) for k in terms.values()} | {gcd(*terms.values())}
    for step in sorted(steps - {0, 1}, reverse=True):
        rest = {t: k for t, k in terms.items() if k % step}
        low, high = span(rest, 0, facts)
        coarse = -((low - limit) // step)
        if coarse == -((high - limit) // step):
            return {t: k // step for t, k in terms.items() if t not in rest}, coarse
    return terms, limit


def extreme(u: UOp, facts: Facts) -> UOp | None:
    """The larger or smaller of two integers that do not overlap."""
    if u.dtype in FLOATS:
        return None
    left, right = u.src
    x, y = facts.interval(left), facts.interval(right)
    if x[0] >= y[1]:
        return left if u.op is Op.MAX else right
    if y[0] >= x[1]:
        return right if u.op is Op.MAX else left
    return None


def gate(u: UOp, facts: Facts) -> UOp | None:
    """A conjunction with each condition once, and one limit on each side of a value.

    a < 5 & g & a < 3 & g   ->   a < 3 & g
    """
    if u.dtype != BOOL:
        return None
    parts = _conjuncts(u)
    upper: dict[UOp, int] = {}
    lower: dict[UOp, int] = {}
    kept: dict[UOp, UOp] = {}  # what a condition is about, and the strictest such condition
    for part in parts:
        about, limit, side = _limit(part, upper, lower)
        if about is None:
            kept[part] = part
        elif side is upper and limit < upper.get(about, limit + 1):
            upper[about] = limit
            kept[UOp(Op.LT, (about, about))] = part
        elif side is lower and limit > lower.get(about, limit - 1):
            lower[about] = limit
            kept[UOp(Op.LE, (about, about))] = part
    empty = any(t in lower and lower[t] + 1 >= most for t, most in upper.items())
    if empty or any(part.op is Op.NOT and part.src[0] in kept for part in parts):
        return const(False, BOOL, u.shape)
    if len(kept) == len(parts):
        return None
    first, *others = kept.values()
    for part in others:
        first = first & part
    return first


def _conjuncts(u: UOp) -> list[UOp]:
    parts: list[UOp] = []
    stack = [u]
    while stack:
        node = stack.pop()
        if node.op is Op.AND and len(parts) + len(stack) < 64:
            stack += (node.src[1], node.src[0])
        else:
            parts.append(node)
    return parts


def _limit(part: UOp, upper: Terms, lower: Terms) -> tuple[UOp | None, int, Terms]:
    if part.op is Op.LT and part.src[0].dtype in INTEGERS:
        left, right = part.src
        if right.op is Op.CONST:
            return left, integer(right), upper
        if left.op is Op.CONST:
            return right, integer(left), lower
    return None, 0, upper


def implied(u: UOp) -> dict[UOp, Interval]:
    """Between which values integers lie where a gate holds.

    255 < r & r < 512   ->   {r: (256, 511)}
    """
    upper: dict[UOp, int] = {}
    lower: dict[UOp, int] = {}
    for part in _conjuncts(u):
        about, limit, side = _limit(part, upper, lower)
        if about is not None:
            tighter = min if side is upper else max
            side[about] = tighter(side.get(about, limit), limit)
    return {t: (lower.get(t, _LEAST) + 1, upper.get(t, -_LEAST) - 1) for t in (*upper, *lower)}


_LEAST = -(1 << 63)


_WIDER = {(FLOAT32, FLOAT64)} | {
    (h, w) for h in FLOATS for w in (FLOAT32, FLOAT64) if h.itemsize == 2
}


def _keeps(u: UOp, to: DType, facts: Facts) -> bool:
    """Whether every value of `u` is a value of `to`."""
    if u.dtype in FLOATS:
        return (u.dtype, to) in _WIDER
    low, high = facts.interval(u)
    if to in FLOATS:
        digits = {FLOAT16: 11, FLOAT32: 24, FLOAT64: 53}.get(to, 8)
        return max(-low, high) <= 1 << digits
    if to == BOOL:
        return u.dtype == BOOL
    info = np.iinfo(to)
    return bool(info.min <= low and high <= info.max)


def _said(start: DType, to: DType) -> bool:
    """Whether there is a cast between two dtypes: 16-bit floats have those of float32 only."""
    return start == to or FLOAT32 in (start, to) or not {FLOAT16, BFLOAT16} & {start, to}


def recast(u: UOp, facts: Facts) -> UOp | None:
    """A cast of a cast that lost nothing is one cast; casts to INT64 sink to the ranges."""
    inner, to = u.src[0], u.dtype
    if inner.dtype == to:
        return inner
    if inner.op is Op.CAST:
        start = inner.src[0]
        whole = start.dtype in INTEGERS and inner.dtype in INTEGERS and to in INTEGERS
        if whole and to.itemsize <= inner.dtype.itemsize:
            return cast(start, to)
        saturates = start.dtype not in FLOATS and inner.dtype in FLOATS and to in INTEGERS
        kept = _keeps(start, inner.dtype, facts) and (not saturates or _keeps(start, to, facts))
        if kept and _said(start.dtype, to):
            return cast(start, to)
    if to == INT64 and inner.op in _ARITHMETIC and _free(inner, 8) and facts.exact(inner):
        return UOp(inner.op, tuple(cast(s, INT64) for s in inner.src))
    return None


_ARITHMETIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.FLOORDIV, Op.MOD, Op.MAX, Op.MIN})


def _free(u: UOp, depth: int) -> bool:
    """Whether `u` is integer arithmetic of constants and of casts from INT64."""
    if u.op is Op.CONST:
        return True
    if u.op is Op.CAST:
        return u.src[0].dtype == INT64
    return depth > 0 and u.op in _ARITHMETIC and all(_free(s, depth - 1) for s in u.src)


def power_of_two(u: UOp, facts: Facts) -> UOp | None:
    """``x / c`` as ``x * (1 / c)`` where both are exact: c is a power of two."""
    divisor = u.src[1]
    if divisor.op is not Op.CONST:
        return None
    value = float(divisor.arg.value)
    if not np.isfinite(value) or abs(frexp(value)[0]) != 0.5:
        return None
    inverse = const(1 / value, u.dtype, u.shape)
    if float(inverse.arg.value) * value != 1:
        return None
    return u.src[0] * inverse


def gated_load(u: UOp, facts: Facts) -> UOp | None:
    """A load whose gate is known: a plain load, or the zero that a closed gate gives."""
    if len(u.src) < 3 or u.src[2].op is not Op.CONST:
        return None
    if u.src[2].arg.bits:
        return UOp(Op.LOAD, u.src[:2], u.arg)
    return const(0, u.dtype, u.shape)


_OWN: dict[Op, tuple[Apply[Facts], ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.SHL), (collect,)),
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ, Op.NE), (compare,)),
    **dict.fromkeys((Op.MAX, Op.MIN), (extreme,)),
    Op.FLOORDIV: (divmod.divide,),
    Op.MOD: (divmod.remainder,),
    Op.AND: (gate,),
    Op.CAST: (recast,),
    Op.DIV: (power_of_two,),
}
FOLDS: dict[Op, tuple[Apply[Facts], ...]] = {
    **{op: (decided, known, *_OWN.get(op, ())) for op, row in PRIMITIVES.items() if row.exact},
    Op.LOAD: (gated_load,),
}
"""The folds of each op, in the order in which they are tried; laws come after them."""
RULES = rules(FOLDS, LAWS)


class _Memory:
    """What has been found out about nodes, for as long as one working set lasts."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.done: dict[UOp, UOp] = {}


_MEMORY = [_Memory()]
_WORKING_SET = 20_000


def forget() -> None:
    """Drop what has been found out about nodes."""
    _MEMORY[0] = _Memory()


def simplify_all(
    roots: Iterable[UOp],
    given: Mapping[UOp, Interval] | None = None,
    hits: Counter[str] | None = None,
) -> list[UOp]:
    """The roots simplified together; `given` narrows nodes, `hits` counts rules by name.

    Passes build indices step by step and simplify each step, so results are remembered.
    """
    if given or hits is not None:
        return rewrite(roots, RULES, Facts(given), {}, hits)
    if len(_MEMORY[0].done) > _WORKING_SET:
        forget()
    memory = _MEMORY[0]
    return rewrite(roots, RULES, memory.facts, memory.done)


def simplify(u: UOp, given: Mapping[UOp, Interval] | None = None) -> UOp:
    """A node simplified until no rule applies.

    Example:
        >>> from tfn.trace.argument import Range
        >>> r = UOp(Op.RANGE, (), Range(0, 24))
        >>> simplify(r // 4 * 4 + r % 4) is r
        True
    """
    return simplify_all([u], given)[0]
