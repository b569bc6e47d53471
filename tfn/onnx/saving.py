"""`save`: a function as an ONNX file.

function -> nodes of tfn (`insides`) -> nodes of ONNX (`rules`, `builder`) -> tidied (`tidy`)
         -> one graph for all sizes (`sizes`), where shapes have symbols -> bytes (`wire`)
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfn import __version__, tree
from tfn.errors import NotAvailableError
from tfn.extend import PathLike, replacing
from tfn.onnx import schema
from tfn.onnx.builder import DOMAIN, NUMBERS, Body, Builder, Data, Name, Row, Shared, Term, Value
from tfn.onnx.insides import (
    Input,
    Op,
    Outline,
    Polynomial,
    Symbolic,
    UOp,
    anyhow,
    lowered,
    name_of,
    param,
    walk,
    witnesses,
)
from tfn.onnx.rules import RULES
from tfn.onnx.sizes import Sizes, unified
from tfn.onnx.tidy import tidied
from tfn.onnx.wire import Part, written

FILE_LIMIT_BYTES = (1 << 31) - (1 << 20)
"""The most bytes of weights within a file: a message of Protocol Buffers has less than 2 GiB."""

EXTERNAL_LEAST_BYTES = 1024
"""Arrays that are shorter stay in the file, where others lie beside it."""

PAGE = 4096
"""Weights beside the file begin at multiples of it, so that they can be mapped."""

IR_VERSIONS = {21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13}
"""The version of the format by that of the operations."""


def save(function: Callable[..., Any], *args: Any, path: PathLike, **kwargs: Any) -> None:
    """Writes a function as an ONNX file, which onnxruntime and others run.

    All that can be traced can be written: networks, their gradients, training steps, loops. Inputs
    of the file have the names of the function's arguments, with those of the leaves within them, as
    ``params.w``; arrays that the function has captured become weights of the file.  Results are
    called ``output``, or by their place in the tree of results.

    Values follow the operations of ONNX in three things: the largest number and a sort may place
    NaN elsewhere, and of two updates of one element by `at[].set` either one may stay.

    Args:
        function: a function of arrays and of pytrees of arrays, jitted or not.
        args: its arguments, or their types, as `tfn.ShapeDtypeStruct`. Sizes may be symbols: see
            `tfn.export.symbolic_shape`.
        path: of the file. Weights of 2 GiB and more lie beside it in a file with ``.data`` added.
        kwargs: arguments by name.

    Raises:
        NotAvailableError: if the function needs operations that ONNX does not have: all are
            listed, and nothing is written.
        ExportError: if it has effects, or is not the same function at all sizes.
        OSError: if a file cannot be written.

    Example:
        >>> import tempfile, tfn
        >>> from tfn import numpy as jnp
        >>> batch = tfn.export.symbolic_shape("batch, 3")
        >>> def network(x):
        ...     return jnp.tanh(x @ jnp.ones((3, 2)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(network, tfn.ShapeDtypeStruct(batch, "float32"), path=f"{folder}/net.onnx")
        ...     model = tfn.onnx.load(f"{folder}/net.onnx")
        >>> model.inputs["x"].shape, model(jnp.ones((4, 3)))["output"].shape
        ((batch, 3), (4, 2))
    """
    made = anyhow(function)(*args, **kwargs)
    if isinstance(made, Symbolic):
        places = witnesses(made.scope)
        instances = [made.at(**numbers) for numbers in places]
    else:
        places, instances = [], [made]
    functions = [lowered(instance) for instance in instances]
    _check(functions[0])
    inputs = _input_names(function, made.inputs)
    weights = _weight_names(function, made.captured, inputs)
    shared = [Shared() for _ in functions]
    graphs = [
        (_graph(closed, [*inputs, *weights], part), part.constants)
        for closed, part in zip(functions, shared)
    ]
    body = graphs[0][0]
    if places:
        count = Shared(count=max(part.count for part in shared))
        sizes = Sizes(Builder(count, RULES), places, _symbols(made.inputs, inputs))
        body = unified(graphs, sizes, name_of(function))
    arrays: dict[Name, Data] = dict(zip(weights, map(np.asarray, made.captured), strict=True))
    constants = {**arrays, **shared[0].constants}
    results = _output_names(made.outputs, set(inputs) | set(weights))
    body = tidied(body, constants, [*inputs, *weights], results)
    body = replace(
        body,
        inputs=[Value(n, i.dtype, i.shape) for n, i in zip(inputs, made.inputs)],
        outputs=[v._replace(shape=u.shape) for v, u in zip(body.outputs, made.out_avals)],
    )
    message = _message(name_of(function), body, shared[0])
    _write(Path(path), message, constants)


def _check(function: UOp) -> None:
    """Refuse operations that have no rule, all at once."""
    missing = Counter(_lacking(function))
    if missing:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
        raise NotAvailableError(
            f"ONNX lacks {len(missing)} operations of the function",
            got=f"operations with how often they occur: {listed}",
            hint="leave them out of the function, or compute them before it",
        )


def _lacking(function: UOp) -> Iterator[str]:
    for p in function.arg.params:
        if p.dtype not in NUMBERS or p.dtype.kind == "c":
            yield f"an argument of {p.dtype}"
    for u in walk(function.src):
        if u.op is Op.FUNCTION and u is not function:
            yield from _lacking(u)
        elif u.op not in RULES and u.op not in (Op.FUNCTION, Op.PARAM):
            run = getattr(u.arg, "run", None)
            name = getattr(u.arg, "name", "") or getattr(run, "__name__", "")
            yield f"{u.op.value} {name}".strip()
        elif u.op is Op.SORT and u.arg.largest is not None and u.arg.keys > 1:
            yield "the largest elements by several keys"


def _graph(function: UOp, names: Sequence[Name], shared: Shared) -> Body:
    """The nodes of a closed function whose parameters have names."""
    builder = Builder(shared, RULES)
    for p, name in zip(function.arg.params, names, strict=True):
        builder.terms[param(p)] = Term(name, p.shape)
    builder.values(function.src)
    outputs = [Value(builder.full(u), u.dtype, u.shape) for u in function.src]
    return Body(builder.rows, [], outputs)


# Names.


def _input_names(function: Callable[..., Any], inputs: Sequence[Input]) -> list[Name]:
    """Names of parameters of the function, and of what lies within them."""
    try:
        signature = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        signature = []
    plain = [p.name for p in signature if p.kind is not p.VAR_POSITIONAL]
    return _unique(
        ".".join(
            plain[key]
            if i == 0 and isinstance(key, int) and key < len(plain)
            else f"arg{key}"
            if i == 0 and isinstance(key, int)
            else str(key)
            for i, key in enumerate(given.path)
        )
        for given in inputs
    )


def _unique(names: Iterable[Name], taken: Iterable[Name] = ()) -> list[Name]:
    """Names of which none is another's, nor taken."""
    used, unique = set(taken), []
    for name in names:
        other, number = name, 1
        while other in used:
            number += 1
            other = f"{name}_{number}"
        used.add(other)
        unique.append(other)
    return unique


def _weight_names(
    function: Callable[..., Any], captured: Sequence[Any], taken: Sequence[Name]
) -> list[Name]:
    """The names by which a function holds the arrays that it has captured."""
    inner = inspect.unwrap(function)
    held: dict[str, Any] = {}
    if inspect.isfunction(inner):
        scope = inspect.getclosurevars(inner)
        held = {**scope.globals, **scope.nonlocals}
    known: dict[int, str] = {}
    for prefix, value in [("", inner), *held.items()]:
        for path, leaf in tree.leaves_with_path(value):
            keys = [prefix, *(str(_key(part)) for part in path)]
            known.setdefault(id(leaf), ".".join(key for key in keys if key))
    return _unique((known.get(id(x)) or "weight" for x in captured), taken)


def _key(part: Any) -> Any:
    return next((getattr(part, n) for n in ("key", "idx", "name") if hasattr(part, n)), part)


def _output_names(outline: Outline, taken: Iterable[Name]) -> list[Name]:
    """Names of results by their place in the tree of results."""
    names: dict[int, Name] = {}

    def visit(part: Outline, path: list[str]) -> None:
        if isinstance(part, int):
            names[part] = ".".join(path) or "output"
        elif part is not None:
            kind, keys, children = part
            labels = [str(k) for k in keys] if kind == "dict" else map(str, range(len(children)))
            for label, child in zip(labels, children):
                lead = [f"output_{label}"] if not path and kind != "dict" else [*path, label]
                visit(child, lead)

    visit(outline, [])
    return _unique((names[i] for i in sorted(names)), taken)


def _symbols(
    inputs: Sequence[Input], names: Sequence[Name]
) -> dict[str, tuple[Name, int, Polynomial]]:
    """For each symbol the simplest size of an input that determines it."""
    found: dict[str, tuple[Name, int, Polynomial]] = {}
    sizes: list[tuple[Name, int, Any]] = [
        (name, axis, size)
        for given, name in zip(inputs, names, strict=True)
        for axis, size in enumerate(given.shape)
        if isinstance(size, Polynomial) and len(size.symbols) == 1 and size.divisor == 1
    ]
    for name, axis, size in sorted(sizes, key=lambda row: len(row[2].terms)):
        (symbol,) = size.symbols
        if {*size.fractions} <= {(), (symbol,)}:
            found.setdefault(symbol, (name, axis, size))
    return found


# Messages.


def _message(name: str, body: Body, shared: Shared) -> dict[str, Any]:
    """A model as messages, without the bytes of its arrays."""
    version = shared.opset
    opsets = [{"domain": "", "version": version}]
    if shared.functions:
        opsets.append({"domain": DOMAIN, "version": 1})
    return {
        "ir_version": IR_VERSIONS[version],
        "producer": "tfn",
        "producer_version": __version__,
        "opsets": opsets,
        "graph": {**_graph_message(body), "name": name},
        "functions": [
            {
                "name": name,
                "domain": DOMAIN,
                "inputs": [v.name for v in function.inputs],
                "outputs": [v.name for v in function.outputs],
                "nodes": [_node(row) for row in function.rows],
                "opsets": [{"domain": "", "version": version}],
            }
            for name, function in shared.functions.items()
        ],
    }


def _graph_message(body: Body) -> dict[str, Any]:
    return {
        "name": "body",
        "nodes": [_node(row) for row in body.rows],
        "inputs": [_value(v) for v in body.inputs],
        "outputs": [_value(v) for v in body.outputs],
    }


def _node(row: Row) -> dict[str, Any]:
    return {
        "op": row.op,
        "name": row.outputs[0],
        "inputs": row.inputs,
        "outputs": row.outputs,
        "attributes": [_attribute(name, value) for name, value in row.attributes.items()],
        "domain": row.domain or None,
    }


def _attribute(name: str, value: Any) -> dict[str, Any]:
    """An attribute, of the kind that its value has."""
    kinds: dict[type, tuple[str, int, Callable[[Any], Any]]] = {
        int: ("i", 2, int),
        str: ("s", 3, str.encode),
        list: ("ints", 7, list),
        Body: ("g", 5, _graph_message),
        np.ndarray: ("t", 4, lambda x: _tensor("", x)),
    }
    field, number, make = kinds[type(value)]
    return {"name": name, field: make(value), "type": number}


def _value(value: Value) -> dict[str, Any]:
    dims: list[dict[str, Any]] = [
        {} if n is None else {"size": n} if isinstance(n, int) else {"symbol": str(n)}
        for n in value.shape
    ]
    kind = {"dtype": NUMBERS[np.dtype(value.dtype)], "shape": {"dims": dims}}
    return {"name": value.name, "type": {"tensor": kind}}


def _tensor(name: Name, value: Data) -> dict[str, Any]:
    """An array with its bytes, of which the file has views."""
    number = NUMBERS[value.dtype]
    return {"name": name, "dims": value.shape, "dtype": number, "raw": _raw(value, number)}


def _raw(value: Data, number: int) -> Part:
    value = np.ascontiguousarray(value)
    bits = schema.BITS.get(number)
    if bits is None:
        flat: Any = value.reshape(-1).view(np.uint8)
        return memoryview(flat) if value.size else b""
    per = 8 // bits  # several elements share a byte, the first in the lowest bits
    words = value.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    words = np.concatenate([words, np.zeros(-len(words) % per, np.uint8)]).reshape(-1, per)
    joined = np.bitwise_or.reduce(words << bits * np.arange(per, dtype=np.uint8), axis=1)
    return bytes(joined)


def _write(path: Path, message: dict[str, Any], constants: Mapping[Name, Data]) -> None:
    """Write a model, and the file of its weights if they are too many for one."""
    beside = sum(value.nbytes for value in constants.values()) > FILE_LIMIT_BYTES
    data = path.with_name(path.name + ".data")
    tensors, outside, at = [], [], 0
    for name, value in constants.items():
        tensor = _tensor(name, value)
        if beside and value.nbytes >= EXTERNAL_LEAST_BYTES:
            raw = tensor.pop("raw")
            at += -at % PAGE
            outside.append((at, raw))
            rows = {"location": data.name, "offset": str(at), "length": str(len(raw))}
            tensor["external"] = [{"key": k, "value": v} for k, v in rows.items()]
            tensor["location"] = 1
            at += len(raw)
        tensors.append(tensor)
    message["graph"]["initializers"] = tensors
    if outside:
        with replacing(data) as file:
            for place, raw in outside:
                file.write(bytes(place - file.tell()))
                file.write(raw)
    with replacing(path) as file:
        file.writelines(written("Model", message, schema.SCHEMAS))
