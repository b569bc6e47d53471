"""Selected loads: of two loads of one buffer, of which a condition chooses, one is done.

    x = where(row < 1, a[n - 1, j], a[row - 1, j])   ->   x = a[where(row < 1, n - 1, row - 1), j]

So are rows read that are rolled: each part of a concatenation is loaded under its own condition,
and vectors would be loaded twice under masks.  AVX2 has none for elements below 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tfn.dtypes import INT64
from tfn.lower.index.affine import Terms, affine
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const_value


def selected_loads(node: UOp, truths: Mapping[UOp, bool]) -> tuple[UOp, UOp] | None:
    """The loads that a WHERE chooses between, if each may be done wherever it is chosen.

    Args:
        node: the WHERE.
        truths: conditions that are decided already.
    """
    found = _alternatives(node)
    if found is None or not all(truths.get(u) for u in found[1]):
        return None
    return found[0]


@lru_cache(maxsize=1024)
def _alternatives(node: UOp) -> tuple[tuple[UOp, UOp], frozenset[UOp]] | None:
    """The loads of a WHERE, and what else is a condition of either."""
    condition, x, y = node.src
    loads = x.op is Op.LOAD and y.op is Op.LOAD and x.src[0] is y.src[0]
    if not loads or len(x.src) != 3 or len(y.src) != 3:
        return None
    of_x, of_y = (frozenset(conjuncts(u.src[2])) for u in (x, y))
    form = _form(condition)
    if form is None:
        return None
    terms, constant = form
    # x < 0 fails where -x - 1 < 0.
    opposite = {u: -k for u, k in terms.items()}, -constant - 1
    same, other = (
        {u for u in of if _form(u) == each} for of, each in ((of_x, form), (of_y, opposite))
    )
    return ((x, y), (of_x - same) | (of_y - other)) if same and other else None


def conjuncts(condition: UOp) -> list[UOp]:
    """The operands of a conjunction, nested ones too."""
    if condition.op is Op.AND:
        return [v for u in condition.src for v in conjuncts(u)]
    return [condition]


def _form(condition: UOp) -> tuple[Terms, int] | None:
    """A comparison of indices as an affine form that is negative where it holds::

    x // 4 < 3   ->   x - 12        3 < x // 4   ->   15 - x
    """
    if condition.op is not Op.LT or condition.src[0].dtype != INT64:
        return None
    terms, constant = affine(condition.src[0] - condition.src[1])
    if len(terms) == 1:
        ((u, k),) = terms.items()
        if u.op is Op.FLOORDIV and u.src[1].op is Op.CONST and abs(k) == 1:
            divisor = const_value(u.src[1])
            inner, rest = affine(u.src[0])
            more = constant * divisor + (divisor - 1 if k < 0 else 0)
            return {t: k * n for t, n in inner.items()}, k * rest + more
    return terms, constant
