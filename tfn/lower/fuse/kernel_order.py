"""In which order kernels run: what they need first, and little memory at any time.

Kernels are taken in the order of the graph, each after what it needs.  One that needs no more
memory than it sets free does not wait for its turn: the gradient of a weight is computed as soon
as the last reader of an activation may have it, and the activation is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tfn.lower.program import size_bytes
from tfn.trace.op import Op
from tfn.trace.uop import UOp


class Reader(Protocol):
    """A kernel, a loop or a branch."""

    @property
    def operands(self) -> tuple[UOp, ...]:
        """What it writes and reads."""


def running(
    members: Mapping[int, Sequence[UOp]],
    made: Mapping[int, Sequence[Reader]],
    outputs: Iterable[UOp],
) -> list[int]:
    """The numbers of groups of kernels, in an order in which they can run.

    Args:
        members: the barriers of each group; what must have run before follows their values.
        made: its kernels.
        outputs: barriers whose memory is not given back.
    """
    return _Order(members, made, frozenset(outputs)).found


class _Order:
    """The state of the search.

    Attributes:
        found: the order so far.
        needs: which groups must run before a group.
        reads: the values that a group reads.
        left: how many groups have yet to read a value.
        missing: how many groups have yet to run before a group.
    """

    def __init__(
        self,
        members: Mapping[int, Sequence[UOp]],
        made: Mapping[int, Sequence[Reader]],
        outputs: frozenset[UOp],
    ) -> None:
        self.found: list[int] = []
        self.members, self.outputs = members, outputs
        self.reads: dict[int, list[UOp]] = {}
        self.needs: dict[int, list[int]] = {}
        self.readers: dict[UOp, list[int]] = {}
        self.followers: dict[int, list[int]] = {}
        for number, group in made.items():
            read = dict.fromkeys(
                u for s in group for u in s.operands if u.op is Op.GBARRIER and u.arg != number
            )
            waited = {u.arg for barrier in members[number] for u in barrier.src[1:]}
            self.reads[number] = list(read)
            self.needs[number] = sorted({u.arg for u in read} | waited - {number})
            for u in read:
                self.readers.setdefault(u, []).append(number)
            for other in self.needs[number]:
                self.followers.setdefault(other, []).append(number)
        self.left = {u: len(numbers) for u, numbers in self.readers.items()}
        self.missing = {number: len(others) for number, others in self.needs.items()}
        self.done: set[int] = set()
        self._run()

    def _run(self) -> None:
        stack = sorted(self.needs, reverse=True)
        while stack:
            number = stack[-1]
            waiting = [n for n in self.needs[number] if n not in self.done]
            if number in self.done or not waiting:
                stack.pop()
                self._take(number)
            else:
                stack.extend(reversed(waiting))

    def _take(self, number: int) -> None:
        """The group is next, and then those that take no memory."""
        waiting = [number]
        while waiting:
            number = waiting.pop()
            if number in self.done:
                continue
            self.done.add(number)
            self.found.append(number)
            changed = dict.fromkeys(self.followers.get(number, ()))
            for follower in changed:
                self.missing[follower] -= 1
            for u in self.reads[number]:
                self.left[u] -= 1
                if self.left[u] == 1:
                    changed |= dict.fromkeys(self.readers[u])
            waiting += sorted(filter(self._for_nothing, changed), reverse=True)

    def _for_nothing(self, number: int) -> bool:
        """Whether a group can run now and sets free at least the memory that it takes."""
        if number in self.done or self.missing[number]:
            return False
        free = sum(
            size_bytes(u) for u in self.reads[number] if self.left[u] == 1 and u not in self.outputs
        )
        taken = sum(size_bytes(u) for u in self.members[number] if u not in self.outputs)
        return free > 0 and free >= taken
