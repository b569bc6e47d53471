"""Rewrite driver: laws and named folds, applied bottom-up to a fixed point.

Properties of a rule, learnt from the compilers that keep theirs small:

- It has a direction.  The right side is the normal form that later rules and passes expect; no rule
  reverses it, and so rewriting ends.
- It never makes things worse: not more work, not longer chains, not a wider range of values.
- It does not commute, associate or distribute for its own sake.  One rule puts constants on the
  right; beyond that, rules match the forms that passes really make.
- It is named.  Its name is in records, in messages, and in the tests that prove it.

A law is data (`pattern`).  A fold is a named, typed function, for what cannot be data; it returns
None where it does not apply.  Both query `Facts` about values: a pass brings its own analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from tfn.trace import records
from tfn.trace.op import Op
from tfn.trace.pattern import Bindings, Law, builder, matcher
from tfn.trace.uop import UOp, walk


class Facts(Protocol):
    """The analysis of values that rules may query."""

    def holds(self, condition: UOp) -> bool:
        """Whether a bool is known to be true at every element."""

    def exact(self, u: UOp) -> bool:
        """Whether integer arithmetic in `u` is known never to wrap around, as if it were in Z."""


F = TypeVar("F", bound=Facts)
Apply = Callable[[UOp, F], UOp | None]


class Rule(NamedTuple, Generic[F]):
    """A name, and the function that returns a better node or None."""

    name: str
    apply: Apply[F]


Rules = Mapping[Op, tuple[Rule[F], ...]]
MAX_RULES_IN_A_ROW = 1000
"""Applications to one node before the rules are taken for cyclic: a terminating set needs tens."""


def compile_law(law: Law) -> Rule[Facts]:
    """The rule that runs a law."""
    match, build = matcher(law.lhs, law.over), builder(law.rhs, law.over)
    condition = None if law.where is None else builder(law.where, law.over)
    unbounded, witness = law.over.unbounded, _witness(law)

    def apply(u: UOp, facts: Facts) -> UOp | None:
        bindings: Bindings = {}
        if not match(u, bindings) or (unbounded and not facts.exact(u)):
            return None
        dtype = bindings[witness].dtype
        if condition is not None and not facts.holds(condition(bindings, dtype, u.shape)):
            return None
        return build(bindings, dtype, u.shape)

    return Rule(law.name, apply)


def _witness(law: Law) -> UOp:
    """A hole of the law's sort: the dtype of the node it matches is that of the constants."""
    leaves = [u for u in walk([law.lhs]) if u.op is Op.LEAF]
    return next((u for u in leaves if u.dtype == law.over.dtype), leaves[0])


def rules(
    folds: Mapping[Op, Sequence[Apply[F]]], laws: Iterable[Law]
) -> dict[Op, tuple[Rule[F], ...]]:
    """One table by op: its folds in order, then the laws whose left side it heads.

    A fold's name is that of its function, with hyphens.
    """
    table: dict[Op, list[Rule[F]]] = {
        op: [Rule(fold.__name__.strip("_").replace("_", "-"), fold) for fold in row]
        for op, row in folds.items()
    }
    for one in laws:
        compiled = compile_law(one)
        table.setdefault(one.lhs.op, []).append(Rule(compiled.name, compiled.apply))
    return {op: tuple(row) for op, row in table.items()}


def rewrite(
    roots: Iterable[UOp], table: Rules[F], facts: F, memo: dict[UOp, UOp] | None = None
) -> list[UOp]:
    """The roots with every rule applied wherever it applies, sources first, each node once.

    A result is rewritten in its turn.  Nested FUNCTION bodies are not entered, nor the bound of a
    RANGE: a range is a variable, and its identity binds it to its loop.  `memo` holds the results
    of nodes from one call to the next.
    """
    roots = list(roots)
    memo = {} if memo is None else memo
    becomes: dict[UOp, UOp] = {}
    age: dict[UOp, int] = {}  # how many rules in a row led to a node
    first, sink = set(roots), records.sink()
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        better = becomes.get(node)
        if better is not None:  # by a rule, or by having other sources
            if better in memo:
                memo[node] = memo[better]
                stack.pop()
            else:
                assert better not in becomes, f"rewriting {node} goes round in a circle"
                stack.append(better)
            continue
        if node.op is not Op.RANGE and (node.op is not Op.FUNCTION or node in first):
            changed = waiting = False
            for s in node.src:
                new = memo.get(s)
                if new is None:
                    assert s not in becomes, f"a rule made {node} from itself"
                    stack.append(s)
                    waiting = True
                elif new is not s:
                    changed = True
            if waiting:
                continue
            if changed:
                becomes[node] = UOp(node.op, tuple([memo[s] for s in node.src]), node.arg)
                continue
        for rule in table.get(node.op, ()):
            better = rule.apply(node, facts)
            if better is not None and better is not node:
                if sink is not None:
                    sink.append(records.Record(rule.name, node, better))
                becomes[node] = better
                age[better] = age.get(node, 0) + 1
                assert age[better] < MAX_RULES_IN_A_ROW, f"rule {rule.name} does not end on {node}"
                break
        else:
            memo[node] = node
            stack.pop()
    return [memo[root] for root in roots]
