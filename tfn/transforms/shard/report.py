"""Reports of a divided program: its exchanges, the bytes that they move, and its text.

    all_reduce   x   f32[784,512]   1 time    802,816 bytes received by a device

A device receives what the best known algorithm needs: n - 1 parts of n for a gather, a scatter or
an all-to-all; twice that share for an all-reduce, which is a scatter and a gather.

Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in
MPICH", section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfn._support.frozen import frozen
from tfn._support.validate import shown
from tfn.dtypes import DType
from tfn.trace.jaxpr import print_jaxpr
from tfn.trace.op import Op, Shape
from tfn.trace.sharding import Axis, Exchange, Partition
from tfn.trace.uop import UOp, walk
from tfn.transforms.shard.partition import Partitioned

FREE = frozenset({Exchange.VARY, Exchange.PICK})
"""Exchanges that move nothing."""
NAMES = {
    Exchange.REDUCE: "all_reduce",
    Exchange.GATHER: "all_gather",
    Exchange.SCATTER: "reduce_scatter",
    Exchange.TRANSPOSE: "all_to_all",
    Exchange.PERMUTE: "permute",
}


@frozen
class Moved:
    """An exchange of a program.

    Attributes:
        name: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` or ``permute``.
        axis: of the mesh, along which it goes.
        shape, dtype: of the part of a device, before the exchange.
        times: how often it happens in a call; a loop without a fixed number of steps counts once.
        size_bytes: that each device receives, all times together.
    """

    name: str
    axis: Axis
    shape: Shape
    dtype: DType
    times: int
    size_bytes: int


def exchanges(function: UOp, times: int = 1) -> list[Moved]:
    """The exchanges of the program of one device, those in loops included."""
    result: list[Moved] = []
    for u in walk(function.src):
        if u.op is Op.COLLECTIVE and u.arg.kind not in FREE and u.arg.count > 1:
            x = u.src[0]
            size_bytes = int(x.size * x.dtype.itemsize * _share(u.arg.kind, u.arg.count))
            result.append(
                Moved(NAMES[u.arg.kind], u.arg.axis, x.shape, x.dtype, times, times * size_bytes)
            )
        length = u.arg.length if u.op is Op.SCAN else 1
        for f in dict.fromkeys(s for s in u.src if s.op is Op.FUNCTION):
            result += exchanges(f, times * length)
    return result


def _share(kind: Exchange, n: int) -> float:
    """The bytes that a device receives, for each byte of its part."""
    if kind is Exchange.REDUCE:
        return 2 * (n - 1) / n
    if kind is Exchange.GATHER:
        return n - 1
    return 1 if kind is Exchange.PERMUTE else (n - 1) / n


def moved_bytes(function: UOp) -> dict[str, float]:
    """The bytes that a device receives by each exchange along each axis."""
    total: dict[str, float] = {}
    for moved in exchanges(function):
        key = f"{moved.name}[{moved.axis.name}] bytes"
        total[key] = total.get(key, 0.0) + moved.size_bytes
    return total


def text(whole: Partitioned) -> str:
    """The program of one device, what its arguments and results are parts of, and its exchanges."""
    mesh = ", ".join(f"{axis.name}: {axis.size}" for axis in whole.mesh)
    params = whole.spmd.params[: len(whole.params)]
    lines = [f"mesh {mesh}"]
    lines += _divisions("argument", [p.shape for p in params], whole.params)
    lines += _divisions("result", [u.shape for u in whole.spmd.outputs], whole.results)
    lines.append(print_jaxpr(whole.spmd))
    for moved in exchanges(whole.spmd.function):
        lines.append(
            f"{moved.name} over {moved.axis.name}: {shown(moved)}, {moved.times} "
            f"time{'s' * (moved.times != 1)}, {moved.size_bytes:,} bytes received by a device"
        )
    return "\n".join(lines)


def _divisions(what: str, shapes: Sequence[Shape], args: Sequence[Partition]) -> list[str]:
    lines = []
    for i, (shape, arg) in enumerate(zip(shapes, args, strict=True)):
        spec = ", ".join("-" if not names else " x ".join(map(str, names)) for names in arg.spec)
        whole = arg.whole(shape)
        share = f"1/{prod([arg.parts(axis) for axis in range(len(shape))])}"
        lines.append(f"{what} {i}: {list(whole)} over ({spec}), {share} on each device")
    return lines
