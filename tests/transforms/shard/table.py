"""One row or more for each op, of sizes that meshes of 2, 4 and 8 devices divide.

Elementwise ops have the values of `tests.transforms.cases`, as many as a division needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tests.transforms import cases
from tests.transforms.cases import CASES, Case, as_float, integers, normal
from tfn import lax
from tfn.dtypes import INT32
from tfn.eager.operands import apply
from tfn.trace import build
from tfn.trace.argument import Fft, FftType, Reduce, Shrink
from tfn.trace.axes import POINTWISE
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Row:
    """A function of arrays, of which some are differentiated."""

    name: str
    op: Op
    function: Callable[..., Any]
    differentiated: tuple[Array, ...]
    fixed: tuple[Array, ...] = ()

    @property
    def values(self) -> list[Array]:
        """All arguments."""
        return [*self.differentiated, *self.fixed]

    def loss(self, *args: Any) -> Any:
        """A number that depends on each element of the results in its own way."""
        results = tfn.tree.leaves(self.function(*args))
        weights = [tnp.cos(tnp.arange(float(y.size))).reshape(y.shape) for y in results]
        return sum((y * w).sum() for y, w in zip(results, weights, strict=True))

    def gradients(self, *args: Any) -> Any:
        """The derivatives of the loss."""
        return tfn.grad(self.loss, tuple(range(len(self.differentiated))))(*args)


def of_graph(case: Case) -> Row:
    """A row of a case of a single graph."""

    def function(*args: Any) -> Any:
        return apply(case.graph, [tnp.asarray(x) for x in args])

    return Row(case.name, case.op, function, case.differentiated, case.fixed)


def elementwise() -> list[Row]:
    """The cases of elementwise ops on a matrix."""
    rows = []
    for case in CASES:
        one_size = len({x.shape for x in (*case.differentiated, *case.fixed)}) == 1
        if case.op in POINTWISE and one_size:
            larger = [
                tuple(np.resize(x, (8, 16)) for x in xs) for xs in (case.differentiated, case.fixed)
            ]
            rows.append(of_graph(Case(case.name, case.op, case.graph, *larger)))
    return rows


def array(
    op: Op, name: str, f: Callable[..., Any], *xs: Array, fixed: tuple[Array, ...] = ()
) -> Row:
    return Row(f"{op.value} {name}", op, f, xs, fixed)


def node(op: Op, name: str, x: Array, arg: Any) -> Row:
    return of_graph(Case(f"{op.value} {name}", op, lambda a: UOp(op, (a,), arg), (x,)))


def extreme(op: Op) -> Row:
    """The index of an extreme along a divided axis, with ties, NaN and zeros of both signs."""
    x = normal(8, 16)
    x[2], x[5, 3], x[6, 3], x[0, 7], x[4, 7] = x[7], np.nan, np.nan, -0.0, 0.0
    arg = Reduce(op, (0,), INT32)
    f = lambda a, i: as_float(UOp(Op.REDUCE, (i,), arg)) + build.add_up(a, (0,))
    return of_graph(Case(f"reduce {op.value} index", Op.REDUCE, f, (normal(8, 16),), (x,)))


def fourier(kind: FftType, *shape: int) -> Row:
    def graph(x: UOp) -> UOp:
        y = build.complex_(x, x * x) if kind is not FftType.RFFT else x
        out = UOp(Op.FFT, (y,), Fft(kind, (16 if kind is not FftType.IRFFT else 30,)))
        return out if kind is FftType.IRFFT else cases.weighed(out)

    return of_graph(Case(kind.value, Op.FFT, graph, (normal(*shape),)))


def looked_up(batch: int, shape: tuple[int, ...], points: Array, sizes: tuple[int, ...]) -> Row:
    return of_graph(cases.gather(f"{sizes} of {shape}", batch, shape, points, sizes))


def combined(
    op: Op, batch: int, shape: tuple[int, ...], points: Array, updates: tuple[int, ...]
) -> Row:
    return of_graph(cases.scatter(op, f"{updates} into {shape}", batch, shape, points, updates))


def folded(x: Any) -> Any:
    @tfn.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sin(x) * x.sum()

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * tnp.cos(x),))
    return f(x)


def repeated(x: Any, n: Any) -> Any:
    start = n.astype("float64")
    last = lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2 + s[1].sum(0)), (0, start)
    )
    return x * last[1]


def on_host(x: Any, n: Any) -> Any:
    out = tfn.pure_callback(lambda n: n * 2, tfn.ShapeDtypeStruct(n.shape, n.dtype), n)
    return x * out.astype("float64")


BOOLS = normal(8, 16) > 0
ROWS_OF_TABLE = np.concatenate([integers(16, 14, 1), [[-3], [99]]]).astype(np.int32)
PAIRS = integers(8, 8, 2, low=-1)
KEYS = integers(5, 4, 64)  # with ties

TABLE = [
    *elementwise(),
    node(Op.RESHAPE, "joined", normal(4, 8, 8), (32, 8)),
    node(Op.RESHAPE, "cut", normal(16, 4), (8, 2, 4)),
    node(Op.PERMUTE, "", normal(2, 4, 8), (2, 0, 1)),
    node(Op.EXPAND, "", normal(1, 8), (16, 8)),
    node(Op.FLIP, "", normal(8, 16), (0,)),
    node(Op.FLIP, "both", normal(8, 16), (0, 1)),
    *(
        node(Op.SHRINK, name, normal(16, 8), Shrink(*arg))
        for name, arg in {
            "first": ((0, 0), (15, 8), (1, 1)),
            "last": ((1, 0), (16, 8), (1, 1)),
            "half": ((8, 0), (16, 8), (1, 1)),
            "even": ((0, 0), (15, 8), (2, 1)),
            "odd": ((1, 1), (16, 7), (2, 3)),
            "thirds": ((2, 0), (15, 8), (3, 1)),
            "one row": ((5, 0), (6, 8), (1, 1)),
            "few rows": ((6, 2), (9, 4), (2, 1)),
            "nothing": ((3, 0), (3, 8), (1, 1)),
        }.items()
    ),
    *(
        of_graph(
            Case(
                f"pad {low} {high} {inner}",
                Op.PAD,
                lambda x, v, a=(low, high, inner): build.pad(x, (a[0], 0), (a[1], 1), (a[2], 0), v),
                (normal(8, 4), np.array(0.5)),
            )
        )
        for low, high, inner in [
            (1, 1, 0),
            (0, 8, 0),
            (8, 8, 0),
            (3, 0, 0),
            (0, 0, 1),
            (0, 1, 1),
            (1, 0, 1),
            (5, 4, 1),
            (0, 3, 3),
            (2, 0, 2),
        ]
    ),
    *(
        of_graph(
            Case(
                f"concat {sizes}",
                Op.CONCAT,
                lambda *xs: build.concat(xs, 0),
                tuple(normal(n, 4) for n in sizes),
            )
        )
        for sizes in [(8, 8), (1, 15), (8, 4, 4), (3, 0, 13), (16, 2)]
    ),
    *(
        node(Op.REDUCE, f"{op.value} {axes}", normal(8, 4, 16), Reduce(op, axes))
        for op in (Op.ADD, Op.MAX, Op.MIN, Op.MUL)
        for axes in ((0,), (0, 2), (1, 2))
    ),
    array(Op.REDUCE, "any", lambda x, b: x * b.any(0), normal(8, 16), fixed=(BOOLS,)),
    extreme(Op.MAX),
    extreme(Op.MIN),
    of_graph(
        Case(
            "matmul",
            Op.DOT,
            lambda a, b: build.dot(a, b, ((1,), (0,))),
            (normal(8, 16), normal(16, 8)),
        )
    ),
    of_graph(
        Case(
            "dot batch",
            Op.DOT,
            lambda a, b: build.dot(a, b, ((3, 0), (1, 3)), ((1,), (2,))),
            (normal(2, 8, 4, 4), normal(2, 4, 8, 2)),
        )
    ),
    of_graph(
        cases.conv("same", (2, 16, 8, 2), (3, 3, 2, 4), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    ),
    of_graph(
        cases.conv("strides", (2, 16, 8, 2), (3, 2, 2, 4), (2, 1), ((0, 1), (1, 0)), (1, 1), (1, 1))
    ),
    of_graph(cases.conv("valid", (1, 16, 4), (5, 4, 8), (1,), ((0, 0),), (1,), (1,))),
    of_graph(cases.conv("dilated", (1, 16, 4), (3, 4, 8), (1,), ((2, 2),), (1,), (2,))),
    of_graph(cases.conv("transposed", (1, 8, 4), (3, 4, 8), (1,), ((2, 1),), (2,), (1,))),
    of_graph(cases.conv("cropped", (1, 16, 4), (4, 4, 8), (4,), ((-2, 2),), (1,), (1,))),
    of_graph(cases.conv("groups", (2, 8, 8), (2, 4, 8), (1,), ((1, 0),), (1,), (1,), groups=2)),
    of_graph(
        cases.conv("batch groups", (4, 8, 4), (3, 4, 8), (1,), ((1, 1),), (1,), (1,), batches=2)
    ),
    of_graph(cases.conv("weights", (2, 16, 4), (16, 4, 8), (1,), ((1, 1),), (1,), (1,))),
    fourier(FftType.FFT, 8, 16),
    fourier(FftType.RFFT, 8, 16),
    fourier(FftType.IRFFT, 8, 16),
    looked_up(0, (16, 8), ROWS_OF_TABLE, (1, 8)),
    looked_up(0, (8, 8), PAIRS, (1, 1)),
    looked_up(0, (16, 8), ROWS_OF_TABLE, (3, 8)),
    looked_up(1, (4, 16, 2), integers(16, 4, 8, 1), (1, 2)),
    array(
        Op.GATHER, "bool", lambda x, b, i: x * b[i], normal(8, 16), fixed=(BOOLS, integers(8, 8))
    ),
    *(
        combined(op, 0, (16, 8), ROWS_OF_TABLE, (16, 1, 8))
        for op in (Op.ADD, Op.WHERE, Op.MUL, Op.MAX, Op.MIN)
    ),
    combined(Op.ADD, 0, (16, 8), ROWS_OF_TABLE, (16, 2, 8)),
    combined(Op.WHERE, 0, (8, 8), PAIRS, (8, 1, 1)),
    combined(Op.ADD, 1, (4, 16, 2), integers(16, 4, 8, 1), (4, 8, 1, 2)),
    array(Op.SORT, "values", lambda x: tnp.sort(x, 0), normal(64, 4)),
    array(
        Op.SORT,
        "by keys",
        lambda x, k: lax.sort((k, x), num_keys=1)[1],
        normal(4, 64),
        fixed=(KEYS,),
    ),
    array(Op.SORT, "a long line", lambda x: lax.sort(x), normal(1024)),
    array(Op.SCAN, "sums", lambda x: tnp.cumsum(x, 0), normal(16, 4)),
    array(Op.SCAN, "backwards", lambda x: lax.cumsum(x, 0, reverse=True), normal(16, 4)),
    array(Op.SCAN, "products", lambda x: lax.cumprod(x, 1), normal(4, 16)),
    array(Op.SCAN, "extremes", lambda x: lax.cummax(x, 0) + lax.cummin(x, 0), normal(16, 4)),
    array(
        Op.SCAN,
        "any body",
        lambda c, x: lax.scan(lambda c, y: (tnp.sin(c + y), c * y), c, x),
        normal(8),
        normal(4, 8),
    ),
    array(Op.WHILE, "", repeated, normal(8, 4), fixed=(integers(4, 8, 4),)),
    *(
        array(
            Op.COND,
            str(i),
            lambda x, y, i: lax.switch(i, [tnp.multiply, lambda x, y: x.sum(0) * y, tnp.add], x, y),
            normal(8, 4),
            normal(8, 4),
            fixed=(np.array(i, np.int32),),
        )
        for i in (0, 1)
    ),
    array(Op.CALL, "", lambda x: tfn.call(lambda x: tnp.sin(x) * x.sum(0))(x), normal(8, 4)),
    array(Op.CUSTOM, "", folded, normal(8, 4)),
    array(Op.HOST, "", on_host, normal(8, 4), fixed=(integers(4, 8, 4),)),
    of_graph(
        Case(
            "kernel",
            Op.KERNEL,
            lambda x, n: x * as_float(cases._handmade(n)),
            (normal(8),),
            (integers(9, 8),),
        )
    ),
    of_graph(Case("tuple", Op.TUPLE, cases._tuple, (normal(8, 4), normal(8, 4)))),
    of_graph(
        Case("after", Op.AFTER, lambda x, y: build.after(x * x, [y]), (normal(8, 4), normal(8, 4)))
    ),
    array(Op.IOTA, "", lambda x: x * tnp.arange(16.0), normal(8, 16)),
    array(Op.CONST, "", lambda x: x + tnp.full((8, 16), 2.5), normal(8, 16)),
]
