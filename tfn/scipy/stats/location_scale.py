"""Location and scale: points of a distribution in units of its scale, and back."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import reals

POSITIVE_SHAPES = frozenset({"beta", "chi2", "gamma", "gennorm", "pareto", "t"})
"""The distributions whose parameters, besides loc, are all positive."""


def standardize(name: str, x: ArrayLike, *params_loc_scale: ArrayLike) -> list[Array]:
    """``(x - loc) / scale``, the parameters, and the scale, broadcast together.

    A scale that is not positive, or goes with parameters that are not allowed, is NaN, and with it
    all that is computed of it.

    Args:
        name: name of the function that was called, for errors.
        x: points, an array or a number.
        *params_loc_scale: the other parameters, then loc and scale.
    """
    point, *params, loc, scale = reals(name, x, *params_loc_scale)
    scale = positive(scale)
    all_positive = name.partition(".")[0] in POSITIVE_SHAPES
    for shape in params:
        scale = jnp.where(shape > 0 if all_positive else shape == shape, scale, jnp.nan)
    return [(point - loc) / scale, *params, scale]


def log_one_plus_square(z: Array) -> Array:
    """``log(1 + z * z)``, where ``z * z`` may overflow."""
    far = abs(z) > 1
    size = jnp.where(far, abs(z), 1)
    near = jnp.where(far, 0, z)
    return jnp.where(far, 2 * jnp.log(size) + jnp.log1p((1 / size) ** 2), jnp.log1p(near * near))


def rescale(z: Array, loc: ArrayLike, scale: ArrayLike) -> Array:
    """The points ``loc + scale * z``, which `standardize` makes z again.

    Args:
        z: points in units of the scale.
        loc: the point at z = 0, array or number.
        scale: the unit, array or number.
    """
    unit = reals("ppf", z, scale)[1]
    return jnp.add(loc, jnp.multiply(positive(unit), z))


def positive(parameter: Array) -> Array:
    """A parameter, NaN where it is not positive, as SciPy's distributions answer."""
    return jnp.where(parameter > 0, parameter, jnp.nan)


def probability(p: Array) -> Array:
    """A probability, NaN outside of 0 to 1."""
    return jnp.where((p >= 0) & (p <= 1), p, jnp.nan)


def unless_nan(z: Array, value: Array) -> Array:
    """A value, NaN where the point is."""
    return jnp.where(z == z, value, jnp.nan)
