"""Functions of the elements at an index, once for each time that the index names an element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL
from tfn.lax.branches import cond
from tfn.lax.loops import fori_loop

Function = Callable[[Array], ArrayLike]


def applied(x: Array, index: object, function: Function, mode: str | None, unique: bool) -> Array:
    """A new array with `function` applied to the elements of `x` at an index.

    An element that the index names k times is replaced by k applications.  Elements that are named
    once get theirs in one call; others in a loop over the index, one element at a time.

    Args:
        x: array.
        index: as for ``x[index]``.
        function: of an array, element by element.
        mode: as for ``x.at[index].set``.
        unique: whether the index is known to name no element twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> applied(tnp.array([1.0, 2.0]), [1, 1], lambda y: 10 * y, None, False).tolist()
        [1.0, 200.0]
    """

    def once(x: Array) -> Array:
        elements = function(tnp.getitem(x, index, mode=mode))
        return tnp.update(x, index, elements, "set", mode)

    if unique or not _may_repeat(index):
        return once(x)
    number = tnp.arange(x.size).reshape(x.shape)
    clips = mode == "clip"
    filled = tnp.getitem(
        number, index, mode=mode if clips else "fill", fill_value=None if clips else x.size
    )
    places = filled.ravel()
    named = tnp.sort(places)
    repeats = ((named[1:] == named[:-1]) & (named[1:] < x.size)).any()

    def step(i: Array, line: Array) -> Array:
        place = places[i]
        element = function(tnp.getitem(line, place, mode="clip"))
        return tnp.update(line, place, element, "set", "drop")

    def in_turn(x: Array) -> Array:
        line: Array = fori_loop(0, places.size, step, x.ravel())
        return line.reshape(x.shape)

    if repeats.owner is not None:
        result: Array = cond(repeats, in_turn, once, x)
        return result
    return in_turn(x) if repeats else once(x)


def _may_repeat(index: object) -> bool:
    """Whether some vector of integers is in the index: nothing else names an element twice."""
    for part in index if isinstance(index, tuple) else (index,):
        part = np.asarray(part) if isinstance(part, (list, tuple)) else part
        if isinstance(part, (Array, np.ndarray)) and part.size > 1 and part.dtype != BOOL:
            return True
    return False
