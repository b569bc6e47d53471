"""Fusion analysis: the kernels that read each value, at which indices, and what recomputing costs.

A kernel is a set of outputs with the same loops, named by one of them, its *root*.  From there, the
analysis goes from users to sources, and finds for every node the kernels that compute or read it,
with its *access map* in each: for every axis of the node, the loops that index it::

    c = reduce[add, (1,)] (transpose a)         kernel c, one loop, over axis 0 of c
        access map of transpose a    (0, the reduction's axis 1)
        access map of a              (the reduction's axis 1, 0)

Outputs share a kernel if one is read by the other element by element; if they are results of one
sort, loop or branch; or if they are computed of the same inputs, side by side.

These are facts under the barriers placed so far; `policies` decides on further ones by them.  When
these are placed, only what they change is analysed again: all but a few nodes are read as before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from operator import itemgetter

from tfn._support.frozen import mutable
from tfn.lower.math.decompose import INSTRUCTIONS
from tfn.trace.axes import AXES
from tfn.trace.build import count
from tfn.trace.op import ELEMENTWISE, LOOPS, SEVERAL, Op, Shape
from tfn.trace.uop import UOp, walk

CONTRACTIONS = frozenset({Op.DOT, Op.CONV})
REDUCTIONS = frozenset({Op.REDUCE}) | CONTRACTIONS
OWN_KERNEL = frozenset({Op.SCATTER, Op.SORT, Op.HOST, Op.KERNEL}) | LOOPS
SEVERAL_RESULTS = SEVERAL - {Op.TUPLE}
LEAVES = frozenset({Op.PARAM, Op.CONST, Op.IOTA})
VIEW_OPS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK, Op.FLIP})
VIEW_OPS |= {Op.CAST, Op.DETACH, Op.AFTER}
"""Ops that read their operand at another index, or convert it: every reader can do so by itself."""

MAX_RECOMPUTED_READS = 9
"""Distinct indices at which a kernel may read an elementwise value and recompute it at each.

A stencil over three by three points reads nine; at more, a buffer costs less than recomputing.
"""

MAX_TRACKED_INPUTS = 8
"""Inputs of a value that are counted: from there on it is expensive to recompute in any case."""

MAX_SHARED_BUFFERS = 12
"""Buffers that a kernel reads and writes, if its results could have kernels of their own.

Hardware prefetchers follow about this many streams.
"""

MAX_RECENT_GROUPS = 4
"""Kernels that read an input and are tried for one more result: the latest, to stay linear."""

MAX_NODES_TO_SHARE = 40
"""Nodes of a result that shares a kernel with others: their values share its registers."""

MIN_STORED_RUN = 64
"""Elements that follow each other in a part of a concatenation which has a store of its own.

A few vectors: shorter parts would be stored element by element.
"""

MOVED = "moved"
REGROUPED = "regrouped"
WHOLE = "whole"

Access = tuple[object, ...]
"""The loop that indexes an axis of a node.

``(axis,)``: a loop of the kernel.  ``(reduction, axis)``: a loop of a reduction.  ``(REGROUPED, i,
map)``: loops of the kernel through a reshape, which reaches each element once.  ``(WHOLE, id)``: a
scatter or sort reads it all.  ``(MOVED, i, id)``: any other index.  ``()``: an axis of size 1.
"""

AccessMap = tuple[Access, ...]
AccessMaps = frozenset[AccessMap]


def identity_map(node: UOp) -> AccessMap:
    """The access map of a kernel's output: each axis by its own loop, but for those of size 1."""
    return tuple((i,) if n != 1 else () for i, n in enumerate(node.shape))


def _chosen(places: Sequence[int | Access | None]) -> Callable[[AccessMap], AccessMap]:
    """A function that takes accesses of a map by their places.

    Args:
        places: of each axis the place, or None for one of size 1, or the access itself.
    """
    more: AccessMap = ((), *(p for p in places if isinstance(p, tuple)))
    at = [p if isinstance(p, int) else more.index(p or ()) - len(more) for p in places]
    if len(at) < 2:
        return lambda place: tuple([(*place, *more)[i] for i in at])
    choose: Callable[[AccessMap], AccessMap] = itemgetter(*at)
    return choose if min(at) >= 0 else lambda place: choose(place + more)


def viewed(node: UOp, barriers: Container[UOp]) -> UOp:
    """The value that a node is a view of."""
    while node.op in VIEW_OPS and node not in barriers:
        node = node.src[0]
    return node


def in_memory(node: UOp) -> UOp:
    """The value whose memory an operand of a sort is: it may have another shape."""
    value = node
    while value.op in (Op.RESHAPE, Op.AFTER):
        value = value.src[0]
    return node if value.op is Op.CONST else value


def output_in_memory(node: UOp) -> UOp:
    """The value whose memory a result of a function is: it may have another shape."""
    value = node
    while value.op is Op.RESHAPE:
        value = value.src[0]
    return node if value.op in LEAVES else value


def part_in_memory(node: UOp) -> tuple[UOp, int]:
    """The value in whose memory an operand of a loop is, and its first element there.

    ``reshape(x, (6, 2))[1:]``, of rows that follow each other, is in the memory of x, from element
    2 on.  A small part of a value is copied, whose memory is free then.
    """
    value, first = node, 0
    while value.op in (Op.RESHAPE, Op.AFTER) or _is_run(value):
        if value.op is Op.SHRINK:
            first += value.arg.start[0] * count(value.shape[1:])
        value = value.src[0]
    small = node.size * MAX_KEPT_ELEMENTS_FOR_EACH < value.size and value.op is not Op.PARAM
    return (in_memory(node), 0) if small or value.op is Op.CONST else (value, first)


MAX_KEPT_ELEMENTS_FOR_EACH = 2
"""Elements of a value that stay in memory for each one of its part that a loop reads in place.

Not measured: the memory of an operand is at most twice that of its copy.
"""


def _is_run(node: UOp) -> bool:
    """Whether a node is elements of its operand that follow each other in memory."""
    if node.op is not Op.SHRINK:
        return False
    return node.shape[1:] == node.src[0].shape[1:] and set(node.arg.step) == {1} and node.size > 0


def few_nodes(node: UOp, enter: Callable[[UOp], bool], limit: int) -> list[UOp]:
    """The nodes under one that `walk` visits, sources first; none if they are more than a limit.

    Of a long program it looks at so many alone, where `walk` begins at the leaves.
    """
    found = {node: None}
    open_nodes = [node] if enter(node) else []
    while open_nodes and len(found) <= limit:
        for s in open_nodes.pop().src:
            if s not in found:
                found[s] = None
                if enter(s):
                    open_nodes.append(s)
    return [] if len(found) > limit else list(walk([node], enter))


def is_computed(node: UOp, barriers: Container[UOp]) -> bool:
    """Whether reading the node means more than reading a buffer at another index."""
    value = viewed(node, barriers)
    return value not in barriers and value.op not in LEAVES


def stored_parts(node: UOp) -> tuple[UOp, ...]:
    """The parts of a concatenation that its kernel stores side by side, in loops over one of them.

    ``stack([x + y, x - y])``: x and y are loaded once, and neither store has a condition.
    """
    if node.op is not Op.CONCAT or any(s.shape != node.src[0].shape for s in node.src):
        return ()
    run = count(node.src[0].shape[node.arg :])
    computed = [s for s in node.src if _behind_views(s).op in ELEMENTWISE]
    return node.src if run >= MIN_STORED_RUN and len(computed) >= 2 else ()


def _behind_views(node: UOp) -> UOp:
    """The value that a node is a view of, whether or not it has a barrier."""
    while node.op in VIEW_OPS or node.op is Op.GBARRIER:
        node = node.src[0]
    return node


def loop_shape(node: UOp) -> Shape:
    """The shape of the loops of a kernel, by its root."""
    return (stored_parts(node) or (node,))[0].shape


def _has_same_loops(root: UOp, node: UOp) -> bool:
    """Whether loops over all elements of one value are those of the other, not over parts."""
    return root.shape == node.shape == loop_shape(root) == loop_shape(node)


def _reduced_rows(node: UOp) -> tuple[object, ...]:
    """The operand and axes of a reduction."""
    return (*node.src, node.arg.axes) if node.op is Op.REDUCE else ()


@mutable
class FusionAnalysis:
    """The kernels that read each node, and its access maps in them, under a set of barriers.

    Attributes:
        order: all nodes, sources first.
        outputs: of the function.
        barriers: the nodes to be materialised.
        parts: the part of an oversized kernel that a barrier ends, by the barrier.
        shared: a number for each set of results that share computation, by the result.
        cache_bytes: size up to which a value stays in the cache from kernel to kernel.
        sharing: the results of each of these sets.
        kernel: the root of the kernel that computes a barrier.
        reader_maps: for each node the roots of the kernels that read it, with its maps there.
        access_maps: the same, but of a barrier the kernel that computes it.
        consumers: the nodes that read a node, each with the number of the operand, last one first.
        bits: a bit for each root.
        feeds: for each root the bits of those that read its outputs, maybe through others.
        part_kernel: the root of the kernel of a part.
        depth_cost: instructions on the longest path to a node from values in memory.
        inputs: the values in memory that a node is computed of, at least as large as itself.
        position: of a node in `order`.
        groups: for each input the groups of results that share a kernel and read it.
        moved_ids: for each op and operand the numbers of distinct other indices, by the node's map.
        numbers: those that are free.
    """

    order: Sequence[UOp]
    outputs: frozenset[UOp]
    barriers: set[UOp]
    parts: dict[UOp, UOp]
    cache_bytes: int
    shared: dict[UOp, int] = field(default_factory=dict)
    sharing: dict[int, list[UOp]] = field(default_factory=dict)
    kernel: dict[UOp, UOp] = field(default_factory=dict)
    reader_maps: dict[UOp, Mapping[UOp, AccessMaps]] = field(default_factory=dict)
    access_maps: dict[UOp, Mapping[UOp, AccessMaps]] = field(default_factory=dict)
    consumers: dict[UOp, dict[UOp, tuple[int, ...]]] = field(default_factory=dict)
    bits: dict[UOp, int] = field(default_factory=dict)
    feeds: dict[UOp, int] = field(default_factory=dict)
    part_kernel: dict[UOp, UOp] = field(default_factory=dict)
    depth_cost: dict[UOp, int] = field(default_factory=dict)
    inputs: dict[UOp, frozenset[UOp]] = field(default_factory=dict)
    position: dict[UOp, int] = field(default_factory=dict)
    groups: dict[UOp, list[list[UOp]]] = field(default_factory=dict)
    moved_ids: dict[tuple[object, ...], dict[AccessMap, int]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.position |= {node: i for i, node in enumerate(self.order)}
        for node in reversed(self.order):
            for index, s in enumerate(node.src):
                if s.op is not Op.FUNCTION:
                    users = self.consumers.setdefault(s, {})
                    users[node] = (*users.get(node, ()), index)

    def add(
        self, barriers: Iterable[UOp], parts: Mapping[UOp, UOp], shared: Mapping[UOp, int]
    ) -> None:
        """Places further barriers, lets results share kernels, and brings all facts up to date."""
        added = set(barriers) - self.barriers
        self.barriers |= added
        self.parts |= parts
        self.shared |= shared
        self.sharing.clear()
        for node, number in self.shared.items():
            self.sharing.setdefault(number, []).append(node)
        for facts in (self.kernel, self.bits, self.feeds, self.part_kernel, self.groups):
            facts.clear()
        self._analyse(added)

    def _analyse(self, added: set[UOp]) -> None:
        """Finds what is unknown, and what is no longer true as some barriers were added."""
        changed = set(added)
        for node in self.order:
            if node in self.inputs and changed.isdisjoint(node.src):
                continue
            sources = (self.depth_cost.get(s, 0) for s in node.src if s not in self.barriers)
            cost = INSTRUCTIONS[node.op] + max(sources, default=0)
            inputs = self._inputs(node)
            if cost != self.depth_cost.get(node) or inputs != self.inputs.get(node):
                self.depth_cost[node], self.inputs[node] = cost, inputs
                changed.add(node)
        changed = set()
        # Users come first: when a node's turn comes, all kernels that read it are known.
        for node in reversed(self.order):
            consumers = self.consumers.get(node, {})
            if node not in self.reader_maps or not changed.isdisjoint(consumers):
                self.reader_maps[node] = self._maps_of_readers(node, consumers)
            maps = self.reader_maps[node]
            if node in self.barriers:
                maps = {self._assign_kernel(node, maps): frozenset({identity_map(node)})}
            before = self.access_maps.get(node)
            # Of several kernels that could take a barrier the first does, so their order counts.
            if before is None or maps != before or list(maps) != list(before):
                self.access_maps[node] = maps
                changed.add(node)

    # Costs.

    def _inputs(self, node: UOp) -> frozenset[UOp]:
        """Values in memory, at least as large, that a node is computed of; the first few of them.

        Smaller ones, such as a bias, stay in the cache, and cost nothing to read again; but what
        is padded is smaller by a border alone.
        """
        inputs: frozenset[UOp] = frozenset()
        size = node.size // 2 if node.op is Op.PAD else node.size
        for s in node.src:
            if s.op is not Op.FUNCTION and s.size >= size:
                in_memory = s in self.barriers or s.op is Op.PARAM
                more = frozenset((s,)) if in_memory else self.inputs[s]
                inputs = inputs | more if inputs else more
        if len(inputs) <= MAX_TRACKED_INPUTS:
            return inputs
        return frozenset(self._sorted(inputs)[:MAX_TRACKED_INPUTS])

    def _sorted(self, nodes: Iterable[UOp]) -> list[UOp]:
        """Nodes in their order, since that of a set differs from process to process."""
        return sorted(nodes, key=self.position.__getitem__)

    # Access maps.

    def _maps_of_readers(
        self, node: UOp, consumers: Mapping[UOp, tuple[int, ...]]
    ) -> Mapping[UOp, AccessMaps]:
        """The kernels that read a node, through the ops of its consumers."""
        several = [self._through(u, i) for u, operands in consumers.items() for i in operands]
        if len(several) < 2:
            return several[0] if several else {}
        together = dict(several[0])
        for maps in several[1:]:
            for root, more in maps.items():
                before = together.setdefault(root, more)
                # One map more than the limit says "too many": no policy asks for the exact number.
                if before is not more and len(before) <= MAX_RECOMPUTED_READS:
                    together[root] = frozenset(islice(before | more, MAX_RECOMPUTED_READS + 1))
        return together

    def _through(self, node: UOp, index: int) -> Mapping[UOp, AccessMaps]:
        """The access maps of a source in each kernel that reads the node."""
        maps = self.access_maps[node]
        if node.op in ELEMENTWISE:
            return maps
        # Kernels that read the node by equal maps read the source by equal maps.
        each = list(set(maps.values()))
        sources = dict(zip(each, self._source_maps(node, index, each), strict=True))
        return {root: sources[of_node] for root, of_node in maps.items()}

    def _source_maps(self, node: UOp, index: int, each: Iterable[AccessMaps]) -> list[AccessMaps]:
        """The access maps of a source, given those of the node in each of some kernels."""
        source = node.src[index]
        if node.op is Op.GET:
            return [frozenset({()}) for _ in each]
        if node.op in OWN_KERNEL or node.op in SEVERAL_RESULTS:
            return [frozenset({((WHOLE, id(source)),) * source.ndim}) for _ in each]
        source_map = self._source_map(node, index)
        return [frozenset(map(source_map, maps)) for maps in each]

    def _source_map(self, node: UOp, index: int) -> Callable[[AccessMap], AccessMap]:
        """A function from the access map of a node to that of a source.

        Nodes are read by kernels in thousands of ways, so that all which depends on the node alone
        is found before.
        """
        source = node.src[index]
        if node.op is Op.GBARRIER or (node.op is Op.AFTER and not index):
            return lambda place: place
        if node in self.barriers and stored_parts(node):
            identity = identity_map(source)
            return lambda place: identity
        if node.op is Op.PERMUTE:
            return _chosen([node.arg.index(i) for i in range(source.ndim)])
        if node.op is Op.EXPAND:
            return _chosen([None if n == 1 else i for i, n in enumerate(source.shape)])
        if node.op is Op.REDUCE:
            outer = iter(range(node.ndim))
            return _chosen(
                [
                    next(outer) if i not in node.arg.axes else None if n == 1 else (node, i)
                    for i, n in enumerate(source.shape)
                ]
            )
        moved = self._moved(node, index)
        if node.op is not Op.RESHAPE:
            return moved
        long = [i for i, n in enumerate(node.shape) if n != 1]
        if [node.shape[i] for i in long] == [n for n in source.shape if n != 1]:
            places = iter(long)
            return _chosen([None if n == 1 else next(places) for n in source.shape])

        def regrouped(place: AccessMap) -> AccessMap:
            if max(map(len, place), default=0) <= 1:
                return tuple([(REGROUPED, i, place) for i in range(source.ndim)])
            return moved(place)

        return regrouped

    def _moved(self, node: UOp, index: int) -> Callable[[AccessMap], AccessMap]:
        """Any other index for the axes of a source that are not the same axes of the node."""
        untouched = self._untouched_axes(node, index)
        axes = range(node.src[index].ndim)
        known = self.moved_ids.setdefault((node.op, index, node.arg), {})

        def moved(place: AccessMap) -> AccessMap:
            number = known.get(place)
            if number is None:
                number = known[place] = next(self.numbers)
            return tuple([place[i] if i in untouched else (MOVED, i, number) for i in axes])

        return moved

    def _untouched_axes(self, node: UOp, index: int) -> frozenset[int]:
        """Axes of a source that are the same axes of the node, element by element."""
        if node.op not in (Op.PAD, Op.SHRINK, Op.CONCAT, Op.FLIP, Op.GATHER):
            return frozenset()
        relation = AXES[node.op](node)
        pairs = enumerate(zip(relation.operands[index], relation.result))
        return frozenset(i for i, (f, g) in pairs if f == g and f not in {None, *relation.windows})

    # Outputs that share a kernel.

    def _assign_kernel(self, node: UOp, readers: Mapping[UOp, AccessMaps]) -> UOp:
        """The root of the kernel that takes a barrier with these readers, its own if no other."""
        root = self._kernel_of_same_loops(node, readers) or self._kernel_of_same_source(node)
        root = root or self._kernel_of_shared_values(node, readers)
        root = root or self._kernel_of_same_inputs(node, readers) or node
        self.kernel[node] = root
        bit = self.bits.setdefault(root, 1 << len(self.bits))
        more, before = 0, self.feeds.setdefault(root, 0)
        for reader in readers:
            if reader is not root:
                more |= self.bits[reader] | self.feeds[reader]
        if more & ~before:
            self.feeds[root] |= more
            # A kernel that gets one more output may have readers by now, and these others.
            if root is not node:
                self.feeds |= {r: fed | more for r, fed in self.feeds.items() if fed & bit}
        return root

    def _kernel_of_same_loops(self, node: UOp, readers: Mapping[UOp, AccessMaps]) -> UOp | None:
        """A kernel with the loops of the node that reads it element by element."""
        # The end of a part would join its reader at once, and undo the cut.
        if node in self.parts:
            return self._kernel_of_same_part(node, readers)
        identity = {identity_map(node)}
        if node.op in OWN_KERNEL or node.op in (Op.GET, Op.GBARRIER):
            return None
        for root, maps in readers.items():
            same_loops = _has_same_loops(root, node) and root.op not in OWN_KERNEL
            if same_loops and root.op not in (Op.GET, Op.GBARRIER) and maps == identity:
                # Another reader that feeds the root would have to run before its own input.
                bit = self.bits.get(root, 0)
                if not any(map(bit.__and__, map(self.feeds.__getitem__, readers))):
                    return root
        return None

    def _kernel_of_same_part(self, node: UOp, readers: Mapping[UOp, AccessMaps]) -> UOp | None:
        """The kernel of the part that ends here, which is cut from the kernels that read it."""
        root = self.part_kernel.setdefault(self.parts[node], node)
        joins = root is not node and _has_same_loops(root, node)
        return root if joins and not any(self._feeds(r, root) for r in readers) else None

    def _kernel_of_same_source(self, node: UOp) -> UOp | None:
        """The kernel of another result of the same sort, loop or branch."""
        if node.op is not Op.GET:
            return None
        others = self.consumers[node.src[0]]
        return next((self.kernel[u] for u in others if u in self.kernel), None)

    def _kernel_of_shared_values(self, node: UOp, readers: Mapping[UOp, AccessMaps]) -> UOp | None:
        """The kernel of another result with which this one shares what is computed for both."""
        if node not in self.shared:
            return None
        kernels = {
            self.kernel[u]: None for u in self.sharing[self.shared[node]] if u in self.kernel
        }
        for root in kernels:
            if not any(r is root or self._feeds(r, root) for r in readers):
                return root
        return None

    def _kernel_of_same_inputs(self, node: UOp, readers: Mapping[UOp, AccessMaps]) -> UOp | None:
        """Policy: outputs computed of the same inputs, element by element, take one pass over them.

        Only results that read and write at one index, and fit the registers together, share a
        kernel; or reductions of the same rows, of which the first brings them into the cache.
        """
        inputs = self.inputs[node]
        if node not in self.outputs or not inputs or not self._is_simple(node):
            return None
        recent = (
            g for u in self._sorted(inputs) for g in self.groups.get(u, ())[-MAX_RECENT_GROUPS:]
        )
        for group in recent:
            root, together = group[0], inputs.union(*(self.inputs[u] for u in group))
            same = root.shape == node.shape and root.dtype.itemsize == node.dtype.itemsize
            same = same and _reduced_rows(root) == _reduced_rows(node)
            few = len(together) + len(group) < MAX_SHARED_BUFFERS
            if same and few and not any(r is root or self._feeds(r, root) for r in readers):
                group.append(node)
                return root
        group = [node]
        for u in inputs:
            self.groups.setdefault(u, []).append(group)
        return None

    def _is_simple(self, node: UOp) -> bool:
        """Whether a value is elementwise, of parameters of its shape, or a reduction of memory."""
        if node.op is Op.REDUCE:
            return node.src[0].op is Op.PARAM or node.src[0] in self.barriers
        body = few_nodes(node, lambda u: u.op in ELEMENTWISE, MAX_NODES_TO_SHARE)
        return bool(body) and all(
            u.op in ELEMENTWISE or (u.op in (Op.PARAM, Op.CONST) and u.shape == node.shape)
            for u in body
        )

    def _feeds(self, start: UOp, goal: UOp) -> bool:
        """Whether a kernel computes what another one reads, maybe through others."""
        return bool(self.feeds[start] & self.bits.get(goal, 0))
