"""From which kernels each value is used, and what that says about where kernels should end.

A kernel is seen from its outputs: going up, every node learns along which axes of the kernel it is
used.  A reduction joins the kernel if those axes are an outer prefix of the loops, so that it is
computed once; otherwise it gets a barrier, and whatever elementwise work follows it goes with it.

Outputs share a kernel if one is read by the other element by element, if they are results of one
sort, loop or branch, or if they are made side by side of the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import islice
from math import prod

from tfn._support.frozen import mutable
from tfn.lower.math.decompose import weight
from tfn.trace.op import ELEMENTWISE, LOOPS, SEVERAL, Op
from tfn.trace.uop import UOp, walk

CONTRACTIONS = frozenset({Op.DOT, Op.CONV})
REDUCTIONS = frozenset({Op.REDUCE}) | CONTRACTIONS
OWN_KERNEL = frozenset({Op.SCATTER, Op.SORT, Op.HOST, Op.KERNEL}) | LOOPS
SEVERAL_RESULTS = SEVERAL - {Op.TUPLE}
LEAVES = frozenset({Op.PARAM, Op.CONST, Op.IOTA})
CHEAP = frozenset(
    {
        Op.RESHAPE,
        Op.PERMUTE,
        Op.EXPAND,
        Op.CAST,
        Op.SHRINK,
        Op.FLIP,
        Op.DETACH,
        Op.AFTER,
    }
)

MANY_PLACES = 9
"""An elementwise value read at more places than this by one kernel is worth a buffer."""

LARGE = 1500
"""Instructions in a body above which a kernel is cut: LLVM's time grows faster than its input."""

EPILOGUE = 32
"""Instructions that may follow a contraction in its kernel: its registers are full already."""

COSTLY = 60
"""Instructions behind a value that two kernels want, from which on it is kept, not made twice."""

FUNCTION = 30
"""Instructions behind a value that outer loops would repeat, from which on it is made before.

So is one that several kernels want, if it stays in the cache.
"""

WORTH_A_LOOP = 64
"""Elements of a value that is kept for so little."""

FEW_PARTS = 2
"""Of values side by side, so many may be of many instructions."""

MANY_NEEDS = 8
"""Values in memory behind another one are counted up to so many."""

WORTH_KEEPING = 2
"""Passes over memory that keeping a value has to spare."""

MANY_BUFFERS = 12
"""Memory that one kernel reads and writes side by side, so that the processor foresees it all."""

FEW_GROUPS = 4
"""Kernels that a result may be put beside: the last ones that were begun."""

FEW_NODES = 40
"""Nodes of a result that may be made beside another one."""

MOVED, REGROUPED, WHOLE = "moved", "regrouped", "whole"
Axis = tuple[object, ...]
"""How an axis of a node is reached.

(axis of the kernel,); (reduction, its axis); REGROUPED: by a reshape of the kernel's axes, so that
each element is reached once; WHOLE: by a scatter or a sort; or MOVED: in any other way.
"""

Place = tuple[Axis, ...]
Places = frozenset[Place]


def own_axes(node: UOp) -> Place:
    """How the axes of a kernel's output are reached: each by itself, but for those of size 1."""
    return tuple((i,) if n != 1 else () for i, n in enumerate(node.shape))


def viewed(node: UOp, barriers: set[UOp]) -> UOp:
    """The value that a node shows in another way."""
    while node.op in CHEAP and node not in barriers:
        node = node.src[0]
    return node


def computed(node: UOp, barriers: set[UOp]) -> bool:
    """Whether reading the node means more than reading a buffer at another index."""
    value = viewed(node, barriers)
    return value not in barriers and value.op not in LEAVES


def _rows(node: UOp) -> tuple[object, ...]:
    """What a reduction goes over."""
    return (*node.src, node.arg.axes) if node.op is Op.REDUCE else ()


@mutable
class Uses:
    """From which kernels each node is used, and along which axes; made once per trial."""

    order: Sequence[UOp]  # all nodes, sources first
    outputs: frozenset[UOp]
    barriers: set[UOp]
    apart: dict[UOp, UOp]  # what ends a part of a kernel which would be too large -> the part
    near: int  # bytes of a value that stays in the cache from kernel to kernel
    kernel: dict[UOp, UOp] = field(default_factory=dict)  # of a barrier: the kernel's first
    places: dict[UOp, dict[UOp, Places]] = field(default_factory=dict)
    consumers: dict[UOp, set[UOp]] = field(default_factory=dict)
    feeds: dict[UOp, set[UOp]] = field(default_factory=dict)  # kernel -> kernels that read it
    ends: dict[UOp, UOp] = field(default_factory=dict)  # part -> its kernel
    behind: dict[UOp, int] = field(default_factory=dict)  # instructions on the longest way to it
    needs: dict[UOp, frozenset[UOp]] = field(default_factory=dict)  # what it is made of, in memory
    position: dict[UOp, int] = field(default_factory=dict)  # in the order
    earliest: dict[UOp, int] = field(default_factory=dict)  # kernel -> position of its first output
    beside: dict[UOp, list[list[UOp]]] = field(default_factory=dict)  # parameter -> what reads it
    elsewhere: dict[tuple[object, ...], int] = field(default_factory=dict)  # other index maps

    def __post_init__(self) -> None:
        behind, kept = self.behind, self.barriers
        for i, node in enumerate(self.order):
            self.position[node] = i
            deepest = max([behind.get(s, 0) for s in node.src if s not in kept], default=0)
            behind[node] = weight(node) + deepest
            self.needs[node] = self._needs(node)
        for node in reversed(self.order):
            self._settle(node)

    def _needs(self, node: UOp) -> frozenset[UOp]:
        """Values in memory, at least as large, that a node is made of; a few stand for all."""
        found: frozenset[UOp] = frozenset()
        size = node.size
        for s in node.src:
            if s.op is not Op.FUNCTION and s.size >= size:
                kept = s in self.barriers or s.op is Op.PARAM
                more = frozenset((s,)) if kept else self.needs[s]
                found = found | more if found else more
        return found if len(found) <= MANY_NEEDS else frozenset(self._sorted(found)[:MANY_NEEDS])

    def _sorted(self, nodes: Iterable[UOp]) -> list[UOp]:
        """Nodes in their order, since that of a set is another in each process."""
        return sorted(nodes, key=self.position.__getitem__)

    def _settle(self, node: UOp) -> None:
        """All users of the node are known: is it a kernel's output, and what does it use?"""
        if node in self.barriers:
            readers = self.places.get(node, {})
            first = self._same_loops(node, readers) or self._same_source(node)
            first = first or self._same_inputs(node, readers) or node
            self.kernel[node] = first
            self.earliest[first] = self.position[node]
            for reader in readers:
                if reader is not first:
                    self.feeds.setdefault(first, set()).add(reader)
            self.places[node] = {first: frozenset({own_axes(node)})}
        for index in range(len(node.src)):
            self._use(node, index)

    def _use(self, node: UOp, index: int) -> None:
        """A source is used wherever the node is."""
        source = node.src[index]
        if source.op is Op.FUNCTION:
            return
        self.consumers.setdefault(source, set()).add(node)
        reached, known = self._reached(node, index), self.places.get(source)
        if known is None:
            self.places[source] = dict(reached)
            return
        for first, more in reached.items():
            before = known.setdefault(first, more)
            if before is not more and len(before) <= MANY_PLACES:  # more than many is just many
                known[first] = frozenset(islice(before | more, MANY_PLACES + 1))

    def _reached(self, node: UOp, index: int) -> Mapping[UOp, Places]:
        """How kernels reach the axes of a source; those that use the node alike do it alike."""
        used = self.places.get(node, {})
        if node.op in ELEMENTWISE:
            return used
        steps = {places: self._steps(node, index, places) for places in set(used.values())}
        return {first: steps[places] for first, places in used.items()}

    def _steps(self, node: UOp, index: int, places: Places) -> Places:
        if node.op is Op.GET:
            return frozenset({()})
        if node.op in OWN_KERNEL or node.op in SEVERAL_RESULTS:
            source = node.src[index]
            return frozenset({((WHOLE, id(source)),) * source.ndim})
        return frozenset([self._step(node, index, place) for place in places])

    def _same_loops(self, node: UOp, readers: dict[UOp, Places]) -> UOp | None:
        """A kernel with the loops of `node` that reads it element by element: join that one."""
        if node in self.apart:
            return self._same_part(node, readers)
        same = {own_axes(node)}
        if node.op in OWN_KERNEL or node.op in (Op.GET, Op.GBARRIER):
            return None
        for first, places in readers.items():
            alike = first.shape == node.shape and first.op not in OWN_KERNEL
            if alike and first.op not in (Op.GET, Op.GBARRIER) and places == same:
                others = [r for r in readers if r is not first]
                if not any(self._reaches(other, first) for other in others):
                    return first
        return None

    def _same_inputs(self, node: UOp, readers: dict[UOp, Places]) -> UOp | None:
        """Policy: results made of the same parameters, element by element, take one pass over them.

        Only what is read and written at one place, which a few registers hold, is put together; or
        reductions of the same rows, of which the first brings them into the cache for all.
        """
        needs = self.needs[node]
        if node not in self.outputs or not needs or not self._simple(node):
            return None
        found = (g for u in self._sorted(needs) for g in self.beside.get(u, ())[-FEW_GROUPS:])
        for group in found:
            first, met = group[0], needs.union(*(self.needs[u] for u in group))
            alike = first.shape == node.shape and first.dtype.itemsize == node.dtype.itemsize
            alike = alike and _rows(first) == _rows(node)
            few = len(met) + len(group) < MANY_BUFFERS
            if alike and few and not any(r is first or self._reaches(r, first) for r in readers):
                group.append(node)
                return first
        group = [node]
        for u in needs:
            self.beside.setdefault(u, []).append(group)
        return None

    def _simple(self, node: UOp) -> bool:
        """Whether a value is made of parameters of its shape, element by element, or of rows."""
        if node.op is Op.REDUCE:
            return node.src[0].op is Op.PARAM or node.src[0] in self.barriers
        made = list(walk([node], lambda u: u.op in ELEMENTWISE))
        return len(made) <= FEW_NODES and all(
            u.op in ELEMENTWISE or (u.op in (Op.PARAM, Op.CONST) and u.shape == node.shape)
            for u in made
        )

    def _same_part(self, node: UOp, readers: dict[UOp, Places]) -> UOp | None:
        """The kernel of the part that ends here, which is cut from those that read it."""
        first = self.ends.setdefault(self.apart[node], node)
        alike = first is not node and first.shape == node.shape
        return first if alike and not any(self._reaches(r, first) for r in readers) else None

    def _same_source(self, node: UOp) -> UOp | None:
        """The results of one sort, loop or branch are made together."""
        if node.op is not Op.GET:
            return None
        others = self.consumers.get(node.src[0], set())
        return next((self.kernel[u] for u in others if u in self.kernel), None)

    def _reaches(self, start: UOp, goal: UOp) -> bool:
        """Whether a kernel needs another one, be it through others, which then come before it."""
        seen, stack = {start}, [start]
        while stack:
            kernel = stack.pop()
            if self.earliest[kernel] > self.position[goal]:
                continue
            for reader in self.feeds.get(kernel, ()):
                if reader is goal:
                    return True
                if reader not in seen:
                    seen.add(reader)
                    stack.append(reader)
        return False

    def _step(self, node: UOp, index: int, place: Place) -> Place:
        """How the axes of a source are reached, given how those of the node are."""
        source = node.src[index]
        if node.op in ELEMENTWISE or node.op is Op.GBARRIER or (node.op is Op.AFTER and not index):
            return place
        if node.op is Op.PERMUTE:
            out: list[Axis] = [()] * source.ndim
            for i, axis in enumerate(node.arg):
                out[axis] = place[i]
            return tuple(out)
        if node.op is Op.EXPAND:
            return tuple([() if n == 1 else axis for n, axis in zip(source.shape, place)])
        if node.op is Op.REDUCE:
            inner = iter(place)
            return tuple(
                (() if n == 1 else (node, i)) if i in node.arg.axes else next(inner)
                for i, n in enumerate(source.shape)
            )
        if node.op is Op.RESHAPE:
            kept = [(n, axis) for n, axis in zip(node.shape, place) if n != 1]
            if [n for n, _ in kept] == [n for n in source.shape if n != 1]:
                axes = iter(axis for _, axis in kept)
                return tuple(() if n == 1 else next(axes) for n in source.shape)
            if all(axis == () or len(axis) == 1 for axis in place):
                return tuple((REGROUPED, i, place) for i in range(source.ndim))
        same = self._same_axes(node, index)
        where = self.elsewhere.setdefault((node.op, index, node.arg, place), len(self.elsewhere))
        return tuple([place[i] if i in same else (MOVED, i, where) for i in range(source.ndim)])

    def _same_axes(self, node: UOp, index: int) -> frozenset[int]:
        """Axes of a source that are axes of the node, untouched."""
        source = node.src[index]
        if node.op in (Op.PAD, Op.SHRINK, Op.CONCAT) and source.ndim == node.ndim:
            pairs = enumerate(zip(source.shape, node.shape))
            return frozenset(i for i, (n, m) in pairs if n == m)
        if node.op is Op.FLIP:
            return frozenset(range(node.ndim)) - frozenset(node.arg)
        if node.op is Op.GATHER:
            return frozenset(range(node.arg.batch if index == 0 else source.ndim - 1))
        return frozenset()

    def reductions(self) -> set[UOp]:
        """What cannot be computed once inside its user's loops is kept, with its epilogue."""
        found: set[UOp] = set()
        contraction: dict[UOp, UOp] = {}
        prefixes: dict[UOp, list[frozenset[Axis]]] = {}
        for node in reversed(self.order):
            if node.op in REDUCTIONS and not self._joins(node, contraction, prefixes):
                found.add(self._after(node))
        return found - self.barriers

    def manifold(self) -> set[UOp]:
        """Elementwise values that one kernel wants at many places."""
        return {
            node
            for node in self.order
            if node.op in ELEMENTWISE
            and node.op is not Op.CAST
            and node not in self.barriers
            and any(len(places) > MANY_PLACES for places in self.places.get(node, {}).values())
        }

    def dear(self) -> set[UOp]:
        """Values of many instructions, or made of many values, that several kernels want.

        They are kept where the ways of these kernels part.  Made anew by each of r kernels, a value
        made of n others takes r n reads; kept it takes n, a write, and a read by r - 1 kernels.
        What stays in the cache is written and read in less time than a function takes.
        """
        found: set[UOp] = set()
        for node in self.order:
            kernels_ = self.places.get(node, {})
            if len(kernels_) < 2 or node.op not in ELEMENTWISE:
                continue
            spared = (len(kernels_) - 1) * (len(self.needs[node]) - 1)
            near = WORTH_A_LOOP <= node.size <= self.near // node.dtype.itemsize
            costly = self.behind[node] >= (FUNCTION if near else COSTLY)
            if costly or spared > WORTH_KEEPING:
                users = (self.places.get(u, {}) for u in self.consumers.get(node, ()))
                if all(used.keys() != kernels_.keys() for used in users):
                    found.add(node)
        return found - self.barriers

    def repeated(self) -> set[UOp]:
        """Values of many instructions that loops around their own would make again each time.

        cos(position) in a kernel over texts, positions and channels: once for every text.  So
        would several values side by side, since vectors go through the instructions of all.
        """
        found: set[UOp] = set()
        for node in self.order:
            if node.op is Op.CONCAT:
                parts = {viewed(s, self.barriers) for s in node.src}
                long = {u for u in parts if u.op in ELEMENTWISE and self.behind[u] >= FUNCTION}
                if len(long) > FEW_PARTS:
                    found |= long
            if node.op is not Op.EXPAND:
                continue
            source, value = node.src[0], viewed(node.src[0], self.barriers)
            own = [axis for axis, n in enumerate(source.shape) if n != 1]
            around = node.shape[: own[-1]] if own else ()
            times = prod(n for n, m in zip(around, source.shape) if m == 1)
            if times > MANY_PLACES and value.op in ELEMENTWISE and self.behind[value] >= FUNCTION:
                found.add(value)
        return found - self.barriers

    def too_large(self) -> dict[UOp, UOp]:
        """Where kernels with too many instructions are cut: across the fewest live values.

        For each of these values, which part it ends.
        """
        members: dict[UOp, list[UOp]] = {}
        for node in self.order:
            for first in self.places.get(node, {}):
                members.setdefault(first, []).append(node)
        found: dict[UOp, UOp] = {}
        for first, nodes in members.items():
            nodes = [u for u in nodes if u.size >= first.size]
            total = sum(map(weight, nodes))
            if total > LARGE:
                for part in self._narrowest(nodes):
                    found |= dict.fromkeys(part, next(u for u in nodes if u in part))
            elif total > EPILOGUE:
                ends = {self._after(u) for u in nodes if u.op in CONTRACTIONS}
                found |= {u: u for u in ends if u not in self.apart}
        return {u: part for u, part in found.items() if u not in self.outputs}

    def _narrowest(self, nodes: list[UOp]) -> list[set[UOp]]:
        """Cuts of a long body into parts between half of and all that is allowed."""
        inside = set(nodes)
        last = {s: i for i, node in enumerate(nodes) for s in node.src if s in inside}
        found: list[set[UOp]] = []
        live: set[UOp] = set()
        best: set[UOp] = set()
        total = since = 0
        for i, node in enumerate(nodes):
            total, since = total + weight(node), since + weight(node)
            live = {u for u in live if last[u] > i}
            if last.get(node, -1) > i and node not in self.barriers and node.op not in LEAVES:
                live.add(node)
            if total > LARGE and best:
                found.append(best)
                live -= best
                total, best = since, set()
            plain = bool(live) and all(u.op in ELEMENTWISE for u in live)
            if total > LARGE // 2 and plain and (not best or len(live) <= len(best)):
                best, since = set(live), 0
        return found

    def _joins(
        self, node: UOp, contraction: dict[UOp, UOp], prefixes: dict[UOp, list[frozenset[Axis]]]
    ) -> bool:
        """Whether a reduction can live inside the one kernel that uses it."""
        kernels_ = self.places.get(node, {})
        if node in self.barriers:
            first = self.kernel[node]
        elif len(kernels_) != 1:
            return False
        else:
            first = next(iter(kernels_))
        if len(kernels_[first]) != 1:
            return False
        place = next(iter(kernels_[first]))
        axes = [axis for axis in place if axis != ()]
        if axes and axes[0][0] == REGROUPED and node.op in CONTRACTIONS:
            axes = [axis for axis in axes[0][2] if axis != ()]  # type: ignore[attr-defined]
        used = frozenset(axes)
        if len(used) != len(axes) or any(axis[0] in (MOVED, REGROUPED, WHOLE) for axis in axes):
            return False
        outer = frozenset((i,) for i in range(first.ndim) if first.shape[i] != 1)
        if node.op in CONTRACTIONS:
            if used != outer or first in contraction or prefixes.get(first):
                return False
            contraction[first] = node
            return True
        if first in contraction or (outer and not used):
            return False
        chain = prefixes.setdefault(first, [])
        inner = [axis for axis in used if len(axis) == 2]
        if inner and (len({axis[0] for axis in inner}) > 1 or not self._inside(inner, used, first)):
            return False
        if any(not (used <= other or other <= used) for other in chain):
            return False
        outputs = frozenset(axis for axis in used if len(axis) == 1)
        if not inner and outputs != frozenset(sorted(outer)[: len(outputs)]):
            return False
        chain.append(used)
        return True

    def _inside(self, inner: Sequence[Axis], used: frozenset[Axis], first: UOp) -> bool:
        """A reduction in the body of another: all loops around that one must be its own."""
        owner = inner[0][0]
        assert isinstance(owner, UOp)
        around = next(iter(self.places[owner][first]))
        if any(axis != () and axis not in used for axis in around):
            return False
        axes = sorted(int(str(axis[1])) for axis in inner)
        longer = [a for a in owner.arg.axes if owner.src[0].shape[a] != 1]
        return owner.op is Op.REDUCE and axes == sorted(longer)[: len(axes)]

    def _after(self, node: UOp) -> UOp:
        """The last elementwise value that a reduction alone leads to: its epilogue."""
        left = EPILOGUE
        while node not in self.barriers:
            users = self.consumers.get(node, set())
            if len(users) != 1:
                break
            user = next(iter(users))
            left -= weight(user)
            alike = user.op in ELEMENTWISE and user.shape == node.shape
            if not alike or user in self.barriers or left < 0:
                break
            if any(
                computed(s, self.barriers) and self._holds_reduction(s)
                for s in user.src
                if s is not node
            ):
                break
            node = user
        return node

    def _holds_reduction(self, node: UOp) -> bool:
        return any(n.op in REDUCTIONS for n in walk([node], lambda n: n not in self.barriers))
