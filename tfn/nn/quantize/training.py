"""Quantization-aware training: floats are rounded as if they were quantized, gradients pass.

Rounding has derivative 0 almost everywhere.  The straight-through estimator takes it for 1 within
the range, and for 0 beyond its ends, where the value is clipped.

Source: Bengio, Leonard, Courville 2013, "Estimating or propagating gradients through stochastic
neurons for conditional computation", arXiv:1308.3432.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array
from tfn.custom_derivatives import custom_jvp
from tfn.errors import DTypeError
from tfn.extend import operands
from tfn.lax import stop_gradient
from tfn.nn import Conv1d, Conv2d, Conv3d, Linear, is_inexact_array, tree_at
from tfn.nn.quantize.affine import Quantization, symmetric

if TYPE_CHECKING:
    from jaxtyping import Float

T = TypeVar("T")
WEIGHTED = (Linear, Conv1d, Conv2d, Conv3d)
"""The layers whose weights have a scale for each output channel, the last axis."""


@custom_jvp
def _rounded(x: Array, quantization: Quantization) -> Array:
    return quantization.dequantize(quantization.quantize(x)).astype(x.dtype)


@_rounded.defjvp
def _straight_through(primals: Any, tangents: Any) -> Any:
    (x, quantization), (dx, _) = primals, tangents
    y = _rounded(x, quantization)
    low = quantization.dequantize(jnp.full(x.shape, quantization.lowest, "int8"))
    high = quantization.dequantize(jnp.full(x.shape, quantization.highest, "int8"))
    return y, jnp.where((x >= low) & (x <= high), dx, jnp.zeros_like(dx))


def fake_quantize(x: Float[Array, "*shape"], quantization: Quantization) -> Float[Array, "*shape"]:
    """Returns the numbers that remain of x when it is quantized.

    The derivative is 1 where x is in the range, 0 elsewhere; scale and zero point have none.

    Args:
        x: floats.
        quantization: scale and zero point, concrete or traced.

    Raises:
        DTypeError: unless x holds floats.

    Example:
        >>> import tfn
        >>> q = Quantization(jnp.float32(0.5), jnp.int32(0))
        >>> fake_quantize(jnp.array([0.3, 100.0]), q).tolist()
        [0.5, 63.5]
        >>> tfn.grad(lambda x: fake_quantize(x, q).sum())(jnp.array([0.3, 100.0])).tolist()
        [1.0, 0.0]
    """
    x = operands.array_of("fake_quantize", x)
    if not is_inexact_array(x):
        raise DTypeError(
            "fake_quantize needs floats",
            got=f"an array of {x.dtype}",
            hint="quantization.quantize makes integers of floats",
        )
    y: Array = _rounded(x, tree.map(stop_gradient, quantization))
    return y


def fake_weights(network: T, bits: int = 8) -> T:
    """Returns a network whose linear layers and convolutions have fake-quantized weights.

    Each output channel has a scale of its own, which follows the weights.

    Args:
        network: a tree with any number of layers in it.
        bits: of a weight.

    Example:
        >>> from tfn import nn, random
        >>> layer = nn.Linear.init(random.key(0), 100, 1)
        >>> len(set(fake_weights(layer, bits=2).weight.ravel().tolist()))
        3
    """

    def faked(layer: Any) -> Any:
        if not isinstance(layer, WEIGHTED):
            return layer
        scales = symmetric(stop_gradient(layer.weight), axis=-1, bits=bits)
        return tree_at(lambda one: one.weight, layer, fake_quantize(layer.weight, scales))

    made: T = tree.map(faked, network, is_leaf=lambda x: isinstance(x, WEIGHTED))
    return made
