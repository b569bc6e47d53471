"""Parts of loops, branches and calls, and type rules of ops with several results.

`form` says what each source of a SCAN, WHILE, COND or CALL is, and how it reaches the parameters of
its functions; `settle` finds which carries are reached from some of them.  This is the one file
that counts sources, by its table `ROWS`; all others take a `Form` and give one::

    parts = form(u)                                   # selector, functions, consts, carries, arrays
    UOp(*parts._replace(carries=new_carries).fields)  # the same loop, with other first carries

`results` gives the types of all of them, `result` that of one, which a GET takes.  The functions
among the sources of a loop must fit its operands: the functions that build loops check that, so a
mismatch is a bug of the compiler, and an assertion here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tfn._support.validate import size_limit
from tfn.dtypes import BOOL, INT32, DType
from tfn.trace.argument import Call, Cond, CustomKernel, Scan, While
from tfn.trace.op import Op, Shape

T = TypeVar("T")
State = TypeVar("State")
Result = TypeVar("Result")
Type = tuple[Shape, DType]


class Node(Protocol):
    """The fields of a node that a type rule reads; `UOp`, which is defined above this file."""

    op: Op
    src: tuple[Any, ...]
    arg: Any
    shape: Shape
    dtype: DType


REST = "rest"
"""The count of the part that has all sources which the other parts have not."""


class Row(NamedTuple):
    """The parts of the sources of an op with functions, in their order.

    A part has so many sources, or as many as the field of that name of the argument says.
    """

    selectors: int
    functions: int | str
    consts: tuple[str, ...]
    carries: int | str
    arrays: int | str

    def counts(self, arg: Any, total: int) -> list[int]:
        """The number of sources of each part."""
        names = (self.selectors, self.functions, *self.consts, self.carries, self.arrays)
        counts = [n if isinstance(n, int) else getattr(arg, n, 0) for n in names]
        left = total - sum(counts)
        return [left if name == REST else n for name, n in zip(names, counts, strict=True)]


# fmt: off
ROWS: dict[Op, Row] = {
    #              choice functions   consts, of each function or of all  carries    arrays
    Op.SCAN:   Row(0,     1,          ("consts",),                        "carries", REST),
    Op.WHILE:  Row(0,     2,          ("cond_consts", "body_consts"),     REST,      0),
    Op.COND:   Row(1,     "branches", (REST,),                            0,         0),
    Op.CALL:   Row(0,     1,          (REST,),                            0,         0),
    Op.CUSTOM: Row(0,     1,          (REST,),                            0,         0),
}
# fmt: on
"""The ops whose sources include functions."""


class Form(NamedTuple, Generic[T]):
    """A loop, branch or call by the parts of its sources, or of what stands in their places.

    Each function takes its consts, the carries, and of each array a slice, in this order.

    Attributes:
        op: SCAN, WHILE, COND, CALL or CUSTOM.
        arg: its argument.
        selector: the number by which a branch is chosen; nothing for other ops.
        functions: the body, or the branches; of a WHILE the condition and the body.
        consts: the operands of each function that are the same in every step; one row for all
            functions if they share them.
        carries: the values before the first step.
        arrays: of which each step takes a slice.
    """

    op: Op
    arg: Any
    selector: tuple[T, ...]
    functions: tuple[T, ...]
    consts: tuple[tuple[T, ...], ...]
    carries: tuple[T, ...]
    arrays: tuple[T, ...]

    @property
    def tests(self) -> int:
        """The number of the first functions, which decide whether there is a next step."""
        return 1 if self.op is Op.WHILE else 0

    @property
    def operands(self) -> tuple[T, ...]:
        """All sources but the selector and the functions."""
        return (*[x for row in self.consts for x in row], *self.carries, *self.arrays)

    @property
    def sources(self) -> tuple[T, ...]:
        """All parts in order."""
        return (*self.selector, *self.functions, *self.operands)

    def own(self, k: int) -> tuple[T, ...]:
        """The consts of function `k`."""
        return self.consts[k if len(self.consts) > 1 else 0]

    def taken(self, k: int) -> tuple[T, ...]:
        """The values that function `k` takes, in the order of its parameters."""
        return (*self.own(k), *self.carries, *self.arrays)

    def places(self, k: int) -> tuple[range, range, range]:
        """The numbers of the parameters of function `k` that are consts, carries and slices."""
        first = len(self.own(k))
        last = first + len(self.carries)
        return range(first), range(first, last), range(last, last + len(self.arrays))

    def spread(self, by: Callable[[T], Iterable[T]]) -> Form[T]:
        """The same parts with each operand replaced by several, or by none."""

        def each(part: Sequence[T]) -> tuple[T, ...]:
            return tuple([y for x in part for y in by(x)])

        consts = tuple(map(each, self.consts))
        rest = consts, each(self.carries), each(self.arrays)
        return Form(self.op, self.arg, self.selector, self.functions, *rest)

    @property
    def counted(self) -> Any:
        """The argument for as many sources as there are now."""
        row = ROWS[self.op]
        parts = ((row.functions, self.functions), (row.carries, self.carries))
        counts = [*parts, *zip(row.consts, self.consts, strict=True)]
        fields = {n: len(part) for n, part in counts if isinstance(n, str) and n != REST}
        return replace(self.arg, **fields) if fields else self.arg

    @property
    def fields(self) -> tuple[Op, tuple[T, ...], Any]:
        """The op, the sources and the argument of the node."""
        return self.op, self.sources, self.counted


def split(op: Op, arg: Any, sources: Sequence[T]) -> Form[T]:
    """The parts of a loop, branch or call that is not a node."""
    parts, at = [], 0
    for n in ROWS[op].counts(arg, len(sources)):
        parts.append(tuple(sources[at : at + n]))
        at += n
    selector, functions, *consts, carries, arrays = parts
    return Form(op, arg, selector, functions, tuple(consts), carries, arrays)


def form(node: Any, values: Sequence[Any] | None = None) -> Form[Any]:
    """The parts of a SCAN, WHILE, COND, CALL or CUSTOM.

    Args:
        node: the node.
        values: one for each source, to take the parts of; the sources themselves by default.
    """
    return split(node.op, node.arg, node.src if values is None else values)


def settle(step: Callable[[State], tuple[Result, State]], state: State) -> tuple[Result, State]:
    """The result for the first state that a step leaves as it is: what is known of carries.

    What is true of the first value of a carry may not be true of the next one.  A step computes
    from what is known of all carries what is known after one iteration, beside what it was before.
    """
    while True:
        result, after = step(state)
        if after == state:
            return result, state
        state = after


def _types(nodes: Sequence[Node]) -> tuple[Type, ...]:
    return tuple((u.shape, u.dtype) for u in nodes)


def _assert_taken(parts: Form[Any]) -> None:
    """Each function takes what the loop gives it."""
    slices = tuple((x.shape[1:], x.dtype) for x in parts.arrays)
    first = parts.functions[0]
    for k, f in enumerate(parts.functions):
        if k == 0 or f is not first:  # one branch may be taken for many numbers
            given = _types((*parts.own(k), *parts.carries)) + slices
            assert _types(f.arg.params) == given, parts


def scan(src: tuple[Node, ...], arg: Scan) -> Type:
    """A body repeated over slices: carries keep their types."""
    parts = split(Op.SCAN, arg, src)
    (body,), n = parts.functions, len(parts.carries)
    assert all(x.shape[0] == arg.length for x in parts.arrays), parts
    _assert_taken(parts)
    assert _types(body.src[:n]) == _types(parts.carries), parts
    for y in body.src[n:]:
        size_limit("scan", (arg.length, *y.shape), y.dtype.itemsize)
    return (), BOOL


def repeat_while(src: tuple[Node, ...], arg: While) -> Type:
    """A body repeated while a condition, one boolean, holds."""
    parts = split(Op.WHILE, arg, src)
    cond, body = parts.functions
    _assert_taken(parts)
    assert _types(cond.src) == (((), BOOL),) and _types(body.src) == _types(parts.carries), parts
    return (), BOOL


def choose(src: tuple[Node, ...], arg: Cond) -> Type:
    """Branches of one type."""
    parts = split(Op.COND, arg, src)
    branches = parts.functions
    assert _types(parts.selector) == (((), INT32),) and branches, parts
    _assert_taken(parts)
    assert all(f is branches[0] or _types(f.src) == _types(branches[0].src) for f in branches), (
        parts
    )
    return (), BOOL


def call(src: tuple[Node, ...], arg: Call) -> Type:
    """A function of the operands."""
    _assert_taken(split(Op.CALL, arg, src))
    return (), BOOL


def kernel(src: tuple[Node, ...], arg: CustomKernel) -> Type:
    """Operands of the types that the kernel was written for."""
    assert arg.takes == _types(src), (arg, src)
    return (), BOOL


TYPES: dict[Op, Callable[[tuple[Node, ...], Any], Type]] = {
    Op.SCAN: scan,
    Op.WHILE: repeat_while,
    Op.COND: choose,
    **dict.fromkeys((Op.CALL, Op.CUSTOM), call),
    Op.KERNEL: kernel,
}
"""The type rules; a SCAN is linear where its body is."""

_LIKE: dict[Op, Callable[[Node], Sequence[Node]]] = {
    Op.SORT: lambda u: u.src,
    Op.TUPLE: lambda u: u.src,
    **dict.fromkeys((Op.SCAN, Op.CALL, Op.CUSTOM), lambda u: u.src[0].src),
    **dict.fromkeys((Op.WHILE, Op.COND), lambda u: u.src[1].src),
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
    stacked = node.op is Op.SCAN and i >= len(form(node).carries)
    return ((node.arg.length, *like.shape) if stacked else like.shape), like.dtype


def results(node: Node) -> tuple[Type, ...]:
    """The (shape, dtype) of each result of a node; most ops have one."""
    if node.op in _NAMED:
        return tuple(node.arg.results)
    like = _LIKE[node.op](node) if node.op in _LIKE else (node,)
    return tuple([result(node, i) for i in range(len(like))])
