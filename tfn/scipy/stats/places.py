"""What densities are given, as arrays of one floating dtype: places in units of the scale."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import reals


def placed(name: str, x: ArrayLike, *params_loc_scale: ArrayLike) -> list[Array]:
    """``(x - loc) / scale``, the parameters, and the scale, broadcast together."""
    place, *params, loc, scale = reals(name, x, *params_loc_scale)
    return [(place - loc) / scale, *params, scale]


def moved(z: Array, loc: ArrayLike, scale: ArrayLike) -> Array:
    """``loc + scale * z``."""
    return jnp.add(loc, jnp.multiply(scale, z))
