"""Exchanges between processes beside kernels: begun early, and waited for late.

    g2  x2 = exchange(g2)  w2 - x2  g1  ...   ->   g2  begin x2  g1  begin x1  end x2  w2 - x2  ...

A large message is begun as soon as its operands are there.  Kernels that read its result wait until
all others that can run have run; then the program waits for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Step = IndexedKernel | Region


def reads(kernel: Step) -> Sequence[UOp]:
    """The values that a kernel or a region reads."""
    return kernel.node.src if isinstance(kernel, Region) else kernel.operands[kernel.written :]


def writes(kernel: Step) -> Sequence[UOp]:
    """The values that it writes."""
    return kernel.barriers if isinstance(kernel, Region) else kernel.operands[: kernel.written]


def defers(kernel: Step) -> bool:
    """Whether it is a message that goes on after its call."""
    return isinstance(kernel, Region) and kernel.node.op is Op.HOST and kernel.node.arg.defers


def overlapped(kernels: Sequence[Step]) -> Sequence[Step]:
    """Kernels in an order in which the results of messages are read late.

    Of those that can run, one comes first that reads none; among these the order stays.
    """
    if not any(map(defers, kernels)):
        return kernels
    writer = {u: i for i, kernel in enumerate(kernels) for u in writes(kernel)}
    before: list[set[int]] = []
    late: list[bool] = []
    after: list[list[int]] = [[] for _ in kernels]
    for i, kernel in enumerate(kernels):
        # What a barrier has beside its value comes before it.
        values = [*reads(kernel), *(s for u in writes(kernel) for s in u.src[1:])]
        found = {writer[u] for u in values if u in writer} - {i}
        before.append(found)
        late.append(any(defers(kernels[j]) for j in found))
        for j in found:
            after[j].append(i)
    ready = [(late[i], i) for i in range(len(kernels)) if not before[i]]
    heapq.heapify(ready)
    order: list[Step] = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(kernels[i])
        for k in after[i]:
            before[k].discard(i)
            if not before[k]:
                heapq.heappush(ready, (late[k], k))
    assert len(order) == len(kernels), "kernels that wait for each other"
    return order
