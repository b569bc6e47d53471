"""User-defined forward derivatives: `custom_jvp`."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, Self, TypeVar, overload

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function
from tfn.errors import ArgumentError
from tfn.trace.build import zeros
from tfn.trace.uop import UOp
from tfn.transforms.arguments import Argnums, Function, Instance, P, Q, R_co, name_of
from tfn.transforms.custom import (
    Call,
    CustomDerivative,
    Fixed,
    as_graph,
    as_values,
    directions,
    missing,
    pair,
    rule_of_call,
    same_result,
)
from tfn.transforms.custom_rules import Tangents, lanes, through
from tfn.transforms.scan_rules import Pull, Push
from tfn.transforms.static_args import Names
from tfn.transforms.tangents import SymbolicZero

Rule = TypeVar("Rule", bound=Function)


@frozen
class JvpRules:
    """The rules of a `custom_jvp`."""

    call: Call

    batched = staticmethod(lanes)

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The transpose of the function's body, or the user's rule.

        Raises:
            GradientError: if the function is to be linear in what it closes over.
        """
        call, first, rule = self.call, 1 + self.call.captured, self.call.owner.transposed
        if rule is None:
            return through(pull, u, cts, differentiated)
        call.primals(u, [x if i in differentiated else None for i, x in enumerate(u.src)])
        with rule_of_call(rule, call, call.indices(u)) as trace:
            slots = call.gives.slots
            full = [
                zeros(s.shape, s.dtype) if ct is None else ct
                for ct, s in zip(cts[call.states :], slots, strict=True)
            ]
            xs: list[Any] = as_values(trace, u.src[first:], call.takes)
            for i in differentiated:
                xs[i - first] = None
            out = rule(
                *call.fixed.values,
                tree.unflatten(call.gives.structure, as_values(trace, full, slots)),
                *tree.unflatten(call.structure, xs),
            )
            cotangents = call.cotangents("transpose", out)
            return [as_graph(trace, cotangents[i - first]) for i in differentiated]

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents that the user's rule returns."""
        call, owner = self.call, self.call.owner
        rule = owner.rule
        if rule is None:
            raise missing("custom_jvp", call.name, "defjvp")
        primals, differentiated = call.primals(u, tangents)
        with rule_of_call(rule, call, call.indices(u)) as trace:
            xs = as_values(trace, primals, call.takes)
            dxs = directions(trace, differentiated, call.takes, owner.symbolic_zeros)
            out = rule(
                *call.fixed.values,
                tree.unflatten(call.structure, xs),
                tree.unflatten(call.structure, dxs),
            )
            hint = "both of the structure of the result; None is a tangent of zero"
            y, dy = pair(f"the jvp of {call.name}", "(result, tangent)", out, hint)
            same_result(call, y, rule, "the jvp")
            slopes = [as_graph(trace, leaf) for leaf in call.gives.every(dy)]
            return [None] * call.states + slopes


class custom_jvp(Generic[P, R_co]):
    """A function with a forward derivative of the user's own; reverse mode transposes it.

    What the function closes over is not differentiated: pass it as an argument.

    Args:
        fun: the function, of positional arguments.
        nondiff_argnums, nondiff_argnames: arguments that are not differentiated, such as
            functions; the rule gets them first.

    Raises:
        GradientError: when it is differentiated without a rule, or by what it closes over.
        TreeError, ShapeError, DTypeError: if the rule gives tangents unlike the results.

    Example:
        >>> import tfn
        >>> @tfn.custom_jvp
        ... def double(x):
        ...     return 2 * x
        >>> @double.defjvp
        ... def jvp(primals, tangents):
        ...     return double(*primals), 100 * tangents[0]
        >>> float(double(1.0)), float(tfn.grad(double)(1.0))
        (2.0, 100.0)
    """

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(
        self, fun: Callable[P, R_co], nondiff_argnums: Argnums = (), nondiff_argnames: Names = ()
    ) -> None:
        functools.update_wrapper(self, fun)
        self.function = fun
        self.rule: Function | None = None
        self.transposed: Function | None = None
        self.symbolic_zeros = False
        self._custom = CustomDerivative(
            "custom_jvp", fun, nondiff_argnums, nondiff_argnames, JvpRules
        )

    def defjvp(self, jvp: Rule, symbolic_zeros: bool = False) -> Rule:
        """Define the derivative: ``jvp(primals, tangents)`` gives (result, tangent).

        Args:
            symbolic_zeros: whether tangents that are zero come as `SymbolicZero`.
        """
        a_function("defjvp", "jvp", jvp)
        self.rule, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def deftranspose(self, transpose: Rule) -> Rule:
        """Define the transpose, if the function is linear in some arguments.

        ``transpose(cts, *arguments)`` gets cotangents of the result, and None in the place of the
        arguments in which it is linear; it gives the cotangents of these, and None for the others.
        Without it the function is transposed as it is written, which one of the host cannot be.
        """
        a_function("deftranspose", "transpose", transpose)
        self.transposed = transpose
        return transpose

    def defjvps(self, *jvps: Function | None) -> None:
        """One rule for each argument: ``jvp(tangent, result, *primals)``; None for zero.

        The rule of an argument whose tangent is zero is not asked: its slope may be infinite.
        """
        if self._custom.fixed:
            raise ArgumentError(
                "defjvps cannot be used with nondiff_argnums",
                got=f"nondiff_argnums={sorted(self._custom.fixed.positions)}",
                hint="use defjvp, whose rule gets them first",
            )

        call: Function = self

        def jvp(primals: Any, tangents: Any) -> Any:
            if len(jvps) != len(primals):
                raise ArgumentError(
                    f"defjvps needs a rule, or None, for each argument of {name_of(self.function)}",
                    got=f"{len(jvps)} for {len(primals)}",
                    hint="None stands for a derivative of zero",
                )
            out = call(*primals)
            parts = [
                rule(dx, out, *primals)
                for rule, dx in zip(jvps, tangents, strict=True)
                if rule is not None and dx is not None and not isinstance(dx, SymbolicZero)
            ]
            if not parts:
                return out, tree.map(lambda y: None, out)
            return out, functools.reduce(lambda a, b: tree.map(lambda p, q: p + q, a, b), parts)

        self.defjvp(jvp, symbolic_zeros=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function's result."""
        positional = self._custom.positional(args, kwargs)
        at = [i for i in sorted(self._custom.fixed.positions) if i < len(positional)]
        leaves, structure = tree.flatten([positional[i] for i in at])
        if any(getattr(leaf, "owner", None) is not None for leaf in leaves):
            return self._opened(positional, at, leaves, structure)
        result: R_co = self._custom.call(self, positional, {})
        return result

    def _opened(
        self, args: Sequence[Any], at: list[int], leaves: list[Any], structure: tree.Structure
    ) -> R_co:
        """The result where arguments that no rule differentiates are traced: they are operands."""
        traced = [i for i, leaf in enumerate(leaves) if getattr(leaf, "owner", None) is not None]

        def fixed(values: Sequence[Any]) -> Fixed:
            found = dict(zip(traced, values, strict=True))
            every = [found.get(i, leaf) for i, leaf in enumerate(leaves)]
            return Fixed(tuple(at), tuple(tree.unflatten(structure, every)))

        def jvp(primals: Any, tangents: Any) -> Any:
            assert self.rule is not None
            first = fixed(primals[: len(traced)]).values
            return self.rule(*first, primals[len(traced) :], tangents[len(traced) :])

        f: Function = self.function
        opened: Any = custom_jvp(
            functools.wraps(f)(lambda *xs: f(*fixed(xs[: len(traced)]).join(xs[len(traced) :])))
        )
        if self.rule is not None:
            opened.defjvp(jvp, self.symbolic_zeros)
        del opened._custom.function.__wrapped__  # whose signature is another
        result: R_co = opened(
            *(leaves[i] for i in traced), *(x for i, x in enumerate(args) if i not in at)
        )
        return result

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: custom_jvp[Concatenate[Instance, Q], R_co], instance: Instance, owner: type
    ) -> Callable[Q, R_co]: ...

    def __get__(self, instance: object, owner: type) -> object:
        return self if instance is None else types.MethodType(self, instance)
