"""Kernel boundaries: the number of kernels, required barriers, policies, an order to run in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_close, draw, jaxpr, matmul, p, params, run_oracle
from tests.lower.random_graphs import graphs
from tfn.dtypes import FLOAT32, INT32
from tfn.lower import pipeline
from tfn.lower.fuse import ranges
from tfn.lower.fuse.analysis import OWN_KERNEL, REDUCTIONS, VIEW_OPS
from tfn.lower.fuse.boundaries import insert_barriers, required
from tfn.lower.fuse.policies import MAX_KERNEL_INSTRUCTIONS, REDUCTION_INSTRUCTIONS
from tfn.lower.math.decompose import INSTRUCTIONS
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.records import collecting
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, walk


def f32(*shape: int) -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, "float32")


def i32(*shape: int) -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, "int32")


def kernels_of(f: Callable[..., Any], *args: Any) -> list[ranges.IndexedKernel]:
    return ranges.indexed_kernels(insert_barriers(tfn.make_jaxpr(f)(*args).function, HOST))


def softmax(x: Any) -> Any:
    e = tnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: Any) -> Any:
    x = x - x.max(-1, keepdims=True)
    return x - tnp.log(tnp.exp(x).sum(-1, keepdims=True))


def loss(x: Any, labels: Any) -> Any:
    return -tnp.take_along_axis(log_softmax(x), labels[:, None], -1).mean()


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / tnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def rmsnorm(x: Any, scale: Any) -> Any:
    return x / tnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def standardize(x: Any) -> Any:
    return (x - x.mean(0)) / x.std(0)


def dense(x: Any, w: Any, b: Any) -> Any:
    return tnp.maximum(x @ w + b, 0)


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.01 * m / (tnp.sqrt(v) + 1e-8), m, v


def train(w: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
    return adam(w, m, v, tfn.grad(lambda w: ((x @ w - y) ** 2).sum())(w))


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: (f(*args) ** 2).sum()


X, ROW = f32(32, 64), f32(64)
# fmt: off
PROGRAMS: dict[str, tuple[int, Callable[..., Any], Sequence[Any]]] = {
    "elementwise": (1, lambda x: tnp.tanh(x) * 2 + 1, [X]),
    "softmax": (1, softmax, [X]),
    "softmax of many axes": (1, softmax, [f32(2, 3, 5, 7)]),
    "log softmax": (1, log_softmax, [X]),
    "layernorm": (1, layernorm, [X, ROW, ROW]),
    "rmsnorm": (1, rmsnorm, [X, ROW]),
    "a normalized layer": (1, lambda x: rmsnorm(softmax(x) + x, 2.0), [X]),
    "gradient of softmax": (1, tfn.grad(lambda x: (softmax(x) * x).sum()), [X]),
    "gradient of log softmax": (1, tfn.grad(lambda x: (log_softmax(x) * x).sum()), [X]),
    "gradient of layernorm": (1, tfn.grad(total(layernorm)), [X, ROW, ROW]),
    "standardize": (2, standardize, [X]),
    "gradient of standardize": (3, tfn.grad(total(standardize)), [X]),
    "gradients of rmsnorm": (3, tfn.grad(total(rmsnorm), (0, 1)), [X, ROW]),
    "gradients of layernorm": (4, tfn.grad(total(layernorm), (0, 1, 2)), [X, ROW, ROW]),
    "loss": (2, loss, [X, i32(32)]),
    "gradient of loss": (3, tfn.grad(loss), [X, i32(32)]),
    "adam": (1, adam, [X] * 4),
    "a gradient into its update": (2, train, [f32(64, 48)] * 3 + [X, f32(32, 48)]),
    "matmul with an epilogue": (1, dense, [X, f32(64, 48), f32(48)]),
    "matmul with a prologue": (2, lambda x, w: (x * 2 - 1) @ w, [X, f32(64, 48)]),
    "two dots": (2, lambda x, w, v: (x @ w) @ v, [X, f32(64, 48), f32(48, 40)]),
    "gradients of a layer": (4, tfn.grad(lambda w, b, x: (dense(x, w, b) ** 2).sum(), (0, 1)),
                             [f32(64, 48), f32(48), X]),
    "attention": (4, lambda q, k, v: softmax(q @ k.T) @ v, [X] * 3),
    "transposed": (1, lambda x: x.T + 1, [X]),
    "regrouped": (1, lambda x: x.reshape(64, 32) * 2, [X]),
    "embedding": (1, lambda table, at: table[at] * 2, [X, i32(9)]),
    "gradient of an embedding": (2, tfn.grad(lambda table, at: (table[at] ** 2).sum()),
                                 [X, i32(9)]),
    "mean and deviation": (2, lambda x: (x.mean(), x.std()), [X]),
    "position of the largest": (1, lambda x: tnp.argmax(x, -1), [X]),
    "the largest, and where": (1, lambda x: (x.max(1), x.argmax(1)), [X]),
    "the largest, and where, in columns": (1, lambda x: (x.argmax(0), x.min(0)), [X]),
    "positions in columns": (1, lambda x: tnp.argmin(tnp.exp(x), 0), [X]),
    "position of the largest of many": (3, lambda x: tnp.argmax(tnp.exp(x) * 2), [f32(1 << 16)]),
    "sparse gather": (1, lambda x, at: tnp.tanh(x)[at, at], [X, i32(9)]),
    "running sums of columns": (1, lambda x: tnp.cumsum(x, 0), [X]),
    "running sums of rows, turned": (3, lambda x: tnp.cumsum(x, -1), [X]),
    "nothing": (0, lambda x: x, [X]),
}
# fmt: on


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_kernels(name: str) -> None:
    most, f, args = PROGRAMS[name]
    assert len(kernels_of(f, *args)) <= most


def test_values_of_the_same_loops_share_a_kernel() -> None:
    (kernel,) = kernels_of(adam, *[X] * 4)
    assert kernel.written == 3
    update = kernels_of(train, *[f32(64, 48)] * 3, X, f32(32, 48))[-1]
    assert update.written == 3
    statistics, _ = kernels_of(standardize, X)
    assert {u.shape for u in statistics.operands[: statistics.written]} == {(64,)}


def test_weight_and_bias_gradients_read_one_buffer() -> None:
    """The error of a layer is computed once, for two contractions and a sum."""
    f = tfn.grad(lambda w, b, x: (dense(x, w, b) ** 2).sum(), (0, 1))
    *_, second, third = kernels_of(f, f32(64, 48), f32(48), X)
    shared = [u for u in second.operands if u in third.operands and u.op is Op.GBARRIER]
    assert [u.shape for u in shared] == [(32, 48)]


# Legality.


def test_required_barriers() -> None:
    x, at = p(0, 5, 7), p(1, 3, 1, dtype=INT32)
    e = build.unary(Op.EXP, x)
    assert {*required([e * 2.0, x])} == {e * 2.0}  # an output; a parameter is there already
    barrier = UOp(Op.GBARRIER, (e,))
    assert {*required([barrier + 1.0])} == {barrier, barrier + 1.0}
    scattered = build.scatter(e, at, build.gather(e, at, (1, 7)), Op.ADD)
    assert {*required([scattered * 2.0])} == {scattered, scattered * 2.0}
    keys, values = build.sort([e, x])
    assert {*required([keys + values])} == {e, keys, values, keys + values}


def barriers(function: UOp) -> dict[UOp, int]:
    return {u: u.arg for u in walk(function.src) if u.op is Op.GBARRIER}


def test_policies_add_to_required_barriers() -> None:
    x, w = p(0, 9, 20), p(1, 20, 17)
    product = matmul(build.unary(Op.EXP, x), w)
    outputs = [build.add_up(product, (0,))]
    assert len(required(outputs)) == 1
    function = barriers(insert_barriers(jaxpr(outputs).function, HOST))
    assert [u.shape for u in function] == [(9, 20), (9, 17), (17,)]


def test_reductions_read_by_a_scatter_are_materialised() -> None:
    """They would be recomputed for each window."""
    x, at, u = p(0, 4, 6), p(1, 9, 3, dtype=INT32), p(2, 9, 6, 2)
    index = build.reshape(build.add_up(at, (1,)), (9, 1))
    updates = build.reshape(build.add_up(u, (2,)), (9, 1, 6))
    function = insert_barriers(jaxpr([build.scatter(x, index, updates, Op.ADD)]).function, HOST)
    assert len(barriers(function)) == 3


# Policy.


def test_values_read_at_many_indices_are_materialised() -> None:
    x = p(0, 100)
    expensive = build.unary(Op.TANH, x)
    windows = [build.shrink(expensive, (i,), (80 + i,)) for i in range(12)]
    smooth = windows[0]
    for u in windows[1:]:
        smooth = smooth + u
    assert list(barriers(insert_barriers(jaxpr([smooth]).function, HOST)).values()) == [0, 1]
    two = windows[0] + windows[1]
    assert list(barriers(insert_barriers(jaxpr([two]).function, HOST)).values()) == [0]


def test_random_bits_read_by_two_kernels_are_materialised() -> None:
    def f(key: Any) -> Any:
        u = tfn.random.uniform(key, (32, 64))
        return u.sum(0), u.sum(1)

    key = tfn.random.key_data(tfn.random.key(0))
    bodies = kernels_of(lambda data: f(tfn.random.wrap_key_data(data)), key)
    hashing = [s for s in bodies if any(u.op is Op.THREEFRY for u in walk([s.body]))]
    assert len(hashing) == 1


def instructions(kernel: ranges.IndexedKernel) -> int:
    """Of values alone: `boundaries` does not count those of addresses."""
    return sum(INSTRUCTIONS[u.op] for u in walk([kernel.body]) if u.dtype == FLOAT32)


def test_a_long_chain_is_cut_into_equal_kernels() -> None:
    y, w, v = (p(i, 50, 20) for i in range(3))
    for _ in range(1667):
        y = build.maximum(y * 1.01, w) - v
    cut = ranges.indexed_kernels(insert_barriers(jaxpr([y]).function, HOST))
    assert sum(map(instructions, cut)) == 5001
    assert all(instructions(kernel) <= MAX_KERNEL_INSTRUCTIONS for kernel in cut)
    assert len(cut) <= 2 * 5001 / MAX_KERNEL_INSTRUCTIONS + 1
    program = pipeline.lower(jaxpr([y]), HOST)
    assert len(program.launches) == len(cut)
    assert len(program.kernels) == 2  # the last is shorter


def test_cuts_have_few_live_values() -> None:
    x = p(0, 50, 20)
    y = x
    for _ in range(20):  # between two blocks one value is live, in a block many
        parts = [y * float(i) for i in range(40)]
        y = parts[0]
        for part in parts[1:]:
            y = y + part
    cut = ranges.indexed_kernels(insert_barriers(jaxpr([y]).function, HOST))
    assert len(cut) > 1 or sum(map(instructions, cut)) <= MAX_KERNEL_INSTRUCTIONS
    assert all(kernel.written == 1 for kernel in cut)


def test_a_kernel_has_a_limited_number_of_reductions() -> None:
    x, y = p(0, 6, 4), p(1, 6)
    for i in range(100):
        column = build.reshape(y + float(i), (6, 1))
        y = y + build.add_up(x * build.broadcast_to(column, (6, 4)), (1,))
    cut = ranges.indexed_kernels(insert_barriers(jaxpr([y]).function, HOST))
    folds = [sum(u.op is Op.FOLD for u in walk([kernel.body])) for kernel in cut]
    most = MAX_KERNEL_INSTRUCTIONS // REDUCTION_INSTRUCTIONS
    assert sum(folds) == 100 and max(folds) <= most and len(cut) <= 2 * 100 / most + 2


# Any graph.


def dependencies_of(function: UOp) -> dict[int, set[int]]:
    """For each kernel the kernels whose values it reads."""
    numbers: dict[int, set[int]] = {}
    for barrier, number in barriers(function).items():
        dependencies = numbers.setdefault(number, set())
        stack = [barrier.src[0]]
        seen: set[UOp] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op is Op.GBARRIER and node.arg != number:
                dependencies.add(node.arg)
            else:
                stack.extend(node.src)
    return numbers


@given(graphs())
@settings(max_examples=60)
def test_any_graph_has_an_order_of_kernels(outputs: list[UOp]) -> None:
    function = insert_barriers(jaxpr(outputs).function, HOST)
    check(function.src, Stage.KERNELS)
    shapes: dict[int, set[tuple[int, ...]]] = {}
    for u, number in barriers(function).items():
        shapes.setdefault(number, set()).add(u.shape)
    assert all(len(own) == 1 for own in shapes.values())  # one set of loops
    dependencies = dependencies_of(function)
    scheduled: set[int] = set()
    while dependencies:
        ready = {n for n, others in dependencies.items() if others <= scheduled}
        assert ready, f"kernels depend on each other: {dependencies}"
        scheduled |= ready
        dependencies = {n: others for n, others in dependencies.items() if n not in ready}
    values = [draw(u.shape, u.dtype, i) for i, u in enumerate(params(outputs))]
    for got, expected in zip(
        run_oracle(function.src, values), run_oracle(outputs, values), strict=True
    ):
        assert_close(got, expected, 1e-3, 1e-3)
    assert insert_barriers(jaxpr(outputs).function, HOST) is function


@given(graphs())
@settings(max_examples=40)
def test_values_are_written_before_they_are_read(outputs: list[UOp]) -> None:
    written: set[UOp] = set()
    for kernel in ranges.indexed_kernels(insert_barriers(jaxpr(outputs).function, HOST)):
        for u in kernel.operands[kernel.written :]:
            sized = u.op is Op.GBARRIER and np.prod(u.shape)
            scratch = u.op is Op.GBARRIER and u.src[0].op is Op.CONST
            assert not sized or scratch or u in written
        written.update(kernel.operands[: kernel.written])


def test_reductions_of_no_or_one_element() -> None:
    for shape in ((0, 4), (4, 0), (1, 1), (1, 7), (7, 1)):
        x = p(0, *shape)
        outputs = [build.add_up(x, (0,)), build.add_up(x, (1,)), build.add_up(x, (0, 1))]
        function = insert_barriers(jaxpr(outputs).function, HOST)
        values = [draw(shape, FLOAT32)]
        for got, expected in zip(run_oracle(function.src, values), run_oracle(outputs, values)):
            assert_close(got, expected, 1e-6, 1e-6)


def test_weights() -> None:
    x = p(0, 3)
    assert INSTRUCTIONS[x.op] == 0
    assert INSTRUCTIONS[(x + 1.0).op] == 1
    assert INSTRUCTIONS[Op.ERF] > INSTRUCTIONS[(x + 1.0).op]
    assert VIEW_OPS.isdisjoint(REDUCTIONS | OWN_KERNEL)


@pytest.mark.parametrize(("parts", "count"), [(2, 1), (3, 4)])
def test_expensive_parts_of_a_concat_are_materialised(parts: int, count: int) -> None:
    """Every element of a kernel runs through the instructions of all parts."""

    def waves(x: Any) -> Any:
        return tnp.concatenate([tnp.sin(x * (i + 1)) for i in range(parts)], -1)

    assert len(kernels_of(waves, f32(100, 3))) == count


def test_updates_computed_of_their_operand_are_materialised() -> None:
    """Then the other elements may be updated in place."""
    row = lambda table, i: table.at[i + 1].set(table[i] * 2)
    assert len(kernels_of(row, f32(40, 300), 3)) == 3
    assert len(kernels_of(lambda table, i: table.at[i].set(i), f32(40, 300), 3)) == 2


def layer_norm_gradient(x: Any, w: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        y = (x - x.mean(-1, keepdims=True)) / tnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return (tnp.tanh(y @ w) ** 2).sum()

    return tfn.grad(loss, (0, 1))(x, w)


@pytest.mark.parametrize("product", ["nqs,nrs->nqr", "nqr,nrs->nqs"])
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (3, 1), (7, 1), (8, 2)])
def test_products_of_few_rows_take_gathered_rows_in_their_loops(
    rows: int, count: int, product: str
) -> None:
    """Of keys and values in pages, a copy would be written and read again for each product."""
    x = np.linspace(-1, 1, 2 * rows * 64, dtype=np.float32).reshape(2, rows, 64)
    pages = np.arange(9 * 32 * 64, dtype=np.float16).reshape(9, 32, 64) % 13
    table = np.array([[7, 2], [5, 7]], np.int32)
    seen = np.arange(64) < 50

    def attend(np: Any, x: Any, pages: Any, table: Any) -> Any:
        held = pages[table].reshape(2, 64, 64).astype("float32")
        return np.einsum(product, x, np.where(seen[:, None], held, 0))

    f = partial(attend, tnp)
    assert len(kernels_of(f, x, pages, table)) == count
    expected = attend(np, x.astype("float64"), pages, table)
    np.testing.assert_allclose(tfn.jit(f)(x, pages, table), expected, rtol=1e-5, atol=1e-4)


def test_each_boundary_has_a_reason() -> None:
    function = tfn.make_jaxpr(layer_norm_gradient)(f32(64, 128), f32(128, 512)).function
    insert_barriers(function, HOST)
    with collecting() as records:
        cut = insert_barriers(function, HOST)  # recorded, although it is in the cache
    assert cut is insert_barriers(function, HOST)
    placed = {one.before for one in records if one.rule == "barrier"}
    reasons = {one.before: (one.rule, one.reason) for one in records if one.reason}
    assert {one.after for one in records if one.rule == "barrier"} == {
        u for u in walk(cut.src) if u.op is Op.GBARRIER
    }
    assert placed <= reasons.keys()
    assert {rule for rule, _ in reasons.values()} >= {"required", "unfused-reductions"}


def test_a_reason_names_both_costs() -> None:
    def f(x: Any) -> Any:
        y = tnp.sin(x) * tnp.cos(x)
        return y.sum(0), y.sum(1)

    with collecting() as records:
        insert_barriers(tfn.make_jaxpr(f)(f32(64, 8)).function, HOST)
    (reason,) = [one.reason for one in records if one.rule == "expensive-to-recompute"]
    assert "kernels read it" in reason and "(limit 30)" in reason


def test_reasons_of_barriers_that_are_required() -> None:
    def f(x: Any, i: Any) -> Any:
        return tnp.sort(x * 2) + 1, x.at[i].add(x + 1) * 2

    with collecting() as records:
        insert_barriers(tfn.make_jaxpr(f)(f32(64), i32(64)).function, HOST)
    reasons = " ".join(one.reason for one in records if one.rule == "required")
    assert "operand of a sort" in reasons and "result of a sort" in reasons
    assert "a scatter updates its buffer" in reasons
