"""Loads and stores in LLVM IR: every stride, mask and predicate, nothing beyond the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.covering import covering
from tests.lower.codegen.render.values import MOVES, WIDTHS, edges, every_width
from tests.lower.graphs import assert_close, device, draw, jaxpr, p, run_compiled, run_oracle
from tfn.dtypes import FLOAT32, FLOAT64, INT32, INT64, REALS, DType, uint8
from tfn.lower.pipeline import lower
from tfn.lower.target.target import Target
from tfn.trace import build


@covering("size, target", [1, 2, 5, 9, 17, 33], WIDTHS)
def test_masked_stores_do_not_write_beyond_the_end(size: int, target: Target) -> None:
    """Narrowed values under masks of a few lanes leave the memory after them unchanged."""
    memory = device(target).memory
    for source in (INT32, FLOAT32, INT64, FLOAT64):
        x = p(0, 3, size, dtype=source)
        kinds = [to for to in REALS if to != source]
        program = lower(jaxpr([build.cast(x, to) for to in kinds]), target)
        ends = [3 * size * to.itemsize for to in kinds]
        rooms = [memory.copy(np.full(end + 64, 113, np.uint8)) for end in ends]
        device(target).load(program)([memory.copy(draw(x.shape, source))], rooms)
        for room, end, to in zip(rooms, ends, kinds, strict=True):
            contents = memory.read(room, (end + 64,), uint8.dtype)
            assert (contents[end:] == 113).all(), (source, to)


@every_width
def test_prefetches(target: Target) -> None:
    """Also beyond the end of a buffer."""
    keys = [p(0, 1, 20_000, dtype=INT32)]
    small = replace(target, l2_bytes=0)
    (kernel,) = lower(jaxpr(list(build.sort(keys))), small).kernels
    assert "call void @llvm.prefetch.p0(ptr %" in kernel.text
    values = [draw((1, 20_000), INT32)]
    assert_close(run_compiled(list(build.sort(keys)), values, small)[0], np.sort(values[0]))


@covering("dtype, target", REALS, WIDTHS, ids=lambda value: getattr(value, "name", None))
def test_accesses_of_every_kind(dtype: DType, target: Target) -> None:
    """Strides 1, 0, -1 and others, masks, predicates and gathers, in loads and in stores."""
    x = p(0, 5, 37, dtype=dtype)
    values = [np.resize(edges(dtype), (5, 37))]
    outputs = [move(x) for move in MOVES.values()]
    for name, got, want in zip(
        MOVES, run_compiled(outputs, values, target), run_oracle(outputs, values), strict=True
    ):
        assert_close(got, want, what=name)
