"""The protocol of optimizers: two functions and an opaque state; `chain`, `apply_updates`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tfn import numpy as jnp
from tfn import tree
from tfn._support.validate import shown
from tfn.array import Array
from tfn.dtypes import DTypeLike
from tfn.errors import ArgumentError, TreeError

Params = Any
Updates = Any
State = Any
Schedule = Callable[[Array], Any]
"""A number as a function of the number of steps made before."""
Rate = float | Array | Schedule


class Init(Protocol):
    """Returns the first state of an optimizer."""

    def __call__(self, params: Params) -> State:
        """Returns the state for parameters of this structure."""


class Update(Protocol):
    """Returns updates for gradients, and the next state."""

    def __call__(
        self, updates: Updates, state: State, params: Params | None = None
    ) -> tuple[Updates, State]:
        """Returns the updates, and the next state.

        Args:
            updates: gradients, or the updates of the transformation before.
            state: the state that `init` or the last `update` returned.
            params: the parameters, for transformations that depend on them.
        """


class GradientTransformation(NamedTuple):
    """An optimizer, or a part of one: two pure functions.

    Attributes:
        init: from parameters, the first state.
        update: from gradients, a state, and parameters, the updates and the next state.
    """

    init: Init
    update: Update


def apply_updates(params: Params, updates: Updates) -> Params:
    """Returns parameters plus updates, in the dtype of the parameters.

    Example:
        >>> from tfn import numpy as jnp
        >>> apply_updates({"w": jnp.ones(2)}, {"w": jnp.full(2, -0.5)})["w"].tolist()
        [0.5, 0.5]
    """
    return tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates)


class EmptyState(NamedTuple):
    """The state of a transformation without memory."""


def stateless(function: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """Returns a transformation without memory, from a function of updates and parameters.

    Example:
        >>> double = stateless(lambda updates, params: tree.map(lambda u: 2 * u, updates))
        >>> double.update({"w": 1.0}, double.init({"w": 0.0}))[0]
        {'w': 2.0}
    """

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        return function(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), update)


def needed(params: Params | None, what: str) -> Params:
    """Returns the parameters, or raises if `update` was called without them.

    Raises:
        ArgumentError: if `update` was called without them.
    """
    if params is None:
        raise ArgumentError(
            f"{what} needs the parameters",
            got="params=None",
            hint="call optimizer.update(gradients, state, params)",
        )
    return params


def zeros_like(pytree: object, dtype: DTypeLike | None = None) -> Any:
    """Returns a tree of zeros, in the dtype of each leaf for None."""
    return tree.map(lambda x: jnp.zeros_like(x, dtype), pytree)


def identity() -> GradientTransformation:
    """Returns gradients as they are.

    Example:
        >>> identity().update(1.0, identity().init(0.0))[0]
        1.0
    """
    return stateless(lambda updates, params: updates)


def chain(*parts: GradientTransformation) -> GradientTransformation:
    """Applies transformations one after the other; the state is a tuple of theirs.

    Example:
        >>> from tfn import numpy as jnp
        >>> from tfn.nn import optim
        >>> optimizer = chain(optim.clip_by_global_norm(1.0), optim.sgd(0.1))
        >>> updates, _ = optimizer.update(jnp.array([3.0, 4.0]), optimizer.init(jnp.zeros(2)))
        >>> [round(u, 3) for u in updates.tolist()]
        [-0.06, -0.08]
    """

    for i, part in enumerate(parts):
        if not (hasattr(part, "init") and hasattr(part, "update")):
            raise ArgumentError(
                "chain needs optimizers",
                got=f"parts[{i}]={shown(part)}",
                hint="write chain(optim.clip(1.0), optim.sgd(0.1))",
            )

    def init(params: Params) -> State:
        return tuple(part.init(params) for part in parts)

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        if not isinstance(state, tuple) or len(state) != len(parts):
            raise TreeError(
                "an optimizer needs the state that it made",
                got=f"state={shown(state)}",
                hint="pass what init or the last update returned",
            )
        states = []
        for part, old in zip(parts, state, strict=True):
            updates, new = part.update(updates, old, params)
            states.append(new)
        return updates, tuple(states)

    return GradientTransformation(init, update)
