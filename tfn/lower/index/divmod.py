"""Division and remainder by constants: what reshapes leave behind in index arithmetic.

Flattening an index and taking it apart again must cancel.  A sum splits into what the divisor
divides and the rest; the rest often lies within one multiple of the divisor, and is gone.

    (i * 12 + j * 4 + k) // 4   ->   i * 3 + j              where k in [0, 3]
    x // 12 * 12 + x // 4 % 3 * 4 + x % 4   ->   x
"""

from __future__ import annotations

from math import gcd

from tfn.dtypes import INTEGERS
from tfn.lower.index.affine import Terms, affine, plus, span, total
from tfn.lower.index.intervals import Facts, integer
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.pattern import INDEX, hole, law
from tfn.trace.uop import UOp, const

x = hole("x", INDEX)
c, d = (hole(name, INDEX, constant=True) for name in "cd")

# fmt: off
LAWS = (
    # `c * d > 0` follows from the rest in Z: it says that the product can be written down.
    law("div-div", (x // c) // d, x // (c * d), INDEX, where=(c > 0) & (d > 0) & (c * d > 0)),
    law("mod-mod", (x % c) % d,   x % d,        INDEX, where=(c > 0) & (d > 0) & (c % d < 1)),
    law("mod-div", (x % c) // d,  (x // d) % (c // d), INDEX,
        where=(c > 0) & (d > 0) & (c % d < 1)),
)
# fmt: on


def _divisor(u: UOp, facts: Facts) -> int:
    """The constant divisor of a division in Z, or 0."""
    by = u.src[1]
    if by.op is not Op.CONST or u.dtype not in INTEGERS or not facts.exact(u):
        return 0
    return max(integer(by), 0)


def divide(u: UOp, facts: Facts) -> UOp | None:
    """``(D + R) // n -> D / n + R // n`` where n divides each term of D; R // n may be constant."""
    n = _divisor(u, facts)
    if n == 0:
        return None
    if n == 1:
        return u.src[0]
    terms, constant = affine(u.src[0])
    whole, rest = _parted(terms, n)
    low, high = span(rest, constant, facts)
    if low // n == high // n:
        return total({t: k // n for t, k in whole.items()}, low // n, u)
    low, high = span({t: k % n for t, k in rest.items()}, constant % n, facts)
    if low // n == high // n:
        return total({t: k // n for t, k in terms.items() if k // n}, constant // n + low // n, u)
    if whole:
        inner = total(rest, constant, u) // n
        return total({**{t: k // n for t, k in whole.items()}, inner: 1}, 0, u)
    digit = _digit(terms, constant, n, facts)
    if digit is not None:
        step, coarse, more, _, _ = digit
        return total(coarse, more, u) // (n // step)
    return None


def remainder(u: UOp, facts: Facts) -> UOp | None:
    """``(D + R) % n -> R % n`` where n divides each term of D; or R itself, if it is in [0, n)."""
    n = _divisor(u, facts)
    if n == 0:
        return None
    terms, constant = affine(u.src[0])
    whole, rest = _parted(terms, n)
    low, high = span(rest, constant, facts)
    if low // n == high // n:
        return total(rest, constant - low // n * n, u)
    reduced = {t: k % n for t, k in rest.items()}
    low, high = span(reduced, constant % n, facts)
    if low // n == high // n:
        return total(reduced, constant % n - low // n * n, u)
    if whole:
        return total(rest, constant, u) % n
    digit = _digit(terms, constant, n, facts)
    if digit is not None:
        step, coarse, more, fine, left = digit
        inner = total(coarse, more, u) % (n // step)
        return total({inner: step, **fine}, left, u)
    return None


def _digit(
    terms: Terms, constant: int, n: int, facts: Facts
) -> tuple[int, Terms, int, Terms, int] | None:
    """A sum as ``step * (coarse + more) + fine + left``, the last two in [0, step); step divides n.

    (i * 16 + k) // 32   ->   i // 2              where k in [0, 15]
    """
    # While an index is being composed, digits wait to be put together again.
    split = any(t.op is Op.RANGE and t.arg.place is not Place.LOOP for t in terms)
    steps = {gcd(n, k) for k in terms.values()} if split else {gcd(n, *terms.values())}
    for step in sorted(steps - {1}, reverse=True):
        fine = {t: k for t, k in terms.items() if k % step}
        low, high = span(fine, constant, facts)
        if low // step == high // step:
            coarse = {t: k // step for t, k in terms.items() if t not in fine}
            more = low // step
            return step, coarse, more, fine, constant - more * step
    return None


def _parted(terms: Terms, n: int) -> tuple[Terms, Terms]:
    """The terms whose coefficients n divides, and the others."""
    whole = {t: k for t, k in terms.items() if k % n == 0}
    return whole, ({t: k for t, k in terms.items() if k % n} if whole else terms)


def recombine(terms: Terms, constant: int) -> tuple[Terms, int]:
    """A sum with the digits of a number put together: ``y // n * n * k + y % n * k -> y * k``.

    Two digits that are not the last make one: ``y // n % m * n + y % n -> y % (m * n)``.
    """
    for low in [t for t in terms if t.op is Op.MOD and t.src[1].op is Op.CONST]:
        k = terms.get(low, 0)
        n = integer(low.src[1])
        if k == 0 or n <= 1:
            continue
        y = low.src[0]
        high = _quotient(y, n)
        if terms.get(high, 0) == k * n:
            inner, more = affine(y)
            rest = {t: j for t, j in terms.items() if t is not low and t is not high}
            return recombine(plus(rest, inner, k), constant + k * more)
        for t, j in terms.items():
            if t.op is Op.MOD and t.src[0] is high and j == k * n and t.src[1].op is Op.CONST:
                rest = {
                    other: i for other, i in terms.items() if other is not low and other is not t
                }
                return recombine(plus(rest, {y % (n * integer(t.src[1])): 1}, k), constant)
    return terms, constant


def _quotient(y: UOp, n: int) -> UOp:
    """``y // n`` as `divide` and the laws leave it, where they leave it one node."""
    if y.op is Op.FLOORDIV and y.src[1].op is Op.CONST:
        inner = integer(y.src[1])
        if inner > 0:
            return UOp(Op.FLOORDIV, (y.src[0], const(inner * n, y.dtype, y.shape)))
    return y // n
