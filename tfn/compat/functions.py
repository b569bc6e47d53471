"""Functions over flat lists of leaves, ``jax.api_util``, and partial evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import tree
from tfn.compat.avals import ShapedArray
from tfn.compat.jaxprs import ClosedJaxpr, Jaxpr, closed_jaxpr
from tfn.compat.linear_util import WrappedFun
from tfn.errors import ArgumentError, UnexpectedTracerError
from tfn.extend import ShapeDtypeStruct, bind, close, frozen, mutable, run, traces, walk


def debug_info(*facts: object, **more: object) -> tuple[object, ...]:
    """Facts about a function, for messages that name it by its traceback instead."""
    return facts


@mutable
class Store:
    """The structure of a result, known once the function has been called."""

    structure: Any = None

    def __call__(self) -> Any:
        """The structure.

        Raises:
            UnexpectedTracerError: if the function has not been called.
        """
        if self.structure is None:
            raise UnexpectedTracerError(
                "the structure of a result is asked for before it is known",
                hint="call the function first",
            )
        return self.structure


def flatten_fun(fun: WrappedFun, in_tree: tree.Structure) -> tuple[WrappedFun, Store]:
    """A function of the leaves of ``(args, kwargs)``, which returns the leaves of its result."""
    out_tree = Store()

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(in_tree, leaves)
        values, out_tree.structure = tree.flatten(fun.call_wrapped(*args, **kwargs))
        return values

    return WrappedFun(flat, {}), out_tree


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: tree.Structure) -> tuple[WrappedFun, Store]:
    """A function of the leaves of ``args``, which returns the leaves of its result."""
    out_tree = Store()

    def flat(*leaves: Any) -> list[Any]:
        values, out_tree.structure = tree.flatten(
            fun.call_wrapped(*tree.unflatten(in_tree, leaves))
        )
        return values

    return WrappedFun(flat, {}), out_tree


def safe_map(f: Callable[..., Any], *args: Any) -> list[Any]:
    """`map`, of arguments of one length.

    Raises:
        ArgumentError: if their lengths differ.
    """
    lists = [list(a) for a in args]
    if len({len(a) for a in lists}) > 1:
        raise ArgumentError(
            "safe_map needs arguments of one length",
            got=f"lengths {[len(a) for a in lists]}",
            hint="cut the longer ones",
        )
    return list(map(f, *lists))


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of an array, of a type of one, or of a number, which is not weak."""
    value = x if isinstance(x, ShapeDtypeStruct) else run.asarray(x)
    return ShapedArray(value.shape, value.dtype)


# Partial evaluation.


@frozen
class PartialVal:
    """A value that is known, or a type of which the value is not; a pair when unpacked."""

    aval: ShapedArray | None
    value: Any

    @staticmethod
    def known(value: Any) -> PartialVal:
        """A value."""
        return PartialVal(None, value)

    @staticmethod
    def unknown(aval: ShapedArray) -> PartialVal:
        """A type."""
        return PartialVal(aval, None)

    def is_known(self) -> bool:
        """Whether there is a value."""
        return self.aval is None

    def get_known(self) -> Any:
        """The value."""
        return self.value

    def get_aval(self) -> ShapedArray | None:
        """The type, None of a value."""
        return self.aval

    def __iter__(self) -> Any:
        return iter((self.aval, self.value))

    def __getitem__(self, i: int) -> Any:
        return (self.aval, self.value)[i]


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool = False
) -> tuple[Any, list[PartialVal], list[Any]]:
    """A flat function traced on its unknown arguments.

    Returns:
        (jaxpr, results, constants): of the unknown results; each result is known if it does not
        depend on an unknown argument.
    """
    unknown = [i for i, p in enumerate(pvals) if p.aval is not None]
    types = [
        ShapeDtypeStruct(p.aval.shape, p.aval.dtype, p.aval.weak_type)
        for p in pvals
        if p.aval is not None
    ]
    found: list[Any] = []

    def call(leaves: list[Any]) -> Any:
        args = [p.value for p in pvals]
        for i, leaf in zip(unknown, leaves, strict=True):
            args[i] = leaf
        found[:] = fun.call_wrapped(*args)
        inputs, mine = {leaf.uop for leaf in leaves}, {id(leaf.owner) for leaf in leaves}
        dependent = []
        for y in found:
            traced = id(getattr(y, "owner", None)) in mine
            if instantiate or (traced and not inputs.isdisjoint(walk([y.uop]))):
                out.append(PartialVal.unknown(ShapedArray(y.shape, y.dtype)))
                dependent.append(y)
            else:
                out.append(PartialVal.known(y))
                if traced:  # recorded, but of nothing unknown
                    constant[len(out) - 1] = y
        return dependent

    out: list[PartialVal] = []
    constant: dict[int, Any] = {}
    closed, _ = closed_jaxpr(fun.f, call, types)
    if constant:
        function, captured = close([y.uop for y in constant.values()], [])
        weak = [y.weak_type for y in constant.values()]
        values = bind.call(function, [leaf.arg.value for leaf in captured], weak)
        for at, value in zip(constant, values, strict=True):
            out[at] = PartialVal.known(value)
    return closed.jaxpr, out, closed.consts


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[ShapedArray], *options: object, **more: object
) -> tuple[Jaxpr, list[Any], list[Any]]:
    """A flat function traced on arguments of these types: (jaxpr, types of results, constants)."""
    types = [ShapeDtypeStruct(a.shape, a.dtype, a.weak_type) for a in in_avals]
    closed: ClosedJaxpr
    closed, _ = closed_jaxpr(fun.f, lambda leaves: list(fun.call_wrapped(*leaves)), types)
    return closed.jaxpr, closed.out_avals, closed.consts


# Traces that run.


def find_top_trace(values: Sequence[Any]) -> Any:
    """The innermost running trace, to which values need not belong; else that of a value."""
    running = traces.running()
    if running:
        return running[-1]
    return bind.innermost(
        [x for x in values if isinstance(getattr(x, "owner", None), traces.Trace)]
    )


@frozen
class TraceState:
    """The traces that run now, compared by identity."""

    traces: tuple[int, ...]


def get_opaque_trace_state(convention: object = None) -> TraceState:
    """The traces that run now, to be compared with those at another time."""
    return TraceState(tuple(id(trace) for trace in traces.running()))


def trace_state_clean() -> bool:
    """Whether no trace runs."""
    return not traces.running()
