"""`torch.compile(module, backend="tfn")`: graphs of PyTorch, forward and backward, compiled here.

    a traced function -> AOTAutograd: graphs without effects, of core ATen -> `tfn.jit` of each

Tensors are read where they lie, and results are tensors of their own.  A graph with an operation
that tfn lacks runs as PyTorch runs it, and a log line says which.  PyTorch finds this by the entry
point `torch_dynamo_backends`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import getitem
from typing import Any

from tfn import Buckets, jit, random
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError, ShapeError, TfnError
from tfn.extend import Jitted, concrete, device, memory, mutable
from tfn.torch.exchange import ALIGNMENT_BYTES, array, dtypes, tensor
from tfn.torch.graph import Runner, decompositions, draws, missing
from tfn.torch.library import pytorch
from tfn.torch.ops import OPS

LOG = logging.getLogger("tfn.torch")

MAX_SIZES = 64
"""Programs of one graph, for different open sizes, that are kept."""


def backend(module: Any, inputs: Sequence[Any], *, options: Any = None) -> Callable[..., Any]:
    """A compiled function of a graph of Dynamo: what `torch.compile` asks a backend for.

    Args:
        module: the graph.
        inputs: tensors as it takes them.
        options: ``{"buckets": sizes}`` rounds open sizes up, so that one program serves many: to
            some sizes, or by a factor, as `tfn.Buckets` has them.

    Raises:
        ArgumentError: for other options.
    """
    chosen = dict(options or {})
    buckets = chosen.pop("buckets", None)
    if chosen:
        raise ArgumentError(
            "the backend tfn has one option: buckets",
            got=", ".join(map(repr, chosen)),
            hint='torch.compile(f, backend="tfn", dynamic=True, options={"buckets": 2.0})',
        )
    compiler_of = partial(compiled, buckets=buckets)
    common = pytorch()._dynamo.backends.common
    functorch = pytorch()._functorch
    compiler = common.aot_autograd(
        fw_compiler=compiler_of,
        bw_compiler=compiler_of,
        decompositions=decompositions(OPS),
        partition_fn=functorch.partitioners.min_cut_rematerialization_partition,
    )
    made: Callable[..., Any] = compiler(module, inputs)
    return made


def compiled(module: Any, inputs: Sequence[Any], buckets: Any = None) -> Callable[..., Any]:
    """The function of a graph of ATen: of a list of tensors and sizes, which it empties."""
    eager: Callable[..., Any] = pytorch()._functorch.aot_autograd.make_boxed_func(module.forward)
    lacking = ", ".join(f"{op} ({n})" for op, n in _lacking(module).items())
    if lacking:
        LOG.warning(
            "PyTorch runs a graph of %d nodes: tfn lacks %s", len(module.graph.nodes), lacking
        )
        return eager
    return _Compiled(module, eager, buckets)


def _lacking(module: Any) -> dict[str, int]:
    """Operations, dtypes and devices that a graph needs and tfn lacks, with their numbers."""
    lacking = missing(module, OPS)
    for spec in (v for node in module.graph.nodes for v in _specs(node.meta.get("val"))):
        strided = spec.layout is pytorch().strided
        if spec.dtype not in dtypes() or spec.device.type != "cpu" or not strided:
            name = f"{spec.dtype} on {spec.device.type}, {spec.layout}"
            lacking[name] = lacking.get(name, 0) + 1
    return lacking


def _specs(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _specs(part)
    elif isinstance(value, pytorch().Tensor):
        yield value


@mutable
class _Input:
    """A tensor as it is read, and its axes in the order of memory.

    Attributes:
        order: the axes from the longest stride to the shortest; None for rows without gaps.
        shape: in that order, where memory is read as it is.
        strides: of a tensor that is read where it lies; None for those that are copied, as are
            complex numbers, which may be conjugates, and tensors of open sizes or without elements.
        dtype: of the array.
        size_bytes: of all elements.
    """

    order: tuple[int, ...] | None
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: Any
    size_bytes: int


def _order(spec: Any) -> tuple[int, ...] | None:
    """The axes from the longest stride to the shortest; None for rows without gaps."""
    strides = [_hint(s) for s in spec.stride()]
    sizes = [_hint(n) for n in spec.shape]
    order = tuple(sorted(range(len(sizes)), key=lambda i: (-strides[i] if sizes[i] != 1 else 0, i)))
    moved = [i for i in order if sizes[i] != 1]
    return None if moved == sorted(moved) else order


def _hint(size: Any) -> int:
    """A size, or the one with which an open size was traced."""
    return size if isinstance(size, int) else int(size.node.hint)


def _input(spec: Any) -> _Input:
    order, dtype = _order(spec), dtypes()[spec.dtype]
    known = all(isinstance(n, int) for n in spec.shape)
    if not known or spec.is_complex() or not spec.numel():
        return _Input(order, (), None, dtype, 0)
    shape = tuple(spec.shape[i] for i in order or range(spec.ndim))
    strides, step = [0] * spec.ndim, 1
    for i in reversed(order or range(spec.ndim)):
        strides[i], step = step, step * spec.shape[i]
    return _Input(order, shape, tuple(strides), dtype, step * dtype.itemsize)


class _Compiled:
    """A graph as a compiled function; PyTorch's own run of it, once compiling has failed."""

    def __init__(self, module: Any, eager: Callable[..., Any], buckets: Any) -> None:
        self.module, self.eager, self.failed = module, eager, False
        self._boxed_call = True  # AOTAutograd passes a list; wrappers copy what an object has
        nodes = list(module.graph.nodes)
        tensor_type = pytorch().Tensor
        self.places = [n for n in nodes if n.op == "placeholder"]
        self.inputs = [
            _input(n.meta["val"]) if isinstance(n.meta["val"], tensor_type) else None
            for n in self.places
        ]
        held = {n.target: getattr(module, n.target) for n in nodes if n.op == "get_attr"}
        self.held = {name: v for name, v in held.items() if isinstance(v, tensor_type)}
        self.results = list(next(n for n in nodes if n.op == "output").args[0])
        given = [n for n in self.results if isinstance(n, pytorch().fx.Node)]
        roots = {n: _root(n) for n in given}
        readers = Counter(root for n, root in roots.items())
        self.viewed = {
            n: root
            for n, root in roots.items()
            if root.op == "placeholder" or (n is not root and readers[root] > 1)
        }
        made = [self.viewed.get(n, n) for n in given]
        self.made = [n for n in dict.fromkeys(made) if n.op != "placeholder"]
        self.orders = [
            _order(n.meta["val"]) if isinstance(n.meta["val"], tensor_type) else None
            for n in self.made
        ]
        back = [
            None if order is None else [order.index(i) for i in range(len(order))]
            for order in self.orders
        ]
        are_tensors = [isinstance(n.meta["val"], tensor_type) for n in self.made]
        self.last_first = list(zip(self.made, back, are_tensors))[::-1]
        self.random = draws(module, OPS)
        self.programs: dict[tuple[Any, ...], Jitted[..., Any]] = {}
        self.bucketed = None if buckets is None else self._with_buckets(buckets)

    def __call__(self, args: list[Any]) -> list[Any]:
        """The results of the graph, as tensors of their own; the list of arguments is emptied."""
        if self.failed:
            results: list[Any] = self.eager(args)
            return results
        try:
            made = self._run(args)
        except TfnError as error:
            self.failed = True
            LOG.warning("PyTorch runs a graph of %d nodes: %s", len(self.module.graph.nodes), error)
            return self.__call__(args)
        if self.viewed:
            made |= self._views(made | dict(zip(self.places, args)))
        args.clear()
        return [made.get(n, n) for n in self.results]

    def _run(self, args: Sequence[Any]) -> dict[Any, Any]:
        """The results that are computed, by their nodes."""
        arrays, sizes = [], []
        own: Any = device().memory
        shared = isinstance(own, memory.HostMemory)
        for value, how in zip(args, self.inputs):
            if how is None:
                sizes.append(value)
                continue
            # Without an operation of PyTorch: one takes as long as the rest of this call.
            address = value.data_ptr() if shared and value.stride() == how.strides else 1
            if address % ALIGNMENT_BYTES or value.is_neg():
                arrays.append(array(value if how.order is None else value.permute(how.order)))
                continue
            arrays.append(concrete(own.wrap(address, how.size_bytes, value), how.shape, how.dtype))
        if self.held:
            arrays += [array(t) for t in self.held.values()]
        if self.random:
            arrays.append(array(pytorch().randint(2**31 - 1, (), dtype=pytorch().int32)))
        results = self._padded(arrays)
        if results is None:
            program = self.programs.get(tuple(sizes)) or self._program(tuple(sizes))
            results = list(program(*arrays))
        del arrays
        made: dict[Any, Any] = {}
        for node, back, is_tensor in self.last_first:
            value = results.pop()
            if type(value) is Array:  # numbers of a graph are arrays, too, once it is compiled
                value = tensor(value, back) if is_tensor else value.item()
            made[node] = value
        return made

    def _graph(self, sizes: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The results that are computed, for some open sizes."""
        given, numbers = iter(arrays), iter(sizes)
        values = []
        for how in self.inputs:
            if how is None:
                values.append(next(numbers))
                continue
            x = next(given)
            order = how.order
            back = None if order is None else [order.index(i) for i in range(len(order))]
            values.append(x if back is None else jnp.transpose(x, back))
        held = {name: next(given) for name in self.held}
        key = random.key(next(given)) if self.random else None
        env = Runner(OPS, key, held).values(self.module, values)
        return tuple(
            env[n] if order is None else jnp.transpose(env[n], order)
            for n, order in zip(self.made, self.orders)
        )

    def _with_buckets(self, sizes: Any) -> Any:
        """The function for all open sizes, each of which is that of an axis; None if one is not."""
        texts, places, symbols = list[str | None](), dict[str, tuple[int, int]](), list[str]()
        for node, how in zip(self.places, self.inputs, strict=True):
            spec = node.meta["val"]
            if how is None:
                symbols.append(str(spec))
                continue
            shape = [spec.shape[i] for i in how.order or range(spec.ndim)]
            words = [str(n) for n in shape]
            for axis, word in enumerate(words):
                places.setdefault(word, (len(texts), axis))
            texts.append(None if all(w.isdigit() for w in words) else " ".join(words))
        if not symbols or not all(s.isidentifier() and s in places for s in symbols):
            return None
        if not all(word.isalnum() for text in texts if text for word in text.split()):
            return None

        def graph(*arrays: Any) -> tuple[Any, ...]:
            found = [places[s] for s in symbols]
            return self._graph([arrays[i].shape[axis] for i, axis in found], arrays)

        return jit(graph, buckets=Buckets(tuple(texts), sizes))

    def _padded(self, arrays: Sequence[Any]) -> list[Any] | None:
        """The results by a program for many sizes; None if there is none."""
        if self.bucketed is None:
            return None
        try:
            return list(self.bucketed(*arrays))
        except ShapeError as error:
            LOG.warning("A graph has a program for each size: %s", error)
            self.bucketed = None
            return None

    def _program(self, sizes: tuple[Any, ...]) -> Jitted[..., Any]:
        """The compiled function for some open sizes."""

        def graph(*arrays: Any) -> tuple[Any, ...]:
            return self._graph(sizes, arrays)

        while len(self.programs) >= MAX_SIZES:
            self.programs.pop(next(iter(self.programs)))
        program = self.programs[sizes] = Jitted(graph)
        return program

    def _views(self, env: dict[Any, Any]) -> dict[Any, Any]:
        """The results that are arguments, or views of these or of other results."""
        for result in self.viewed:
            chain, node = [], result
            while node not in env:
                chain.append(node)
                node = node.args[0]
            for step in reversed(chain):
                rest = pytorch().fx.node.map_arg(step.args, env.__getitem__)
                env[step] = step.target(*rest, **step.kwargs)
        return {result: env[result] for result in self.viewed}


def _root(node: Any) -> Any:
    """The value that a node shows: itself, or what it is a view of."""
    while node.op == "call_function":
        whole = node.args[0] if node.target is getitem else node  # one of several views
        if not _makes_view(whole.target):
            return node
        node = node.args[0]
    return node


def _makes_view(target: Any) -> bool:
    """Whether the result of an operation is in the memory of its first argument."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.returns or schema.name == "aten::to":
        return False
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
