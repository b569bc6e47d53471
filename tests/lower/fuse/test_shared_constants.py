"""Shared constants: kernels that differ in numbers alone are one, and give the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.exporting.building import COMPILERS, in_c, needs_cc
from tests.lower.check_passes import GRID, HOST, check_passes
from tests.lower.graphs import assert_matches_oracle, inputs, jaxpr, matmul, p
from tfn.dtypes import FLOAT32, FLOAT64, DType
from tfn.lower.fuse.shared_constants import MAX_STORED_ARRAYS, MIN_KERNELS_TO_SHARE
from tfn.lower.pipeline import lower
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, walk


def less_sum(x: UOp, *numbers: float) -> UOp:
    """In a kernel of its own, an array less the sums of its rows, scaled and shifted."""
    total = build.expand(build.add_up(x, (1,), keepdims=True), x.shape)
    scale, *shifts = numbers
    for shift in shifts:
        total = total + const(shift, x.dtype, x.shape)
    return UOp(Op.GBARRIER, (x - total * scale,))


def row_sums(x: UOp, numbers: list[float]) -> UOp:
    for number in numbers:
        x = less_sum(x, number)
    return x


def distinct(*outputs: UOp) -> int:
    return len(lower(jaxpr(outputs), HOST).kernels)


def numbers_of(count: int, start: float = 0.01) -> list[float]:
    return [start + 0.001 * i for i in range(count)]


@pytest.mark.parametrize("dtype", (FLOAT32, FLOAT64))
def test_many_kernels_of_one_kind_are_one(dtype: DType) -> None:
    x = p(0, 8, 16, dtype=dtype)
    few, some, more = (distinct(row_sums(x, numbers_of(n))) for n in (MIN_KERNELS_TO_SHARE, 20, 40))
    assert few <= MIN_KERNELS_TO_SHARE + 1
    assert some == more <= 3
    assert_matches_oracle([row_sums(x, numbers_of(20))], rtol=1e-4)


def test_numbers_are_stored_by_several_kernels() -> None:
    u = row_sums(p(0, 3, 5), numbers_of(MAX_STORED_ARRAYS + 20, 0.0101))
    stores = [k for k in lower(jaxpr([u]), HOST).kernels if k.body and len(k.body.src) > 2]
    assert len(stores) == 2
    assert_matches_oracle([u], rtol=1e-3, atol=1e-4)


def test_few_kernels_keep_their_numbers() -> None:
    u = row_sums(p(0, 8, 16), numbers_of(MIN_KERNELS_TO_SHARE - 1))
    bodies = [k.body for k in lower(jaxpr([u]), HOST).kernels]
    assert all(body and not any(_is_number(v) for v in walk([body])) for body in bodies)


def _is_number(u: UOp) -> bool:
    """Whether a node is a load at an index that is the same in all iterations."""
    return u.op is Op.LOAD and u.src[1].op is Op.CONST


@pytest.mark.parametrize("number", (0.0, 1.0, -1.0, 2.0, -0.5, 0.25, 1e39, float("nan")))
def test_simple_numbers_stay_in_the_code(number: float) -> None:
    """They have instructions of their own, or none; the other number of each kernel is loaded."""
    x = p(0, 8, 16)
    for other in numbers_of(6):
        x = less_sum(x, other, number)
    kernels = lower(jaxpr([x]), HOST).kernels
    bodies = [k.body for k in kernels if k.body]
    assert sum(any(map(_is_number, walk([body]))) for body in bodies) == 1
    assert_matches_oracle([x], rtol=1e-3)


def test_only_the_numbers_that_differ_are_loaded() -> None:
    x = p(0, 8, 16)
    for other in numbers_of(6):
        x = less_sum(x, other, 0.7, other + 0.3)
    (shared,) = [k for k in lower(jaxpr([x]), HOST).kernels if k.body and len(k.body.src) == 1]
    assert shared.body
    (shape,) = {u.src[0].arg.shape for u in walk([shared.body]) if _is_number(u)}
    assert shape == (2,)
    assert_matches_oracle([x], rtol=1e-3)


def test_products_of_matrices_keep_their_numbers() -> None:
    x, w = p(0, 32, 32), p(1, 32, 32)
    for number in numbers_of(6, 0.3):
        x = matmul(x, w) * number
    assert distinct(x) == 6


def _chain(x: Any) -> Any:
    for number in numbers_of(12):
        x = tfn.lax.optimization_barrier(x - x.sum(axis=1, keepdims=True) * number)
    return x


X = np.random.default_rng(0).uniform(-1, 1, (6, 10)).astype("f4")


def test_bits_are_those_of_numbers_in_the_code() -> None:
    want = X
    for number in numbers_of(12):
        one = tfn.jit(lambda x, number=number: x - x.sum(axis=1, keepdims=True) * number)
        want = np.asarray(one(want))
    np.testing.assert_array_equal(tfn.jit(_chain)(X), want)


def test_within_a_loop() -> None:
    def f(x: Any) -> Any:
        return tfn.lax.fori_loop(0, 3, lambda _, x: _chain(x), x)

    want = X
    for _ in range(3):
        want = np.asarray(tfn.jit(_chain)(want))
    np.testing.assert_array_equal(tfn.jit(f)(X), want)
    assert np.isfinite(tfn.jit(tfn.grad(lambda x: tnp.sum(_chain(x))))(X)).all()


@pytest.mark.parametrize("target", (HOST, GRID))
def test_each_pass_keeps_the_values(target: Target) -> None:
    outputs = [row_sums(p(0, 4, 8), numbers_of(5))]
    check_passes(jaxpr(outputs), inputs(outputs), target)


@needs_cc
def test_in_exported_c(tmp_path: Path) -> None:
    (result,) = in_c(_chain, X, folder=tmp_path, compiler=COMPILERS[:1])
    np.testing.assert_allclose(result, tfn.jit(_chain)(X), rtol=1e-5)


def test_serialized() -> None:
    saved = tfn.export.serialize(_chain, tfn.ShapeDtypeStruct(X.shape, "float32"))
    np.testing.assert_array_equal(tfn.export.deserialize(saved)(X), tfn.jit(_chain)(X))
