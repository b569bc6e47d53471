"""Rules of CUSTOM and LINEAR nodes: functions that bring their own derivatives.

    y = custom[f] x       the forward pass gets the tangents of y from the rules of f
    dy = linear[f] r dx   the backward pass gets the cotangents of dx from the rules; the function
                          of dx is known by its transpose alone

Under `vmap` the rules of one lane are used, and their results are batched: see `Lane`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tfn._support.frozen import frozen
from tfn.trace import effects, jaxpr
from tfn.trace.argument import Custom, Leaf, Linear
from tfn.trace.build import add_up, several
from tfn.trace.inline import taking
from tfn.trace.op import Op
from tfn.trace.uop import UOp, substitute
from tfn.transforms.body import Lanes, closed, opened
from tfn.transforms.scan_rules import Batch, Pull, Push

Tangents = Sequence[UOp | None]


class Rules(Protocol):
    """The rules of a CUSTOM node."""

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents of all results, from those of all sources (the first is the function)."""

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The cotangents of the sources `differentiated`, of a function that is linear in them."""

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """The results under `vmap`: `lanes`, if these rules are for one lane."""


class LinearRules(Protocol):
    """The rules of a LINEAR node."""

    def forward(self, pull: Pull, u: UOp) -> list[UOp]:
        """All results, in terms of other ops."""

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The cotangents of the sources `differentiated`, from those of the results."""


def jvp(push: Push, u: UOp, tangents: Tangents) -> tuple[UOp | None, ...]:
    """The row of CUSTOM in `JVP`."""
    rules: Rules = u.arg.rules
    return tuple(rules.jvp(push, u, tangents))


def transpose(pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]) -> Tangents:
    """The row of CUSTOM and LINEAR in `SEVERAL_RESULTS`."""
    rules: Rules | LinearRules = u.arg.rules
    return rules.transpose(pull, u, cts, differentiated)


def through(pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]) -> Tangents:
    """The transpose of a function's body, for functions without a transpose rule."""
    inputs, outputs = opened(u.src[0])
    variables = [inputs[i - 1] for i in differentiated]
    fixed = {x: s for x, s in zip(inputs, u.src[1:], strict=True) if x not in variables}
    return pull(substitute(outputs, fixed), variables, cts)


def forward(pull: Pull, u: UOp) -> list[UOp]:
    """The results of a LINEAR node in terms of other ops, for forward mode."""
    rules: LinearRules = u.arg.rules
    return rules.forward(pull, u)


# One more axis.


@frozen
class Lane:
    """The rules of one lane, batched over all lanes.

    A rule is applied to one lane, on leaves, and the graph that it makes is batched.

    Attributes:
        batch: `batch.batch`, which is defined above this file.
        function: that of one lane; None for LINEAR.
        arg: that of one lane.
        mapped: which operands differ from lane to lane; those after them were captured.
        size: the number of lanes.
    """

    batch: Batch
    function: UOp | None
    arg: Custom | Linear
    mapped: tuple[bool, ...]
    size: int

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents of all lanes."""
        one, values = self._one(u)
        directions: list[UOp | None] = [None]
        for dx, many in zip(tangents[1 : 1 + len(self.mapped)], self.mapped, strict=True):
            directions.append(None if dx is None else self._leaf(dx, many))
            if dx is not None:
                values[directions[-1]] = dx, many  # type: ignore[index]
        return self._all(jvp(push, one, directions), values)

    def forward(self, pull: Pull, u: UOp) -> list[UOp]:
        """All results in all lanes."""
        one, values = self._one(u)
        return [y for y in self._all(forward(pull, one), values) if y is not None]

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The cotangents of all lanes, summed where the lanes share an operand."""
        one, values = self._one(u)
        arriving = [None if ct is None else self._leaf(ct, True) for ct in cts]
        values |= {
            x: (ct, True) for x, ct in zip(arriving, cts) if x is not None and ct is not None
        }
        cotangents = self._all(transpose(pull, one, arriving, differentiated), values)
        first = u.op is Op.CUSTOM  # the function is its first source
        return [
            ct if ct is None or self.mapped[i - first] else add_up(ct, (0,))
            for ct, i in zip(cotangents, differentiated, strict=True)
        ]

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """Nested `vmap`: the rules of a lane of lanes."""
        return lanes(batch, u, src, mapped, size)

    def wide(self, f: UOp) -> UOp:
        """A FUNCTION of the operands over all lanes; each result has all, unless it is a token."""
        inputs, outputs = opened(f)
        lanes = [
            UOp(Op.LEAF, (), Leaf((self.size, *x.shape), x.dtype)) if many else x
            for x, many in zip(inputs, self.mapped, strict=True)
        ]
        batched = {x: full for x, full in zip(inputs, lanes, strict=True) if x is not full}
        tokens = effects.token_results(f)
        results = enumerate(self.batch(outputs, batched, self.size))
        return closed([y.graph if i in tokens else y.full(self.size) for i, y in results], lanes)

    def _leaf(self, like: UOp, many: bool) -> UOp:
        return UOp(Op.LEAF, (), Leaf(like.shape[1:] if many else like.shape, like.dtype))

    def _one(self, u: UOp) -> tuple[UOp, dict[UOp, tuple[UOp, bool]]]:
        """The node of one lane over leaves; for each leaf its value, and whether it is batched."""
        operands = u.src[1:] if self.function is not None else u.src
        operands = operands[: len(self.mapped)]
        leaves = [self._leaf(x, m) for x, m in zip(operands, self.mapped, strict=True)]
        first = () if self.function is None else (self.function,)
        return UOp(u.op, (*first, *leaves), self.arg), dict(
            zip(leaves, zip(operands, self.mapped, strict=True), strict=True)
        )

    def _all(
        self, graphs_of_one_lane: Tangents, values: Mapping[UOp, tuple[UOp, bool]]
    ) -> Tangents:
        graphs = [u for u in graphs_of_one_lane if u is not None]
        lanes = self.batch(graphs, {x: u for x, (u, many) in values.items() if many}, self.size)
        same = {x: u for x, (u, many) in values.items() if not many}
        full = iter(substitute([y.full(self.size) for y in lanes], same))
        return [None if u is None else next(full) for u in graphs_of_one_lane]


def batch_rule(
    batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
) -> list[Lanes]:
    """The row of CUSTOM in `BATCH`."""
    rules: Rules = u.arg.rules
    return rules.batched(batch, u, src, mapped, size)


def lanes(
    batch: Batch,
    u: UOp,
    src: Sequence[UOp],
    mapped: Sequence[bool],
    size: int,
    rules: Callable[[Lane], Rules] = lambda lane: lane,
) -> list[Lanes]:
    """The results of a CUSTOM node over all lanes, whose rules are made of those of one lane."""
    lane = Lane(batch, u.src[0], u.arg, tuple(mapped[1:]), size)
    wide = lane.wide(u.src[0])
    strays = jaxpr.leaves(wide.src)  # that rules of the user have captured: the last operands
    wide = taking(wide, len(src) - 1, strays) if strays else wide
    node = UOp(Op.CUSTOM, (wide, *src[1:], *strays), replace(u.arg, rules=rules(lane)))
    many = (new.shape != old.shape for new, old in zip(wide.src, u.src[0].src, strict=True))
    return list(map(Lanes, several(node), many))


def batch_linear(
    batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
) -> list[Lanes]:
    """The row of LINEAR in `BATCH`."""
    arg: Linear = u.arg
    rules = Lane(batch, None, arg, tuple(mapped), size)
    results = tuple(((size, *shape), dtype) for shape, dtype in arg.results)
    node = UOp(Op.LINEAR, tuple(src), replace(arg, results=results, rules=rules))
    return [Lanes(y, True) for y in several(node)]
