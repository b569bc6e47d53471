"""Type rules of ops with several results: loops, branches, calls, sorts.

`results` gives the types of all of them, `result` that of one, which a GET takes.  The functions
among the sources of a loop must fit its operands: the functions that build loops check that, so a
mismatch is a bug of the compiler, and an assertion here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tfn._support.validate import size_limit
from tfn.dtypes import BOOL, INT32, DType
from tfn.trace.argument import Call, Cond, CustomKernel, Scan, While
from tfn.trace.op import Op, Shape

Type = tuple[Shape, DType]


class Node(Protocol):
    """The fields of a node that a type rule reads; `UOp`, which is defined above this file."""

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


def scan(src: tuple[Node, ...], arg: Scan) -> Type:
    """A body repeated over slices: carries keep their types."""
    body, first = src[0], 1 + arg.consts
    carries, arrays = src[first : first + arg.carries], src[first + arg.carries :]
    assert all(x.shape[0] == arg.length for x in arrays), (arg, arrays)
    slices = tuple((x.shape[1:], x.dtype) for x in arrays)
    assert _takes(body) == _types(src[1 : first + arg.carries]) + slices, (arg, src)
    assert _types(body.src[: arg.carries]) == _types(carries), (arg, src)
    for y in body.src[arg.carries :]:
        size_limit("scan", (arg.length, *y.shape), y.dtype.itemsize)
    return (), BOOL


def repeat_while(src: tuple[Node, ...], arg: While) -> Type:
    """A body repeated while a condition, one boolean, holds."""
    (cond, body), operands = src[:2], src[2:]
    carries = _types(operands[arg.cond_consts + arg.body_consts :])
    assert _takes(cond) == _types(operands[: arg.cond_consts]) + carries, (arg, src)
    assert _takes(body) == _types(operands[arg.cond_consts :]), (arg, src)
    assert _types(cond.src) == (((), BOOL),) and _types(body.src) == carries, (arg, src)
    return (), BOOL


def choose(src: tuple[Node, ...], arg: Cond) -> Type:
    """Branches of one type."""
    branches, operands = src[1 : 1 + arg.branches], src[1 + arg.branches :]
    different, types = list(dict.fromkeys(branches)), _types(operands)
    assert _types(src[:1]) == (((), INT32),) and branches, (arg, src)
    assert all(_takes(f) == types for f in different), (arg, src)
    assert all(_types(f.src) == _types(branches[0].src) for f in different), (arg, src)
    return (), BOOL


def call(src: tuple[Node, ...], arg: Call) -> Type:
    """A function of the operands."""
    assert _takes(src[0]) == _types(src[1:]), (arg, src)
    return (), BOOL


def kernel(src: tuple[Node, ...], arg: CustomKernel) -> Type:
    """Operands of the types that the kernel was written for."""
    assert arg.takes == _types(src), (arg, src)
    return (), BOOL


_LIKE: dict[Op, Callable[[Node], Sequence[Node]]] = {
    Op.SORT: lambda u: u.src,
    Op.TUPLE: lambda u: u.src,
    Op.SCAN: lambda u: u.src[0].src,
    Op.WHILE: lambda u: u.src[1].src,
    Op.COND: lambda u: u.src[1].src,
    Op.CALL: lambda u: u.src[0].src,
    Op.CUSTOM: lambda u: u.src[0].src,
}
"""The nodes of the same types as the results of a node; of a scan's stacked results, one slice."""
_NAMED = frozenset({Op.HOST, Op.KERNEL, Op.LINEAR})
"""The ops whose arguments hold the types of their results."""


def result(node: Node, i: int) -> Type:
    """The (shape, dtype) of one result of a node, without computing those of the others."""
    if node.op in _NAMED:
        declared: Type = node.arg.results[i]
        return declared
    if node.op not in _LIKE:
        return ((node.shape, node.dtype),)[i]
    like = _LIKE[node.op](node)[i]
    if node.op is Op.SORT and node.arg.largest is not None:
        return (*like.shape[:-1], node.arg.largest), like.dtype
    stacked = node.op is Op.SCAN and i >= node.arg.carries
    return ((node.arg.length, *like.shape) if stacked else like.shape), like.dtype


def results(node: Node) -> tuple[Type, ...]:
    """The (shape, dtype) of each result of a node; most ops have one."""
    if node.op in _NAMED:
        return tuple(node.arg.results)
    like = _LIKE[node.op](node) if node.op in _LIKE else (node,)
    return tuple([result(node, i) for i in range(len(like))])
