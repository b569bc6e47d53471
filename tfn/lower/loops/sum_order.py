"""Batch invariance: the order in which a sum is added, as a function of its own lengths alone.

Usually tiles decide: a sum along the vector axis is that of partial sums in lanes, others are added
one term after the other, and which is which depends on how many sums there are.  For a target that
is `batch_invariant` each floating-point sum has an order of its own, and tiles are made around it.
Two facts choose it, which are known before any size is (`trace.argument.Fold`)::

    product of matrices, convolution,
    sum over axes, the last not among them     s += x[0]; s += x[1]; ...

    product with a vector,                     s[p] += x[p]; s[p] += x[16 + p]; ...
    sum over axes, the last among them         then s[p] + s[p + 8], ... as a tree

Where vectors run along the sum, the partial sums are lanes of a vector; where they run across
sums, so many accumulators.  Loops of a sum keep the order of its axes.

The rest of the compiler keeps the order, too: contractions are not split into pieces along their
sums, sums take two passes by their own length, and no loop over blocks carries a sum.

Source: He et al., Defeating Nondeterminism in LLM Inference (Thinking Machines Lab, 2025).
"""

from __future__ import annotations

from tfn.dtypes import FLOATS
from tfn.lower.target.target import Target
from tfn.trace.op import Op
from tfn.trace.uop import UOp

ORDERED = frozenset({Op.ADD, Op.MUL})
"""The monoids whose result depends on the order of the terms, if they are rounded."""


def partial_sums(fold: UOp, target: Target) -> int | None:
    """The number of partial sums of a reduction, side by side along its last range.

    None where every order is the same, or the target leaves it to the heuristics.

    Args:
        fold: a FOLD whose ranges have not been split.
    """
    if not target.batch_invariant or fold.arg.op not in ORDERED or fold.dtype not in FLOATS:
        return None
    lanes = target.vector_bytes // fold.dtype.itemsize
    return lanes if fold.arg.interleaved and fold.src[-1].arg.size >= lanes else 1


def vector_ranges(fold: UOp, target: Target) -> tuple[UOp, ...]:
    """The ranges of a reduction along which vectors may run."""
    parts = partial_sums(fold, target)
    return fold.src[1:] if parts is None else fold.src[-1:] if parts > 1 else ()


def may_merge(fold: UOp, inner: UOp, target: Target) -> bool:
    """Whether two ranges of a reduction may become one: terms stay in their partial sums."""
    parts = partial_sums(fold, target)
    if parts is None or not fold.arg.interleaved:
        return True
    size: int = inner.arg.size
    return size % (target.vector_bytes // fold.dtype.itemsize) == 0
