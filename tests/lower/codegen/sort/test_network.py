"""Sorting network: rows side by side, at every length, of every dtype, stable."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.covering import covering
from tests.lower.check_passes import GRID
from tests.lower.codegen.sort.test_sort import HOST, REAL, check, draw, keys_only, sorting
from tests.lower.graphs import p
from tfn.dtypes import FLOAT32, FLOAT64, INT64, UINT64, DType
from tfn.lower.codegen.sort import network
from tfn.lower.codegen.sort.plan import plan_of, scratch
from tfn.lower.codegen.sort.sort import instructions
from tfn.trace import build, interpreter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

INT16 = np.dtype("int16")
SHAPES = [(33, 2), (50, 7), (40, 15), (40, 16), (17, 17), (31, 100)]


@covering("shape, dtype, kept", SHAPES, [INT16, FLOAT32], ((0,), (1,), (1, 0)), pairs=[(0, 1)])
def test_rows_side_by_side(shape: tuple[int, int], dtype: DType, kept: tuple[int, ...]) -> None:
    """The keys, the order, or both."""
    outputs = build.sort([p(0, *shape, dtype=dtype), build.iota(shape, 1)])
    check([outputs[i] for i in kept], [draw(shape, dtype, shape[1])])


@covering("shape, dtype", [SHAPES[1], SHAPES[-1]], REAL)
def test_rows_of_every_dtype(shape: tuple[int, int], dtype: DType) -> None:
    outputs = build.sort([p(0, *shape, dtype=dtype), build.iota(shape, 1)])
    check(outputs, [draw(shape, dtype, shape[1])])


@pytest.mark.parametrize("size", range(2, 10))
def test_every_row_of_zeros_and_ones(size: int) -> None:
    """A network that sorts them sorts everything: the zero-one principle."""
    rows = np.array(list(product((0, 1), repeat=size)), np.int16)
    check(build.sort([p(0, *rows.shape, dtype=INT16)])[:1], [rows])


@pytest.mark.parametrize("size", [31, 32, 33, 64, 100, 127])
def test_permutations(size: int) -> None:
    random = np.random.default_rng(size)
    rows = random.permuted(np.tile(np.arange(size, dtype=np.int16), (50, 1)), axis=1)
    assert plan_of(keys_only(50, size, dtype=INT16)).lanes
    check(build.sort([p(0, 50, size, dtype=INT16)]), [rows])


def test_code_does_not_grow_with_the_rows() -> None:
    def count(body: UOp) -> int:
        return len(instructions(body, HOST)[0])

    assert count(keys_only(40, 20)) == count(keys_only(4000, 200)) < 800
    assert count(sorting(40, 20)) == count(sorting(4000, 200)) < 600


@pytest.mark.parametrize(
    ("rows", "size", "target"),
    [
        (40, 5, GRID),
        (33, 20, replace(HOST, scalars=frozenset({UINT64}))),
        (40, 5, replace(HOST, vector_bytes=128)),
    ],
)
def test_targets_without_vectors_of_words(target: object, rows: int, size: int) -> None:
    body = sorting(rows, size)
    items, tiles = instructions(body, target)  # type: ignore[arg-type]
    assert all(not u.shape for u in items if u.op is Op.LOAD)
    x = draw((rows, size), FLOAT32)
    numbers = np.broadcast_to(np.arange(size, dtype=np.int32), x.shape).reshape(-1)
    results = [np.zeros(x.size, d) for d in (np.float32, np.int32)]
    room = scratch(body.src[0].src[0], (0, 1)).shape[0]
    buffers = [*results, np.full(room, 113, np.uint64), x.reshape(-1), numbers]
    interpreter.instructions(items, 0, tiles, buffers)
    order = np.argsort(x + 0.0, axis=1, kind="stable")
    assert np.array_equal(results[1].reshape(x.shape), order)


def test_comparisons() -> None:
    """Knuth's count for powers of two, and one."""
    assert [network.comparisons(1 << t) - 1 for t in (2, 3, 4, 5)] == [5, 19, 63, 191]


def test_words_of_64_bits_are_compared_as_signed_numbers() -> None:
    """AVX2 has no other comparison: an unsigned one is five instructions, a signed one three."""
    for outputs in (sorting(40, 50), keys_only(40, 50, dtype=FLOAT64)):
        extremes = [u for u in instructions(outputs, HOST)[0] if u.op is Op.MAX and u.shape]
        assert {u.src[0].dtype for u in extremes} == {INT64}
