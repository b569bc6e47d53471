"""Elementary functions: errors in ulp, special values, huge arguments, and code size.

`FUNCTIONS` is the table of bounds: the largest error, measured against mpmath, and the number of
operations (without constants and bit casts) of a scalar kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tests.covering import together
from tfn.dtypes import FLOAT32, FLOAT64, DType
from tfn.lower.math import power, remainder
from tfn.lower.math.decompose import decompose
from tfn.trace import oracle
from tfn.trace.argument import Likelihood, Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, walk

Ranges = tuple[tuple[float, float], ...]
DTYPES = (FLOAT32, FLOAT64)


@dataclass(frozen=True)
class Bounds:
    """The bounds of an op.

    Attributes:
        exact: the function in mpmath.
        ranges: intervals of sampled arguments for both dtypes, beside those of each.
        ulp: bounds of the error for float32 and float64.
        nodes: bounds of the number of operations for float32 and float64.
        floor: the error is measured relative to this where the result is smaller.
    """

    exact: Callable[..., Any]
    ulp: tuple[float, float]
    nodes: tuple[int, int]
    ranges: Ranges
    ranges32: Ranges = ()
    ranges64: Ranges = ()
    floor: float = 0.0


def lgamma(x: Any) -> Any:
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(abs(mp.gamma(x)))


CIRCLE: dict[str, Ranges] = {
    "ranges": ((-1, 1), (-10, 10), (-1e5, 1e5), (-1e20, 1e20)),
    "ranges32": ((-3.4e38, 3.4e38),),
    "ranges64": ((-1e308, 1e308),),
}
# fmt: off
FUNCTIONS: dict[Op, Bounds] = {
    Op.EXP: Bounds(mp.exp, (1.0, 1.0), (20, 25), ((-1, 1),), ((-104, 89),), ((-746, 710),)),
    Op.EXP2: Bounds(lambda x: mp.mpf(2) ** x, (1.0, 1.0), (19, 24), ((-1, 1),), ((-150, 129),),
                     ((-1075, 1025),)),
    Op.EXPM1: Bounds(mp.expm1, (2.0, 2.0), (21, 26), ((-1, 1), (-1e-4, 1e-4)), ((-20, 89),),
                      ((-40, 710),)),
    Op.LOG: Bounds(mp.log, (1.0, 1.5), (30, 34), ((0, 100), (0.5, 2)), ((0, 1e-39), (0, 3e38)),
                    ((0, 1e-309), (0, 1e308))),
    Op.LOG2: Bounds(lambda x: mp.log(x, 2), (1.5, 1.5), (30, 34), ((0, 100), (0.5, 2)),
                     ((0, 1e-39), (0, 3e38)), ((0, 1e-309), (0, 1e308))),
    Op.LOG1P: Bounds(mp.log1p, (1.5, 1.5), (34, 38), ((-1, 2), (-1e-4, 1e-4), (0, 1e9))),
    Op.SIN: Bounds(mp.sin, (1.5, 2.0), (31, 46), **CIRCLE),
    Op.COS: Bounds(mp.cos, (1.5, 2.0), (31, 46), **CIRCLE),
    Op.TAN: Bounds(mp.tan, (1.0, 3.5), (34, 48), **CIRCLE),
    Op.ASIN: Bounds(mp.asin, (2.0, 2.0), (21, 28), ((-1, 1), (-1e-3, 1e-3))),
    Op.ACOS: Bounds(mp.acos, (1.5, 1.5), (22, 29), ((-1, 1), (0.99, 1))),
    Op.ATAN: Bounds(mp.atan, (1.5, 1.5), (20, 31), ((-1, 1), (-100, 100))),
    Op.ATAN2: Bounds(mp.atan2, (2.0, 2.0), (29, 40), ((-5, 5), (-1e-3, 10))),
    Op.SINH: Bounds(mp.sinh, (1.5, 1.5), (32, 40), ((-2, 2),), ((-89.5, 89.5),), ((-711, 711),)),
    Op.COSH: Bounds(mp.cosh, (1.5, 1.5), (22, 27), ((-2, 2),), ((-89.5, 89.5),), ((-711, 711),)),
    Op.TANH: Bounds(mp.tanh, (1.5, 2.0), (30, 39), ((-1, 1), (-20, 20))),
    Op.ASINH: Bounds(mp.asinh, (2.0, 2.0), (47, 51), ((-3, 3), (-1e10, 1e10), (-1e30, 1e30))),
    Op.ACOSH: Bounds(mp.acosh, (2.5, 2.0), (44, 48), ((1, 3), (1, 1e10), (1, 1e30))),
    Op.ATANH: Bounds(mp.atanh, (2.0, 2.0), (41, 45), ((-1, 1), (-1e-3, 1e-3))),
    Op.LOGISTIC: Bounds(lambda x: 1 / (1 + mp.exp(-x)), (2.0, 2.0), (25, 30), ((-2, 2),),
                         ((-104, 20),), ((-746, 40),)),
    Op.ERF: Bounds(mp.erf, (1.0, 1.5), (35, 56), ((-1, 1), (-6, 6))),
    Op.ERFC: Bounds(mp.erfc, (1.0, 3.5), (38, 65), ((-1, 1), (-6, 8)), ((8, 10.2),),
                     ((8, 27.3),)),
    Op.ERFINV: Bounds(mp.erfinv, (4.0, 4.0), (57, 105), ((-0.9, 0.9),),
                       ranges64=((-1, 1), (0.99, 1))),
    Op.CBRT: Bounds(lambda x: mp.sign(x) * mp.root(abs(x), 3), (1.0, 1.0), (38, 45),
                     ((-100, 100),), ((0, 1e-39), (0, 3e38)), ((0, 1e-309), (0, 1e308))),
    Op.LGAMMA: Bounds(lgamma, (5.0, 5.0), (136, 162),
                       ((0.5, 3), (0, 0.5), (3, 9), (9, 1e5), (1e9, 1e30), (-10, 0)), floor=1.0),
    Op.DIGAMMA: Bounds(mp.digamma, (6.0, 5.0), (86, 103),
                        ((0.5, 3), (0, 0.5), (3, 9), (9, 1e5), (1e9, 1e30), (-10, 0)), floor=1.0),
    Op.POW: Bounds(mp.power, (1.0, 1.5), (48, 113), ((0, 8),)),
    Op.RSQRT: Bounds(lambda x: 1 / mp.sqrt(x), (1.5, 1.5), (2, 2), ((0, 100),)),
}
# fmt: on
CASES = [(op, dtype) for op in FUNCTIONS for dtype in DTYPES]
IDS = [f"{op.value}-{dtype.name}" for op, dtype in CASES]


def parameters(op: Op, dtype: DType, shape: tuple[int, ...]) -> list[UOp]:
    count = 2 if op in (Op.POW, Op.ATAN2, Op.MOD) else 1
    return [UOp(Op.PARAM, (), Param(i, shape, dtype)) for i in range(count)]


def run(op: Op, *operands: np.ndarray) -> np.ndarray:
    """The op, decomposed, by the oracle's basic operations."""
    params = parameters(op, operands[0].dtype, operands[0].shape)
    root = decompose([UOp(op, tuple(params))])[0]
    return oracle.evaluate([root], dict(zip(params, operands, strict=True)))[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("exponent", power.HALVES)
def test_constant_halves_as_exponents(exponent: float, dtype: DType) -> None:
    info = np.finfo(dtype)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, info.max, info.tiny, info.tiny / 4]
    some = np.random.default_rng(0).uniform(0, 100, 200)
    x = np.array([*ends, *some, *some * 2.0**90, *some * 2.0**-90], dtype)
    (u,) = parameters(Op.ABS, dtype, x.shape)
    root = decompose([UOp(Op.POW, (u, const(exponent, dtype, x.shape)))])[0]
    got = oracle.evaluate([root], {u: x})[0]
    want = run(Op.POW, x, np.full(x.shape, exponent, dtype))
    rounded = float(info.smallest_subnormal)
    np.testing.assert_allclose(got, want, rtol=4 * float(info.eps), atol=rounded)


def ulp(value: np.ndarray, exact: list[Any], floor: float) -> np.ndarray:
    """The error in units in the last place of the exact result; a wrong inf or NaN is infinite."""
    dtype, info = value.dtype, np.finfo(value.dtype)
    with np.errstate(over="ignore"):
        near = np.array([float(e) for e in exact])
        rounded = near.astype(dtype)
    rest = np.array(
        [float(e - mp.mpf(n)) if np.isfinite(n) else 0.0 for e, n in zip(exact, near, strict=True)]
    )
    size = np.maximum(np.abs(near), max(floor, float(info.tiny)))
    unit = np.exp2(np.floor(np.log2(size)) - info.nmant)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs((value.astype(np.float64) - near) - rest) / unit
    ends = ~np.isfinite(rounded) | ~np.isfinite(value)
    same = (rounded == value) | (np.isnan(rounded) & np.isnan(value))
    return np.where(ends, np.where(same, 0.0, np.inf), error)


def samples(bounds: Bounds, dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    own = bounds.ranges32 if dtype == FLOAT32 else bounds.ranges64
    random = np.random.default_rng(seed)
    parts = []
    for low, high in bounds.ranges + own:
        part = low + (high - low) * random.uniform(0, 1, count)
        parts.append(np.clip(part, -float(np.finfo(dtype).max), float(np.finfo(dtype).max)))
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=IDS)
def test_errors_are_below_their_bounds(op: Op, dtype: DType) -> None:
    bounds = FUNCTIONS[op]
    slow = op in (Op.ERFINV, Op.LGAMMA, Op.DIGAMMA)
    x = samples(bounds, dtype, 60 if slow else 150)
    operands = [x]
    if op is Op.ATAN2:
        operands = [x, samples(bounds, dtype, 150, seed=1)[::-1]]
    if op is Op.POW:  # exponents that reach both ends of the range
        limit = 88 if dtype == FLOAT32 else 709
        y = np.random.default_rng(1).uniform(-limit, limit, len(x)) / np.log(x.astype(np.float64))
        operands = [x, y.astype(dtype)]
    with mp.workprec(160):
        exact = [bounds.exact(*map(mp.mpf, map(float, row))) for row in zip(*operands)]
        error = ulp(run(op, *operands), exact, bounds.floor)
    worst = int(np.argmax(error))
    bound = bounds.ulp[dtype == FLOAT64]
    assert error[worst] <= bound, f"{error[worst]:.2f} ulp at {[o[worst] for o in operands]}"


DENSE = [
    op
    for op in FUNCTIONS
    if op not in (Op.ERF, Op.ERFC, Op.ERFINV, Op.LGAMMA, Op.DIGAMMA, Op.POW, Op.ATAN2)
]


@pytest.mark.parametrize("op", DENSE, ids=lambda op: op.value)
def test_float32_on_many_points_against_float64(op: Op) -> None:
    bounds = FUNCTIONS[op]
    x = samples(bounds, FLOAT32, 4000, seed=2)
    with np.errstate(over="ignore"):
        near = oracle.apply(op, None, x.astype(np.float64))
        rounded = near.astype(np.float32)
    value = run(op, x)
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(near), 2.0**-126))) - 23)
    with np.errstate(invalid="ignore"):
        error = np.where(np.isfinite(rounded), np.abs(value - near) / unit, 0.0)
    assert np.array_equal(np.isfinite(value), np.isfinite(rounded))
    assert error.max() <= bounds.ulp[0], x[np.argmax(error)]


SPECIAL = (
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    10.0,
    -10.0,
    1e-45,
    -1e-45,
    1e-40,
    -1e-40,
    1e30,
    -1e30,
    100.0,
    -100.0,
    3e38,
    -3e38,
)


@together("op, dtype", CASES)
def test_special_values_are_those_of_the_oracle(op: Op, dtype: DType) -> None:
    x = np.array(SPECIAL, dtype)
    smallest = np.finfo(dtype).smallest_subnormal
    x = np.concatenate([x, np.array([smallest, -smallest, np.finfo(dtype).max], dtype)])
    operands = [x]
    if op in (Op.POW, Op.ATAN2):
        operands = [grid.ravel() for grid in np.meshgrid(x, x)]
    expected, value = oracle.apply(op, None, *operands), run(op, *operands)
    if op is Op.DIGAMMA:  # the oracle's float64 does not overflow where float32 does
        expected = np.where(np.abs(x) < 1 / np.finfo(dtype).max, -np.copysign(np.inf, x), expected)
    close = np.isclose(value, expected, rtol=3e-6, atol=0, equal_nan=True)
    if op in (Op.SIN, Op.COS, Op.TAN, Op.LGAMMA, Op.DIGAMMA):
        close |= np.isclose(value, expected, rtol=0, atol=3e-6)
    signs = np.isnan(expected) | (np.signbit(value) == np.signbit(expected))
    wrong = ~(close & signs)
    rows = [tuple(o[wrong]) for o in (*operands, value, expected)]
    assert not wrong.any(), list(zip(*rows, strict=True))[:5]


def hard_angles(dtype: DType) -> np.ndarray:
    """Multiples of pi / 2, each power of two, and the arguments closest to such multiples."""
    limit = 127 if dtype == FLOAT32 else 1023
    powers = np.arange(-30, limit + 1)
    fractions = np.random.default_rng(0).uniform(1, 1.99, len(powers))
    worst = 16367173 * 2.0**72 if dtype == FLOAT32 else 6381956970095103.0 * 2.0**797
    quarters = np.arange(1, 300) * np.pi / 2
    many = np.random.default_rng(1).integers(1, 1 << 27, 200).astype(np.float64) * (np.pi / 2)
    return np.concatenate([np.ldexp(fractions, powers), quarters, many, [worst]]).astype(dtype)


@pytest.mark.parametrize("op", (Op.SIN, Op.COS, Op.TAN), ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_angles_of_any_size_are_reduced_exactly(op: Op, dtype: DType) -> None:
    x = hard_angles(dtype)
    with mp.workprec(300):
        error = ulp(run(op, x), [FUNCTIONS[op].exact(mp.mpf(float(v))) for v in x], 0.0)
    assert error.max() <= FUNCTIONS[op].ulp[dtype == FLOAT64] + 0.2, x[np.argmax(error)]


@together("op, dtype", CASES)
def test_code_size_is_below_its_bound(op: Op, dtype: DType) -> None:
    root = decompose([UOp(op, tuple(parameters(op, dtype, ())))])[0]
    free = (Op.CONST, Op.PARAM, Op.BITCAST)
    common, stack = set[UOp](), [root]
    while stack:
        node = stack.pop()
        if node not in common:
            common.add(node)
            stack += [s for s in node.src if not (node.arg is Likelihood.RARE and s is node.src[1])]
    assert sum(node.op not in free for node in common) <= FUNCTIONS[op].nodes[dtype == FLOAT64]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=IDS)
def test_all_shapes_give_the_same_values(op: Op, dtype: DType) -> None:
    base = np.linspace(0.1, 0.9, 6).astype(dtype)
    flat = run(op, *[base] * len(parameters(op, dtype, ())))
    for shape in ((), (1,), (2, 3), (0, 4)):
        x = np.resize(base, shape).astype(dtype)
        value = run(op, *[x] * len(parameters(op, dtype, ())))
        assert value.shape == shape and value.dtype == dtype
        assert np.array_equal(value.ravel(), flat[: value.size], equal_nan=True)


def test_exact_results_are_exact() -> None:
    whole = np.arange(-149, 128).astype(np.float32)
    assert np.array_equal(run(Op.EXP2, whole), np.ldexp(np.float32(1), whole.astype(int)))
    powers = np.ldexp(np.float32(1), whole.astype(int))
    assert np.array_equal(run(Op.LOG2, powers), whole)
    cubes = np.arange(-50, 50).astype(np.float32)
    assert np.array_equal(run(Op.CBRT, cubes**3), cubes)
    x, y = (g.ravel().astype(np.float32) for g in np.meshgrid(np.arange(-9, 10), np.arange(6)))
    assert np.array_equal(run(Op.POW, x, y), x**y)


@pytest.mark.parametrize("op", [Op.EXP, Op.EXP2, Op.LOGISTIC], ids=lambda op: op.value)
def test_underflow_is_masked_not_multiplied(op: Op) -> None:
    """A product that underflows takes some processors hundreds of cycles."""
    (root,) = decompose([UOp(op, tuple(parameters(op, FLOAT32, (8,))))], frozenset())
    scaled = [u for u in walk([root]) if u.op is Op.LDEXP]
    users = [u for u in walk([root]) if set(scaled) & set(u.src)]
    assert scaled and all(u.op is Op.WHERE and scaled[0] in u.src[1:] for u in users)
    low = np.array([-152, -1e4, -3e38, -np.inf], np.float32)
    assert not run(op, low).any() and np.isnan(run(op, np.array([np.nan], np.float32))).all()


@together("op", FUNCTIONS, ids=lambda op: op.value)
def test_nan_with_any_payload_stays_nan(op: Op) -> None:
    payloads = np.array([0x7FC00001, 0x7FFFFFFF, 0xFFC12345, 0x7FD55555], np.uint32)
    x = payloads.view(np.float32)
    operands = [x] * len(parameters(op, FLOAT32, ()))
    assert np.isnan(run(op, *operands)).all()


def test_erf_inv_agrees_with_jax() -> None:
    x = np.array([0.895334, 0.95715976, -0.335417, 0.999, 1e-6, -0.75], np.float32)
    jax = [1.147381, 1.4320781, -0.3065976, 2.3267577, 8.862268e-07, -0.8134198]
    assert np.allclose(run(Op.ERFINV, x), np.array(jax, np.float32), rtol=4e-7, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_modulo_of_floats_is_exact(dtype: DType) -> None:
    random = np.random.default_rng(0)
    low, high = (-149, 127) if dtype == FLOAT32 else (-500, 500)
    signs = random.choice([-1, 1], (2, 1500))
    x, y = (np.exp2(random.uniform(low, high, (2, 1500))) * signs).astype(dtype)
    x = np.concatenate(
        [x, random.uniform(-100, 100, 500).astype(dtype), np.resize(SPECIAL, 625).astype(dtype)]
    )
    y = np.concatenate(
        [y, random.uniform(-3, 3, 500).astype(dtype), np.repeat(SPECIAL, 25).astype(dtype)]
    )
    with np.errstate(all="ignore"):
        expected = np.mod(x, y)
    value = run(Op.MOD, x, y)
    assert np.array_equal(value, expected, equal_nan=True)
    assert np.array_equal(np.signbit(value)[value == 0], np.signbit(expected)[value == 0])
    root = remainder.modulo(*parameters(Op.MOD, dtype, ()))
    assert sum(node.op is not Op.BITCAST for node in walk([root])) <= (60, 140)[dtype == FLOAT64]
