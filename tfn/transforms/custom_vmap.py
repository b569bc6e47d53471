"""User-defined batching: `custom_vmap`.

A call is recorded as one CUSTOM node, whose rule runs when `vmap` meets it.  Forward mode leaves
another node, of the tangents, so that a derivative is batched by the derivative of the rule; the
transpose of that node is the transpose of the function, batched as it is written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function
from tfn.errors import ArgumentError, MissingRuleError, TreeError
from tfn.trace import bind, runtime
from tfn.trace.argument import Custom
from tfn.trace.build import several, spread
from tfn.trace.op import Op
from tfn.trace.uop import UOp, substitute
from tfn.transforms.arguments import Function, P, R_co, name_of
from tfn.transforms.body import Lanes, closed, fresh, opened
from tfn.transforms.custom import Call, CustomDerivative, as_values, pair, rule_of_call
from tfn.transforms.custom_rules import Tangents, through
from tfn.transforms.linearize import jvp
from tfn.transforms.scan_rules import Batch, Push
from tfn.transforms.shapes import ShapeDtypeStruct

Rule = TypeVar("Rule", bound=Function)


@frozen
class VmapRules:
    """The rules of a `custom_vmap`."""

    call: Call

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """The results of the user's rule."""
        call = self.call
        _refuse_captured(call, mapped)
        first = 1 + call.captured
        flags = list(mapped[first:])
        with rule_of_call(call.owner.rule, call, call.indices(u)) as trace:
            xs = as_values(trace, src[first:], _wide(call.takes, flags, size))
            results, many = applied(call, size, flags, xs)
            graphs = [bind.lift(y, trace) for y in results]
        return [*_states(call, src), *map(Lanes, graphs, many)]

    transpose = staticmethod(through)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The results of a node of the tangents."""
        first, call = 1 + self.call.captured, self.call
        inputs, outputs = opened(u.src[0])
        moving = [i for i, dx in enumerate(tangents[1:]) if dx is not None]
        directions = [fresh(inputs[i]) for i in moving]
        slopes = push(outputs, {inputs[i]: dx for i, dx in zip(moving, directions, strict=True)})
        found = [dy for dy in slopes if dy is not None]
        if not found:
            return slopes
        body = closed(found, [*inputs, *directions])
        given = tuple(dx for dx in tangents[1:] if dx is not None)
        which = tuple(i for i, dy in enumerate(slopes[call.states :]) if dy is not None)
        places = tuple(i + 1 - first for i in moving)
        rules = TangentRules(call, places, which)
        src = (body, *u.src[1:], *given)
        nodes = iter(several(UOp(Op.CUSTOM, src, Custom(f"jvp_of_{call.name}", rules))))
        return [None if dy is None else next(nodes) for dy in slopes]


@frozen
class TangentRules:
    """The rules of the tangents of a `custom_vmap`.

    Attributes:
        moving: the arguments that have a tangent; negative, of captured values.
        which: the results that have one.
    """

    call: Call
    moving: tuple[int, ...]
    which: tuple[int, ...]

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """The derivative of the user's rule."""
        call, first = self.call, 1 + self.call.captured
        _refuse_captured(call, mapped)
        count = len(call.takes)
        flags, of_tangents = list(mapped[first : first + count]), mapped[first + count :]
        primals, directions = list(src[first : first + count]), list(src[first + count :])
        for i, many in zip(self.moving, of_tangents, strict=True):
            if many and not flags[i]:  # a rule has one flag for both
                primals[i], flags[i] = spread(primals[i], size), True
        for at, (i, many) in enumerate(zip(self.moving, of_tangents, strict=True)):
            if flags[i] and not many:
                directions[at] = spread(directions[at], size)
        types = _wide(call.takes, flags, size)
        many_results: list[bool] = []
        with rule_of_call(call.owner.rule, call, call.indices(u)) as trace:
            xs = as_values(trace, primals, types)
            dxs = as_values(trace, directions, [types[i] for i in self.moving])

            def of_moving(*some: Any) -> list[Any]:
                full = list(xs)
                for i, x in zip(self.moving, some, strict=True):
                    full[i] = x
                results, many_results[:] = applied(call, size, flags, full)
                return [results[i] for i in self.which]

            _, dys = jvp(of_moving, tuple(xs[i] for i in self.moving), tuple(dxs))
            graphs = [bind.lift(dy, trace) for dy in dys]
        return [Lanes(u, many_results[i]) for u, i in zip(graphs, self.which, strict=True)]

    transpose = staticmethod(through)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents of the body's results."""
        inputs, outputs = opened(u.src[0])
        moving = {x: dx for x, dx in zip(inputs, tangents[1:], strict=True) if dx is not None}
        leaves = {x: fresh(x) for x in moving}
        slopes = push(outputs, leaves)
        back = dict(zip(inputs, u.src[1:], strict=True))
        back |= {leaf: moving[x] for x, leaf in leaves.items()}
        found = iter(substitute([dy for dy in slopes if dy is not None], back))
        return [None if dy is None else next(found) for dy in slopes]


def _refuse_captured(call: Call, mapped: Sequence[bool]) -> None:
    """Refuse a captured value that differs from lane to lane, of which the rule knows nothing."""
    if any(mapped[1 : 1 + call.captured]):
        raise ArgumentError(
            f"{call.name} closes over a value that vmap maps",
            got="a captured value that differs from lane to lane",
            hint="pass it as an argument, so that the rule gets it",
        )


def _states(call: Call, src: Sequence[UOp]) -> list[Lanes]:
    """The state as it was: rules write to none."""
    first = 1 + call.captured
    return [Lanes(u, False) for u in src[first - call.states : first]]


def _wide(
    types: Sequence[ShapeDtypeStruct], mapped: Sequence[bool], size: int
) -> list[ShapeDtypeStruct]:
    """The types of operands over all lanes."""
    return [
        ShapeDtypeStruct((size, *t.shape), t.dtype, t.weak_type) if many else t
        for t, many in zip(types, mapped, strict=True)
    ]


def applied(
    call: Call, size: int, mapped: Sequence[bool], xs: Sequence[Any]
) -> tuple[list[Any], list[bool]]:
    """The results of the user's rule and whether each has the new axis, checked."""
    rule = call.owner.rule
    in_batched = list(tree.unflatten(call.structure, list(mapped)))
    out = rule(size, in_batched, *tree.unflatten(call.structure, list(xs)))
    hint = "return the result, and a tree of bools that says which of it has the new axis"
    y, out_batched = pair(f"the rule of {call.name}", "(result, batched)", out, hint)
    slots = call.gives.slots
    values = _like(call, y, "result")
    many = [bool(flag) for flag in _like(call, out_batched, "batched")]
    results = []
    for i, (value, flag, slot) in enumerate(zip(values, many, slots, strict=True)):
        array = runtime.installed().asarray(value)
        shape = (size, *slot.shape) if flag else slot.shape
        if array.shape != shape or (array.dtype != slot.dtype and not array.weak_type):
            path = tree.places(call.gives.structure)[i][1]
            raise ArgumentError(
                f"the rule of {call.name} must give what the function gives in all lanes",
                got=f"result{path} is {array.dtype.name}{list(array.shape)} instead of "
                f"{slot.dtype.name}{list(shape)}",
                hint="the new axis is in front where batched is True, and not there where it is "
                "False",
            )
        results.append(array if array.dtype == slot.dtype else array.astype(slot.dtype))
    return results, many


def _like(call: Call, value: object, what: str) -> list[Any]:
    """The leaves of a part of a rule's result, which has the structure of the function's."""
    leaves, structure = tree.flatten(value)
    if structure != call.gives.structure:
        raise TreeError(
            f"the rule of {call.name} must return a {what} of the structure of its result",
            got=f"{tree.show(structure)} instead of {tree.show(call.gives.structure)}",
            hint=f"return the containers that {call.name} returns",
        )
    return leaves


class custom_vmap(Generic[P, R_co]):
    """A function with a batching rule of the user's own.

    Under `vmap`, once for each axis, the rule is called instead of the function; everywhere else
    it is a function like any other.  A derivative in forward mode is batched by the derivative of
    the rule; in reverse mode, ``grad`` of ``vmap`` differentiates the rule, while under ``vmap`` of
    ``grad`` the gradient is batched as the function is written.

    Args:
        fun: the function, of arguments that have a position.

    Raises:
        MissingRuleError: when it is called without a rule.
        ArgumentError: if it closes over a value that is mapped.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> @custom_vmap
        ... def double(x):
        ...     return 2 * x
        >>> @double.def_vmap
        ... def rule(axis_size, in_batched, x):
        ...     return 2 * x + 100, in_batched[0]
        >>> float(double(1.0)), tfn.vmap(double)(tnp.arange(3.0)).tolist()
        (2.0, [100.0, 102.0, 104.0])
    """

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(self, fun: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, fun)
        self.function = fun
        self.rule: Function | None = None
        self._custom = CustomDerivative("custom_vmap", fun, (), (), VmapRules)

    def def_vmap(self, vmap_rule: Rule) -> Rule:
        """Define the rule: ``rule(axis_size, in_batched, *arguments)`` gives (result, batched).

        ``in_batched`` is a list of trees of bools like the arguments, and ``batched`` a tree like
        the result: where True, the array has the mapped axis in front.
        """
        a_function("def_vmap", "vmap_rule", vmap_rule)
        self.rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function's result."""
        if self.rule is None:
            name = name_of(self.function)
            raise MissingRuleError(
                f"{name} is a custom_vmap without a rule",
                got="a call of it",
                hint=f"define one with {name}.def_vmap(...) before calling it",
            )
        result: R_co = self._custom.call(self, args, kwargs)
        return result
