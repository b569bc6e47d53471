"""Graphs of collectives: the fewest exchanges along single axes, and no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.trace.op import Op
from tfn.trace.uop import walk

M, N = 2, 3


def exchanges_of(f: Callable[[Any], Any], *shape: int) -> Counter[tuple[str, str]]:
    """The kinds and axes of the collectives of a function of one device of a 2 x 3 grid."""
    found: Counter[tuple[str, str]] = Counter()

    def traced(x: Any) -> Any:
        y = f(x)
        nodes = [u for u in walk([y.uop]) if u.op is Op.COLLECTIVE]
        found.update((u.arg.kind.value, u.arg.axis.name) for u in nodes)
        return y

    x = tnp.zeros((M, N, *shape))
    tfn.vmap(tfn.vmap(traced, axis_name="j"), axis_name="i")(x)
    return found


IJ = "i", "j"


@pytest.mark.parametrize(
    ("f", "kinds"),
    [
        (lambda v: lax.psum(v, IJ), {("reduce", "i"): 1, ("reduce", "j"): 1}),
        (lambda v: lax.all_gather(v, IJ), {("all_gather", "i"): 1, ("all_gather", "j"): 1}),
        (
            lambda v: lax.psum_scatter(v, IJ),
            {("reduce_scatter", "i"): 1, ("reduce_scatter", "j"): 1},
        ),
        (
            lambda v: lax.all_to_all(v, IJ, 0, 0),
            {("all_to_all", "i"): 1, ("all_to_all", "j"): 1},
        ),
        (lambda v: lax.pbroadcast(v, IJ, 4), {("reduce", "i"): 1, ("reduce", "j"): 1}),
        (lambda v: lax.psum(v, "j"), {("reduce", "j"): 1}),
        (lambda v: lax.pvary(v, IJ), {}),
    ],
)
def test_one_exchange_along_each_axis(f: Callable[[Any], Any], kinds: dict[Any, int]) -> None:
    assert exchanges_of(f, M * N) == kinds


def test_permutations_along_one_of_two_axes_are_one_exchange() -> None:
    along = lambda move: [
        (N * i + j, N * move(i, j)[0] + move(i, j)[1]) for i in range(M) for j in range(N)
    ]
    f = lambda perm: exchanges_of(lambda v: lax.ppermute(v, IJ, perm))
    assert f(along(lambda i, j: (i, (j + 1) % N))) == {("ppermute", "j"): 1}
    assert f(along(lambda i, j: (1 - i, j))) == {("ppermute", "i"): 1}
    assert f(along(lambda i, j: (1 - i, N - 1 - j))) == {("ppermute", "i"): 1, ("ppermute", "j"): 1}
    assert f(along(lambda i, j: (i, j))) == {}


def test_a_ring_over_two_axes_carries_along_the_first() -> None:
    ring = [(k, (k + 1) % (M * N)) for k in range(M * N)]
    kinds = exchanges_of(lambda v: lax.ppermute(v, IJ, ring))
    assert kinds == {("ppermute", "j"): 2, ("ppermute", "i"): 1}


def test_signs_of_zeros_are_kept_by_permutations() -> None:
    x = tnp.full((M, N), -0.0)
    ring = [(k, (k + 1) % (M * N)) for k in range(M * N)]
    f = tfn.vmap(tfn.vmap(lambda v: lax.ppermute(v, IJ, ring), axis_name="j"), axis_name="i")
    assert np.signbit(np.asarray(f(x))).all()
