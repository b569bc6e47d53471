"""Prefixes of associative operations of every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lax.control import check
from tfn import lax
from tfn.errors import ArgumentError, AxisError, ShapeError, TreeError

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13])
def test_prefixes(n: int, reverse: bool) -> None:
    for axis in (0, 1, -1):
        shape = [2, 3, 2]
        shape[axis] = n
        x = RNG.integers(-9, 9, shape).astype(np.int32)
        actual = lax.associative_scan(tnp.add, tnp.asarray(x), reverse=reverse, axis=axis)
        expected = np.cumsum(x, axis)
        if reverse:
            expected = np.flip(np.cumsum(np.flip(x, axis), axis), axis)
        assert np.array_equal(np.asarray(actual), expected)


def test_the_order_of_operands_is_kept() -> None:
    matrices = RNG.normal(size=(7, 2, 2)).astype(np.float32)
    actual = lax.associative_scan(tnp.matmul, tnp.asarray(matrices))
    suffixes = lax.associative_scan(tnp.matmul, tnp.asarray(matrices), reverse=True)
    expected, back = [matrices[0]], [matrices[-1]]
    for m in matrices[1:]:
        expected.append(expected[-1] @ m)
    for m in matrices[-2::-1]:
        back.insert(0, back[0] @ m)  # as in JAX: from the last element on
    check(actual, tnp.asarray(np.stack(expected)))
    check(suffixes, tnp.asarray(np.stack(back)))


def test_trees() -> None:
    both = lambda s, t: {"a": s["a"] * t["a"], "b": s["b"] * t["a"] + t["b"]}
    a, b = RNG.normal(size=(2, 6)).astype(np.float32)
    actual = lax.associative_scan(both, {"a": tnp.asarray(a), "b": tnp.asarray(b)})["b"]
    h, expected = 0.0, []
    for i in range(6):
        h = h * a[i] + b[i]
        expected.append(h)
    check(actual, tnp.asarray(np.array(expected, np.float32)))


@pytest.mark.parametrize("n", [63, 64, 65, 101, 128, 200, 515])
def test_prefixes_in_blocks(n: int) -> None:
    """Blocks without a rest and with one, of what does not commute, and their derivatives."""

    def by_loop(m: Any) -> Any:
        step = lambda before, x: (tnp.matmul(before, x),) * 2
        return tnp.concatenate([m[:1], lax.scan(step, m[0], m[1:])[1]])

    turns = RNG.uniform(-3, 3, n)
    matrices = np.array([[np.cos(turns), -np.sin(turns)], [np.sin(turns), np.cos(turns)]])
    x = tnp.asarray(matrices.transpose(2, 0, 1).astype(np.float32) * 1.001)
    weights = tnp.asarray(RNG.normal(size=x.shape).astype(np.float32))
    prefixes = lambda m: lax.associative_scan(tnp.matmul, m)
    actual = tfn.jit(tfn.value_and_grad(lambda m: (prefixes(m) * weights).sum()))(x)
    expected = tfn.jit(tfn.value_and_grad(lambda m: (by_loop(m) * weights).sum()))(x)
    check(actual, expected, 1e-3)


def test_the_program_does_not_grow_with_the_elements() -> None:
    def lines(n: int) -> int:
        f = lambda x: lax.associative_scan(tnp.add, x)
        return str(tfn.make_jaxpr(f)(tnp.ones(n))).count("\n")

    assert lines(1 << 18) == lines(1 << 14)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: lax.associative_scan(3, tnp.ones(2)), ArgumentError, "needs a function"),
        (lambda: lax.associative_scan(tnp.add, ()), ArgumentError, "needs an array"),
        (lambda: lax.associative_scan(tnp.add, tnp.ones(2), axis=1), AxisError, "axis 1"),
        (
            lambda: lax.associative_scan(lambda a, b: a, (tnp.ones(2), tnp.ones(3))),
            ShapeError,
            r"elems\[1\]: f32\[3\]",
        ),
        (lambda: lax.associative_scan(lambda a, b: (a, b), tnp.ones(2)), TreeError, "returns"),
        (
            lambda: lax.associative_scan(lambda a, b: a / b, tnp.arange(3)),
            ArgumentError,
            r"f32\[1\] for i32\[1\]",
        ),
        (
            lambda: lax.associative_scan(lambda a, b: a[:0], tnp.ones(3)),
            ArgumentError,
            r"f32\[0\] for f32\[1\]",
        ),
    ],
)
def test_wrong_arguments_raise(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (2, 0), (0, 1, 2), ()])
def test_reduce_by_any_function(axes: tuple[int, ...]) -> None:
    x = RNG.normal(size=(3, 5, 2)).astype(np.float32)
    actual = lax.reduce(tnp.asarray(x), 0.5, lambda a, b: a + b + a * b, axes)
    expected = np.multiply.reduce(1 + x, axis=axes) * 1.5 - 1 if axes else (1 + x) * 1.5 - 1
    check(actual, tnp.asarray(expected), 1e-4)


def test_reduce_keeps_order_branches_and_trees() -> None:
    def first_best(a: Any, b: Any) -> Any:
        return lax.cond(a["v"] >= b["v"], lambda: a, lambda: b)

    v = np.array([[3, 1, 3, 0, 2], [0, 0, 0, 0, 0], [1, 2, 2, 5, 5]], np.int32)
    places = np.broadcast_to(np.arange(5, dtype=np.int32), v.shape)
    operands = {"i": tnp.asarray(places), "v": tnp.asarray(v)}
    start = {"i": -1, "v": np.int32(-9)}
    actual = tfn.jit(lambda o: lax.reduce(o, start, first_best, (1,)))(operands)
    assert actual["i"].tolist() == [0, 0, 3] and actual["v"].tolist() == [3, 0, 5]
    empty = lax.reduce(tnp.zeros((0, 2)), 4.0, lambda a, b: a - b, (0,))
    assert empty.tolist() == [4.0, 4.0]
    assert int(lax.reduce(tnp.array([1, 4, 1]), 8, lax.bitwise_or, (0,))) == 13


def test_reduce_refuses() -> None:
    with pytest.raises(TreeError, match="one initial value for each"):
        lax.reduce((tnp.ones(2), tnp.ones(2)), (0.0,), lambda a, b: a, (0,))
    with pytest.raises(ShapeError, match=r"operands\[1\]: f32\[3\]"):
        lax.reduce((tnp.ones(2), tnp.ones(3)), (0.0, 0.0), lambda a, b: a, (0,))
    with pytest.raises(TreeError, match="return what it takes"):
        lax.reduce(tnp.ones(2), 0.0, lambda a, b: (a, b), (0,))
