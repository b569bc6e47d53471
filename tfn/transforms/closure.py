"""Closure conversion: captured values become arguments; `closure_convert`, `custom_gradient`.

`linear_call` is a function with a transpose of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function
from tfn.dtypes import INEXACT
from tfn.errors import GradientError, TreeError
from tfn.trace import bind, runtime, traces
from tfn.trace.jaxpr import Jaxpr, close, leaves
from tfn.transforms.arguments import Function, P, R, as_value, name_of, wraps
from tfn.transforms.custom import pair
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.custom_vjp import custom_vjp
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.tangents import SymbolicZero
from tfn.transforms.tracing import record

Residuals = TypeVar("Residuals")
Linear = TypeVar("Linear")


@frozen
class Converted:
    """A closure as a pytree: a closed function, and the Values that it captured as children.

    Attributes:
        captured: the Values.
        jaxpr: the closed function of those, of the state, then of the leaves of the arguments.
        takes: the structure of the arguments.
        gives: the structure of the result.
        weak: which of its leaves have a weak dtype.
        cells: the state, whose next values are the first results.
    """

    captured: tuple[runtime.Value, ...]
    jaxpr: Jaxpr
    takes: tree.Structure
    gives: tree.Structure
    weak: tuple[bool, ...]
    cells: tuple[traces.Cell, ...] = ()

    def __call__(self, *args: object) -> Any:
        """The function's result, for arguments of the types it was converted for."""
        flat, structure = tree.flatten(args)
        if structure != self.takes:
            raise TreeError(
                "a converted function takes what it was converted for",
                got=f"{tree.show(structure)} instead of {tree.show(self.takes)}",
                hint="convert it again for other arguments",
            )
        values = [as_value(x, f"argument {i}") for i, x in enumerate(flat)]
        state = [cell.read() for cell in self.cells]
        operands = [*self.captured, *state, *values]
        results = bind.call(self.jaxpr, operands, self.weak, self.cells)
        return tree.unflatten(self.gives, results)


tree.register_node(
    Converted,
    lambda f: (f.captured, (f.jaxpr, f.takes, f.gives, f.weak, f.cells)),
    lambda static, captured: Converted(tuple(captured), *static),
)


def converted(what: str, fun: Function, args: Sequence[object]) -> Converted:
    """A function traced on types, apart from what it has captured."""
    a_function(what, "fun", fun)
    flat, structure = tree.flatten(tuple(args))
    types = [
        x if isinstance(x, ShapeDtypeStruct) else ShapeDtypeStruct.of(as_value(x, f"argument {i}"))
        for i, x in enumerate(flat)
    ]
    recorded = record(what, fun, lambda xs: fun(*tree.unflatten(structure, xs)), types, known=False)
    inputs, outputs = (
        [*recorded.before, *recorded.inputs],
        [*recorded.after, *recorded.outputs],
    )
    captured = [u for u in leaves(outputs) if u not in set(inputs)]
    jaxpr, _ = close(outputs, [*captured, *inputs])
    values = tuple(u.arg.value for u in captured)
    weak = tuple(recorded.weak)
    return Converted(values, jaxpr, structure, recorded.structure, weak, recorded.cells)


def closure_convert(
    fun: Callable[..., R], *example_args: object
) -> tuple[Callable[..., R], list[runtime.Value]]:
    """A function with the traced values that it closes over as arguments.

    For functions that take functions, with a derivative of their own: what those close over has
    to be an argument, for rules to say what its derivative is.

    Returns:
        (converted, values): ``converted(*args, *values)`` is ``fun(*args)`` for arguments of the
        types of `example_args`.  Values without derivative stay where they are.

    Example:
        >>> import tfn
        >>> def f(y):
        ...     g, values = tfn.closure_convert(lambda x: x * y, 1.0)
        ...     return g(3.0, *values)
        >>> float(tfn.grad(f)(2.0))
        3.0
    """
    function = converted("closure_convert", fun, example_args)
    hoisted = [v for v in function.captured if v.owner is not None and v.dtype in INEXACT]
    places = [i for i, v in enumerate(function.captured) if any(v is h for h in hoisted)]

    @wraps(fun)
    def run(*args: Any) -> Any:
        count = len(args) - len(places)
        captured = list(function.captured)
        for i, value in zip(places, args[count:], strict=True):
            captured[i] = runtime.installed().asarray(value)
        return replace(function, captured=tuple(captured))(*args[:count])

    return run, hoisted


def custom_gradient(fun: Callable[P, tuple[R, object]]) -> custom_vjp[P, R]:
    """A function that returns its result and the function from its cotangent to the arguments'.

    The second one may close over what the first has computed.  It returns a tuple, or, of one
    argument, the cotangent itself.

    Example:
        >>> import tfn
        >>> @tfn.custom_gradient
        ... def f(x):
        ...     return x * x, lambda ct: 10 * ct * x
        >>> float(f(3.0)), float(tfn.grad(f)(3.0))
        (9.0, 30.0)
    """

    a_function("custom_gradient", "fun", fun)
    function: Function = fun

    @wraps(function)
    def value(*args: Any) -> Any:
        return both(*args)[0]

    def both(*args: object) -> tuple[Any, Any]:
        return pair(name_of(function), "(result, gradient)", function(*args))

    def fwd(*args: object) -> tuple[Any, Converted]:
        result, rule = both(*args)
        types = tree.map(lambda y: ShapeDtypeStruct.of(runtime.installed().asarray(y)), result)
        return result, converted("custom_gradient", rule, [types])

    def bwd(rule: Converted, ct: object) -> tuple[Any, ...]:
        gradient = rule(ct)
        return gradient if isinstance(gradient, tuple) else (gradient,)

    positional: Function = value
    run: custom_vjp[P, R] = custom_vjp(positional)
    run.defvjp(fwd, bwd)
    return run


def linear_call(
    fun: Callable[[Residuals, Linear], R],
    fun_transpose: Callable[[Residuals, R], Linear],
    residual_args: Residuals,
    linear_args: Linear,
) -> R:
    """``fun(residual_args, linear_args)``, linear in the latter, with a transpose of the user's.

    Args:
        fun: linear in its second argument.
        fun_transpose: ``fun_transpose(residual_args, ct)`` gives the cotangent of `linear_args`.

    Raises:
        GradientError: if it is differentiated by `residual_args`.

    Example:
        >>> import tfn
        >>> def f(x):
        ...     scale = tfn.custom_derivatives.linear_call
        ...     return scale(lambda r, x: x / r, lambda r, ct: 10 * ct / r, 2.0, x)
        >>> float(f(6.0)), float(tfn.jvp(f, (6.0,), (1.0,))[1]), float(tfn.grad(f)(6.0))
        (3.0, 0.5, 5.0)
    """

    def rule(primals: Any, tangents: Any) -> Any:
        if not all(isinstance(dr, SymbolicZero) for dr in tree.leaves(tangents[0])):
            raise GradientError(
                "linear_call has no derivative by its residuals",
                hint="hold them fixed with stop_gradient",
            )
        slope = tree.map(
            lambda dx: np.zeros(dx.shape, dx.dtype) if isinstance(dx, SymbolicZero) else dx,
            tangents[1],
        )
        return call(*primals), call(primals[0], slope)

    call = custom_jvp(fun)
    call.defjvp(rule, symbolic_zeros=True)
    call.deftranspose(lambda ct, residuals, _: (None, fun_transpose(residuals, ct)))
    return call(residual_args, linear_args)
