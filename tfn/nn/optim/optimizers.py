"""Optimizers, by their names: each is a chain of parts."""

from __future__ import annotations

from typing import Any

from tfn.nn.optim import transforms
from tfn.nn.optim.clipping import clip_by_block_rms
from tfn.nn.optim.factored import scale_by_factored_rms, scale_by_param_block_rms
from tfn.nn.optim.protocol import GradientTransformation, Rate, chain, identity
from tfn.nn.optim.wrappers import Mask


def sgd(
    learning_rate: Rate,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> GradientTransformation:
    """Gradient descent, with momentum if it is given.

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
    mu_dtype: Any = None,
) -> GradientTransformation:
    """Adam: steps of about the learning rate, whatever the size of the gradients.

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


def adamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: float = 1e-4,
    mask: Mask | None = None,
) -> GradientTransformation:
    """Adam with weights that decay apart from the gradients.

    Source: Loshchilov, Hutter 2017, arXiv:1711.05101.
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
    mu_dtype: Any = None,
    weight_decay: float = 1e-3,
    mask: Mask | None = None,
) -> GradientTransformation:
    """Steps of one size, in the direction of the signs of a mean of gradients.

    Source: Chen et al. 2023, arXiv:2302.06675.
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
    """Gradients over the root of the mean of their squares, or if centered of their variance.

    Source: Hinton 2012, "Neural networks for machine learning", lecture 6e.
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
    """Steps that become shorter where gradients were large.

    Source: Duchi, Hazan, Singer 2011, "Adaptive subgradient methods".
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
    """Adam with steps as long as the parameters times the learning rate, for large batches.

    Source: You et al. 2019, arXiv:1904.00962.
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
    """Like Adam, with little to remember: of a matrix a row and a column.

    Source: Shazeer, Stern 2018, arXiv:1804.04235.
    """
    chosen = [
        scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)
    ]
    if clipping_threshold is not None:
        chosen.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        chosen.append(transforms.scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        chosen.append(scale_by_param_block_rms())
    if momentum is not None:
        chosen.append(transforms.ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        chosen.append(transforms.add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*chosen, transforms.scale(-1))
