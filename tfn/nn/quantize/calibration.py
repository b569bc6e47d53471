"""Calibration: the ranges of activations, observed on data.

A range is a pytree of two arrays, and observing is a pure function, so both work inside `jit` and
`scan`, and ranges are averaged or saved like any parameters.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError
from tfn.extend import a_function, operands, real_number
from tfn.nn import module
from tfn.nn.quantize.affine import Quantization, per_tensor, symmetric

if TYPE_CHECKING:
    from jaxtyping import Float


@module
class Range:
    """The least and the greatest number of an activation.

    Example:
        >>> observe(jnp.array([1.0, -2.0])).low.item()
        -2.0
    """

    low: Float[Array, ""]
    high: Float[Array, ""]

    def quantization(self, bits: int = 8) -> Quantization:
        """Returns the quantization that covers the range; see `per_tensor`."""
        return per_tensor(self.low, self.high, bits)

    def largest(self) -> float:
        """Returns the largest magnitude of the range, which is concrete."""
        return max(abs(float(self.low)), abs(float(self.high)))

    def symmetric(self, bits: int = 8) -> Quantization:
        """Returns the quantization with zero point 0 that covers the range; see `symmetric`."""
        return symmetric(jnp.stack([self.low, self.high]), None, bits)

    def union(self, other: Range) -> Range:
        """Returns the range that covers both."""
        return Range(jnp.minimum(self.low, other.low), jnp.maximum(self.high, other.high))


def observe(x: Float[ArrayLike, "*shape"], percent: float = 100.0) -> Range:
    """Returns the range of the elements of an array.

    Args:
        x: an activation.
        percent: the share of the elements that the range covers, in the middle of the sorted ones;
            below 100, outliers are cut off, and the scale is finer for the rest.

    Raises:
        ArgumentError: unless percent is above 0 and at most 100, or if x is empty.

    Example:
        >>> round(observe(jnp.arange(1001.0), percent=80).high.item())
        900
    """
    x = operands.array_of("observe", x)
    if real_number("observe", "percent", percent, 0, 100) == 0 or not x.size:
        raise ArgumentError(
            "observe needs elements to cover",
            got=f"percent={percent}, an array of shape {x.shape}",
            hint="percent is above 0, 100 for all elements",
        )
    if percent == 100:
        return Range(x.min(), x.max())
    rest = (100 - percent) / 2
    low, high = jnp.percentile(x, jnp.array([rest, 100 - rest]))
    return Range(low, high)


def follow(average: Range, seen: Range, momentum: float = 0.99) -> Range:
    """Returns a moving average of ranges, for training with fake quantization.

    Args:
        average: the average so far.
        seen: the range in the present batch.
        momentum: the weight of the average so far.

    Example:
        >>> zero, one = Range(jnp.zeros(()), jnp.zeros(())), Range(jnp.zeros(()), jnp.ones(()))
        >>> follow(zero, one, momentum=0.5).high.item()
        0.5
    """
    real_number("follow", "momentum", momentum, 0, 1)
    mixed: Range = tree.map(lambda a, b: a * momentum + b * (1 - momentum), average, seen)
    return mixed


def calibrate(
    activations: Callable[[Any], Any], batches: Iterable[Any], percent: float = 100.0
) -> Any:
    """Returns the range of each activation over batches of data.

    Args:
        activations: maps a batch to a tree of activations.
        batches: at least one.
        percent: the share of the elements of a batch that its range covers; see `observe`.

    Returns:
        A tree of the same structure with a `Range` for each activation.

    Raises:
        ArgumentError: if there are no batches.

    Example:
        >>> ranges = calibrate(lambda x: {"twice": 2 * x}, [jnp.array([1.0]), jnp.array([-3.0])])
        >>> ranges["twice"].low.item(), ranges["twice"].high.item()
        (-6.0, 2.0)
    """
    a_function("calibrate", "activations", activations)
    covered: Any = None
    for batch in batches:
        seen = tree.map(lambda x: observe(x, percent), activations(batch))
        covered = (
            seen
            if covered is None
            else tree.map(Range.union, covered, seen, is_leaf=lambda x: isinstance(x, Range))
        )
    if covered is None:
        raise ArgumentError(
            "calibrate needs data", got="no batches", hint="pass a list of some hundred examples"
        )
    return covered
