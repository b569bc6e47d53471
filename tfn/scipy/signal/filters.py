"""Recursive filters: `lfilter`, `sosfilt`, and both in two directions."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ShapeError
from tfn.extend import one_of, operands, shown
from tfn.scipy.structured_matrices import companion

if TYPE_CHECKING:
    from jaxtyping import Inexact, Num


def _coefficients(name: str, b: ArrayLike, a: ArrayLike, *others: Array) -> tuple[Array, Array]:
    """Both in one length and dtype, divided by the first one of the denominator."""
    given: list[Any] = [x if hasattr(x, "dtype") else np.asarray(x) for x in (b, a)]
    if any(x.ndim > 1 or not x.size for x in given):
        got = ", ".join(str(x.shape) for x in given)
        raise ShapeError(f"{name} needs two vectors of coefficients", got=got)
    # Lists have the precision of the signal.
    typed = [x.dtype for x in (b, a) if hasattr(x, "dtype")]
    least = "complex64" if any(x.dtype.kind == "c" for x in given) else "float32"
    kind = jnp.promote_types(jnp.result_type(*typed, *others, "float32"), least)
    size = max(x.size for x in given)
    above, below = (jnp.asarray(x, kind).reshape(-1) for x in given)
    above, below = (jnp.pad(x / below[0], (0, size - x.size)) for x in (above, below))
    return above, below


def lfilter(
    b: Inexact[ArrayLike, " p"],
    a: Inexact[ArrayLike, " q"],
    x: Num[ArrayLike, "*shape"],
    axis: int = -1,
    zi: Inexact[ArrayLike, "*state"] | None = None,
) -> Any:
    """A signal filtered by a rational transfer function, in the transposed direct form II.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator, of which the first is not 0.
        x: signals.
        axis: the axis of time.
        zi: the state before, of ``max(p, q) - 1`` elements along the axis; None for rest.

    Returns:
        Signals like `x`; with `zi` a pair of these and of the state after.

    Raises:
        ShapeError: unless coefficients are vectors.
        AxisError: if there is no such axis.

    Source: A. Oppenheim, R. Schafer, Discrete-time signal processing (2010), section 6.3.

    Example:
        >>> import tfn.numpy as tnp
        >>> lfilter([0.5], [1.0, -0.5], tnp.array([1.0, 0.0, 0.0])).tolist()
        [0.5, 0.25, 0.125]
    """
    signal = operands.array_of("lfilter", x)
    above, below = _coefficients("lfilter", b, a, signal)
    values = jnp.moveaxis(signal, axis, 0).astype(above.dtype)
    size = above.size - 1
    if zi is None:
        state = jnp.zeros((size, *values.shape[1:]), above.dtype)
    else:
        state = jnp.moveaxis(jnp.asarray(zi, above.dtype), axis, 0)
        state = jnp.broadcast_to(state, (size, *values.shape[1:]))
    y, after = _section(above, below, values, state)
    found = jnp.moveaxis(y, 0, axis)
    return found if zi is None else (found, jnp.moveaxis(after, 0, axis))


def _section(above: Array, below: Array, values: Array, state: Array) -> tuple[Array, Array]:
    """A signal along the first axis through one filter, and the state after."""
    up, down = (x[1:].reshape(-1, *[1] * (values.ndim - 1)) for x in (above, below))

    def step(z: Array, x: Array) -> tuple[Array, Array]:
        y = above[0] * x + (z[0] if z.shape[0] else 0)
        moved = jnp.concatenate([z[1:], jnp.zeros_like(z[:1])])
        return moved + up * x - down * y, y

    after, y = lax.scan(step, state, values)
    return y, after


def lfilter_zi(b: Inexact[ArrayLike, " p"], a: Inexact[ArrayLike, " q"]) -> Array:
    """The state of `lfilter` after a long signal of ones.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.

    Returns:
        A vector of ``max(p, q) - 1`` elements.

    Raises:
        ShapeError: unless coefficients are vectors.

    Source: F. Gustafsson, Determining the initial states in forward-backward filtering (1996).

    Example:
        >>> lfilter_zi([0.5], [1.0, -0.5]).tolist()
        [0.5]
    """
    above, below = _coefficients("lfilter_zi", b, a)
    if above.size < 2:
        return above[1:]
    matrix = jnp.eye(above.size - 1, dtype=above.dtype) - companion(below).T
    zi: Array = jnp.linalg.solve(matrix, above[1:] - below[1:] * above[0])
    return zi


def _extended(values: Array, padtype: str | None, padlen: int) -> Array:
    """The signal along the first axis, with its ends mirrored, or held."""
    if padtype is None or not padlen:
        return values
    first, last = values[:1], values[-1:]
    before, after = values[padlen:0:-1], values[-2 : -padlen - 2 : -1]
    if padtype == "odd":
        before, after = 2 * first - before, 2 * last - after
    if padtype == "constant":
        before, after = first + 0 * before, last + 0 * after
    return jnp.concatenate([before, values, after])


PADDINGS = ("odd", "even", "constant", None)


def _both_ways(
    name: str, run: Any, x: ArrayLike, axis: int, padtype: str | None, padlen: int
) -> Array:
    """A signal filtered forth, then back, so that nothing is late."""
    one_of(name, "padtype", padtype, PADDINGS)
    values = jnp.moveaxis(operands.array_of(name, x), axis, 0)
    if padtype is not None and padlen >= values.shape[0]:
        raise ShapeError(
            f"{name} needs more than {padlen} samples", got=shown(values), hint="a smaller padlen"
        )
    long = _extended(values, padtype, padlen)
    for _ in range(2):
        long = run(long)[::-1]
    count = padlen if padtype is not None else 0
    return jnp.moveaxis(long[count : long.shape[0] - count], 0, axis)


def filtfilt(
    b: Inexact[ArrayLike, " p"],
    a: Inexact[ArrayLike, " q"],
    x: Num[ArrayLike, "*shape"],
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Array:
    """A signal filtered forth and back: no phase is shifted.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        x: signals.
        axis: the axis of time.
        padtype: how ends go on: "odd", "even", "constant", or None for not.
        padlen: by how many samples; None for three times the longer of `a` and `b`.

    Returns:
        Signals like `x`.

    Raises:
        ShapeError: for a signal that is not longer than `padlen`.
        ArgumentError: for another `padtype`.

    Source: F. Gustafsson, Determining the initial states in forward-backward filtering (1996).

    Example:
        >>> import tfn.numpy as tnp
        >>> filtfilt([0.5], [1.0, -0.5], tnp.ones(8)).round(3).tolist()[:3]
        [1.0, 1.0, 1.0]
    """
    signal = operands.array_of("filtfilt", x)
    above, below = _coefficients("filtfilt", b, a, signal)
    zi = lfilter_zi(b, a).astype(above.dtype)

    def run(values: Array) -> Array:
        values = values.astype(above.dtype)
        state = zi.reshape(-1, *[1] * (values.ndim - 1)) * values[:1]
        return _section(above, below, values, state)[0]

    length = 3 * above.size if padlen is None else padlen
    return _both_ways("filtfilt", run, signal, axis, padtype, length)


def _sections(name: str, sos: ArrayLike, *others: Array) -> Array:
    """Sections in one dtype, divided by the first ones of their denominators."""
    rows = jnp.asarray(sos)
    if rows.ndim != 2 or rows.shape[1] != 6:
        raise ShapeError(f"{name} needs sections of six coefficients", got=shown(rows))
    kind = jnp.promote_types(jnp.result_type(rows, *others), "float32")
    return (rows / rows[:, 3:4]).astype(kind)


def sosfilt(
    sos: Inexact[ArrayLike, "sections 6"],
    x: Num[ArrayLike, "*shape"],
    axis: int = -1,
    zi: Inexact[ArrayLike, "sections ..."] | None = None,
) -> Any:
    """A signal filtered by sections of second order, one after the other.

    Args:
        sos: for each section three coefficients of the numerator, then of the denominator.
        x: signals.
        axis: the axis of time.
        zi: the states before, two elements for each section along the axis; None for rest.

    Returns:
        Signals like `x`; with `zi` a pair of these and of the states after.

    Raises:
        ShapeError: unless sections have six coefficients.
        AxisError: if there is no such axis.

    Source: A. Oppenheim, R. Schafer, Discrete-time signal processing (2010), section 6.3.

    Example:
        >>> import tfn.numpy as tnp
        >>> sos = tnp.array([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]])
        >>> sosfilt(sos, tnp.array([1.0, 0.0, 0.0])).tolist()
        [0.5, 0.25, 0.125]
    """
    signal = operands.array_of("sosfilt", x)
    rows = _sections("sosfilt", sos, signal)
    values = jnp.moveaxis(signal, axis, 0).astype(rows.dtype)
    shape = (rows.shape[0], 2, *values.shape[1:])
    if zi is None:
        states = jnp.zeros(shape, rows.dtype)
    else:
        given = jnp.asarray(zi, rows.dtype)
        states = jnp.broadcast_to(jnp.moveaxis(given, axis if axis < 0 else axis + 1, 1), shape)
    y, after = _cascade(rows, values, states)
    found = jnp.moveaxis(y, 0, axis)
    if zi is None:
        return found
    return found, jnp.moveaxis(after, 1, axis if axis < 0 else axis + 1)


def _cascade(rows: Array, values: Array, states: Array) -> tuple[Array, Array]:
    """A signal along the first axis through all sections, and the states after."""

    def step(z: Array, x: Array) -> tuple[Array, Array]:
        after = []
        for row, state in zip(rows, z, strict=True):
            b, a = row[:3], row[3:]
            y = b[0] * x + state[0]
            after.append(jnp.stack([b[1] * x - a[1] * y + state[1], b[2] * x - a[2] * y]))
            x = y
        return jnp.stack(after), x

    after, y = lax.scan(step, states, values)
    return y, after


def sosfilt_zi(sos: Inexact[ArrayLike, "sections 6"]) -> Array:
    """The states of `sosfilt` after a long signal of ones.

    Args:
        sos: the sections.

    Returns:
        Two elements for each section.

    Raises:
        ShapeError: unless sections have six coefficients.

    Example:
        >>> import tfn.numpy as tnp
        >>> sosfilt_zi(tnp.array([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]])).tolist()
        [[0.5, 0.0]]
    """
    rows = _sections("sosfilt_zi", sos)
    gain = jnp.ones((), rows.dtype)
    found = []
    for row in rows:
        found.append(gain * lfilter_zi(row[:3], row[3:]))
        gain = gain * row[:3].sum() / row[3:].sum()
    return jnp.stack(found)


def sosfiltfilt(
    sos: Inexact[ArrayLike, "sections 6"],
    x: Num[ArrayLike, "*shape"],
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Array:
    """A signal filtered by sections forth and back: no phase is shifted.

    Args:
        sos: the sections.
        x: signals.
        axis: the axis of time.
        padtype: how ends go on: "odd", "even", "constant", or None for not.
        padlen: by how many samples; None for three times the length of the whole filter, if its
            coefficients are known.

    Returns:
        Signals like `x`.

    Raises:
        ShapeError: for a signal that is not longer than `padlen`.
        ArgumentError: for another `padtype`.

    Source: F. Gustafsson, Determining the initial states in forward-backward filtering (1996).

    Example:
        >>> import tfn.numpy as tnp
        >>> sos = tnp.array([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]])
        >>> sosfiltfilt(sos, tnp.ones(8), padlen=4).round(3).tolist()[:3]
        [1.0, 1.0, 1.0]
    """
    signal = operands.array_of("sosfiltfilt", x)
    rows = _sections("sosfiltfilt", sos, signal)
    zi = sosfilt_zi(rows)
    if padlen is None:
        # Sections that end in zeros on both sides are shorter.
        zeros = [int((rows[:, i] == 0).sum()) for i in (2, 5)] if padtype else [0, 0]
        padlen = 3 * (2 * rows.shape[0] + 1 - min(zeros))

    def run(values: Array) -> Array:
        values = values.astype(rows.dtype)
        states = zi.reshape(*zi.shape, *[1] * (values.ndim - 1)) * values[:1]
        return _cascade(rows, values, states)[0]

    return _both_ways("sosfiltfilt", run, signal, axis, padtype, padlen)
