"""Networks that PyTorch exported, as pure functions of trees.

    module -> `torch.export` -> operations without effects -> function(params, buffers, *inputs)

Parameters and buffers are arguments, in dictionaries with the names of `state_dict`; what a network
writes into its buffers comes back as a result.  So `jit`, `grad`, `vmap`, shardings, `export` and
`verify` apply to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError, NotAvailableError, ShapeError
from tfn.extend import shown
from tfn.torch.exchange import array, dtypes
from tfn.torch.graph import Runner, decompositions, missing, unsupported
from tfn.torch.library import pytorch
from tfn.torch.ops import OPS

Arrays = dict[str, Array]
Network = Callable[..., tuple[Any, Arrays]]
Functions = Mapping[str, Callable[..., Any]]


def from_exported(
    program: Any, *, ops: Functions | None = None, copy: bool = False
) -> tuple[Network, tuple[Arrays, Arrays]]:
    """The function of an exported network, with its parameters and buffers.

    The function is ``f(params, buffers, *inputs, key=None)`` and returns the outputs, in the
    structure that the module gives them, and the buffers after the call.  Arguments by name keep
    their names.  Open sizes of the export stay open.  `key` is for dropout and random operations:
    these numbers are not those of PyTorch.  Parameters that a module has under two names are one.

    Args:
        program: what ``torch.export.export(module, args)`` returns.
        ops: functions of arrays for operations that tfn lacks, or in place of its own, by names
            like "torchvision::nms", or "add" for those of ATen.
        copy: whether parameters and buffers are copied. Otherwise they are in the memory of the
            module: leave its parameters as they are while they are used.

    Raises:
        ArgumentError: if `program` is no exported network, and in a call for wrong arguments.
        NotAvailableError: if the network needs operations that tfn lacks: all are named.
        ShapeError: in a call, for a shape that the export does not allow.

    Example:
        >>> import torch  # doctest: +SKIP
        >>> program = torch.export.export(torch.nn.Linear(3, 2), inputs)  # doctest: +SKIP
        >>> f, (params, buffers) = from_exported(program)  # doctest: +SKIP
        >>> y, buffers = f(params, buffers, jnp.ones((4, 3)))  # doctest: +SKIP
    """
    if not isinstance(program, pytorch().export.ExportedProgram):
        raise ArgumentError(
            "from_exported needs an exported network",
            got=shown(program),
            hint="torch.export.export(module, args) makes one, or call from_module",
        )
    rows = {**OPS, **(ops or {})}
    program = program.run_decompositions(decompositions(rows))
    lacking = missing(program.graph_module, rows)
    if lacking:
        raise unsupported(lacking, "this network")
    found = _Program(program, rows, copy)
    return found.function(), (found.params, found.buffers)


def from_module(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    ops: Functions | None = None,
    copy: bool = False,
) -> tuple[Network, tuple[Arrays, Arrays]]:
    """The function of a module, with its parameters and buffers: `from_exported` of its export.

    Args:
        module: a ``torch.nn.Module``, in the mode, training or not, that the function shall have.
        args, kwargs: example arguments.
        dynamic_shapes: sizes that stay open, as for ``torch.export.export``.
        ops, copy: as for `from_exported`.

    Raises:
        ArgumentError, NotAvailableError, ShapeError: as `from_exported`.

    Example:
        >>> import torch  # doctest: +SKIP
        >>> f, state = from_module(torch.nn.Linear(3, 2), (torch.ones(4, 3),))  # doctest: +SKIP
        >>> y, buffers = f(*state, jnp.ones((4, 3)))  # doctest: +SKIP
    """
    options = dict(kwargs or {})
    program = pytorch().export.export(module, tuple(args), options, dynamic_shapes=dynamic_shapes)
    return from_exported(program, ops=ops, copy=copy)


class _Program:
    """An exported graph, with the arrays that it reads and what its results mean."""

    def __init__(self, program: Any, rows: Functions, copy: bool) -> None:
        self.torch = pytorch()
        self.tree = self.torch.utils._pytree
        self.module, self.rows = program.graph_module, rows
        self.in_spec, self.out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        self.ranges = program.range_constraints
        self.params: Arrays = {}
        self.buffers: Arrays = {}
        self.constants: Arrays = {}
        self.reads: list[tuple[Arrays | None, str]] = []  # where each placeholder finds its value
        self.specs: dict[str, Any] = {}
        stored = {**program.constants, **program.state_dict}
        known: dict[Any, tuple[Arrays, str]] = {}
        for spec in program.graph_signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                self.reads.append((None, spec.arg.name))
                continue
            value = stored.get(spec.target)
            if not isinstance(value, self.torch.Tensor):
                raise NotAvailableError(
                    "this network holds an object that is no tensor",
                    got=f"{spec.target}: {type(value).__name__}",
                    hint="pass it as an argument, or keep it outside of the module",
                )
            held = value.data_ptr(), tuple(value.shape), value.stride(), value.dtype
            if not value.numel() or held not in known:
                home = self._home(spec.kind, value)
                home[spec.target] = jnp.array(array(value)) if copy else array(value)
                known[held] = home, spec.target
                self.reads.append((home, spec.target))
            else:
                self.reads.append(known[held])
        self.results = [self._result(spec) for spec in program.graph_signature.output_specs]

    def _home(self, kind: Any, value: Any) -> Arrays:
        if kind.name == "PARAMETER" and (value.is_floating_point() or value.is_complex()):
            return self.params
        return self.constants if kind.name == "CONSTANT_TENSOR" else self.buffers

    def _result(self, spec: Any) -> str | None:
        """The buffer that a result is the new value of; None for an output."""
        if spec.kind.name == "USER_OUTPUT":
            return None
        if spec.kind.name == "BUFFER_MUTATION":
            return str(spec.target)
        raise NotAvailableError(
            "this network writes into an input or a parameter, which arrays do not allow",
            got=f"{spec.kind.name.lower().replace('_', ' ')} of {spec.target}",
            hint="return the new value instead",
        )

    def function(self) -> Network:
        """The network as a function of parameters, buffers and inputs."""

        def network(
            params: Arrays, buffers: Arrays, /, *args: Any, key: Any = None, **kwargs: Any
        ) -> tuple[Any, Arrays]:
            given = iter(self._inputs(args, kwargs))
            homes = {id(self.params): params, id(self.buffers): buffers}
            values = [
                next(given) if home is None else homes.get(id(home), home)[name]
                for home, name in self.reads
            ]
            outputs, after = [], dict(buffers)
            for name, value in zip(self.results, Runner(self.rows, key)(self.module, values)):
                if name is None:
                    outputs.append(value)
                else:
                    after[name] = value
            return self.tree.tree_unflatten(outputs, self.out_spec), after

        return network

    def _inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs in the order of the graph, checked."""
        expected = self.in_spec.child(1).context
        ordered = {n: kwargs[n] for n in expected if n in kwargs} | dict(kwargs)
        leaves, structure = self.tree.tree_flatten((tuple(args), ordered))
        if structure != self.in_spec:
            raise ArgumentError(
                "the arguments have another structure than those of the export",
                got=str(structure),
                hint=f"the export has {self.in_spec}",
            )
        symbols: dict[str, int] = {}
        places = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        own = [n for n, (home, _) in zip(places, self.reads) if home is None]
        return [self._checked(n, v, symbols) for n, v in zip(own, leaves, strict=True)]

    def _checked(self, node: Any, value: Any, symbols: dict[str, int]) -> Any:
        spec = node.meta.get("val")
        if not isinstance(spec, self.torch.Tensor):
            if isinstance(spec, (int, float, bool, str)) and value != spec:
                raise ArgumentError(
                    f"the export fixed the argument {node.name}",
                    got=shown(value),
                    hint=f"it is {spec!r}: pass a tensor to torch.export.export for a free number",
                )
            return value
        if isinstance(value, self.torch.Tensor):
            value = array(value)
        x = jnp.asarray(value)
        dtype = dtypes()[spec.dtype]
        if x.ndim != spec.ndim or not all(
            self._fits(n, want, symbols) for n, want in zip(x.shape, spec.shape)
        ):
            raise ShapeError(
                f"the input {node.name} has a shape that the export does not allow",
                got=f"{x.shape}",
                hint=f"it allows {tuple(str(n) for n in spec.shape)}, see dynamic_shapes",
            )
        if x.dtype != dtype and jnp.result_type(x.dtype, dtype).kind != dtype.kind:
            raise ArgumentError(
                f"the input {node.name} has another kind of numbers than in the export",
                got=x.dtype.name,
                hint=f"the export has {dtype.name}: call astype",
            )
        return x if x.dtype == dtype else x.astype(dtype)

    def _fits(self, size: int, want: Any, symbols: dict[str, int]) -> bool:
        """Whether a size is what the export says: a number, a symbol in a range, or a formula."""
        if isinstance(want, int):
            return size == want
        formula = want.node.expr
        if not formula.is_symbol:
            known = {s: symbols[str(s)] for s in formula.free_symbols if str(s) in symbols}
            left = formula.subs(known)
            return bool(left.free_symbols) or int(left) == size
        limits = self.ranges.get(formula)
        within = limits is None or limits.lower <= size <= limits.upper
        return within and symbols.setdefault(str(formula), size) == size
