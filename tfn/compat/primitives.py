"""Primitives of the user: `Primitive`, and the tables that hold their rules.

A call on traced values is recorded as one CUSTOM node.  Its body is the implementation, traced, so
it is compiled with the rest of the program; derivatives and batching call the rules of the tables,
on Values, when a transform meets the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tfn import pure_callback
from tfn.compat.avals import ShapedArray, typeof
from tfn.compat.zeros import UndefinedPrimal, Zero
from tfn.errors import ArgumentError, MissingRuleError
from tfn.extend import ShapeDtypeStruct, UOp, bind, build, frozen, run, traces, tracing
from tfn.trace import effects
from tfn.transforms import custom_rules
from tfn.transforms.body import Lanes
from tfn.transforms.custom import as_values, custom, enclosed, rule_trace
from tfn.transforms.custom_rules import Tangents
from tfn.transforms.scan_rules import Batch, Pull, Push

Rule = Callable[..., Any]

primitive_jvps: dict[Primitive, Rule] = {}
"""``rule(primals, tangents, **params) -> (results, tangents)``."""

primitive_transposes: dict[Primitive, Rule] = {}
"""``rule(cotangents, *operands, **params) -> cotangents``; an operand that is sought is an
`UndefinedPrimal`."""

primitive_batchers: dict[Primitive, Rule] = {}
"""``rule(operands, axes, **params) -> (results, axes)``."""

fancy_primitive_batchers: dict[Primitive, Rule] = {}
"""``rule(axis_data, operands, axes, **params) -> (results, axes)``."""

axis_primitive_batchers: dict[Primitive, Rule] = {}
"""``rule(size, name, trace_type, operands, axes, **params) -> (results, axes)``."""

lowerings: dict[Primitive, Rule] = {}
"""``rule(*operands, **params) -> results``: what is compiled instead of the implementation."""


class Primitive:
    """A primitive of the user: by an implementation, and rules of its own.

    Example:
        >>> double_p = Primitive("double")
        >>> double = double_p.def_impl(lambda x: x + x)
        >>> double_p.def_abstract_eval(lambda x: x)  # doctest: +ELLIPSIS
        <function ...>
        >>> primitive_jvps[double_p] = lambda x, dx: (double_p.bind(*x), 100.0 * dx[0])
        >>> import tfn
        >>> float(tfn.grad(double_p.bind)(3.0)), float(tfn.jit(double_p.bind)(3.0))
        (100.0, 6.0)
    """

    multiple_results = False
    call_primitive = map_primitive = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.composed = False  # of operations of tfn, so that `bind` is the implementation
        self.functions_of: Rule | None = None  # the functions in the parameters of an equation
        self.implementation: Rule | None = None
        self.abstract: Rule | None = None

    def __repr__(self) -> str:
        return self.name

    def def_impl(self, impl: Rule) -> Rule:
        """Define it on concrete values."""
        self.implementation = impl
        return impl

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Define the types of the results, from those of the operands."""
        self.abstract = rule
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Define the types of the results, and the effects, which are found by tracing instead."""
        self.abstract = lambda *avals, **params: rule(*avals, **params)[0]
        return rule

    def def_bind_with_trace(self, rule: Rule) -> Rule:
        """Raises an error: there are no trace objects that such a rule could take."""
        raise ArgumentError(
            f"{self.name} cannot take over how it is bound",
            hint="define impl, abstract_eval and rules for the transforms",
        )

    def impl(self, *operands: Any, **params: Any) -> Any:
        """The implementation."""
        rule = self.implementation or lowerings.get(self)
        if rule is None:
            raise self.missing("implementation", f"{self.name}.def_impl(rule)")
        return rule(*operands, **params)

    def abstract_eval(self, *avals: ShapedArray, **params: Any) -> tuple[Any, frozenset[Any]]:
        """The types of the results, and no effects."""
        if self.abstract is None:
            raise self.missing("abstract_eval", f"{self.name}.def_abstract_eval(rule)")
        return self.abstract(*avals, **params), frozenset()

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of `bind`, from those of an equation: with its functions as `subfuns`."""
        if self.functions_of is None:
            return params
        return params | {"subfuns": self.functions_of(params)}

    def bind(self, *operands: Any, **params: Any) -> Any:
        """The results: recorded as one node if an operand is traced, else computed now."""
        if self.composed:
            return self.impl(*operands, **params)
        values = [run.asarray(x) for x in operands]
        if bind.innermost(values) is None:
            out = self.impl(*values, **params)
            results = [run.asarray(x) for x in (out if self.multiple_results else [out])]
        else:
            results = _recorded(self, values, params)
        return results if self.multiple_results else results[0]

    def on_host(self, types: Any) -> Rule:
        """The implementation as a function of the host, which is called with concrete arrays."""
        if types is None:
            raise self.missing("abstract_eval", f"{self.name}.def_abstract_eval(rule)")
        shapes = [ShapeDtypeStruct(t.shape, t.dtype) for t in types]

        def run_on_host(*operands: Any, **params: Any) -> Any:
            def call(*arrays: Any) -> Any:
                concrete = map(run.asarray, arrays)
                return [*map(run.asarray, self.results(self.impl(*concrete, **params)))]

            results = pure_callback(call, shapes, *operands)
            return results if self.multiple_results else results[0]

        return run_on_host

    def missing(self, what: str, hint: str) -> MissingRuleError:
        """The error for a rule that has not been defined."""
        return MissingRuleError(
            f"the primitive {self.name} has no {what}", got="a use of it", hint=f"write {hint}"
        )

    def results(self, out: Any) -> list[Any]:
        """The list of results, of which a primitive with one result returns but one."""
        return list(out) if self.multiple_results else [out]


def _recorded(primitive: Primitive, values: list[Any], params: dict[str, Any]) -> list[Any]:
    """The results of one CUSTOM node."""
    types = None
    if primitive.abstract is not None:
        types = primitive.results(primitive.abstract(*map(typeof, values), **params))
    body = lowerings.get(primitive) or primitive.implementation
    if body is None:
        raise primitive.missing("implementation", f"{primitive.name}.def_impl(rule)")

    def call(leaves: list[Any]) -> Any:
        return tuple(primitive.results(body(*leaves, **params)))

    recorded = tracing.record(f"the primitive {primitive.name}", body, call, values)
    if recorded.trace.concretized:
        for value in values:
            if value.owner is not None:
                value.owner.concretized = True
    found = [(u.shape, u.dtype) for u in recorded.outputs]
    if types is not None and [(t.shape, t.dtype) for t in types] != found:
        raise ArgumentError(
            f"the primitive {primitive.name} does not give what its abstract_eval says",
            got=f"{[ShapedArray(*t) for t in found]} instead of {types}",
            hint="both say shape and dtype of each result",
        )
    f, before = enclosed(recorded)
    takes = tuple(map(ShapeDtypeStruct.of, values))
    rules = PrimitiveRules(primitive, Params(params), takes, len(before), recorded.cells)
    return custom(primitive.name, f, [*before, *values], rules, recorded.weak, recorded.cells)


class Params:
    """The parameters of a call: compared by value where that is possible, else by identity."""

    __slots__ = ("_key", "items")

    def __init__(self, items: dict[str, Any]) -> None:
        self.items = items
        self._key = tuple((name, _key(value)) for name, value in sorted(items.items()))

    def __eq__(self, other: object) -> bool:
        return type(other) is Params and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@dataclass(frozen=True)
class Identity:
    """An object that is compared by identity."""

    value: object

    def __eq__(self, other: object) -> bool:
        return type(other) is Identity and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _key(value: object) -> object:
    simple = isinstance(value, (str, int, float, bool, type(None), type))
    return (type(value), value) if simple else Identity(value)


@frozen
class AxisData:
    """The axis that a batching rule puts in front."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


@frozen
class PrimitiveRules:
    """The rules of a CUSTOM node for a call of a primitive of the user.

    Attributes:
        takes: the types of the operands.
        captured: the number of operands before them: captured values, and state.
        cells: the state, whose values are the last of these, and the first results.
    """

    primitive: Primitive
    params: Params
    takes: tuple[ShapeDtypeStruct, ...]
    captured: int
    cells: tuple[traces.Cell, ...]

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents that the rule of `primitive_jvps` gives."""
        rule = primitive_jvps.get(self.primitive)
        if rule is None:
            raise self.primitive.missing("derivative", "primitive_jvps[primitive] = rule")
        with rule_trace(rule) as trace:
            xs = as_values(trace, u.src[1 + self.captured :], self.takes)
            dxs = [
                Zero(typeof(x).to_tangent_aval()) if dx is None else as_values(trace, [dx], [t])[0]
                for x, dx, t in zip(xs, tangents[1 + self.captured :], self.takes, strict=True)
            ]
            _, dys = rule(tuple(xs), tuple(dxs), **self.params.items)
            slopes = [graph_of(trace, dy) for dy in self.primitive.results(dys)]
        return [None] * len(self.cells) + slopes

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The cotangents that the rule of `primitive_transposes` gives."""
        rule = primitive_transposes.get(self.primitive)
        first = 1 + self.captured
        if rule is None or any(i < first for i in differentiated):
            return custom_rules.through(pull, u, cts, differentiated)
        results = u.src[0].src[len(self.cells) :]
        with rule_trace(rule) as trace:
            xs: list[Any] = as_values(trace, u.src[first:], self.takes)
            for i in differentiated:
                xs[i - first] = UndefinedPrimal(typeof(self.takes[i - first]))
            arriving = [
                Zero(ShapedArray(y.shape, y.dtype))
                if ct is None
                else as_values(trace, [ct], [ShapeDtypeStruct(ct.shape, ct.dtype)])[0]
                for ct, y in zip(cts[len(self.cells) :], results, strict=True)
            ]
            whole = arriving if self.primitive.multiple_results else arriving[0]
            back = rule(whole, *xs, **self.params.items)
            if back is Zero or isinstance(back, Zero):
                return [None for _ in differentiated]
            return [graph_of(trace, back[i - first]) for i in differentiated]

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """The results of the batching rule; without one, of the body in all lanes."""
        rule = self._batcher(size)
        first = 1 + self.captured
        if rule is None or any(mapped[1:first]):
            return custom_rules.lanes(batch, u, src, mapped, size)
        with rule_trace(rule) as trace:
            for cell, now in zip(self.cells, src[first - len(self.cells) :]):
                effects.set_current(trace, cell, now)
            wide = [
                ShapeDtypeStruct((size, *t.shape), t.dtype, t.weak_type) if many else t
                for t, many in zip(self.takes, mapped[first:], strict=True)
            ]
            xs = as_values(trace, src[first:], wide)
            axes = tuple(0 if many else None for many in mapped[first:])
            out, out_axes = rule(tuple(xs), axes, **self.params.items)
            if not self.primitive.multiple_results:
                out, out_axes = [out], [out_axes]
            elif out_axes is None or isinstance(out_axes, int):
                out_axes = [out_axes] * len(out)
            lanes = [_lanes(trace, y, axis) for y, axis in zip(out, out_axes, strict=True)]
            lanes = [*(Lanes(trace.cells[cell][1], False) for cell in self.cells), *lanes]
        return lanes

    def _batcher(self, size: int) -> Rule | None:
        """The batching rule, as one of operands and axes."""
        primitive = self.primitive
        if primitive in primitive_batchers:
            return primitive_batchers[primitive]
        if primitive in fancy_primitive_batchers:
            return partial(fancy_primitive_batchers[primitive], AxisData(NO_AXIS_NAME, size))
        if primitive in axis_primitive_batchers:
            return partial(axis_primitive_batchers[primitive], size, NO_AXIS_NAME, None)
        return None


NO_AXIS_NAME = None
"""The name of an axis that has none."""


def graph_of(trace: traces.Trace, value: Any) -> UOp | None:
    """The graph of a tangent or cotangent that a rule gave; None for zero."""
    if value is None or value is Zero or isinstance(value, Zero):
        return None
    if getattr(value, "dtype", None) is not None and value.dtype.kind == "V" and value.dtype.fields:
        return None  # float0
    return bind.lift(run.asarray(value), trace)


def _lanes(trace: traces.Trace, value: Any, axis: int | None) -> Lanes:
    graph = bind.lift(run.asarray(value), trace)
    if axis is None:
        return Lanes(graph, False)
    return Lanes(build.moveaxis(graph, axis % graph.ndim, 0), True)
