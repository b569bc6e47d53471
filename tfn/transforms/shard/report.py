"""Reports of a divided program: its exchanges, the bytes that they move, and its text.

    all_reduce over data: f32[784,512] f32[512], 1 time, 2,813,440 bytes received by a device

A device receives what the best known algorithm needs: n - 1 parts of n for a gather, a scatter or
an all-to-all; twice that share for an all-reduce, which is a scatter and a gather.

Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in
MPICH", section 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod

from tfn._support.frozen import frozen
from tfn.dtypes import SHORT, DType
from tfn.trace.build import expand, reshape, shrink
from tfn.trace.jaxpr import Jaxpr, function, print_jaxpr
from tfn.trace.op import Op, Shape
from tfn.trace.sharding import Axis, Exchange, Partition
from tfn.trace.uop import UOp, rebuild, walk
from tfn.transforms.shard.program import Partitioned

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
    """One message of a program: exchanges of one kind that need not wait for each other.

    Attributes:
        name: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` or ``permute``.
        axis: of the mesh, along which it goes.
        shapes, dtype: of the parts of a device, before the exchange.
        times: how often it happens in a call; a loop without a fixed number of steps counts once.
        size_bytes: that each device receives, all times together.
    """

    name: str
    axis: Axis
    shapes: tuple[Shape, ...]
    dtype: DType
    times: int
    size_bytes: int

    def __str__(self) -> str:
        values = " ".join(f"{SHORT[self.dtype]}[{','.join(map(str, s))}]" for s in self.shapes)
        return (
            f"{self.name} over {self.axis.name}: {values}, {self.times} "
            f"time{'s' * (self.times != 1)}, {self.size_bytes:,} bytes received by a device"
        )


def exchanges(program: UOp, times: int = 1) -> list[Moved]:
    """The messages of the program of one device, those in loops included.

    What no exchange has to come before goes together as soon as it can; all else, as late as it
    can: with what as many exchanges wait for.
    """
    order = list(walk(program.src))
    nested = {u: _nested(u, times) for u in order if any(s.op is Op.FUNCTION for s in u.src)}
    before: dict[UOp, int] = {}  # the longest chain of exchanges that a value depends on
    for u in order:
        before[u] = max([before[s] + _waits(s, nested) for s in _operands(u)], default=0)
    after = dict.fromkeys(order, 0)  # the longest chain that depends on it
    for u in reversed(order):
        for s in _operands(u):
            after[s] = max(after[s], after[u] + _waits(u, nested))
    together: dict[tuple[Hashable, ...], list[UOp]] = {}
    for u in order:
        if _is_message(u):
            arg = u.arg
            early = arg.kind is Exchange.GATHER and before[u] == 0
            place = -1 if early else after[u]
            key = arg.kind, arg.axis, arg.op, arg.groups, arg.pairs, u.dtype, place
            together.setdefault(key, []).append(u)
    inside = [moved for each in nested.values() for moved in each]
    return [*inside, *(_message(nodes, times) for nodes in together.values())]


def exchange(u: UOp) -> Moved | None:
    """The message of one exchange, once; None for other nodes, and for what moves nothing."""
    return _message([u], 1) if _is_message(u) else None


def _operands(u: UOp) -> tuple[UOp, ...]:
    return () if u.op is Op.FUNCTION else u.src


def _is_message(u: UOp) -> bool:
    return u.op is Op.COLLECTIVE and u.arg.kind not in FREE and u.arg.count > 1


def _nested(u: UOp, times: int) -> list[Moved]:
    """The messages of the functions of a node."""
    length = u.arg.length if u.op is Op.SCAN else 1
    functions = dict.fromkeys(s for s in u.src if s.op is Op.FUNCTION)
    return [moved for f in functions for moved in exchanges(f, times * length)]


def _waits(u: UOp, nested: Mapping[UOp, Sequence[Moved]]) -> bool:
    """Whether what follows a node waits for an exchange."""
    return _is_message(u) or bool(nested.get(u))


def _message(nodes: Sequence[UOp], times: int) -> Moved:
    arg, parts = nodes[0].arg, [u.src[0] for u in nodes]
    share = _share(arg.kind, arg.count)
    size_bytes = sum(int(x.size * x.dtype.itemsize * share) for x in parts)
    shapes = tuple([x.shape for x in parts])
    return Moved(NAMES[arg.kind], arg.axis, shapes, parts[0].dtype, times, times * size_bytes)


def _share(kind: Exchange, n: int) -> float:
    """The bytes that a device receives, for each byte of its part."""
    if kind is Exchange.REDUCE:
        return 2 * (n - 1) / n
    if kind is Exchange.GATHER:
        return n - 1
    return 1 if kind is Exchange.PERMUTE else (n - 1) / n


def moved_bytes(program: UOp) -> dict[str, float]:
    """The bytes that a device receives by each exchange along each axis."""
    total: dict[str, float] = {}
    for moved in exchanges(program):
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
    lines += map(str, exchanges(whole.spmd.function))
    return "\n".join(lines)


def _divisions(what: str, shapes: Sequence[Shape], args: Sequence[Partition]) -> list[str]:
    lines = []
    for i, (shape, arg) in enumerate(zip(shapes, args, strict=True)):
        spec = ", ".join("-" if not names else " x ".join(map(str, names)) for names in arg.spec)
        whole = arg.whole(shape)
        share = f"1/{prod([arg.parts(axis) for axis in range(len(shape))])}"
        lines.append(f"{what} {i}: {list(whole)} over ({spec}), {share} on each device")
    return lines


def alone(whole: Partitioned) -> Jaxpr:
    """The program of one device with ops of the same types in the place of exchanges.

    It computes nothing of use; its memory plan is that of a device.  What arrives from other
    devices is materialised.
    """
    spmd = whole.spmd
    return Jaxpr(function(_without_exchanges(spmd.outputs), spmd.params))


def _without_exchanges(outputs: Sequence[UOp]) -> list[UOp]:
    new: dict[UOp, UOp] = {}
    for u in walk(outputs):
        if u.op is Op.FUNCTION:
            new[u] = function(_without_exchanges(u.src), u.arg.params)
            continue
        src = tuple([new[s] for s in u.src])
        if u.op is not Op.COLLECTIVE:
            new[u] = rebuild(u, src)
            continue
        x = src[0]
        if u.ndim > x.ndim:
            x = expand(reshape(x, (1, *x.shape)), u.shape)
        elif u.ndim < x.ndim:
            x = reshape(shrink(x, (0,) * x.ndim, (1, *x.shape[1:])), u.shape)
        new[u] = x if u.arg.kind in FREE else UOp(Op.GBARRIER, (x,))
    return [new[u] for u in outputs]
