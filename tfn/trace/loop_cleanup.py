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
from itertools import repeat
from typing import NamedTuple

from tfn._support.frozen import frozen
from tfn.trace import source_lines
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function, param
from tfn.trace.op import LOOPS, Op
from tfn.trace.regions import Form, form, settle, split
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


def _body_steps(u: UOp) -> Key:
    """A scan or a branch: its operands, and the carries that the steps compute."""
    parts = form(u)
    steps = tuple((f.arg, f.src[: len(parts.carries)]) for f in parts.functions)
    return u.arg, parts.selector, parts.operands, steps


def _while_steps(u: UOp) -> Key:
    parts = form(u)
    return Op.WHILE, parts.consts[0], parts.functions[0].src


def _call_steps(u: UOp) -> Key:
    return Op.CALL, u.src[1:]


_STEPS: dict[Op, Callable[[UOp], Key]] = {
    **dict.fromkeys((Op.SCAN, Op.COND), _body_steps),
    Op.WHILE: _while_steps,
    Op.CALL: _call_steps,
}
"""The key of a loop: loops with equal keys take the same steps, and can be merged."""


def _join(group: Sequence[UOp], order: Sequence[UOp]) -> dict[UOp, UOp]:
    """One scan, or one branch, with the results of all."""
    first = form(group[0])
    carries = len(first.carries)
    place: dict[tuple[UOp, ...], int] = {}
    where: list[list[int]] = []
    for u in group:
        rows = list(zip(*(f.src for f in form(u).functions), strict=True))
        added = [place.setdefault(row, len(place) + carries) for row in rows[carries:]]
        where.append([*range(carries), *added])
    carried = list(zip(*(f.src[:carries] for f in first.functions), strict=True))
    columns = zip(*carried, *place, strict=True) if carried or place else repeat(())
    pairs = zip(first.functions, columns)
    functions = tuple([function(tuple(column), f.arg.params) for f, column in pairs])
    joined = UOp(*first._replace(functions=functions).fields)
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
    parts, wider = form(small), form(large)
    count, consts, others = len(parts.carries), parts.consts[1], wider.consts[1]
    if parts.carries != wider.carries[:count] or any(x not in others for x in consts):
        return False
    params, wide_params = parts.functions[1].arg.params, wider.functions[1].arg.params
    places = [others.index(x) for x in consts] + [len(others) + i for i in range(count)]
    renamed = {param(p): param(wide_params[i]) for p, i in zip(params, places, strict=True)}
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
    **dict.fromkeys((Op.SCAN, Op.COND), _join),
    Op.WHILE: _join_whiles,
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
        parts: what is left of it.
        places: the new index of each result that is left.
        passed: the results that are operands, unchanged.
    """

    parts: Form[UOp]
    places: dict[int, int]
    passed: dict[int, UOp]


def _prune(outputs: Sequence[UOp], order: Sequence[UOp]) -> list[UOp]:
    live, used = set(outputs), dict[UOp, set[int]]()
    plans: dict[UOp, _Plan] = {}
    for node in reversed(order):
        if node in used:
            plan = plans[node] = _plan(node, sorted(used[node]))
            live.update(plan.parts.sources if plan.places else (), plan.passed.values())
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
                op, src, arg = plan.parts.fields
                new[node] = UOp(op, tuple(new.get(s, s) for s in src), arg)
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


class _Left(NamedTuple):
    """The functions of a loop without their dead parts, for whatever operands.

    Attributes:
        functions: the smaller ones.
        consts: for each the numbers of its parameters that are consts now.
        arrays: those of the last that are slices.
        carries: the numbers of the carries that are left.
        places: the new index of each result that is left.
        passed: by result the number of the parameter of the last function that it always is.
    """

    functions: tuple[UOp, ...]
    consts: list[list[int]]
    arrays: list[int]
    carries: list[int]
    places: dict[int, int]
    passed: dict[int, int]


def _plan(u: UOp, used: Sequence[int]) -> _Plan:
    """A loop with the results, carries and operands alone that the results `used` need."""
    parts = form(u)
    find = _left_of_calls if u.op is Op.CALL else _left
    left = find(parts.functions[0], parts.functions[1:], u.op, u.arg, len(u.src), tuple(used))
    last = parts.taken(len(parts.functions) - 1)
    smaller = parts._replace(
        functions=left.functions,
        consts=tuple(
            tuple([parts.taken(k)[i] for i in row])
            for k, row in enumerate(left.consts[: len(parts.consts)])
        ),
        carries=tuple([parts.carries[i] for i in left.carries]),
        arrays=tuple([last[i] for i in left.arrays]),
    )
    return _Plan(smaller, left.places, {i: last[k] for i, k in left.passed.items()})


def _left(
    first: UOp, rest: tuple[UOp, ...], op: Op, arg: Hashable, sources: int, used: tuple[int, ...]
) -> _Left:
    """The parts that are left of all loops and calls of the same functions."""
    parts = split(op, arg, (None,) * sources)
    functions = (first, *rest)
    tests, mains = functions[: parts.tests], functions[parts.tests :]
    params = [*map(param, functions[-1].arg.params)]
    places = [parts.places(k) for k in range(len(functions))]
    (_, carries, slices), others = places[-1], [i for i in used if i >= len(parts.carries)]
    fixed = {n for n, i in enumerate(carries) if mains[0].src[n] is params[i]}
    decisions = [_Graphs.tidied(f.src) for f in tests]

    def reached(graphs: Sequence[_Graphs], where: Sequence[tuple[range, range, range]]) -> set[int]:
        """The carries that some functions need, but those that never change."""
        rows = zip(graphs, where, strict=True)
        return {n for g, (_, at, _) in rows for n, i in enumerate(at) if i in g.needed} - fixed

    def step(state: set[int]) -> tuple[list[_Graphs], set[int]]:
        wanted = [*sorted(state), *others]
        graphs = [_Graphs.tidied([f.src[i] for i in wanted]) for f in mains]
        return graphs, state | reached(graphs, places[parts.tests :])

    begin = {i for i in used if i < len(carries)} - fixed | reached(decisions, places[: len(tests)])
    graphs, state = settle(step, begin)
    live = sorted(state)
    # A result that in all branches is the same operand; of a scan, the slices of an array.
    same = slices if op is Op.SCAN else range(len(params))
    number = {params[i]: i for i in same}
    columns = dict(zip(others, zip(*(g.outputs[len(live) :] for g in graphs), strict=True)))
    passed = {i: number[y] for i, (y, *more) in columns.items() if y in number and {y} >= {*more}}
    if passed:
        others = [i for i in others if i not in passed]
        rows = enumerate(graphs)
        graphs = [
            _Graphs([*g.outputs[: len(live)], *(columns[i][k] for i in others)]) for k, g in rows
        ]
    passed |= {i: carries[i] for i in used if i in fixed}

    every = [*decisions, *graphs]
    needed = [g.needed for g in every]
    if len(parts.consts) < len(needed):  # they share their operands
        needed = [set[int]().union(*needed)] * len(needed)
    consts = [
        [i for i in (*own, *(at[n] for n in sorted(fixed))) if i in need]
        for need, (own, at, _) in zip(needed, places, strict=True)
    ]
    arrays = [i for i in slices if i in needed[-1]]
    smaller = [
        g.closed([f.arg.params[i] for i in (*row, *(at[n] for n in live), *arrays)])
        for g, f, row, (_, at, _) in zip(every, functions, consts, places, strict=True)
    ]
    new_places = {i: n for n, i in enumerate((*live, *others))} if len(passed) < len(used) else {}
    return _Left(tuple(smaller), consts, arrays, live, new_places, passed)


_left_of_calls = remembered(_left)
"""The same, once for all calls of a function; a loop has its own body, which may not outlive it."""
