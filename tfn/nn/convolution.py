"""Convolutions over one, two or three spatial axes, channels last; and transposed ones.

All six modules are two functions, `_convolve` and `_transpose`; they differ in their shapes only.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tfn import lax
from tfn import numpy as jnp
from tfn._support.validate import integer, integers, one_of
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.lax.window_padding import pairs_of
from tfn.nn import initializers
from tfn.nn.initializers import Initializer
from tfn.nn.module import module, static
from tfn.random import KeyLike

if TYPE_CHECKING:
    from jaxtyping import Float

Sizes = int | tuple[int, ...]
Padding = str | Sequence[tuple[int, int]]
SPACE = {1: "W", 2: "HW", 3: "DHW"}


@dataclass(frozen=True)
class Steps:
    """The geometry of a convolution.

    Attributes:
        strides: steps of the window along each spatial axis.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) for each spatial axis.
        dilation: distance of neighbouring elements of the window, along each spatial axis.
        groups: number of independent groups of channels.
    """

    strides: tuple[int, ...]
    padding: str | tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


class Options(TypedDict, total=False):
    """Keyword arguments of the ``init`` of all convolutions.

    Attributes:
        strides, padding, dilation, groups: as of `Steps`; 1, 'SAME', 1 and 1 unless given, and one
            number stands for all spatial axes.
        use_bias: whether to add a learned number to each output channel; True unless given.
        weight_init: makes the weights; variance 1 / (inputs that reach an output) unless given.
        dtype: floating dtype of the parameters; float32 unless given.
    """

    strides: Sizes
    padding: Padding
    dilation: Sizes
    groups: int
    use_bias: bool
    weight_init: Initializer
    dtype: Any


def each_axis(argument: str, sizes: Sizes, rank: int, least: int = 1) -> tuple[int, ...]:
    """Returns one integer for each spatial axis, from one for all of them or one for each.

    Args:
        argument: name of the argument, for messages.
        sizes: an integer, or a sequence of one for each axis.
        rank: number of spatial axes.
        least: the smallest number that is allowed.

    Raises:
        ArgumentError: for another number of them, or one below `least`.

    Example:
        >>> each_axis("window", 3, 2), each_axis("window", (3, 5), 2)
        ((3, 3), (3, 5))
    """
    several = isinstance(sizes, (tuple, list))
    numbers = tuple(sizes) if several else (sizes,) * max(rank, 1)  # type: ignore[arg-type]
    if len(numbers) != rank:
        raise ArgumentError(
            f"one number, or {rank} of them, are needed",
            got=f"{argument}={sizes}",
            hint=f"write {argument}={numbers[0] if numbers else 1} for all",
        )
    return integers("a layer", argument, numbers, least)


def _make(
    key: KeyLike, inputs: int, outputs: int, window: Sizes, rank: int, options: Options
) -> tuple[Array, Array | None, Steps]:
    """Returns the fields of a convolution: weights, biases, geometry."""
    groups, dtype = options.get("groups", 1), options.get("dtype", float)
    if integer("a layer", "groups", groups, 1) and (inputs % groups or outputs % groups):
        raise ArgumentError(
            "groups must divide inputs and outputs",
            got=f"{inputs} inputs, {outputs} outputs, {groups} groups",
            hint=f"{gcd(inputs, outputs)} and what divides it will do",
        )
    make = options.get("weight_init") or initializers.lecun_normal()
    weight = make(key, (*each_axis("window", window, rank), inputs // groups, outputs), dtype)
    bias = jnp.zeros((outputs,), dtype) if options.get("use_bias", True) else None
    padding = options.get("padding", "SAME")
    steps = Steps(
        each_axis("strides", options.get("strides", 1), rank),
        paddings(padding, rank),
        each_axis("dilation", options.get("dilation", 1), rank),
        groups,
    )
    return weight, bias, steps


def paddings(padding: Padding, rank: int) -> str | tuple[tuple[int, int], ...]:
    """Returns a padding by its name, or as pairs, one for each spatial axis.

    Raises:
        ArgumentError: for another name, or another number of pairs.

    Example:
        >>> paddings([(1, 2), (0, 1)], 2)
        ((1, 2), (0, 1))
    """
    if not isinstance(padding, str):
        return pairs_of("a layer", padding, rank)
    one_of("a layer", "padding", padding.upper(), ("SAME", "SAME_LOWER", "VALID"))
    return padding


def _convolve(x: Array, weight: Array, bias: Array | None, steps: Steps) -> Array:
    space = SPACE[weight.ndim - 2]
    y = lax.conv_general_dilated(
        x,
        weight,
        steps.strides,
        steps.padding,
        rhs_dilation=steps.dilation,
        dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
        feature_group_count=steps.groups,
    )
    return y if bias is None else y + bias


def _transpose(x: Array, weight: Array, bias: Array | None, steps: Steps) -> Array:
    y = lax.conv_transpose(x, weight, steps.strides, steps.padding, rhs_dilation=steps.dilation)
    return y if bias is None else y + bias


def _ungrouped(options: Options) -> Options:
    if options.get("groups", 1) != 1:
        raise ArgumentError(
            "a transposed convolution has no groups",
            got=f"groups={options['groups']}",
            hint="use one layer for each group, and concatenate",
        )
    return options


@module
class Conv1d:
    """A convolution of sequences (batch, width, channels).

    Example:
        >>> from tfn import random
        >>> Conv1d.init(random.key(0), 4, 8, 3, strides=2)(jnp.ones((2, 100, 4))).shape
        (2, 50, 8)
    """

    weight: Float[Array, "window channels outputs"]
    bias: Float[Array, " outputs"] | None
    steps: Steps = static()

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: Sizes, **options: Unpack[Options]
    ) -> Conv1d:
        """Returns a layer with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of channels of the input.
            outputs: number of channels of the output.
            window: size of the window.
            options: the keys of `Options`: strides, padding, dilation, groups, use_bias,
                weight_init, dtype.

        Raises:
            ArgumentError: if the groups do not divide inputs and outputs.
        """
        return Conv1d(*_make(key, inputs, outputs, window, 1, options))

    def __call__(self, x: Float[Array, "batch w inputs"]) -> Float[Array, "batch x outputs"]:
        """Returns the convolution of x, plus the biases."""
        return _convolve(x, self.weight, self.bias, self.steps)


@module
class Conv2d:
    """A convolution of images (batch, height, width, channels).

    Example:
        >>> from tfn import random
        >>> layer = Conv2d.init(random.key(0), 1, 8, 3)
        >>> layer(jnp.ones((2, 28, 28, 1))).shape
        (2, 28, 28, 8)
    """

    weight: Float[Array, "height width channels outputs"]
    bias: Float[Array, " outputs"] | None
    steps: Steps = static()

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: Sizes, **options: Unpack[Options]
    ) -> Conv2d:
        """Returns a layer with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of channels of the input.
            outputs: number of channels of the output.
            window: (height, width) of the window; one integer for both.
            options: the keys of `Options`: strides, padding, dilation, groups, use_bias,
                weight_init, dtype.

        Raises:
            ArgumentError: if the groups do not divide inputs and outputs.
        """
        return Conv2d(*_make(key, inputs, outputs, window, 2, options))

    def __call__(self, x: Float[Array, "batch h w inputs"]) -> Float[Array, "batch y x outputs"]:
        """Returns the convolution of x, plus the biases."""
        return _convolve(x, self.weight, self.bias, self.steps)


@module
class Conv3d:
    """A convolution of volumes (batch, depth, height, width, channels).

    Example:
        >>> from tfn import random
        >>> Conv3d.init(random.key(0), 1, 2, 3)(jnp.ones((1, 4, 5, 6, 1))).shape
        (1, 4, 5, 6, 2)
    """

    weight: Float[Array, "depth height width channels outputs"]
    bias: Float[Array, " outputs"] | None
    steps: Steps = static()

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: Sizes, **options: Unpack[Options]
    ) -> Conv3d:
        """Returns a layer with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of channels of the input.
            outputs: number of channels of the output.
            window: (depth, height, width) of the window; one integer for all three.
            options: the keys of `Options`: strides, padding, dilation, groups, use_bias,
                weight_init, dtype.

        Raises:
            ArgumentError: if the groups do not divide inputs and outputs.
        """
        return Conv3d(*_make(key, inputs, outputs, window, 3, options))

    def __call__(
        self, x: Float[Array, "batch d h w inputs"]
    ) -> Float[Array, "batch z y x outputs"]:
        """Returns the convolution of x, plus the biases."""
        return _convolve(x, self.weight, self.bias, self.steps)


@module
class ConvTranspose1d:
    """A transposed convolution of sequences: `strides` outputs for each position of the input.

    Example:
        >>> from tfn import random
        >>> ConvTranspose1d.init(random.key(0), 4, 8, 3, strides=2)(jnp.ones((2, 50, 4))).shape
        (2, 100, 8)
    """

    weight: Float[Array, "window inputs outputs"]
    bias: Float[Array, " outputs"] | None
    steps: Steps = static()

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: Sizes, **options: Unpack[Options]
    ) -> ConvTranspose1d:
        """Returns a layer with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of channels of the input.
            outputs: number of channels of the output.
            window: size of the window.
            options: the keys of `Options` without groups.

        Raises:
            ArgumentError: for groups.
        """
        return ConvTranspose1d(*_make(key, inputs, outputs, window, 1, _ungrouped(options)))

    def __call__(self, x: Float[Array, "batch w inputs"]) -> Float[Array, "batch x outputs"]:
        """Returns the transposed convolution of x, plus the biases."""
        return _transpose(x, self.weight, self.bias, self.steps)


@module
class ConvTranspose2d:
    """A transposed convolution of images: strides[0] * strides[1] outputs for each pixel.

    Example:
        >>> from tfn import random
        >>> layer = ConvTranspose2d.init(random.key(0), 4, 8, 3, strides=2)
        >>> layer(jnp.ones((2, 7, 7, 4))).shape
        (2, 14, 14, 8)
    """

    weight: Float[Array, "height width inputs outputs"]
    bias: Float[Array, " outputs"] | None
    steps: Steps = static()

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: Sizes, **options: Unpack[Options]
    ) -> ConvTranspose2d:
        """Returns a layer with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of channels of the input.
            outputs: number of channels of the output.
            window: (height, width) of the window; one integer for both.
            options: the keys of `Options` without groups.

        Raises:
            ArgumentError: for groups.
        """
        return ConvTranspose2d(*_make(key, inputs, outputs, window, 2, _ungrouped(options)))

    def __call__(self, x: Float[Array, "batch h w inputs"]) -> Float[Array, "batch y x outputs"]:
        """Returns the transposed convolution of x, plus the biases."""
        return _transpose(x, self.weight, self.bias, self.steps)


@module
class ConvTranspose3d:
    """A transposed convolution of volumes (batch, depth, height, width, channels).

    Example:
        >>> from tfn import random
        >>> layer = ConvTranspose3d.init(random.key(0), 2, 1, 2, strides=2)
        >>> layer(jnp.ones((1, 2, 3, 4, 2))).shape
        (1, 4, 6, 8, 1)
    """

    weight: Float[Array, "depth height width inputs outputs"]
    bias: Float[Array, " outputs"] | None
    steps: Steps = static()

    @staticmethod
    def init(
        key: KeyLike, inputs: int, outputs: int, window: Sizes, **options: Unpack[Options]
    ) -> ConvTranspose3d:
        """Returns a layer with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            inputs: number of channels of the input.
            outputs: number of channels of the output.
            window: (depth, height, width) of the window; one integer for all three.
            options: the keys of `Options` without groups.

        Raises:
            ArgumentError: for groups.
        """
        return ConvTranspose3d(*_make(key, inputs, outputs, window, 3, _ungrouped(options)))

    def __call__(
        self, x: Float[Array, "batch d h w inputs"]
    ) -> Float[Array, "batch z y x outputs"]:
        """Returns the transposed convolution of x, plus the biases."""
        return _transpose(x, self.weight, self.bias, self.steps)
