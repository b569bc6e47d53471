"""Models: a graph of an ONNX file as a pure function of its parameters and inputs.

The nodes run one after the other, by the functions of `tfn.onnx.ops`; what is known while tracing
is computed by NumPy, and leaves no operation.  So a model is a function like any other: `jit`,
`grad`, `vmap`, shardings, `export` and `verify` apply to it.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn import random
from tfn.array import Array
from tfn.errors import ArgumentError, NotAvailableError, ShapeError
from tfn.exporting import symbolic_shape
from tfn.extend import PathLike, ShapeDtypeStruct, frozen, shown
from tfn.nn import module, static
from tfn.onnx import graph as graphs
from tfn.onnx.graph import Data, File, Graph, Node, Reference, Value
from tfn.onnx.ops import MICROSOFT, OPS, products

STATIC_INPUTS = {"Resize": (1, 2), "Upsample": (1,), "Range": (0, 1, 2), "Dropout": (1,)}
"""Floating inputs on whose values shapes depend: constants there are no parameters."""

STANDARD, MICROSOFT_DOMAIN = "", "com.microsoft"


class Program:
    """The nodes of a model and the constants that are no parameters; equal to itself alone."""

    def __init__(self, file: File, constants: Mapping[str, Data]) -> None:
        self.file = file
        self.constants = constants


@module
class Model:
    """A model that was loaded: a pytree whose leaves are its parameters.

    Attributes:
        params: floating arrays by their names in the file: initializers, and constants of nodes
            that have more than one element.
    """

    params: dict[str, Array]
    program: Program = static()

    def __call__(
        self, *args: Any, key: Any = None, training: bool = False, **inputs: Any
    ) -> dict[str, Any]:
        """The outputs by name.

        Args:
            args: inputs in the order of the file.
            key: a random key, for dropout and random operations; each of these has a key of its
                own. Without one dropout changes nothing.
            training: whether dropout and batch normalization do what they do in training.
            inputs: inputs by name.

        Raises:
            ArgumentError: for an input that is missing, or none of the model's.
            ShapeError: if an input does not have the shape that the file says.
            NotAvailableError: if the model needs operations that tfn lacks: all are named.
        """
        missing = self.unsupported()
        if missing:
            raise _unsupported(missing)
        names = [v.name for v in self._free()]
        values = _bound(names, args, inputs)
        _check(self._free(), values)
        runner = _Runner(self.program.file, key, training, [0])
        env = {"": None, **self.program.constants, **self.params, **values}
        runner.run_nodes(self.program.file.graph.nodes, env, self.program.file.opsets)
        return {v.name: env[v.name] for v in self.program.file.graph.outputs}

    @property
    def inputs(self) -> dict[str, ShapeDtypeStruct]:
        """Shape and dtype of each input; sizes that the file leaves open are symbols."""
        return _specs(self._free())

    @property
    def outputs(self) -> dict[str, ShapeDtypeStruct]:
        """Shape and dtype of each output, as far as the file says them."""
        return _specs(self.program.file.graph.outputs)

    @property
    def opset(self) -> int:
        """The version of the standard's operations."""
        return self.program.file.opsets.get(STANDARD, 1)

    def unsupported(self) -> dict[str, int]:
        """Operations that the model needs and tfn lacks, each with the number of its nodes."""
        return dict(Counter(_lacking(self.program.file, self.program.file.graph.nodes)))

    def operands(self) -> dict[str, tuple[Array, ...]]:
        """The constant operands of each node that has a name, in their order.

        Exporters name nodes by modules, and the weights of products by numbers: networks that are
        written by hand find their weights here.
        """
        held = {**self.program.constants, **self.params}
        found = {}
        for node in every_node(self.program.file):
            given = [jnp.asarray(held[name]) for name in node.inputs if name in held]
            if node.name and given:
                found[node.name] = tuple(given)
        return found

    def _free(self) -> list[Value]:
        """Inputs that have no initial value."""
        given = self.program.constants.keys() | self.params.keys()
        return [v for v in self.program.file.graph.inputs if v.name not in given]


def load(source: PathLike | bytes | memoryview) -> Model:
    """Loads an ONNX model: a pure function, whose parameters can be trained.

    Weights in other files, which a model of more than 2 GiB has, are read from the folder of the
    model.  Files are mapped: weights that begin at multiples of 64 bytes are not copied, so leave a
    file as it is while its model is used.  Nothing in a file is trusted: lengths, names, shapes and
    offsets are checked.

    Args:
        source: the path of a file, or its bytes.

    Raises:
        StateError: if the bytes are damaged, or no ONNX model.
        OSError: if a file cannot be opened.

    Example:
        >>> node = b"\\n\\x01x\\n\\x01x\\x12\\x01y\\"\\x03Add"  # y = x + x
        >>> graph = b"\\n" + bytes([len(node)]) + node + b"Z\\x03\\n\\x01xb\\x03\\n\\x01y"
        >>> model = load(b"B\\x02\\x10\\x12:" + bytes([len(graph)]) + graph)
        >>> model(x=jnp.ones(2))
        {'y': Array([2., 2.], dtype=float32)}
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        file = graphs.read(memoryview(source), None)
    elif isinstance(source, (str, Path)) or hasattr(source, "__fspath__"):
        path = Path(source)
        file = graphs.read(graphs.mapped(path), path.parent)
    else:
        raise ArgumentError(
            "onnx.load needs a path or bytes", got=shown(source), hint='write load("model.onnx")'
        )
    inner: dict[str, Data] = {}
    graph = _lifted(file.graph, Counter(_names(file.graph)), inner)
    constants, fixed = {**graph.constants, **inner}, set(_fixed(every_node(file)))
    trained = {
        name: _held(value)
        for name, value in constants.items()
        if _is_float(value)
        and name not in fixed
        and (name in file.graph.constants or value.size > 1)
    }
    rest = {name: value for name, value in constants.items() if name not in trained}
    return Model(trained, Program(File(graph, file.opsets, file.functions), rest))


def _lifted(graph: Graph, uses: Counter[str], found: dict[str, Data]) -> Graph:
    """A graph whose constants are no nodes, as some exporters write weights.

    Those of graphs within, of branches and bodies, are put into `found`, unless another graph has
    something of their name: so a model has all its weights as parameters.
    """
    constants, nodes, codes = dict(graph.constants), list[Node](), dict[str, Node]()
    for node in graph.nodes:
        value = node.attributes.get("value")
        if node.op == "Constant" and node.domain == STANDARD and isinstance(value, np.ndarray):
            constants[node.outputs[0]] = value
            continue
        attributes = dict(node.attributes)
        for name, inner in node.attributes.items():
            if isinstance(inner, Graph):
                inner = _lifted(inner, uses, found)
                found |= {n: v for n, v in inner.constants.items() if uses[n] == 1}
                kept = {n: v for n, v in inner.constants.items() if uses[n] > 1}
                attributes[name] = replace(inner, constants=kept)
        nodes.append(_of_codes(replace(node, attributes=attributes), codes))
        if node.op == "DequantizeLinear" and node.attributes.keys() <= {"axis"}:
            codes[node.outputs[0]] = node
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _of_codes(node: Node, codes: Mapping[str, Node]) -> Node:
    """A convolution whose operands are dequantized, by nodes of `codes`, as one of the codes."""
    if node.op != "Conv" or node.domain != STANDARD or not codes.keys() >= {*node.inputs[:2]}:
        return node
    x, w = (codes[name] for name in node.inputs[:2])
    inputs = (*(*x.inputs, "")[:3], *(*w.inputs, "")[:3], *node.inputs[2:])
    attributes = {"axis": 1, **w.attributes, **node.attributes}
    return replace(node, op=products.OF_CODES, inputs=inputs, attributes=attributes)


def _names(graph: Graph) -> Iterator[str]:
    """The names that a graph and those within define."""
    yield from (*graph.constants, *(v.name for v in graph.inputs))
    for node in graph.nodes:
        yield from node.outputs
        for inner in _graphs_of(node):
            yield from _names(inner)


def _held(value: Data) -> Array:
    """An array in the memory of the file, which is read when it is needed; a copy if it must be."""
    try:
        return jnp.asarray(value, copy=False)
    except ArgumentError:  # it begins between the places that devices read from
        return jnp.asarray(value)


def _is_float(value: Data) -> bool:
    return bool(value.dtype.kind == "f" or value.dtype.name == "bfloat16")


def _fixed(nodes: Iterable[Node]) -> Iterator[str]:
    """Names of constants on whose values shapes depend."""
    for node in nodes:
        for place in STATIC_INPUTS.get(node.op, ()):
            yield from node.inputs[place : place + 1]


def _graphs_of(node: Node) -> Iterator[Graph]:
    for value in node.attributes.values():
        for graph in value if isinstance(value, tuple) else (value,):
            if isinstance(graph, Graph):
                yield graph


def every_node(file: File) -> Iterator[Node]:
    """The nodes of a model, those of functions of the file and of graphs within nodes too."""
    waiting = [*file.graph.nodes, *(n for f in file.functions.values() for n in f.nodes)]
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting += [inner for graph in _graphs_of(node) for inner in graph.nodes]


def _lacking(file: File, nodes: Sequence[Node]) -> Iterator[str]:
    """The names of operations without a function, once for each node."""
    for node in nodes:
        own = file.functions.get((node.domain, node.op))
        if own is not None:
            yield from _lacking(file, own.nodes)
        elif _function(node) is None:
            yield f"{node.domain}.{node.op}" if node.domain else node.op
        for graph in _graphs_of(node):
            yield from _lacking(file, graph.nodes)


def _function(node: Node) -> Callable[..., Any] | None:
    table = {STANDARD: OPS, MICROSOFT_DOMAIN: MICROSOFT}.get(node.domain)
    return (
        None
        if table is None
        else table.get(node.op) or (OPS.get(node.op) if table is MICROSOFT else None)
    )


def _unsupported(missing: Mapping[str, int]) -> NotAvailableError:
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
    return NotAvailableError(
        f"the model needs {len(missing)} operations that tfn.onnx lacks",
        got=f"operations with the number of their nodes: {listed}",
        hint="export the model with operations of the standard alone",
    )


def _bound(names: Sequence[str], args: Sequence[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the names of inputs."""
    if len(args) > len(names):
        raise ArgumentError(
            f"the model has {len(names)} inputs",
            got=f"{len(args)} values",
            hint=f"they are {names}",
        )
    values = dict(zip(names, args)) | dict(inputs)
    odd = sorted(values.keys() - set(names)) or [n for n in names[: len(args)] if n in inputs]
    absent = [name for name in names if name not in values]
    if odd or absent:
        words = f"unknown or repeated {odd}" if odd else f"without {absent}"
        raise ArgumentError(
            "a model takes each of its inputs once", got=words, hint=f"inputs: {names}"
        )
    return {n: _array(v) for n, v in values.items()}


def _array(value: Any) -> Any:
    return (
        [_array(v) for v in value]
        if isinstance(value, list)
        else None
        if value is None
        else jnp.asarray(value)
    )


def _check(declared: Sequence[Value], values: Mapping[str, Any]) -> None:
    """Raise ShapeError unless sizes are those of the file, and equal where they have one name."""
    symbols: dict[str, tuple[int, str]] = {}
    for spec in declared:
        value = values[spec.name]
        if spec.shape is None or value is None or isinstance(value, list):
            continue
        if len(value.shape) != len(spec.shape):
            raise ShapeError(
                f"the input {spec.name!r} has {len(spec.shape)} axes in the model",
                got=shown(value),
                hint=f"its shape is {spec.shape}",
            )
        for axis, (size, want) in enumerate(zip(value.shape, spec.shape)):
            if isinstance(want, int) and size != want:
                raise ShapeError(
                    f"axis {axis} of the input {spec.name!r} has {want} elements in the model",
                    got=shown(value),
                    hint=f"its shape is {spec.shape}",
                )
            if isinstance(want, str):
                first, place = symbols.setdefault(want, (size, spec.name))
                if first != size:
                    raise ShapeError(
                        f"the size {want!r} is one size in the whole model",
                        got=f"{first} in {place!r}, {size} in {spec.name!r}",
                        hint="pass inputs whose sizes fit",
                    )


def _specs(values: Sequence[Value]) -> dict[str, ShapeDtypeStruct]:
    specs = {}
    for number, value in enumerate(values):
        sizes = [
            str(n)
            if isinstance(n, int)
            else re.sub(r"\W", "_", n)
            if n and not n[0].isdigit()
            else f"d{number}_{axis}"
            for axis, n in enumerate(value.shape or ())
        ]
        shape = symbolic_shape(", ".join(sizes)) if sizes else ()
        specs[value.name] = ShapeDtypeStruct(shape, value.dtype or np.dtype(np.float32))
    return specs


@frozen
class _Runner:
    file: File
    key: Any
    training: bool
    drawn: list[int]  # how many keys have been asked for

    def run_nodes(
        self, nodes: Sequence[Node], env: dict[str, Any], opsets: Mapping[str, int]
    ) -> None:
        """Run nodes, whose results are written to the names of `env`."""
        for node in nodes:
            try:
                out = self.call(node, env, opsets)
            except Exception as error:
                error.add_note(f"in the node {node} of the model")
                raise
            results = out if isinstance(out, tuple) else (out,)
            env.update((name, value) for name, value in zip(node.outputs, results) if name)

    def call(self, node: Node, env: dict[str, Any], opsets: Mapping[str, int]) -> Any:
        """The results of one node."""
        values = [env[name] for name in node.inputs]
        own = self.file.functions.get((node.domain, node.op))
        if own is not None:
            given = {**own.defaults, **node.attributes}
            inner: dict[str, Any] = {"": None, **dict(zip(own.inputs, values))}
            inner |= dict.fromkeys(own.inputs[len(values) :])
            body = tuple(_resolved(n, given) for n in own.nodes)
            self.run_nodes(body, inner, {**opsets, **own.opsets})
            return tuple(inner[name] for name in own.outputs)
        function = _function(node)
        assert function is not None, "unsupported operations are found before"

        def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
            inner = {**env, **graph.constants, **{v.name: x for v, x in zip(graph.inputs, inputs)}}
            self.run_nodes(graph.nodes, inner, opsets)
            return [inner[v.name] for v in graph.outputs]

        special = {
            "opset": opsets.get(node.domain, 1),
            "outputs": len(node.outputs),
            "run": run,
            "key": self.next_key if self.key is not None else None,
            "training": self.training,
        }
        takes = _takes(function)
        extra = {name: value for name, value in special.items() if name in takes}
        return function(*values, **node.attributes, **extra)

    def next_key(self, seed: Any = None) -> Any:
        """A key for the next operation that draws."""
        self.drawn[0] += 1
        return random.fold_in(self.key, self.drawn[0])


@cache
def _takes(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _resolved(node: Node, given: Mapping[str, Any]) -> Node:
    """A node of a function's body with the attributes of the call."""
    attributes = {
        name: given.get(value.name) if isinstance(value, Reference) else value
        for name, value in node.attributes.items()
    }
    present = {name: value for name, value in attributes.items() if value is not None}
    return Node(node.op, node.domain, node.inputs, node.outputs, present, node.name)
