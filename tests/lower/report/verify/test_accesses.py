"""Bounds verifier: proved accesses stay in bounds when they run, wrong ones are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import draw, jaxpr, p
from tests.lower.random_graphs import LOOPS, STEPS, graphs
from tfn.dtypes import FLOAT32, INT32, INT64, UINT64
from tfn.errors import MissingPackageError
from tfn.lower import pipeline
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.sort import sort
from tfn.lower.index import solver
from tfn.lower.program import Kernel
from tfn.lower.report.verify import accesses
from tfn.lower.target.target import Target
from tfn.trace import build, interpreter
from tfn.trace.argument import Access, Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Items = tuple[UOp, ...]
ACCESSES = (Op.LOAD, Op.STORE)


def kernels(outputs: list[UOp], target: Target = HOST) -> list[Kernel]:
    return list(pipeline.lower(jaxpr(outputs), target).kernels)


def items_of(*outputs: UOp, target: Target = HOST) -> tuple[Items, int]:
    (kernel,) = kernels(list(outputs), target)
    return pipeline.instructions(kernel, target), kernel.tiles


def check(kernel: Kernel, items: Items) -> accesses.Outcome:
    body = kernel.source
    assert body is not None
    return accesses.check(
        items, kernel.tiles, sort.assumed(body, items) if body.op is Op.TUPLE else {}
    )


def changed(items: Items, which: int, shift: int = 0, predicated: bool = True) -> Items:
    """The instructions with one access moved, or without its predicate."""
    at = [i for i, u in enumerate(items) if u.op in ACCESSES][which]
    u = items[at]
    src = u.src if predicated else u.src[: 2 if u.op is Op.LOAD else 3]
    new = UOp(u.op, src, replace(u.arg, offset=u.arg.offset + shift))
    return (*items[:at], new, *items[at + 1 :])


@given(graphs(steps=(*STEPS, *LOOPS)), st.sampled_from([HOST, SMALL]))
def test_generated_kernels_are_proved(outputs: list[UOp], target: Target) -> None:
    for kernel in kernels(outputs, target):
        outcome = check(kernel, pipeline.instructions(kernel, target))
        assert not outcome.unproved, [str(u) for u in outcome.unproved]
        assert outcome.accesses


class Guarded:
    """A buffer that raises IndexError outside of its bounds."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, seed: int) -> None:
        self.data, self.dtype = draw(shape, dtype, seed).ravel(), dtype

    def __len__(self) -> int:
        return len(self.data)

    def _inside(self, index: Any) -> None:
        if (np.asarray(index) < 0).any() or (np.asarray(index) >= len(self.data)).any():
            raise IndexError

    def __getitem__(self, index: Any) -> Any:
        self._inside(index)
        return self.data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._inside(index)
        self.data[index] = value


@given(graphs(), st.data())
def test_proved_accesses_stay_in_bounds(outputs: list[UOp], data: st.DataObject) -> None:
    """A moved access is unproved, or stays within its buffer when it runs."""
    for kernel in kernels(outputs)[:2]:
        items = pipeline.instructions(kernel, HOST)
        count = sum(u.op in ACCESSES for u in items)
        which, shift = data.draw(st.integers(0, count - 1)), data.draw(st.integers(-3, 3))
        moved = changed(items, which, shift, data.draw(st.booleans()))
        sizes = {u.src[0].arg for u in moved if u.op in ACCESSES}
        buffers: list[Any] = [None] * (1 + max(param.index for param in sizes))
        for param in sizes:
            buffers[param.index] = Guarded(param.shape, param.dtype, param.index)
        try:
            interpreter.instructions(moved, 0, kernel.tiles, buffers)
        except IndexError:
            assert check(kernel, moved).unproved
        except KeyError:  # users of the moved load read its old node
            continue


def test_an_index_off_by_one() -> None:
    items, tiles = items_of(build.shrink(p(0, 9), (1,), (9,)))
    assert not accesses.check(items, tiles).unproved
    (wrong,) = accesses.check(changed(items, 0, 1), tiles).unproved
    assert wrong.size == 9 and wrong.violation.value == 9 and not wrong.store
    assert "of operand 1, which has 9 elements" in str(wrong) and "it is 9" in str(wrong)
    (wrong,) = accesses.check(changed(items, -1, -1), tiles).unproved
    assert wrong.store and wrong.violation.value == -1


def test_a_missing_predicate() -> None:
    padded = build.pad(p(0, 5), (2,), (3,))
    items, tiles = items_of(padded)
    assert not accesses.check(items, tiles).unproved
    count = sum(u.op in ACCESSES for u in items)
    unpredicated = [changed(items, i, predicated=False) for i in range(count)]
    wrong = [w for moved in unpredicated for w in accesses.check(moved, tiles).unproved]
    assert any(
        not w.store and not w.predicate and w.violation.value in (-2, 5, 6, 7) for w in wrong
    )


def test_a_predicate_keeps_products_of_loaded_values_from_wrapping() -> None:
    """Of an int64 that may be anything, ``x * 7`` may wrap around: not where ``x`` is small."""
    x, loop = p(0, 40), UOp(Op.LOOP, (BEGIN, END), 1)
    loaded = UOp(Op.LOAD, (p(1, 4, dtype=INT64), const(0, INT64)), Access(0, 1, 0))
    predicate = (const(-1, INT64) < loaded) & (loaded < 6)
    store = UOp(Op.STORE, (x, loaded * 7, const(0, FLOAT32), predicate), Access(0, 1, 0))
    end = UOp(Op.END, (loop,))
    assert not accesses.check((loop, loaded, predicate, store, end), 4).unproved
    (unproved,) = accesses.check((loop, loaded, predicate, loaded, store, end), 4).unproved
    assert unproved.violation.value is None  # the second load may have another value


def test_a_predicate_that_is_too_weak() -> None:
    x, loop = p(0, 10), UOp(Op.LOOP, (BEGIN, END), 1)
    loaded = UOp(Op.LOAD, (p(1, 4, dtype=INT32), const(0, INT64)), Access(0, 1, 0))
    index = build.cast(loaded, INT64)
    for most, proved in ((10, True), (11, False)):
        predicate = (const(-1, INT64) < index) & (index < most)
        store = UOp(Op.STORE, (x, index, const(0, FLOAT32), predicate), Access(0, 1, 0))
        items = (loop, loaded, index, predicate, store, UOp(Op.END, (loop,)))
        outcome = accesses.check(items, 4)
        assert outcome.by_intervals == 1 + proved and outcome.accesses == 2
        if not proved:
            assert outcome.unproved[0].violation.value == 10
            assert "x[...] = 10" in str(outcome.unproved[0])


def test_an_index_within_bounds_by_one_comparison() -> None:
    """Unsigned, of what a store writes and of what a load reads elsewhere from the beginning."""
    x, loop = p(0, 22), UOp(Op.LOOP, (BEGIN, END), 1)
    loaded = UOp(Op.LOAD, (p(1, 4, dtype=INT64), const(0, INT64)), Access(0, 1, 0))
    for most, elsewhere, unproved in ((3, -1, 0), (4, -1, 2), (3, -2, 1)):
        inside = UOp(Op.BITCAST, (loaded,), UINT64) < most
        base = build.where(inside, loaded * 7, const(elsewhere, INT64))
        load = UOp(Op.LOAD, (x, base), Access(1, 1, 0))
        lanes = UOp(Op.SPLAT, (inside,), 7)
        store = UOp(Op.STORE, (x, loaded * 7, const(0, FLOAT32), lanes), Access(1, 7, 1))
        items = (loop, loaded, inside, base, load, lanes, store, UOp(Op.END, (loop,)))
        assert len(accesses.check(items, 4).unproved) == unproved


def test_repeated_loads_are_different_values() -> None:
    """The predicate reads memory before a store, the index after it."""
    y, loop = p(1, 4, dtype=INT32), UOp(Op.LOOP, (BEGIN, END), 1)
    loaded = UOp(Op.LOAD, (y, const(0, INT64)), Access(0, 1, 0))
    store = UOp(Op.STORE, (y, const(0, INT64), const(99, INT32)), Access(0, 1, 0))
    index = build.cast(loaded, INT64)
    predicate = (const(-1, INT64) < index) & (index < 10)
    last = UOp(Op.STORE, (p(0, 10), index, const(0, FLOAT32), predicate), Access(0, 1, 0))
    items = (loop, loaded, predicate, store, loaded, index, last, UOp(Op.END, (loop,)))
    assert len(accesses.check(items, 1).unproved) == 1


def test_carried_integers() -> None:
    """From 5 downwards, not below 0; and one that grows without end."""
    loop = UOp(Op.LOOP, (const(0, INT64), const(100, INT64)), 1)
    carried = UOp(Op.ACCUMULATOR, (loop, const(5, INT64)), 0)
    load = UOp(Op.LOAD, (p(0, 6), carried), Access(0, 1, 0))
    for step, proved in ((build.maximum(carried - 1, const(0, INT64)), True), (carried + 1, False)):
        items = (loop, carried, load, step, UOp(Op.END, (loop, carried, step)))
        assert (accesses.check(items, 1).by_intervals == 1) == proved


def test_loops_that_never_run_touch_nothing() -> None:
    loop = UOp(Op.LOOP, (const(3, INT64), const(3, INT64)), 1)
    load = UOp(Op.LOAD, (p(0, 2), loop), Access(0, 1, 0))
    assert accesses.check((loop, load, UOp(Op.END, (loop,))), 1).accesses == 0


def test_sorts_assume_the_contents_of_scratch() -> None:
    (kernel,) = kernels(build.sort([p(0, 40_000)])[:1])
    items = pipeline.instructions(kernel, HOST)
    outcome = check(kernel, items)
    assert outcome.assumed and not outcome.unproved
    without = accesses.check(items, kernel.tiles)
    assert len(without.unproved) == outcome.assumed


def test_without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)
    items, tiles = items_of(p(0, 9) * 2.0)
    assert not accesses.check(items, tiles).unproved
    with pytest.raises(MissingPackageError, match="pip install 'tfn"):
        accesses.check(changed(items, 0, 9), tiles)


def test_lanes_of_all_kinds() -> None:
    lanes = UOp(Op.LANES, (), 4)
    table = p(0, 10)
    pair = UOp(Op.SHUFFLE, (lanes, lanes + const(4, INT64, (4,))), (7, 0, 5, 1))
    load = UOp(Op.LOAD, (table, pair), Access(2, 1, 0))
    assert accesses.check((pair, load), 1).by_intervals == 1
    load = UOp(Op.LOAD, (table, pair), Access(3, 1, 0))
    (wrong,) = accesses.check((pair, load), 1).unproved
    assert wrong.violation.value == 10 and "lane = 0" in str(wrong)
    predicate = lanes < const(3, INT64, (4,))
    load = UOp(Op.LOAD, (table, const(7, INT64), predicate), Access(0, 4, 1))
    assert accesses.check((predicate, load), 1).by_intervals == 1
    bits = UOp(Op.LOAD, (p(1, 4, dtype=INT64), const(0, INT64)), Access(0, 4, 1))
    picked = UOp(Op.MOD, (bits, const(10, INT64, (4,))))
    load = UOp(Op.LOAD, (table, picked), Access(0, 1, 0))
    assert not accesses.check((bits, picked, load), 1).unproved
    assert Param(0, (10,), FLOAT32) == table.arg
