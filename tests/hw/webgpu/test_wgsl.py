"""WGSL: kernels as text, on machines without an adapter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.graphs import jaxpr, p
from tfn import dtypes, extend
from tfn import numpy as jnp
from tfn.dtypes import FLOAT32, FLOAT64, INT32, DType
from tfn.errors import DTypeError
from tfn.exporting import programs
from tfn.hw.webgpu import binding, page, wgsl
from tfn.hw.webgpu.device import language, wide_language
from tfn.hw.webgpu.driver import target_of
from tfn.lower import pipeline
from tfn.scipy import linalg
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

INT8, UINT8 = map(dtypes.canonical, ("int8", "uint8"))
LIMITS = {
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-storage-size": 16384,
}


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extend.LANGUAGES, "webgpu", language)
    monkeypatch.setitem(extend.LANGUAGES, "webgpu64", wide_language)


def texts(*outputs: UOp, wide: bool = True, fuses: bool = True) -> list[str]:
    target = target_of("a GPU", LIMITS, wide, fuses)
    program = pipeline.lower(jaxpr(outputs), target)
    return [k.text for k in program.kernels]


def test_a_kernel_is_a_thread_and_its_operands_are_functions() -> None:
    (text,) = texts(p(0, 1000) * 2.0 + p(1, 1000))
    threads, operands = binding.described(text)
    assert threads == 256
    assert [(x.dtype, x.writes) for x in operands if x] == [
        ("float32", True),
        *[("float32", False)] * 2,
    ]
    assert ": f32 = load1(v" in text and "store0(v" in text
    assert "@workgroup_size(256)" in text


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1.5, "f32", "0x1.8000000000000p+0f"),
        (-1.5, "f32", "(-0x1.8000000000000p+0f)"),
        (np.inf, "f32", "bits(0x7f800000u)"),
        (1e-40, "f32", "bits(0x116c2u)"),
        (0.5, "f64", "bitcast<f64>(4602678819172646912lu)"),
        (True, "bool", "true"),
    ],
)
def test_constants_are_exact(value: Any, kind: str, expected: str) -> None:
    dtype = {"f32": FLOAT32, "f64": FLOAT64, "bool": dtypes.BOOL}[kind]
    arg = const(value, dtype).arg
    assert wgsl.literal(arg.value, arg.bits, kind) == expected


def test_integers_of_constants_are_cut_to_indices() -> None:
    assert wgsl.literal(1 << 40, 1 << 40, "i32") == "i32(2147483647)"
    assert wgsl.literal(-1, (1 << 64) - 1, "i64") == "bitcast<i64>(18446744073709551615lu)"
    assert wgsl.literal(7, 7, "u64") == "7lu"


def test_constants_meet_in_their_own_type() -> None:
    writer = wgsl.Writer([], wide=False)
    kinds = {FLOAT32: "f32", dtypes.UINT32: "u32", dtypes.INT64: "i32", dtypes.BOOL: "bool"}
    for dtype, kind in kinds.items():
        assert writer.common(const(1, dtype), const(1, dtype)) == kind


@pytest.mark.parametrize("dtype", [INT8, UINT8])
def test_narrow_integers_wrap_around(dtype: DType) -> None:
    (text,) = texts(p(0, 100, dtype=dtype) + p(1, 100, dtype=dtype))
    assert ("<< 24u) >> 24u" if dtype == INT8 else "& 0xffu") in text


def test_algebra_of_the_driver_does_not_see_through_a_rounding() -> None:
    x = p(0, 100)
    (text,) = texts((x + 12582912.0) - 12582912.0)
    assert "hold_f32(v" in text
    (text,) = texts(UOp(Op.NE, (x, x)))
    assert "nan_f32(v" in text and "!=" not in text


def test_indices_have_32_bits_and_numbers_have_their_own() -> None:
    (text,) = texts(build.gather(p(0, 100, 8), p(1, 10, 1, dtype=INT32), (1, 8)))
    assert "i64" not in text and "load2(" in text
    wide = p(0, 100, dtype=dtypes.INT64)
    (text,) = texts(wide * wide)
    assert "i64 = v" in text and "load1(i1)" in text


def test_numbers_of_64_bits_are_refused_where_there_are_none() -> None:
    with pytest.raises(DTypeError, match="no numbers of 64 bits: float64 is what"):
        texts(p(0, 10, dtype=FLOAT64) * 2.0, wide=False)
    (text,) = texts(UOp(Op.SIN, (UOp(Op.EXP, (p(0, 10),)),)), wide=False)
    assert ": f64" not in text and ": i64" not in text and ": u64" not in text


@pytest.mark.parametrize(
    "f", [jnp.linalg.qr, jnp.linalg.det, jnp.linalg.eigh, linalg.lu, jnp.fft.rfft2, jnp.fft.irfft2]
)
def test_functions_of_matrices_need_no_64_bits(f: Any) -> None:
    request = programs.closed(f, (np.zeros((4, 4), np.float32),), {}, ())
    kernels = programs.lowered(request.jaxpr, *page.browser()).kernels
    assert kernels and not any(f": {kind}64" in k.text for k in kernels for kind in "iuf")


def test_each_basic_op_has_a_row() -> None:
    from tfn.lower.math.decompose import BASIC

    legal = BASIC - {Op.FLOORDIV, Op.MOD, Op.LDEXP}
    assert legal <= set(wgsl.ROWS)
