"""Optimizers (sgd, adam, adamw, lion, ...): chains of gradient transformations."""

from __future__ import annotations

from typing import Any

from tfn import tree
from tfn.dtypes import DTypeLike
from tfn.nn.optim import transforms
from tfn.nn.optim.clipping import clip_by_block_rms
from tfn.nn.optim.factored import scale_by_factored_rms, scale_by_param_block_rms
from tfn.nn.optim.protocol import GradientTransformation, Params, Rate, chain, identity
from tfn.nn.optim.wrappers import Mask, masked


def sgd(
    learning_rate: Rate,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Returns gradient descent, with momentum if it is given.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        momentum: decay of the sum of past gradients, as of `trace`; no momentum if None.
        nesterov: whether to use Nesterov's momentum; without meaning if `momentum` is None.
        accumulator_dtype: dtype of the sum; that of each parameter if None.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer = sgd(0.5)
        >>> updates, _ = optimizer.update(jnp.array([1.0]), optimizer.init(jnp.zeros(1)))
        >>> updates.tolist()
        [-0.5]
    """
    return chain(
        identity() if momentum is None else transforms.trace(momentum, nesterov, accumulator_dtype),
        transforms.scale_by_learning_rate(learning_rate),
    )


def adam(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Returns Adam: steps of about the learning rate, whatever the size of the gradients.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        b1: decay of the mean of gradients, in [0, 1).
        b2: decay of the mean of squared gradients, in [0, 1).
        eps: added to the root of the mean of squares.
        eps_root: added under the root.
        mu_dtype: dtype of the mean of gradients; that of each parameter if None.

    Source: Kingma, Ba 2014, arXiv:1412.6980.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer = adam(0.001)
        >>> updates, _ = optimizer.update(jnp.array([100.0]), optimizer.init(jnp.zeros(1)))
        >>> round(updates.item(), 6)
        -0.001
    """
    return chain(
        transforms.scale_by_adam(b1, b2, eps, eps_root, mu_dtype),
        transforms.scale_by_learning_rate(learning_rate),
    )


def nadam(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Returns Adam with Nesterov's momentum.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        b1, b2, eps, eps_root, mu_dtype: as of `adam`.

    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam".

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer = nadam(0.001)
        >>> updates, _ = optimizer.update(jnp.array([100.0]), optimizer.init(jnp.zeros(1)))
        >>> round(updates.item(), 6)
        -0.001474
    """
    return chain(
        transforms.scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=True),
        transforms.scale_by_learning_rate(learning_rate),
    )


def radam(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
) -> GradientTransformation:
    """Returns rectified Adam, whose first steps need no warmup.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        b1, b2, eps, eps_root: as of `adam`.
        threshold: as of `scale_by_radam`.

    Source: Liu et al. 2019, arXiv:1908.03265.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer = radam(0.5)
        >>> optimizer.update(jnp.array([2.0]), optimizer.init(jnp.zeros(1)))[0].round(4).tolist()
        [-1.0]
    """
    return chain(
        transforms.scale_by_radam(b1, b2, eps, eps_root, threshold),
        transforms.scale_by_learning_rate(learning_rate),
    )


def muon(
    learning_rate: Rate,
    beta: float = 0.95,
    weight_decay: float = 0.0,
    *,
    ns_steps: int = 5,
    nesterov: bool = True,
    mask: Mask | None = None,
    adam_b1: float = 0.9,
    adam_b2: float = 0.999,
    eps: float = 1e-8,
) -> GradientTransformation:
    """Returns Muon: steps of matrices with equal singular values; Adam for other parameters.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        beta: decay of the momentum of matrices, in [0, 1).
        weight_decay: fraction of the parameters that is added to the updates, before the learning
            rate.
        ns_steps: number of steps of the Newton-Schulz iteration.
        nesterov: whether to use Nesterov's momentum.
        mask: the matrices, as of `masked`; all parameters of two axes if None.  Leave embeddings
            and the last layer out; of an `nn.Stack`, name the arrays of three axes.
        adam_b1, adam_b2: the decays of Adam.
        eps: against division by zero, of both.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks",
    https://kellerjordan.github.io/posts/muon/.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer, w = muon(1.0), jnp.zeros((2, 2))
        >>> updates, _ = optimizer.update(jnp.diag(jnp.array([5.0, 1.0])), optimizer.init(w), w)
        >>> (abs(jnp.diagonal(updates) + 1) < 0.35).tolist()
        [True, True]
    """

    def matrices(params: Params) -> Params:
        if mask is None:
            return tree.map(lambda x: x.ndim == 2, params)
        function = callable(mask) and tree.structure(mask) == tree.structure(0)
        return tree.broadcast(mask(params) if function else mask, params)

    def others(params: Params) -> Params:
        return tree.map(lambda chosen: not chosen, matrices(params))

    return chain(
        masked(transforms.scale_by_muon(beta, ns_steps, nesterov, eps), matrices),
        masked(transforms.scale_by_adam(adam_b1, adam_b2, eps), others),
        transforms.add_decayed_weights(weight_decay),
        transforms.scale_by_learning_rate(learning_rate),
    )


def adamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: float = 1e-4,
    mask: Mask | None = None,
) -> GradientTransformation:
    """Returns Adam with weight decay that is independent of the gradients.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        b1: decay of the mean of gradients, in [0, 1).
        b2: decay of the mean of squared gradients, in [0, 1).
        eps: added to the root of the mean of squares.
        eps_root: added under the root.
        mu_dtype: dtype of the mean of gradients; that of each parameter if None.
        weight_decay: fraction of the parameters that is added to the updates, before the learning
            rate.
        mask: the parameters that decay, as of `masked`; all if None.

    Source: Loshchilov, Hutter 2017, arXiv:1711.05101.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer, w = adamw(0.5, weight_decay=0.1), jnp.array([2.0])
        >>> updates, _ = optimizer.update(jnp.zeros(1), optimizer.init(w), w)
        >>> round(updates.item(), 6)
        -0.1
    """
    return chain(
        transforms.scale_by_adam(b1, b2, eps, eps_root, mu_dtype),
        transforms.add_decayed_weights(weight_decay, mask),
        transforms.scale_by_learning_rate(learning_rate),
    )


def lion(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: DTypeLike | None = None,
    weight_decay: float = 1e-3,
    mask: Mask | None = None,
) -> GradientTransformation:
    """Returns Lion: steps of one size, in the direction of the signs of a mean of gradients.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        b1: weight of the old mean in the direction of a step.
        b2: decay of the mean of gradients, in [0, 1).
        mu_dtype: dtype of the mean of gradients; that of each parameter if None.
        weight_decay: fraction of the parameters that is added to the updates, before the learning
            rate.
        mask: the parameters that decay, as of `masked`; all if None.

    Source: Chen et al. 2023, arXiv:2302.06675.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer, w = lion(0.5), jnp.zeros(1)
        >>> optimizer.update(jnp.array([3.0]), optimizer.init(w), w)[0].tolist()
        [-0.5]
    """
    return chain(
        transforms.scale_by_lion(b1, b2, mu_dtype),
        transforms.add_decayed_weights(weight_decay, mask),
        transforms.scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: Rate,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Returns RMSProp: gradients divided by the root of the mean of their squares.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        decay: decay of the mean of squared gradients, in [0, 1).
        eps: added to the mean of squares, or to its root.
        initial_scale: initial value of the mean of squares.
        eps_in_sqrt: whether `eps` is added under the root, instead of to it.
        centered: whether to divide by the standard deviation of gradients instead.
        momentum: decay of the sum of past updates, as of `trace`; no momentum if None.
        nesterov: whether to use Nesterov's momentum; without meaning if `momentum` is None.

    Source: Hinton 2012, "Neural networks for machine learning", lecture 6e.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer = rmsprop(0.1, decay=0.75)
        >>> updates, _ = optimizer.update(jnp.array([3.0]), optimizer.init(jnp.zeros(1)))
        >>> round(updates.item(), 4)
        -0.2
    """
    by = transforms.scale_by_stddev if centered else transforms.scale_by_rms
    return chain(
        by(decay, eps, initial_scale, eps_in_sqrt),
        transforms.scale_by_learning_rate(learning_rate),
        identity() if momentum is None else transforms.trace(momentum, nesterov),
    )


def adagrad(
    learning_rate: Rate, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Returns Adagrad: steps that become shorter where gradients were large.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        initial_accumulator_value: initial value of the sum of squared gradients.
        eps: added to the sum, under the root.

    Source: Duchi, Hazan, Singer 2011, "Adaptive subgradient methods".

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer = adagrad(0.1, initial_accumulator_value=0.0)
        >>> updates, _ = optimizer.update(jnp.array([3.0]), optimizer.init(jnp.zeros(1)))
        >>> round(updates.item(), 4)
        -0.1
    """
    return chain(
        transforms.scale_by_rss(initial_accumulator_value, eps),
        transforms.scale_by_learning_rate(learning_rate),
    )


def lamb(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mask: Mask | None = None,
) -> GradientTransformation:
    """Returns LAMB: Adam with steps as long as the parameters times the learning rate, for large
    batches.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
        b1: decay of the mean of gradients, in [0, 1).
        b2: decay of the mean of squared gradients, in [0, 1).
        eps: added to the root of the mean of squares.
        eps_root: added under the root.
        weight_decay: fraction of the parameters that is added to the updates, before the learning
            rate.
        mask: the parameters that decay, as of `masked`; all if None.

    Source: You et al. 2019, arXiv:1904.00962.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer, w = lamb(0.1), jnp.array([2.0])
        >>> updates, _ = optimizer.update(jnp.array([3.0]), optimizer.init(w), w)
        >>> round(updates.item(), 4)
        -0.2
    """
    return chain(
        transforms.scale_by_adam(b1, b2, eps, eps_root),
        transforms.add_decayed_weights(weight_decay, mask),
        transforms.scale_by_trust_ratio(),
        transforms.scale_by_learning_rate(learning_rate),
    )


def adafactor(
    learning_rate: Rate | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: Any = None,
    weight_decay_rate: float | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: Mask | None = None,
) -> GradientTransformation:
    """Returns Adafactor: like Adam, with a row and a column in memory for each matrix.

    Args:
        learning_rate: a number, a scalar array, or a function of the number of steps made before.
            None multiplies by none.
        min_dim_size_to_factor: smallest size of the two longest axes of an array that is factored.
        decay_rate: exponent of the decay: after n steps a mean of squares keeps ``1 - (n + 1) **
            -decay_rate`` of its value.
        decay_offset: number of steps made before the first one, as when training is resumed.
        multiply_by_parameter_scale: whether to multiply updates by the root mean square of the
            parameter.
        clipping_threshold: largest root mean square of an update, for each array; None for no
            limit.
        momentum: decay of a running mean of the updates; no momentum if None.
        dtype_momentum: dtype of that mean; that of each parameter if None.
        weight_decay_rate: fraction of the parameters that is subtracted in each step; none if None.
        eps: added to the squares of gradients.
        factored: whether means of squares are factored at all.
        weight_decay_mask: the parameters that decay, as of `masked`; all if None.

    Source: Shazeer, Stern 2018, arXiv:1804.04235.

    Example:
        >>> from tfn import numpy as jnp
        >>> optimizer, w = adafactor(0.1), jnp.ones((128, 128))
        >>> state = optimizer.init(w)
        >>> state[0].v_row.shape, state[0].v_col.shape, state[0].v.shape
        ((128,), (128,), (1,))
    """
    parts = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(transforms.scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(transforms.ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(transforms.add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*parts, transforms.scale(-1))
