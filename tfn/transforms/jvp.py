"""Forward pass (forward-mode differentiation): the table `JVP`, one row per op.

A rule takes a node and the tangents of its sources, None for zero, and gives the tangent of the
node.  What a rule builds is made of the same ops, so derivatives of every order come from the one
table.  A tangent has the shape and dtype of its primal; several results have a tuple of them.

    push([sin(x)], {x: dx})  ->  [dx * cos(x)]

Where a derivative does not exist, these are JAX's choices: equal shares among the ties of max and
min, 1 for abs at zero, 0 for sign and rounding, and infinities where the slope is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tfn.dtypes import COMPLEXES, INEXACT, finfo, part
from tfn.trace import source_lines
from tfn.trace.build import (
    accumulator,
    add_up,
    cast,
    concat,
    conj,
    eq,
    expand,
    full_like,
    gather,
    iota,
    maximum,
    minimum,
    permute,
    real,
    reshape,
    scatter,
    several,
    shrink,
    unary,
    where,
    zeros,
)
from tfn.trace.op import COMPARE, Op, Shape
from tfn.trace.uop import UOp, walk
from tfn.transforms import callback_rules, kernel_rules, region_rules
from tfn.transforms.gather_rules import at
from tfn.transforms.shard import collective_rules
from tfn.transforms.transpose import forward

Tangents = Sequence[Any]
Rule = Callable[[UOp, Tangents], Any]


def push(outputs: Sequence[UOp], tangents: Mapping[UOp, UOp]) -> list[UOp | None]:
    """The tangents of outputs, None where they are zero, from those of some nodes."""
    tangent_of: dict[UOp, Any] = dict(tangents)
    for node in walk(outputs):
        if node in tangent_of:
            continue
        for s in node.src:
            if s in tangent_of:
                dy = JVP[node.op](node, [tangent_of.get(s) for s in node.src])
                if dy is not None:
                    tangent_of[node] = dy
                    if source_lines.enabled():
                        source_lines.inherit(dy, node)
                break
    return [tangent_of.get(u) for u in outputs]


def add(a: UOp | None, b: UOp | None) -> UOp | None:
    """A sum in which None is zero."""
    if a is None:
        return b
    return a if b is None else a + b


def _filled(dx: UOp | None, x: UOp) -> UOp:
    return zeros(x.shape, x.dtype) if dx is None else dx


# Shapes of rules: a row gives only the formula.


def _one(slope: Callable[[UOp, UOp, UOp], UOp]) -> Rule:
    """A function of one operand: ``slope(dx, x, y)``."""
    return lambda y, d: slope(d[0], y.src[0], y)


def _two(
    by_a: Callable[[UOp, UOp, UOp, UOp], UOp], by_b: Callable[[UOp, UOp, UOp, UOp], UOp]
) -> Rule:
    """A function of two operands: the sum of ``left(da, a, b, y)`` and ``right(db, a, b, y)``."""

    def rule(y: UOp, d: Tangents) -> UOp | None:
        (a, b), (da, db) = y.src, d
        return add(
            None if da is None else by_a(da, a, b, y), None if db is None else by_b(db, a, b, y)
        )

    return rule


def _same(y: UOp, d: Tangents) -> UOp:
    """A linear op of one operand does to the tangent what it does to the value."""
    return UOp(y.op, (d[0],), y.arg)


def _bilinear(y: UOp, d: Tangents) -> UOp | None:
    (a, b), (da, db) = y.src, d
    return add(
        None if da is None else UOp(y.op, (da, b), y.arg),
        None if db is None else UOp(y.op, (a, db), y.arg),
    )


def _jointly(y: UOp, d: Tangents) -> UOp:
    """A linear op of all its operands together."""
    return UOp(y.op, tuple(map(_filled, d, y.src)), y.arg)


def _zero(y: UOp, d: Tangents) -> None:
    """Piecewise constant, integer, or held fixed."""


# Elementwise rules that are more than a formula.


def _magnitude(y: UOp, d: Tangents) -> UOp:
    """The part of the tangent along x; 0 at a complex zero, where none is along it."""
    x, dx = y.src[0], d[0]
    if x.dtype not in COMPLEXES:
        return where(x >= 0, dx, -dx)
    safe = where(eq(y, full_like(y, 0)), full_like(y, 1), y)
    return real(conj(x) * dx) / safe


def _sign(y: UOp, d: Tangents) -> UOp | None:
    """Zero for a real number; for a complex one the part of dx orthogonal to y, over the length."""
    x, dx = y.src[0], d[0]
    if x.dtype not in COMPLEXES:
        return None
    length = cast(unary(Op.ABS, x), x.dtype)
    zero = eq(length, full_like(x, 0))
    turn = (dx - y * cast(real(conj(y) * dx), x.dtype)) / where(zero, full_like(x, 1), length)
    return where(zero, full_like(x, 0), turn)


# A slope made of a rounded result, as 1 - y * y of tanh, has no digits where the result has reached
# its limit, and its own derivative has none near zero; these are made of the operand.


def _tanh(dx: UOp, x: UOp, y: UOp) -> UOp:
    return dx * ((1 + y) * (1 - y) if x.dtype in COMPLEXES else _sech_squared(x, y))


def _logistic(dx: UOp, x: UOp, y: UOp) -> UOp:
    if x.dtype in COMPLEXES:
        return dx * (y * (1 - y))
    half = x * 0.5
    return dx * (_sech_squared(half, unary(Op.TANH, half)) * 0.25)


def _sech_squared(x: UOp, y: UOp) -> UOp:
    """The slope of ``y = tanh(x)``."""
    size = unary(Op.ABS, x)
    power = unary(Op.EXP, size * -2)
    return where(size < 1, 1 - y * y, power * 4 / ((1 + power) * (1 + power)))


def _exp2(dx: UOp, x: UOp, y: UOp) -> UOp:
    if x.dtype in COMPLEXES:
        return dx * (y * math.log(2))
    # The slope is less than 2**x, which may overflow alone.
    large = x > 1
    power = unary(Op.EXP2, where(large, x - 1, x))
    return dx * (power * where(large, full_like(x, 2 * math.log(2)), full_like(x, math.log(2))))


def _one_minus_square(x: UOp) -> UOp:
    """``1 - x * x``, rounded once where x is real: near 1 its digits are those of the product."""
    one = full_like(x, 1)
    return one - x * x if x.dtype in COMPLEXES else UOp(Op.FMA, (-x, x, one))


def _angle_slopes(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """``b / (a * a + b * b)`` and ``a / (a * a + b * b)``, without overflow of the squares."""
    scale = unary(Op.DETACH, maximum(unary(Op.ABS, a), unary(Op.ABS, b)))
    a, b = a / scale, b / scale
    square = (a * a + b * b) * scale
    return b / square, a / square


def _acosh(dx: UOp, x: UOp, y: UOp) -> UOp:
    # The product under one root could overflow, and the root of a complex one has other branches.
    return dx * (unary(Op.RSQRT, x - 1) * unary(Op.RSQRT, x + 1))


def _asinh(dx: UOp, x: UOp, y: UOp) -> UOp:
    if x.dtype in COMPLEXES:
        return dx * unary(Op.RSQRT, x * x + 1)
    # x * x could overflow: 1 / sqrt(x * x + 1) from the smaller of |x| and 1 by the larger one.
    size, one = unary(Op.ABS, x), full_like(x, 1)
    larger, smaller = maximum(size, one), minimum(size, one)
    ratio = smaller / larger
    return dx * (unary(Op.RSQRT, ratio * ratio + 1) / larger)


def _share(a: UOp, b: UOp, y: UOp) -> UOp:
    """The share of the tangent of max or min that comes from `a`: half of it in a tie."""
    one = full_like(y, 1)
    return where(eq(a, y), where(eq(b, y), full_like(y, 0.5), one), full_like(y, 0))


def _quotient(a: UOp, b: UOp, y: UOp) -> UOp:
    """The whole number of times that b goes into a with remainder y; a / b may be rounded up."""
    infinite = eq(unary(Op.ABS, b), full_like(b, math.inf))
    once = where(eq(a, y), full_like(a, 0), full_like(a, -1))
    return where(infinite, once, unary(Op.ROUND, (a - y) / b))


def _power_base(da: UOp, a: UOp, b: UOp, y: UOp) -> UOp:
    # At b = 0 the slope is 0 for all a, zero too, but its derivative by b is 1 / a.
    small = unary(Op.ABS, a) < 4 / float(finfo(part(a.dtype)).max)
    safe = where(UOp(Op.AND, (eq(b, full_like(b, 0)), small)), full_like(a, 1), a)
    return da * (b * UOp(Op.POW, (safe, b - 1)))


def _power_exponent(db: UOp, a: UOp, b: UOp, y: UOp) -> UOp:
    return db * (unary(Op.LOG, where(eq(a, full_like(a, 0)), full_like(a, 1), a)) * y)


def trigamma(x: UOp) -> UOp:
    """The derivative of digamma: ten steps of the recurrence, then the asymptotic series.

    Source: DLMF 5.15.5, 5.15.6 (reflection, for x < 1/2) and 5.15.8.
    """
    low = x < 0.5
    z = where(low, 1 - x, x)
    total = full_like(x, 0)
    for k in range(10):
        step = z + k
        total = total + 1 / (step * step)
    z = z + 10
    w = 1 / (z * z)
    series = full_like(x, 0)
    for bernoulli in (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = (series + bernoulli) * w
    total = total + (1 / z + w * 0.5 + series / z)
    sine = math.pi / unary(Op.SIN, math.pi * where(low, x, full_like(x, 0.25)))
    return where(low, sine * sine - total, total)


def _select(y: UOp, d: Tangents) -> UOp:
    return where(y.src[0], _filled(d[1], y), _filled(d[2], y))


def _cast(y: UOp, d: Tangents) -> UOp | None:
    return cast(d[0], y.dtype) if y.dtype in INEXACT else None


def _fma(y: UOp, d: Tangents) -> UOp | None:
    (a, b, _), (da, db, dc) = y.src, d
    product = add(None if da is None else da * b, None if db is None else a * db)
    return add(product, dc)


def _ldexp(y: UOp, d: Tangents) -> UOp | None:
    (x, n), (dx, _) = y.src, d
    return None if dx is None else dx * UOp(Op.LDEXP, (full_like(x, 1), n))


# Reductions, irregular access, structure.


def _extreme(y: UOp, x: UOp, dx: UOp) -> UOp:
    """The mean of the tangents at all places where the extreme is taken; NaN if it is NaN."""
    keepdims = tuple(1 if axis in y.arg.axes else n for axis, n in enumerate(x.shape))
    found = expand(reshape(y, keepdims), x.shape)
    # All are hit where the extreme is NaN.
    hit = UOp(Op.NOT, (x < found if y.arg.op is Op.MAX else found < x,))
    count = add_up(cast(hit, x.dtype), y.arg.axes)
    count = where(eq(y, y), count, full_like(count, math.nan))
    return add_up(where(hit, dx, full_like(dx, 0)), y.arg.axes) / count


def _product(y: UOp, x: UOp, dx: UOp) -> UOp:
    """The product rule over a tree of halves, right also where factors are zero."""
    axes: Shape = y.arg.axes
    order = [axis for axis in range(x.ndim) if axis not in axes] + list(axes)
    count = prod(x.shape[axis] for axis in axes)
    wide, line = accumulator(x.dtype), (*y.shape, count)
    x, dx = (reshape(permute(cast(u, wide), order), line) for u in (x, dx))
    while count > 1:
        half = count // 2
        (a, b, rest), (da, db, dr) = (_split(u, half) for u in (x, dx))
        x, dx = concat([a * b, *rest], -1 % x.ndim), concat([da * b + a * db, *dr], -1 % x.ndim)
        count -= half
    return cast(reshape(dx, y.shape), y.dtype) if count else zeros(y.shape, y.dtype)


def _split(u: UOp, half: int) -> tuple[UOp, UOp, list[UOp]]:
    """Two halves of the last axis, and the last element of an odd number."""
    low, shape = (0,) * (u.ndim - 1), u.shape[:-1]
    cuts = [shrink(u, (*low, i * half), (*shape, (i + 1) * half)) for i in range(2)]
    rest = [shrink(u, (*low, 2 * half), u.shape)] if u.shape[-1] > 2 * half else []
    return cuts[0], cuts[1], rest


_REDUCE: dict[Op, Callable[[UOp, UOp, UOp], UOp]] = {
    Op.ADD: lambda y, x, dx: UOp(Op.REDUCE, (dx,), y.arg),
    Op.MUL: _product,
    Op.MAX: _extreme,
    Op.MIN: _extreme,
}


def _reduce(y: UOp, dx: UOp) -> UOp | None:
    return None if y.arg.index is not None else _REDUCE[y.arg.op](y, y.src[0], dx)


def _gather(y: UOp, d: Tangents) -> UOp:
    return UOp(Op.GATHER, (d[0], y.src[1]), y.arg)


def _scatter_linear(y: UOp, dx: UOp, du: UOp) -> UOp:
    return UOp(Op.SCATTER, (dx, y.src[1], du), y.arg)


def _scatter_product(y: UOp, dx: UOp, du: UOp) -> UOp:
    """Each update times all others of its place, zeros counted apart so that nothing is 0 / 0.

    Second derivatives between several updates of one place of which one is zero are left out.
    """
    (x, indices, u), batch = y.src, y.arg.batch
    zero = eq(u, full_like(u, 0))
    factor = where(zero, full_like(u, 1), u)
    product = at(scatter(x, indices, factor, Op.MUL, batch), indices, u, batch)
    zeros_here = scatter(full_like(x, 0), indices, cast(zero, u.dtype), Op.ADD, batch)
    others = at(zeros_here, indices, u, batch) - cast(zero, u.dtype)
    alone = where(eq(others, full_like(u, 0)), product / factor, full_like(u, 0))
    scaled = dx * scatter(full_like(x, 1), indices, u, Op.MUL, batch)
    return scatter(scaled, indices, du * alone, Op.ADD, batch)


def _scatter_extreme(y: UOp, dx: UOp, du: UOp) -> UOp:
    """Equal shares among the operand and the updates that tie."""
    (x, indices, u), batch = y.src, y.arg.batch
    operand_ties = eq(x, y)
    update_ties = eq(u, at(y, indices, u, batch))
    ties = scatter(cast(operand_ties, x.dtype), indices, cast(update_ties, x.dtype), Op.ADD, batch)
    from_operand, from_updates = (
        where(operand_ties, dx, full_like(x, 0)),
        where(update_ties, du, full_like(u, 0)),
    )
    return scatter(from_operand, indices, from_updates, Op.ADD, batch) / ties


_SCATTER: dict[Op, Callable[[UOp, UOp, UOp], UOp]] = {
    Op.ADD: _scatter_linear,
    Op.WHERE: _scatter_linear,
    Op.MUL: _scatter_product,
    Op.MAX: _scatter_extreme,
    Op.MIN: _scatter_extreme,
}


def _sort(y: UOp, d: Tangents) -> tuple[UOp | None, ...]:
    """The tangents in the order of the keys, which a carried count remembers."""
    shape, keys = y.src[0].shape, y.arg.keys
    last = len(shape) - 1
    if not shape[last]:  # nothing to put in order, and no window of one element to gather
        return tuple(d)
    order = several(UOp(Op.SORT, (*y.src[:keys], iota(shape, last)), y.arg))[-1]
    kept, indices = order.shape, reshape(order, (*order.shape, 1))
    return tuple(None if t is None else reshape(gather(t, indices, (1,), last), kept) for t in d)


def _linear(y: UOp, d: Tangents) -> tuple[UOp | None, ...]:
    """Functions that are known by their transpose alone are transposed first."""
    results = forward(several(y))
    tangents = {x: dx for x, dx in zip(y.src, d, strict=True) if dx is not None}
    return tuple(push([u for u in results if u is not None], tangents))


SLOPE_OF_ERF = 2 / math.sqrt(math.pi)

# fmt: off
JVP: dict[Op, Rule] = {
    Op.NEG: _same,
    Op.ABS: _magnitude,
    Op.SIGN: _sign,
    Op.EXP: _one(lambda dx, x, y: dx * y),
    Op.EXP2: _one(_exp2),
    Op.EXPM1: _one(lambda dx, x, y: dx * unary(Op.EXP, x)),
    Op.LOG: _one(lambda dx, x, y: dx / x),
    Op.LOG2: _one(lambda dx, x, y: dx / (x * math.log(2))),
    Op.LOG1P: _one(lambda dx, x, y: dx / (x + 1)),
    Op.SIN: _one(lambda dx, x, y: dx * unary(Op.COS, x)),
    Op.COS: _one(lambda dx, x, y: dx * -unary(Op.SIN, x)),
    Op.TAN: _one(lambda dx, x, y: dx * (y * y + 1)),
    Op.ASIN: _one(lambda dx, x, y: dx * unary(Op.RSQRT, _one_minus_square(x))),
    Op.ACOS: _one(lambda dx, x, y: dx * -unary(Op.RSQRT, _one_minus_square(x))),
    Op.ATAN: _one(lambda dx, x, y: dx / (x * x + 1)),
    Op.SINH: _one(lambda dx, x, y: dx * unary(Op.COSH, x)),
    Op.COSH: _one(lambda dx, x, y: dx * unary(Op.SINH, x)),
    Op.TANH: _one(_tanh),
    Op.ASINH: _one(_asinh),
    Op.ACOSH: _one(_acosh),
    Op.ATANH: _one(lambda dx, x, y: dx / _one_minus_square(x)),
    Op.LOGISTIC: _one(_logistic),
    Op.SQRT: _one(lambda dx, x, y: dx * (0.5 / y)),
    Op.RSQRT: _one(lambda dx, x, y: dx * (y / x * -0.5)),
    Op.CBRT: _one(lambda dx, x, y: dx / (y * y * 3)),
    Op.ERF: _one(lambda dx, x, y: dx * (unary(Op.EXP, -(x * x)) * SLOPE_OF_ERF)),
    Op.ERFC: _one(lambda dx, x, y: dx * (unary(Op.EXP, -(x * x)) * -SLOPE_OF_ERF)),
    Op.ERFINV: _one(lambda dx, x, y: dx * (unary(Op.EXP, y * y) * (1 / SLOPE_OF_ERF))),
    Op.LGAMMA: _one(lambda dx, x, y: dx * unary(Op.DIGAMMA, x)),
    Op.DIGAMMA: _one(lambda dx, x, y: dx * trigamma(x)),
    Op.CAST: _cast,
    Op.COMPLEX: _jointly,
    Op.REAL: _same,
    Op.IMAG: _same,
    **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND, Op.NOT, Op.BITCAST, Op.DETACH), _zero),

    Op.ADD: _two(lambda da, a, b, y: da, lambda db, a, b, y: db),
    Op.SUB: _two(lambda da, a, b, y: da, lambda db, a, b, y: -db),
    Op.MUL: _two(lambda da, a, b, y: da * b, lambda db, a, b, y: a * db),
    Op.DIV: _two(lambda da, a, b, y: da / b, lambda db, a, b, y: -(db / b) * y),
    Op.MOD: _two(lambda da, a, b, y: da, lambda db, a, b, y: db * -_quotient(a, b, y)),
    Op.POW: _two(_power_base, _power_exponent),
    Op.ATAN2: _two(lambda da, a, b, y: da * _angle_slopes(a, b)[0],
                   lambda db, a, b, y: db * -_angle_slopes(a, b)[1]),
    **dict.fromkeys((Op.MAX, Op.MIN), _two(lambda da, a, b, y: da * _share(a, b, y),
                                           lambda db, a, b, y: db * _share(b, a, y))),
    **dict.fromkeys((Op.FLOORDIV, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, *COMPARE), _zero),

    Op.WHERE: _select,
    Op.FMA: _fma,
    Op.LDEXP: _ldexp,
    Op.THREEFRY: _zero,

    **dict.fromkeys((Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK, Op.FLIP), _same),
    Op.PAD: _jointly,
    Op.CONCAT: _jointly,

    Op.REDUCE: lambda y, d: _reduce(y, d[0]),
    Op.DOT: _bilinear,
    Op.CONV: _bilinear,
    Op.FFT: _same,
    Op.GATHER: _gather,
    Op.SCATTER: lambda y, d: _SCATTER[y.arg.op](y, _filled(d[0], y), _filled(d[2], y.src[2])),
    Op.SORT: _sort,

    Op.TUPLE: lambda y, d: tuple(d),
    Op.HOST: callback_rules.jvp,
    Op.KERNEL: kernel_rules.jvp,
    Op.GET: lambda y, d: d[0][y.arg],
    **region_rules.rows("jvp", push),
    Op.LINEAR: _linear,
    Op.AFTER: lambda y, d: d[0],
    Op.GBARRIER: _same,

    Op.COLLECTIVE: collective_rules.jvp,
    **dict.fromkeys((Op.SHARD, Op.UNSHARD, Op.CONSTRAIN), _same),
}
# fmt: on
