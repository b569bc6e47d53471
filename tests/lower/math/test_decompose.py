"""Decomposition: only basic ops remain, and values stay, for every op, shape and dtype."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.covering import together
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    INTEGERS,
    REALS,
    UINT32,
    UINT64,
    DType,
    uint8,
)
from tfn.lower.math.decompose import BASIC, EMULATED, decompose
from tfn.trace import oracle
from tfn.trace.argument import Param
from tfn.trace.build import add_up, cast, maximum, minimum
from tfn.trace.op import BINARY, COMPARE, ELEMENTWISE, NEAR_ONE, UNARY, Op
from tfn.trace.primitives import _KINDS
from tfn.trace.uop import UOp, const, walk

HALVES = (FLOAT16, BFLOAT16)
WIDE = {np.dtype(d) for d in ("float32", "float64")}


def param(index: int, dtype: DType, shape: tuple[int, ...] = ()) -> UOp:
    return UOp(Op.PARAM, (), Param(index, shape, np.dtype(dtype)))


def both(op: Op, *operands: np.ndarray, arg: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The value of an op decomposed, and as it is."""
    params = [param(i, x.dtype, x.shape) for i, x in enumerate(operands)]
    root = UOp(op, tuple(params), arg)
    leaves = dict(zip(params, operands, strict=True))
    new = decompose([root])
    check_basic(new)
    return oracle.evaluate(new, leaves)[0], oracle.evaluate([root], leaves)[0]


def check_basic(roots: list[UOp]) -> None:
    for node in walk(roots):
        assert node.op in BASIC or node.op not in ELEMENTWISE, node
        if node.op in ELEMENTWISE - {Op.CAST, Op.BITCAST, Op.WHERE}:
            assert node.src[0].dtype not in HALVES, node
        if node.op is Op.CAST and {node.dtype, node.src[0].dtype} & set(HALVES):
            assert FLOAT32 in (node.dtype, node.src[0].dtype), node


def dtypes_of(op: Op) -> list[DType]:
    return [d for d in REALS if op in COMPARE or d in _KINDS[op][0]]


KINDS = [
    (op, d)
    for op in sorted(UNARY | BINARY | COMPARE, key=lambda op: op.value)
    for d in dtypes_of(op)
]


def values(dtype: DType, count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype == BOOL:
        return random.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        edge = [info.min, info.max, 0, 1, 2, info.max - 1]
        free = random.integers(info.min, info.max, count - len(edge), dtype, endpoint=True)
        return np.concatenate([np.array(edge, dtype), free])
    return (random.standard_normal(count) * 2).astype(dtype)


@together("op, dtype", KINDS)
def test_values_stay(op: Op, dtype: DType) -> None:
    operands = [values(dtype, 200, 0)]
    if op not in UNARY:
        operands.append(values(dtype, 200, 1))
    value, expected = both(op, *operands)
    assert value.dtype == expected.dtype and value.shape == expected.shape
    if dtype in WIDE and op not in BASIC - {Op.MOD}:
        tolerance = 2e-6 if dtype == FLOAT32 else 4e-13 if op is Op.DIGAMMA else 4e-15
        assert np.allclose(value, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    elif dtype in HALVES and op not in COMPARE:
        # The oracle rounds some functions twice: by one step of the dtype they may differ.
        near = value.astype(np.float64), expected.astype(np.float64)
        step = float(ml_dtypes.finfo(dtype).eps)
        assert np.allclose(*near, rtol=step, atol=1e-6, equal_nan=True)
    else:
        assert np.array_equal(value, expected, equal_nan=dtype.kind not in "biu")


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)
@pytest.mark.parametrize("op", (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN, Op.LT, Op.EQ))
def test_arithmetic_of_16_bit_floats_is_rounded_once(op: Op, dtype: DType) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 16, (2, 3000), np.uint16)
    x, y = bits.view(dtype)
    value, expected = both(op, x, y)
    assert np.array_equal(value.astype(np.float32), expected.astype(np.float32), equal_nan=True)


def test_constants_of_16_bit_floats_are_widened_when_compiling() -> None:
    x = param(0, BFLOAT16)
    (new,) = decompose([x * 1.5])
    assert new == cast(UOp(Op.MUL, (cast(x, FLOAT32), const(1.5, FLOAT32))), BFLOAT16)


@together("target", REALS, ids=lambda d: d.name)
@together("source", REALS, ids=lambda d: d.name)
def test_casts_keep_their_values(source: DType, target: DType) -> None:
    x = values(source, 100, 3)
    if source in (FLOAT32, FLOAT64, *HALVES):
        x = np.concatenate([x, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e4], source)])
    value, expected = both(Op.CAST, x, arg=target)
    assert value.dtype == target
    if target in HALVES:
        near = value.astype(np.float64), expected.astype(np.float64)
        assert np.allclose(*near, rtol=float(ml_dtypes.finfo(target).eps), equal_nan=True)
    else:
        assert np.array_equal(value, expected, equal_nan=target in WIDE)


INTS = [d for d in REALS if d in INTEGERS]


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", (Op.SHL, Op.SHR), ids=lambda op: op.value)
def test_shifts_by_any_count(op: Op, dtype: DType) -> None:
    x = values(dtype, 300, 0)
    width = 8 * dtype.itemsize
    low = 0 if dtype.kind == "u" else -width - 2
    count = np.random.default_rng(1).integers(low, width + 3, 300).astype(dtype)
    value, expected = both(op, x, count)
    assert np.array_equal(value, expected)


def test_a_shift_by_a_constant_in_range_is_left_alone() -> None:
    x = param(0, UINT32)
    assert decompose([x << 31, x >> 0]) == [x << 31, x >> 0]
    assert decompose([x << 32]) != [x << 32]


def test_threefry_is_salmons() -> None:
    """The answers of the Random123 test vectors."""
    full = 0xFFFFFFFF
    rows = [
        ((0, 0, 0, 0), (0x6B200159, 0x99BA4EFE)),
        ((full, full, full, full), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for words, answer in rows:
        operands = [np.array(w, np.uint32) for w in words]
        for i in (0, 1):
            value, expected = both(Op.THREEFRY, *operands, arg=i)
            assert value == expected == answer[i]


def test_the_words_of_threefry_share_their_rounds() -> None:
    words = tuple(param(i, UINT32, (4,)) for i in range(4))
    one = decompose([UOp(Op.THREEFRY, words, 0)])
    two = decompose([UOp(Op.THREEFRY, words, i) for i in (0, 1)])
    assert len(list(walk(two))) <= len(list(walk(one))) + 8


@given(st.sampled_from((np.float32, np.float64)), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_sign_and_modulo_on_any_bits(kind: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    word = np.uint32 if kind is np.float32 else np.uint64
    x, y = random.integers(0, np.iinfo(word).max, (2, 20), word, endpoint=True).view(kind)
    value, expected = both(Op.SIGN, x)
    assert np.array_equal(value, expected, equal_nan=True)
    value, expected = both(Op.MOD, x, y)
    with np.errstate(all="ignore"):
        far = np.abs(x) / np.abs(y) > 1e300  # float64: not promised
    assert np.array_equal(value[~far], expected[~far], equal_nan=True)


def test_only_elementwise_ops_change() -> None:
    x = param(0, FLOAT32, (3, 4))
    total = add_up(UOp(Op.EXP, (x,)), (1,))
    (new,) = decompose([total])
    assert new.op is Op.REDUCE and new.arg == total.arg and new.shape == (3,)
    check_basic([new])
    plain = add_up(x * x, (1,))
    assert decompose([plain]) == [plain]


@together("low, high, kept", [(0, 255, 0), (3, 9, 0), (-1, 255, 1), (0, 256, 1)])
def test_clipped_floats_skip_few_bits_that_cut_nothing(low: int, high: int, kept: int) -> None:
    """NaN becomes 0."""
    x = UOp(Op.PARAM, (), Param(0, (6,), FLOAT32))
    clipped = minimum(maximum(x, const(low, FLOAT32, (6,))), const(high, FLOAT32, (6,)))
    u = cast(cast(cast(clipped, INT32), uint8.dtype), INT32)
    (done,) = decompose([u])
    assert sum(node.dtype == uint8.dtype for node in walk([done])) == kept
    operands = {x: np.asarray([np.nan, np.inf, -np.inf, 3.7, 255.5, 300], np.float32)}
    got, want = (oracle.evaluate([v], operands)[0] for v in (done, u))
    np.testing.assert_array_equal(got, want)


@together("op", sorted(UNARY, key=lambda op: op.value), ids=lambda op: op.value)
def test_twice_is_once(op: Op) -> None:
    for dtype in dtypes_of(op):
        roots = decompose([UOp(op, (param(0, dtype),))])
        assert decompose(roots) == roots


def test_detach_vanishes() -> None:
    x = param(0, FLOAT64)
    assert decompose([UOp(Op.DETACH, (x,))]) == [x]


NUMBERS = [
    0.0,
    -0.0,
    0.2,
    -0.2,
    0.5,
    -0.5,
    0.7,
    -0.7,
    1.5,
    2.5,
    -2.5,
    8388607.5,
    2.0**52 - 0.5,
    1e30,
    1e-40,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("op", [Op.FLOOR, Op.CEIL, Op.ROUND], ids=lambda op: op.value)
def test_rounding_by_arithmetic(op: Op, dtype: DType) -> None:
    """For processors without the instruction; signs of zeros included."""
    x = np.array(NUMBERS).astype(dtype)
    root = UOp(op, (param(0, dtype, x.shape),))
    new = decompose([root], frozenset(EMULATED))
    assert not {u.op for u in walk(new)} & set(EMULATED)
    got, expected = (oracle.evaluate(u, {root.src[0]: x})[0] for u in (new, [root]))
    number = ~np.isnan(expected)
    assert got[number].tobytes() == expected[number].tobytes() and np.isnan(got[~number]).all()


LONG = [
    *NUMBERS,
    *(s * (2.0**k + d) for s in (1, -1) for k in (31, 32, 33, 51, 52, 53, 62) for d in (-1, 0, 1)),
    *(s * 2.0**k * (1 - d) for s in (1, -1) for k in (63, 64) for d in (-(2.0**-52), 0, 2.0**-53)),
    -(2.0**63),
    4294967295.5,
    -4294967296.5,
    1.7e308,
]


@pytest.mark.parametrize("dtype", [INT64, UINT64], ids=str)
@pytest.mark.parametrize("source", [FLOAT32, FLOAT64, BFLOAT16], ids=str)
@pytest.mark.parametrize("lacks", [frozenset({Op.CAST}), frozenset(EMULATED)], ids=len)
def test_long_integers_by_arithmetic(lacks: frozenset[Op], source: DType, dtype: DType) -> None:
    """Truncated, saturated, NaN to 0, in any magnitude; in float64 each bit of the integer."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 1 << 63, 4000, dtype=np.int64) * 2 + random.integers(0, 2, 4000)
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array(LONG), bits.view(FLOAT64), bits.astype(FLOAT64)])
        x = np.concatenate([x, x / 2.0**40]).astype(source)
    root = UOp(Op.CAST, (param(0, source, x.shape),), dtype)
    with np.errstate(all="ignore"):
        new = decompose([root], lacks)
        got, expected = (oracle.evaluate(u, {root.src[0]: x})[0] for u in (new, [root]))
    assert not [u for u in walk(new) if u.op is Op.CAST and u.dtype == dtype]
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_powers_of_two_by_arithmetic_round_once(dtype: DType) -> None:
    """Down to the denormal numbers, where half of the last bit decides, and up to infinity."""
    most = 150 if dtype == FLOAT32 else 1080
    n, x = np.meshgrid(np.arange(-most, most), [1.0, 0.75, 1.5, 1 + 2**-20, 1.4142135, np.nan])
    values = x.astype(dtype), n.astype(f"i{dtype.itemsize}")
    sources = tuple(param(i, v.dtype, v.shape) for i, v in enumerate(values))
    root, leaves = UOp(Op.LDEXP, sources), dict(zip(sources, values, strict=True))
    near = UOp(Op.LDEXP, sources, NEAR_ONE)
    with np.errstate(all="ignore"):
        emulated = decompose([root, near], frozenset({Op.LDEXP}))
        got, short = oracle.evaluate(emulated, leaves)
        expected = oracle.evaluate([root], leaves)[0]
        exact = (values[0].astype(FLOAT64) * 2.0**n).astype(dtype)  # if there are bits enough
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(short, expected, equal_nan=True)
    assert dtype == FLOAT64 or np.array_equal(got, exact, equal_nan=True)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_any_number_is_scaled_by_any_power_of_two(dtype: DType) -> None:
    """From the least denormal number to the largest one and back, rounded once."""
    info, random = np.finfo(dtype), np.random.default_rng(0)
    exponents = random.integers(info.minexp - info.nmant, info.maxexp, 20_000)
    x = np.ldexp(1 + random.random(20_000), exponents).astype(dtype)
    x[:6] = info.smallest_subnormal, info.max, -info.tiny, -0.0, np.inf, np.nan
    reach = 3 * info.maxexp
    integers = np.iinfo(f"i{dtype.itemsize}")
    n = random.integers(-reach, reach, 20_000).astype(integers.dtype)
    n[6:12] = integers.min, integers.min + 1, integers.max, reach, -reach, 0
    sources = param(0, dtype, x.shape), param(1, n.dtype, n.shape)
    root, leaves = UOp(Op.LDEXP, sources), dict(zip(sources, (x, n), strict=True))
    with np.errstate(all="ignore"):
        got = oracle.evaluate(decompose([root], frozenset({Op.LDEXP})), leaves)[0]
        expected = np.ldexp(x, np.clip(n, -reach, reach))
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_fma_by_arithmetic_rounds_once(dtype: DType) -> None:
    """Also where the product cancels, or lies between two numbers; a zero has its sign."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(5000) * 2.0 ** random.integers(-30, 30, 5000) for _ in range(2))
    near = -x * y * (1 + random.integers(-3, 4, 5000) * 2.0 ** -random.integers(10, 60, 5000))
    z = np.where(random.random(5000) < 0.7, near, random.standard_normal(5000))
    special = [
        (1.0, 0.0, -0.0),
        (0.0, -1.0, -0.0),
        (1.0, 1.0, -1.0),
        (np.inf, 0.0, 1.0),
        (1e30, 1e30, -np.inf),
        (3.0, np.nan, 1.0),
        (1e-30, 1e-20, 0.0),
    ]
    columns = np.vstack([np.stack([x, y, z], 1), special]).astype(dtype).T
    sources = tuple(param(i, dtype, columns[0].shape) for i in range(3))
    root = UOp(Op.FMA, sources)
    leaves = dict(zip(sources, columns, strict=True))
    with np.errstate(all="ignore"):
        got = oracle.evaluate(decompose([root], frozenset({Op.FMA})), leaves)[0]
        expected = oracle.evaluate([root], leaves)[0]
    if dtype == FLOAT64:  # of which the oracle's own is not exact
        for i, (a, b, c) in enumerate(columns.T.tolist()):
            if np.isfinite([a, b, c]).all():
                expected[i] = float(Fraction(a) * Fraction(b) + Fraction(c)) or a * b + c
    number = ~np.isnan(expected)
    assert got[number].tobytes() == expected[number].tobytes() and np.isnan(got[~number]).all()


@pytest.mark.parametrize("large", [0, 1])
def test_fma_by_arithmetic_takes_factors_near_the_largest_number(large: int) -> None:
    """Their halves would overflow, although the product does not."""
    random = np.random.default_rng(large)
    scale = 2.0 ** random.integers(990, 1023, 2000)
    x, y = ((1 + random.random(2000)) * s for s in (scale, 1 / scale))
    z = -x * y * (1 + random.integers(-3, 4, 2000) * 2.0**-50)
    values = [(x, y, z), (y, x, z)][large]
    sources = tuple(param(i, v.dtype, v.shape) for i, v in enumerate(values))
    root, leaves = UOp(Op.FMA, sources), dict(zip(sources, values, strict=True))
    got = oracle.evaluate(decompose([root], frozenset({Op.FMA})), leaves)[0]
    exact = [float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x, y, z)]
    np.testing.assert_array_equal(got, exact)
