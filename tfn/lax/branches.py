"""Conditionals: `cond`, `switch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import tree
from tfn._support.validate import several
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, INT32, INTEGERS
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.lax.closed_functions import (
    Returned,
    called,
    closed,
    perform,
    same_results,
    values,
    with_common_captures,
)
from tfn.lax.elementwise import clamp, convert_element_type, ne
from tfn.lax.operand import array, show
from tfn.trace.build import cast, choose
from tfn.trace.jaxpr import function
from tfn.transforms.arguments import name_of
from tfn.transforms.disable import DISABLED
from tfn.transforms.shapes import ShapeDtypeStruct

_NONE: Any = object()


def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NONE,
) -> Any:
    """Returns ``true_fun(*operands)`` if `pred` holds, else ``false_fun(*operands)``.

    Only one of them runs; the other one is traced, for its results have the same types, but
    not within `disable_jit`.  Under `vmap` with a predicate that differs from lane to lane both run
    and each lane selects; what the other branch did there, NaN too, has no influence, on
    derivatives neither.  The older ``cond(pred, x, true_fun, y, false_fun)``, where each function
    has an operand of its own, is taken too.

    Args:
        pred: a scalar; a number holds unless it is zero.
        true_fun: called with the operands if `pred` holds.
        false_fun: called with the operands otherwise; its results have the types of those of
            `true_fun`.
        operands: trees of arrays.  Arrays that the functions close over are passed on as well.
        operand: the only operand, by name.

    Returns:
        The tree that the branch returns.

    Raises:
        ShapeError: if `pred` is not a scalar.
        TreeError, DTypeError: if the branches return different structures or types.

    Example:
        >>> float(cond(True, lambda x: x + 1, lambda x: x * 10, 2.0))
        3.0
    """
    if not callable(true_fun) and callable(false_fun) and len(operands) == 2:
        if_true, if_false = false_fun, operands[1]
        _callable("cond", (if_false,))
        both = true_fun, operands[0]
        return cond(pred, lambda xy: if_true(xy[0]), lambda xy: if_false(xy[1]), both)
    _callable("cond", (true_fun, false_fun))
    operands = operands if operand is _NONE else (*operands, operand)
    p = _scalar("the predicate of cond", pred)
    if p.owner is None:
        return _run("cond", int(bool(p)), (false_fun, true_fun), operands)
    holds = p if p.dtype == BOOL else ne(p, 0)
    return _choose("cond", convert_element_type(holds, INT32), (false_fun, true_fun), operands)


def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., Any]],
    *operands: object,
    operand: object = _NONE,
) -> Any:
    """Returns ``branches[index](*operands)``; an index outside is clamped to the first or last
    branch.

    Args:
        index: an integer scalar.
        branches: functions of the operands, at least one, whose results have one structure and one
            type.
        operands: trees of arrays.  Arrays that the functions close over are passed on as well.
        operand: the only operand, by its name in older programs.

    Returns:
        The tree that the branch returns.

    Raises:
        ArgumentError: if there is no branch, or both `operands` and `operand` are given.
        ShapeError, DTypeError: if `index` is not an integer scalar, or as for `cond`.

    Example:
        >>> [float(switch(i, [lambda x: x, lambda x: -x], 3.0)) for i in (-1, 0, 1, 2)]
        [3.0, 3.0, -3.0, -3.0]
    """
    if operand is not _NONE:
        if operands:
            raise ArgumentError(
                "switch takes operands by position, or one by its name",
                got=f"{len(operands)} operands, and operand=",
                hint="leave operand= out",
            )
        operands = (operand,)
    functions = several("switch", "branches", branches, "functions")
    _callable("switch", functions)
    if not functions:
        raise ArgumentError(
            "switch needs at least one branch",
            got=f"branches={branches!r}",
            hint="pass a list of functions",
        )
    i = _scalar("the index of switch", index)
    if i.dtype not in INTEGERS:
        raise DTypeError(
            "the index of switch must be an integer", got=show(i), hint="for a predicate use cond"
        )
    if len(functions) == 1:
        return _arrays(called("switch", functions[0], *operands))
    last = len(functions) - 1
    if i.owner is None:
        return _run("switch", min(max(int(i), 0), last), functions, operands)
    return _choose("switch", convert_element_type(clamp(0, i, last), INT32), functions, operands)


def _callable(what: str, functions: Sequence[object]) -> None:
    for f in functions:
        if not callable(f):
            raise ArgumentError(
                f"{what} needs functions as branches",
                got=repr(f)[:60],
                hint="pass the operands after the functions",
            )


def _scalar(what: str, value: ArrayLike) -> Array:
    x = array(value)
    if x.shape != ():
        raise ShapeError(
            f"{what} must be a scalar",
            got=show(x),
            hint="reduce it with .any() or .all(), or use tfn.numpy.where "
            "to choose element by element",
        )
    return x


def _arrays(results: Any) -> Any:
    """The results of a branch that ran at once: its numbers are arrays, as under a trace."""
    numbers = (bool, int, float, complex, np.generic, np.ndarray)
    return tree.map(lambda x: array(x) if isinstance(x, numbers) else x, results)


def _run(
    what: str, index: int, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...]
) -> Any:
    """The results of the branch of a known index, of the type that those of all branches have."""
    chosen = functions[index]
    if DISABLED[0]:
        return _arrays(called(what, chosen, *operands))
    leaves, _, structure = values("operands", operands)
    types = [ShapeDtypeStruct.of(v) for v in leaves]
    others = [f for i, f in enumerate(functions) if i != index]
    traced = [closed(what, f, types, structure, branch=True) for f in others]
    results = _arrays(called(what, chosen, *operands))
    found, _, given = values("results", results)
    returned = Returned(given, [ShapeDtypeStruct.of(v) for v in found])
    title = f"{what} ({', '.join(map(name_of, functions))})"
    common = same_results(title, [chosen, *others], [returned, *traced])
    return tree.unflatten(given, list(map(_as, tree.leaves(results), common)))


def _as(x: Any, kind: ShapeDtypeStruct) -> Any:
    return x if x.dtype == kind.dtype else convert_element_type(x, kind.dtype)


def _choose(
    what: str, index: Array, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...]
) -> Any:
    leaves, _, structure = values("operands", operands)
    types = [ShapeDtypeStruct.of(v) for v in leaves]
    branches = [closed(what, f, types, structure, branch=True) for f in functions]
    result_types = same_results(
        f"{what} ({', '.join(map(name_of, functions))})", functions, branches
    )
    bodies, captured, cells = with_common_captures(branches)
    state = [cell.read() for cell in cells]
    dtypes = [*(x.dtype for x in state), *(t.dtype for t in result_types)]
    bodies = [function(list(map(cast, f.src, dtypes)), f.arg.params) for f in bodies]
    results = perform(
        lambda nodes: choose(nodes[0], bodies, nodes[1:]),
        [index, *captured, *state, *leaves],
        [t.weak_type for t in result_types],
        cells,
    )
    return tree.unflatten(branches[0].structure, results)
