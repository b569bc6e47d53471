"""Functions with derivatives of the user's own: `custom_jvp`, `custom_vjp`.

A call is recorded as one CUSTOM node.  Its rules are Python functions, run when a transform needs
them: on the values of the operands if those are known, so that Python may branch on them, as in
the function itself.  Captured values become operands; a derivative by such a value is refused,
since no rule gives it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.sections import cached_property
from tfn._support.validate import a_function
from tfn.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    NotAvailableError,
    ShapeError,
    TfnError,
    TreeError,
    UnexpectedTracerError,
)
from tfn.trace import bind, effects, refs, runtime, source_lines, traces
from tfn.trace.argument import Custom, Param
from tfn.trace.build import several, zeros
from tfn.trace.jaxpr import Jaxpr, close, function, leaves, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.arguments import (
    Argnums,
    Function,
    argument_names,
    as_value,
    leaf_name,
    name_of,
    results,
    show,
    where,
)
from tfn.transforms.custom_rules import Rules, Tangents
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard.axes import Kind, NamedAxis, environment, live_indices, named
from tfn.transforms.static_args import Names, Selection
from tfn.transforms.tangents import SymbolicZero, Vectors
from tfn.transforms.tracing import Recording, record

_KNOWN: WeakKeyDictionary[UOp, bool] = WeakKeyDictionary()


def is_known(u: UOp) -> bool:
    """Whether the value of a graph can be computed now, because those of its leaves are known."""
    for node in walk([u], lambda node: node not in _KNOWN):
        if node not in _KNOWN:
            if node.op is Op.LEAF:
                value = node.arg.value
                value_known = value is not None and (value.owner is None or value.known)
            elif node.op is Op.FUNCTION:  # closed: it depends on nothing
                value_known = True
            else:
                computable = node.op not in (Op.PARAM, Op.LINEAR)
                value_known = computable and all(_KNOWN[s] for s in node.src)
            _KNOWN[node] = value_known
    return _KNOWN[u]


@contextmanager
def rule_trace(rule: Function) -> Iterator[traces.Trace]:
    """A trace for the block, in which a rule runs.

    Nodes of a rule of tfn get the line of the call that is differentiated, not that of `grad`.
    """
    own = str(getattr(rule, "__module__", "")).startswith("tfn.")
    lines = source_lines.inheriting() if own else nullcontext()
    with traces.tracing(name_of(rule)) as trace, lines:
        try:
            yield trace
        except TfnError as error:
            if isinstance(error, UnexpectedTracerError):
                error.add_note(
                    "  rules run when a derivative is asked for: what they need must be "
                    "an argument, or a residual"
                )
            error.add_note(f"  while: running the rule {where(rule)}")
            raise


@contextmanager
def rule_of_call(rule: Function, call: Call, indices: Sequence[UOp]) -> Iterator[traces.Trace]:
    """`rule_trace`, in which the named axes of the call can be named; `indices` are along them."""
    with rule_trace(rule) as trace:
        values = [runtime.installed().wrap(u, trace, is_known(u)) for u in indices]
        axes = [NamedAxis(a[0], x, trace, *a[1:]) for a, x in zip(call.axes, values, strict=True)]
        with named(axes):
            yield trace
        refs = [cell for cell in trace.written if cell is not effects.TOKEN]
        if refs:
            raise NotAvailableError(
                f"the rule {name_of(rule)} writes to a reference from outside",
                got=repr(refs[0]),
                hint="return the value; a rule may write to references that it makes",
            )


def as_values(
    trace: traces.Trace, graphs: Sequence[UOp], types: Sequence[ShapeDtypeStruct]
) -> list[Any]:
    """Graphs as Values of the trace in which a rule runs."""
    return [
        runtime.installed().wrap(u, trace, is_known(u), t.weak_type)
        for u, t in zip(graphs, types, strict=True)
    ]


def directions(
    trace: traces.Trace, graphs: Sequence[UOp | None], slots: Sequence[Any], symbolic_zeros: bool
) -> list[Any]:
    """Tangents or cotangents as a rule takes them; None stands for integers.

    Zeros are arrays or, with `symbolic_zeros`, a `SymbolicZero`.
    """
    given: list[Any] = []
    for u, slot in zip(graphs, slots, strict=True):
        if u is None and symbolic_zeros:
            given.append(SymbolicZero(slot.shape, slot.dtype))
        elif slot.floating:
            given += as_values(trace, [zeros(slot.shape, slot.dtype) if u is None else u], [slot])
        else:
            given.append(None)
    return given


def as_graph(trace: traces.Trace, value: runtime.Value | None) -> UOp | None:
    """The graph of a result of a rule, None for zero."""
    return None if value is None else bind.lift(value, trace)


@frozen
class Call:
    """One call of a function with rules, by the types of its arguments and results.

    Attributes:
        owner: the `custom_jvp` or `custom_vjp` that holds the rules.
        fixed: arguments that are not differentiated, with their positions.
        structure: of the tuple of the other arguments.
        takes: the types of their leaves.
        axes: that could be named, each with its kind; the indices along them are the first
            operands, so that the rules, which run later, can name them too.
        captured: the number of operands that are such indices, captured values, or state.
        states: the number of cells, whose values are the first results.
        gives: the type of the result.
    """

    owner: Any
    fixed: Fixed
    structure: tree.Structure
    takes: tuple[ShapeDtypeStruct, ...]
    axes: tuple[Kind, ...]
    captured: int
    states: int
    gives: Vectors

    def primals(self, u: UOp, tangents: Tangents) -> tuple[tuple[UOp, ...], Tangents]:
        """The operands that are arguments, and their tangents.

        Raises:
            GradientError: if there is a tangent of a value that the function closed over.
        """
        first = 1 + self.captured
        for x, dx in zip(u.src[1:first], tangents[1:first], strict=True):
            if dx is not None:
                raise GradientError(
                    f"{self.name} closes over a value by which it is differentiated",
                    got=f"a captured {show(x)}",
                    hint="pass it as an argument, so that the rules can say what its derivative "
                    "is, or hold it fixed with stop_gradient",
                )
        return u.src[first:], tangents[first:]

    def indices(self, u: UOp) -> tuple[UOp, ...]:
        """The operands that are indices along named axes."""
        return u.src[1 : 1 + len(self.axes)]

    @property
    def name(self) -> str:
        """The user's name of the function."""
        return name_of(self.owner.function)

    def cotangents(self, rule: str, out: object) -> list[runtime.Value | None]:
        """The cotangents of the arguments that a rule returned: a Value per leaf, None for zero.

        Raises:
            TreeError: if it is no tuple with an item for each argument.
        """
        parts = self.structure.children()
        if not isinstance(out, (tuple, list)) or len(out) != len(parts):
            raise TreeError(
                f"the {rule} of {self.name} must return a tuple with a cotangent for each of "
                f"its {len(parts)} argument(s)",
                got=counted(out),
                hint="return (ct,) for one argument; None stands for zero",
            )
        whole = tuple(
            tree.unflatten(part, [None] * part.num_leaves)
            if ct is None or isinstance(ct, SymbolicZero)
            else ct
            for ct, part in zip(out, parts, strict=True)
        )
        return self.vectors("cotangent").every(whole)

    def vectors(self, role: str) -> Vectors:
        """The type of the tangents, or cotangents, of the arguments."""
        function = self.owner.function
        count = self.structure.num_children + len(self.fixed.positions)
        at = [i for i in range(count) if i not in self.fixed.positions]
        names = partial(leaf_name, function, self.structure, at)
        return Vectors(self.structure, self.takes, role, names)


@frozen
class Fixed:
    """Arguments that no rule differentiates: compared by value if they can be."""

    positions: tuple[int, ...] = ()
    values: tuple[object, ...] = ()

    def join(self, dynamic: Sequence[object]) -> list[object]:
        """All arguments, from the others."""
        rest, at = iter(dynamic), dict(zip(self.positions, self.values, strict=True))
        count = len(dynamic) + len(at)
        return [at[i] if i in at else next(rest) for i in range(count)]

    def _key(self) -> tuple[object, ...]:
        # Nodes die when Python ends too, and then global names are None already.
        keys = [v if _hashable(v) else id(v) for v in self.values]
        return tuple(zip(map(type, self.values), keys, strict=True))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.positions, self._key()) == (
            other.positions,
            other._key(),
        )

    def __hash__(self) -> int:
        return hash((self.positions, self._key()))


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:  # it, or a part of it, has no hash
        return False
    return True


class CustomDerivative:
    """The shared part of `custom_jvp` and `custom_vjp`: a call, as one CUSTOM node."""

    def __init__(
        self,
        what: str,
        function: Function,
        nondiff_argnums: Argnums,
        nondiff_argnames: Names,
        rules: Callable[[Call], Rules],
    ) -> None:
        a_function(what, "fun", function)
        self.what, self.function, self.rules = what, function, rules
        self.fixed = Selection.of(function, "nondiff", nondiff_argnums, nondiff_argnames)

    def call(self, owner: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """The result: recorded as one node if an argument is traced, else computed now."""
        f, args = self.function, self.positional(args, kwargs)
        at = sorted(i for i in self.fixed.positions if i < len(args))
        fixed = Fixed(tuple(at), tuple(args[i] for i in at))
        self._refuse_traced(fixed)
        dynamic = tuple(x for i, x in enumerate(args) if i not in self.fixed.positions)
        flat, structure = refs.flatten(dynamic)

        def names() -> list[str]:
            positions = [i for i in range(len(args)) if i not in at]
            return argument_names(f, tree.structure((dynamic, {})), positions)

        values = [as_value(x, partial(lambda i: names()[i], i)) for i, x in enumerate(flat)]
        if bind.innermost(values) is None:
            return f(*args)

        axes = environment()
        indices: list[UOp] = []

        def run(xs: Sequence[Any]) -> Any:
            indices[:] = [bind.lift(index, traces.running()[-1]) for index in live_indices()]
            return f(*fixed.join(tree.unflatten(structure, xs)))

        recorded = record(self.what, f, run, values, names())
        if recorded.trace.concretized:
            for value in values:
                if value.owner is not None:
                    value.owner.concretized = True
        closed, before = enclosed(recorded, indices)
        gives = tuple(
            ShapeDtypeStruct(u.shape, u.dtype, weak)
            for u, weak in zip(recorded.outputs, recorded.weak, strict=True)
        )
        takes = tuple(map(ShapeDtypeStruct.of, values))
        call = Call(
            owner,
            fixed,
            structure,
            takes,
            axes,
            len(before),
            len(recorded.cells),
            Vectors(recorded.structure, gives, "tangent"),
        )
        results = custom(
            name_of(f), closed, [*before, *values], self.rules(call), recorded.weak, recorded.cells
        )
        return tree.unflatten(recorded.structure, results)

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.function)
        except ValueError:  # builtins have none
            return None

    def positional(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """The arguments by position."""
        signature = self._signature
        if signature is not None and (kwargs or len(args) != len(signature.parameters)):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if kwargs:
            raise ArgumentError(
                f"{self.what} of {name_of(self.function)} needs arguments that have a position",
                got=", ".join(kwargs),
                hint="its rules take arguments by position",
            )
        return args

    def _refuse_traced(self, fixed: Fixed) -> None:
        for i, value in zip(fixed.positions, fixed.values, strict=True):
            for leaf in tree.leaves(value):
                if getattr(leaf, "owner", None) is not None:
                    raise ArgumentError(
                        f"argument {i} of {name_of(self.function)} is among nondiff_argnums and "
                        "cannot be a traced value",
                        got=repr(leaf),
                        hint="nondiff_argnums is for functions, shapes and other Python values: "
                        "leave it out there, and let the rule give zero (None) for it",
                    )


def enclosed(recorded: Recording, indices: Sequence[UOp] = ()) -> tuple[UOp, list[runtime.Value]]:
    """A recorded function, closed, and its operands before the inputs.

    These operands are the Values of `indices`, which it captured or not, other Values that it
    captured, and those of the state that it uses.
    """
    inputs = [*recorded.before, *recorded.inputs]
    outputs, inner = [*recorded.after, *recorded.outputs], {*inputs, *indices}
    captured = [*indices, *(u for u in leaves(outputs) if u not in inner)]
    jaxpr, _ = close(outputs, [*captured, *inputs])
    state = [cell.read() for cell in recorded.cells]
    return jaxpr.function, [*(u.arg.value for u in captured), *state]


def custom(
    name: str,
    f: UOp,
    operands: Sequence[runtime.Value],
    rules: Rules,
    weak: Sequence[bool],
    cells: Sequence[traces.Cell] = (),
) -> list[Any]:
    """The results of a FUNCTION with rules of its own, for Values.

    Its first results are the next values of `cells`, and are not among those returned.
    """
    params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(operands))
    node = UOp(Op.CUSTOM, (f, *map(param, params)), Custom(name, rules))
    return bind.call(Jaxpr(function(several(node), params)), operands, weak, cells)


def same_result(call: Call, out: object, rule: Function, what: str) -> None:
    """Refuse a result of a rule that is not of the type of the function's."""
    values, structure = results(out, rule)
    if structure != call.gives.structure:
        raise TreeError(
            f"{what} of {call.name} must return a result of the structure that it has",
            got=f"{tree.show(structure)} instead of {tree.show(call.gives.structure)}",
            hint=f"return the containers that {call.name} returns",
        )
    for i, (value, slot) in enumerate(zip(values, call.gives.slots, strict=True)):
        same = value.dtype == slot.dtype or value.weak_type or slot.weak_type
        if value.shape != slot.shape or not same:
            path = tree.places(structure)[i][1]
            raise (DTypeError if value.shape == slot.shape else ShapeError)(
                f"{what} of {call.name} must return a result of the type that it has",
                got=f"result{path} is {show(value)} instead of {show(slot)}",
                hint=f"call {call.name} in the rule, and return its result",
            )


def missing(what: str, name: str, method: str) -> GradientError:
    """The error for a function that is differentiated before it has a rule."""
    return GradientError(
        f"{name} is a {what} without a rule",
        got="a derivative of it",
        hint=f"define one with {name}.{method}(...) before differentiating it",
    )


def pair(
    what: str, parts: str, out: object, hint: str = "return both, with a comma between them"
) -> tuple[Any, Any]:
    """The two parts of the result of a rule.

    Raises:
        ArgumentError: if they are not two.
    """
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise ArgumentError(f"{what} must return a pair {parts}", got=counted(out), hint=hint)
    return out[0], out[1]


def counted(out: object) -> str:
    """The type of a rule's result, for a message: ``Array``, ``tuple of 3``."""
    size = f" of {len(out)}" if isinstance(out, (tuple, list)) else ""
    return type(out).__name__ + size
