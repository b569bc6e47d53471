"""Interpolation and integrals of samples, values of polynomials, covariances."""

from __future__ import annotations

from typing import Any

from tfn._support.validate import element_type, integer, one_of, rank, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, INTEGERS, DType, DTypeLike, canonical
from tfn.dtypes import part as part_of
from tfn.eager.arrays import weaken
from tfn.eager.operands import (
    apply,
    array_of,
    broadcast_shape,
    inexact,
    one_axis,
    operands_of,
    scalar_kind,
    together,
)
from tfn.errors import ArgumentError
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.arithmetic import remainder
from tfn.numpy.complex import conj
from tfn.numpy.concatenation import concatenate, section
from tfn.numpy.contraction import contract, matmul
from tfn.numpy.logic import where as select
from tfn.numpy.sorting import argsort, insertion_points
from tfn.trace import build
from tfn.trace.build import add_up, cast, eq, expand, full_like, reshape
from tfn.trace.build import where as choose
from tfn.trace.op import Shape
from tfn.trace.uop import UOp


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The piecewise linear function through the points (xp, fp), at `x`; constant outside.

    Args:
        x: real array or number, of any shape.
        xp: ascending vector of two points at least.
        fp: vector of the values there, real or complex.
        left: value below the first point; None takes the first one, "extrapolate" goes on straight.
        right: value beyond the last point, likewise.
        period: of `xp`, which then need not rise: points and places are taken modulo it, and `left`
            and `right` have no meaning.

    Returns:
        A floating array of the shape of `x`.

    Raises:
        ShapeError: unless `xp` and `fp` are vectors of one size, of two points at least.
        ArgumentError: for another text than "extrapolate".

    Example:
        >>> import tfn.numpy as tnp
        >>> interp(1.5, tnp.array([1.0, 2.0]), tnp.array([10.0, 20.0]))
        Array(15., dtype=float32)
    """
    (x, xp, fp), dtype, weak = together("interp", x, xp, fp, floating=True)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.size < 2:
        raise unfit(
            "interp needs two vectors of one size, two points at least",
            (xp, fp),
            "pass xp, which rises, and the values fp at those places",
        )
    if period is not None:
        if scalar_kind(period) is not None and not period:
            raise ArgumentError(
                "interp needs a period other than 0",
                got=f"period={period!r}",
                hint="period=None takes points that rise",
            )
        size: Any = magnitude(operands_of("interp", period, x, xp)[0])
        x, places = remainder(x, size), remainder(xp, size)
        order = argsort(places)
        line, fp = places[order], fp[order]
        xp = concatenate([line[-1:] - size, line, line[:1] + size])
        fp = concatenate([fp[-1:], fp, fp[:1]])
        left = right = None
    for name, side in (("left", left), ("right", right)):
        if isinstance(side, str):
            one_of("interp", name, side, ("extrapolate",))
    result = apply(_interp, (x, xp, fp), dtype, isinstance(left, str), isinstance(right, str))
    for side, outside in ((left, x < xp[0]), (right, x > xp[-1])):
        if side is not None and not isinstance(side, str):
            result = select(outside, side, result)
    return weaken(result, weak)


def _interp(x: UOp, xp: UOp, fp: UOp, dtype: DType, left: bool, right: bool) -> UOp:
    x, xp, fp = cast(x, part_of(dtype)), cast(xp, part_of(dtype)), cast(fp, dtype)
    place = insertion_points(xp, x, x.dtype, left=False) - 1
    place = build.minimum(build.maximum(place, full_like(place, 0)), full_like(place, xp.size - 2))

    def at(line: UOp, index: UOp) -> UOp:
        values = build.gather(line, reshape(index, (*index.shape, 1)), (1,))
        return reshape(values, index.shape)

    lower_x, upper_x = at(xp, place), at(xp, place + 1)
    lower_y, upper_y = at(fp, place), at(fp, place + 1)
    zero, one, step = full_like(x, 0), full_like(x, 1), upper_x - lower_x
    coincident = eq(step, zero)  # two points at one x: the second counts
    fraction = choose(
        coincident & (lower_x <= x), one, (x - lower_x) / choose(coincident, one, step)
    )
    fraction = fraction if left else choose(fraction < 0, zero, fraction)
    fraction = cast(fraction if right else choose(fraction > 1, one, fraction), dtype)
    return lower_y * (1 - fraction) + upper_y * fraction


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral of samples along an axis by the trapezoidal rule.

    Args:
        y: array of samples.
        x: positions of the samples, a vector or of the shape of `y`; None takes the distance `dx`.
        dx: distance of two samples, a number or an array that broadcasts; 1 by default.
        axis: axis of the samples, counted from the end if negative; the last by default.

    Returns:
        A floating array without the axis, 0 for fewer than two samples.

    Raises:
        ShapeError: if `x` is neither a vector of the axis nor of the shape of `y`.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> trapezoid(tnp.array([1.0, 2.0, 3.0])).item()
        4.0
    """
    y = array_of("trapezoid", y)
    at = one_axis("trapezoid", axis, y.ndim)
    if x is None:
        operands, dtype, _ = together("trapezoid", y, dx, floating=True)
        return apply(_trapezoid, operands, dtype, at)
    places = array_of("trapezoid", x)
    if places.shape not in ((y.shape[at],), y.shape):
        raise unfit(
            "trapezoid needs places for the axis, or for every sample",
            (places, y),
            "pass as many places as samples along the axis, or dx, their distance",
            f", axis={axis}",
        )
    if places.ndim == 1:
        places = places.reshape(tuple(n if a == at else 1 for a, n in enumerate(y.shape)))
    steps = apply(_steps, (places,), at)
    operands, dtype, _ = together("trapezoid", y, steps, floating=True)
    return apply(_trapezoid, operands, dtype, at)


def _steps(x: UOp, axis: int) -> UOp:
    size = x.shape[axis]
    return section(x, axis, min(1, size), size) - section(x, axis, 0, max(size - 1, 0))


def _trapezoid(y: UOp, step: UOp, dtype: DType, axis: int) -> UOp:
    y, step = cast(y, dtype), cast(step, dtype)
    size = y.shape[axis]
    pairs = section(y, axis, min(1, size), size) + section(y, axis, 0, max(size - 1, 0))
    return add_up(pairs * build.broadcast_to(step, pairs.shape), (axis,)) / 2


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The polynomial with coefficients `p`, the highest power first, at `x`: Horner's rule.

    Args:
        p: the coefficients; more axes hold those of other polynomials, and broadcast with `x`.
        x: array or number.
        unroll: accepted as in JAX, and changes nothing.

    Raises:
        ShapeError: if `p` is a scalar, or polynomials and places do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> polyval(tnp.array([1, 0, -1]), 3).item()
        8
        >>> polyval(tnp.array([[1, 2], [0, -1]]), 3).tolist()
        [3, 5]
    """
    operands, dtype, weak = together("polyval", p, x)
    rank("polyval", operands[0], 1, None, "of coefficients")
    shape = broadcast_shape("polyval", operands[0].shape[1:], operands[1].shape)
    return apply(_horner, operands, dtype, shape, weak=weak)


def _horner(p: UOp, x: UOp, dtype: DType, shape: Shape) -> UOp:
    p, x = cast(p, dtype), build.broadcast_to(cast(x, dtype), shape)
    total = full_like(x, 0)
    for i in range(p.shape[0]):
        coefficients = reshape(section(p, 0, i, i + 1), p.shape[1:])
        total = total * x + build.broadcast_to(coefficients, shape)
    return total


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables, the rows of `m`.

    The sum of squares is divided by the number of samples less `ddof`.

    Args:
        m: matrix with one variable in each row and one sample in each column, or one variable.
        y: more variables, of the same form; None for none.
        rowvar: whether rows are variables; else columns are.
        bias: whether `ddof` is 0 by default, and not 1.
        ddof: number by which the divisor is less than the number of samples; None follows `bias`.
        fweights: vector of the number of times that each sample counts; None for once.
        aweights: vector of the weight of each sample; None for 1.
        dtype: dtype in which it is computed, and of the result; None takes that of the variables.

    Returns:
        A floating matrix of the number of variables; a number for one variable.

    Raises:
        ShapeError: if there are more than two axes.
        ArgumentError: unless `ddof` is an integer.

    Example:
        >>> import tfn.numpy as tnp
        >>> cov(tnp.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """
    rows = _variables(m, rowvar)
    if y is not None:
        rows = concatenate([rows, _variables(y, rowvar)])
    ddof_or_default = (0 if bias else 1) if ddof is None else integer("cov", "ddof", ddof)
    kind = inexact((rows.dtype if dtype is None else canonical(dtype), False))[0]
    if fweights is not None:
        element_type("cov", array_of("cov", fweights), INTEGERS | {BOOL}, "integers as fweights")
    if fweights is None and aweights is None:
        out = apply(_covariance, (rows,), kind, ddof_or_default)
    else:
        real = part_of(kind)
        frequency = 1.0 if fweights is None else operands_of("cov", fweights, rows)[0].astype(real)
        reliability = (
            1.0 if aweights is None else operands_of("cov", aweights, rows)[0].astype(real)
        )
        weights: Any = frequency * reliability
        total = weights.sum()
        mean_reliability = 1.0 if aweights is None else (weights * reliability).sum() / total
        count = total - ddof_or_default * mean_reliability
        count = select(count > 0, count, 0)
        rows = rows.astype(kind)
        deviation = rows - (rows * weights).sum(1, keepdims=True) / total
        out = matmul(deviation * weights, conj(deviation).T) / count
    return out.reshape(()) if out.size == 1 else out


def _variables(m: ArrayLike, rowvar: bool) -> Array:
    m = array_of("cov", m)
    rank("cov", m, 0, 2)
    return m.reshape(1, m.size) if m.ndim < 2 else m if rowvar or m.shape[0] == 1 else m.T


def _covariance(x: UOp, dtype: DType, ddof: int) -> UOp:
    x = cast(x, dtype)
    mean = add_up(x, (1,), keepdims=True) / max(x.shape[1], 1)
    deviation = x - expand(mean, x.shape)
    return contract(deviation, build.conj(deviation), ((1,), (1,)), ((), ()), dtype) / (
        x.shape[1] - ddof if x.shape[1] > ddof else 0.0
    )
