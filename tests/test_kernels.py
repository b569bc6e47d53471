"""Kernels written by hand: what they compute, under every transform, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import covering
from tests.lower.graphs import p
from tests.lower.thread_team import run_on_threads
from tfn.config import config
from tfn.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DTypeError,
    GradientError,
    OutOfBoundsError,
    ShapeError,
)
from tfn.exporting.programs import C
from tfn.hw.cpu.target import host
from tfn.lower.pipeline import lower
from tfn.trace.op import Op
from tfn.trace.uop import walk

F = "float32"
RNG = np.random.default_rng(0)


def t(*shape: int, dtype: str = F) -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, dtype)


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(F)


@tfn.kernel(takes=(t(), t(101), t(101)), gives=t(101))
def saxpy(loop: Any, a: Any, x: Any, y: Any, out: Any) -> None:
    """a x + y"""
    i = loop(101)
    out[i] = a[()] * x[i] + y[i]


def saxpy_body(loop: Any, a: Any, x: Any, y: Any, out: Any) -> None:
    i = loop(9)
    out[i] = a[()] * x[i] + y[i]


@tfn.kernel(takes=(t(7, 50), t(50, 9)), gives=(t(7, 9), t(7)))
def product(loop: Any, a: Any, b: Any, out: Any, largest: Any) -> None:
    i, j, k = loop(7, 9, 50)
    out[i, j] = loop.sum(a[i, k] * b[k, j], over=k)
    other = loop(50)
    largest[i] = loop.max(tnp.abs(a[i, other]), over=other)


@tfn.kernel(takes=t(60, 36), gives=t(36, 60))
def transpose(loop: Any, x: Any, out: Any) -> None:
    rows, columns, i, j = loop(5, 3, 12, 12)
    out[columns * 12 + j, rows * 12 + i] = x[rows * 12 + i, columns * 12 + j]


@tfn.kernel(takes=t(100), gives=t(100))
def blur(loop: Any, x: Any, out: Any) -> None:
    """The mean of three neighbours, of which those beyond the ends are zero."""
    i = loop(100)
    left, right = x.get(i - 1, where=i > 0), x.get(i + 1, where=i < 99)
    out[i] = (left + x[i] + right) / 3


@tfn.kernel(takes=(t(20, 3), t(11, dtype="int32")), gives=t(11, 3))
def take(loop: Any, table: Any, rows: Any, out: Any) -> None:
    i, j = loop(11, 3)
    out[i, j] = table[tnp.clip(rows[i], 0, 19), j]


@tfn.kernel(takes=(t(10), t(6)), gives=t(16))
def joined(loop: Any, x: Any, y: Any, out: Any) -> None:
    i = loop(16)
    out[i] = tnp.where(
        i < 10, x.get(i, where=i < 10), tnp.exp(y.get(i - 10, where=i >= 10)) + i.astype(F)
    )


def blurred(x: Any) -> Any:
    wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 1)])
    return (wide[..., :-2] + x + wide[..., 2:]) / 3


A, X, Y = np.float32(1.5), draw(101), draw(101)
M, N, T, Z = draw(7, 50), draw(50, 9), draw(60, 36), draw(100)
TABLE, ROWS = draw(20, 3), RNG.integers(-5, 30, 11).astype(np.int32)
BOTH = np.concatenate([Z[:10], np.exp(Z[:6]) + np.arange(10, 16)])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "saxpy": (saxpy, (A, X, Y), A * X + Y),
    "product": (product, (M, N), (M @ N, np.abs(M).max(1))),
    "transpose": (transpose, (T,), T.T),
    "blur": (blur, (Z,), blurred(Z)),
    "take": (take, (TABLE, ROWS), TABLE[ROWS.clip(0, 19)]),
    "joined": (joined, (Z[:10], Z[:6]), BOTH),
}


def close(actual: Any, expected: Any) -> None:
    for a, b in zip(tfn.tree.leaves(actual), tfn.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("device", ("cpu", "python"))
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", device)
    f, args, expected = CASES[name]
    close(f(*args), expected)
    close(tfn.jit(f)(*args), expected)


@covering("name, size", CASES, (1, 2, 5))
def test_over_lanes(name: str, size: int) -> None:
    f, args, expected = CASES[name]
    many = [np.stack([x] * size) for x in args]
    all_ = tfn.tree.map(lambda y: np.stack([y] * size), expected)
    close(tfn.vmap(f)(*many), all_)
    first = (0, *[None] * (len(args) - 1))
    close(tfn.vmap(f, first)(many[0], *args[1:]), all_)
    twice = tfn.vmap(tfn.vmap(f, first), (0, *[0] * (len(args) - 1)))
    close(
        twice(np.stack([many[0]] * size), *many[1:]),
        tfn.tree.map(lambda y: np.stack([y] * size), all_),
    )


def test_no_lanes() -> None:
    assert tfn.vmap(blur)(np.zeros((0, 100), F)).shape == (0, 100)


def test_among_other_operations_in_loops_branches_and_calls() -> None:
    def f(x: Any) -> Any:
        y, _ = tfn.lax.scan(lambda c, _: (blur(tnp.sin(c)), None), x, length=3)
        y = tfn.lax.cond(y.sum() > 0, blur, lambda y: y * 2, y)
        return tfn.call(lambda y: blur(y) + blur(x))(y).sum()

    x = Z
    for _ in range(3):
        x = blurred(np.sin(x))
    x = blurred(x) if x.sum() > 0 else x * 2
    close(tfn.jit(f)(Z), (blurred(x) + blurred(Z)).sum())


def test_results_that_nobody_wants() -> None:
    close(tfn.jit(lambda a, b: product(a, b)[1])(M, N), np.abs(M).max(1))
    close(tfn.jit(lambda a, b: product(a, b)[0] + 1)(M, N), M @ N + 1)


@pytest.mark.parametrize("threads", (1, 3))
def test_on_several_threads(threads: int) -> None:
    jaxpr = tfn.make_jaxpr(lambda x: transpose(transpose(x * 2).T.T.reshape(60, 36)))(T)
    (actual,) = run_on_threads(threads, jaxpr.outputs, [T])
    close(actual, (T * 2).T.reshape(60, 36).T)
    assert p(0, 1).op is Op.PARAM


def test_it_is_one_operation_and_one_kernel() -> None:
    jaxpr = tfn.make_jaxpr(saxpy)(A, X, Y)
    assert [u.op for u in walk(jaxpr.outputs)][-2:] == [Op.KERNEL, Op.GET]
    assert "kernel[name=saxpy" in str(jaxpr)
    assert str(tfn.show(saxpy, A, X, Y, at="ranges")).count("kernel ") == 1
    assert saxpy.__name__ == "saxpy" and saxpy.__doc__ == "a x + y"
    tfn.vmap(saxpy)(np.stack([A, A]), np.stack([X, X]), np.stack([Y, Y]))


def test_numbers_become_operands() -> None:
    close(saxpy(2, X, Y), 2 * X + Y)


# Rules.


def test_a_forward_rule() -> None:
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return square(x), 2 * x * dx

    @tfn.kernel(takes=t(6), gives=t(6), jvp=rule)
    def square(loop: Any, x: Any, out: Any) -> None:
        i = loop(6)
        out[i] = x[i] * x[i]

    x = Z[:6]
    close(tfn.grad(lambda x: square(x).sum())(x), 2 * x)
    close(tfn.jit(tfn.hessian(lambda x: square(x).sum()))(x), 2 * np.eye(6))
    close(
        tfn.vmap(tfn.grad(lambda x: square(x).sum()))(np.stack([x, -x])), np.stack([2 * x, -2 * x])
    )


def test_a_reverse_rule() -> None:
    blurred_ = tfn.kernel(
        lambda loop, x, out: out.set(i := loop(100), value=2 * x[i]),
        takes=t(100),
        gives=t(100),
        name="twice",
        vjp=(lambda x: (blurred_(x), None), lambda _, ct: (2 * ct,)),
    )
    close(tfn.jit(tfn.grad(lambda x: (blurred_(x) * x).sum()))(Z), 4 * Z)


def test_without_rules_there_is_no_derivative() -> None:
    with pytest.raises(GradientError, match="the kernel blur has no derivative"):
        tfn.grad(lambda x: blur(x).sum())(Z)
    with pytest.raises(GradientError, match="the kernel blur has no derivative"):
        tfn.linear_transpose(blur, Z)
    close(tfn.grad(lambda x: (blur(tfn.stop_gradient(x)) * x).sum())(Z), blurred(Z))


def test_a_batch_rule() -> None:
    asked = []

    def rule(size: int, mapped: Any, x: Any) -> Any:
        asked.append((size, mapped))
        return tnp.cumsum(x, axis=1), True

    def body(loop: Any, x: Any, out: Any) -> None:
        i, j = loop(6, 6)
        out[i] = loop.sum(x.get(j, where=j <= i), over=j)

    sums = tfn.kernel(body, takes=t(6), gives=t(6), batch=rule)
    x = draw(4, 6)
    close(tfn.vmap(sums)(x), np.cumsum(x, 1))
    close(tfn.jit(tfn.vmap(sums))(x), np.cumsum(x, 1))
    assert set(asked) == {(4, (True,))}
    wrong = tfn.kernel(body, takes=t(6), gives=t(6), batch=lambda n, m, x: (x[0], True))
    with pytest.raises(ArgumentError, match="returned other types"):
        tfn.vmap(wrong)(x)


def test_one_derivative() -> None:
    with pytest.raises(ArgumentError, match="one derivative"):
        tfn.kernel(saxpy_body, takes=(t(), t(9), t(9)), gives=t(9), jvp=abs, vjp=(abs, abs))


# What is refused.


def refuse(
    body: Callable[..., Any],
    error: type[Exception],
    match: str,
    takes: Any = None,
    gives: Any = None,
) -> None:
    with pytest.raises(error, match=match):
        tfn.kernel(body, takes=takes or t(10), gives=gives or t(10), name="wrong")


def writing(value: Callable[..., Any]) -> Callable[..., Any]:
    def body(loop: Any, x: Any, out: Any) -> None:
        i = loop(10)
        out[i] = value(loop, x, i)

    return body


def test_accesses_out_of_bounds() -> None:
    match = r"(?s)axis 0 of x, of size 10.*index r0 \+ 1: at r0 = 9 it is 10"
    refuse(writing(lambda loop, x, i: x[i + 1]), OutOfBoundsError, match)
    refuse(writing(lambda loop, x, i: x[i - 3]), OutOfBoundsError, "at r0 = 0 it is -3")
    refuse(writing(lambda loop, x, i: x[i * i]), OutOfBoundsError, "at r0 = 4 it is 16")
    refuse(writing(lambda loop, x, i: x.get(i + 1, where=i < 10)), OutOfBoundsError, "r0 = 9")
    refuse(writing(lambda loop, x, i: x[10]), OutOfBoundsError, "index 10: it is 10")
    refuse(
        writing(lambda loop, x, i: x[x[i].astype("int32")]),
        OutOfBoundsError,
        r"i64\(i32\(x\[...\]\)\): it cannot be proved",
    )
    refuse(writing(lambda loop, x, i: x[i, i]), ShapeError, "x has 1 axes")
    refuse(writing(lambda loop, x, i: x[x[i]]), DTypeError, "needs an integer")


def test_elements_that_are_not_written_once() -> None:
    def half(loop: Any, x: Any, out: Any) -> None:
        i = loop(5)
        out[i * 2] = x[i]

    def twice(loop: Any, x: Any, out: Any) -> None:
        i, j = loop(10, 2)
        out[i] = x[i] + j.astype(F)

    def sometimes(loop: Any, x: Any, out: Any) -> None:
        i = loop(10)
        out.set(i, value=x[i], where=i > 3)

    def never(loop: Any, x: Any, out: Any) -> None:
        pass

    def somewhere(loop: Any, x: Any, out: Any) -> None:
        i = loop(10)
        out[tnp.clip(x[i].astype("int32"), 0, 9)] = x[i]

    refuse(half, ShapeError, "element 1, .* never written")
    refuse(twice, ShapeError, "element 0, .* more than once")
    refuse(sometimes, ShapeError, "element 0, .* never written")
    refuse(never, ShapeError, "element 0, .* never written")
    refuse(somewhere, ShapeError, "cannot be proved")


def test_in_two_parts_is_fine() -> None:
    def parts(loop: Any, x: Any, out: Any) -> None:
        i, j = loop(3, 7)
        out[i] = x[i] * 2
        out[j + 3] = x[j + 3] * 3

    actual = tfn.kernel(parts, takes=t(10), gives=t(10))(Z[:10])
    close(actual, Z[:10] * ([2] * 3 + [3] * 7))


def test_wrong_bodies_raise() -> None:
    captured = tnp.ones(10)
    refuse(writing(lambda loop, x, i: captured[0]), ArgumentError, "closes over an array")
    refuse(writing(lambda loop, x, i: tnp.stack([x[i], x[i]]).sum()), ArgumentError, "with scalars")
    refuse(writing(lambda loop, x, i: tnp.stack([x[i]])), ShapeError, "computes with scalars")
    refuse(writing(lambda loop, x, i: i), DTypeError, "holds float32")
    refuse(writing(lambda loop, x, i: loop.sum(x[i], over=i)), ArgumentError, "another loop")
    refuse(writing(lambda loop, x, i: loop.sum(x[i], over=x[i])), ArgumentError, "goes over loops")
    refuse(writing(lambda loop, x, i: loop(0)), ArgumentError, "at least 1")
    refuse(writing(lambda loop, x, i: x.get(i, where=i)), DTypeError, "is a condition")
    refuse(writing(lambda loop, x, i: x.set(i, value=1.0)), ArgumentError, "only reads")
    refuse(lambda loop, x, out: out[loop(10)], ArgumentError, "only writes")
    refuse(lambda loop, x: None, ArgumentError, r"1 operand\(s\) and 1 result\(s\)")
    with pytest.raises(ArgumentError, match="traced value"):
        tfn.jit(
            lambda y: tfn.kernel(writing(lambda loop, x, i: y), takes=t(10), gives=t(10))(Z[:10])
        )(1.0)


def test_wrong_kernels_raise() -> None:
    refuse(3, ArgumentError, "function over loops")  # type: ignore[arg-type]
    refuse(writing(lambda *_: 0.0), ArgumentError, "types of arrays", takes=[(10,)])
    refuse(writing(lambda *_: 0.0), DTypeError, "no complex", takes=t(10, dtype="complex64"))
    refuse(writing(lambda *_: 0.0), ShapeError, "without elements", gives=t(0))


def test_other_operands() -> None:
    with pytest.raises(ShapeError, match=r"(?s)another y.*f32\[7\] instead of f32\[101\]"):
        saxpy(1.0, X, X[:7])
    with pytest.raises(DTypeError, match="another x"):
        saxpy(1.0, X.astype("float64"), X)
    with pytest.raises(ArgumentError, match=r"3 operand\(s\)"):
        saxpy(1.0, X)


# Texts.

DOUBLE = """
define void @double(i64 %begin, i64 %end, ptr %operands) {
entry:
  %to = load ptr, ptr %operands
  %from_at = getelementptr ptr, ptr %operands, i64 1
  %from = load ptr, ptr %from_at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %x_at = getelementptr float, ptr %from, i64 %i
  %x = load float, ptr %x_at
  %y = fadd float %x, %x
  %y_at = getelementptr float, ptr %to, i64 %i
  store float %y, ptr %y_at
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def double() -> Any:
    return tfn.kernel(DOUBLE, takes=t(12), gives=t(12), tiles=12)


def test_a_text(double: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    x = Z[:12]
    close(double(x), 2 * x)
    close(tfn.jit(lambda x: double(double(x) + 1))(x), 4 * x + 2)
    close(tfn.vmap(double)(np.stack([x, -x])), np.stack([2 * x, -2 * x]))
    assert "double, text written by hand" in str(tfn.show(double, x, at="ranges"))
    with pytest.raises(GradientError, match="the kernel double has no derivative"):
        tfn.grad(lambda x: double(x).sum())(x)
    with pytest.raises(CompileError, match="written in LLVM IR"):
        lower(tfn.make_jaxpr(double)(x), host(), C)
    monkeypatch.setattr(config, "device", "python")
    with pytest.raises(DeviceError, match="LLVM IR"):
        double(x)


def test_texts_that_are_refused() -> None:
    def refused(text: str, error: type[Exception], match: str, **options: Any) -> None:
        with pytest.raises(error, match=match):
            tfn.kernel(text, takes=t(12), gives=t(12), **options)

    refused("some words", ArgumentError, "no definition")
    refused(DOUBLE, ArgumentError, "got: double", name="half")
    refused(DOUBLE.replace("fadd float", "fadd i32"), CompileError, "cannot read a text")
    elsewhere = "call float @llvm.nvvm.ex2.approx.f(float %x)"  # here LLVM calls abort()
    declared = "declare float @llvm.nvvm.ex2.approx.f(float)"
    text = DOUBLE.replace("fadd float %x, %x", elsewhere) + declared
    refused(text, CompileError, "LLVM cannot compile")
    refused(DOUBLE.replace("i64 %begin, i64 %end, ", ""), CompileError, "undefined value '%begin'")
    refused("define i32 @f(ptr %x) {\n  ret i32 0\n}", ArgumentError, r"got: i32 \(ptr\)")
    refused(DOUBLE, ArgumentError, "needs tiles >= 1", tiles=0)
