"""Kernel boundaries: a GBARRIER on every value that must, or should, be materialised.

Before -> after, for a layer whose activation is used twice::

    d = dot a b;  e = add d c;  f = exp e;  g = reduce e
    d = dot a b;  e = barrier[0] (add d c);  f = barrier[1] (exp e);  g = barrier[2] (reduce e)

Barriers with one number are the outputs of one kernel.  *Legality* (`required`) finds the values
that have to exist in memory.  *Policy* (`policies`) finds those that are worth it: one policy after
the other, each on a fresh analysis of fusion, until none has anything to add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.lower.fuse import policies
from tfn.lower.fuse.analysis import (
    CONTRACTIONS,
    LEAVES,
    SEVERAL_RESULTS,
    VIEW_OPS,
    FusionAnalysis,
    in_memory,
    is_computed,
    output_in_memory,
    part_in_memory,
    viewed,
)
from tfn.lower.fuse.sharing import share
from tfn.lower.graph.flash import chunk_oversized
from tfn.lower.graph.intermediates import free_sizes, read_again
from tfn.lower.graph.packing import MIN_ROWS_TO_PACK_SHALLOW, prepare
from tfn.lower.target.target import Target
from tfn.trace import build, records, source_lines
from tfn.trace.jaxpr import function as make_function
from tfn.trace.op import LOOPS, Op
from tfn.trace.records import Record, cached
from tfn.trace.uop import UOp, rebuild, walk

MAX_SPARSITY_TO_MATERIALIZE = 16
"""Elements of the operand of a gather for each one that it takes, up to which it is materialised.

A gather of fewer elements computes those alone, at the indices at which it takes them.
"""

MAX_ROWS_OF_GATHERED = MIN_ROWS_TO_PACK_SHALLOW - 1
"""Rows of a product up to which its loops take what is gathered for its other operand.

Of more it would be packed.  Attention of eight texts to 128 keys and values in pages took 217 us on
two cores, a half of it the copies; it takes 153, and 57 where the rows of a head follow each other.
"""

Rewrite = Callable[[Sequence[UOp], Target], list[UOp]]

MAX_UPDATES_IN_A_ROW = 8
"""Scatters of scatters that are looked through for an array which the updates read: a bound, so
that the time for many in a row is linear."""


def rewritten(outputs: Sequence[UOp], target: Target) -> list[UOp]:
    """Arrays as the loops of a processor compute them.

    Oversized values become loops over blocks first, since packing depends on the sizes of operands.
    """
    return prepare(share(chunk_oversized(outputs, target), target), target)


@cached(maxsize=64)  # equal layers have the same loop bodies
def insert_barriers(
    function: UOp,
    target: Target,
    rewrite: Rewrite = rewritten,
    views: frozenset[Op] = VIEW_OPS,
) -> UOp:
    """Returns the function with numbered barriers: the stage KERNELS.

    The bodies of loops come here by themselves.

    Args:
        function, target: what is lowered, and for which machine.
        rewrite: arrays as the loops of the machine compute them.
        views: ops that every reader does by itself, however often it reads the result.
    """
    outputs = rewrite(function.src, target)
    order = [u for u in walk(outputs) if u.op is not Op.FUNCTION]
    results = frozenset(map(output_in_memory, outputs))
    sink = records.sink()
    reasons = required(outputs)
    barriers = set(reasons)
    repeated = _repeated_operands(outputs, barriers, views)
    barriers |= set(repeated)
    if sink is not None:
        sink += [Record("required", u, reason=reason) for u, reason in reasons.items()]
        more_reasons = {u: reason for u, reason in repeated.items() if u not in reasons}
        sink += [Record("repeated-operands", u, reason=r) for u, r in more_reasons.items()]
    # Half of the cache: the other half is for all else that the kernels between read.
    analysis = FusionAnalysis(order, results, barriers, {}, target.l2_bytes // 2)
    analysis.add(*policies.read_by_several_kernels(analysis), {})
    while True:
        # Cheap questions about few nodes first; a barrier may change the answer of all later ones.
        unfused, ends = policies.unfused_reductions(analysis)
        more = unfused or policies.read_at_many_indices(analysis)
        shared = {} if more else policies.several_results(analysis)
        if not more and not shared:
            more = policies.expensive_to_recompute(analysis) or policies.loop_invariant(analysis)
        if not (more or shared):
            ends = policies.oversized(analysis)
        if not (more or shared or ends):
            break
        analysis.add(more or ends, ends, shared)
    return _number_barriers(outputs, analysis, function)


def required(outputs: Sequence[UOp]) -> dict[UOp, str]:
    """Legality: the values that have to exist in memory, with the reason of each.

    Outputs, users' barriers, operands and results of ops with kernels of their own.
    """
    results = (output_in_memory(u) for u in outputs if u.op is not Op.PARAM)
    stored = dict.fromkeys(results, "a result of the function")
    for node in walk(outputs):
        if node.op is Op.GBARRIER:
            stored.setdefault(node, "a barrier of the user, or a copy that packs an operand")
        elif node.op is Op.SCATTER:
            stored.setdefault(node, "a scatter updates its buffer element by element")
        elif node.op in SEVERAL_RESULTS:
            in_place = (Op.PARAM, Op.FUNCTION, Op.CONST) if node.op in LOOPS else (Op.PARAM,)
            reason = f"an operand of a {node.op.value}, which has kernels of its own"
            for s in map(_operand_in_memory(node.op), node.src):
                if s.op not in in_place:
                    stored.setdefault(s, reason)
        elif node.op is Op.GET:
            reason = f"a result of a {node.src[0].op.value}, which has kernels of its own"
            stored.setdefault(node, reason)
        elif node.op is Op.AFTER:
            for s in map(_ordered, node.src):
                if s.op not in LEAVES:
                    stored.setdefault(s, "an effect orders it before or after other values")
    return stored


def _operand_in_memory(op: Op) -> Callable[[UOp], UOp]:
    """A function from an operand to the value in whose memory it is, for ops with own kernels."""
    if op in LOOPS:
        return lambda node: part_in_memory(node)[0]
    return in_memory if op is Op.SORT else _ordered


def _ordered(node: UOp) -> UOp:
    """The value of an AFTER, which only orders it after others."""
    while node.op is Op.AFTER:
        node = node.src[0]
    return node


def _repeated_operands(
    outputs: Sequence[UOp], barriers: set[UOp], views: frozenset[Op]
) -> dict[UOp, str]:
    """Policy: operands that contractions and gathers read many times, with the reason of each.

    So are the updates of a scatter, fewer than its elements, if they are computed of its operand,
    or of what that is an update of: once they exist, that may be updated in place.
    """
    stored: dict[UOp, str] = {}
    for node in walk(outputs):
        if node.op in CONTRACTIONS:
            reason = f"a {node.op.value} reads each element of it many times"
            taken = _taken_in_loops(node)
            again = (s for s in read_again(node) if s not in taken)
            operands = filter(None, (_operand(s, barriers, views) for s in again))
            stored |= dict.fromkeys(operands, reason)
        elif node.op is Op.GATHER and node.size * MAX_SPARSITY_TO_MATERIALIZE > node.src[0].size:
            if is_computed(node.src[0], barriers):
                stored[node.src[0]] = "a gather takes many of its elements"
        elif node.op is Op.SCATTER and node.src[2].size < node.src[0].size:
            operand, _, updates = (viewed(s, barriers) for s in node.src)
            updated = {operand}
            while operand.op is Op.SCATTER and len(updated) <= MAX_UPDATES_IN_A_ROW:
                operand = viewed(operand.src[0], barriers)
                updated.add(operand)
            read = walk([updates], lambda u: u not in barriers)
            if not updated.isdisjoint(read):
                updates = node.src[2] if updates in updated else updates
                stored[updates] = "updates computed of the array that a scatter then updates"
    return stored


def _taken_in_loops(node: UOp) -> list[UOp]:
    """The operands of a product that a gather takes, and few rows of the other one read.

    Its loops take each element once for all of these rows, whose sums are in registers.
    """
    if node.op is not Op.DOT:
        return []
    times = reversed(free_sizes(node))
    return [s for s, rows in zip(node.src, times) if rows <= MAX_ROWS_OF_GATHERED and _gathers(s)]


def _gathers(node: UOp) -> bool:
    """Whether a value is rows that a gather takes, whole, converted or under a mask."""
    while node.op in VIEW_OPS or (node.op is Op.WHERE and not viewed(node.src[2], set()).src):
        node = node.src[node.op is Op.WHERE]
    return node.op is Op.GATHER and node.arg.sizes[-1:] == node.src[0].shape[-1:] != (1,)


def _operand(node: UOp, barriers: set[UOp], views: frozenset[Op]) -> UOp | None:
    """The value to materialise for an operand that is read many times, if it is computed.

    Below views that only repeat or reorder it, so that no element is stored twice.
    """
    if not is_computed(node, barriers):
        return None
    while node.op in views and node.op is not Op.CAST and node not in barriers:
        if node.op is Op.EXPAND or build.count(node.src[0].shape) <= build.count(node.shape):
            node = node.src[0]
        else:
            break
    return node if is_computed(node, barriers) else None


def _number_barriers(outputs: Sequence[UOp], analysis: FusionAnalysis, function: UOp) -> UOp:
    """The graph with a GBARRIER on each barrier's value, numbered by kernel in graph order.

    Barriers that must have run before a kernel that does not read them follow the value among the
    sources of its own.
    """
    numbers: dict[UOp, int] = {}
    for node in analysis.order:
        if node in analysis.barriers:
            numbers.setdefault(analysis.kernel[node], len(numbers))
    waits: dict[UOp, list[UOp]] = {}  # kernel -> values that it runs after without reading them
    for node in analysis.order:
        if node.op is Op.AFTER:
            for root in analysis.access_maps.get(node, {}):
                waits.setdefault(root, []).extend(map(_ordered, node.src[1:]))
    new: dict[UOp, UOp] = {}
    for node in analysis.order:
        is_after = node.op is Op.AFTER
        if is_after:
            u = new[node.src[0]]
        else:
            u = rebuild(node, tuple(new.get(s, s) for s in node.src))
        if node in analysis.barriers:
            root = analysis.kernel[node]
            value = u.src[0] if u.op is Op.GBARRIER and not is_after else u
            earlier = dict.fromkeys(new[w] for w in waits.get(root, ()) if w in new)
            waited = [w for w in earlier if w.op is Op.GBARRIER and w.arg != numbers[root]]
            u = UOp(Op.GBARRIER, (value, *waited), numbers[root])
            records.changed("barrier", node, u)
        new[node] = u
        if source_lines.enabled():
            source_lines.inherit(u, node)
    return make_function([new[u] for u in outputs], function.arg.params)
