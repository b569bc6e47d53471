"""Densities estimated from samples: `gaussian_kde`.

Source: D. W. Scott, "Multivariate density estimation", 1992; B. W. Silverman, "Density estimation
for statistics and data analysis", 1986 (the widths).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import operands, unfit
from tfn.nn import logsumexp
from tfn.random import KeyLike, choice, normal, split
from tfn.scipy.special import ndtr


class GaussianKDE(NamedTuple):
    """A density: the mean of Gaussian kernels around samples.

    Attributes:
        neff: the number of samples that count, less than all if weights differ.
        dataset: the samples, in columns.
        weights: of the samples; they add up to 1.
        covariance: of the kernels.
        inv_cov: its inverse.
    """

    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points, in columns."""
        points = self._points("logpdf", x)
        factor = jnp.linalg.cholesky(self.covariance)
        flags: Any = {"left_side": True, "lower": True}
        inside = lax.linalg.triangular_solve(factor, self.dataset, **flags)
        outside = lax.linalg.triangular_solve(factor, points, **flags)
        square = ((outside[:, :, None] - inside[:, None, :]) ** 2).sum(0)
        scale = jnp.log(jnp.diagonal(factor)).sum() + self.d / 2 * math.log(2 * math.pi)
        return logsumexp(jnp.log(self.weights) - square / 2, 1) - scale

    def pdf(self, x: ArrayLike) -> Array:
        """The density at points, in columns."""
        return jnp.exp(self.logpdf(x))

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points, in columns."""
        return self.pdf(points)

    def __call__(self, points: ArrayLike) -> Array:
        """The density at points, in columns."""
        return self.pdf(points)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times that of a normal distribution."""
        center = jnp.atleast_1d(operands.array_of("integrate_gaussian", mean))
        spread = jnp.atleast_2d(operands.array_of("integrate_gaussian", cov))
        if center.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise unfit(
                f"integrate_gaussian needs a mean and a covariance of {self.d} dimensions",
                (center, spread),
                "pass a vector and a square matrix",
            )
        return self._overlap(center[:, None], jnp.ones(1), spread)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between two numbers, for one dimension."""
        if self.d != 1:
            raise ShapeError(
                "integrate_box_1d needs a density of one dimension", got=f"{self.d} dimensions"
            )
        width = jnp.sqrt(self.covariance[0, 0])
        ends = [(operands.array_of("box", end) - self.dataset[0]) / width for end in (low, high)]
        return ((ndtr(ends[1]) - ndtr(ends[0])) * self.weights).sum()

    def integrate_kde(self, other: GaussianKDE) -> Array:
        """The integral of the product of two densities."""
        if other.d != self.d:
            raise ShapeError(
                "integrate_kde needs densities of as many dimensions", got=f"{self.d}, {other.d}"
            )
        return self._overlap(other.dataset, other.weights, other.covariance)

    def resample(self, key: KeyLike, shape: tuple[int, ...] = ()) -> Array:
        """Samples of the density, with the dimensions along the first axis."""
        first, second = split(key)
        chosen = choice(first, self.n, shape, p=self.weights)
        factor = jnp.linalg.cholesky(self.covariance)
        noise = normal(second, (self.d, *shape), self.dataset.dtype)
        return self.dataset[:, chosen] + jnp.tensordot(factor, noise, 1)

    def _overlap(self, centers: Array, weights: Array, spread: Array) -> Array:
        factor = jnp.linalg.cholesky(self.covariance + spread)
        flags: Any = {"left_side": True, "lower": True}
        inside = lax.linalg.triangular_solve(factor, self.dataset, **flags)
        outside = lax.linalg.triangular_solve(factor, centers.astype(factor.dtype), **flags)
        square = ((outside[:, :, None] - inside[:, None, :]) ** 2).sum(0)
        scale = jnp.prod(jnp.diagonal(factor)) * (2 * math.pi) ** (self.d / 2)
        total = (jnp.exp(-square / 2) * self.weights).sum(1)
        overlap: Array = (total * weights).sum() / scale
        return overlap

    def _points(self, name: str, x: ArrayLike) -> Array:
        points: Array = jnp.atleast_2d(operands.array_of(name, x)).astype(self.dataset.dtype)
        if points.shape[0] != self.d:
            if points.shape[0] != 1 or points.shape[1] != self.d:
                raise unfit(
                    f"{name} needs points of {self.d} dimensions, in columns",
                    (points,),
                    "the first axis has the dimensions",
                )
            points = points.T
        return points


def gaussian_kde(
    dataset: ArrayLike,
    bw_method: str | float | Callable[[Any], Any] | None = None,
    weights: ArrayLike | None = None,
) -> GaussianKDE:
    """The density of samples by Gaussian kernels.

    Args:
        dataset: the samples in columns, or a vector for one dimension; two at least.
        bw_method: width of a kernel, as a factor of the deviation of the samples: "scott" or None,
            "silverman", a number, or a function of the density that gives one.
        weights: of the samples; None for equal ones.

    Returns:
        The density, a pytree.

    Raises:
        ArgumentError: for another method.
        ShapeError: for less than two samples, or another number of weights.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy import stats
        >>> density = stats.gaussian_kde(tnp.array([-1.0, 0.0, 1.0]))
        >>> round(density.pdf(0.0).item(), 4)
        0.3182
    """
    samples = jnp.atleast_2d(operands.array_of("gaussian_kde", dataset)) / 1
    d, n = samples.shape
    if samples.ndim != 2 or n < 2:
        raise ShapeError("gaussian_kde needs two samples at least, in columns", got=str((d, n)))
    shares = jnp.full(n, 1 / n, samples.dtype)
    if weights is not None:
        given = jnp.atleast_1d(operands.array_of("gaussian_kde", weights)).astype(samples.dtype)
        if given.shape != (n,):
            raise unfit("gaussian_kde needs a weight for each sample", (samples, given), "a vector")
        shares = given / given.sum()
    neff = 1 / (shares * shares).sum()
    of_data = jnp.atleast_2d(jnp.cov(samples, bias=False, aweights=shares))
    start = GaussianKDE(neff, samples, shares, of_data, of_data)
    if bw_method is None or bw_method == "scott":
        factor: Any = neff ** (-1 / (d + 4))
    elif bw_method == "silverman":
        factor = (neff * (d + 2) / 4) ** (-1 / (d + 4))
    elif callable(bw_method):
        factor = bw_method(start)
    elif isinstance(bw_method, str):
        raise ArgumentError(
            "gaussian_kde knows 'scott' and 'silverman'", got=f"bw_method={bw_method!r}"
        )
    else:
        factor = bw_method
    covariance = of_data * factor**2
    return GaussianKDE(neff, samples, shares, covariance, jnp.linalg.inv(covariance))
