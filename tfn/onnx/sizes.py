"""Sizes that are open: the graphs of one function at several sizes become one.

    b = 7: Expand(x, [7, 3])     b = 11: Expand(x, [11, 3])     ->     Expand(x, Concat(b, [3]))

The graphs have the same nodes: the function was proved to be the same at all sizes that the
constraints allow.  A constant that differs is a polynomial in the sizes, or a number divided by
one, and is computed of the shapes of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tfn.dtypes import FLOAT64, INT64
from tfn.errors import ExportError
from tfn.onnx.builder import NUMBERS, Body, Builder, Data, Name, Row, Value
from tfn.onnx.insides import Numbers, Polynomial, basis, solved
from tfn.onnx.tidy import bodies, every

NUMERATORS = tuple(sign * n for n in (1, 2, 3, 4, 5, 6, 7, 8, 0.5, 0.25) for sign in (1, -1))


@dataclass(slots=True)
class Sizes:
    """The nodes that compute sizes, at the beginning of a graph.

    Attributes:
        builder: to which they are written.
        places: the values of the symbols for which there are graphs.
        symbols: an input, an axis and the size there, which determines the symbol.
        known: the names of symbols that have been computed.
    """

    builder: Builder
    places: Sequence[Numbers]
    symbols: Mapping[str, tuple[Name, int, Polynomial]]
    known: dict[str, Name] = field(default_factory=dict)

    def symbol(self, name: str) -> Name:
        """A size of an input, as an array of one element."""
        if name not in self.known:
            source, axis, size = self.symbols[name]
            b = self.builder
            held = b.add("Shape", source, start=axis, end=axis + 1)
            factors = size.fractions
            offset, scale = factors.get((), Fraction(0)), factors[(name,)]
            if offset:
                held = b.add("Sub", held, b.ints([int(offset)]))
            if scale != 1:
                held = b.add("Mul", held, b.ints([scale.denominator]))
                held = b.add("Div", held, b.ints([scale.numerator]))
            self.known[name] = held
        return self.known[name]

    def polynomial(self, terms: Mapping[tuple[str, ...], Fraction]) -> Name:
        """A polynomial, as an array of one element."""
        b, total = self.builder, Polynomial.of(terms)
        parts = []
        for product, factor in total.terms:
            part = b.ints([factor]) if not product or factor != 1 else ""
            for name in product:
                part = b.add("Mul", part, self.symbol(name)) if part else self.symbol(name)
            parts.append(part)
        out = parts[0]
        for part in parts[1:]:
            out = b.add("Add", out, part)
        return out if total.divisor == 1 else b.add("Div", out, b.ints([total.divisor]))

    def fitted(self, values: Sequence[int]) -> dict[tuple[str, ...], Fraction] | None:
        """The polynomial that has these values."""
        symbols = sorted(self.places[0])
        for degree in (0, 1, 2):
            terms = solved(basis(symbols, degree), self.places, values)
            if terms is not None:
                return {product: k for product, k in terms.items() if k}
        return None

    def constant(self, values: Sequence[Data]) -> Name | None:
        """The name of a value that differs between the graphs; None if no formula gives it."""
        first = values[0]
        if first.dtype == INT64 and first.ndim <= 1:
            columns = [
                self.fitted([int(v.reshape(-1)[i]) for v in values]) for i in range(first.size)
            ]
            if any(c is None for c in columns):
                return None
            parts = [self.polynomial(c) if c else self.builder.ints([0]) for c in columns]
            joined = parts[0] if len(parts) == 1 else self.builder.add("Concat", *parts, axis=0)
            return joined if first.ndim else self.scalar(joined)
        return self.ratio(values) if first.ndim == 0 else None

    def scalar(self, name: Name) -> Name:
        """An array of one element without axes."""
        return self.builder.add("Squeeze", name)

    def ratio(self, values: Sequence[Data]) -> Name | None:
        """A number that is a size, or is divided by one."""
        numbers = [float(v) for v in values]
        if not all(np.isfinite(numbers)):
            return None
        b, dtype = self.builder, values[0].dtype
        for over in (0, *NUMERATORS) if dtype.kind not in "iu" else (0,):
            if over and 0 in numbers:
                continue
            sizes = [round(over / n) if over else round(n) for n in numbers]
            terms = self.fitted(sizes)
            again = [
                np.asarray(over / n if over else n).astype(dtype) for n in sizes if n or not over
            ]
            if terms is None or [x.tobytes() for x in again] != [v.tobytes() for v in values]:
                continue
            size = self.scalar(self.polynomial(terms))
            if over:
                size = b.add("Div", b.number(over, FLOAT64), b.cast(size, FLOAT64))
            return b.add("Cast", size, to=NUMBERS[dtype])
        return None


def unified(graphs: Sequence[tuple[Body, dict[Name, Data]]], sizes: Sizes, name: str) -> Body:
    """One graph for all sizes; its constants are those of the first one, and of `sizes`.

    Raises:
        ExportError: where graphs differ in more than constants that follow from sizes.
    """
    (first, constants), *rest = graphs
    for other, _ in rest:
        if not _same(first.rows, other.rows):
            raise _differ(name, "operations, or attributes of them")
    _opened(first.rows, [other.rows for other, _ in rest])
    moved: dict[Name, Name] = {}
    places = {row.inputs[1]: row for row in every(first.rows) if row.op == "Reshape"}
    for constant, value in list(constants.items()):
        others = [c.get(constant) for _, c in rest]
        values = [value, *(v for v in others if v is not None)]
        if len(values) != len(graphs) or len({v.shape for v in values}) > 1:
            raise _differ(name, f"a constant of shape {value.shape}")
        if all(v is value or v.tobytes() == value.tobytes() for v in values):
            continue
        apart = [i for i in range(value.size) if len({v.reshape(-1)[i] for v in values}) > 1]
        if constant in places and len(apart) == 1:  # Reshape finds one size itself
            constants[constant] = value = value.copy()
            value[apart[0]] = -1
            continue
        made = sizes.constant(values)
        if made is None:
            seen = "; ".join(str(v.tolist()) for v in values[:3])
            raise _differ(name, f"a number that is {seen}")
        moved[constant] = made
    constants.update(sizes.builder.shared.constants)
    return Body([*sizes.builder.rows, *_replaced(first.rows, moved)], first.inputs, first.outputs)


def _opened(rows: Sequence[Row], others: Sequence[Sequence[Row]]) -> None:
    """Leave sizes of inputs and results within nodes open where the graphs differ."""
    for same in zip(rows, *others, strict=True):
        for body, *rest in zip(*map(bodies, same), strict=True):
            for name in ("inputs", "outputs"):
                listed = zip(*(getattr(x, name) for x in (body, *rest)), strict=True)
                setattr(body, name, [_open(values) for values in listed])
            _opened(body.rows, [x.rows for x in rest])


def _open(values: Sequence[Value]) -> Value:
    shapes = zip(*(v.shape for v in values), strict=True)
    return values[0]._replace(shape=tuple(n[0] if len(set(n)) == 1 else None for n in shapes))


def _replaced(rows: Sequence[Row], names: Mapping[Name, Name]) -> list[Row]:
    """Nodes that read other names."""
    changed = []
    for row in rows:
        attributes: dict[str, Any] = {
            key: Body(_replaced(value.rows, names), value.inputs, value.outputs)
            if isinstance(value, Body)
            else value
            for key, value in row.attributes.items()
        }
        inputs = [names.get(n, n) for n in row.inputs]
        changed.append(Row(row.op, inputs, row.outputs, attributes, row.domain))
    return changed


def _same(a: Sequence[Row], b: Sequence[Row]) -> bool:
    return len(a) == len(b) and all(
        (x.op, x.inputs, x.outputs) == (y.op, y.inputs, y.outputs)
        and _plain(x) == _plain(y)
        and all(_same(p.rows, q.rows) for p, q in zip(bodies(x), bodies(y), strict=True))
        for x, y in zip(a, b, strict=True)
    )


def _plain(row: Row) -> dict[str, Any]:
    return {k: v for k, v in row.attributes.items() if not isinstance(v, Body)}


def _differ(name: str, what: str) -> ExportError:
    return ExportError(
        f"{name} cannot be written for all sizes",
        got=f"at several sizes ONNX needs other {what}",
        hint="save it for each size instead",
    )
