"""Memory-aware kernel order: dependencies first, then as little live memory as possible.

Kernels are scheduled in the order of the graph, each after those that it depends on.  A kernel that
allocates no more memory than it frees does not wait for its turn: the gradient of a weight is
computed as soon as it is the last reader of an activation, and the activation is freed::

    x1 x2 x3  dx3 dx2 dx1  dw3 dw2 dw1     ->     x1 x2 x3  dx3 dw3 dx2 dw2 dx1 dw1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tfn.lower.program import aligned_size_bytes
from tfn.trace.op import Op
from tfn.trace.uop import UOp


class Reader(Protocol):
    """A kernel, a loop or a branch."""

    @property
    def operands(self) -> tuple[UOp, ...]:
        """The values that it writes and reads."""


def memory_aware_order(
    members: Mapping[int, Sequence[UOp]],
    kernels: Mapping[int, Sequence[Reader]],
    outputs: Iterable[UOp],
) -> list[int]:
    """Returns the numbers of groups of kernels in an order in which they can run.

    Args:
        members: the barriers of each group; those that it must run after follow their values.
        kernels: of each group.
        outputs: barriers whose memory is never freed.
    """
    return _Scheduler(members, kernels, frozenset(outputs)).order


class _Scheduler:
    """List scheduling over groups of kernels.

    Attributes:
        order: the groups scheduled so far.
        dependencies: the groups that must run before a group.
        dependents: the groups that must run after it.
        reads: the values that a group reads.
        readers: the groups that read a value.
        unread: the number of groups that have yet to read a value.
        pending: the number of groups that have yet to run before a group.
    """

    def __init__(
        self,
        members: Mapping[int, Sequence[UOp]],
        kernels: Mapping[int, Sequence[Reader]],
        outputs: frozenset[UOp],
    ) -> None:
        self.order: list[int] = []
        self.members, self.outputs = members, outputs
        self.reads: dict[int, list[UOp]] = {}
        self.dependencies: dict[int, list[int]] = {}
        self.readers: dict[UOp, list[int]] = {}
        self.dependents: dict[int, list[int]] = {}
        for number, group in kernels.items():
            read = dict.fromkeys(
                u for s in group for u in s.operands if u.op is Op.GBARRIER and u.arg != number
            )
            ordered_after = {u.arg for barrier in members[number] for u in barrier.src[1:]}
            self.reads[number] = list(read)
            self.dependencies[number] = sorted({u.arg for u in read} | ordered_after - {number})
            for u in read:
                self.readers.setdefault(u, []).append(number)
            for other in self.dependencies[number]:
                self.dependents.setdefault(other, []).append(number)
        self.unread = {u: len(numbers) for u, numbers in self.readers.items()}
        self.pending = {number: len(others) for number, others in self.dependencies.items()}
        self.scheduled: set[int] = set()
        self._run()

    def _run(self) -> None:
        # Depth first over dependencies, on an explicit stack: chains of kernels are long.
        stack = sorted(self.dependencies, reverse=True)
        waiting: set[int] = set()
        while stack:
            number = stack[-1]
            missing = [n for n in self.dependencies[number] if n not in self.scheduled]
            if number in self.scheduled or not missing:
                stack.pop()
                self._schedule(number)
            else:
                assert number not in waiting, f"kernel {number} has to run before itself"
                waiting.add(number)
                stack.extend(reversed(missing))

    def _schedule(self, number: int) -> None:
        """Schedules a group, and then those that now free as much memory as they allocate."""
        ready = [number]
        while ready:
            number = ready.pop()
            if number in self.scheduled:
                continue
            self.scheduled.add(number)
            self.order.append(number)
            changed = dict.fromkeys(self.dependents.get(number, ()))
            for dependent in changed:
                self.pending[dependent] -= 1
            for u in self.reads[number]:
                self.unread[u] -= 1
                # Its last reader is known now: it would free the value.
                if self.unread[u] == 1:
                    changed |= dict.fromkeys(self.readers[u])
            # Reversed, since the last one is scheduled first.
            ready += sorted(filter(self._frees_memory, changed), reverse=True)

    def _frees_memory(self, number: int) -> bool:
        """Whether a group can run now and frees at least as much memory as it allocates."""
        if number in self.scheduled or self.pending[number]:
            return False
        last_read = [u for u in self.reads[number] if self.unread[u] == 1]
        freed_bytes = sum(aligned_size_bytes(u) for u in last_read if u not in self.outputs)
        allocated_bytes = sum(
            aligned_size_bytes(u) for u in self.members[number] if u not in self.outputs
        )
        return freed_bytes > 0 and freed_bytes >= allocated_bytes
