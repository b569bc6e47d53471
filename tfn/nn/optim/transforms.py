"""Gradient transformations: scaling, momentum, second moments, weight decay."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfn import lax, tree
from tfn import numpy as jnp
from tfn.array import Array
from tfn.dtypes import DTypeLike
from tfn.eager.operands import array_of
from tfn.errors import ShapeError
from tfn.nn.optim.protocol import (
    GradientTransformation,
    Params,
    Rate,
    Schedule,
    State,
    Updates,
    needed,
    stateless,
    zeros_like,
)
from tfn.nn.optim.wrappers import Mask, masked


def scale(factor: float | Array) -> GradientTransformation:
    """Multiplies updates by a factor.

    Example:
        >>> part, g = scale(-0.5), jnp.array([2.0])
        >>> part.update(g, part.init(g))[0].tolist()
        [-1.0]
    """
    return stateless(lambda updates, params: tree.map(lambda u: u * factor, updates))


def set_to_zero() -> GradientTransformation:
    """Replaces updates by zeros, for parameters that are not trained.

    Example:
        >>> part, g = set_to_zero(), jnp.array([3.0])
        >>> part.update(g, part.init(g))[0].tolist()
        [0.0]
    """
    return stateless(lambda updates, params: tree.map(jnp.zeros_like, updates))


class ScaleByScheduleState(NamedTuple):
    """The number of steps made."""

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's


def scale_by_schedule(schedule: Schedule) -> GradientTransformation:
    """Multiplies updates by a function of the number of steps made before.

    Example:
        >>> part, g = scale_by_schedule(lambda count: 2.0 - count), jnp.array([3.0])
        >>> updates, state = part.update(g, part.init(g))
        >>> updates.tolist(), part.update(g, state)[0].tolist()
        ([6.0], [3.0])
    """

    def init(params: Params) -> State:
        return ScaleByScheduleState(jnp.zeros((), int))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        factor = schedule(state.count)
        return tree.map(lambda u: u * factor, updates), ScaleByScheduleState(state.count + 1)

    return GradientTransformation(init, update)


def scale_by_learning_rate(
    learning_rate: Rate, *, flip_sign: bool = True
) -> GradientTransformation:
    """Multiplies updates by minus the learning rate, a number or a function of the step count.

    Example:
        >>> part, g = scale_by_learning_rate(0.5), jnp.array([2.0])
        >>> part.update(g, part.init(g))[0].tolist()
        [-1.0]
    """
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        schedule = learning_rate
        return scale_by_schedule(lambda count: sign * schedule(count))
    if not isinstance(learning_rate, (int, float, Array)):
        array_of("a learning rate", learning_rate)
    return scale(sign * learning_rate)


# Sums and means over the steps.


def _mean(old: Params, new: Updates, decay: float) -> Params:
    """Returns a running mean with the fraction `decay` of the old one."""
    return tree.map(lambda m, x: decay * m + (1 - decay) * x, old, new)


def _squares(updates: Updates) -> Updates:
    return tree.map(jnp.square, updates)


def _debiased(mean: Params, decay: float, count: Array) -> Params:
    """Corrects a running mean for its beginning at 0."""
    share = 1 - decay ** count.astype(float)
    return tree.map(lambda m: m / share.astype(m.dtype), mean)


def _cast(pytree: object, dtype: DTypeLike | None) -> Any:
    return pytree if dtype is None else tree.map(lambda x: x.astype(dtype), pytree)


class TraceState(NamedTuple):
    """The sum of decayed gradients."""

    trace: Params


def trace(
    decay: float, nesterov: bool = False, accumulator_dtype: Any = None
) -> GradientTransformation:
    """Momentum: adds to gradients a decayed sum of those before.

    Args:
        decay: factor of the sum at each step, in [0, 1).
        nesterov: whether the sum is decayed and added to the gradient once more.
        accumulator_dtype: dtype of the sum; that of each parameter if None.

    Source: Sutskever, Martens, Dahl, Hinton 2013, "On the importance of initialization and
    momentum in deep learning" (nesterov: the sum is decayed and added once more).

    Example:
        >>> momentum = trace(0.5)
        >>> updates, state = momentum.update(jnp.array([1.0]), momentum.init(jnp.zeros(1)))
        >>> momentum.update(jnp.array([1.0]), state)[0].tolist()
        [1.5]
    """

    def add(gradient: Array, sum: Array) -> Array:
        return gradient + decay * sum

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        new = tree.map(add, updates, state.trace)
        used = tree.map(add, updates, new) if nesterov else new
        return used, TraceState(_cast(new, accumulator_dtype))

    return GradientTransformation(
        lambda params: TraceState(zeros_like(params, accumulator_dtype)), update
    )


class EmaState(NamedTuple):
    """The number of steps, and a running mean."""

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's
    ema: Params


def ema(
    decay: float, debias: bool = True, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Replaces updates by their running mean; averages parameters, if those are passed as updates.

    Args:
        decay: fraction of the old mean that remains at each step, in [0, 1).
        debias: whether the mean counts only the steps made, not the zeros before them.
        accumulator_dtype: dtype of the mean; that of each parameter if None.

    Example:
        >>> average = ema(0.9)
        >>> smooth, _ = average.update(jnp.array([3.0]), average.init(jnp.zeros(1)))
        >>> round(smooth.item(), 5)
        3.0
    """

    def init(params: Params) -> State:
        return EmaState(jnp.zeros((), int), zeros_like(params, accumulator_dtype))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        mean, count = _mean(state.ema, updates, decay), state.count + 1
        used = _debiased(mean, decay, count) if debias else mean
        return used, EmaState(count, _cast(mean, accumulator_dtype))

    return GradientTransformation(init, update)


class ScaleByAdamState(NamedTuple):
    """The number of steps, and means of gradients and of their squares."""

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's
    mu: Params
    nu: Params


def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Replaces gradients by their mean divided by the root of the mean of their squares.

    Args:
        b1: decay of the mean of gradients, in [0, 1).
        b2: decay of the mean of squared gradients, in [0, 1).
        eps: added to the root of the mean of squares.
        eps_root: added under the root.
        mu_dtype: dtype of the mean of gradients; that of each parameter if None.
        nesterov: whether the mean has the next step's weight of the gradient already.

    Source: Kingma, Ba 2014, arXiv:1412.6980, algorithm 1; nesterov: Dozat 2016, "Incorporating
    Nesterov momentum into Adam".

    Example:
        >>> part = scale_by_adam()
        >>> updates, _ = part.update(jnp.array([100.0]), part.init(jnp.zeros(1)))
        >>> round(updates.item(), 4)
        1.0
    """

    def init(params: Params) -> State:
        return ScaleByAdamState(
            jnp.zeros((), int), zeros_like(params, mu_dtype), zeros_like(params)
        )

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        mu, nu = _mean(state.mu, updates, b1), _mean(state.nu, _squares(updates), b2)
        count = state.count + 1
        mean = _debiased(mu, b1, count)
        if nesterov:
            mean = _mean(_debiased(mu, b1, count + 1), _debiased(updates, b1, count), b1)
        new = tree.map(
            lambda m, v: m / (jnp.sqrt(v + eps_root) + eps), mean, _debiased(nu, b2, count)
        )
        return new, ScaleByAdamState(count, _cast(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
) -> GradientTransformation:
    """Adam without its first steps' large variance: means alone, until squares are known well.

    Args:
        b1, b2, eps, eps_root: as of `scale_by_adam`.
        threshold: the length of the approximated average above which squares are used.

    Source: Liu et al. 2019, arXiv:1908.03265, algorithm 2.

    Example:
        >>> part = scale_by_radam()
        >>> updates, _ = part.update(jnp.array([100.0]), part.init(jnp.zeros(1)))
        >>> round(updates.item(), 3)
        100.0
    """
    longest = 2 / (1 - b2) - 1

    def init(params: Params) -> State:
        return ScaleByAdamState(jnp.zeros((), int), zeros_like(params), zeros_like(params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        mu, nu = _mean(state.mu, updates, b1), _mean(state.nu, _squares(updates), b2)
        count = state.count + 1
        power = b2 ** count.astype(float)
        length = longest - 2 * count * power / (1 - power)
        known = length >= threshold
        # Below the threshold the ratio may be negative, or its root infinite in derivatives.
        safe = jnp.where(known, length, longest)
        ratio = (safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)
        factor = jnp.sqrt(ratio)
        new = tree.map(
            lambda m, v: jnp.where(
                known, factor.astype(m.dtype) * m / (jnp.sqrt(v + eps_root) + eps), m
            ),
            _debiased(mu, b1, count),
            _debiased(nu, b2, count),
        )
        return new, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315
"""Coefficients of ``a x + b x^3 + c x^5``, which takes singular values to about 1: steep at 0, it
keeps its iterates between 0.7 and 1.2."""


def _orthogonalized(x: Array, steps: int, eps: float) -> Array:
    """Matrices with the singular vectors of x, and singular values of about 1."""
    a, b, c = NEWTON_SCHULZ
    tall = x.shape[-2] > x.shape[-1]
    y = x.mT if tall else x
    y = y / (jnp.sqrt(jnp.sum(y * y, axis=(-2, -1), keepdims=True)) + eps)
    for _ in range(steps):
        squares = y @ y.mT
        y = a * y + (b * squares + c * (squares @ squares)) @ y
    return y.mT if tall else y


def scale_by_muon(
    beta: float = 0.95, ns_steps: int = 5, nesterov: bool = True, eps: float = 1e-8
) -> GradientTransformation:
    """Replaces gradients of matrices by their momentum with all singular values near 1.

    Tall ones are scaled by the root of rows over columns, so that outputs change by as much.

    Args:
        beta: decay of the momentum, in [0, 1).
        ns_steps: number of steps of the Newton-Schulz iteration.
        nesterov: whether the momentum is decayed and added to the gradient once more.
        eps: added to the norm by which a matrix is divided.

    Raises:
        ShapeError: for a parameter of fewer than two axes.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks",
    https://kellerjordan.github.io/posts/muon/.

    Example:
        >>> part, g = scale_by_muon(), jnp.diag(jnp.array([5.0, 1.0]))
        >>> (abs(jnp.diagonal(part.update(g, part.init(g))[0]) - 1) < 0.35).tolist()
        [True, True]
    """

    def init(params: Params) -> State:
        for x in tree.leaves(params):
            if x.ndim < 2:
                raise ShapeError(
                    "muon is for matrices",
                    got=f"a parameter of shape {x.shape}",
                    hint="optim.muon takes Adam for others; mask= says which are matrices",
                )
        return TraceState(zeros_like(params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        momentum = _mean(state.trace, updates, beta)
        used = _mean(momentum, updates, beta) if nesterov else momentum

        def step(x: Array) -> Array:
            scale = max(1.0, x.shape[-2] / x.shape[-1]) ** 0.5
            y: Array = _orthogonalized(x, ns_steps, eps) * scale
            return y

        return tree.map(step, used), TraceState(momentum)

    return GradientTransformation(init, update)


class ScaleByRmsState(NamedTuple):
    """The mean of squares of gradients."""

    nu: Params


def scale_by_rms(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """Divides gradients by the root of the mean of their squares.

    Args:
        decay: decay of the mean of squared gradients, in [0, 1).
        eps: added to the mean of squares, or to its root.
        initial_scale: initial value of the mean of squares.
        eps_in_sqrt: whether `eps` is added under the root, instead of to it.

    Source: Hinton 2012, "Neural networks for machine learning", lecture 6e.

    Example:
        >>> part, g = scale_by_rms(decay=0.75), jnp.array([3.0])
        >>> round(part.update(g, part.init(g))[0].item(), 4)
        2.0
    """

    def init(params: Params) -> State:
        return ScaleByRmsState(tree.map(lambda p: jnp.full_like(p, initial_scale), params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        nu = _mean(state.nu, _squares(updates), decay)
        return tree.map(lambda g, v: g * _reciprocal_root(v, eps, eps_in_sqrt), updates, nu), (
            ScaleByRmsState(nu)
        )

    return GradientTransformation(init, update)


def _reciprocal_root(x: Array, eps: float, inside: bool) -> Array:
    return lax.rsqrt(x + eps) if inside else 1 / (jnp.sqrt(x) + eps)


class ScaleByRStdDevState(NamedTuple):
    """Means of gradients and of their squares."""

    mu: Params
    nu: Params


def scale_by_stddev(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """Divides gradients by their standard deviation.

    Args:
        decay: decay of the means of gradients and of their squares, in [0, 1).
        eps: added to the variance, or to its root.
        initial_scale: initial value of the mean of squares.
        eps_in_sqrt: whether `eps` is added under the root, instead of to it.

    Example:
        >>> part, g = scale_by_stddev(decay=0.5), jnp.array([3.0])
        >>> round(part.update(g, part.init(g))[0].item(), 4)
        2.0
    """

    def init(params: Params) -> State:
        nu = tree.map(lambda p: jnp.full_like(p, initial_scale), params)
        return ScaleByRStdDevState(zeros_like(params), nu)

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        mu = _mean(state.mu, updates, decay)
        nu = _mean(state.nu, _squares(updates), decay)
        new = tree.map(
            lambda g, m, v: g * _reciprocal_root(v - jnp.square(m), eps, eps_in_sqrt),
            updates,
            mu,
            nu,
        )
        return new, ScaleByRStdDevState(mu, nu)

    return GradientTransformation(init, update)


class ScaleByRssState(NamedTuple):
    """The sum of squares of gradients."""

    sum_of_squares: Params


def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Divides gradients by the root of the sum of their squares.

    Source: Duchi, Hazan, Singer 2011, "Adaptive subgradient methods".

    Example:
        >>> part, g = scale_by_rss(0.0), jnp.array([3.0])
        >>> round(part.update(g, part.init(g))[0].item(), 4)
        1.0
    """

    def init(params: Params) -> State:
        full = lambda p: jnp.full_like(p, initial_accumulator_value)
        return ScaleByRssState(tree.map(full, params))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        sums = tree.map(lambda s, g: s + jnp.square(g), state.sum_of_squares, updates)
        new = tree.map(lambda g, s: g * jnp.where(s > 0, lax.rsqrt(s + eps), 0.0), updates, sums)
        return new, ScaleByRssState(sums)

    return GradientTransformation(init, update)


class ScaleByLionState(NamedTuple):
    """The number of steps, and the mean of gradients."""

    count: Array  # type: ignore[assignment]  # optax's name, and tuple's
    mu: Params


def scale_by_lion(
    b1: float = 0.9, b2: float = 0.99, mu_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Replaces gradients by the sign of a mean of gradients.

    Args:
        b1: weight of the old mean in the sign.
        b2: decay of the mean of gradients, in [0, 1).
        mu_dtype: dtype of the mean of gradients; that of each parameter if None.

    Source: Chen et al. 2023, arXiv:2302.06675, program 1.

    Example:
        >>> part, g = scale_by_lion(), jnp.array([3.0, -0.1])
        >>> part.update(g, part.init(g))[0].tolist()
        [1.0, -1.0]
    """

    def init(params: Params) -> State:
        return ScaleByLionState(jnp.zeros((), int), zeros_like(params, mu_dtype))

    def update(updates: Updates, state: State, params: Params | None = None) -> tuple[Any, Any]:
        new = tree.map(jnp.sign, _mean(state.mu, updates, b1))
        mu = _cast(_mean(state.mu, updates, b2), mu_dtype)
        return new, ScaleByLionState(state.count + 1, mu)

    return GradientTransformation(init, update)


# With a look at the parameters.


def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> GradientTransformation:
    """Scales each update to the length of its parameter; leaves it as it is if one is zero.

    Args:
        min_norm: lower bound of both lengths.
        trust_coefficient: factor of the ratio of the lengths.
        eps: added to the length of the update.

    Raises:
        ArgumentError: if `update` is called without parameters.

    Source: You et al. 2019, arXiv:1904.00962.

    Example:
        >>> part, w = scale_by_trust_ratio(), jnp.array([3.0, 4.0])
        >>> part.update(jnp.array([1.0, 0.0]), part.init(w), w)[0].tolist()
        [5.0, 0.0]
    """

    def along(u: Array, p: Array) -> Array:
        longer, shorter = (jnp.sqrt(jnp.sum(jnp.square(x))) for x in (p, u))
        zero = (longer == 0) | (shorter == 0) if min_norm == 0 else False
        longer, shorter = jnp.maximum(longer, min_norm), jnp.maximum(shorter, min_norm)
        ratio = trust_coefficient * longer / (jnp.where(zero, 1.0, shorter) + eps)
        return u * jnp.where(zero, 1.0, ratio).astype(u.dtype)

    return stateless(
        lambda updates, params: tree.map(along, updates, needed(params, "a trust ratio"))
    )


def add_decayed_weights(
    weight_decay: float = 0.0, mask: Mask | None = None
) -> GradientTransformation:
    """Adds a fraction of the parameters to the updates.

    Args:
        weight_decay: fraction of the parameters that is added.
        mask: which parameters decay, as of `masked`; all if None.

    Raises:
        ArgumentError: if `update` is called without parameters.

    Example:
        >>> part, w = add_decayed_weights(0.5), jnp.array([2.0])
        >>> part.update(jnp.zeros(1), part.init(w), w)[0].tolist()
        [1.0]
    """

    def decay(updates: Updates, params: Params | None) -> Updates:
        params = needed(params, "weight decay")
        return tree.map(lambda u, p: u + weight_decay * p, updates, params)

    part = stateless(decay)
    return part if mask is None else masked(part, mask)
