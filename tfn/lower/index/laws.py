"""Algebraic laws of integers, predicates and floats, as a table; each is proved by z3.

    (i + c) + d    ->  i + (c + d)       over INT: integers of a fixed width, which wrap around
    n // e < f     ->  n < f * e         over INDEX: Z, where e > 0
    x * 1          ->  x                 over FLOAT: IEEE 754
    b & true       ->  b                 over BITS: bool

Floats are simplified only as IEEE 754 allows: ``x * 1`` and ``x + -0.0`` are x, but ``x + 0``,
``x * 0``, ``x - x`` and ``x / x`` stay.  A row is a name, a left side, a right side that is never
worse, and the sort over which the law holds; holes named c, d, e, f, g and k match constants only.
"""

from __future__ import annotations

from tfn.dtypes import BOOL
from tfn.lower.index import divmod
from tfn.trace.build import eq, maximum, minimum, ne, unary, where
from tfn.trace.op import Op
from tfn.trace.pattern import BITS, FLOAT, INDEX, INT, Law, Sort, hole, law
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


def _selections(sort: Sort) -> tuple[Law, ...]:
    """The laws of WHERE, MAX, MIN and equality, which hold over every sort."""
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

    *_selections(INT), *_selections(FLOAT), *_selections(BITS),
    *divmod.LAWS,
)
# fmt: on
