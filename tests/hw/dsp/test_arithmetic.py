"""Division, square root and fma in integers, compiled for this machine, against its own."""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.ir import read_ir
from tfn.hw.cpu.loader import Code, Loader
from tfn.hw.cpu.target import host
from tfn.hw.dsp.commands import FOLDER

SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 3.0, 0.1),
    *(2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308),
]
CASES = 4000
INTEGERS = {
    f"__hexagon_{sign}{op}{width}3": (op, sign == "u", bits)
    for sign in ("", "u")
    for op in ("div", "mod")
    for width, bits in (("si", 32), ("di", 64))
}
"""Names of functions: quotient or remainder, whether unsigned, bits."""


@pytest.fixture(scope="module")
def code() -> Code:
    """Under names of their own: the C library has `sqrt` and `fma` too."""
    text = read_ir("arithmetic", folder=FOLDER)
    text = text.replace("@sqrt(", "@soft_sqrt(").replace("@fma(", "@soft_fma(")
    compiler = LlvmCompiler(verify=True)
    names = ("__hexagon_divdf3", "soft_sqrt", "__hexagon_sqrtf", "soft_fma", *INTEGERS)
    return Loader(compiler).load(compiler.compile(text, host()), names)


def function(code: Code, name: str, operands: int, kind: Any = ctypes.c_double) -> Callable:
    return ctypes.CFUNCTYPE(kind, *[kind] * operands)(code.addresses[name])


def draw(rng: random.Random) -> float:
    """Special numbers, any bits, subnormal numbers, numbers of few digits near 1."""
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(SPECIAL)
    if kind < 0.5:
        return float(struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0])
    if kind < 0.6:
        return math.ldexp(rng.random(), rng.randint(-1074, -1000))
    digits = 1 + rng.getrandbits(rng.choice([3, 20, 52])) / 2**52
    return rng.choice([-1, 1]) * math.ldexp(digits, rng.randint(-60, 60))


def same(got: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(got)
    return struct.pack("<d", got) == struct.pack("<d", expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_division_and_roots(code: Code) -> None:
    divide, root = function(code, "__hexagon_divdf3", 2), function(code, "soft_sqrt", 1)
    narrow = function(code, "__hexagon_sqrtf", 1, ctypes.c_float)
    rng = random.Random(0)
    for _ in range(CASES):
        x, y = draw(rng), draw(rng)
        assert same(divide(x, y), float(np.float64(x) / np.float64(y))), (x, y)
        assert same(root(x), float(np.sqrt(np.float64(x)))), x
        single = np.float32(x)
        assert same(narrow(float(single)), float(np.sqrt(single))), single


def test_fma_is_rounded_once(code: Code) -> None:
    fma = function(code, "soft_fma", 3)
    rng = random.Random(1)
    for _ in range(CASES):
        x, y, z = draw(rng), draw(rng), draw(rng)
        if rng.random() < 0.4 and math.isfinite(x * y):  # cancellation
            z = -x * y * (1 + rng.randint(-3, 3) * 2**-52)
        if not all(map(math.isfinite, (x, y, z))):
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            assert fma(x, y, z) == 0
            continue
        try:
            expected = float(exact)  # of a fraction: rounded once, halves to even
        except OverflowError:
            expected = math.inf if exact > 0 else -math.inf
        if expected == 0:
            expected = 0.0 if exact > 0 else -0.0
        assert same(fma(x, y, z), expected), (x, y, z)


def test_fma_of_infinities(code: Code) -> None:
    fma, inf = function(code, "soft_fma", 3), math.inf
    assert fma(inf, 2.0, 1.0) == inf
    assert fma(1e308, 10.0, -inf) == -inf
    assert math.isnan(fma(inf, 1.0, -inf))
    assert math.isnan(fma(inf, 0.0, 1.0))
    assert math.isnan(fma(1.0, math.nan, 1.0))
    assert math.copysign(1, fma(-1.0, 0.0, -0.0)) == -1
    assert math.copysign(1, fma(1.0, 1.0, -1.0)) == 1


@pytest.mark.parametrize("name", INTEGERS)
def test_division_of_integers(code: Code, name: str) -> None:
    op, unsigned, bits = INTEGERS[name]
    kind = getattr(ctypes, f"c_{'u' if unsigned else ''}int{bits}")
    divide, rng = function(code, name, 2, kind), random.Random(2)
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = [low, high, 1, 2, 3, high - 1, *([] if unsigned else [-1, -7])]
    for _ in range(CASES // 4):
        drawn = [rng.randint(low, high) >> rng.randrange(bits) for _ in range(2)]
        n, d = (rng.choice(edges) if rng.random() < 0.3 else x for x in drawn)
        d = d or 1
        if n == low and d == -1:
            continue  # it overflows
        quotient = abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1)
        assert divide(n, d) == (quotient if op == "div" else n - quotient * d), (n, d)
