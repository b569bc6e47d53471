"""Jacobians: `jacfwd`, `jacrev`, `hessian`.

The leaf of a tangent, or cotangent, is batched over a basis: the columns, or rows, of the Jacobian
are lanes of one program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from tfn import tree
from tfn._support.validate import a_function
from tfn.dtypes import COMPLEXES, FLOATS, INEXACT
from tfn.trace.build import cast, count, eq, iota, moveaxis, reshape, zeros
from tfn.trace.uop import UOp
from tfn.transforms.arguments import Argnums, Aux, Chosen, P, choose, wraps
from tfn.transforms.batch import batch
from tfn.transforms.grad import HOLOMORPHIC, check_results, fill, variable
from tfn.transforms.jvp import push
from tfn.transforms.tracing import record
from tfn.transforms.transpose import forward, pull

REAL = "jacrev takes complex inputs; for a holomorphic function say holomorphic=True"
Blocks = Callable[[list[UOp], list[UOp]], list[list[UOp]]]


def _basis(x: UOp) -> UOp:
    """The unit vectors of the shape of `x`, one a row."""
    n = count(x.shape)
    unit = eq(iota((n, n), 0), iota((n, n), 1))
    return reshape(cast(unit, x.dtype), (n, *x.shape))


def _forward(outputs: list[UOp], inputs: list[UOp]) -> list[list[UOp]]:
    """Columns: one direction for each element of an input."""
    blocks: list[list[UOp]] = [[] for _ in outputs]
    for x in inputs:
        dx = variable(x)
        slopes = forward(push(outputs, {x: dx}))
        size = count(x.shape)
        lanes = iter(batch([u for u in slopes if u is not None], {dx: _basis(x)}, size))
        for y, u, row in zip(outputs, slopes, blocks, strict=True):
            column = None if u is None else next(lanes).full(size)
            shape = y.shape + x.shape
            if column is None:
                row.append(zeros(shape, y.dtype))
            else:
                row.append(reshape(moveaxis(column, 0, y.ndim), shape))
    return blocks


def _reverse(outputs: list[UOp], inputs: list[UOp]) -> list[list[UOp]]:
    """Rows: one cotangent for each element of an output."""
    differentiated = {x: variable(x) for x in inputs}
    blocks = []
    for y, slope in zip(outputs, push(outputs, differentiated), strict=True):
        ct = variable(y)
        cts = pull([slope], list(differentiated.values()), [ct])
        size = count(y.shape)
        lanes = iter(batch([u for u in cts if u is not None], {ct: _basis(y)}, size))
        row = []
        for x, u in zip(inputs, cts, strict=True):
            rows = None if u is None else next(lanes).full(size)
            shape = y.shape + x.shape
            row.append(zeros(shape, x.dtype) if rows is None else reshape(rows, shape))
        blocks.append(row)
    return blocks


def _jacobian(
    name: str,
    blocks: Blocks,
    function: Callable[P, Any],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
) -> Callable[P, Any]:
    a_function(name, "fun", function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        chosen = Chosen.of(function, args, kwargs, choose(argnums, len(args), name))
        if holomorphic:
            chosen.require(HOLOMORPHIC, COMPLEXES, "complex", "use .astype(complex)")
        else:
            chosen.require_floating(name)
        if blocks is _forward and not holomorphic:  # the imaginary parts would have no columns
            chosen.require(name, FLOATS, "real", REAL)
        recorded = record(name, function, chosen.call, chosen.inputs, chosen.names, has_aux=has_aux)
        real = INEXACT if blocks is _forward else FLOATS
        check_results(name, recorded.outputs, function, COMPLEXES if holomorphic else real)
        graphs = blocks(recorded.outputs, recorded.inputs)
        *rows, extra = recorded.evaluate(*graphs, recorded.traced_aux)
        jacobian = tree.unflatten(recorded.structure, [fill(chosen, argnums, row) for row in rows])
        return (jacobian, recorded.fill_aux(extra)) if has_aux else jacobian

    return run


@overload
def jacfwd(
    fun: Callable[P, tuple[object, Aux]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def jacfwd(
    fun: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...


def jacfwd(
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The Jacobian, column by column: for functions with more results than arguments.

    The result has the structure of the function's result, with the structure of the arguments in
    place of each leaf, and arrays of shape ``result.shape + argument.shape``.

    Args:
        fun: a function of trees of arrays that returns a tree of arrays.
        argnums: the positional argument to differentiate by, or a tuple of them; a tuple gives a
            tuple in place of each leaf.
        has_aux: whether the function returns (result, aux); then so does this one.
        holomorphic: whether results and arguments are complex, and the function is holomorphic.

    Raises:
        GradientError: if an argument or a result is not floating.

    Example:
        >>> import tfn.numpy as tnp
        >>> jacfwd(lambda x: x * x)(tnp.array([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    return _jacobian("jacfwd", _forward, fun, argnums, has_aux, holomorphic)


@overload
def jacrev(
    fun: Callable[P, tuple[object, Aux]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def jacrev(
    fun: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...


def jacrev(
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The Jacobian, row by row: for functions with fewer results than arguments.

    The result is that of `jacfwd`.

    Args:
        fun: a function of trees of arrays that returns a tree of arrays.
        argnums: the positional argument to differentiate by, or a tuple of them; a tuple gives a
            tuple in place of each leaf.
        has_aux: whether the function returns (result, aux); then so does this one.
        holomorphic: whether results and arguments are complex, and the function is holomorphic.

    Raises:
        GradientError: if an argument or a result is not floating.

    Example:
        >>> import tfn.numpy as tnp
        >>> jacrev(lambda x: (x * x).sum())(tnp.array([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    return _jacobian("jacrev", _reverse, fun, argnums, has_aux, holomorphic)


@overload
def hessian(
    fun: Callable[P, tuple[object, Aux]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def hessian(
    fun: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...


def hessian(
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The second derivatives: `jacfwd` of `jacrev`.

    Args:
        fun: a function of trees of arrays that returns a tree of arrays, mostly a scalar.
        argnums: the positional argument to differentiate by, or a tuple of them; a tuple gives a
            tuple of tuples in place of each leaf.
        has_aux: whether the function returns (result, aux); then so does this one.
        holomorphic: whether results and arguments are complex, and the function is holomorphic.

    Raises:
        GradientError: if an argument or a result is not floating.

    Example:
        >>> import tfn.numpy as tnp
        >>> hessian(lambda x: (x * x * x).sum())(tnp.array([1.0, 2.0])).tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    inner = jacrev(fun, argnums, has_aux, holomorphic)
    return jacfwd(inner, argnums, has_aux, holomorphic)
