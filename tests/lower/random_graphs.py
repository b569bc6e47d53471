"""Random graphs, drawn by hypothesis: a few operands, then ops on the values so far.

Only well-conditioned ops are drawn, so that two ways to compute a graph give close results: no
sines of large numbers, no comparisons of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hypothesis import strategies as st

from tests.lower.graphs import matmul, p
from tfn.dtypes import BOOL, FLOAT32, INT32
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Draw = st.DrawFn
Step = Callable[[Draw, list[UOp]], UOp]
SIZES = (1, 1, 2, 3, 5, 7, 17, 33)
LARGEST = 3_000


def _pick(draw: Draw, pool: list[UOp], dtype: object = None, least: int = 0) -> UOp:
    """A value from the pool, of a dtype and with as many axes, the later ones more often."""
    fitting = [u for u in pool if (dtype is None or u.dtype == dtype) and u.ndim >= least]
    fitting = fitting or [u for u in pool if u.dtype == dtype] or pool
    value = draw(st.sampled_from(fitting[-6:] + fitting))
    if dtype is not None and value.dtype != dtype:
        value = build.cast(value, dtype)
    while value.ndim < least:
        value = build.reshape(value, (*value.shape, 1))
    return value


def _pick_like(draw: Draw, pool: list[UOp], shape: tuple[int, ...], dtype: object) -> UOp:
    """A value of a shape: one that has it, or one repeated or cut to it."""
    fitting = [u for u in pool if u.shape == shape and u.dtype == dtype]
    if fitting and draw(st.booleans()):
        return draw(st.sampled_from(fitting))
    u = _pick(draw, pool, dtype)
    if u.ndim > len(shape):
        u = build.reshape(u, (prod(u.shape),))
        if not shape:
            return build.reshape(build.shrink(u, (0,), (1,)), ())
    u = build.reshape(u, (1,) * (len(shape) - u.ndim) + u.shape)
    cut = tuple(1 if n > m else n if n == m else 1 for n, m in zip(u.shape, shape, strict=True))
    return build.expand(build.shrink(u, (0,) * len(shape), cut), shape)


def _unary(draw: Draw, pool: list[UOp]) -> UOp:
    op = draw(st.sampled_from([Op.NEG, Op.ABS, Op.TANH, Op.LOGISTIC, Op.ERF, Op.SQRT]))
    x = _pick(draw, pool, FLOAT32)
    return build.unary(op, build.unary(Op.ABS, x) + 0.25 if op is Op.SQRT else x)


def _binary(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32)
    op = draw(st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.DIV]))
    y = _pick_like(draw, pool, x.shape, FLOAT32)
    return UOp(op, (x, build.unary(Op.ABS, y) + 0.5 if op is Op.DIV else y))


def _integers(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, INT32)
    y = _pick_like(draw, pool, x.shape, INT32)
    op = draw(
        st.sampled_from(
            [
                Op.ADD,
                Op.SUB,
                Op.MUL,
                Op.FLOORDIV,
                Op.MOD,
                Op.MAX,
                Op.AND,
                Op.XOR,
                Op.SHR,
                Op.LT,
                Op.EQ,
            ]
        )
    )
    return UOp(op, (x, y))


def _where(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32)
    y = _pick_like(draw, pool, x.shape, FLOAT32)
    return build.where(_pick_like(draw, pool, x.shape, BOOL), x, y)


def _reshape(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool)
    sizes = [n for n in x.shape if n != 1 or draw(st.booleans())]
    if len(sizes) > 1 and draw(st.booleans()):
        i = draw(st.integers(0, len(sizes) - 2))
        sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
    else:
        for i, n in enumerate(sizes):
            divisors = [k for k in range(2, n) if n % k == 0]
            if divisors:
                k = draw(st.sampled_from(divisors))
                sizes[i : i + 1] = [k, n // k]
                break
    return build.reshape(x, tuple(draw(st.permutations(sizes)))) if len(sizes) < 6 else x


def _permute(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, least=2)
    return build.permute(x, draw(st.permutations(range(x.ndim))))


def _expand(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool)
    n = draw(st.sampled_from(SIZES))
    at = draw(st.integers(0, x.ndim))
    if prod(x.shape) * n > LARGEST or x.ndim > 3:
        return x
    x = build.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
    return build.expand(x, (*x.shape[:at], n, *x.shape[at + 1 :]))


def _pad(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, least=1)
    low, high, between = (
        tuple(draw(st.sampled_from([0, 0, 1, 2])) for _ in x.shape) for _ in range(3)
    )
    value = draw(st.sampled_from([None, const(1, x.dtype)]))
    grown = build.pad(x, low, high, between, value)
    return grown if prod(grown.shape) <= LARGEST else x


def _shrink(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, least=1)
    start = tuple(draw(st.integers(0, min(n - 1, 2))) for n in x.shape)
    stop = tuple(draw(st.integers(max(s + 1, n - 3), n)) for s, n in zip(start, x.shape))
    return build.shrink(x, start, stop, tuple(draw(st.sampled_from([1, 1, 2])) for _ in x.shape))


def _flip(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, least=1)
    return build.flip(x, (draw(st.integers(0, x.ndim - 1)),))


def _concat(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, least=1)
    y = _pick_like(draw, pool, x.shape, x.dtype)
    return build.concat([x, y], draw(st.integers(0, x.ndim - 1)))


def _reduce(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32, least=1)
    axes = draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1))
    op = draw(st.sampled_from([Op.ADD, Op.ADD, Op.MAX, Op.MIN]))
    keep = draw(st.booleans())
    value = build.reduce(x, op, axes, keep)
    if op is Op.ADD:
        value = value * (1.0 / prod(x.shape[a] for a in axes))
    if keep and draw(st.booleans()):  # as in softmax: the row beside its statistic
        return x - build.expand(value, x.shape)
    return value


def _count(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, INT32, least=1)
    op = draw(st.sampled_from([Op.ADD, Op.MAX, Op.MUL]))
    index = INT32 if op is Op.MAX and draw(st.booleans()) else None
    return build.reduce(x, op, (draw(st.integers(0, x.ndim - 1)),), index=index)


def _dot(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32, least=1)
    i = draw(st.integers(0, x.ndim - 1))
    others = [
        (u, j)
        for u in pool
        for j, n in enumerate(u.shape)
        if u.dtype == FLOAT32 and n == x.shape[i]
    ]
    if not others:
        return x
    y, j = draw(st.sampled_from(others))
    value = build.dot(x, y, ((i,), (j,)))
    if prod(value.shape) > LARGEST or value.ndim > 4:
        return x
    return value * (1.0 / x.shape[i])


def _gather(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32, least=1)
    at = _pick(draw, pool, INT32, least=1)
    sizes = (draw(st.integers(1, x.shape[0])), *x.shape[1:])
    if prod(sizes) * prod(at.shape) > LARGEST or x.ndim + at.ndim > 4:
        return x
    return build.gather(x, build.reshape(at, (*at.shape, 1)), sizes)


def _scatter(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32, least=1)
    at = _pick(draw, pool, INT32, least=1)
    if prod(at.shape) * prod(x.shape[1:]) > LARGEST or x.ndim + at.ndim > 4:
        return x
    updates = _pick_like(draw, pool, (*at.shape, 1, *x.shape[1:]), FLOAT32)
    op = draw(st.sampled_from([Op.ADD, Op.MAX, Op.WHERE]))
    return build.scatter(x, build.reshape(at, (*at.shape, 1)), updates, op)


def _sort(draw: Draw, pool: list[UOp]) -> UOp:
    keys = _pick(draw, pool, INT32, least=1)
    return build.sort([keys, _pick_like(draw, pool, keys.shape, FLOAT32)])[draw(st.integers(0, 1))]


def _softmax(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32, least=1)
    top = build.reduce(x, Op.MAX, (x.ndim - 1,), keepdims=True)
    e = build.unary(Op.EXP, x - build.expand(top, x.shape))
    return e / build.expand(build.add_up(e, (x.ndim - 1,), keepdims=True), x.shape)


def _layer(draw: Draw, pool: list[UOp]) -> UOp:
    x = _pick(draw, pool, FLOAT32, least=2)
    x = build.reshape(x, (x.shape[0], prod(x.shape[1:])))
    w = _pick_like(draw, pool, (x.shape[1], draw(st.sampled_from(SIZES))), FLOAT32)
    return build.unary(Op.TANH, matmul(x, w))


STEPS: tuple[Step, ...] = (
    _unary,
    _binary,
    _binary,
    _integers,
    _where,
    _reshape,
    _permute,
    _expand,
    _pad,
    _shrink,
    _flip,
    _concat,
    _reduce,
    _reduce,
    _count,
    _dot,
    _gather,
    _scatter,
    _sort,
    _softmax,
    _layer,
)
ELEMENTWISE: tuple[Step, ...] = (_unary, _binary, _binary, _integers, _where)


# Control flow.


def _inner(draw: Draw, operands: list[UOp]) -> tuple[list[UOp], list[UOp]]:
    """The parameters of a body, and all values in it, of which some may be computed."""
    own = [p(i, *u.shape, dtype=u.dtype) for i, u in enumerate(operands)]
    pool = list(own)
    steps = ELEMENTWISE if draw(st.integers(0, 2)) else STEPS
    for _ in range(draw(st.integers(0, 4))):
        pool.append(draw(st.sampled_from(steps))(draw, pool))
    return own, pool


def _body(own: list[UOp], outputs: list[UOp]) -> UOp:
    return function(outputs, tuple(u.arg for u in own))


def _next_carry(draw: Draw, pool: list[UOp], carry: UOp) -> UOp:
    """The next value of a carry, bounded over iterations: often that of another carry."""
    kind = carry.shape, carry.dtype
    others = [u for u in pool if u.op is Op.PARAM and (u.shape, u.dtype) == kind]
    if draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(others))
    value = _pick_like(draw, pool, carry.shape, carry.dtype)
    if carry.dtype == FLOAT32:
        return build.unary(Op.TANH, value + 0.5 * carry)
    return value % 7 if carry.dtype == INT32 else value


def _pick_several(draw: Draw, pool: list[UOp], most: int) -> list[UOp]:
    return draw(st.lists(st.sampled_from(pool), max_size=most))


def _rows(u: UOp, length: int) -> UOp:
    """An array of different rows of the shape of one value."""
    rows = build.broadcast_in_dim(u, (length, *u.shape), range(1, u.ndim + 1))
    if u.dtype == BOOL:
        return rows
    return rows + build.cast(build.iota(rows.shape, 0), u.dtype) if length else rows


def _scan(draw: Draw, pool: list[UOp]) -> UOp:
    length, reverse = draw(st.sampled_from([0, 1, 2, 3, 5])), draw(st.booleans())
    consts, carries = (
        _pick_several(draw, pool, 2),
        [*_pick_several(draw, pool, 1), _pick(draw, pool)],
    )
    slices = [u for u in _pick_several(draw, pool, 2) if prod(u.shape) * length <= LARGEST]
    arrays = [_rows(u, length) for u in slices]
    own, inner = _inner(draw, [*consts, *carries, *slices])
    old = own[len(consts) : len(consts) + len(carries)]
    stacked = [u for u in _pick_several(draw, inner, 2) if prod(u.shape) * length <= LARGEST]
    outputs = [*(_next_carry(draw, inner, u) for u in old), *stacked]
    results = build.scan(_body(own, outputs), consts, carries, arrays, length, reverse)
    pool += [u for u in results if 0 not in u.shape]
    return results[0]


def _while(draw: Draw, pool: list[UOp]) -> UOp:
    consts, carries = (
        _pick_several(draw, pool, 2),
        [_pick(draw, pool), *_pick_several(draw, pool, 1)],
    )
    limit = _pick_like(draw, pool, (), INT32) % 5
    count = const(0, INT32)
    own = [p(i, *u.shape, dtype=u.dtype) for i, u in enumerate([limit, count, *carries])]
    cond = _body(own, [own[1] < own[0]])
    own, inner = _inner(draw, [*consts, count, *carries])
    old = own[len(consts) + 1 :]
    outputs = [own[len(consts)] + 1, *(_next_carry(draw, inner, u) for u in old)]
    results = build.repeat_while(cond, _body(own, outputs), [limit], consts, [count, *carries])
    pool += results
    return results[1]


def _cond(draw: Draw, pool: list[UOp]) -> UOp:
    operands = [*_pick_several(draw, pool, 2), _pick(draw, pool, FLOAT32)]
    like = operands[-1]
    branches = []
    for _ in range(draw(st.integers(1, 3))):
        own, inner = _inner(draw, operands)
        branches.append(_body(own, [_next_carry(draw, inner, p(len(operands) - 1, *like.shape))]))
    return build.choose(_pick_like(draw, pool, (), INT32) - 1, branches, operands)[0]


def _call(draw: Draw, pool: list[UOp]) -> UOp:
    """A function called twice, the second time often on results of the first call."""
    operands = [*_pick_several(draw, pool, 2), _pick(draw, pool, FLOAT32)]
    own, inner = _inner(draw, operands)
    outputs = [_next_carry(draw, inner, own[-1]), *_pick_several(draw, inner, 1)]
    called = _body(own, outputs)
    pool += build.call("f", called, operands)
    again = build.call("f", called, [_pick_like(draw, pool, u.shape, u.dtype) for u in operands])
    pool += again
    return again[0]


LOOPS: tuple[Step, ...] = (_scan, _scan, _while, _cond, _call)


@st.composite
def graphs(
    draw: Draw, most: int = 12, steps: tuple[Step, ...] = STEPS, outputs: int = 3
) -> list[UOp]:
    """A few outputs over parameters 0, 1, ... that are float32, float32, int32 and bool."""
    shapes = st.lists(st.sampled_from(SIZES), max_size=3).map(tuple)
    pool = [
        p(i, *draw(shapes), dtype=dtype) for i, dtype in enumerate((FLOAT32, FLOAT32, INT32, BOOL))
    ]
    for _ in range(draw(st.integers(1, most))):
        pool.append(draw(st.sampled_from(steps))(draw, pool))
    chosen = [pool[-1]]
    chosen += draw(st.lists(st.sampled_from(pool[4:]), max_size=outputs - 1))
    return chosen
