"""Optimizers around optimizers: masked, multi_steps, apply_if_finite, inject_hyperparams."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from tfn import lax, tree
from tfn import numpy as jnp
from tfn._support.validate import a_function, integer, rank
from tfn.array import Array
from tfn.eager.operands import array_of
from tfn.errors import ArgumentError
from tfn.nn.optim.protocol import (
    GradientTransformation,
    Params,
    Schedule,
    State,
    Updates,
    zeros_like,
)

Mask = Any
"""A tree of booleans, each for whatever is below it, or a function that makes one of parameters."""


class MaskedState(NamedTuple):
    """The state of the inner optimizer, for its part of the tree only."""

    inner_state: State


def masked(inner: GradientTransformation, mask: Mask) -> GradientTransformation:
    """Returns an optimizer that acts on a part of the tree; other updates stay as they are.

    Args:
        inner: the optimizer.
        mask: a tree of booleans, each for whatever is below it, or a function that makes one of a
            tree.

    Example:
        >>> from tfn.nn import optim
        >>> optimizer = masked(optim.scale(10.0), {"a": True, "b": False})
        >>> params = {"a": jnp.ones(()), "b": jnp.ones(())}
        >>> optimizer.update(params, optimizer.init(params))[0]
        {'a': Array(10., dtype=float32), 'b': Array(1., dtype=float32)}
    """

    def of(pytree: Any) -> Any:
        # A module is a tree that can be called; a function is a leaf.
        function = callable(mask) and tree.structure(mask) == tree.structure(0)
        return tree.broadcast(mask(pytree) if function else mask, pytree)

    def part(selection: Any, pytree: Any) -> Any:
        return tree.map(lambda m, x: x if m else None, selection, pytree)

    def init(params: Params) -> State:
        return MaskedState(inner.init(part(of(params), params)))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        selection = of(updates)
        mine = None if params is None else part(selection, params)
        new, state = inner.update(part(selection, updates), state.inner_state, mine)
        both = tree.map(lambda m, n, u: n if m else u, selection, new, updates)
        return both, MaskedState(state)

    return GradientTransformation(init, update)


class MultiStepsState(NamedTuple):
    """The gradients gathered since the last update.

    Attributes:
        mini_step: number of gradients gathered.
        gradient_step: number of updates made.
        inner_opt_state: the state of the inner optimizer.
        acc_grads: the mean of the gradients gathered.
    """

    mini_step: Array
    gradient_step: Array
    inner_opt_state: State
    acc_grads: Updates


def multi_steps(inner: GradientTransformation, every: int | Schedule) -> GradientTransformation:
    """Returns an optimizer that acts on the mean of several gradients; between, updates are zeros.

    Args:
        inner: the optimizer.
        every: number of gradients for one update, or a function of the number of updates made.

    Example:
        >>> from tfn.nn import optim
        >>> optimizer, w = multi_steps(optim.sgd(1.0), 2), jnp.zeros(1)
        >>> first, state = optimizer.update(jnp.array([1.0]), optimizer.init(w))
        >>> second, state = optimizer.update(jnp.array([3.0]), state)
        >>> first.tolist(), second.tolist()
        ([0.0], [-2.0])
    """
    if not callable(every):
        integer("multi_steps", "every", every, 1)

    def init(params: Params) -> State:
        zero = jnp.zeros((), int)
        return MultiStepsState(zero, zero, inner.init(params), zeros_like(params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        n = state.mini_step
        limit = every(state.gradient_step) if callable(every) else every
        mean = tree.map(
            lambda a, g: a + (g - a) / (n + 1).astype(a.dtype), state.acc_grads, updates
        )
        new, inner_state = inner.update(mean, state.inner_opt_state, params)
        last = n + 1 >= limit
        state = MultiStepsState(
            jnp.where(last, 0, n + 1),
            state.gradient_step + last,
            _choose(last, inner_state, state.inner_opt_state),
            _choose(last, zeros_like(mean), mean),
        )
        return _choose(last, new, zeros_like(new)), state

    return GradientTransformation(init, update)


def _choose(condition: Array, a: object, b: object) -> Any:
    """The first tree if the condition holds, else the second; both are computed."""
    return tree.map(lambda x, y: jnp.where(condition, x, y).astype(y.dtype), a, b)


def accumulate(function: Callable[[Any], Any], batches: object) -> Any:
    """Returns the mean of a function of a batch over several batches, one after the other.

    The memory is that of one batch: gradients of a batch that is too large are ``accumulate(lambda
    part: tfn.value_and_grad(loss)(params, part), parts)``.

    Args:
        function: from a batch to a tree of arrays of floats.
        batches: a tree of arrays with one more axis, the first, which counts the batches.

    Example:
        >>> accumulate(lambda batch: batch.sum(), jnp.arange(6.0).reshape(3, 2)).item()
        5.0
    """
    a_function("accumulate", "function", function)
    leaves = [array_of("accumulate", x) for x in tree.leaves(batches)]
    if not leaves:
        raise ArgumentError(
            "accumulate needs batches",
            got=f"batches={batches!r}",
            hint="pass arrays whose first axis counts the batches",
        )
    for x in leaves:
        rank("accumulate", x, 1)
    count = leaves[0].shape[0]
    first = function(tree.map(lambda x: x[0], batches))
    rest = tree.map(lambda x: x[1:], batches)
    add = lambda total, batch: (tree.map(lambda a, b: a + b, total, function(batch)), None)
    total, _ = lax.scan(add, first, rest)
    return tree.map(lambda x: x / count, total)


class ApplyIfFiniteState(NamedTuple):
    """Counts of the updates that were not finite.

    Attributes:
        notfinite_count: number of the last updates in a row that were not finite.
        last_finite: whether the last one was finite.
        total_notfinite: number of all updates that were not finite.
        inner_state: the state of the inner optimizer.
    """

    notfinite_count: Array
    last_finite: Array
    total_notfinite: Array
    inner_state: State


def apply_if_finite(
    inner: GradientTransformation, max_consecutive_errors: int
) -> GradientTransformation:
    """Returns an optimizer that does nothing for gradients with NaN or infinity.

    Args:
        inner: the optimizer.
        max_consecutive_errors: number of such gradients in a row after which they are passed on.

    Example:
        >>> from tfn.nn import optim
        >>> optimizer, w = apply_if_finite(optim.sgd(0.5), 3), jnp.zeros(1)
        >>> updates, state = optimizer.update(jnp.array([jnp.nan]), optimizer.init(w))
        >>> updates.tolist(), int(state.notfinite_count)
        ([0.0], 1)
    """
    integer("apply_if_finite", "max_consecutive_errors", max_consecutive_errors, 0)

    def init(params: Params) -> State:
        zero = jnp.zeros((), int)
        return ApplyIfFiniteState(zero, jnp.array(True), zero, inner.init(params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        finite = jnp.array(True)
        for u in tree.leaves(updates):
            finite = finite & jnp.isfinite(u).all()
        count = jnp.where(finite, 0, state.notfinite_count + 1)
        new, inner_state = inner.update(updates, state.inner_state, params)
        applies = finite | (count > max_consecutive_errors)
        new = _choose(applies, new, zeros_like(new))
        inner_state = _choose(applies, inner_state, state.inner_state)
        total = state.total_notfinite + ~finite
        return new, ApplyIfFiniteState(count, finite, total, inner_state)

    return GradientTransformation(init, update)


class InjectHyperparamsState(NamedTuple):
    """The hyperparameters of an optimizer, where they can be read and replaced.

    Attributes:
        count: number of steps made.
        hyperparams: by their names; of those that follow a schedule, the value used last.
        inner_state: the state of the inner optimizer.
    """

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's
    hyperparams: dict[str, Array]
    inner_state: State


def inject_hyperparams(
    factory: Callable[..., GradientTransformation],
) -> Callable[..., GradientTransformation]:
    """Returns a factory of optimizers whose hyperparameters are part of their state.

    They can be replaced between steps.  Each may also be a function of the number of steps.

    Example:
        >>> from tfn.nn import optim
        >>> optimizer = inject_hyperparams(optim.sgd)(learning_rate=0.5)
        >>> state = optimizer.init(jnp.zeros(1))
        >>> state.hyperparams["learning_rate"] = jnp.array(0.25)
        >>> optimizer.update(jnp.ones(1), state)[0].tolist()
        [-0.25]
    """
    a_function("inject_hyperparams", "factory", factory)
    signature = inspect.signature(factory)

    def make(*args: Any, **options: Any) -> GradientTransformation:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        schedules = {name: x for name, x in bound.arguments.items() if callable(x)}
        numbers = {
            name: x
            for name, x in bound.arguments.items()
            if isinstance(x, (int, float, Array)) and not isinstance(x, bool)
        }
        rest = {k: v for k, v in bound.arguments.items() if k not in {**schedules, **numbers}}

        def now(count: Array) -> dict[str, Array]:
            return {name: jnp.asarray(f(count), float) for name, f in schedules.items()}

        def init(params: Params) -> State:
            count = jnp.zeros((), int)
            hyperparams = {name: jnp.asarray(x, float) for name, x in numbers.items()} | now(count)
            return InjectHyperparamsState(
                count, hyperparams, factory(**rest, **hyperparams).init(params)
            )

        def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
            hyperparams = {**state.hyperparams, **now(state.count)}
            new, inner = factory(**rest, **hyperparams).update(updates, state.inner_state, params)
            return new, InjectHyperparamsState(state.count + 1, hyperparams, inner)

        return GradientTransformation(init, update)

    return make
