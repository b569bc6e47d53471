"""Layers: frozen dataclasses that are pytrees of their parameters and are called like functions.

A layer is made by its ``init`` from a key and sizes.  Parameters are its leaves; everything else
is static and belongs to the structure, so a layer goes through `jit`, `grad` and `vmap` as it is,
and its gradient is a layer of the same structure.
"""

# ruff: noqa: F722, F821  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfn import lax, random, tree
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.nn import initializers
from tfn.nn.functions import relu, standardize
from tfn.nn.initializers import Initializer
from tfn.random import KeyLike

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Padding = str | Sequence[tuple[int, int]]
IMAGES = ("NHWC", "HWIO", "NHWC")


def static(**options: Any) -> Any:
    """A dataclass field that is no parameter: it belongs to the structure of the pytree."""
    return field(metadata={"static": True}, **options)


@tree.register_dataclass
@dataclass(frozen=True)
class Linear:
    """``x @ weight + bias`` on the last axis.

    Attributes:
        weight: of shape (inputs, outputs).
        bias: of shape (outputs,), or None.

    Example:
        >>> layer = Linear.init(random.key(0), 3, 4)
        >>> layer(jnp.ones((2, 3))).shape
        (2, 4)
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, outputs] | None

    @staticmethod
    def init(key: KeyLike, inputs: int, outputs: int, *, use_bias: bool = True,
             weight_init: Initializer | None = None, dtype: Any = float) -> Linear:  # fmt: skip
        """Weights of variance 1 / inputs, unless `weight_init` says otherwise, and zero biases."""
        make = weight_init or initializers.lecun_normal()
        weight = make(key, (inputs, outputs), dtype)
        return Linear(weight, jnp.zeros((outputs,), dtype) if use_bias else None)

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        """The layer's outputs."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


@tree.register_dataclass
@dataclass(frozen=True)
class Conv2d:
    """A convolution of images (batch, height, width, channels).

    Attributes:
        weight: of shape (window height, window width, inputs / groups, outputs).
        bias: of shape (outputs,), or None.
        strides, padding, dilation, groups: as of `lax.conv_general_dilated`.

    Example:
        >>> layer = Conv2d.init(random.key(0), 1, 8, 3)
        >>> layer(jnp.ones((2, 28, 28, 1))).shape
        (2, 28, 28, 8)
    """

    weight: Float[Array, "h w channels outputs"]
    bias: Float[Array, outputs] | None
    strides: tuple[int, int] = static(default=(1, 1))
    padding: str | tuple[tuple[int, int], ...] = static(default="SAME")
    dilation: tuple[int, int] = static(default=(1, 1))
    groups: int = static(default=1)

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: int | tuple[int, int], *,
        strides: int | tuple[int, int] = 1, padding: Padding = "SAME",
        dilation: int | tuple[int, int] = 1, groups: int = 1, use_bias: bool = True,
        weight_init: Initializer | None = None, dtype: Any = float,
    ) -> Conv2d:  # fmt: skip
        """Weights of variance 1 / (inputs that reach an output), and zero biases.

        Raises:
            ArgumentError: if the groups do not divide inputs and outputs.
        """
        if inputs % groups or outputs % groups:
            raise ArgumentError(
                "groups must divide inputs and outputs",
                got=f"{inputs} inputs, {outputs} outputs, {groups} groups",
            )
        make = weight_init or initializers.lecun_normal()
        weight = make(key, (*_pair(window), inputs // groups, outputs), dtype)
        bias = jnp.zeros((outputs,), dtype) if use_bias else None
        words = padding if isinstance(padding, str) else tuple((lo, hi) for lo, hi in padding)
        return Conv2d(weight, bias, _pair(strides), words, _pair(dilation), groups)

    def __call__(self, x: Float[Array, "n h w inputs"]) -> Float[Array, "n y x outputs"]:
        """The layer's outputs."""
        y = lax.conv_general_dilated(
            x, self.weight, self.strides, self.padding, rhs_dilation=self.dilation,
            dimension_numbers=IMAGES, feature_group_count=self.groups,
        )  # fmt: skip
        return y if self.bias is None else y + self.bias


def _pair(n: int | tuple[int, int]) -> tuple[int, int]:
    return (n, n) if isinstance(n, int) else n


def max_pool(x: Float[Array, "n h w c"], window: int | tuple[int, int],
             strides: int | tuple[int, int] | None = None,
             padding: Padding = "VALID") -> Float[Array, "n y x c"]:  # fmt: skip
    """The largest element of each window of an image; windows do not overlap by default.

    Example:
        >>> max_pool(jnp.ones((2, 28, 28, 8)), 2).shape
        (2, 14, 14, 8)
    """
    return _pool(x, -jnp.inf, lax.max, window, strides, padding)


def avg_pool(x: Float[Array, "n h w c"], window: int | tuple[int, int],
             strides: int | tuple[int, int] | None = None, padding: Padding = "VALID",
             count_include_pad: bool = False) -> Float[Array, "n y x c"]:  # fmt: skip
    """The mean of each window of an image.

    Args:
        count_include_pad: whether padding counts as elements of value 0.

    Example:
        >>> avg_pool(jnp.ones((2, 28, 28, 8)), 2).shape
        (2, 14, 14, 8)
    """
    total = _pool(x, 0.0, lax.add, window, strides, padding)
    if count_include_pad or padding == "VALID":
        height, width = _pair(window)
        return total / (height * width)
    ones = jnp.ones((1, *x.shape[1:3], 1), x.dtype)
    return total / _pool(ones, 0.0, lax.add, window, strides, padding)


def _pool(x: Array, start: float, computation: Callable[[Any, Any], Any],
          window: int | tuple[int, int], strides: int | tuple[int, int] | None,
          padding: Padding) -> Array:  # fmt: skip
    sizes = (1, *_pair(window), 1)
    steps = sizes if strides is None else (1, *_pair(strides), 1)
    pads = padding if isinstance(padding, str) else [(0, 0), *padding, (0, 0)]
    return lax.reduce_window(x, start, computation, sizes, steps, pads)


@tree.register_dataclass
@dataclass(frozen=True)
class Dropout:
    """Elements set to 0 at random, the others scaled up so that the mean stays.

    Attributes:
        rate: probability of an element to be dropped.
        inference: whether to do nothing.

    Source: Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
    overfitting".

    Example:
        >>> Dropout(0.5)(jnp.ones((2, 3)), key=random.key(0)).shape
        (2, 3)
    """

    rate: float = static(default=0.5)
    inference: bool = static(default=False)

    def __call__(self, x: Float[Array, ...], *, key: KeyLike | None = None,
                 inference: bool | None = None) -> Float[Array, ...]:  # fmt: skip
        """The elements that are left.

        Raises:
            ArgumentError: if there is no key while training.
        """
        if (self.inference if inference is None else inference) or self.rate == 0:
            return x
        if key is None:
            raise ArgumentError("dropout needs a key while training",
                                hint="pass key=..., or inference=True")  # fmt: skip
        if self.rate == 1:
            return jnp.zeros_like(x)
        kept = random.bernoulli(key, 1.0 - self.rate, x.shape)
        return jnp.where(kept, x / (1.0 - self.rate), 0.0)


@tree.register_dataclass
@dataclass(frozen=True)
class LayerNorm:
    """The last axis standardized, then scaled and shifted.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.

    Example:
        >>> LayerNorm.init(4)(jnp.ones((2, 4))).shape
        (2, 4)
    """

    weight: Float[Array, features] | None
    bias: Float[Array, features] | None
    epsilon: float = static(default=1e-5)

    @staticmethod
    def init(features: int, *, epsilon: float = 1e-5, use_weight: bool = True,
             use_bias: bool = True, dtype: Any = float) -> LayerNorm:  # fmt: skip
        """Scales of 1 and shifts of 0."""
        weight = jnp.ones((features,), dtype) if use_weight else None
        return LayerNorm(weight, jnp.zeros((features,), dtype) if use_bias else None, epsilon)

    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... features"]:
        """The layer's outputs."""
        y = standardize(x, epsilon=self.epsilon)
        y = y if self.weight is None else y * self.weight
        return y if self.bias is None else y + self.bias


@tree.register_dataclass
@dataclass(frozen=True)
class RMSNorm:
    """The last axis divided by its root mean square, then scaled.

    Source: Zhang, Sennrich 2019, arXiv:1910.07467.

    Example:
        >>> RMSNorm.init(4)(jnp.ones((2, 4))).shape
        (2, 4)
    """

    weight: Float[Array, features]
    epsilon: float = static(default=1e-6)

    @staticmethod
    def init(features: int, *, epsilon: float = 1e-6, dtype: Any = float) -> RMSNorm:
        """Scales of 1."""
        return RMSNorm(jnp.ones((features,), dtype), epsilon)

    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... features"]:
        """The layer's outputs."""
        mean_square = jnp.mean(jnp.square(x), -1, keepdims=True)
        return x * lax.rsqrt(mean_square + self.epsilon) * self.weight


@tree.register_dataclass
@dataclass(frozen=True)
class Embedding:
    """A row of a table for each index.

    Example:
        >>> Embedding.init(random.key(0), 10, 4)(jnp.array([1, 2, 3])).shape
        (3, 4)
    """

    weight: Float[Array, "rows features"]

    @staticmethod
    def init(key: KeyLike, rows: int, features: int, *, weight_init: Initializer | None = None,
             dtype: Any = float) -> Embedding:  # fmt: skip
        """Rows that are standard normal, unless `weight_init` says otherwise."""
        make = weight_init or initializers.normal(1.0)
        return Embedding(make(key, (rows, features), dtype))

    def __call__(self, x: Int[Array, ...]) -> Float[Array, "... features"]:
        """The rows."""
        return self.weight[x]


@tree.register_dataclass
@dataclass(frozen=True)
class MLP:
    """Linear layers with an activation between them.

    Example:
        >>> MLP.init(random.key(0), (784, 128, 10))(jnp.ones((2, 784))).shape
        (2, 10)
    """

    layers: tuple[Linear, ...]
    activation: Callable[[Array], Array] = static(default=relu)  # noqa: RUF009

    @staticmethod
    def init(key: KeyLike, sizes: Sequence[int], *,
             activation: Callable[[Array], Array] = relu, use_bias: bool = True,
             weight_init: Initializer | None = None, dtype: Any = float) -> MLP:  # fmt: skip
        """Layers from each size to the next.

        Raises:
            ArgumentError: for fewer than two sizes.
        """
        if len(sizes) < 2:
            raise ArgumentError("an MLP needs sizes of inputs and outputs", got=str(tuple(sizes)))
        keys = random.split(key, len(sizes) - 1)
        layers = tuple(
            Linear.init(k, n, m, use_bias=use_bias, weight_init=weight_init, dtype=dtype)
            for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )
        return MLP(layers, activation)

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        """The outputs of the last layer, without an activation."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
