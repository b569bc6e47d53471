"""Complex lowering: complex values become pairs of real ones, before all other passes.

Before -> after, for ``b = a * a`` with a: c64[3]::

    { lambda ; a:c64[3]. let b:c64[3] = mul a a in (b,) }
    { lambda ; a:f32[3,2]. let re = a[:,0]; im = a[:,1]; ... b:f32[3,2] = concatenate r i in (b,) }

Parameters and results of the whole function keep their buffers, in which the two parts are
interleaved along one more axis.  Inside of it, and as operands and results of loops, branches and
calls, the parts are separate values, which fuse as all values do.  Contractions stay one
contraction (`pair_products`); convolutions see a number as the real matrix ((re, im), (-im, re)).

Before that, narrow values become bytes (`narrow_types`).  No later pass and no kernel sees a
complex or a narrow dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, COMPLEXES, INT32, complex_of, part
from tfn.lower.graph import fourier, host_libraries, narrow_types, pair_products
from tfn.lower.graph.fourier import Products
from tfn.lower.math import complex_functions
from tfn.lower.math.complex_functions import Pair, is_nan
from tfn.trace import build
from tfn.trace.argument import Fft, Host, Param, VmapMethod
from tfn.trace.inline import plain
from tfn.trace.jaxpr import function as make_function
from tfn.trace.jaxpr import param
from tfn.trace.op import MOVEMENT, SEVERAL, Op, Shape
from tfn.trace.records import cached
from tfn.trace.regions import ROWS, form, results
from tfn.trace.uop import UOp, const, rebuild

Value = UOp | Pair
Rule = Callable[..., Value]


@cached(maxsize=16)
def lower_complex(
    function: UOp, products: Products = Products.FAST, bfloat16_unit: bool = False
) -> UOp:
    """Returns a closed function without complex or narrow values, and custom derivatives.

    Fourier transforms that are no `products` are functions of the host.  With `bfloat16_unit` large
    products of narrow floats are of bfloat16, for a matrix unit.
    """
    # Custom derivatives have done their work by now, and their calls would hide complex values.
    function = narrow_types.lower_narrow(plain(function), bfloat16_unit)
    # Unchanged functions keep their identity, by which later passes are cached.
    if not has_complex(function):
        return function
    params: list[Param] = []
    values: dict[UOp, Any] = {}
    for p in function.arg.params:
        interleaved = replace(p, shape=(*p.shape, 2), dtype=part(p.dtype))
        params.append(interleaved if p.dtype in COMPLEXES else p)
        values[param(p)] = deinterleave(param(interleaved)) if p.dtype in COMPLEXES else param(p)
    outputs = rewrite(function.src, values, products)
    return make_function([interleave(y) for y in outputs], tuple(params))


def lower_body(function: UOp, products: Products = Products.FAST) -> UOp:
    """The same for the body of a loop, branch or call: a complex parameter or result is two."""
    if not has_complex(function):
        return function
    params: list[Param] = []
    values: dict[UOp, Any] = {}
    for p in function.arg.params:
        first = len(params)
        if p.dtype in COMPLEXES:
            params += [Param(first + i, p.shape, part(p.dtype)) for i in range(2)]
            values[param(p)] = Pair(*map(param, params[first:]))
        else:
            params.append(replace(p, index=first))
            values[param(p)] = param(params[first])
    return make_function(flatten(rewrite(function.src, values, products)), tuple(params))


def has_complex(function: UOp) -> bool:
    """Whether there is a complex value in a function, or in the body of a loop inside of it."""
    return narrow_types.has_values(function, COMPLEXES)


def rewrite(outputs: Sequence[UOp], params: Mapping[UOp, Any], products: Products) -> list[Value]:
    """Returns the outputs, complex ones as pairs, from the values of the parameters."""

    def value(node: UOp, src: list[Any]) -> Any:
        if node.op is Op.FFT:
            return _fft(node, src[0], products)
        if node.op in SEVERAL:
            return _SEVERAL_RESULTS.get(node.op, region)(node, src)
        if node.dtype in COMPLEXES or any(isinstance(s, Pair) for s in src):
            return PAIRS[node.op](node, *src)
        return rebuild(node, tuple(src))

    return narrow_types.evaluated(outputs, params, lambda f: lower_body(f, products), value)


# Between a pair and memory.


def deinterleave(array: UOp) -> Pair:
    """Returns the two parts of an array that are interleaved along its last axis, of size 2."""
    shape = array.shape[:-1]
    low = (0,) * len(shape)
    re, im = (
        build.reshape(build.shrink(array, (*low, i), (*shape, i + 1)), shape) for i in range(2)
    )
    return Pair(re, im)


def interleave(value: Value) -> UOp:
    """Returns the parts interleaved along a new last axis; a real value is returned as it is."""
    if not isinstance(value, Pair):
        return value
    # Parts of one array are that array: a parameter that is a result is passed on, not copied.
    array = _deinterleaved_array(value.re)
    if array is not None:
        parts = deinterleave(array)
        shape = value.re.shape
        fits = build.count(parts.re.shape) == build.count(shape)
        if fits and Pair(*(build.reshape(u, shape) for u in parts)) == value:
            return build.reshape(array, (*shape, 2))
    return stacked(*value)


def _deinterleaved_array(u: UOp) -> UOp | None:
    """The array of which a value may be one part."""
    view = u.src[0] if u.op is Op.RESHAPE else u
    return view.src[0] if view.op is Op.SHRINK and view.src[0].shape[-1:] == (2,) else None


def stacked(*parts: UOp) -> UOp:
    """Stacks arrays along a new last axis."""
    wide = [build.reshape(u, (*u.shape, 1)) for u in parts]
    return build.concat(wide, parts[0].ndim)


def flatten(values: Iterable[Value]) -> list[UOp]:
    """Lists real values and the parts of pairs, in order."""
    return [u for value in values for u in (value if isinstance(value, Pair) else (value,))]


# Nodes with several results.


def region(node: UOp, src: Sequence[Value]) -> list[Value]:
    """Rewrites a loop, a branch or a call: any op with functions, which are rewritten already."""
    if node.op not in ROWS:
        return _results(node, UOp(node.op, tuple(flatten(src)), node.arg))
    parts = form(node, src).spread(lambda value: flatten([value]))
    return _results(node, UOp(*parts.fields))


def _results(node: UOp, lowered: UOp) -> list[Value]:
    """The results of a node, from those of the lowered one, which has two for each complex one."""
    parts = iter(build.several(lowered))
    return [
        Pair(next(parts), next(parts)) if dtype in COMPLEXES else next(parts)
        for _, dtype in results(node)
    ]


def _sort(node: UOp, src: Sequence[Value]) -> list[Value]:
    """Complex keys in NumPy's order: by the parts that are NaN, then lexicographically."""
    operands: list[UOp] = []
    positions: list[int] = []
    for i, x in enumerate(src):
        # 0 without NaN, 1 if the imaginary part is one, 2 if the real part is, 3 if both are.
        if i < node.arg.keys and isinstance(x, Pair):
            operands.append(build.cast(is_nan(x.re), INT32) * 2 + build.cast(is_nan(x.im), INT32))
        positions.append(len(operands))
        operands += flatten([x])
        if i + 1 == node.arg.keys:
            keys = len(operands)
    ordered = build.several(UOp(Op.SORT, tuple(operands), replace(node.arg, keys=keys)))
    return [
        Pair(ordered[at], ordered[at + 1]) if isinstance(x, Pair) else ordered[at]
        for at, x in zip(positions, src, strict=True)
    ]


@frozen
class ComplexHostFunction:
    """A function of the host over complex arrays, called with interleaved ones.

    Attributes:
        run: the user's function.
        results, operands: for each, whether it is complex.
    """

    run: Callable[[Sequence[Any], Sequence[Any]], None]
    results: tuple[bool, ...]
    operands: tuple[bool, ...]

    def __call__(self, results: Sequence[Any], operands: Sequence[Any]) -> None:
        """Calls the function on complex views of the arrays."""
        self.bound(results, operands)()

    def bound(self, results: Sequence[Any], operands: Sequence[Any]) -> Callable[[], object]:
        """The call on these arrays: their views are made once."""
        bind = getattr(self.run, "bound", None) or partial(partial, self.run)
        bound: Callable[[], object] = bind(
            [_complex_view(x) if is_pair else x for x, is_pair in zip(results, self.results)],
            [_complex_view(x) if is_pair else x for x, is_pair in zip(operands, self.operands)],
        )
        return bound


def _complex_view(x: Any) -> Any:
    return x.view(complex_of(x.dtype))[..., 0]


def _host(node: UOp, src: Sequence[Value]) -> list[Value]:
    """A function of the host, which reads and writes whole buffers: its arrays are interleaved."""
    types = results(node)
    complex_operands = tuple(isinstance(s, Pair) for s in src)
    complex_results = tuple(dtype in COMPLEXES for _, dtype in types)
    if not any(complex_operands) and not any(complex_results):
        return list(build.several(rebuild(node, tuple(flatten(src)))))
    real_types = tuple(
        ((*shape, 2), part(dtype)) if is_complex else (shape, dtype)
        for (shape, dtype), is_complex in zip(types, complex_results, strict=True)
    )
    run = ComplexHostFunction(node.arg.run, complex_results, complex_operands)
    arg = replace(node.arg, run=run, results=real_types)
    arrays = build.several(UOp(node.op, tuple(map(interleave, src)), arg))
    return [
        deinterleave(u) if is_complex else u
        for u, is_complex in zip(arrays, complex_results, strict=True)
    ]


@frozen
class FourierTransform:
    """A Fourier transform as a function of the host."""

    arg: Fft

    def __call__(self, results: Sequence[Any], operands: Sequence[Any]) -> None:
        """Computes the transform of the only operand."""
        self.bound(results, operands)()

    def bound(self, results: Sequence[Any], operands: Sequence[Any]) -> Callable[[], object]:
        """The call on these arrays: what does not depend on their values is done once."""
        return host_libraries.fft(self.arg, operands[0], results[0])


def _fft(node: UOp, x: Value, products: Products) -> Value:
    if products.has(node.arg, node.shape):
        return fourier.transform(node.arg, x)
    # Batching is over by now, so that no batching method is needed.
    arg = Host(FourierTransform(node.arg), ((node.shape, node.dtype),), VmapMethod.REFUSE)
    return _host(UOp(Op.HOST, node.src, arg), [x])[0]


_SEVERAL_RESULTS: dict[Op, Callable[[UOp, Sequence[Value]], list[Value]]] = {
    Op.TUPLE: lambda node, src: list(src),
    Op.SORT: _sort,
    Op.HOST: _host,
}
"""Ops with several results; those without a row have functions: see `region`."""


# Nodes with one result.


def each(node: UOp, *src: Any) -> Pair:
    """Applies the op to the real and to the imaginary parts; real operands are part of both."""
    return Pair(
        *(
            UOp(node.op, tuple(s[i] if isinstance(s, Pair) else s for s in src), node.arg)
            for i in range(2)
        )
    )


def of(function: Callable[..., Any]) -> Rule:
    """The rule of an op that `complex_functions` defines on pairs."""
    return lambda node, *src: function(*src)


def _const(node: UOp) -> Pair:
    value, dtype = node.arg.value, part(node.dtype)
    return Pair(const(value.real, dtype, node.shape), const(value.imag, dtype, node.shape))


def _iota(node: UOp) -> Pair:
    real = replace(node.arg, dtype=part(node.dtype))
    return Pair(UOp(Op.IOTA, (), real), build.zeros(node.shape, real.dtype))


def _cast(node: UOp, x: Value) -> Value:
    """A cast to a real dtype drops the imaginary part, but for bool: 1j is true."""
    dtype = part(node.dtype)
    if not isinstance(x, Pair):
        return Pair(build.cast(x, dtype), build.zeros(x.shape, dtype))
    if node.dtype == BOOL:
        return build.cast(x.re, BOOL) | build.cast(x.im, BOOL)
    re, im = (build.cast(u, dtype) for u in x)
    return Pair(re, im) if node.dtype in COMPLEXES else re


def _reduce(node: UOp, x: Pair) -> Pair:
    """Sums part by part; a product as a loop that carries both parts."""
    if node.arg.op is Op.ADD:
        return each(node, x)
    axes = node.arg.axes
    order = [*axes, *(i for i in range(x.re.ndim) if i not in axes)]
    count = build.count(tuple(x.re.shape[i] for i in axes))
    # One factor needs no loop.
    if count == 1:
        return Pair(*(build.reshape(u, node.shape) for u in x))
    line = [build.reshape(build.permute(u, order), (count, *node.shape)) for u in x]
    params = tuple(Param(i, node.shape, x.re.dtype) for i in range(4))
    a, b, c, d = map(param, params)
    body = make_function(complex_functions.multiply(Pair(a, b), Pair(c, d)), params)
    first = [build.full_like(a, 1), build.full_like(a, 0)]
    return Pair(*(build.scan(body, [], first, line, count) if x.re.size else first))


def _scatter(node: UOp, operand: Pair, indices: UOp, updates: Pair) -> Pair:
    """Part by part; products one update after the other, since two may update one element."""
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
    old = Pair(*(build.gather(u, at, sizes, batch) for u in (re, im)))
    products = complex_functions.multiply(old, Pair(*update))
    body = make_function(
        [build.scatter(u, at, v, Op.WHERE, batch) for u, v in zip((re, im), products, strict=True)],
        params,
    )
    return Pair(*build.scan(body, [], operand, slices, count))


def _matrix(z: Pair, axis: int) -> UOp:
    """Each number as the real matrix ((re, im), (-im, re)), by which pairs are multiplied.

    ``(a, b) ((re, im), (-im, re)) = (a re - b im, a im + b re)``.  Its rows are a new axis `axis`,
    its columns the last one, so that the parts of a result are neighbours in memory.
    """
    shape = z.re.shape
    rows = (stacked(z.re, z.im), stacked(-z.im, z.re))
    return build.concat(
        [build.reshape(row, (*shape[:axis], 1, *shape[axis:], 2)) for row in rows], axis
    )


def _conv(node: UOp, x: Pair, w: Pair) -> Pair:
    """One convolution of twice as many channels to twice as many features."""
    # The two parts of a number are neighbours in memory, so they are channels without a copy.
    *outer, channels = x.re.shape
    *window, depth, features = w.re.shape
    out = build.conv(
        build.reshape(interleave(x), (*outer, channels * 2)),
        build.reshape(_matrix(w, w.re.ndim - 1), (*window, depth * 2, features * 2)),
        replace(node.arg, dtype=part(node.arg.dtype)),
    )
    return deinterleave(build.reshape(out, (*node.shape, 2)))


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
    Op.ABS: of(complex_functions.modulus),
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
    Op.DOT: lambda node, a, b: pair_products.dot(node, a, b, interleave),
    Op.CONV: _conv,
}
"""The rule of each op with a complex operand or result: from the node and its new sources."""
# fmt: on
