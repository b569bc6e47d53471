"""Algebraic simplification: folds and laws applied to indices, predicates and values.

    (i * 4 + j) // 4 * 4 + j   ->   i * 4 + j        where j in [0, 3]

Rules are tried at each node from the leaves up, until none applies; `trace/rewrite` drives them.
Passes build indices step by step and simplify each step, so results are remembered across calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfn.lower.index.folds import FOLDS
from tfn.lower.index.intervals import Facts, Interval
from tfn.lower.index.laws import LAWS
from tfn.trace import records
from tfn.trace.op import Op
from tfn.trace.rewrite import rewrite, rules
from tfn.trace.uop import UOp, walk

RULES = rules(FOLDS, LAWS)
"""The rules of each op: its folds, then the laws whose left side it heads."""

MAX_REMEMBERED_NODES = 20_000
"""Nodes whose simplified forms are remembered, before all are dropped.

A program simplifies some thousands; what is remembered keeps its graph alive.
"""


class _Memo:
    """The intervals and the simplified forms of the nodes met so far."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.simplified: dict[UOp, UOp] = {}


_MEMO = [_Memo()]


def forget() -> None:
    """Drop the simplified forms that are remembered."""
    _MEMO[0] = _Memo()


def simplify_all(
    roots: Iterable[UOp],
    assumed: Mapping[UOp, Interval] | None = None,
) -> list[UOp]:
    """The roots simplified together.

    Args:
        roots: nodes of any stage.
        assumed: intervals of nodes, beside those that follow from their ops; loads are left alone
            then.
    """
    if assumed or records.sink() is not None:
        # Forms that hold under an assumption must not be remembered without it, and what is
        # remembered would not be recorded.
        roots = list(roots)
        # Loads happen whether it holds or not: they must keep the predicates that it implies.
        loads = [u for u in walk(roots) if u.op is Op.LOAD] if assumed else ()
        return rewrite(roots, RULES, Facts(assumed), {u: u for u in loads})
    if len(_MEMO[0].simplified) > MAX_REMEMBERED_NODES:
        forget()
    memo = _MEMO[0]
    return rewrite(roots, RULES, memo.facts, memo.simplified)


def simplify(u: UOp, assumed: Mapping[UOp, Interval] | None = None) -> UOp:
    """A node simplified until no rule applies.

    Example:
        >>> from tfn.trace.argument import Range
        >>> from tfn.trace.op import Op
        >>> r = UOp(Op.RANGE, (), Range(0, 24))
        >>> simplify(r // 4 * 4 + r % 4) is r
        True
    """
    return simplify_all([u], assumed)[0]
