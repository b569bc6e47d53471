"""Kernels over ranges: movement as index arithmetic, predicates, reductions, scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from tests.covering import together
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_close, draw, inputs, jaxpr, matmul, p, params, run_oracle
from tests.lower.random_graphs import graphs
from tfn.dtypes import FLOAT32, INT32
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.fuse.analysis import output_in_memory
from tfn.lower.fuse.ranges import IndexedKernel, indexed_kernels
from tfn.lower.loops import loop_nest
from tfn.lower.report.print import nest as picture
from tfn.trace import build, interpreter, records
from tfn.trace.argument import Conv
from tfn.trace.interpreter import _Grid
from tfn.trace.op import Op
from tfn.trace.spec import Stage as SpecStage
from tfn.trace.spec import check
from tfn.trace.uop import UOp, const, walk

X = p(0, 5, 7)


def kernels_of(*outputs: UOp) -> list[IndexedKernel]:
    return [
        s
        for s in indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
        if isinstance(s, IndexedKernel)
    ]


def only(*outputs: UOp) -> IndexedKernel:
    (kernel,) = kernels_of(*outputs)
    return kernel


def picture_of(*outputs: UOp, names: str = "yx") -> str:
    return picture.nest(loop_nest.nest(only(*outputs).body), list(names))


def loads(kernel: IndexedKernel) -> list[UOp]:
    return [u for u in walk([kernel.body]) if u.op is Op.LOAD]


# fmt: off
MOVES: dict[str, Callable[[UOp], UOp]] = {
    "reshape": lambda x: build.reshape(x, (7, 5)),
    "reshape to a line": lambda x: build.reshape(x, (35,)),
    "reshape with ones": lambda x: build.reshape(x, (1, 5, 1, 7, 1)),
    "reshape of a transpose": lambda x: build.reshape(build.permute(x, (1, 0)), (5, 7)),
    "permute": lambda x: build.permute(x, (1, 0)),
    "permute three": lambda x: build.permute(build.reshape(x, (5, 1, 7)), (2, 0, 1)),
    "expand": lambda x: build.expand(build.reshape(x, (5, 1, 7)), (5, 3, 7)),
    "expand one": lambda x: build.expand(build.shrink(x, (2, 3), (3, 4)), (4, 6)),
    "pad": lambda x: build.pad(x, (1, 2), (3, 0)),
    "pad between": lambda x: build.pad(x, (0, 1), (2, 0), (2, 1)),
    "pad with a value": lambda x: build.pad(x, (1, 0), (0, 1), (0, 1), const(3.5, FLOAT32)),
    "pad with a computed value": lambda x: build.pad(
        x, (1, 0), (0, 1), None, build.add_up(x, (0, 1))),
    "pad twice": lambda x: build.pad(build.pad(x, (1, 0), (0, 2)), (0, 3), (1, 0)),
    "pad and cut": lambda x: build.pad_or_crop(x, (-1, 2), (2, -3)),
    "shrink": lambda x: build.shrink(x, (1, 2), (4, 6)),
    "shrink by steps": lambda x: build.shrink(x, (0, 1), (5, 7), (2, 3)),
    "shrink to one": lambda x: build.shrink(x, (4, 6), (5, 7)),
    "flip": lambda x: build.flip(x, (1,)),
    "flip all": lambda x: build.flip(x, (0, 1)),
    "flip every other": lambda x: build.shrink(build.flip(x, (1,)), (0, 0), (5, 7), (1, 2)),
    "concat": lambda x: build.concat([x, build.shrink(x, (0, 0), (2, 7)), x], 0),
    "concat along the last": lambda x: build.concat([x, build.flip(x, (0,))], 1),
    "concat with nothing": lambda x: build.concat([x, build.shrink(x, (0, 0), (0, 7)), x], 0),
    "concat of one row each": lambda x: build.concat(
        [build.shrink(x, (i, 0), (i + 1, 7)) for i in range(4)], 0),
    "pad of a concat of a flip": lambda x: build.pad(
        build.concat([build.flip(x, (0,)), x], 0), (1, 1), (1, 1)),
    "iota": lambda x: build.iota((5, 7), 1, FLOAT32) * 10.0 + build.iota((5, 7), 0, FLOAT32) + x,
}
# fmt: on


@together("name", MOVES)
def test_movement(name: str) -> None:
    moved = MOVES[name](X)
    value = np.arange(35, dtype=np.float32).reshape(5, 7) + 1
    assert_close(run([moved], [value])[0], run_oracle([moved], [value])[0], 1e-6)


def run(outputs: list[UOp], values: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs after `ranges`, each kernel evaluated by the interpreter."""
    function = boundaries.insert_barriers(jaxpr(outputs).function, HOST)
    memory = {u: v.reshape(-1) for u, v in zip(params(outputs), values, strict=True)}
    for kernel in indexed_kernels(function):
        assert isinstance(kernel, IndexedKernel)
        check([kernel.body], SpecStage.RANGES)
        for u in kernel.operands:
            memory.setdefault(u, np.full(u.size, 113, u.dtype))
        interpreter.nest(kernel.body, [memory[u] for u in kernel.operands])
    stored = [(u, memory.get(output_in_memory(u))) for u in function.src]
    return [np.zeros(u.shape, u.dtype) if v is None else v.reshape(u.shape) for u, v in stored]


# Pictures of nests.


def test_a_transpose() -> None:
    assert (
        picture_of(build.permute(X, (1, 0)) * 2.0)
        == """\
for r0 in 7:
  for r1 in 5:
    y[r0 * 5 + r1] = x[r1 * 7 + r0] * 2.0"""
    )


def test_a_flip() -> None:
    assert (
        picture_of(build.flip(p(0, 9), (0,)) + 1.0)
        == """\
for r0 in 9:
  y[r0] = x[8 - r0] + 1.0"""
    )


def test_a_reshape_of_whole_axes() -> None:
    assert (
        picture_of(build.reshape(X, (35,)) + 1.0)
        == """\
for r0 in 35:
  y[r0] = x[r0] + 1.0"""
    )


def test_a_reduction_over_a_broadcast_axis() -> None:
    x = build.expand(build.reshape(p(0, 5), (5, 1)), (5, 3))
    assert (
        picture_of(build.reduce(x, Op.MAX, (1,)))
        == """\
for r0 in 5:
  v0:f32 = -inf
  for r1 in 3:
    v0 = max(v0, x[r0])
  y[r0] = v0"""
    )


def test_a_product() -> None:
    assert (
        picture_of(matmul(p(0, 3, 4), p(1, 4, 5)), names="yab")
        == """\
for r0 in 3:
  for r1 in 5:
    v0:f32 = 0.0
    for r2 in 4:
      v0 += a[r0 * 4 + r2] * b[r2 * 5 + r1]
    y[r0 * 5 + r1] = v0"""
    )


# Predicates.


def test_padding_puts_predicates_on_loads() -> None:
    (load,) = loads(only(build.pad(X, (1, 2), (3, 0))))
    assert len(load.src) == 3
    (bare,) = loads(only(build.shrink(build.pad(X, (1, 2), (3, 0)), (1, 2), (6, 9))))
    assert len(bare.src) == 2, "cropped padding needs no predicate"


def test_padding_by_zero_needs_no_select() -> None:
    kernel = only(build.pad(X, (1, 2), (3, 0)))
    assert not any(u.op is Op.WHERE for u in walk([kernel.body]))
    kernel = only(build.pad(X, (1, 2), (3, 0), None, const(1.0, FLOAT32)))
    assert any(u.op is Op.WHERE for u in walk([kernel.body]))


def check_addresses(kernel: IndexedKernel, buffers: list[np.ndarray]) -> None:
    """Every element that is read or written where the predicate holds is in its buffer."""
    for u in walk([kernel.body]):
        if u.op in (Op.LOAD, Op.STORE):
            predicate = u.src[3:] if u.op is Op.STORE else u.src[2:]
            ranges = [r for r in walk([u.src[1], *predicate]) if r.op is Op.RANGE]
            grid = _Grid(ranges, {}, buffers)
            index = grid.evaluate(u.src[1])
            holds = grid.evaluate(predicate[0]) if predicate else np.array(True)
            index, holds = np.broadcast_arrays(index, holds)
            inside = (index >= 0) & (index < u.src[0].size)
            assert (inside | ~holds).all(), u


@given(graphs())
@settings(max_examples=60)
def test_accesses_are_within_bounds(outputs: list[UOp]) -> None:
    function = boundaries.insert_barriers(jaxpr(outputs).function, HOST)
    values = inputs(outputs)
    memory = {u: v.reshape(-1) for u, v in zip(params(outputs), values, strict=True)}
    for kernel in indexed_kernels(function):
        assert isinstance(kernel, IndexedKernel)
        for u in kernel.operands:
            memory.setdefault(u, np.full(u.size, 113, u.dtype))
        buffers = [memory[u] for u in kernel.operands]
        if kernel.body.op is Op.SINK:
            check_addresses(kernel, buffers)
            interpreter.nest(kernel.body, buffers)


# Reductions.


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
def test_reductions(op: Op, dtype: type) -> None:
    x = p(0, 5, 7, 3, dtype=np.dtype(dtype))
    outputs = [build.reduce(x, op, axes) for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2))]
    value = (draw((5, 7, 3), np.dtype(dtype)) * 0.5).astype(dtype)
    for got, expected in zip(run(outputs, [value]), run_oracle(outputs, [value]), strict=True):
        assert_close(got, expected, 1e-2 if dtype is np.float16 else 1e-9)


def test_axes_of_size_1_have_no_range() -> None:
    kernel = only(build.add_up(p(0, 1, 7, 1), (0, 2)))
    sizes = [u.arg.size for u in walk([kernel.body]) if u.op is Op.RANGE]
    assert sizes == [7]
    assert not any(u.op is Op.FOLD for u in walk([kernel.body]))


def test_reductions_of_no_elements() -> None:
    x = p(0, 0, 4)
    outputs = [build.reduce(x, op, (0,)) for op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN)]
    value = np.zeros((0, 4), np.float32)
    for got, expected in zip(run(outputs, [value]), run_oracle(outputs, [value]), strict=True):
        assert_close(got, expected)


CONVOLUTIONS = {
    "plain": (
        (2, 6, 5, 3),
        (2, 3, 3, 4),
        Conv((1, 1), ((0, 0),) * 2, (1, 1), (1, 1), 1, 1, FLOAT32),
    ),
    "strided and dilated": (
        (1, 9, 8, 2),
        (2, 2, 2, 3),
        Conv((2, 3), ((1, 0), (0, 2)), (1, 1), (3, 2), 1, 1, FLOAT32),
    ),
    "spread and cropped": (
        (1, 4, 4, 2),
        (3, 2, 2, 3),
        Conv((1, 2), ((-1, 1), (0, -1)), (2, 3), (1, 1), 1, 1, FLOAT32),
    ),
    "grouped": (
        (2, 4, 4, 6),
        (2, 2, 3, 4),
        Conv((1, 1), ((0, 0),) * 2, (1, 1), (1, 1), 2, 1, FLOAT32),
    ),
    "batch grouped": (
        (4, 4, 4, 3),
        (2, 2, 3, 4),
        Conv((1, 1), ((0, 0),) * 2, (1, 1), (1, 1), 1, 2, FLOAT32),
    ),
    "grouped in both": (
        (4, 4, 4, 6),
        (2, 2, 3, 12),
        Conv((1, 1), ((0, 0),) * 2, (1, 1), (1, 1), 2, 2, FLOAT32),
    ),
    "one axis": ((2, 9, 3), (4, 3, 5), Conv((2,), ((2, 1),), (1,), (1,), 1, 1, FLOAT32)),
    "no places": ((2, 2, 3), (4, 3, 5), Conv((2,), ((0, 0),), (1,), (1,), 1, 1, FLOAT32)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    x, w, arg = CONVOLUTIONS[name]
    u = build.conv(p(0, *x), p(1, *w), arg)
    values = inputs([u])
    assert_close(run([u], values)[0], run_oracle([u], values)[0], 1e-4, 1e-4)


# Irregular access.


@pytest.mark.parametrize("far", [0, 100, -100])
def test_gathers_are_clamped(far: int) -> None:
    x, at = p(0, 6, 5), p(1, 3, 2, dtype=INT32)
    outputs = [
        build.gather(x, at, (2, 3)),
        build.gather(x, build.reshape(at, (3, 2, 1)), (1, 5)),
        build.gather(x, build.reshape(at, (6, 1)), (6, 5)),
        build.gather(x, build.pad(at, (3, 0), (0, 0)), (1, 1)),
    ]
    values = [draw((6, 5), FLOAT32), np.array([[0, 4], [5, 1], [2, 3]], np.int32) + far]
    for got, expected in zip(run(outputs, values), run_oracle(outputs, values), strict=True):
        assert_close(got, expected)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.WHERE])
def test_scatters_update_in_order_and_drop_out_of_bounds(op: Op) -> None:
    x, at, u = p(0, 6, 5), p(1, 4, 1, dtype=INT32), p(2, 4, 2, 5)
    moved = build.scatter(x, at, u, op)
    values = [
        draw((6, 5), FLOAT32),
        np.array([[1], [5], [1], [-1]], np.int32),
        draw((4, 2, 5), FLOAT32, 1),
    ]
    assert_close(run([moved], values)[0], run_oracle([moved], values)[0], 1e-6)
    copied, updated = kernels_of(moved)
    assert loop_nest.in_order(copied.body) == frozenset()
    # The points, and the rows of windows, which overlap.
    assert len(loop_nest.in_order(updated.body)) == 2


@pytest.mark.parametrize("op", [Op.ADD, Op.WHERE])
def test_overlapping_windows_update_in_order(op: Op) -> None:
    """Not element by element of the window, nor by several threads."""
    rng = np.random.default_rng(0)
    x, at, u = p(0, 40, 64), p(1, 30, 2, dtype=INT32), p(2, 30, 6, 64)
    starts = np.stack([rng.integers(0, 35, 30), np.zeros(30)], 1).astype(np.int32)
    values = [draw((40, 64), FLOAT32), starts, draw((30, 6, 64), FLOAT32, 1)]
    moved = build.scatter(x, at, u, op)
    assert_close(run([moved], values)[0], run_oracle([moved], values)[0], 1e-6)
    _, updated = kernels_of(moved)
    assert len(loop_nest.in_order(updated.body)) == 2  # columns are whole: they never overlap
    whole = build.scatter(x, p(1, 30, 1, dtype=INT32), p(2, 30, 1, 64), op)
    assert len(loop_nest.in_order(kernels_of(whole)[1].body)) == 1


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL])
def test_equal_updates_are_all_applied(op: Op) -> None:
    """Nothing in the loop depends on its range: position and value are constants."""
    zero = build.zeros((3, 1), INT32)
    moved = build.scatter(p(0, 4), zero, const(3.0, FLOAT32, (3, 1)), op)
    values = [draw((4,), FLOAT32)]
    assert_close(run([moved], values)[0], run_oracle([moved], values)[0], 1e-6)


def test_scatter_in_batches() -> None:
    x, at, u = p(0, 3, 4), p(1, 3, 5, 1, dtype=INT32), p(2, 3, 5, 1)
    moved = build.scatter(x, at, u, Op.ADD, batch=1)
    values = inputs([moved])
    assert_close(run([moved], values)[0], run_oracle([moved], values)[0], 1e-6)


def test_a_sort_is_a_kernel_with_scratch() -> None:
    kernel = only(*build.sort([p(0, 3, 8), p(1, 3, 8, dtype=INT32)]))
    assert kernel.body.op is Op.TUPLE and kernel.written == 3
    shapes = [u.shape for u in kernel.operands]
    assert shapes == [(3, 8), (3, 8), (3 * 8,), (3, 8), (3, 8)]


def test_no_kernel_for_no_elements() -> None:
    assert kernels_of(p(0, 0, 4) + 1.0) == []
    assert kernels_of(p(0, 4)) == []


def test_equal_kernels_have_one_body() -> None:
    """Bodies have numbered parameters, so that equal kernels are lowered once."""
    x, w = p(0, 8, 8), p(1, 8, 8)
    first, second, _ = kernels_of(matmul(matmul(matmul(x, w), w), w))
    assert first.body is second.body and first.operands != second.operands


def test_the_same_element_is_loaded_once() -> None:
    shifted = build.shrink(p(0, 9), (1,), (9,)) + build.shrink(p(0, 9), (0,), (8,))
    assert len(loads(only(shifted * shifted))) == 2


def chain(layers: int) -> UOp:
    """Layers of a network whose weights are different parameters of one shape."""
    x = p(0, 24, 32)
    for i in range(layers):
        x = build.unary(Op.TANH, matmul(x, p(1 + i, 32, 32)) + 1.0) * 0.5
    return x


def test_kernels_of_equal_layers_are_indexed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sequence[UOp]] = []
    inlined = ranges._inlined

    def inline(barriers: Sequence[UOp]) -> IndexedKernel:
        made.append(barriers)
        return inlined(barriers)

    monkeypatch.setattr(ranges, "_inlined", inline)
    kernels = kernels_of(chain(12))
    assert len(made) <= 3 and len(kernels) >= 12
    assert len({k.body for k in kernels}) == len(made)
    weights = {u for k in kernels for u in k.operands if u.op is Op.PARAM}
    assert len(weights) == 13, "each kernel reads its own operands"


def test_equal_graphs_are_of_equal_operands_only() -> None:
    """One reads an array twice and another two arrays; or arrays of another shape or dtype."""
    x, y, z = p(0, 30), p(1, 30), p(2, 30, dtype=INT32)
    results = [matmul_rows(u, v) for u, v in ((x, x), (x, y), (y, y), (y, x))]
    bodies = [k.body for k in kernels_of(*results, build.add_up(z * z, (0,)))]
    assert len(bodies) == 5 and len(set(bodies)) == 3


def matmul_rows(x: UOp, y: UOp) -> UOp:
    return build.add_up(x * y, (0,))


@settings(max_examples=50)
@given(outputs=graphs())
def test_a_kernel_is_what_it_would_be_by_itself(outputs: list[UOp]) -> None:
    cut = boundaries.insert_barriers(jaxpr(outputs).function, HOST)
    with records.collecting():  # then each is indexed for itself
        alone = indexed_kernels(cut)
    assert indexed_kernels(cut) == alone
