"""Graphs of ONNX files as records: nodes, constants, the types of inputs and outputs.

    bytes -> messages (`wire`) -> records, checked: each name is defined before it is read

Tensors are views of the file, of files beside it where the weights are apart, or arrays made of
lists of numbers.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tfn.errors import OutOfMemoryError, StateError
from tfn.extend import frozen
from tfn.onnx import schema
from tfn.onnx.wire import parse

Data = np.ndarray[Any, Any]
Domain = str
RANK_LIMIT = 64  # that of NumPy
SPARSE_LIMIT_BYTES = 1 << 30
"""The most bytes of an array of which a file has few elements: a small file could ask for all
memory."""

EXTERNAL = 1  # TensorProto.DataLocation.EXTERNAL
FLOAT, INT, STRING, TENSOR, GRAPH = 1, 2, 3, 4, 5
FLOATS, INTS, STRINGS, TENSORS, GRAPHS, SPARSE = 6, 7, 8, 9, 10, 11
TYPE = 13


@frozen
class Reference:
    """An attribute of a function's node that is an attribute of the call."""

    name: str


@frozen
class Value:
    """An input or output: sizes are numbers, symbols, or None where the file says nothing."""

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None


@frozen
class Node:
    """A call of an operation.  Inputs that are left out have the name ""."""

    op: str
    domain: Domain
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    name: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}" if self.name else self.op


@frozen
class Graph:
    """Nodes in the order in which they run, and the arrays that they read by name."""

    name: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, Data]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@frozen
class Function:
    """An operation that a file defines by nodes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    defaults: Mapping[str, Any]
    nodes: tuple[Node, ...]
    opsets: Mapping[Domain, int]


@frozen
class File:
    """A model as it lies in a file."""

    graph: Graph
    opsets: Mapping[Domain, int]
    functions: Mapping[tuple[Domain, str], Function]


def read(data: memoryview, folder: Path | None) -> File:
    """The records of a model.

    Args:
        data: the bytes of a file.
        folder: where files of weights lie; None for none.

    Raises:
        StateError: for bytes that are no model, or one that contradicts itself.
        OSError: for a file of weights that cannot be opened.
    """
    model = parse(data, "Model", schema.SCHEMAS)
    if model["graph"] is None or not model["opsets"]:
        raise damaged("it has no graph, or no version of its operations")
    reader = _Reader(folder, {})
    functions = {
        (domain(f["domain"]), f["name"] or ""): reader.function(f) for f in model["functions"]
    }
    graph = reader.graph(model["graph"], frozenset())
    return File(graph, _opsets(model["opsets"]), functions)


def domain(name: str | None) -> Domain:
    """The domain of an operation; that of the standard has two names."""
    return "" if name in (None, "ai.onnx") else str(name)


def damaged(what: str) -> StateError:
    """The error for a file that contradicts itself."""
    return StateError("this ONNX model contradicts itself", got=what, hint="export it again")


def _opsets(messages: Sequence[dict[str, Any]]) -> dict[Domain, int]:
    return {domain(m["domain"]): m["version"] or 1 for m in messages}


@frozen
class _Reader:
    folder: Path | None
    mapped: dict[Path, memoryview]  # files of weights that have been opened

    def graph(self, message: dict[str, Any], outer: frozenset[str]) -> Graph:
        """A graph, within one whose names are `outer`."""
        constants = {t["name"] or "": self.tensor(t) for t in message["initializers"]}
        for sparse in message["sparse_initializers"]:
            constants[_part(sparse, "values")["name"] or ""] = self.sparse(sparse)
        inputs = tuple(_value(v) for v in message["inputs"])
        outputs = tuple(_value(v) for v in message["outputs"])
        defined = outer | constants.keys() | {v.name for v in inputs}
        nodes = self.nodes(message["nodes"], defined)
        names = defined.union(*(n.outputs for n in nodes))
        for out in outputs:
            if out.name not in names:
                raise damaged(f"no node makes the output {out.name!r}")
        return Graph(message["name"] or "", nodes, constants, inputs, outputs)

    def nodes(self, messages: Sequence[dict[str, Any]], names: frozenset[str]) -> tuple[Node, ...]:
        """Nodes in order, each of which reads what is defined before it."""
        defined, made = {"", *names}, []
        for message in messages:
            inputs, outputs = tuple(message["inputs"]), tuple(message["outputs"])
            op = message["op"]
            if not op:
                raise damaged("a node says no operation")
            for name in inputs:
                if name not in defined:
                    raise damaged(f"{op} reads {name!r}, which nothing before it makes")
            known = (
                frozenset(defined) if any(_holds_graph(a) for a in message["attributes"]) else names
            )
            attributes = {a["name"] or "": self.attribute(a, known) for a in message["attributes"]}
            defined.update(outputs)
            home = domain(message["domain"])
            made.append(Node(op, home, inputs, outputs, attributes, message["name"] or ""))
        return tuple(made)

    def function(self, message: dict[str, Any]) -> Function:
        """An operation of the file's own."""
        inputs = tuple(message["inputs"])
        defaults = {a["name"]: self.attribute(a, frozenset()) for a in message["defaults"]}
        nodes = self.nodes(message["nodes"], frozenset(inputs))
        given = {name for node in nodes for name in node.outputs}
        for name in message["outputs"]:
            if name not in given and name not in inputs:
                raise damaged(f"the function {message['name']} does not make {name!r}")
        return Function(
            inputs,
            tuple(message["outputs"]),
            tuple(message["attributes"]),
            defaults,
            nodes,
            _opsets(message["opsets"]),
        )

    def attribute(self, message: dict[str, Any], names: frozenset[str]) -> Any:
        """The value of an attribute."""
        if message["reference"]:
            return Reference(message["reference"])
        kind = message["type"] or _guessed(message)
        if kind in (FLOAT, INT):
            return message["f" if kind == FLOAT else "i"] or 0
        if kind == STRING:
            return _text(message["s"] or b"")
        if kind == TENSOR:
            return self.tensor(_part(message, "t"))
        if kind == GRAPH:
            return self.graph(_part(message, "g"), names)
        if kind in (FLOATS, INTS):
            return tuple(message["floats" if kind == FLOATS else "ints"])
        if kind == STRINGS:
            return tuple(_text(s) for s in message["strings"])
        if kind == TENSORS:
            return tuple(self.tensor(t) for t in message["tensors"])
        if kind == GRAPHS:
            return tuple(self.graph(g, names) for g in message["graphs"])
        if kind == SPARSE:
            return self.sparse(_part(message, "sparse"))
        if kind == TYPE:
            return _type(message["tp"] or {})
        raise damaged(f"the attribute {message['name']!r} is of no kind that ONNX has: {kind}")

    def tensor(self, message: dict[str, Any]) -> Data:
        """An array: a view where the file has its bytes in order, else a copy."""
        name, number = message["name"] or "a constant", message["dtype"]
        shape = _shape(message, name)
        size = prod(shape)
        if number == schema.STRING:
            texts = [_text(s) for s in message["strings"]]
            return _shaped(np.array(texts, object), shape, name)
        dtype = schema.DTYPES.get(number or 0)
        if dtype is None:
            raise damaged(f"{name} has elements of type {number}, which ONNX does not have")
        raw = self.external(message, name) if message["location"] == EXTERNAL else message["raw"]
        if number in schema.BITS:
            return _narrow(message, raw, number, dtype, shape, name)
        if raw is not None:
            if len(raw) != size * dtype.itemsize:
                raise damaged(f"{name} has {len(raw):,} bytes for the shape {shape}, {dtype}")
            return np.frombuffer(raw, dtype).reshape(shape)
        return _shaped(_listed(message, dtype), shape, name)

    def external(self, message: dict[str, Any], name: str) -> memoryview:
        """The bytes of an array in another file, which lies in the folder of the model."""
        entries = {e["key"]: e["value"] or "" for e in message["external"]}
        place = entries.get("location") or ""
        if self.folder is None or not place:
            raise damaged(f"{name} lies in the file {place!r}, but the model was read from bytes")
        path = (self.folder / place).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise damaged(f"{name} lies in {place!r}, outside of the folder of the model")
        if path not in self.mapped:
            self.mapped[path] = mapped(path)
        data = self.mapped[path]
        start, size = (entries.get(key) or "" for key in ("offset", "length"))
        if not all(not text or (text.isascii() and text.isdigit()) for text in (start, size)):
            raise damaged(f"{name} lies at {start!r} and has {size!r} bytes")
        first = int(start or 0)
        length = int(size) if size else len(data) - first
        if first + length > len(data) or length < 0:
            raise damaged(f"{name} ends behind the end of {place}")
        return data[first : first + length]

    def sparse(self, message: dict[str, Any]) -> Data:
        """An array of which the file has some elements; all others are zero."""
        values = self.tensor(_part(message, "values"))
        places = self.tensor(_part(message, "indices"))
        shape = _shape(message, "a sparse array")
        if prod(shape) * values.dtype.itemsize > SPARSE_LIMIT_BYTES:
            raise OutOfMemoryError(
                "a sparse array of the model would take more memory than is allowed to one",
                got=f"shape {shape}, {values.dtype}",
                hint=f"the limit is {SPARSE_LIMIT_BYTES:,} bytes: store it as it is",
            )
        if places.ndim == 2 and places.shape[1] == len(shape):
            inside = bool(((places >= 0) & (places < np.array(shape))).all())
            flat = np.ravel_multi_index(tuple(places.T), shape) if inside else places
        else:
            inside = bool(((places >= 0) & (places < prod(shape))).all())
            flat = places
        if not inside or flat.shape != values.shape:
            raise damaged("a sparse array has elements outside of its shape")
        dense = np.zeros(prod(shape), values.dtype)
        dense[flat] = values
        return dense.reshape(shape)


def mapped(path: Path) -> memoryview:
    """The bytes of a file, read as they are used."""
    with open(path, "rb") as file:
        if not path.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _listed(message: dict[str, Any], dtype: np.dtype[Any]) -> Data:
    """The elements of an array that are written as numbers, in the field for its type."""
    if dtype.kind == "c":
        parts = message["floats"] if dtype.itemsize == 8 else message["doubles"]
        return np.array(parts, np.float64).view(np.complex128).astype(dtype)
    field = {"float32": "floats", "float64": "doubles", "int64": "int64s"}.get(dtype.name)
    if dtype.name in ("uint32", "uint64"):
        field = "uint64s"
    values = message[field or "int32s"]
    if field is None and dtype.kind not in "iub":  # narrow floats are written as their bits
        bits = np.array([v & (1 << 8 * dtype.itemsize) - 1 for v in values], f"u{dtype.itemsize}")
        return bits.view(dtype)
    if dtype.kind in "iu":
        width = 8 * dtype.itemsize
        return np.array([v & (1 << width) - 1 for v in values], f"u{dtype.itemsize}").view(dtype)
    return np.array(values, dtype)


def _narrow(
    message: dict[str, Any],
    raw: memoryview | None,
    number: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    name: str,
) -> Data:
    """An array of elements of 4 or 2 bits, several to a byte."""
    bits = schema.BITS[number]
    packed = raw if raw is not None else bytes(v & 255 for v in message["int32s"])
    each, size = 8 // bits, prod(shape)
    if len(packed) != -(-size // each):
        raise damaged(f"{name} has {len(packed):,} bytes for the shape {shape}, {dtype}")
    parts = np.frombuffer(packed, np.uint8)[:, None] >> np.arange(0, 8, bits).astype(np.uint8)
    codes = (parts & (1 << bits) - 1).astype(np.uint8).reshape(-1)[:size]
    values: Data = codes.view(dtype) if dtype.name.startswith("float") else codes.astype(dtype)
    if dtype.name in ("int4", "int2"):
        half = 1 << bits - 1
        values = ((codes.astype(np.int8) ^ half) - half).astype(dtype)
    return values.reshape(shape)


def _shape(message: dict[str, Any], name: str) -> tuple[int, ...]:
    """The shape of an array, which NumPy can make without its axes of size 0."""
    shape = tuple(message["dims"])
    if len(shape) > RANK_LIMIT or any(n < 0 for n in shape) or prod(n or 1 for n in shape) >> 58:
        raise damaged(f"{name} has the shape {shape}")
    return shape


def _shaped(values: Data, shape: tuple[int, ...], name: str) -> Data:
    if values.size != prod(shape):
        raise damaged(f"{name} has {values.size:,} elements for the shape {shape}")
    return values.reshape(shape)


def _value(message: dict[str, Any]) -> Value:
    """The name and type of an input or output."""
    name, kind = message["name"] or "", message["type"] or {}
    return Value(name, *_type(kind))


def _type(kind: dict[str, Any]) -> tuple[np.dtype[Any] | None, tuple[int | str | None, ...] | None]:
    """The dtype and shape of a type; None for what is no array, or not said."""
    if not kind or kind["tensor"] is None:
        return None, None
    tensor = kind["tensor"]
    shape = tensor["shape"]
    sizes = None if shape is None else tuple(_size(d) for d in shape["dims"])
    return schema.DTYPES.get(tensor["dtype"] or 0), sizes


def _size(message: dict[str, Any]) -> int | str | None:
    """A size: a number, a symbol, or None, as "?" and negative numbers say too."""
    symbol, size = message["symbol"] or "", message["size"]
    if symbol and (symbol[0].isalpha() or symbol[0] == "_"):
        return str(symbol)
    return size if size is not None and size >= 0 and not symbol else None


def _holds_graph(message: dict[str, Any]) -> bool:
    return bool(message["g"] is not None or message["graphs"])


def _guessed(message: dict[str, Any]) -> int:
    """The kind of an attribute in files of the first version, which do not say it."""
    fields = {
        FLOAT: "f",
        INT: "i",
        STRING: "s",
        TENSOR: "t",
        GRAPH: "g",
        FLOATS: "floats",
        INTS: "ints",
        STRINGS: "strings",
    }
    return next((kind for kind, name in fields.items() if message[name] not in (None, [])), 0)


def _part(message: dict[str, Any], name: str) -> dict[str, Any]:
    part = message[name]
    if part is None:
        raise damaged(f"it lacks a message {name!r}")
    return dict(part)


def _text(data: Any) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise damaged(f"a text is none: {error}") from None
