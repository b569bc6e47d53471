"""One function of all sizes: traces at several sizes, unified.

    b = 211:  div[211.0] (add x)     b = 502:  div[502.0] (add x)     ->     div[b] (add x)

Everything is recorded, also what depends on no argument: a number that is made of a size has to be
seen.  Integers that differ become polynomials (`tfn.exporting.generalize`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tfn.exporting import generalize, symbolic
from tfn.exporting.symbolic_dims import Numbers, Scope
from tfn.extend import Shape, UOp, frozen, plain, runtime, source_lines
from tfn.trace.uop import rows

POOL = (211, 347, 502, 612, 753, 1018)
"""Sizes at which functions are traced: odd and even, and rarely those of other arguments."""

SPARE = 3
"""Sizes in reserve, for those at which two numbers of a function are equal by chance."""

Trace = Callable[[Numbers], Any]
"""The traced function at some sizes."""


@frozen
class Unified:
    """A function whose integers are polynomials in the sizes of its arguments.

    Attributes:
        name: of the function.
        rows: its operations; see `trace.uop.rows`.
        shapes: of the value of each row.
        lines: the user's line of each row.
        traced: at one size: captured arrays, the structure and weakness of results.
    """

    name: str
    rows: Sequence[Any]
    shapes: Sequence[tuple[Any, ...]]
    lines: Sequence[str]
    traced: Any

    @property
    def results(self) -> list[tuple[Any, ...]]:
        """The shape of each result."""
        return [self.shapes[i] for i in self.rows[-1][1]]

    def at(self, numbers: Numbers) -> list[UOp]:
        """The node of each row at some sizes; the last one is the function."""
        nodes: list[UOp] = []
        for op, src, arg in self.rows:
            sized = symbolic.mapped(arg, lambda p: p.at(numbers), numbers)
            nodes.append(UOp(op, tuple([nodes[i] for i in src]), sized))
        return nodes

    def holds(self, numbers: Numbers, trace: Trace) -> bool:
        """Whether the function at some sizes is what Python makes of it there."""
        try:
            traced, own = trace(numbers), self.at(numbers)[-1]
        except Exception:  # of the user's function: it does not exist at these sizes
            return False
        return (
            plain(traced.jaxpr.function) is own
            and traced.structure == self.traced.structure
            and _same(traced.captured, self.traced.captured)
        )


def unifications(
    name: str, trace: Trace, scope: Scope, ranges: dict[str, range]
) -> Iterator[Unified | Exception]:
    """A function unified from its traces at any sizes, and at those of one bucket.

    It may not exist at sizes that are far from those of its calls, or be another one: then there is
    the error, of the function itself or an ExportError that says what differs.
    """
    draw = random.Random(len(ranges))
    count = len(generalize.basis(scope.symbols, 2)) + 2
    steps = {s: _step(scope, s) for s in scope.symbols}
    pools: list[dict[str, Sequence[int]]] = [
        {s: [n * steps[s] for n in POOL] for s in scope.symbols},
        {s: [n for n in ranges[s] if n % steps[s] == 0 and n > 1] for s in scope.symbols},
    ]
    for pool in pools:
        places = _places(scope, pool, count + SPARE, draw)
        try:
            if len(places) >= count:
                yield _unified(name, trace, places, count)
        except Exception as error:
            yield error


def _step(scope: Scope, symbol: str) -> int:
    divisors = [n for c in scope.constraints if symbol in c.symbols for n in c.divisors]
    return max(divisors, default=1)


def _places(
    scope: Scope, pool: dict[str, Sequence[int]], count: int, draw: random.Random
) -> list[Numbers]:
    """Different sizes that the constraints allow."""
    found: list[Numbers] = []
    if not all(pool.values()):
        return found
    turns = [sorted(sizes, key=lambda n: draw.random()) for sizes in pool.values()]
    for i in range(20 * count):
        # Each size in its turn, then any of them: one symbol never follows another.
        chosen = [t[i] if i < len(t) else draw.choice(t) for t in turns]
        numbers = dict(zip(pool, chosen, strict=True))
        if numbers not in found and scope.allows(numbers):
            found.append(numbers)
            if len(found) == count:
                break
    return found


def _unified(name: str, trace: Trace, places: Sequence[Numbers], count: int) -> Unified:
    """A function unified from `count` traces, by their most frequent form.

    At some size a number may be equal to another one, and two operations be one.
    """
    with source_lines.tracking():
        forms: dict[Any, list[tuple[Numbers, Any, Any]]] = {}
        for at in places:
            traced = trace(at)
            table = rows(plain(traced.jaxpr.function))
            key = tuple([row[:2] for row in table]), traced.structure, tuple(traced.weak)
            forms.setdefault(key, []).append((at, traced, table))
            if len(forms[key]) == count:
                break
        chosen = max(forms.values(), key=len)
        if len(chosen) < count:  # the error says where two differ
            chosen = [one for many in forms.values() for one in many]
        fit = generalize.Fit(name, [at for at, *_ in chosen], [table for *_, table in chosen])
        first = chosen[0][1]
        for i, (_, other, _) in enumerate(chosen):
            if other.structure != first.structure:
                raise fit.differ(i, "the results are nested differently")
        table = fit.run()
        for i, (_, other, _) in enumerate(chosen):
            if not _same(other.captured, first.captured):
                raise fit.differ(i, "arrays that the function captured are not the same")
        nodes = [_nodes(one) for *_, one in chosen]
        lines = [source_lines.of(u) for u in nodes[0]]
        shapes = [fit.unified([u.shape for u in many], n) for n, many in enumerate(zip(*nodes))]
    return Unified(name, table, shapes, lines, first)


def _nodes(table: Sequence[Any]) -> list[UOp]:
    nodes: list[UOp] = []
    for op, src, arg in table:
        nodes.append(UOp(op, tuple([nodes[i] for i in src]), arg))
    return nodes


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether captured arrays are the same, or hold the same bits."""
    if len(some) != len(others):
        return False
    return all(x is y or _bits(x) == _bits(y) for x, y in zip(some, others))


def _bits(x: Any) -> tuple[Shape, Any, bytes]:
    data: np.ndarray[Any, Any] = np.asarray(runtime.installed().read(x))
    return data.shape, data.dtype, data.tobytes()
