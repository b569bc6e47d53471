"""Resharding: from one spec of a value to another, by the sequence of exchanges that moves least.

Slices move nothing and make all later steps smaller, so they come first; an all-to-all moves one
share of a part; a gather, which makes parts larger, comes last::

    f32[8,8] over (x), ()   to  (), (x)    all_to_all
    f32[8,8] over (x), ()   to  (y), ()    slice is not possible before the gather: all_gather, slice
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from tfn.trace.build import moveaxis, reshape
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


def common(a: Names, b: Names) -> Names:
    """The names with which both begin."""
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def steps(begin: Spec, end: Spec) -> list[Step]:
    """The exchanges that lead from one spec to another.

    Example:
        >>> steps((("x",), ()), ((), ("x",)))
        [Step(name='x', source=0, to=1)]
    """
    now = [list(names) for names in begin]
    result: list[Step] = []

    def next_of(axis: int) -> str | None:
        """The name to be appended to an axis, if its names so far can stay."""
        done, wanted = now[axis], end[axis]
        return wanted[len(done)] if wanted[: len(done)] == tuple(done) != wanted else None

    while tuple(map(tuple, now)) != end:
        used = {name for names in now for name in names}
        slices = [axis for axis in range(len(now)) if next_of(axis) not in (None, *used)]
        if slices:
            name = next_of(slices[0])
            assert name is not None
            now[slices[0]].append(name)
            result.append(Step(name, None, slices[0]))
            continue
        extra = [axis for axis in range(len(now)) if tuple(now[axis]) != end[axis][: len(now[axis])]]
        moves = [(a, to) for a in extra for to in range(len(now)) if next_of(to) == now[a][-1]]
        source, to = moves[0] if moves else (extra[0], None)
        name = now[source].pop()
        if to is not None:
            now[to].append(name)
        result.append(Step(name, source, to))
    return result


def cost_bytes(size_bytes: int, begin: Spec, end: Spec, sizes: Mapping[str, int]) -> float:
    """The bytes that each device receives in a reshard of a value of a size, all parts together."""
    parts = prod([sizes[name] for names in begin for name in names])
    local, total = size_bytes / parts, 0.0
    for step in steps(begin, end):
        n = sizes[step.name]
        if step.source is None:
            local /= n
        elif step.to is None:
            total += local * (n - 1)
            local *= n
        else:
            total += local * (n - 1) / n
    return total


def reshard(x: UOp, begin: Spec, end: Spec, axes: Mapping[str, Axis], index: Mapping[str, UOp]) -> UOp:
    """The part of a value under another spec, from that under the first."""
    for step in steps(begin, end):
        x = _apply(x, step, axes[step.name], index[step.name])
    return x


def _apply(x: UOp, step: Step, axis: Axis, index: UOp) -> UOp:
    if step.source is None:
        assert step.to is not None
        return collective(Exchange.PICK, split(x, step.to, axis.size), index, axis)
    if step.to is None:
        rows = collective(Exchange.GATHER, x, index, axis, invariant=True)
        return merge(rows, step.source)
    rows = collective(Exchange.TRANSPOSE, split(x, step.to, axis.size), index, axis)
    return merge(rows, step.source)


def split(x: UOp, axis: int, parts: int) -> UOp:
    """An axis as rows of equal parts: a first axis that counts them."""
    shape: Shape = x.shape
    cut = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
    return moveaxis(reshape(x, cut), axis, 0)


def merge(rows: UOp, axis: int) -> UOp:
    """The rows of the first axis one after another along an axis of each."""
    n, *rest = rows.shape
    rest[axis] *= n
    return reshape(moveaxis(rows, 0, axis), tuple(rest))
