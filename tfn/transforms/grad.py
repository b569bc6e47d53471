"""Gradients: `grad`, `value_and_grad`, `stop_gradient`.

A function is recorded on fresh leaves, `jvp.push` gives the graph of its tangent,
`transpose.pull` walks that graph backwards, and value and gradients are computed together.  What
a function closes over has no tangent, so nested derivatives cannot be confused.

    grad(f)  =  pull . push . record
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from tfn import tree
from tfn._support.validate import a_function
from tfn.dtypes import COMPLEXES, FLOATS, INEXACT, DType
from tfn.errors import GradientError
from tfn.trace import bind, runtime
from tfn.trace.argument import Leaf
from tfn.trace.build import zeros
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.arguments import Argnums, Aux, Chosen, Function, P, R, choose, name_of, wraps
from tfn.transforms.jvp import push
from tfn.transforms.shard.layout import like_primal
from tfn.transforms.tracing import Recording, record
from tfn.transforms.transpose import pull


def variable(like: runtime.Typed, value: runtime.Value | None = None) -> UOp:
    """A fresh leaf of the shape and dtype of a value, for its tangent or cotangent."""
    return UOp(Op.LEAF, (), Leaf(like.shape, like.dtype, value))


def value_and_grad(
    fun: Callable[P, R],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, Any]]:
    """A function that returns the value of a scalar function and its gradient.

    The gradient to a complex z = x + iy of a real value f is df/dx - i df/dy: its conjugate is the
    direction of the steepest ascent.  That of a holomorphic function is its derivative.

    Args:
        fun: a function of trees of arrays that returns a real scalar.
        argnums: the positional argument to differentiate by, or a tuple of them; a tuple gives a
            tuple of gradients.
        has_aux: whether the function returns (value, aux); then so does the first result.
        holomorphic: whether value and arguments are complex, and the function is differentiable
            as one of complex numbers; that it is, is believed.
        allow_int: whether integer leaves are accepted; their gradient is None.

    Raises:
        GradientError: if the value is not a real scalar, or an argument is not floating.

    Example:
        >>> value, slope = value_and_grad(lambda x: x * x)(3.0)
        >>> float(value), float(slope)
        (9.0, 6.0)
    """

    a_function("value_and_grad", "fun", fun)

    @wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]:
        chosen = Chosen.of(fun, args, kwargs, choose(argnums, len(args), "grad"))
        if holomorphic:
            chosen.require(HOLOMORPHIC, COMPLEXES, "complex", "use .astype(complex)")
        elif not allow_int:
            chosen.require_floating("grad")
        inputs = chosen.inputs
        recorded = record("grad", fun, chosen.call, inputs, chosen.names, has_aux=has_aux)
        tangents = {x: variable(x) for x in recorded.inputs}
        pushed = push(recorded.outputs, tangents)  # rules of the user raise their errors first
        y = _scalar(recorded, fun, holomorphic)
        cts = pull(pushed, list(tangents.values()), [const(1, y.dtype)])
        slopes = [zeros(x.shape, x.dtype) if ct is None else ct for x, ct in zip(inputs, cts)]
        slopes = [like_primal(ct, x) for x, ct in zip(inputs, slopes)]
        extra = recorded.traced_aux
        weak = [*recorded.weak, *(x.weak_type for x in inputs), *(False for _ in extra)]
        (value,), slopes, extra = recorded.evaluate([y], slopes, extra, weak=weak)
        result: Any = (value, recorded.fill_aux(extra)) if has_aux else value
        return result, fill(chosen, argnums, slopes)

    return run


@overload
def grad(
    fun: Callable[P, tuple[object, Aux]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def grad(
    fun: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]: ...


def grad(
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """A function that returns the gradient of a scalar function; see `value_and_grad`.

    Args:
        fun: a function of trees of arrays that returns a real scalar.
        argnums: the positional argument to differentiate by, or a tuple of them; a tuple gives a
            tuple of gradients.
        has_aux: whether the function returns (value, aux); then this one returns (gradient, aux).
        holomorphic: whether value and arguments are complex, and the function is holomorphic.
        allow_int: whether integer leaves are accepted; their gradient is None.

    Raises:
        GradientError: if the value is not a real scalar, or an argument is not floating.

    Example:
        >>> float(grad(grad(lambda x: x * x * x))(2.0))
        12.0
    """
    a_function("grad", "fun", fun)
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def fill(chosen: Chosen, argnums: Argnums, results: list[Any]) -> Any:
    """One result per floating leaf, in the structure of the chosen arguments."""
    flat: list[Any] = [None] * len(chosen.values)
    for i, result in zip(chosen.differentiated, results, strict=True):
        flat[i] = result
    filled = tree.unflatten(chosen.structure, flat)
    return filled[0] if isinstance(argnums, int) else filled


HOLOMORPHIC = "a derivative with holomorphic=True"


def _scalar(recorded: Recording, function: Function, holomorphic: bool) -> UOp:
    one = len(recorded.outputs) == 1 and recorded.structure.is_leaf()
    y = recorded.outputs[0] if one else None
    if y is None or y.shape != ():
        got = f"shape {y.shape}" if y is not None else f"the tree {tree.show(recorded.structure)}"
        raise GradientError(
            f"grad needs a scalar result, and that of {name_of(function)} is not",
            got=got,
            hint="sum or average it; if there is more to return, use has_aux=True; for the "
            "derivative of every element use jacrev, or vmap(grad(f))",
        )
    check_results("grad", [y], function, COMPLEXES if holomorphic else FLOATS)
    return y


def check_results(
    name: str, outputs: Sequence[UOp], function: Function, allowed: frozenset[DType]
) -> None:
    """Raise GradientError unless all results are of some dtypes: real, complex, or either."""
    wrong = [u.dtype for u in outputs if u.dtype not in allowed]
    if not wrong:
        return
    words, hint = "floating", "integers and booleans have no derivative: return them as aux"
    if allowed == COMPLEXES:
        name, words, hint = HOLOMORPHIC, "complex", "leave holomorphic=True out"
    elif wrong[0] in COMPLEXES:
        words = "real"
        hint = "take a part of it or abs; if the function is holomorphic, say holomorphic=True"
    raise GradientError(
        f"{name} needs a {words} result, and that of {name_of(function)} is not",
        got=", ".join(d.name for d in wrong),
        hint=hint,
    )


def stop_gradient(x: R) -> R:
    """The same values, which derivatives take for constants.  `x` may be nested.

    Example:
        >>> float(grad(lambda x: x * stop_gradient(x))(3.0))
        3.0
    """

    def stop(leaf: object) -> Any:
        value = runtime.installed().asarray(leaf)
        if value.owner is None or value.dtype not in INEXACT:
            return value
        return bind.bind(Op.DETACH, value, weak=value.weak_type)

    stopped: R = tree.map(stop, x)
    return stopped
