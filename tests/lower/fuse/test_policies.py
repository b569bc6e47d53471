"""Materialisation policies: values that are stored rather than recomputed, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tfn
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, jaxpr, matmul, p
from tfn import lax
from tfn import numpy as jnp
from tfn.dtypes import INT32, int8
from tfn.exporting.microcontrollers import MICROCONTROLLERS
from tfn.exporting.programs import C_SMALL
from tfn.lower.fuse.analysis import FusionAnalysis
from tfn.lower.fuse.policies import MIN_CACHED_ELEMENTS, read_by_several_kernels
from tfn.lower.pipeline import lower
from tfn.lower.program import Program
from tfn.nn.store import hashing
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

X, Y = p(0, 30, 20), p(1, 30, 20)


def program(outputs: Sequence[UOp]) -> Program:
    return lower(jaxpr(outputs), HOST)


def launches(*outputs: UOp) -> int:
    assert_matches_oracle(outputs)
    return len(program(outputs).launches)


def test_a_sum_of_many_inputs_is_stored() -> None:
    """Each layer of a residual stream reads one value, not all terms that were added before."""
    w = p(0, 20, 20)

    def stream(layers: int) -> UOp:
        x = p(1, 30, 20)
        for _ in range(layers):
            x = x + build.unary(Op.TANH, matmul(x, w))
        return x

    shallow, deep = program([stream(12)]), program([stream(24)])
    most = max(len(launch.operands) for launch in deep.launches)
    assert most <= 7, "not one operand for each layer"
    assert len(deep.kernels) <= len(shallow.kernels) + 1
    assert_matches_oracle([stream(7)], rtol=1e-4, atol=1e-4)


def test_what_kernels_of_other_loops_read_is_stored_before_access_maps_are_made() -> None:
    product = matmul(X, p(1, 20, 20))
    results = [build.add_up(build.unary(Op.TANH, product), (0,)), product + 1.0, product * Y]

    def stored(outputs: list[UOp]) -> set[UOp]:
        found = FusionAnalysis(list(walk(outputs)), frozenset(outputs), set(outputs), {}, 1 << 20)
        return read_by_several_kernels(found)[0]

    assert stored(results) == {product}
    assert not stored(results[1:]), "it may be computed in the loops of both"


def test_a_sum_of_few_inputs_is_recomputed() -> None:
    both = X + Y
    assert launches(build.add_up(both, (0,)), build.add_up(both, (1,))) == 2
    assert np.prod(both.shape) == 600


def test_loop_invariant_values_are_stored() -> None:
    """The angles of positions are computed once, not for every text; cheap ones are recomputed."""
    x, t = p(0, 32, 16, 8), p(1, 16, 8)
    row = build.reshape(t, (1, 16, 8))

    def rotated(angle: UOp) -> int:
        return launches(x * build.expand(angle, x.shape))

    assert rotated(build.unary(Op.COS, row)) == 2
    assert rotated(build.reshape(build.unary(Op.COS, t), (1, 16, 8))) == 2
    assert rotated(row * 2.0) == 1
    few = p(0, 4, 16, 8)
    assert launches(few * build.expand(build.unary(Op.COS, row), few.shape)) == 1
    column = build.unary(Op.COS, p(1, 32, 16, 1))
    assert launches(x * build.expand(column, x.shape)) == 1


@pytest.mark.parametrize("size", (MIN_CACHED_ELEMENTS // 4, 1 << 10, 1 << 16, 1 << 18))
def test_a_function_read_by_several_kernels_is_stored_if_cached(size: int) -> None:
    """Of few elements, and of more than fit the cache, each kernel recomputes it."""
    value = build.unary(Op.EXP, p(0, size))
    outputs = [value * p(1, size), build.flip(value, (0,)) * 2.0]
    bodies = [launch.kernel.source for launch in program(outputs).launches]
    computing = [body for body in bodies if body and any(u.op is Op.EXP for u in walk([body]))]
    cached = MIN_CACHED_ELEMENTS <= size <= HOST.l2_bytes // 2 // 4
    assert (len(bodies), len(computing)) == (2, 1 if cached else 2)
    assert_matches_oracle(outputs, rtol=1e-5)


@pytest.mark.parametrize("readers", (3, 12))
def test_a_function_of_one_number_is_stored_if_many_kernels_read_it(readers: int) -> None:
    """As Adam's powers of the number of the step, of which each kernel would hold the code."""
    factor = build.unary(Op.EXP, p(0))
    shapes = [(100 + i,) if i % 2 else (100 + i, 1) for i in range(readers)]
    outputs = [
        p(i, *shape) * build.expand(build.reshape(factor, (1,) * len(shape)), shape)
        for i, shape in enumerate(shapes, 1)
    ]
    bodies = [launch.kernel.source for launch in program(outputs).launches]
    computing = [body for body in bodies if body and any(u.op is Op.EXP for u in walk([body]))]
    assert len(computing) == (readers if readers == 3 else 1)
    assert_matches_oracle(outputs, rtol=1e-5)


def shifted(x: UOp, counts: int) -> UOp:
    """The sum of a line and of so many lines that it is shifted to."""
    n = x.shape[0]
    total = build.shrink(x, (0,), (n - counts,))
    for i in range(1, counts + 1):
        total = total + build.shrink(x, (i,), (n - counts + i,))
    return total


def test_what_costs_much_is_stored_if_read_at_several_indices() -> None:
    """A stencil of functions computes each once; one of sums recomputes them, as it is cheaper."""
    x = p(0, 4096)
    costly = build.unary(Op.EXP, x * 0.5) * 2.0
    for outputs, kernels in (([shifted(costly, 4)], 2), ([shifted(x * 0.5, 4)], 1)):
        body = program(outputs)
        assert len(body.launches) == kernels
        assert sum(len(launch.operands) for launch in body.launches) == 2 * kernels
        assert_matches_oracle(outputs, rtol=1e-5)
    assert launches(shifted(build.unary(Op.EXP, p(0, MIN_CACHED_ELEMENTS // 2)), 4)) == 1
    large = build.unary(Op.EXP, p(0, 1 << 22) * 0.5)
    assert launches(shifted(large, 4)) == 2, "of memory, a write and a read cost less as well"
    two = shifted(build.unary(Op.EXP, shifted(costly, 3)), 3)
    assert launches(two) == 3


def test_of_a_chain_that_is_read_at_many_indices_the_end_is_stored() -> None:
    x = p(0, 4096)
    outputs = [shifted((x + 1.0) * (x - 2.0), 12)]
    (first, _) = program(outputs).launches
    assert len(first.operands) == 2, "one array is read, and one is written"
    assert_matches_oracle(outputs, rtol=1e-5)


@pytest.mark.parametrize(("step", "count"), [(1, 2), (2, 3)])
def test_windows_with_strides_are_stored_for_two_readers(step: int, count: int) -> None:
    """They read an image several times as large; windows side by side read it once."""
    x = p(0, 21, 21)

    def part(i: int, j: int) -> UOp:
        return build.shrink(x, (i, j), (18 + i, 18 + j), (step, step))

    y = part(0, 0)
    for i, j in ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)):
        y = build.maximum(y, part(i, j))
    flat = build.reshape(y, (y.size,))
    assert launches(flat + 1.0, build.add_up(y, (0,))) == count


def test_padded_windows_with_strides_are_stored_for_two_readers() -> None:
    """An image is as large as one with a border."""
    x = build.pad(p(0, 30, 30), (1, 1), (1, 1))
    y = build.shrink(x, (0, 0), (30, 30), (2, 2))
    for i, j in ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)):
        y = build.maximum(y, build.shrink(x, (i, j), (30 + i, 30 + j), (2, 2)))
    assert launches(build.reshape(y, (y.size,)) + 1.0, build.add_up(y, (0,))) == 3


def test_a_value_without_elements_costs_nothing() -> None:
    """Two kernels read it, and none of what it would be computed of."""
    empty = build.unary(Op.EXP, build.shrink(p(0, 8), (3,), (3,)))
    assert_matches_oracle([build.add_up(empty, (0,)), empty + 1.0, empty * 2.0])


def test_a_sum_of_sums_that_several_kernels_read_is_one_kernel() -> None:
    """The inner sums have one reader, once what is computed of them has a buffer."""
    x, scale = p(0, 200, 6, 32), p(1, 200, 6)
    sums = build.reduce(build.reduce(x * p(2, 200, 6, 32), Op.ADD, (2,)) * scale, Op.ADD, (1,))
    total = build.reduce(sums, Op.MAX, (0,))
    assert launches(sums - build.broadcast_to(total, (200,))) == 3


def test_of_a_value_that_is_widened_the_narrow_one_is_stored() -> None:
    narrow = build.cast(build.unary(Op.TANH, p(0, 40, 64)) * 100.0, int8.dtype)
    wide = build.cast(narrow, INT32)
    rows, columns = (build.reduce(wide, Op.ADD, (axis,)) for axis in (1, 0))
    assert_matches_oracle([rows, columns])
    lowered = program([rows, columns])
    assert (len(lowered.kernels), lowered.arena_bytes) == (3, 40 * 64)


def test_an_epilogue_whose_values_meet_again_ends_at_the_narrowest() -> None:
    """Sums of 32 bits are rounded in the kernel that adds them up: bytes are padded, not sums."""

    def network(x: Any, w: Any) -> Any:
        sums = lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type="int32")
        high, low = sums >> 8, sums & 255
        return lax.pad((high * 3 + ((low * 3) >> 8)).astype("int8"), np.int8(0), [(1, 1, 0)] * 2)

    args = [tfn.ShapeDtypeStruct(s, "int8") for s in ((64, 48), (48, 32))]
    made = lower(tfn.make_jaxpr(network)(*args), HOST)
    assert made.arena_bytes < 2 * 64 * 32 + 1024


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("count, kernels", [(16, 1), (32, 1), (33, 2), (70, 2)])
def test_an_epilogue_is_as_long_as_what_follows_the_sums(
    rows: int, count: int, kernels: int
) -> None:
    """What is computed of a bias beside it, elements of one row too, does not count."""

    def network(x: Any, w: Any, b: Any) -> Any:
        y = x @ w
        for i in range(count):
            y = jnp.maximum(y, b * b + i) if i % 2 else y * 3
        return y

    x, w = (tfn.ShapeDtypeStruct(s, "float32") for s in ((rows, 64), (64, 32)))
    for bias, most in (((32,), kernels), ((1, 32), 2)):
        b = tfn.ShapeDtypeStruct(bias, "float32")
        traced = tfn.make_jaxpr(network)(x, w, b)
        made = lower(traced, MICROCONTROLLERS["cortex-m4"], C_SMALL)
        assert kernels <= len(made.launches) <= most


def test_of_two_contractions_that_are_added_both_end_narrow() -> None:
    """The end of an epilogue does not join the kernel that reads it, nor is the epilogue stored."""

    def network(x: Any, y: Any, w: Any) -> Any:
        dims = (((1,), (0,)), ((), ()))
        sums = [lax.dot_general(a, w, dims, preferred_element_type="int32") for a in (x, y)]
        ends = [((s.clip(-(2**20), 2**20) * 3 + 128) >> 8).astype("int8") for s in sums]
        return ends[0].astype("int32") + ends[1].astype("int32")

    args = [tfn.ShapeDtypeStruct(s, "int8") for s in ((64, 48), (64, 48), (48, 32))]
    made = lower(tfn.make_jaxpr(network)(*args), HOST)
    assert made.arena_bytes <= 2 * 64 * 32 + 64 * 48


def mixed(words: Sequence[UOp], rounds: int) -> list[UOp]:
    """Words that all depend on each other, as those of a hash or of a cipher."""
    words = list(words)
    for i in range(rounds):
        for j in range(len(words)):
            other = words[(j + 1 + i) % len(words)]
            words[j] = build.unary(Op.TANH, words[j] + other) - other
    return words


@pytest.mark.parametrize("count", [2, 8, 16])
def test_results_of_one_recurrence_share_a_kernel(count: int) -> None:
    words = [p(i, 100) for i in range(count)]
    assert launches(*mixed(words, 2)) == 1


def test_results_that_share_values_keep_the_order_of_what_is_between_them() -> None:
    """A product is computed of one, and the other of it: they cannot be one kernel."""
    first, second = mixed([p(0, 20, 20), p(1, 20, 20)], 3)
    assert launches(first, matmul(first, p(2, 20, 20)) + second) == 3


def test_a_result_that_is_reduced_has_a_kernel_of_its_own() -> None:
    first, second = mixed([X, Y], 3)
    assert launches(first, build.add_up(second, (1,))) == 2


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (1, 100)), (0, (100,)), (0, (4, 30)), (1, (3, 70)), (1, (3, 2, 40))]
)
def test_computed_parts_of_a_concatenation_are_stored_by_one_kernel(
    axis: int, shape: tuple[int, ...]
) -> None:
    words = mixed([p(i, *shape) for i in range(6)], 2)
    assert launches(build.concat(words, axis)) == 1


def test_a_hash_of_a_block_is_one_kernel() -> None:
    """784 additions, exclusive ors and rotations of 24 words, each of which has one reader."""
    words = [tfn.ShapeDtypeStruct((1000,), "uint32") for _ in range(24)]
    compress = lambda *x: jnp.stack(hashing._compress(x[:8], x[8:], x[0], x[1], x[2]))
    assert len(lower(tfn.make_jaxpr(compress)(*words), HOST).launches) == 1
