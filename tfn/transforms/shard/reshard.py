"""Resharding: from one spec of a value to another, by the sequence of exchanges that moves least.

A slice moves nothing and makes all later steps smaller; an all-to-all moves a share of a part; a
gather makes parts larger::

    f32[8,8] over (x), ()   to  (), (x)    all_to_all
    f32[8,8] over (x), ()   to  (y), ()    all_gather, slice
    f32[8,8] over (x), ()   to  (), (y)    slice, all_gather
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from tfn.trace.build import moveaxis, pad, reshape, shrink
from tfn.trace.op import Shape
from tfn.trace.sharding import Axis, Exchange, Names, Spec
from tfn.trace.uop import UOp
from tfn.transforms.shard.collective_rules import collective


class Step(NamedTuple):
    """One exchange: along an axis of the mesh, from an axis of the value to another one.

    `source` is None for a slice, `to` is None for a gather.
    """

    name: str
    source: int | None
    to: int | None


@lru_cache(maxsize=4096)
def steps(begin: Spec, end: Spec, sizes: tuple[tuple[str, int], ...]) -> tuple[Step, ...]:
    """The exchanges that lead from one spec to another: those that move least, then the fewest.

    A shortest path over specs, which are few: a name is appended to an axis only where it stays.

    Example:
        >>> steps((("x",), ()), ((), ("x",)), (("x", 2),))
        (Step(name='x', source=0, to=1),)
    """
    size, count = dict(sizes), itertools.count()
    heap: list[tuple[float, int, int, Spec, float, tuple[Step, ...]]]
    heap = [(0.0, 0, next(count), begin, 1.0, ())]
    seen: set[Spec] = set()
    while True:
        cost, length, _, spec, local, path = heapq.heappop(heap)
        if spec == end:
            return path
        if spec in seen:
            continue
        seen.add(spec)
        for step, new in _moves(spec, end):
            moved, larger = _moved(step, local, size[step.name])
            row = (cost + moved, length + 1, next(count), new, larger, (*path, step))
            heapq.heappush(heap, row)


def _moves(spec: Spec, end: Spec) -> Iterator[tuple[Step, Spec]]:
    """The exchanges that are possible, and the specs to which they lead."""
    used = {name for names in spec for name in names}
    for axis, names in enumerate(spec):
        name = _next(names, end[axis])
        if name is not None and name not in used:
            yield Step(name, None, axis), _changed(spec, axis, (*names, name))
        if names:
            popped = _changed(spec, axis, names[:-1])
            yield Step(names[-1], axis, None), popped
            for to, there in enumerate(popped):
                if to != axis and _next(there, end[to]) == names[-1]:
                    yield Step(names[-1], axis, to), _changed(popped, to, (*there, names[-1]))


def _next(names: Names, wanted: Names) -> str | None:
    """The name to be appended to an axis, if its names so far can stay."""
    return wanted[len(names)] if wanted[: len(names)] == names != wanted else None


def _changed(spec: Spec, axis: int, names: Names) -> Spec:
    return (*spec[:axis], names, *spec[axis + 1 :])


def _moved(step: Step, local: float, n: int) -> tuple[float, float]:
    """The bytes that a device receives in an exchange of parts of a size, and their size after."""
    if step.source is None:
        return 0.0, local / n
    return (local * (n - 1), local * n) if step.to is None else (local * (n - 1) / n, local)


def cost_bytes(size_bytes: int, begin: Spec, end: Spec, sizes: Mapping[str, int]) -> float:
    """The bytes that each device receives in a reshard of a value of a size, all parts together."""
    if begin == end:
        return 0.0
    parts = prod([sizes[name] for names in begin for name in names])
    local, total = size_bytes / parts, 0.0
    for step in steps(begin, end, tuple(sizes.items())):
        moved, local = _moved(step, local, sizes[step.name])
        total += moved
    return total


def reshard(
    x: UOp,
    shape: Shape,
    begin: Spec,
    end: Spec,
    axes: Mapping[str, Axis],
    index: Mapping[str, UOp],
) -> UOp:
    """The part of a value of a shape under another spec, from that under the first."""
    sizes = tuple((name, axis.size) for name, axis in axes.items())
    for step in steps(begin, end, sizes):
        x = _apply(x, shape, step, axes[step.name], index[step.name])
    return x


def _apply(x: UOp, shape: Shape, step: Step, axis: Axis, index: UOp) -> UOp:
    """One exchange; the padding of the last part comes and goes with the division of its axis."""
    if step.source is None:
        assert step.to is not None
        return collective(Exchange.PICK, split(x, step.to, axis.size), index, axis)
    if step.to is None:
        rows = collective(Exchange.GATHER, x, index, axis, invariant=True)
    else:
        rows = collective(Exchange.TRANSPOSE, split(x, step.to, axis.size), index, axis)
    whole = merge(rows, step.source)
    stop = tuple([min(n, shape[i]) if i == step.source else n for i, n in enumerate(whole.shape)])
    return shrink(whole, (0,) * whole.ndim, stop)


def split(x: UOp, axis: int, parts: int) -> UOp:
    """An axis as rows of equal parts, the last ones padded: a first axis that counts them."""
    more = -x.shape[axis] % parts
    x = pad(x, (0,) * x.ndim, tuple([more if i == axis else 0 for i in range(x.ndim)]))
    shape: Shape = x.shape
    cut = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
    return moveaxis(reshape(x, cut), axis, 0)


def merge(rows: UOp, axis: int) -> UOp:
    """The rows of the first axis one after another along an axis of each."""
    n, *rest = rows.shape
    rest[axis] *= n
    return reshape(moveaxis(rows, 0, axis), tuple(rest))
