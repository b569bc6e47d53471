"""Optimizers: pairs of pure functions, `init` and `update`, by the protocol of optax.

``state = optimizer.init(params)``; then, for each step,
``updates, state = optimizer.update(gradients, state, params)`` and
``params = apply_updates(params, updates)``.  Parts are joined by `chain`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array
from tfn.errors import ArgumentError

Params = Any
Updates = Any
State = Any
Schedule = Callable[[Array], Any]
Rate = float | Array | Schedule


class Init(Protocol):
    """Makes the first state of an optimizer."""

    def __call__(self, params: Params) -> State:
        """The state."""


class Update(Protocol):
    """Makes updates of gradients."""

    def __call__(self, updates: Updates, state: State,
                 params: Params | None = None) -> tuple[Updates, State]:  # fmt: skip
        """The updates, and the next state."""


class GradientTransformation(NamedTuple):
    """An optimizer, or a part of one.

    Attributes:
        init: from parameters, the first state.
        update: from gradients, a state, and parameters, the updates and the next state.
    """

    init: Init
    update: Update


def apply_updates(params: Params, updates: Updates) -> Params:
    """Parameters plus updates, in the dtype of the parameters.

    Example:
        >>> apply_updates({"w": jnp.ones(2)}, {"w": jnp.full(2, -0.5)})["w"].tolist()
        [0.5, 0.5]
    """
    return tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates)


class EmptyState(NamedTuple):
    """The state of a part that remembers nothing."""


def stateless(function: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """A part that remembers nothing, from a function of updates and parameters."""

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        return function(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), update)


def identity() -> GradientTransformation:
    """Gradients as they are."""
    return stateless(lambda updates, params: updates)


def chain(*parts: GradientTransformation) -> GradientTransformation:
    """Parts applied one after the other; the state is a tuple of theirs.

    Example:
        >>> optimizer = chain(clip_by_global_norm(1.0), sgd(0.1))
        >>> updates, _ = optimizer.update(jnp.array([3.0, 4.0]), optimizer.init(jnp.zeros(2)))
        >>> [round(u, 3) for u in updates.tolist()]
        [-0.06, -0.08]
    """

    def init(params: Params) -> State:
        return tuple(part.init(params) for part in parts)

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        states = []
        for part, old in zip(parts, state, strict=True):
            updates, new = part.update(updates, old, params)
            states.append(new)
        return updates, tuple(states)

    return GradientTransformation(init, update)


# Parts.


def scale(factor: float | Array) -> GradientTransformation:
    """Updates times a factor."""
    return stateless(lambda updates, params: tree.map(lambda u: u * factor, updates))


class ScaleByScheduleState(NamedTuple):
    """How many steps were made."""

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's


def scale_by_schedule(schedule: Schedule) -> GradientTransformation:
    """Updates times a function of the number of steps made before."""

    def init(params: Params) -> State:
        return ScaleByScheduleState(jnp.zeros((), int))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        factor = schedule(state.count)
        return tree.map(lambda u: u * factor, updates), ScaleByScheduleState(state.count + 1)

    return GradientTransformation(init, update)


def scale_by_learning_rate(learning_rate: Rate) -> GradientTransformation:
    """Updates times minus the learning rate, a number or a function of the number of steps."""
    if callable(learning_rate):
        schedule = learning_rate
        return scale_by_schedule(lambda count: -schedule(count))
    return scale(-learning_rate)


class TraceState(NamedTuple):
    """The sum of decayed gradients."""

    trace: Params


def trace(decay: float, nesterov: bool = False) -> GradientTransformation:
    """Momentum: gradients plus a decayed sum of those before.

    Source: Sutskever, Martens, Dahl, Hinton 2013, "On the importance of initialization and
    momentum in deep learning" (nesterov: the sum is decayed and added once more).
    """

    def add(gradient: Array, sum: Array) -> Array:
        return gradient + decay * sum

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        new = tree.map(add, updates, state.trace)
        return (tree.map(add, updates, new) if nesterov else new), TraceState(new)

    return GradientTransformation(lambda params: TraceState(_zeros(params)), update)


def _zeros(params: Params) -> Params:
    return tree.map(jnp.zeros_like, params)


class ScaleByAdamState(NamedTuple):
    """The number of steps, and means of gradients and of their squares."""

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's
    mu: Params
    nu: Params


def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
                  eps_root: float = 0.0) -> GradientTransformation:  # fmt: skip
    """Gradients by their mean over the root of the mean of their squares.

    Source: Kingma, Ba 2014, arXiv:1412.6980, algorithm 1.
    """

    def init(params: Params) -> State:
        return ScaleByAdamState(jnp.zeros((), int), _zeros(params), _zeros(params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        count = state.count + 1
        mu = tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, updates)
        nu = tree.map(lambda v, g: b2 * v + (1 - b2) * (g * g), state.nu, updates)
        steps = count.astype(float)
        first, second = 1 - b1**steps, 1 - b2**steps  # both means begin at 0: this mends it
        new = tree.map(lambda m, v: (m / first) / (jnp.sqrt(v / second + eps_root) + eps), mu, nu)
        return new, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


def add_decayed_weights(
    weight_decay: float = 0.0, mask: Callable[[Params], Any] | Any = None
) -> GradientTransformation:
    """Updates plus a fraction of the parameters.

    Args:
        mask: a tree of booleans, or a function that gives it: which parameters decay; all if None.

    Raises:
        ArgumentError: if `update` is called without parameters.
    """

    def decay(updates: Updates, params: Params | None) -> Updates:
        if params is None:
            raise ArgumentError("weight decay needs the parameters",
                                hint="call optimizer.update(gradients, state, params)")  # fmt: skip
        if mask is None:
            return tree.map(lambda u, p: u + weight_decay * p, updates, params)
        chosen = mask(params) if callable(mask) else mask
        return tree.map(lambda u, p, m: u + weight_decay * p if m else u, updates, params, chosen)

    return stateless(decay)


def global_norm(updates: Updates) -> Array:
    """The Euclidean norm of all leaves together.

    Example:
        >>> global_norm({"a": jnp.array([3.0]), "b": jnp.array([4.0])}).item()
        5.0
    """
    return jnp.sqrt(sum(jnp.sum(jnp.square(u)) for u in tree.leaves(updates)))


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Updates scaled down until their `global_norm` is at most `max_norm`.

    Source: Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063.
    """

    def clip(updates: Updates, params: Params | None) -> Updates:
        norm = global_norm(updates)
        factor = max_norm / jnp.maximum(norm, max_norm)
        return tree.map(lambda u: u * factor.astype(u.dtype), updates)

    return stateless(clip)


def clip(max_delta: float) -> GradientTransformation:
    """Each element of the updates kept in [-max_delta, max_delta]."""
    return stateless(
        lambda updates, params: tree.map(lambda u: jnp.clip(u, -max_delta, max_delta), updates)
    )


# Optimizers.


def sgd(learning_rate: Rate, momentum: float | None = None,
        nesterov: bool = False) -> GradientTransformation:  # fmt: skip
    """Gradient descent, with momentum if it is given.

    Example:
        >>> optimizer = sgd(0.5)
        >>> updates, _ = optimizer.update(jnp.array([1.0]), optimizer.init(jnp.zeros(1)))
        >>> updates.tolist()
        [-0.5]
    """
    first = identity() if momentum is None else trace(momentum, nesterov)
    return chain(first, scale_by_learning_rate(learning_rate))


def adam(learning_rate: Rate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
         eps_root: float = 0.0) -> GradientTransformation:  # fmt: skip
    """Adam: steps of about the learning rate, whatever the size of the gradients.

    Source: Kingma, Ba 2014, arXiv:1412.6980.

    Example:
        >>> optimizer = adam(0.001)
        >>> updates, _ = optimizer.update(jnp.array([100.0]), optimizer.init(jnp.zeros(1)))
        >>> round(updates.item(), 6)
        -0.001
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate))


def adamw(learning_rate: Rate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
          eps_root: float = 0.0, weight_decay: float = 1e-4,
          mask: Callable[[Params], Any] | Any = None) -> GradientTransformation:  # fmt: skip
    """Adam with weights that decay apart from the gradients.

    Source: Loshchilov, Hutter 2017, arXiv:1711.05101.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )
