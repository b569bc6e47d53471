"""Convolutions without padding and without holes, so that inner loops need no gates.

Padding becomes a value of its own.  Elements that are set apart, as those of the gradient of a
convolution with strides are, stay together: outputs fall into phases, of which each meets weights
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import gcd

from tfn._support.frozen import frozen
from tfn.lower.graph.axis_maps import needs
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, rebuild


@frozen
class Phase:
    """Every s-th output along an axis, from one on.

    Attributes:
        first, window: the first weight that these outputs meet, and how many, each s-th.
        padding: of the elements as they lie together.
    """

    first: int
    window: int
    padding: tuple[int, int]


def in_phases(u: UOp, done: Callable[[UOp], UOp]) -> UOp:
    """A convolution of elements that are set apart as several of elements that are not::

        conv[dilation_x 2] x w, w: f32[3]   ->   turns of (conv x w[0::2]) and (conv x w[1::2])

    The parts go through `done`, as what cannot be taken apart does.
    """
    arg: Conv = u.arg
    steps = arg.dilation_x
    coprime = all(gcd(s, d) == 1 for s, d in zip(steps, arg.dilation_w, strict=True))
    if (
        all(s == 1 for s in steps)
        or any(s != 1 for s in arg.strides)
        or not coprime
        or 0 in u.shape
    ):
        return done(u)
    x, w = u.src
    batch, *space, features = u.shape
    n, most = len(space), [-(-size // s) for size, s in zip(space, steps, strict=True)]
    axes = [
        [_phase(u, axis, phase, most[axis]) for phase in range(steps[axis])] for axis in range(n)
    ]

    def part(phases: tuple[Phase, ...]) -> UOp:
        """The outputs of one phase of each axis, with an axis of one after each of space."""
        shape = (batch, *(k for size in most for k in (size, 1)), features)
        if not all(phase.window for phase in phases):
            return const(0, u.dtype, shape)
        first = (*(phase.first for phase in phases), 0, 0)
        some = build.shrink(w, first, w.shape, (*steps, 1, 1))
        plain = Conv(
            arg.strides,
            tuple(phase.padding for phase in phases),
            (1,) * n,
            arg.dilation_w,
            arg.groups,
            arg.batch_groups,
            arg.dtype,
        )
        return build.reshape(UOp(Op.GBARRIER, (done(build.conv(x, some, plain)),)), shape)

    parts = {
        phases: part(tuple(row[i] for row, i in zip(axes, phases)))
        for phases in product(*map(range, steps))
    }
    for axis in reversed(range(n)):
        parts = {
            outer: build.concat([parts[*outer, i] for i in range(steps[axis])], 2 * axis + 2)
            for outer in product(*map(range, steps[:axis]))
        }
    whole = (batch, *(size * s for size, s in zip(most, steps, strict=True)), features)
    return build.shrink(build.reshape(parts[()], whole), (0,) * u.ndim, u.shape)


def _phase(u: UOp, axis: int, phase: int, size: int) -> Phase:
    """What outputs phase, phase + s, phase + 2 s, ... of an axis are made of, `size` of them.

    Output s i + p meets with weight k what stands at s i + p + d k - low: an element, if s divides
    that.  So it meets those weights alone for which s divides p + d k - low.
    """
    arg: Conv = u.arg
    x, w = u.src
    s, d, low = arg.dilation_x[axis], arg.dilation_w[axis], arg.padding[axis][0]
    first = next(k for k in range(s) if (phase + d * k - low) % s == 0)
    window = max(-(-(w.shape[axis] - first) // s), 0)
    before = (low - phase - d * first) // s
    after = size + d * (window - 1) - x.shape[1 + axis] - before
    return Phase(first, window, (before, after))


def pad_explicitly(u: UOp) -> UOp:
    """``conv x w`` with padding -> ``conv (pad x) w``: then inner loops need no gates."""
    arg: Conv = u.arg
    if not any(map(any, arg.padding)) and all(d == 1 for d in arg.dilation_x):
        return u
    x, w = u.src
    low = (0, *(p[0] for p in arg.padding), 0)
    high = (0, *(p[1] for p in arg.padding), 0)
    interior = (0, *(d - 1 for d in arg.dilation_x), 0)
    none = len(arg.padding)
    plain = Conv(
        arg.strides,
        ((0, 0),) * none,
        (1,) * none,
        arg.dilation_w,
        arg.groups,
        arg.batch_groups,
        arg.dtype,
    )
    return build.conv(_padded(x, low, high, interior), w, plain)


def _padded(x: UOp, low: Shape, high: Shape, interior: Shape) -> UOp:
    """``pad (permute x)`` as ``permute (pad x)``: what is copied keeps its order in memory."""
    if x.op in (Op.PERMUTE, Op.RESHAPE):
        source = x.src[0]
        sides = [[0] * source.ndim for _ in range(3)]
        shape = list(x.shape)
        for axis, amounts in enumerate(zip(low, high, interior, strict=True)):
            if any(amounts):
                (at,) = needs(x, axis) or [None]
                alike = x.op is Op.RESHAPE and x.shape[axis] == 1  # all axes of size 1 look so
                if at is None or alike:
                    return build.pad_or_crop(x, low, high, interior)
                for side, amount in zip(sides, amounts, strict=True):
                    side[at] = amount
                shape[axis] += amounts[0] + amounts[1] + amounts[2] * max(shape[axis] - 1, 0)
        made = _padded(source, *map(tuple, sides))
        return rebuild(x, (made,)) if x.op is Op.PERMUTE else build.reshape(made, tuple(shape))
    return build.pad_or_crop(x, low, high, interior)
