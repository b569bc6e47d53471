"""One function of all sizes: traces at several sizes, unified.

    b = 211:  div[211.0] (add x)     b = 502:  div[502.0] (add x)     ->     div[b] (add x)

Everything is recorded, also what depends on no argument: a number that is made of a size has to be
seen.  Integers that differ become polynomials (`tfn.exporting.generalize`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfn.exporting import generalize, symbolic
from tfn.exporting.symbolic_dims import Monomial, Numbers, Scope
from tfn.extend import Shape, UOp, frozen, plain, runtime, source_lines
from tfn.trace.uop import rows

POOL = (211, 612, 502, 753, 347, 824, 1018, 433, 919, 380, 286, 661, 571, 1004, 838, 877)
"""Sizes at which functions are traced: of each remainder by 4 in turn, and rarely those of other
arguments."""

Trace = Callable[[Numbers], Any]
"""The traced function at some sizes."""


@frozen
class Unified:
    """A function whose integers are polynomials in the sizes of its arguments.

    Integers may be made of quotients too, of sizes that are halved or quartered.

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
        nodes, sizes = list[UOp](), with_quotients(numbers)
        for op, src, arg in self.rows:
            sized = symbolic.mapped(arg, lambda p: p.at(sizes), sizes)
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
    steps = {s: _step(scope, s) for s in scope.symbols}
    pools: list[dict[str, Sequence[int]]] = [
        {s: [n * steps[s] for n in POOL] for s in scope.symbols},
        {s: [n for n in ranges[s] if n % steps[s] == 0 and n > 1] for s in scope.symbols},
    ]
    for bases in _bases(scope.symbols):
        count = len(bases[-1]) + 2  # to check the polynomial
        for pool in pools:
            places = _places(scope, pool, count, draw)
            try:
                if len(places) == count:
                    yield _unified(name, trace, places, bases)
            except Exception as error:
                yield error


def quotients(symbols: Iterable[str]) -> dict[str, tuple[str, int, int]]:
    """Sizes that are divided, and rounded in every way: by name the size, what is added, by what.

    A slice of every other element, or a convolution with a stride, leaves so many.
    """
    ways = [(c, k) for k in (2, 4) for c in range(1, k)]
    return {f"(({s} + {c}) // {k})": (s, c, k) for s in symbols for c, k in ways}


def with_quotients(numbers: Numbers) -> Numbers:
    """Sizes, and those that are made of them by division."""
    made = {q: (numbers[s] + c) // k for q, (s, c, k) in quotients(numbers).items()}
    return {**numbers, **made}


def _bases(symbols: Sequence[str]) -> Iterator[list[list[Monomial]]]:
    """The products of sizes that integers may be made of, without quotients and with them."""
    plain = [generalize.basis(symbols, degree) for degree in (1, 2)]
    yield plain
    for by in (2, 4):  # with the quarters the halves would be told in two ways
        made = {q: own for q, (own, _, k) in quotients(symbols).items() if k == by}
        alone = [(q,) for q in made]
        pairs = [tuple(sorted((q, s))) for q, own in made.items() for s in symbols if s != own]
        yield [[*plain[0], *alone], [*plain[1], *alone, *pairs]]


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
    # Each size in its turn, then any of them; the sizes of one symbol never follow another's.
    first, *others = pool.values()
    turns = [first, *(draw.sample(sizes, len(sizes)) for sizes in others)]
    for i in range(20 * count):
        chosen = [t[i] if i < len(t) else draw.choice(t) for t in turns]
        numbers = dict(zip(pool, chosen, strict=True))
        if numbers not in found and scope.allows(numbers):
            found.append(numbers)
            if len(found) == count:
                break
    return found


def _unified(
    name: str, trace: Trace, places: Sequence[Numbers], bases: list[list[Monomial]]
) -> Unified:
    with source_lines.tracking():
        traces = [trace(at) for at in places]
        functions = [plain(t.jaxpr.function) for t in traces]
        together = _together(functions)
        fit = generalize.Fit(
            name,
            [with_quotients(at) for at in places],
            _tables(together) if together else list(map(rows, functions)),
            bases,
        )
        first = traces[0]
        for i, other in enumerate(traces):
            if (other.structure, other.weak) != (first.structure, first.weak):
                raise fit.differ(i, "the results are nested differently, or differ in weakness")
        table = fit.run()
        for i, other in enumerate(traces):
            if not _same(other.captured, first.captured):
                raise fit.differ(i, "arrays that the function captured are not the same")
        lines = [source_lines.of(nodes[0]) for nodes in together]
        shapes = [fit.unified([u.shape for u in nodes], n) for n, nodes in enumerate(together)]
    return Unified(name, table, shapes, lines, first)


def _together(functions: Sequence[UOp]) -> list[tuple[UOp, ...]]:
    """The nodes of several graphs, side by side, sources first; none if they are not the same.

    At some size two numbers may be equal, and two nodes be one, as half of n rounded up and rounded
    down are where n is even: that one stands beside both.
    """
    found: dict[tuple[UOp, ...], None] = {}
    stack = [tuple(functions)]
    while stack:
        nodes = stack[-1]
        if len({(u.op, len(u.src)) for u in nodes}) > 1:
            return []
        waiting = [own for own in zip(*(u.src for u in nodes), strict=True) if own not in found]
        if waiting:
            stack += waiting
        else:
            found[stack.pop()] = None
    return list(found)


def _tables(together: Sequence[tuple[UOp, ...]]) -> list[list[Any]]:
    """The rows of each graph."""
    place = {nodes: i for i, nodes in enumerate(together)}
    sources = [tuple([place[own] for own in zip(*(u.src for u in nodes))]) for nodes in together]
    return [
        [(u.op, src, u.arg) for u, src in zip(graph, sources, strict=True)]
        for graph in zip(*together, strict=True)
    ]


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether captured arrays are the same, or hold the same bits."""
    if len(some) != len(others):
        return False
    return all(x is y or _bits(x) == _bits(y) for x, y in zip(some, others))


def _bits(x: Any) -> tuple[Shape, Any, bytes]:
    data: np.ndarray[Any, Any] = np.asarray(runtime.installed().read(x))
    return data.shape, data.dtype, data.tobytes()
