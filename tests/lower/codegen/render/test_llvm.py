"""LLVM IR renderer: every op of every dtype, compiled and compared with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests import covering
from tests.covering import in_turn
from tests.lower.check_passes import HOST
from tests.lower.codegen.render.values import MOVES, WIDTHS, edges, every_dtype, every_width
from tests.lower.graphs import (
    Value,
    assert_close,
    assert_matches_oracle,
    draw,
    jaxpr,
    p,
    run_compiled,
    run_oracle,
)
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    REALS,
    UINT32,
    DType,
    finfo,
    highest,
    uint8,
)
from tfn.hw.compile.child import ChildCompiler
from tfn.hw.cpu.target import TARGETS as NAMED
from tfn.lower.math import decompose
from tfn.lower.pipeline import lower
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import BINARY, COMPARE, MONOIDS, UNARY, Op
from tfn.trace.primitives import _KINDS
from tfn.trace.uop import UOp, const

SIZES = (1, 3, 16, 67)
"""A scalar, half a vector, full vectors, and several with a partial one."""


def pairs(dtype: DType) -> tuple[Value, Value]:
    """Every edge with every edge."""
    x = edges(dtype)
    a, b = np.meshgrid(x, x)
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


def takes(op: Op, dtype: DType) -> bool:
    return op in COMPARE or dtype in _KINDS[op][0]


@every_width
@every_dtype
def test_basic_ops_at_the_edges(dtype: DType, target: Target) -> None:
    """All ops of a dtype in one kernel, on all pairs of edges, in vectors with a rest."""
    a, b = pairs(dtype)
    x, y = (p(i, len(a), dtype=dtype) for i in range(2))
    ops = [op for op in (UNARY | BINARY | COMPARE) & decompose.BASIC if takes(op, dtype)]
    ops += [Op.SIGN] if dtype != BOOL else []
    ops.sort(key=lambda op: op.value)
    outputs = [UOp(op, (x,) if op in UNARY else (x, y)) for op in ops]
    for op, got, want in zip(
        ops, run_compiled(outputs, [a, b], target), run_oracle(outputs, [a, b]), strict=True
    ):
        assert_close(got, want, what=op)
        if op in (Op.NEG, Op.ABS, Op.ROUND, Op.FLOOR, Op.CEIL, Op.SQRT) and dtype in FLOATS:
            number = ~np.isnan(got.astype(float))  # the sign of a zero counts here
            assert (np.signbit(got[number]) == np.signbit(want[number])).all(), op


FUNCTIONS = sorted((UNARY | BINARY) - decompose.BASIC, key=lambda op: op.value)


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.value)
def test_functions_agree_with_the_oracle(op: Op) -> None:
    """The text of a function computes what its graph does: its error is tested in `test_math`."""
    outputs, values = [], []
    for dtype in (d for d in (FLOAT32, FLOAT64) if takes(op, d)):
        sources = []
        for _ in range(1 if op in UNARY else 2):
            sources.append(p(len(values), 83, dtype=dtype))
            part = np.concatenate([edges(dtype), draw((83 - len(edges(dtype)),), dtype) * 3])
            values.append(np.roll(part, 5 * len(values)).astype(dtype))
        outputs.append(UOp(op, tuple(sources)))
    want = run_oracle(decompose.decompose(outputs), values)
    for x, got, meant in zip(outputs, run_compiled(outputs, values), want, strict=True):
        step = 1e-6 if x.dtype == FLOAT32 else 1e-14
        assert_close(got, meant, step, step)


@pytest.mark.parametrize("size", SIZES)
def test_shifts_by_any_count(size: int) -> None:
    outputs, values = [], []
    for dtype in sorted(INTEGERS, key=str):
        width = 8 * dtype.itemsize
        counts = np.array([0, 1, width - 1, width, min(width + 1, 127), highest(dtype)], dtype)
        x, n = (p(len(values) + i, size, dtype=dtype) for i in range(2))
        values += [np.resize(edges(dtype), size), np.resize(counts, size)]
        outputs += [UOp(Op.SHL, (x, n)), UOp(Op.SHR, (x, n))]
    assert_matches_oracle(outputs, values, 0, 0)


@every_width
@every_dtype
def test_casts_to_every_dtype(dtype: DType, target: Target) -> None:
    """NaN becomes 0, what is too large the largest, and what is no integer is cut off."""
    x = edges(dtype)
    if dtype in FLOATS:
        powers = [s * 2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)]
        odd = [1 + 2.0**-8, 1 + 3 * 2.0**-8, 65519.0, 65520.0, 3.4e38, 1e-40, 1e-7, -2.9, 255.9]
        with np.errstate(over="ignore", under="ignore"):
            x = np.concatenate([x, np.array([*powers, *odd], np.float64).astype(dtype)])
    u = p(0, len(x), dtype=dtype)
    outputs = [build.cast(u, to) for to in REALS]
    for to, got, want in zip(
        REALS, run_compiled(outputs, [x], target), run_oracle(outputs, [x]), strict=True
    ):
        assert_close(got, want, what=f"{dtype} to {to}")


@pytest.mark.parametrize("dtype", [INT32, INT64], ids=str)
def test_floats_that_are_clipped_to_integers_are_not_compared_again(dtype: DType) -> None:
    """Neither with the least nor the largest integer; NaN is 0 still."""
    x = p(0, 24)
    clipped = build.minimum(build.maximum(x, build.full_like(x, 0)), build.full_like(x, 255.0))
    values = [np.array([np.nan, np.inf, -np.inf, 2.5, 254.9, 300, -3, 1e30] * 3, np.float32)]
    texts = [
        lower(jaxpr([build.cast(u, dtype)]), HOST).kernels[0].text.count("fcmp o")
        for u in (clipped, x)
    ]
    assert texts[0] < texts[1]
    assert_matches_oracle([build.cast(clipped, dtype)], values)


def test_narrow_integers_are_clamped_floats() -> None:
    """Where a float has the limits of an integer, it is converted in whole vectors of 32 bits."""
    for source, to, clamped in ((FLOAT64, uint8.dtype, True), (FLOAT64, INT32, True),
                                (FLOAT32, uint8.dtype, True), (FLOAT32, INT32, False)):  # fmt: skip
        (kernel,) = lower(jaxpr([build.cast(p(0, 64, dtype=source), to)]), HOST).kernels
        assert "x i32>" in kernel.text and "fptoui" not in kernel.text
        assert ("fcmp oge" in kernel.text) is not clamped


@every_dtype
def test_bitcasts(dtype: DType) -> None:
    x = edges(dtype)
    same_width = [d for d in REALS if d.itemsize == dtype.itemsize and BOOL not in (d, dtype)]
    for to in same_width:
        (got,) = run_compiled([build.bitcast(p(0, len(x), dtype=dtype), to)], [x])
        assert got.tobytes() == x.tobytes(), to


@covering.covering("dtype, target", REALS, WIDTHS, ids=lambda value: getattr(value, "name", None))
def test_reductions(dtype: DType, target: Target) -> None:
    """Of rows, of columns and of all; in lanes, in unrolled vectors and in what is left."""
    for op in MONOIDS:
        if dtype == BOOL and op in (Op.ADD, Op.MUL):
            continue
        outputs = []
        for i, shape in enumerate(((1, 1), (3, 5), (7, 67))):
            x = p(i, *shape, dtype=dtype)
            outputs += [build.reduce(x, op, axes) for axes in ((0,), (1,), (0, 1))]
        values = [np.resize(draw((13,), dtype, 3), s) for s in ((1, 1), (3, 5), (7, 67))]
        if op is Op.MUL:
            values = [np.where(v == 0, np.ones((), dtype), v).astype(dtype) for v in values]
        assert_matches_oracle(
            outputs, values, {2: 1e-2, 4: 1e-4}.get(dtype.itemsize, 1e-12), 1e-6, target
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_max_and_min_of_nan(dtype: DType) -> None:
    x = draw((9, 40), dtype)
    x[3, 17], x[5, 39], x[0, 0] = np.nan, np.inf, -np.inf
    u = p(0, 9, 40, dtype=dtype)
    assert_matches_oracle(
        [build.reduce(u, op, (axis,)) for op in (Op.MAX, Op.MIN) for axis in (0, 1)], [x], 0, 0
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_fma_rounds_once(dtype: DType, size: int) -> None:
    values = [np.resize(draw((71,), dtype, i), size) for i in range(3)]
    x, y, z = (p(i, size, dtype=dtype) for i in range(3))
    assert_matches_oracle([UOp(Op.FMA, (x, y, z))], values, float(finfo(dtype).eps), 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_powers_of_two(dtype: DType, size: int) -> None:
    """With and without an instruction of the processor."""
    powers = np.array([0, -149, -1074, 127, 1023, -150, -1080, 5, 900, -130], f"i{dtype.itemsize}")
    values = [np.resize(np.abs(draw((71,), dtype)) + 1, size), np.resize(powers, size)]
    x, n = (p(i, size, dtype=v.dtype) for i, v in enumerate(values))
    with np.errstate(all="ignore"):
        assert_matches_oracle([UOp(Op.LDEXP, (x, n))], values, 0, 0)


def test_threefry() -> None:
    words = [np.arange(67, dtype=np.uint32) * (i + 1) for i in range(4)]
    src = tuple(p(i, 67, dtype=np.dtype(np.uint32)) for i in range(4))
    assert_matches_oracle([UOp(Op.THREEFRY, src, i) for i in range(2)], words, 0, 0)


DTYPES = (BOOL, uint8.dtype, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64)


def texts(target: Target, dtypes: Sequence[DType]) -> str:
    """One module of kernels with every op and every way through memory."""
    graphs: list[list[UOp]] = []
    for dtype in dtypes:
        x, y = (p(i, 5, 37, dtype=dtype) for i in range(2))
        ops = [op for op in sorted(UNARY | BINARY | COMPARE, key=str) if takes(op, dtype)]
        ops = [op for op in ops if op in decompose.BASIC]
        folds = [op for op in MONOIDS if dtype != BOOL or op in (Op.MAX, Op.MIN)]
        graphs += [
            [UOp(op, (x,) if op in UNARY else (x, y)) for op in ops],
            [build.cast(x, to) for to in REALS],
            [build.reduce(x, op, (1,)) for op in folds],
        ]
        if dtype in (BOOL, INT64, FLOAT16, FLOAT32):
            graphs.append([move(x) for move in MOVES.values()])
    kernels = {k.name: k for outputs in graphs for k in lower(jaxpr(outputs), target).kernels}
    lines = [line for k in kernels.values() for line in k.text.splitlines()]
    once = dict.fromkeys(line for line in lines if line.startswith(("declare", "attributes")))
    return "\n".join([*(line for line in lines if line not in once), *once, ""])


RISCV = replace(NAMED["riscv64"], features="+m,+f,+d,+v", vector_bytes=32, vector_registers=32)
# Kernels for Hexagon run in tests/hw/test_dsp.py; all ops take its back end minutes.
ABROAD = [*(target for name, target in NAMED.items() if name != "hexagon"), RISCV]
CALLED = ("floor", "ceil", "roundeven", "fma", "fmaf", "fmod", "memcpy", "memset", "__truncsfhf2")


@pytest.mark.parametrize(
    "target", in_turn(2, ABROAD), ids=lambda t: f"{t.triple[:7]}{t.cpu}{t.features[-9:]}"
)
def test_every_target_compiles_every_op(target: Target) -> None:
    """LLVM ends the process where it cannot select an instruction: so in a child.

    Nothing is called, for processors that lack some ops either, but what narrows to halves.
    Of processors that come in several makes, each has every second dtype.
    """
    makes = [other for other in ABROAD if other.triple == target.triple]
    few = len(makes) > 1 and not covering.exhaustive
    dtypes = DTYPES[makes.index(target) % 2 :: 2] if few else DTYPES
    code = ChildCompiler().compile(texts(target, dtypes), target)
    assert len(code) > 10_000
    called = [name for name in CALLED if b"\0" + name.encode() + b"\0" in code]
    assert set(called) <= {"__truncsfhf2"}


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BFLOAT16, INT32, uint8.dtype, BOOL], ids=str)
def test_consecutive_shuffles_are_fenced(dtype: DType) -> None:
    """A square of vectors is turned in some steps; all dtypes but bool are kept apart by floats."""
    turned = build.permute(p(0, 64, 64, dtype=dtype), (1, 0))
    assert_matches_oracle([turned])
    (kernel,) = lower(jaxpr([turned]), NAMED["x86-64-v4"]).kernels
    shuffles, fences = (kernel.text.count(f" {name}") for name in ("shufflevector", "call <"))
    assert shuffles in (64, 24)
    assert fences == {64: 32, 24: 8}[shuffles] * (dtype != BOOL)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_integer_vectors_are_divided_exactly(dtype: str) -> None:
    """All pairs of bytes; of wider ones multiples and their neighbours, and the limits."""
    ends, rng = np.iinfo(dtype), np.random.default_rng(0)
    if ends.bits == 8:
        whole = np.arange(ends.min, ends.max + 1).astype(dtype)
        a, b = (m.ravel() for m in np.meshgrid(whole, whole))
    else:
        b = rng.integers(ends.min, ends.max, 4096, dtype, endpoint=True)
        b = b >> rng.integers(0, ends.bits - 1, b.size).astype(dtype)
        b[b == 0] = 1
        with np.errstate(over="ignore"):
            a = rng.integers(ends.min, ends.max, b.size, dtype, endpoint=True) // b * b
            a = a + np.resize(np.array([-1, 0, 1]).astype(dtype), b.size)
        a[:64], b[:32] = ends.min, np.resize(np.array([1, 2, ends.max, ends.min]), 32)
    x, y = p(0, a.size, dtype=a.dtype), p(1, a.size, dtype=a.dtype)
    assert_matches_oracle([UOp(Op.FLOORDIV, (x, y)), UOp(Op.MOD, (x, y))], [a, b])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("divisor", [1, 2, 64])
def test_divisions_by_powers_of_two_are_shifts(kind: str, divisor: int) -> None:
    ends, rng = np.iinfo(kind), np.random.default_rng(0)
    a = rng.integers(ends.min, ends.max, 100, kind, endpoint=True)
    a[:3] = ends.min, ends.max, 0
    x = p(0, a.size, dtype=a.dtype)
    y = const(divisor, x.dtype, x.shape)
    outputs = [UOp(Op.FLOORDIV, (x, y)), UOp(Op.MOD, (x, y))]
    (kernel,) = lower(jaxpr(outputs), HOST).kernels
    assert "div" not in kernel.text and "mul <" not in kernel.text
    assert_matches_oracle(outputs, [a])


@pytest.mark.parametrize(("steps", "aligned"), [(10, False), (500, True)])
def test_the_stack_of_long_kernels_is_aligned_for_vectors(steps: int, aligned: bool) -> None:
    x, y = p(0, 64, dtype=UINT32), p(1, 64, dtype=UINT32)
    for _ in range(steps):
        x, y = y + x, UOp(Op.XOR, (x, y))
    (kernel,) = lower(jaxpr([x]), HOST).kernels
    assert ("frame-pointer" in kernel.text) == aligned
