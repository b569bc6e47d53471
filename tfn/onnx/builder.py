"""Graphs of ONNX in the making: nodes, constants, and the values that nodes of tfn have in them.

An elementwise operation of ONNX broadcasts its operands.  So a value that was broadcast stays as
small as it was, with its axes of size 1, until an operation needs all of it (`full`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tfn.onnx import schema
from tfn.onnx.insides import Op, UOp, param, walk

Data = np.ndarray[Any, Any]
Name = str
NUMBERS = {dtype: number for number, dtype in schema.DTYPES.items()}
"""Element types of ONNX by dtype."""

OPSET = 21
"""The version of the operations that files ask for, where no node needs a later one."""

DOMAIN = "tfn"
"""The domain of functions that a file defines."""


@dataclass(slots=True)
class Row:
    """A node: attributes are numbers, texts, lists of them, or `Body`."""

    op: str
    inputs: list[Name]
    outputs: list[Name]
    attributes: dict[str, Any]
    domain: str = ""


class Value(NamedTuple):
    """An input or output of a graph; a size that is open is None."""

    name: Name
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


@dataclass(slots=True)
class Body:
    """A graph, of a file, of a function of it, or within a node."""

    rows: list[Row]
    inputs: list[Value]
    outputs: list[Value]


@dataclass(slots=True)
class Shared:
    """The parts that all graphs of a file share.

    Attributes:
        constants: arrays by name.
        functions: bodies of functions of the file by name: inputs, outputs, nodes.
        count: of names that have been given.
        opset: the version of operations that nodes need.
    """

    constants: dict[Name, Data] = field(default_factory=dict)
    functions: dict[str, Body] = field(default_factory=dict)
    count: int = 0
    opset: int = OPSET


@dataclass(frozen=True, slots=True)
class Term:
    """A value: its name, and the shape that it has, which broadcasts to that of its node."""

    name: Name
    shape: tuple[int, ...]


Terms = Term | tuple[Term, ...]
Rule = Callable[["Builder", UOp], Terms]
"""From a node, whose sources have terms, to its own."""


@dataclass(slots=True)
class Builder:
    """A graph in the making.

    Attributes:
        shared: what it shares with the graphs around it.
        rules: by the operations of tfn.
        rows: nodes so far.
        terms: the values of nodes of tfn.
    """

    shared: Shared
    rules: Mapping[Op, Rule]
    rows: list[Row] = field(default_factory=list)
    terms: dict[UOp, Terms] = field(default_factory=dict)

    # Nodes and constants.

    def add(self, op: str, *inputs: Name, opset: int = OPSET, **attributes: Any) -> Name:
        """A node of one result, whose name is given back."""
        return self.many(op, inputs, 1, opset, **attributes)[0]

    def many(
        self, op: str, inputs: Sequence[Name], count: int, opset: int = OPSET, **attributes: Any
    ) -> list[Name]:
        """A node of `count` results."""
        self.shared.opset = max(self.shared.opset, opset)
        outputs = [self.fresh(op) for _ in range(count)]
        domain = DOMAIN if op in self.shared.functions else ""
        self.rows.append(Row(op, list(inputs), outputs, attributes, domain))
        return outputs

    def fresh(self, kind: str) -> Name:
        """A name that no other value has."""
        self.shared.count += 1
        return f"{kind.lower()}_{self.shared.count}"

    def constant(self, value: Any, dtype: Any = None) -> Name:
        """An array that is known; each has a name of its own until `tidy` joins equal ones."""
        name = self.fresh("const")
        self.shared.constants[name] = np.asarray(value, dtype)
        return name

    def ints(self, values: Sequence[int]) -> Name:
        """Integers, as shapes, axes and places are."""
        return self.constant(list(values), np.int64)

    def number(self, value: float, dtype: np.dtype[Any]) -> Name:
        """A number as an array without axes."""
        return self.constant(np.asarray(value).astype(dtype))

    def cast(self, name: Name, dtype: Any) -> Name:
        """A value in another dtype, by the rule of ONNX."""
        return self.add("Cast", name, to=NUMBERS[np.dtype(dtype)])

    # Values of nodes of tfn.

    def values(self, roots: Sequence[UOp]) -> None:
        """Write the nodes of ONNX for all nodes under the roots."""
        for node in walk(roots, lambda u: u not in self.terms):
            if node not in self.terms and node.op is not Op.FUNCTION:
                self.terms[node] = self.rules[node.op](self, node)

    def value(self, node: UOp) -> Terms:
        """The term of a node that a rule has made."""
        self.values([node])
        return self.terms[node]

    def term(self, node: UOp) -> Term:
        """The value of a node, which may have fewer elements than the node."""
        term = self.terms[node]
        assert isinstance(term, Term), node
        return term

    def full(self, node: UOp) -> Name:
        """The value of a node in its own shape."""
        term = self.term(node)
        if term.shape != node.shape:
            held = self.add("Expand", term.name, self.ints(node.shape))
            term = self.terms[node] = Term(held, node.shape)
        return term.name

    def call(self, function: UOp, operands: Sequence[Term]) -> list[Term]:
        """The results of a closed function, written into this graph."""
        inner = Builder(self.shared, self.rules, self.rows)
        inner.terms.update(zip(map(param, function.arg.params), operands, strict=True))
        inner.values(function.src)
        return [inner.term(u) for u in function.src]

    def nested(self) -> Builder:
        """A graph within this one, which reads its names."""
        return Builder(self.shared, self.rules)
