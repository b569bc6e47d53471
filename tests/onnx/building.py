"""ONNX models made of Python values, by the schema that the reader has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfn.onnx.builder import NUMBERS
from tfn.onnx.schema import BITS, SCHEMAS
from tfn.onnx.wire import written

OPSET = 23


def encoded(kind: str, message: Mapping[str, Any]) -> bytes:
    """The bytes of a message, of the fields that are given."""
    return b"".join(written(kind, message, SCHEMAS))


def tensor(value: np.ndarray[Any, Any], name: str = "") -> dict[str, Any]:
    number = NUMBERS[value.dtype]
    assert number not in BITS, "elements that share bytes are written by hand"
    return {"dims": value.shape, "dtype": number, "raw": value.tobytes(), "name": name}


def attribute(name: str, value: Any) -> dict[str, Any]:
    """An attribute of the kind that fits a value; a dict is a graph."""
    if isinstance(value, float):
        return {"name": name, "f": value, "type": 1}
    if isinstance(value, int):
        return {"name": name, "i": value, "type": 2}
    if isinstance(value, str):
        return {"name": name, "s": value.encode(), "type": 3}
    if isinstance(value, np.ndarray):
        return {"name": name, "t": tensor(value), "type": 4}
    if isinstance(value, dict):
        return {"name": name, "g": value, "type": 5}
    if all(isinstance(v, int) for v in value):
        return {"name": name, "ints": value, "type": 7}
    if all(isinstance(v, float) for v in value):
        return {"name": name, "floats": value, "type": 6}
    return {"name": name, "strings": [v.encode() for v in value], "type": 8}


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> dict[str, Any]:
    """A node; inputs and outputs are names between blanks, a dot for one that is left out."""
    return {
        "op": op,
        "inputs": [n.replace(".", "") for n in inputs.split()],
        "outputs": outputs.split(),
        "attributes": [attribute(k, v) for k, v in attributes.items()],
        "domain": domain,
    }


def value(name: str, dtype: Any = np.float32, shape: Sequence[int | str] | None = None) -> Any:
    kind: dict[str, Any] = {"dtype": NUMBERS[np.dtype(dtype)]}
    if shape is not None:
        dims = [{"symbol": n} if isinstance(n, str) else {"size": n} for n in shape]
        kind["shape"] = {"dims": dims}
    return {"name": name, "type": {"tensor": kind}}


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A graph; inputs and outputs are names, or values with types."""
    typed = [[value(v) if isinstance(v, str) else v for v in group] for group in (inputs, outputs)]
    given = [tensor(np.asarray(v), name) for name, v in (constants or {}).items()]
    return {"nodes": nodes, "inputs": typed[0], "outputs": typed[1], "initializers": given}


def model(made: Mapping[str, Any], opset: int = OPSET, **others: Any) -> bytes:
    """The bytes of a file."""
    opsets = [{"version": opset}, {"domain": "com.microsoft", "version": 1}]
    return encoded("Model", {"ir_version": 10, "graph": made, "opsets": opsets, **others})


def one(op: str, *inputs: Any, outputs: int = 1, opset: int = OPSET, **attributes: Any) -> bytes:
    """A model of one node, whose inputs are named a, b, ...; None for one that is left out."""
    names = ["." if v is None else chr(97 + i) for i, v in enumerate(inputs)]
    made = [f"y{i}" for i in range(outputs)]
    row = node(op, " ".join(names), " ".join(made), **attributes)
    typed = [value(n, np.asarray(v).dtype) for n, v in zip(names, inputs) if v is not None]
    return model(graph([row], typed, made), opset)
