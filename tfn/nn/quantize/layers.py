"""Linear layers and convolutions of int8 values: int32 sums of products, requantized.

    y = requantize(sum((x - x_zero) * w) + bias)
      = requantize(sum(x * w) + (bias - x_zero * sum(w)))

The second line is computed: weights have zero point 0, and the zero point of x is part of the bias.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError, DTypeError
from tfn.lax import padtype_to_pads
from tfn.lax.window_padding import dilated
from tfn.nn import Conv1d, Conv2d, Conv3d, module, static
from tfn.nn import layers as float_layers
from tfn.nn.convolution import SPACE, Steps
from tfn.nn.quantize.affine import Quantization, symmetric
from tfn.nn.quantize.requantization import Requantization

if TYPE_CHECKING:
    from jaxtyping import Int8, Int32

MAX_PRODUCTS = 2**31 // (128 * 128) - 1
"""Products of int8 values whose sum fits into 32 bits, whatever the values."""


def matmul(x: Int8[Array, "*rows k"], w: Int8[Array, "k columns"]) -> Int32[Array, "*rows columns"]:
    """Returns the product of matrices of int8 values, in sums of 32 bits; it is exact.

    Raises:
        DTypeError: unless both are int8.
        ArgumentError: if k is so large that a sum might not fit.

    Example:
        >>> a = jnp.full((2, 300), 127, "int8")
        >>> matmul(a, a.T).tolist()
        [[4838700, 4838700], [4838700, 4838700]]
    """
    _check("matmul", x, w, w.shape[0])
    return lax.dot_general(x, w, (((x.ndim - 1,), (0,)), ((), ())), preferred_element_type="int32")


def conv(
    x: Int8[Array, "batch *space inputs"],
    w: Int8[Array, "*window channels outputs"],
    steps: Steps,
    zero_point: Int32[Array, ""] | int = 0,
) -> Int32[Array, "batch *places outputs"]:
    """Returns a convolution of int8 values, in sums of 32 bits; it is exact.

    Args:
        x: images, channels last.
        w: the kernel.
        steps: strides, padding, dilation and groups.
        zero_point: of x; the value of the padding, which stands for the number 0.

    Raises:
        DTypeError: unless x and w are int8.
        ArgumentError: if a window has so many elements that a sum might not fit.

    Example:
        >>> x, w = jnp.full((1, 4, 4, 1), -128, "int8"), jnp.ones((3, 3, 1, 2), "int8")
        >>> steps = Steps((1, 1), "SAME", (1, 1), 1)
        >>> conv(x, w, steps, zero_point=-128)[0, 0, 0].tolist()
        [-1152, -1152]
    """
    _check("conv", x, w, prod(w.shape[:-1]))
    padding = steps.padding
    if isinstance(padding, str):
        window = dilated(w.shape[:-2], steps.dilation)
        padding = tuple(padtype_to_pads(x.shape[1:-1], window, steps.strides, padding))
    edges = [(low, high, 0) for low, high in ((0, 0), *padding, (0, 0))]
    x = lax.pad(x, jnp.asarray(zero_point).astype("int8"), edges)
    space = SPACE[w.ndim - 2]
    return lax.conv_general_dilated(
        x,
        w,
        steps.strides,
        "VALID",
        rhs_dilation=steps.dilation,
        dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
        feature_group_count=steps.groups,
        preferred_element_type="int32",
    )


def _check(name: str, x: Array, w: Array, products: int) -> None:
    if x.dtype != np.int8 or w.dtype != np.int8:
        raise DTypeError(
            f"quantize.{name} needs int8 values",
            got=f"{x.dtype} and {w.dtype}",
            hint="quantize them: quantization.quantize(x)",
        )
    if products > MAX_PRODUCTS:
        raise ArgumentError(
            f"a sum of {products:,} products of int8 values might not fit into 32 bits",
            got=f"weights of shape {w.shape}",
            hint=f"split the sum: {MAX_PRODUCTS:,} products fit",
        )


def _converted(
    weight: Array, bias: Array | None, x: Quantization, axis: int | None, bits: int
) -> tuple[Array, Array, np.ndarray[Any, Any]]:
    """Weights and biases as integers, and the scale of a sum: along an axis, or for all."""
    if x.axis is not None:
        raise ArgumentError(
            "the input of a quantized layer has one scale",
            got=f"a quantization along axis {x.axis}",
            hint="use per_tensor for activations; scales of weights are per channel",
        )
    of_weight = symmetric(weight, axis, bits)
    w = of_weight.quantize(weight)
    scales = np.asarray(of_weight.scale, np.float64) * float(x.scale)
    limits = np.iinfo(np.int32)
    start = np.zeros(scales.shape) if bias is None else np.asarray(bias, np.float64) / scales
    correction = x.zero_point.item() * np.asarray(w, np.int64).reshape(-1, w.shape[-1]).sum(0)
    starts = np.clip(np.rint(start) - correction, limits.min, limits.max)
    return w, jnp.asarray(starts.astype(np.int32)), scales


@module
class Linear:
    """A linear layer of int8 values; without a requantization its results are the int32 sums.

    Attributes:
        weight: with zero point 0.
        bias: added to the sums; the zero point of the input is part of it.

    Example:
        >>> from tfn import nn, random
        >>> layer = nn.Linear.init(random.key(0), 3, 4)
        >>> x = jnp.array([[0.5, -1.0, 0.25]])
        >>> in_, out = Quantization(x.max() / 64, jnp.int32(0)), symmetric(layer(x))
        >>> quantized = Linear.of(layer, in_, out)
        >>> bool(abs(out.dequantize(quantized(in_.quantize(x))) - layer(x)).max() < 0.03)
        True
    """

    weight: Int8[Array, "inputs outputs"]
    bias: Int32[Array, " outputs"]
    requantization: Requantization | None

    @staticmethod
    def of(
        layer: float_layers.Linear,
        x: Quantization,
        y: Quantization | None,
        relu: bool = False,
        bits: int = 8,
        per_channel: bool = True,
    ) -> Linear:
        """Returns a layer of floats as integers.

        Args:
            layer: of floats, concrete.
            x: the quantization of its input.
            y: the quantization of its output; None for int32 sums, as of logits.
            relu: whether `nn.relu` follows.
            bits: of a weight.
            per_channel: whether each output has a scale of its own; one for all takes 4 bytes less
                for each of them, and rounds more.

        Raises:
            ArgumentError: for quantizations of activations along an axis.
        """
        # Sums without a requantization are compared across channels: they need one scale in all.
        axis = None if y is None or not per_channel else -1
        weight, bias, scales = _converted(layer.weight, layer.bias, x, axis, bits)
        return Linear(weight, bias, None if y is None else Requantization.of(scales, y, relu))

    def __call__(self, x: Int8[Array, "*rows inputs"]) -> Array:
        """Returns int8 values, or the int32 sums if there is no requantization."""
        sums = matmul(x, self.weight) + self.bias
        return sums if self.requantization is None else self.requantization(sums)


@module
class Conv:
    """A convolution of int8 values over one, two or three spatial axes, channels last.

    Attributes:
        weight: with zero point 0.
        bias: added to the sums; the zero point of the input is part of it.
        zero_point: of the input; the value of the padding.

    Example:
        >>> from tfn import nn, random
        >>> layer = nn.Conv2d.init(random.key(0), 1, 4, 3)
        >>> x = Quantization(jnp.float32(1 / 255), jnp.int32(-128))
        >>> quantized = Conv.of(layer, x, Quantization(jnp.float32(0.1), jnp.int32(0)), relu=True)
        >>> quantized(jnp.zeros((1, 8, 8, 1), "int8")).shape
        (1, 8, 8, 4)
    """

    weight: Int8[Array, "*window channels outputs"]
    bias: Int32[Array, " outputs"]
    zero_point: Int32[Array, ""]
    requantization: Requantization
    steps: Steps = static()

    @staticmethod
    def of(
        layer: Conv1d | Conv2d | Conv3d,
        x: Quantization,
        y: Quantization,
        relu: bool = False,
        bits: int = 8,
    ) -> Conv:
        """Returns a layer of floats as integers; see `Linear.of`.

        Raises:
            ArgumentError: for quantizations of activations along an axis.
        """
        weight, bias, scales = _converted(layer.weight, layer.bias, x, -1, bits)
        requantization = Requantization.of(scales, y, relu)
        return Conv(weight, bias, x.zero_point, requantization, layer.steps)

    def __call__(self, x: Int8[Array, "batch *space inputs"]) -> Int8[Array, "batch *places out"]:
        """Returns int8 values."""
        return self.requantization(conv(x, self.weight, self.steps, self.zero_point) + self.bias)
