"""Derivatives as linear maps: `jvp`, `linearize`, `vjp`, `linear_transpose`.

`linearize` and `vjp` record a function once, compute its value together with the intermediate
values that the derivative needs, and return a `LinearMap` over those, to be called many times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, overload

import numpy as np

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function, shown
from tfn.dtypes import INEXACT
from tfn.errors import ArgumentError, GradientError
from tfn.trace import bind, runtime
from tfn.trace.build import zeros
from tfn.trace.jaxpr import Jaxpr, close, leaves
from tfn.trace.uop import UOp, substitute
from tfn.transforms.arguments import Aux, Chosen, Function, R, name_of
from tfn.transforms.body import residuals
from tfn.transforms.grad import variable
from tfn.transforms.jvp import push
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.tangents import Vectors
from tfn.transforms.tracing import Recording, record
from tfn.transforms.transpose import forward, pull


@frozen
class LinearMap:
    """A linear function of trees of arrays, to be called many times; itself a pytree.

    Attributes:
        residuals: the arrays it was linearized at.
        jaxpr: the closed function of vectors and residuals.
        takes: the vectors it takes.
        gives: the vectors it gives.
        single: whether it takes one tree instead of one per argument.
    """

    residuals: tuple[runtime.Value, ...]
    jaxpr: Jaxpr
    takes: Vectors
    gives: Vectors
    single: bool

    def __call__(self, *vectors: object) -> Any:
        """The vectors that these are mapped to."""
        if self.single and len(vectors) != 1:
            raise ArgumentError(
                "a vjp function takes one cotangent",
                got=f"{len(vectors)} of them",
                hint="if the function returns a tuple, pass a tuple",
            )
        leaves = self.takes.check(vectors[0] if self.single else vectors)
        slots = [slot for slot in self.takes.slots if slot.floating]
        filled = [
            runtime.installed().asarray(np.zeros(slot.shape, slot.dtype)) if x is None else x
            for x, slot in zip(leaves, slots, strict=True)
        ]
        results = bind.call(self.jaxpr, [*filled, *self.residuals], self.gives.weak)
        return self.gives.build(results)


@frozen
class Unknown:
    """The derivative of a function that has no forward mode: an error when it is called.

    Attributes:
        error: what `linearize` met, which says why.
    """

    error: GradientError

    def __call__(self, *tangents: object) -> NoReturn:
        """Raises the error."""
        raise self.error


tree.register_node(Unknown, lambda f: ((), f.error), lambda error, _: Unknown(error))
tree.register_node(
    LinearMap,
    lambda f: (f.residuals, (f.jaxpr, f.takes, f.gives, f.single)),
    lambda static, residuals: LinearMap(tuple(residuals), *static),
)


@overload
def jvp(
    fun: Callable[..., R],
    primals: Sequence[object],
    tangents: Sequence[object],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...


@overload
def jvp(
    fun: Callable[..., tuple[R, Aux]],
    primals: Sequence[object],
    tangents: Sequence[object],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...


def jvp(
    fun: Function,
    primals: Sequence[object],
    tangents: Sequence[object],
    has_aux: bool = False,
) -> Any:
    """The value of a function and its derivative along a direction.

    Args:
        fun: a function of trees of arrays that returns a tree of arrays.
        primals: its positional arguments.
        tangents: the direction: one tree for each argument, with leaves of its shapes and dtypes.
        has_aux: whether the function returns (result, aux), where aux has no derivative.

    Returns:
        (value, tangent), or (value, tangent, aux) with `has_aux`.  The tangent of an integer is
        None.

    Raises:
        TreeError, ShapeError, DTypeError: for tangents unlike their primals.

    Example:
        >>> value, slope = jvp(lambda x: x * x, (3.0,), (1.0,))
        >>> float(value), float(slope)
        (9.0, 6.0)
    """
    a_function("jvp", "fun", fun)
    for name, argument in (("primals", primals), ("tangents", tangents)):
        if not isinstance(argument, (tuple, list)):
            raise ArgumentError(
                f"jvp needs {name} as a tuple, one for each argument",
                got=f"{name}={shown(argument)}",
                hint=f"write ({name[:-1]},)",
            )
    chosen = Chosen.of(fun, primals, {}, range(len(primals)))
    vectors = _tangents_of(chosen).check(tuple(tangents))
    directions = [None if dx is None else variable(dx, dx) for dx in vectors]
    recorded = record("jvp", fun, chosen.call, chosen.inputs, chosen.names, has_aux=has_aux)
    differentiated = {
        x: dx for x, dx in zip(recorded.inputs, directions, strict=True) if dx is not None
    }
    slopes = _floating(forward(push(recorded.outputs, differentiated)), recorded.outputs)
    extra, gives = recorded.traced_aux, _vectors_of(recorded, "tangent")
    weak = [*recorded.weak, *gives.weak, *(False for _ in extra)]
    values, tangent_values, extra = recorded.evaluate(recorded.outputs, slopes, extra, weak=weak)
    result = tree.unflatten(recorded.structure, values), gives.build(tangent_values)
    return (*result, recorded.fill_aux(extra)) if has_aux else result


@overload
def linearize(
    fun: Callable[..., R], *primals: object, has_aux: Literal[False] = False
) -> tuple[R, LinearMap]: ...


@overload
def linearize(
    fun: Callable[..., tuple[R, Aux]], *primals: object, has_aux: Literal[True]
) -> tuple[R, LinearMap, Aux]: ...


def linearize(fun: Function, *primals: object, has_aux: bool = False) -> Any:
    """The value of a function and its derivative as a function of the direction.

    Args:
        fun: a function of trees of arrays that returns a tree of arrays.
        *primals: its positional arguments.
        has_aux: whether the function returns (result, aux), where aux has no derivative.

    Returns:
        (value, derivative), or (value, derivative, aux) with `has_aux`; the derivative takes one
        tangent for each argument.  That of a `custom_vjp` without forward mode raises a
        GradientError when it is called.

    Example:
        >>> value, slope = linearize(lambda x: x * x, 3.0)
        >>> float(slope(1.0)), float(slope(2.0))
        (6.0, 12.0)
    """
    a_function("linearize", "fun", fun)
    chosen = Chosen.of(fun, primals, {}, range(len(primals)))
    recorded = record("linearize", fun, chosen.call, chosen.inputs, chosen.names, has_aux=has_aux)
    directions = [variable(x) for x in recorded.inputs]
    differentiated = dict(zip(recorded.inputs, directions, strict=True))
    pushed = push(recorded.outputs, differentiated)
    takes, gives = _tangents_of(chosen), _vectors_of(recorded, "tangent")
    try:
        slopes = _floating(forward(pushed), recorded.outputs)
    except GradientError as error:
        extra = recorded.traced_aux
        weak = [*recorded.weak, *(False for _ in extra)]
        values, extra = recorded.evaluate(recorded.outputs, extra, weak=weak)
        result = tree.unflatten(recorded.structure, values), Unknown(error)
        return (*result, recorded.fill_aux(extra)) if has_aux else result
    return _with_map(recorded, slopes, directions, takes, gives, False, has_aux)


@overload
def vjp(
    fun: Callable[..., R], *primals: object, has_aux: Literal[False] = False
) -> tuple[R, LinearMap]: ...


@overload
def vjp(
    fun: Callable[..., tuple[R, Aux]], *primals: object, has_aux: Literal[True]
) -> tuple[R, LinearMap, Aux]: ...


def vjp(fun: Function, *primals: object, has_aux: bool = False) -> Any:
    """The value of a function, and the function from cotangents of it to those of the arguments.

    Args:
        fun: a function of trees of arrays that returns a tree of arrays.
        *primals: its positional arguments.
        has_aux: whether the function returns (result, aux), where aux has no derivative.

    Returns:
        (value, pullback), or (value, pullback, aux) with `has_aux`; the pullback gives a tuple,
        one cotangent for each argument, None for integers.

    Example:
        >>> value, pullback = vjp(lambda x, y: x * y, 3.0, 4.0)
        >>> [float(ct) for ct in pullback(1.0)]
        [4.0, 3.0]
    """
    a_function("vjp", "fun", fun)
    chosen = Chosen.of(fun, primals, {}, range(len(primals)))
    recorded = record("vjp", fun, chosen.call, chosen.inputs, chosen.names, has_aux=has_aux)
    differentiated = {x: variable(x) for x in recorded.inputs}
    takes = _vectors_of(recorded, "cotangent")
    gives = Vectors(chosen.structure, _tangents_of(chosen).slots, "cotangent")
    live = [u for u in recorded.outputs if u.dtype in INEXACT]
    cts = [variable(u) for u in live]
    slopes = pull(push(live, differentiated), list(differentiated.values()), cts)
    return _with_map(recorded, _floating(slopes, recorded.inputs), cts, takes, gives, True, has_aux)


def linear_transpose(fun: Function, *primals: object) -> LinearMap:
    """The transpose of a linear function; of `primals` only shapes and dtypes count.

    Raises:
        GradientError: if the function is not linear.

    Example:
        >>> transposed = linear_transpose(lambda x: 2.0 * x, 1.0)
        >>> [float(ct) for ct in transposed(3.0)]
        [6.0]
    """
    a_function("linear_transpose", "fun", fun)
    chosen = Chosen.of(fun, primals, {}, range(len(primals)), types=True)
    chosen.require_floating("linear_transpose")
    names = [chosen.name(i) for i in chosen.differentiated]
    recorded = record("linear_transpose", fun, chosen.call, chosen.inputs, names, known=False)
    takes = _vectors_of(recorded, "cotangent")
    gives = Vectors(chosen.structure, _tangents_of(chosen).slots, "cotangent")
    cts = [variable(u) for u in recorded.outputs if u.dtype in INEXACT]
    live = [u for u in recorded.outputs if u.dtype in INEXACT]
    cotangents = _floating(pull(live, recorded.inputs, cts), recorded.inputs)
    nonlinear = [u for u in leaves(cotangents) if u in recorded.inputs]
    if nonlinear:
        raise GradientError(
            f"{name_of(fun)} is not linear in its arguments",
            got=", ".join(chosen.names),
            hint="use vjp",
        )
    jaxpr, captured = close(cotangents, cts)
    return LinearMap(tuple(leaf.arg.value for leaf in captured), jaxpr, takes, gives, True)


def _with_map(
    recorded: Recording,
    slopes: Sequence[UOp],
    inputs: Sequence[UOp],
    takes: Vectors,
    gives: Vectors,
    single: bool,
    has_aux: bool,
) -> Any:
    """The value, the linear map of graphs over their residuals, and aux."""
    stored_nodes, extra = residuals(slopes, inputs), recorded.traced_aux
    weak = [*recorded.weak, *(False for _ in (*stored_nodes, *extra))]
    values, stored, extra = recorded.evaluate(recorded.outputs, stored_nodes, extra, weak=weak)
    places = {u: variable(u) for u in stored_nodes}
    jaxpr, captured = close(substitute(slopes, places), [*inputs, *places.values()])
    assert not captured
    value = tree.unflatten(recorded.structure, values)
    linear = LinearMap(tuple(stored), jaxpr, takes, gives, single)
    return (value, linear, recorded.fill_aux(extra)) if has_aux else (value, linear)


def _tangents_of(chosen: Chosen) -> Vectors:
    return Vectors(chosen.structure, tuple(map(ShapeDtypeStruct.of, chosen.values)), "tangent")


def _vectors_of(recorded: Recording, role: str) -> Vectors:
    slots = (
        ShapeDtypeStruct(u.shape, u.dtype, w)
        for u, w in zip(recorded.outputs, recorded.weak, strict=True)
    )
    return Vectors(recorded.structure, tuple(slots), role)


def _floating(graphs: Sequence[UOp | None], likes: Sequence[UOp]) -> list[UOp]:
    """The graphs for floating values; zeros for None."""
    return [
        zeros(like.shape, like.dtype) if u is None else u
        for u, like in zip(graphs, likes, strict=True)
        if like.dtype in INEXACT
    ]
