"""Narrow types: every code against ml_dtypes, every op against the oracle, bytes in programs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.lower.check_passes import HOST as TARGET
from tests.lower.graphs import jaxpr, p
from tfn import lax
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INTEGERS,
    NARROW,
    NARROW_FLOATS,
    REALS,
    DType,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    int4,
    lowest,
    wide_type,
    width_bits,
)
from tfn.errors import DTypeError
from tfn.lower.graph.narrow_types import FORMATS, has_narrow, lower_narrow
from tfn.lower.pipeline import lower
from tfn.trace import build, casts, oracle
from tfn.trace.op import BINARY, COMPARE, UNARY, Op
from tfn.trace.primitives import _KINDS
from tfn.trace.uop import UOp, walk

NAMES = sorted(NARROW, key=str)
WITH_ZERO = [d for d in NAMES if d != float8_e8m0fnu.dtype]
each = pytest.mark.parametrize("dtype", NAMES, ids=str)


def codes(dtype: DType) -> Any:
    """All values of a dtype, each code once."""
    return np.arange(1 << width_bits(dtype), dtype=np.uint8).view(dtype)


def same(got: Any, want: Any) -> None:
    """The same bits, but for NaN, which is one."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    if want.dtype in FLOATS:
        nan = np.isnan(want.astype(np.float64))
        np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), nan)
        got, want = got[~nan], want[~nan]
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def edges() -> Any:
    """Floats of all exponents: each upper half with the lower halves at which rounding changes."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    words = [upper | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    return np.concatenate(words).view(np.float32)


@each
def test_every_code_is_decoded(dtype: DType) -> None:
    # Bits above those of an integer count for nothing; ml_dtypes reads no such float4.
    count = 16 if dtype == float4_e2m1fn.dtype else 256
    x = np.arange(count, dtype=np.uint8).view(dtype)
    decode = tfn.jit(lambda x: x.astype(wide_type(dtype)))
    same(decode(tnp.asarray(x)), x.astype(wide_type(dtype)))


@pytest.mark.parametrize("dtype", sorted(NARROW_FLOATS, key=str), ids=str)
def test_floats_are_rounded_as_by_ml_dtypes(dtype: DType) -> None:
    x = edges()
    with np.errstate(invalid="ignore", over="ignore"):
        want = x.astype(dtype)
    got = np.asarray(tfn.jit(lambda x: x.astype(dtype))(x))
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))  # NaN too
    double = np.float64([1 + 1 / 16 + 1e-12, 448.1, 1e300, -0.0, 2**-10])
    with np.errstate(over="ignore"):
        want = double.astype(dtype)
    want[0] = np.float32(1 + 1 / 16 + 1e-6)  # ml_dtypes rounds to float32 first, and then a tie
    same(tnp.asarray(double).astype(dtype), want)


@pytest.mark.parametrize("dtype", sorted(NARROW - NARROW_FLOATS, key=str), ids=str)
def test_integers_wrap_around_and_floats_saturate(dtype: DType) -> None:
    whole = np.arange(-300, 300, dtype=np.int32)
    same(tnp.asarray(whole).astype(dtype), whole.astype(dtype))
    real = np.float32([-1e9, -9.7, -2.5, -0.9, 0.9, 1.7, 20, 1e9, np.inf, -np.inf, np.nan])
    info = tnp.iinfo(dtype)
    want = np.clip(np.trunc(np.nan_to_num(real, nan=0)), info.min, info.max).astype(dtype)
    same(tnp.asarray(real).astype(dtype), want)


@each
def test_casts_to_and_from_all_dtypes(dtype: DType) -> None:
    x, types = codes(dtype), [*REALS, *NAMES]
    with np.errstate(all="ignore"):
        wanted = [casts.cast(to, x) for to in types]
        back = [casts.cast(dtype, want) for want in wanted[: len(REALS)]]  # others have their turn
    got = tfn.jit(lambda x: [x.astype(to) for to in types])(x)
    returned = tfn.jit(lambda xs: [x.astype(dtype) for x in xs])(wanted[: len(REALS)])
    for value, want in zip([*got, *returned], [*wanted, *back], strict=True):
        same(value, want)


OPS = sorted((UNARY | BINARY | COMPARE) & _KINDS.keys() | COMPARE, key=lambda op: op.value)


@each
def test_ops_are_computed_in_a_wider_type_and_rounded_once(dtype: DType) -> None:
    pairs = np.array(list(itertools.product(codes(dtype)[::3], codes(dtype)[1::5])), dtype)
    x, y = pairs[:, 0], pairs[:, 1]
    params = [p(0, len(x), dtype=dtype), p(1, len(x), dtype=dtype)]
    roots = []
    for op in OPS:
        if op in COMPARE or dtype in _KINDS[op][0]:
            roots.append(UOp(op, tuple(params[: 1 if op in UNARY else 2])))
    lowered = lower_narrow(jaxpr(roots).function)
    assert not has_narrow(lowered)
    assert not any(u.dtype in NARROW for u in lowered.src)
    bits = {build_param: v.view(np.uint8) for build_param, v in zip(_params(lowered), (x, y))}
    wants = oracle.evaluate(roots, dict(zip(params, (x, y), strict=True)))
    for root, got, want in zip(roots, oracle.evaluate(lowered.src, bits), wants, strict=True):
        same(got if root.op in COMPARE else got.view(dtype), want)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_large_products_are_of_bfloat16_where_a_unit_multiplies_that(dtype: DType) -> None:
    """All codes, infinities and NaN too; of few rows or in float64 they stay as they are."""
    rng = np.random.default_rng(0)
    x, y = (rng.choice(codes(dtype), shape) for shape in ((64, 8), (8, 65)))
    params = [p(i, *v.shape, dtype=dtype) for i, v in enumerate((x, y))]
    root = build.dot(*params, ((1,), (0,)), ((), ()), FLOAT32)
    plain, lowered = (lower_narrow(jaxpr([root]).function, bfloat16_unit=b) for b in (False, True))
    found = {u.dtype for u in walk(lowered.src) if u.op is Op.GBARRIER}
    assert found == {BFLOAT16} and not has_narrow(lowered)
    with np.errstate(all="ignore"):
        got, want = (
            oracle.evaluate(f.src, dict(zip(_params(f), (x.view(np.uint8), y.view(np.uint8)))))[0]
            for f in (lowered, plain)
        )
    np.testing.assert_array_equal(got, want)
    few = build.dot(p(0, 63, 8, dtype=dtype), params[1], ((1,), (0,)), ((), ()), FLOAT32)
    wide = build.dot(*params, ((1,), (0,)), ((), ()), FLOAT64)
    for other in (few, wide):
        function = jaxpr([other]).function
        assert lower_narrow(function, bfloat16_unit=True) is lower_narrow(function)


def _params(function: UOp) -> list[UOp]:
    return [UOp(Op.PARAM, (), param) for param in function.arg.params]


@pytest.mark.parametrize("dtype", in_turn(3, WITH_ZERO), ids=str)
def test_functions_of_arrays(dtype: DType) -> None:
    """Movement, reductions, products, sorts, scatters and loops: as on wide values, rounded."""
    rng = np.random.default_rng(3)
    x = rng.choice(codes(dtype)[np.isfinite(codes(dtype).astype(np.float32))], (4, 6))
    wide = x.astype(wide_type(dtype))
    a = tnp.asarray(x)

    def check(function: Any, want: Any) -> None:
        for run in (function, tfn.jit(function)):
            same(run(a), casts.cast(dtype, np.asarray(want)))

    check(lambda x: x.T[::-1], wide.T[::-1])
    check(lambda x: tnp.sort(x, 1), np.sort(wide, 1))
    check(lambda x: tnp.concatenate([x, x], 1), np.concatenate([wide, wide], 1))
    check(lambda x: lax.reduce_max(x, (1,)), wide.max(1))
    check(lambda x: lax.cumsum(x[:1, :1], 0), wide[:1, :1])
    check(lambda x: x.at[1].set(x[0]), np.stack([wide[0], wide[0], wide[2], wide[3]]))
    check(lambda x: lax.scan(lambda c, r: (r, c), x[0], x)[1], np.stack([wide[0], *wide[:-1]]))
    check(lambda x: tfn.vmap(lambda r: r[::2])(x), wide[:, ::2])
    check(lambda x: lax.cond(x[0, 0] == x[0, 0], lambda x: x, lambda x: -x, x), wide)
    check(
        lambda x: tnp.where(x == x[0, 0], x, x[1, 1]),
        np.where(wide == wide[0, 0], wide, wide[1, 1]),
    )
    whole = np.float32 if dtype in FLOATS else np.int32
    product = tfn.jit(
        lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=whole)
    )(a)
    exact = wide.astype(np.float64) @ wide.astype(np.float64).T
    np.testing.assert_allclose(product, exact, rtol=1e-5, atol=1e-3 * abs(exact).max())
    assert int(tnp.argmax(a[0])) == int(np.argmax(wide[0]))


def test_transforms() -> None:
    f8 = float8_e4m3fn.dtype

    def quantized(x: Any) -> Any:
        return (x.astype(f8).astype("float32") ** 2).sum()

    x = tnp.array([1.3, -0.4, 20.0])
    np.testing.assert_array_equal(tfn.grad(quantized)(x), 2 * np.float32([1.25, -0.40625, 20]))
    np.testing.assert_array_equal(
        tfn.vmap(tfn.grad(quantized))(x[:, None])[:, 0], tfn.grad(quantized)(x)
    )
    y, dy = tfn.jvp(lambda x: x * x, (x.astype(f8),), (tnp.ones(3, f8),))
    assert y.dtype == dy.dtype == f8
    assert dy.tolist() == [2.5, -0.8125, 40.0]
    assert tfn.jacrev(lambda x: x * 2)(x.astype(f8)).dtype == f8


def test_a_callback_sees_the_types() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(x.dtype)
        return np.asarray(x).astype(np.float32).astype(x.dtype)

    x = tnp.array([1, -2, 7], int4.dtype)
    like = tfn.ShapeDtypeStruct((3,), int4.dtype)
    assert tfn.jit(lambda x: tfn.pure_callback(f, like, x))(x).tolist() == [1, -2, 7]
    assert seen[-1] == int4.dtype


def test_programs_hold_bytes() -> None:
    x = p(0, 1024, dtype=float8_e5m2.dtype)
    program = lower(jaxpr([x + x]), TARGET)
    assert program.inputs == program.outputs == (((1024,), float8_e5m2.dtype),)
    text = "".join(launch.kernel.text for launch in program.launches)
    assert "i8" in text
    same_function = jaxpr([p(0, 3)]).function
    assert lower_narrow(same_function) is same_function


def test_bits_are_those_of_the_type() -> None:
    x = tnp.array([1, -3], int4.dtype)
    assert lax.bitcast_convert_type(x, "uint4").tolist() == [1, 13]
    assert lax.bitcast_convert_type(np.uint8([0x2D]), int4.dtype).tolist() == [[-3, 2]]
    assert lax.population_count(x).tolist() == [1, 3] and lax.clz(x).tolist() == [3, 0]
    assert lax.bitcast_convert_type(tnp.ones(1, "float8_e4m3fn"), "uint8").tolist() == [0x38]
    with pytest.raises(DTypeError, match="one width"):
        UOp(Op.BITCAST, (p(0, 2, dtype=float4_e2m1fn.dtype),), np.dtype("uint8"))


def test_promotion_asks_for_a_cast() -> None:
    x = tnp.ones(2, "float8_e5m2")
    assert (x + 1).dtype == (x * 2.5).dtype == (x + True).dtype == x.dtype
    i = tnp.ones(2, "int4")
    assert (i + 1).dtype == (i + True).dtype == i.dtype
    for other in (tnp.ones(2), tnp.ones(2, "float8_e4m3fn"), 1j):
        with pytest.raises(DTypeError, match="no type in common"):
            x + other
    for other in (tnp.ones(2, "int8"), tnp.ones(2, "int2"), 1.5):
        with pytest.raises(DTypeError, match="no type in common"):
            i * other


def test_a_table_of_formats_says_what_ml_dtypes_says() -> None:
    for dtype, row in FORMATS.items():
        limits = tnp.finfo(dtype)
        assert row.fraction_bits == limits.nmant
        top = np.array(row.largest, np.uint8).view(dtype)
        assert float(top) == float(limits.max) and (lowest(dtype) == -np.inf) == row.has_infinity
        assert 2.0 ** (1 - row.bias) == float(limits.smallest_normal)
    assert NARROW & INTEGERS == NARROW - NARROW_FLOATS and BOOL not in NARROW
    assert build.accumulator(float8_e5m2.dtype) == np.float32


def test_places_may_be_narrow() -> None:
    x, places = tnp.arange(5.0), tnp.array([-1, 3], int4.dtype)
    assert x[places].tolist() == [4, 3]
    assert x.at[places].add(1.0).tolist() == [0, 1, 2, 4, 5]
    f8 = x.astype(float8_e4m3fn.dtype)
    assert f8[places].tolist() == [4, 3] and f8.at[places].set(7).tolist() == [0, 1, 2, 7, 7]


def test_kernels_refuse_them() -> None:
    like = tfn.ShapeDtypeStruct((3,), int4.dtype)
    with pytest.raises(DTypeError, match="bytes"):
        tfn.kernel(lambda x: None, takes=like, gives=like)
