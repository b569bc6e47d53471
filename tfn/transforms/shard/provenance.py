"""Provenance of exchanges: which nodes of the program of all devices come from which exchange.

    psum x:4   ->   sum over the axis of devices, fused into kernel 3

The stack of the devices of a process has no exchanges left, only ops that move or add up rows.  For
profiles the stack is made once more, while each exchange is the source line of its nodes; nodes
that passes make from these inherit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tfn.trace import source_lines
from tfn.trace.op import MOVEMENT, Op
from tfn.trace.records import collecting
from tfn.trace.uop import UOp, walk
from tfn.transforms.shard.program import origin
from tfn.transforms.shard.report import Moved, exchange

_PLACE = "<exchange>"
_ELSEWHERE = "<no exchange>"

Find = Callable[[Iterable[UOp]], tuple[Moved, ...]]
"""From the nodes of a kernel to the exchanges that it does."""


@contextmanager
def tracking(function: UOp) -> Iterator[Find]:
    """Tracks the exchanges of a program of many devices through the passes of the block.

    Args:
        function: of the program, as it is lowered.
    """
    again = origin(function)
    if again is None or source_lines.enabled():  # lines of the user stay
        yield lambda nodes: ()
        return
    opened, stack_again = again
    found: list[Moved] = []
    with source_lines.tracking(), collecting():
        for node in _nodes(opened.outputs):
            moved = exchange(node)
            if moved is not None:
                source_lines.put(node, (_PLACE, len(found)))
                found.append(moved)
            else:
                source_lines.put(node, (_ELSEWHERE, 0))
        stack_again()
        yield lambda nodes: tuple([found[number] for number in _numbers(nodes)])


def _nodes(outputs: Sequence[UOp]) -> Iterator[UOp]:
    """All nodes, those of nested functions too."""
    waiting, seen = [*outputs], set[UOp]()
    while waiting:
        for node in walk([waiting.pop()]):
            if node not in seen:
                seen.add(node)
                waiting += node.src if node.op is Op.FUNCTION else ()
                yield node


def _numbers(nodes: Iterable[UOp]) -> list[int]:
    """The exchanges of some nodes: those that are computed there, or else those that are read.

    A reshape moves nothing: it may be the view by which several products read one array.
    """
    computed: dict[int, None] = {}
    moved: dict[int, None] = {}
    for node in nodes:
        line = source_lines.line_of(node)
        if line is not None and line[0] == _PLACE and node.op not in (Op.GBARRIER, Op.RESHAPE):
            (moved if node.op in MOVEMENT else computed)[line[1]] = None
    return sorted(computed or moved)
