"""Batching rules: the table `BATCH`, one row per op.

A batched value has its new axis in front.  A rule takes a node, its sources - batched or not -
and which of them are batched, and gives the node with the new axis in front.  Of a node with
several results it gives `Lanes` for each; GET takes one of them.

    batch([x + w], {x: xs}, 3)  ->  [xs + broadcast(w)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tfn.dtypes import BOOL
from tfn.trace import source_lines
from tfn.trace.build import (
    broadcast_in_dim,
    conv,
    dot,
    expand,
    flip,
    gather,
    moveaxis,
    pad,
    permute,
    reshape,
    several,
    shrink,
    spread,
    where,
)
from tfn.trace.op import ELEMENTWISE, PARTS, Op
from tfn.trace.uop import UOp, const, rebuild, walk
from tfn.transforms import callback_rules, custom_rules, kernel_rules, region_rules
from tfn.transforms.body import Lanes
from tfn.transforms.shard import collective_rules

Sources = Sequence[UOp]
Rule = Callable[[UOp, Any, Sequence[bool], int], Any]


def batch(outputs: Sequence[UOp], batched: Mapping[UOp, UOp], size: int) -> list[Lanes]:
    """The outputs over all lanes; unchanged if they are the same in every lane.

    `batched` maps some nodes, mostly leaves, to nodes with the new axis in front.
    """
    batched_of: dict[UOp, Any] = dict(batched)
    same: dict[UOp, UOp] = {}  # rebuilt nodes without the new axis: some results of loops
    for node in walk(outputs):
        if node in batched_of or node.op is Op.FUNCTION:
            continue
        mapped = [s in batched_of for s in node.src]
        if True not in mapped:
            if not same.keys().isdisjoint(node.src):
                same[node] = rebuild(node, tuple([same.get(s, s) for s in node.src]))
            continue
        src = [batched_of[s] if m else same.get(s, s) for s, m in zip(node.src, mapped)]
        result = BATCH[node.op](node, src, mapped, size)
        if source_lines.enabled():
            source_lines.inherit(result, node)
        if isinstance(result, Lanes):
            (batched_of if result.many else same)[node] = result.graph
        else:
            batched_of[node] = result
    return [
        Lanes(batched_of[u], True) if u in batched_of else Lanes(same.get(u, u), False)
        for u in outputs
    ]


def _aligned(rule: Callable[[UOp, Sources], Any]) -> Rule:
    """A rule that needs the new axis on every operand."""

    def run(u: UOp, src: Sources, mapped: Sequence[bool], size: int) -> Any:
        return rule(u, [s if m else spread(s, size) for s, m in zip(src, mapped, strict=True)])

    return run


def _same(u: UOp, src: Sources) -> UOp:
    return UOp(u.op, tuple(src), u.arg)


def _pad(u: UOp, src: Sources, mapped: Sequence[bool], size: int) -> UOp:
    x, value = src[0] if mapped[0] else spread(src[0], size), src[1]
    amounts = ((0, *u.arg.low), (0, *u.arg.high), (0, *u.arg.interior))
    if not mapped[1]:
        return pad(x, *amounts, value)
    is_x = pad(const(True, BOOL, x.shape), *amounts)
    return where(is_x, pad(x, *amounts), broadcast_in_dim(value, is_x.shape, (0,)))


def _shrink(u: UOp, src: Sources) -> UOp:
    return shrink(src[0], (0, *u.arg.start), (src[0].shape[0], *u.arg.stop), (1, *u.arg.step))


def _up(axes: Sequence[int], by: bool = True) -> tuple[int, ...]:
    return tuple(axis + by for axis in axes)


def _reduce(u: UOp, src: Sources) -> UOp:
    return UOp(Op.REDUCE, tuple(src), replace(u.arg, axes=_up(u.arg.axes)))


def _dot(u: UOp, src: Sources, mapped: Sequence[bool], size: int) -> UOp:
    """The new axis is a batch axis if both operands have it, else a free axis of one."""
    (a, b), (on_a, on_b), arg = src, mapped, u.arg
    both = (0,) if on_a and on_b else ()
    contract = _up(arg.contract_a, on_a), _up(arg.contract_b, on_b)
    axes = both + _up(arg.batch_a, on_a), both + _up(arg.batch_b, on_b)
    out = dot(a, b, contract, axes, arg.dtype, arg.tf32)
    if both:
        return out
    free_a = u.src[0].ndim - len(arg.contract_a) - len(arg.batch_a)
    return moveaxis(out, len(arg.batch_a) + (0 if on_a else free_a), 0)


def _conv(u: UOp, src: Sources, mapped: Sequence[bool], size: int) -> UOp:
    """Lanes become more images, more features, or, in both operands, more groups."""
    (x, w), (on_x, on_w), arg = src, mapped, u.arg
    (n, *space, channels), (*window, depth, features) = u.src[0].shape, u.src[1].shape
    rank, parts = len(space), arg.groups * arg.batch_groups
    if on_x and on_w:
        x = reshape(moveaxis(x, 0, rank + 1), (n, *space, size * channels))
        w = reshape(moveaxis(w, 0, rank + 1), (*window, depth, size * features))
        out = conv(x, w, replace(arg, groups=size * arg.groups))
        return moveaxis(reshape(out, (*u.shape[:-1], size, features)), rank + 1, 0)
    if on_x:
        x = reshape(x, (size, arg.batch_groups, n // arg.batch_groups, *space, channels))
        x = reshape(moveaxis(x, 0, 1), (size * n, *space, channels))
        return reshape(conv(x, w, arg), (size, *u.shape))
    w = reshape(w, (size, *window, depth, parts, features // parts))
    w = reshape(moveaxis(w, 0, rank + 2), (*window, depth, size * features))
    out = reshape(conv(x, w, arg), (*u.shape[:-1], parts, size, features // parts))
    return reshape(moveaxis(out, rank + 2, 0), (size, *u.shape))


def _gather(u: UOp, src: Sources, mapped: Sequence[bool], size: int) -> UOp:
    (operand, indices), (on_operand, on_indices), arg = src, mapped, u.arg
    if not on_operand:  # the table stays one table: lanes are more points
        out = gather(operand, moveaxis(indices, 0, arg.batch), arg.sizes, arg.batch)
        return moveaxis(out, arg.batch, 0)
    indices = indices if on_indices else spread(indices, size)
    return gather(operand, indices, arg.sizes, arg.batch + 1)


def _more_batch(u: UOp, src: Sources) -> UOp:
    return UOp(u.op, tuple(src), replace(u.arg, batch=u.arg.batch + 1))


# fmt: off
BATCH: dict[Op, Rule] = {
    **dict.fromkeys(ELEMENTWISE | PARTS, _aligned(_same)),

    Op.RESHAPE: _aligned(lambda u, src: reshape(src[0], (src[0].shape[0], *u.arg))),
    Op.PERMUTE: _aligned(lambda u, src: permute(src[0], (0, *_up(u.arg)))),
    Op.EXPAND: _aligned(lambda u, src: expand(src[0], (src[0].shape[0], *u.arg))),
    Op.PAD: _pad,
    Op.SHRINK: _aligned(_shrink),
    Op.FLIP: _aligned(lambda u, src: flip(src[0], _up(u.arg))),
    Op.CONCAT: _aligned(lambda u, src: UOp(Op.CONCAT, tuple(src), u.arg + 1)),

    Op.REDUCE: _aligned(_reduce),
    Op.DOT: _dot,
    Op.CONV: _conv,
    Op.FFT: _aligned(_same),
    Op.GATHER: _gather,
    Op.SCATTER: _aligned(_more_batch),
    Op.SORT: _aligned(lambda u, src: [Lanes(y, True) for y in several(_same(u, src))]),

    Op.TUPLE: lambda u, src, mapped, size: list(map(Lanes, src, mapped)),
    Op.HOST: callback_rules.batch_rule,
    Op.KERNEL: kernel_rules.batch_rule,
    Op.GET: lambda u, src, mapped, size: src[0][u.arg],
    **region_rules.rows("batch_rule", batch),
    Op.LINEAR: partial(custom_rules.batch_linear, batch),
    Op.AFTER: lambda u, src, mapped, size: Lanes(_same(u, src), mapped[0]),
    Op.GBARRIER: _aligned(_same),

    Op.COLLECTIVE: collective_rules.batch_rule,
    **dict.fromkeys((Op.SHARD, Op.UNSHARD, Op.CONSTRAIN), collective_rules.batch_partition),
}
# fmt: on
