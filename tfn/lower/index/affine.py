"""An index as a sum: coefficients times terms, plus a constant.

    (i * 8 + j) * 4 + 3   ->   {i: 32, j: 4}, 3

The terms are ranges, or whatever cannot be taken apart: a division, a loaded index.  Code
generation reads strides off this form; `simplify` brings every sum into it, so that like terms
meet and equal indices are one node.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfn.dtypes import DType
from tfn.lower.index.intervals import Facts, Interval, integer
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Terms = dict[UOp, int]
_LONG = 64
"""Sums are taken apart up to so many nodes; what is longer stays in lumps."""


def affine(u: UOp) -> tuple[Terms, int]:
    """`u` as (coefficient of each term, constant), as if it were in Z.

    Example:
        >>> from tfn.trace.argument import Range
        >>> i, j = UOp(Op.RANGE, (), Range(0, 6)), UOp(Op.RANGE, (), Range(1, 8))
        >>> terms, constant = affine((i * 8 + j) * 4 + 3)
        >>> terms[i], terms[j], constant
        (32, 4, 3)
    """
    terms: Terms = {}
    constant = 0
    stack = [(u, 1)]
    budget = _LONG
    while stack:
        node, k = stack.pop()
        op, src = node.op, node.src
        budget -= 1
        if op is Op.CONST:
            constant += k * integer(node)
        elif budget < 0:
            terms[node] = terms.get(node, 0) + k
        elif op is Op.ADD:
            stack += ((src[1], k), (src[0], k))
        elif op is Op.SUB:
            stack += ((src[1], -k), (src[0], k))
        elif op is Op.MUL and src[1].op is Op.CONST:
            stack.append((src[0], k * integer(src[1])))
        elif op is Op.MUL and src[0].op is Op.CONST:
            stack.append((src[1], k * integer(src[0])))
        elif op is Op.NEG:
            stack.append((src[0], -k))
        elif op is Op.SHL and src[1].op is Op.CONST and 0 <= integer(src[1]) < 64:
            stack.append((src[0], k << integer(src[1])))
        else:
            terms[node] = terms.get(node, 0) + k
    return {t: k for t, k in terms.items() if k}, constant


def total(terms: Mapping[UOp, int], constant: int, like: UOp) -> UOp:
    """The node of a sum, in the one form that sums have; dtype and shape are those of `like`.

    What is subtracted comes last, then the constant: ``a * 4 + b - c + 3``.
    """
    dtype, shape = like.dtype, like.shape
    acc: UOp | None = None
    for term, k in terms.items():
        if k > 0:
            part = term if k == 1 else UOp(Op.MUL, (term, const(k, dtype, shape)))
            acc = part if acc is None else UOp(Op.ADD, (acc, part))
    for term, k in terms.items():
        if k < 0:
            if acc is None:
                acc, constant = (const(constant, dtype, shape), 0) if constant else (None, 0)
            acc = _less(acc, term, k, dtype)
    if acc is None:
        return const(constant, dtype, shape)
    return acc if constant == 0 else UOp(Op.ADD, (acc, const(constant, dtype, shape)))


def _less(acc: UOp | None, term: UOp, k: int, dtype: DType) -> UOp:
    if acc is None:
        return -term if k == -1 else UOp(Op.MUL, (term, const(k, dtype, term.shape)))
    if k == -1:
        return UOp(Op.SUB, (acc, term))
    return UOp(Op.SUB, (acc, UOp(Op.MUL, (term, const(-k, dtype, term.shape)))))


def span(terms: Mapping[UOp, int], constant: int, facts: Facts) -> Interval:
    """Between which values a sum lies."""
    low = high = constant
    for term, k in terms.items():
        least, most = facts.interval(term)
        if k > 0:
            low, high = low + k * least, high + k * most
        else:
            low, high = low + k * most, high + k * least
    return low, high


def plus(terms: Terms, other: Mapping[UOp, int], k: int) -> Terms:
    """The terms of ``sum + k * other``."""
    out = dict(terms)
    for term, n in other.items():
        out[term] = out.get(term, 0) + k * n
    return {term: n for term, n in out.items() if n}
