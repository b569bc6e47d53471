"""C renderer: every op of every dtype, built by the system's compilers, bit by bit as LLVM."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import covering
from tests.covering import in_turn
from tests.lower.codegen.render.test_llvm import MOVES, edges, pairs, takes
from tests.lower.graphs import Value, device, draw, jaxpr, matmul, p, result_buffers, run_compiled
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
    DType,
)
from tfn.exporting.programs import C
from tfn.hw.cpu.target import TARGETS, host
from tfn.lower import pipeline
from tfn.lower.codegen.render.c.names import literal
from tfn.lower.codegen.render.c.plain import PLAIN
from tfn.lower.codegen.render.c.unit import unit
from tfn.lower.codegen.render.c.words import DEFINE, definitions
from tfn.lower.math import decompose
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import BINARY, COMPARE, MONOIDS, UNARY, Op
from tfn.trace.uop import UOp, const

Graphs = tuple[list[UOp], list[Value]]
REAL = sorted({*INTEGERS, *FLOATS, BOOL}, key=str)
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
FLAGS = ("-O1", "-std=gnu99", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
needs_cc = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
ENTRY = "void entry(char *const *, char *);\nvoid entry(char *const *b, char *a) {{ {}(b, a); }}\n"


def in_c(
    outputs: Sequence[UOp],
    values: Sequence[Value],
    target: Target,
    folder: Path,
    compiler: str,
    edit: Callable[[str], str] = str,
    library: str = "-nostdlib",
) -> list[Value]:
    """The values of graphs, as C that is built and loaded."""
    program = pipeline.lower(jaxpr(outputs), target, C)
    text = edit(unit(program, target, ENTRY.format(program.name)))
    (folder / "made.c").write_text(text)
    command = [
        compiler,
        *FLAGS,
        "-shared",
        "-fPIC",
        "-Wl,-z,defs",
        "made.c",
        "-o",
        "made.so",
        library,
    ]
    build = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not build.returncode, build.stderr[:2000]
    entry = ctypes.CDLL(str(folder / "made.so")).entry
    memory = device(host()).memory
    buffers = [memory.copy(x) for x in values]
    results = result_buffers(device(host()), program, buffers)
    places = [b.address for b in (*buffers, *results)]
    arena = memory.allocate(program.arena_bytes)
    entry((ctypes.c_void_p * len(places))(*places), ctypes.c_void_p(arena.address))
    return [
        np.array(memory.read(b, u.shape, u.dtype)) for b, u in zip(results, outputs, strict=True)
    ]


class Pool:
    """Graphs over parameters that are numbered together."""

    def __init__(self) -> None:
        self.outputs: list[UOp] = []
        self.values: list[Value] = []

    def given(self, value: Value) -> UOp:
        self.values.append(np.ascontiguousarray(value))
        return p(len(self.values) - 1, *value.shape, dtype=value.dtype)


def ops(pool: Pool, dtype: DType) -> None:
    """All that is left after `decompose`, on all pairs of edges."""
    x, y = map(pool.given, pairs(dtype))
    for op in sorted((UNARY | BINARY | COMPARE) & decompose.BASIC, key=str):
        if takes(op, dtype):
            pool.outputs.append(UOp(op, (x,) if op in UNARY else (x, y)))
    if dtype in FLOATS:
        pool.outputs += [
            UOp(Op.FMA, (x, y, x)),
            build.maximum(x, const(-0.0, dtype, x.shape)),
            build.minimum(x, const(0.0, dtype, x.shape)),
        ]


def casts(pool: Pool, dtype: DType) -> None:
    """To every dtype, or every second, from the numbers where that goes wrong."""
    x = edges(dtype)
    if dtype in FLOATS:
        powers = [s * 2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)]
        odd = [1 + 2.0**-8, 1 + 3 * 2.0**-8, 65519.0, 65520.0, 3.4e38, 1e-40, 1e-7, -2.9, 255.9]
        with np.errstate(over="ignore", under="ignore"):
            x = np.concatenate([x, np.array([*powers, *odd], np.float64).astype(dtype)])
    u = pool.given(x)
    first, step = (0, 1) if covering.exhaustive else (FEW.index(dtype) % 2, 2)
    pool.outputs += [build.cast(u, to) for to in REAL[first::step] if to != dtype]


def moves(pool: Pool, dtype: DType) -> None:
    """Through memory in every way."""
    x = pool.given(np.resize(edges(dtype), (5, 37)))
    pool.outputs += [move(x) for move in MOVES.values()]


def folds(pool: Pool, dtype: DType) -> None:
    """Reductions of rows, columns and all."""
    for shape in ((3, 67),):
        x = pool.given(np.resize(draw((13,), dtype, 3), shape))
        for op in MONOIDS:
            if dtype != BOOL or op in (Op.MAX, Op.MIN):
                pool.outputs += [build.reduce(x, op, axes) for axes in ((0,), (1,), (0, 1))]
            if op in (Op.MAX, Op.MIN):
                pool.outputs += [build.reduce(x, op, (axis,), index=INT32) for axis in (0, 1)]


WAYS = {"ops": ops, "casts": casts, "moves": moves, "folds": folds}
FEW = (BOOL, np.dtype("int8"), np.dtype("uint32"), INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64)


def assert_same(got: Sequence[Value], want: Sequence[Value], outputs: Sequence[UOp]) -> None:
    """Raise unless all values are equal bit by bit, but for what a NaN carries."""
    for u, g, w in zip(outputs, got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, u
        number = np.ones(w.shape, bool)
        if w.dtype in FLOATS:
            number = ~np.isnan(w.astype(np.float64))
            assert (number == ~np.isnan(g.astype(np.float64))).all(), u
        assert g[number].tobytes() == w[number].tobytes(), (u, u.src)


on_x86 = pytest.mark.skipif("x86_64" not in host().triple, reason="it is a target of x86-64")


def cases() -> Iterator[pytest.param]:
    """Each way with the widest vectors, and some with others, or on less of a processor."""
    for way in WAYS:
        yield pytest.param(way, FEW, host(), id=f"{way}-wide")
    narrow = replace(host(), vector_bytes=16, vector_registers=16)
    scalar = replace(host(), vector_bytes=1)
    yield pytest.param("ops", (INT32, FLOAT16), narrow, id="ops-narrow")
    yield pytest.param("folds", (BOOL, INT32, BFLOAT16), scalar, id="folds-scalar")
    yield pytest.param("ops", (FLOAT32,), TARGETS["x86-64"], id="ops-x86-64", marks=on_x86)
    v3 = TARGETS["x86-64-v3"]
    yield pytest.param("moves", (INT64, FLOAT32), v3, id="moves-x86-64-v3", marks=on_x86)


@needs_cc
@pytest.mark.parametrize(("way", "dtypes", "target"), list(cases()))
def test_c_agrees_with_llvm(
    way: str, dtypes: Sequence[DType], target: Target, tmp_path: Path
) -> None:
    pool = Pool()
    for dtype in in_turn(2, dtypes) if len(dtypes) > 3 else dtypes:
        WAYS[way](pool, dtype)
    got = in_c(pool.outputs, pool.values, target, tmp_path, COMPILERS[0])
    assert_same(got, run_compiled(pool.outputs, pool.values, target), pool.outputs)


@pytest.mark.skipif("clang" not in COMPILERS, reason="there is no clang")
@pytest.mark.parametrize("way", ["ops", "moves"])
def test_clang_agrees_with_llvm(way: str, tmp_path: Path) -> None:
    pool = Pool()
    for dtype in (INT32, BFLOAT16, FLOAT32):
        WAYS[way](pool, dtype)
    got = in_c(pool.outputs, pool.values, host(), tmp_path, "clang")
    assert_same(got, run_compiled(pool.outputs, pool.values, host()), pool.outputs)


@needs_cc
@pytest.mark.parametrize("way", WAYS)
def test_compilers_without_vectors_loop_over_lanes(way: str, tmp_path: Path) -> None:
    """Without GNU C a vector is a struct of C99."""
    pool = Pool()
    for dtype in in_turn(2, (BOOL, np.dtype("int8"), FLOAT16, FLOAT32)):
        WAYS[way](pool, dtype)

    def others(text: str) -> str:
        return text.replace("defined(__GNUC__)", "0").replace("defined(__clang__)", "0")

    got = in_c(pool.outputs, pool.values, host(), tmp_path, COMPILERS[0], others, "-lm")
    assert_same(got, run_compiled(pool.outputs, pool.values, host()), pool.outputs)


@needs_cc
@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("int8"), FLOAT32], ids=str)
def test_matrix_products(dtype: DType, tmp_path: Path) -> None:
    """By matrix units where there are some."""
    pool = Pool()
    a, b = (pool.given(draw(shape, dtype, 3)) for shape in ((40, 70), (70, 33)))
    pool.outputs.append(matmul(a, b))
    got = in_c(pool.outputs, pool.values, host(), tmp_path, COMPILERS[-1])
    assert_same(got, run_compiled(pool.outputs, pool.values, host()), pool.outputs)


@needs_cc
@pytest.mark.parametrize("dtype", in_turn(3, [INT32, FLOAT32, FLOAT64]), ids=str)
def test_sorts_with_prefetches(dtype: DType, tmp_path: Path) -> None:
    """The second cache holds nothing."""
    values = [draw((1, 20_000), dtype)]
    keys, order = build.sort([p(0, 1, 20_000, dtype=dtype), build.iota((1, 20_000), 1)])
    small = replace(host(), l2_bytes=0)
    for outputs in ([keys], [order]):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))  # a library is loaded once
        folder.mkdir()
        got = in_c(outputs, values, small, folder, COMPILERS[-1])
        assert_same(got, run_compiled(outputs, values), outputs)
    text = "".join(k.text for k in pipeline.lower(jaxpr([keys]), small, C).kernels)
    assert "PREFETCH(" in text


def test_constants_keep_all_their_bits() -> None:
    numbers = [0.0, -0.0, 1.5, -0.1, 1e-45, 3.4e38, np.inf, -np.inf, np.nan, 1e-310]
    for dtype in (FLOAT32, FLOAT64):
        for number in np.array(numbers).astype(dtype):
            text = literal(const(number, dtype).arg)
            if "bits" in text:
                bits = int(text.split("(")[1].split("u")[0], 16)
                assert bits == int(number.view(f"u{dtype.itemsize}"))
            else:
                value = dtype.type(float.fromhex(text.strip("()").rstrip("f")))
                assert value.tobytes() == number.tobytes(), text
    assert literal(const(-5, INT32).arg) == "(u32)-5"
    assert literal(const(-(2**63), INT64).arg) == f"{2**63}ull"


def test_nothing_is_looked_for_among_constants() -> None:
    """Weights are megabytes of text, each search of which takes as long as a kernel."""
    program = pipeline.lower(jaxpr([p(0, 4) + p(1, 4)]), host(), C)
    text = unit(program, host(), "", constants="/* max_f64x16 */\n")
    assert "/* max_f64x16 */" in text
    assert text.count("max_f64x16") == 1
    assert text.index("max_f64x16") < text.index(program.text.strip())


def test_words_are_defined_before_they_are_used() -> None:
    text = definitions("fma_f64x16(max_f64x16(a, b), b, c)", frozenset({"fma", "avx512f"}))
    lines = text.splitlines()
    where = {
        name: next(i for i, line in enumerate(lines) if f" {name}(" in line)
        for name in ("bits_u64_f64x16", "max_f64x16", "low_f64x16", "fma_f64x8", "fma_f64x16")
    }
    assert where["bits_u64_f64x16"] < where["max_f64x16"]
    assert where["low_f64x16"] < where["fma_f64x16"] > where["fma_f64x8"]
    assert set(PLAIN) < set(DEFINE)
