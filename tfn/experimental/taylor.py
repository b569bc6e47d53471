"""Taylor series through graphs: the coefficients of ``f(x(t))`` from those of ``x(t)``.

An operation that is linear, or a product, has its coefficients at once.  Every other one is the
solution of a differential equation, ``dy/dt = jvp(x, y) dx/dt``, which its row of `JVP` is, and
gives one coefficient after another::

    y = exp(x):   dy/dt = y dx/dt     k y[k] = sum of j x[j] y[k-j] for j = 1 ... k

So there is no table of rules, and work grows with the square of the order, but for loops that end
by a condition, and branches: they are differentiated as often as the order says.

Source: Griewank and Walther, Evaluating Derivatives, chapter 13; Bettencourt, Johnson, Duvenaud,
Taylor-mode automatic differentiation for higher-order derivatives in JAX (2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfn.dtypes import INEXACT
from tfn.extend import SEVERAL, Jaxpr, Op, UOp, build, form, inline, regions, walk
from tfn.transforms.body import closed, depending, fresh, opened, scan
from tfn.transforms.jvp import JVP

Series = list[UOp | None]
"""The coefficients of a value, None for zero."""

LINEAR = frozenset(
    {
        Op.NEG,
        Op.REAL,
        Op.IMAG,
        Op.RESHAPE,
        Op.PERMUTE,
        Op.EXPAND,
        Op.SHRINK,
        Op.FLIP,
        Op.FFT,
        Op.GBARRIER,
        Op.CONSTRAIN,
        Op.SHARD,
        Op.UNSHARD,
    }
)
JOINTLY_LINEAR = frozenset({Op.ADD, Op.SUB, Op.COMPLEX, Op.PAD, Op.CONCAT})
PRODUCTS = frozenset({Op.MUL, Op.DOT, Op.CONV})


class Propagation:
    """The coefficients of nodes, up to an order, computed when they are asked for.

    Args:
        order: the highest power of t.
        inputs: the coefficients of leaves.
    """

    def __init__(self, order: int, inputs: dict[UOp, Series]) -> None:
        self.order = order
        self.known: dict[tuple[UOp, int], UOp | tuple[UOp | None, ...] | None] = {}
        self.slopes: dict[UOp, tuple[UOp | tuple[UOp | None, ...] | None, bool]] = {}
        self.derivative_of: dict[UOp, UOp] = {}  # a leaf that stands for dx/dt, and x
        self.leaves = inputs

    def series(self, outputs: Sequence[UOp]) -> list[Series]:
        """The coefficients of graphs."""
        for node in walk(outputs, lambda node: (node, self.order) not in self.known):
            for k in range(self.order + 1):
                self._compute(node, k)
        return [[self._one(u, k) for k in range(self.order + 1)] for u in outputs]

    def _one(self, u: UOp, k: int) -> UOp | None:
        found = self.known[u, k]
        assert not isinstance(found, tuple), f"{u.op} has several results"
        return found

    def _up_to(self, outputs: Sequence[UOp], order: int) -> None:
        for k in range(order + 1):
            for node in walk(outputs, lambda node, k=k: (node, k) not in self.known):  # type: ignore[misc]
                self._compute(node, k)

    def _compute(self, node: UOp, k: int) -> None:
        if (node, k) not in self.known and node.op is not Op.FUNCTION:
            self.known[node, k] = self._coefficient(node, k)

    def _coefficient(self, node: UOp, k: int) -> UOp | tuple[UOp | None, ...] | None:
        """A coefficient of a node from those of its sources, and from its own lower ones."""
        op, src = node.op, node.src
        if op is Op.LEAF:
            if node in self.derivative_of:
                above = self._one(self.derivative_of[node], k + 1)
                return None if above is None else above * (k + 1)
            if node in self.leaves:
                return self.leaves[node][k]
        if k and not any(self._moves(s, k) for s in src):
            return None
        if op in (Op.CUSTOM, Op.CALL):
            outputs = inline(Jaxpr(src[0]), src[1:])
            self._up_to(outputs, k)
            return tuple(self._one(u, k) for u in outputs)
        if op is Op.SCAN and k:
            return self._scan(node, k)
        if op is Op.GET:
            whole = self.known[src[0], k]
            return whole[node.arg] if isinstance(whole, tuple) else whole
        if not k:
            return self._value(node)
        if op in JOINTLY_LINEAR:
            return UOp(op, tuple(self._filled(s, k) for s in src), node.arg)
        if op in PRODUCTS:
            a, b = src
            pairs = [(self._one(a, j), self._one(b, k - j)) for j in range(k + 1)]
            return _sum(
                [UOp(op, (x, y), node.arg) for x, y in pairs if x is not None and y is not None]
            )
        if op is Op.WHERE:
            test = self._one(src[0], 0)
            assert test is not None
            return UOp(op, (test, self._filled(src[1], k), self._filled(src[2], k)), node.arg)
        linear = op in LINEAR or (op is Op.REDUCE and node.arg.op is Op.ADD)
        if linear or (op in (Op.CAST, Op.GATHER) and node.dtype in INEXACT):
            first = self._one(src[0], k) if src[0].dtype in INEXACT else None
            if first is None:
                return None
            rest = [self._one(s, 0) for s in src[1:]]
            return UOp(op, (first, *(u for u in rest if u is not None)), node.arg)
        return self._by_equation(node, k)

    def _value(self, node: UOp) -> UOp | tuple[UOp | None, ...]:
        """The constant coefficient: the value where the leaves have theirs."""
        values = [s if s.op is Op.FUNCTION else self.known[s, 0] for s in node.src]
        at = [u for u in values if isinstance(u, UOp)]
        if len(at) < len(values):  # a part of a derivative that is zero
            at = [
                u if isinstance(u, UOp) else build.zeros(s.shape, s.dtype)
                for u, s in zip(values, node.src, strict=True)
            ]
        new = UOp(node.op, tuple(at), node.arg)
        return tuple(build.several(new)) if node.op in SEVERAL else new

    def _by_equation(self, node: UOp, k: int) -> UOp | tuple[UOp | None, ...] | None:
        """The differential equation of a node, solved for the next coefficient."""
        if node not in self.slopes:
            tangents: list[UOp | None] = []
            for s in node.src:
                moves = s.op is not Op.FUNCTION and s.op not in SEVERAL and s.dtype in INEXACT
                leaf = fresh(s) if moves and self._ever_moves(s) else None
                if leaf is not None:
                    self.derivative_of[leaf] = s
                tangents.append(leaf)
            moved = any(dx is not None for dx in tangents)
            slope = JVP[node.op](node, tangents) if moved else None
            self.slopes[node] = slope, isinstance(slope, tuple)
        slope, is_several = self.slopes[node]
        parts: tuple[UOp | None, ...] = slope if isinstance(slope, tuple) else (slope,)
        self._up_to([u for u in parts if u is not None], k - 1)
        found = [None if u is None else _scaled(self._one(u, k - 1), 1 / k) for u in parts]
        return tuple(found) if is_several else found[0]

    def _ever_moves(self, u: UOp) -> bool:
        """Whether a coefficient above the first is known, and not zero."""
        return any(self.known.get((u, k)) is not None for k in range(1, self.order + 1))

    def _moves(self, u: UOp, k: int) -> bool:
        """Whether a node has a coefficient from the first to this one."""
        if u.op is Op.FUNCTION:
            return False
        return any(self._some(u, j) for j in range(1, k + 1))

    def _some(self, u: UOp, k: int) -> bool:
        found = self.known.get((u, k))
        if isinstance(found, tuple):
            return any(y is not None for y in found)
        return found is not None

    def _filled(self, u: UOp, k: int) -> UOp:
        found = self._one(u, k)
        return build.zeros(u.shape, u.dtype) if found is None else found

    def _scan(self, node: UOp, k: int) -> tuple[UOp | None, ...]:
        """A loop that carries the coefficients of its carries."""
        inputs, outputs = opened(node.src[0])
        parts = form(node)
        operands, (_, carried, _), carries = parts.operands, parts.places(0), len(parts.carries)

        def step(moving: list[bool]) -> tuple[None, list[bool]]:
            """A carry moves if anything does that it is computed from."""
            dependent = depending(outputs, [x for x, m in zip(inputs, moving, strict=True) if m])
            following = dict(zip(carried, outputs))
            grown = [m or following.get(i) in dependent for i, m in enumerate(moving)]
            return None, [m and x.dtype in INEXACT for m, x in zip(grown, inputs, strict=True)]

        _, moving = regions.settle(step, [self._moves(s, k) for s in operands])
        leaves = [
            [fresh(x) for _ in range(k)] if m else [] for x, m in zip(inputs, moving, strict=True)
        ]
        inner = Propagation(
            k,
            {x: [x, *more] + [None] * (k - len(more)) for x, more in zip(inputs, leaves)},
        )
        found = inner.series(outputs)
        firsts = [self._filled(s, 0) for s in operands]
        extra = [
            [self._filled(s, j + 1) for j in range(len(more))]
            for s, more in zip(operands, leaves, strict=True)
        ]
        groups = [slice(row.start, row.stop) for row in parts.places(0)]

        def flat(first: Sequence[Any], more: Sequence[Any], part: slice) -> list[Any]:
            return [*first[part], *(u for some in more[part] for u in some)]

        new_inputs = [u for part in groups for u in flat(inputs, leaves, part)]
        body_carries = flat(
            [ys[0] for ys in found],
            [
                [build.zeros(x.shape, x.dtype) if y is None else y for y in ys[1:]] if more else []
                for ys, x, more in zip(found, inputs[groups[1]], leaves[groups[1]])
            ],
            slice(0, carries),
        )
        tails = [ys[1:] for ys in found[carries:]]
        stacked = [u for ys in found[carries:] for u in ys if u is not None]
        body = closed([*body_carries, *stacked], new_inputs)
        first, second, third = (flat(firsts, extra, part) for part in groups)
        out = scan(body, first, second, third, node.arg.length, node.arg.reverse)
        results: list[UOp | None] = []
        at = carries
        for more in leaves[groups[1]]:
            results.append(out[at + k - 1] if more else None)
            at += len(more)
        for ys in tails:
            kept = sum(y is not None for y in ys)
            results.append(out[at + kept] if ys[k - 1] is not None else None)
            at += 1 + kept
        return tuple(results)


def _scaled(u: UOp | None, by: float) -> UOp | None:
    return u if u is None or by == 1 else u * by


def _sum(terms: Sequence[UOp]) -> UOp | None:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total
