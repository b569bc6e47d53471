"""Vector axes of reductions: products in pairs, lanes after the blocks, vectors rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import covering
from tests.lower.quantised import AVX2, close, draw_bytes, text_of
from tfn.lower import pipeline
from tfn.lower.target.target import Target

SSE = Target("x86_64-unknown-linux-gnu", "x86-64-v2", "+ssse3,+sse4.1", 16, 16)


def by_blocks(q: Any, x: Any, d: Any) -> Any:
    sums = (q.astype("int32") * x.astype("int32")).sum(-1)
    return (sums.astype("float32") * d).sum(-1)


@covering(
    "q, x, rows, blocks, length",
    ["int8", "uint8", "int16"],
    ["int8", "uint8"],
    [1, 3, 64],
    [1, 5, 16],
    [1, 7, 16, 32, 34, 100],
)
def test_scaled_sums_of_products_of_bytes_have_the_values_of_numpy(
    q: str, x: str, rows: int, blocks: int, length: int
) -> None:
    w, v = draw_bytes(q, rows, blocks, length), draw_bytes(x, blocks, length)
    d = np.random.default_rng(1).uniform(0.1, 1, (rows, blocks)).astype("f4")
    exact = (w.astype("i8") * v).sum(-1).astype("i4")
    close(tfn.jit(by_blocks)(w, v, d), (exact * d.astype("f8")).sum(-1))


def test_products_of_bytes_are_added_in_pairs_and_lanes_after_the_blocks() -> None:
    d = np.ones((64, 16), "f4")
    x = draw_bytes("int8", 16, 32)
    text = text_of(by_blocks, draw_bytes("int8", 64, 16, 32), x, d)
    assert "pmadd.wd" in text and "sitofp <8 x i32>" in text


def test_sums_that_may_exceed_what_floats_hold_exactly_are_added_up_as_integers() -> None:
    d = np.ones((64, 16), "f4")
    text = text_of(by_blocks, draw_bytes("int16", 64, 16, 128), draw_bytes("int8", 16, 128), d)
    assert "sitofp <8 x i32>" not in text


def test_a_vector_that_is_rounded_for_each_of_many_rows_is_rounded_once() -> None:
    def f(q: Any, x: Any, d: Any) -> Any:
        return by_blocks(q, tfn.numpy.round(x / (x * x + 1)).astype("int8"), d)

    arrays = draw_bytes("int8", 512, 16, 32), np.ones((16, 32), "f4"), np.ones((512, 16), "f4")
    program = pipeline.lower(tfn.make_jaxpr(f)(*arrays), AVX2)
    assert (len(program.kernels), program.arena_bytes) == (2, 512)


def test_fields_that_are_shifted_by_their_position_are_shifted_by_constants() -> None:
    def f(p: Any, x: Any) -> Any:
        shifts = tfn.numpy.arange(0, 8, 2, dtype="uint8")[:, None]
        fields = (p[:, :, None] >> shifts) & 3
        return fields.reshape(p.shape[0], -1).astype("float32") @ x

    p = draw_bytes("uint8", 256, 8, 32)
    x = np.random.default_rng(1).standard_normal(1024).astype("f4")
    text = text_of(f, p, x)
    assert all(f", splat (i8 {n})" in text for n in (2, 4, 6)) and "and <8 x i8>" in text
    exact = np.stack([(p >> n) & 3 for n in (0, 2, 4, 6)], -2).reshape(256, -1) @ x.astype("f8")
    close(tfn.jit(f)(p, x), exact)


def nibbles_of(raw: Any) -> Any:
    return tfn.numpy.concatenate([raw & 15, raw >> 4], -1)


@covering("rows, blocks, half", [1, 3, 64], [1, 2, 7, 16], [4, 8, 16, 20, 32])
def test_records_of_a_scale_a_minimum_and_nibbles_have_the_values_of_numpy(
    rows: int, blocks: int, half: int
) -> None:
    rng = np.random.default_rng(2)
    scales = rng.uniform(0.1, 1, (rows, blocks, 2)).astype("f2")
    codes = draw_bytes("uint8", rows, blocks, half)
    x = draw_bytes("int8", blocks, 2 * half)

    @tfn.jit
    def product(raw: Any, x: Any) -> Any:
        halves = (raw[..., i : i + 2].view("float16")[..., 0] for i in (0, 2))
        scale, least = (half.astype("float32") for half in halves)
        q, wide = nibbles_of(raw[..., 4:]).astype("int32"), x.astype("int32")
        sums = (q * wide).sum(-1) - 3 * wide.sum(-1)
        return (sums.astype("float32") * scale - least * wide.sum(-1).astype("float32")).sum(-1)

    raw = np.concatenate([scales.view("u1"), codes], -1)
    q = np.concatenate([codes & 15, codes >> 4], -1).astype("f8") - 3
    scale, least = (scales[..., i, None].astype("f8") for i in (0, 1))
    close(product(raw, x), ((q * scale - least) * x).sum((1, 2)))


def test_several_short_blocks_are_in_one_vector() -> None:
    d = np.ones((64, 16), "f4")

    def f(p: Any, x: Any, d: Any) -> Any:
        return by_blocks(nibbles_of(p), x, d)

    text = text_of(f, draw_bytes("uint8", 64, 16, 16), draw_bytes("int8", 16, 32), d)
    assert "pmadd.ub.sw" in text and "load <32 x i8>" in text


def test_what_is_added_to_a_sum_is_in_one_lane_of_each_block() -> None:
    d = np.full((64, 16), 0.5, "f4")

    def f(p: Any, x: Any, d: Any) -> Any:
        sums = (nibbles_of(p).astype("int32") * x.astype("int32")).sum(-1)
        return (sums.astype("float32") * d + d).sum(-1)

    p, x = draw_bytes("uint8", 64, 16, 16), draw_bytes("int8", 16, 32)
    assert "sitofp <8 x i32>" in text_of(f, p, x, d)
    q = np.concatenate([p & 15, p >> 4], -1).astype("f8")
    close(tfn.jit(f)(p, x, d), (q * x).sum((1, 2)) / 2 + 8)


def of_rows(raw: Any, x: Any, d: Any) -> Any:
    """Nibbles of weights, by several rows of bytes at once."""
    sums = (nibbles_of(raw).astype("int32") * x.astype("int32")[:, None]).sum(-1)
    return (sums.astype("float32") * d).sum(-1)


def squares(rows: int, weights: int, blocks: int, half: int) -> list[np.ndarray]:
    d = np.random.default_rng(1).uniform(0.1, 1, (weights, blocks)).astype("f4")
    raw, x = draw_bytes("uint8", weights, blocks, half), draw_bytes("int8", rows, blocks, 2 * half)
    return [raw, x, d]


@covering("rows, weights, blocks, half", [3, 4, 7, 8, 16], [8, 24, 30, 136], [1, 2, 7], [8, 16, 32])
def test_blocks_by_several_rows_have_the_values_of_numpy(
    rows: int, weights: int, blocks: int, half: int
) -> None:
    raw, x, d = squares(rows, weights, blocks, half)
    q = np.concatenate([raw & 15, raw >> 4], -1).astype("f8")
    exact = ((q * x.astype("f8")[:, None]).sum(-1) * d).sum(-1)
    close(tfn.jit(of_rows)(raw, x, d), exact)


@pytest.mark.parametrize("target", [AVX2, SSE], ids=["avx2", "sse"])
@pytest.mark.parametrize(("rows", "half"), [(3, 16), (4, 16), (8, 16), (8, 20)])
def test_blocks_are_transposed_for_several_rows(rows: int, half: int, target: Target) -> None:
    """Then a vector of sums is stored, and no lanes are added up."""
    arguments = squares(rows, 64, 16, half)
    text = str(tfn.show(of_rows, *arguments, at="linear", target=target))
    turned = rows >= 4 and half == 16
    assert ("+ lane] = s0" in text) == turned
