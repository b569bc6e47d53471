"""Values while a graph runs: NumPy arrays where everything is known, arrays of tfn elsewhere.

Shapes and what is computed of them are known while a function is traced, so these chains of nodes
cost nothing in the compiled program, and sizes may come out of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.errors import ConcretizationTypeError

Value = Any
"""An array of NumPy or tfn; None for an input that is left out; a list for a sequence."""


def known(*values: Value) -> bool:
    """Whether all values are known while tracing."""
    return all(isinstance(v, (np.ndarray, np.generic, type(None))) for v in values)


def library(*values: Value) -> Any:
    """The functions for values: NumPy's if all are known, else those of tfn."""
    return np if known(*values) else jnp


def numbers(value: Value, what: str) -> np.ndarray[Any, Any]:
    """The known numbers of a value on which the shape of a result depends.

    Raises:
        ConcretizationTypeError: if they are traced.
    """
    if known(value):
        return np.asarray(value)
    try:
        return np.asarray(value)
    except ConcretizationTypeError as error:
        error.add_note(
            f"while its operation needs {what}, which the shape of its result follows from"
        )
        raise


def integers(value: Value, what: str) -> tuple[int, ...]:
    """Known integers: axes, sizes, positions."""
    return tuple(int(v) for v in numbers(value, what).reshape(-1))


def axes_of(value: Value, attribute: Sequence[int] | None, rank: int) -> tuple[int, ...] | None:
    """Axes from the front, given as an input (later versions) or an attribute (earlier ones)."""
    axes = integers(value, "axes") if value is not None else attribute
    return None if axes is None else tuple(a % rank if rank else a for a in axes)


def like(x: Value, number: float) -> np.ndarray[Any, Any]:
    """A number in the dtype of an array."""
    return np.asarray(number, x.dtype)
