"""Deinterleaved access: even and odd elements read and written as whole vectors."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.lower.check_passes import HOST, SMALL, check_passes
from tests.lower.graphs import assert_matches_oracle, inputs, jaxpr, p, run_compiled
from tfn.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, INT64, DType, int8, int16
from tfn.lower.codegen.deinterleave import deinterleave
from tfn.lower.passes import CORES as passes
from tfn.lower.target.target import Target
from tfn.trace import build, oracle
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def linear(output: UOp, target: Target = HOST) -> list[UOp]:
    """The instructions of a function of one kernel."""
    value = passes.complex_pairs(jaxpr([output]).function, target)
    (stage,) = passes.ranges(passes.boundaries(value, target), target)
    value = stage.body
    for step in passes.of_kernel(stage.body):
        value = step(value, target)
    return list(value)


def strides(items: list[UOp]) -> list[tuple[Op, int, bool]]:
    """Op and stride of each vector access, and whether it is masked."""
    return [
        (u.op, u.arg.stride, len(u.src) > (2 if u.op is Op.LOAD else 3))
        for u in items
        if u.op in (Op.LOAD, Op.STORE) and u.arg.lanes > 1
    ]


def test_complex_products_load_each_vector_once() -> None:
    x, y = p(0, 64, dtype=COMPLEX64), p(1, 64, dtype=COMPLEX64)
    accesses = Counter(strides(linear(x * y)))
    vectors = 2 * 64 // (HOST.vector_bytes // 4)
    assert accesses == {(Op.LOAD, 1, False): 2 * vectors, (Op.STORE, 1, False): vectors}


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
@pytest.mark.parametrize("shape", [(16,), (37,), (3, 33), (2, 5, 7)], ids=str)
def test_full_and_partial_vectors(shape: tuple[int, ...], target: Target) -> None:
    x, y = p(0, *shape, dtype=COMPLEX64), p(1, *shape, dtype=COMPLEX64)
    outputs = [x * y, build.conj(x) + y]
    values = [
        (np.arange(x.size * 2) - 3.5 * i).astype(np.float32).view(np.complex64).reshape(shape)
        for i in range(2)
    ]
    check_passes(jaxpr(outputs), values, target)
    want = oracle.evaluate(outputs, {x: values[0], y: values[1]})
    for got, expected in zip(run_compiled(outputs, values), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_real_pairs_of_rotary_embeddings() -> None:
    """The even and the odd elements of a row are rotated."""
    x, angle = p(0, 5, 96), p(1, 48)
    even, odd = (
        build.reshape(build.shrink(x, (0, i), (5, 96), (1, 2)), (5, 48, 1)) for i in range(2)
    )
    cosine, sine = (
        build.broadcast_in_dim(UOp(op, (angle,)), (5, 48, 1), (1,)) for op in (Op.COS, Op.SIN)
    )
    turned = build.concat([even * cosine - odd * sine, even * sine + odd * cosine], 2)
    outputs = [build.reshape(turned, (5, 96))]
    values = inputs(outputs)
    check_passes(jaxpr(outputs), values)
    (want,) = oracle.evaluate(outputs, {x: values[0], angle: values[1]})
    np.testing.assert_allclose(run_compiled(outputs, values)[0], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [int8.dtype, int16.dtype, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize(("repeats", "points"), [(3, 2), (4, 2), (5, 3), (7, 4), (13, 3)])
def test_repeated_points_are_stored_as_vectors(repeats: int, points: int, dtype: DType) -> None:
    """Points of few numbers, each several times: the parts of less than a vector are one store."""
    x = p(0, 64, points, dtype=dtype)
    outputs = [build.broadcast_in_dim(x, (64, repeats, points), (0, 2))]
    if dtype.itemsize < 4 and 3 < repeats < 8:
        assert all(stride <= 1 for _, stride, _ in strides(linear(outputs[0])))
    values = [np.arange(64 * points).reshape(64, points).astype(dtype)]
    for target in (HOST, SMALL):
        check_passes(jaxpr(outputs), values, target)
    want = oracle.evaluate(outputs, {x: values[0]})
    np.testing.assert_array_equal(run_compiled(outputs, values)[0], want[0])


BUFFER, OUT = p(0, 64, dtype=FLOAT64), p(1, 64, dtype=FLOAT64)


def test_masks_of_first_lanes_come_once_and_before_loops() -> None:
    """Four lanes of each of three parts: 8 elements, and 4 under the mask that was there."""
    zero, end = (const(i, INT64) for i in (0, 2))
    mask, value = UOp(Op.LANES, (), 8) < 4, const(1.0, FLOAT64, (8,))
    loop = UOp(Op.LOOP, (zero, end), 0)
    stores = [UOp(Op.STORE, (OUT, loop, value, mask), Access(i, 8, 3)) for i in range(3)]
    items = deinterleave([mask, loop, *stores, UOp(Op.END, (loop,))])
    assert len(items) == len(set(items)) and items.index(mask) < items.index(loop)
    written = [(u.arg.offset, len(u.src) > 3) for u in items if u.op is Op.STORE]
    assert written == [(0, False), (8, True)]


BASE = const(0, INT64)


def load(offset: int, stride: int = 2, buffer: UOp = BUFFER) -> UOp:
    return UOp(Op.LOAD, (buffer, BASE), Access(offset, 4, stride))


def store(offset: int, value: UOp, buffer: UOp = OUT) -> UOp:
    return UOp(Op.STORE, (buffer, BASE, value), Access(offset, 4, 2))


def test_accesses_without_a_partner_stay() -> None:
    for items in (
        [load(0, 5)],
        [load(0), load(1), store(0, load(1), BUFFER)],  # their order may matter
        [store(0, load(0, 1)), UOp(Op.LOOP, (BASE, const(3, INT64)), 1), store(1, load(0, 1))],
    ):
        assert deinterleave(items) == tuple(items)


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_a_load_without_the_other_parts_reads_its_stretch_alone(stride: int) -> None:
    merged = deinterleave([load(7, stride)])
    loads = [u.arg for u in merged if u.op is Op.LOAD]
    assert len(loads) == stride and {a.stride for a in loads} == {1}
    assert loads[0].offset == 7 and loads[-1].offset + 4 == 7 + 3 * stride + 1
    assert merged[-1].op is Op.SHUFFLE


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
@pytest.mark.parametrize("dtype", [int8.dtype, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_every_so_many_elements_are_no_gather(stride: int, dtype: DType, target: Target) -> None:
    """Elements to the very end of a buffer, beyond which nothing may be read."""
    x = p(0, 5, 64 * stride + 1, dtype=dtype)
    outputs = [build.shrink(x, (0, stride - 1), (5, 64 * stride), (1, stride)) * 3]
    outputs.append(build.reduce(outputs[0], Op.MAX, (1,)))
    values = [(np.arange(x.size) % 31 - 9).reshape(x.shape).astype(dtype)]
    check_passes(jaxpr(outputs), values, target)
    want = oracle.evaluate(outputs, {x: values[0]})
    for got, expected in zip(run_compiled(outputs, values), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    whole = {each for _, each, masked in strides(linear(outputs[0], target)) if not masked}
    assert whole == {1}


def test_an_access_has_one_partner() -> None:
    merged = deinterleave([load(0), load(1), load(2)])
    pair = [Op.LOAD, Op.LOAD, Op.SHUFFLE]
    assert [u.op for u in merged] == [*pair, Op.SHUFFLE, *pair]
    assert [u.arg.offset for u in merged if u.op is Op.LOAD] == [0, 4, 2, 5]


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_parts_of_a_stretch_are_whole_vectors(stride: int) -> None:
    x = p(0, 7, 20, stride)
    parts = [build.shrink(x, (0, 0, i), (7, 20, i + 1)) for i in range(stride)]
    turned = [a * b - a for a, b in zip(parts, [*parts[1:], parts[0]], strict=True)]
    outputs = [build.concat(turned, 2)]
    values = inputs(outputs)
    check_passes(jaxpr(outputs), values)
    (want,) = oracle.evaluate(outputs, {x: values[0]})
    np.testing.assert_allclose(run_compiled(outputs, values)[0], want, rtol=1e-6)
    whole = {one for _, one, masked in strides(linear(outputs[0])) if not masked}
    assert whole == {1}


def test_stores_are_merged_at_the_later_one() -> None:
    x, y = load(8, 1), load(1, 1)
    items = [x, y, store(1, y), store(0, x)]
    merged = deinterleave(items)
    assert merged[:2] == (x, y) and [u.op for u in merged[2:]] == [Op.SHUFFLE, Op.STORE] * 2
    assert [u.arg for u in merged if u.op is Op.STORE] == [Access(0, 4, 1), Access(4, 4, 1)]
    assert merged[2].arg == (0, 4, 1, 5) and merged[4].arg == (2, 6, 3, 7)
    assert merged[2].src == (x, y)


def blocks(item: UOp) -> bool:
    """Whether a shuffle of two vectors stays within pieces of 16 bytes."""
    size = 16 // item.dtype.itemsize
    n = len(item.arg)
    return all(number % n // size == i // size for i, number in enumerate(item.arg))


@pytest.mark.parametrize("dtype", [COMPLEX64, COMPLEX128], ids=str)
def test_shuffles_of_pairs_stay_within_blocks(dtype: DType) -> None:
    """Lanes have another order, which nothing sees: real parts meet their imaginary parts."""
    x, y = p(0, 256, dtype=dtype), p(1, 256, dtype=dtype)
    shuffles = [u for u in linear(x * y + x) if u.op is Op.SHUFFLE]
    assert shuffles and all(map(blocks, shuffles))
    outputs = [x * y + x, build.conj(x) * y]
    values = [
        (np.arange(512) % 23 - 7.5 * i).astype(x.dtype.type(0).real.dtype).view(dtype)
        for i in range(2)
    ]
    want = oracle.evaluate(outputs, {x: values[0], y: values[1]})
    for got, expected in zip(run_compiled(outputs, values), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    check_passes(jaxpr(outputs), values)


def test_lanes_keep_their_order_beside_other_vectors() -> None:
    """Real numbers beside complex ones, and sums whose lanes are combined at the end."""
    x, scale = p(0, 256, dtype=COMPLEX64), p(1, 256)
    real, imaginary = build.real(x), build.imag(x)
    for output in (real * scale, real * imaginary + build.iota((256,), 0, FLOAT32)):
        shuffles = [u for u in linear(output) if u.op is Op.SHUFFLE]
        assert shuffles and not all(map(blocks, shuffles))
        assert_matches_oracle([output])


def test_lanes_keep_their_order_where_vectors_meet_those_of_other_loops() -> None:
    """Sums of an inner loop, in pairs, that are stored as pairs after it."""
    z, a = p(0, 64, 16), p(1, 16, 2)
    product = UOp(Op.MAX, (build.dot(z, a, ((1,), (0,))), build.full_like(p(2, 64, 2), 0.0)))
    slope = build.dot(build.permute(z, (1, 0)), product, ((1,), (0,)))
    mean = build.add_up(slope, (0,), keepdims=True)
    assert_matches_oracle([product, slope - build.expand(mean, slope.shape)], rtol=1e-4, atol=1e-4)
    x, y = load(0), load(1)
    loop = UOp(Op.LOOP, (BASE, const(3, INT64)), 1)
    after = [store(1, x), store(0, y)]
    merged = deinterleave([x, y, loop, UOp(Op.END, (loop,)), *after])
    assert [u.arg for u in merged if u.op is Op.SHUFFLE][:2] == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert [u.arg for u in merged if u.op is Op.SHUFFLE][2:] == [(0, 4, 1, 5), (2, 6, 3, 7)]


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("lanes", [2, 3, 4, 8])
def test_no_vector_of_a_span_ends_after_it(stride: int, lanes: int) -> None:
    """Of two elements with three between them, a second vector of two would."""
    alone = UOp(Op.LOAD, (p(1, 64), BASE), Access(0, lanes, stride))
    merged = deinterleave([alone])
    loads = [u for u in merged if u.op is Op.LOAD]
    assert len(loads) == len({*loads}) and {u.arg.stride for u in loads} == {1}
    end = stride * (lanes - 1) + 1
    assert max(u.arg.offset + u.arg.lanes for u in loads) == end
    elements = {u: [*range(u.arg.offset, u.arg.offset + lanes)] for u in loads}
    for u in merged:
        if u.op is Op.SHUFFLE:
            both = elements[u.src[0]] + elements[u.src[1]]
            elements[u] = [both[k] for k in u.arg]
    assert elements[merged[-1]] == [*range(0, end, stride)]
