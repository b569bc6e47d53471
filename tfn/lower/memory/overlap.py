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

Step = IndexedKernel | Region


def defers(kernel: Step) -> bool:
    """Whether it is a message that goes on after its call."""
    return isinstance(kernel, Region) and kernel.node.op is Op.HOST and kernel.node.arg.defers


def overlapped(kernels: Sequence[Step]) -> Sequence[Step]:
    """Kernels in an order in which the results of messages are read late.

    Of those that can run, one comes first that reads none; among these the order stays.
    """
    if not any(map(defers, kernels)):
        return kernels
    writer = {u: i for i, kernel in enumerate(kernels) for u in kernel.writes}
    before: list[set[int]] = []
    late: list[bool] = []
    after: list[list[int]] = [[] for _ in kernels]
    for i, kernel in enumerate(kernels):
        # What a barrier has beside its value comes before it.
        values = [*kernel.reads, *(s for u in kernel.writes for s in u.src[1:])]
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
