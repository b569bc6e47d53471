"""Images between convolutions in the order that these have: channels last, whatever a model says.

A model with channels first moves them before and after each convolution.  What is between two of
them is computed in their order, so that neither a copy nor the stores of a kernel transpose it::

    conv -> permute (0, 3, 1, 2) -> f -> permute (0, 2, 3, 1) -> conv     ->     conv -> f -> conv

Vectors run along channels then, of which there are as many as lanes more often than of pixels in a
row: 64 of 56 x 56 by windows of 3 x 3 took 3.4 ms by channels, and 2.4 with channels last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfn.trace import build
from tfn.trace.op import ELEMENTWISE, Op, Shape
from tfn.trace.uop import UOp, mapped, rebuild, walk

_MOVABLE = ELEMENTWISE | {Op.PAD, Op.SHRINK, Op.FLIP, Op.CONCAT}
"""Ops that are the same with axes in another order."""


def channels_last(outputs: Sequence[UOp]) -> list[UOp]:
    """The outputs, with values between convolutions in their order."""
    nodes = list(walk(outputs))
    wanted = _wanted(nodes)
    if not wanted:
        return list(outputs)
    return mapped(outputs, lambda node, u: _moved(u, wanted.get(node)), order=nodes)


def _wanted(nodes: Sequence[UOp]) -> dict[UOp, Shape]:
    """Values that a convolution reads through a permutation and movable ops: its order of axes."""
    wanted = dict[UOp, Shape]()
    for node in reversed(nodes):
        if node.op is Op.CONV:
            image = node.src[0]
            # The gradient to weights exchanges channels and the batch: its order is its own.
            if image.op is Op.PERMUTE and image.arg[0] == 0:
                wanted.setdefault(image.src[0], image.arg)
        elif node in wanted and node.op in _MOVABLE:
            for source in node.src:
                if source.ndim == node.ndim:
                    wanted.setdefault(source, wanted[node])
    return wanted


def _moved(u: UOp, axes: Shape | None) -> UOp:
    """A node with axes in another order, seen in its own; itself if a source would be copied."""
    if u.op is Op.PERMUTE and u.src[0].op is Op.PERMUTE:
        inner = u.src[0]
        return build.permute(inner.src[0], [inner.arg[axis] for axis in u.arg])
    if axes is None or u.op not in _MOVABLE:
        return u
    sources = [_in_order(s, axes) if s.ndim == u.ndim else s for s in u.src]
    found = [s for s in sources if s is not None]
    if len(found) < len(sources):
        return u
    arg = u.arg
    if u.op is Op.CONCAT:
        arg = axes.index(arg)
    elif u.op is Op.FLIP:
        arg = tuple([i for i, axis in enumerate(axes) if axis in arg])
    elif u.op in (Op.PAD, Op.SHRINK):
        names = ("low", "high", "interior") if u.op is Op.PAD else ("start", "stop", "step")
        arg = replace(arg, **{k: tuple([getattr(arg, k)[i] for i in axes]) for k in names})
    moved = rebuild(u, tuple(found)) if arg is u.arg else UOp(u.op, tuple(found), arg)
    return build.permute(moved, sorted(range(u.ndim), key=axes.__getitem__))


def _in_order(source: UOp, axes: Shape) -> UOp | None:
    """A source with axes in another order, if that is no copy of a whole array."""
    moved = build.permute(source, axes)
    if source.op is Op.PERMUTE:
        return moved if moved is source.src[0] else None
    shape = tuple([source.shape[axis] for axis in axes])
    if source.op is Op.CONST:
        return build.expand(source, shape)
    if source.op is Op.EXPAND:
        return build.expand(build.permute(source.src[0], axes), shape)
    return moved if moved.op is Op.RESHAPE else None
