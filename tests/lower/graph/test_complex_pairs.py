"""Complex lowering: after the pass, every graph means the same, and none is complex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.covering import cover, in_turn
from tests.lower.check_passes import HOST as TARGET
from tests.lower.check_passes import check_passes
from tests.lower.graphs import jaxpr, p, run_compiled
from tfn.dtypes import BOOL, COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, INT32
from tfn.lower.graph.complex_pairs import (
    PAIRS,
    deinterleave,
    has_complex,
    interleave,
    lower_complex,
)
from tfn.lower.pipeline import aliases, lower
from tfn.lower.program import Launch
from tfn.trace import build, oracle
from tfn.trace.argument import Conv, Fft, FftType, Host, Param, Reduce, VmapMethod
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.spec import Stage
from tfn.trace.spec import check as check_stage
from tfn.trace.uop import UOp, const

RNG = np.random.default_rng(2)


def c(index: int, *shape: int, dtype: Any = COMPLEX64) -> UOp:
    """A complex parameter."""
    return p(index, *shape, dtype=dtype)


def draw(u: UOp) -> Any:
    """Values for a parameter."""
    if u.dtype == INT32:
        return RNG.integers(0, 3, u.shape).astype(np.int32)
    if u.dtype == BOOL:
        return RNG.random(u.shape) < 0.5
    x = RNG.normal(size=u.shape)
    return (
        (x + 1j * RNG.normal(size=u.shape)).astype(u.dtype)
        if u.dtype.kind == "c"
        else (x.astype(u.dtype))
    )


def check(*outputs: UOp, tolerance: float = 1e-4, loops: bool = False) -> None:
    """Run all passes with the spec and the oracle after each, and the code on this machine.

    With `loops`, which are no kernels, only the first pass and the code.
    """
    closed = jaxpr(outputs)
    values = [draw(param(q)) for q in closed.params]
    if loops:
        real = lower_complex(closed.function)
        assert not has_complex(real)
        check_stage(real.src, Stage.JAXPR)
    else:
        check_passes(closed, values, tolerance=tolerance)
    want = oracle.evaluate(outputs, {param(q): x for q, x in zip(closed.params, values)})
    for got, expected in zip(run_compiled(outputs, values), want, strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


UNARY = [
    op
    for op in PAIRS
    if op in ELEMENTWISE
    and op not in (Op.CAST, Op.WHERE, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.POW, Op.EQ, Op.NE)
]


@pytest.mark.parametrize("op, dtype", in_turn(2, cover(UNARY, [COMPLEX64, COMPLEX128])), ids=str)
def test_unary_functions(op: Op, dtype: Any) -> None:
    check(UOp(op, (c(0, 7, dtype=dtype),)))


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 7), (0, 2)], ids=str)
def test_arithmetic(shape: tuple[int, ...]) -> None:
    x, y, z = c(0, *shape), c(1, *shape), c(2, *shape)
    check(x * y - z, x / y + 2j, -x, build.conj(x), build.eq(x, x), build.ne(x, y))
    check(build.where(build.eq(x, y), x, z), UOp(Op.POW, (x, y)))


def test_casts() -> None:
    x, r = c(0, 5), p(1, 5)
    check(
        build.cast(x, FLOAT32),
        build.cast(x, COMPLEX128),
        build.cast(x, BOOL),
        build.cast(x, INT32),
        build.cast(r, COMPLEX64),
        build.real(x),
        build.imag(x),
        build.complex_(r, build.real(x)),
    )


def test_leaves() -> None:
    x = c(0, 4)
    check(x * const(1 - 2j, COMPLEX64, (4,)), x + build.iota((4,), 0, COMPLEX64))
    assert const(complex(0.0, -0.0), COMPLEX64) is not const(0j, COMPLEX64)
    assert const(1 - 2j, COMPLEX128).arg.value == 1 - 2j


def test_movement_and_choice() -> None:
    x, y, i = c(0, 3, 4), c(1, 3, 4), p(2, 2, 1, dtype=INT32)
    check(build.flip(build.permute(x, (1, 0)), (0,)), build.reshape(x, (2, 6)))
    check(build.concat([x, y * 2j], 1), build.pad(x, (1, 0), (0, 2), value=const(1j, COMPLEX64)))
    check(build.shrink(x, (0, 1), (3, 4), (2, 1)), build.broadcast_to(x, (2, 3, 4)))
    check(build.gather(x, i, (1, 4)))
    updates = c(3, 2, 1, 4)
    check(build.scatter(x, i, updates, Op.ADD), build.scatter(x, i, updates, Op.WHERE))
    check(build.scatter(x, i, updates, Op.MUL), loops=True)
    lanes, at = c(0, 2, 3, 4), p(1, 2, 5, 2, dtype=INT32)
    check(build.scatter(lanes, at, c(2, 2, 5, 1, 2), Op.MUL, 1), loops=True)
    check(UOp(Op.DETACH, (x * 1j,)) + UOp(Op.GBARRIER, (x * y,)))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize("op", [Op.ADD, Op.MUL], ids=lambda op: op.value)
def test_reductions(op: Op, axes: tuple[int, ...]) -> None:
    for shape in ((3, 2, 5), (1, 1, 1), (2, 0, 3)):
        check(UOp(Op.REDUCE, (c(0, *shape),), Reduce(op, axes)))


def test_contractions() -> None:
    a, b = c(0, 3, 5), c(1, 5, 4)
    check(build.dot(a, b, ((1,), (0,))), build.dot(a, b, ((), ())))
    check(build.dot(c(0, 2, 3, 4), c(1, 4, 3, 2), ((2,), (0,)), ((1,), (1,))))
    check(build.dot(c(0, 2, 0), c(1, 0, 3), ((1,), (0,))))
    check(build.dot(build.conj(a) * 2j, b * b, ((1,), (0,))))


@pytest.mark.parametrize("groups, batches", [(1, 1), (2, 1), (1, 2)])
def test_convolutions(groups: int, batches: int) -> None:
    x, w = c(0, 2 * batches, 5, 4), c(1, 3, 4 // groups, 6)
    arg = Conv((2,), ((1, 0),), (1,), (1,), groups, batches, COMPLEX64)
    check(build.conv(x, w, arg))


def test_sorting_is_lexicographic() -> None:
    x = RNG.integers(0, 3, (4, 9)) + 1j * RNG.integers(0, 3, (4, 9))
    x[1, 2], x[2, 3], x[3, 4] = np.nan, complex(1, np.nan), complex(np.nan, 1)
    x = x.astype(np.complex64)
    order = np.tile(np.arange(9, dtype=np.int32), (4, 1))
    key, place = c(0, 4, 9), p(1, 4, 9, dtype=INT32)
    got, moved = run_compiled(build.sort([key, place]), [x, order])
    np.testing.assert_array_equal(got, np.sort(x, axis=-1))
    np.testing.assert_array_equal(moved, np.argsort(x, axis=-1, stable=True))
    check(*build.sort([place, key]), *build.sort([place, key, key * 1j], 2))


def body(f: Callable[..., Sequence[UOp]], *likes: UOp) -> UOp:
    """The FUNCTION that a Python function of nodes builds."""
    params = tuple(Param(i, u.shape, u.dtype) for i, u in enumerate(likes))
    return function(f(*map(param, params)), params)


def test_loops_carry_two_parts() -> None:
    w, z, xs, n = c(0, 3), c(1, 3), c(2, 4, 3), p(3, dtype=INT32)

    def step(w: UOp, n: UOp, z: UOp, x: UOp) -> list[UOp]:
        return [n + 1, z * w + x, z * 1j, n]

    scan = build.scan(body(step, w, n, z, z), [w], [n, z], [xs], 4)
    check(*scan, loops=True)
    check(*build.scan(body(step, w, n, z, z), [w], [n, z], [xs], 4, reverse=True), loops=True)
    inside = lower_complex(jaxpr(scan[1:2]).function).src[0]
    assert not has_complex(lower_complex(jaxpr(scan).function)) and inside.shape == (3, 2)
    one = jaxpr(build.scan(body(lambda w, z: [z * z + w], w, z), [w], [z], [], 50))
    assert all(isinstance(step, Launch) for step in lower(one, TARGET).steps)  # in registers


def test_whiles_and_branches() -> None:
    w, z, n = c(0, 3), c(1, 3), p(2, dtype=INT32)
    cond = body(lambda w, n, z: [n < 5], w, n, z)
    step = body(lambda w, n, z: [n + 1, z * w], w, n, z)
    check(*build.repeat_while(cond, step, [w], [w], [n, z]), loops=True)
    f = body(lambda w, z: [w * z, build.real(w)], w, z)
    g = body(lambda w, z: [z, build.imag(z)], w, z)
    check(*build.choose(n, [f, g], [w, z]), loops=True)
    check(*build.call("f", f, [w, z]), *build.call("f", f, [z, w]), loops=True)


def scaled(results: Any, operands: Any) -> None:
    """A function of the host."""
    assert operands[0].dtype == np.complex64
    results[0][...] = operands[0] * 2j
    results[1][...] = operands[0].real


def test_host_functions_see_complex_arrays() -> None:
    x = c(0, 2, 3)
    host = Host(scaled, ((x.shape, COMPLEX64), (x.shape, FLOAT32)), VmapMethod.REFUSE)
    first, second = build.several(UOp(Op.HOST, (x * 1j,), host))
    values = [draw(x)]
    got = run_compiled([first * 1j, second], values)
    np.testing.assert_allclose(got[0], values[0] * -2j, rtol=1e-6)
    np.testing.assert_allclose(got[1], -values[0].imag, rtol=1e-6)


@pytest.mark.parametrize("kind", FftType, ids=lambda k: k.value)
@pytest.mark.parametrize("lengths", [(1,), (5,), (4, 6)], ids=str)
def test_fourier_transforms(kind: FftType, lengths: tuple[int, ...]) -> None:
    halved = (*lengths[:-1], *(n // 2 + 1 for n in lengths[-1:]))
    shape = halved if kind is FftType.IRFFT else lengths
    real = kind is FftType.RFFT
    for dtype in (FLOAT32, FLOAT64) if real else (COMPLEX64, COMPLEX128):
        x = p(0, 2, *shape, dtype=dtype)
        outputs = [UOp(Op.FFT, (x * 2.0,), Fft(kind, lengths)) * 2.0]
        values = [draw(x)]
        (want,) = oracle.evaluate(outputs, {x: values[0]})
        (got,) = run_compiled(outputs, values)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_real_function_is_returned_unchanged() -> None:
    closed = jaxpr([p(0, 3) * 2.0]).function
    assert lower_complex(closed) is closed


def test_a_parameter_that_is_a_result_is_not_copied() -> None:
    x = c(0, 3)
    again = build.complex_(build.real(x), build.imag(x))
    lowered = lower_complex(jaxpr([x, again, build.conj(x)]).function)
    assert lowered.src[0].op is Op.PARAM and lowered.src[1] is lowered.src[0]
    assert [i for i, _ in aliases(Jaxpr(lowered))] == [0, 1]
    array = p(0, 3, 2)
    assert interleave(deinterleave(array)) is array
    assert interleave(deinterleave(array)._replace(im=deinterleave(array).re)) is not array


def test_a_program_keeps_complex_inputs_and_outputs() -> None:
    program = lower(jaxpr([c(0, 3) * 2.0]), TARGET)
    assert program.inputs == program.outputs == (((3,), COMPLEX64),)
    assert all(u.dtype.kind != "c" for k in program.kernels for u in k.body.src)
