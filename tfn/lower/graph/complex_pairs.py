"""Complex values become pairs of real ones; what follows never sees a complex dtype.

Before -> after, for ``b = a * a`` with a: c64[3]::

    { lambda ; a:c64[3]. let b:c64[3] = mul a a in (b,) }
    { lambda ; a:f32[3,2]. let re = a[:,0]; im = a[:,1]; ... b:f32[3,2] = concatenate r i in (b,) }

Parameters and results of the whole function are the same buffers, in which the two parts take
turns along one more axis.  Inside of it, and across the borders of loops, branches and calls, the
parts are values of their own, which fuse as all values do.  Contractions see a complex number as
the real matrix ((re, im), (-im, re)), so that they stay one contraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, COMPLEXES, INT32, complex_of, part
from tfn.lower.graph import host_libraries
from tfn.lower.math import complex_functions
from tfn.lower.math.complex_functions import Pair, unknown
from tfn.trace import build
from tfn.trace.argument import Fft, Host, Param, VmapMethod
from tfn.trace.inline import plain
from tfn.trace.jaxpr import function as make_function
from tfn.trace.jaxpr import param
from tfn.trace.op import MOVEMENT, SEVERAL, Op, Shape
from tfn.trace.regions import results
from tfn.trace.uop import UOp, const, rebuild, walk

Value = UOp | Pair
Rule = Callable[..., Value]


@lru_cache(maxsize=16)
def pairs(function: UOp) -> UOp:
    """A closed function without complex values, and with custom derivatives forgotten."""
    function = plain(function)
    if not has_complex(function):
        return function
    params: list[Param] = []
    known: dict[UOp, Any] = {}
    for p in function.arg.params:
        whole = replace(p, shape=(*p.shape, 2), dtype=part(p.dtype))
        params.append(whole if p.dtype in COMPLEXES else p)
        known[param(p)] = apart(param(whole)) if p.dtype in COMPLEXES else param(p)
    outputs = rewrite(function.src, known)
    return make_function([joined(y) for y in outputs], tuple(params))


def inner(function: UOp) -> UOp:
    """The same inside of a loop, branch or call: a complex value crosses its border as two."""
    if not has_complex(function):
        return function
    params: list[Param] = []
    known: dict[UOp, Any] = {}
    for p in function.arg.params:
        first = len(params)
        if p.dtype in COMPLEXES:
            params += [Param(first + i, p.shape, part(p.dtype)) for i in range(2)]
            known[param(p)] = Pair(*map(param, params[first:]))
        else:
            params.append(replace(p, index=first))
            known[param(p)] = param(params[first])
    return make_function(flatten(rewrite(function.src, known)), tuple(params))


def has_complex(function: UOp) -> bool:
    """Whether there is a complex value in a function, or in one inside of it."""
    waiting, seen = [function], {function}
    while waiting:
        f = waiting.pop()
        if any(p.dtype in COMPLEXES for p in f.arg.params):
            return True
        for node in walk([f]):
            if node.dtype in COMPLEXES:
                return True
            if node.op is Op.FUNCTION and node not in seen:
                seen.add(node)
                waiting.append(node)
    return False


def rewrite(outputs: Sequence[UOp], known: Mapping[UOp, Any]) -> list[Value]:
    """The outputs, of which complex ones are pairs, given what parameters are."""
    values: dict[UOp, Any] = dict(known)
    for node in walk(outputs):
        if node in values:
            continue
        if node.op is Op.FUNCTION:
            values[node] = inner(node)
            continue
        src = [values[s] for s in node.src]
        if node.op is Op.GET:
            values[node] = src[0][node.arg]
        elif node.op in SEVERAL:
            values[node] = _SEVERAL.get(node.op, region)(node, src)
        elif node.dtype in COMPLEXES or any(isinstance(s, Pair) for s in src):
            values[node] = PAIRS[node.op](node, *src)
        else:
            values[node] = rebuild(node, tuple(src))
    return [values[u] for u in outputs]


# Between a pair and memory.


def apart(whole: UOp) -> Pair:
    """The two parts of an array whose last axis has them in turns."""
    shape = whole.shape[:-1]
    low = (0,) * len(shape)
    re, im = (
        build.reshape(build.shrink(whole, (*low, i), (*shape, i + 1)), shape) for i in range(2)
    )
    return Pair(re, im)


def joined(value: Value) -> UOp:
    """The parts in turns along a new last axis: the array that they were taken from, if any."""
    if not isinstance(value, Pair):
        return value
    whole = _origin(value.re)
    if whole is not None and apart(whole) == value:
        return whole
    return stacked(*value)


def _origin(u: UOp) -> UOp | None:
    found = u.src[0] if u.op is Op.RESHAPE else u
    return found.src[0] if found.op is Op.SHRINK and found.src[0].shape[-1:] == (2,) else None


def stacked(*parts: UOp) -> UOp:
    """Arrays side by side along a new last axis."""
    wide = [build.reshape(u, (*u.shape, 1)) for u in parts]
    return build.concat(wide, parts[0].ndim)


def flatten(values: Iterable[Value]) -> list[UOp]:
    """All parts in order."""
    return [u for value in values for u in (value if isinstance(value, Pair) else (value,))]


# Nodes with several results.


def region(node: UOp, src: Sequence[Value]) -> list[Value]:
    """A loop, a branch or a call, whose functions are rewritten: any op with functions."""
    widths = [2 if isinstance(s, Pair) else 1 for s in src if not _closed(s)]
    count = _COUNTS.get(node.op)
    arg = node.arg if count is None else count(node.arg, widths)
    return _results(node, UOp(node.op, tuple(flatten(src)), arg))


def _closed(value: Value) -> bool:
    return isinstance(value, UOp) and value.op is Op.FUNCTION


def _results(node: UOp, made: UOp) -> list[Value]:
    """The results of a node that has become another, with two of that for each complex one."""
    given = iter(build.several(made))
    return [
        Pair(next(given), next(given)) if dtype in COMPLEXES else next(given)
        for _, dtype in results(node)
    ]


def _scan(arg: Any, widths: Sequence[int]) -> Any:
    first, end = arg.consts, arg.consts + arg.carries
    return replace(arg, consts=sum(widths[:first]), carries=sum(widths[first:end]))


def _while(arg: Any, widths: Sequence[int]) -> Any:
    first, end = arg.cond_consts, arg.cond_consts + arg.body_consts
    return replace(arg, cond_consts=sum(widths[:first]), body_consts=sum(widths[first:end]))


_COUNTS: dict[Op, Callable[[Any, Sequence[int]], Any]] = {Op.SCAN: _scan, Op.WHILE: _while}
"""Ops that count their operands."""


def _sort(node: UOp, src: Sequence[Value]) -> list[Value]:
    """Complex keys are compared by what is NaN in them, then part by part, as NumPy does it."""
    operands: list[UOp] = []
    places: list[int] = []
    for i, x in enumerate(src):
        if i < node.arg.keys and isinstance(x, Pair):
            operands.append(build.cast(unknown(x.re), INT32) * 2 + build.cast(unknown(x.im), INT32))
        places.append(len(operands))
        operands += flatten([x])
        if i + 1 == node.arg.keys:
            keys = len(operands)
    made = build.sort(operands, keys)
    return [
        Pair(made[at], made[at + 1]) if isinstance(x, Pair) else made[at]
        for at, x in zip(places, src, strict=True)
    ]


@frozen
class Complex:
    """A function of the host that is given complex arrays, where memory has pairs."""

    run: Callable[[Sequence[Any], Sequence[Any]], None]
    results: tuple[bool, ...]
    operands: tuple[bool, ...]

    def __call__(self, results: Sequence[Any], operands: Sequence[Any]) -> None:
        """The function, on views of the arrays."""
        self.run(
            [_viewed(x) if is_pair else x for x, is_pair in zip(results, self.results)],
            [_viewed(x) if is_pair else x for x, is_pair in zip(operands, self.operands)],
        )


def _viewed(x: Any) -> Any:
    return x.view(complex_of(x.dtype))[..., 0]


def _host(node: UOp, src: Sequence[Value]) -> list[Value]:
    """A function of the host reads and writes whole buffers."""
    types = results(node)
    taken = tuple(isinstance(s, Pair) for s in src)
    given = tuple(dtype in COMPLEXES for _, dtype in types)
    if not any(taken) and not any(given):
        return list(build.several(rebuild(node, tuple(flatten(src)))))
    real = tuple(
        ((*shape, 2), part(dtype)) if yes else (shape, dtype)
        for (shape, dtype), yes in zip(types, given, strict=True)
    )
    arg = replace(node.arg, run=Complex(node.arg.run, given, taken), results=real)
    made = build.several(UOp(node.op, tuple(map(joined, src)), arg))
    return [apart(u) if yes else u for u, yes in zip(made, given, strict=True)]


@frozen
class Transform:
    """A Fourier transform as a function of the host."""

    arg: Fft

    def __call__(self, results: Sequence[Any], operands: Sequence[Any]) -> None:
        """The transform of the only operand."""
        host_libraries.fft(self.arg, operands[0], results[0])


def _fft(node: UOp, x: Value) -> Value:
    arg = Host(Transform(node.arg), ((node.shape, node.dtype),), VmapMethod.REFUSE)
    return _host(UOp(Op.HOST, node.src, arg), [x])[0]


_SEVERAL: dict[Op, Callable[[UOp, Sequence[Value]], list[Value]]] = {
    Op.TUPLE: lambda node, src: list(src),
    Op.SORT: _sort,
    Op.HOST: _host,
}


# Nodes with one result.


def each(node: UOp, *src: Any) -> Pair:
    """What treats both parts alike: the same for each; real operands are shared."""
    return Pair(
        *(
            UOp(node.op, tuple(s[i] if isinstance(s, Pair) else s for s in src), node.arg)
            for i in range(2)
        )
    )


def of(function: Callable[..., Any]) -> Rule:
    """A function of `plane`."""
    return lambda node, *src: function(*src)


def _const(node: UOp) -> Pair:
    value, dtype = node.arg.value, part(node.dtype)
    return Pair(const(value.real, dtype, node.shape), const(value.imag, dtype, node.shape))


def _iota(node: UOp) -> Pair:
    real = replace(node.arg, dtype=part(node.dtype))
    return Pair(UOp(Op.IOTA, (), real), build.zeros(node.shape, real.dtype))


def _cast(node: UOp, x: Value) -> Value:
    """Of a complex number only bool sees the imaginary part, beside another complex dtype."""
    dtype = part(node.dtype)
    if not isinstance(x, Pair):
        return Pair(build.cast(x, dtype), build.zeros(x.shape, dtype))
    if node.dtype == BOOL:
        return build.cast(x.re, BOOL) | build.cast(x.im, BOOL)
    re, im = (build.cast(u, dtype) for u in x)
    return Pair(re, im) if node.dtype in COMPLEXES else re


def _reduce(node: UOp, x: Pair) -> Pair:
    """Sums part by part; a product is a loop, in which both parts are carried."""
    if node.arg.op is Op.ADD:
        return each(node, x)
    axes = node.arg.axes
    order = [*axes, *(i for i in range(x.re.ndim) if i not in axes)]
    count = build.count(tuple(x.re.shape[i] for i in axes))
    if count == 1:
        return Pair(*(build.reshape(u, node.shape) for u in x))
    line = [build.reshape(build.permute(u, order), (count, *node.shape)) for u in x]
    params = tuple(Param(i, node.shape, x.re.dtype) for i in range(4))
    a, b, c, d = map(param, params)
    body = make_function(complex_functions.multiply(Pair(a, b), Pair(c, d)), params)
    first = [build.full_like(a, 1), build.full_like(a, 0)]
    return Pair(*(build.scan(body, [], first, line, count) if x.re.size else first))


def _scatter(node: UOp, operand: Pair, indices: UOp, updates: Pair) -> Pair:
    """Part by part; but products are taken one update after the other, which may meet."""
    if node.arg.op is not Op.MUL:
        return each(node, operand, indices, updates)
    batch, lead = node.arg.batch, indices.shape[: node.arg.batch]
    count = build.count(indices.shape[batch:-1])
    sizes = updates.re.shape[indices.ndim - 1 :]

    def line(u: UOp, rest: Shape) -> UOp:
        return build.moveaxis(build.reshape(u, (*lead, count, *rest)), batch, 0)

    slices = [line(indices, indices.shape[-1:]), *(line(u, sizes) for u in updates)]
    likes = [(u.shape, u.dtype) for u in operand] + [(u.shape[1:], u.dtype) for u in slices]
    params = tuple(Param(i, shape, dtype) for i, (shape, dtype) in enumerate(likes))
    re, im, at, *update = map(param, params)
    found = Pair(*(build.gather(u, at, sizes, batch) for u in (re, im)))
    products = complex_functions.multiply(found, Pair(*update))
    body = make_function(
        [build.scatter(u, at, v, Op.WHERE, batch) for u, v in zip((re, im), products, strict=True)],
        params,
    )
    return Pair(*build.scan(body, [], operand, slices, count))


def _matrix(z: Pair, axis: int) -> UOp:
    """Each number as the matrix by which a pair (re, im) is multiplied from the left.

    Its rows lie along a new axis, its columns along the last one: so lines of results lie in a row.
    """
    shape = z.re.shape
    rows = (stacked(z.re, z.im), stacked(-z.im, z.re))
    return build.concat(
        [build.reshape(row, (*shape[:axis], 1, *shape[axis:], 2)) for row in rows], axis
    )


def _dot(node: UOp, a: Pair, b: Pair) -> Pair:
    """One contraction, over the parts too; its last axis are the parts of the result."""
    arg, ndim_a, ndim_b = node.arg, a.re.ndim, b.re.ndim
    outer = [*arg.batch_b, *arg.contract_b]
    order = [*outer, *(i for i in range(ndim_b) if i not in outer)]
    batch, end = len(arg.batch_b), len(outer)
    matrices = _matrix(Pair(*(build.permute(u, order) for u in b)), end)
    contract = (*arg.contract_a, ndim_a), range(batch, end + 1)
    steps = arg.batch_a, range(batch)
    return apart(build.dot(joined(a), matrices, contract, steps, part(arg.dtype)))


def _conv(node: UOp, x: Pair, w: Pair) -> Pair:
    """One convolution of twice as many channels to twice as many features."""
    *outer, channels = x.re.shape
    *window, depth, features = w.re.shape
    out = build.conv(
        build.reshape(joined(x), (*outer, channels * 2)),
        build.reshape(_matrix(w, w.re.ndim - 1), (*window, depth * 2, features * 2)),
        replace(node.arg, dtype=part(node.arg.dtype)),
    )
    return apart(build.reshape(out, (*node.shape, 2)))


def _after(node: UOp, value: Value, *others: Value) -> Value:
    parts = [u for v in others for u in ((v.re, v.im) if isinstance(v, Pair) else (v,))]
    if isinstance(value, Pair):
        return Pair(build.after(value.re, parts), build.after(value.im, parts))
    return build.after(value, parts)


# fmt: off
PAIRS: dict[Op, Rule] = {
    Op.CONST: _const,
    Op.IOTA: _iota,
    Op.COMPLEX: lambda node, re, im: Pair(re, im),
    Op.REAL: lambda node, z: z.re,
    Op.IMAG: lambda node, z: z.im,
    Op.CAST: _cast,

    **dict.fromkeys((Op.NEG, Op.ADD, Op.SUB, Op.WHERE, Op.DETACH, Op.GBARRIER), each),
    **dict.fromkeys((*MOVEMENT, Op.GATHER), each),
    Op.SCATTER: _scatter,
    Op.EQ: lambda node, a, b: build.eq(a.re, b.re) & build.eq(a.im, b.im),
    Op.NE: lambda node, a, b: build.ne(a.re, b.re) | build.ne(a.im, b.im),

    Op.AFTER: _after,
    Op.MUL: of(complex_functions.multiply),
    Op.DIV: of(complex_functions.divide),
    Op.POW: of(complex_functions.power),
    Op.ABS: of(complex_functions.length),
    Op.SIGN: of(complex_functions.sign),
    Op.EXP: of(complex_functions.exp),
    Op.EXP2: of(complex_functions.exp2),
    Op.EXPM1: of(complex_functions.expm1),
    Op.LOG: of(complex_functions.log),
    Op.LOG2: of(complex_functions.log2),
    Op.LOG1P: of(complex_functions.log1p),
    Op.SIN: of(complex_functions.sin),
    Op.COS: of(complex_functions.cos),
    Op.TAN: of(complex_functions.tan),
    Op.ASIN: of(complex_functions.asin),
    Op.ACOS: of(complex_functions.acos),
    Op.ATAN: of(complex_functions.atan),
    Op.SINH: of(complex_functions.sinh),
    Op.COSH: of(complex_functions.cosh),
    Op.TANH: of(complex_functions.tanh),
    Op.ASINH: of(complex_functions.asinh),
    Op.ACOSH: of(complex_functions.acosh),
    Op.ATANH: of(complex_functions.atanh),
    Op.LOGISTIC: of(complex_functions.logistic),
    Op.SQRT: of(complex_functions.sqrt),
    Op.RSQRT: of(complex_functions.rsqrt),

    Op.REDUCE: _reduce,
    Op.DOT: _dot,
    Op.CONV: _conv,
    Op.FFT: _fft,
}
"""What becomes of an op with a complex operand or result, given the node and its new sources."""
# fmt: on
