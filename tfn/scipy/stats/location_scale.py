"""Location and scale: points of a distribution in units of its scale, and back."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import reals


def standardize(name: str, x: ArrayLike, *params_loc_scale: ArrayLike) -> list[Array]:
    """``(x - loc) / scale``, the parameters, and the scale, broadcast together.

    Args:
        name: name of the function that was called, for errors.
        x: points, an array or a number.
        *params_loc_scale: the other parameters, then loc and scale.
    """
    point, *params, loc, scale = reals(name, x, *params_loc_scale)
    return [(point - loc) / scale, *params, scale]


def rescale(z: Array, loc: ArrayLike, scale: ArrayLike) -> Array:
    """The points ``loc + scale * z``, which `standardize` makes z again.

    Args:
        z: points in units of the scale.
        loc: the point at z = 0, array or number.
        scale: the unit, array or number.
    """
    return jnp.add(loc, jnp.multiply(scale, z))
