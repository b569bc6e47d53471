"""Operands: type promotion, broadcasting, axes and shapes of arguments; eager application.

A function of tfn.numpy has two halves.  The outer half reads arguments: dtypes, axes, shapes.  The
inner half, its body, builds nodes from nodes.  `apply` joins them: within a trace the body's nodes
are recorded; otherwise they are compiled as one program, cached by body, shapes and dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import index as as_index
from typing import Any

import numpy as np

from tfn._support.cache import Cache, drop_shortcuts
from tfn._support.validate import cast_hint, integer, shown, size_limit
from tfn.array import Array, ArrayLike
from tfn.array import Axes as Axes
from tfn.config import config
from tfn.dtypes import (
    BOOL,
    COMPLEXES,
    DEFAULTS,
    FLOAT32,
    FLOATS,
    INEXACT,
    INT32,
    INTEGERS,
    RULES,
    RULES_WATCHERS,
    SHORT,
    DType,
    as_number_of,
    canonical,
    number,
    promote,
    with_weakness,
)
from tfn.eager import constants, operators
from tfn.eager.arrays import concrete, weaken
from tfn.errors import (
    ArgumentError,
    AxisError,
    ConcretizationTypeError,
    DTypeError,
    NumberError,
    ShapeError,
    TracerArrayConversionError,
)
from tfn.trace import bind, concretization, runtime, traces
from tfn.trace.argument import Param
from tfn.trace.build import broadcast_to, cast, reshape, result_index_dtype
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, reshaped

REAL = INTEGERS | FLOATS

Ready = tuple[Jaxpr, runtime.Entry | None]
_PROGRAMS: Cache[Ready] = Cache(  # by body, static, weak, kinds, device, rules of dtypes
    "eager functions",
    lambda ready: runtime.ENTRY_BYTES + runtime.installed().compile_stats(ready[0]).size_bytes,
)
_YOUNG = _PROGRAMS.young
RULES_WATCHERS.append(drop_shortcuts)


def apply(
    body: Callable[..., UOp], operands: Sequence[Array], *static: object, weak: bool = False
) -> Array:
    """Apply ``body(*nodes, *static)`` to the operands: recorded in a trace, or run as a program.

    `body` must be a function of a module, not a new one at each call: with the hashable `static`
    it is the key under which the program is cached.
    """
    key = body, static, weak, tuple([x.kind for x in operands]), config.device, RULES[0]
    jaxpr, enter = _YOUNG.get(key) or _PROGRAMS.find(key) or (None, None)
    if enter is not None and not traces.APART:
        result: Array = enter(*operands)
        if result is not NotImplemented:
            if operators.NOTES:
                operators.note(enter, operands, result)
            return result
    trace = bind.innermost(operands)
    if trace is not None:
        node = body(*[bind.lift(x, trace) for x in operands], *static)
        traced: Array = runtime.installed().wrap(node, trace, all(x.known for x in operands), weak)
        return traced
    keeps = True
    if jaxpr is None:
        names = [v.value for v in static if isinstance(v, Op)]
        runtime.installed().check_place(names[0] if names else body.__name__.strip("_"), key[3])
        params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(operands))
        jaxpr = Jaxpr(function([body(*map(param, params), *static)], params))
        keeps = runtime.installed().check_layouts(jaxpr, key[3])
        known = constants.computed(jaxpr, operands)
        if known is not None:
            return weaken(known[0], weak)
    result = weaken(runtime.installed().call(jaxpr, operands)[0], weak)
    if enter is None and keeps:
        takes, given = range(len(operands)), [None] * len(operands)
        enter = runtime.installed().entry(jaxpr, takes, 0, given, [weak], kinds=key[3])
        _PROGRAMS.keep(key, (jaxpr, enter))
    if operators.NOTES:
        operators.note(enter, operands, result)
    return result


def alias(x: Array, shape: Shape, weak: bool = False) -> Array:
    """The same elements in order under another shape, without a copy where nothing is traced."""
    if x.owner is not None:
        bind.check_live(x)
        assert x.uop is not None
        traced: Array = runtime.installed().wrap(reshape(x.uop, shape), x.owner, x.known, weak)
        return traced
    buffer, kind = x.concrete().buffer, x.kind
    assert buffer is not None and kind is not None
    sharding = kind.sharding
    if sharding is not None and shape != x.shape and sharding.partition(x.ndim) is not None:
        return apply(reshape, (x,), shape, weak=weak)  # the parts of the result are others
    return concrete(buffer, shape, x.dtype, weak, sharding)


def array_of(name: str, value: object) -> Array:
    """An argument as an Array.

    Raises:
        ArgumentError: for a list, a tuple, or an object that is no array; `name` says where.
    """
    if isinstance(value, Array):
        return value
    if isinstance(value, (list, tuple)):
        raise ArgumentError(
            f"{name} needs arrays, not a {type(value).__name__}",
            got=repr(value)[:80],
            hint=f"write tfn.numpy.array({repr(value)[:30]}): making an array of a list costs "
            "time for each element",
        )
    try:
        array: Array = runtime.installed().asarray(value)
    except NumberError:
        raise
    except ArgumentError as error:
        raise ArgumentError(
            f"{name} needs arrays or numbers, not {type(value).__name__}",
            got=error.got,
            hint="pass an array, a number, or what has __array__; tfn.tree.map calls a function "
            "for each array of a container",
        ) from None
    return array


def indices_of(name: str, indices: Any, size: int) -> Array:
    """NumPy's indices into `size` elements as an Array of the dtype for indices."""
    return array_of(name, indices.astype(result_index_dtype(size)))


def scalar_kind(value: object) -> DType | None:
    """The weak dtype of a Python number, None for everything else."""
    return number(value) if isinstance(value, (bool, int, float, complex)) else None


def type_of(value: ArrayLike) -> tuple[DType, bool]:
    """The (dtype, weak) of an Array or a Python number."""
    if isinstance(value, Array):
        return value.dtype, value.weak_type
    kind = scalar_kind(value)
    assert kind is not None, value
    return kind, kind != BOOL


def inexact(kind: tuple[DType, bool]) -> tuple[DType, bool]:
    """The dtype in which functions such as exp compute: integers and booleans become float32.

    Those of 64 bits become the default of floats.
    """
    if kind[0] in INEXACT:
        return kind
    return FLOAT32 if kind[0].itemsize < 8 else DEFAULTS[float], kind[1]


def values_of(name: str, *values: object) -> list[Any]:
    """Arguments as Arrays, with Python numbers unchanged."""
    return [v if scalar_kind(v) is not None else array_of(name, v) for v in values]


def operands_of(name: str, *values: object) -> list[Array]:
    """Arguments as Arrays; a Python number takes the dtype that it has beside the arrays.

    So 0.1 beside float64 keeps all its bits, where `array_of` would round it to float32.
    """
    given = values_of(name, *values)
    arrays = [v for v in given if isinstance(v, Array)]
    if len(arrays) == len(given):
        return arrays
    dtype, _ = promote(tuple([type_of(v) for v in given]))
    trace = bind.innermost(arrays)
    return [
        v if isinstance(v, Array) else weaken(number_as(v, dtype, trace), type(v) is not bool)
        for v in given
    ]


def numbers_as(values: Sequence[object], dtype: DType) -> list[Array]:
    """Python numbers among the values as scalars of `dtype`: constants of a trace, else operands.

    An eager program takes them as operands, so that it serves for every number.
    """
    trace = bind.innermost([v for v in values if isinstance(v, Array)])
    return [v if isinstance(v, Array) else number_as(v, dtype, trace) for v in values]


def number_as(value: Any, dtype: DType, trace: traces.Trace | None) -> Array:
    """One Python number as a scalar of `dtype`.

    Raises:
        NumberError: for a number that the dtype does not have.
    """
    if traces.APART:
        trace = traces.recorder() or trace
    if trace is None:
        signs = (1.0, 1.0)
        if type(value) is not int:
            signs = math.copysign(1, value.real), math.copysign(1, value.imag)
        return _scalar(value, signs, dtype, config.device)
    constant: Array = runtime.installed().wrap(
        const(as_number_of(dtype, value), dtype), trace, True
    )
    return constant


@lru_cache(maxsize=1024)
def _scalar(value: Any, signs: tuple[float, float], dtype: DType, device: str) -> Array:
    """A number as an operand, cached: programs use the same few.  `signs` tells 0.0 from -0.0."""
    scalar: Array = runtime.installed().asarray(value, dtype)
    return scalar


@lru_cache(maxsize=4096)
def broadcast_shape(name: str, *shapes: Shape) -> Shape:
    """The shape that NumPy's broadcasting gives.

    Raises:
        ShapeError: naming the operation and all shapes.
    """
    ndim = max(map(len, shapes), default=0)
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    out: list[int] = []
    for sizes in zip(*padded):
        distinct = {n for n in sizes if n != 1}
        if len(distinct) > 1:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(
                f"{name} got incompatible shapes for broadcasting: {listed}",
                got=f"sizes {' and '.join(map(str, sorted(distinct)))} on axis {len(out) - ndim}",
                hint="axes are matched from the last; sizes are equal, or one of them is 1",
            )
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def fit(u: UOp, dtype: DType, shape: Shape) -> UOp:
    """A node cast and broadcast."""
    if u.op is Op.CONST and u.dtype == dtype:
        return reshaped(u, shape)
    return broadcast_to(cast(u, dtype), shape)


def _adopts(value: object, dtype: DType, floating: bool) -> bool:
    """Whether a Python number takes the dtype of the array that it is combined with."""
    if dtype in INEXACT:
        kind = type(value)
        return kind is float or kind is int or (kind is complex and dtype in COMPLEXES)
    return type(value) is int and dtype != BOOL and not floating


def together(name: str, *values: object, floating: bool = False) -> tuple[list[Array], DType, bool]:
    """Arguments as Arrays, and the dtype and weakness they promote to."""
    if len(values) == 2:  # the common case, fast: an array and a number that takes its dtype
        x, y = values
        if type(x) is Array and _adopts(y, x.dtype, floating):
            return [x, number_as(y, x.dtype, x.owner)], x.dtype, x.weak_type
        if type(y) is Array and _adopts(x, y.dtype, floating):
            return [number_as(x, y.dtype, y.owner), y], y.dtype, y.weak_type
    operands = values_of(name, *values)
    kind = promote(tuple([type_of(v) for v in operands]))
    dtype, weak = inexact(kind) if floating else kind
    return numbers_as(operands, dtype), dtype, weak


def one_axis(name: str, axis: object, ndim: int) -> int:
    """An axis counted from the front.

    Raises:
        AxisError: if the array has no such axis.
        ArgumentError: if it is not an integer.
    """
    number = integer(name, "axis", axis)
    if not -ndim <= number < ndim:
        raise AxisError(
            f"{name} got axis {number} of an array that has {ndim} ax{'i' if ndim == 1 else 'e'}s",
            got=f"axis={number}",
            hint=f"axes go from {-ndim} to {ndim - 1}" if ndim else "x[None] has an axis",
        )
    return number % ndim


def listed(value: Any) -> Sequence[Any]:
    """The items of a tuple, a list, a range, an array, or of what else can be iterated.

    A value that cannot, such as an integer, is the only item.

    Example:
        >>> listed(range(2)), listed(3)
        ((0, 1), (3,))
    """
    if isinstance(value, (tuple, list)):
        return value
    try:
        return tuple(value)
    except TypeError:
        return (value,)


def some_axes(name: str, axis: Axes, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, in order; None means all of them.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(one_axis(name, a, ndim) for a in listed(axis))
    if len(set(axes)) != len(axes):
        raise AxisError(
            f"{name} got the same axis twice",
            got=f"axis={axis}",
            hint=f"name each axis once; negative ones count from the end, {-ndim} is 0",
        )
    return axes


def two_axes(name: str, axes: Any, ndim: int) -> tuple[int, int]:
    """Two different axes counted from the front.

    Raises:
        AxisError: if the array has no such axes, or they are not two.
    """
    pair = some_axes(name, axes, ndim)
    if len(pair) != 2:
        raise AxisError(
            f"{name} needs two axes", got=f"axes={axes}", hint="name a pair, such as (0, 1)"
        )
    return pair[0], pair[1]


def a_shape(name: str, shape: Any) -> Shape:
    """A shape as a tuple of integers, from an integer or a sequence.

    Raises:
        ArgumentError: if a size is not an integer.
        ShapeError: if a size is negative, or the array larger than any machine.
        TracerIntegerConversionError: if a size is traced.
    """
    try:
        sizes = tuple([as_index(n) for n in listed(shape)])
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise ArgumentError(
            f"{name} needs a shape of integers",
            got=f"shape={shown(shape)}",
            hint="write a tuple of ints, such as (2, 3), or one int for a vector",
        ) from None
    if sizes:
        if min(sizes) < 0:
            raise ShapeError(
                f"{name} needs sizes that are not negative",
                got=f"shape={sizes}",
                hint="sizes count from 0; only reshape finds a size that is written as -1",
            )
        size_limit(name, sizes)
    return sizes


def need(name: str, dtype: DType, allowed: frozenset[DType], words: str) -> None:
    """Raise DTypeError unless the dtype is among those allowed."""
    if dtype not in allowed:
        raise DTypeError(
            f"{name} needs {words}",
            got=SHORT.get(dtype, dtype.name),
            hint=cast_hint(dtype, allowed),
        )


def is_bool(x: ArrayLike) -> bool:
    """Whether `x` is a boolean, or an array of booleans."""
    return x.dtype == BOOL if isinstance(x, (Array, np.ndarray, np.generic)) else type(x) is bool


def counted(x: ArrayLike, y: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """Two booleans as the integers 0 and 1; other operands unchanged."""
    if is_bool(x) and is_bool(y):
        return array_of("astype", x).astype(INT32), array_of("astype", y).astype(INT32)
    return x, y


def need_real(name: str, *values: ArrayLike) -> None:
    """Raise DTypeError if a value is complex."""
    for value in values_of(name, *values):
        need(name, type_of(value)[0], REAL | {BOOL}, "real numbers")


def known_values(name: str, x: Any, hint: str) -> np.ndarray[Any, Any]:
    """The elements of an array on which the shape of a result depends.

    Raises:
        TracerArrayConversionError: for a traced array, with a hint how to do without.
    """
    try:
        return np.asarray(x)
    except TracerArrayConversionError as error:
        need = f"its value, on which the shape of the result of {name} depends,"
        raise concretization.error(x, type(error), need, hint) from None


def not_in_place(name: str, inplace: bool) -> None:
    """Raise ArgumentError if an array shall be changed."""
    if inplace:
        raise ArgumentError(
            f"{name} cannot change an array in place",
            got=f"inplace={inplace}",
            hint=f"x = {name}(x, ..., inplace=False)",
        )


def shape(a: ArrayLike) -> Shape:
    """The sizes of the axes.

    Example:
        >>> shape(np.ones((2, 3)))
        (2, 3)
    """
    return array_of("shape", a).shape


def ndim(a: ArrayLike) -> int:
    """The number of axes.

    Example:
        >>> ndim(np.ones((2, 3)))
        2
    """
    return array_of("ndim", a).ndim


def size(a: ArrayLike, axis: Axes = None) -> int:
    """The number of elements, or the size of an axis, or the product of those of several.

    Example:
        >>> size(np.ones((2, 3))), size(np.ones((2, 3)), 1)
        (6, 3)
    """
    a = array_of("size", a)
    return math.prod(a.shape[i] for i in some_axes("size", axis, a.ndim))


def result_type(*args: object) -> DType:
    """The dtype that an operation on these arrays, numbers and dtypes gives.

    Raises:
        ArgumentError: for nothing.

    Example:
        >>> result_type(1.0, np.int8)
        dtype('float32')
    """
    if not args:
        raise ArgumentError(
            "result_type needs at least one array or dtype", got="none", hint="result_type(x)"
        )
    return promote(tuple([_kind_of(v) for v in args]))[0]


def _kind_of(value: Any) -> tuple[DType, bool]:
    if isinstance(value, Array) or scalar_kind(value) is not None:
        return type_of(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return canonical(value.dtype), False
    return with_weakness(value)
