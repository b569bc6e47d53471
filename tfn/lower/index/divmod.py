"""Division and remainder by constants, which reshapes leave behind in index arithmetic.

Flattening an index and unflattening it again must cancel.  A sum splits into multiples of the
divisor and a rest; if the rest stays within one multiple of the divisor, its quotient is constant.

    (i * 12 + j * 4 + k) // 4   ->   i * 3 + j              where k in [0, 3]
    x // 12 * 12 + x // 4 % 3 * 4 + x % 4   ->   x
"""

from __future__ import annotations

from math import gcd

from tfn.dtypes import INTEGERS
from tfn.lower.index.affine import Terms, add_scaled, affine, sum_interval, sum_node
from tfn.lower.index.intervals import Facts
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.pattern import INDEX, hole, law
from tfn.trace.uop import UOp, const, const_value

x = hole("x", INDEX)
c, d = (hole(name, INDEX, constant=True) for name in "cd")

# fmt: off
LAWS = (
    # `c * d > 0` follows from the rest in Z; in INT64 it says that the product does not overflow.
    law("div-div", (x // c) // d, x // (c * d), INDEX, where=(c > 0) & (d > 0) & (c * d > 0)),
    law("mod-mod", (x % c) % d,   x % d,        INDEX, where=(c > 0) & (d > 0) & (c % d < 1)),
    law("mod-div", (x % c) // d,  (x // d) % (c // d), INDEX,
        where=(c > 0) & (d > 0) & (c % d < 1)),
)
# fmt: on


def _divisor(u: UOp, facts: Facts) -> int:
    """The constant divisor of a division in Z, or 0."""
    divisor = u.src[1]
    if divisor.op is not Op.CONST or u.dtype not in INTEGERS or not facts.exact(u):
        return 0
    return max(const_value(divisor), 0)


def divide(u: UOp, facts: Facts) -> UOp | None:
    """``(D + R) // n -> D / n + R // n`` where n divides each term of D; R // n may be constant."""
    n = _divisor(u, facts)
    if n == 0:
        return None
    if n == 1:
        return u.src[0]
    terms, constant = affine(u.src[0])
    multiples, rest = _split_by_divisor(terms, n)
    # The rest stays within one multiple of n, so its quotient is constant.
    low, high = sum_interval(rest, constant, facts)
    if low // n == high // n:
        return sum_node({t: k // n for t, k in multiples.items()}, low // n, u)
    # Or it does so after the multiples of n within its coefficients are taken out.
    low, high = sum_interval({t: k % n for t, k in rest.items()}, constant % n, facts)
    if low // n == high // n:
        return sum_node(
            {t: k // n for t, k in terms.items() if k // n}, constant // n + low // n, u
        )
    if multiples:
        # The quotient of a shorter sum is more likely to be shared, and to simplify further.
        inner = sum_node(rest, constant, u) // n
        return sum_node({**{t: k // n for t, k in multiples.items()}, inner: 1}, 0, u)
    digits = _split_digits(terms, constant, n, facts)
    if digits is not None:
        step, coarse, coarse_constant, _, _ = digits
        return sum_node(coarse, coarse_constant, u) // (n // step)
    return None


def remainder(u: UOp, facts: Facts) -> UOp | None:
    """``(D + R) % n -> R % n`` where n divides each term of D; or R itself, if it is in [0, n)."""
    n = _divisor(u, facts)
    if n == 0:
        return None
    terms, constant = affine(u.src[0])
    multiples, rest = _split_by_divisor(terms, n)
    low, high = sum_interval(rest, constant, facts)
    if low // n == high // n:
        return sum_node(rest, constant - low // n * n, u)
    reduced = {t: k % n for t, k in rest.items()}
    low, high = sum_interval(reduced, constant % n, facts)
    if low // n == high // n:
        return sum_node(reduced, constant % n - low // n * n, u)
    if multiples:
        return sum_node(rest, constant, u) % n
    digits = _split_digits(terms, constant, n, facts)
    if digits is not None:
        step, coarse, coarse_constant, fine, fine_constant = digits
        inner = sum_node(coarse, coarse_constant, u) % (n // step)
        return sum_node({inner: step, **fine}, fine_constant, u)
    return None


def _split_digits(
    terms: Terms, constant: int, n: int, facts: Facts
) -> tuple[int, Terms, int, Terms, int] | None:
    """A sum as ``step * coarse + fine``, with the constant of each; step divides n.

    The fine part stays within [0, step), so that it does not reach the quotient by n.

    (i * 16 + k) // 32   ->   i // 2              where k in [0, 15]
    """
    # In a body that is split, any digit may go.  While an index is still being composed, a later
    # reshape may recombine its digits, so only a step that divides all terms is taken out.
    split = any(t.op is Op.RANGE and t.arg.place is not Place.LOOP for t in terms)
    steps = {gcd(n, k) for k in terms.values()} if split else {gcd(n, *terms.values())}
    for step in sorted(steps - {1}, reverse=True):
        fine = {t: k for t, k in terms.items() if k % step}
        low, high = sum_interval(fine, constant, facts)
        if low // step == high // step:
            coarse = {t: k // step for t, k in terms.items() if t not in fine}
            coarse_constant = low // step
            return step, coarse, coarse_constant, fine, constant - coarse_constant * step
    return None


def _split_by_divisor(terms: Terms, n: int) -> tuple[Terms, Terms]:
    """The terms whose coefficients n divides, and the others."""
    multiples = {t: k for t, k in terms.items() if k % n == 0}
    return multiples, ({t: k for t, k in terms.items() if k % n} if multiples else terms)


def recombine_digits(terms: Terms, constant: int) -> tuple[Terms, int]:
    """A sum with the digits of a number put together: ``y // n * n * k + y % n * k -> y * k``.

    Two digits that are not the last make one: ``y // n % m * n + y % n -> y % (m * n)``.
    """
    for low in [t for t in terms if t.op is Op.MOD and t.src[1].op is Op.CONST]:
        k = terms.get(low, 0)
        n = const_value(low.src[1])
        if k == 0 or n <= 1:
            continue
        y = low.src[0]
        high = _quotient(y, n)
        if terms.get(high, 0) == k * n:  # the two last digits: they are the number itself
            inner, inner_constant = affine(y)
            rest = {t: j for t, j in terms.items() if t is not low and t is not high}
            return recombine_digits(add_scaled(rest, inner, k), constant + k * inner_constant)
        for t, j in terms.items():
            if t.op is Op.MOD and t.src[0] is high and j == k * n and t.src[1].op is Op.CONST:
                rest = {
                    other: i for other, i in terms.items() if other is not low and other is not t
                }
                return recombine_digits(
                    add_scaled(rest, {y % (n * const_value(t.src[1])): 1}, k), constant
                )
    return terms, constant


def _quotient(y: UOp, n: int) -> UOp:
    """``y // n`` as the law div-div leaves it where y is a quotient."""
    if y.op is Op.FLOORDIV and y.src[1].op is Op.CONST:
        inner = const_value(y.src[1])
        if inner > 0:
            return UOp(Op.FLOORDIV, (y.src[0], const(inner * n, y.dtype, y.shape)))
    return y // n
