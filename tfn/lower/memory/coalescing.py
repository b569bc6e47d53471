"""Copy coalescing: a value that is a copy or an update of another, which nothing needs any more,
is in the memory of that one.

    b = scatter a ...;  c = cond p (d -> d) (d -> scatter d ...) b      a, b, c  in one memory

A scatter begins with a copy of its operand, a loop with copies of the first carries, and a branch
passes on or updates an operand.  In one memory these copies are no steps.  Other kernels that read
the old value run before, unless they need the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from tfn.lower.fuse.analysis import part_in_memory
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.memory.overlap import defers
from tfn.lower.program import is_copy
from tfn.trace.op import Op
from tfn.trace.regions import Form, form
from tfn.trace.uop import UOp

Kernels = Sequence[IndexedKernel | Region]

VIEWS = frozenset({Op.RESHAPE, Op.AFTER, Op.GBARRIER})
"""Ops whose result is in the memory of their first operand."""


def coalesced(kernels: Kernels, kept: Collection[UOp]) -> tuple[Kernels, dict[UOp, UOp]]:
    """Kernels in an order in which old values are read first, and of each new value the old one.

    Args:
        kernels: of one function, in an order in which they can run.
        kept: the values that are needed after all kernels.
    """
    # A kernel of several parts, as a scatter has, begins with a copy; a later one is an update.
    first: dict[UOp, IndexedKernel | Region] = {}
    for kernel in kernels:
        for u in kernel.writes:
            first.setdefault(u, kernel)
    pairs = [(k, new, old) for k in kernels for new, old in _pairs(k) if first.get(new, k) is k]
    if not pairs:
        return kernels, {}
    readers: dict[UOp, list[IndexedKernel | Region]] = {}
    for kernel in kernels:
        for u in kernel.reads:
            readers.setdefault(u, []).append(kernel)
    order = _Order(kernels)
    taken, chosen = set(kept), list[tuple[IndexedKernel | Region, UOp, UOp]]()
    for kernel, new, old in pairs:
        if old in taken or any(map(defers, readers[old])):
            continue
        if order.read_first(readers[old], kernel):
            chosen.append((kernel, new, old))
            taken.add(old)
    # A kernel that moved because another one needs it may have come before a reader.
    at = order.position
    old_of = {
        new: old
        for kernel, new, old in chosen
        if all(at[id(k)] <= at[id(kernel)] for k in readers[old])
    }
    return order.kernels, old_of


def _pairs(kernel: IndexedKernel | Region) -> Iterator[tuple[UOp, UOp]]:
    """Values that a kernel may write over operands, with these."""
    if isinstance(kernel, IndexedKernel):
        if kernel.written == 1 == len(kernel.reads) and is_copy(kernel.body):
            yield kernel.writes[0], kernel.reads[0]
        return
    node = kernel.node
    for new in kernel.barriers:
        operand = _updated(node, new.src[0].arg)
        if operand is None:
            continue
        old = part_in_memory(operand)[0]
        whole = [s for s in node.src if s.size == old.size and part_in_memory(s)[0] is old]
        if old.op in (Op.PARAM, Op.GBARRIER) and whole == [operand]:
            yield new, old


def _updated(node: UOp, result: int) -> UOp | None:
    """The operand that a result of a loop or branch is an update of."""
    if node.op not in (Op.SCAN, Op.WHILE, Op.COND):
        return None
    parts: Form[UOp] = form(node)
    if node.op is not Op.COND:
        return parts.carries[result] if result < len(parts.carries) else None
    found = (_updated_parameter(branch, result) for branch in dict.fromkeys(parts.functions))
    return next((parts.own(0)[i] for i in found if i is not None), None)


@lru_cache(maxsize=1024)
def _updated_parameter(function: UOp, result: int) -> int | None:
    """The parameter of a function that a result of it is an update of."""
    value: UOp = function.src[result]
    while value.op is not Op.PARAM:
        if value.op is Op.SCATTER or value.op in VIEWS:
            value = value.src[0]
            continue
        operand = _updated(value.src[0], value.arg) if value.op is Op.GET else None
        if operand is None:
            return None
        value = operand
    position: int = value.arg.index
    return position


class _Order:
    """An order of kernels, and the position of each, by its id."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = list(kernels)
        self.position = {id(kernel): i for i, kernel in enumerate(kernels)}

    def read_first(self, readers: Kernels, kernel: IndexedKernel | Region) -> bool:
        """Move readers, and what they need, before one of them, if none needs that one."""
        begin = self.position[id(kernel)]
        late = {i for k in readers if (i := self.position[id(k)]) > begin}
        if not late:
            return True
        end = max(late) + 1
        needed, moved = set[UOp](), list[int]()
        for i in range(end - 1, begin, -1):
            k = self.kernels[i]
            if i in late or not needed.isdisjoint(k.writes):
                moved.append(i)
                needed.update(k.reads, k.writes, *(u.src[1:] for u in k.writes))
        if not needed.isdisjoint(kernel.writes):
            return False
        stays = sorted({*range(begin, end)} - {*moved})
        self.kernels[begin:end] = [self.kernels[i] for i in [*reversed(moved), *stays]]
        for i in range(begin, end):
            self.position[id(self.kernels[i])] = i
        return True
