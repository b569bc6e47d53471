"""User-defined reverse derivatives: `custom_vjp`."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, Self, overload

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function
from tfn.dtypes import BOOL
from tfn.errors import GradientError
from tfn.trace import bind, effects
from tfn.trace.argument import Linear, Param
from tfn.trace.build import after, several, zeros
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.arguments import Argnums, Function, Instance, P, Q, R_co, results
from tfn.transforms.body import fresh
from tfn.transforms.custom import (
    Call,
    CustomDerivative,
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
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.static_args import Names


@frozen
class CustomVJPPrimal:
    """A leaf of the arguments of ``fwd`` with ``symbolic_zeros=True``.

    Attributes:
        value: the argument.
        perturbed: whether it is being differentiated.
    """

    value: Any
    perturbed: bool


@frozen
class VjpRules:
    """The rules of a `custom_vjp`."""

    call: Call

    batched = staticmethod(lanes)

    transpose = staticmethod(through)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """A linear function of the residuals of ``fwd`` and of tangents, transposed by ``bwd``."""
        call, owner = self.call, self.call.owner
        if owner.fwd is None:
            raise missing("custom_vjp", call.name, "defvjp")
        primals, dxs = call.primals(u, tangents)
        with rule_of_call(owner.fwd, call, call.indices(u)) as trace:
            xs = as_values(trace, primals, call.takes)
            if owner.symbolic_zeros:
                xs = [CustomVJPPrimal(x, dx is not None) for x, dx in zip(xs, dxs, strict=True)]
            out = owner.fwd(*call.fixed.join(tree.unflatten(call.structure, xs)))
            y, residual_tree = pair(
                f"the fwd of {call.name}",
                "(result, residuals)",
                out,
                "return (result, None) if bwd needs nothing",
            )
            same_result(call, y, owner.fwd, "the fwd")
            kept, structure, flags = without_flags(residual_tree)
            leaves, _ = results(kept, owner.fwd)
            residuals = [*call.indices(u), *(bind.lift(r, trace) for r in leaves)]
        differentiated = tuple(i for i, dx in enumerate(dxs) if dx is not None)
        types = tuple(map(ShapeDtypeStruct.of, leaves))
        backward = Backward(call, structure, types, flags, differentiated)
        slots = call.gives.slots
        arg = Linear(
            call.name,
            len(residuals),
            tuple((s.shape, s.dtype) for s in slots if s.floating),
            backward,
        )
        node = UOp(Op.LINEAR, (*residuals, *(dx for dx in dxs if dx is not None)), arg)
        tangent_results = iter(several(node))
        slopes = [next(tangent_results) if slot.floating else None for slot in slots]
        return [None] * call.states + slopes


def without_flags(residuals: object) -> tuple[list[Any], tree.Structure, tuple[Any, ...]]:
    """The leaves of residuals but those that are Python's True or False, which a trace may ask.

    Returns:
        (leaves, structure, flags): the structure of all leaves; flags with their positions.
    """
    leaves, structure = tree.flatten(residuals)
    flags = tuple((i, x) for i, x in enumerate(leaves) if isinstance(x, bool))
    return [x for x in leaves if not isinstance(x, bool)], structure, flags


@frozen
class Backward:
    """The rules of the linear function whose transpose is ``bwd``.

    Attributes:
        call: of the function it belongs to.
        structure: of the residuals.
        residuals: their types; in the operands they follow the indices along named axes.
        flags: the residuals that are Python's True or False, which stay so, at their positions
            among the leaves.
        differentiated: for which leaves of the arguments there are tangents.
    """

    call: Call
    structure: tree.Structure
    residuals: tuple[ShapeDtypeStruct, ...]
    flags: tuple[tuple[int, bool], ...]
    differentiated: tuple[int, ...]

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The cotangents that ``bwd`` returns."""
        call, owner, count = self.call, self.call.owner, u.arg.residuals
        if any(i < count for i in differentiated):
            raise GradientError(
                f"the residuals of {call.name} cannot be transposed",
                got=f"a transpose of the bwd of {call.name}",
                hint="define it as a custom_jvp",
            )
        arriving = iter(cts)
        indices, kept = u.src[: len(call.axes)], u.src[len(call.axes) : count]
        with rule_of_call(owner.bwd, call, indices) as trace:
            effects.set_current(trace, effects.TOKEN, const(True, BOOL))
            leaves: list[Any] = as_values(trace, kept, self.residuals)
            for at, flag in self.flags:
                leaves.insert(at, flag)
            residuals = tree.unflatten(self.structure, leaves)
            slots = call.gives.slots
            given = [next(arriving) if slot.floating else None for slot in slots]
            flat = directions(trace, given, slots, owner.symbolic_zeros)
            out = owner.bwd(
                *call.fixed.values, residuals, tree.unflatten(call.gives.structure, flat)
            )
            cotangents = call.cotangents("bwd", out)
            back = [
                as_graph(trace, cotangents[self.differentiated[i - count]]) for i in differentiated
            ]
        if not trace.written:
            return back
        # The effects of bwd happen before its results are used, and only if they are.
        _, token = trace.cells[effects.TOKEN]
        return [None if ct is None else after(ct, [token]) for ct in back]

    def forward(self, pull: Pull, u: UOp) -> list[UOp]:
        """The transpose of ``bwd``, for forward mode.

        Raises:
            GradientError: if ``bwd`` is not linear in the cotangents.
        """
        types = u.arg.results
        cts = [fresh(Param(i, *kind)) for i, kind in enumerate(types)]
        count = u.arg.residuals
        back = self.transpose(pull, u, cts, range(count, len(u.src)))
        try:
            slopes = pull(back, cts, list(u.src[count:]))
        except GradientError as error:
            raise GradientError(
                f"{self.call.name} has no forward mode: it is a custom_vjp whose bwd is not "
                "linear in the cotangent",
                got=error.what,
                hint="use reverse mode (grad, vjp, jacrev), or a custom_jvp",
            ) from error
        return [zeros(*kind) if y is None else y for y, kind in zip(slopes, types, strict=True)]


class custom_vjp(Generic[P, R_co]):
    """A function with a reverse derivative of the user's own.

    Forward mode works as well where ``bwd`` is linear in the cotangent: it is transposed.  What
    the function closes over is not differentiated: pass it as an argument.

    Args:
        fun: the function, of positional arguments.
        nondiff_argnums, nondiff_argnames: arguments that are Python values, such as functions;
            ``bwd`` gets them first, ``fwd`` at their positions.

    Raises:
        GradientError: when it is differentiated without a rule, or by what it closes over.
        TreeError, ShapeError, DTypeError: if ``bwd`` gives cotangents unlike the arguments.

    Example:
        >>> import tfn
        >>> @tfn.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, None), lambda _, ct: (tfn.numpy.clip(ct, -1, 1),))
        >>> float(tfn.grad(lambda x: 5 * clipped(x))(1.0))
        1.0
    """

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(
        self, fun: Callable[P, R_co], nondiff_argnums: Argnums = (), nondiff_argnames: Names = ()
    ) -> None:
        functools.update_wrapper(self, fun)
        self.function = fun
        self.fwd: Function | None = None
        self.bwd: Function | None = None
        self.symbolic_zeros = False
        self._custom = CustomDerivative(
            "custom_vjp", fun, nondiff_argnums, nondiff_argnames, VjpRules
        )

    def defvjp(
        self,
        fwd: Function,
        bwd: Function,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Define the derivative.

        Args:
            fwd: takes the arguments, gives (result, residuals), which may be any tree.
            bwd: takes the residuals and the cotangent of the result, gives a tuple with a
                cotangent for each argument; None for zero, and for integers.
            symbolic_zeros: whether cotangents that are zero come as `SymbolicZero`, and leaves of
                the arguments to ``fwd`` as `CustomVJPPrimal`, which say if they are perturbed.
            optimize_remat: accepted; residuals that are not used are never computed.
        """
        a_function("defvjp", "fwd", fwd)
        a_function("defvjp", "bwd", bwd)
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function's result."""
        result: R_co = self._custom.call(self, args, kwargs)
        return result

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: custom_vjp[Concatenate[Instance, Q], R_co], instance: Instance, owner: type
    ) -> Callable[Q, R_co]: ...

    def __get__(self, instance: object, owner: type) -> object:
        return self if instance is None else types.MethodType(self, instance)
