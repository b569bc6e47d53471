"""Masking: total over the ops, and of tails that are NaN nothing is seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import together
from tests.hw.op_table import STRUCTURE
from tests.transforms.cases import CASES, Case, leaf, run
from tfn import lax, tree
from tfn import numpy as jnp
from tfn.buckets.mask import MASK
from tfn.buckets.scope import Masking
from tfn.buckets.unified import Unified, unifications
from tfn.errors import ExportError, ShapeError
from tfn.exporting.symbolic_dims import Scope
from tfn.trace import build
from tfn.trace.jaxpr import Jaxpr, close, inline
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.batch import batch
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

ROWS, BUCKET = 5, 8

REFUSED = {Op.HOST, Op.KERNEL}
"""The ops that take no padded arrays: functions and kernels of the user."""


def slopes(case: Case) -> tuple[list[UOp], dict[UOp, Any]]:
    """The value of a case, and where it has a derivative its tangent and cotangents."""
    leaves, values = case.leaves()
    y = case.graph(*leaves)
    dxs = [leaf(x) for x in case.differentiated]
    values |= {dx: np.ones(dx.shape, dx.dtype) for dx in dxs}
    (dy,) = push([y], dict(zip(leaves, dxs)))
    if dy is None:
        return [y], values
    ct = leaf(np.ones(y.shape, y.dtype))
    values[ct] = np.ones(y.shape, y.dtype)
    return [y, dy, *(c for c in pull([dy], dxs, [ct]) if c is not None)], values


def of_rows(case: Case) -> tuple[Unified, list[np.ndarray[Any, Any]]]:
    """A case of any number of rows, also the sum of its results over them; and five rows."""
    outputs, values = slopes(case)

    def trace(numbers: Any) -> Any:
        n = numbers["n"]
        many = {u: leaf(np.broadcast_to(v, (n, *v.shape))) for u, v in values.items()}
        found = [lanes.full(n) for lanes in batch(outputs, many, n)]
        sums = [build.add_up(y, (0,)) for y in found if y.dtype.kind in "fc"]
        jaxpr, _ = close([*found, *sums], list(many.values()))
        structure = tree.structure([0] * len(jaxpr.outputs))
        return SimpleNamespace(jaxpr=jaxpr, structure=structure, weak=(), captured=())

    rng = np.random.default_rng(2)
    rows = []
    for v in values.values():
        many = np.broadcast_to(v, (ROWS, *v.shape)).copy()
        rows.append(many * rng.uniform(0.9, 1, many.shape) if many.dtype.kind == "f" else many)
    scope = Scope({"n"}, ())
    whole = next(unifications(case.name, trace, scope, {"n": range(1, BUCKET + 1)}))
    if isinstance(whole, Exception):
        raise whole
    return whole, rows


def widened(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with a tail of NaN, or of the largest integers."""
    tail = np.full((BUCKET - len(x), *x.shape[1:]), np.nan if x.dtype.kind in "fc" else 99)
    return np.concatenate([x, tail.astype(x.dtype)])


def applied(f: UOp, values: list[Any]) -> list[np.ndarray[Any, Any]]:
    leaves = [leaf(np.asarray(v)) for v in values]
    return run(inline(Jaxpr(f), leaves), dict(zip(leaves, map(np.asarray, values))))


@together("case", [c for c in CASES if c.op not in STRUCTURE | REFUSED], ids=lambda case: case.name)
def test_rows_and_their_sums_are_those_of_the_true_size(case: Case) -> None:
    whole, rows = of_rows(case)
    masked = Masking(whole, {"n": BUCKET}, MASK).masked(zero=False)
    with np.errstate(all="ignore"):
        found = applied(masked, [np.int32(ROWS), *map(widened, rows)])
        expected = applied(whole.at({"n": ROWS})[-1], rows)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x[tuple(map(slice, y.shape))], y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", [c for c in CASES if c.op in REFUSED], ids=lambda c: c.name)
def test_what_takes_no_padded_arrays_is_refused(case: Case) -> None:
    with pytest.raises((ShapeError, ExportError)):
        Masking(of_rows(case)[0], {"n": BUCKET}, MASK).masked()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 1)]])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_along_a_padded_axis(padding: Any, stride: int) -> None:
    def f(x: Any) -> Any:
        window, layout = jnp.arange(18.0).reshape(3, 3, 2), ("NHC", "HIO", "NHC")
        y = lax.conv_general_dilated(x[None], window, (stride,), padding, dimension_numbers=layout)
        return y[0]

    slope = tfn.grad(lambda x: (f(x) ** 2).mean())
    bucketed = tfn.jit(lambda x: (f(x), slope(x)), buckets={"x": "n _"})
    for n in (5, 6, 7):
        x = jnp.asarray(np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32))
        for found, expected in zip(bucketed(x), (f(x), slope(x)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert bucketed.cache_info().exact == 0


def test_each_op_has_a_rule() -> None:
    assert {case.op for case in CASES} - STRUCTURE <= MASK.keys()
