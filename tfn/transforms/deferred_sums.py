"""Deferred accumulation: sums over the steps of a loop that are computed after it.

The cotangent of a weight that every step uses is a sum of one matrix product per step.  Instead of
adding to a large matrix in every step, the factors are stacked, and one product sums over steps as
well::

    total += a_t' b_t, for each t        ->        A' B, over steps and rows
"""

from __future__ import annotations

from collections.abc import Collection

from tfn._support.frozen import frozen
from tfn.trace.argument import Dot
from tfn.trace.build import count, dot
from tfn.trace.op import Op
from tfn.trace.uop import UOp, rebuild

_VIEWS = frozenset({Op.PERMUTE, Op.RESHAPE})


@frozen
class Product:
    """A term of a sum: views of a DOT.

    Attributes:
        views: from the outermost to the innermost.
        node: the DOT.
    """

    views: tuple[UOp, ...]
    node: UOp

    @property
    def factors(self) -> tuple[UOp, ...]:
        """The operands of the product, which must be stacked over the steps."""
        return self.node.src

    def total(self, a: UOp, b: UOp) -> UOp:
        """The sum over all steps, from the stacked factors."""
        arg: Dot = self.node.arg

        def up(axes: tuple[int, ...]) -> list[int]:
            return [axis + 1 for axis in axes]

        contract = [0, *up(arg.contract_a)], [0, *up(arg.contract_b)]
        out = dot(a, b, contract, (up(arg.batch_a), up(arg.batch_b)), arg.dtype, arg.tf32)
        for view in reversed(self.views):
            out = rebuild(view, (out,))
        return out


def defer(
    term: UOp, changing: Collection[UOp], stacked: Collection[UOp]
) -> tuple[UOp | None, list[Product]]:
    """The part of a sum to add in each step, None for nothing, and products to sum after the loop.

    A product is deferred if both factors are among the nodes `changing` from step to step, and the
    stacks of those that are not `stacked` anyway take no more memory than the sum does.
    """
    rest: UOp | None = None
    products: list[Product] = []
    waiting = [term]
    while waiting:
        u = waiting.pop()
        if u.op is Op.ADD:
            waiting += u.src
            continue
        views, node = [], u
        while node.op in _VIEWS:
            views.append(node)
            node = node.src[0]
        if node.op is Op.DOT and all(s in changing for s in node.src):
            new = sum(count(s.shape) for s in set(node.src) if s not in stacked)
            if new <= count(u.shape):
                products.append(Product(tuple(views), node))
                continue
        rest = u if rest is None else u + rest
    return rest, products
