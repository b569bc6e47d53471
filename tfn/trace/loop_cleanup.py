"""Common-subexpression and dead-code elimination of loops, branches and calls.

Transforms add to loops: a derivative runs a loop again with residuals beside its results, and uses
only some of them.  Here loops that take the same steps become one (CSE), and carries, operands and
results that are not used are dropped (DCE), in nested functions too::

    y, _ = scan f c xs; _, r = scan f+r c xs    ->  y, r = scan f+r c xs
    a carry that no result needs                ->  dropped
    a carry that never changes                  ->  a const
    a result that is an operand as it came in   ->  the operand
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from tfn._support.frozen import frozen
from tfn.trace import source_lines
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function, param
from tfn.trace.op import LOOPS, Op
from tfn.trace.uop import Key, UOp, rebuild, remembered, substitute, walk


def tidy(outputs: Sequence[UOp], order: Sequence[UOp] | None = None) -> list[UOp]:
    """The same values from fewer and smaller loops.

    `order` may give the nodes under the outputs, sources first, if they are known.
    """
    order = list(walk(outputs)) if order is None else order
    if not any(node.op in LOOPS for node in order):
        return list(outputs)
    merged = _merge(outputs, order)
    return _prune(merged, list(walk(merged)))


# Common-subexpression elimination: loops that take the same steps.


def _merge(outputs: Sequence[UOp], order: Sequence[UOp]) -> list[UOp]:
    groups: dict[Key, list[UOp]] = {}
    for node in order:
        if node.op in LOOPS:
            groups.setdefault(_STEPS[node.op](node), []).append(node)
    replaced: dict[UOp, UOp] = {}
    for group in groups.values():
        if len(group) > 1:
            replaced |= _JOINS[group[0].op](group, order)
    if not replaced:
        return list(outputs)
    merged = redirected(outputs, replaced)
    # Loops whose operands have become equal by this may now be equal themselves.
    return _merge(merged, list(walk(merged)))


def redirected(outputs: Sequence[UOp], replaced: Mapping[UOp, UOp]) -> list[UOp]:
    """The outputs with nodes replaced, beneath the replacements too: chains of loops in one go."""
    new: dict[UOp, UOp] = {}
    stack = list(outputs)
    while stack:
        node = stack[-1]
        goal = replaced.get(node, node)
        src = () if goal.op is Op.FUNCTION else goal.src
        waiting = [s for s in src if s not in new]
        if waiting and node not in new:
            stack.extend(waiting)
            continue
        stack.pop()
        if node not in new:
            new[node] = rebuild(goal, tuple([new[s] for s in src])) if src else goal
    return [new[u] for u in outputs]


def _scan_steps(u: UOp) -> Key:
    body = u.src[0]
    return u.arg, u.src[1:], body.arg, body.src[: u.arg.carries]


def _cond_steps(u: UOp) -> Key:
    first = 1 + u.arg.branches
    return u.arg, u.src[0], u.src[first:], tuple(f.arg for f in u.src[1:first])


def _while_steps(u: UOp) -> Key:
    return Op.WHILE, u.arg.cond_consts, u.src[2 : 2 + u.arg.cond_consts], u.src[0].src


def _call_steps(u: UOp) -> Key:
    return Op.CALL, u.src[1:]


_STEPS: dict[Op, Callable[[UOp], Key]] = {
    Op.SCAN: _scan_steps,
    Op.WHILE: _while_steps,
    Op.COND: _cond_steps,
    Op.CALL: _call_steps,
}
"""The key of a loop: loops with equal keys take the same steps, and can be merged."""


def _join(group: Sequence[UOp], order: Sequence[UOp]) -> dict[UOp, UOp]:
    """One scan, or one branch, with the results of all."""
    first = group[0]
    at = range(1) if first.op is Op.SCAN else range(1, 1 + first.arg.branches)
    carries = first.arg.carries if first.op is Op.SCAN else 0
    place: dict[tuple[UOp, ...], int] = {}
    where: list[list[int]] = []
    for u in group:
        rows = list(zip(*(u.src[k].src for k in at), strict=True))
        added = [place.setdefault(row, len(place) + carries) for row in rows[carries:]]
        where.append([*range(carries), *added])
    carried = list(zip(*(first.src[k].src[:carries] for k in at), strict=True))
    columns = zip(*carried, *place, strict=True) if carried or place else ([] for _ in at)
    src = list(first.src)
    for k, column in zip(at, columns, strict=True):
        src[k] = function(tuple(column), first.src[k].arg.params)
    joined = UOp(first.op, tuple(src), first.arg)
    return _redirected_gets(zip(group, where), joined, order)


def _join_whiles(group: Sequence[UOp], order: Sequence[UOp]) -> dict[UOp, UOp]:
    """A while whose carries are the first carries of a larger one, replaced by that one."""
    by_size = sorted(group, key=lambda u: len(u.src[1].src))
    for small in by_size:
        for large in reversed(by_size):
            count = len(small.src[1].src)
            if large is small or len(large.src[1].src) == count:
                break
            if _begins(small, large) and small not in set(walk([large])):
                return _redirected_gets([(small, range(count))], large, order)
    return {}


def _begins(small: UOp, large: UOp) -> bool:
    """Whether the carries of the small loop are the first carries of the large one."""
    count = len(small.src[1].src)
    consts, others = (u.src[2 + u.arg.cond_consts :][: u.arg.body_consts] for u in (small, large))
    firsts = [u.src[2 + u.arg.cond_consts + u.arg.body_consts :][:count] for u in (small, large)]
    if firsts[0] != firsts[1] or any(x not in others for x in consts):
        return False
    params, wider = small.src[1].arg.params, large.src[1].arg.params
    places = [others.index(x) for x in consts] + [len(others) + i for i in range(count)]
    renamed = {param(p): param(wider[i]) for p, i in zip(params, places, strict=True)}
    return tuple(substitute(small.src[1].src, renamed)) == large.src[1].src[:count]


def _join_calls(group: Sequence[UOp], order: Sequence[UOp]) -> dict[UOp, UOp]:
    """A call whose results are among those of another call, replaced by that call."""
    by_size = sorted(group, key=lambda u: len(u.src[0].src), reverse=True)
    places = [{y: i for i, y in enumerate(u.src[0].src)} for u in by_size]
    replaced: dict[UOp, UOp] = {}
    for k, small in enumerate(by_size):
        results = small.src[0].src
        for large, place in zip(by_size[:k], places):
            if place.keys() >= set(results):
                indices = [place[y] for y in results]
                replaced |= _redirected_gets([(small, indices)], large, order)
                break
    return replaced


_JOINS: dict[Op, Callable[[Sequence[UOp], Sequence[UOp]], dict[UOp, UOp]]] = {
    Op.SCAN: _join,
    Op.WHILE: _join_whiles,
    Op.COND: _join,
    Op.CALL: _join_calls,
}
"""Per op: merges loops of one key, as far as possible, and gives the replacements of their GETs."""


def _redirected_gets(
    where: Iterable[tuple[UOp, Sequence[int]]], joined: UOp, order: Sequence[UOp]
) -> dict[UOp, UOp]:
    """The GETs of merged loops, as GETs of the loop that has their results."""
    places = dict(where)
    return {
        node: UOp(Op.GET, (joined,), places[node.src[0]][node.arg])
        for node in order
        if node.op is Op.GET and node.src[0] in places and node.src[0] is not joined
    }


# Dead-code elimination: carries, operands and results that are not used.


@frozen
class _Plan:
    """A loop without its dead parts.

    Attributes:
        src: its sources.
        arg: its argument.
        places: the new index of each result that is left.
        passed: the results that are operands, unchanged.
    """

    src: tuple[UOp, ...]
    arg: Hashable
    places: dict[int, int]
    passed: dict[int, UOp]


def _prune(outputs: Sequence[UOp], order: Sequence[UOp]) -> list[UOp]:
    live, used = set(outputs), dict[UOp, set[int]]()
    plans: dict[UOp, _Plan] = {}
    for node in reversed(order):
        if node in used:
            plan = plans[node] = _PLANS[node.op](node, sorted(used[node]))
            live.update(plan.src if plan.places else (), plan.passed.values())
        elif node.op is Op.GET and node.src[0].op in LOOPS:
            if node in live:
                used.setdefault(node.src[0], set()).add(node.arg)
        elif node in live and node.op is not Op.FUNCTION:
            live.update(node.src)
    new: dict[UOp, UOp] = {}
    for node in order:
        if node in plans:
            plan = plans[node]
            if plan.places:
                new[node] = UOp(node.op, tuple(new.get(s, s) for s in plan.src), plan.arg)
        elif node.op is Op.GET and node.src[0] in plans:
            plan = plans[node.src[0]]
            if node.arg in plan.passed:
                new[node] = new[plan.passed[node.arg]]
            elif node.arg in plan.places:
                new[node] = UOp(Op.GET, (new[node.src[0]],), plan.places[node.arg])
        elif node in live:
            closed = node.op is Op.FUNCTION
            new[node] = node if closed else rebuild(node, tuple([new[s] for s in node.src]))
    if source_lines.enabled():
        source_lines.follow(new)
    return [new[u] for u in outputs]


class _Graphs:
    """Graphs over parameters, whose nodes are listed once.

    Attributes:
        outputs: the graphs.
        needed: the numbers of the parameters that they use.
    """

    def __init__(self, outputs: Sequence[UOp]) -> None:
        self.outputs = outputs
        self._order = list(walk(outputs))
        self.needed = {u.arg.index for u in self._order if u.op is Op.PARAM}

    @staticmethod
    def tidied(outputs: Sequence[UOp]) -> _Graphs:
        """The graphs with fewer and smaller loops."""
        graphs = _Graphs(outputs)
        new = tidy(outputs, graphs._order)
        return graphs if new == list(outputs) else _Graphs(new)

    def closed(self, params: Sequence[Param]) -> UOp:
        """The FUNCTION of the graphs over some parameters, which are numbered anew."""
        numbered = tuple(p if p.index == i else replace(p, index=i) for i, p in enumerate(params))
        renamed = {param(p): param(q) for p, q in zip(params, numbered, strict=True) if p is not q}
        if not renamed:
            return function(self.outputs, numbered)
        return function(substitute(self.outputs, renamed, self._order), numbered)


def _scan(u: UOp, used: Sequence[int]) -> _Plan:
    body, arg, operands = u.src[0], u.arg, u.src[1:]
    params, first, end = body.arg.params, arg.consts, arg.consts + arg.carries
    fixed = {i for i in range(first, end) if body.src[i - first] is param(params[i])}
    array_of = {param(params[i]): operands[i] for i in range(end, len(params))}
    passed = {i: operands[first + i] for i in used if first + i in fixed}
    ys = [i for i in used if i >= arg.carries]
    state = {i for i in range(first, end) if i - first in used} - fixed
    while True:  # until no further carry is needed
        carries = sorted(state)
        graphs = _Graphs.tidied(
            [*(body.src[i - first] for i in carries), *(body.src[i] for i in ys)]
        )
        more = {i for i in graphs.needed if first <= i < end} - fixed - state
        if not more:
            break
        state |= more
    stacked = dict(zip(ys, graphs.outputs[len(carries) :], strict=True))
    unchanged = {i: array_of[y] for i, y in stacked.items() if y in array_of}
    if unchanged:
        passed |= unchanged
        ys = [i for i in ys if i not in unchanged]
        graphs = _Graphs([*graphs.outputs[: len(carries)], *(stacked[i] for i in ys)])
    consts = [i for i in range(end) if i in graphs.needed and (i < first or i in fixed)]
    arrays = [i for i in range(end, len(params)) if i in graphs.needed]
    live = [*consts, *carries, *arrays]
    new_body = graphs.closed([params[i] for i in live])
    places = {i - first: n for n, i in enumerate(carries)}
    places |= {i: len(carries) + n for n, i in enumerate(ys)}
    new = replace(arg, consts=len(consts), carries=len(carries))
    return _Plan((new_body, *(operands[i] for i in live)), new, places, passed)


def _while(u: UOp, used: Sequence[int]) -> _Plan:
    (cond, body), operands = u.src[:2], u.src[2:]
    a, b = u.arg.cond_consts, u.arg.body_consts
    tests, params, count = cond.arg.params, body.arg.params, len(body.src)
    firsts = operands[a + b :]
    fixed = {i for i in range(count) if body.src[i] is param(params[b + i])}
    passed = {i: firsts[i] for i in used if i in fixed}
    holds = _Graphs.tidied(cond.src)
    tested = holds.needed
    state = ({i for i in range(count) if a + i in tested} | set(used)) - fixed
    while True:  # until no further carry is needed
        carries = sorted(state)
        graphs = _Graphs.tidied([body.src[i] for i in carries])
        needed = graphs.needed
        more = {i - b for i in needed if i >= b} - fixed - state
        if not more:
            break
        state |= more
    test_consts = [i for i in range(len(tests)) if i in tested and (i < a or i - a in fixed)]
    body_consts = [i for i in range(len(params)) if i in needed and (i < b or i - b in fixed)]
    test = holds.closed([tests[i] for i in (*test_consts, *(a + i for i in carries))])
    new_body = graphs.closed([params[i] for i in (*body_consts, *(b + i for i in carries))])
    src = (
        test,
        new_body,
        *(operands[i] if i < a else firsts[i - a] for i in test_consts),
        *(operands[a + i] if i < b else firsts[i - b] for i in body_consts),
        *(firsts[i] for i in carries),
    )
    new = replace(u.arg, cond_consts=len(test_consts), body_consts=len(body_consts))
    places = {i: n for n, i in enumerate(carries)} if len(passed) < len(used) else {}
    return _Plan(src, new, places, passed)


def _cond(u: UOp, used: Sequence[int]) -> _Plan:
    first = 1 + u.arg.branches
    branches, operands = u.src[1:first], u.src[first:]
    params = branches[0].arg.params
    operand_of = dict(zip(map(param, params), operands, strict=True))
    outputs = [tidy([f.src[i] for i in used]) for f in branches]
    columns = dict(zip(used, zip(*outputs, strict=True), strict=True))
    passed = {
        i: operand_of[same[0]]
        for i, same in columns.items()
        if len(set(same)) == 1 and same[0] in operand_of
    }
    rest = [i for i in used if i not in passed]
    graphs = [_Graphs([columns[i][k] for i in rest]) for k in range(len(branches))]
    needed = set[int]().union(*(row.needed for row in graphs))
    live = [i for i in range(len(params)) if i in needed]
    new_branches = [row.closed([params[i] for i in live]) for row in graphs]
    src = (u.src[0], *new_branches, *(operands[i] for i in live))
    return _Plan(src, u.arg, {i: n for n, i in enumerate(rest)}, passed)


@remembered
def _pruned(f: UOp, used: tuple[int, ...]) -> tuple[UOp, list[int], dict[int, int], dict[int, int]]:
    """A function with only the `used` results, made once for all its calls.

    Returns:
        (function, indices of the parameters that are left, new index of each result, index of the
        parameter for each result that is one).
    """
    params = f.arg.params
    outputs = dict(zip(used, tidy([f.src[i] for i in used]), strict=True))
    passed = {i: u.arg.index for i, u in outputs.items() if u.op is Op.PARAM}
    rest = [i for i in used if i not in passed]
    graphs = _Graphs([outputs[i] for i in rest])
    live = [i for i in range(len(params)) if i in graphs.needed]
    pruned = graphs.closed([params[i] for i in live])
    return pruned, live, {i: n for n, i in enumerate(rest)}, passed


def _call(u: UOp, used: Sequence[int]) -> _Plan:
    pruned, live, places, passed = _pruned(u.src[0], tuple(used))
    operands = u.src[1:]
    src = (pruned, *(operands[i] for i in live))
    return _Plan(src, u.arg, places, {i: operands[k] for i, k in passed.items()})


_PLANS: dict[Op, Callable[[UOp, Sequence[int]], _Plan]] = {
    Op.SCAN: _scan,
    Op.WHILE: _while,
    Op.COND: _cond,
    Op.CALL: _call,
}
