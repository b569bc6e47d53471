"""Scans in blocks: which scans, their kernels, and their values along every axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.check_passes import GRID, HOST, SMALL, check_passes
from tests.lower.graphs import draw, inputs, jaxpr, p, run_oracle
from tfn.dtypes import FLOAT32, FLOAT64, INT32
from tfn.lower import pipeline
from tfn.lower.graph import block_scan
from tfn.lower.graph.block_scan import monoid, scan_in_blocks, scan_in_place
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.argument import Param, Recur, Scan
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, walk


def along(x: UOp, axis: int, op: Op = Op.ADD, reverse: bool = False) -> UOp:
    """All prefixes along an axis, as `lax.cumsum` makes them."""
    line = build.moveaxis(x, axis, 0)
    line = build.flip(line, (0,)) if reverse else line
    out = running(line, op)
    return build.moveaxis(build.flip(out, (0,)) if reverse else out, 0, axis)


def recurrence(a: UOp, b: UOp, *, reverse: bool = False, associative: bool = True) -> Sequence[UOp]:
    """``y = a * y + b`` as an associative scan of pairs: last a, b, all a, all b."""
    shape = a.shape[1:]
    params = tuple(Param(i, shape, FLOAT32) for i in range(4))
    a0, b0, a1, b1 = map(param, params)
    pair = [a0 * a1, a1 * b0 + b1]
    start = [const(1.0, FLOAT32, shape), const(0.0, FLOAT32, shape)]
    arg = Scan(a.shape[0], reverse, 0, 2, associative)
    body = function([*pair, *pair], params)
    return build.several(UOp(Op.SCAN, (body, *start, a, b), arg))


def node_of(u: UOp) -> UOp:
    return next(v for v in walk([u]) if v.op is Op.SCAN)


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that short lines have many, on several levels."""
    for name, value in {
        "GROUP_BLOCK_ELEMENTS": 8,
        "MIN_GROUP_BLOCKS": 2,
        "MIN_GROUP_ELEMENTS": 4,
        "THREAD_BLOCK_ELEMENTS": 3,
        "MIN_THREAD_ELEMENTS": 4,
    }.items():
        monkeypatch.setattr(block_scan, name, value)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 97, 1), (2, 64, 3), (3, 17, 11), (1, 5, 1), (2, 301, 9)])
def test_values_along_every_axis(
    shape: tuple[int, ...], reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    for op, dtype in ((Op.ADD, FLOAT32), (Op.MAX, INT32)):
        outputs = [along(p(0, *shape, dtype=dtype), 1, op, reverse)]
        check_passes(jaxpr(outputs), inputs(outputs), GRID, tolerance=1e-4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(97,), (10, 5), (129, 20)])
def test_other_associative_functions(
    shape: tuple[int, ...], reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    outputs = list(recurrence(p(0, *shape), p(1, *shape), reverse=reverse))
    values = [draw(shape, FLOAT32, i) * 0.5 for i in range(2)]
    check_passes(jaxpr(outputs), values, GRID, tolerance=1e-4)


def test_the_kernels_of_a_long_line() -> None:
    """Totals, their scan by one group, and a scan of each block by a group."""
    program = pipeline.lower(jaxpr([along(p(0, 1 << 20), 0)]), GRID)
    shapes = [(k.kernel.tiles, k.kernel.threads) for k in program.launches]
    assert shapes == [(511, 128), (1, 64), (512, 256)]
    (arg,) = {u.arg for u in walk([program.launches[-1].kernel.body]) if u.op is Op.RECUR}
    assert arg == Recur(1, 1, False, threads=256, elements=8)
    assert program.arena_bytes == 2 * 2048  # of the totals


def test_lines_are_read_and_written_where_they_lie() -> None:
    """No transpose is a kernel, whatever the axis."""
    for axis in range(3):
        for reverse in (False, True):
            x = p(0, 130, 140, 150)
            program = pipeline.lower(jaxpr([along(x, axis, reverse=reverse)]), GRID)
            kinds = [k.kernel.body.src[0].op for k in program.launches]
            assert kinds == [Op.RECUR], (axis, reverse, kinds)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 40), 1), ((33, 37), 1), ((2, 33, 20), 1), ((3, 4, 35), 2)]
)
def test_a_processor_reads_lines_where_they_lie(
    shape: tuple[int, ...], axis: int, reverse: bool
) -> None:
    for target in (HOST, SMALL):
        for op, dtype in ((Op.ADD, FLOAT32), (Op.MAX, INT32), (Op.MUL, FLOAT64)):
            outputs = [along(p(0, *shape, dtype=dtype), axis, op, reverse)]
            kernels = check_passes(jaxpr(outputs), inputs(outputs), target, tolerance=1e-4)
            assert [k.body.src[0].op for k in kernels] == [Op.RECUR], (target.cpu, dtype)


def test_short_lines_of_a_processor_are_copied() -> None:
    def stays(u: UOp) -> bool:
        return scan_in_place(node_of(u), HOST) is None

    assert stays(along(p(0, 50, 31), 1)) and not stays(along(p(0, 50, 32), 1))
    # Lines a few elements apart fill no vectors, and are no squares.
    assert stays(along(p(0, 50, 64, 3), 1)) and not stays(along(p(0, 50, 64, 16), 1))
    assert stays(along(p(0, 0, 64), 1))


def prefixes(*arrays: UOp, axis: int) -> list[UOp]:
    """All prefixes of ``y = a * y + b`` as `lax.associative_scan` makes them, from the first on."""
    a, b = (build.moveaxis(x, axis, 0) for x in arrays)

    def rows(x: UOp, start: int, stop: int) -> UOp:
        return build.shrink(x, (start, *(0,) * (x.ndim - 1)), (stop, *x.shape[1:]))

    n, shape = a.shape[0], a.shape[1:]
    params = tuple(Param(i, shape, FLOAT32) for i in range(4))
    a0, b0, a1, b1 = map(param, params)
    pair = [a0 * a1, a1 * b0 + b1]
    firsts = [build.reshape(rows(x, 0, 1), shape) for x in (a, b)]
    later = [rows(x, 1, n) for x in (a, b)]
    arg = Scan(n - 1, False, 0, 2, associative=True)
    results = build.several(UOp(Op.SCAN, (function([*pair, *pair], params), *firsts, *later), arg))
    whole = [
        UOp(Op.CONCAT, (build.reshape(first, (1, *shape)), y), 0)
        for first, y in zip(firsts, results[2:], strict=True)
    ]
    return [build.moveaxis(UOp(Op.GBARRIER, (y,)), 0, axis) for y in whole] + results[:2]


@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 33), 0), ((3, 9), 0), ((5, 33, 20), 1), ((13, 35), 1)]
)
def test_a_processor_writes_prefixes_behind_the_first(shape: tuple[int, ...], axis: int) -> None:
    outputs = prefixes(p(0, *shape), p(1, *shape), axis=axis)
    values = [draw(shape, FLOAT32, i) * 0.5 for i in range(2)]
    for target in (HOST, SMALL):
        program = pipeline.lower(jaxpr(outputs[:2]), target)
        # The first elements, then the others: parts of one kernel that is not copied.
        takes = [k.kernel.body for k in program.launches]
        assert {u.op for u in takes} == {Op.SINK} and len(takes) == 2, target.cpu
        check_passes(jaxpr(outputs), values, target, tolerance=1e-4)


def test_columns_side_by_side_are_left_to_threads() -> None:
    kernel = pipeline.lower(jaxpr([along(p(0, 500, 100), 0)]), GRID).kernels[-1]
    assert (kernel.tiles, kernel.threads) == (-(-100 * -(-500 // 32) // 256), 256)
    assert not kernel.local_bytes
    (kernel,) = pipeline.lower(jaxpr([along(p(0, 5000, 100), 1)]), GRID).kernels
    assert kernel.tiles == 5000 and kernel.local_bytes


def test_scans_that_stay_loops() -> None:
    def stays(u: UOp) -> bool:
        return scan_in_blocks(node_of(u), GRID) is None

    x, y = p(0, 1000), p(1, 1000)
    assert not stays(running(x, Op.ADD)) and not stays(recurrence(x, y)[0])
    assert scan_in_place(node_of(running(x, Op.ADD)), HOST) is None
    assert stays(recurrence(x, y, associative=False)[0])
    assert stays(running(p(0, 10), Op.ADD)) and stays(running(p(0, 1000, 0), Op.ADD))
    # A body over whole matrices is no function of single elements.
    params = (Param(0, (3, 3), FLOAT32), Param(1, (3, 3), FLOAT32))
    product = build.dot(param(params[1]), param(params[0]), ((1,), (0,)), ((), ()), FLOAT32)
    body = function([product, product], params)
    arg = Scan(1000, False, 0, 1, associative=True)
    eye = const(1.0, FLOAT32, (3, 3))
    assert scan_in_blocks(UOp(Op.SCAN, (body, eye, p(0, 1000, 3, 3)), arg), GRID) is None


def test_monoids_are_recognised() -> None:
    assert monoid(node_of(running(p(0, 9), Op.MIN))) is Op.MIN
    assert monoid(node_of(recurrence(p(0, 9), p(1, 9))[0])) is None
    params = (Param(0, (), FLOAT32), Param(1, (), FLOAT32))
    c, x = map(param, params)
    for outputs in ([c + x, c], [c + c, c + c], [c - x, c - x]):
        results = build.scan(function(outputs, params), [], [const(0.0, FLOAT32)], [p(0, 9)], 9)
        assert monoid(results[0].src[0]) is None


def test_the_last_carry_is_the_last_prefix() -> None:
    x = np.arange(300, dtype=np.float32)
    node = node_of(running(p(0, 300), Op.ADD))
    results = scan_in_blocks(node, GRID)
    assert results is not None
    last, prefixes = run_oracle(results, [x])
    assert float(last) == x.sum() and np.array_equal(prefixes, np.cumsum(x))
