"""Optimisers as triples of functions: ``jax.example_libraries.optimizers``.

    init, update, get_params = adam(1e-3)
    state = init(params)
    state = update(step, gradients, state)

`tfn.nn.optim` has optimisers of its own, and those of optax run as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfn import numpy as tnp
from tfn import tree
from tfn.errors import ArgumentError, TreeError

Schedule = Callable[[Any], Any]
Step = int
InitFn = UpdateFn = ParamsFn = Callable[..., Any]


class Optimizer(NamedTuple):
    """The three functions of an optimiser."""

    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


class OptimizerState(NamedTuple):
    """The state of an optimiser: the states of all parameters, flat, and their structures."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree.register_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda static, children: OptimizerState(children[0], *static),
)


class JoinPoint:
    """A border between the tree of parameters and the state of one of them.

    Example:
        >>> JoinPoint((1.0, 2.0)).subtree
        (1.0, 2.0)
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """An optimiser of trees of parameters, of a maker of one for a single array.

    Args:
        opt_maker: returns (init, update, get_params) for an array: ``init(x)`` gives its state,
            ``update(step, gradient, state)`` the next one, ``get_params(state)`` the array.

    Example:
        >>> @optimizer
        ... def descent(rate):
        ...     return lambda x: x, lambda i, g, x: x - rate * g, lambda x: x
        >>> init, update, get_params = descent(0.5)
        >>> get_params(update(0, {"a": 1.0}, init({"a": 2.0})))
        {'a': 1.5}
    """

    @functools.wraps(opt_maker)
    def of_trees(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_tree(params: Any) -> OptimizerState:
            leaves, structure = tree.flatten(params)
            states = [tree.flatten(init(x)) for x in leaves]
            return OptimizerState(
                tuple(tuple(flat) for flat, _ in states), structure, tuple(s for _, s in states)
            )

        def update_tree(i: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            slopes, structure = tree.flatten(gradients)
            if structure != state.tree_def:
                raise TreeError(
                    "an optimizer takes gradients of the structure of its parameters",
                    got=f"{tree.show(structure)} instead of {tree.show(state.tree_def)}",
                )
            after = [
                tree.flatten(update(i, g, tree.unflatten(sub, flat)))
                for g, sub, flat in zip(slopes, state.subtree_defs, state.packed_state, strict=True)
            ]
            for (_, new), old in zip(after, state.subtree_defs, strict=True):
                if new != old:
                    raise TreeError(
                        "an optimizer returns a state of the structure that it has",
                        got=f"{tree.show(new)} instead of {tree.show(old)}",
                    )
            return state._replace(packed_state=tuple(tuple(flat) for flat, _ in after))

        def params_of(state: OptimizerState) -> Any:
            pairs = zip(state.subtree_defs, state.packed_state, strict=True)
            return tree.unflatten(
                state.tree_def, [get_params(tree.unflatten(sub, flat)) for sub, flat in pairs]
            )

        return Optimizer(init_tree, update_tree, params_of)

    return of_trees


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """A state as a tree of the parameters, with a `JoinPoint` for each.

    Example:
        >>> state = momentum(0.1, mass=0.9)[0]({"a": 1.0})
        >>> unpack_optimizer_state(state)["a"].subtree[0]
        1.0
    """
    pairs = zip(opt_state.subtree_defs, opt_state.packed_state, strict=True)
    points = [JoinPoint(tree.unflatten(sub, flat)) for sub, flat in pairs]
    return tree.unflatten(opt_state.tree_def, points)


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """A state from a tree of the parameters with a `JoinPoint` for each.

    Example:
        >>> state = sgd(0.1)[0]({"a": 1.0})
        >>> pack_optimizer_state(unpack_optimizer_state(state)).packed_state
        ((1.0,),)
    """
    is_point = lambda x: isinstance(x, JoinPoint)
    points, structure = tree.flatten(marked_pytree, is_leaf=is_point)
    states = [tree.flatten(p.subtree) for p in points]
    return OptimizerState(
        tuple(tuple(flat) for flat, _ in states), structure, tuple(s for _, s in states)
    )


# Optimisers.


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent: a number, or a function of the step, times the gradient.

    Example:
        >>> init, update, get_params = sgd(0.1)
        >>> round(float(get_params(update(0, 1.0, init(1.0)))), 6)
        0.9
    """
    rate = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - rate(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum: gradients that fade by the factor `mass` are added up.

    Example:
        >>> init, update, get_params = momentum(0.1, mass=0.9)
        >>> round(float(get_params(update(1, 1.0, update(0, 1.0, init(1.0))))), 6)
        0.71
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return lambda x: (x, tnp.zeros_like(x)), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum.

    Example:
        >>> init, update, get_params = nesterov(0.1, mass=0.9)
        >>> round(float(get_params(update(0, 1.0, init(1.0)))), 6)
        0.81
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return lambda x: (x, tnp.zeros_like(x)), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad with momentum.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods (2011).

    Example:
        >>> init, update, get_params = adagrad(1.0, momentum=0.0)
        >>> float(get_params(update(0, 4.0, init(1.0))))
        0.0
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + tnp.square(g)
        m = (1.0 - momentum) * g * _inverse_root(squares) + momentum * m
        return x - rate(i) * m, squares, m

    return lambda x: (x, tnp.zeros_like(x), tnp.zeros_like(x)), update, _first


def _inverse_root(x: Any) -> Any:
    """``1 / sqrt(x)``, and 0 at 0."""
    return tnp.where(x > 0, 1.0 / tnp.sqrt(tnp.where(x > 0, x, 1.0)), 0.0)


def _first(state: Any) -> Any:
    return state[0]


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: gradients over the root of a fading mean of their squares.

    Example:
        >>> init, update, get_params = rmsprop(0.1, gamma=0.0)
        >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
        0.9
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean = state
        mean = mean * gamma + tnp.square(g) * (1.0 - gamma)
        return x - rate(i) * g / tnp.sqrt(mean + eps), mean

    return lambda x: (x, tnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum.

    Example:
        >>> init, update, get_params = rmsprop_momentum(0.1, gamma=0.0)
        >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
        0.9
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, m = state
        mean = mean * gamma + tnp.square(g) * (1.0 - gamma)
        m = momentum * m + rate(i) * g / tnp.sqrt(mean + eps)
        return x - m, mean, m

    return lambda x: (x, tnp.zeros_like(x), tnp.zeros_like(x)), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam.

    Source: Kingma and Ba, Adam: a method for stochastic optimization (2014).

    Example:
        >>> init, update, get_params = adam(0.1)
        >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
        0.9
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * tnp.square(g) + b2 * v
        m_hat = m / (1 - tnp.asarray(b1, m.dtype) ** (i + 1))
        v_hat = v / (1 - tnp.asarray(b2, m.dtype) ** (i + 1))
        return x - rate(i) * m_hat / (tnp.sqrt(v_hat) + eps), m, v

    return lambda x: (x, tnp.zeros_like(x), tnp.zeros_like(x)), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """AdaMax: Adam with the largest gradient in the place of the root of squares.

    Source: Kingma and Ba, section 7.1.

    Example:
        >>> init, update, get_params = adamax(0.1)
        >>> round(float(get_params(update(0, 4.0, init(1.0)))), 4)
        0.9
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, largest = state
        m = (1 - b1) * g + b1 * m
        largest = tnp.maximum(b2 * largest, tnp.abs(g))
        scale = rate(i) / (1 - tnp.asarray(b1, m.dtype) ** (i + 1))
        return x - scale * m / (largest + eps), m, largest

    return lambda x: (x, tnp.zeros_like(x), tnp.zeros_like(x)), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3: Adagrad whose sums of squares are kept for each row of each axis only.

    Source: Anil, Gupta, Koren and Singer, Memory-efficient adaptive optimization (2019).

    Example:
        >>> import tfn.numpy as tnp
        >>> init, update, get_params = sm3(1.0, momentum=0.0)
        >>> get_params(update(0, tnp.full((2, 2), 4.0), init(tnp.ones((2, 2))))).tolist()
        [[0.0, 0.0], [0.0, 0.0]]
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        lines = [tnp.zeros(n, x.dtype) for n in (x.shape or (1,))]
        return x, tnp.zeros_like(x), lines

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, lines = state
        ndim = max(x.ndim, 1)
        wide = [
            line.reshape([-1 if a == axis else 1 for a in range(ndim)])
            for axis, line in enumerate(lines)
        ]
        squares = functools.reduce(tnp.minimum, wide) + tnp.square(g)
        m = (1.0 - momentum) * g * _inverse_root(squares).reshape(x.shape) + momentum * m
        lines = [squares.max([a for a in range(ndim) if a != axis]) for axis in range(ndim)]
        return x - rate(i) * m, m, lines

    return init, update, _first


# Learning rates.


def constant(step_size: Any) -> Schedule:
    """The same number at each step.

    Example:
        >>> constant(0.1)(7)
        0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A number that is multiplied by `decay_rate` every `decay_steps` steps.

    Example:
        >>> exponential_decay(1.0, 2, 0.5)(4)
        0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """A number over one more than `decay_rate` for every `decay_steps` steps.

    Args:
        step_size: at first.
        decay_steps: steps in which the divisor grows by the rate.
        decay_rate: the rate.
        staircase: whether it changes once in `decay_steps` steps.

    Example:
        >>> inverse_time_decay(1.0, 2, 0.5)(4)
        0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * tnp.floor(tnp.asarray(i) / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """A number that falls to another one in `decay_steps` steps, along a power.

    Example:
        >>> float(polynomial_decay(1.0, 10, 0.5)(5))
        0.75
    """

    def schedule(i: Any) -> Any:
        rest = 1 - tnp.minimum(i, decay_steps) / decay_steps
        return rest**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Sequence[Any], values: Sequence[Any]) -> Schedule:
    """One of some numbers, which changes after each boundary.

    Raises:
        ArgumentError: if there is not one number more than boundaries.

    Example:
        >>> schedule = piecewise_constant([2, 4], [1.0, 0.5, 0.25])
        >>> [float(schedule(i)) for i in (2, 3, 5)]
        [1.0, 0.5, 0.25]
    """
    borders, numbers = tnp.asarray(boundaries), tnp.asarray(values)
    if borders.ndim != 1 or numbers.shape != (borders.size + 1,):
        raise ArgumentError(
            "piecewise_constant needs one value more than boundaries",
            got=f"boundaries {borders.shape}, values {numbers.shape}",
        )
    return lambda i: numbers[(i > borders).sum()]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A function of the step; of a number that which is always this number.

    Raises:
        ArgumentError: for what is neither.

    Example:
        >>> make_schedule(0.1)(3)
        0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule  # type: ignore[no-any-return]
    if tnp.isscalar(scalar_or_schedule) or getattr(scalar_or_schedule, "shape", None) == ():
        return constant(scalar_or_schedule)
    raise ArgumentError(
        "a learning rate is a number, or a function of the step", got=repr(scalar_or_schedule)[:80]
    )


# Gradients.


def l2_norm(tree_of_arrays: Any) -> Any:
    """The length of all arrays of a tree as one vector.

    Example:
        >>> float(l2_norm({"a": 3.0, "b": 4.0}))
        5.0
    """
    return tnp.sqrt(sum(tnp.vdot(x, x) for x in map(tnp.asarray, tree.leaves(tree_of_arrays))))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients, scaled down to a length if they are longer.

    Example:
        >>> [float(x) for x in clip_grads([6.0, 8.0], 5.0)]
        [3.0, 4.0]
    """
    norm = l2_norm(grad_tree)
    scale = lambda g: tnp.where(norm < max_norm, g, g * (max_norm / norm))
    return tree.map(scale, grad_tree)
