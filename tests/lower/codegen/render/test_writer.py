"""LLVM IR writer: types, constants, names and addresses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import p
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    REALS,
    UINT64,
    DType,
)
from tfn.lower.codegen.render.writer import (
    TYPES,
    LlvmWriter,
    literal,
    scalar,
    stored,
    suffix,
    typed,
    vector,
)
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def test_every_dtype_has_a_type() -> None:
    assert set(TYPES) == set(REALS)
    assert scalar(BOOL) == "i1" and stored(BOOL) == "i8", "a bool is a byte in memory"
    assert scalar(BFLOAT16) == stored(BFLOAT16) == "i16"
    assert scalar(UINT64) == "i64"
    assert typed(const(1.0, FLOAT32)) == "float"
    assert typed(const(1.0, FLOAT32, (16,))) == "<16 x float>"
    assert vector("ptr", ()) == "ptr" and vector("ptr", (4,)) == "<4 x ptr>"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1, INT32, "1"),
        (-1, INT32, "-1"),
        (2**64 - 1, UINT64, str(2**64 - 1)),
        (True, BOOL, "true"),
        (False, BOOL, "false"),
        (1.0, FLOAT64, "0x3FF0000000000000"),
        (-0.0, FLOAT64, "0x8000000000000000"),
        (0.1, FLOAT32, "0x3FB99999A0000000"),  # the nearest float32, as a double
        (np.inf, FLOAT32, "0x7FF0000000000000"),
        (1.0, FLOAT16, "0xH3C00"),
        (1.0, BFLOAT16, "16256"),
    ],
)
def test_constants_are_exact(value: object, dtype: DType, text: str) -> None:
    assert literal(const(value, dtype)) == text
    assert literal(const(value, dtype, (8,))) == f"splat ({TYPES[dtype]} {text})"


def test_intrinsic_suffixes() -> None:
    assert suffix(const(1.0, FLOAT32, (16,))) == "v16f32"
    assert suffix(const(1, INT64)) == "i64"
    assert suffix(const(True, BOOL, (4,))) == "v4i1"
    assert suffix(const(1.0, BFLOAT16)) == "i16"


def test_values_are_named_once() -> None:
    w = LlvmWriter()
    assert w(const(3, INT32)) == "3"
    assert w(UOp(Op.LANES, (), 4)) == "<i64 0, i64 1, i64 2, i64 3>"
    u = p(0) + 1.0
    with pytest.raises(AssertionError, match="used before it is emitted"):
        w(u)
    w.names[u] = w.let("fadd float %x, 1.0")
    assert w(u) == "%v1"
    assert w.lines == ["  %v1 = fadd float %x, 1.0"]


def test_an_intrinsic_is_declared_once_without_alignment() -> None:
    w = LlvmWriter()
    for name in ("%a", "%b"):
        call = w.intrinsic("sqrt.f32", "float", [("float", name)])
        assert call == f"call float @llvm.sqrt.f32(float {name})"
    operands = [("ptr align 4", "%p"), ("<4 x i1>", "%m"), ("<4 x float>", "zeroinitializer")]
    w.intrinsic("masked.load.v4f32.p0", "<4 x float>", operands)
    assert list(w.declared.values()) == [
        "declare float @llvm.sqrt.f32(float)",
        "declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)",
    ]


def test_common_bases_are_computed_once_per_block() -> None:
    w = LlvmWriter()
    buffer, base = p(0, 100), p(1, dtype=INT64)
    w.names |= {buffer: "%buffer", base: "%base"}
    first, second = w.pointer(buffer, base, 0), w.pointer(buffer, base, 16)
    assert w.lines == [
        "  %v1 = getelementptr float, ptr %buffer, i64 %base",
        "  %v2 = getelementptr float, ptr %v1, i64 16",
    ]
    assert (first, second) == ("%v1", "%v2")
    w.block = "loop1"  # a value of another block need not be there
    assert w.pointer(buffer, base, 16) == "%v5"
    assert w.lines[2:] == [
        "  %v3 = getelementptr float, ptr %buffer, i64 %base",
        "  %v4 = call ptr @llvm.strip.invariant.group.p0(ptr %v3)",  # in a loop, unseen
        "  %v5 = getelementptr float, ptr %v4, i64 16",
    ]
    assert w.pointer(buffer, const(0, INT64), 0) == "%buffer"


def test_bools_are_addressed_by_bytes() -> None:
    w = LlvmWriter()
    buffer = p(0, 100, dtype=BOOL)
    w.names[buffer] = "%buffer"
    w.pointer(buffer, const(5, INT64), 0)
    assert w.lines == ["  %v1 = getelementptr i8, ptr %buffer, i64 5"]
