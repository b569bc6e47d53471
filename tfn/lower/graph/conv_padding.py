"""Convolutions without im2col: padding and dilation are applied before them, not in their loops.

Padding becomes a value of its own, so that the loads of inner loops need no predicates::

    conv[padding 1] x w   ->   conv (pad x) w

Dilated inputs, as those of the gradient of a strided convolution, are not filled up with zeros.
Polyphase decomposition splits the outputs by their remainder instead; each phase is a dense
convolution with the weights that meet elements of the input::

    conv[dilation_x 2] x w, w: f32[3]   ->   interleaved (conv x w[0::2]) and (conv x w[1::2])

Source: Vaidyanathan, Multirate Systems and Filter Banks (1993), 4.3 (polyphase representation).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import gcd

from tfn._support.frozen import frozen
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.axes import source_axes
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, rebuild


@frozen
class Phase:
    """Every s-th output along an axis, from one on.

    Attributes:
        first: the first weight that meets an element at these outputs; then every s-th does.
        window: the number of such weights.
        padding: low and high padding of the dense input.
    """

    first: int
    window: int
    padding: tuple[int, int]


def polyphase(u: UOp, lower: Callable[[UOp], UOp]) -> UOp:
    """Replaces a convolution of a dilated input by one dense convolution for each phase.

    Args:
        u: the convolution.
        lower: applied to the convolution of each phase, or to `u` itself if it stays whole: one
            without dilation, with strides, or with steps that share a divisor with `dilation_w`.
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
        return lower(u)
    x, w = u.src
    batch, *space, features = u.shape
    # All phases have the size of the longest, so that they can be interleaved by a reshape.
    n, sizes = len(space), [-(-size // s) for size, s in zip(space, steps, strict=True)]
    axes = [
        [_phase(u, axis, phase, sizes[axis]) for phase in range(steps[axis])] for axis in range(n)
    ]

    def outputs(phases: tuple[Phase, ...]) -> UOp:
        """The outputs of one phase per axis, with an axis of size 1 after each of space."""
        shape = (batch, *(k for size in sizes for k in (size, 1)), features)
        if not all(phase.window for phase in phases):
            return const(0, u.dtype, shape)
        first = (*(phase.first for phase in phases), 0, 0)
        weights = build.shrink(w, first, w.shape, (*steps, 1, 1))
        padding = tuple([phase.padding for phase in phases])
        dense = replace(arg, padding=padding, dilation_x=(1,) * n)
        value = lower(build.conv(x, weights, dense))
        # Each phase is a kernel of its own; the interleaving copies their results.
        return build.reshape(UOp(Op.GBARRIER, (value,)), shape)

    # Innermost axis first: each step interleaves the phases of one axis.
    parts = {
        phases: outputs(tuple(row[i] for row, i in zip(axes, phases)))
        for phases in product(*map(range, steps))
    }
    for axis in reversed(range(n)):
        parts = {
            outer: build.concat([parts[*outer, i] for i in range(steps[axis])], 2 * axis + 2)
            for outer in product(*map(range, steps[:axis]))
        }
    interleaved = (batch, *(size * s for size, s in zip(sizes, steps, strict=True)), features)
    return build.shrink(build.reshape(parts[()], interleaved), (0,) * u.ndim, u.shape)


def _phase(u: UOp, axis: int, phase: int, size: int) -> Phase:
    """The phase of outputs p, p + s, p + 2 s, ... of an axis, `size` of them, where p is `phase`.

    Weight k meets position s i + p + d k - low of the dilated input at output s i + p.  That holds
    an element if s divides it, so only weights k for which s divides p + d k - low contribute.
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
    """``conv x w`` with padding -> ``conv (pad x) w``: inner loops need no predicates."""
    arg: Conv = u.arg
    if not any(map(any, arg.padding)) and all(d == 1 for d in arg.dilation_x):
        return u
    x, w = u.src
    low = (0, *(p[0] for p in arg.padding), 0)
    high = (0, *(p[1] for p in arg.padding), 0)
    interior = (0, *(d - 1 for d in arg.dilation_x), 0)
    n = len(arg.padding)
    dense = replace(arg, padding=((0, 0),) * n, dilation_x=(1,) * n)
    return build.conv(_padded(x, low, high, interior), w, dense)


def _padded(x: UOp, low: Shape, high: Shape, interior: Shape) -> UOp:
    """``pad (permute x)`` as ``permute (pad x)``, so that the padded copy keeps its order."""
    if x.op in (Op.PERMUTE, Op.RESHAPE):
        source = x.src[0]
        sides = [[0] * source.ndim for _ in range(3)]
        shape = list(x.shape)
        for axis, amounts in enumerate(zip(low, high, interior, strict=True)):
            if any(amounts):
                (at,) = source_axes(x, axis) or [None]
                # All axes of size 1 look the same to a reshape: which one was padded is unknown.
                ambiguous = x.op is Op.RESHAPE and x.shape[axis] == 1
                if at is None or ambiguous:
                    return build.pad_or_crop(x, low, high, interior)
                for side, amount in zip(sides, amounts, strict=True):
                    side[at] = amount
                shape[axis] += amounts[0] + amounts[1] + amounts[2] * max(shape[axis] - 1, 0)
        padded = _padded(source, *map(tuple, sides))
        return rebuild(x, (padded,)) if x.op is Op.PERMUTE else build.reshape(padded, tuple(shape))
    return build.pad_or_crop(x, low, high, interior)
