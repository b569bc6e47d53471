"""Flash attention: the same values without square matrices, and how little memory they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn
import tfn.numpy as jnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_close, draw, inputs, p, run_compiled, run_oracle
from tfn.dtypes import BFLOAT16, FLOAT32, DType
from tfn.hw.cpu.target import host
from tfn.lower.graph.flash import chunk_oversized
from tfn.lower.graph.intermediates import working_bytes
from tfn.lower.graph.packing import MIN_ROWS_TO_PACK, prepare
from tfn.lower.pipeline import lower
from tfn.lower.program import Loop
from tfn.lower.report import cost
from tfn.nn import dot_product_attention
from tfn.trace import build
from tfn.trace.inline import plain
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

TINY, TINY_HOST = (replace(t, l1_bytes=1 << 10, l2_bytes=1 << 12) for t in (HOST, host()))
"""Machines with so small caches that squares of 32 by 32 are oversized; the second is this one."""

Shapes = Sequence[tuple[int, ...]]


def graphs(f: Callable[..., Any], shapes: Shapes, dtype: DType = FLOAT32) -> tuple[UOp, ...]:
    """The outputs of a traced function."""
    specs = [tfn.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return plain(tfn.make_jaxpr(f)(*specs).function).src


def gradient(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    """All gradients of a function, with a different weight for every element."""

    def weighed(*args: Any) -> Any:
        y = f(*args).astype("float32")
        return (y**2 * jnp.cos(jnp.arange(y.size, dtype="float32")).reshape(y.shape)).sum()

    return tfn.grad(weighed, argnums=tuple(range(count)))


def loops(outputs: Sequence[UOp]) -> list[UOp]:
    return [u for u in walk(outputs) if u.op is Op.SCAN]


def largest(outputs: Sequence[UOp]) -> int:
    """Bytes of the largest value outside of loops."""
    return max(working_bytes(u) for u in walk(outputs) if u.op is not Op.FUNCTION)


def check(
    f: Callable[..., Any],
    shapes: Shapes,
    square: int,
    dtype: DType = FLOAT32,
    error: float = 1e-5,
    count: int | None = None,
    min_loops: int = 1,
) -> None:
    """Checks values against the oracle, the number of loops, and the size of the largest value."""
    outputs = graphs(f, shapes, dtype)
    values = [draw(shape, dtype, i) for i, shape in enumerate(shapes)]
    chunked = chunk_oversized(outputs, TINY)
    assert len(loops(chunked)) >= min_loops
    assert largest(chunked) < square * 4 <= largest(outputs)
    expected = run_oracle(outputs, values)
    for got in (run_oracle(chunked, values), run_compiled(outputs, values, TINY_HOST)):
        for x, y in zip(got, expected, strict=True):
            assert_close(x, y, error, error)


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Attention as users write it."""
    scores = jnp.einsum("...thd,...shd->...hts", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    weights = jnp.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return jnp.einsum("...hts,...shd->...thd", weights, v)


def causal(q: Any, k: Any, v: Any) -> Any:
    size = q.shape[-3], k.shape[-3]
    return attention(q, k, v, jnp.tril(jnp.ones(size, bool)))


ALONE = [(64, 1, 3)] * 3
ODD = [(2, 61, 2, 3)] * 3
CROSS = [(2, 53, 2, 3), (2, 71, 2, 3), (2, 71, 2, 4)]


@pytest.mark.parametrize("f", [attention, causal])
@pytest.mark.parametrize("shapes", [ALONE, ODD, CROSS], ids=["alone", "odd", "cross"])
def test_attention(f: Callable[..., Any], shapes: Shapes) -> None:
    square = shapes[0][-3] * shapes[1][-3] * shapes[0][-2]
    check(f, shapes, square)
    check(gradient(f, 3), shapes, square, error=1e-4, min_loops=2)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
def test_nn_dot_product_attention(heads: tuple[int, int]) -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        return dot_product_attention(q, k, v, is_causal=True)

    shapes = [(2, 60, heads[0], 3), *[(2, 60, heads[1], 3)] * 2]
    check(f, shapes, 60 * 60 * 4)
    check(gradient(f, 3), shapes, 60 * 60 * 4, error=1e-4, min_loops=2)


def test_masks_and_biases_as_operands() -> None:
    def f(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return dot_product_attention(q, k, v, bias, bias > -1)

    for shape in ((61, 61), (2, 1, 1, 61), (4, 61, 1)):
        shapes = [*[(2, 61, 4, 3)] * 3, shape]
        check(f, shapes, 61 * 61 * 4)
        check(gradient(f, 3), shapes, 61 * 61 * 4, error=1e-4, min_loops=2)


def test_bfloat16_is_accumulated_in_float32() -> None:
    shapes = [(2, 60, 4, 3)] * 3
    check(causal, shapes, 60 * 60 * 4, BFLOAT16, 3e-2)
    check(gradient(causal, 3), shapes, 60 * 60 * 4, BFLOAT16, 6e-2, min_loops=2)
    outputs = graphs(gradient(causal, 3), [(64, 1, 3)] * 3, BFLOAT16)
    carried = [u for u in loops(chunk_oversized(outputs, TINY)) if u.arg.carries]
    assert carried and all(p.dtype == FLOAT32 for u in carried for p in u.src[0].src[:2])


def test_dropout_draws_the_same_bits() -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        key = tfn.random.key(q[0, 0, 0, 0].astype("int32"))
        mask = tfn.random.bits(key, scores.shape) % 3 > 0
        return jnp.einsum("bhts,bshd->bthd", jnp.where(mask, tfn.nn.softmax(scores), 0), v)

    check(f, ODD, 61 * 61 * 4)


def test_squares_that_are_not_attention() -> None:
    def nearest(x: Any, y: Any) -> Any:
        return ((x * x).sum(-1)[:, None] - 2 * x @ y.T).min(1)

    def both(x: Any, y: Any) -> Any:
        k = jnp.exp(-((x @ y.T) ** 2))
        return k.sum(0), k.max(1), k @ y, k.T @ x, (k * k).max(0), k.min(), k.sum()

    def columns(x: Any, y: Any) -> Any:
        return tfn.nn.softmax(x @ y.T, axis=0).T @ x

    for f in (nearest, both, columns):
        check(f, [(97, 2), (89, 2)], 97 * 89, error=1e-4)
        if f is not both:
            check(gradient(f, 2), [(97, 2), (89, 2)], 97 * 89, error=1e-4)


def test_flips_pads_and_concatenations_of_columns() -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        sink = jnp.zeros((*scores.shape[:-1], 1))
        weights = tfn.nn.softmax(jnp.concatenate([jnp.flip(scores, -1), sink], -1))[..., :-1]
        return jnp.einsum("bhts,bshd->bthd", jnp.pad(weights[..., 2:], [(0, 0)] * 3 + [(1, 1)]), v)

    check(f, ODD, 61 * 61 * 4)


def test_two_layers_and_second_derivatives() -> None:
    def layers(x: Any, w: Any) -> Any:
        for _ in range(2):
            x = x + causal(x @ w, x, jnp.tanh(x))
        return x

    shapes = [(64, 1, 3), (3, 3)]
    check(gradient(layers, 2), shapes, 64 * 64, error=1e-3, min_loops=4)

    def curved(q: Any, k: Any, v: Any) -> Any:
        return sum((g**2).sum() for g in gradient(causal, 3)(q, k, v))

    check(tfn.grad(curved), ALONE, 64 * 64, error=1e-2)


def test_vmap_of_attention() -> None:
    check(tfn.vmap(causal), [(3, 41, 1, 3)] * 3, 41 * 41 * 3)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (causal, [(8, 1, 3)] * 3),  # small
        (causal, [(64, 1, 64)] * 3),  # not larger than its operands
        (lambda q, k: jnp.exp(q @ k.T) + 1, [(64, 3)] * 2),  # an output
        (lambda q, k: (jnp.exp(q @ k.T), jnp.exp(q @ k.T).sum(0)), [(64, 3)] * 2),
        (lambda x, w, v: jnp.tanh(x @ w) @ v, [(64, 32), (32, 64), (64, 32)]),
        (gradient(lambda x, w, v: jnp.tanh(x @ w) @ v, 3), [(64, 32), (32, 64), (64, 32)]),
        (gradient(lambda x: tfn.nn.softmax(x), 1), [(256, 256)]),
        (lambda x: jnp.exp(x - x.mean(-1, keepdims=True)).sum(0), [(256, 256)]),
        (lambda x, y: jnp.sort(x @ y.T)[:, 0], [(97, 2), (89, 2)]),
    ],
)
def test_programs_that_are_not_chunked(f: Callable[..., Any], shapes: Shapes) -> None:
    outputs = graphs(f, shapes)
    assert chunk_oversized(outputs, TINY) == list(outputs)


@pytest.mark.parametrize("f", [causal, dot_product_attention])
def test_memory_of_long_sequences(f: Callable[..., Any]) -> None:
    x = tfn.ShapeDtypeStruct((1, 2048, 8, 64), FLOAT32)
    inputs, square = 3 * 2048 * 8 * 64 * 4, 8 * 2048 * 2048 * 4
    forward = tfn.jit(f).memory_analysis(x, x, x).temporary_bytes
    near = replace(host(), l2_bytes=1 << 20)  # blocks are as large as the cache allows
    backward = lower(tfn.make_jaxpr(gradient(f, 3))(x, x, x), near).arena_bytes
    assert forward < 2 * inputs < square / 4
    assert backward < 3 * inputs < square / 3


def test_no_block_computes_what_all_blocks_share() -> None:
    """Of k-means, chunked along the centres, each block would compute all distances again."""

    def centers_of(points: Any, centers: Any) -> Any:
        nearest = (points @ centers.T).argmin(axis=1)
        belongs = nearest[:, None] == jnp.arange(len(centers))
        return (belongs[:, :, None] * points[:, None, :]).sum(axis=0)

    shapes = [(2048, 8), (128, 8)]
    outputs = graphs(centers_of, shapes)
    chunked = chunk_oversized(outputs, TINY)
    (loop,) = loops(chunked)
    assert loop.arg.carries == 1  # the sums over points, from block to block
    before, after = (cost.work(function(nodes, ())).flops for nodes in (outputs, chunked))
    assert after < 1.1 * before
    check(centers_of, shapes, square=2048 * 128)


def test_kernels_of_a_block() -> None:
    x = tfn.ShapeDtypeStruct((1, 512, 8, 16), FLOAT32)
    steps = lower(tfn.make_jaxpr(causal)(x, x, x), replace(host(), l2_bytes=1 << 19)).steps
    (heads,) = [step for step in steps if isinstance(step, Loop)]
    (rows,) = [step for step in heads.body if isinstance(step, Loop)]
    assert len(rows.body) == 3  # the scores, their softmax, its product with the values
    assert heads.trips == 8 and rows.trips and 512 % rows.trips == 0


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16])
def test_packing_of_operands_is_hoisted(dtype: DType) -> None:
    target = host()
    chunked = chunk_oversized(graphs(causal, [(4096, 1, 16)] * 3, dtype), target)
    (rows,) = loops(chunked)
    copies = [u for u in walk(prepare(rows.src[0].src, target)) if u.op is Op.GBARRIER]
    assert all(u.src[0].op is Op.CAST and dtype == BFLOAT16 for u in copies)  # of a block's rows
    assert any(u.op is Op.GBARRIER for u in walk(rows.src[1:]))


def test_operands_are_packed_for_the_rows_of_all_blocks() -> None:
    """Few rows are read in an iteration, many in the loop: panels pay."""

    def nearest(a: Any) -> Any:
        return jnp.argmax(a @ a.T, axis=1)

    target = replace(host(), l2_bytes=1 << 19)
    (rows,) = loops(chunk_oversized(graphs(nearest, [(2048, 256)]), target))
    assert max(u.shape[0] for u in rows.src[0].src) < MIN_ROWS_TO_PACK
    (copy,) = [u for u in walk(rows.src[1:]) if u.op is Op.GBARRIER]
    assert copy.ndim == 4 and copy.shape[1] == 256


@st.composite
def square_programs(draw: st.DrawFn) -> list[UOp]:
    """Squares computed of rows and columns, those of squares, and so on."""
    shape = h, n, m = draw(st.tuples(st.integers(1, 3), st.integers(7, 24), st.integers(7, 24)))
    rows_and_columns = [[p(0, h, n, 2), p(1, h, n, 2)], [p(2, h, m, 2), p(3, h, m, 2)]]
    squares: list[UOp] = []
    totals: list[list[UOp]] = [[], []]
    for _ in range(draw(st.integers(3, 14))):
        kind, side = draw(st.integers(0, 7)), draw(st.integers(0, 1))
        first = kind == 0 or not squares
        row, column = (draw(st.sampled_from(some)) for some in rows_and_columns)
        x = build.dot(row, column, ((2,), (2,)), ((0,), (0,)))
        x = build.unary(Op.TANH, x) if first else draw(st.sampled_from(squares))
        if first or kind == 1:
            squares.append(x if first else build.maximum(x, squares[-1]) * 0.7)
        elif kind == 2:
            above = build.iota(shape, 1) < build.iota(shape, 2) + draw(st.integers(-3, 3))
            squares.append(build.where(above, x, build.full_like(x, -1)))
        elif kind == 3:
            monoid = draw(st.sampled_from([Op.ADD, Op.MAX, Op.MIN]))
            total = build.reduce(x, monoid, (2 - side,), keepdims=True)
            totals[side].append(build.unary(Op.TANH, total))
        elif kind == 4 and totals[side]:
            total = draw(st.sampled_from(totals[side]))
            squares.append(x - build.expand(total, shape))
        elif kind == 5:
            other = (row, column)[1 - side]
            line = build.dot(x, other, ((2 - side,), (1,)), ((0,), (0,)))
            rows_and_columns[side].append(build.unary(Op.TANH, line))
        elif kind == 6:
            squares.append(build.flip(x, (1 + side,)))
        else:
            one = tuple(int(axis == 1 + side) for axis in range(3))
            squares.append(build.pad(build.shrink(x, one, shape), (0, 0, 0), one))
    ends = [
        rows_and_columns[0][-1],
        rows_and_columns[1][-1],
        *(some[-1] for some in totals if some),
    ]
    return list(dict.fromkeys((*ends, build.add_up(squares[-1], (0, 1)))))


@given(square_programs(), st.sampled_from([64, 128, 256]))
def test_any_program_of_squares(outputs: list[UOp], l2_bytes: int) -> None:
    outputs = [u for u in outputs if u.op is not Op.PARAM]
    chunked = chunk_oversized(outputs, replace(TINY, l2_bytes=l2_bytes))
    values = inputs(outputs)
    expected = run_oracle(outputs, values)
    for x, y in zip(run_oracle(chunked, values), expected, strict=True):
        assert_close(x, y, 1e-3, 1e-3)
