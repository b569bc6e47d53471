"""Graphs of PyTorch as functions of arrays: each node by its row of `tfn.torch.ops`.

    graph module, arrays -> arrays, in the order of its nodes

Sizes are numbers of Python while a graph runs, so a graph with open sizes is a function for all of
them.  Graphs within graphs, of branches and loops, run the same way.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tfn import lax, random
from tfn import numpy as jnp
from tfn.errors import ArgumentError, NotAvailableError
from tfn.torch.exchange import array, dtypes
from tfn.torch.library import pytorch
from tfn.torch.ops.known import Value, cast

Rows = Mapping[str, Callable[..., Any]]
ALSO = {
    *(
        "grid_sampler_2d",
        "grid_sampler_3d",
        "_upsample_bilinear2d_aa",
        "upsample_nearest2d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
    ),
    *("upsample_trilinear3d", "rrelu_with_noise_backward", "exponential", "addmv"),
}
"""Operations that PyTorch decomposes if it is asked to."""
INJECTED = {"random_key", "node"}
"""Arguments that a row may ask for beside those of its operation."""


def row(target: Any, rows: Rows) -> Callable[..., Any] | None:
    """The function of an operation; None if there is none."""
    space, _, packet = target._schema.name.partition("::")
    name = packet if space == "aten" else f"{space}::{packet}"
    return rows.get(f"{name}.{target._schema.overload_name}") or rows.get(name)


def decompositions(rows: Rows) -> dict[Any, Callable[..., Any]]:
    """PyTorch's own definitions of the operations that have no row."""
    torch = pytorch()
    standard = dict(torch.export.default_decompositions().items())
    known = {op: torch._decomp.decomposition_table[op] for op in _also(torch)} | standard
    return {
        op: definition
        for op, definition in known.items()
        if not isinstance(op, torch._ops.OpOverload) or row(op, rows) is None
    }


def _also(torch: Any) -> Iterator[Any]:
    """Operations of core ATen and their like whose definitions PyTorch has beside its standard."""
    for op in torch._decomp.decomposition_table:
        if isinstance(op, torch._ops.OpOverload) and op._opname in ALSO:
            yield op


def missing(module: Any, rows: Rows) -> dict[str, int]:
    """Operations that a graph needs and tfn lacks, each with the number of its nodes."""
    return dict(Counter(_lacking(module, rows)))


def _lacking(module: Any, rows: Rows) -> Iterator[str]:
    ops = pytorch()._ops
    for node in module.graph.nodes:
        target = node.target
        if node.op == "get_attr" and hasattr(_attribute(module, target), "graph"):
            yield from _lacking(_attribute(module, target), rows)
        if node.op == "call_module" or node.op == "call_method":
            yield str(target)
        if node.op != "call_function":
            continue
        if isinstance(target, ops.OpOverload):
            if row(target, rows) is None:
                yield str(target)
        elif isinstance(target, ops.HigherOrderOperator) and target.name() not in HIGHER:
            yield target.name()


def unsupported(lacking: Mapping[str, int], what: str) -> NotAvailableError:
    """The error for a graph with operations that tfn lacks."""
    names = ", ".join(f"{op} ({n})" for op, n in sorted(lacking.items(), key=lambda i: -i[1]))
    return NotAvailableError(
        f"{what} needs operations of PyTorch that tfn lacks",
        got=names,
        hint='pass ops={"library::name": function of arrays}, or leave these parts out',
    )


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


@cache
def _asks(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return frozenset(INJECTED & inspect.signature(function).parameters.keys())
    except (TypeError, ValueError):  # a function of C, which asks for nothing
        return frozenset()


def draws(module: Any, rows: Rows) -> bool:
    """Whether an operation of a graph asks for a random key."""
    found = (row(n.target, rows) for n in module.graph.nodes if hasattr(n.target, "_schema"))
    return any("random_key" in _asks(function) for function in found if function)


class Runner:
    """The run of a graph: rows for operations, and a key for random ones."""

    def __init__(
        self, rows: Rows, key: Any = None, held: Mapping[str, Value] | None = None
    ) -> None:
        self.rows, self.key, self.drawn, self.held = rows, key, 0, held or {}
        self.torch = pytorch()

    def __call__(self, module: Any, values: Sequence[Value]) -> Any:
        """The results of a graph for the values of its placeholders."""
        env = self.values(module, values)
        end = next(n for n in reversed(module.graph.nodes) if n.op == "output")
        return self.torch.fx.node.map_arg(end.args, env.__getitem__)[0]

    def values(self, module: Any, values: Sequence[Value]) -> dict[Any, Value]:
        """The values of all nodes of a graph."""
        given, env = iter(values), dict[Any, Value]()
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "get_attr":
                held = self.held.get(node.target, _attribute(module, node.target))
                env[node] = array(held) if isinstance(held, self.torch.Tensor) else held
            elif node.op != "output":
                env[node] = self._call(node, env)
        return env

    def _call(self, node: Any, env: dict[Any, Value]) -> Value:
        target = node.target
        held = self.torch.fx.node.map_arg((node.args, node.kwargs), env.__getitem__)
        args, options = held[0], dict(held[1])
        if isinstance(target, self.torch._ops.HigherOrderOperator):
            return HIGHER[target.name()](self, *args, **options)
        if not isinstance(target, self.torch._ops.OpOverload):
            return target(*args, **options)  # of sizes, or of parts of a result
        function = row(target, self.rows)
        assert function is not None  # `missing` was asked before
        asked = _asks(function)
        if "random_key" in asked:
            options["random_key"] = self.next_key
        if "node" in asked:
            options["node"] = node
        return _fitted(function(*args, **options), node.meta.get("val"))

    def next_key(self) -> Any:
        """A random key for one more operation.

        Raises:
            ArgumentError: if the run has no key.
        """
        if self.key is None:
            raise ArgumentError(
                "this network draws random numbers, as dropout in training does",
                got="key=None",
                hint="pass key=tfn.random.key(0), or export the network in eval() mode",
            )
        self.drawn += 1
        return random.fold_in(self.key, self.drawn)


def _fitted(value: Any, spec: Any) -> Any:
    """A result in the dtype that PyTorch gives it."""
    if isinstance(spec, (list, tuple)) and isinstance(value, (list, tuple)):
        return [_fitted(v, s) for v, s in zip(value, spec)]
    dtype = dtypes().get(getattr(spec, "dtype", None))
    return value if dtype is None or value is None else cast(value, dtype)


def _cond(run: Runner, chosen: Value, then: Any, other: Any, operands: Sequence[Value] = ()) -> Any:
    if isinstance(chosen, bool):
        return run(then if chosen else other, operands)
    branches = [lambda *given, m=m: tuple(run(m, given)) for m in (then, other)]
    return lax.cond(jnp.asarray(chosen).reshape(()), *branches, *operands)


def _while_loop(
    run: Runner, test: Any, body: Any, carried: Sequence[Value], rest: Sequence[Value] = ()
) -> Any:
    def goes_on(state: tuple[Value, ...]) -> Value:
        found = run(test, (*state, *rest))
        return jnp.asarray(found[0] if isinstance(found, (list, tuple)) else found).reshape(())

    start = tuple(jnp.asarray(c) for c in carried)
    return lax.while_loop(goes_on, lambda state: tuple(run(body, (*state, *rest))), start)


def _without_grad(run: Runner, enabled: bool, body: Any, *operands: Value) -> Any:
    results = run(body, operands)
    return results if enabled else lax.stop_gradient(results)


HIGHER: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "wrap_with_set_grad_enabled": _without_grad,
    "wrap_with_autocast": lambda run, device, dtype, enabled, cached, body, *operands: run(
        body, operands
    ),
    "invoke_subgraph": lambda run, body, name, *operands: run(body, operands),
}
"""Functions of operations that run graphs."""
