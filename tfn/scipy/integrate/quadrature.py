"""Integrals of functions: `quad`, with ends that may be infinite or singular, and `cubature`.

Intervals, or boxes, are halved where the estimate of the error is largest, in a loop of bounded
length whose memory is the list of all parts.  Derivatives are those of the sum over the parts,
taken as given: by what the function closes over, by arguments, and by ends of intervals.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfn import lax, vmap
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ShapeError
from tfn.extend import a_function, one_of, shown

if TYPE_CHECKING:
    from jaxtyping import Float, Inexact, Int

Function = Callable[..., Any]

# fmt: off
KRONROD = np.array([
    0.995657163025808080735527280689003, 0.973906528517171720077964012084452,
    0.930157491355708226001207180059508, 0.865063366688984510732096688423493,
    0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
    0.562757134668604683339000099272694, 0.433395394129247190799265943165784,
    0.294392862701460198131126603103866, 0.14887433898163121088482600112972, 0,
])
KRONROD_WEIGHTS = np.array([
    0.011694638867371874278064396062192, 0.03255816230796472747881897245939,
    0.05475589657435199603138130024458, 0.07503967481091995276704314091619,
    0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109585166, 0.134709217311473325928054001771707,
    0.142775938577060080797094273138717, 0.147739104901338491374841515972068,
    0.149445554002916905664936468389821,
])
GAUSS_WEIGHTS = np.array([
    0, 0.066671344308688137593568809893332, 0, 0.149451349150580593145863396957698,
    0, 0.219086362515982043995534934228163, 0, 0.269266719309996355091226921569469,
    0, 0.295524224714752870173815619188769, 0,
])
# fmt: on
"""The rule of Gauss and Kronrod with 21 points, and that of Gauss with 10 of them, on [-1, 1].

Source: R. Piessens and others, QUADPACK (1983).
"""

NODES = np.concatenate([-KRONROD, KRONROD[-2::-1]])
WEIGHTS = np.concatenate([KRONROD_WEIGHTS, KRONROD_WEIGHTS[-2::-1]])
DIFFERENCES = WEIGHTS - np.concatenate([GAUSS_WEIGHTS, GAUSS_WEIGHTS[-2::-1]])


Rule = tuple[Any, Any, Any]
"""Points of the cube of [-1, 1], weights, and their differences from those of a lower order."""


def _product_rule(axes: int) -> Rule:
    grids = np.meshgrid(*[NODES] * axes, indexing="ij")
    nodes = np.stack(grids, -1).reshape(-1, axes)
    lower = [
        reduce(np.multiply.outer, [w] * axes).ravel() for w in (WEIGHTS, WEIGHTS - DIFFERENCES)
    ]
    return nodes, lower[0], lower[0] - lower[1]


def _genz_malik_rule(axes: int) -> Rule:
    """Points at the middle, on the axes, on the diagonals of two axes, and in the corners."""
    unit = np.eye(axes)
    signs = np.array([1, -1])[:, None, None]
    on_axes = (signs * unit).reshape(-1, axes)
    pairs = [
        first * unit[i] + second * unit[j]
        for i, j in combinations(range(axes), 2)
        for first, second in product((1, -1), repeat=2)
    ]
    corners = np.array(list(product((1, -1), repeat=axes)))
    outer = 0.9**0.5
    groups = [
        np.zeros((1, axes)),
        (9 / 70) ** 0.5 * on_axes,
        outer * on_axes,
        outer * np.array(pairs).reshape(-1, axes),
        (9 / 19) ** 0.5 * corners,
    ]
    n, volume = axes, 2.0**axes
    seventh = [12824 - 9120 * n + 400 * n * n, 2940, 1820 - 400 * n, 200, 6859 / volume]
    fifth = [729 - 950 * n + 50 * n * n, 367.5, (265 - 100 * n) / 2, 25, 0]
    weights, lower = (
        np.concatenate([np.full(len(g), volume * w / total) for g, w in zip(groups, row)])
        for row, total in ((seventh, 19683), (fifth, 729))
    )
    return np.concatenate(groups), weights, weights - lower


RULES: dict[str, Callable[[int], Rule]] = {"gk21": _product_rule, "genz-malik": _genz_malik_rule}


class CubatureResult(NamedTuple):
    """The result of `cubature`.

    Attributes:
        estimate: the integral.
        error: an estimate of its error.
        status: 0 if the error is within the tolerances, 1 if there are too many parts.
        subdivisions: halvings of boxes.
    """

    estimate: Inexact[Array, "*shape"]
    error: Float[Array, "*shape"]
    status: Int[Array, ""]
    subdivisions: Int[Array, ""]


def _largest(errors: Array) -> Array:
    """The largest error of each part, of all elements of a value."""
    return errors.reshape(errors.shape[0], -1).max(1)


def _adaptive(
    estimate: Callable[[Array, Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    atol: Any,
    rtol: Any,
    most: int,
) -> tuple[Array, Array, Array, Array, Array]:
    """The list of boxes that meets the tolerances, the error, whether it does, and halvings.

    A box is halved along the axis on which it is longest, in parts of the whole one.
    """
    widths = (high - low)[0]
    count = low.shape[0]
    pad = ((0, most), (0, 0))
    lows, highs = jnp.pad(low, pad), jnp.pad(high, pad)
    value, error = vmap(estimate)(low, high)
    values, errors = (
        jnp.concatenate([x, jnp.zeros((most, *x.shape[1:]), x.dtype)]) for x in (value, error)
    )

    def allowed(values: Array) -> Array:
        return jnp.maximum(atol, rtol * abs(values.sum(0)))

    def goes_on(carry: Any) -> Any:
        _, _, values, errors, n = carry
        total = errors.sum(0)
        return (n < most) & (total > allowed(values)).any() & jnp.isfinite(total).all()

    def step(carry: Any) -> Any:
        lows, highs, values, errors, n = carry
        worst = _largest(errors).argmax()
        a, b = lows[worst], highs[worst]
        axis = ((b - a) / jnp.where(widths == 0, 1, widths)).argmax()
        middle = jnp.where(jnp.arange(a.size) == axis, (a + b) / 2, b)
        start = jnp.where(jnp.arange(a.size) == axis, (a + b) / 2, a)
        pair = jnp.stack([a, start]), jnp.stack([middle, b])
        value, error = vmap(estimate)(*pair)
        # A box that is too short to halve has all that can be known of it.
        short = (middle[axis] <= a[axis]) | (start[axis] >= b[axis])
        error = jnp.where(short, 0, error)
        places = jnp.stack([worst, n + count])
        return (
            lows.at[places].set(pair[0]),
            highs.at[places].set(pair[1]),
            values.at[places].set(value),
            errors.at[places].set(error),
            n + 1,
        )

    start = (lows, highs, values, errors, jnp.array(0))
    lows, highs, values, errors, n = lax.while_loop(goes_on, step, start)
    error = errors.sum(0)
    return lows, highs, error, (error <= allowed(values)).all(), n


def _folded(f: Function, a: Array, b: Array) -> Function:
    """The function on [-1, 1] of the same integral, by variables that flatten its ends.

    A finite end is approached as a cube, an infinite one as the inverse of a square: where the
    function is infinite, or decays slowly, it becomes nearly smooth.
    """
    low, high = jnp.isfinite(a), jnp.isfinite(b)
    left, right = jnp.where(low, a, 0), jnp.where(high, b, 0)

    def on_unit(s: Array) -> Array:
        # Between finite ends the slope is v^2 (1 - v)^2, by the distance v from the nearer end.
        near = 1 - abs(s)
        v = near / 2
        gap = (right - left) * v**3 * (10 - 15 * v + 6 * v * v)
        # An end itself is no place of the function, however close.
        inner = [jnp.nextafter(left, right), jnp.nextafter(right, left)]
        finite = jnp.where(s < 0, left + gap, right - gap)
        reached = (finite == left) | (finite == right)
        finite = jnp.where(reached, jnp.where(s < 0, *inner), finite)
        finite_slope = 15 * (right - left) * (v * (1 - v)) ** 2
        # From one finite end x = end +- u^2 / (1 - u)^2 for u of [0, 1].
        u = (1 + s) / 2
        rest = jnp.maximum(1 - u, jnp.finfo(s.dtype).tiny ** 0.25)
        far, far_slope = (u / rest) ** 2, u / rest**3
        single = jnp.where(low, left + far, right - far)
        # Between infinite ends x = s / (1 - s^2).
        square = jnp.maximum(near * (1 + abs(s)), jnp.finfo(s.dtype).tiny ** 0.25)
        whole, whole_slope = s / square, (1 + s * s) / square**2
        x = jnp.where(low & high, finite, jnp.where(low | high, single, whole))
        slope = jnp.where(low & high, finite_slope, jnp.where(low | high, far_slope, whole_slope))
        y = f(x)
        return jnp.where(slope == 0, 0, y * slope)

    return on_unit


def quad(
    func: Function,
    a: Float[ArrayLike, ""],
    b: Float[ArrayLike, ""],
    args: tuple[Any, ...] = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Sequence[float] | None = None,
) -> Any:
    """The integral of a function of one number over an interval.

    Args:
        func: ``func(x, *args)`` gives a number, real or complex.
        a: the lower end; may be ``-inf``, or a place where `func` is infinite.
        b: the upper end, likewise.
        args: further arguments of `func`.
        full_output: whether to return a third thing, a dict with the evaluations "neval" and the
            parts "last".
        epsabs: absolute tolerance.
        epsrel: relative tolerance.
        limit: the most parts.
        points: places within a finite interval where `func` is not smooth.

    Returns:
        The integral, and an estimate of its error.

    Raises:
        ArgumentError: if `func` is no function.
        ShapeError: if its value is no number.

    Source: R. Piessens and others, QUADPACK (1983).

    Example:
        >>> import tfn.numpy as tnp
        >>> value, error = quad(lambda x: tnp.exp(-x * x), -tnp.inf, tnp.inf)
        >>> print(value.round(4))
        1.7725
    """
    a_function("quad", "func", func)
    kind = jnp.promote_types(jnp.result_type(a, b), "float32")
    low, high = jnp.asarray(a, kind), jnp.asarray(b, kind)
    breaks = [low, *(jnp.asarray(p, kind) for p in points or ()), high]
    ends = list(pairwise(breaks))

    def value(x: Array) -> Array:
        y = jnp.asarray(func(x, *args))
        if y.shape:
            raise ShapeError("quad needs a function that gives a number", got=shown(y))
        return y

    # The pieces between points, beside each other: piece i has the unit interval from i.
    pieces = jnp.stack([jnp.stack(pair) for pair in ends])

    def estimate(lower: Array, upper: Array) -> tuple[Array, Array]:
        piece = jnp.clip(jnp.floor(lower[0] / 2), 0, len(ends) - 1)
        first, last = pieces[piece.astype("int32")]
        f = _folded(value, first, last)
        half = (upper[0] - lower[0]) / 2
        middle = (upper[0] + lower[0]) / 2 - 2 * piece - 1
        y = vmap(f)(middle + half * jnp.asarray(NODES, kind))
        total, difference = (half * (jnp.asarray(w, kind) @ y) for w in (WEIGHTS, DIFFERENCES))
        mean = total / jnp.where(half == 0, 1, 2 * half)
        spread = half * (jnp.asarray(WEIGHTS, kind) @ abs(y - mean))
        return total, _sharpened(abs(difference), spread)

    starts = 2 * jnp.arange(len(ends), dtype=kind)[:, None]
    lows, highs, error, _, n = _adaptive(
        lambda lo, hi: lax.stop_gradient(estimate(lo, hi)),
        starts,
        starts + 2,
        epsabs,
        max(epsrel, 50 * float(jnp.finfo(kind).eps)),
        limit,
    )
    used = jnp.arange(lows.shape[0]) < n + len(ends)
    # Parts that are not used are the first one, which has a slope, and count for nothing.
    lows, highs = (
        jnp.where(used[:, None], x, y) for x, y in ((lows, starts[0]), (highs, starts[0] + 2))
    )
    totals = vmap(estimate)(lows, highs)[0]
    result = jnp.where(used, totals, 0).sum()
    if full_output:
        return result, error, {"neval": NODES.size * (2 * n + len(ends)), "last": n + len(ends)}
    return result, error


def _sharpened(difference: Array, spread: Array) -> Array:
    """The error of the longer rule by its difference from the shorter one, as in QUADPACK."""
    positive = spread > 0
    part = difference / jnp.where(positive, spread, 1)
    return jnp.where(positive, spread * jnp.minimum(1, (200 * part) ** 1.5), difference)


def cubature(
    f: Function,
    a: Float[ArrayLike, " axes"],
    b: Float[ArrayLike, " axes"],
    *,
    rule: str = "gk21",
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_subdivisions: int = 200,
    args: tuple[Any, ...] = (),
) -> CubatureResult:
    """The integral of a function over a box of several axes.

    Args:
        f: ``f(x, *args)`` gives an array with a value for each point, a row of the matrix x.
        a: the lower corner.
        b: the upper corner.
        rule: "gk21", the product of rules of Gauss and Kronrod, or "genz-malik", which has fewer
            points for more than two axes.
        rtol: relative tolerance.
        atol: absolute tolerance.
        max_subdivisions: the most halvings of a box.
        args: further arguments of `f`.

    Returns:
        The result; the estimate has derivatives, by corners too.

    Raises:
        ArgumentError: for another rule.
        ShapeError: unless corners are vectors of one size.

    Source: A. Genz and A. Malik, An adaptive algorithm for numerical integration over an
        N-dimensional rectangular region (1980), for the choice of boxes; R. Piessens and others,
        QUADPACK (1983), for the rules.

    Example:
        >>> import tfn.numpy as tnp
        >>> found = cubature(lambda x: x[:, 0] * x[:, 1], tnp.zeros(2), tnp.ones(2))
        >>> found.estimate.round(4).item()
        0.25
    """
    a_function("cubature", "f", f)
    one_of("cubature", "rule", rule, tuple(RULES))
    kind = jnp.promote_types(jnp.result_type(a, b), "float32")
    low, high = jnp.asarray(a, kind), jnp.asarray(b, kind)
    if low.ndim != 1 or low.shape != high.shape or not low.size:
        raise ShapeError("cubature needs corners of one size", got=f"{shown(low)}, {shown(high)}")
    nodes, weights, differences = (jnp.asarray(x, kind) for x in RULES[rule](low.size))

    def estimate(low: Array, high: Array) -> tuple[Array, Array]:
        half = (high - low) / 2
        y = jnp.asarray(f((low + high) / 2 + half * nodes, *args))
        volume = jnp.prod(half)
        total, difference = (volume * jnp.tensordot(w, y, 1) for w in (weights, differences))
        return total, abs(difference)

    fixed = lambda lo, hi: lax.stop_gradient(estimate(lo, hi))
    whole = lax.stop_gradient((low[None], high[None]))
    precision = max(rtol, 50 * float(jnp.finfo(kind).eps))
    lows, highs, error, met, n = _adaptive(fixed, *whole, atol, precision, max_subdivisions)
    # Boxes move with the corners.
    size = jnp.where(whole[1][0] == whole[0][0], 1, whole[1][0] - whole[0][0])
    used = (jnp.arange(lows.shape[0]) <= n)[:, None]
    kept = [jnp.where(used, x, y) for x, y in zip((lows, highs), whole, strict=True)]
    parts = [low + (x - whole[0]) / size * (high - low) for x in kept]
    totals = vmap(estimate)(*parts)[0]
    used = used.reshape(-1, *[1] * (totals.ndim - 1))
    result = jnp.where(used, totals, 0).sum(0)
    return CubatureResult(result, error, jnp.where(met, 0, 1), n)
