"""Backward pass (reverse mode): the table `TRANSPOSE`, one row per op linear in an operand.

A rule takes a node, the cotangent of its value and the number of an operand, and gives the
cotangent of that operand while the others are held fixed.  `pull` walks a graph of tangents
backwards with it; with `jvp.push` before, that is the gradient.

    pull([dx * w], [dx], [ct])  ->  [ct * w]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from tfn.dtypes import promote_types
from tfn.errors import GradientError
from tfn.trace import source_lines
from tfn.trace.argument import Conv, FftType
from tfn.trace.build import (
    add_up,
    broadcast_in_dim,
    cast,
    complex_,
    conj,
    conv,
    count,
    dot,
    eq,
    flip,
    full_like,
    imag,
    iota,
    pad,
    permute,
    real,
    reshape,
    scatter,
    shrink,
    where,
    zeros,
)
from tfn.trace.inline import has, unfold
from tfn.trace.op import Op, Shape
from tfn.trace.primitives import PRIMITIVES
from tfn.trace.regions import results
from tfn.trace.uop import UOp, substitute, walk
from tfn.transforms import callback_rules, custom_rules, kernel_rules, region_rules
from tfn.transforms.cotangents import total
from tfn.transforms.gather_rules import at, clamped, inside, last
from tfn.transforms.shard import collective_rules

Rule = Callable[[UOp, UOp, int], UOp]
RuleOfSeveral = Callable[[UOp, Sequence[UOp | None], Sequence[int]], Sequence[UOp | None]]


def pull(
    outputs: Sequence[UOp | None], inputs: Sequence[UOp], cts: Sequence[UOp | None]
) -> list[UOp | None]:
    """The cotangents of inputs from those of outputs that are linear in them; None is zero.

    Raises:
        GradientError: naming the op in which an output is not linear.
    """
    arriving = [
        (u, ct) for u, ct in zip(outputs, cts, strict=True) if u is not None and ct is not None
    ]
    linear, order = set(inputs), list[UOp]()
    late: dict[UOp, UOp] = {}  # ordering edges to the inputs, which are dropped
    for node in walk([u for u, _ in arriving]):
        if not linear.isdisjoint(node.src):
            linear.add(node)
            order.append(node)
            if node.op is Op.AFTER and not linear.isdisjoint(node.src[1:]):
                late[node] = node.src[0]
    if late:
        sooner = iter(substitute([u for u, _ in arriving], late))
        return pull(
            [
                None if u is None or ct is None else next(sooner)
                for u, ct in zip(outputs, cts, strict=True)
            ],
            inputs,
            cts,
        )
    arrived_at: dict[UOp, list[UOp]] = {}
    parts: dict[UOp, list[UOp | None]] = {}  # of the nodes that have several results

    def arrive(u: UOp, ct: UOp) -> None:
        arrived_at.setdefault(u, []).append(ct)

    for u, ct in arriving:
        if u in linear:
            arrive(u, ct)
    for node in reversed(order):
        src = node.src
        differentiated = [i for i, s in enumerate(src) if s in linear]
        if node in parts:
            back = SEVERAL_RESULTS[node.op](node, parts.pop(node), differentiated)
            for i, part in zip(differentiated, back, strict=True):
                if part is not None:
                    arrive(src[i], part)
                    if source_lines.enabled():
                        source_lines.inherit(part, node)
            continue
        if node not in arrived_at:
            continue
        arrived = total(arrived_at.pop(node))
        if node.op is Op.GET:
            cts_of = parts.setdefault(src[0], [None] * len(results(src[0])))
            cts_of[node.arg] = arrived
            continue
        _check(node, differentiated)
        rule = TRANSPOSE[node.op]
        for i in differentiated:
            part = rule(node, arrived, i)
            arrive(src[i], part)
            if source_lines.enabled():
                source_lines.inherit(part, node)
    return [total(arrived_at[x]) if x in arrived_at else None for x in inputs]


def forward(outputs: Sequence[UOp | None]) -> list[UOp | None]:
    """Tangents for forward mode alone: functions known by their transpose are transposed."""
    graphs = [u for u in outputs if u is not None]
    if not has(graphs, Op.LINEAR):
        return list(outputs)
    replaced = iter(unfold(graphs, {Op.LINEAR: partial(custom_rules.forward, pull)}))
    return [None if u is None else next(replaced) for u in outputs]


_PRODUCTS = frozenset({Op.MUL, Op.DOT, Op.CONV})


def _check(node: UOp, differentiated: Sequence[int]) -> None:
    allowed = range(len(node.src)) if node.op is Op.CONCAT else PRIMITIVES[node.op].linear
    squared = node.op in _PRODUCTS and len(differentiated) > 1
    if squared or any(i not in allowed for i in differentiated):
        _not_linear(node, (), differentiated)


def _not_linear(node: UOp, cts: Sequence[UOp | None], differentiated: Sequence[int]) -> NoReturn:
    raise GradientError(
        f"{node.op.value} is not linear in what is to be transposed",
        got=f"operand(s) {differentiated} of {node!r} depend on the input",
        hint="transpose a linear function, or use vjp",
    )


# Movement.


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _expand(u: UOp, ct: UOp, i: int) -> UOp:
    x = u.src[0]
    axes = [axis for axis, n in enumerate(x.shape) if n != u.shape[axis]]
    return add_up(ct, axes, keepdims=True)


def _pad(u: UOp, ct: UOp, i: int) -> UOp:
    x, arg = u.src[0], u.arg
    stop = tuple(
        low + (n - 1) * (between + 1) + 1 if n else low
        for n, low, between in zip(x.shape, arg.low, arg.interior, strict=True)
    )
    inner = shrink(ct, arg.low, stop, tuple(n + 1 for n in arg.interior))
    if i == 0:
        return inner
    return add_up(ct, range(ct.ndim)) - add_up(inner, range(ct.ndim))


def _shrink(u: UOp, ct: UOp, i: int) -> UOp:
    x, arg = u.src[0], u.arg
    if 0 in u.shape:
        return zeros(x.shape, x.dtype)
    high = tuple(
        n - start - (m - 1) * step - 1
        for n, m, start, step in zip(x.shape, u.shape, arg.start, arg.step, strict=True)
    )
    return pad(ct, arg.start, high, tuple(step - 1 for step in arg.step))


def _concat(u: UOp, ct: UOp, i: int) -> UOp:
    axis, before = u.arg, sum(part.shape[u.arg] for part in u.src[:i])
    start, stop = [0] * u.ndim, list(u.shape)
    start[axis], stop[axis] = before, before + u.src[i].shape[axis]
    return shrink(ct, tuple(start), tuple(stop))


# Contractions.


def _reduce(u: UOp, ct: UOp, i: int) -> UOp:
    if u.arg.op is not Op.ADD:
        raise GradientError(f"a reduction by {u.arg.op.value} is not linear", hint="use vjp")
    shape = u.src[0].shape
    return broadcast_in_dim(ct, shape, [n for n in range(len(shape)) if n not in u.arg.axes])


def _dot(u: UOp, ct: UOp, i: int) -> UOp:
    """The cotangent is contracted with the other operand over that one's free axes, and the result
    permuted to the axes of this operand: ct @ b.T for the first of a @ b, a.T @ ct for the second.
    """
    arg, x, other = u.arg, u.src[i], u.src[1 - i]
    sides = [(arg.contract_a, arg.batch_a), (arg.contract_b, arg.batch_b)]
    (contract, batch), (contract_other, batch_other) = sides[i], sides[1 - i]
    free = [n for n in range(x.ndim) if n not in (*contract, *batch)]
    free_other = [n for n in range(other.ndim) if n not in (*contract_other, *batch_other)]
    first = len(batch) + (len(free) if i == 0 else 0)
    meeting = range(first, first + len(free_other)), free_other
    steps = range(len(batch)), batch_other
    partners = dict(zip(contract_other, contract, strict=True))
    summed = [partners[n] for n in sorted(partners)]
    wide = promote_types(ct.dtype, other.dtype)
    ct, other = cast(ct, wide), cast(other, wide)
    if i == 0:
        out, order = dot(ct, other, meeting, steps, x.dtype, arg.tf32), [*batch, *free, *summed]
    else:
        out = dot(other, ct, meeting[::-1], steps[::-1], x.dtype, arg.tf32)
        order = [*batch, *summed, *free]
    return permute(out, _inverse(order))


def _conv(u: UOp, ct: UOp, i: int) -> UOp:
    x, w = u.src
    if 0 in x.shape or 0 in w.shape or 0 in u.shape:
        return zeros(u.src[i].shape, u.src[i].dtype)
    return (_conv_input if i == 0 else _conv_weights)(u, ct)


def _reach(sizes: Sequence[int], dilations: Sequence[int]) -> list[int]:
    return [(n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True)]


def _spans(u: UOp) -> list[tuple[int, int, int, int]]:
    """Per axis the low padding, and how far window, input and places reach when spread out."""
    (x, w), arg = u.src, u.arg

    return list(
        zip(
            [low for low, _ in arg.padding],
            _reach(w.shape[:-2], arg.dilation_w),
            _reach(x.shape[1:-1], arg.dilation_x),
            _reach(u.shape[1:-1], arg.strides),
            strict=True,
        )
    )


def _conv_input(u: UOp, ct: UOp) -> UOp:
    """The cotangent of the input: a convolution of ct with the window reversed.

    Strides and input dilation change places; batch groups become groups of channels.
    """
    (x, w), arg = u.src, u.arg
    groups, batches, depth, features = arg.groups, arg.batch_groups, *w.shape[-2:]
    window, space = w.shape[:-2], x.shape[1:-1]
    axes, wide = len(space), promote_types(ct.dtype, w.dtype)
    share = features // (groups * batches)

    back = reshape(flip(cast(w, wide), range(axes)), (*window, depth, groups * batches, share))
    back = permute(back, (*range(axes), axes + 2, axes + 1, axes))
    back = reshape(back, (*window, share, groups * batches * depth))
    padding = tuple((reach - 1 - low, have - out + low) for low, reach, have, out in _spans(u))
    turned = (arg.dilation_x, padding, arg.strides, arg.dilation_w)
    arg = Conv(*turned, groups * batches, 1, x.dtype, arg.tf32)
    out = conv(cast(ct, wide), back, arg)
    out = reshape(out, (x.shape[0] // batches, *space, groups, batches, depth))
    out = permute(out, (axes + 2, 0, *range(1, axes + 1), axes + 1, axes + 3))
    return reshape(out, x.shape)


def _conv_weights(u: UOp, ct: UOp) -> UOp:
    """The cotangent of the weights: a convolution of the input whose window is the cotangent.

    The batch is summed over, so it takes the place of the channels; groups become batch groups.
    """
    (x, w), arg = u.src, u.arg
    groups, batches, depth = arg.groups, arg.batch_groups, w.shape[-2]
    space, share = x.shape[1:-1], x.shape[0] // arg.batch_groups
    axes, wide = len(space), promote_types(ct.dtype, x.dtype)

    seen = reshape(cast(x, wide), (batches, share, *space, groups, depth))
    seen = permute(seen, (axes + 2, 0, axes + 3, *range(2, axes + 2), 1))
    seen = reshape(seen, (groups * batches * depth, *space, share))
    moved = permute(cast(ct, wide), (*range(1, axes + 1), 0, axes + 1))
    padding = tuple((low, reach - 1 + out - have - low) for low, reach, have, out in _spans(u))
    turned = (arg.dilation_w, padding, arg.dilation_x, arg.strides)
    arg = Conv(*turned, 1, groups * batches, w.dtype, arg.tf32)
    return permute(conv(seen, moved, arg), (*range(1, axes + 1), 0, axes + 1))


# Fourier transforms.


def _fft(u: UOp, ct: UOp, i: int) -> UOp:
    """The matrix of a transform is symmetric; what a real one leaves out counts twice."""
    x, arg = u.src[0], u.arg
    if arg.kind is FftType.RFFT:
        rest = (*(0 for _ in ct.shape[:-1]), x.shape[-1] - ct.shape[-1])
        full = pad(ct, (0,) * ct.ndim, rest)
        return real(UOp(Op.FFT, (full,), replace(arg, kind=FftType.FFT)))
    if arg.kind is FftType.IRFFT:
        half = conj(UOp(Op.FFT, (ct,), replace(arg, kind=FftType.RFFT)))
        place, n = iota(half.shape, half.ndim - 1), arg.lengths[-1]
        middle = full_like(place, 0 if n % 2 else n // 2)
        alone = eq(place, full_like(place, 0)) | eq(place, middle)
        one = full_like(half, 1 / count(arg.lengths))
        return half * where(alone, one, one * 2)
    return UOp(Op.FFT, (ct,), arg)


# Irregular access.


def _gather(u: UOp, ct: UOp, i: int) -> UOp:
    operand, indices = u.src
    starts = clamped(operand, indices, u.arg.sizes, u.arg.batch)
    return scatter(full_like(operand, 0), starts, ct, Op.ADD, u.arg.batch)


def _scatter(u: UOp, ct: UOp, i: int) -> UOp:
    (operand, indices, updates), batch, sets = u.src, u.arg.batch, u.arg.op is Op.WHERE
    if not sets and u.arg.op is not Op.ADD:
        raise GradientError(f"scatter with {u.arg.op.value} is not linear", hint="use vjp")
    if i == 0:
        return scatter(ct, indices, full_like(updates, 0), Op.WHERE, batch) if sets else ct
    sizes: Shape = updates.shape[indices.ndim - 1 :]
    if sets:
        counts = last(operand, indices, updates, batch)
    else:
        counts = inside(operand, indices, sizes, batch)
    return where(counts, at(ct, indices, updates, batch), full_like(updates, 0))


# fmt: off
TRANSPOSE: dict[Op, Rule] = {
    Op.NEG: lambda u, ct, i: -ct,
    Op.ADD: lambda u, ct, i: ct,
    Op.SUB: lambda u, ct, i: -ct if i else ct,
    Op.MUL: lambda u, ct, i: ct * u.src[1 - i],
    Op.DIV: lambda u, ct, i: ct / u.src[1],
    Op.CAST: lambda u, ct, i: cast(ct, u.src[0].dtype),
    Op.COMPLEX: lambda u, ct, i: -imag(ct) if i else real(ct),
    Op.REAL: lambda u, ct, i: complex_(ct, full_like(ct, 0)),
    Op.IMAG: lambda u, ct, i: complex_(full_like(ct, 0), -ct),
    Op.WHERE: lambda u, ct, i: (where(u.src[0], ct, full_like(ct, 0)) if i == 1 else
                                where(u.src[0], full_like(ct, 0), ct)),

    Op.RESHAPE: lambda u, ct, i: reshape(ct, u.src[0].shape),
    Op.PERMUTE: lambda u, ct, i: permute(ct, _inverse(u.arg)),
    Op.EXPAND: _expand,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: lambda u, ct, i: flip(ct, u.arg),
    Op.CONCAT: _concat,

    Op.REDUCE: _reduce,
    Op.DOT: _dot,
    Op.CONV: _conv,
    Op.FFT: _fft,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.DETACH: lambda u, ct, i: UOp(Op.DETACH, (ct,)),
    Op.AFTER: lambda u, ct, i: ct,
    Op.GBARRIER: lambda u, ct, i: UOp(Op.GBARRIER, (ct,)),

    Op.COLLECTIVE: collective_rules.transpose,
    Op.SHARD: collective_rules.transpose_shard,
    Op.UNSHARD: collective_rules.transpose_unshard,
    Op.CONSTRAIN: lambda u, ct, i: UOp(Op.CONSTRAIN, (ct,), collective_rules.of_cotangent(u.arg)),
}
SEVERAL_RESULTS: dict[Op, RuleOfSeveral] = {
    Op.SORT: _not_linear,
    Op.TUPLE: lambda u, cts, differentiated: [cts[i] for i in differentiated],
    Op.HOST: callback_rules.transpose,
    Op.KERNEL: kernel_rules.transpose,
    **region_rules.rows("transpose", pull),
    Op.LINEAR: partial(custom_rules.transpose, pull),
}
"""The rows of ops with several results, which serve all differentiated operands together."""
# fmt: on
