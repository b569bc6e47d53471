"""One small graph or more for every op of the JAXPR stage, on which all transforms are tested.

A case is evaluated by the oracle in float64, so that it is the transforms that are tested, not a
device.  `differentiated` inputs have derivatives; `fixed` ones, such as indices, have not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfn.dtypes import COMPLEX128, FLOAT64, INT32
from tfn.trace import build, oracle
from tfn.trace.argument import (
    Conv,
    Custom,
    CustomKernel,
    Fft,
    FftType,
    Host,
    Leaf,
    Param,
    Range,
    Reduce,
    Shrink,
    VmapMethod,
)
from tfn.trace.interpreter import Nest
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Partition
from tfn.trace.uop import UOp, const
from tfn.transforms import custom_rules

Graph = Callable[..., UOp]
RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """A graph over inputs, some of which have derivatives."""

    name: str
    op: Op
    graph: Graph
    differentiated: tuple[np.ndarray[Any, Any], ...]
    fixed: tuple[np.ndarray[Any, Any], ...] = ()

    def leaves(self) -> tuple[list[UOp], dict[UOp, np.ndarray[Any, Any]]]:
        """A leaf for every input, and their values."""
        values = [*self.differentiated, *self.fixed]
        leaves = [leaf(v) for v in values]
        return leaves, dict(zip(leaves, values))


def leaf(value: np.ndarray[Any, Any]) -> UOp:
    """A fresh leaf of the shape and dtype of a value."""
    return UOp(Op.LEAF, (), Leaf(value.shape, value.dtype))


def run(outputs: Sequence[UOp], inputs: dict[UOp, Any]) -> list[np.ndarray[Any, Any]]:
    """The values by the oracle."""
    return oracle.evaluate(outputs, inputs)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers that lie apart from each other and from zero."""
    x = RNG.normal(size=shape)
    return x + 0.1 * np.sign(x)


def within(low: float, high: float, n: int = 5) -> np.ndarray[Any, Any]:
    """Numbers inside an interval."""
    return RNG.uniform(low, high, n)


def integers(high: int, *shape: int, low: int = 0) -> np.ndarray[Any, Any]:
    """Small integers."""
    return RNG.integers(low, high, shape).astype(np.int32)


def one(op: Op, x: np.ndarray[Any, Any], arg: Any = None) -> Case:
    """An op of one operand."""
    return Case(op.value, op, lambda a: UOp(op, (a,), arg), (x,))


def two(op: Op, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Case:
    """An op of two operands."""
    return Case(op.value, op, lambda a, b: UOp(op, (a, b)), (x, y))


def as_float(u: UOp) -> UOp:
    """A result that can be compared."""
    return build.cast(u, FLOAT64)


def flat(op: Op, *xs: np.ndarray[Any, Any]) -> Case:
    """An op whose derivative is zero everywhere, beside one whose derivative is not."""
    return Case(op.value, op, lambda *a: as_float(UOp(op, a)) + a[0], xs)


def bits(op: Op, *xs: np.ndarray[Any, Any]) -> Case:
    """An op on integers, scaled by something that moves."""
    return Case(op.value, op, lambda y, *a: y * as_float(UOp(op, a)), (normal(5),), xs)


def reduction(op: Op, name: str, *axes: int) -> Case:
    """A reduction of three axes."""
    return Case(
        f"reduce {op.value} {name}",
        Op.REDUCE,
        lambda x: UOp(Op.REDUCE, (x,), Reduce(op, axes)),
        (normal(3, 2, 5),),
    )


def place(op: Op, axis: int) -> Case:
    """Where the first extreme along an axis is, beside a sum that has a derivative."""
    return Case(
        f"place of {op.value} {axis}",
        Op.REDUCE,
        lambda x: (
            as_float(UOp(Op.REDUCE, (x,), Reduce(op, (axis,), INT32))) + build.add_up(x, (axis,))
        ),
        (normal(3, 2, 5),),
    )


def weighed(z: UOp) -> UOp:
    """One real number of both parts of a complex one."""
    return build.real(z) + build.imag(z) * 0.5


def plane(op: Op, *shape: int, arg: Any = None) -> Case:
    """An op of one complex operand, whose parts move: in float64, derivatives are those of both."""
    graph: Graph = lambda x, y: weighed(UOp(op, (build.complex_(x, y),), arg))
    return Case(f"complex {op.value}", op, graph, (normal(*shape or (5,)), normal(*shape or (5,))))


def planes(name: str, op: Op, graph: Graph, *shapes: tuple[int, ...]) -> Case:
    """A graph of complex values, the parts of each of which move."""

    def parts(*xs: UOp) -> UOp:
        return weighed(graph(*map(build.complex_, xs[::2], xs[1::2])))

    differentiated = tuple(normal(*shape) for shape in shapes for _ in range(2))
    return Case(f"complex {name}", op, parts, differentiated)


def fourier(kind: FftType, *lengths: int) -> Case:
    """A Fourier transform of a matrix, over as many axes as there are lengths."""
    rest = (2,) * (2 - len(lengths))
    shape, halved = (*rest, *lengths), (*rest, *lengths[:-1], lengths[-1] // 2 + 1)

    def graph(x: UOp) -> UOp:
        y = UOp(Op.FFT, (x,), Fft(kind, lengths))
        return y if kind is FftType.IRFFT else weighed(y)

    if kind is FftType.RFFT:
        return Case(f"rfft {lengths}", Op.FFT, graph, (normal(*shape),))
    parts = halved if kind is FftType.IRFFT else shape
    return Case(
        f"{kind.value} {lengths}",
        Op.FFT,
        lambda x, y: graph(build.complex_(x, y)),
        (normal(*parts), normal(*parts)),
    )


def conv(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: Any,
    padding: Any,
    dilation_x: Any,
    dilation_w: Any,
    groups: int = 1,
    batches: int = 1,
) -> Case:
    """A convolution."""
    arg = Conv(strides, padding, dilation_x, dilation_w, groups, batches, FLOAT64)
    return Case(
        f"conv {name}", Op.CONV, lambda a, b: build.conv(a, b, arg), (normal(*x), normal(*w))
    )


def scatter(
    op: Op,
    name: str,
    batch: int,
    x: tuple[int, ...],
    indices: np.ndarray[Any, Any],
    updates: tuple[int, ...],
) -> Case:
    """A scatter."""
    graph: Graph = lambda a, u, i: build.scatter(a, i, u, op, batch)
    inputs = normal(*x), normal(*updates)
    return Case(f"scatter {op.value} {name}", Op.SCATTER, graph, inputs, (indices,))


def gather(
    name: str, batch: int, x: tuple[int, ...], indices: np.ndarray[Any, Any], sizes: tuple[int, ...]
) -> Case:
    """A gather."""
    return Case(
        f"gather {name}",
        Op.GATHER,
        lambda a, i: build.gather(a, i, sizes, batch),
        (normal(*x),),
        (indices,),
    )


def _sorted(keys: int) -> Graph:
    def graph(*operands: UOp) -> UOp:
        first, second = build.sort(operands, keys)
        return build.cast(first, FLOAT64) * 2 + second * second

    return graph


def _doubled(results: Any, operands: Any) -> None:
    results[0][...] = operands[0] * 2


def _host(n: UOp) -> UOp:
    arg = Host(_doubled, ((n.shape, n.dtype),), VmapMethod.SEQUENTIAL)
    return UOp(Op.GET, (UOp(Op.HOST, (n,), arg),), 0)


def _handmade(n: UOp) -> UOp:
    """A kernel over loops that doubles integers."""
    r, size = UOp(Op.RANGE, (), Range(0, n.size)), (n.size,)
    to, from_ = (UOp(Op.PARAM, (), Param(i, size, n.dtype)) for i in (0, 1))
    body = UOp(Op.SINK, (UOp(Op.STORE, (to, r, UOp(Op.LOAD, (from_, r)) * 2)),))
    kind = ((n.shape, n.dtype),)
    return UOp(
        Op.GET, (UOp(Op.KERNEL, (n,), CustomKernel("twice", kind, kind, Nest(body), body)),), 0
    )


def _tuple(a: UOp, b: UOp) -> UOp:
    both = UOp(Op.TUPLE, (a * b, b * b))
    return UOp(Op.GET, (both,), 0) * UOp(Op.GET, (both,), 1)


def _function(f: Graph, *types: tuple[tuple[int, ...], Any]) -> UOp:
    """The FUNCTION that a Python function of nodes builds."""
    params = tuple(Param(i, shape, dtype) for i, (shape, dtype) in enumerate(types))
    return function(f(*map(param, params)), params)


VECTOR = ((3,), FLOAT64)


def _scan(reverse: bool) -> Graph:
    """Consts, carries and slices that move, a carry that does not, and results of all kinds."""

    def graph(w: UOp, c: UOp, xs: UOp) -> UOp:
        def body(w: UOp, i: UOp, c: UOp, x: UOp) -> list[UOp]:
            scale = build.broadcast_to(as_float(i), c.shape)
            moved = UOp(Op.SIN, (w * c + x,)) + scale
            return [i + 1, moved, moved * c, i, x * x]

        step = _function(body, VECTOR, ((), INT32), VECTOR, VECTOR)
        zero = build.zeros((), INT32)
        _, last, products, counts, squares = build.scan(step, [w], [zero, c], [xs], 4, reverse)
        weights = build.broadcast_in_dim(as_float(counts), (4, 3), (0,))
        return last + build.add_up(products * weights + squares, (0,))

    return graph


def _while(y: UOp, x: UOp) -> UOp:
    """Doubling integers: what moves stays outside, since there is no reverse mode inside."""
    cond = _function(lambda n: [n < 100], ((), INT32))
    body = _function(lambda n: [n * 2], ((), INT32))
    (last,) = build.repeat_while(cond, body, [], [], [x])
    return y * build.broadcast_to(as_float(last), y.shape)


def _cond(x: UOp, y: UOp, index: UOp) -> UOp:
    f = _function(lambda x, y: [UOp(Op.SIN, (x,)) * y, x], VECTOR, VECTOR)
    g = _function(lambda x, y: [UOp(Op.EXP, (y,)) * x * x, y], VECTOR, VECTOR)
    h = _function(lambda x, y: [build.full_like(x, 2), build.full_like(x, 3)], VECTOR, VECTOR)
    first, second = build.choose(index, [f, g, h], [x, y])
    return first * second


def _call(x: UOp, y: UOp) -> UOp:
    """Twice the same function, one of whose results is an operand."""
    f = _function(lambda x, y: [UOp(Op.SIN, (x,)) * y, x, y * y], VECTOR, VECTOR)
    first, second, _ = build.call("f", f, [x, y])
    return build.call("f", f, [first, second])[0] * first


@dataclass(frozen=True)
class _ByHand:
    """The rules of x x y, as a user would give them."""

    def jvp(self, push: Any, u: UOp, tangents: Sequence[UOp | None]) -> list[UOp | None]:
        (x, y), (_, dx, dy) = u.src[1:], tangents
        parts = [None if dx is None else 2.0 * x * y * dx, None if dy is None else x * x * dy]
        slope = [part for part in parts if part is not None]
        return [sum(slope[1:], slope[0])]

    def transpose(self, pull: Any, u: UOp, cts: Any, differentiated: Any) -> Any:
        return custom_rules.through(pull, u, cts, differentiated)

    def batched(self, batch: Any, u: UOp, src: Any, mapped: Any, size: int) -> Any:
        return custom_rules.lanes(batch, u, src, mapped, size)


def _custom(x: UOp, y: UOp) -> UOp:
    f = _function(lambda x, y: [x * x * y], VECTOR, VECTOR)
    return UOp(Op.GET, (UOp(Op.CUSTOM, (f, x, y), Custom("f", _ByHand())),), 0)


WORDS = RNG.integers(0, 2**32, (4, 5), dtype=np.uint32)
POINTS = np.array([[0], [2], [2], [9], [-1]], np.int32)  # with a tie, and two outside
PAIRS = np.array([[[0, 1], [2, 0]], [[1, 1], [1, 5]]], np.int32)

# fmt: off
CASES = [
    one(Op.NEG, normal(5)), one(Op.ABS, normal(5)),
    one(Op.EXP, normal(5)), one(Op.EXP2, normal(5)), one(Op.EXPM1, normal(5)),
    one(Op.LOG, within(0.3, 3)), one(Op.LOG2, within(0.3, 3)), one(Op.LOG1P, within(-0.5, 2)),
    one(Op.SIN, normal(5)), one(Op.COS, normal(5)), one(Op.TAN, within(-1, 1)),
    one(Op.ASIN, within(-0.8, 0.8)), one(Op.ACOS, within(-0.8, 0.8)), one(Op.ATAN, normal(5)),
    one(Op.SINH, normal(5)), one(Op.COSH, normal(5)), one(Op.TANH, normal(5)),
    one(Op.ASINH, normal(5)), one(Op.ACOSH, within(1.3, 4)), one(Op.ATANH, within(-0.8, 0.8)),
    one(Op.LOGISTIC, normal(5)), one(Op.SQRT, within(0.3, 3)), one(Op.RSQRT, within(0.3, 3)),
    one(Op.CBRT, within(0.3, 3)), one(Op.ERF, normal(5)), one(Op.ERFC, normal(5)),
    one(Op.ERFINV, within(-0.8, 0.8)), one(Op.LGAMMA, within(0.3, 6)),
    one(Op.LGAMMA, within(-0.9, -0.1)), one(Op.DIGAMMA, within(0.3, 30)),
    one(Op.DIGAMMA, within(-1.9, -1.1)),
    Case("cast i32", Op.CAST, lambda x: as_float(build.cast(x, INT32)) * x, (normal(5),)),
    Case("bitcast", Op.BITCAST,
         lambda x, i: x * as_float(build.bitcast(i, INT32)), (normal(5),), (WORDS[0],)),
    Case("detach", Op.DETACH, lambda x: UOp(Op.DETACH, (x * x,)) * 0 + x, (normal(5),)),
    *(flat(op, normal(5)) for op in (Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND)),
    bits(Op.NOT, integers(9, 5)),

    two(Op.ADD, normal(2, 3), normal(2, 3)), two(Op.SUB, normal(5), normal(5)),
    two(Op.MUL, normal(5), normal(5)), two(Op.DIV, normal(5), within(0.5, 2)),
    two(Op.MOD, 10 + normal(5), np.array([1.7, 2.3, -1.9, 3.1, 0.7])),
    two(Op.POW, within(0.3, 3), normal(5)), two(Op.ATAN2, normal(5), normal(5)),
    two(Op.MAX, normal(5), normal(5)), two(Op.MIN, normal(5), normal(5)),
    *(flat(op, normal(5), normal(5)) for op in (Op.LT, Op.LE, Op.EQ, Op.NE)),
    *(bits(op, integers(9, 5), integers(9, 5, low=1))
      for op in (Op.FLOORDIV, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR)),

    Case("select", Op.WHERE, lambda x, y, c: build.where(c, x * x, y), (normal(5), normal(5)),
         (np.array([True, False, True, True, False]),)),
    Case("fma", Op.FMA, lambda x, y, z: UOp(Op.FMA, (x, y, z)), (normal(5), normal(5), normal(5))),
    Case("ldexp", Op.LDEXP, lambda x, n: UOp(Op.LDEXP, (x, n)), (normal(5),),
         (np.array([-3, 0, 1, 2, 7], np.int64),)),
    Case("threefry", Op.THREEFRY, lambda x, *w: x * as_float(UOp(Op.THREEFRY, w, 1)),
         (normal(5),), tuple(WORDS)),

    one(Op.RESHAPE, normal(2, 6), (3, 4)), one(Op.PERMUTE, normal(2, 3, 4), (2, 0, 1)),
    one(Op.EXPAND, normal(1, 3, 1), (2, 3, 4)), one(Op.FLIP, normal(2, 3), (1,)),
    one(Op.SHRINK, normal(7, 5), Shrink((1, 0), (6, 5), (2, 3))),
    one(Op.SHRINK, normal(7, 5), Shrink((1, 2), (6, 2), (1, 1))),
    Case("pad", Op.PAD, lambda x, v: build.pad(x, (1, 0), (0, 2), (2, 0), v),
         (normal(3, 2), normal())),
    Case("pad nothing", Op.PAD, lambda x, v: build.pad(x, (1, 0), (0, 2), (2, 0), v),
         (normal(0, 2), normal())),
    Case("concat", Op.CONCAT, lambda x, y, z: build.concat([x, y, x, z], 1),
         (normal(2, 3), normal(2, 1), normal(2, 0))),

    reduction(Op.ADD, "one", 1), reduction(Op.ADD, "all", 0, 1, 2),
    reduction(Op.MAX, "two", 0, 2), reduction(Op.MIN, "one", 2), reduction(Op.MUL, "two", 0, 2),
    reduction(Op.MUL, "all", 0, 1, 2), place(Op.MAX, 1), place(Op.MIN, 2),
    Case("product with zeros", Op.REDUCE, lambda x: UOp(Op.REDUCE, (x,), Reduce(Op.MUL, (1,))),
         (np.array([[1.5, 0, 2, 3, 1], [0, 0, 2, 0.5, 3], [2, 1, 0.5, 3, -1]]),)),
    Case("empty product", Op.REDUCE, lambda x: UOp(Op.REDUCE, (x,), Reduce(Op.MUL, (1,))),
         (normal(2, 0),)),
    Case("matmul", Op.DOT, lambda a, b: build.dot(a, b, ((1,), (0,))),
         (normal(2, 3), normal(3, 4))),
    Case("dot batch", Op.DOT, lambda a, b: build.dot(a, b, ((3, 0), (1, 3)), ((1,), (2,))),
         (normal(2, 3, 4, 5), normal(6, 5, 3, 2))),
    Case("dot outer", Op.DOT, lambda a, b: build.dot(a, b, ((), ())), (normal(2), normal(3))),
    Case("dot empty", Op.DOT, lambda a, b: build.dot(a, b, ((1,), (0,))),
         (normal(2, 0), normal(0, 4))),

    conv("plain", (2, 5, 3), (3, 3, 4), (1,), ((0, 0),), (1,), (1,)),
    conv("2d", (1, 5, 4, 2), (3, 2, 2, 3), (2, 1), ((1, 2), (0, 1)), (1, 2), (2, 1)),
    conv("cropped", (1, 7, 2), (2, 2, 3), (2,), ((-1, -2),), (1,), (1,)),
    conv("cropped and dilated", (1, 5, 2), (2, 2, 3), (3,), ((-1, 2),), (2,), (3,)),
    conv("groups", (2, 5, 4), (2, 2, 6), (1,), ((1, 0),), (1,), (1,), groups=2),
    conv("depthwise", (1, 6, 3), (3, 1, 6), (2,), ((1, 1),), (1,), (1,), groups=3),
    conv("batch groups", (4, 5, 3), (2, 3, 6), (1,), ((0, 1),), (1,), (2,), batches=2),
    conv("both groups", (4, 4, 4), (2, 2, 8), (1,), ((0, 1),), (1,), (1,), groups=2, batches=2),
    conv("uneven stride", (1, 8, 1), (3, 1, 1), (3,), ((0, 0),), (1,), (1,)),
    conv("window too large", (1, 2, 1), (3, 1, 2), (1,), ((0, 0),), (1,), (1,)),
    conv("no space", (2, 3), (3, 4), (), (), (), ()),

    gather("rows", 0, (4, 3), POINTS, (1, 3)), gather("windows", 0, (4, 3), PAIRS, (2, 1)),
    gather("batch", 1, (2, 4, 3), PAIRS[..., :1], (1, 3)),
    gather("whole", 0, (2, 3), np.zeros((2, 0), np.int32), (2, 3)),
    *(scatter(op, "rows", 0, (4, 3), POINTS, (5, 1, 3))
      for op in (Op.ADD, Op.WHERE, Op.MUL, Op.MAX, Op.MIN)),
    *(scatter(op, "overlapping windows", 0, (4, 3), PAIRS, (2, 2, 2, 1))
      for op in (Op.ADD, Op.WHERE, Op.MUL)),
    *(scatter(op, "batch", 1, (2, 4, 3), PAIRS[..., :1], (2, 2, 2, 3))
      for op in (Op.ADD, Op.WHERE)),
    Case("sort", Op.SORT, _sorted(1), (normal(3, 5), normal(3, 5))),
    Case("sort by integers", Op.SORT, lambda x, k: _sorted(1)(k, x), (normal(3, 5),),
         (integers(3, 3, 5),)),
    Case("tuple", Op.TUPLE, _tuple, (normal(5), normal(5))),
    Case("get", Op.GET, _tuple, (normal(5), normal(5))),
    Case("scan", Op.SCAN, _scan(False), (normal(3), normal(3), normal(4, 3))),
    Case("scan reverse", Op.SCAN, _scan(True), (normal(3), normal(3), normal(4, 3))),
    Case("while", Op.WHILE, _while, (normal(3),), (np.array(3, np.int32),)),
    *(Case(f"cond {i}", Op.COND, _cond, (normal(3), normal(3)), (np.array(i, np.int32),))
      for i in (-1, 1, 2)),
    Case("host", Op.HOST, lambda x, n: x * as_float(_host(n)), (normal(5),), (integers(9, 5),)),
    Case("kernel", Op.KERNEL, lambda x, n: x * as_float(_handmade(n)), (normal(5),),
         (integers(9, 5),)),
    Case("call", Op.CALL, _call, (normal(3), normal(3))),
    *(plane(op) for op in (
        Op.REAL, Op.IMAG, Op.ABS, Op.SIGN, Op.NEG, Op.EXP, Op.EXP2, Op.EXPM1, Op.LOG, Op.LOG2,
        Op.LOG1P, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH,
        Op.ASINH, Op.ACOSH, Op.ATANH, Op.LOGISTIC, Op.SQRT, Op.RSQRT)),
    plane(Op.CAST, arg=FLOAT64), plane(Op.FLIP, 2, 3, arg=(0,)),
    plane(Op.REDUCE, 2, 3, arg=Reduce(Op.ADD, (1,))),
    plane(Op.REDUCE, 2, 3, arg=Reduce(Op.MUL, (1,))),
    planes("parts", Op.COMPLEX, lambda z: build.complex_(build.imag(z), weighed(z)), (5,)),
    planes("cast", Op.CAST, lambda z: build.cast(build.real(z), COMPLEX128) * z, (5,)),
    planes("mul", Op.MUL, lambda z, w: z * w, (5,), (5,)),
    planes("div", Op.DIV, lambda z, w: z / w, (5,), (5,)),
    planes("pow", Op.POW, lambda z, w: UOp(Op.POW, (z, w)), (5,), (5,)),
    planes("dot", Op.DOT, lambda z, w: build.dot(z, w, ((1,), (0,))), (2, 3), (3, 4)),
    planes("sort", Op.SORT, lambda z, w: build.sort([z, w])[1] * z, (2, 5), (2, 5)),
    planes("scatter", Op.SCATTER, lambda z, u: build.scatter(z, build.concat(
        [const(i, INT32, (1, 1)) for i in (0, 2, 2, 9)], 0), u, Op.MUL), (4,), (4, 1)),
    planes("scan", Op.SCAN, lambda z, zs: build.add_up(build.scan(
        _function(lambda c, x: [c * x + c, c * c], ((3,), COMPLEX128), ((3,), COMPLEX128)),
        [], [z], [zs], 4)[1], (0,)), (3,), (4, 3)),
    *(fourier(kind, *lengths) for kind in FftType for lengths in ((5,), (3, 4))),
    Case("custom", Op.CUSTOM, _custom, (normal(3), normal(3))),
    Case("custom of one", Op.CUSTOM, lambda x, y: _custom(x, y), (normal(3),), (normal(3),)),
    Case("after", Op.AFTER, lambda x, y: build.after(x * x, [y]), (normal(5), normal(5))),
    Case("barrier", Op.GBARRIER, lambda x: UOp(Op.GBARRIER, (x * x,)), (normal(5),)),
    Case("constraint", Op.CONSTRAIN, lambda x: UOp(Op.CONSTRAIN, (x * x,), Partition(
        (Axis("x", 2), Axis("y", 3)), ((), ("x", "y")))), (normal(5, 6),)),
]
# fmt: on
