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
        found = lax.associative_scan(tnp.add, tnp.asarray(x), reverse=reverse, axis=axis)
        wanted = np.cumsum(x, axis)
        if reverse:
            wanted = np.flip(np.cumsum(np.flip(x, axis), axis), axis)
        assert np.array_equal(np.asarray(found), wanted)


def test_the_order_of_operands_is_kept() -> None:
    matrices = RNG.normal(size=(7, 2, 2)).astype(np.float32)
    found = lax.associative_scan(tnp.matmul, tnp.asarray(matrices))
    suffixes = lax.associative_scan(tnp.matmul, tnp.asarray(matrices), reverse=True)
    wanted, back = [matrices[0]], [matrices[-1]]
    for m in matrices[1:]:
        wanted.append(wanted[-1] @ m)
    for m in matrices[-2::-1]:
        back.insert(0, back[0] @ m)  # as in JAX: from the last element on
    check(found, tnp.asarray(np.stack(wanted)))
    check(suffixes, tnp.asarray(np.stack(back)))


def test_trees() -> None:
    both = lambda s, t: {"a": s["a"] * t["a"], "b": s["b"] * t["a"] + t["b"]}
    a, b = RNG.normal(size=(2, 6)).astype(np.float32)
    found = lax.associative_scan(both, {"a": tnp.asarray(a), "b": tnp.asarray(b)})["b"]
    h, wanted = 0.0, []
    for i in range(6):
        h = h * a[i] + b[i]
        wanted.append(h)
    check(found, tnp.asarray(np.array(wanted, np.float32)))


def test_the_program_grows_like_the_logarithm() -> None:
    def lines(n: int) -> int:
        f = lambda x: lax.associative_scan(tnp.add, x)
        return str(tfn.make_jaxpr(f)(tnp.ones(n))).count("\n")

    assert lines(4096) - lines(2048) == lines(2048) - lines(1024)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: lax.associative_scan(3, tnp.ones(2)), ArgumentError, "needs a function"),
        (lambda: lax.associative_scan(tnp.add, ()), ArgumentError, "needs an array"),
        (lambda: lax.associative_scan(tnp.add, tnp.ones(2), axis=1), AxisError, "axis 1"),
        (lambda: lax.associative_scan(lambda a, b: a, (tnp.ones(2), tnp.ones(3))), ShapeError,
         r"elems\[1\]: f32\[3\]"),
        (lambda: lax.associative_scan(lambda a, b: (a, b), tnp.ones(2)), TreeError, "returns"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
