"""Reference semantics: the meaning of every op on plain NumPy; all devices are tested against it.

`MEANING` has a row for each op of the JAXPR stage; `evaluate` runs a graph with it.  Sums of
16-bit floats are kept in 32 bits and rounded once; integer division and modulo floor; division of
an integer by zero gives zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tfn.dtypes import COMPLEXES, FLOATS, UINT32, complex_of
from tfn.trace import argument, casts
from tfn.trace.build import accumulator, identity
from tfn.trace.op import Op
from tfn.trace.regions import Form, split
from tfn.trace.uop import UOp, walk

Value = np.ndarray
Meaning = Callable[..., Any]
"""The function of an op: of its argument and of the values of its sources."""
Step = tuple[Meaning, Any, tuple[int, ...]]


def _pointwise(scalar: Callable[[float], float]) -> Meaning:
    def run(arg: None, x: Value) -> Value:
        flat = [scalar(float(v)) for v in x.ravel()]
        return np.array(flat, np.float64).reshape(x.shape).astype(x.dtype)

    return run


def _numpy(ufunc: Callable[..., object]) -> Meaning:
    return lambda arg, *operands: np.asarray(ufunc(*operands))


def erf_inv(y: float) -> float:
    """The inverse error function: Newton's method on ``math.erf``."""
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    # Giles 2010, "Approximating the erfinv function": a start good to three digits.
    w = -math.log1p(-y * y)
    x = math.copysign(math.sqrt(max(w - 2.5, 0.0)) + 0.9 if w > 5 else 0.0, y) or y * 0.8862269
    for _ in range(60):
        error = math.erfc(abs(x)) - (1 - abs(y)) if abs(y) > 0.5 else abs(y) - math.erf(abs(x))
        slope = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        step = error / slope if slope else 0.0
        step = max(-0.5, min(0.5, step))
        x = math.copysign(abs(x) + step, y)
        if abs(step) <= 1e-17 * abs(x):
            break
    return x


_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
"""Coefficients in ``1 / x**2``; from 16 on, the next term is below 2e-18."""


def digamma(x: float) -> float:
    """Recurrence up to 16, then the asymptotic series (DLMF 5.11.2); reflection below zero."""
    if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan if x != 0 else math.copysign(math.inf, -x)
    if x == math.inf:
        return math.inf
    if x < 0:  # the tangent has period 1, and x - round(x) is exact
        return digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    terms = []
    while x < 16:
        terms.append(-1 / x)
        x += 1
    tail = 0.0
    for coefficient in reversed(_DIGAMMA_SERIES):
        tail = (tail + coefficient) / (x * x)
    return math.fsum([*terms, math.log(x), -0.5 / x, -tail])


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    if x > 1e300:  # math.lgamma would raise on overflow
        return x * (math.log(x) - 1)
    return math.lgamma(x)


def _wide(x: Value) -> Value:
    return x.astype(np.complex128 if x.dtype in COMPLEXES else np.float64)


def _logistic(arg: None, x: Value) -> Value:
    wide = _wide(x)
    if x.dtype in COMPLEXES:  # exp(-x) would overflow to NaN
        small = np.exp(np.where(wide.real > 0, -wide, wide))
        return np.asarray(np.where(wide.real > 0, 1, small) / (1 + small)).astype(x.dtype)
    return np.asarray(1 / (1 + np.exp(-wide))).astype(x.dtype)


def _wider(ufunc: Callable[[Value], Value]) -> Meaning:
    return lambda arg, x: np.asarray(ufunc(_wide(x))).astype(x.dtype)


def _sign(arg: None, x: Value) -> Value:
    return np.asarray(np.where(x == 0, x, np.sign(x))).astype(x.dtype)  # keeps -0.0


def _complex(re: Value, im: Value) -> Value:
    out = np.empty(re.shape, complex_of(re.dtype))
    out.real, out.imag = re, im
    return out


def _divide(x: Value, y: Value) -> Value:
    one = np.where(y == 0, 1, y)
    return np.asarray(np.where(y == 0, 0, np.floor_divide(x, one))).astype(x.dtype)


def _modulo(x: Value, y: Value) -> Value:
    if x.dtype in FLOATS:
        return np.asarray(np.mod(x, y))
    return np.asarray(np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y)))).astype(x.dtype)


def _power(x: Value, y: Value) -> Value:
    if x.dtype in FLOATS:  # for one exponent 0.5 NumPy takes roots, which differ at -0 and -inf
        x = np.where((y == 0.5) & ((x == 0) | np.isinf(x)), np.abs(x), x)
    return np.asarray(np.power(x, y))


def _shift(leftward: bool) -> Meaning:
    shift = np.left_shift if leftward else np.right_shift

    def run(arg: None, x: Value, n: Value) -> Value:
        width = 8 * x.dtype.itemsize
        inside = (n >= 0) & (n < width)
        far = np.where((x < 0) & (not leftward), -1, 0)  # the sign bit in every place
        shifted = shift(x, np.where(inside, n, 0))
        return np.where(inside, shifted, far.astype(x.dtype)).astype(x.dtype)

    return run


def _fma(arg: None, x: Value, y: Value, z: Value) -> Value:
    if x.dtype != np.float64:
        return np.asarray(x.astype(np.float64) * y.astype(np.float64) + z).astype(x.dtype)
    # Halves of 26 and 27 bits have products that are exact in 64 bits; the sum is compensated.
    wide = np.longdouble
    halves = []
    for v in (x, y):
        head = (v.view(np.int64) & ~((1 << 27) - 1)).view(np.float64)
        halves.append((head.astype(wide), (v - head).astype(wide)))
    (a, b), (c, d) = halves
    total: Value = z.astype(wide)
    lost: Value = np.zeros(z.shape, wide)
    for term in (a * c, a * d, b * c, b * d):
        longer = total + term
        back = longer - total
        total, lost = longer, lost + ((total - (longer - back)) + (term - back))
    rounded = np.asarray(total + lost).astype(np.float64)
    return np.asarray(np.where(np.isfinite(total), rounded, x * y + z))


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(k0: Value, k1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    """Twenty rounds of Threefry-2x32.

    Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for block in range(5):
        for r in ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))
            x1 = x0 ^ x1
        x0 = x0 + keys[(block + 1) % 3]
        x1 = x1 + keys[(block + 2) % 3] + np.uint32(block + 1)
    return x0, x1


def _threefry(arg: int, *words: Value) -> Value:
    return threefry2x32(*(np.asarray(w, UINT32) for w in words))[arg]


def _pad(arg: argument.Pad, x: Value, value: Value) -> Value:
    sizes = zip(x.shape, arg.low, arg.high, arg.interior, strict=True)
    shape = [n + low + high + between * max(n - 1, 0) for n, low, high, between in sizes]
    out = np.full(shape, value, x.dtype)
    where = tuple(
        slice(low, low + (n - 1) * (between + 1) + 1 if n else low, between + 1)
        for n, low, between in zip(x.shape, arg.low, arg.interior, strict=True)
    )
    out[where] = x
    return out


def _shrink(arg: argument.Shrink, x: Value) -> Value:
    return x[tuple(map(slice, arg.start, arg.stop, arg.step))]


def _largest(arg: None, x: Value, y: Value) -> Value:
    """The larger of two; of both zeros it is 0.0.

    Source: IEEE 754-2019, section 9.6, maximum and minimum.
    """
    out = np.asarray(np.maximum(x, y))
    zeros = (x == 0) & (y == 0)
    return np.where(zeros, x + y, out) if x.dtype in FLOATS and zeros.any() else out


def _smallest(arg: None, x: Value, y: Value) -> Value:
    """The smaller of two; of both zeros it is -0.0."""
    out = np.asarray(np.minimum(x, y))
    zeros = (x == 0) & (y == 0)
    return np.where(zeros, -(-x - y), out) if x.dtype in FLOATS and zeros.any() else out


def _extreme(ufunc: np.ufunc, zero: float) -> Callable[..., Any]:
    """A reduction by maximum or minimum; if it is a zero, and there is this one, that is it."""

    def reduce(x: Value, **options: Any) -> Any:
        out = np.asarray(ufunc.reduce(x, **options))
        if x.dtype not in FLOATS or not (out == 0).any():
            return out
        options.pop("initial", None)  # an infinity
        there = (x == 0) & (np.signbit(x) == np.signbit(zero))
        signed = np.where(np.logical_or.reduce(there, **options), zero, -zero)
        return np.where(out == 0, signed.astype(x.dtype), out)

    return reduce


REDUCTIONS: dict[Op, Callable[..., Any]] = {
    Op.ADD: np.add.reduce,
    Op.MUL: np.multiply.reduce,
    Op.MAX: _extreme(np.maximum, 0.0),
    Op.MIN: _extreme(np.minimum, -0.0),
}


def reduce(arg: argument.Reduce, x: Value) -> Value:
    """A monoid over axes; an empty reduction gives the identity."""
    if arg.index is not None:
        place = np.argmax if arg.op is Op.MAX else np.argmin
        return np.asarray(place(_sortable(x), axis=arg.axes[0])).astype(arg.index)
    wide = x.astype(accumulator(x.dtype)) if arg.op in (Op.ADD, Op.MUL) else x
    start = np.asarray(identity(arg.op, x.dtype)).astype(wide.dtype)
    if arg.op in (Op.MAX, Op.MIN):
        out = REDUCTIONS[arg.op](wide, axis=arg.axes, initial=start)
    else:
        out = REDUCTIONS[arg.op](wide, axis=arg.axes, dtype=wide.dtype)
    return np.asarray(out).astype(x.dtype)


def _tf32(x: Value) -> Value:
    """Rounded to 10 bits of mantissa, to nearest, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), np.float32("nan"), rounded.view(np.float32))


def dot(arg: argument.Dot, a: Value, b: Value) -> Value:
    """A contraction by einsum, summed in at least 32 bits."""
    if arg.tf32:
        a, b = _tf32(a), _tf32(b)
    wide = accumulator(np.promote_types(a.dtype, arg.dtype) if a.dtype != arg.dtype else a.dtype)
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    name_a = [next(letters) for _ in a.shape]
    name_b = [next(letters) for _ in b.shape]
    for i, j in zip(arg.contract_a + arg.batch_a, arg.contract_b + arg.batch_b, strict=True):
        name_b[j] = name_a[i]
    out = [name_a[i] for i in arg.batch_a]
    out += [c for i, c in enumerate(name_a) if i not in arg.batch_a + arg.contract_a]
    out += [c for j, c in enumerate(name_b) if j not in arg.batch_b + arg.contract_b]
    spec = f"{''.join(name_a)},{''.join(name_b)}->{''.join(out)}"
    return np.asarray(np.einsum(spec, a.astype(wide), b.astype(wide))).astype(arg.dtype)


def conv(arg: argument.Conv, x: Value, w: Value) -> Value:
    """A convolution as a loop over the positions in the window."""
    if arg.tf32:
        x, w = _tf32(x), _tf32(w)
    wide = accumulator(x.dtype if x.dtype == arg.dtype else np.promote_types(x.dtype, arg.dtype))
    x, w = x.astype(wide), w.astype(wide)
    n = x.shape[0]
    window, depth, features = w.shape[:-2], w.shape[-2], w.shape[-1]
    zero = np.zeros((), wide)
    low = tuple(max(p[0], 0) for p in arg.padding)
    high = tuple(max(p[1], 0) for p in arg.padding)
    interior = tuple(d - 1 for d in arg.dilation_x)
    x = _pad(argument.Pad((0, *low, 0), (0, *high, 0), (0, *interior, 0)), x, zero)
    crop = tuple(
        slice(max(-lo, 0), size - max(-hi, 0))
        for (lo, hi), size in zip(arg.padding, x.shape[1:-1], strict=True)
    )
    x = x[(slice(None), *crop, slice(None))]
    sizes = tuple(
        max((have - ((k - 1) * d + 1 if k else 0)) // s + 1, 0)
        for have, k, d, s in zip(x.shape[1:-1], window, arg.dilation_w, arg.strides, strict=True)
    )
    groups, batches = arg.groups, arg.batch_groups
    per_group = features // (groups * batches)
    out = np.zeros((n // batches, *sizes, features), wide)
    for place in np.ndindex(*window):
        there = [  # the outputs for which this position holds an element, not a hole of dilation
            np.flatnonzero((p * d + np.arange(size) * s - low) % between == 0)
            for p, d, s, size, (low, _), between in zip(
                place, arg.dilation_w, arg.strides, sizes, arg.padding, arg.dilation_x, strict=True
            )
        ]
        at = [p * d + i * s for i, p, d, s in zip(there, place, arg.dilation_w, arg.strides)]
        for g in range(groups):
            channels = np.arange(g * depth, (g + 1) * depth)
            for b in range(batches):
                f = np.arange(per_group) + (g * batches + b) * per_group
                rows = np.arange(n // batches)
                product = x[np.ix_(rows + b * len(rows), *at, channels)] @ w[place][:, f]
                out[np.ix_(rows, *there, f)] += product
    return out.astype(arg.dtype)


def fft(arg: argument.Fft, x: Value, out: Value | None = None) -> Value:
    """A Fourier transform by NumPy's pocketfft, into `out` if there is one."""
    transform = getattr(np.fft, f"{arg.kind.value}n")
    axes = range(x.ndim - len(arg.lengths), x.ndim)
    return np.asarray(transform(x, arg.lengths, axes, out=out))


def _starts(indices: Value, rank: int) -> Value:
    """The first place of each window along each axis; 0 along axes without an index."""
    most = np.uint64(np.iinfo(np.int64).max)
    wide = np.minimum(indices, most) if indices.dtype == np.uint64 else indices
    missing = [(0, 0)] * (indices.ndim - 1) + [(0, rank - indices.shape[-1])]
    return np.pad(wide.astype(np.int64), missing)


def _places(points: Sequence[Value], starts: Value, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Index arrays of windows: the axes of the points, then those of a window."""
    after = (1,) * len(sizes)
    spans = np.ix_(*map(np.arange, sizes)) if sizes else ()
    windows = [starts[..., i].reshape(*starts.shape[:-1], *after) + s for i, s in enumerate(spans)]
    return (*[at.reshape(*at.shape, *after) for at in points], *windows)


def gather(arg: argument.Gather, operand: Value, indices: Value) -> Value:
    """Windows at clamped starts."""
    room = np.subtract(operand.shape[arg.batch :], arg.sizes).astype(np.int64)
    starts = np.clip(_starts(indices, len(arg.sizes)), 0, room)
    points = [*np.indices(indices.shape[:-1])[: arg.batch]]
    windows = operand[_places(points, starts, arg.sizes)]
    return np.array(np.broadcast_to(windows, indices.shape[:-1] + arg.sizes))


def scatter(arg: argument.Scatter, operand: Value, indices: Value, updates: Value) -> Value:
    """Windows combined in order; one that does not fit is dropped."""
    out = operand.copy()
    sizes = updates.shape[indices.ndim - 1 :]
    room = np.subtract(operand.shape[arg.batch :], sizes).astype(np.int64)
    starts = _starts(indices, len(sizes))
    fits = ((starts >= 0) & (starts <= room)).all(-1)
    points = [at[fits] for at in np.indices(indices.shape[:-1])[: arg.batch]]
    values, whole = updates[fits], out[None]  # an axis more: a number has none
    at = (np.zeros(values.shape, np.intp), *_places(points, starts[fits], sizes))
    if arg.op is Op.WHERE:
        whole[at] = values  # the last of equal places stays
    elif arg.op in _IN_ORDER and operand.dtype.isbuiltin:
        _IN_ORDER[arg.op].at(whole, at, values)
    else:
        at = tuple(np.broadcast_to(x, values.shape) for x in at)
        for i, value in enumerate(values):
            here = tuple(x[i] for x in at)
            whole[here] = MEANING[arg.op](None, whole[here], value)
    return out


_IN_ORDER = {Op.ADD: np.add, Op.MUL: np.multiply}
"""Functions that NumPy applies at one place after the other."""


def sort(arg: argument.Sort, *operands: Value) -> tuple[Value, ...]:
    """A stable lexicographic sort along the last axis, NaN last; or the largest, NaN first."""
    if arg.largest is not None:  # of a stable sort the other way round
        ordered = sort(argument.Sort(arg.keys), *(np.flip(x, -1) for x in operands))
        return tuple(np.flip(x, -1)[..., : arg.largest] for x in ordered)
    order = np.lexsort(tuple(reversed([_sortable(x) for x in operands[: arg.keys]])), axis=-1)
    return tuple(np.take_along_axis(x, order, axis=-1) for x in operands)


def call(function: UOp, operands: Sequence[Value]) -> list[Value]:
    """The results of a closed function."""
    assert len(operands) == len(function.arg.params), function
    return _run(*_steps_of(function), operands)


def scan(arg: argument.Scan, body: UOp, *operands: Value) -> list[Value]:
    """One call of the body after the other; its results for the slices are stacked."""
    parts: Form[Any] = split(Op.SCAN, arg, (body, *operands))
    consts, carries, n = parts.consts[0], parts.carries, len(parts.carries)
    stacks = [np.empty((arg.length, *u.shape), u.dtype) for u in body.src[n:]]
    for i in range(arg.length)[:: -1 if arg.reverse else 1]:
        results = call(body, [*consts, *carries, *(x[i] for x in parts.arrays)])
        carries = tuple(results[:n])
        for stack, value in zip(stacks, results[n:], strict=True):
            stack[i] = value
    return [*carries, *stacks]


def host(arg: argument.Host, *operands: Value) -> list[Value]:
    """The arrays that a function of the host writes."""
    results = [np.empty(shape, dtype) for shape, dtype in arg.results]
    arg.run(results, [_read_only(x) for x in operands])
    return results


def _read_only(x: Value) -> Value:
    view = np.asarray(x).view()
    view.flags.writeable = False
    return view


def repeat_while(arg: argument.While, cond: UOp, body: UOp, *operands: Value) -> list[Value]:
    """One call of the body after the other, while the condition holds."""
    parts: Form[Any] = split(Op.WHILE, arg, (cond, body, *operands))
    (tests, consts), carries = parts.consts, list(parts.carries)
    while call(cond, [*tests, *carries])[0]:
        carries = call(body, [*consts, *carries])
    return carries


def choose(arg: argument.Cond, index: Value, *src: Any) -> list[Value]:
    """The branch that the index, clamped, chooses; the others are not evaluated."""
    parts: Form[Any] = split(Op.COND, arg, (index, *src))
    branch: UOp = parts.functions[min(max(int(index), 0), len(parts.functions) - 1)]
    return call(branch, parts.operands)


def _sortable(x: Value) -> Value:
    return x.astype(np.float64) if x.dtype in FLOATS else x


# fmt: off
MEANING: dict[Op, Meaning] = {
    Op.CONST: lambda arg: np.full(arg.shape, arg.value, arg.dtype),
    Op.IOTA: lambda arg: np.arange(arg.size).astype(arg.dtype),

    Op.NEG: _numpy(np.negative), Op.ABS: _numpy(np.abs), Op.SIGN: _sign,
    Op.FLOOR: _numpy(np.floor), Op.CEIL: _numpy(np.ceil), Op.ROUND: _numpy(np.rint),
    Op.NOT: _numpy(np.invert),
    Op.EXP: _numpy(np.exp), Op.EXP2: _wider(np.exp2), Op.EXPM1: _numpy(np.expm1),
    Op.LOG: _numpy(np.log), Op.LOG2: _numpy(np.log2), Op.LOG1P: _numpy(np.log1p),
    Op.SIN: _numpy(np.sin), Op.COS: _numpy(np.cos), Op.TAN: _numpy(np.tan),
    Op.ASIN: _numpy(np.arcsin), Op.ACOS: _numpy(np.arccos), Op.ATAN: _numpy(np.arctan),
    Op.SINH: _numpy(np.sinh), Op.COSH: _numpy(np.cosh), Op.TANH: _numpy(np.tanh),
    Op.ASINH: _numpy(np.arcsinh), Op.ACOSH: _numpy(np.arccosh), Op.ATANH: _numpy(np.arctanh),
    Op.LOGISTIC: _logistic, Op.SQRT: _numpy(np.sqrt), Op.CBRT: _numpy(np.cbrt),
    Op.RSQRT: _wider(lambda x: 1 / np.sqrt(x)),
    Op.ERF: _pointwise(math.erf), Op.ERFC: _pointwise(math.erfc), Op.ERFINV: _pointwise(erf_inv),
    Op.LGAMMA: _pointwise(_lgamma), Op.DIGAMMA: _pointwise(digamma),
    Op.COMPLEX: lambda arg, re, im: _complex(re, im),
    Op.REAL: lambda arg, x: x.real, Op.IMAG: lambda arg, x: x.imag,
    Op.CAST: casts.cast, Op.BITCAST: lambda arg, x: x.view(arg),

    Op.ADD: _numpy(np.add), Op.SUB: _numpy(np.subtract), Op.MUL: _numpy(np.multiply),
    Op.DIV: _numpy(np.true_divide), Op.FLOORDIV: lambda arg, x, y: _divide(x, y),
    Op.MOD: lambda arg, x, y: _modulo(x, y), Op.POW: lambda arg, x, y: _power(x, y),
    Op.ATAN2: _numpy(np.arctan2), Op.MAX: _largest, Op.MIN: _smallest,
    Op.AND: _numpy(np.bitwise_and), Op.OR: _numpy(np.bitwise_or), Op.XOR: _numpy(np.bitwise_xor),
    Op.SHL: _shift(leftward=True), Op.SHR: _shift(leftward=False),
    Op.LT: _numpy(np.less), Op.LE: _numpy(np.less_equal),
    Op.EQ: _numpy(np.equal), Op.NE: _numpy(np.not_equal),
    Op.WHERE: _numpy(np.where), Op.FMA: _fma, Op.THREEFRY: _threefry,
    Op.LDEXP: _numpy(np.ldexp),

    Op.RESHAPE: lambda arg, x: x.reshape(arg), Op.PERMUTE: lambda arg, x: x.transpose(arg),
    Op.EXPAND: lambda arg, x: np.broadcast_to(x, arg), Op.PAD: _pad, Op.SHRINK: _shrink,
    Op.FLIP: lambda arg, x: np.flip(x, arg),
    Op.CONCAT: lambda arg, *xs: np.concatenate(xs, arg),

    Op.REDUCE: reduce, Op.DOT: dot, Op.CONV: conv, Op.FFT: fft,
    Op.GATHER: gather, Op.SCATTER: scatter, Op.SORT: sort,

    Op.TUPLE: lambda arg, *xs: xs, Op.GET: lambda arg, xs: xs[arg],
    Op.SCAN: scan, Op.WHILE: repeat_while, Op.COND: choose,
    **dict.fromkeys((Op.CALL, Op.CUSTOM), lambda arg, f, *operands: call(f, operands)),
    **dict.fromkeys((Op.HOST, Op.KERNEL), host),
    **dict.fromkeys(
        (Op.DETACH, Op.AFTER, Op.GBARRIER, Op.CONSTRAIN), lambda arg, x, *others: x),
}
# fmt: on


def evaluate(roots: Sequence[UOp], inputs: Mapping[UOp, Value]) -> list[Value]:
    """The values of graphs, given those of their leaves or parameters.

    Example:
        >>> from tfn.trace.uop import const
        >>> evaluate([const(2.0, np.dtype("float32")) * 3.0], {})
        [array(6., dtype=float32)]
    """
    return _run(*_steps(roots, inputs), inputs.values())


@lru_cache(maxsize=64)
def _steps_of(function: UOp) -> tuple[list[Step], list[int]]:
    """The steps of a closed function, cached: loops run one body many times."""
    return _steps(function.src, [UOp(Op.PARAM, (), p) for p in function.arg.params])


def _steps(roots: Sequence[UOp], leaves: Iterable[UOp]) -> tuple[list[Step], list[int]]:
    """Each makes one more value, those of the leaves being the first; and the places of the roots.

    A step is what runs, its argument, and the places of its operands.
    """
    places = {u: i for i, u in enumerate(leaves)}
    given, steps = set(places), list[Step]()
    for node in (u for u in walk(roots, lambda node: node not in given) if u not in given):
        places[node] = len(places)
        if node.op is Op.FUNCTION:
            steps.append((lambda function: function, node, ()))
        else:
            src = tuple([places[s] for s in node.src])
            steps.append((_meaning(node.op, node.src), node.arg, src))
    return steps, [places[root] for root in roots]


def _run(steps: Sequence[Step], roots: Sequence[int], leaves: Iterable[Value]) -> list[Value]:
    """The values at the places of the roots."""
    values: list[Any] = list(leaves)
    with np.errstate(all="ignore"):
        for run, arg, places in steps:
            values.append(run(arg, *[values[i] for i in places]))
    return [values[i] for i in roots]


def apply(op: Op, arg: object, *operands: Value) -> Any:
    """One op on NumPy arrays."""
    with np.errstate(all="ignore"):
        return _meaning(op, operands)(arg, *operands)


def _meaning(op: Op, operands: Sequence[Any]) -> Meaning:
    """The function of an op on values, or on nodes; narrow ones are widened."""
    narrow = casts.computes_narrow(op, operands)
    return partial(casts.widened, MEANING[op], op) if narrow else MEANING[op]
