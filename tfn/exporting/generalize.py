"""Interpolation over sizes: traces at several sizes become one with polynomials for integers.

    b = 7:  reshape[(7, 784)]     b = 11:  reshape[(11, 784)]     ->     reshape[(b, 784)]

Traces must be the same operations on the same rows.  An integer that differs between them is
replaced by the polynomial of least degree through all of them; a constant may be the value of such
a polynomial, or an integer divided by it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from tfn.dtypes import FLOATS, SHORT
from tfn.errors import ExportError
from tfn.exporting.symbolic_dims import Monomial, Numbers, Polynomial, Ratio, Scope
from tfn.exporting.wellformed import SYMBOL_LIMIT, Row
from tfn.extend import argument, source_lines
from tfn.trace import uop

_LARGE = (10_007, 1_018, 211)
"""Odd and even: a function that treats them differently is detected."""
MOST_SHOWN = 3
"""Sizes of which an error shows what differs: the others make it longer, not clearer."""
_NUMERATORS = tuple(sign * n for n in range(1, 9) for sign in (1, -1))


def show(numbers: Numbers) -> str:
    """Values of symbols as messages show them: ``b = 3, t = 5``; not what is made of them."""
    return ", ".join(f"{s} = {n}" for s, n in numbers.items() if s.isidentifier())


def basis(symbols: Sequence[str], degree: int) -> list[Monomial]:
    """Products of at most `degree` symbols."""
    products = itertools.combinations_with_replacement(["", *sorted(symbols)], degree)
    return sorted({tuple(s for s in m if s) for m in products}, key=lambda m: (len(m), m))


def witnesses(scope: Scope, avoided: frozenset[int] = frozenset()) -> list[Numbers]:
    """Sizes at which to trace: small, medium and large, enough to determine a polynomial.

    They differ from the sizes of other arguments (`avoided`), which could be mistaken for them.

    Raises:
        ExportError: if there are too many symbols, or the constraints leave too few sizes.
    """
    symbols = scope.symbols
    if len(symbols) > SYMBOL_LIMIT:
        raise ExportError(
            f"a function may have {SYMBOL_LIMIT} symbols at most",
            got=", ".join(symbols),
            hint="fix some sizes, or use one symbol for several",
        )
    count = len(basis(symbols, 2)) + 2  # two more than unknowns, to check the polynomial
    draw = random.Random(len(symbols))
    chosen: list[Numbers] = []
    for numbers in _candidates(scope, draw):
        fresh = avoided.isdisjoint(numbers.values()) and numbers not in chosen
        if fresh and scope.allows(numbers):
            chosen.append(numbers)
            if len(chosen) == count:
                return chosen
    raise ExportError(
        "the constraints leave too few sizes to tell how a function depends on them",
        got=", ".join(c.text for c in scope.constraints) + f": {len(chosen)} of {count} found",
        hint="serialize it for each size instead",
    )


def _candidates(scope: Scope, draw: random.Random) -> Iterator[Numbers]:
    """Values for the symbols, the most informative first."""
    mentioned = {n for c in scope.constraints for n in c.integers}
    divisors = {n for c in scope.constraints for n in c.divisors}
    steps = sorted(n for n in {1, *divisors} if 0 < n <= 4096)[::-1]
    for step in steps:
        for large in _LARGE:
            yield {s: step * (large + 2 * i) for i, s in enumerate(scope.symbols)}
        for most in (199, 61, 29, 11):
            for _ in range(40):
                yield {s: step * draw.randrange(2, most) for s in scope.symbols}
    for near in sorted(mentioned):
        for _ in range(60):
            yield {s: max(near + draw.randrange(-12, 13), 2) for s in scope.symbols}
    for most in (4, 16, 64, 256):
        for _ in range(200):
            yield {s: draw.randrange(1, most) for s in scope.symbols}


class Fit:
    """Unifies traces of one function at several sizes.

    Attributes:
        name: of the function.
        places: the sizes.
        rows: of the trace at each of them; see `uop.rows`.
        bases: the products that polynomials are made of, the simplest first.
    """

    def __init__(
        self,
        name: str,
        places: Sequence[Numbers],
        rows: Sequence[Sequence[Row]],
        bases: Sequence[Sequence[Monomial]] = (),
    ) -> None:
        self.name, self.places, self.rows = name, places, rows
        self.bases = bases or [basis(sorted(places[0]), degree) for degree in (1, 2)]
        self.polynomials: dict[tuple[int, ...], Polynomial | None] = {}

    def run(self) -> list[Row]:
        """The unified rows.

        Raises:
            ExportError: with two sizes, and the operation at which their traces differ.
        """
        self._same_operations()
        return [
            (row[0][0], row[0][1], self.unified([r[2] for r in row], n))
            for n, row in enumerate(zip(*self.rows, strict=True))
        ]

    def _same_operations(self) -> None:
        """Refuse traces that are not the same operations on the same rows."""
        for i, other in enumerate(self.rows):
            pairs = itertools.zip_longest(self.rows[0], other)
            for n, (mine, theirs) in enumerate(pairs):
                if mine is None or theirs is None or mine[:2] != theirs[:2]:
                    raise self.differ(i, self._shown(0, n), self._shown(i, n))

    def _shown(self, trace: int, n: int) -> str:
        """A row of a trace for an error message."""
        rows = self.rows[trace]
        if n >= len(rows):
            return f"at {show(self.places[trace])}: nothing more"
        node = uop.from_rows(list(rows[: n + 1]))
        at = source_lines.of(node)
        shape = f" {SHORT[node.dtype]}[{','.join(map(str, node.shape))}]"
        return f"at {show(self.places[trace])}: {node.op.value}{shape}" + (f", {at}" if at else "")

    def differ(self, trace: int, *got: str) -> ExportError:
        """The error that a trace is not the same function as the first one."""
        sizes = f"{show(self.places[0])} and {show(self.places[trace])}"
        return ExportError(
            f"{self.name} is not the same function at {sizes}",
            got="; ".join(got),
            hint="ask for sizes with tfn.lax.cond, or add a constraint that allows one side only",
        )

    def unified(self, values: Sequence[Any], row: int | None = None) -> Any:
        """One value for all traces, with polynomials where integers differ."""
        first = values[0]
        if all(type(v) is type(first) and v == first for v in values):
            return first
        if all(type(v) is int for v in values):
            polynomial = self._polynomial(values)
            if polynomial is not None:
                return polynomial
        elif all(type(v) is tuple and len(v) == len(first) for v in values):
            return tuple(self.unified(list(many), row) for many in zip(*values, strict=True))
        elif isinstance(first, argument.Const):
            bits = self._constant(values)
            if bits is not None:
                shape = self.unified([v.shape for v in values], row)
                return argument.Const(first.dtype, bits, shape)
        elif is_dataclass(first) and all(type(v) is type(first) for v in values):
            kind: Any = type(first)
            names = [f.name for f in fields(first) if f.compare]
            return kind(**{n: self.unified([getattr(v, n) for v in values], row) for n in names})
        plain = [v.value if isinstance(v, argument.Const) else v for v in values[:MOST_SHOWN]]
        seen = "; ".join(f"{v} at {show(at)}" for v, at in zip(plain, self.places))
        where = "" if row is None else self._shown(0, row) + ": "
        raise ExportError(
            f"{self.name} depends on sizes in a way that cannot be told",
            got=where + seen,
            hint="sizes may be sums and products of at most two symbols",
        )

    def _polynomial(self, values: Sequence[int]) -> Polynomial | None:
        """The polynomial of least degree through values; None if degree 2 is not enough."""
        key = tuple(values)
        if key not in self.polynomials:
            found = (solved(m, self.places, key) for m in self.bases)
            factors = next((f for f in found if f is not None), None)
            self.polynomials[key] = None if factors is None else Polynomial.of(factors)
        return self.polynomials[key]

    def _constant(self, values: Sequence[argument.Const]) -> Any:
        """The bits of constants: equal, a size, or a number divided by a size."""
        bits = [v.bits for v in values]
        dtype = values[0].dtype
        if len({v.dtype for v in values}) > 1 or len(set(bits)) == 1:
            return bits[0] if len(set(bits)) == 1 else None
        numbers = [v.value.item() if dtype.kind != "V" else float(v.value) for v in values]
        if not all(np.isfinite(n) for n in numbers) or dtype.kind == "c":
            return None
        for over in (0, *_NUMERATORS) if dtype in FLOATS else (0,):
            sizes = [round(over / n) if over and n else round(n) for n in numbers]
            polynomial = self._polynomial(sizes)
            if polynomial is None or (over and 0 in sizes):
                continue
            ratio = Ratio(polynomial, over)
            if [ratio.bits(dtype, at) for at in self.places] == bits:
                return ratio
        return None


def solved(
    monomials: Sequence[Monomial], places: Sequence[Numbers], values: Sequence[int]
) -> dict[Monomial, Fraction] | None:
    """Coefficients of products whose sum has these values; None if they are not unique.

    Gauss-Jordan elimination over fractions.
    """
    table = [
        [
            *(Fraction(prod(at[s] for s in m)) for m in monomials),
            Fraction(v),
        ]
        for at, v in zip(places, values, strict=True)
    ]
    count = len(monomials)
    for column in range(count):
        pivot = next((r for r in range(column, len(table)) if table[r][column]), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        head = table[column] = [x / table[column][column] for x in table[column]]
        for r, row in enumerate(table):
            if r != column and row[column]:
                table[r] = [x - row[column] * y for x, y in zip(row, head, strict=True)]
    if any(row[count] for row in table[count:]):
        return None
    return {m: table[i][count] for i, m in enumerate(monomials)}
