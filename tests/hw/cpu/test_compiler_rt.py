"""Conversions of float16 and bfloat16 against NumPy: all halves, and numbers hard to round."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host

LOOP = """
define void @convert(ptr %from, ptr %to, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %a = getelementptr {source}, ptr %from, i64 %i
  %b = getelementptr {result}, ptr %to, i64 %i
  %x = load {source}, ptr %a
  %y = call {result} @{name}({source} %x)
  store {result} %y, ptr %b
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
declare {result} @{name}({source})
"""
DTYPES = {
    "half": np.float16,
    "bfloat": ml_dtypes.bfloat16,
    "float": np.float32,
    "double": np.float64,
}
CASES = [
    ("__truncsfhf2", "float", "half"),
    ("__truncdfhf2", "double", "half"),
    ("__extendhfsf2", "half", "float"),
    ("__truncsfbf2", "float", "bfloat"),
    ("__truncdfbf2", "double", "bfloat"),
]


def convert(name: str, source: str, result: str, x: np.ndarray) -> np.ndarray:
    compiler = LlvmCompiler(verify=True)
    text = LOOP.format(name=name, source=source, result=result)
    # Without features nothing is native, so that the loop must call.
    plain = replace(host(), cpu="", features="")
    code = Loader(compiler).load(compiler.compile(text, plain), ("convert",))
    out = np.empty(x.shape, DTYPES[result])
    f = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    f(code.addresses["convert"])(x.ctypes.data, out.ctypes.data, x.size)
    return out


def numbers(result: str) -> np.ndarray:
    """All finite ones, in order."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    infinity = np.array(np.inf, DTYPES[result]).view(np.uint16)
    finite = bits[(bits & 0x7FFF) < infinity]
    return np.unique(finite.view(DTYPES[result]).astype(np.float64))


def hard(result: str) -> np.ndarray:
    """Every number of the result, the middle between neighbours, and what lies just beside."""
    finite = numbers(result)
    middle = (finite[1:] + finite[:-1]) / 2
    points = np.concatenate([finite, middle])
    beside = [np.nextafter(points, side) for side in (np.inf, -np.inf)]
    top = finite[-1] + (finite[-1] - finite[-2]) / 2  # from here on, infinity
    edge = np.array([top, np.nextafter(top, 0), -top, 1e300, -1e-300, 5e-324, np.inf, -np.inf, 0.0])
    return np.concatenate([points, *beside, edge, [-0.0]])


def exact(x: np.ndarray, result: str) -> np.ndarray:
    """Rounded once: ml_dtypes goes from float64 to bfloat16 over float32, and rounds twice."""
    if result == "half":
        with np.errstate(over="ignore"):
            return x.astype(np.float16)
    values = numbers(result)
    step = values[-1] - values[-2]
    grid = np.concatenate([[-values[-1] - step], values, [values[-1] + step]])
    i = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, len(grid) - 2)
    low, high = grid[i], grid[i + 1]
    with np.errstate(over="ignore", invalid="ignore"):
        middle = low + (high - low) / 2
        even = (low.astype(np.float32).view(np.uint32) >> 16) & 1 == 0
        near = np.where((x < middle) | ((x == middle) & even), low, high)
        near = np.where(np.isinf(x), x, np.copysign(near, x))
        return near.astype(np.float32).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("name, source, result", CASES)
def test_conversions_round_as_ieee_says(name, source, result):
    if source == "half":
        x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
        x = x[~np.isnan(x)]
        assert (convert(name, source, result, x).view(np.uint32) == x.astype("f4").view("u4")).all()
        return
    with np.errstate(over="ignore"):
        x = hard(result).astype(DTYPES[source])
    got, want = convert(name, source, result, x), exact(x.astype(np.float64), result)
    wrong = got.view(np.uint16) != want.view(np.uint16)
    assert not wrong.any(), (x[wrong][:5], got[wrong][:5], want[wrong][:5])


@pytest.mark.parametrize("name, source, result", CASES)
def test_nan_stays_nan_and_keeps_its_sign(name, source, result):
    x = np.array([np.nan, -np.nan], DTYPES[source])
    y = convert(name, source, result, x)
    assert np.isnan(y.astype(np.float64)).all()
    assert (np.signbit(y) == np.signbit(x)).all()
