"""Spherical harmonics and Bessel functions of integer order, by recurrences.

Sources: F. W. J. Olver and D. J. Sookne, "Note on backward recurrence algorithms", 1972 (Miller's
algorithm); NIST Digital Library of Mathematical Functions, 14.10.3, 14.30.1.
"""

from __future__ import annotations

import math
from typing import Any

from tfn import lax
from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT32, INTEGERS
from tfn.extend import custom_jvp, element_type, integer, one_of, operands
from tfn.scipy.normal import real

OUTSIDE = "pass n_max=, or call this outside of the traced function"


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind of the orders from 0 to v, along a new first axis.

    Args:
        z: real numbers.
        v: the largest order.
        n_iter: order at which the recurrence begins: more than v, and than the largest `z`.

    Returns:
        A floating array of v + 1 times the shape of `z`.

    Raises:
        ArgumentError: unless `v` is an integer from 0 on, and less than `n_iter`.

    Example:
        >>> bessel_jn(0.0, v=1).tolist()
        [1.0, 0.0]
    """
    v = integer("bessel_jn", "v", v, 0)
    count = integer("bessel_jn", "n_iter", n_iter, v + 1)
    return _bessel(real("bessel_jn", z), v, count)


def _bessel(z: Array, v: int, count: int) -> Array:
    kind = z.dtype
    return _bessel_of(z if kind.itemsize >= 4 else z.astype(FLOAT32), v, count).astype(kind)


def _bessel_rows(z: Array, v: int, count: int) -> Array:
    """Orders downward from small numbers, scaled so that J0 + 2 J2 + 2 J4 + ... is 1."""
    zero = z == 0
    safe = tnp.where(zero, 1, z)
    huge = 1e10 if z.dtype == FLOAT32 else 1e100

    def step(i: Array, carry: Any) -> Any:
        above, here, total, rows = carry
        n = count - i
        below = 2 * n / safe * here - above
        # Numbers grow as orders fall; all are scaled before they are too large.
        scale = tnp.where(abs(below) > huge, 1 / huge, 1)
        below, here, total, rows = (u * scale for u in (below, here, total, rows))
        order = n - 1
        even = order % 2 == 0
        total = total + tnp.where(even, tnp.where(order == 0, below, 2 * below), 0)
        there = tnp.arange(v + 1).reshape(-1, *[1] * z.ndim) == order
        return here, below, total, tnp.where(there, below, rows)

    tiny = tnp.full_like(z, 1e-30)
    rows = tnp.zeros((v + 1, *z.shape), z.dtype)
    start = tnp.zeros_like(z), tiny, tnp.zeros_like(z), rows
    *_, total, rows = lax.fori_loop(0, count, step, start)
    first = (tnp.arange(v + 1) == 0).reshape(-1, *[1] * z.ndim)
    return tnp.where(zero, tnp.where(first, 1, 0), rows / total).astype(z.dtype)


_bessel_of = custom_jvp(_bessel_rows, nondiff_argnums=(1, 2))


@_bessel_of.defjvp
def _bessel_jvp(v: int, count: int, primals: Any, tangents: Any) -> Any:
    (z,), (dz,) = primals, tangents
    rows = _bessel_of(z, v + 1, max(count, v + 2))
    before = tnp.concatenate([-rows[1:2], rows[:v]])
    return rows[: v + 1], (before - rows[1 : v + 2]) / 2 * dz


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonics of degree n and order m, with the phase of Condon and Shortley.

    Args:
        n: degrees, integers from 0 on.
        m: orders, integers from -n to n.
        theta: polar angles, from 0 to pi.
        phi: azimuths; all are broadcast.
        diff_n: accepted as in JAX: None or 0.
        n_max: the largest degree; None reads it, which needs known degrees.

    Returns:
        Complex numbers; 0 for orders beyond the degree.

    Raises:
        DTypeError: unless degrees and orders are integers.
        ShapeError: if the shapes do not broadcast.
        TracerArrayConversionError: without `n_max`, for traced degrees.

    Example:
        >>> round(sph_harm_y(0, 0, 0.0, 0.0).real.item(), 5)
        0.28209
    """
    one_of("sph_harm_y", "diff_n", diff_n, (None, 0))
    degree, order = operands.array_of("sph_harm_y", n), operands.array_of("sph_harm_y", m)
    for x in (degree, order):
        element_type("sph_harm_y", x, INTEGERS, "integer degrees and orders")
    if n_max is None:
        n_max = int(operands.known_values("sph_harm_y", degree, OUTSIDE).max(initial=0))
    n_max = integer("sph_harm_y", "n_max", n_max, 0)
    (polar, azimuth), dtype, _ = operands.together("sph_harm_y", theta, phi, floating=True)
    polar, azimuth = polar.astype(dtype), azimuth.astype(dtype)
    degree, order, polar, azimuth = tnp.broadcast_arrays(degree, order, polar, azimuth)
    size = abs(order)
    cosine, sine = tnp.cos(polar), tnp.sin(polar)
    # Normalised functions: up the diagonal to (m, m), then up in the degree.
    found = tnp.zeros_like(polar)
    diagonal = tnp.full_like(polar, 1 / math.sqrt(4 * math.pi))
    for k in range(n_max + 1):
        if k:
            diagonal = diagonal * sine * -math.sqrt((2 * k + 1) / (2 * k))
        before, here = tnp.zeros_like(polar), diagonal
        for j in range(k, n_max + 1):
            found = tnp.where((size == k) & (degree == j), here, found)
            scale = math.sqrt((4 * (j + 1) ** 2 - 1) / ((j + 1) ** 2 - k * k))
            loss = math.sqrt((j * j - k * k) / (4 * j * j - 1)) if j > k else 0.0
            before, here = here, scale * (cosine * here - loss * before)
    turned = lax.complex(tnp.cos(size * azimuth), tnp.sin(size * azimuth)) * found
    mirrored = tnp.where(size % 2 == 0, 1, -1) * tnp.conj(turned)
    return tnp.where(order < 0, mirrored, turned)
