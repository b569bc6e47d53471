"""Skipping masked tiles: hidden reductions are not run, and no result changes by that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.covering import covering
from tests.lower.check_passes import HOST, SMALL, check_passes
from tests.lower.graphs import inputs, jaxpr, p, run_compiled
from tfn.dtypes import FLOAT32, INT32
from tfn.lower.codegen.masked_tiles import LOADED_BOUND, tile_masks
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.passes import CORES as passes
from tfn.lower.target.target import Target
from tfn.trace import build, oracle
from tfn.trace.argument import Dot
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

both_targets = pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
Mask = Callable[[UOp, UOp], UOp]


def product(m: int, k: int, n: int) -> UOp:
    return UOp(Op.DOT, (p(0, m, k), p(1, k, n)), Dot((1,), (0,), (), (), FLOAT32))


def masked(mask: Mask, m: int = 96, k: int = 12, n: int = 128) -> UOp:
    """A product that is visible where a condition on its rows and columns holds."""
    rows, columns = (build.iota((m, n), axis, INT32) for axis in (0, 1))
    least = const(-1e9, FLOAT32, (m, n))
    return build.where(mask(rows, columns), product(m, k, n), least)


def chosen(output: UOp, target: Target) -> Nest:
    """The nest of a function of one kernel."""
    value = passes.complex_pairs(jaxpr([output]).function, target)
    (stage,) = passes.ranges(passes.boundaries(value, target), target)
    nest: Nest = passes.split(passes.decompose(stage.body, target), target)
    return nest


def skips(output: UOp, target: Target) -> bool:
    """Whether there is a loop that may be skipped."""
    items = passes.linearize(chosen(output, target), target)
    return any(u.op is Op.LEAVE for u in items)


SKIPPING: dict[str, Mask] = {
    "above the diagonal": lambda i, j: j <= i,
    "on it too": lambda i, j: j < i,
    "below": lambda i, j: i <= j,
    "the other way around": lambda i, j: ~(i < j),
    "a band": lambda i, j: (j <= i) & (i - j < const(20, INT32, i.shape)),
    "a corner": lambda i, j: i + j < const(70, INT32, i.shape),
    "a slope": lambda i, j: j * 3 <= i * 2 + 5,
    "columns": lambda i, j: j < const(40, INT32, i.shape),
}
NOT_SKIPPING: dict[str, Mask] = {
    "equality": lambda i, j: build.eq(i, j),
    "always visible": lambda i, j: j < const(1000, INT32, i.shape),
    "wraps around": lambda i, j: j * const(1 << 27, INT32, i.shape) < i,
    "either": lambda i, j: (j <= i) | build.eq(j, const(100, INT32, i.shape)),
}


@covering("name, target", [*SKIPPING, *NOT_SKIPPING], [HOST, SMALL])
def test_masked_tiles_are_skipped(name: str, target: Target) -> None:
    output = masked((SKIPPING | NOT_SKIPPING)[name])
    assert all(skips(output, machine) == (name in SKIPPING) for machine in (HOST, SMALL))
    check_passes(jaxpr([output]), inputs([output]), target)


@covering(
    "name, shape",
    ["above the diagonal", "below", "a band", "a corner"],
    [(1, 300, 7), (3, 5, 2), (65, 31, 129), (67, 64, 17)],
    ids=str,
)
def test_masked_tiles_of_odd_shapes(name: str, shape: tuple[int, int, int]) -> None:
    output = masked(SKIPPING[name], *shape)
    values = inputs([output])
    check_passes(jaxpr([output]), values)
    (want,) = oracle.evaluate([output], {p(0, *shape[:2]): values[0], p(1, *shape[1:]): values[1]})
    np.testing.assert_allclose(run_compiled([output], values)[0], want, rtol=1e-5, atol=1e-5)


def test_hidden_values_may_be_nan_or_inf() -> None:
    output = masked(SKIPPING["above the diagonal"])
    x, y = inputs([output])
    y[:, 96:110] = np.inf
    y[:, 110:] = np.nan
    want = np.where(np.tri(96, 128), x @ np.where(np.isfinite(y), y, 0), np.float32(-1e9))
    np.testing.assert_allclose(run_compiled([output], [x, y])[0], want, rtol=1e-4, atol=1e-4)


def test_reductions_with_an_unmasked_user_are_not_skipped() -> None:
    value = product(96, 48, 128)
    rows, columns = (build.iota((96, 128), axis, INT32) for axis in (0, 1))
    zero = const(0, FLOAT32, value.shape)
    output = build.where(columns <= rows, value, zero) + UOp(Op.ABS, (value,))
    assert not skips(output, HOST)
    more = build.where(columns < rows, value, zero)
    twice = build.where(columns <= rows, value * 2.0, zero) + more
    assert not tile_masks(chosen(twice, HOST).body)  # two masks, of which neither holds for both
    squared = build.where(columns <= rows, value * value, zero)
    (masks,) = tile_masks(chosen(squared, HOST).body).values()
    assert len(masks) == 1


@pytest.mark.parametrize(
    "start", [0, 5, -70, 63, 1000, LOADED_BOUND, -LOADED_BOUND, 2**31 - 3, -(2**31) + 2]
)
def test_mask_offsets_may_be_loaded(start: int) -> None:
    """Offsets with which sums wrap around, as those of NumPy do, skip nothing."""
    first = p(2, dtype=INT32)
    offset = build.broadcast_in_dim(first, (96, 128), ())
    output = masked(lambda i, j: j <= i + offset)
    assert skips(output, HOST)
    x, y, _ = inputs([output])
    values = [x, y, np.array(start, np.int32)]
    check_passes(jaxpr([output]), values)
    with np.errstate(over="ignore"):
        rows, columns = np.arange(96, dtype=np.int32), np.arange(128, dtype=np.int32)
        visible = columns <= rows[:, None] + values[2]
    want = np.where(visible, x @ y, np.float32(-1e9))
    np.testing.assert_allclose(run_compiled([output], values)[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("end", [90, LOADED_BOUND, -LOADED_BOUND, 2**31 - 1])
@pytest.mark.parametrize("size", [40, 0, -LOADED_BOUND])
def test_masks_between_loaded_ends_skip_on_both_sides(end: int, size: int) -> None:
    """As groups of ragged products are, from the end less the size to the end."""
    last, length = (build.broadcast_in_dim(p(i, dtype=INT32), (96, 128), ()) for i in (2, 3))
    output = masked(lambda i, j: (last - length <= j) & (j < last))
    (masks,) = tile_masks(chosen(output, HOST).body).values()
    assert len(masks) == 2
    x, y, *_ = inputs([output])
    check_passes(jaxpr([output]), [x, y, np.array(end, np.int32), np.array(size, np.int32)])
