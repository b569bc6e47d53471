"""Materialisation policies: the values that are worth a buffer, and so end a kernel.

Each policy is a function of the fusion analysis and returns nodes that need a barrier, or none::

    unfused_reductions        no kernel can compute them once inside its loops
    read_at_many_indices      one kernel would recompute them at each index
    several_results           one kernel with several stores would compute them once
    expensive_to_recompute    several kernels would recompute them
    loop_invariant            loops around them would recompute them
    oversized                 ends of the parts into which large kernels are cut

`boundaries` applies the first that has an answer, analyses again, and ends when none has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import or_

from tfn.lower.fuse.analysis import (
    CONTRACTIONS,
    LEAVES,
    MAX_RECOMPUTED_READS,
    MOVED,
    OWN_KERNEL,
    REDUCTIONS,
    REGROUPED,
    WHOLE,
    Access,
    AccessMaps,
    FusionAnalysis,
    few_nodes,
    identity_map,
    is_computed,
    loop_shape,
    stored_parts,
    viewed,
)
from tfn.lower.math.decompose import INSTRUCTIONS
from tfn.trace import records
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.records import Record
from tfn.trace.uop import UOp, walk

MAX_KERNEL_INSTRUCTIONS = 4000
"""Instructions in a body above which a kernel is cut, so that it fits the cache for instructions.

SHA-256 of a block is just below: as one kernel it takes no longer to compile than as three.
"""

REDUCTION_INSTRUCTIONS = 110
"""Instructions as which a reduction counts for that: it is a loop nest of its own, and each nest of
a kernel is analysed anew after every split of another.  A chain of 1,250 sums over rows, 200 in a
kernel, took 70 s to compile, and takes 5."""

MAX_EPILOGUE_INSTRUCTIONS = 32
"""Instructions that may follow a contraction in its kernel: its registers are full already."""

EXPENSIVE_INSTRUCTIONS = 60
"""Instructions on the path to a value from which on two kernels share it through memory.

About two elementary functions, against a write and a read of memory.
"""

FUNCTION_INSTRUCTIONS = 30
"""The same where memory is cheaper: in the cache, or read many times by one kernel.

About one elementary function.
"""

FEW_INSTRUCTIONS = 3
"""The same where hundreds of loops compute it, as rows do a vector that is quantised for each.

Its kernel is a small part of that then: of 4,096 rows of int8, 1.1 of 1.8 ms rounded the vector.
"""

MANY_TRIPS = 256
"""Iterations from which on these are hundreds."""

MIN_CACHED_ELEMENTS = 64
"""Elements of a value that two kernels share through the cache: fewer are not worth a kernel."""

MAX_REPEATED_INSTRUCTIONS = 240
"""Instructions that several kernels may hold again to compute a value of so few elements.

LLVM takes about 40 us for each, and a launch of one element 0.02 us by the model.  Powers that Adam
computes of the number of the step were half of the 415 lines of its kernels in a GPT.
"""

MAX_WINDOW_NODES = 64
"""Nodes of a value that is searched for windows: 5 x 5 of them, and the largest, are 50."""

MAX_EXPENSIVE_PARTS = 2
"""Expensive parts of a concatenation: each element runs through the instructions of all parts."""

MATERIALIZE_COST_PASSES = 2
"""Passes over memory that a buffer costs, a write and a read: it has to spare more of them."""


def read_by_several_kernels(analysis: FusionAnalysis) -> tuple[set[UOp], dict[UOp, UOp]]:
    """Reductions that several kernels read in any case, as `unfused_reductions` has them.

    They are found before the first analysis.  As long as no barrier is placed, the kernels of all
    later layers read a value between two: access maps of a network of 64 layers took a second more.
    """
    stored: dict[UOp, str] = {}
    parts: dict[UOp, UOp] = {}
    for node in reversed(_in_several_kernels(analysis)):
        end = _epilogue_end(analysis, node, stored)
        stored[end] = f"a {node.op.value} that several kernels read is computed once, not by each"
        parts |= _narrower(analysis, node, end)
    return _new(analysis, "unfused-reductions", stored), parts


def _in_several_kernels(analysis: FusionAnalysis) -> list[UOp]:
    """Reductions that barriers of different loops read, the last one first."""
    found: list[UOp] = []
    bits: dict[Hashable, int] = {}
    kinds: dict[UOp, int] = {}  # of the loops of barriers that read a node: a bit for each
    for node in reversed(analysis.order):
        kinds[node] = reduce(or_, map(kinds.__getitem__, analysis.consumers.get(node, ())), 0)
        stored = node in analysis.barriers
        if not stored and node.op in REDUCTIONS and kinds[node].bit_count() > 1:
            found.append(node)
            stored = True
        if stored:
            kinds[node] = bits.setdefault(_kind_of_loops(node), 1 << len(bits))
    return found


def _kind_of_loops(node: UOp) -> Hashable:
    """Loops of the kernel that computes a barrier: those of two kinds are in two kernels."""
    if node.op is Op.GET:
        return node.src[0]
    return node if node.op in OWN_KERNEL else loop_shape(node)


def unfused_reductions(analysis: FusionAnalysis) -> tuple[set[UOp], dict[UOp, UOp]]:
    """Reductions that cannot be computed once inside the loops of their reader, with epilogues.

    The second result has the ends that are narrower, which are parts: they would join the kernel of
    their reader again, and their reduction with them.

    A reduction fuses if the axes at which it is read are an outer prefix of the kernel's loops, as
    the maxima and sums of a softmax are.  Of contractions, a kernel has one, and nothing beside it.
    """
    stored: dict[UOp, str] = {}
    contractions: dict[UOp, UOp] = {}
    prefixes: dict[UOp, list[frozenset[Access]]] = {}
    parts: dict[UOp, UOp] = {}
    later: set[UOp] = set()  # of values that are to be stored now: their kernels are analysed next
    for node in reversed(analysis.order):
        users = analysis.consumers.get(node, ())
        if users and node not in analysis.barriers and later.issuperset(users):
            later.add(node)
        elif node.op in REDUCTIONS:
            obstacle = _obstacle(analysis, node, contractions, prefixes)
            if obstacle:
                end = _epilogue_end(analysis, node)
                stored[end] = obstacle
                later |= {end} - analysis.barriers
                parts |= _narrower(analysis, node, end)
    new = _new(analysis, "unfused-reductions", stored)
    return new, {u: part for u, part in parts.items() if u in new}


def _narrower(analysis: FusionAnalysis, node: UOp, end: UOp) -> dict[UOp, UOp]:
    """The end of a reduction's epilogue as a part, if it is narrower than the reduction."""
    narrower = end.dtype.itemsize < node.dtype.itemsize and end not in analysis.outputs
    return {end: end} if narrower else {}


def _new(analysis: FusionAnalysis, policy: str, stored: Mapping[UOp, str]) -> set[UOp]:
    """The nodes that have no barrier yet; they are recorded with their reasons."""
    new, sink = set(stored) - analysis.barriers, records.sink()
    if sink is not None:
        sink += [Record(policy, u, reason=why) for u, why in stored.items() if u in new]
    return new


def read_at_many_indices(analysis: FusionAnalysis) -> set[UOp]:
    """Elementwise values that one kernel reads at too many distinct indices.

    They are materialised rather than recomputed at each: at more than 9 indices, or at fewer if
    all but one of them together cost too many instructions.  Of a chain of such values the last is.
    """
    stored: dict[UOp, str] = {}
    ends: dict[UOp, set[UOp]] = {}  # kernels in which the node, or what it leads to, is stored
    for node in reversed(analysis.order):  # users first
        readers = {r: maps for r, maps in analysis.access_maps[node].items() if len(maps) > 1}
        if not readers:
            continue
        found: dict[UOp, str] = {}
        cost = analysis.depth_cost[node]
        for root, maps in readers.items():
            if len(maps) > MAX_RECOMPUTED_READS:
                found[root] = (
                    f"one kernel reads it at more than {MAX_RECOMPUTED_READS} distinct indices"
                )
                continue
            # At the index of a reduction, it is computed in that one's loop in any case.
            moved = sum(any(access[:1] == (MOVED,) for access in place) for place in maps)
            again = moved - (moved == len(maps))
            if node.size >= MIN_CACHED_ELEMENTS and again * cost >= EXPENSIVE_INSTRUCTIONS:
                found[root] = (
                    f"one kernel would recompute its {cost} instructions at {again} more indices "
                    f"(limit {EXPENSIVE_INSTRUCTIONS} in all)"
                )
        users = analysis.consumers.get(node, ())
        later = {root for root in found if users and all(root in ends.get(u, ()) for u in users)}
        can_end = node.op in ELEMENTWISE and node.op is not Op.CAST
        ends[node] = set(found) if can_end else later
        if can_end and node not in analysis.barriers:
            for root, why in found.items():
                if root not in later:
                    stored[node] = why
    return _new(analysis, "read-at-many-indices", stored)


def several_results(analysis: FusionAnalysis) -> dict[UOp, int]:
    """Results that share a kernel, since all are computed of values that are expensive.

    With a store for each it computes these values once, in registers: the words of a hash after its
    rounds.  `expensive_to_recompute` would keep the values in memory.

    Returns:
        The number of a set of such results, by the result.
    """
    numbers = dict(analysis.shared)
    reducing = {
        root for u in analysis.order if u.op in REDUCTIONS for root in analysis.access_maps[u]
    }
    for node in analysis.order:
        readers = analysis.access_maps.get(node, {})
        roots = readers.keys()
        if len(roots) < 2 or not reducing.isdisjoint(roots) or not _expensive(analysis, node):
            continue
        joined = {numbers[root] for root in roots if root in numbers}
        tried = len(joined) == 1 and roots <= numbers.keys()
        if not tried and all(_has_loops_of(root, node, maps) for root, maps in readers.items()):
            number = len(analysis.order) + analysis.position[node]
            numbers |= {root: number for root, n in numbers.items() if n in joined}
            numbers |= dict.fromkeys(roots, number)
    return numbers if numbers != analysis.shared else {}


def _has_loops_of(root: UOp, node: UOp, maps: AccessMaps) -> bool:
    """Whether a kernel reads a value element by element, in loops over all of it."""
    fused = root.op not in OWN_KERNEL and root.op not in (Op.GET, Op.GBARRIER)
    return fused and root.shape == node.shape and maps == {identity_map(node)}


def expensive_to_recompute(analysis: FusionAnalysis) -> set[UOp]:
    """Values read by several kernels that are cheaper to store than to recompute.

    They are stored where the consumers diverge: r kernels that recompute a value of n inputs read
    r n arrays; storing it costs n reads, a write, and r - 1 reads.  A value that stays in the cache
    is written and read in less time than a function takes.  One of a few elements costs code alone.
    """
    stored: dict[UOp, str] = {}
    for node in analysis.order:
        readers = analysis.access_maps.get(node, {})
        why = _expensive(analysis, node)
        if why:
            # A consumer that the same kernels read is the better place: less is left to compute.
            users = [u for u in analysis.consumers.get(node, ()) if not _widens(u)]
            if all(analysis.access_maps.get(u, {}).keys() != readers.keys() for u in users):
                stored[node] = f"{len(readers)} kernels read it; {', and '.join(why)}"
    return _new(analysis, "expensive-to-recompute", stored)


def _expensive(analysis: FusionAnalysis, node: UOp) -> list[str]:
    """The reasons why a value is cheaper to store than to recompute in each of its kernels."""
    count = len(analysis.access_maps.get(node, {}))
    if count < 2 or node.op not in ELEMENTWISE or _widens(node):
        return []
    spared_passes = (count - 1) * (_passes(analysis, node) - 1)
    most = analysis.cache_bytes // node.dtype.itemsize
    cached = MIN_CACHED_ELEMENTS <= node.size <= most
    limit = FUNCTION_INSTRUCTIONS if cached else EXPENSIVE_INSTRUCTIONS
    why = []
    cost = analysis.depth_cost[node]
    repeated = (count - 1) * cost
    if cost >= limit:
        why.append(f"each would recompute {cost} instructions (limit {limit})")
    elif node.size < MIN_CACHED_ELEMENTS and repeated > MAX_REPEATED_INSTRUCTIONS:
        allowed = MAX_REPEATED_INSTRUCTIONS
        why.append(f"they would hold {repeated} instructions more (limit {allowed})")
    if spared_passes > MATERIALIZE_COST_PASSES:
        arrays = f"{spared_passes} arrays more (limit {MATERIALIZE_COST_PASSES})"
        why.append(f"together they would read {arrays}")
    return why


def _passes(analysis: FusionAnalysis, node: UOp) -> int:
    """The passes over memory that computing a value costs, each over as much as it has itself.

    One for each input, and several for a larger one of which it reads several parts: the largest of
    3 x 3 points with strides of 2 reads an image of four times its size.
    """
    inputs = analysis.inputs[node]
    if not any(u.size >= 2 * node.size > 0 for u in inputs):
        return len(inputs)
    inside = lambda u: u is node or u not in analysis.barriers
    order = few_nodes(node, inside, MAX_WINDOW_NODES)
    if not order:
        return len(inputs)
    parts: dict[UOp, set[tuple[UOp, Hashable]]] = {}  # the arrays that it reads, and which
    for u in order:
        if u.op is Op.PARAM or (u in analysis.barriers and u is not node):
            parts[u] = {(u, ())} if u.size >= 2 * node.size else set()
            continue
        read = {part for s in u.src for part in parts.get(s, ())}
        is_part = u.op in (Op.SHRINK, Op.PAD, Op.FLIP)
        parts[u] = {(s, (u.arg, path)) for s, path in read} if is_part else read
    reads = Counter(u for u, _ in parts[node])
    large = sum(min(count, u.size // node.size) for u, count in reads.items())
    return large + len(inputs - reads.keys())


def _widens(u: UOp) -> bool:
    """Whether a node only makes a value wider: that is stored as it is before."""
    return u.op is Op.CAST and u.src[0].dtype.itemsize < u.dtype.itemsize


def loop_invariant(analysis: FusionAnalysis) -> set[UOp]:
    """Expensive values that loops around their own would recompute in each iteration.

    cos(position) in a kernel over texts, positions and channels: once for every text.  So would
    several values side by side, since vectors go through the instructions of all.
    """
    stored: dict[UOp, str] = {}
    cost = analysis.depth_cost
    for node in analysis.order:
        if node.op is Op.CONCAT and not (node in analysis.barriers and stored_parts(node)):
            parts = {viewed(s, analysis.barriers) for s in node.src}
            expensive = {
                u for u in parts if u.op in ELEMENTWISE and cost[u] >= FUNCTION_INSTRUCTIONS
            }
            if len(expensive) > MAX_EXPENSIVE_PARTS:
                reason = f"one of {len(expensive)} expensive parts that vectors would all compute"
                stored |= dict.fromkeys(expensive, reason)
        if node.op is not Op.EXPAND:
            continue
        source, value = node.src[0], viewed(node.src[0], analysis.barriers)
        own_axes = [axis for axis, n in enumerate(source.shape) if n != 1]
        # Loops inside of the value's own do not count: there the compiler hoists it by itself.
        around = node.shape[: own_axes[-1]] if own_axes else ()
        trips = prod(n for n, m in zip(around, source.shape) if m == 1)
        repeated = trips > MAX_RECOMPUTED_READS and value.op in ELEMENTWISE
        often = trips >= MANY_TRIPS and value.size >= MIN_CACHED_ELEMENTS
        limit = FEW_INSTRUCTIONS if often else FUNCTION_INSTRUCTIONS
        if repeated and cost[value] >= limit:
            stored[_narrowest(source, value)] = (
                f"loops around it would compute its {cost[value]} instructions {trips} times "
                f"(limit {limit} instructions)"
            )
    return _new(analysis, "loop-invariant", stored)


def _narrowest(view: UOp, value: UOp) -> UOp:
    """The narrowest of a value and the conversions of it between which there is a view."""
    best, u = value, view
    while u is not value:
        if u.op is Op.CAST and u.dtype.itemsize < best.dtype.itemsize:
            best = u
        u = u.src[0]
    return best


def oversized(analysis: FusionAnalysis) -> dict[UOp, UOp]:
    """Values at which kernels of too many instructions are cut: the fewest that are live.

    Returns:
        For each of these values the part that it ends, by the first value of that.
    """
    members: dict[UOp, list[UOp]] = {}
    for node in analysis.order:
        for root in analysis.access_maps.get(node, {}):
            members.setdefault(root, []).append(node)
    parts: dict[UOp, UOp] = {}
    for root, nodes in members.items():
        # Smaller nodes are computed outside of the innermost loop, or are numbers of channels.
        loop = loop_shape(root)
        nodes = [u for u in nodes if u.size >= prod(loop) and u.ndim >= len(loop)]
        total = sum(INSTRUCTIONS[u.op] for u in nodes)
        if sum(map(_kernel_instructions, nodes)) > MAX_KERNEL_INSTRUCTIONS:
            for cut in _narrowest_cuts(analysis, nodes):
                parts |= dict.fromkeys(cut, next(u for u in nodes if u in cut))
        elif total > MAX_EPILOGUE_INSTRUCTIONS and root not in analysis.parts:
            ends = {_epilogue_end(analysis, u) for u in nodes if u.op in CONTRACTIONS}
            parts |= {u: u for u in ends if u not in analysis.parts}
    parts = {u: part for u, part in parts.items() if u not in analysis.outputs}
    _new(analysis, "oversized", dict.fromkeys(parts, "a long kernel is cut where few are live"))
    return parts


def _kernel_instructions(node: UOp) -> int:
    """The instructions as which a node counts for the size of its kernel."""
    return INSTRUCTIONS[node.op] + REDUCTION_INSTRUCTIONS * (node.op is Op.REDUCE)


def _narrowest_cuts(analysis: FusionAnalysis, nodes: list[UOp]) -> list[set[UOp]]:
    """The live values at each cut of a long body, into parts of half to all of what is allowed."""
    inside = set(nodes)
    last_use = {s: i for i, node in enumerate(nodes) for s in node.src if s in inside}
    cuts: list[set[UOp]] = []
    live: set[UOp] = set()
    best: set[UOp] = set()
    total = since_best = 0
    for i, node in enumerate(nodes):
        count = _kernel_instructions(node)
        total, since_best = total + count, since_best + count
        live = {u for u in live if last_use[u] > i}
        in_memory = node in analysis.barriers or node.op in LEAVES
        if last_use.get(node, -1) > i and not in_memory:
            live.add(node)
        if total > MAX_KERNEL_INSTRUCTIONS and best:
            cuts.append(best)
            live -= best
            total, best = since_best, set()
        elementwise = bool(live) and all(u.op in ELEMENTWISE for u in live)
        long_enough = total > MAX_KERNEL_INSTRUCTIONS // 2
        if long_enough and elementwise and (not best or len(live) <= len(best)):
            best, since_best = set(live), 0
    return cuts


def _obstacle(
    analysis: FusionAnalysis,
    node: UOp,
    contractions: dict[UOp, UOp],
    prefixes: dict[UOp, list[frozenset[Access]]],
) -> str:
    """The reason why a reduction cannot be computed inside of the one kernel that reads it, or "".

    Args:
        analysis: the present one.
        node: the reduction.
        contractions: the contraction that each kernel has, to which this one may be added.
        prefixes: the loops around the reductions that each kernel has, to which its are added.
    """
    readers = analysis.access_maps.get(node, {})
    if node in analysis.barriers:
        root = analysis.kernel[node]
    elif len(readers) != 1:
        return f"a {node.op.value} that {len(readers)} kernels read is computed once, not by each"
    else:
        root = next(iter(readers))
    if len(readers[root]) != 1:
        return f"one kernel reads the {node.op.value} at {len(readers[root])} different indices"
    access_map = next(iter(readers[root]))
    axes = [access for access in access_map if access != ()]
    # A contraction is computed at every element in any case, so a reshape of its result is free.
    if axes and axes[0][0] == REGROUPED and node.op in CONTRACTIONS:
        axes = [access for access in axes[0][2] if access != ()]  # type: ignore[attr-defined]
    loops = frozenset(axes)
    if len(loops) != len(axes) or any(a[0] in (MOVED, REGROUPED, WHOLE) for a in axes):
        return (
            f"its reader does not read the {node.op.value} element by element along its own loops"
        )
    kernel_loops = frozenset((i,) for i in range(root.ndim) if root.shape[i] != 1)
    if node.op in CONTRACTIONS:
        if loops != kernel_loops or root in contractions or prefixes.get(root):
            return (
                "a kernel has one contraction, which runs in all of its loops, and no other "
                "reduction beside it"
            )
        contractions[root] = node
        return ""
    # A total that no loop indexes would be summed again in each of the kernel's iterations.
    if root in contractions:
        return "a reduction that the kernel of a contraction reads has a kernel of its own"
    if kernel_loops and not loops:
        return "a total that no loop indexes would be summed again in each iteration of its reader"
    chain = prefixes.setdefault(root, [])
    inner = [access for access in loops if len(access) == 2]
    owners = {access[0] for access in inner}
    if inner and (len(owners) > 1 or not _nests(analysis, inner, loops, root)):
        return "a reduction of a reduction whose loops do not nest"
    # Loops nest: of any two reductions, the loops around one are among those around the other.
    if any(not (loops <= other or other <= loops) for other in chain):
        return "its loops do not nest with those of another reduction of the same kernel"
    outer = frozenset(access for access in loops if len(access) == 1)
    if not inner and outer != frozenset(sorted(kernel_loops)[: len(outer)]):
        return "the axes at which it is read are not the outer loops of its reader"
    chain.append(loops)
    return ""


def _nests(
    analysis: FusionAnalysis, inner: Sequence[Access], loops: frozenset[Access], root: UOp
) -> bool:
    """Whether a reduction fits into the loops of another one, its owner, that index it: `inner`.

    All loops around the owner must be its own too, and `inner` an outer prefix of the owner's.
    """
    owner = inner[0][0]
    assert isinstance(owner, UOp)
    around = next(iter(analysis.access_maps[owner][root]))
    if any(access != () and access not in loops for access in around):
        return False
    axes = sorted(int(str(access[1])) for access in inner)
    long_axes = [a for a in owner.arg.axes if owner.src[0].shape[a] != 1]
    return owner.op is Op.REDUCE and axes == sorted(long_axes)[: len(axes)]


def _epilogue_end(analysis: FusionAnalysis, node: UOp, stored: Collection[UOp] = ()) -> UOp:
    """The narrowest value that all readers of a reduction read it through: the end of its epilogue.

    Values along the way may have several readers, as the halves of a product in a requantization,
    if all of them meet again.  Of values of one width the last is the end.
    """
    end, inside = node, {node}
    open_values, remaining = {node}, MAX_EPILOGUE_INSTRUCTIONS
    barriers = analysis.barriers.union(stored) if stored else analysis.barriers
    while remaining >= 0 and node not in barriers:
        users = {u for v in open_values for u in analysis.consumers.get(v, {})} - inside
        ready = [u for u in users if _extends(barriers, u, node, inside)]
        if not ready:
            break
        inside.update(ready)
        remaining -= sum(INSTRUCTIONS[u.op] for u in ready)
        readers = {v: analysis.consumers.get(v, {}).keys() for v in open_values}
        open_values = {v for v, users in readers.items() if not users or users - inside}
        open_values |= {*ready}
        if len(open_values) == 1 and remaining >= 0:
            (last,) = open_values
            end = last if last.dtype.itemsize <= end.dtype.itemsize else end
    return end


def _extends(barriers: set[UOp], user: UOp, node: UOp, inside: set[UOp]) -> bool:
    """Whether a value is computed, element by element, of an epilogue and of no other reduction."""
    if user.op not in ELEMENTWISE or user.shape != node.shape or user in barriers:
        return False
    # A second reduction among its operands would have to be fused into this kernel, too.
    return not any(
        s not in inside and is_computed(s, barriers) and _holds_reduction(barriers, s)
        for s in user.src
    )


def _holds_reduction(barriers: set[UOp], node: UOp) -> bool:
    """Whether a reduction is among what computes a node from values in memory."""
    nodes = walk([node], lambda n: n not in barriers)
    return any(n.op in REDUCTIONS for n in nodes)
