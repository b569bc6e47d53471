"""Normalization layers: activations of mean 0 and variance 1 over some of their axes.

Sums are taken in 32 bits at least, whatever the dtype of the activations.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfn import lax
from tfn import numpy as jnp
from tfn._support.validate import element_type
from tfn.array import Array
from tfn.dtypes import FLOATS, DTypeLike
from tfn.errors import ArgumentError, ShapeError
from tfn.nn.functions import standardize
from tfn.nn.module import module, static

if TYPE_CHECKING:
    from jaxtyping import Float


def _scales(
    features: int, use_weight: bool, use_bias: bool, dtype: DTypeLike
) -> tuple[Array | None, Array | None]:
    """Returns factors of 1 and shifts of 0."""
    weight = jnp.ones((features,), dtype)
    element_type("a norm", weight, FLOATS, "parameters of a floating dtype")
    return weight if use_weight else None, jnp.zeros_like(weight) if use_bias else None


def _wide(x: Array) -> Array:
    """x in 32 bits at least, for sums over many elements."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _scaled(y: Array, weight: Array | None, bias: Array | None) -> Array:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@module
class LayerNorm:
    """The last axis standardized, then scaled and shifted.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.

    Example:
        >>> LayerNorm.init(4)(jnp.ones((2, 4))).shape
        (2, 4)
    """

    weight: Float[Array, " features"] | None
    bias: Float[Array, " features"] | None
    epsilon: float = static(default=1e-5)

    @staticmethod
    def init(
        features: int,
        *,
        epsilon: float = 1e-5,
        use_weight: bool = True,
        use_bias: bool = True,
        dtype: Any = float,
    ) -> LayerNorm:
        """Returns a norm with factors of 1 and shifts of 0.

        Args:
            features: size of the last axis.
            epsilon: added to the variance.
            use_weight: whether to multiply by a learned factor for each feature.
            use_bias: whether to add a learned number to each feature.
            dtype: floating dtype of the parameters; float32 by default.
        """
        return LayerNorm(*_scales(features, use_weight, use_bias, dtype), epsilon)

    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... features"]:
        """Returns x with mean 0 and variance 1 along the last axis, scaled and shifted."""
        y = standardize(_wide(x), epsilon=self.epsilon).astype(x.dtype)
        return _scaled(y, self.weight, self.bias)


@module
class RMSNorm:
    """The last axis divided by its root mean square, then scaled.

    Source: Zhang, Sennrich 2019, arXiv:1910.07467.

    Example:
        >>> RMSNorm.init(4)(jnp.ones((2, 4))).shape
        (2, 4)
    """

    weight: Float[Array, " features"] | None
    epsilon: float = static(default=1e-6)

    @staticmethod
    def init(
        features: int, *, epsilon: float = 1e-6, use_weight: bool = True, dtype: Any = float
    ) -> RMSNorm:
        """Returns a norm with factors of 1.

        Args:
            features: size of the last axis.
            epsilon: added to the mean square.
            use_weight: whether to multiply by a learned factor for each feature.
            dtype: floating dtype of the parameters; float32 by default.
        """
        return RMSNorm(_scales(features, use_weight, False, dtype)[0], epsilon)

    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... features"]:
        """Returns x with mean square 1 along the last axis, scaled."""
        wide = _wide(x)
        root = lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + self.epsilon)
        return _scaled((wide * root).astype(x.dtype), self.weight, None)


@module
class GroupNorm:
    """Each group of channels of each image standardized over space, then scaled and shifted.

    One group is a norm of layers, and as many groups as channels is a norm of instances.

    Source: Wu, He 2018, arXiv:1803.08494.

    Example:
        >>> GroupNorm.init(2, 8)(jnp.ones((3, 5, 5, 8))).shape
        (3, 5, 5, 8)
    """

    weight: Float[Array, " channels"] | None
    bias: Float[Array, " channels"] | None
    groups: int = static()
    epsilon: float = static(default=1e-5)

    @staticmethod
    def init(
        groups: int,
        channels: int,
        *,
        epsilon: float = 1e-5,
        use_weight: bool = True,
        use_bias: bool = True,
        dtype: Any = float,
    ) -> GroupNorm:
        """Returns a norm with factors of 1 and shifts of 0.

        Args:
            groups: number of groups of channels; 1 is a layer norm, as many as channels an instance
                norm.
            channels: number of channels, a multiple of `groups`.
            epsilon: added to the variance.
            use_weight: whether to multiply by a learned factor for each channel.
            use_bias: whether to add a learned number to each channel.
            dtype: floating dtype of the parameters; float32 by default.

        Raises:
            ArgumentError: if the groups do not divide the channels.
        """
        if groups < 1 or channels % groups:
            raise ArgumentError(
                "groups must divide the channels",
                got=f"{channels} channels, {groups} groups",
                hint="1 group and as many as channels always will do",
            )
        return GroupNorm(*_scales(channels, use_weight, use_bias, dtype), groups, epsilon)

    def __call__(
        self, x: Float[Array, "batch *space channels"]
    ) -> Float[Array, "batch *space channels"]:
        """Returns x with mean 0 and variance 1 in each group of each image, scaled and shifted."""
        grouped = _wide(x).reshape(*x.shape[:-1], self.groups, x.shape[-1] // self.groups)
        axes = (*range(1, x.ndim - 1), x.ndim)
        y = standardize(grouped, axes, epsilon=self.epsilon).reshape(x.shape)
        return _scaled(y.astype(x.dtype), self.weight, self.bias)


@module
class InstanceNorm:
    """Each channel of each image standardized over space, then scaled and shifted.

    Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.

    Example:
        >>> InstanceNorm.init(8)(jnp.ones((3, 5, 5, 8))).shape
        (3, 5, 5, 8)
    """

    weight: Float[Array, " channels"] | None
    bias: Float[Array, " channels"] | None
    epsilon: float = static(default=1e-5)

    @staticmethod
    def init(
        channels: int,
        *,
        epsilon: float = 1e-5,
        use_weight: bool = True,
        use_bias: bool = True,
        dtype: Any = float,
    ) -> InstanceNorm:
        """Returns a norm with factors of 1 and shifts of 0.

        Args:
            channels: number of channels.
            epsilon: added to the variance.
            use_weight: whether to multiply by a learned factor for each channel.
            use_bias: whether to add a learned number to each channel.
            dtype: floating dtype of the parameters; float32 by default.
        """
        return InstanceNorm(*_scales(channels, use_weight, use_bias, dtype), epsilon)

    def __call__(
        self, x: Float[Array, "batch *space channels"]
    ) -> Float[Array, "batch *space channels"]:
        """Returns x with mean 0 and variance 1 of each channel of each image, scaled and shifted.

        Raises:
            ShapeError: if there is no axis of space.
        """
        if x.ndim < 3:
            raise ShapeError(
                "an instance norm needs axes of space",
                got=f"an input of shape {x.shape}",
                hint="inputs are (batch, *space, channels)",
            )
        y = standardize(_wide(x), tuple(range(1, x.ndim - 1)), epsilon=self.epsilon)
        return _scaled(y.astype(x.dtype), self.weight, self.bias)


@module
class BatchNormState:
    """Running means and variances of the batches that a `BatchNorm` has seen, for each channel.

    Example:
        >>> BatchNorm.init(2)[1].variance.tolist()
        [1.0, 1.0]
    """

    mean: Float[Array, " channels"]
    variance: Float[Array, " channels"]


@module
class BatchNorm:
    """Each channel standardized over batch and space, then scaled and shifted.

    The state goes in and comes out; a module remembers nothing.

    Attributes:
        decay: fraction of the state that remains when a batch is added to it.
        axis_name: a named axis, of `vmap` or of a mesh, or a tuple of them, along which the batch
            is divided; its statistics are those of all parts.

    Source: Ioffe, Szegedy 2015, arXiv:1502.03167, algorithms 1 and 2.

    Example:
        >>> norm, state = BatchNorm.init(8)
        >>> y, state = norm(jnp.ones((3, 5, 5, 8)), state)
        >>> y, _ = norm(jnp.ones((3, 5, 5, 8)), state, inference=True)
    """

    weight: Float[Array, " channels"] | None
    bias: Float[Array, " channels"] | None
    decay: float = static(compared=False, default=0.9)
    epsilon: float = static(default=1e-5)
    axis_name: Any = static(compared=False, default=None)

    @staticmethod
    def init(
        channels: int,
        *,
        decay: float = 0.9,
        epsilon: float = 1e-5,
        use_weight: bool = True,
        use_bias: bool = True,
        axis_name: Any = None,
        dtype: Any = float,
    ) -> tuple[BatchNorm, BatchNormState]:
        """Returns a norm with factors of 1 and shifts of 0, and a state of mean 0 and variance 1.

        Args:
            channels: number of channels, the last axis.
            decay: fraction of the state that remains when a batch is added to it.
            epsilon: added to the variance.
            use_weight: whether to multiply by a learned factor for each channel.
            use_bias: whether to add a learned number to each channel.
            axis_name: a named axis, or a tuple of them, along which the batch is divided.
            dtype: floating dtype of the parameters; float32 by default.
        """
        scales = _scales(channels, use_weight, use_bias, dtype)
        norm = BatchNorm(*scales, decay, epsilon, axis_name)
        return norm, BatchNormState(jnp.zeros((channels,)), jnp.ones((channels,)))

    def __call__(
        self,
        x: Float[Array, "batch *space channels"],
        state: BatchNormState,
        *,
        inference: bool = False,
    ) -> tuple[Float[Array, "batch *space channels"], BatchNormState]:
        """Returns x standardized by the statistics of the batch, and the next state.

        Args:
            x: a batch of at least two elements for each channel, while training.
            state: the state before; used instead of the batch's statistics with `inference`.
            inference: whether to use the state, and return it as it is.

        Raises:
            ArgumentError: while training, for a batch of one element for each channel.
            AxisNameError: while training, if `axis_name` is no named axis here.
        """
        if inference:
            return self._by(x, state.mean, state.variance), state
        axes, count = tuple(range(x.ndim - 1)), x.size // max(x.shape[-1], 1)
        if self.axis_name is not None:
            count *= lax.axis_size(self.axis_name)
        if count == 1:
            raise ArgumentError(
                "one element for each channel has no variance",
                got=f"x of shape {x.shape}",
                hint="take a larger batch, or pass inference=True",
            )
        wide = x.astype(state.mean.dtype)
        mean = self._of_all(jnp.mean(wide, axes))
        variance = self._of_all(jnp.mean(jnp.square(wide - mean), axes))
        statistics = lax.stop_gradient((mean, variance * (count / (count - 1))))
        new = [
            self.decay * old + (1 - self.decay) * now
            for old, now in zip((state.mean, state.variance), statistics, strict=True)
        ]
        return self._by(x, mean, variance), BatchNormState(*new)

    def _of_all(self, mean: Array) -> Array:
        """The mean of the means of all parts of the batch, which are of one size."""
        if self.axis_name is None:
            return mean
        total: Array = lax.pmean(mean, self.axis_name)
        return total

    def _by(self, x: Array, mean: Array, variance: Array) -> Array:
        wide = (x.astype(mean.dtype) - mean) * lax.rsqrt(variance + self.epsilon)
        return _scaled(wide.astype(x.dtype), self.weight, self.bias)
