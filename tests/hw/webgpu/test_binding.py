"""Operands of kernels of WGSL: one binding for each buffer, and narrow elements."""

from __future__ import annotations

from tests.hw.webgpu.test_wgsl import INT8, rows, texts
from tests.lower.graphs import p
from tfn.hw.webgpu.binding import bound
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp

__all__ = ["rows"]


def test_operands_of_one_buffer_are_one_binding() -> None:
    (text,) = texts(p(0, 1000) * 2.0 + p(1, 1000))
    shader = bound(text, (0, 1, 0))
    assert shader.count("var<storage") == 2
    assert "@binding(1) var<storage, read_write> m0: array<u32>;" in shader
    assert "@binding(2) var<storage, read> m1: array<u32>;" in shader
    assert "fn load2(j: i32) -> f32 { let at = (p.at[0][2] >> 2u) + u32(j);" in shader


def test_narrow_elements_are_written_by_their_bits_alone() -> None:
    (text,) = texts(build.cast(p(0, 100), INT8))
    shader = bound(text, (0, 1))
    assert "m0: array<atomic<u32>>" in shader and "m1: array<u32>" in shader
    assert "atomicAnd(&m0[at], ~(0xffu << shift)); atomicOr(&m0[at]" in shader
    assert "bitcast<i32>" in shader.split("fn load0")[1].split("}")[0]


def test_a_function_brings_those_that_it_calls() -> None:
    (text,) = texts(UOp(Op.MAX, (p(0, 100), p(1, 100))))
    shader = bound(text, (0, 1, 2))
    assert "fn nan_f32(" in shader and "fn max_f32(" in shader
    assert "fn min_f32" not in shader and "fn of_half" not in shader
