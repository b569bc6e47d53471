"""One digest for one graph, in every process; another for any other."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings

from tests.lower.random_graphs import graphs
from tfn.dtypes import FLOAT32, FLOAT64, INT32
from tfn.trace import build
from tfn.trace.digest import digest
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X, Y = build.iota((3, 4), 0), build.iota((3, 4), 1)

DIFFERENT = [
    X + Y,
    Y + X,
    X - Y,
    X + X,
    (X + Y) + Y,
    X + (Y + Y),
    build.cast(X, FLOAT32),
    build.cast(X, FLOAT64),
    build.permute(X, (1, 0)),
    build.reshape(X, (4, 3)),
    const(0.0, FLOAT32),
    const(-0.0, FLOAT32),
    const(0, INT32),
    const(0.0, FLOAT64),
    const(0.0, FLOAT32, (1,)),
    build.shrink(X, (0, 0), (2, 4)),
    build.pad(X, (0, 0), (2, 4)),
]


def test_different_graphs_have_different_digests() -> None:
    found = [digest(u) for u in DIFFERENT]
    assert len(set(found)) == len(set(DIFFERENT)) == len(DIFFERENT)


def test_the_order_of_making_does_not_matter() -> None:
    one = UOp(Op.ADD, (build.flip(X, (0,)), build.flip(Y, (1,))))
    want = digest(one)
    second = build.flip(Y, (1,))
    assert digest(UOp(Op.ADD, (build.flip(X, (0,)), second))) == want


@pytest.mark.parametrize("seed", ["0", "1"])
def test_another_process_finds_the_same(seed: str) -> None:
    script = (
        "from tfn.trace import build; from tfn.trace.digest import digest;"
        "print(digest(build.shrink(build.iota((3, 4), 0), (0, 0), (2, 4))))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": seed, "PATH": ""},
        check=True,
    )
    assert found.stdout.strip() == digest(build.shrink(X, (0, 0), (2, 4)))


@given(graphs(outputs=1), graphs(outputs=1))
@settings(max_examples=30)
def test_drawn_graphs(first: list[UOp], second: list[UOp]) -> None:
    one, other = first[0], second[0]
    assert digest(one) == digest(one)
    assert (digest(one) == digest(other)) == (one is other)
