"""Graphs made shorter: equal nodes and constants joined, transpositions composed, names short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfn.onnx import schema
from tfn.onnx.builder import Body, Data, Name, Row, Value

SMALL = 64
"""The most elements of a constant that is compared by value."""


def tidied(
    body: Body, constants: dict[Name, Data], pinned: Collection[Name], results: Sequence[Name]
) -> Body:
    """A graph with as few nodes as say the same.

    Args:
        body: the graph of a file.
        constants: by name; afterwards those that the graph reads.
        pinned: names that stay.
        results: names that the results get.
    """
    uses = Counter(name for row in every(body.rows) for name in row.inputs)
    made = _Joined(constants, frozenset(pinned), uses).body(body, {})
    made = Body(_needed(made.rows, {v.name for v in made.outputs}), made.inputs, made.outputs)
    return _named(made, constants, pinned, results)


def every(rows: Sequence[Row]) -> Iterator[Row]:
    """All nodes, those of graphs within others too."""
    for row in rows:
        yield row
        for body in bodies(row):
            yield from every(body.rows)


def bodies(row: Row) -> list[Body]:
    """The graphs within a node."""
    return [value for value in row.attributes.values() if isinstance(value, Body)]


@dataclass(slots=True)
class _Joined:
    """The state of joining what is equal.

    Attributes:
        constants: by name; equal ones get one name.
        weights: the names of those that are no numbers of the graph's own.
        uses: how often each name is read.
        names: by which each joined name is replaced.
        values: the names of constants by value.
        makers: the transposition that makes a name.
    """

    constants: dict[Name, Data]
    weights: frozenset[Name]
    uses: Counter[Name]
    names: dict[Name, Name] = field(default_factory=dict)
    values: dict[Any, Name] = field(default_factory=dict)
    makers: dict[Name, Row] = field(default_factory=dict)

    def body(self, body: Body, outer: dict[Any, list[Name]]) -> Body:
        """A graph, within one whose nodes are `outer`."""
        seen, rows = dict(outer), []
        for old in body.rows:
            attributes = {
                name: self.body(value, seen) if isinstance(value, Body) else value
                for name, value in old.attributes.items()
            }
            inputs = [self.resolved(name) for name in old.inputs]
            row = Row(old.op, inputs, old.outputs, attributes, old.domain)
            if self.folded(row) or self.composed(row):
                continue
            key = (row.op, row.domain, tuple(row.inputs), _frozen(row.attributes))
            if bodies(row) or key not in seen:
                seen[key] = row.outputs
                rows.append(row)
            else:
                self.names.update(zip(row.outputs, seen[key], strict=True))
        made = {name for row in rows for name in row.outputs}
        results: dict[Name, Value] = {}
        for value in body.outputs:
            found = self.resolved(value.name)
            if found not in made or found in results:  # a result is made here, and is one result
                rows.append(Row("Identity", [found], [f"{found} {len(results)}"], {}))
                found = rows[-1].outputs[0]
            results[found] = value._replace(name=found)
        return Body(rows, body.inputs, list(results.values()))

    def resolved(self, name: Name) -> Name:
        """The name that stands for another one now."""
        while self.names.get(name, name) != name:
            name = self.names[name]
        if name not in self.constants:
            return name
        value = self.constants[name]
        small = value.size <= SMALL and name not in self.weights
        content = value.tobytes() if small else id(value)
        return self.values.setdefault((content, value.shape, value.dtype), name)

    def folded(self, row: Row) -> bool:
        """Whether a node is of constants that no other node needs, and becomes one."""
        fold = FOLDS.get(row.op)
        if fold is None or any(name not in self.constants for name in row.inputs):
            return False
        first, *rest = (self.constants[name] for name in row.inputs)
        if row.inputs[0] in self.weights:
            if self.uses[row.inputs[0]] > 1:
                return False
            self.names[row.outputs[0]] = row.inputs[0]
            self.constants[row.inputs[0]] = fold(row, first, *rest)
        else:
            self.constants[row.outputs[0]] = fold(row, first, *rest)
        return True

    def composed(self, row: Row) -> bool:
        """Whether a transposition undoes another one; of another one it becomes one."""
        if row.op != "Transpose":
            return False
        maker = self.makers.get(row.inputs[0])
        if maker is not None:
            first, second = maker.attributes["perm"], row.attributes["perm"]
            perm = [first[a] for a in second]
            if perm == sorted(perm):
                self.names[row.outputs[0]] = maker.inputs[0]
                return True
            row.inputs, row.attributes = [maker.inputs[0]], {"perm": perm}
        self.makers[row.outputs[0]] = row
        return False


FOLDS: dict[str, Callable[..., Data]] = {
    "Transpose": lambda row, x: np.ascontiguousarray(x.transpose(row.attributes["perm"])),
    "Reshape": lambda row, x, shape: x.reshape(shape),
    "Cast": lambda row, x: x.astype(schema.DTYPES[row.attributes["to"]]),
}
"""Operations of constants that are done before a file is written, on NumPy arrays."""


def _frozen(value: Any) -> Any:
    """A value of attributes as something to compare by."""
    if isinstance(value, dict):
        return tuple((name, _frozen(part)) for name, part in sorted(value.items()))
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return id(value) if isinstance(value, (Body, np.ndarray)) else value


def _needed(rows: Sequence[Row], wanted: set[Name]) -> list[Row]:
    """The nodes of which a result is read, by graphs within others too."""
    kept: list[Row] = []
    for row in reversed(rows):
        if wanted.isdisjoint(row.outputs):
            continue
        attributes = {}
        for name, value in row.attributes.items():
            if isinstance(value, Body):
                inner = _needed(value.rows, {v.name for v in value.outputs})
                value = Body(inner, value.inputs, value.outputs)
                wanted.update(n for r in every(inner) for n in r.inputs)
                wanted.update(v.name for v in value.outputs)
            attributes[name] = value
        wanted.update(row.inputs)
        kept.append(Row(row.op, row.inputs, row.outputs, attributes, row.domain))
    return kept[::-1]


def _named(
    body: Body, constants: dict[Name, Data], pinned: Collection[Name], results: Sequence[Name]
) -> Body:
    """A graph whose names say what made them: operation and number, or the value of a constant."""
    read = {name for row in every(body.rows) for name in row.inputs}
    for name in [name for name in constants if name not in read]:
        del constants[name]
    names = {"": "", **{name: name for name in pinned}}
    names.update(zip((v.name for v in body.outputs), results, strict=True))
    taken = set(names.values())
    count: Counter[str] = Counter()

    def fresh(kind: str) -> Name:
        count[kind] += 1
        name = kind if count[kind] == 1 and kind[-1:] in "]0123456789" else f"{kind}_{count[kind]}"
        return fresh(kind) if name in taken else name

    def give(old: Name, kind: str) -> None:
        if old not in names:
            names[old] = fresh(kind)
            taken.add(names[old])

    for name, value in list(constants.items()):
        give(name, _text(value))
        if names[name] != name:
            constants[names[name]] = constants.pop(name)

    def renamed(inner: Body) -> Body:
        for value in inner.inputs:
            give(value.name, "item")
        rows = []
        for row in inner.rows:
            for name in row.outputs:
                give(name, row.op.lower())
            attributes = {
                name: renamed(part) if isinstance(part, Body) else part
                for name, part in row.attributes.items()
            }
            inputs, outputs = ([names[n] for n in part] for part in (row.inputs, row.outputs))
            rows.append(Row(row.op, inputs, outputs, attributes, row.domain))
        typed = [[v._replace(name=names[v.name]) for v in p] for p in (inner.inputs, inner.outputs)]
        return Body(rows, *typed)

    return renamed(body)


def _text(value: Data) -> str:
    """A short constant as it is written."""
    if value.size > 8:
        return "constant"
    return str(value.tolist()).replace(" ", "")
