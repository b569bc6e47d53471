"""Type rules: per op, the shape and dtype of its result; illegal nodes cannot be made.

`PRIMITIVES` is the one table of types.  `linear` lists the operands in which an op is linear: for
these `transforms.transpose` has rules, for one operand at a time, while the others are fixed.
`exact` says which ops of constants may be folded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tfn._support.frozen import frozen
from tfn._support.validate import element_type, shown, unfit, unlike
from tfn.dtypes import (
    BOOL,
    COMPLEXES,
    FLOATS,
    INEXACT,
    INT64,
    INTEGERS,
    SHORT,
    SIGNED,
    UINT32,
    DType,
    complex_of,
    int8,
    part,
    uint8,
    width_bits,
)
from tfn.errors import AxisError, DTypeError
from tfn.trace import matrix_tiles, regions, sharding, windows
from tfn.trace.argument import Access, Const, Iota, Leaf, Pad, Param, Reduce, Shrink, Sort
from tfn.trace.op import BINARY, COMPARE, MONOIDS, UNARY, Op, Shape
from tfn.trace.regions import Node, Type
from tfn.trace.type_checks import BITS, NUMBERS, ORDERED, REAL, same_type, sized

Infer = Callable[[tuple[Node, ...], Any], Type]


@frozen
class Primitive:
    """The type rule of an op, the operands in which it is linear, and whether it rounds one way.

    Attributes:
        exact: every target computes the same bits (integers, and what IEEE 754 prescribes), so
            that an op of constants may be folded.  The others each target rounds in its own way.
    """

    infer: Infer
    linear: tuple[int, ...] = ()
    exact: bool = False


# fmt: off
_KINDS: dict[Op, tuple[frozenset[DType], str]] = {
    **dict.fromkeys(UNARY | BINARY | {Op.FMA}, (FLOATS, "floating values")),
    **dict.fromkeys((Op.NEG, Op.ABS, Op.SIGN, Op.ADD, Op.SUB, Op.MUL), (NUMBERS, "numbers")),
    **dict.fromkeys((
        Op.EXP, Op.EXP2, Op.EXPM1, Op.LOG, Op.LOG2, Op.LOG1P, Op.SIN, Op.COS, Op.TAN, Op.ASIN,
        Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH, Op.LOGISTIC,
        Op.SQRT, Op.RSQRT, Op.DIV, Op.POW,
    ), (INEXACT, "floating or complex values")),
    Op.MOD: (REAL, "real numbers"),
    **dict.fromkeys((Op.FLOORDIV, Op.QUOTIENT), (INTEGERS, "integers")),
    **dict.fromkeys((Op.MAX, Op.MIN), (ORDERED, "real numbers or booleans")),
    **dict.fromkeys((Op.NOT, Op.AND, Op.OR, Op.XOR), (BITS, "integers or booleans")),
    **dict.fromkeys((Op.SHL, Op.SHR), (INTEGERS, "integers")),
    Op.THREEFRY: (frozenset({UINT32}), "uint32 words"),
}
# fmt: on


def _elementwise(op: Op) -> Infer:
    name, (allowed, words) = op.value, _KINDS[op]

    def infer(src: tuple[Node, ...], arg: object) -> Type:
        first = src[0]
        for other in src[1:]:
            if other.shape != first.shape or other.dtype != first.dtype:
                same_type(name, src)
        if first.dtype not in allowed:
            element_type(name, first, allowed, words)
        return first.shape, first.dtype

    return infer


def _compare(src: tuple[Node, ...], arg: object) -> Type:
    same_type("comparison", src)
    return src[0].shape, BOOL


def _order(src: tuple[Node, ...], arg: object) -> Type:
    element_type("comparison", src[0], ORDERED, "real numbers: complex numbers have no order")
    return _compare(src, arg)


def _magnitude(src: tuple[Node, ...], arg: object) -> Type:
    element_type("abs", src[0], NUMBERS, "numbers")
    return src[0].shape, part(src[0].dtype)


def _complex(src: tuple[Node, ...], arg: object) -> Type:
    same_type("complex", src)
    element_type("complex", src[0], frozenset(map(part, COMPLEXES)), "parts of float32 or float64")
    return src[0].shape, complex_of(src[0].dtype)


def _part(src: tuple[Node, ...], arg: object) -> Type:
    element_type("the parts of a complex number", src[0], COMPLEXES, "complex values")
    return src[0].shape, part(src[0].dtype)


def _leaf(src: tuple[Node, ...], arg: Param | Leaf) -> Type:
    return arg.shape, arg.dtype


def _const(src: tuple[Node, ...], arg: Const) -> Type:
    return sized("a constant", arg.shape, arg.dtype) if arg.shape else ((), arg.dtype)


def _iota(src: tuple[Node, ...], arg: Iota) -> Type:
    return sized("counting", (arg.size,), arg.dtype)


def _same_as_first(src: tuple[Node, ...], arg: object) -> Type:
    return src[0].shape, src[0].dtype


def _cast(src: tuple[Node, ...], arg: DType) -> Type:
    return src[0].shape, arg


def _bitcast(src: tuple[Node, ...], arg: DType) -> Type:
    if COMPLEXES & {src[0].dtype, arg}:
        raise DTypeError(
            "bitcast needs real dtypes",
            got=f"{shown(src[0])} to {SHORT[arg]}",
            hint="take the real and the imaginary part apart",
        )
    if width_bits(src[0].dtype) != width_bits(arg):
        raise DTypeError(
            "bitcast needs two dtypes of one width",
            got=f"{shown(src[0])} to {SHORT[arg]}",
            hint="lax.bitcast_convert_type splits or joins elements",
        )
    return src[0].shape, arg


def _where(src: tuple[Node, ...], arg: object) -> Type:
    condition, x, _ = src
    same_type("select", src[1:])
    element_type("select", condition, frozenset({BOOL}), "a boolean condition")
    if condition.shape != x.shape:
        raise unfit(
            "select needs a condition of the operands' shape", src, "tfn.numpy.where broadcasts"
        )
    return x.shape, x.dtype


def _ldexp(src: tuple[Node, ...], arg: object) -> Type:
    x, n = src
    element_type("ldexp", x, frozenset(map(part, COMPLEXES)), "float32 or float64")
    if n.dtype not in SIGNED or (n.dtype.itemsize, n.shape) != (x.dtype.itemsize, x.shape):
        raise unlike("ldexp", src, "integers as wide as x")
    return x.shape, x.dtype


_BYTES = frozenset({int8.dtype, uint8.dtype})


def _dot2(src: tuple[Node, ...], arg: object) -> Type:
    total, a, b = src
    lanes = tuple(total.dtype.itemsize // a.dtype.itemsize * n for n in total.shape)
    kinds = {a.dtype, b.dtype}
    if not lanes or (a.shape, b.shape) != (lanes, lanes) or (len(kinds) > 1 and kinds != _BYTES):
        raise unfit("dot2 needs neighbours that fill each lane", src, "pair the lanes")
    return total.shape, total.dtype


def _reshape(src: tuple[Node, ...], arg: Shape) -> Type:
    count = prod(src[0].shape)
    if count != prod(arg):
        raise unfit(
            f"reshape cannot turn {count} elements into {prod(arg)}",
            src,
            "sizes must multiply to the same number",
            f" to shape {arg}",
        )
    return (arg, src[0].dtype) if count else sized("reshape", arg, src[0].dtype)


def _permute(src: tuple[Node, ...], arg: Shape) -> Type:
    shape = src[0].shape
    if sorted(arg) != list(range(len(shape))):
        raise AxisError(
            f"transpose needs a permutation of the {len(shape)} axes",
            got=f"{shown(src[0])}, axes {arg}",
            hint=f"name each axis from 0 to {len(shape) - 1} once",
        )
    return tuple(shape[axis] for axis in arg), src[0].dtype


def _expand(src: tuple[Node, ...], arg: Shape) -> Type:
    shape = src[0].shape
    if len(shape) != len(arg) or any(s not in (1, n) for s, n in zip(shape, arg, strict=True)):
        raise unfit(
            "broadcast needs axes of size 1 or of the new size",
            src,
            "axes are matched from the last: x[:, None] adds one",
            f" to shape {arg}",
        )
    return sized("broadcast", arg, src[0].dtype)


def _pad(src: tuple[Node, ...], arg: Pad) -> Type:
    x, value = src
    assert min((0, *arg.low, *arg.high, *arg.interior)) == 0 and value.shape == (), arg
    if value.dtype != x.dtype:
        raise unlike("pad", src, "a value of the operand's dtype")
    sizes = zip(x.shape, arg.low, arg.high, arg.interior, strict=True)
    shape = tuple([n + low + high + between * max(n - 1, 0) for n, low, high, between in sizes])
    return sized("pad", shape, x.dtype)


def _shrink(src: tuple[Node, ...], arg: Shrink) -> Type:
    shape = src[0].shape
    cuts = list(zip(arg.start, arg.stop, arg.step, strict=True))
    if len(cuts) != len(shape) or not all(
        0 <= start <= stop <= n and step >= 1 for n, (start, stop, step) in zip(shape, cuts)
    ):
        raise unfit(
            "slice needs 0 <= start <= stop <= size and step >= 1 on every axis",
            src,
            "x[start:stop:step] of tfn.numpy clips to the array",
            f" with start {arg.start}, stop {arg.stop}, step {arg.step}",
        )
    return tuple(-((start - stop) // step) for start, stop, step in cuts), src[0].dtype


def _flip(src: tuple[Node, ...], arg: Shape) -> Type:
    x = src[0]
    if arg and not 0 <= min(arg) <= max(arg) < len(x.shape):
        raise AxisError("rev along an axis that is not there", got=f"{shown(x)}, axes {arg}")
    return x.shape, x.dtype


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _concat(src: tuple[Node, ...], arg: int) -> Type:
    first = src[0]
    for other in src[1:]:
        if _without(other.shape, arg) != _without(first.shape, arg):
            raise unfit(
                f"concatenate needs equal shapes but for axis {arg}",
                src,
                "join along another axis, or reshape first",
            )
        if other.dtype != first.dtype:
            raise unlike("concatenate", src)
    total = sum(s.shape[arg] for s in src)
    shape = (*first.shape[:arg], total, *first.shape[arg + 1 :])
    return sized("concatenate", shape, first.dtype)


def _reduce(src: tuple[Node, ...], arg: Reduce) -> Type:
    x = src[0]
    assert arg.op in MONOIDS, arg
    ordered = arg.op in (Op.MAX, Op.MIN)
    allowed = (ORDERED, "real numbers") if ordered else (NUMBERS, "numbers")
    element_type("reduce", x, *allowed)
    if any(not 0 <= axis < len(x.shape) for axis in arg.axes):
        raise AxisError(
            "reduce over an axis that is not there",
            got=f"{shown(x)}, {arg.axes}",
            hint=f"axes go from 0 to {len(x.shape) - 1}",
        )
    assert arg.index is None or (ordered and len(arg.axes) == 1), arg
    if arg.index is not None and arg.index not in INTEGERS:
        raise DTypeError("an index is an integer", got=f"{shown(x)}, index {SHORT[arg.index]}")
    shape = tuple(n for axis, n in enumerate(x.shape) if axis not in arg.axes)
    return shape, arg.index or x.dtype


def _sort(src: tuple[Node, ...], arg: Sort) -> Type:
    if any(other.shape != src[0].shape for other in src) or not src[0].shape:
        raise unfit(
            "sort needs operands of one shape with at least one axis",
            src,
            "broadcast or reshape them first",
        )
    assert arg.largest is None or 0 <= arg.largest <= src[0].shape[-1], (arg, src)
    return (), BOOL


def _nothing(src: tuple[Node, ...], arg: object) -> Type:
    return (), BOOL


def _get(src: tuple[Node, ...], arg: int) -> Type:
    return regions.result(src[0], arg)


def _range(src: tuple[Node, ...], arg: object) -> Type:
    return (), INT64


def _load(src: tuple[Node, ...], arg: Access | None) -> Type:
    if arg is not None and arg.lanes > 1 and arg.stride:
        return (arg.lanes,), src[0].dtype
    return src[1].shape, src[0].dtype


_EACH = (0, 1)
# fmt: off
PRIMITIVES: dict[Op, Primitive] = {
    Op.CONST: Primitive(_const),
    Op.PARAM: Primitive(_leaf),
    Op.LEAF: Primitive(_leaf),
    Op.IOTA: Primitive(_iota),

    **{op: Primitive(_elementwise(op)) for op in UNARY | BINARY},
    **{op: Primitive(_elementwise(op), exact=True) for op in (
        Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.NOT, Op.SQRT, Op.FLOORDIV, Op.MOD, Op.MAX,
        Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.FMA, Op.THREEFRY)},
    **{op: Primitive(_compare, exact=True) for op in COMPARE},
    **dict.fromkeys((Op.LT, Op.LE), Primitive(_order, exact=True)),
    Op.ABS: Primitive(_magnitude, exact=True),
    Op.COMPLEX: Primitive(_complex, linear=_EACH),
    Op.REAL: Primitive(_part, linear=(0,)),
    Op.IMAG: Primitive(_part, linear=(0,)),
    Op.NEG: Primitive(_elementwise(Op.NEG), linear=(0,), exact=True),
    Op.ADD: Primitive(_elementwise(Op.ADD), linear=_EACH, exact=True),
    Op.SUB: Primitive(_elementwise(Op.SUB), linear=_EACH, exact=True),
    Op.MUL: Primitive(_elementwise(Op.MUL), linear=_EACH, exact=True),
    Op.DIV: Primitive(_elementwise(Op.DIV), linear=(0,), exact=True),
    Op.CAST: Primitive(_cast, linear=(0,), exact=True),
    Op.BITCAST: Primitive(_bitcast, exact=True),
    Op.WHERE: Primitive(_where, linear=(1, 2), exact=True),
    Op.LDEXP: Primitive(_ldexp, exact=True),
    Op.QUOTIENT: Primitive(_elementwise(Op.QUOTIENT)),
    Op.DOT2: Primitive(_dot2),
    **{op: Primitive(rule) for op, rule in matrix_tiles.TYPES.items()},

    Op.RESHAPE: Primitive(_reshape, linear=(0,)),
    Op.PERMUTE: Primitive(_permute, linear=(0,)),
    Op.EXPAND: Primitive(_expand, linear=(0,)),
    Op.PAD: Primitive(_pad, linear=_EACH),
    Op.SHRINK: Primitive(_shrink, linear=(0,)),
    Op.FLIP: Primitive(_flip, linear=(0,)),
    Op.CONCAT: Primitive(_concat, linear=(0,)),  # and in all that follow

    Op.REDUCE: Primitive(_reduce, linear=(0,)),  # when its monoid is ADD
    Op.DOT: Primitive(windows.dot, linear=_EACH),
    Op.CONV: Primitive(windows.conv, linear=_EACH),
    Op.FFT: Primitive(windows.fft, linear=(0,)),
    Op.GATHER: Primitive(windows.gather, linear=(0,)),
    Op.SCATTER: Primitive(windows.scatter, linear=(0, 2)),  # when its op is ADD or WHERE
    Op.SORT: Primitive(_sort),

    Op.TUPLE: Primitive(_nothing),
    **{op: Primitive(rule) for op, rule in regions.TYPES.items()},
    Op.LINEAR: Primitive(_nothing),
    Op.HOST: Primitive(_nothing),
    Op.GET: Primitive(_get),
    Op.FUNCTION: Primitive(_nothing),
    Op.DETACH: Primitive(_same_as_first, linear=(0,)),  # its value; its derivative is 0
    Op.AFTER: Primitive(_same_as_first, linear=(0,)),
    Op.GBARRIER: Primitive(_same_as_first, linear=(0,)),

    Op.AXIS: Primitive(sharding.axis_index),
    Op.COLLECTIVE: Primitive(sharding.collective, linear=(0,)),  # a REDUCE when it adds
    Op.SHARD: Primitive(sharding.shard, linear=(0,)),
    Op.UNSHARD: Primitive(sharding.unshard, linear=(0,)),
    Op.CONSTRAIN: Primitive(sharding.constrain, linear=(0,)),

    Op.RANGE: Primitive(_range),
    Op.LOAD: Primitive(_load),
    Op.STORE: Primitive(_nothing),
    Op.FOLD: Primitive(lambda src, arg: (src[0].shape, arg.index or src[0].dtype)),
    Op.CARRY: Primitive(lambda src, arg: ((), arg.dtype)),
    Op.RECUR: Primitive(_nothing),
    Op.SINK: Primitive(_nothing),
    Op.MEMO: Primitive(_same_as_first),
    Op.STAGED: Primitive(_same_as_first),

    Op.LOOP: Primitive(_range),
    Op.ACCUMULATOR: Primitive(lambda src, arg: (src[1].shape, src[1].dtype)),
    Op.PREFETCH: Primitive(_nothing),
    Op.LEAVE: Primitive(_nothing),
    Op.END: Primitive(_nothing),
    Op.SPLAT: Primitive(lambda src, arg: ((arg,), src[0].dtype)),
    Op.LANES: Primitive(lambda src, arg: ((arg,), INT64)),
    Op.SHUFFLE: Primitive(lambda src, arg: ((len(arg),), src[0].dtype)),
    Op.ACROSS: Primitive(lambda src, arg: ((), src[0].dtype)),
    Op.LOCAL_MEMORY: Primitive(_leaf),
    Op.BARRIER: Primitive(_nothing),
    Op.COPY: Primitive(_nothing),
    Op.COPY_GROUP: Primitive(_nothing),
    Op.COPY_WAIT: Primitive(_nothing),
    Op.EXCHANGE: Primitive(_same_as_first),
    Op.FRAGMENT: Primitive(lambda src, arg: ((), src[0].dtype)),
    Op.WARP_MMA: Primitive(lambda src, arg: ((), src[-1].dtype)),
    Op.GROUP_MMA: Primitive(lambda src, arg: ((), src[-1].dtype)),
    Op.GROUP_WAIT: Primitive(_same_as_first),
}
# fmt: on
