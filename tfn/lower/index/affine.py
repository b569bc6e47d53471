"""Affine forms: an index as a sum of coefficients times terms, plus a constant.

    (i * 8 + j) * 4 + 3   ->   {i: 32, j: 4}, 3

A term is a range, or a node that is not linear in its sources: a division, a loaded index.  Code
generation reads strides off this form; `simplify` brings every sum into it, so that like terms are
added and equal indices are one node.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfn.dtypes import DType
from tfn.lower.index.intervals import Facts, Interval
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, const_value

Terms = dict[UOp, int]
"""The coefficient of each term."""

MAX_SUM_NODES = 64
"""Nodes of a sum that are taken apart; the rest become terms as they are.

Indices are far shorter.  Long chains of additions would cost a pass over them at every node.
"""


def affine(u: UOp) -> tuple[Terms, int]:
    """`u` as (coefficient of each term, constant), by the laws of Z.

    Whether these hold of `u` is for the caller to ask: `Facts.exact`.

    Example:
        >>> from tfn.trace.argument import Range
        >>> i, j = UOp(Op.RANGE, (), Range(0, 6)), UOp(Op.RANGE, (), Range(1, 8))
        >>> terms, constant = affine((i * 8 + j) * 4 + 3)
        >>> terms[i], terms[j], constant
        (32, 4, 3)
    """
    terms: Terms = {}
    constant = 0
    stack = [(u, 1)]  # the left source is always on top, so that terms keep their order
    budget = MAX_SUM_NODES
    while stack:
        node, k = stack.pop()
        op, src = node.op, node.src
        budget -= 1
        if op is Op.CONST:
            constant += k * const_value(node)
        elif budget < 0:
            terms[node] = terms.get(node, 0) + k
        elif op is Op.ADD:
            stack += ((src[1], k), (src[0], k))
        elif op is Op.SUB:
            stack += ((src[1], -k), (src[0], k))
        elif op is Op.MUL and src[1].op is Op.CONST:
            stack.append((src[0], k * const_value(src[1])))
        elif op is Op.MUL and src[0].op is Op.CONST:
            stack.append((src[1], k * const_value(src[0])))
        elif op is Op.NEG:
            stack.append((src[0], -k))
        elif op is Op.SHL and src[1].op is Op.CONST and 0 <= const_value(src[1]) < 64:
            stack.append((src[0], k << const_value(src[1])))
        else:
            terms[node] = terms.get(node, 0) + k
    return {t: k for t, k in terms.items() if k}, constant


def sum_node(terms: Mapping[UOp, int], constant: int, like: UOp) -> UOp:
    """The node of an affine form, of the dtype and shape of `like`.

    It is canonical: positive terms first, then negative ones, then the constant, as in
    ``a * 4 + b - c + 3``.
    """
    dtype, shape = like.dtype, like.shape
    acc: UOp | None = None
    for term, k in terms.items():
        if k > 0:
            part = term if k == 1 else UOp(Op.MUL, (term, const(k, dtype, shape)))
            acc = part if acc is None else UOp(Op.ADD, (acc, part))
    for term, k in terms.items():
        if k < 0:
            if acc is None:  # ``3 - a`` rather than ``-a + 3``: one operation less
                acc, constant = (const(constant, dtype, shape), 0) if constant else (None, 0)
            acc = _subtract(acc, term, k, dtype)
    if acc is None:
        return const(constant, dtype, shape)
    return acc if constant == 0 else UOp(Op.ADD, (acc, const(constant, dtype, shape)))


def _subtract(acc: UOp | None, term: UOp, k: int, dtype: DType) -> UOp:
    """``acc + k * term`` for a negative k, without a product where k is -1."""
    if acc is None:
        return -term if k == -1 else UOp(Op.MUL, (term, const(k, dtype, term.shape)))
    if k == -1:
        return UOp(Op.SUB, (acc, term))
    return UOp(Op.SUB, (acc, UOp(Op.MUL, (term, const(-k, dtype, term.shape)))))


def sum_interval(terms: Mapping[UOp, int], constant: int, facts: Facts) -> Interval:
    """The interval of an affine form, from those of its terms."""
    low = high = constant
    for term, k in terms.items():
        least, most = facts.interval(term)
        if k > 0:
            low, high = low + k * least, high + k * most
        else:
            low, high = low + k * most, high + k * least
    return low, high


def add_scaled(terms: Terms, other: Mapping[UOp, int], k: int) -> Terms:
    """The terms of ``sum + k * other``."""
    total = dict(terms)
    for term, n in other.items():
        total[term] = total.get(term, 0) + k * n
    return {term: n for term, n in total.items() if n}
