"""Rules of HOST nodes: no derivatives; batching as the `VmapMethod` of the function says.

host[run] x   over lanes   ->   host[run] xs          once, for all lanes
                           ->   scan over (host[run] x)   once for each lane
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from tfn.dtypes import BOOL, INEXACT
from tfn.errors import ArgumentError, GradientError
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.build import (
    full_like,
    gather,
    iota,
    ne,
    reduce,
    reshape,
    scan,
    several,
    spread,
    where,
)
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.body import Lanes, closed, fresh


def jvp(u: UOp, tangents: Sequence[UOp | None]) -> tuple[None, ...]:
    """Refused, unless there are no results but integers: effects have no tangents.

    Raises:
        GradientError: if there is a floating result.
    """
    if not any(dtype in INEXACT for _, dtype in u.arg.results):
        return (None,) * len(u.arg.results)
    raise _refused(u, [i for i, dx in enumerate(tangents) if dx is not None])


def _refused(u: UOp, differentiated: Sequence[int]) -> GradientError:
    return GradientError(
        f"a function of the host has no derivative: {u.arg.run}",
        got=f"operand(s) {list(differentiated)} of it are differentiated",
        hint="give it one by custom_jvp or custom_vjp, or pass its arguments through stop_gradient",
    )


def transpose(u: UOp, cts: Sequence[UOp | None], differentiated: Sequence[int]) -> NoReturn:
    """Refused.

    Raises:
        GradientError: always.
    """
    raise _refused(u, differentiated)


Method = Callable[[UOp, Sequence[UOp], Sequence[bool], int], list[UOp]]


def batch_rule(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[Lanes]:
    """All results over the lanes."""
    if u.arg.vmap is VmapMethod.FIRST:
        return _for_first(u, src, mapped, size)
    if u.arg.has_effects:
        return _in_turn(u, src, mapped, size)
    return [Lanes(y, True) for y in METHODS[u.arg.vmap](u, src, mapped, size)]


def _in_turn(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[Lanes]:
    """A loop over the lanes that carries a token; if each lane has its own, that is the mask."""
    inputs = [fresh(s) for s in u.src]
    token, mask = fresh(u.src[0]), inputs[0]
    per_lane = mapped[0]
    results = several(UOp(Op.HOST, (token & mask if per_lane else token, *inputs[1:]), u.arg))
    # A lane whose mask is false must not turn off the token for the lanes after it.
    after = token | results[0] if per_lane else results[0]
    consts = [i for i in range(1, len(src)) if not mapped[i]]
    arrays = [i for i in range(len(src)) if mapped[i]]
    body = closed(
        [after, *(results if per_lane else results[1:])],
        [*(inputs[i] for i in consts), token, *(inputs[i] for i in arrays)],
    )
    first = const(True, BOOL) if per_lane else src[0]
    outputs = scan(body, [src[i] for i in consts], [first], [src[i] for i in arrays], size)
    lanes = [Lanes(y, True) for y in outputs[1:]]
    return lanes if per_lane else [Lanes(outputs[0], False), *lanes]


def _for_first(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[Lanes]:
    """One check for all lanes: on the operands of the first lane in which it fails."""
    token, code = src[:2]
    code = code if mapped[1] else spread(code, size)
    code = where(token, code, full_like(code, 0)) if mapped[0] else code
    lane = iota((size,), 0)
    failing = where(ne(code, full_like(code, 0)), lane, full_like(lane, size - 1))
    point = reshape(reduce(failing, Op.MIN, (0,)), (1,))
    operands = [
        reshape(gather(x, point, (1, *x.shape[1:])), x.shape[1:]) if yes else x
        for x, yes in zip([code, *src[2:]], [True, *mapped[2:]], strict=True)
    ]
    (after,) = several(UOp(Op.HOST, (const(True, BOOL) if mapped[0] else token, *operands), u.arg))
    return [Lanes(token & spread(after, size), True) if mapped[0] else Lanes(after, False)]


def one_by_one(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[UOp]:
    """A loop over the lanes."""
    consts = [s for s, yes in zip(src, mapped, strict=True) if not yes]
    arrays = [s for s, yes in zip(src, mapped, strict=True) if yes]
    inputs = [fresh(s) for s in u.src]
    ordered = [x for is_array in (False, True) for x, yes in zip(inputs, mapped) if yes is is_array]
    body = closed(several(UOp(u.op, tuple(inputs), u.arg)), ordered)
    return scan(body, consts, [], arrays, size)


def _at_once(unmapped: Callable[[UOp, int], UOp]) -> Method:
    """One call with a new axis in front; `unmapped` expands operands without that axis."""

    def method(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[UOp]:
        arg: Host = u.arg
        results = tuple(((size, *shape), dtype) for shape, dtype in arg.results)
        operands = [s if yes else unmapped(s, size) for s, yes in zip(src, mapped, strict=True)]
        return several(UOp(Op.HOST, tuple(operands), replace(arg, results=results)))

    return method


def _refuse(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> NoReturn:
    raise ArgumentError(
        "vmap meets a function of the host that does not say how it is called for many lanes",
        got=f"{u.arg.run}",
        hint="give vmap_method='sequential', or 'expand_dims' or 'broadcast_all' if it can take "
        "arrays with more axes in front",
    )


METHODS: Mapping[VmapMethod, Method] = {
    VmapMethod.SEQUENTIAL: one_by_one,
    VmapMethod.EXPAND: _at_once(lambda s, size: reshape(s, (1, *s.shape))),
    VmapMethod.BROADCAST: _at_once(spread),
    VmapMethod.AS_IT_IS: _at_once(lambda s, size: s),
    VmapMethod.REFUSE: _refuse,
}
