"""Types of what has several results: loops, branches, calls, sorts.

`results` gives the types of all of them; a GET takes one.  The functions among the sources of a
loop must fit its operands: those who build loops have seen to it, so that a mistake is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tfn.dtypes import BOOL, INT32, DType
from tfn.trace.op import Op, Shape

Type = tuple[Shape, DType]


class Node(Protocol):
    """What a type rule may see of a source."""

    op: Op
    src: tuple[Any, ...]
    arg: Any
    shape: Shape
    dtype: DType


def _types(nodes: Sequence[Node]) -> tuple[Type, ...]:
    return tuple((u.shape, u.dtype) for u in nodes)


def _takes(function: Node) -> tuple[Type, ...]:
    """The types of a function's parameters."""
    return _types(function.arg.params)


def scan(src: tuple[Node, ...], arg: Any) -> Type:
    """A body repeated over slices: carries keep their types."""
    body, first = src[0], 1 + arg.consts
    carries, arrays = src[first : first + arg.carries], src[first + arg.carries :]
    assert all(x.shape[0] == arg.length for x in arrays), (arg, arrays)
    slices = tuple((x.shape[1:], x.dtype) for x in arrays)
    assert _takes(body) == _types(src[1 : first + arg.carries]) + slices, (arg, src)
    assert _types(body.src[: arg.carries]) == _types(carries), (arg, src)
    return (), BOOL


def repeat_while(src: tuple[Node, ...], arg: Any) -> Type:
    """A body repeated while a condition, one boolean, holds."""
    (cond, body), operands = src[:2], src[2:]
    carries = _types(operands[arg.cond_consts + arg.body_consts :])
    assert _takes(cond) == _types(operands[: arg.cond_consts]) + carries, (arg, src)
    assert _takes(body) == _types(operands[arg.cond_consts :]), (arg, src)
    assert _types(cond.src) == (((), BOOL),) and _types(body.src) == carries, (arg, src)
    return (), BOOL


def choose(src: tuple[Node, ...], arg: Any) -> Type:
    """Branches of one type."""
    branches, operands = src[1 : 1 + arg.branches], src[1 + arg.branches :]
    assert _types(src[:1]) == (((), INT32),) and branches, (arg, src)
    assert all(_takes(f) == _types(operands) for f in branches), (arg, src)
    assert all(_types(f.src) == _types(branches[0].src) for f in branches), (arg, src)
    return (), BOOL


def call(src: tuple[Node, ...], arg: Any) -> Type:
    """A function of the operands."""
    assert _takes(src[0]) == _types(src[1:]), (arg, src)
    return (), BOOL


def kernel(src: tuple[Node, ...], arg: Any) -> Type:
    """Operands of the types that it was written for."""
    assert arg.takes == _types(src), (arg, src)
    return (), BOOL


def _scan_results(u: Node) -> tuple[Type, ...]:
    found, n = _types(u.src[0].src), u.arg.carries
    return found[:n] + tuple(((u.arg.length, *shape), dtype) for shape, dtype in found[n:])


RESULTS: dict[Op, Callable[[Node], tuple[Type, ...]]] = {
    Op.SORT: lambda u: _types(u.src),
    Op.TUPLE: lambda u: _types(u.src),
    **dict.fromkeys((Op.HOST, Op.KERNEL), lambda u: u.arg.results),
    Op.SCAN: _scan_results,
    Op.WHILE: lambda u: _types(u.src[1].src),
    Op.COND: lambda u: _types(u.src[1].src),
    Op.CALL: lambda u: _types(u.src[0].src),
    Op.CUSTOM: lambda u: _types(u.src[0].src),
    Op.LINEAR: lambda u: u.arg.results,
}
"""For each op of `op.SEVERAL`, the types of what it gives."""


def results(node: Node) -> tuple[Type, ...]:
    """The (shape, dtype) of each result of a node; most ops have one."""
    rule = RESULTS.get(node.op)
    return ((node.shape, node.dtype),) if rule is None else rule(node)
