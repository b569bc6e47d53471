"""Rules of KERNEL nodes: custom kernels have no derivative but the one that their author gives.

    store out[i], f(load x[i])   over lanes   ->   store out[n * l + i], f(load x[n * l + i])

Under `vmap` a kernel over ranges gets one more range, and a kernel of LLVM text is called in a
loop, unless its author gives a batching rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from tfn._support.validate import shown
from tfn.dtypes import INT64
from tfn.errors import ArgumentError, GradientError
from tfn.trace.argument import CustomKernel, Param, Range
from tfn.trace.build import count, several
from tfn.trace.interpreter import Nest
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, rebuild, walk
from tfn.transforms.body import Lanes
from tfn.transforms.callback_rules import one_by_one
from tfn.transforms.custom import as_graph, as_values, rule_trace
from tfn.transforms.shapes import ShapeDtypeStruct


def jvp(u: UOp, tangents: Sequence[UOp | None]) -> NoReturn:
    """Refused.

    Raises:
        GradientError: always.
    """
    raise _refused(u, [i for i, dx in enumerate(tangents) if dx is not None])


def transpose(u: UOp, cts: Sequence[UOp | None], differentiated: Sequence[int]) -> NoReturn:
    """Refused.

    Raises:
        GradientError: always.
    """
    raise _refused(u, differentiated)


def _refused(u: UOp, differentiated: Sequence[int]) -> GradientError:
    return GradientError(
        f"the kernel {u.arg.name} has no derivative",
        got=f"operand(s) {list(differentiated)} of it are differentiated",
        hint="give it one by jvp= or vjp=, or pass its operands through stop_gradient",
    )


def batch_rule(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[Lanes]:
    """All results over the lanes."""
    if u.arg.batch is not None:
        return _by_user_rule(u, src, mapped, size)
    if u.arg.body is None:
        return [Lanes(y, True) for y in one_by_one(u, src, mapped, size)]
    node = UOp(Op.KERNEL, tuple(src), _wider(u.arg, mapped, size))
    return [Lanes(y, True) for y in several(node)]


def _by_user_rule(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> list[Lanes]:
    """The results of the author's batching rule."""
    arg: CustomKernel = u.arg
    assert arg.batch is not None
    with rule_trace(arg.batch) as trace:
        values = as_values(trace, src, [ShapeDtypeStruct(s.shape, s.dtype) for s in src])
        out = arg.batch(size, tuple(mapped), *values)
        if not isinstance(out, tuple) or len(out) != 2:
            raise ArgumentError(
                "a batch rule must return a pair (results, mapped)",
                got=shown(out),
                hint="return (result, True)",
            )
        several_ = len(arg.results) > 1
        results = out[0] if several_ else [out[0]]
        many = out[1] if several_ else [out[1]]
        graphs = [as_graph(trace, y) for y in results]
    expected = [((size, *shape) if m else shape, d) for (shape, d), m in zip(arg.results, many)]
    types = [None if y is None else (y.shape, y.dtype) for y in graphs]
    if types != expected:
        raise ArgumentError(
            f"the batch rule of {arg.name} returned other types than its results",
            got=f"{types} instead of {expected}",
            hint="a result that is mapped has the lanes as its first axis",
        )
    return [Lanes(y, bool(m)) for y, m in zip(graphs, many, strict=True) if y is not None]


def _wider(arg: CustomKernel, mapped: Sequence[bool], size: int) -> CustomKernel:
    """The kernel with a range of lanes around the others, and buffers with an axis in front."""
    many = [True] * len(arg.results) + list(mapped)
    sizes = [count(shape) for shape, _ in (*arg.results, *arg.takes)]
    lane = UOp(Op.RANGE, (), Range(0, size)) if size != 1 else const(0, INT64)
    new: dict[UOp, UOp] = {}
    for node in walk([arg.body]):
        src = tuple([new[s] for s in node.src])
        if node.op is Op.RANGE:
            copy = UOp(Op.RANGE, src, replace(node.arg, number=node.arg.number + 1))
        elif node.op is Op.PARAM and many[node.arg.index]:
            p: Param = node.arg
            copy = UOp(Op.PARAM, (), Param(p.index, (size * sizes[p.index],), p.dtype))
        elif node.op in (Op.LOAD, Op.STORE) and many[src[0].arg.index]:
            at = lane * sizes[src[0].arg.index] + src[1]
            copy = UOp(node.op, (src[0], at, *src[2:]), node.arg)
        else:
            copy = rebuild(node, src)
        new[node] = copy
    body = new[arg.body]
    takes = [((size, *s), d) if m else (s, d) for (s, d), m in zip(arg.takes, mapped)]
    results = tuple(((size, *shape), dtype) for shape, dtype in arg.results)
    return replace(arg, takes=tuple(takes), results=results, body=body, run=Nest(body))
